package request

import (
	"cmp"
	"fmt"
	"slices"
)

// The ranges and the domain that Kamaji takes where a request says nothing (api/v1alpha1/tenantcontrolplane_types.go of Kamaji).
const (
	DefaultPods     = "10.244.0.0/16"
	DefaultServices = "10.96.0.0/16"
	DefaultDomain   = "cluster.local"
)

// NetworkChange is the first field of clusterNetwork in which a request differs from what it was, with both values as text; "" when none
// does. To write a default out is none.
func (c *Cluster) NetworkChange(was *Cluster) (field, before, after string) {
	var a, b ClusterNetwork
	if n := was.Spec.ClusterNetwork; n != nil {
		a = *n
	}
	if n := c.Spec.ClusterNetwork; n != nil {
		b = *n
	}
	words := func(v any, none bool) string {
		if none {
			return "the default"
		}
		return fmt.Sprint(v)
	}
	for _, f := range []struct {
		name      string
		was, is   []string
		otherwise string
	}{{"pods", a.Pods, b.Pods, DefaultPods}, {"services", a.Services, b.Services, DefaultServices}} {
		or := func(ranges []string) []string {
			if len(ranges) == 0 {
				return []string{f.otherwise}
			}
			return ranges
		}
		if !slices.Equal(or(f.was), or(f.is)) {
			return f.name, words(f.was, len(f.was) == 0), words(f.is, len(f.is) == 0)
		}
	}
	if cmp.Or(a.ServiceDomain, DefaultDomain) != cmp.Or(b.ServiceDomain, DefaultDomain) {
		return "serviceDomain", words(a.ServiceDomain, a.ServiceDomain == ""), words(b.ServiceDomain, b.ServiceDomain == "")
	}
	return "", "", ""
}
