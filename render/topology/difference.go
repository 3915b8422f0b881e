package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"copyhold.dev/copyhold/render/manifest"
)

// Difference is one value that is not what it was.
type Difference struct {
	Object string // the kind of the object, or "" for a field of the worker pool itself
	Path   string // below spec, as template.spec.domain.cpu.cores; entries of lists of named things as volumes[root]
	Before any    // nil when it was not there
	After  any    // nil when it is gone
}

// Differences are what differs between two states of a pool once defaults are filled in, in order of their paths. Templates of which
// something is unknown are left out.
func (p *Pool) Differences(is *Pool, s *Schemas) ([]Difference, error) {
	was, now := p.fields(), is.fields()
	var out []Difference
	for _, name := range []string{"version", "failureDomain", "after"} {
		compare("", name, was[name], now[name], &out)
	}
	for _, o := range []struct {
		was, is *manifest.Object
		unknown bool
	}{
		{p.Bootstrap, is.Bootstrap, len(p.unknownBootstrap)+len(is.unknownBootstrap) > 0},
		{p.Infrastructure, is.Infrastructure, len(p.unknownInfrastructure)+len(is.unknownInfrastructure) > 0},
	} {
		compare(o.is.GetKind(), "kind", o.was.GetKind(), o.is.GetKind(), &out)
		if o.unknown {
			continue
		}
		more, err := s.SpecDifferences(o.was, o.is)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// SpecDifferences are what differs between the specs of two objects once defaults are filled in, in order of their paths.
func (s *Schemas) SpecDifferences(was, is *manifest.Object) ([]Difference, error) {
	a, err := s.Default(was)
	if err != nil {
		return nil, err
	}
	b, err := s.Default(is)
	if err != nil {
		return nil, err
	}
	var out []Difference
	compare(is.GetKind(), "", kubeadmExplicit(a.GroupVersionKind(), a.Object["spec"]), kubeadmExplicit(b.GroupVersionKind(), b.Object["spec"]), &out)
	return out, nil
}

// compare walks two values side by side.
func compare(object, path string, was, is any, out *[]Difference) {
	a, mapA := was.(map[string]any)
	b, mapB := is.(map[string]any)
	if mapA && mapB {
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			compare(object, join(path, k), a[k], b[k], out)
		}
		return
	}
	listA, isListA := was.([]any)
	listB, isListB := is.([]any)
	if isListA && isListB {
		namedA, okA := named(listA)
		namedB, okB := named(listB)
		switch {
		case okA && okB:
			keys := maps.Clone(namedA)
			maps.Copy(keys, namedB)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				compare(object, path+"["+k+"]", namedA[k], namedB[k], out)
			}
			if order(listA) == order(listB) {
				return
			}
			// The same entries in another order are another value to Cluster API.
			if len(namedA) == len(namedB) && slices.Equal(slices.Sorted(maps.Keys(namedA)), slices.Sorted(maps.Keys(namedB))) {
				*out = append(*out, Difference{object, path, order(listA), order(listB)})
			}
			return
		case len(listA) == len(listB):
			for i := range listA {
				compare(object, fmt.Sprintf("%s[%d]", path, i), listA[i], listB[i], out)
			}
			return
		}
	}
	if !sameJSON(was, is) {
		*out = append(*out, Difference{object, path, was, is})
	}
}

func join(path, key string) string {
	if strings.ContainsAny(key, ".[]") {
		return path + "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// named are the entries of a list by their names, when each has one of its own.
func named(list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, v := range list {
		m, _ := v.(map[string]any)
		name, ok := m["name"].(string)
		if _, twice := out[name]; !ok || twice {
			return nil, false
		}
		out[name] = m
	}
	return out, true
}

func order(list []any) string {
	var names []string
	for _, v := range list {
		names = append(names, v.(map[string]any)["name"].(string))
	}
	return strings.Join(names, ", ")
}

// Equal reports whether two parts of manifests are the same.
func Equal(a, b any) bool { return sameJSON(a, b) }

func sameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

// With is the Cluster with another value at a path below spec.topology, or without one when the value is nil. It answers what one
// change alone would do.
func With(o *manifest.Object, value any, path ...string) *manifest.Object {
	out := o.DeepCopy()
	at, _ := lookup(out, "spec", "topology").(map[string]any)
	for _, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	set(at, path[len(path)-1], value)
	return out
}

// WithVariable is the Cluster with another value of a variable, or without the variable when the value is nil. With a pool it is the
// pool's own value.
func WithVariable(o *manifest.Object, pool, name string, value any) *manifest.Object {
	out := o.DeepCopy()
	holder, _ := lookup(out, "spec", "topology").(map[string]any)
	key := "variables"
	if pool != "" {
		md := PoolOf(out, pool)
		if md == nil {
			return out
		}
		holder, _ = md["variables"].(map[string]any)
		if holder == nil {
			holder = map[string]any{}
			md["variables"] = holder
		}
		key = "overrides"
	}
	old, _ := holder[key].([]any)
	var kept []any
	for _, v := range old {
		if m, ok := v.(map[string]any); ok && m["name"] != name {
			kept = append(kept, v)
		}
	}
	if value != nil {
		kept = append(kept, map[string]any{"name": name, "value": runtime.DeepCopyJSONValue(value)})
	}
	holder[key] = kept
	return out
}

// WithPool is the Cluster with another value of a field of a worker pool, or without it when the value is nil.
func WithPool(o *manifest.Object, pool, field string, value any) *manifest.Object {
	out := o.DeepCopy()
	if md := PoolOf(out, pool); md != nil {
		set(md, field, value)
	}
	return out
}

// PoolOf is the topology of one worker pool of a Cluster; nil when there is none of that name.
func PoolOf(o *manifest.Object, pool string) map[string]any {
	for _, v := range list(o, "spec", "topology", "workers", "machineDeployments") {
		if m, ok := v.(map[string]any); ok && m["name"] == pool {
			return m
		}
	}
	return nil
}

// HasMachinePools reports whether a Cluster has worker pools of the other kind, which none of this speaks of.
func HasMachinePools(o *manifest.Object) bool {
	return len(list(o, "spec", "topology", "workers", "machinePools")) > 0
}

// PoolNames are the worker pools of a Cluster, in its order.
func PoolNames(o *manifest.Object) []string {
	var out []string
	for _, v := range list(o, "spec", "topology", "workers", "machineDeployments") {
		m, _ := v.(map[string]any)
		if name, ok := m["name"].(string); ok {
			out = append(out, name)
		}
	}
	return out
}

func set(m map[string]any, key string, value any) {
	if value == nil {
		delete(m, key)
		return
	}
	m[key] = runtime.DeepCopyJSONValue(value)
}
