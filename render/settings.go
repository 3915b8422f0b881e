package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// What follows are rules on variables of charts that no schema can have: they are about addresses, or about what else is asked for. They
// go by kMetal's names of variables, so a chart that has the variable has the rule.

// Variables of charts by their paths.
const (
	networkVariables = "controlPlane.network."
	dnsVariable      = networkVariables + "dnsServiceIPs"
	rangesVariable   = "network.ipv4.addresses"
	gatewayVariable  = "network.ipv4.gateway"
	prefixVariable   = "network.ipv4.prefix"
)

// settings finds variables that nothing would read, and addresses that cannot be meant.
func (d *draft) settings(c *catalog.Catalog) {
	d.kamajiNames()
	d.networkKept()
	if d.chart == nil {
		return
	}
	d.unread()
	d.hostAddress(c)
	d.dnsAddresses()
	d.machineAddresses(c)
}

// variable is the place of a chart's variable in the request.
func variable(path string) []string {
	return append([]string{"spec", "variables"}, strings.Split(path, ".")...)
}

// effectiveAt is a variable of a chart as it is rendered: the request's, or its default.
func (d *draft) effectiveAt(path string) any {
	if v := lookup(d.variables, strings.Split(path, ".")); v != nil {
		return v
	}
	return d.defaults[path]
}

// textsAt are the texts in a list.
func (d *draft) textsAt(path string) []string {
	list, _ := d.effectiveAt(path).([]any)
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// unread finds variables of the request that nothing reads, the rest of it being as it is: an edit of them would never take effect.
func (d *draft) unread() {
	if d.tier.Access != "" {
		for _, field := range []string{"serviceType", "nodePort", "konnectivityNodePort", "nodeAddress"} {
			if at := variable(networkVariables + field); d.request.Has(at...) {
				d.found.Add(d.admission(at, "variable/no-effect", "%s%s has no effect: control planes of tier %q are reached by %s, and their Service is ClusterIP", networkVariables, field, d.request.Spec.Tier, d.tier.Access).
					Hintf("remove it, or ask for another tier"))
			}
		}
	}
	path := d.source.Variable("machineSpecs")
	custom := slices.ContainsFunc(d.pools, func(pool string) bool { size, _ := d.size(pool); return size == customSize })
	if at := variable(strings.Join(path, ".")); path != nil && d.request.Has(at...) && !custom {
		d.found.Add(d.admission(at, "variable/no-effect", "%s has no effect: no worker pool is of size %s", strings.Join(path, "."), customSize).
			Hintf("give a worker pool size: %s, or remove it", customSize))
	}
}

// networkKept finds other ranges for a running cluster in the change that brings them. Neither Cluster API nor Kamaji refuses them, and
// nothing that runs takes them.
func (d *draft) networkKept() {
	if d.isNew() || d.base == nil || d.base.of(d.request) == nil {
		return
	}
	if field, was, is := d.request.NetworkChange(d.base.of(d.request)); field != "" {
		d.found.Add(diag.Errorf(d.request.At("spec", "clusterNetwork", field), "network/changed", "clusterNetwork.%s of %s changes from %s to %s, and it cannot be changed later: what runs keeps the addresses and names that it has", field, d.request, was, is).
			Hintf("put it back; other ranges are for another cluster"))
	}
}

// kamajiNames finds a cluster name that Kamaji's webhook refuses for a control plane (internal/webhook/handlers/tcp_name.go of Kamaji).
// What a chart makes is looked at once it is made.
func (d *draft) kamajiNames() {
	if d.class == nil {
		return
	}
	for _, t := range d.class.Templates() {
		if t.GetKind() == "KamajiControlPlaneTemplate" {
			d.found.Add(d.kamajiName(d.request.Name)...)
			return
		}
	}
}

func (d *draft) kamajiName(name string) diag.List {
	if len(validation.IsDNS1035Label(name)) == 0 || len(validation.IsDNS1123Label(name)) > 0 {
		return nil
	}
	return diag.List{d.admission([]string{"metadata", "name"}, "request/bad-name", "cluster name %q begins with a digit, want a letter: Kamaji refuses the control plane", d.request.Name).
		Hintf("write %q", "c"+d.request.Name)}
}

// hostAddress finds an address of a host that no host has: it would be that of another control plane.
func (d *draft) hostAddress(c *catalog.Catalog) {
	path := networkVariables + "nodeAddress"
	s := d.statedAt(strings.Split(path, "."))
	text, _ := s.value.(string)
	if text == "" || d.effective("serviceType") != "NodePort" || d.tier.Access != "" {
		return
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.String() != text || a.Zone() != "" || a.Is4In6() || !a.IsGlobalUnicast() {
		d.found.Add(s.fault("variable/invalid", "variables.%s %q: want the address of a host of the management cluster", path, text))
		return
	}
	if pool := poolWith(c, ledger.Range{First: a, Last: a}); pool != "" {
		d.found.Add(d.blame(s, "pool/inside", "%s %s is in address pool %q: it is, or may become, the address of another control plane", path, a, pool).
			Hintf("want the address of a host of the management cluster"))
	}
}

// poolWith is the first address pool that shares addresses with a range; "" when none does.
func poolWith(c *catalog.Catalog, r ledger.Range) string {
	for _, name := range catalog.Sorted(c.Pools) {
		if slices.ContainsFunc(c.Pools[name].Ranges, r.Overlaps) {
			return name
		}
	}
	return ""
}

// dnsAddresses finds an address for the cluster's DNS that its Service cannot have.
func (d *draft) dnsAddresses() {
	services := d.serviceRanges()
	for i, text := range d.textsAt(dnsVariable) {
		s := d.entry(d.statedAt(strings.Split(dnsVariable, ".")), i)
		a, err := netip.ParseAddr(text)
		in := slices.IndexFunc(services, func(p netip.Prefix) bool { return p.Contains(a) })
		switch {
		case err != nil || a.String() != text || a.Is4In6():
			d.found.Add(s.fault("variable/invalid", "variables.%s.%d %q: want an IP address", dnsVariable, i, text))
		case in < 0:
			d.found.Add(d.blame(s, "dns/outside", "address %s of the cluster's DNS is not in its services, %s: no name would be resolved", a, plainRanges(services)).
				Hintf("want one of clusterNetwork.services; without that field they are %s", defaultServices))
		case a == services[in].Addr() || a == services[in].Addr().Next() || slices.Contains(ledger.Edges(services[in]), a):
			d.found.Add(d.blame(s, "dns/outside", "address %s of the cluster's DNS is taken in %s: the first is that of the API server's own Service, and the ends of the range are nobody's", a, services[in]))
		}
	}
}

// serviceRanges are the ranges of the cluster's Services.
func (d *draft) serviceRanges() []netip.Prefix {
	if n := d.request.Spec.ClusterNetwork; n != nil && len(n.Services) > 0 {
		var out []netip.Prefix
		for _, text := range n.Services {
			out = append(out, prefix(text))
		}
		return out
	}
	return []netip.Prefix{defaultServices}
}

func plainRanges(ranges []netip.Prefix) string {
	var out []string
	for _, r := range ranges {
		out = append(out, r.String())
	}
	return joined(out)
}

// machineAddresses finds addresses for machines that no machine can have. A range may hold the gateway, and the ends of the network: these
// are given to none (PoolSpecToIPSet in internal/poolutil/pool.go of the in-cluster provider of Cluster API's addresses).
func (d *draft) machineAddresses(c *catalog.Catalog) {
	if !d.chart.Has(rangesVariable) {
		return
	}
	router := d.statedAt(strings.Split(gatewayVariable, "."))
	gateway := address(fmt.Sprint(router.value))
	bits, _ := d.effectiveAt(prefixVariable).(int64)
	network, err := gateway.Prefix(int(bits))
	if err != nil || !gateway.Is4() { // without a gateway and a prefix the schema has said so
		if router.value != nil && !gateway.Is4() {
			d.found.Add(router.fault("variable/invalid", "variables.%s %q: want an IPv4 address", gatewayVariable, fmt.Sprint(router.value)))
		}
		network = netip.Prefix{}
	}
	if slices.Contains(ledger.Edges(network), gateway) {
		d.found.Add(d.blame(router, "addresses/gateway", "gateway %s is the network or broadcast address of %s: no router can have it", gateway, network))
	}
	var before []ledger.Range
	for i, text := range d.textsAt(rangesVariable) {
		s := d.entry(d.statedAt(strings.Split(rangesVariable, ".")), i)
		r, err := ledger.ParseRange(text)
		switch pool := ""; {
		case err != nil || !r.First.Is4():
			d.found.Add(s.fault("variable/invalid", "variables.%s.%d %q: want first-last, a CIDR or an address of IPv4, as 198.51.100.10-198.51.100.40", rangesVariable, i, text))
			continue
		case network.IsValid() && (!network.Contains(r.First) || !network.Contains(r.Last)):
			d.found.Add(d.blame(s, "addresses/outside", "addresses %s of machines are not all in %s, the network of gateway %s: machines would have no way out", r, network, gateway))
		case slices.ContainsFunc(before, r.Overlaps): // each machine gets its own all the same
			d.found.Add(s.warn("addresses/duplicate", "addresses %s of machines are given twice", r))
		default:
			if pool = poolWith(c, r); pool != "" {
				d.found.Add(d.blame(s, "pool/inside", "addresses %s of machines overlap address pool %q: a machine and a control plane may get the same one", r, pool))
			}
		}
		before = append(before, r)
	}
}
