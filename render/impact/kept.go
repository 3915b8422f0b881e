package impact

import (
	"fmt"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// network tells of other ranges for a running cluster, whoever brings them. Neither Cluster API nor Kamaji refuses them, and nothing that
// runs takes them. What else they bring about, as where a patch makes a template of them, is told beside it.
func (c *comparer) network(d *Diff, was, is *render.Cluster) {
	const kept = "the ranges and the domain of a cluster cannot be changed later: what runs keeps the addresses and names that it has"
	if field, before, after := is.Request.NetworkChange(was.Request); field != "" {
		d.Changes = append(d.Changes, Change{Action: InPlace, Words: kept + ", and copyhold check --base refuses the change",
			Causes: []Cause{at(is.Request.At("spec", "clusterNetwork", field), "clusterNetwork."+field, before, after)}})
		return
	}
	if topology.Equal(rangesOf(was.Manifest), rangesOf(is.Manifest)) {
		return
	}
	change := Change{Action: InPlace, Words: kept}
	if was.Made != nil {
		change.Causes = c.writtenCauses(was, is, inObject(manifest.IDOf(is.Manifest), rangesOf))
	} else {
		change.Causes = c.overlayCauses(was, is, rangesOf, Cause{Field: "clusterNetwork"})
	}
	d.Changes = append(d.Changes, change)
}

// rangesOf are the ranges and the domain in what stands for a cluster.
func rangesOf(o *manifest.Object) any {
	pods, services, domain := []string{"clusterNetwork", "pods", "cidrBlocks"}, []string{"clusterNetwork", "services", "cidrBlocks"}, []string{"clusterNetwork", "serviceDomain"}
	if o.GetKind() == "TenantControlPlane" {
		pods, services, domain = []string{"networkProfile", "podCidr"}, []string{"networkProfile", "serviceCidr"}, []string{"networkProfile", "clusterDomain"}
	}
	one := func(v any) any { // of one range there is a list, or itself
		if list, ok := v.([]any); ok && len(list) == 1 {
			return list[0]
		}
		return v
	}
	return []any{or(one(fieldOf(o, pods...)), request.DefaultPods), or(one(fieldOf(o, services...)), request.DefaultServices), or(fieldOf(o, domain...), request.DefaultDomain)}
}

// immutable finds an edit of a Secret or ConfigMap that says it is immutable, to which the API server holds (ValidateSecretUpdate and
// ValidateConfigMapUpdate in pkg/apis/core/validation/validation.go of Kubernetes). What machines read once is such a one.
func (c *comparer) immutable(was, is *render.Cluster, before, after *manifest.Object) (Change, bool) {
	id := manifest.IDOf(after)
	if !render.HoldsData(after) || before.Object["immutable"] != true || after.Object["immutable"] == true && topology.Equal(render.Content(before), render.Content(after)) {
		return Change{}, false
	}
	change := Change{Action: Rejected, Words: fmt.Sprintf("%s %s is immutable: the API server refuses the edit, and the sync fails", id.Kind, id.Name)}
	if pools := readers(is, after); len(pools) > 0 {
		change.Words += fmt.Sprintf("; machines of %s read it once, when they are made: under another name it is a rollout", strings.Join(pools, ", "))
	}
	change.Causes = c.writtenCauses(was, is, inObject(id, func(o *manifest.Object) any { return []any{render.Content(o), o.Object["immutable"]} }))
	return change, true
}

// readers are the worker pools whose machines read an object by its name when they are made.
func readers(c *render.Cluster, o *manifest.Object) []string {
	var out []string
	for _, name := range catalog.Sorted(c.Made.Pools) {
		if p := c.Made.Pools[name]; render.Reads(p.Bootstrap, o) || render.Reads(p.Infrastructure, o) {
			out = append(out, name)
		}
	}
	return out
}

// appliedOnce finds an edit of what a ClusterResourceSet has put into the cluster, and does not put there again.
func (c *comparer) appliedOnce(was, is *render.Cluster, before, after *manifest.Object) (Change, bool) {
	if !render.HoldsData(after) || topology.Equal(render.Content(before), render.Content(after)) {
		return Change{}, false
	}
	id := manifest.IDOf(after)
	for _, set := range is.Made.Objects {
		strategy := fieldOf(set, "strategy")
		if set.GetKind() != "ClusterResourceSet" || strategy != nil && strategy != "ApplyOnce" || !render.Reads(set, after) {
			continue
		}
		return Change{Action: InPlace, Words: fmt.Sprintf("%s %s changes, and ClusterResourceSet %s applies it once: the running cluster keeps what it has; with strategy Reconcile it would not", id.Kind, id.Name, set.GetName()),
			Causes: c.writtenCauses(was, is, inObject(id, func(o *manifest.Object) any { return render.Content(o) }))}, true
	}
	return Change{}, false
}

// inObject is a part of an object, wherever it is there.
func inObject(id manifest.ID, part func(*manifest.Object) any) func(*render.Made) any {
	return func(w *render.Made) any {
		for _, o := range w.Objects {
			if manifest.IDOf(o) == id {
				return part(o)
			}
		}
		return nil
	}
}
