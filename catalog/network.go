package catalog

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// OffLimits is a range that no subnet may overlap, and what happens if one does.
type OffLimits struct {
	ledger.Range
	What, Consequence string
}

// OffLimits are the address pools and the platform's ranges. What another tenant has is not among them: each has a network of its own.
func (c *Catalog) OffLimits() []OffLimits {
	var out []OffLimits
	for _, name := range Sorted(c.Pools) {
		for _, r := range c.Pools[name].Ranges {
			out = append(out, OffLimits{r, fmt.Sprintf("address pool %q %s", name, r), "machines cannot reach control planes with those addresses, and one address may be given out twice"})
		}
	}
	for _, key := range Sorted(c.PlatformCIDRs) {
		if p, err := netip.ParsePrefix(c.PlatformCIDRs[key]); err == nil {
			out = append(out, OffLimits{ledger.RangeOf(p), fmt.Sprintf("the platform's %s %s", key, p), "machines cannot reach what the platform has there"})
		}
	}
	return out
}

// OneNetwork is why subnets of a tenant must not overlap.
const OneNetwork = "both are of one tenant's network, where an address is there once"

// checkOverlaps finds subnets made elsewhere that overlap each other, an address pool or the platform's ranges. Clusters may stand there, so
// it only warns; a new cluster is kept out. An address pool may lie in the platform's ranges: in the network of the hosts it often does.
func (c *Catalog) checkOverlaps() diag.List {
	found := c.checkSubnets(c.DefaultTenant.Subnets, nil, "defaultTenant")
	for _, name := range Sorted(c.Tenants) {
		own := c.checkSubnets(c.Tenants[name].Subnets, c.DefaultTenant.Subnets, "tenants", name)
		found.Add(c.about(own, partOf("tenants", name))...)
	}
	return found
}

// checkSubnets finds what subnets overlap, those of defaultTenant beside them included.
func (c *Catalog) checkSubnets(own, beside map[string]Subnet, p ...string) diag.List {
	var found diag.List
	all := map[string]Subnet{}
	maps.Copy(all, beside)
	maps.Copy(all, own)
	for _, name := range Sorted(own) {
		cidr, err := netip.ParsePrefix(own[name].CIDR)
		if err != nil { // none given, or found where it is read
			continue
		}
		at := c.At(append(slices.Clone(p), "subnets", name, "cidr")...)
		for _, other := range Sorted(all) {
			_, later := own[other]
			if there, err := netip.ParsePrefix(all[other].CIDR); err == nil && there.Overlaps(cidr) && other != name && !(later && other > name) {
				found.Add(diag.Warnf(at, "network/overlap", "subnet %q %s overlaps subnet %q %s: %s", name, cidr, other, there, OneNetwork))
			}
		}
		for _, o := range c.OffLimits() {
			if o.Overlaps(ledger.RangeOf(cidr)) {
				found.Add(diag.Warnf(at, "network/overlap", "subnet %q %s overlaps %s: %s", name, cidr, o.What, o.Consequence))
			}
		}
	}
	return found
}
