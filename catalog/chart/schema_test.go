package chart

import (
	"testing"
	"testing/fstest"
)

func TestSchema(t *testing.T) {
	const escape = "  hint: copy what it refers to into \"$defs\" of this schema, and refer to \"#/$defs/NAME\"\n"
	tests := []struct {
		name, schema, values, want string
	}{
		{"true", `true`, `a: 1`, ""},
		{"fits", `{"type": "object", "properties": {"a": {"type": "integer"}}}`, `a: 1`, ""},
		{"local references", `{"$id": "http://192.0.2.1/schema.json", "$ref": "#/$defs/x", "$defs": {"x": {"$anchor": "here", "properties": {"a": {"$ref": "#there"}}}, "y": {"$anchor": "there", "type": "string"}}}`, `a: 1`,
			"solar/values.yaml:1:4: value \"a\": got number, want string [chart/values]\n"},
		{"every violation", `{"required": ["region"], "additionalProperties": false, "properties": {
			"pools": {"type": "array", "items": {"properties": {"size": {"enum": ["small", "large"]}, "count": {"minimum": 1}}}},
			"name": {"allOf": [{"pattern": "^s"}, {"maxLength": 3}]}}}`,
			"pools: [{size: tiny, count: 0}]\nname: photon\nz: 1\nv: 1\nx: 1\nw: 1",
			`solar/values.schema.json: the values: missing property 'region' [chart/values]
solar/values.yaml:1:16: value "pools.0.size": value must be one of 'small', 'large' [chart/values]
solar/values.yaml:1:29: value "pools.0.count": minimum: got 0, want 1 [chart/values]
solar/values.yaml:2:7: value "name": 'photon' does not match pattern '^s' [chart/values]
solar/values.yaml:2:7: value "name": maxLength: got 6, want 3 [chart/values]
solar/values.yaml:4:4: the values: additional properties 'v', 'w', 'x', 'z' not allowed [chart/values]
`},
		{"what it says", `{"properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": {"description": "Memory, as\nin 4Gi", "type": "string"}}}`, `a: 1`,
			"solar/values.yaml:1:4: value \"a\": got number, want string [chart/values]\n  hint: Memory, as in 4Gi\n"},
		{"alternatives", `{"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["b"]}]}}}`, `a: 1`,
			"solar/values.yaml:1:4: value \"a\": 'oneOf' failed, none matched (got number, want object; got number, want string) [chart/values]\n"},
		{"not JSON", "{\n  \"a\": ]\n}", `a: 1`, "solar/values.schema.json:2:8: not readable as JSON: invalid character ']' looking for beginning of value [chart/invalid]\n"},
		{"not a schema", `{"type": 7}`, `a: 1`, "solar/values.schema.json: not a JSON schema: value \"type\": 'anyOf' failed (got number, want array; value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string') [chart/invalid]\n"},
		{"no such definition", `{"$ref": "#/$defs/x"}`, `a: 1`, "solar/values.schema.json: not a JSON schema: json-pointer in \"file:///values.schema.json#/$defs/x\" not found [chart/invalid]\n"},
		{"remote references", `{
  "$schema": "http://192.0.2.1/meta.json",
  "properties": {"a": {"$ref": "http://192.0.2.1/a.json"},
    "b": {"$dynamicRef": "b.json#x"}, "c": {"$recursiveRef": "file:///etc/hosts"}, "d": {"anyOf": [{"$ref": "urn:x:y"}]}}
}`, `a: 1`,
			`solar/values.schema.json:2:14: $schema "http://192.0.2.1/meta.json" leads out of the schema, and nothing is fetched [chart/remote-schema]
` + escape + `solar/values.schema.json:3:32: $ref "http://192.0.2.1/a.json" leads out of the schema, and nothing is fetched [chart/remote-schema]
` + escape + `solar/values.schema.json:4:26: $dynamicRef "b.json#x" leads out of the schema, and nothing is fetched [chart/remote-schema]
` + escape + `solar/values.schema.json:4:62: $recursiveRef "file:///etc/hosts" leads out of the schema, and nothing is fetched [chart/remote-schema]
` + escape + `solar/values.schema.json:4:109: $ref "urn:x:y" leads out of the schema, and nothing is fetched [chart/remote-schema]
` + escape},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantFindings(t, tree(t, "-- solar/values.schema.json --\n"+tt.schema+"\n-- solar/values.yaml --\n"+tt.values+"\n"), options, tt.want)
		})
	}
}

// The loader is the second lock: it holds for a reference that nobody has thought of.
func TestNothingIsLoaded(t *testing.T) {
	for _, schema := range []string{
		`{"foo": {"$id": "http://192.0.2.1/x", "properties": {"a": {"$ref": "#/b"}}}, "$ref": "#/foo/properties/a"}`,
		`{"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "definitions": {"a": {"$id": "http://192.0.2.1/", "$ref": "#nothing"}}}`,
	} {
		for _, f := range validate("solar/values.schema.json", []byte(schema), map[string]any{}, nil, nil) {
			if f.Name != "chart/remote-schema" && f.Name != "chart/invalid" {
				t.Errorf("validate(%s) found %v", schema, f)
			}
		}
	}
	if _, err := (nowhere{}).Load("file:///etc/hosts"); err == nil {
		t.Error("nowhere loaded a file")
	}
}

func TestSchemaOfSubcharts(t *testing.T) {
	fsys := func(enabled string) fstest.MapFS {
		return tree(t, `
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.0.0
dependencies: [{name: pools, version: 1.0.0, alias: workers, condition: workers.enabled}]
-- solar/values.yaml --
workers: {enabled: `+enabled+`, size: 3}
-- solar/charts/pools/Chart.yaml --
{apiVersion: v2, name: pools, version: 1.0.0}
-- solar/charts/pools/values.schema.json --
{"properties": {"size": {"type": "string"}, "x": {"$ref": "`+map[string]string{"true": "#/y", "false": "x.json"}[enabled]+`"}}, "y": true}
`)
	}
	wantFindings(t, fsys("true"), options, "solar/values.yaml:1:32: value \"workers.size\": got number, want string [chart/values]\n")
	wantFindings(t, fsys("false"), options, "")
}
