package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// The platform's address manifests hold the addresses of every tenant, so all tenants are read for them. What is wrong with one of them
// must not keep the platform from rolling out a class: it is a warning, and what the ledger has given the tenant stays the tenant's.

// addressesOnly reports whether nothing but its addresses is asked for of a tenant.
func (in *Input) addressesOnly(namespace string) bool {
	dir := path.Join(in.Folders.Tenants, namespace)
	return in.Platform && !in.Complete && !slices.ContainsFunc(in.selected, func(p string) bool { return p == dir || strings.HasPrefix(p, dir+"/") })
}

// spare makes warnings of what is wrong in a tenant's folder. Requests that do not read may have asked for any cluster, so every
// record of the tenant counts. A record that does not read is an error still: the address it has given is not known.
func (in *Input) spare(tree fs.FS, t *Tenant, found diag.List) (diag.List, error) {
	if !found.Failed() {
		return found, nil
	}
	dir := path.Join(in.Folders.Ledger, "clusters", t.Namespace)
	entries, err := readDir(tree, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	asked := map[string]bool{}
	for _, c := range t.Clusters {
		asked[c.Name] = true
	}
	var broken diag.List
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if !catalog.IsYAML(name) || asked[strings.TrimSuffix(e.Name(), path.Ext(name))] {
			continue
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		r, bad := ledger.ParseRecord(name, data)
		if broken.Add(bad...); !bad.Failed() && r.Released == "" && r.Address != "" {
			t.held = append(t.held, holding{r.AddressPool, t.Namespace, r.Address})
		}
	}
	return append(warned(found, in.Folders.Tenants), broken...), nil
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
	p.held = append(p.held, t.held...)
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
			p.held = append(p.held, holding{r.AddressPool, t.Namespace, r.Address})
		}
		if found.Failed() {
			p.found.Add(warned(found, p.in.Folders.Tenants)...)
		}
	}
}
