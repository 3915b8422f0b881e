package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/gate"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// gates are the hooks of the applications that were asked for as a whole, and what they run with. A file of a folder is no application.
func (b *builder) gates(drafts []*draft) ([]*manifest.Object, error) {
	in := b.in
	if !in.Catalog.Gate.On() {
		return nil, nil
	}
	var out []*manifest.Object
	by := map[string][]*draft{}
	for _, d := range drafts {
		by[d.request.Namespace] = append(by[d.request.Namespace], d)
	}
	for _, t := range in.Tenants {
		if !in.Selected(path.Join(in.Folders.Tenants, t.Namespace)) || len(t.Clusters)+len(t.Subnets) == 0 {
			continue
		}
		w, ok, err := b.tenantGate(t, by[t.Namespace])
		if err != nil {
			return nil, err
		}
		if ok {
			hook, err := hookObjects(in.Catalog.Gate, w)
			if err != nil {
				return nil, err
			}
			out = append(out, hook...)
		}
	}
	if in.Platform {
		more, err := b.platformGate(drafts)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// tenantGate is what the application of a tenant's folder wants. There is none where parameters leave all of its clusters out.
func (b *builder) tenantGate(t *Tenant, drafts []*draft) (gate.Wanted, bool, error) {
	w := gate.Wanted{Head: gate.Head{Application: path.Join(b.in.Folders.Tenants, t.Namespace), Namespaces: []string{t.Namespace}}}
	var names []string
	for _, c := range t.Clusters {
		if b.in.wants(c) {
			names = append(names, c.Name)
		} else {
			w.Beside = append(w.Beside, c.String())
		}
	}
	if len(names) == 0 && len(w.Beside) > 0 {
		return w, false, nil
	}
	slices.Sort(w.Beside)
	slices.Sort(names)
	w.Job = t.Namespace + "/" + gate.Account
	if len(w.Beside) > 0 { // one of several applications in the namespace
		w.Job += "-" + catalog.Sum(names)[:8]
	}
	for _, d := range drafts {
		if d.admitted.GetKind() != "Cluster" { // a control plane alone: it has no workers
			continue
		}
		c, err := gateCluster(d)
		if err != nil {
			return w, false, err
		}
		w.Clusters = append(w.Clusters, c)
		if policy, _ := b.in.Catalog.RolloutPolicy(d.request.Spec.Tier, d.request.Namespace); policy == catalog.Acknowledge {
			w.Acknowledge = true
		}
	}
	classes, err := b.gateClasses(func(tier catalog.Tier) bool {
		return slices.ContainsFunc(drafts, func(d *draft) bool { return d.chart == nil && d.tier.From == tier.From && d.tier.Class == tier.Class })
	})
	w.Classes = classes
	return w, true, err
}

// platformGate is the hook of the platform application, when it changes classes, and what all hooks need of the API server.
func (b *builder) platformGate(drafts []*draft) ([]*manifest.Object, error) {
	in, c := b.in, b.in.Catalog
	places, err := b.gateNamespaces()
	if err != nil {
		return nil, err
	}
	classes, err := b.gateClasses(func(catalog.Tier) bool { return true })
	if err != nil {
		return nil, err
	}
	out := gateRoles(c, places, classes)
	if !c.FansOut() {
		return out, nil
	}
	all := in
	if !in.Complete { // what is wrong with a tenant is said by its own application
		if all, drafts, err = b.everyDraft(); err != nil {
			return nil, err
		}
	}
	w := gate.Wanted{Head: gate.Head{Application: in.Folders.Catalog, Job: c.Gate.Namespace + "/" + gate.PlatformAccount, Namespaces: places, Platform: true}}
	known := map[string]bool{}
	for _, d := range drafts {
		if d.gate == nil && d.sound() && isCluster(d.admitted) { // of a whole fleet
			one, err := gateCluster(d)
			if err != nil {
				return nil, err
			}
			d.gate = &one
		}
		if d.source.Render && d.gate != nil {
			w.Clusters = append(w.Clusters, *d.gate)
			known[d.gate.Cluster] = true
		}
	}
	for _, t := range all.Tenants {
		for _, r := range t.Clusters {
			tier, ok := c.Tiers[r.Spec.Tier]
			if name := r.String(); !known[name] && (!ok || c.Classes[tier.From].Render) {
				w.Clusters = append(w.Clusters, gate.Cluster{Cluster: name, Unread: true})
			}
		}
	}
	if w.Classes, err = b.gateClasses(func(t catalog.Tier) bool { return c.Classes[t.From].Render }); err != nil {
		return nil, err
	}
	if w.Schemas, err = b.gateSchemas(w.Classes); err != nil {
		return nil, err
	}
	hook, err := hookObjects(c.Gate, w)
	return append(out, hook...), err
}

// gateSchemas are the schemas of the templates that hashes are made of. One that the catalog does not have, or that does not read, is
// none: that is said where hashes are made.
func (b *builder) gateSchemas(classes []gate.Class) ([]gate.Schema, error) {
	done := map[string]bool{}
	var out []gate.Schema
	for _, c := range classes {
		for _, t := range c.Templates {
			name := topology.DefinitionName(schema.FromAPIVersionAndKind(t.APIVersion, t.Kind))
			if done[name] || !t.Worker {
				continue
			}
			done[name] = true
			data, err := b.in.Catalog.Schema(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading the schema of %s: %w", t.Kind, err)
			}
			var compact bytes.Buffer
			if data, err = yaml.YAMLToJSON(data); err != nil || json.Compact(&compact, data) != nil || compact.Len() > gate.MaxLine-1024 {
				continue
			}
			out = append(out, gate.Schema{Schema: name, Text: compact.Bytes()})
		}
	}
	return out, nil
}

// everyDraft makes the clusters of all tenants, with a builder of its own: what is wrong with them must not fail the platform.
func (b *builder) everyDraft() (*Input, []*draft, error) {
	in, _, err := Load(b.tree, b.in.Folders.Tenants)
	if err != nil || in == nil || in.Catalog == nil {
		return &Input{}, nil, err
	}
	other := newBuilder(b.tree, in)
	other.lean = true
	_, drafts, _, err := other.objects(func(o *manifest.Object) *manifest.Object { return o })
	return in, drafts, err
}

// sound reports whether a draft has become the Cluster that was asked for. That its rollout is held back is no fault of it.
func (d *draft) sound() bool {
	return d.admitted != nil && !slices.ContainsFunc(slices.Concat(d.found, d.spoiled, d.refused), spoils)
}

// thin leaves of a draft what a gate compares: ten thousand clusters are more than a sidecar has memory for.
func (d *draft) thin() error {
	if d.sound() && isCluster(d.admitted) {
		c, err := gateCluster(d)
		if err != nil {
			return err
		}
		d.gate = &c
	}
	d.written = nil
	d.composed, d.cluster, d.stages, d.admitted, d.variables, d.overrides, d.origins = nil, nil, nil, nil, nil, nil, nil
	return nil
}

// gateNamespaces are the tenants of the catalog and the folders that have requests.
func (b *builder) gateNamespaces() ([]string, error) {
	out := catalog.Sorted(b.in.Catalog.Tenants)
	folders, _, err := namespaces(b.tree, b.in.Folders.Tenants)
	if err != nil {
		return out, nil // said where tenants are read; the platform needs none
	}
	for _, name := range folders {
		entries, err := fs.ReadDir(b.tree, path.Join(b.in.Folders.Tenants, name))
		if err == nil && len(validation.IsDNS1123Label(name)) == 0 && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return catalog.IsYAML(e.Name()) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// gateClasses are the vendored classes of some tiers, each once, as an API server with the catalog's schemas keeps them.
func (b *builder) gateClasses(use func(catalog.Tier) bool) ([]gate.Class, error) {
	var out []gate.Class
	done := map[string]bool{}
	for _, name := range catalog.Sorted(b.in.Catalog.Tiers) {
		tier := b.in.Catalog.Tiers[name]
		key := topology.Key{Namespace: b.in.Catalog.Classes[tier.From].Namespace, Name: tier.Class}
		if tier.Chart != "" || !use(tier) || done[key.String()] {
			continue
		}
		done[key.String()] = true
		class := b.tierClass(name)
		if class == nil {
			continue // said where the class is loaded
		}
		var objects []*manifest.Object
		for _, o := range b.sources[tier.From].objects {
			if topology.IsClass(o) && o.GetName() == key.Name {
				objects = append(objects, o)
			}
		}
		parts, err := catalog.ClassParts(append(objects, class.Templates()...), key.Namespace, key.Name)
		if err != nil {
			return nil, err
		}
		if parts == nil { // withdrawn: it is not what the platform installs
			continue
		}
		one := gate.Class{Class: key.String(), Digest: class.Digest(), Parts: parts}
		for _, r := range catalog.TemplateRefs(objects[0]) {
			if t := (gate.Template{APIVersion: r.APIVersion, Kind: r.Kind, Worker: strings.HasPrefix(r.Place, "spec.workers.")}); !slices.Contains(one.Templates, t) {
				one.Templates = append(one.Templates, t)
			}
		}
		slices.SortFunc(one.Templates, func(a, b gate.Template) int {
			return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.APIVersion, b.APIVersion))
		})
		out = append(out, one)
	}
	return out, nil
}

// isCluster tells a Cluster from a control plane that stands alone and has no machines.
func isCluster(o *manifest.Object) bool { return o != nil && o.GetKind() == "Cluster" }

// gateCluster is what is wanted of a cluster. One that a chart makes has no class, and no topology: its hashes alone are compared.
func gateCluster(d *draft) (gate.Cluster, error) {
	c := gate.Cluster{Cluster: d.request.String(), Version: d.request.Spec.Version, Pools: map[string]gate.Pool{}}
	if d.chart == nil {
		parts, err := gate.TopologyParts(d.admitted.Object)
		if err != nil {
			return gate.Cluster{}, fmt.Errorf("reading back the topology of %s: %w", d.request, err)
		}
		c.Class, c.Parts = d.class.Key().String(), parts
	}
	for pool, hash := range d.hashes {
		p := gate.Pool{Hash: hash}
		if d.record != nil {
			switch accepted := d.record.Rollouts[pool]; {
			case accepted == "":
			case accepted == d.accepts[pool]:
				p.Accepted = gate.Accepted
			default:
				p.Accepted = gate.NotAccepted
			}
		}
		c.Pools[pool] = p
	}
	return c, nil
}
