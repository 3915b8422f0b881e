package controlplane

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestAddressManifests has MetalLB's own checks look at the address manifests, for each way that MetalLB speaks BGP; and has each overlap
// that they refuse refused by copyhold before.
func TestAddressManifests(t *testing.T) {
	t.Parallel()
	fleet := exampleFleet(t)
	objects := fleet.render("catalog")
	for _, implementation := range []string{"native", "frr", "frr-k8s"} {
		if words, ok := metallb(t, implementation, objects); !ok {
			// MetalLB in its native mode does not announce IPv6 by BGP, and the fleet's second pool is of that kind.
			if implementation == "native" && strings.Contains(strings.ToLower(words), "ipv6") {
				continue
			}
			t.Errorf("MetalLB (%s) refuses what the fleet renders: %s", implementation, words)
		}
	}
	overlap := exampleFleet(t)
	second := "    tenant-cp-pool-v6:\n"
	overlap.edit("catalog/catalog.yaml", second, "    again: {namespace: kmetal-metallb, addresses: [172.21.208.150-172.21.208.160], mode: pool}\n"+second)
	if out, complaint, err := overlap.run("render", "catalog"); err == nil {
		t.Errorf("copyhold renders two pools that overlap:\n%s", out)
	} else if !strings.Contains(string(complaint), "172.21.208.1") {
		t.Errorf("copyhold does not say what overlaps: %s", complaint)
	}
	// The same, as MetalLB would have seen it.
	again := find(objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": map[string]any{"namespace": "kmetal-metallb", "name": "tenant-cp-pool.photon-prod"},
	}}).DeepCopy()
	again.SetName("again")
	if words, ok := metallb(t, "frr-k8s", append(objects, again)); ok || !strings.Contains(words, "overlap") {
		t.Errorf("MetalLB takes pools that overlap: %s", words)
	}
}

// metallb is what MetalLB's checks say of the address manifests among objects.
func metallb(t *testing.T, implementation string, objects []*unstructured.Unstructured) (string, bool) {
	t.Helper()
	resources := map[string][]any{}
	for _, o := range objects {
		switch o.GetKind() {
		case "IPAddressPool", "L2Advertisement", "BGPAdvertisement", "Namespace":
			key := lower(o.GetKind()) + "s"
			resources[key] = append(resources[key], o.Object)
		}
	}
	if len(resources["ipaddresspools"]) == 0 {
		t.Fatal("no IPAddressPool")
	}
	in, err := json.Marshal(resources)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(filepath.Join(bin, "metallb-validator"), implementation)
	c.Stdin = bytes.NewReader(in)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}
