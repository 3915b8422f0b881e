package impact

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/topology"
)

// known are the variables of the tier.
func (x *explainer) known() []topology.Variable {
	if x.chart != nil {
		return render.Variables(x.chart)
	}
	return x.base.Class.Variables()
}

// workerClasses are the worker classes of the tier; a chart has none.
func (x *explainer) workerClasses() []string {
	if x.chart != nil {
		return nil
	}
	return x.base.Class.WorkerClasses()
}

// chartVariables tries two values of every variable of a chart.
func (x *explainer) chartVariables(wanted func(string) bool) ([]Effect, error) {
	var out []Effect
	all := x.known()
	for i, v := range all {
		if i+1 < len(all) && strings.HasPrefix(all[i+1].Path, v.Path+".") || !wanted(v.Path) { // its fields are tried
			continue
		}
		e := Effect{Field: v.Path, Variable: &v, Fed: x.fed(v.Path), Refused: "no value that was tried is taken"}
		var from *render.Cluster
		var was any
		for _, value := range samples(v) {
			c, err := x.prober.Cluster(x.request(variablesText(x.chart, v.Path, value), "replicas: 2"), false)
			if err != nil {
				return nil, err
			}
			if c.Manifest == nil || c.Hashes == nil {
				continue
			}
			if from != nil {
				t, err := x.try(from, c)
				if err != nil {
					return nil, err
				}
				t.From, t.To = was, value
				e.add(t)
				e.Refused = ""
			}
			from, was = c, value
		}
		out = append(out, e)
	}
	return out, nil
}

// samples are values to try of a variable; the first is none at all.
func samples(v topology.Variable) []any {
	out := []any{nil}
	for _, c := range v.Choices {
		out = append(out, c)
	}
	if len(v.Choices) > 0 {
		return out
	}
	switch v.Type {
	case "boolean":
		return append(out, true, false)
	case "integer":
		var low, high int
		if n, _ := fmt.Sscanf(v.Bounds, "%d to %d", &low, &high); n > 0 {
			return append(out, low, low+1)
		}
		return append(out, 1, 2)
	case "string":
		return append(out, "a", "198.51.100.7", "v1")
	case "array":
		return append(out, []any{"198.51.100.7"}, []any{"LimitRanger"}, []any{map[string]any{"name": "ops"}}, []any{map[string]any{"operator": "Exists"}})
	case "object":
		return append(out, map[string]any{"a": "b"}, map[string]any{"requests": map[string]any{"cpu": "500m"}})
	}
	return out
}

// fillers are values for what a tier needs and has no default for.
var fillers = []any{"198.51.100.7", []any{"198.51.100.7"}, 24}

// requiredVariables are the variables that a request must have, with some value.
func requiredVariables(t *catalog.TierChart) string { return variablesText(t, "", nil) }

// variablesText is a request's variables with one that is tried and those that are needed.
func variablesText(t *catalog.TierChart, path string, value any) string {
	root := map[string]any{}
	needed := map[string]bool{}
	for _, o := range t.Options {
		above, _, nested := cutLast(o.Path)
		needed[o.Path] = o.Required && (!nested || needed[above])
		if needed[o.Path] && o.Default == nil && o.Type != "object" {
			set(root, o.Path, map[string]any{"string": fillers[0], "array": fillers[1], "integer": fillers[2]}[o.Type])
		}
	}
	if path != "" && value != nil {
		set(root, path, value)
	}
	if len(root) == 0 {
		return ""
	}
	text, err := yaml.Marshal(map[string]any{"variables": root})
	if err != nil {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n  ") + "\n"
}

func cutLast(path string) (above, name string, nested bool) {
	i := strings.LastIndex(path, ".")
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

func set(m map[string]any, path string, value any) {
	keys := strings.Split(path, ".")
	for _, key := range keys[:len(keys)-1] {
		next, ok := m[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[key] = next
		}
		m = next
	}
	m[keys[len(keys)-1]] = value
}
