package render

import (
	"fmt"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// effectiveAt is a variable of a chart as it is rendered: the request's, or its default.
func (d *draft) effectiveAt(path string) any {
	if v := lookup(d.variables, strings.Split(path, ".")); v != nil {
		return v
	}
	return d.defaults[path]
}

// doubledPorts finds a node port that two clusters have. A port is one for all hosts of the management cluster: the second Service is
// refused, and its control plane never comes up.
func doubledPorts(drafts []*draft) diag.List {
	var found diag.List
	first := map[string]*draft{}
	for _, d := range drafts {
		if d.chart == nil || d.effective("serviceType") != "NodePort" || d.tier.Access != "" {
			continue
		}
		for _, field := range []string{"nodePort", "konnectivityNodePort"} {
			path := "controlPlane.network." + field
			port := d.effectiveAt(path)
			if port == nil {
				continue
			}
			at := d.request.At(append([]string{"spec", "variables"}, strings.Split(path, ".")...)...)
			if other := first[fmt.Sprint(port)]; other != nil {
				found.Add(diag.Errorf(at, "port/duplicate", "node port %v of %s is that of %s", port, d.request, other.request).
					Hintf("a port is one for all hosts of the management cluster: choose another"))
				continue
			}
			first[fmt.Sprint(port)] = d
		}
	}
	return found
}

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
