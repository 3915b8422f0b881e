package topology_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
)

// chance is true once in n times.
func chance(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// value is a random value of a schema. With faults it is now and then one that the schema refuses.
func value(r *rand.Rand, schema map[string]any, faults bool, depth int) any {
	if faults && chance(r, 60) {
		return pick[any](r, "nope", int64(99), map[string]any{"nope": true}, []any{})
	}
	if enum, ok := schema["enum"].([]any); ok {
		return integers(pick(r, enum...))
	}
	if schema["x-kubernetes-int-or-string"] == true {
		return pick[any](r, "1", int64(1), int64(2), "50%")
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true && schema["properties"] == nil {
		return pick[any](r, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"a": []any{int64(1)}})
	}
	switch schema["type"] {
	case "string":
		if schema["format"] == "ipv4" {
			return pick(r, "192.0.2.53", "192.0.2.54")
		}
		return pick(r, "a", "b", "4Gi", "8Gi", "8192Mi")
	case "integer":
		low, high := bound(schema["minimum"], 1), bound(schema["maximum"], 5)
		return low + r.Int64N(max(high-low, 0)+1)
	case "number":
		return pick[any](r, 1.5, int64(2), 0.5)
	case "boolean":
		return chance(r, 2)
	case "array":
		items, _ := schema["items"].(map[string]any)
		out := []any{}
		for range bound(schema["minItems"], 0) + r.Int64N(3) {
			out = append(out, value(r, items, faults, depth+1))
		}
		return out
	case "object":
		return object(r, schema, faults, depth)
	}
	return "a"
}

func object(r *rand.Rand, schema map[string]any, faults bool, depth int) any {
	out := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	needed := map[string]bool{}
	for _, name := range required {
		needed[name.(string)] = true
	}
	for _, name := range catalog.Sorted(properties) {
		if needed[name] || depth < 4 && len(properties) < 12 && chance(r, 2) || depth < 3 && chance(r, 12) {
			out[name] = value(r, properties[name].(map[string]any), faults, depth+1)
		}
	}
	if inner, ok := schema["additionalProperties"].(map[string]any); ok {
		for range r.IntN(3) {
			out[pick(r, "r1", "r2", "tier")] = value(r, inner, faults, depth+1)
		}
	}
	return out
}

func bound(v any, otherwise int64) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return otherwise
}

// theSchemas are the schemas of custom resources as JSON.
var theSchemas = sync.OnceValue(func() map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, name := range theNames() {
		data, err := definition(name)
		if err != nil {
			panic(err)
		}
		crd := map[string]any{}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			panic(err)
		}
		kind := at(crd, "spec", "names", "kind").(string)
		out[kind], _ = at(entries(at(crd, "spec", "versions"))[0], "schema", "openAPIV3Schema", "properties", "spec").(map[string]any)
	}
	return out
})

// mangle changes something below the spec of a template, by its schema, and says what.
func mangle(r *rand.Rand, o *manifest.Object) string {
	schema := theSchemas()[o.GetKind()]
	path := "template.spec"
	v, _ := at(o.Object, "spec", "template", "spec").(map[string]any)
	s, _ := at(schema, "properties", "template", "properties", "spec").(map[string]any)
	for { // walk down, and stop somewhere
		key, below, under := descend(r, v, s)
		if key == "" || chance(r, 4) {
			return path + ": " + change(r, v, s)
		}
		path += "." + key
		v, s = below, under
	}
}

// schemaAt is the schema of a place in a template, as a patch names it; nil when there is none.
func schemaAt(kind, path string) map[string]any {
	s := theSchemas()[kind]
	for _, key := range strings.Split(strings.TrimPrefix(path, "/spec/"), "/") {
		if _, err := strconv.Atoi(key); key == "-" || err == nil {
			s, _ = s["items"].(map[string]any)
		} else {
			s = property(s, key)
		}
	}
	return s
}

// descend picks one of the maps in v, or in the lists of v.
func descend(r *rand.Rand, v, s map[string]any) (key string, below, under map[string]any) {
	type step struct {
		key          string
		below, under map[string]any
	}
	var steps []step
	for _, k := range catalog.Sorted(v) {
		sub := property(s, k)
		switch x := v[k].(type) {
		case map[string]any:
			steps = append(steps, step{k, x, sub})
		case []any:
			items, _ := sub["items"].(map[string]any)
			for i, e := range x {
				if m, ok := e.(map[string]any); ok {
					steps = append(steps, step{k + "." + strconv.Itoa(i), m, items})
				}
			}
		}
	}
	if len(steps) == 0 {
		return "", nil, nil
	}
	x := pick(r, steps...)
	return x.key, x.below, x.under
}

func property(s map[string]any, name string) map[string]any {
	if p, ok := at(s, "properties", name).(map[string]any); ok {
		return p
	}
	p, _ := s["additionalProperties"].(map[string]any)
	return p
}

// change changes a field of a map.
func change(r *rand.Rand, v, s map[string]any) string {
	properties, _ := s["properties"].(map[string]any)
	var absent, withDefault, nullable []string
	for _, k := range catalog.Sorted(properties) {
		p := properties[k].(map[string]any)
		if _, there := v[k]; !there {
			absent = append(absent, k)
		}
		if _, ok := p["default"]; ok {
			withDefault = append(withDefault, k)
		}
		if p["nullable"] == true {
			nullable = append(nullable, k)
		}
	}
	there := catalog.Sorted(v)
	set := func(k string, to any) string {
		v[k] = to
		return k + " = " + toJSON(to)
	}
	for {
		switch r.IntN(10) {
		case 0, 1:
			if len(withDefault) > 0 {
				k := pick(r, withDefault...)
				return "default: " + set(k, integers(properties[k].(map[string]any)["default"]))
			}
		case 2, 3:
			if len(absent) > 0 {
				k := pick(r, absent...)
				return set(k, value(r, properties[k].(map[string]any), true, 2))
			}
		case 4:
			if len(absent) > 0 {
				if k := pick(r, absent...); properties[k].(map[string]any)["type"] == "object" {
					return set(k, map[string]any{})
				}
			}
		case 5, 6, 7:
			if len(there) > 0 {
				k := pick(r, there...)
				return set(k, twist(r, v[k], property(s, k)))
			}
		case 8:
			if len(there) > 0 {
				k := pick(r, there...)
				delete(v, k)
				return "without " + k
			}
		case 9:
			switch {
			case chance(r, 3):
				return set(pick(r, "misspelt", "coress"), pick[any](r, "a", int64(1)))
			case len(nullable) > 0:
				return set(pick(r, nullable...), nil)
			case len(there) > 0 && chance(r, 2):
				return set(pick(r, there...), nil)
			}
		}
		if len(there)+len(absent) == 0 {
			return set("misspelt", "a")
		}
	}
}

// integers is a value with whole numbers as a manifest has them.
func integers(v any) any {
	switch x := v.(type) {
	case float64:
		if x == float64(int64(x)) {
			return int64(x)
		}
	case map[string]any:
		out := map[string]any{}
		for k := range x {
			out[k] = integers(x[k])
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = integers(x[i])
		}
		return out
	}
	return v
}

// twist is a value near another.
func twist(r *rand.Rand, v any, s map[string]any) any {
	if s["enum"] != nil {
		return value(r, s, false, 3)
	}
	switch x := v.(type) {
	case int64:
		return x + pick[int64](r, -1, 1)
	case bool:
		return !x
	case string:
		if n, ok := strings.CutSuffix(x, "Gi"); ok {
			if i, err := strconv.Atoi(n); err == nil {
				return fmt.Sprintf("%dMi", i*1024)
			}
		}
		return pick(r, x+"x", "a", strings.ReplaceAll(x, "v1.34.1", "v1.34.2"))
	case []any:
		out := append([]any{}, x...)
		switch {
		case len(out) > 1 && chance(r, 2):
			out[0], out[len(out)-1] = out[len(out)-1], out[0]
		case len(out) > 0 && chance(r, 2):
			out = out[:len(out)-1]
		default:
			items, _ := s["items"].(map[string]any)
			out = append(out, value(r, items, false, 2))
		}
		return out
	case map[string]any:
		return map[string]any{}
	}
	return value(r, s, false, 3)
}
