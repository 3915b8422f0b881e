package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	helm "helm.sh/helm/v3/pkg/chart"

	"copyhold.dev/copyhold/render/diag"
)

// drafts are the values of $schema that are built in; any other is a file somewhere.
var drafts = []string{
	"json-schema.org/draft-04/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-07/schema",
	"json-schema.org/draft/2019-09/schema", "json-schema.org/draft/2020-12/schema", "json-schema.org/schema",
}

// checkSchemas holds the values of each chart against its values.schema.json. The library that does it is the one helm uses;
// helm's own call of it is not, since that fetches whatever a schema refers to, over the network and from the disk.
func (r *release) checkSchemas() diag.List {
	values, _ := r.values.Table("Values")
	return r.checkSchema(r.chart, values, nil, nil)
}

// checkSchema holds the values of a chart against its schema. prefix leads from the top of all values to these, outer are the values.yaml
// of the charts around it.
func (r *release) checkSchema(c *helm.Chart, values map[string]any, prefix []string, outer []defaults) diag.List {
	var found diag.List
	written := append(r.defaults(c), outer...)
	if c.Schema != nil {
		found = validate(r.file(c, schemaFile), c.Schema, values, prefix, func(path []string) (diag.Pos, bool) {
			if r.at != nil {
				if at, ok := r.at(slices.Concat(prefix, path)); ok {
					return at, true
				}
			}
			for _, w := range slices.Backward(written) { // the outermost wins
				if p := slices.Concat(w.under, path); w.doc.Has(p...) {
					return w.doc.At(p...), true
				}
			}
			return diag.Pos{}, false
		})
	}
	found.Add(r.checkBelow(c, values, prefix, written)...)
	return found
}

// checkSubSchemas is checkSchemas without the chart's own.
func (r *release) checkSubSchemas() diag.List {
	values, _ := r.values.Table("Values")
	return r.checkBelow(r.chart, values, nil, r.defaults(r.chart))
}

// checkBelow is checkSchema for the subcharts. written are the values.yaml of the charts around them.
func (r *release) checkBelow(c *helm.Chart, values map[string]any, prefix []string, written []defaults) diag.List {
	var found diag.List
	for _, d := range c.Dependencies() {
		if table, ok := values[d.Name()].(map[string]any); ok {
			found.Add(r.checkSchema(d, table, append(slices.Clip(prefix), d.Name()), within(written, d.Name()))...)
		}
	}
	return found
}

// within are the values.yaml of charts for a subchart.
func within(written []defaults, subchart string) []defaults {
	var out []defaults
	for _, w := range written {
		out = append(out, defaults{w.doc, append(slices.Clip(w.under), subchart)})
	}
	return out
}

// validate finds what is wrong with a schema, or else with the values. prefix leads from the top of the values to these; written says
// where the value at a path of these is written, if it is.
func validate(file string, schema []byte, values map[string]any, prefix []string, written func(path []string) (diag.Pos, bool)) diag.List {
	compiled, found := compile(file, schema)
	if found.Failed() {
		return found
	}
	var bad *jsonschema.ValidationError
	err := compiled.Validate(values)
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &bad):
		return diag.List{badSchema(file, err)}
	}
	top := strings.Join(append(slices.Clip(prefix), ""), ".")
	for _, v := range violations(bad) {
		f := diag.Errorf(writtenAt(v, file, written), "chart/values", "%s", describe(v, top))
		if text := meant(v, schema); text != "" {
			f = f.Hintf("%s", text)
		}
		found.Add(f)
	}
	return found
}

// writtenAt is where a value is written that a schema refuses, or the nearest one around it; the schema where nobody wrote any.
func writtenAt(e *jsonschema.ValidationError, file string, written func(path []string) (diag.Pos, bool)) diag.Pos {
	path := e.InstanceLocation
	var keys []string
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		keys = slices.Sorted(slices.Values(k.Properties))
	case *kind.Required:
		keys = k.Missing
	}
	for _, key := range keys {
		if at, ok := written(append(slices.Clone(path), key)); ok { // one that is missing may be a null
			return at
		}
	}
	for n := len(path); n > 0; n-- {
		if at, ok := written(path[:n]); ok {
			return at
		}
	}
	return diag.Pos{File: file}
}

// meant is what a schema says of a value that it refuses, in words for people; "" when it says nothing.
func meant(e *jsonschema.ValidationError, schema []byte) string {
	switch e.ErrorKind.(type) {
	case *kind.AdditionalProperties, *kind.Required:
		return ""
	}
	_, pointer, _ := strings.Cut(e.SchemaURL, "#/")
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return ""
	}
	var node any
	if err := json.Unmarshal(schema, &node); err != nil {
		return ""
	}
	for _, key := range strings.Split(pointer, "/") {
		m, _ := node.(map[string]any)
		node = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
	}
	m, _ := node.(map[string]any)
	text, _ := m["description"].(string)
	return oneLine(text)
}

// nowhere is where schemas are loaded from. remote finds the references first; this is so that none it overlooks is followed.
type nowhere struct{}

var errRemote = errors.New("it is outside this file")

func (nowhere) Load(string) (any, error) { return nil, errRemote }

func badSchema(file string, err error) diag.Finding {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		return remoteRef(diag.Pos{File: file}, "reference", load.URL)
	}
	text := err.Error()
	var wrong *jsonschema.SchemaValidationError
	var bad *jsonschema.ValidationError
	if errors.As(err, &wrong) && errors.As(wrong.Err, &bad) {
		text = describe(violations(bad)[0], "")
	}
	return diag.Errorf(diag.Pos{File: file}, "chart/invalid", "not a JSON schema: %s", oneLine(text))
}

func unparsable(file string, data []byte, err error) diag.Finding {
	at := diag.Pos{File: file}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = line(file, data, int(syntax.Offset)-1)
	}
	return diag.Errorf(at, "chart/invalid", "not readable as JSON: %v", err)
}

func remoteRef(at diag.Pos, key, ref string) diag.Finding {
	return diag.Errorf(at, "chart/remote-schema", "%s %q leads out of the schema, and nothing is fetched", key, clip(ref)).
		Hintf(`copy what it refers to into "$defs" of this schema, and refer to "#/$defs/NAME"`)
}

// remote finds every reference that leads out of the schema, wherever it stands.
func remote(file string, text []byte, node any) diag.List {
	var found diag.List
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			found.Add(remote(file, text, v)...)
		}
	case map[string]any:
		for key, v := range n {
			ref, ok := v.(string)
			if !ok {
				found.Add(remote(file, text, v)...)
				continue
			}
			switch key {
			case "$ref", "$dynamicRef", "$recursiveRef":
				ok = strings.HasPrefix(ref, "#")
			case "$schema":
				bare := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(ref, "#"), "http://"), "https://")
				ok = slices.Contains(drafts, bare)
			}
			if !ok {
				at := diag.Pos{File: file}
				if quoted, err := json.Marshal(ref); err == nil && bytes.Contains(text, quoted) {
					at = line(file, text, bytes.Index(text, quoted))
				}
				found.Add(remoteRef(at, key, ref))
			}
		}
	}
	return found
}

// violations takes a validation error apart, down to what a person can put right. Alternatives (oneOf) stay together.
func violations(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		var out []*jsonschema.ValidationError
		for _, c := range e.Causes {
			out = append(out, violations(c)...)
		}
		if out != nil {
			return out
		}
	}
	return []*jsonschema.ValidationError{e}
}

// describe says which value is wrong, and what was expected. prefix leads from the top of the values to the chart's.
func describe(e *jsonschema.ValidationError, prefix string) string {
	where := "the values"
	if p := strings.TrimSuffix(prefix+strings.Join(e.InstanceLocation, "."), "."); p != "" {
		where = fmt.Sprintf("value %q", p)
	}
	return oneLine(where + ": " + expected(e, prefix))
}

// expected says what was expected. The library goes through maps in random order; here it is sorted.
func expected(e *jsonschema.ValidationError, prefix string) string {
	if extra, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
		slices.Sort(extra.Properties)
	}
	text := e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	causes := map[string]bool{}
	for _, c := range e.Causes {
		for _, v := range violations(c) {
			if slices.Equal(v.InstanceLocation, e.InstanceLocation) {
				causes[expected(v, prefix)] = true
			} else {
				causes[describe(v, prefix)] = true
			}
		}
	}
	if len(causes) > 0 {
		text += " (" + strings.Join(slices.Sorted(maps.Keys(causes)), "; ") + ")"
	}
	return text
}
