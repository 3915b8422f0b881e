package topology

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/manifest"
)

// PartKey is a digest of all that a part of a Cluster's desired state can depend on: the templates it is made from, the patches on them,
// the variables that those patches read, and the part of the topology that speaks of it. Parts with one key are alike but for the
// names of objects, whatever Cluster, class or commit they belong to.
type PartKey [sha256.Size]byte

// Pools are the worker pools of a Cluster that was admitted, by name. They are worked out by Cluster API's generator, once for all
// pools with the same key: of Deployment only what does not name a Cluster or count its machines is to be relied on.
// The problems are as for Desired.
func (c *Class) Pools(o *manifest.Object) (map[string]*Pool, []Problem, error) {
	keys, err := c.PoolKeys(o)
	if err != nil {
		return nil, nil, err
	}
	out := map[string]*Pool{}
	for name, k := range keys {
		if p, ok := c.pools.Load(k); ok {
			out[name] = p.(*Pool)
		}
	}
	if len(out) == len(keys) && len(keys) > 0 {
		return out, nil, nil
	}
	d, problems, err := c.Desired(o)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	for name, k := range keys {
		if p := d.Pools[name]; p != nil {
			kept, _ := c.pools.LoadOrStore(k, p)
			out[name] = kept.(*Pool)
		}
	}
	return out, nil, nil
}

// PoolKeys are the keys of a Cluster's worker pools, by name.
func (c *Class) PoolKeys(o *manifest.Object) (map[string]PartKey, error) {
	out := map[string]PartKey{}
	held := false
	for _, v := range list(o, "spec", "topology", "workers", "machineDeployments") {
		md, _ := v.(map[string]any)
		name, _ := md["name"].(string)
		class, _ := md["class"].(string)
		held = held || annotated(md, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation)
		i := slices.IndexFunc(c.class.Spec.Workers.MachineDeployments, func(w clusterv1.MachineDeploymentClass) bool { return w.Class == class })
		if i < 0 {
			return nil, fmt.Errorf("ClusterClass %s has no worker class %q", c.Key(), class)
		}
		w := c.class.Spec.Workers.MachineDeployments[i]
		part := c.part(w.Infrastructure.TemplateRef, w.Bootstrap.TemplateRef)
		entry := map[string]any{}
		for k, v := range md {
			if k != "replicas" || part.reads.everything || part.reads.at("builtin.machineDeployment.replicas") {
				entry[k] = v
			}
		}
		entry[".deferred"] = held || annotated(md, clusterv1.ClusterTopologyDeferUpgradeAnnotation)
		key, err := c.key(o, part, w, entry)
		if err != nil {
			return nil, err
		}
		out[name] = key
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
	return sameJSON([]any{c.class.Spec, c.external}, []any{other.class.Spec, other.external})
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
	pools sync.Map // PartKey -> *Pool

	partsMu sync.Mutex
	parts   map[string]part // by references

	readsMu sync.Mutex
	readsOf map[string]reads // by apiVersion and kind of the template
}
