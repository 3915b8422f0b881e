package topology

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/render/manifest"
)

// AdmitAll answers as Admit does, on random Clusters: right ones, wrong ones, and all that lies between.
func TestAdmitAllIsAdmit(t *testing.T) {
	const seed = 20261201
	r := rand.New(rand.NewPCG(seed, 1))
	c := class(t)
	refused, together := 0, 0
	for round := range 60 {
		faulty := round%4 == 0 // most batches are right as a whole, as they are in a fleet
		var objects []*manifest.Object
		n := 1 + r.IntN(90)
		if round%20 == 3 { // more than one batch
			n = batchSize + r.IntN(20)
		}
		for i := range n {
			objects = append(objects, cluster(t, fmt.Sprintf("c-%d", i), randomVariables(r, faulty)))
			if r.IntN(3) == 0 {
				override(objects[i], randomSize(r, faulty))
			}
			vary(r, objects[i], round%4 == 2)
		}
		if _, ok := c.together(objects); ok {
			together++
		}
		for i, got := range c.AdmitAll(objects) {
			want, problems, err := c.Admit(objects[i])
			if err != nil || got.Err != nil {
				t.Fatalf("seed %d, round %d: Admit: %v, AdmitAll: %v", seed, round, err, got.Err)
			}
			if len(problems) > 0 {
				refused++
			}
			if d := cmp.Diff(problems, got.Problems); d != "" {
				t.Fatalf("seed %d, round %d, %s: problems (-Admit +AdmitAll):\n%s", seed, round, mustJSON(objects[i]), d)
			}
			if want != nil {
				if d := cmp.Diff(want.Object, got.Cluster.Object); d != "" {
					t.Fatalf("seed %d, round %d, %s: Cluster (-Admit +AdmitAll):\n%s", seed, round, mustJSON(objects[i]), d)
				}
			}
		}
	}
	if refused < 20 || together < 10 {
		t.Errorf("seed %d: only %d Clusters were refused and %d batches went together: the test sees too little", seed, refused, together)
	}
}

func randomSize(r *rand.Rand, faulty bool) string {
	sizes := []string{"small", "medium", "large"}
	if faulty && r.IntN(20) == 0 {
		return "huge"
	}
	return sizes[r.IntN(len(sizes))]
}

func override(o *manifest.Object, size string) {
	md := o.Object["spec"].(map[string]any)["topology"].(map[string]any)["workers"].(map[string]any)["machineDeployments"].([]any)[0].(map[string]any)
	md["variables"] = map[string]any{"overrides": []any{map[string]any{"name": "machineSize", "value": size}}}
}

// vary changes what is not a variable: in what a fleet has, and in what Cluster API or its types refuse.
func vary(r *rand.Rand, o *manifest.Object, faulty bool) {
	spec := o.Object["spec"].(map[string]any)
	topo := spec["topology"].(map[string]any)
	md := topo["workers"].(map[string]any)["machineDeployments"].([]any)[0].(map[string]any)
	md["replicas"] = int64(r.IntN(4))
	o.SetLabels(map[string]string{"app.kubernetes.io/name": o.GetName()})
	if r.IntN(4) == 0 {
		o.SetAnnotations(map[string]string{"topology.cluster.x-k8s.io/upgrade-concurrency": fmt.Sprint(1 + r.IntN(3))})
	}
	if r.IntN(4) == 0 {
		spec["clusterNetwork"] = map[string]any{"pods": map[string]any{"cidrBlocks": []any{fmt.Sprintf("10.%d.0.0/16", r.IntN(3))}}}
	}
	if !faulty || r.IntN(40) > 0 {
		return
	}
	switch r.IntN(12) {
	case 0:
		topo["version"] = "1.33.1"
	case 1:
		topo["version"] = "vv1"
	case 2:
		o.SetAnnotations(map[string]string{"topology.cluster.x-k8s.io/upgrade-concurrency": "0"})
	case 3:
		spec["clusterNetwork"] = map[string]any{"pods": map[string]any{"cidrBlocks": []any{"10.0.0.0"}}}
	case 4:
		spec["unknown"] = true
	case 5:
		o.Object["metadata"].(map[string]any)["labels"] = map[string]any{"a": int64(1)}
	case 6:
		o.Object["metadata"].(map[string]any)["annotations"] = map[string]any{"a": int64(1)}
	case 7:
		md["class"] = "none"
	case 8:
		topo["variables"] = append(topo["variables"].([]any), map[string]any{"name": "machineSize"})
	case 9:
		topo["variables"] = append(topo["variables"].([]any), map[string]any{"name": "machineSize", "value": "small", "from": "x"})
	case 10:
		topo["variables"] = append(topo["variables"].([]any), map[string]any{"name": "network", "value": map[string]any{"subnet": "net-1"}})
	case 11:
		md["replicas"] = "three"
	}
}

func randomVariables(r *rand.Rand, faulty bool) string {
	some := func(n int) bool { return r.IntN(n) == 0 }
	wrong := func() bool { return faulty && some(40) }
	v := map[string]any{}
	network := map[string]any{"subnet": fmt.Sprintf("net-%d", r.IntN(3))}
	if some(2) {
		network["mtu"] = 1280 + r.IntN(1000)
	}
	if wrong() {
		network["mtu"] = 1
	}
	if wrong() {
		network["subnet"] = "mgmt-1"
	}
	if wrong() {
		network["vlan"] = 4
	}
	if !wrong() {
		v["network"] = network
	}
	if some(2) {
		v["machineSize"] = randomSize(r, faulty)
	}
	if some(3) {
		users := []any{}
		for i := range r.IntN(3) {
			u := map[string]any{"name": fmt.Sprintf("u%d", i)}
			if some(2) {
				u["shell"] = "/bin/bash"
			}
			if wrong() {
				delete(u, "name")
			}
			users = append(users, u)
		}
		v["users"] = users
	}
	if some(3) {
		v["volumes"] = map[string]any{"data": map[string]any{}, "logs": map[string]any{"size": "1Gi", "mode": "ReadWriteMany"}}
	}
	if some(10) {
		v["volumes"] = map[string]any{}
	}
	if wrong() {
		v["volumes"] = nil
	}
	if wrong() {
		v["unknown"] = true
	}
	j, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(j)
}
