package render

import (
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
)

// strayPolicies finds namespaces that the policy speaks of and nobody else: a misspelt one leaves its tenant with the policy of all.
func (b *builder) strayPolicies() diag.List {
	var found diag.List
	c := b.in.Catalog
	folders, _, err := namespaces(b.tree, b.in.Folders.Tenants)
	if err != nil {
		return nil // said where tenants are read
	}
	known := slices.Compact(slices.Sorted(slices.Values(append(catalog.Sorted(c.Tenants), folders...))))
	for _, name := range catalog.Sorted(c.Policy.Tenants) {
		if slices.Contains(known, name) {
			continue
		}
		f := diag.Warnf(c.At("policy", "tenants", name), "tenant/unknown", "the policy speaks of tenant %q, which is neither under tenants in the catalog nor a folder under %s%s", name, b.in.Folders.Tenants, diag.OneOf(known))
		if near := diag.Nearest(name, known); near != "" {
			f = f.Hintf("did you mean %q?", near)
		}
		found.Add(f)
	}
	return found
}
