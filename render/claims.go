package render

import (
	"cmp"
	"fmt"
	"slices"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// claim is what a request names and one cluster alone can have, without the ledger giving it out: a port of the management cluster's
// hosts, or addresses of machines in a network that is not the platform's.
type claim struct {
	d     *draft
	field []string // in the request
	port  any      // nil when it is addresses
	ledger.Range
}

// claims are those of a cluster.
func (d *draft) claims() []claim {
	if d.chart == nil {
		return nil
	}
	var out []claim
	if d.effective("serviceType") == "NodePort" && d.tier.Access == "" {
		for _, field := range []string{"nodePort", "konnectivityNodePort"} {
			if port := d.effectiveAt(networkVariables + field); port != nil {
				out = append(out, claim{d: d, field: variable(networkVariables + field), port: port})
			}
		}
	}
	for i, text := range d.textsAt(rangesVariable) {
		if r, err := ledger.ParseRange(text); err == nil {
			out = append(out, claim{d: d, field: append(variable(rangesVariable), fmt.Sprint(i)), Range: r})
		}
	}
	return out
}

// meets reports whether two claims are to the same thing.
func (c claim) meets(o claim) bool {
	if c.port != nil || o.port != nil {
		return c.port != nil && o.port != nil && fmt.Sprint(c.port) == fmt.Sprint(o.port)
	}
	return c.d != o.d && c.Overlaps(o.Range) && oneNetwork(c.d.chart.Values(nil), o.d.chart.Values(nil))
}

// oneNetwork reports whether machines of two tiers stand in one network: on the same bridge of the same hosts.
func oneNetwork(a, b map[string]any) bool {
	hosts, _ := a["allowedNodes"].([]any)
	others, _ := b["allowedNodes"].([]any)
	return fmt.Sprint(a["bridge"]) == fmt.Sprint(b["bridge"]) && (len(hosts) == 0 || len(others) == 0 || slices.ContainsFunc(hosts, func(h any) bool { return slices.Contains(others, h) }))
}

// after orders claims by who came first: who has it already, before who comes or changes it now; where nobody can tell, by place.
func (c claim) after(o claim) bool {
	rank := func(x claim) int {
		if x.d.enters(x.field...) {
			return 1
		}
		return 0
	}
	a, b := c.d.request.At(c.field...), o.d.request.At(o.field...)
	return cmp.Or(cmp.Compare(rank(c), rank(o)), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col)) > 0
}

// contested finds what a cluster claims that is another's. All requests of the repository are held against those asked for, and the one
// that came later is at fault: it alone is not rendered.
func (b *builder) contested(drafts []*draft) (diag.List, error) {
	var own []claim
	for _, d := range drafts {
		own = append(own, d.claims()...)
	}
	if len(own) == 0 || b.probing {
		return nil, nil
	}
	beside, err := b.unasked(drafts)
	all := slices.Concat(own, beside)
	var found diag.List
	for _, c := range own {
		if i := slices.IndexFunc(all, func(o claim) bool { return c.meets(o) && c.after(o) }); i >= 0 && (!b.planning || c.d.isNew()) {
			found.Add(c.taken(all[i]))
		}
	}
	return found, err
}

// taken says that a claim is another's.
func (c claim) taken(by claim) diag.Finding {
	at := c.d.request.At(c.field...)
	if c.port != nil {
		return diag.Errorf(at, "port/duplicate", "node port %v of %s is that of %s", c.port, c.d.request, by.d.request).
			Hintf("a port is one for all hosts of the management cluster: choose another")
	}
	return diag.Errorf(at, "addresses/duplicate", "addresses %s of machines of %s overlap %s of %s: two machines may get the same one", c.Range, c.d.request, by.Range, by.d.request).
		Hintf("both are on one bridge of the same hosts: choose other addresses")
}

// unasked are the claims of all clusters that are not asked for. What is wrong with those is for whoever asks for them.
func (b *builder) unasked(drafts []*draft) ([]claim, error) {
	asked, tenants := map[string]bool{}, slices.Clone(b.in.Tenants)
	for _, d := range drafts {
		asked[d.request.String()] = true
	}
	if !b.in.Complete {
		names, _, err := namespaces(b.tree, b.in.Folders.Tenants)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if slices.ContainsFunc(b.in.Tenants, func(t *Tenant) bool { return t.Namespace == name }) {
				continue
			}
			t, _, err := b.in.loadTenant(b.tree, name)
			if err != nil {
				return nil, err
			}
			tenants = append(tenants, t)
		}
	}
	p := &part{builder: newBuilder(b.tree, b.in)}
	var out []claim
	for _, t := range tenants {
		for _, c := range t.Clusters {
			if asked[c.String()] || b.in.Catalog.Tiers[c.Spec.Tier].Chart == "" {
				continue
			}
			if d, _ := p.draft(t, c); d != nil {
				d.readVariables()
				out = append(out, d.claims()...)
			}
		}
	}
	return out, nil
}
