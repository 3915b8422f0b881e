package render

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/overlay"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// overlaid applies the catalog's overlays to what is rendered for a tenant. What comes out of a cluster is what Cluster API admits.
func (p *part) overlaid(t *Tenant, subnets []*manifest.Object, drafts []*draft, failed bool) diag.List {
	var found diag.List
	var applied []string
	for _, name := range catalog.Sorted(p.in.Catalog.Overlays) {
		o := p.in.Catalog.Overlays[name]
		if len(o.Tenants) > 0 && !slices.Contains(o.Tenants, t.Namespace) {
			continue
		}
		var in []*manifest.Object
		var slots []func(*manifest.Object) // where what comes out goes
		var of []*draft
		for _, d := range drafts {
			if len(o.Tiers) == 0 || slices.Contains(o.Tiers, d.request.Spec.Tier) {
				in, slots = d.slots(name, in, slots)
				of = append(of, d)
			}
		}
		spoil := func(bad ...diag.Finding) {
			for _, d := range of {
				d.spoiled.Add(bad...)
			}
		}
		for i := range subnets {
			if len(o.Tiers) == 0 {
				in = append(in, subnets[i])
				slots = append(slots, func(o *manifest.Object) { subnets[i] = o })
			}
		}
		if len(in) == 0 && !p.in.Complete { // whatever is wrong with it
			continue
		}
		loaded, ok := p.overlay(name)
		if !ok {
			failed = true
			spoil(diag.Errorf(p.in.Catalog.At("overlays", name), "overlay/failed", "overlay %q cannot be read", name))
			continue
		}
		if len(in) == 0 {
			continue
		}
		out, bad := loaded.Apply(in)
		if found.Add(bad...); bad.Failed() {
			spoil(bad...)
			continue
		}
		for i, object := range out {
			slots[i](object)
		}
		applied = append(applied, name)
		p.seen[name] = append(p.seen[name], in...)
	}
	for _, d := range drafts {
		var bad diag.List
		switch {
		case d.chart != nil:
			bad = p.keptWritten(d)
		case d.cluster != d.composed:
			bad = d.kept(d.composed, d.cluster)
		}
		d.spoiled.Add(bad...)
		found.Add(bad...)
	}
	if (failed || found.Failed()) && len(applied) > 0 { // what an overlay may not do must not be judged as the tenant's doing
		for _, d := range drafts {
			d.cluster, d.stages = d.composed, nil
			d.written.restore()
		}
	}
	return found
}

// sortVariables puts the variables in order of their names: Cluster API appends those it fills in. The list is keyed by name, so
// its order means nothing to Cluster API; to a diff it does.
func sortVariables(o *manifest.Object) {
	list, _ := lookup(o.Object, []string{"spec", "topology", "variables"}).([]any)
	name := func(v any) string {
		m, _ := v.(map[string]any)
		s, _ := m["name"].(string)
		return s
	}
	slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(name(a), name(b)) })
}

// overlay reads an overlay once.
func (b *builder) overlay(name string) (overlay.Overlay, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, done := b.overlays[name]; done {
		return o.Overlay, o.ok
	}
	o, bad, err := overlay.Load(b.tree, b.in.Catalog.Dir(b.in.Catalog.Overlays[name].Path))
	b.found.Add(bad...)
	if err != nil && b.err == nil {
		b.err = err
	}
	ok := err == nil && !bad.Failed()
	b.overlays[name] = &loadedOverlay{Overlay: o, ok: ok}
	return o, ok
}

type loadedOverlay struct {
	overlay.Overlay
	ok bool
}

// idleOverlays finds, once everything is rendered, what in the overlays changes nothing: a tenant that is not there, a patch whose
// target is not. seen is what each overlay was applied to.
func (b *builder) idleOverlays(seen map[string][]*manifest.Object) diag.List {
	var found diag.List
	for _, name := range catalog.Sorted(b.in.Catalog.Overlays) {
		for i, ns := range b.in.Catalog.Overlays[name].Tenants {
			if !slices.ContainsFunc(b.in.Tenants, func(t *Tenant) bool { return t.Namespace == ns }) {
				found.Add(diag.Warnf(b.in.Catalog.At("overlays", name, "tenants", fmt.Sprint(i)), "overlay/unknown-tenant", "overlay %q is for tenant %q, which is not there", name, ns))
			}
		}
		if o := b.overlays[name]; o != nil && o.ok {
			found.Add(o.Unmatched(seen[name])...)
		}
	}
	return found
}

// kept finds what overlays must leave alone: the addresses, which are the ledger's, and the variables, which are the tenant's and
// whose absence Cluster API would fill with today's defaults.
func (d *draft) kept(before, after *manifest.Object) diag.List {
	var found diag.List
	was, is := variablesOf(before), variablesOf(after)
	for _, name := range catalog.Sorted(was) {
		if _, ok := is[name]; !ok {
			found.Add(diag.Errorf(d.request.At("metadata", "name"), "overlay/dropped-variable", "an overlay drops variable %q of %s", name, d.request).
				Hintf("a strategic merge patch replaces the whole list of variables: use a JSON 6902 patch"))
		}
	}
	for _, field := range []string{"classRef", "version"} {
		path := []string{"spec", "topology", field}
		if old, now := lookup(before.Object, path), lookup(after.Object, path); !reflect.DeepEqual(old, now) {
			found.Add(diag.Errorf(d.request.At("metadata", "name"), "overlay/changed-"+strings.ToLower(field), "an overlay changes %s of %s from %v to %v", field, d.request, text(old), text(now)).
				Hintf("tier and version are for the request to say"))
		}
	}
	for _, field := range []string{"address", "serverAddress"} {
		path := d.source.Variable(field)
		if old, now := lookup(was, path), lookup(is, path); path != nil && !reflect.DeepEqual(old, now) && is[path[0]] != nil {
			found.Add(diag.Errorf(d.request.At(d.origin(field)...), "overlay/changed-address", "an overlay changes %s of %s from %v to %v", strings.Join(path, "."), d.request, text(old), text(now)).
				Hintf("addresses are kept in the ledger"))
		}
	}
	return found
}

func text(v any) any {
	if v == nil {
		return "nothing"
	}
	return v
}

// variablesOf are the topology variables of a Cluster, by name.
func variablesOf(o *manifest.Object) map[string]any {
	out := map[string]any{}
	list, _ := lookup(o.Object, []string{"spec", "topology", "variables"}).([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			if name, ok := m["name"].(string); ok {
				out[name] = m["value"]
			}
		}
	}
	return out
}
