package render

import (
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// Fleet is what a tree makes of its clusters, one by one: unlike the set that Build gives, it has those that are right when others
// are wrong. It is for comparing two trees, never for applying.
type Fleet struct {
	Input    *Input
	Clusters map[string]*Cluster // those asked for, by namespace/name
	Objects  []*manifest.Object  // everything else that was made: subnets, address manifests, classes
	Schemas  *topology.Schemas
	Found    diag.List
	tree     fs.FS
}

// Cluster is a cluster that was asked for, as far as it got.
type Cluster struct {
	Request  *request.Cluster
	Record   *ledger.Record     // nil when the ledger has none
	Class    *topology.Class    // nil when there is none to use
	Chart    *catalog.TierChart // nil when its tier has a class
	Made     *Made              // with a chart: the objects beside Manifest; nil when something is wrong with them
	Manifest *manifest.Object   // as it would be stored; nil when something is wrong with it
	Hashes   map[string]string  // rollout hash by worker pool; "" where something is unknown; nil when there is no Manifest
	Accepts  map[string]string  // what the ledger has to accept of each pool before its machines may be replaced
	Found    diag.List          // what is wrong with it
	policy   catalog.RolloutPolicy
	draft    *draft
}

// New reports whether the ledger has yet to take the cluster in.
func (c *Cluster) New() bool { return c.Record == nil || c.draft != nil && c.draft.isNew() }

// LoadFleet loads what the paths ask for and builds its clusters; no path is no tenant. Address manifests are made for the tenants that are read. The fleet has
// no clusters when the root or the catalog cannot be made sense of; Found says why.
func LoadFleet(tree fs.FS, paths []string) (*Fleet, error) { return LoadFleetSince(nil, tree, paths) }

// LoadFleetSince is LoadFleet of a tree that came from another: what a class does not take of a value that was edited in between is an
// error, as nothing runs with it.
func LoadFleetSince(base, tree fs.FS, paths []string) (*Fleet, error) {
	load := func() (*Input, diag.List, error) { return Load(tree, paths...) }
	if len(paths) == 0 {
		load = func() (*Input, diag.List, error) { return Offer(tree) }
	}
	in, found, err := load()
	if err != nil {
		return nil, err
	}
	if in == nil || in.Catalog == nil {
		return &Fleet{Input: in, Clusters: map[string]*Cluster{}, Found: found, tree: tree}, nil
	}
	if base != nil {
		in.was = sync.OnceValues(func() (*before, error) { return requestsBefore(base, tree, in.Folders) })
	}
	in.addresses = in.perTenant()
	f, err := in.Fleet(tree)
	if err != nil {
		return nil, err
	}
	f.Found = append(found, f.Found...)
	return f, nil
}

// Fleet builds the clusters of an input. Its Found is what Build would have found.
func (in *Input) Fleet(tree fs.FS) (*Fleet, error) { return newBuilder(tree, in).fleet() }

func (b *builder) fleet() (*Fleet, error) {
	in := b.in
	objects, drafts, found, err := b.objects(func(o *manifest.Object) *manifest.Object { return o })
	f := &Fleet{Input: in, Clusters: map[string]*Cluster{}, Schemas: b.schemas, Found: found, tree: b.tree}
	written := map[*manifest.Object]bool{}
	for _, d := range drafts {
		if d.written != nil {
			for _, o := range append(d.written.others, d.admitted) {
				written[o] = true
			}
		}
	}
	for _, o := range objects {
		if o.GetKind() != "Cluster" && !written[o] {
			f.Objects = append(f.Objects, o)
		}
	}
	for _, d := range drafts {
		policy, _ := in.Catalog.RolloutPolicy(d.request.Spec.Tier, d.request.Namespace)
		c := &Cluster{Request: d.request, Record: d.record, Class: d.class, Manifest: d.admitted, Hashes: d.hashes, Accepts: d.accepts, policy: policy, draft: d}
		if w := d.written; d.chart != nil {
			c.Chart = d.chart
			if w != nil {
				c.Made = &Made{Objects: w.others, Pools: w.pools}
			}
		}
		c.Found = slices.Concat(d.found, d.spoiled, d.refused)
		if slices.ContainsFunc(c.Found, spoils) {
			c.Manifest = nil
		}
		f.Clusters[d.request.String()] = c
	}
	for _, t := range in.Tenants {
		for _, c := range t.Clusters {
			if in.wants(c) && f.Clusters[c.String()] == nil {
				policy, _ := in.Catalog.RolloutPolicy(c.Spec.Tier, c.Namespace)
				f.Clusters[c.String()] = &Cluster{Request: c, Record: t.Records[c.Name], policy: policy, Found: slices.DeleteFunc(slices.Clone(found), func(x diag.Finding) bool {
					return x.Severity != diag.Error
				})}
			}
		}
	}
	return f, err
}

// Entered is the ledger's file of a cluster that is in the tree's ledger, be there a request for it or not; "" when it is not, or is
// released. A file that cannot be read speaks of a cluster too.
func (f *Fleet) Entered(of *request.Cluster) string {
	if f.tree == nil || f.Input == nil {
		return ""
	}
	r, found, err := f.Input.loadRecord(f.tree, of)
	if r == nil && len(found) == 0 && err == nil {
		return ""
	}
	return f.Input.RecordFile(of.String())
}

// Addresses are the control-plane addresses of the clusters that are rendered.
func (f *Fleet) Addresses() []netip.Addr {
	var out []netip.Addr
	for _, name := range catalog.Sorted(f.Clusters) {
		text, _ := f.Clusters[name].Fed("address").(string)
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// spoils reports whether a finding means that the Cluster is not what was asked for. The lock on rollouts keeps one back that is right.
func spoils(f diag.Finding) bool {
	return f.Severity == diag.Error && !strings.HasPrefix(f.Name, "rollout/") && f.Name != "cluster/frozen" && f.Name != "version/image-differs" && f.Name != "catalog/bad-schema" && f.Name != "ledger/no-lock" && f.Name != "ledger/disagree"
}

// hash works out the rollout hashes of a cluster that Cluster API has taken, and writes them onto it: whoever looks at any diff sees that
// line change exactly when workers will be replaced.
func (b *builder) hash(d *draft) {
	found, err := b.hashed(d)
	d.refused.Add(found...)
	d.err = errors.Join(d.err, err)
}

func (b *builder) hashed(d *draft) (diag.List, error) {
	pools, problems, err := d.class.Pools(d.admitted)
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		var found diag.List
		for _, p := range problems {
			found.Add(diag.Errorf(d.request.At("metadata", "name"), "cluster/frozen", "Cluster API takes %s and then fails every reconcile of it: %s", d.request, shorten(p.Words())).
				Hintf("the fault is in class %s or in a value that its patches do not expect", d.class.Key()))
		}
		return found, nil
	}
	b.images(d, pools)
	if !d.tenant.terms.Quota.None() {
		d.usage = b.takes(d, pools)
	}
	if d.hashes, d.accepts, err = topology.Hashes(pools, b.schemas); err != nil {
		return diag.List{diag.Errorf(diag.Pos{File: b.in.Folders.Catalog + "/crds"}, "catalog/bad-schema", "%v", err).Hintf("export it again: kubectl get crd NAME -o json")}, nil
	}
	annotations := d.admitted.GetAnnotations()
	for name, h := range d.hashes {
		if h != "" {
			annotations[topology.AnnotationPrefix+name] = h
		}
	}
	d.admitted.SetAnnotations(annotations)
	return b.locked(d), nil
}
