package render

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
)

// subnet is what is known of a subnet of a tenant, whoever makes it.
type subnet struct {
	cidr    netip.Prefix // invalid when nobody says
	gateway netip.Addr   // invalid when nobody says
	pooled  bool         // server addresses are the ledger's to give
}

// subnet finds a tenant's subnet by name: a SubnetRequest, or one that the catalog says is made elsewhere.
func (t *Tenant) subnet(name string) (subnet, bool) {
	for _, s := range t.Subnets {
		if s.Name == name {
			return subnet{prefix(s.Spec.CIDR), address(s.Spec.Gateway), s.Spec.ServerAddresses != ""}, true
		}
	}
	s, ok := t.terms.Subnets[name]
	return subnet{prefix(s.CIDR), address(s.Gateway), false}, ok
}

func prefix(s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil { // none given; a malformed one is found where it is read
		return netip.Prefix{}
	}
	return p
}

// subnetNames are all subnets of a tenant.
func (t *Tenant) subnetNames() []string {
	out := catalog.Sorted(t.terms.Subnets)
	for _, s := range t.Subnets {
		out = append(out, s.Name)
	}
	return out
}

// network finds a subnet that is not there, a server address that cannot be one, and ranges that overlap.
func (d *draft) network(c *catalog.Catalog, t *Tenant) {
	given := d.stated("subnet")
	name, _ := given.value.(string)
	s, known := t.subnet(name)
	// A tenant without a SubnetRequest may stand on a subnet made elsewhere, unless the catalog has a word on those.
	if !known && !t.partial && d.gone(name, t) {
		known = true // said
	}
	if !known && name != "" && !t.partial && (len(t.Subnets) > 0 || t.terms.Subnets != nil) {
		f := d.blame(given, "subnet/unknown", "subnet %q is neither a SubnetRequest of %s nor one that the catalog says is made elsewhere%s: the workers would have no network", name, t.Namespace, diag.OneOf(t.subnetNames()))
		if near := diag.Nearest(name, t.subnetNames()); near != "" {
			f = f.Hintf("did you mean %q?", near)
		} else {
			f = f.Hintf("ask for it with a SubnetRequest; one that is made elsewhere goes under tenants.%s.subnets in the catalog", t.Namespace)
		}
		d.found.Add(f)
	}
	d.serverAddress(name, s, t)
	d.serverAddressFree(c)
	d.ranges(c, name, s)
	if d.enters("spec", "subnet") { // for whoever runs there, it is said where the subnet is written
		d.subnetRange(c, given, name, s)
	}
}

// serverAddressFree finds a server address that a control plane may get.
func (d *draft) serverAddressFree(c *catalog.Catalog) {
	v, origin := d.given("serverAddress")
	text, _ := v.(string)
	a := address(text)
	for _, name := range catalog.Sorted(c.Pools) {
		for _, r := range c.Pools[name].Ranges {
			if a.IsValid() && r.Contains(a) {
				d.found.Add(d.admission(origin, "server-address/pool", "server address %s is in address pool %q %s: a control plane may get the same", a, name, r).
					Hintf("server addresses are of the subnet, which must keep out of the address pools"))
			}
		}
	}
}

// subnetRange finds a subnet that a cluster must not be put into: its machines could not reach what is outside under the same addresses.
func (d *draft) subnetRange(c *catalog.Catalog, given stated, name string, s subnet) {
	if !s.cidr.IsValid() {
		return
	}
	for _, other := range c.OffLimits() {
		if other.Overlaps(ledger.RangeOf(s.cidr)) {
			d.found.Add(d.blame(given, "network/overlap", "subnet %q %s overlaps %s: %s", name, s.cidr, other.What, other.Consequence))
		}
	}
}

// serverAddress finds a server address that the workers cannot reach, and workers that need one and have none. What the ledger gives
// out of a subnet's serverAddresses is the ledger's to check.
func (d *draft) serverAddress(name string, s subnet, t *Tenant) {
	v, origin := d.given("serverAddress")
	text, _ := v.(string)
	a := address(text)
	if !a.IsValid() {
		if d.tier.ServerAddress && !d.planned {
			d.found.Add(d.admission([]string{"spec", "tier"}, "server-address/missing", "workers of tier %q join by an address in their subnet, and the ledger has none for %s: new ones never join", d.request.Spec.Tier, d.request).
				Hintf("copyhold allocate gives it one of the subnet's serverAddresses; spec.serverAddress pins one"))
		}
		return
	}
	switch {
	case s.cidr.IsValid() && !s.cidr.Contains(a):
		d.found.Add(d.admission(origin, "server-address/outside", "server address %s is not in subnet %q, want one of %s: workers never reach it", a, name, s.cidr))
	case s.cidr.IsValid() && slices.Contains(ledger.Edges(s.cidr), a):
		d.found.Add(d.admission(origin, "server-address/reserved", "server address %s is the network or broadcast address of subnet %q %s: no machine can have it", a, name, s.cidr))
	case a == s.gateway:
		d.found.Add(d.admission(origin, "server-address/gateway", "server address %s is the gateway of subnet %q: the two answer for one address, and the subnet loses its way out", a, name))
	}
	for _, other := range t.Clusters {
		r, pool := t.Records[other.Name], ""
		theirs := other.Spec.ServerAddress
		if r != nil && r.ServerAddress != "" {
			theirs, pool = r.ServerAddress, r.ServerPool
		}
		// Two of one pool are the ledger's to find.
		if other == d.request || address(theirs) != a || d.record != nil && pool != "" && d.record.ServerPool == pool {
			continue
		}
		d.found.Add(diag.Errorf(d.request.At(origin...), "server-address/duplicate", "server address %s of %s is that of %s too: workers of one would join the other", a, d.request, other).
			Hintf("all subnets of a tenant lie in one network: one of the two must get another address"))
	}
}

// span is a range of addresses and whose it is.
type span struct {
	netip.Prefix
	what  string
	field []string // in the request; nil when it is not the request's
}

// The ranges that a control plane takes when the request has none: Kamaji's (api/v1alpha1/tenantcontrolplane_types.go of Kamaji).
var (
	defaultPods     = netip.MustParsePrefix(request.DefaultPods)
	defaultServices = netip.MustParsePrefix(request.DefaultServices)
)

// ranges finds ranges of a cluster that overlap each other, its subnet or the platform's. A range that the request leaves to the control
// plane is held against the rest of the cluster, and not against the platform, where it is everybody's.
func (d *draft) ranges(c *catalog.Catalog, name string, s subnet) {
	own := d.spans()
	for i, a := range own {
		for _, b := range own[:i] {
			d.overlap(a, b, "a pod and a service may get the same address")
		}
		if s.cidr.IsValid() {
			d.overlap(a, span{s.cidr, fmt.Sprintf("subnet %q", name), nil}, "pods cannot reach machines of the subnet with those addresses")
		}
		for _, key := range catalog.Sorted(c.Pools) {
			d.overPool(a, c.Pools[key])
		}
		for _, key := range catalog.Sorted(c.PlatformCIDRs) {
			if a.field != nil {
				d.overlap(a, span{prefix(c.PlatformCIDRs[key]), fmt.Sprintf("the platform's %s", key), nil}, "pods cannot reach what the platform has there")
			}
		}
	}
}

// overPool finds a range of the request that holds control-plane addresses: from inside the cluster they are then somebody else.
func (d *draft) overPool(a span, pool ledger.Pool) {
	for _, r := range pool.Ranges {
		if a.field != nil && a.IsValid() && r.Overlaps(ledger.RangeOf(a.Prefix)) {
			d.found.Add(d.admission(a.field, "network/overlap", "%s %s overlap address pool %q %s: pods cannot reach control planes with those addresses", a.what, a.Prefix, pool.Name, r).
				Hintf("give the cluster ranges of its own with spec.clusterNetwork; they cannot be changed later"))
			return
		}
	}
}

// spans are the ranges of a cluster.
func (d *draft) spans() []span {
	var out []span
	n := d.request.Spec.ClusterNetwork
	for _, f := range []struct {
		name    string
		written func() []string
		none    netip.Prefix
	}{
		{"pods", func() []string { return n.Pods }, defaultPods},
		{"services", func() []string { return n.Services }, defaultServices},
	} {
		if n == nil || len(f.written()) == 0 {
			out = append(out, span{f.none, "the default " + f.name, nil})
			continue
		}
		for i, text := range f.written() {
			out = append(out, span{prefix(text), f.name, []string{"spec", "clusterNetwork", f.name, fmt.Sprint(i)}})
		}
	}
	return out
}

// overlap finds two ranges that share addresses.
func (d *draft) overlap(a, b span, consequence string) {
	if !a.Overlaps(b.Prefix) {
		return
	}
	field := a.field
	switch {
	case field == nil && b.field != nil:
		field = b.field
	case field == nil: // a subnet and a default
		field = []string{"spec", "subnet"}
	}
	d.found.Add(d.admission(field, "network/overlap", "%s %s overlap %s %s: %s", a.what, a.Prefix, b.what, b.Prefix, consequence).
		Hintf("give the cluster ranges of its own with spec.clusterNetwork; they cannot be changed later"))
}

// overlapping finds subnets of a tenant that overlap each other or the platform's ranges. The ledger knows no subnet, so nobody can tell
// one that is new from one that clusters stand on: both are only warned. A range that the change at hand brings is an error.
func (t *Tenant) overlapping(c *catalog.Catalog, base *before) diag.List {
	var found diag.List
	overlap := func(s *request.Subnet, what, consequence string) {
		f := diag.Warnf(s.At("spec", "cidr"), "network/overlap", "subnet %q %s overlaps %s: %s", s.Name, s.Spec.CIDR, what, consequence)
		if base.bringsRange(s) {
			f.Severity = diag.Error
		}
		found.Add(f)
	}
	for i, s := range t.Subnets {
		own := prefix(s.Spec.CIDR)
		if !own.IsValid() {
			continue
		}
		others := map[string]catalog.Subnet{}
		maps.Copy(others, t.terms.Subnets)
		if elsewhere := prefix(others[s.Name].CIDR); elsewhere.IsValid() && elsewhere != own {
			_, entry := c.TenantAt(t.Namespace, "subnets", s.Name)
			found.Add(diag.Warnf(s.At("spec", "cidr"), "subnet/conflict", "subnet %q is %s here, and %s under %s.subnets in the catalog", s.Name, own, elsewhere, entry).
				Hintf("the request is what holds: remove the entry in the catalog, which is for subnets made elsewhere"))
		}
		delete(others, s.Name)
		for _, name := range catalog.Sorted(others) {
			if cidr := prefix(others[name].CIDR); own.Overlaps(cidr) {
				overlap(s, fmt.Sprintf("subnet %q %s", name, cidr), catalog.OneNetwork)
			}
		}
		for _, other := range t.Subnets[:i] {
			late, early := s, other
			if base.bringsRange(other) && !base.bringsRange(s) {
				late, early = other, s
			}
			if own.Overlaps(prefix(other.Spec.CIDR)) {
				overlap(late, fmt.Sprintf("subnet %q %s", early.Name, early.Spec.CIDR), catalog.OneNetwork)
			}
		}
		for _, other := range c.OffLimits() {
			if other.Overlaps(ledger.RangeOf(own)) {
				overlap(s, other.What, other.Consequence)
			}
		}
	}
	return found
}
