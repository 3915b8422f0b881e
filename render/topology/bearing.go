package topology

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/manifest"
)

// bearing is a digest of all that can bear on a template of a worker pool, for where the template itself cannot be told: it is made of
// what only a management cluster knows, or of the version that a deferred pool has. It differs from a PartKey in that it does not care
// where a value is written and, for a deferred pool, what the version of the cluster is.
type bearing struct {
	key     PartKey
	version bool // patches on the template look at the version
}

// bearings enters what bears on the templates of a pool, where they cannot be told.
func (c *Class) bearings(o *manifest.Object, p *Pool, class clusterv1.MachineDeploymentClass) error {
	if p.Deferred == "" && len(p.Unknown) == 0 {
		return nil
	}
	for _, t := range []struct {
		into *bearing
		ref  clusterv1.ClusterClassTemplateReference
	}{{&p.infrastructureBearing, class.Infrastructure.TemplateRef}, {&p.bootstrapBearing, class.Bootstrap.TemplateRef}} {
		part := c.part(t.ref)
		in := []any{part.digest, c.borne(o, p, part.reads, class)}
		text, err := json.Marshal(in) // sorts keys
		if err != nil {
			return fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
		}
		*t.into = bearing{sha256.Sum256(text), part.reads.everything || part.reads.at("builtin.machineDeployment.version") || part.reads.at("builtin.cluster.topology.version")}
	}
	return nil
}

// borne is what patches with these reads see of a Cluster and one of its pools.
func (c *Class) borne(o *manifest.Object, p *Pool, r reads, class clusterv1.MachineDeploymentClass) map[string]any {
	md := maps.Clone(PoolOf(o, p.Name))
	values := Variables(o, "")
	maps.Copy(values, Variables(o, p.Name))
	maps.DeleteFunc(values, func(name string, _ any) bool { return !r.everything && !r.at(name) })
	seen := map[string]any{"variables": values, "class": md["class"]}
	for path, value := range map[string]any{
		"builtin.machineDeployment.version":      p.fields()["version"],
		"builtin.machineDeployment.replicas":     md["replicas"],
		"builtin.machineDeployment.topologyName": p.Name,
		"builtin.machineDeployment.metadata":     []any{class.Metadata, md["metadata"]},
	} {
		if r.at(path) {
			seen[path] = value
		}
	}
	whole := r.everything
	for _, b := range r.builtins() {
		if strings.HasPrefix(b, "builtin.machineDeployment.") || p.Deferred != "" && b == "builtin.cluster.topology.version" {
			continue
		}
		from, ok := c.behind(b, o)
		whole = whole || !ok
		seen[b] = from
	}
	if whole {
		spec := runtime.DeepCopyJSON(o.Object["spec"].(map[string]any))
		topology := spec["topology"].(map[string]any)
		delete(topology, "variables") // entered above
		if p.Deferred != "" {
			delete(topology, "version")
		}
		if !c.External() { // a patch sees its own pool only
			delete(md, "variables")
			topology["workers"] = md
		}
		seen["whole"] = []any{spec, class.Metadata, p.Name, o.GetNamespace(), o.GetName(), settledAnnotations(o), o.GetLabels()}
	}
	return seen
}
