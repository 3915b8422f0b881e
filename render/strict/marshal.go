package strict

import (
	"encoding/json"
	"maps"
	"slices"

	"go.yaml.in/yaml/v2"
	kjson "sigs.k8s.io/json"
)

// Marshal writes a value as YAML by its json tags: keys in order of their bytes, text that looks like another type quoted. The same
// value always gives the same bytes. (Other encoders sort keys as people count, a2 before a10, by a rule that is not an order for all
// keys; what they print then depends on the luck of a map.)
func Marshal(v any) ([]byte, error) {
	j, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(j, &plain); err != nil {
		return nil, err
	}
	return yaml.Marshal(sorted(plain))
}

func sorted(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(yaml.MapSlice, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, yaml.MapItem{Key: key, Value: sorted(v[key])})
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, sorted(e))
		}
		return out
	}
	return v
}
