package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Clusters that a chart makes have no topology: the gate compares their hashes, and counts the MachineDeployments of the chart.
func TestGateCharts(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../examples/tiers")); err != nil {
		t.Fatal(err)
	}
	replace := func(file, from, to string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(data), from) {
			t.Fatalf("%s has no %q: %v", file, from, err)
		}
		if err := os.WriteFile(filepath.Join(root, file), []byte(strings.Replace(string(data), from, to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	replace("catalog/catalog.yaml", "  clusterAPI:", "  gate: {image: copyhold}\n  clusterAPI:")
	base := &world{objects: map[string]*unstructured.Unstructured{}}
	for _, o := range rendered(t, root, "tenants") {
		if k := o.GetKind(); k == "Cluster" || k == "MachineDeployment" {
			base.add(o.DeepCopy())
		}
	}
	check := func(name string, w *world, want ...string) {
		t.Helper()
		got := w.run(t, wantedOf(t, root, "tenants/dynamo-prod"))
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("%s: the gate says\n%s\nwithout %q", name, got, line)
			}
		}
	}
	const key = "rollout.copyhold.dev/md-0"
	check("in sync", base.copied(), "copyhold gate: no machine of tenants/dynamo-prod is replaced\n", "looked at 5 Clusters in dynamo-prod and 0 ClusterClasses")
	bare := base.copied()
	bare.change(t, "dynamo-prod/tidal", annotate(key, ""))
	check("no hash", bare, "\nUNKNOWN       dynamo-prod/tidal  md-0  (2 machines)\n", "carries no rollout hash yet\n", "EVENT Warning RolloutUnknown Cluster dynamo-prod/tidal: ")
	replace("tenants/dynamo-prod/tidal.yaml", "v1.34.1", "v1.33.5")
	check("another version", base.copied(), "copyhold gate: tenants/dynamo-prod: 1 worker pool WILL ROLL (2 machines)\n", "the chart of its tier makes it otherwise", "NOT accepted in the ledger", "EVENT Warning WorkersWillRoll Cluster dynamo-prod/tidal: ")
	replace("tenants/dynamo-prod/tidal.yaml", "v1.33.5", "v1.34.1")
	replace("tenants/dynamo-prod/tidal.yaml", "    md-0: {replicas: 2}", "    md-0: {replicas: 2}\n    blue: {replicas: 1}")
	check("a new pool", base.copied(), "copyhold gate: no machine of tenants/dynamo-prod is replaced\n", "new worker pools: dynamo-prod/tidal blue\n")
	replace("tenants/dynamo-prod/tidal.yaml", "    md-0: {replicas: 2}\n", "")
	check("a renamed pool", base.copied(), "1 worker pool to go (2 machines)", "\nPOOL GOES     dynamo-prod/tidal  md-0  (2 machines)\n")
}
