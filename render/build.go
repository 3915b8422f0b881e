package render

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"sync"

	"golang.org/x/mod/semver"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// builder holds what is worked out once for many clusters.
type builder struct {
	in   *Input
	tree fs.FS

	mu       sync.Mutex // of all that follows
	found    diag.List  // in what is worked out once
	err      error
	sources  map[string]classSource
	classes  map[classKey]*topology.Class // nil when it cannot be used
	tiers    map[string]*topology.Class   // by tier, with the tier's defaults; nil when it cannot be used
	dressed  map[dressKey]*dressing
	overlays map[string]*loadedOverlay
	schemas  *topology.Schemas
	judged   bool // the whole ledger is judged elsewhere
	probing  bool // clusters are made up, and their addresses with them

	opened map[dressKey]*topology.Class // classes that take what they have taken back

	machines sync.Map // *topology.Pool -> machine
	planning bool     // the ledger is about to take in who is new
	lean     bool     // of a cluster only what a gate compares is kept

	charts       map[string]*catalog.TierChart // by tier; nil when it cannot be used
	placeholders map[string]diag.List          // by tier: kinds in its class that nobody has confirmed
	withdrawn    map[catalogClass]bool
}

type classKey struct {
	from string
	topology.Key
}

func newBuilder(tree fs.FS, in *Input) *builder {
	return &builder{in: in, tree: tree, sources: map[string]classSource{}, classes: map[classKey]*topology.Class{}, tiers: map[string]*topology.Class{}, dressed: map[dressKey]*dressing{}, overlays: map[string]*loadedOverlay{}, schemas: topology.NewSchemas(in.Catalog.Schema), charts: map[string]*catalog.TierChart{}, placeholders: map[string]diag.List{}, withdrawn: map[catalogClass]bool{}, opened: map[dressKey]*topology.Class{}}
}

// Build makes the manifests of what was asked for when the input was loaded. When the list has an error, the set is empty: a part
// of a fleet must never be taken for the whole.
func Build(tree fs.FS, in *Input) (manifest.Set, diag.List, error) {
	return newBuilder(tree, in).build(func(o *manifest.Object) *manifest.Object { return o })
}

// build is Build, of which only what keep makes of each object is kept.
func (b *builder) build(keep func(*manifest.Object) *manifest.Object) (manifest.Set, diag.List, error) {
	objects, drafts, found, err := b.objects(keep)
	if err != nil || found.Failed() {
		return manifest.Set{}, found, err
	}
	if !b.judged { // who judges the ledger keeps no manifests
		hooks, err := b.gates(drafts)
		if err != nil {
			return manifest.Set{}, found, err
		}
		objects = append(objects, hooks...)
	}
	if err := complete(b.in, objects); err != nil {
		return manifest.Set{}, found, err
	}
	s, err := manifest.New(objects...)
	if err != nil {
		found.Add(diag.Errorf(diag.Pos{File: b.in.Folders.Catalog}, "render/duplicate", "%v", err))
	}
	return s, found, nil
}

// objects makes all that was asked for, and the drafts of the clusters among it. What is wrong with some is found; the others are there.
func (b *builder) objects(keep func(*manifest.Object) *manifest.Object) (objects []*manifest.Object, drafts []*draft, found diag.List, err error) {
	in := b.in
	if v := in.Catalog.ClusterAPI; semver.MajorMinor(v) != semver.MajorMinor(topology.Version) {
		b.found.Add(diag.Warnf(in.Catalog.At("clusterAPI"), "catalog/cluster-api", "the catalog speaks for Cluster API %s, but the engine in copyhold is %s", v, topology.Version).
			Hintf("use the copyhold release whose engine is of the same minor"))
	}
	var held []holding
	seen := map[string][]*manifest.Object{}
	found, err = b.inParts(func(p *part) { p.build(keep) }, func(p *part) {
		objects = append(objects, p.objects...)
		drafts = append(drafts, p.drafts...)
		held = append(held, p.held...)
		for name, o := range p.seen {
			seen[name] = append(seen[name], o...)
		}
	})
	found.Add(doubled(b.in, held)...)
	found.Add(doubledPorts(drafts)...)
	if in.Complete {
		found.Add(b.idleOverlays(seen)...)
	}
	if in.Platform || in.Complete {
		found.Add(b.strayPolicies()...)
	}
	if in.Platform {
		for _, name := range catalog.Sorted(in.Catalog.Tiers) { // a tier that nobody uses yet must not fail the first who does
			if b.in.Catalog.Tiers[name].Chart != "" {
				b.tierChart(name)
				continue
			}
			b.tierClass(name)
		}
		b.lintClasses()
		objects = append(objects, b.classObjects()...)
		objects = append(objects, tenancyObjects(b.in.Catalog)...)
	}
	if in.Platform || in.addresses {
		objects = append(objects, addressManifests(in.Catalog, held)...)
	}
	found.Add(b.found...)
	return objects, drafts, found, errors.Join(b.err, err)
}

// complete is the last guard against a cluster that is dropped without a word: whoever applies what is left prunes it.
func complete(in *Input, objects []*manifest.Object) error {
	rendered := map[string]bool{}
	for _, o := range objects {
		if standsForCluster(o) {
			rendered[o.GetNamespace()+"/"+o.GetName()] = true
		}
	}
	for _, t := range in.Tenants {
		for _, c := range t.Clusters {
			if in.wants(c) && !rendered[c.String()] && !t.broken[c.Name] {
				return fmt.Errorf("cluster %s was asked for and not rendered, and nothing says why: this is a fault of copyhold", c)
			}
		}
	}
	return nil
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
		d.found.Add(d.admission([]string{"spec", "tier"}, "tier/disabled", "tier %q is switched off%s", d.request.Spec.Tier, diag.OneOf(enabled(c))))
	}
}

func (d *draft) offeredVersion(c *catalog.Catalog) {
	if v := d.request.Spec.Version; !slices.Contains(c.Versions, v) {
		d.found.Add(d.admission([]string{"spec", "version"}, "version/no-image", "version %s has no worker image: workers would never join%s", v, diag.OneOf(c.Versions)))
	}
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

// Chart is the chart behind a tier; nil when it has none, or one that cannot be used.
func Chart(tree fs.FS, in *Input, tier string) (*catalog.TierChart, diag.List, error) {
	b := newBuilder(tree, in)
	if in.Catalog.Tiers[tier].Chart == "" {
		return nil, nil, nil
	}
	chart := b.tierChart(tier)
	return chart, b.found, b.err
}

// Class is the ClusterClass behind a tier, with the tier's defaults.
func Class(tree fs.FS, in *Input, tier string) (*topology.Class, diag.List, error) {
	b := newBuilder(tree, in)
	class := b.tierClass(tier)
	return class, b.found, b.err
}
