package render

import (
	"copyhold.dev/copyhold/render/diag"
)

// colliding finds two clusters of a tenant whose worker pools would have one MachineDeployment: solar with pool big-md-0, and solar-big
// with md-0. Those of a topology have names that Cluster API makes unique. It finds, too, a control plane that a chart calls as another
// cluster is called: Kamaji knows a control plane by its name alone, whichever kind asks for it.
func colliding(drafts []*draft) diag.List {
	var found diag.List
	first, named := map[string]*draft{}, map[string]*draft{}
	for _, d := range drafts {
		named[d.request.Name] = d
	}
	for _, d := range drafts {
		if d.written == nil {
			continue
		}
		for _, o := range d.written.objects {
			if other := named[o.GetName()]; hostedByKamaji(o) && other != nil && other != d && other.chart != nil {
				found.Add(diag.Errorf(d.request.At("metadata", "name"), "request/collision", "the control plane of %s would be called %s, as that of %s is", d.request, o.GetName(), other.request).
					Hintf("give one of the clusters another name"))
			}
		}
	}
	for _, d := range drafts {
		if d.chart == nil {
			continue
		}
		for _, pool := range d.pools {
			name := d.deploymentName(pool)
			if other := first[name]; other != nil && other != d {
				found.Add(diag.Errorf(d.request.KeyAt("spec", "workers", pool), "request/collision", "worker pool %q of %s would be MachineDeployment %s, as one of %s is", pool, d.request, name, other.request).
					Hintf("give the worker pool or one of the clusters another name"))
			}
			first[name] = d
		}
	}
	return found
}
