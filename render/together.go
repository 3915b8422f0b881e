package render

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// Objects of one cluster say some things several times, and an infrastructure provider works only if they say the same. A chart has one
// value for each; these rules are for charts of the platform team's own, and for overlays, which change one object and not the other.

// The ports of a control plane as Kamaji has them by default.
const (
	apiPort         = int64(6443)
	konnectivityOwn = int64(8132)
)

// hostedByKamaji reports whether an object is a control plane that Kamaji runs.
func hostedByKamaji(o *manifest.Object) bool {
	id := manifest.IDOf(o)
	return id.Group == controlPlaneGroup && id.Kind == "KamajiControlPlane" || id.Group == kamajiGroup && id.Kind == "TenantControlPlane"
}

// nodePorts finds a control plane behind a Service of type NodePort whose ports cannot be such, or are not those of the request.
func (i *inspector) nodePorts(o *manifest.Object, objects []*manifest.Object) {
	wants := func(what string, port any, field string) {
		n, whole := port.(int64)
		asked := i.d.effectiveAt(networkVariables + field)
		switch {
		case !whole || n < firstNodePort || n > lastNodePort:
			i.fault("port/outside", "makes %s of %s with serviceType NodePort and %s %v, want one from %d to %d: the Service is refused", manifest.IDOf(o), i.d.request, what, text(port), firstNodePort, lastNodePort)
		case asked != nil && asked != port:
			i.fault("chart/port", "makes %s of %s with %s %v, want %v, which is in the request", manifest.IDOf(o), i.d.request, what, n, asked)
		}
	}
	switch {
	case o.GetKind() == "TenantControlPlane" && lookup(o.Object, []string{"spec", "controlPlane", "service", "serviceType"}) == "NodePort":
		wants("networkProfile.port", lookup(o.Object, []string{"spec", "networkProfile", "port"}), "nodePort")
	case o.GetKind() == "KamajiControlPlane" && lookup(o.Object, []string{"spec", "network", "serviceType"}) == "NodePort":
		wants("the Cluster's apiServerPort", apiServerPort(objects), "nodePort")
	default:
		return
	}
	if lookup(o.Object, []string{"spec", "addons", "konnectivity"}) != nil { // its port is on the same Service, and on the hosts (internal/resources/konnectivity/service_resource.go of Kamaji)
		wants("addons.konnectivity.server.port", konnectivityPort(o), "konnectivityNodePort")
	}
}

// konnectivityPort is the port of a control plane's Konnectivity server.
func konnectivityPort(o *manifest.Object) int64 {
	if port, ok := lookup(o.Object, []string{"spec", "addons", "konnectivity", "server", "port"}).(int64); ok {
		return port
	}
	return konnectivityOwn
}

// apiServerPort is the port of a Cluster's API server.
func apiServerPort(objects []*manifest.Object) int64 {
	for _, o := range objects {
		if port, ok := lookup(o.Object, []string{"spec", "clusterNetwork", "apiServerPort"}).(int64); ok && o.GetKind() == "Cluster" {
			return port
		}
	}
	return apiPort
}

// metalStack finds what metal-stack wants to be one and is not: the control plane's address and port, the endpoint in MetalStackCluster,
// and the firewall that lets machines out to them. For Metal3Cluster, too, the control plane provider fills in no endpoint (patchCluster in
// controllers/kamajicontrolplane_controller_cluster_patch.go of the Kamaji provider).
func (i *inspector) metalStack(o *manifest.Object, objects []*manifest.Object) {
	id, address := manifest.IDOf(o), i.d.address
	switch id.Kind {
	case "MetalStackCluster", "Metal3Cluster":
		// An endpoint that is there and another is found for any kind.
		host, ip := lookup(o.Object, []string{"spec", "controlPlaneEndpoint", "host"}), lookup(o.Object, []string{"spec", "controlPlaneIP"})
		if host == nil || host == "" {
			want := "want " + address + ", which is from the ledger"
			if i.d.tier.Access != "" {
				want = "want " + i.d.hostname()
			}
			i.fault("chart/unledgered-address", "makes %s of %s without controlPlaneEndpoint.host, %s", id, i.d.request, want)
		}
		if ip != nil && ip != address {
			i.fault("chart/unledgered-address", "makes %s of %s with controlPlaneIP %v, want %s, which is from the ledger", id, i.d.request, ip, address)
		}
		if lookup(o.Object, []string{"spec", "controlPlaneEndpoint", "port"}) == nil {
			i.fault("chart/port", "makes %s of %s without controlPlaneEndpoint.port, and the API server's is %d", id, i.d.request, apiServerPort(objects))
		}
	case "MetalStackFirewallTemplate":
		konnectivity := konnectivityOwn
		for _, c := range objects {
			if hostedByKamaji(c) {
				konnectivity = konnectivityPort(c)
			}
		}
		for _, port := range []int64{apiServerPort(objects), konnectivity} {
			if !letsOut(o, address, port) {
				i.fault("chart/firewall", "makes %s of %s without a rule in initialRuleSet.egress for TCP to %s port %d: no machine would reach its control plane", id, i.d.request, address, port)
			}
		}
	}
}

// letsOut reports whether a firewall lets machines out to a port of an address.
func letsOut(firewall *manifest.Object, to string, port int64) bool {
	a := address(to)
	rules, _ := lookup(firewall.Object, []string{"spec", "initialRuleSet", "egress"}).([]any)
	return slices.ContainsFunc(rules, func(r any) bool {
		rule, _ := r.(map[string]any)
		ports, _ := rule["ports"].([]any)
		ranges, _ := rule["to"].([]any)
		return rule["protocol"] == "TCP" && slices.Contains(ports, any(port)) && slices.ContainsFunc(ranges, func(v any) bool {
			p, err := netip.ParsePrefix(fmt.Sprint(v))
			return err == nil && p.Contains(a)
		})
	})
}

// handedOver are the places by which an infrastructure provider knows that the control plane is another's, and a load balancer which
// address it has. An overlay must not take them away: nothing refuses that, and the cluster never comes up.
var handedOver = func() [][]string {
	out := [][]string{
		{"metadata", "annotations", "cluster.x-k8s.io/managed-by"},
		{"metadata", "annotations", "capi.syself.com/allow-empty-control-plane-address"},
		{"spec", "externalManagedControlPlane"},
		{"spec", "controlPlaneLoadBalancer", "enabled"},
	}
	for _, kind := range catalog.Sorted(annotationPaths) {
		for _, key := range addressAnnotations {
			out = append(out, append(slices.Clone(annotationPaths[kind]), key))
		}
	}
	return out
}()

// handed finds what an overlay has changed in those places.
func (d *draft) handed(before, after *manifest.Object) diag.List {
	var found diag.List
	for _, path := range handedOver {
		if was, is := lookup(before.Object, path), lookup(after.Object, path); was != nil && !reflect.DeepEqual(was, is) {
			found.Add(diag.Errorf(diag.Pos{}, "overlay/refused", "an overlay changes %s of %s %s from %v to %v", joinPath(path), before.GetKind(), before.GetName(), was, text(is)))
		}
	}
	return found
}
