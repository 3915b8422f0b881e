package impact

import (
	"fmt"
	"maps"
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// objects compares everything but Clusters.
func objects(was, is *render.Fleet) []Object {
	byID := func(f *render.Fleet) map[manifest.ID]*manifest.Object {
		out := map[manifest.ID]*manifest.Object{}
		for _, o := range f.Objects {
			out[manifest.IDOf(o)] = o
		}
		return out
	}
	before, after := byID(was), byID(is)
	ids := maps.Clone(before)
	maps.Copy(ids, after)
	var out []Object
	for id := range ids {
		a, b := before[id], after[id]
		o := Object{Kind: id.Kind, Name: id.Namespace + "/" + id.Name}
		switch {
		case a == nil:
			o.Action = Create
		case b == nil:
			o.Action, o.Words = Delete, "it goes once somebody confirms the prune"
			if len(is.Found) > 0 && is.Found.Failed() {
				o.Action, o.Words = Rejected, "it cannot be rendered any more; what runs stays as it is"
			}
		case !topology.Equal(a.Object, b.Object):
			o.Action = InPlace
		default:
			continue
		}
		if id.Group == "metallb.io" && o.Action != Create && o.Action != Rejected {
			o.Action, o.Words = Address, "it hands out control-plane addresses: one that it no longer covers is taken from its cluster"
		}
		if isTemplate := len(id.Kind) > 8 && id.Kind[len(id.Kind)-8:] == "Template"; isTemplate && o.Action == Delete {
			o.Action, o.Words = InPlace, "a template that no class names any more"
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Object) int { return compareText(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return out
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// reach counts, for each ClusterClass that changes, what becomes of its clusters.
func (c *comparer) reach(r *Report) []Class {
	worst := map[string]Action{}
	for _, d := range r.Clusters {
		worst[d.String()] = d.Worst()
	}
	classes := map[topology.Key]*Class{}
	for name, was := range c.was.Clusters {
		is := c.is.Clusters[name]
		if is == nil || was.Class == nil || is.Class == nil || was.Class.Key() != is.Class.Key() || was.Class.Digest() == is.Class.Digest() {
			continue
		}
		k := classes[is.Class.Key()]
		if k == nil {
			k = &Class{Name: is.Class.Key().String(), Reach: map[Action]int{}}
			classes[is.Class.Key()] = k
		}
		k.Clusters++
		a := worst[name]
		if a == "" {
			a = None
		}
		k.Reach[a]++
	}
	var out []Class
	for key, k := range classes {
		for _, f := range c.refused[key] {
			k.Words = append(k.Words, f.Message)
		}
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b Class) int { return compareText(a.Name, b.Name) })
	return out
}

// notes say what the report takes for granted and what it has not looked at.
func (c *comparer) notes(r *Report) []string {
	out := []string{}
	kinds := map[string]bool{}
	for _, cl := range c.is.Clusters {
		if cl.Class == nil {
			continue
		}
		for _, o := range cl.Class.Templates() {
			if known, err := c.is.Schemas.Known(o); err == nil && !known {
				kinds[o.GetKind()] = true
			}
		}
	}
	for _, kind := range catalog.Sorted(kinds) {
		out = append(out, fmt.Sprintf("not checked: %s, which has no schema in the catalog's folder crds: written defaults count as changes, wrong fields go unseen", kind))
	}
	if len(r.Clusters) > 0 {
		out = append(out, "taken for granted: the base is what runs, with these ClusterClasses, settled, and nobody has edited its objects by hand")
	}
	return out
}
