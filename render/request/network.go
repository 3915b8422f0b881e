package request

import (
	"fmt"
	"slices"
)

// NetworkChange is the first field of clusterNetwork in which a request differs from what it was, with both values as text; "" when none
// does.
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
		name    string
		was, is []string
	}{{"pods", a.Pods, b.Pods}, {"services", a.Services, b.Services}} {
		if !slices.Equal(f.was, f.is) {
			return f.name, words(f.was, len(f.was) == 0), words(f.is, len(f.is) == 0)
		}
	}
	if a.ServiceDomain != b.ServiceDomain {
		return "serviceDomain", words(a.ServiceDomain, a.ServiceDomain == ""), words(b.ServiceDomain, b.ServiceDomain == "")
	}
	return "", "", ""
}
