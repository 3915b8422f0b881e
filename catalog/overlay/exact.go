package overlay

import (
	"encoding/json"
	"strconv"
	"strings"
)

// A JSON 6902 patch makes kustomize read every number of the object as a float, which holds whole numbers up to 2^53 only.
// Larger ones travel as text: hide writes them so, in objects and in patches, and reveal makes numbers of them again.
const (
	exact  = 1 << 53
	hidden = "copyhold.dev/int64="
)

// hide returns a copy of a JSON value in which whole numbers beyond a float's reach are text.
func hide(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = hide(e)
		}
		return m
	case []any:
		l := make([]any, 0, len(v))
		for _, e := range v {
			l = append(l, hide(e))
		}
		return l
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			if text, ok := hide(n).(string); ok {
				return text
			}
		}
	case int64:
		if v > exact || v < -exact {
			return hidden + strconv.FormatInt(v, 10)
		}
	}
	return v
}

// reveal is the inverse of hide, in place.
func reveal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = reveal(e)
		}
	case []any:
		for i, e := range v {
			v[i] = reveal(e)
		}
	case string:
		if text, ok := strings.CutPrefix(v, hidden); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				return n
			}
		}
	}
	return v
}
