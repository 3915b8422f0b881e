package render

import (
	"cmp"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// Origin is where a value of a Cluster was written.
type Origin struct {
	At      diag.Pos
	Field   string // in the word of whoever wrote it
	Default bool   // a default that the ledger has recorded, which nobody wrote for this cluster
}

// Written is the place in the request, or in the ledger's record, that a variable's value comes from. pool is the worker pool that reads
// it. It is not ok when the value is the class's own default.
func (c *Cluster) Written(variable, pool string) (o Origin, ok bool) {
	d := c.draft
	if d == nil {
		return Origin{}, false
	}
	if _, own := d.overrides[pool][variable]; own {
		return Origin{At: c.Request.At("spec", "workers", pool, "size"), Field: "workers." + pool + ".size"}, true
	}
	for _, path := range catalog.Sorted(d.origins) {
		if path == variable || strings.HasPrefix(path, variable+".") {
			origin := d.origins[path]
			if field, ok := d.ledgered(path); ok && origin[0] == "metadata" { // nobody wrote it: the ledger gave it
				if c.Record != nil {
					return Origin{At: c.Record.At("spec", field), Field: field}, true
				}
				return Origin{At: c.Request.At(origin...), Field: field}, true
			}
			return Origin{At: c.Request.At(origin...), Field: strings.Join(origin[1:], ".")}, true
		}
	}
	if c.Record != nil {
		for _, place := range catalog.Sorted(c.Record.Defaults) {
			if place == variable || strings.HasPrefix(place, variable+".") {
				return Origin{At: c.Record.At("spec", "defaults", place), Field: "recorded default of " + variable, Default: true}, true
			}
		}
	}
	return Origin{}, false
}

// ledgered is the field of a record that the value at a variable's path is kept in.
func (d *draft) ledgered(path string) (field string, ok bool) {
	for _, field := range []string{"address", "serverAddress"} {
		if strings.Join(d.source.Variable(field), ".") == path {
			return field, true
		}
	}
	return "", false
}

// FedAt is the place that the value of a request field comes from: the request or the ledger's record.
func (c *Cluster) FedAt(field string) diag.Pos {
	if c.draft != nil && c.Chart != nil {
		return c.draft.fedAt(field)
	}
	if c.draft != nil {
		if o, ok := c.Written(strings.Join(c.draft.source.Variable(field), "."), ""); ok {
			return o.At
		}
	}
	return c.Request.At("metadata", "name")
}

// Fed is the value of the variable that a request field feeds, in the Cluster as it is rendered; nil when it has none.
func (c *Cluster) Fed(field string) any {
	if c.draft == nil || c.Manifest == nil {
		return nil
	}
	if c.Chart != nil && catalog.Direct(field) {
		return c.draft.direct[field]
	}
	return lookup(variablesOf(c.Manifest), c.draft.source.Variable(field))
}

// Overlaid names the overlay because of which a part of a cluster is not what it was, the request and the ledger's record asking for the
// same; "" when that is not so. get takes the part out of the object that stands for the cluster.
func (c *Cluster) Overlaid(was *Cluster, get func(*manifest.Object) any) string {
	of := func(objects []*manifest.Object) any {
		if i := slices.IndexFunc(objects, standsForCluster); i >= 0 {
			return get(objects[i])
		}
		return nil
	}
	old, now := was.unlaid(), c.unlaid()
	if old == nil || now == nil || (c.Made == nil) != (was.Made == nil) || !topology.Equal(of(old), of(now)) {
		return ""
	}
	return cmp.Or(lastOverlay(c.draft.stages, of(now), of), lastOverlay(was.draft.stages, of(old), of))
}

// unlaid are the objects that overlays are laid over: the Cluster, or all that a chart has made; nil when they are not there.
func (c *Cluster) unlaid() []*manifest.Object {
	switch {
	case c.draft == nil:
		return nil
	case c.Made != nil:
		return c.draft.written.first
	case c.draft.composed != nil:
		return []*manifest.Object{c.draft.composed}
	}
	return nil
}

// stage is what overlays are laid over, as one of them has left it.
type stage struct {
	overlay string
	objects []*manifest.Object
}

// lastOverlay is the last overlay that has changed a part; "" when none has. before is the part without overlays, and of takes it out.
func lastOverlay(stages []stage, before any, of func([]*manifest.Object) any) string {
	name := ""
	for _, s := range stages {
		if now := of(s.objects); !topology.Equal(before, now) {
			name, before = s.overlay, now
		}
	}
	return name
}
