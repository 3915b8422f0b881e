package topology

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/manifest"
)

// Samples are values to try at a variable's path, in the notation of Defaults without lists and maps: each of an enum, the ends of a
// range, and for free text a few of the forms that texts in clusters have. Some may be refused; that is for Admit to say.
func (c *Class) Samples(path string) []any {
	name, rest, _ := strings.Cut(path, ".")
	for i := range c.class.Spec.Variables {
		v := &c.class.Spec.Variables[i]
		if v.Name != name {
			continue
		}
		s := &v.Schema.OpenAPIV3Schema
		for rest != "" && s != nil {
			var key string
			key, rest, _ = strings.Cut(rest, ".")
			p, ok := s.Properties[key]
			if !ok {
				return nil
			}
			s = &p
		}
		return samples(s)
	}
	return nil
}

func samples(s *clusterv1.JSONSchemaProps) []any {
	var out []any
	if s.Default != nil {
		out = append(out, decoded(s.Default.Raw))
	}
	switch {
	case len(s.Enum) > 0:
		for _, e := range s.Enum {
			out = append(out, decoded(e.Raw))
		}
	case s.XIntOrString != nil && *s.XIntOrString:
		out = append(out, int64(1), int64(2), "1Gi", "2Gi")
	default:
		out = append(out, byType(s)...)
	}
	return slices.CompactFunc(out, Equal)
}

func byType(s *clusterv1.JSONSchemaProps) []any {
	switch s.Type {
	case "boolean":
		return []any{false, true}
	case "integer", "number":
		low, high := int64(1), int64(2)
		if s.Minimum != nil {
			low, high = *s.Minimum, *s.Minimum+1
		}
		if s.Maximum != nil {
			high = *s.Maximum
		}
		return []any{low, high}
	case "string":
		return []any{"one", "two", "1Gi", "2Gi", "192.0.2.10", "192.0.2.11", "a.example", "b.example", "v1.0.0", "v1.0.1"}
	case "array":
		if s.Items == nil {
			return nil
		}
		var out []any
		for _, item := range samples(s.Items) {
			out = append(out, []any{item})
		}
		return out
	case "object":
		if s.AdditionalProperties != nil {
			var out []any
			for _, v := range samples(s.AdditionalProperties) {
				out = append(out, map[string]any{"key": v})
			}
			return out
		}
		return objectsOf(s)
	}
	return nil
}

// objectsOf are objects of a schema: with what is required, with everything, and with each field alone.
func objectsOf(s *clusterv1.JSONSchemaProps) []any {
	least := map[string]any{}
	all := [2]map[string]any{{}, {}}
	values := map[string][]any{}
	for name, p := range s.Properties {
		p := p
		if values[name] = samples(&p); len(values[name]) == 0 {
			continue
		}
		all[0][name], all[1][name] = values[name][0], values[name][min(1, len(values[name])-1)]
		if slices.Contains(s.Required, name) {
			least[name] = values[name][0]
		}
	}
	out := []any{least, all[0], all[1]}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, v := range values[name] {
			one := maps.Clone(least)
			one[name] = v
			out = append(out, one)
		}
	}
	return out
}

func decoded(raw []byte) any {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil
	}
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}

// WithVariableAt is the Cluster with another value at a path inside a variable, or without it when the value is nil.
func (c *Class) WithVariableAt(o *manifest.Object, path string, value any) *manifest.Object {
	name, rest, _ := strings.Cut(path, ".")
	if rest == "" {
		return WithVariable(o, "", name, value)
	}
	whole, _ := runtime.DeepCopyJSONValue(Variables(o, "")[name]).(map[string]any)
	if whole == nil {
		whole = map[string]any{}
	}
	at := whole
	keys := strings.Split(rest, ".")
	for _, key := range keys[:len(keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	set(at, keys[len(keys)-1], value)
	return WithVariable(o, "", name, whole)
}
