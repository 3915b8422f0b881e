package impact

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// Objects compares manifests other than Clusters. held are the control-plane addresses that clusters have in the second set; it is asked
// when an IPAddressPool differs. What that set lacks is gone or, with a word in kept, could not be rendered.
func Objects(was, is []*manifest.Object, held func() []netip.Addr, kept string) ([]Object, error) {
	uncovered := sync.OnceValue(func() []netip.Addr { return uncovered(held(), is) })
	lost := func(a *manifest.Object) []string { return among(a, uncovered) }
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
			o.Action, o.Words = gone(id, a, lost(a))
		case topology.Equal(a.Object, b.Object):
			continue
		default:
			if err := o.changed(a, b, is, lost(a), kept); err != nil {
				return nil, err
			}
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b Object) int { return compareText(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return out, nil
}

// gone is what it means that a manifest is no longer rendered.
func gone(id manifest.ID, o *manifest.Object, lost []string) (Action, string) {
	switch {
	case len(lost) > 0:
		return Address, taken(lost)
	case id.Kind == "IPAddressPool":
		return InPlace, "no cluster has an address of it that nothing else hands out"
	case id.Group == "metallb.io":
		return Address, "it says how control-plane addresses are announced: those that nothing else announces can no longer be reached"
	case topology.IsDeployment(o):
		m := machines(topology.DeploymentMachines(o))
		return Delete, fmt.Sprintf("its %s go once somebody confirms the prune", m)
	case strings.HasSuffix(id.Kind, "Template"):
		return InPlace, "a template that nothing names any more"
	}
	return Delete, "it goes once somebody confirms the prune"
}

// changed says what a manifest that differs does.
func (o *Object) changed(was, is *manifest.Object, all []*manifest.Object, lost []string, kept string) error {
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
	case len(lost) > 0:
		o.Action, o.Words = Address, taken(lost)
	case is.GetKind() == "IPAddressPool" && specs && kept != "":
		o.Action, o.Words = Rejected, kept
	case is.GetKind() == "IPAddressPool" && specs && sameButAddresses(was, is):
		o.Words = "it hands out other addresses; every one that a cluster has is still among those handed out"
	case manifest.IDOf(is).Group == "metallb.io" && specs:
		o.Action, o.Words = Address, "it hands out or announces control-plane addresses, to others or in another way than before"
	case strings.HasSuffix(is.GetKind(), "Template") && specs:
		if users := topology.UsedBy(is, all); len(users) > 0 && !slices.ContainsFunc(users, func(u string) bool { return strings.HasPrefix(u, "ClusterClass ") }) {
			o.Words = fmt.Sprintf("edited under its name, which %s names: machines that run never take it, only new ones do; give it a new name", strings.Join(users, " and "))
		}
	}
	return nil
}

func taken(lost []string) string {
	return "nothing hands out " + strings.Join(lost, ", ") + " any more: taken from the clusters that have them"
}

// sameButAddresses compares two IPAddressPools without their addresses.
func sameButAddresses(a, b *manifest.Object) bool {
	x, _ := a.Object["spec"].(map[string]any)
	y, _ := b.Object["spec"].(map[string]any)
	return equalBut("addresses", x, y)
}

// uncovered are those of the addresses that no IPAddressPool hands out.
func uncovered(held []netip.Addr, is []*manifest.Object) []netip.Addr {
	var now []ledger.Range
	for _, o := range is {
		now = append(now, handedOut(o)...)
	}
	return slices.DeleteFunc(held, func(a netip.Addr) bool { return covers(now, a) })
}

// among are the addresses that an IPAddressPool handed out; nothing else has any, and then they are not asked for.
func among(was *manifest.Object, addresses func() []netip.Addr) []string {
	before := handedOut(was)
	if len(before) == 0 {
		return nil
	}
	var out []string
	for _, a := range addresses() {
		if covers(before, a) {
			out = append(out, a.String())
		}
	}
	return out
}

func covers(ranges []ledger.Range, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r ledger.Range) bool { return r.Contains(a) })
}

// handedOut are the ranges of an IPAddressPool; nothing else has any.
func handedOut(o *manifest.Object) []ledger.Range {
	if o.GetKind() != "IPAddressPool" {
		return nil
	}
	spec, _ := o.Object["spec"].(map[string]any)
	list, _ := spec["addresses"].([]any)
	var out []ledger.Range
	for _, v := range list {
		s, _ := v.(string)
		if r, err := ledger.ParseRange(s); err == nil {
			out = append(out, r)
		}
	}
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
		key, ok := edited(was, is)
		if !ok {
			continue
		}
		k := classes[key]
		if k == nil {
			k = &Class{Name: strings.TrimPrefix(key.String(), "/"), Reach: map[Action]int{}}
			classes[key] = k
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
		for _, f := range c.refused[key].why {
			k.Words = append(k.Words, f.Message)
		}
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b Class) int { return compareText(a.Name, b.Name) })
	return out
}

// milder says whose rollouts are held to less than before by the change itself: with it, what the base would refuse goes through.
func (c *comparer) milder() []string {
	counts := map[string]int{}
	for name, was := range c.was.Clusters {
		is := c.is.Clusters[name]
		if is == nil {
			continue
		}
		if a, b := was.RolloutPolicy(), is.RolloutPolicy(); a.Stricter(b) {
			counts[fmt.Sprintf("%s -> %s", a, b)]++
		}
	}
	out := []string{}
	for _, step := range catalog.Sorted(counts) {
		out = append(out, fmt.Sprintf("the change itself makes the policy for rollouts milder, for %s: %s", count(counts[step], "cluster"), step))
	}
	return out
}

// edited is the class of a cluster, if it is edited between two states, or its chart under the name that the ledger has for it.
func edited(was, is *render.Cluster) (topology.Key, bool) {
	switch {
	case is == nil:
	case was.Class != nil && is.Class != nil:
		return is.Class.Key(), was.Class.Key() == is.Class.Key() && was.Class.Digest() != is.Class.Digest()
	case was.Chart != nil && is.Chart != nil:
		return topology.Key{Name: is.Chart.Key}, was.Chart.Key == is.Chart.Key && was.Chart.Digest != is.Chart.Digest
	}
	return topology.Key{}, false
}

// notes say what the report takes for granted and what it has not looked at.
func (c *comparer) notes(r *Report) []string {
	out := c.milder()
	kinds := map[string]bool{}
	for _, cl := range c.is.Clusters {
		if cl.Made != nil {
			for _, o := range cl.Made.Objects {
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
