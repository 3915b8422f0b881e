package tests

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
)

// A class source in three forms: a chart with values, the same chart with a KMetal resource, and what an API server gives of the
// objects that the chart renders.
const (
	sourceValues = `
      chart: classes/kmetal
      values:
        tiers: {kubeadm: {enabled: true}}
        dataVolume: {storageTiers: [30Gi, 200Gi], storageClassName: fast, volumeSnapshotClass: fast-snapshots}
        osArtifact: {storageClassName: fast}
        kubeadm: {kubeletExtraArgs: [{name: max-pods, value: "64"}]}
`
	sourceKMetal = `
      chart: classes/kmetal
      kmetal: kmetal.yaml
`
	sourceManifests = `
      manifests: classes/exported
`
	kmetalResource = `apiVersion: kmetal.example.org/v1
kind: KMetal
metadata: {name: kmetal}
spec:
  storage: {underclusterClassName: fast, etcdClassName: fastest}
  clusterClass:
    values:
      tiers: {kubeadm: {enabled: true}}
      dataVolume: {storageTiers: [30Gi, 200Gi], volumeSnapshotClass: fast-snapshots}
      kubeadm: {kubeletExtraArgs: [{name: max-pods, value: "64"}]}
`
)

// However the classes come, the Clusters are the same to the byte, and so is what is predicted with.
func TestClassSources(t *testing.T) {
	trees := map[string]fstest.MapFS{
		"values": fleetWith(t, sourceValues, nil),
		"kmetal": fleetWith(t, sourceKMetal, map[string][]byte{"catalog/kmetal.yaml": []byte(kmetalResource)}),
	}
	trees["manifests"] = fleetWith(t, sourceManifests, map[string][]byte{"catalog/classes/exported/all.yaml": exported(t, trees["values"])})
	want := rendered(t, trees["values"], "tenants")
	if n := bytes.Count(want, []byte("kind: Cluster\n")); n != 13 {
		t.Fatalf("%d clusters are rendered, want 13", n)
	}
	for name, tree := range trees {
		if d := cmp.Diff(string(want), string(rendered(t, tree, "tenants"))); d != "" {
			t.Errorf("%s (-values +%s):\n%s", name, name, d)
		}
		in, found, err := render.Offer(tree)
		if err != nil || found.Failed() {
			t.Fatal(err, found)
		}
		was, found, err := render.Offer(trees["values"])
		if err != nil || found.Failed() {
			t.Fatal(err, found)
		}
		for _, tier := range []string{"standard", "expert", "kubeadm"} {
			if a, b := digest(t, trees["values"], was, tier), digest(t, tree, in, tier); a != b {
				t.Errorf("tier %s has digest %s from values and %s from %s", tier, a, b, name)
			}
		}
	}
	for tier, set := range map[string]string{"standard": "storageClassName: fast", "kubeadm": "max-pods"} { // the values do reach the templates
		if text := string(exported(t, trees["kmetal"])); !strings.Contains(text, set) {
			t.Errorf("%s: no template has %s", tier, set)
		}
	}
}

// fleetWith is examples/fleet with another class source and more files.
func fleetWith(t *testing.T, source string, files map[string][]byte) fstest.MapFS {
	t.Helper()
	const fleet = "../examples/fleet"
	out := fstest.MapFS{}
	err := fs.WalkDir(os.DirFS(fleet), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(os.DirFS(fleet), name)
		out[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const file = "catalog/catalog.yaml"
	before, rest, ok := strings.Cut(string(out[file].Data), "\n      chart: classes/kmetal\n      kmetal: kmetal.yaml\n")
	if !ok {
		t.Fatalf("%s of the fleet has another class source than this test knows", file)
	}
	anyRollout := strings.NewReplacer("rollouts: warn", "rollouts: allow", "rollouts: acknowledge", "rollouts: allow") // these classes are not those of the ledger
	out[file] = &fstest.MapFile{Data: []byte(anyRollout.Replace(before + source + rest))}
	for name, data := range files {
		out[name] = &fstest.MapFile{Data: data}
	}
	return out
}

// exported are the objects of the class source as an API server gives them.
func exported(t *testing.T, tree fs.FS) []byte {
	t.Helper()
	c, found, err := catalog.Load(tree, "catalog")
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	objects, found, err := c.ClassObjects("kmetal")
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	var out bytes.Buffer
	for i, o := range objects {
		o = o.DeepCopy()
		o.SetUID("6a1cf20a-1d8f-4c5b-b1a5-0f4b9d2f8a11")
		o.SetResourceVersion(fmt.Sprint(4711 + i))
		o.SetGeneration(3)
		for path, value := range map[string]any{
			"creationTimestamp": "2026-11-03T10:00:00Z",
			"managedFields":     []any{map[string]any{"manager": "helm", "operation": "Apply", "apiVersion": o.GetAPIVersion()}},
			"ownerReferences":   []any{map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "name": "kubevirt-expert", "uid": "x"}},
		} {
			o.Object["metadata"].(map[string]any)[path] = value
		}
		o.Object["status"] = map[string]any{"observedGeneration": int64(3)}
		data, err := manifest.YAML(o)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(data)
	}
	return out.Bytes()
}

func digest(t *testing.T, tree fs.FS, in *render.Input, tier string) string {
	t.Helper()
	class, found, err := render.Class(tree, in, tier)
	if err != nil || found.Failed() || class == nil {
		t.Fatal(err, found)
	}
	return class.Digest()
}
