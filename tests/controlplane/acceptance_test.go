package controlplane

import (
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAccepted applies all that the examples and a new repository render. The API server has nothing to say against it, Cluster API
// takes the classes and makes the clusters; and once that is so, the same output once more changes nothing.
func TestAccepted(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*testing.T) repository{"fleet": exampleFleet, "quickstart": quickstart, "init": initialised, "tiers": exampleTiers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := prepare(t)
			w := newWorld(t, r.namespaces()...)
			if name == "fleet" {
				edge(w, r)
			}
			var leftOut []string
			if name == "tiers" && providerFolder() == "" {
				leftOut = []string{"tidal of dynamo-tiers", "polar of dynamo-tiers"}
			}
			accepted(w, r, leftOut)
			tell("%s is accepted, and stays as it is", name)
		})
	}
}

// TestUnpublishedProviders says whether TestAccepted has seen the tiers of the two providers that no Go module has the definitions of.
func TestUnpublishedProviders(t *testing.T) {
	if providerFolder() == "" {
		t.Skip("the tiers metal-stack and hetzner are not applied: COPYHOLD_CRDS names no folder with metal-stack and hetzner in it, and neither is there shared/crds beside the work tree")
	}
	for _, plural := range []string{"metalstackclusters", "metalstackmachinetemplates", "metalstackfirewalldeployments", "hetznerclusters", "hcloudmachinetemplates"} {
		if !slices.ContainsFunc(definitions, func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), plural+".") }) {
			t.Errorf("%s has no definition of %s", providerFolder(), plural)
		}
	}
}

// accepted applies what a repository renders, without the objects of clusters that are left out.
func accepted(w *world, r repository, leftOut []string) {
	w.t.Helper()
	platform := r.render("catalog")
	w.accept(platform)
	w.settle(time.Time{})
	w.classesReconciled()
	all := platform
	for _, ns := range r.tenants() {
		objects := slices.DeleteFunc(r.render("tenants/"+ns), func(o *unstructured.Unstructured) bool {
			return slices.Contains(leftOut, o.GetLabels()["app.kubernetes.io/name"]+" of "+ns)
		})
		w.accept(objects)
		all = slices.Concat(all, objects)
	}
	w.arrived()
	for _, o := range synced(all) { // hooks are made anew for each sync
		undrifted(w, o)
	}
}

func exampleFleet(t *testing.T) repository { return copyOf(t, "../../examples/fleet") }

// quickstart is the example in namespaces of its own.
func quickstart(t *testing.T) repository {
	r := copyOf(t, "../../examples/quickstart")
	r.edit("catalog/catalog.yaml", "      namespace: kmetal-capi-providers", "      namespace: quickstart-classes\n      render: true")
	for _, folder := range []string{"tenants", "ledger/clusters"} {
		if err := os.Rename(r.path(folder+"/photon-prod"), r.path(folder+"/quickstart-prod")); err != nil {
			t.Fatal(err)
		}
	}
	r.edit("ledger/clusters/quickstart-prod/solar.yaml", "photon-prod", "quickstart-prod")
	r.edit("ledger/clusters/quickstart-prod/solar.yaml", "kmetal-capi-providers", "quickstart-classes")
	r.edit("ledger/addresses/tenant-cp-pool/172.21.208.100.yaml", "photon-prod", "quickstart-prod")
	return r
}

// exampleTiers is the example of tiers that are charts of explicit objects, in namespaces of its own.
func exampleTiers(t *testing.T) repository {
	r := copyOf(t, "../../examples/tiers")
	names := strings.NewReplacer("dynamo-prod", "dynamo-tiers", "photon-prod", "photon-tiers", "kmetal-metallb", "tiers-metallb")
	for _, folder := range []string{"tenants", "ledger/clusters"} {
		for _, ns := range []string{"dynamo-prod", "photon-prod"} {
			if err := os.Rename(r.path(folder+"/"+ns), r.path(folder+"/"+names.Replace(ns))); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := fs.WalkDir(os.DirFS(r.root), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(name, "rendered/") {
			r.write(name, names.Replace(r.read(name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// initialised is what copyhold init and new make: a cluster on each of the built-in tiers.
func initialised(t *testing.T) repository {
	r := repository{t, t.TempDir()}
	r.must("init")
	r.edit("catalog/catalog.yaml", "      namespace: kmetal-capi-providers", "      namespace: init-classes\n      render: true")
	r.edit("catalog/catalog.yaml", "mode: none", "mode: perTenant")
	r.edit("catalog/catalog.yaml", "    tenant-cp-pool:\n      namespace: kmetal-metallb", "    tenant-cp-pool:\n      namespace: init-metallb")
	r.write("tenants/init-prod/network.yaml", network)
	for _, tier := range []string{"standard", "expert", "kubeadm"} {
		r.must("new", "cluster", "init-prod/"+tier, "--tier", tier)
	}
	r.must("allocate")
	return r
}

const network = `apiVersion: copyhold.dev/v1alpha1
kind: SubnetRequest
metadata:
  name: production
spec:
  cidr: 10.100.0.0/24
  gateway: 10.100.0.1
  serverAddresses: 10.100.0.240-10.100.0.254
`

// edge applies the class of the fleet that is not rendered, since it is exported from where it runs.
func edge(w *world, r repository) {
	w.t.Helper()
	w.namespaces = append(w.namespaces, "edge-classes")
	w.namespace("edge-classes")
	exported, err := readObjects(r.path("catalog/classes/exported/edge.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range exported {
		o.SetUID("")
		o.SetResourceVersion("")
		o.SetGeneration(0)
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		unstructured.RemoveNestedField(o.Object, "status")
	}
	w.accept(exported)
}

// accept applies objects, and has it that nobody objects or warns.
func (w *world) accept(objects []*unstructured.Unstructured) {
	w.t.Helper()
	for _, o := range objects {
		if ns := o.GetNamespace(); ns != "" {
			w.namespace(ns)
		}
	}
	if err := w.apply(objects); err != nil {
		w.t.Fatalf("refused: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range w.warnings {
		w.t.Errorf("the API server warns: %s", text)
	}
	w.warnings = nil
}

func (w *world) classesReconciled() {
	w.t.Helper()
	for _, c := range w.list(clusterClasses) {
		for _, kind := range []string{"RefVersionsUpToDate", "VariablesReady"} {
			if got := conditionOf(c, kind); got["status"] != "True" {
				w.t.Errorf("ClusterClass %s: %s is %v: %v", c.GetName(), kind, got["status"], got["message"])
			}
		}
	}
}

// arrived waits until the clusters have come to be, with all of their machines.
func (w *world) arrived() {
	w.t.Helper()
	var missing []string
	err := poll(w.t.Context(), 5*time.Minute, "the clusters are there", func() (bool, error) {
		missing = nil
		all := w.list(clusters)
		for _, c := range all {
			for _, kind := range []string{"TopologyReconciled", "Available", "WorkersAvailable"} {
				if kind == "TopologyReconciled" && field(c, "spec", "topology") == nil {
					continue
				}
				if got := conditionOf(c, kind); got["status"] != "True" {
					missing = append(missing, fmt.Sprintf("Cluster %s/%s: %s is %v: %v", c.GetNamespace(), c.GetName(), kind, got["status"], got["message"]))
				}
			}
		}
		return len(all) > 0 && missing == nil, nil
	})
	if err != nil {
		for _, m := range w.list(machines) {
			for _, c := range m.Object["status"].(map[string]any)["conditions"].([]any) {
				if c := c.(map[string]any); c["status"] != "True" {
					missing = append(missing, fmt.Sprintf("Machine %s: %v is %v: %v", m.GetName(), c["type"], c["status"], c["message"]))
				}
			}
		}
		w.t.Fatal(err, strings.Join(missing, "\n"))
	}
	w.settle(time.Time{})
}

// elsewhere is what comes into the spec of our objects without us: references and endpoints that Cluster API writes, and defaults of
// schemas where nobody asks for another value, of MachineDeployments also of Cluster API's web hook (the strategy of rollouts, and the
// autoscaler's number). Argo CD passes over them: with ServerSideDiff, as examples/argocd sets it, it compares what
// is there with what another sync would make of it. Of a Cluster's topology and of a ClusterClass nothing is in the list.
var elsewhere = map[string][]string{
	"BGPAdvertisement":           {"spec.aggregationLength"},
	"Cluster":                    {"spec.controlPlaneEndpoint", "spec.controlPlaneRef", "spec.infrastructureRef"},
	"HetznerCluster":             {"spec.controlPlaneEndpoint", "spec.controlPlaneLoadBalancer.algorithm", "spec.controlPlaneLoadBalancer.port", "spec.controlPlaneLoadBalancer.type", "spec.hcloudNetwork.cidrBlock", "spec.hcloudNetwork.networkZone", "spec.hcloudNetwork.subnetCidrBlock", "spec.hetznerSecretRef.key.hetznerRobotPassword", "spec.hetznerSecretRef.key.hetznerRobotUser", "spec.hetznerSecretRef.key.sshKey"},
	"IPAddressPool":              {"spec.avoidBuggyIPs"},
	"KamajiControlPlane":         {"spec.addons.konnectivity.agent", "spec.addons.konnectivity.server", "spec.registry", "spec.replicas"},
	"KamajiControlPlaneTemplate": {"spec.template.spec.addons.konnectivity.agent", "spec.template.spec.addons.konnectivity.server", "spec.template.spec.kubelet", "spec.template.spec.registry"},
	"KubevirtCluster":            {"spec.controlPlaneEndpoint"},
	"MachineDeployment":          {"spec.replicas", "spec.rollout"},
	"Namespace":                  {"spec.finalizers"},
	"NutanixCluster":             {"spec.controlPlaneEndpoint"},
	"PacketCluster":              {"spec.controlPlaneEndpoint", "spec.vipManager"},
	"ProxmoxCluster":             {"spec.controlPlaneEndpoint", "spec.ipv4Config.metric"},
	"TenantControlPlane":         {"spec.addons.konnectivity.agent.image", "spec.addons.konnectivity.agent.tolerations", "spec.addons.konnectivity.agent.version", "spec.addons.konnectivity.server.image", "spec.addons.konnectivity.server.version", "spec.controlPlane.deployment.registrySettings", "spec.controlPlane.deployment.serviceAccountName", "spec.controlPlane.deployment.strategy", "spec.kubernetes.admissionControllers", "spec.networkProfile.dnsServiceIPs", "spec.networkProfile.podCidr", "spec.networkProfile.serviceCidr"},
}

// undrifted checks an object that has been applied: another sync would change nothing, and each value in its spec is one that is rendered.
func undrifted(w *world, rendered *unstructured.Unstructured) {
	w.t.Helper()
	name := fmt.Sprintf("%s %s/%s", rendered.GetKind(), rendered.GetNamespace(), rendered.GetName())
	before, err := w.of(rendered).Get(w.t.Context(), rendered.GetName(), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	tried, err := w.applyOne(rendered, func(o *metav1.PatchOptions) { o.DryRun = []string{metav1.DryRunAll} })
	if err != nil {
		w.t.Fatal(err)
	}
	for _, path := range []string{"spec", "metadata"} {
		if !reflect.DeepEqual(before.Object[path], tried.Object[path]) {
			w.t.Errorf("%s: Argo CD would see a difference in %s: %v", name, path, differences(path, before.Object[path], tried.Object[path]))
		}
	}
	after, err := w.applyOne(rendered)
	if err != nil {
		w.t.Fatal(err)
	}
	if after.GetGeneration() != before.GetGeneration() || after.GetResourceVersion() != before.GetResourceVersion() {
		w.t.Errorf("%s: the same once more makes generation %d of %d, resource version %s of %s", name,
			after.GetGeneration(), before.GetGeneration(), after.GetResourceVersion(), before.GetResourceVersion())
	}
	if was, is := ours(before), ours(after); was == nil || !reflect.DeepEqual(was, is) {
		w.t.Errorf("%s: the fields that Argo CD owns are %v, and were %v", name, is, was)
	}
	spec := rendered.Object["spec"]
	if spec == nil && rendered.GetKind() == "Namespace" {
		spec = map[string]any{}
	}
	for _, d := range differences("spec", spec, after.Object["spec"]) {
		if !slices.Contains(elsewhere[rendered.GetKind()], strings.TrimSuffix(d, " is added")) {
			w.t.Errorf("%s: as rendered and as it runs: %s", name, d)
		}
	}
}

// ours are the fields that Argo CD owns.
func ours(o *unstructured.Unstructured) any {
	for _, m := range o.GetManagedFields() {
		if m.Manager == manager && m.Operation == metav1.ManagedFieldsOperationApply {
			return m.FieldsV1.String()
		}
	}
	return nil
}

// differences are the places where two values are not the same.
func differences(path string, was, is any) []string {
	a, isMap := was.(map[string]any)
	b, bothMaps := is.(map[string]any)
	if isMap && bothMaps {
		var out []string
		for k := range a {
			if _, ok := b[k]; !ok {
				out = append(out, path+"."+k+" is gone")
				continue
			}
			out = append(out, differences(path+"."+k, a[k], b[k])...)
		}
		for k := range b {
			if _, ok := a[k]; !ok {
				out = append(out, path+"."+k+" is added")
			}
		}
		slices.Sort(out)
		return out
	}
	x, isList := was.([]any)
	y, bothLists := is.([]any)
	if isList && bothLists && len(x) == len(y) {
		var out []string
		for i := range x {
			out = append(out, differences(fmt.Sprintf("%s[%d]", path, i), x[i], y[i])...)
		}
		return out
	}
	if !equal(was, is) {
		return []string{fmt.Sprintf("%s is %v, was %v", path, is, was)}
	}
	return nil
}
