package render

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// Wanted is what the requests of an input need of the ledger, and the pools that they are served from: the catalog's address pools
// and the server addresses of the subnets.
type Wanted struct {
	Clusters   []ledger.Wanted
	Pools      map[string]ledger.Pool
	Namespaces []string // every tenant that was read
}

// Want works out what the ledger has to give, and who must not come in: a cluster that is in the ledger is let be from then on. Requests
// that make no sense are found and left out, so a plan must not be carried out when there is an error: a cluster that is left out would
// look gone.
func Want(tree fs.FS, in *Input) (Wanted, diag.List, error) {
	b := newBuilder(tree, in)
	b.planning = true
	out, found, err := b.wanted()
	return out, append(b.found, found...), errors.Join(b.err, err)
}

func (b *builder) wanted() (Wanted, diag.List, error) {
	out := Wanted{Pools: map[string]ledger.Pool{}}
	maps.Copy(out.Pools, b.in.Catalog.Pools)
	for _, t := range b.in.Tenants {
		out.Namespaces = append(out.Namespaces, t.Namespace)
		for _, s := range t.Subnets {
			if p, ok := subnetPool(s); ok {
				out.Pools[p.Name] = p
			}
		}
	}
	var drafts []*draft
	found, err := b.inParts(func(p *part) { p.want(out.Pools) }, func(p *part) {
		out.Clusters = append(out.Clusters, p.wanted...)
		drafts = append(drafts, p.drafts...)
	})
	if b.planning {
		contested, failed := b.contested(drafts)
		found.Add(contested...)
		err = errors.Join(err, failed)
	}
	return out, found, err
}

// subnetPool is the pool that a subnet's server addresses form. The gateway is never given out.
func subnetPool(s *request.Subnet) (ledger.Pool, bool) {
	r, err := ledger.ParseRange(s.Spec.ServerAddresses)
	if err != nil { // none offered; a malformed one is found where it is read
		return ledger.Pool{}, false
	}
	p := ledger.Pool{Name: ledger.SubnetPool(s.Namespace, s.Name), Ranges: []ledger.Range{r}}
	if g, err := netip.ParseAddr(s.Spec.Gateway); err == nil {
		p.Reserved = append(p.Reserved, ledger.Range{First: g, Last: g})
	}
	for _, a := range ledger.Edges(prefix(s.Spec.CIDR)) {
		p.Reserved = append(p.Reserved, ledger.Range{First: a, Last: a})
	}
	return p, true
}

// want works out what the part's clusters need.
func (p *part) want(pools map[string]ledger.Pool) {
	for _, t := range p.tenants {
		var drafts []*draft
		for _, c := range t.Clusters {
			d, bad := p.draft(t, c)
			p.found.Add(bad...)
			if d != nil {
				p.wanted = append(p.wanted, d.want(p.todaysDefaults(c.Spec.Tier), pools))
				p.found.Add(d.found...)
				drafts = append(drafts, d)
			}
		}
		p.drafts = append(p.drafts, drafts...)
		if p.planning {
			p.enter(t, drafts)
		}
	}
}

// enter finds the clusters of a tenant that must not come in.
func (p *part) enter(t *Tenant, drafts []*draft) {
	quota := !t.terms.Quota.None() && slices.ContainsFunc(drafts, func(d *draft) bool { return d.record == nil })
	var weighed []*draft
	for _, d := range drafts {
		if d.record != nil && !quota {
			continue
		}
		x := *d
		x.planned = true
		x.composed = x.compose()
		if x.record == nil {
			x.rules(p.in.Catalog, t)
		}
		p.weigh(&x)
		weighed = append(weighed, &x)
	}
	if quota {
		p.quotas(weighed)
	}
	for _, d := range weighed {
		for _, f := range slices.Concat(d.found, d.refused) {
			if f.Severity == diag.Error && d.isNew() {
				p.found.Add(f)
			}
		}
	}
}

func (d *draft) want(defaults topology.Defaults, pools map[string]ledger.Pool) ledger.Wanted {
	c := d.request
	d.readVariables()
	w := ledger.Wanted{Namespace: c.Namespace, Name: c.Name, At: c.At("metadata", "name"), Class: d.shape(), Defaults: defaults}
	if d.chart != nil {
		w.Later = slices.DeleteFunc(catalog.Sorted(defaults), d.chart.Needs)
	}
	if d.takesAddress() {
		w.Claims = append(w.Claims, ledger.Claim{Field: "address", Pool: d.tier.AddressPool, Pin: address(c.Spec.Address), At: c.At(d.origin("address")...)})
	}
	subnet := ledger.SubnetPool(c.Namespace, c.Spec.Subnet)
	switch _, offered := pools[subnet]; {
	case c.Spec.ServerAddress == "" && !d.tier.ServerAddress:
	case offered:
		w.Claims = append(w.Claims, ledger.Claim{Field: "serverAddress", Pool: subnet, Pin: address(c.Spec.ServerAddress), At: c.At(d.origin("serverAddress")...)})
	case d.record != nil && d.record.ServerAddress != "": // it has one, whatever has become of the subnet
	case d.tier.ServerAddress && c.Spec.ServerAddress == "":
		d.found.Add(diag.Errorf(c.At("spec", "subnet"), "subnet/no-server-addresses", "tier %q needs a server address, and subnet %q of %s offers none", c.Spec.Tier, c.Spec.Subnet, c.Namespace).
			Hintf("give the SubnetRequest a range serverAddresses, or pin one with spec.serverAddress"))
	default: // a subnet made elsewhere: the pin is the tenant's word, there is no pool to check it against
	}
	return w
}

func address(s string) netip.Addr {
	a, err := netip.ParseAddr(s)
	if err != nil { // none given; a malformed one is found where it is read
		return netip.Addr{}
	}
	return a
}

// Ledger reads the whole ledger; what was read of it with the requests is not read again.
func (in *Input) Ledger(tree fs.FS) (*ledger.Ledger, diag.List, error) {
	known := map[string]*ledger.Record{}
	for _, t := range in.Tenants {
		for _, r := range t.Records {
			known[r.Holder()] = r
		}
	}
	return ledger.Load(tree, in.Folders.Ledger, known)
}

// Check loads what the paths ask for and finds all that is wrong with it, the ledger included. It makes the manifests as Render does,
// and keeps none. The input is nil when the root could not be made sense of. base, when it is not nil, is the tree before the change that
// is looked at: rules for who may come in bind the clusters and fields that the change brings.
func Check(base, tree fs.FS, paths ...string) (*Input, diag.List, error) {
	in, found, err := Load(tree, paths...)
	if err != nil || in == nil || in.Catalog == nil {
		return in, found, err
	}
	if base != nil {
		if in.base, err = requestsBefore(base, tree, in.Folders); err != nil {
			return in, found, err
		}
	}
	b := newBuilder(tree, in)
	b.judged = in.Complete
	books := make(chan ledgerRead, 1) // read meanwhile
	go func() {
		var l ledgerRead
		l.ledger, l.found, l.err = in.Ledger(tree)
		books <- l
	}()
	_, more, err := b.build(head)
	l := <-books
	if found.Add(more...); err != nil || found.Failed() { // a cluster that is left out would look gone
		return in, found, err
	}
	more, err = b.checkLedger(l)
	found.Add(more...)
	return in, found, err
}

type ledgerRead struct {
	ledger *ledger.Ledger
	found  diag.List
	err    error
}

// head is an object without its content.
func head(o *manifest.Object) *manifest.Object {
	return &manifest.Object{Object: map[string]any{
		"apiVersion": o.GetAPIVersion(),
		"kind":       o.GetKind(),
		"metadata":   map[string]any{"namespace": o.GetNamespace(), "name": o.GetName()},
	}}
}

// checkLedger finds what is wrong between the ledger and the requests of an input: a cluster that it does not know yet, an address
// that another has. When every tenant was read, the ledger is judged as a whole too. Requests with an error must not get here: a
// cluster that is left out would look gone.
func (b *builder) checkLedger(l ledgerRead) (diag.List, error) {
	want, found, err := b.wanted()
	if err = errors.Join(b.err, err); err != nil || found.Failed() || b.found.Failed() { // said by build already
		return nil, err
	}
	if l.err != nil {
		return nil, fmt.Errorf("checking the ledger: %w", l.err)
	}
	var whole diag.List
	var wg sync.WaitGroup
	if b.in.Complete {
		wg.Go(func() { whole = l.ledger.Check(want.Clusters, want.Pools) })
	}
	between := l.ledger.CheckWanted(want.Clusters, want.Pools)
	wg.Wait()
	return slices.Concat(l.found, whole, between), nil
}
