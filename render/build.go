package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/semver"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// builder holds what is worked out once for many clusters.
type builder struct {
	in       *Input
	tree     fs.FS
	found    diag.List
	err      error
	sources  map[string]classSource
	classes  map[classKey]*topology.Class // nil when it cannot be used
	tiers    map[string]*topology.Class   // by tier, with the tier's defaults; nil when it cannot be used
	dressed  map[dressKey]*dressing
	overlays map[string]*loadedOverlay

	placeholders map[string]diag.List // by tier: kinds in its class that nobody has confirmed
	withdrawn    map[catalogClass]bool
}

type classKey struct {
	from string
	topology.Key
}

func newBuilder(tree fs.FS, in *Input) *builder {
	return &builder{in: in, tree: tree, sources: map[string]classSource{}, classes: map[classKey]*topology.Class{}, tiers: map[string]*topology.Class{}, dressed: map[dressKey]*dressing{}, overlays: map[string]*loadedOverlay{}, placeholders: map[string]diag.List{}, withdrawn: map[catalogClass]bool{}}
}

// Build makes the manifests of what was asked for when the input was loaded. When the list has an error, the set is empty: a part
// of a fleet must never be taken for the whole.
func Build(tree fs.FS, in *Input) (manifest.Set, diag.List, error) {
	b := newBuilder(tree, in)
	if v := in.Catalog.ClusterAPI; semver.MajorMinor(v) != semver.MajorMinor(topology.Version) {
		b.found.Add(diag.Warnf(in.Catalog.At("clusterAPI"), "catalog/cluster-api", "the catalog speaks for Cluster API %s, but the engine in copyhold is %s", v, topology.Version).
			Hintf("use the copyhold release whose engine is of the same minor"))
	}
	var objects []*manifest.Object
	var held []holding
	for _, t := range in.Tenants {
		made, has := b.tenant(t)
		objects = append(objects, made...)
		held = append(held, has...)
	}
	b.found.Add(doubled(b.in, held)...)
	if in.Complete {
		b.idleOverlays()
	}
	if in.Platform {
		for _, name := range catalog.Sorted(in.Catalog.Tiers) { // a tier that nobody uses yet must not fail the first who does
			b.tierClass(name)
		}
		b.lintClasses()
		objects = append(objects, addressManifests(in.Catalog, held)...)
		objects = append(objects, b.classObjects()...)
	}
	if b.err != nil || b.found.Failed() {
		return manifest.Set{}, b.found, b.err
	}
	if err := complete(in, objects); err != nil {
		return manifest.Set{}, b.found, err
	}
	s, err := manifest.New(objects...)
	if err != nil {
		b.found.Add(diag.Errorf(diag.Pos{File: in.Folders.Catalog}, "render/duplicate", "%v", err))
	}
	return s, b.found, nil
}

// complete is the last guard against a cluster that is dropped without a word: whoever applies what is left prunes it.
func complete(in *Input, objects []*manifest.Object) error {
	rendered := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() == "Cluster" {
			rendered[o.GetNamespace()+"/"+o.GetName()] = true
		}
	}
	for _, t := range in.Tenants {
		for _, c := range t.Clusters {
			if in.Selected(c.File()) && !rendered[c.String()] && !t.broken[c.Name] {
				return fmt.Errorf("cluster %s was asked for and not rendered, and nothing says why: this is a fault of copyhold", c)
			}
		}
	}
	return nil
}

// tenant renders one folder: what is selected of it, and the addresses that all of it holds.
func (b *builder) tenant(t *Tenant) ([]*manifest.Object, []holding) {
	var subnets []*manifest.Object
	if claim := b.in.Catalog.SubnetClaim; claim.Placeholder && len(t.Subnets) > 0 {
		b.found.Add(diag.Warnf(b.in.Catalog.At("subnetClaim"), "catalog/placeholder", "%s %s is a placeholder: nobody has confirmed it", claim.APIVersion, claim.Kind).
			Hintf("look it up with kubectl api-resources, enter it here and remove placeholder"))
	}
	for _, s := range t.Subnets {
		o, bad := subnetClaim(b.in.Catalog, s)
		if b.found.Add(bad...); !bad.Failed() && b.in.Selected(s.File()) {
			subnets = append(subnets, o)
		}
	}
	var drafts []*draft
	var clusters []*manifest.Object
	var held []holding
	for _, c := range t.Clusters {
		if t.broken[c.Name] { // without its record nothing true can be said of it; the record is found
			continue
		}
		d, ok := b.draft(t, c)
		if !ok {
			continue
		}
		o := d.compose()
		d.inPool(b.in.Catalog)
		if d.address != "" {
			held = append(held, holding{pool: d.pool(), namespace: c.Namespace, address: d.address})
		}
		if b.in.Selected(c.File()) {
			drafts, clusters = append(drafts, d), append(clusters, o)
			b.found.Add(b.placeholders[c.Spec.Tier]...)
		} else if !d.found.Failed() { // not asked for, and nothing wrong that would make what it holds doubtful
			continue
		}
		b.found.Add(d.found...)
	}
	return b.overlaid(t, subnets, drafts, clusters), held
}

// draft pairs a request with its tier, class and record. It is not ok when there is nothing to compose; the reason is found.
func (b *builder) draft(t *Tenant, c *request.Cluster) (*draft, bool) {
	d := &draft{request: c, record: t.Records[c.Name], lockOf: b.lock}
	d.offeredVersion(b.in.Catalog)
	tier, ok := b.in.Catalog.Tiers[c.Spec.Tier]
	if !ok {
		f := diag.Errorf(c.At("spec", "tier"), "tier/unknown", "unknown tier %q%s", c.Spec.Tier, diag.OneOf(catalog.Sorted(b.in.Catalog.Tiers)))
		if near := diag.Nearest(c.Spec.Tier, catalog.Sorted(b.in.Catalog.Tiers)); near != "" {
			f = f.Hintf("did you mean %q?", near)
		}
		b.found.Add(append(d.found, f)...)
		return nil, false
	}
	d.tier, d.source = tier, b.in.Catalog.Classes[tier.From]
	d.offeredTier(b.in.Catalog)
	class := b.offeredStorage(d, b.tierClass(c.Spec.Tier))
	b.offeredClass(d)
	if class == nil {
		b.found.Add(d.found...)
		return nil, false
	}
	d.class = b.dress(class, d)
	return d, true
}

// lock reads an address's lock. One that cannot be read is for check to find.
func (b *builder) lock(pool string, a netip.Addr) *ledger.Lock {
	name := path.Join(b.in.Folders.Ledger, "addresses", pool, ledger.FileName(a))
	data, err := fs.ReadFile(b.tree, name)
	if err != nil {
		return nil
	}
	k, found := ledger.ParseLock(name, data)
	if found.Failed() {
		return nil
	}
	return k
}

// offeredTier and offeredVersion are rules for who may come in. They bind a cluster that is not in the ledger; for one that is, they
// only warn: a tier switched off or a version retired must not break the tenants that run there.
func (d *draft) offeredTier(c *catalog.Catalog) {
	if !d.tier.On() {
		d.found.Add(d.admission(d.request.At("spec", "tier"), "tier/disabled", "tier %q is switched off%s", d.request.Spec.Tier, diag.OneOf(enabled(c))))
	}
}

func (d *draft) offeredVersion(c *catalog.Catalog) {
	if v := d.request.Spec.Version; !slices.Contains(c.Versions, v) {
		d.found.Add(d.admission(d.request.At("spec", "version"), "version/no-image", "version %s has no worker image: workers would never join%s", v, diag.OneOf(c.Versions)))
	}
}

// admission makes a finding that is an error for a cluster that is new, and a warning for one that the ledger knows.
func (d *draft) admission(at diag.Pos, name, format string, args ...any) diag.Finding {
	if d.record != nil {
		return diag.Warnf(at, name, format, args...)
	}
	return diag.Errorf(at, name, format, args...)
}

func enabled(c *catalog.Catalog) []string {
	var out []string
	for _, name := range catalog.Sorted(c.Tiers) {
		if c.Tiers[name].On() {
			out = append(out, name)
		}
	}
	return out
}

// source are the objects of a class source, worked out once. It is not ok when it cannot be used; the reason is found.
func (b *builder) source(key string) ([]*manifest.Object, bool) {
	if s, done := b.sources[key]; done {
		return s.objects, s.ok
	}
	objects, bad, err := b.in.Catalog.ClassObjects(key)
	b.found.Add(bad...)
	b.err = errors.Join(b.err, err)
	b.sources[key] = classSource{objects, err == nil && !bad.Failed()}
	return objects, b.sources[key].ok
}

type classSource struct {
	objects []*manifest.Object
	ok      bool
}

// tierClass is the ClusterClass of a tier with the tier's defaults, worked out once.
func (b *builder) tierClass(name string) *topology.Class {
	if c, done := b.tiers[name]; done {
		return c
	}
	t := b.in.Catalog.Tiers[name]
	class := b.class(t.From, t.Class, b.in.Catalog.At("tiers", name, "class"))
	if class != nil && t.WorkerClass != "" && !slices.Contains(class.WorkerClasses(), t.WorkerClass) {
		b.found.Add(diag.Errorf(b.in.Catalog.At("tiers", name, "workerClass"), "catalog/unknown-worker-class", "worker class %q%s", t.WorkerClass, diag.OneOf(class.WorkerClasses())))
		class = nil
	}
	if class != nil && len(t.Defaults) > 0 {
		class = b.tierDefaults(name, class)
	}
	b.tiers[name] = class
	b.placeholders[name] = b.in.Catalog.Placeholders(t.From, t.Class, b.sources[t.From].objects)
	return class
}

// tierDefaults puts a tier's defaults over those of its class. An address is never a default: it would be everybody's.
func (b *builder) tierDefaults(name string, class *topology.Class) *topology.Class {
	t := b.in.Catalog.Tiers[name]
	at := func(place string) diag.Pos { return b.in.Catalog.At("tiers", name, "defaults", place) }
	with, _, gone := class.WithDefaults(topology.Defaults(t.Defaults))
	var bad diag.List
	for _, place := range gone {
		bad.Add(diag.Errorf(at(place), "catalog/unknown-variable", "class %q has no variable %q", t.Class, place))
	}
	for _, field := range []string{"address", "serverAddress"} {
		place := strings.Join(b.in.Catalog.Classes[t.From].Variable(field), ".")
		if _, ok := t.Defaults[place]; ok {
			bad.Add(diag.Errorf(at(place), "catalog/address-default", "tier %q makes an address the default of %s", name, place).Hintf("addresses are kept in the ledger"))
		}
	}
	for _, p := range with.Validate() {
		bad.Add(diag.Errorf(b.in.Catalog.At("tiers", name, "defaults"), "class/refused", "Cluster API refuses class %q with the defaults of tier %q: %s: %s", t.Class, name, p.Field, shorten(p.Detail)))
	}
	if b.found.Add(bad...); bad.Failed() {
		return nil
	}
	return with
}

// class is a ClusterClass as Cluster API has accepted it, worked out once.
func (b *builder) class(from, name string, at diag.Pos) *topology.Class {
	key := topology.Key{Namespace: b.in.Catalog.Classes[from].Namespace, Name: name}
	cached := classKey{from, key}
	if c, done := b.classes[cached]; done {
		return c
	}
	b.classes[cached] = nil
	objects, ok := b.source(from)
	if !ok {
		return nil
	}
	var there []string
	for _, o := range objects {
		if topology.IsClass(o) && o.GetNamespace() == key.Namespace {
			there = append(there, o.GetName())
		}
	}
	if !slices.Contains(there, name) {
		objects = b.withdrawnObjects(from, name)
	}
	if objects == nil {
		b.found.Add(diag.Errorf(at, "class/missing", "class source %q has no ClusterClass %s%s", from, key, diag.OneOf(there)))
		return nil
	}
	class, problems, err := topology.NewClass(objects, key)
	b.err = errors.Join(b.err, err)
	for _, p := range problems {
		where := ""
		if p.Field != "" {
			where = p.Field + ": "
		}
		b.found.Add(diag.Errorf(at, "class/refused", "Cluster API refuses ClusterClass %s: %s%s", key, where, p.Detail))
	}
	b.classes[cached] = class
	return class
}

// dress gives a cluster's class the defaults that the ledger has recorded for it.
func (b *builder) dress(class *topology.Class, d *draft) *topology.Class {
	if d.record == nil {
		return class
	}
	if d.record.Class != class.Key().String() {
		d.found.Add(diag.Warnf(d.record.At("spec", "class"), "ledger/unrecorded-default", "the defaults recorded for %s are those of class %q, not %s: today's are used", d.request, d.record.Class, class.Key()))
		return class
	}
	with, fresh, gone := b.withDefaults(class, d.record.Defaults)
	for _, place := range fresh {
		d.found.Add(diag.Warnf(d.record.At("spec", "defaults"), "ledger/unrecorded-default", "the default of %s is new in class %s and not recorded for %s: today's is used", place, class.Key(), d.request))
	}
	for _, place := range gone {
		d.found.Add(diag.Warnf(d.record.At("spec", "defaults", place), "ledger/stale-default", "class %s no longer has %s: its recorded default is dropped", class.Key(), place))
	}
	return with
}

type dressKey struct {
	class    *topology.Class
	defaults string
}

type dressing struct {
	class       *topology.Class
	fresh, gone []string
}

// withDefaults shares one class among the clusters that have the same defaults recorded, and so what it remembers.
func (b *builder) withDefaults(class *topology.Class, defaults map[string]any) (*topology.Class, []string, []string) {
	text, err := json.Marshal(defaults)
	if err != nil {
		panic(err) // they were read from YAML
	}
	key := dressKey{class, string(text)}
	if b.dressed[key] == nil {
		with, fresh, gone := class.WithDefaults(topology.Defaults(defaults))
		b.dressed[key] = &dressing{with, fresh, gone}
	}
	x := b.dressed[key]
	return x.class, x.fresh, x.gone
}

// admit runs Cluster API's admission on each Cluster, those of one class together and several classes at a time; the answers keep
// their order.
func (b *builder) admit(drafts []*draft, composed, clusters []*manifest.Object) []*manifest.Object {
	byClass := map[*topology.Class][]int{}
	var order []*topology.Class
	for i, d := range drafts {
		if byClass[d.class] == nil {
			order = append(order, d.class)
		}
		byClass[d.class] = append(byClass[d.class], i)
	}
	answers := make([]topology.Admission, len(clusters))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, class := range order {
		for part := range slices.Chunk(byClass[class], admitAtOnce) {
			limit <- struct{}{}
			wg.Go(func() {
				defer func() { <-limit }()
				batch := make([]*manifest.Object, 0, len(part))
				for _, i := range part {
					batch = append(batch, clusters[i])
				}
				for n, a := range class.AdmitAll(batch) {
					answers[part[n]] = a
				}
			})
		}
	}
	wg.Wait()
	var out []*manifest.Object
	for i, a := range answers {
		d := drafts[i]
		if len(a.Problems) > 0 && composed[i] != clusters[i] {
			if _, own, err := d.class.Admit(composed[i]); err == nil && len(own) == 0 {
				b.found.Add(b.blameOverlays(d, a.Problems)...)
				continue
			}
		}
		b.found.Add(slices.DeleteFunc(d.explain(a.Problems), func(f diag.Finding) bool { // said before, in our own words
			return slices.ContainsFunc(d.found, func(known diag.Finding) bool { return known.Pos == f.Pos && known.Severity == diag.Error })
		})...)
		b.err = errors.Join(b.err, a.Err)
		if a.Cluster != nil {
			b.found.Add(d.addressesKept(a.Cluster)...)
			out = append(out, a.Cluster)
		}
	}
	return out
}

// blameOverlays says what Cluster API refuses of a cluster that was right before overlays changed it.
func (b *builder) blameOverlays(d *draft, problems []topology.Problem) diag.List {
	var found diag.List
	for _, f := range d.explain(problems) {
		found.Add(diag.Errorf(b.in.Catalog.At("overlays"), "overlay/refused", "what overlays make of %s is refused: %s", d.request, f.Message))
	}
	return found
}

// admitAtOnce is how many Clusters one goroutine takes on before it asks for more.
const admitAtOnce = 100

// doubled finds an address that two clusters hold. It is the worst a repository can say, so it is looked for wherever two
// clusters are in sight at once.
func doubled(in *Input, held []holding) diag.List {
	var found diag.List
	count := map[string]int{}
	for _, h := range held {
		count[h.address]++
	}
	for _, address := range slices.Sorted(maps.Keys(count)) {
		if count[address] < 2 {
			continue
		}
		var holders []string
		for _, t := range in.Tenants {
			for _, c := range t.Clusters {
				if c.Spec.Address == address || t.Records[c.Name] != nil && t.Records[c.Name].Address == address {
					holders = append(holders, c.String())
				}
			}
		}
		for _, t := range in.Tenants {
			for _, c := range t.Clusters {
				if slices.Contains(holders, c.String()) {
					found.Add(diag.Errorf(c.At("spec", "address"), "ledger/duplicate", "address %s is held by more than one cluster: %s", address, joined(holders)).
						Hintf("the one that came later must give it up"))
				}
			}
		}
	}
	return found
}

// Class is the ClusterClass behind a tier, with the tier's defaults.
func Class(tree fs.FS, in *Input, tier string) (*topology.Class, diag.List, error) {
	b := newBuilder(tree, in)
	class := b.tierClass(tier)
	return class, b.found, b.err
}
