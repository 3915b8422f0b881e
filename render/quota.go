package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// usage is what a cluster takes of its tenant's quota, with each worker pool at its autoscaler's maximum.
type usage struct {
	workers     int64
	cpu, memory resource.Quantity // of the machines whose size is known
	unknown     []string          // worker pools of which it is not
}

// machine is what rules ask of a worker pool's machines.
type machine struct {
	image       string // Kubernetes version of the image it boots; "" when nothing says
	cpu, memory *resource.Quantity
}

// machine reads a worker pool's machine off its template as Cluster API would make it, once for all clusters that share the pool.
func (b *builder) machine(p *topology.Pool) machine {
	if m, done := b.machines.Load(p); done {
		return m.(machine)
	}
	m := machine{image: p.ImageVersion()}
	m.cpu, m.memory = p.Machine()
	b.machines.Store(p, m)
	return m
}

// takes works out a cluster's usage. What a machine takes is read off its template, or else off the catalog's sizes. pools may be nil.
func (b *builder) takes(d *draft, pools map[string]*topology.Pool) usage {
	var out usage
	for _, name := range d.pools {
		n := machines(d.workers()[name])
		out.workers += n
		var cpu, memory *resource.Quantity
		if p := pools[name]; p != nil {
			m := b.machine(p)
			cpu, memory = m.cpu, m.memory
		}
		size, _ := d.size(name)
		table := b.in.Catalog.MachineSizes[size]
		cpu, memory = orTable(cpu, table.CPU), orTable(memory, table.Memory)
		if n > 0 && (cpu == nil || memory == nil) {
			out.unknown = append(out.unknown, name)
		}
		addTimes(&out.cpu, cpu, n)
		addTimes(&out.memory, memory, n)
	}
	return out
}

// machines is how many machines a worker pool may have.
func machines(p request.Pool) int64 {
	switch {
	case p.Max != nil:
		return int64(*p.Max)
	case p.Replicas != nil:
		return int64(*p.Replicas)
	}
	return 1
}

func orTable(q *resource.Quantity, table any) *resource.Quantity {
	if q != nil {
		return q
	}
	t, err := catalog.Quantity(table)
	if err != nil { // found when the catalog is loaded
		return nil
	}
	return t
}

func addTimes(sum, q *resource.Quantity, n int64) {
	if q == nil {
		return
	}
	x := q.DeepCopy()
	x.Mul(n)
	if sum.IsZero() {
		sum.Format = x.Format
	}
	sum.Add(x)
}

// weigh works out what a cluster takes that is not rendered, and whether its machines boot what it asks for.
func (p *part) weigh(d *draft) {
	var pools map[string]*topology.Pool
	if d.chart != nil {
		p.weighWritten(d)
		return
	}
	alike := &manifest.Object{Object: maps.Clone(d.composed.Object)} // Cluster API's answers are kept by content: clusters that differ in name share one
	alike.Object["metadata"] = map[string]any{"namespace": "x", "name": "x"}
	o, problems, err := d.class.Admit(alike)
	if a := p.allow(d, alike, topology.Admission{Cluster: o, Problems: problems, Err: err}); len(problems) > 0 && len(a.Problems) == 0 {
		o, problems = a.Cluster, nil
	}
	if d.planned && d.record == nil {
		d.refused = d.notSaid(d.explain(slices.DeleteFunc(slices.Clone(problems), d.comes)))
	}
	if err == nil && len(problems) == 0 {
		if known, problems, err := d.class.Pools(o); err == nil && len(problems) == 0 { // what is wrong is found when it is rendered
			pools = known
			p.images(d, pools)
		}
	}
	d.usage = p.takes(d, pools)
}

// comes reports whether a problem is that a cluster has no address, which the ledger is about to give it.
func (d *draft) comes(p topology.Problem) bool {
	where := strings.Join(variablePath(splitField(p.Field)), ".")
	if m := requiredVar.FindStringSubmatch(shorten(p.Detail)); m != nil {
		where = m[1]
	}
	required := where != "" && (p.Type == "FieldValueRequired" || requiredVar.MatchString(shorten(p.Detail)))
	return required && slices.ContainsFunc([]string{"address", "serverAddress"}, func(field string) bool {
		path := strings.Join(d.source.Variable(field), ".")
		return path == where || strings.HasPrefix(path, where+".")
	})
}

// resources of a quota.
var resources = []struct {
	field, unit string
	limit       func(catalog.Quota) *resource.Quantity
	of          func(usage) resource.Quantity
}{
	{"clusters", "clusters", func(q catalog.Quota) *resource.Quantity { return whole(q.Clusters) }, func(usage) resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }},
	{"workers", "workers", func(q catalog.Quota) *resource.Quantity { return whole(q.Workers) }, func(u usage) resource.Quantity { return *resource.NewQuantity(u.workers, resource.DecimalSI) }},
	{"cpu", "CPU", func(q catalog.Quota) *resource.Quantity { return orTable(nil, q.CPU) }, func(u usage) resource.Quantity { return u.cpu }},
	{"memory", "of memory", func(q catalog.Quota) *resource.Quantity { return orTable(nil, q.Memory) }, func(u usage) resource.Quantity { return u.memory }},
}

func whole(n *int64) *resource.Quantity {
	if n == nil {
		return nil
	}
	return resource.NewQuantity(*n, resource.DecimalSI)
}

// quotas holds what the clusters of each tenant take together against the tenant's quota. What is found is with the clusters.
func (p *part) quotas(drafts []*draft) {
	byTenant := map[string][]*draft{}
	for _, d := range drafts {
		if ns := d.request.Namespace; !d.tenant.terms.Quota.None() {
			byTenant[ns] = append(byTenant[ns], d)
		}
	}
	for _, ns := range catalog.Sorted(byTenant) {
		p.quota(ns, byTenant[ns])
	}
}

// quota goes through a tenant's clusters, those first that are there already, then those that take more than they did, then those that are
// new, each by name; so it is always the same one that is the last straw. Those that are there are let be.
func (p *part) quota(namespace string, drafts []*draft) {
	terms := drafts[0].tenant.terms
	for _, d := range drafts {
		if d.admitted == nil && d.usage.workers == 0 { // Cluster API refuses it; it counts as far as the catalog's sizes know
			d.usage = p.takes(d, nil)
		}
	}
	for _, r := range resources {
		limit := r.limit(terms.Quota)
		if limit == nil {
			continue
		}
		rank := map[*draft]int{}
		for _, d := range drafts {
			rank[d] = p.rank(d, r.of)
		}
		slices.SortStableFunc(drafts, func(a, b *draft) int {
			if rank[a] != rank[b] {
				return rank[a] - rank[b]
			}
			return strings.Compare(a.request.Name, b.request.Name)
		})
		var sum resource.Quantity
		var straw *draft // the first running cluster beyond the quota
		var running resource.Quantity
		for _, d := range drafts {
			takes := r.of(d.usage)
			if sum.IsZero() {
				sum.Format = takes.Format
			}
			sum.Add(takes)
			switch over := sum.Cmp(*limit) > 0; {
			case rank[d] == runs && over && straw == nil:
				straw = d
			case rank[d] != runs && over && !takes.IsZero():
				d.refused.Add(p.exceeds(d, r.field, r.unit, takes, sum, *limit, rank[d] == grows))
			}
			if rank[d] == runs {
				running = sum.DeepCopy()
			}
		}
		if straw != nil {
			at, entry := p.in.Catalog.TenantAt(namespace, "quota", r.field)
			p.found.Add(diag.Warnf(at, "quota/exceeded", "what runs in %s comes to %s, %s more than its quota of %s: it goes on, and nothing new comes in; %s is the first beyond it",
				namespace, amount(running, r.unit), less(running, *limit), limit.String(), straw.request).
				Hintf("raise %s.quota.%s, or have the tenant give something up", entry, r.field))
		}
		p.uncounted(drafts, r.field)
	}
}

func less(a, b resource.Quantity) string {
	a.Sub(b)
	return inUnits(a)
}

// inUnits is a quantity as text. What is no round figure, as when Gi and G are added up, is given to a tenth.
func inUnits(q resource.Quantity) string {
	text := q.String()
	if n := len(text); n < 8 || text[n-1] < '0' || text[n-1] > '9' {
		return text
	}
	const gi = 1 << 30
	return fmt.Sprintf("%.1fGi", float64(q.Value())/gi)
}

// amount is a quantity in words.
func amount(q resource.Quantity, unit string) string {
	if text := inUnits(q); text != "1" {
		return text + " " + unit
	}
	return "1 " + strings.TrimSuffix(unit, "s")
}

// exceeds says that a cluster takes more than is left.
func (p *part) exceeds(d *draft, field, unit string, takes, sum, limit resource.Quantity, grows bool) diag.Finding {
	at := d.request.At("metadata", "name")
	if field != "clusters" && d.request.Has("spec", "workers") {
		at = d.request.KeyAt("spec", "workers")
	}
	what, way := fmt.Sprintf("%s takes %s", d.request, amount(takes, unit)), "make it smaller, give up another"
	switch {
	case field == "clusters":
		what, way = fmt.Sprintf("%s is one more cluster", d.request), "give up another"
	case grows:
		what += ", more than it did"
	}
	place, entry := p.in.Catalog.TenantAt(d.request.Namespace, "quota", field)
	return diag.Errorf(at, "quota/exceeded", "%s: with it %s comes to %s, %s more than its quota of %s", what, d.request.Namespace, amount(sum, unit), less(sum, limit), limit.String()).
		Hintf("%s, or ask the platform team to raise %s.quota.%s in %s", way, entry, field, place.File)
}

// uncounted finds worker pools of which nobody knows what their machines take, where a quota is on that.
func (p *part) uncounted(drafts []*draft, field string) {
	if field != "cpu" && field != "memory" {
		return
	}
	for _, d := range drafts {
		if d.refused.Failed() { // put right, it may well be told
			continue
		}
		for _, pool := range d.usage.unknown {
			size, _ := d.size(pool)
			d.refused.Add(diag.Warnf(d.request.KeyAt("spec", "workers", pool), "quota/not-counted", "nobody can tell from here what a machine of worker pool %q of %s takes: it does not count towards the quota of %s", pool, d.request, d.request.Namespace).
				Hintf("the platform team can enter size %q under machineSizes in the catalog", size))
		}
	}
}

// How a cluster stands to a quota.
const (
	runs  = iota // it is there already
	grows        // the change that is looked at makes it take more
	comes        // it is new
)

// rank says how a cluster stands to a quota.
func (p *part) rank(d *draft, of func(usage) resource.Quantity) int {
	if d.isNew() {
		return comes
	}
	was := d.base.of(d.request)
	if was == nil {
		return comes
	}
	if was == d.request {
		return runs
	}
	before, now := of(p.usageOf(d, was)), of(d.usage)
	if now.Cmp(before) > 0 {
		return grows
	}
	return runs
}

// usageOf is what a cluster would take with another request, everything else being as it is.
func (p *part) usageOf(d *draft, c *request.Cluster) usage {
	x, _ := p.draft(d.tenant, c)
	if x == nil {
		return usage{}
	}
	x.composed = x.compose()
	p.weigh(x)
	return x.usage
}
