package render

import (
	"path"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// The platform's address manifests hold the addresses of every tenant, so all tenants are read for them. What is wrong with one of them
// must not keep the platform from rolling out a class: it is a warning, and what the ledger has given the tenant stays the tenant's.
//
// What is in them is what the ledger has given out, and not what is asked for: the Cluster of a request that is gone runs until somebody
// confirms that it is pruned, and a file that is lost in Git takes no address from who has it.

// addressesOnly reports whether nothing but its addresses is asked for of a tenant.
func (in *Input) addressesOnly(namespace string) bool {
	dir := path.Join(in.Folders.Tenants, namespace)
	return in.Platform && !in.Complete && !slices.ContainsFunc(in.selected, func(p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

// warned are findings, of which those in a folder are warnings.
func warned(found diag.List, folder string) diag.List {
	out := slices.Clone(found)
	for i := range out {
		if strings.HasPrefix(out[i].Pos.File, folder+"/") {
			out[i].Severity = diag.Warning
		}
	}
	return out
}

// addressesOf finds what a tenant holds, of whom nothing else is asked for.
func (p *part) addressesOf(t *Tenant) {
	for _, c := range t.Clusters {
		if t.broken[c.Name] {
			continue
		}
		d, found := p.draft(t, c)
		if d != nil {
			d.compose()
			d.inPool(p.in.Catalog)
			found.Add(d.found...)
		}
		r := t.Records[c.Name]
		switch {
		case !found.Failed() && d.address != "":
			p.held = append(p.held, holding{d.pool(), t.Namespace, d.address})
		case found.Failed() && r != nil && r.Address != "":
			p.held = append(p.held, p.recorded(r))
		}
		if found.Failed() {
			p.found.Add(warned(warned(found, p.in.Folders.Tenants), p.in.Folders.Ledger)...) // its record reads, or it would be broken
		}
	}
}
