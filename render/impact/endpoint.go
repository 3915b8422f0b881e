package impact

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

const anotherWay = "the control plane is reached in another way: kubeconfigs break"

// endpoint finds a change of how the control plane of a written cluster is reached, and of the names in its certificate, that is neither of
// its address nor of the request's publicNames. It goes by the objects, since a chart and an overlay make such a change too.
func (c *comparer) endpoint(d *Diff, was, is *render.Cluster) {
	for _, x := range []struct {
		words string
		of    func(*render.Made) any
		said  bool
	}{
		{anotherWay, reached, false},
		{"the names in the API server's certificate change: clients that use one that is gone break", certified, !topology.Equal(was.Fed("publicNames"), is.Fed("publicNames"))},
	} {
		if !x.said && !topology.Equal(x.of(whole(was)), x.of(whole(is))) {
			d.Changes = append(d.Changes, Change{Action: Address, Words: x.words, Causes: c.writtenCauses(was, is, x.of)})
		}
	}
}

// whole is all that a chart has made of a cluster, with the object that stands for it.
func whole(c *render.Cluster) *render.Made {
	return &render.Made{Objects: append(slices.Clone(c.Made.Objects), c.Manifest), Pools: c.Made.Pools}
}

// reached is where clients find the API server of a written cluster, but for an address that the ledger has given it.
func reached(w *render.Made) any {
	out := map[string]any{}
	for _, o := range w.Objects {
		switch o.GetKind() {
		case "Cluster":
			out["port"] = or(fieldOf(o, "clusterNetwork", "apiServerPort"), int64(6443))
		case "KamajiControlPlane":
			out["service"] = or(fieldOf(o, "network", "serviceType"), "LoadBalancer")
			out["gateway"], out["ingress"] = fieldOf(o, "network", "gateway", "hostname"), fieldOf(o, "network", "ingress", "hostname")
		case "TenantControlPlane":
			out["service"] = fieldOf(o, "controlPlane", "service", "serviceType")
			out["gateway"], out["ingress"] = fieldOf(o, "controlPlane", "gateway", "hostname"), fieldOf(o, "controlPlane", "ingress", "hostname")
			out["port"] = or(fieldOf(o, "networkProfile", "port"), int64(6443))
			if out["service"] == "NodePort" {
				out["host"] = fieldOf(o, "networkProfile", "address")
			}
		}
	}
	return out
}

// certified are the names that a written cluster asks for in the certificate of its API server.
func certified(w *render.Made) any {
	for _, o := range w.Objects {
		switch o.GetKind() {
		case "KamajiControlPlane":
			return sorted(fieldOf(o, "network", "certSANs"))
		case "TenantControlPlane":
			return sorted(fieldOf(o, "networkProfile", "certSANs"))
		}
	}
	return nil
}

// fieldOf is a value below an object's spec; nil when there is none.
func fieldOf(o *manifest.Object, path ...string) any {
	v, _, err := unstructured.NestedFieldNoCopy(o.Object, append([]string{"spec"}, path...)...)
	if err != nil { // something else is above it
		return nil
	}
	return v
}

// or is a value, or what holds where there is none.
func or(v, otherwise any) any {
	if v == nil {
		return otherwise
	}
	return v
}

// sorted is a list whose order means nothing.
func sorted(v any) any {
	list, _ := v.([]any)
	return slices.SortedFunc(slices.Values(list), func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
