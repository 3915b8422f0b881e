package render

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"copyhold.dev/copyhold/catalog"
)

// mostResource is more than any container gets: whoever writes more has slipped with a unit.
var mostResource = map[string]resource.Quantity{"cpu": resource.MustParse("256"), "memory": resource.MustParse("4Ti")}

// resources finds requests and limits of the control plane's containers with which no pod starts. They count towards no quota.
func (d *draft) resources() {
	for _, component := range []string{"apiServer", "controllerManager", "scheduler"} {
		path := d.source.Variable(component)
		whole := d.stated(component)
		all, _ := whole.value.(map[string]any)
		requests, _ := all["requests"].(map[string]any)
		limits, _ := all["limits"].(map[string]any)
		at := func(kind, name string) stated {
			s := d.statedAt(append(slices.Clone(path), kind, name))
			if s.value == nil && whole.whose == "" { // a null
				s.field = append(slices.Clone(whole.field), kind, name)
				s.at = d.request.At(s.field...)
			}
			return s
		}
		for kind, of := range map[string]map[string]any{"requests": requests, "limits": limits} {
			for _, name := range catalog.Sorted(of) {
				d.resource(at(kind, name), fmt.Sprintf("%s.%s.%s", component, kind, name), name, of[name])
			}
		}
		for _, name := range catalog.Sorted(requests) {
			asked, err := catalog.Quantity(requests[name])
			limit, worse := catalog.Quantity(limits[name])
			if err == nil && worse == nil && asked != nil && limit != nil && asked.Cmp(*limit) > 0 {
				d.found.Add(d.blame(at("requests", name), "resources/bad-value", "%s.requests.%s %s, want at most the limit of %s: the pods of the control plane are refused, and it never comes up", component, name, asked, limit))
			}
		}
	}
}

// resource finds a quantity that cannot be meant.
func (d *draft) resource(s stated, what, name string, v any) {
	q, err := catalog.Quantity(v)
	most, known := mostResource[name]
	text := fmt.Sprint(v)
	if v == nil {
		text = "null"
	}
	switch {
	case err != nil || q == nil || q.Sign() < 0:
		d.found.Add(d.blame(s, "resources/bad-value", "%s %q, want a quantity of 0 or more, as in 500m or 1Gi: the pods of the control plane are refused, and it never comes up", what, text))
	case !catalog.Plausible(name, *q) && q.Cmp(most) <= 0:
		d.found.Add(d.blame(s, "resources/bad-value", "%s %q, want more, as in 500m of CPU or 1Gi of memory: no container starts with so little", what, text))
	case known && q.Cmp(most) > 0:
		d.found.Add(d.blame(s, "resources/bad-value", "%s %q, want at most %s: no host has that, and the control plane never comes up", what, text, most.String()))
	}
}
