package impact

import (
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// theClass is a cause that lies in a cluster's class, and no closer.
func theClass(is *render.Cluster) Cause {
	return Cause{Field: "class " + is.Class.Key().String(), Class: true}
}

// overlayCause is a cause that lies in an overlay: at its place in the catalog, unless it is there no more.
func (c *comparer) overlayCause(overlay string, of Cause) Cause {
	field := "overlay " + overlay
	if of.Field != "" {
		field += ": " + of.Field
	}
	if _, there := c.is.Input.Catalog.Overlays[overlay]; !there {
		return Cause{Field: field + ", overlay taken away", Before: of.Before, After: of.After}
	}
	return at(c.is.Input.Catalog.At("overlays", overlay), field, of.Before, of.After)
}

// overlayCauses is a change of a part of what stands for a cluster, with the overlay that makes it where one does.
func (c *comparer) overlayCauses(was, is *render.Cluster, get func(*manifest.Object) any, of Cause) []Cause {
	cause, _ := c.byOverlay(was, is, get, of)
	return []Cause{cause}
}

// settingCauses are the fields of a pool that differ, all or some of them, and who has changed them; the class when none does.
func (c *comparer) settingCauses(was, is *render.Cluster, pool string, only ...string) []Cause {
	old, now := topology.PoolOf(was.Manifest, pool), topology.PoolOf(is.Manifest, pool)
	fields := map[string]bool{}
	for _, md := range []map[string]any{old, now} {
		for field := range md {
			fields[field] = true
		}
	}
	var out []Cause
	for _, field := range catalog.Sorted(fields) {
		switch {
		case topology.Equal(old[field], now[field]), len(only) > 0 && !slices.Contains(only, field):
			continue
		case field == "replicas" || field == "variables": // of which nothing is but a setting
			continue
		}
		out = append(out, c.poolCause(was, is, pool, field))
	}
	if len(out) == 0 {
		out = append(out, theClass(is))
	}
	return out
}

// poolCause is who has changed a field of a pool: an overlay, the tier, or the request.
func (c *comparer) poolCause(was, is *render.Cluster, pool, field string) Cause {
	old, now := topology.PoolOf(was.Manifest, pool), topology.PoolOf(is.Manifest, pool)
	written, before, after := field, old[field], now[field]
	if field == "metadata" {
		written, before, after = metadataChange(old, now)
	}
	get := func(o *manifest.Object) any { return topology.PoolOf(o, pool)[field] }
	cause, overlaid := c.byOverlay(was, is, get, at(is.Request.At("spec", "workers", pool, written), "workers."+pool+"."+written, before, after))
	if !overlaid && field == "class" && is.Request.Spec.Workers[pool].Class == "" && was.Request.Spec.Workers[pool].Class == "" {
		tier := is.Request.Spec.Tier
		cause = at(c.is.Input.Catalog.At("tiers", tier, "workerClass"), "workerClass of tier "+tier, before, after)
	}
	return cause
}

// clusterCauses are why a Cluster differs in nothing that its machines are made from.
func (c *comparer) clusterCauses(was, is *render.Cluster) []Cause {
	if was.Class.Key() != is.Class.Key() {
		return []Cause{c.tierCause(was, is)}
	}
	var out []Cause
	for _, candidate := range c.candidates(was, is, "") {
		out = append(out, candidate.cause)
	}
	if len(out) > 0 {
		return out
	}
	if cause, ok := c.byOverlay(was, is, func(o *manifest.Object) any { return o.Object["spec"] }, Cause{}); ok {
		return []Cause{cause}
	}
	if was.Class.Digest() != is.Class.Digest() {
		return []Cause{theClass(is)}
	}
	return nil
}
