package render

import (
	"fmt"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// The groups of the kinds that a chart makes clusters of, beside those of Cluster API's providers.
const (
	clusterGroup      = "cluster.x-k8s.io"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
	kamajiGroup       = "kamaji.clastix.io"
	clusterNameLabel  = "cluster.x-k8s.io/cluster-name"
	metalLBAddresses  = "metallb.io/loadBalancerIPs"
)

// addressAnnotations are the annotations by which load balancers are asked for an address: MetalLB's, and as it was called before.
var addressAnnotations = []string{metalLBAddresses, "metallb.universe.tf/loadBalancerIPs"}

// standsForCluster reports whether an object is what a cluster is known by: its Cluster, or the hosted control plane of one whose
// machines nobody manages here.
func standsForCluster(o *manifest.Object) bool {
	id := manifest.IDOf(o)
	return id.Group == clusterGroup && id.Kind == "Cluster" || id.Group == kamajiGroup && id.Kind == "TenantControlPlane"
}

// isTemplate reports whether an object is something that machines are made from.
func isTemplate(o *manifest.Object) bool {
	return strings.HasSuffix(o.GetKind(), "MachineTemplate") || strings.HasSuffix(o.GetKind(), "ConfigTemplate")
}

// inspector finds what a chart must not make.
type inspector struct {
	*builder
	d     *draft
	found diag.List
}

// inspect finds what a chart must not make: what is not this cluster's, what would never take effect, and an address or version that
// is not the cluster's.
func (b *builder) inspect(d *draft, objects []*manifest.Object) diag.List {
	i := &inspector{builder: b, d: d}
	if len(objects) == 0 {
		i.fault("chart/empty", "makes nothing of %s", d.request)
		return i.found
	}
	var stand []*manifest.Object
	for _, o := range objects {
		i.owned(o)
		i.named(o, o.Object, "")
		i.addressed(o)
		i.metalStack(o, objects)
		if hostedByKamaji(o) {
			i.nodePorts(o, objects)
			i.found.Add(i.d.kamajiName(o.GetName())...)
		}
		if standsForCluster(o) {
			stand = append(stand, o)
		}
		for place, value := range o.GetAnnotations() {
			if strings.HasPrefix(place, "helm.sh/hook") || strings.HasPrefix(place, "argocd.argoproj.io/hook") {
				i.fault("chart/hook", "makes a hook of %s (%s: %s)", manifest.IDOf(o), place, value)
			}
			if place == catalog.PlaceholderAnnotation {
				i.found.Add(diag.Warnf(b.in.Catalog.At("tiers", d.request.Spec.Tier, "chart"), "catalog/placeholder", "%s %s in the chart of tier %q is a placeholder: nobody has confirmed it", o.GetAPIVersion(), o.GetKind(), d.request.Spec.Tier).
					Hintf("look it up with kubectl api-resources, and enter it in values of the tier"))
			}
		}
	}
	switch {
	case len(stand) != 1:
		i.fault("chart/no-cluster", "makes %d objects of %s that stand for a cluster, want one: a Cluster, or a TenantControlPlane by itself", len(stand), d.request)
	case stand[0].GetName() != d.request.Name:
		i.fault("chart/foreign-object", "names the %s of %s %q", stand[0].GetKind(), d.request, stand[0].GetName())
	case stand[0].GetKind() == "Cluster":
		i.references(stand[0], objects)
	}
	i.deployments(objects)
	i.readOnce(objects)
	return i.found
}

func (i *inspector) fault(name, format string, args ...any) {
	i.found.Add(diag.Errorf(diag.Pos{File: i.d.chart.Folder}, name, "the chart of tier %q %s", i.d.request.Spec.Tier, fmt.Sprintf(format, args...)))
}

// owned finds an object that is not the cluster's to have.
func (i *inspector) owned(o *manifest.Object) {
	id, r := manifest.IDOf(o), i.d.request
	if id.Namespace != r.Namespace {
		i.fault("chart/foreign-object", "makes %s of %s, which is not in its namespace", id, r)
	}
	if id.Name != r.Name && !strings.HasPrefix(id.Name, r.Name+"-") {
		i.fault("chart/foreign-object", "makes %s of %s, want a name that is %s or begins with %s-", id, r, r.Name, r.Name)
	}
	if o.GetGenerateName() != "" || len(o.GetOwnerReferences()) > 0 || len(o.GetFinalizers()) > 0 || o.Object["status"] != nil {
		i.fault("chart/foreign-object", "makes %s of %s with a generated name, owners, finalizers or a status, which are not for a manifest", id, r)
	}
	namespaced, known, err := i.schemas.Namespaced(o)
	switch {
	case err != nil:
		i.found.Add(diag.Errorf(diag.Pos{File: i.in.Folders.Catalog + "/crds"}, "catalog/bad-schema", "%v", err).Hintf("export it again: kubectl get crd NAME -o json"))
	case known && !namespaced || !known && clusterScoped(id):
		i.fault("chart/cluster-scoped", "makes %s of %s, and objects of that kind are in no namespace: they are for the platform application", id, r)
	case !known && !presumed(id):
		i.found.Add(diag.Errorf(diag.Pos{File: i.d.chart.Folder}, "chart/unknown-kind", "the chart of tier %q makes %s of %s, and nobody can tell from here whether that kind is in a namespace", i.d.request.Spec.Tier, id, r).
			Hintf("put its definition into %s/crds: kubectl get crd NAME -o json", i.in.Folders.Catalog))
	}
}

// clusterScoped reports whether a kind is known to be in no namespace.
func clusterScoped(id manifest.ID) bool {
	switch id.Group {
	case "":
		return slices.Contains([]string{"Namespace", "Node", "PersistentVolume", "ComponentStatus"}, id.Kind)
	case kamajiGroup:
		return id.Kind == "DataStore" || id.Kind == "KubeconfigGenerator"
	case "ipam.cluster.x-k8s.io":
		return strings.HasPrefix(id.Kind, "Global")
	case "rbac.authorization.k8s.io":
		return strings.HasPrefix(id.Kind, "Cluster")
	case "runtime.cluster.x-k8s.io", "operator.cluster.x-k8s.io":
		return true
	}
	return strings.HasSuffix(id.Kind, "ClusterIdentity") || strings.HasSuffix(id.Kind, "ClusterStaticIdentity")
}

// presumed reports whether a kind without a schema is one that a cluster is made of: of Cluster API and its providers, Kamaji, or the
// plainest of Kubernetes. A ServiceAccount, a Role or a Pod is not: a tenant's request must not become rights or work in the management
// cluster.
func presumed(id manifest.ID) bool {
	return id.Group == clusterGroup || strings.HasSuffix(id.Group, "."+clusterGroup) || id.Group == kamajiGroup && id.Kind == "TenantControlPlane" ||
		id.Group == "" && slices.Contains([]string{"ConfigMap", "Secret", "Service"}, id.Kind)
}

// named finds the name of another cluster, wherever the kinds of Cluster API have it.
func (i *inspector) named(o *manifest.Object, v any, path string) {
	switch x := v.(type) {
	case map[string]any:
		for _, key := range catalog.Sorted(x) {
			name, isText := x[key].(string)
			if isText && (key == clusterNameLabel || key == "clusterName" && o.GroupVersionKind().Group == clusterGroup) && name != i.d.request.Name {
				i.fault("chart/foreign-object", "makes %s of %s with %s %q: that is another cluster", manifest.IDOf(o), i.d.request, strings.TrimPrefix(path+"."+key, "."), name)
			}
			i.named(o, x[key], path+"."+key)
		}
	case []any:
		for n, e := range x {
			i.named(o, e, fmt.Sprintf("%s[%d]", path, n))
		}
	}
}

// Where kinds have the address and the version of a cluster's control plane.
var (
	addressPaths = map[string][]string{
		"KamajiControlPlane": {"spec", "network", "serviceAddress"},
		"TenantControlPlane": {"spec", "networkProfile", "address"},
	}
	annotationPaths = map[string][]string{ // of the control plane's Service
		"KamajiControlPlane": {"spec", "network", "serviceAnnotations"},
		"TenantControlPlane": {"spec", "controlPlane", "service", "additionalMetadata", "annotations"},
	}
	versionPaths = map[string][]string{
		"KamajiControlPlane": {"spec", "version"}, "TenantControlPlane": {"spec", "kubernetes", "version"}, "MachineDeployment": {"spec", "template", "spec", "version"},
	}
)

// addressed finds an address that is not the one from the ledger, and a version that is not the request's.
func (i *inspector) addressed(o *manifest.Object) {
	d, id := i.d, manifest.IDOf(o)
	ours := id.Group == controlPlaneGroup || id.Group == kamajiGroup
	want := d.address
	if lookup(o.Object, []string{"spec", "controlPlane", "service", "serviceType"}) == "NodePort" { // of a host, which many share: ports tell them apart
		want, _ = d.effectiveAt("controlPlane.network.nodeAddress").(string)
	}
	wants := func(path []string, required bool) {
		if v := lookup(o.Object, path); v != nil && text(v) != text(nilIfEmpty(want)) || v == nil && want != "" && required {
			i.fault("chart/unledgered-address", "makes %s of %s with %s %v, want %v, which is from the ledger", id, d.request, joinPath(path[1:]), text(v), text(nilIfEmpty(want)))
		}
	}
	if path := addressPaths[id.Kind]; path != nil && ours {
		wants(path, true)
		for _, key := range addressAnnotations {
			wants(append(slices.Clone(annotationPaths[id.Kind]), key), false)
		}
	}
	if id.Group == "" && id.Kind == "Service" { // of the chart's own: the addresses in the pools are the ledger's to give
		for _, key := range addressAnnotations {
			wants([]string{"metadata", "annotations", key}, false)
		}
		wants([]string{"spec", "loadBalancerIP"}, false)
		wants([]string{"spec", "externalIPs"}, false)
	}
	host, _ := lookup(o.Object, []string{"spec", "controlPlaneEndpoint", "host"}).(string)
	if host != "" && host != d.address && (d.tier.Access == "" || host != d.hostname()) {
		i.fault("chart/unledgered-address", "makes %s of %s with controlPlaneEndpoint %s, want %v, which is from the ledger", id, d.request, host, text(nilIfEmpty(d.address)))
	}
	if path := versionPaths[id.Kind]; path != nil && (ours || id.Group == clusterGroup) {
		if v := lookup(o.Object, path); v != d.request.Spec.Version {
			i.fault("chart/version", "makes %s of %s with %s %v, want %s", id, d.request, strings.Join(path[1:], "."), text(v), d.request.Spec.Version)
		}
	}
}

func joinPath(path []string) string { return strings.Join(path, ".") }

func nilIfEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// references finds what a Cluster names that is not there. A reference has apiGroup, kind and name: Cluster API finds the version
// (ContractVersionedObjectReference in api/core/v1beta2/common_types.go).
func (i *inspector) references(cluster *manifest.Object, objects []*manifest.Object) {
	if v := cluster.GetAPIVersion(); v != clusterGroup+"/v1beta2" {
		i.fault("chart/refused", "makes a Cluster %s of %s, want %s/v1beta2", v, i.d.request, clusterGroup)
		return
	}
	for _, p := range topology.AdmitWritten(cluster, nil) {
		i.fault("chart/refused", "makes a Cluster of %s that Cluster API refuses: %s", i.d.request, p.Words())
	}
	for _, field := range []string{"controlPlaneRef", "infrastructureRef"} {
		ref, _ := lookup(cluster.Object, []string{"spec", field}).(map[string]any)
		o := find(objects, ref)
		if o != nil {
			i.port(cluster, o)
		}
		if o == nil {
			i.fault("chart/reference", "makes a Cluster of %s whose %s names nothing that the chart makes: %v", i.d.request, field, text(nilIfEmpty(refText(ref))))
		}
	}
	if lookup(cluster.Object, []string{"spec", "controlPlaneEndpoint"}) != nil {
		i.fault("chart/unledgered-address", "sets controlPlaneEndpoint of the Cluster of %s, which Cluster API fills in", i.d.request)
	}
}

// port finds an endpoint whose port is not the API server's: the control plane provider refuses such a cluster (checkGenericCluster in
// controllers/kamajicontrolplane_controller_cluster_patch.go of the Kamaji provider).
func (i *inspector) port(cluster, o *manifest.Object) {
	port := lookup(o.Object, []string{"spec", "controlPlaneEndpoint", "port"})
	want := lookup(cluster.Object, []string{"spec", "clusterNetwork", "apiServerPort"})
	if want == nil {
		want = int64(6443) // Kamaji's default
	}
	if port != nil && i.d.tier.Access == "" && port != want {
		i.fault("chart/port", "makes %s of %s with controlPlaneEndpoint port %v, and the API server's is %v", manifest.IDOf(o), i.d.request, port, want)
	}
}

func refText(ref map[string]any) string {
	if ref == nil {
		return ""
	}
	return fmt.Sprintf("%v %v in %v", ref["kind"], ref["name"], ref["apiGroup"])
}

// find is the object that a reference names, of the reference's own namespace; nil when it is not there.
func find(objects []*manifest.Object, ref map[string]any) *manifest.Object {
	for _, o := range objects {
		if id := manifest.IDOf(o); ref["apiGroup"] == id.Group && ref["kind"] == id.Kind && ref["name"] == id.Name {
			return o
		}
	}
	return nil
}

// The places of a MachineDeployment's references.
var (
	infrastructureRef = []string{"spec", "template", "spec", "infrastructureRef"}
	bootstrapRef      = []string{"spec", "template", "spec", "bootstrap", "configRef"}
)

// deployments holds the MachineDeployments against the worker pools of the request, and the templates against the MachineDeployments: a
// template that nothing names would be edited without effect.
func (i *inspector) deployments(objects []*manifest.Object) {
	used := map[*manifest.Object]bool{}
	there := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() == "MachineSet" || o.GetKind() == "Machine" || o.GetKind() == "MachinePool" {
			i.fault("chart/unjudged", "makes %s of %s: machines are made by MachineDeployments here, which is what can be judged", manifest.IDOf(o), i.d.request)
		}
		if !topology.IsDeployment(o) {
			continue
		}
		there[o.GetName()] = true
		var parts [2]*manifest.Object
		for n, path := range [][]string{infrastructureRef, bootstrapRef} {
			ref, _ := lookup(o.Object, path).(map[string]any)
			if parts[n] = find(objects, ref); parts[n] == nil {
				i.fault("chart/reference", "makes %s of %s whose %s names nothing that the chart makes: %v", manifest.IDOf(o), i.d.request, path[len(path)-1], text(nilIfEmpty(refText(ref))))
				return
			}
			used[parts[n]] = true
		}
		pool, problems := topology.WrittenPool(o.GetName(), o, parts[0], parts[1])
		if len(problems) == 0 {
			problems = pool.AdmitDeployment()
		}
		for _, p := range problems {
			i.fault("chart/refused", "makes %s of %s that Cluster API refuses: %s", manifest.IDOf(o), i.d.request, p.Words())
		}
		i.selector(o)
	}
	for _, name := range i.d.pools {
		if !there[i.d.deploymentName(name)] {
			i.fault("chart/pools", "makes no MachineDeployment %s of worker pool %q of %s", i.d.deploymentName(name), name, i.d.request)
		}
		delete(there, i.d.deploymentName(name))
	}
	for _, name := range catalog.Sorted(there) {
		i.fault("chart/pools", "makes MachineDeployment %s of %s, which has no such worker pool", name, i.d.request)
	}
	for _, o := range objects {
		if isTemplate(o) && !used[o] {
			i.fault("chart/unused-template", "makes %s of %s, which no MachineDeployment names: an edit of it would never take effect", manifest.IDOf(o), i.d.request)
		}
	}
}

// selector finds a MachineDeployment that knows its machines by what a tenant may change: with another value they would be nobody's, and
// others come beside them.
func (i *inspector) selector(o *manifest.Object) {
	labels := i.d.workers()[strings.TrimPrefix(o.GetName(), i.d.request.Name+"-")].Labels
	by, _ := lookup(o.Object, []string{"spec", "selector", "matchLabels"}).(map[string]any)
	for _, key := range catalog.Sorted(by) {
		if value, theirs := labels[key]; theirs && by[key] == value {
			i.fault("chart/selector", "makes %s of %s whose selector has label %s of the request: another value, and the machines there are would be lost", manifest.IDOf(o), i.d.request, key)
		}
	}
}

// deploymentName is what the MachineDeployment of a worker pool is called.
func (d *draft) deploymentName(pool string) string { return d.request.Name + "-" + pool }
