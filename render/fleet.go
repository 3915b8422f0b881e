package render

import (
	"errors"
	"io/fs"
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
}

// Cluster is a cluster that was asked for, as far as it got.
type Cluster struct {
	Request  *request.Cluster
	Record   *ledger.Record   // nil when the ledger has none
	Class    *topology.Class  // nil when there is none to use
	Manifest *manifest.Object // as it would be stored; nil when something is wrong with it
	Hashes   map[string]string
	Found    diag.List // what is wrong with it
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
		return &Fleet{Input: in, Clusters: map[string]*Cluster{}, Found: found}, nil
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
	f := &Fleet{Input: in, Clusters: map[string]*Cluster{}, Schemas: b.schemas, Found: found}
	for _, o := range objects {
		if o.GetKind() != "Cluster" {
			f.Objects = append(f.Objects, o)
		}
	}
	for _, d := range drafts {
		policy, _ := in.Catalog.RolloutPolicy(d.request.Spec.Tier, d.request.Namespace)
		c := &Cluster{Request: d.request, Record: d.record, Class: d.class, Manifest: d.admitted, Hashes: d.hashes, policy: policy, draft: d}
		c.Found = slices.Concat(d.found, d.spoiled, d.refused)
		if slices.ContainsFunc(c.Found, spoils) {
			c.Manifest = nil
		}
		f.Clusters[d.request.String()] = c
	}
	for _, t := range in.Tenants {
		for _, c := range t.Clusters {
			if in.wants(c) && f.Clusters[c.String()] == nil {
				f.Clusters[c.String()] = &Cluster{Request: c, Record: t.Records[c.Name], Found: slices.DeleteFunc(slices.Clone(found), func(x diag.Finding) bool {
					return x.Severity != diag.Error
				})}
			}
		}
	}
	return f, err
}

// spoils reports whether a finding means that the Cluster is not what was asked for. The lock on rollouts keeps one back that is right.
func spoils(f diag.Finding) bool {
	return f.Severity == diag.Error && !strings.HasPrefix(f.Name, "rollout/") && f.Name != "cluster/frozen" && f.Name != "version/image-differs" && f.Name != "catalog/bad-schema" && f.Name != "ledger/no-lock" && f.Name != "ledger/disagree"
}

// Written is the place in the request, or in the ledger's record, that a variable's value comes from, and the field in the tenant's own
// word. pool is the worker pool that reads it. It is not ok when the value is the class's own default.
func (c *Cluster) Written(variable, pool string) (at diag.Pos, field string, ok bool) {
	d := c.draft
	if d == nil {
		return diag.Pos{}, "", false
	}
	if _, own := d.overrides[pool][variable]; own {
		return c.Request.At("spec", "workers", pool, "size"), "workers." + pool + ".size", true
	}
	for _, path := range catalog.Sorted(d.origins) {
		if path == variable || strings.HasPrefix(path, variable+".") {
			origin := d.origins[path]
			if field, ok := d.ledgered(path); ok && origin[0] == "metadata" { // nobody wrote it: the ledger gave it
				if c.Record != nil {
					return c.Record.At("spec", field), field, true
				}
				return c.Request.At(origin...), field, true
			}
			return c.Request.At(origin...), strings.Join(origin[1:], "."), true
		}
	}
	if c.Record != nil {
		for _, place := range catalog.Sorted(c.Record.Defaults) {
			if place == variable || strings.HasPrefix(place, variable+".") {
				return c.Record.At("spec", "defaults", place), "recorded default of " + variable, true
			}
		}
	}
	return diag.Pos{}, "", false
}

// ledgered is the field of a record that the value at a variable's path is kept in.
func (d *draft) ledgered(path string) (field string, ok bool) {
	for _, field := range []string{"address", "serverAddress"} {
		if strings.Join(d.source.Variable(field), ".") == path {
			return field, true
		}
	}
	return "", false
}

// FedAt is the place that the value of a request field comes from: the request or the ledger's record.
func (c *Cluster) FedAt(field string) diag.Pos {
	if c.draft != nil {
		if at, _, ok := c.Written(strings.Join(c.draft.source.Variable(field), "."), ""); ok {
			return at
		}
	}
	return c.Request.At("metadata", "name")
}

// Fed is the value of the variable that a request field feeds, in the Cluster as it is rendered; nil when it has none.
func (c *Cluster) Fed(field string) any {
	if c.draft == nil || c.Manifest == nil {
		return nil
	}
	return lookup(variablesOf(c.Manifest), c.draft.source.Variable(field))
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
	d.hashes = map[string]string{}
	annotations := d.admitted.GetAnnotations()
	for _, name := range catalog.Sorted(pools) {
		h, err := pools[name].Hash(b.schemas)
		if err != nil {
			return diag.List{diag.Errorf(diag.Pos{File: b.in.Folders.Catalog + "/crds"}, "catalog/bad-schema", "%v", err).Hintf("export it again: kubectl get crd NAME -o json")}, nil
		}
		d.hashes[name] = h
		if h != "" {
			annotations[topology.AnnotationPrefix+name] = h
		}
	}
	d.admitted.SetAnnotations(annotations)
	return b.locked(d), nil
}
