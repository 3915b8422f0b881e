package topology

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/manifest"
)

// PartKey is a digest of all that a part of a Cluster's desired state can depend on: the templates it is made from, the patches on them,
// the variables that those patches read, and the part of the topology that speaks of it. Parts with one key are alike but for the
// names of objects, whatever Cluster, class or commit they belong to.
type PartKey [sha256.Size]byte

// Pools are the worker pools of a Cluster that was admitted, by name, as Cluster API's generator makes them. Each of the three parts of a
// pool is worked out once for all pools that depend on the same: of Deployment only what does not name a Cluster or count its machines
// is to be relied on.
//
// The problems are as for Desired, as far as they come from a pool; the first Cluster of a class is looked at as a whole.
func (c *Class) Pools(o *manifest.Object) (map[string]*Pool, []Problem, error) {
	if !c.proved.Load() { // a class that can make nothing is found out by its first Cluster
		if _, problems, err := c.Desired(o); err != nil || len(problems) > 0 {
			return nil, problems, err
		}
		c.proved.Store(true)
	}
	keys, err := c.keys(o)
	if err != nil {
		return nil, nil, err
	}
	var missing []clusterv1.ClusterClassTemplateReference
	complete := true
	for _, k := range keys {
		_, there := c.deployments.Load(k.deployment)
		complete = complete && there
		if _, there := c.made.Load(k.infrastructure); !there {
			missing = append(missing, k.class.Infrastructure.TemplateRef)
		}
		if _, there := c.made.Load(k.bootstrap); !there {
			missing = append(missing, k.class.Bootstrap.TemplateRef)
		}
	}
	if !complete || len(missing) > 0 {
		if problems, err := c.make(o, keys, missing); err != nil || len(problems) > 0 {
			return nil, problems, err
		}
	}
	out := map[string]*Pool{}
	for name, k := range keys {
		p := c.assemble(name, k)
		if err := c.bearings(o, p, k.class); err != nil {
			return nil, nil, err
		}
		out[name] = p
	}
	return out, nil, nil
}

// deployment is a worker pool without its templates.
type deployment struct{ pool *Pool }

// made is a template of a worker pool.
type made struct {
	object  *manifest.Object
	unknown []string // as Pool.Unknown
}

// assemble puts a pool together from parts that are there.
func (c *Class) assemble(name string, k poolKeys) *Pool {
	load := func(m *sync.Map, key PartKey) any {
		v, _ := m.Load(key)
		return v
	}
	p := *load(&c.deployments, k.deployment).(deployment).pool
	infrastructure, bootstrap := load(&c.made, k.infrastructure).(made), load(&c.made, k.bootstrap).(made)
	p.Name, p.Infrastructure, p.Bootstrap = name, infrastructure.object, bootstrap.object
	p.unknownInfrastructure, p.unknownBootstrap = infrastructure.unknown, bootstrap.unknown
	p.Unknown = slices.Compact(slices.Sorted(slices.Values(slices.Concat(infrastructure.unknown, bootstrap.unknown))))
	return &p
}

// make works out the parts of a Cluster's pools. The generator is given the class without the patches on other templates than those that
// are missing: a patch changes the templates that its selectors match, and no others.
func (c *Class) make(o *manifest.Object, keys map[string]poolKeys, missing []clusterv1.ClusterClassTemplateReference) ([]Problem, error) {
	cl, err := settledCluster(o)
	if err != nil {
		return nil, err
	}
	reduced := c.reduced(missing)
	d, problems, err := reduced.generate(cl)
	if err != nil || len(problems) > 0 {
		return problems, err
	}
	if err := reduced.findUnknown(cl, d); err != nil {
		return nil, err
	}
	for name, k := range keys {
		p := d.Pools[name]
		if p == nil {
			return nil, fmt.Errorf("worker pool %q of Cluster %s is not among what Cluster API makes", name, o.GetName())
		}
		for _, t := range []struct {
			key    PartKey
			object *manifest.Object
			ref    clusterv1.ClusterClassTemplateReference
		}{{k.infrastructure, p.Infrastructure, k.class.Infrastructure.TemplateRef}, {k.bootstrap, p.Bootstrap, k.class.Bootstrap.TemplateRef}} {
			if slices.Contains(missing, t.ref) { // the others were made without their patches
				c.made.LoadOrStore(t.key, made{t.object, p.unknownOf(t.object)})
			}
		}
		bare := &Pool{Deployment: p.Deployment, HealthCheck: p.HealthCheck, Deferred: p.Deferred}
		c.deployments.LoadOrStore(k.deployment, deployment{bare})
	}
	return nil, nil
}

// reduced is the class with the patches on some templates only, worked out once.
func (c *Class) reduced(refs []clusterv1.ClusterClassTemplateReference) *Class {
	kinds := map[string]bool{}
	for _, r := range refs {
		kinds[r.APIVersion+" "+r.Kind] = true
	}
	name := strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")
	c.partsMu.Lock()
	defer c.partsMu.Unlock()
	if r := c.reducedTo[name]; r != nil {
		return r
	}
	class := *c.class
	class.Spec.Patches = nil
	for _, p := range c.class.Spec.Patches {
		p.Definitions = slices.DeleteFunc(slices.Clone(p.Definitions), func(d clusterv1.PatchDefinition) bool {
			return !kinds[d.Selector.APIVersion+" "+d.Selector.Kind]
		})
		if len(p.Definitions) > 0 {
			class.Spec.Patches = append(class.Spec.Patches, p)
		}
	}
	r := &Class{class: &class, templates: c.templates, external: c.external, partMemo: &partMemo{}}
	if c.reducedTo == nil {
		c.reducedTo = map[string]*Class{}
	}
	c.reducedTo[name] = r
	return r
}

// poolKeys are the keys of the three parts of a worker pool.
type poolKeys struct {
	class                                 clusterv1.MachineDeploymentClass
	infrastructure, bootstrap, deployment PartKey
}

// keys are the keys of a Cluster's worker pools, by name.
func (c *Class) keys(o *manifest.Object) (map[string]poolKeys, error) {
	out := map[string]poolKeys{}
	held := ""
	for _, v := range list(o, "spec", "topology", "workers", "machineDeployments") {
		md, _ := v.(map[string]any)
		name, _ := md["name"].(string)
		class, _ := md["class"].(string)
		if held == "" && annotated(md, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation) {
			held = name
		}
		i := slices.IndexFunc(c.class.Spec.Workers.MachineDeployments, func(w clusterv1.MachineDeploymentClass) bool { return w.Class == class })
		if i < 0 {
			return nil, fmt.Errorf("ClusterClass %s has no worker class %q", c.Key(), class)
		}
		k := poolKeys{class: c.class.Spec.Workers.MachineDeployments[i]}
		var err error
		for _, t := range []struct {
			into *PartKey
			ref  clusterv1.ClusterClassTemplateReference
		}{{&k.infrastructure, k.class.Infrastructure.TemplateRef}, {&k.bootstrap, k.class.Bootstrap.TemplateRef}} {
			part := c.part(t.ref)
			entry := without(md, "replicas", !part.reads.everything && !part.reads.at("builtin.machineDeployment.replicas"))
			if *t.into, err = c.key(o, part, k.class.Metadata, entry); err != nil {
				return nil, err
			}
		}
		entry := without(md, "replicas", true)
		entry[".held"] = held // by a pool before it
		if k.deployment, err = c.key(o, part{}, k.class, entry); err != nil {
			return nil, err
		}
		out[name] = k
	}
	return out, nil
}

// without is a copy of a pool's topology, without a field if so.
func without(md map[string]any, field string, so bool) map[string]any {
	out := maps.Clone(md)
	if so {
		delete(out, field)
	}
	return out
}

// PoolKeys are the keys of a Cluster's worker pools as wholes, by name.
func (c *Class) PoolKeys(o *manifest.Object) (map[string]PartKey, error) {
	keys, err := c.keys(o)
	if err != nil {
		return nil, err
	}
	out := map[string]PartKey{}
	for name, k := range keys {
		out[name] = sha256.Sum256(slices.Concat(k.infrastructure[:], k.bootstrap[:], k.deployment[:]))
	}
	return out, nil
}

// annotated reports whether a pool's topology carries an annotation.
func annotated(md map[string]any, name string) bool {
	meta, _ := md["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	_, ok := annotations[name]
	return ok
}

// SameClass reports whether two classes are one object, whatever their templates hold.
func (c *Class) SameClass(other *Class) bool {
	return sameJSON([]any{c.written().Spec, c.external}, []any{other.written().Spec, other.external})
}

// ControlPlaneKey is the key of a Cluster's control plane and infrastructure.
func (c *Class) ControlPlaneKey(o *manifest.Object) (PartKey, error) {
	s := c.class.Spec
	part := c.part(s.ControlPlane.TemplateRef, s.ControlPlane.MachineInfrastructure.TemplateRef, s.Infrastructure.TemplateRef)
	topology, _ := lookup(o, "spec", "topology").(map[string]any)
	return c.key(o, part, []any{s.ControlPlane, s.Infrastructure, s.KubernetesVersions}, []any{topology["controlPlane"], lookup(o, "spec", "clusterNetwork")})
}

// ControlPlaneSeesHashes reports whether patches on the control plane look at the Cluster's annotations, of which rollout hashes are.
func (c *Class) ControlPlaneSeesHashes() bool {
	s := c.class.Spec.ControlPlane
	return c.part(s.TemplateRef, s.MachineInfrastructure.TemplateRef).reads.everything
}

// part is what of a class bears on some of its templates.
type part struct {
	reads  reads
	digest [sha256.Size]byte // of the templates and the patches on them
}

func (c *Class) part(refs ...clusterv1.ClusterClassTemplateReference) part {
	refs = slices.DeleteFunc(refs, func(r clusterv1.ClusterClassTemplateReference) bool { return !r.IsDefined() })
	name, err := json.Marshal(refs)
	if err != nil {
		panic(err) // strings only
	}
	c.partsMu.Lock()
	defer c.partsMu.Unlock()
	if p, done := c.parts[string(name)]; done {
		return p
	}
	p := part{reads: reads{paths: map[string]bool{}}}
	var content []any
	for _, r := range refs {
		t := c.template(r)
		p.reads = p.reads.plus(c.reads(t))
		gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
		content = append(content, gvk.String(), t.Object["spec"], c.patchesOn(t))
	}
	if c.External() { // a runtime extension is handed all templates at once
		for _, t := range c.Templates() {
			content = append(content, t.GetName(), t.Object["spec"], c.patchesOn(t))
		}
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // all of it was read from JSON
	}
	p.digest = sha256.Sum256(text)
	if c.parts == nil {
		c.parts = map[string]part{}
	}
	c.parts[string(name)] = p
	return p
}

// patchesOn are the patches of the class cut down to their definitions for one kind of template, in order.
func (c *Class) patchesOn(t *manifest.Object) []clusterv1.ClusterClassPatch {
	out := slices.Clone(c.external)
	for _, p := range c.class.Spec.Patches {
		p.Description = ""
		p.Definitions = slices.DeleteFunc(slices.Clone(p.Definitions), func(d clusterv1.PatchDefinition) bool {
			return d.Selector.APIVersion != t.GetAPIVersion() || d.Selector.Kind != t.GetKind()
		})
		if len(p.Definitions) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// key puts together what a part depends on.
func (c *Class) key(o *manifest.Object, p part, of, entry any) (PartKey, error) {
	in := []any{p.digest, of, entry, lookup(o, "spec", "topology", "version")}
	values := map[string]any{}
	for _, v := range list(o, "spec", "topology", "variables") {
		if m, ok := v.(map[string]any); ok {
			if name, _ := m["name"].(string); p.reads.at(name) {
				values[name] = m["value"]
			}
		}
	}
	in = append(in, values)
	whole := p.reads.everything
	for _, b := range p.reads.builtins() {
		from, ok := c.behind(b, o)
		in = append(in, b, from)
		whole = whole || !ok
	}
	if whole {
		in = append(in, o.Object["spec"], o.GetNamespace(), o.GetName(), settledAnnotations(o), o.GetLabels())
	}
	text, err := json.Marshal(in) // sorts keys
	if err != nil {
		return PartKey{}, fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
	}
	return sha256.Sum256(text), nil
}

// behind is all that a builtin can be made from (api/runtime/hooks/v1alpha1/topologymutation_variable_types.go). It is not ok when that
// may be anything.
func (c *Class) behind(builtin string, o *manifest.Object) (any, bool) {
	under := func(prefix string) bool { return builtin == prefix || strings.HasPrefix(builtin, prefix+".") }
	switch {
	case builtin == "builtin.machineDeployment", under("builtin.machineDeployment.metadata"): // its labels name the cluster
		return o.GetName(), true
	case under("builtin.machineDeployment"), under("builtin.cluster.uid"): // the pool's topology is part of its key; a cluster keeps its uid
		return nil, true
	case under("builtin.cluster.name"):
		return o.GetName(), true
	case under("builtin.cluster.namespace"):
		return o.GetNamespace(), true
	case under("builtin.cluster.metadata"):
		return []any{o.GetLabels(), settledAnnotations(o)}, true
	case under("builtin.cluster.network"):
		return lookup(o, "spec", "clusterNetwork"), true
	case under("builtin.cluster.topology.version"):
		return lookup(o, "spec", "topology", "version"), true
	}
	return nil, false
}

func list(o *manifest.Object, path ...string) []any {
	l, _ := lookup(o, path...).([]any)
	return l
}

func lookup(o *manifest.Object, path ...string) any {
	var v any = o.Object
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

// partMemo holds what is worked out once for a class and shared with its variants that differ in defaults only.
type partMemo struct {
	proved      atomic.Bool // a Cluster of the class has been made as a whole
	made        sync.Map    // PartKey -> made
	deployments sync.Map    // PartKey -> deployment

	partsMu   sync.Mutex
	parts     map[string]part   // by references
	reducedTo map[string]*Class // by kinds of templates

	readsMu sync.Mutex
	readsOf map[string]reads // by apiVersion and kind of the template
}
