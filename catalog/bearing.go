package catalog

import (
	"slices"

	"copyhold.dev/copyhold/render/diag"
)

// User is somebody who makes use of a part of the catalog. What is left out is not used.
type User struct {
	Tenant      string
	Tier        string
	AddressPool string // beside the tier's
}

// partOf names an entry of one of the maps of catalog.yaml.
func partOf(kind, name string) string { return kind + "/" + name }

// about remembers what findings are about: one of these parts of catalog.yaml and nothing else.
func (c *Catalog) about(found diag.List, parts ...string) diag.List {
	for _, f := range found {
		c.bears[f] = append(c.bears[f], parts...)
	}
	return found
}

// Bearing are those of the findings of Load that bear on somebody. Left out are those about a tier, class source, address pool, overlay
// or word of the policy that none of the users has to do with: one tenant's application must not fail for the mistake in another's
// offer. A catalog whose other findings are no errors may be used for these users, and for nobody else.
func (c *Catalog) Bearing(found diag.List, users ...User) diag.List {
	used := map[string]bool{}
	for _, u := range users {
		used[partOf("tenants", u.Tenant)] = true
		used[partOf("addressPools", u.AddressPool)] = true
		if t, ok := c.Tiers[u.Tier]; ok {
			used[partOf("tiers", u.Tier)] = true
			used[partOf("classes", t.From)] = true
			used[partOf("addressPools", t.AddressPool)] = true
		}
		for name, o := range c.Overlays { // its tiers may be what is wrong with it
			if len(o.Tenants) == 0 || slices.Contains(o.Tenants, u.Tenant) {
				used[partOf("overlays", name)] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(f diag.Finding) bool {
		parts := c.bears[f]
		return len(parts) > 0 && !slices.ContainsFunc(parts, func(p string) bool { return used[p] })
	})
}
