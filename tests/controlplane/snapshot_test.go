package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// snapshot is what Cluster API has made of the clusters of a world. Generated names end at random, so objects are known by their role.
type snapshot map[string]*clusterState

type clusterState struct {
	object       *unstructured.Unstructured
	controlPlane *unstructured.Unstructured
	infra        *unstructured.Unstructured
	pools        map[string]*poolState
}

type poolState struct {
	deployment *unstructured.Unstructured
	sets       map[string]bool // uids of MachineSets
	machines   map[string]bool // uids of Machines
	templates  map[string]any  // spec by role
}

const (
	poolLabel       = "topology.cluster.x-k8s.io/deployment-name"
	deploymentLabel = "cluster.x-k8s.io/deployment-name"
)

func (w *world) look() snapshot {
	w.t.Helper()
	out := snapshot{}
	key := func(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetLabels()[clusterLabel] }
	for _, c := range w.list(clusters) {
		if c.GetDeletionTimestamp() == nil {
			out[c.GetNamespace()+"/"+c.GetName()] = &clusterState{object: c, pools: map[string]*poolState{}}
		}
	}
	each := func(r schema.GroupVersionResource, f func(*clusterState, *unstructured.Unstructured)) {
		for _, o := range w.list(r) {
			if c := out[key(o)]; c != nil && o.GetDeletionTimestamp() == nil {
				f(c, o)
			}
		}
	}
	each(kamajiControlPlanes, func(c *clusterState, o *unstructured.Unstructured) { c.controlPlane = o })
	each(kubevirtClusters, func(c *clusterState, o *unstructured.Unstructured) { c.infra = o })
	each(machineDeployments, func(c *clusterState, o *unstructured.Unstructured) {
		p := &poolState{deployment: o, sets: map[string]bool{}, machines: map[string]bool{}, templates: map[string]any{}}
		c.pools[poolOf(o)] = p
		p.templates["infrastructure"] = w.templateOf(o, "infrastructureRef")
		p.templates["bootstrap"] = w.templateOf(o, "bootstrap", "configRef")
	})
	of := func(c *clusterState, o *unstructured.Unstructured) *poolState {
		for _, p := range c.pools {
			if p.deployment.GetName() == o.GetLabels()[deploymentLabel] {
				return p
			}
		}
		return &poolState{sets: map[string]bool{}, machines: map[string]bool{}}
	}
	each(machineSets, func(c *clusterState, o *unstructured.Unstructured) { of(c, o).sets[string(o.GetUID())] = true })
	each(machines, func(c *clusterState, o *unstructured.Unstructured) { of(c, o).machines[string(o.GetUID())] = true })
	return out
}

// heldBack reports whether a worker pool is not on the version of its cluster.
func (c *clusterState) heldBack(pool string) bool {
	p := c.pools[pool]
	return p != nil && text(p.deployment, "spec", "template", "spec", "version") != text(c.object, "spec", "topology", "version")
}

// poolOf is the name that a request has for a MachineDeployment. Without a topology it stands in the name.
func poolOf(md *unstructured.Unstructured) string {
	if name, ok := md.GetLabels()[poolLabel]; ok {
		return name
	}
	return strings.TrimPrefix(md.GetName(), md.GetLabels()[clusterLabel]+"-")
}

// templateOf is the spec of a template that a MachineDeployment refers to.
func (w *world) templateOf(md *unstructured.Unstructured, path ...string) any {
	path = append([]string{"spec", "template", "spec"}, path...)
	for _, r := range []schema.GroupVersionResource{machineTemplates, kubeadmTemplates, kairosTemplates} {
		for _, o := range w.list(r) {
			if o.GetName() == text(md, append(path, "name")...) && o.GetKind() == text(md, append(path, "kind")...) {
				return o.Object["spec"]
			}
		}
	}
	return nil
}

// happened says what is not as it was, in the words of copyhold diff: "namespace/name action" of a cluster, "namespace/name pool action"
// of a worker pool. A class or an API server that refuses is not seen here.
func happened(was, is snapshot) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(union(was, is))) {
		add := func(words ...string) { out = append(out, name+" "+strings.Join(words, " ")) }
		a, b := was[name], is[name]
		switch {
		case a == nil:
			add("create")
		case b == nil:
			add("delete")
		default:
			changed(a, b, add)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func union[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func changed(a, b *clusterState, add func(...string)) {
	some := frozen(b) && !frozen(a)
	if some {
		add("frozen")
	}
	tell := func(words ...string) { some = true; add(words...) }
	if d := differences("spec", a.controlPlane.Object["spec"], b.controlPlane.Object["spec"]); d != nil {
		tell("control-plane")
		for _, path := range []string{"serviceAddress", "certSANs", "advertiseAddress"} {
			if !equal(field(a.controlPlane, "spec", "network", path), field(b.controlPlane, "spec", "network", path)) {
				tell("address")
			}
		}
	}
	if d := differences("spec", a.infra.Object["spec"], b.infra.Object["spec"]); d != nil {
		tell("in-place")
	}
	pools(a, b, tell)
	if !some && !equal(ownSpec(a.object), ownSpec(b.object)) {
		add("in-place")
	}
}

func frozen(c *clusterState) bool {
	topology := conditionOf(c.object, "TopologyReconciled")
	return topology["status"] == "False" && topology["reason"] == "ReconcileFailed"
}

// ownSpec is what of a Cluster was asked for.
func ownSpec(o *unstructured.Unstructured) any {
	return []any{field(o, "spec", "topology"), field(o, "spec", "clusterNetwork")}
}

func pools(a, b *clusterState, tell func(...string)) {
	var gone, fresh []string
	for _, name := range slices.Sorted(maps.Keys(union(a.pools, b.pools))) {
		was, is := a.pools[name], b.pools[name]
		switch {
		case was == nil:
			fresh = append(fresh, name)
		case is == nil:
			gone = append(gone, name)
		default:
			for _, action := range pool(was, is) {
				tell(name, action)
			}
		}
	}
	for _, name := range gone {
		action := "delete"
		if len(fresh) > 0 { // one goes and one comes: to Cluster API two matters, to who asked for it one
			action, fresh = "replace", fresh[1:]
		}
		tell(name, action)
	}
	for _, name := range fresh {
		tell(name, "create")
	}
}

func pool(was, is *poolState) []string {
	var out []string
	if added(was.sets, is.sets) {
		out = append(out, "rollout")
		if text(is.deployment, "spec", "rollout", "strategy", "type") == "OnDelete" {
			out[0] = "on-delete"
			if added(is.machines, was.machines) {
				out[0] = "on-delete, but machines are gone"
			}
		}
	}
	if !equal(field(was.deployment, "spec", "replicas"), field(is.deployment, "spec", "replicas")) || !equal(bounds(was), bounds(is)) {
		out = append(out, "scale")
	}
	if out == nil && !equal(settings(was.deployment), settings(is.deployment)) {
		out = append(out, "in-place")
	}
	return out
}

func bounds(p *poolState) []string {
	const prefix = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
	return []string{p.deployment.GetAnnotations()[prefix+"min-size"], p.deployment.GetAnnotations()[prefix+"max-size"]}
}

// settings are what a MachineDeployment says beside its templates, version and replicas.
func settings(o *unstructured.Unstructured) any {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "spec", "replicas")
	unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "version")
	for _, path := range [][]string{{"infrastructureRef"}, {"bootstrap", "configRef"}} {
		unstructured.RemoveNestedField(o.Object, append(append([]string{"spec", "template", "spec"}, path...), "name")...)
	}
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(k, _ string) bool {
		return strings.HasPrefix(k, "machinedeployment.clusters.x-k8s.io/") || strings.HasPrefix(k, "example.org/")
	})
	return []any{o.Object["spec"], o.GetLabels(), annotations}
}

// added reports whether the second set has what the first has not.
func added(was, is map[string]bool) bool {
	for k := range is {
		if !was[k] {
			return true
		}
	}
	return false
}

// newSets are the pools, as namespace/name pool, that were there and have a MachineSet that was not.
func newSets(was, is snapshot) map[string]bool {
	out := map[string]bool{}
	for name, c := range is {
		for pool, p := range c.pools {
			if was[name] != nil && was[name].pools[pool] != nil && added(was[name].pools[pool].sets, p.sets) {
				out[fmt.Sprintf("%s %s", name, pool)] = true
			}
		}
	}
	return out
}

// hashes are the rollout annotations of Clusters, by namespace/name pool.
func hashes(objects []*unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, o := range objects {
		for k, v := range o.GetAnnotations() {
			if pool, ok := strings.CutPrefix(k, "rollout.copyhold.dev/"); ok && o.GetKind() == "Cluster" {
				out[o.GetNamespace()+"/"+o.GetName()+" "+pool] = v
			}
		}
	}
	return out
}
