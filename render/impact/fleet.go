package impact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// Objects compares manifests other than Clusters. What the second set lacks is gone or, with a word in kept, could not be rendered.
func Objects(was, is []*manifest.Object, kept string) ([]Object, error) {
	byID := func(objects []*manifest.Object) map[manifest.ID]*manifest.Object {
		out := map[manifest.ID]*manifest.Object{}
		for _, o := range objects {
			out[manifest.IDOf(o)] = o
		}
		return out
	}
	before, after := byID(was), byID(is)
	ids := maps.Clone(before)
	maps.Copy(ids, after)
	out := []Object{}
	for id := range ids {
		o := Object{Kind: id.Kind, Name: id.Namespace + "/" + id.Name}
		a, b := before[id], after[id]
		switch {
		case a == nil:
			o.Action = Create
		case b == nil && kept != "":
			o.Action, o.Words = Rejected, kept
		case b == nil:
			o.Action, o.Words = gone(id, a)
		case topology.Equal(a.Object, b.Object):
			continue
		default:
			if err := o.changed(a, b, is); err != nil {
				return nil, err
			}
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Object) int { return compareText(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return out, nil
}

// gone is what it means that a manifest is no longer rendered.
func gone(id manifest.ID, o *manifest.Object) (Action, string) {
	switch {
	case id.Group == "metallb.io":
		return Address, "it hands out control-plane addresses: those that nothing else covers are taken from their clusters"
	case topology.IsDeployment(o):
		m := machines(topology.DeploymentMachines(o))
		return Delete, fmt.Sprintf("its %s go once somebody confirms the prune", m)
	case strings.HasSuffix(id.Kind, "Template"):
		return InPlace, "a template that nothing names any more"
	}
	return Delete, "it goes once somebody confirms the prune"
}

// changed says what a manifest that differs does.
func (o *Object) changed(was, is *manifest.Object, all []*manifest.Object) error {
	o.Action = InPlace
	specs := !topology.Equal(was.Object["spec"], is.Object["spec"])
	switch {
	case topology.IsDeployment(is):
		why, onDelete, err := topology.Redeployed(was, is)
		if err != nil {
			return err
		}
		m, n := machines(topology.DeploymentMachines(was)), machines(topology.DeploymentMachines(is))
		switch {
		case len(why) > 0 && onDelete:
			o.Action, o.Words = OnDelete, strings.Join(why, "; ")
		case len(why) > 0:
			o.Action, o.Words = Rollout, fmt.Sprintf("%s: %s", m, strings.Join(why, "; "))
		case m != n:
			o.Action, o.Words = Scale, fmt.Sprintf("from %s to %s", m, n)
		}
	case manifest.IDOf(is).Group == "metallb.io" && specs:
		o.Action, o.Words = Address, "it hands out control-plane addresses: one that it no longer covers is taken from its cluster"
	case strings.HasSuffix(is.GetKind(), "Template") && specs:
		if users := topology.UsedBy(is, all); len(users) > 0 && !slices.ContainsFunc(users, func(u string) bool { return strings.HasPrefix(u, "ClusterClass ") }) {
			o.Words = fmt.Sprintf("edited under its name, which %s names: machines that run never take it, only new ones do; give it a new name", strings.Join(users, " and "))
		}
	}
	return nil
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
		if cl.Written != nil {
			for _, o := range cl.Written.Objects {
				if known, err := c.is.Schemas.Known(o); err == nil && !known && o.GroupVersionKind().Group != "cluster.x-k8s.io" {
					kinds[o.GetKind()] = true
				}
			}
		}
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
