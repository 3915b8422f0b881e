package render

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// ValueChange is a value of a chart that two states of a cluster differ in.
type ValueChange struct {
	Path          []string // from the top of the values
	Before, After any
	At            diag.Pos // where it was written; none when it is the platform team's
	Field         string   // in the words of who wrote it
}

// ValueChanges are the values that two states of a written cluster differ in, by path.
func (c *Cluster) ValueChanges(is *Cluster) []ValueChange {
	var out []ValueChange
	var walk func(path []string, a, b any)
	walk = func(path []string, a, b any) {
		x, isMap := a.(map[string]any)
		y, alsoMap := b.(map[string]any)
		if isMap && (alsoMap || b == nil) || a == nil && alsoMap && len(y) > 0 {
			keys := map[string]any{}
			maps.Copy(keys, x)
			maps.Copy(keys, y)
			for _, k := range catalog.Sorted(keys) {
				walk(append(slices.Clone(path), k), x[k], y[k])
			}
			return
		}
		if !topology.Equal(a, b) {
			out = append(out, is.valueChange(path, a, b))
		}
	}
	walk(nil, c.draft.written.values, is.draft.written.values)
	return out
}

func (c *Cluster) valueChange(path []string, before, after any) ValueChange {
	d := c.draft
	v := ValueChange{Path: path, Before: before, After: after, Field: "values." + strings.Join(path, ".")}
	if !slices.Contains(catalog.Computed, path[0]) {
		return v
	}
	origin := d.placeOf(path)
	v.Field = strings.Join(origin[1:], ".")
	variable := strings.Join(path[1:], ".")
	switch _, recorded := recordOf(d)[variable]; {
	case path[0] == "address" || path[0] == "serverAddress":
		v.At, v.Field = d.fedAt(path[0]), path[0]
	case path[0] == "variables" && !d.request.Has(origin...) && recorded:
		v.At, v.Field = d.record.At("spec", "defaults", variable), "recorded default of "+variable
	case path[0] == "workers" && len(path) == 3 && path[2] == "size" && !d.request.Has(origin...):
		v.At = d.request.KeyAt("spec", "workers", path[1])
	default:
		v.At = d.request.At(origin...)
	}
	return v
}

func recordOf(d *draft) map[string]any {
	if d.record == nil {
		return nil
	}
	return d.record.Defaults
}

// Rewritten is what a chart, that of another state of a cluster perhaps, would make of the cluster with some values as that other state
// has them. Overlays have no part in it. It is nil when the chart makes nothing of that.
func (p *Fleet) Rewritten(c, of *Cluster, changes ...ValueChange) *Made {
	values := c.draft.written.values
	for _, v := range changes {
		values = withValue(values, v.Path, v.After)
	}
	objects, found := of.draft.chart.Objects(c.Request.Namespace, c.Request.Name, values)
	if found.Failed() {
		return nil
	}
	for _, o := range objects {
		o.SetNamespace(c.Request.Namespace)
	}
	b := &builder{in: p.Input, schemas: p.Schemas}
	i := &inspector{builder: b, d: c.draft}
	i.deployments(objects)
	others := func(f diag.Finding) bool { return f.Name != "chart/pools" } // the change may be that of a pool
	if slices.ContainsFunc(i.found, others) || !slices.ContainsFunc(objects, standsForCluster) {
		return nil
	}
	return b.made(c.draft, objects)
}

// made is what comes of the objects that a chart makes of a cluster, with the one that stands for it; nil when nothing can.
func (b *builder) made(d *draft, objects []*manifest.Object) *Made {
	made, err := b.assemble(d, objects)
	if err != nil {
		return nil
	}
	return &Made{Objects: append(made.others, made.stand), Pools: made.pools}
}

// OverlaidMade names the overlay because of which a part of a written cluster is not what it was, the chart making the same of it; "" when
// that is not so. part takes the part out of what is made.
func (p *Fleet) OverlaidMade(was, is *Cluster, part func(*Made) any) string {
	b := &builder{in: p.Input, schemas: p.Schemas}
	of := func(c *Cluster) func([]*manifest.Object) any {
		return func(objects []*manifest.Object) any {
			if made := b.made(c.draft, objects); made != nil {
				return part(made)
			}
			return nil
		}
	}
	before := of(was)(was.draft.written.first)
	if before == nil || !topology.Equal(before, of(is)(is.draft.written.first)) {
		return ""
	}
	return cmp.Or(lastOverlay(is.draft.stages, before, of(is)), lastOverlay(was.draft.stages, before, of(was)))
}

// withValue is a copy of values with another value at a path, or without one when it is nil.
func withValue(values map[string]any, path []string, value any) map[string]any {
	out := maps.Clone(values)
	if out == nil {
		out = map[string]any{}
	}
	if len(path) > 1 {
		inner, _ := out[path[0]].(map[string]any)
		out[path[0]] = withValue(inner, path[1:], value)
		return out
	}
	if out[path[0]] = value; value == nil {
		delete(out, path[0])
	}
	return out
}
