package render

import (
	"copyhold.dev/copyhold/render/diag"
)

// colliding finds two clusters of a tenant whose worker pools would have one MachineDeployment: solar with pool big-md-0, and solar-big
// with md-0. Those of a topology have names that Cluster API makes unique.
func colliding(drafts []*draft) diag.List {
	var found diag.List
	first := map[string]*draft{}
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
