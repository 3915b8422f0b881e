package tests

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// documented is what kMetal's documentation shows for a working cluster on the kubeadm tier, as facts: class, version, subnet,
// DataStore, address, public address, size, worker pool.
const documented = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: solar, namespace: photon-prod}
spec:
  topology:
    classRef: {name: kubevirt-kubeadm, namespace: kmetal-capi-providers}
    version: v1.34.1
    variables:
    - name: network
      value: {subnet: production}
    - name: controlPlane
      value:
        dataStoreName: default
        network: {serviceType: LoadBalancer, serviceAddress: 172.21.208.100, certSANs: [198.51.100.10]}
    - name: machineSize
      value: small
    workers:
      machineDeployments:
      - {class: default-worker, name: md-0, replicas: 2}
`

// documentedExpert is the documentation's second manifest, on the expert tier, as facts: address, resources of the API server, custom
// size, boot volume, placement, and the address in the subnet that workers join by.
const documentedExpert = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: solar, namespace: dynamo-prod}
spec:
  topology:
    classRef: {name: kubevirt-expert, namespace: kmetal-capi-providers}
    version: v1.34.1
    variables:
    - name: network
      value: {subnet: production}
    - name: controlPlane
      value:
        dataStoreName: default
        network: {serviceAddress: 172.21.208.111}
        apiServer:
          resources:
            requests: {cpu: 500m, memory: 1Gi}
            limits: {cpu: "2", memory: 4Gi}
    - name: machineSize
      value: custom
    - name: machineSpecs
      value: {cpuCores: 12, memoryGiB: 48}
    - name: machineStorage
      value: {size: 30Gi, storageAccessMode: ReadWriteOnce}
    - name: infrastructure
      value: {nodeSelector: {node-role.kubernetes.io/compute: ""}}
    - name: bootstrapConfig
      value: {serverAddress: 10.100.0.254}
    workers:
      machineDeployments:
      - {class: default-worker, name: md-0, replicas: 4}
`

// A short request renders to the documented manifest: its spec, defaulted by the class through Cluster API's webhook, is ours
// exactly, and our spec comes back unchanged from that webhook.
func TestDocumentedManifests(t *testing.T) {
	for _, c := range []struct{ manifest, repository, request, tier string }{
		{documented, "../examples/quickstart", "tenants/photon-prod/solar.yaml", "kubeadm"},
		{documentedExpert, "../examples/fleet", "tenants/dynamo-prod/solar.yaml", "expert"},
	} {
		t.Run(c.tier, func(t *testing.T) {
			class := classOf(t, c.repository, c.tier)
			_, set, found, err := render.Render(os.DirFS(c.repository), c.request)
			if err != nil || found.Failed() || set.Len() != 1 {
				t.Fatalf("render: %d objects, %v, %s", set.Len(), err, found)
			}
			ours := set.Objects()[0]
			want, err := manifest.Parse([]byte(c.manifest))
			if err != nil {
				t.Fatal(err)
			}
			if a, b := manifest.IDOf(want[0]), manifest.IDOf(ours); a != b {
				t.Errorf("%s is rendered, want %s", b, a)
			}
			defaulted := admit(t, class, want[0])
			sortVariables(t, defaulted) // a list keyed by name: its order means nothing to Cluster API
			if d := cmp.Diff(defaulted.Object["spec"], ours.Object["spec"]); d != "" {
				t.Errorf("spec (-documented and defaulted +ours):\n%s", d)
			}
			if d := cmp.Diff(ours.Object["spec"], admit(t, class, ours).Object["spec"]); d != "" {
				t.Errorf("our spec is changed by the webhook (-ours +defaulted):\n%s", d)
			}
		})
	}
}

// Every Cluster of the fleet is a fixed point of Cluster API's admission: nothing is left for the webhook to fill in.
func TestFixedPoint(t *testing.T) {
	const fleet = "../examples/fleet"
	classes := map[string]*topology.Class{}
	for _, tier := range []string{"standard", "expert", "kubeadm", "edge"} {
		c := classOf(t, fleet, tier)
		classes[c.Key().Name] = c
	}
	_, set, found, err := render.Render(os.DirFS(fleet))
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	clusters := map[string]int{}
	for _, o := range set.Objects() {
		if o.GetKind() != "Cluster" {
			continue
		}
		name, _, err := unstructured.NestedString(o.Object, "spec", "topology", "classRef", "name")
		if err != nil || classes[name] == nil {
			t.Fatalf("%s is of class %q: %v", manifest.IDOf(o), name, err)
		}
		clusters[name]++
		if d := cmp.Diff(o.Object["spec"], admit(t, classes[name], o).Object["spec"]); d != "" {
			t.Errorf("%s is changed by the webhook (-ours +defaulted):\n%s", manifest.IDOf(o), d)
		}
	}
	if want := map[string]int{"kubevirt-standard": 1, "kubevirt-expert": 1, "kubevirt-kubeadm": 10, "edge": 1}; !maps.Equal(clusters, want) {
		t.Errorf("the fleet has clusters %v, want %v", clusters, want)
	}
}

// classOf is a tier's class as the management cluster has it, without the defaults that a catalog or a ledger put over it.
func classOf(t *testing.T, repository, tier string) *topology.Class {
	t.Helper()
	c, found, err := catalog.Load(os.DirFS(repository), "catalog")
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	objects, found, err := c.ClassObjects(c.Tiers[tier].From)
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	class, problems, err := topology.NewClass(objects, topology.Key{Namespace: c.Classes[c.Tiers[tier].From].Namespace, Name: c.Tiers[tier].Class})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return class
}

func admit(t *testing.T, class *topology.Class, o *manifest.Object) *manifest.Object {
	t.Helper()
	out, problems, err := class.Admit(o)
	if err != nil || len(problems) > 0 {
		t.Fatalf("Admit(%s): %v, %v", manifest.IDOf(o), err, problems)
	}
	return out
}

func sortVariables(t *testing.T, o *manifest.Object) {
	t.Helper()
	spec := o.Object["spec"].(map[string]any)
	list := spec["topology"].(map[string]any)["variables"].([]any)
	slices.SortFunc(list, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
	})
}
