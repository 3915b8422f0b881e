package tests

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// The short request of examples/quickstart renders to the documented manifest: its spec, defaulted by the class through Cluster
// API's webhook, is ours exactly, and our spec comes back unchanged from that webhook.
func TestDocumentedManifest(t *testing.T) {
	tree := os.DirFS("../examples/quickstart")
	class := classOf(t, "../examples/quickstart", "kubeadm")
	_, set, found, err := render.Render(tree, "tenants/photon-prod/solar.yaml")
	if err != nil || found.Failed() || set.Len() != 1 {
		t.Fatalf("render: %d objects, %v, %s", set.Len(), err, found)
	}
	ours := set.Objects()[0]
	want, err := manifest.Parse([]byte(documented))
	if err != nil {
		t.Fatal(err)
	}
	defaulted := admit(t, class, want[0])
	sortVariables(t, defaulted) // a list keyed by name: its order means nothing to Cluster API
	if d := cmp.Diff(defaulted.Object["spec"], ours.Object["spec"]); d != "" {
		t.Errorf("spec (-documented and defaulted +ours):\n%s", d)
	}
	if d := cmp.Diff(ours.Object["spec"], admit(t, class, ours).Object["spec"]); d != "" {
		t.Errorf("our spec is changed by the webhook (-ours +defaulted):\n%s", d)
	}
}

// Every Cluster of the fleet is a fixed point of Cluster API's admission: nothing is left for the webhook to fill in.
func TestFixedPoint(t *testing.T) {
	class := classOf(t, "../examples/fleet", "kubeadm")
	_, set, found, err := render.Render(os.DirFS("../examples/fleet"))
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	clusters := 0
	for _, o := range set.Objects() {
		if o.GetKind() != "Cluster" {
			continue
		}
		clusters++
		if d := cmp.Diff(o.Object["spec"], admit(t, class, o).Object["spec"]); d != "" {
			t.Errorf("%s is changed by the webhook (-ours +defaulted):\n%s", manifest.IDOf(o), d)
		}
	}
	if clusters != 12 {
		t.Errorf("the fleet has %d clusters, want 12", clusters)
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
