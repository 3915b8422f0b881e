package render

import (
	"errors"
	"runtime"
	"slices"
	"sync"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// part is the work on some tenants. Several go on at a time; what they share is the builder's, and each has findings of its own.
type part struct {
	*builder
	tenants []*Tenant
	found   diag.List
	err     error
	objects []*manifest.Object
	held    []holding
	seen    map[string][]*manifest.Object // by overlay, what it was applied to
	wanted  []ledger.Wanted
	drafts  []*draft // of the clusters asked for
	beside  []*draft // of the other clusters of tenants that have a quota
}

// partSize is how many clusters make a part, as near as whole tenants allow.
const partSize = 250

// inParts does some work on all tenants, several parts at a time, and hands each part over in order.
func (b *builder) inParts(work, done func(*part)) (diag.List, error) {
	var parts []*part
	size := partSize
	for _, t := range b.in.Tenants {
		if size >= partSize {
			parts, size = append(parts, &part{builder: b, seen: map[string][]*manifest.Object{}}), 0
		}
		p := parts[len(parts)-1]
		p.tenants = append(p.tenants, t)
		size += len(t.Clusters)
	}
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, p := range parts {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			work(p)
		})
	}
	wg.Wait()
	var found diag.List
	var err error
	for _, p := range parts {
		found.Add(p.found...)
		err = errors.Join(err, p.err)
		done(p)
	}
	return found, err
}

// build renders the part's tenants: what is selected of them, and the addresses that all of each holds.
func (p *part) build(keep func(*manifest.Object) *manifest.Object) {
	var drafts []*draft
	for _, t := range p.tenants {
		if p.in.addressesOnly(t.Namespace) {
			p.addressesOf(t)
			continue
		}
		objects, of := p.tenant(t)
		for _, o := range objects {
			p.objects = append(p.objects, keep(o))
		}
		drafts = append(drafts, of...)
	}
	p.drafts = append(p.drafts, drafts...)
	p.admit(append(drafts, p.beside...), keep)
	p.quotas(slices.Concat(drafts, p.beside))
	for _, d := range drafts {
		p.found.Add(d.refused...)
		p.err = errors.Join(p.err, d.err)
		if d.admitted != nil && !p.lean {
			p.objects = append(p.objects, d.admitted)
		}
		if p.lean {
			p.err = errors.Join(p.err, d.thin())
			continue
		}
		if d.written != nil && d.admitted != nil {
			p.objects = append(p.objects, d.written.others...)
		}
	}
}

// tenant renders one folder's subnets, and drafts its clusters as far as to what Cluster API is to admit.
func (p *part) tenant(t *Tenant) ([]*manifest.Object, []*draft) {
	var found diag.List
	var subnets []*manifest.Object
	if claim := p.in.Catalog.SubnetClaim; claim.Placeholder && len(t.Subnets) > 0 {
		found.Add(diag.Warnf(p.in.Catalog.At("subnetClaim"), "catalog/placeholder", "%s %s is a placeholder: nobody has confirmed it", claim.APIVersion, claim.Kind).
			Hintf("look it up with kubectl api-resources, enter it here and remove placeholder"))
	}
	for _, s := range t.Subnets {
		o, bad := subnetClaim(p.in.Catalog, s)
		if found.Add(bad...); !bad.Failed() && p.in.Selected(s.File()) {
			subnets = append(subnets, o)
		}
	}
	var drafts, beside []*draft
	for _, c := range t.Clusters {
		if t.broken[c.Name] { // without its record nothing true can be said of it; the record is found
			continue
		}
		d, bad := p.draft(t, c)
		found.Add(bad...)
		if d == nil {
			continue
		}
		d.composed = d.compose()
		d.cluster = d.composed
		d.inPool(p.in.Catalog)
		if d.address != "" {
			p.held = append(p.held, holding{pool: d.pool(), namespace: c.Namespace, address: d.address})
		}
		if p.in.wants(c) {
			d.rules(p.in.Catalog, t)
			p.write(d)
			drafts = append(drafts, d)
			found.Add(p.unconfirmed(c.Spec.Tier)...)
		} else {
			beside = append(beside, d)
			if !d.found.Failed() { // not asked for, and nothing wrong that would make what it holds doubtful
				continue
			}
		}
		found.Add(d.found...)
	}
	if slices.ContainsFunc(t.Subnets, func(s *request.Subnet) bool { return p.in.Selected(s.File()) }) {
		found.Add(t.overlapping(p.in.Catalog, p.in.base)...)
		found.Add(p.in.base.moved(t)...)
	}
	if len(drafts) > 0 && !t.terms.Quota.None() {
		p.beside = append(p.beside, beside...)
	}
	found.Add(colliding(append(slices.Clone(drafts), beside...))...)
	found.Add(p.overlaid(t, subnets, drafts, found.Failed())...)
	p.found.Add(found...)
	return subnets, drafts
}

// draft pairs a request with its tier, class and record. It is nil when there is nothing to compose; the reason is found, there or by
// the builder. What is found of a draft is with it.
func (p *part) draft(t *Tenant, c *request.Cluster) (*draft, diag.List) {
	d := &draft{request: c, catalog: p.in.Catalog, tenant: t, record: t.Records[c.Name], lockOf: p.lock, judged: p.judged, base: p.in.base}
	if p.probing {
		d.lockOf = nil
	}
	d.offeredVersion(p.in.Catalog)
	tier, ok := p.in.Catalog.Tiers[c.Spec.Tier]
	if !ok {
		f := diag.Errorf(c.At("spec", "tier"), "tier/unknown", "unknown tier %q%s", c.Spec.Tier, diag.OneOf(catalog.Sorted(p.in.Catalog.Tiers)))
		if near := diag.Nearest(c.Spec.Tier, catalog.Sorted(p.in.Catalog.Tiers)); near != "" {
			f = f.Hintf("did you mean %q?", near)
		}
		return nil, append(d.found, f)
	}
	d.tier, d.source = tier, p.in.Catalog.Classes[tier.From]
	d.offeredTier(p.in.Catalog)
	if tier.Chart != "" {
		if d.chart = p.tierChart(c.Spec.Tier); d.chart == nil {
			return nil, d.found
		}
		d.source = catalog.ClassSource{Fields: d.chart.Fields()}
		d.dressChart()
		return d, nil
	}
	class := p.tierClass(c.Spec.Tier)
	p.offeredClass(d)
	if class == nil {
		return nil, d.found
	}
	d.class = p.dress(class, d)
	return d, nil
}

// dress gives a cluster's class the defaults that the ledger has recorded for it.
func (p *part) dress(class *topology.Class, d *draft) *topology.Class {
	if d.record == nil {
		return class
	}
	if d.record.Class != class.Key().String() {
		d.found.Add(diag.Warnf(d.record.At("spec", "class"), "ledger/unrecorded-default", "the defaults recorded for %s are those of class %q, not %s: today's are used", d.request, d.record.Class, class.Key()))
		return class
	}
	with, fresh, gone := p.withDefaults(class, d.record.Defaults)
	for _, place := range fresh {
		d.found.Add(diag.Warnf(d.record.At("spec", "defaults"), "ledger/unrecorded-default", "the default of %s is new in class %s and not recorded for %s: today's is used", place, class.Key(), d.request))
	}
	for _, place := range gone {
		d.found.Add(diag.Warnf(d.record.At("spec", "defaults", place), "ledger/stale-default", "class %s no longer has %s: its recorded default is dropped", class.Key(), place))
	}
	return with
}

// admit runs Cluster API's admission on each Cluster, those of one class together and several classes at a time; the answers keep
// their order.
func (p *part) admit(drafts []*draft, keep func(*manifest.Object) *manifest.Object) {
	byClass := map[*topology.Class][]*draft{}
	var order []*topology.Class
	for _, d := range drafts {
		if d.chart != nil {
			continue
		}
		if byClass[d.class] == nil {
			order = append(order, d.class)
		}
		byClass[d.class] = append(byClass[d.class], d)
	}
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, class := range order {
		for some := range slices.Chunk(byClass[class], partSize) {
			limit <- struct{}{}
			wg.Go(func() {
				defer func() { <-limit }()
				batch := make([]*manifest.Object, 0, len(some))
				for _, d := range some {
					batch = append(batch, d.cluster)
				}
				for i, a := range class.AdmitAll(batch) {
					a = p.allow(some[i], some[i].cluster, a)
					some[i].answer(a, p.in.Catalog)
					if o := some[i].admitted; o != nil {
						sortVariables(o)
						p.hash(some[i])
						some[i].sayNarrowed()
						some[i].admitted = keep(o)
					}
				}
			})
		}
	}
	wg.Wait()
	p.finishAll(drafts, keep)
}

// answer takes over what Cluster API says of a Cluster.
func (d *draft) answer(a topology.Admission, c *catalog.Catalog) {
	if len(a.Problems) > 0 && d.composed != d.cluster {
		if _, own, err := d.class.Admit(d.composed); err == nil && len(own) == 0 {
			d.refused = d.blameOverlays(a.Problems, c)
			return
		}
	}
	d.refused = d.notSaid(d.explain(a.Problems))
	d.err = a.Err
	if a.Cluster != nil {
		d.refused.Add(d.addressesKept(a.Cluster)...)
		d.admitted = a.Cluster
	}
}

// notSaid leaves out what was said of the same place before, in our own words.
func (d *draft) notSaid(found diag.List) diag.List {
	return slices.DeleteFunc(found, func(f diag.Finding) bool {
		return slices.ContainsFunc(d.found, func(known diag.Finding) bool { return known.Pos == f.Pos && known.Severity == diag.Error })
	})
}

// blameOverlays says what Cluster API refuses of a cluster that was right before overlays changed it.
func (d *draft) blameOverlays(problems []topology.Problem, c *catalog.Catalog) diag.List {
	var found diag.List
	for _, f := range d.explain(problems) {
		found.Add(diag.Errorf(c.At("overlays"), "overlay/refused", "what overlays make of %s is refused: %s", d.request, f.Message))
	}
	return found
}
