package render

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// Prober renders requests that nobody made, to find out what a catalog makes of them. Classes are worked out once for all of them.
type Prober struct{ b *builder }

// NewProber makes a prober for the catalog of a tree.
func NewProber(tree fs.FS, in *Input) *Prober { return &Prober{b: newBuilder(tree, in)} }

// Input is what is probed.
func (p *Prober) Input() *Input { return p.b.in }

// Schemas are those of the catalog.
func (p *Prober) Schemas() *topology.Schemas { return p.b.schemas }

// Chart is the chart of a tier; nil when it has none, or one that cannot be used.
func (p *Prober) Chart(tier string) *catalog.TierChart { return p.b.tierChart(tier) }

// Class is the ClusterClass of a tier; nil when it has none, or one that cannot be used.
func (p *Prober) Class(tier string) *topology.Class { return p.b.tierClass(tier) }

// The cluster that is probed, and what it has.
const (
	probeTenant        = "probe"
	probeName          = "probe"
	ProbeSubnet        = "probe"
	probeServerAddress = "198.51.100.254"
	probeSubnetRequest = `apiVersion: copyhold.dev/v1alpha1
kind: SubnetRequest
metadata: {name: probe}
spec: {cidr: 198.51.100.0/24, gateway: 198.51.100.1, serverAddresses: 198.51.100.200-198.51.100.254}
---
apiVersion: copyhold.dev/v1alpha1
kind: SubnetRequest
metadata: {name: probe-two}
spec: {cidr: 192.0.2.0/24}
`
)

// Cluster renders one request, as the file of a tenant named probe, for a cluster that the ledger knows. other gives it another of the
// addresses in the ledger.
func (p *Prober) Cluster(text string, other bool) (*Cluster, error) {
	file := path.Join(p.b.in.Folders.Tenants, probeTenant, probeName+".yaml")
	requests, found := request.Parse(file, []byte(text))
	if found.Failed() || len(requests.Clusters) != 1 {
		return nil, fmt.Errorf("a request that is probed: %s", found)
	}
	subnets, _ := request.Parse(path.Join(path.Dir(file), "subnet.yaml"), []byte(probeSubnetRequest))
	c := requests.Clusters[0]
	tenant := &Tenant{Namespace: probeTenant, Requests: request.Requests{Clusters: requests.Clusters, Subnets: subnets.Subnets}, Records: map[string]*ledger.Record{}, broken: map[string]bool{}}
	if r := p.record(c, other); r != nil {
		tenant.Records[c.Name] = r
	}
	in := *p.b.in
	in.Tenants, in.selected, in.Complete, in.Platform = []*Tenant{tenant}, []string{"."}, false, false
	b := p.b.fresh(&in)
	b.probing = true
	f, err := b.fleet()
	if err != nil {
		return nil, err
	}
	return f.Clusters[c.String()], nil
}

// record is a ledger entry with an address of the tier's pool.
func (p *Prober) record(c *request.Cluster, other bool) *ledger.Record {
	tier, ok := p.b.in.Catalog.Tiers[c.Spec.Tier]
	if !ok {
		return nil
	}
	r := &ledger.Record{Namespace: c.Namespace, Name: c.Name}
	if tier.Chart != "" {
		if chart := p.b.tierChart(c.Spec.Tier); chart != nil {
			r.Class, r.Defaults = chart.Key, chart.Defaults
		}
	} else {
		r.Class = topology.Key{Namespace: p.b.in.Catalog.Classes[tier.From].Namespace, Name: tier.Class}.String()
		if class := p.b.tierClass(c.Spec.Tier); class != nil {
			r.Defaults = class.Defaults()
		}
	}
	service := lookup(c.Spec.Variables, strings.Split(networkVariables+"serviceType", "."))
	if pool, ok := p.b.in.Catalog.Pools[tier.AddressPool]; ok && (tier.Chart == "" || service == nil || service == "LoadBalancer") {
		used := map[netip.Addr]string{}
		for range 2 {
			a, ok := pool.Pick(c.String(), used)
			if !ok {
				break
			}
			r.Address, r.AddressPool = a.String(), tier.AddressPool
			used[a] = c.String()
			if !other {
				break
			}
		}
	}
	if tier.ServerAddress {
		r.ServerAddress, r.ServerPool = probeServerAddress, ledger.SubnetPool(c.Namespace, ProbeSubnet)
	}
	return r
}

// With is the cluster with another manifest in its place, which Cluster API has taken; it is nil when Cluster API refuses it.
func (p *Prober) With(c *Cluster, o *manifest.Object) (*Cluster, error) {
	made, problems, err := c.Class.Admit(o)
	if err != nil || len(problems) > 0 {
		return nil, err
	}
	sortVariables(made)
	d := *c.draft
	d.admitted, d.refused, d.hashes, d.accepts = made, nil, nil, nil
	p.b.hash(&d)
	if d.err != nil {
		return nil, d.err
	}
	out := *c
	out.Manifest, out.Hashes, out.Accepts, out.Found, out.draft = made, d.hashes, d.accepts, diag.List(nil), &d
	return &out, nil
}

// fresh is a builder for another input of the same catalog, with what is worked out of that.
func (b *builder) fresh(in *Input) *builder {
	return &builder{in: in, tree: b.tree, sources: b.sources, classes: b.classes, tiers: b.tiers, dressed: b.dressed, overlays: b.overlays,
		schemas: b.schemas, charts: b.charts, placeholders: b.placeholders, withdrawn: b.withdrawn}
}
