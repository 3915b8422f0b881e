package impact

import (
	"fmt"
	"slices"
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
		for _, value := range samples(v, x.chart.Options[i].Examples) {
			text, pool := variablesText(x.chart, v.Path, value)
			c, err := x.prober.Cluster(x.request(text, pool), false)
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
func samples(v topology.Variable, examples []any) []any {
	out := []any{nil}
	if len(examples) > 0 {
		return append(out, examples...)
	}
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
func requiredVariables(t *catalog.TierChart) string {
	text, _ := variablesText(t, "", nil)
	return text
}

// What makes something read variables that nothing reads otherwise: a worker pool of custom size, or a Service of type NodePort.
const (
	customFigures = "machineSpecs."
	hostPorts     = "controlPlane.network.node controlPlane.network.konnectivityNodePort"
)

// variablesText is a request's variables with one that is tried and those that are needed, and what goes into its worker pool.
func variablesText(t *catalog.TierChart, path string, value any) (text, pool string) {
	root, pool := map[string]any{}, "replicas: 2"
	beside := func(prefixes string) {
		for _, o := range t.Options {
			for _, p := range strings.Fields(prefixes) {
				if strings.HasPrefix(o.Path, p) && len(o.Examples) > 0 {
					set(root, o.Path, o.Examples[0])
				}
			}
		}
	}
	switch {
	case strings.HasPrefix(path, customFigures):
		pool = "replicas: 2, size: custom"
		beside(customFigures)
	case slices.ContainsFunc(strings.Fields(hostPorts), func(p string) bool { return strings.HasPrefix(path, p) }):
		set(root, "controlPlane.network.serviceType", "NodePort")
		beside(hostPorts)
	}
	needed := map[string]bool{}
	for _, o := range t.Options {
		above, _, nested := cutLast(o.Path)
		needed[o.Path] = o.Required && (!nested || needed[above])
		if needed[o.Path] && o.Default == nil && o.Type != "object" {
			filler := map[string]any{"string": fillers[0], "array": fillers[1], "integer": fillers[2]}[o.Type]
			if len(o.Examples) > 0 {
				filler = o.Examples[0]
			}
			set(root, o.Path, filler)
		}
	}
	if path != "" && value != nil {
		set(root, path, value)
	}
	if len(root) == 0 {
		return "", pool
	}
	data, err := yaml.Marshal(map[string]any{"variables": root})
	if err != nil {
		return "", pool
	}
	return "  " + strings.ReplaceAll(strings.TrimSuffix(string(data), "\n"), "\n", "\n  ") + "\n", pool
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
