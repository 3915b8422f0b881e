package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/gate"
	"copyhold.dev/copyhold/render/manifest"
)

// The platform's hook holds what is wanted of ten thousand clusters: no object is more than an API server takes, no argument more than
// a kernel does, and what the Job reads is what was to be said.
func TestHookLimits(t *testing.T) {
	const (
		maxObject   = 1 << 20   // of a ConfigMap's data, and near what etcd takes (k8s.io/kubernetes/pkg/apis/core, MaxSecretSize)
		maxArgument = 128 << 10 // MAX_ARG_STRLEN
	)
	w := gate.Wanted{Head: gate.Head{Application: "catalog", Job: "classes/" + gate.PlatformAccount, Platform: true}}
	for i := range 10_000 {
		c := gate.Cluster{Cluster: fmt.Sprintf("tenant-%05d/cluster-%05d", i%1000, i), Class: "classes/kubevirt-kubeadm", Version: "v1.34.1", Parts: map[string]string{}, Pools: map[string]gate.Pool{}}
		for _, part := range []string{"class", "version", "controlPlane", "other fields", "variables[controlPlane]", "variables[machineSize]", "variables[network]", "variables[infrastructure]", "workers[md-0]", "workers[md-1]"} {
			c.Parts[part] = catalog.Sum([]any{part, i})
		}
		for _, pool := range []string{"md-0", "md-1"} {
			c.Pools[pool] = gate.Pool{Hash: "v1:" + strings.Repeat("0", 16), Accepted: gate.NotAccepted}
		}
		w.Clusters = append(w.Clusters, c)
		w.Namespaces = append(w.Namespaces, fmt.Sprintf("tenant-%05d", i))
	}
	objects, err := hookObjects(&catalog.Gate{Image: "copyhold"}, w)
	if err != nil {
		t.Fatal(err)
	}
	text, chunks := "", map[string]string{}
	var job *manifest.Object
	for _, o := range objects {
		data, err := manifest.YAML(o)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > maxObject {
			t.Errorf("%s has %d bytes", manifest.IDOf(o), len(data))
		}
		switch o.GetKind() {
		case "ConfigMap":
			chunks[o.GetName()], _, _ = unstructured.NestedString(o.Object, "data", "wanted")
		case "Job":
			job = o
		}
	}
	volumes, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "volumes")
	sources, _, _ := unstructured.NestedSlice(volumes[0].(map[string]any), "projected", "sources")
	last := ""
	for _, s := range sources {
		name, _, _ := unstructured.NestedString(s.(map[string]any), "configMap", "name")
		items, _, _ := unstructured.NestedSlice(s.(map[string]any), "configMap", "items")
		file := items[0].(map[string]any)["path"].(string)
		if file <= last || chunks[name] == "" {
			t.Errorf("ConfigMap %q is mounted as %s, after %s", name, file, last)
		}
		last = file
		text += chunks[name]
	}
	got, err := gate.Read([]byte(text))
	if err != nil || len(got.Clusters) != len(w.Clusters) || len(chunks) < 5 {
		t.Fatalf("%d clusters of %d in %d ConfigMaps: %v", len(got.Clusters), len(w.Clusters), len(chunks), err)
	}
	containers, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "containers")
	args := containers[0].(map[string]any)["args"].([]any)
	for _, a := range args {
		if len(a.(string)) > maxArgument {
			t.Errorf("an argument has %d bytes", len(a.(string)))
		}
	}
	if args[slices.Index(args, any("--digest"))+1] != gate.Sum([]byte(text)) {
		t.Errorf("the Job's arguments are %v, and what it reads has digest %s", args, gate.Sum([]byte(text)))
	}
	t.Logf("%d bytes in %d ConfigMaps", len(text), len(chunks))
}

// Whatever the Job may take, its gate is given less: it says itself that it is late.
func TestHookDeadline(t *testing.T) {
	for _, seconds := range []int64{0, 30, 300, 3600} {
		g := &catalog.Gate{Image: "copyhold"}
		if seconds > 0 {
			g.DeadlineSeconds = &seconds
		}
		job := gateJob(g, "photon-prod", gate.Account, gate.Account, "", nil)
		job = job.DeepCopy()
		ends, _, _ := unstructured.NestedInt64(job.Object, "spec", "activeDeadlineSeconds")
		containers, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "containers")
		args := containers[0].(map[string]any)["args"].([]any)
		i := slices.Index(args, any("--deadline"))
		if i < 0 || i+1 == len(args) {
			t.Fatalf("the Job's arguments are %v", args)
		}
		run, err := time.ParseDuration(args[i+1].(string))
		if late := time.Duration(ends)*time.Second - run; err != nil || run < 20*time.Second || late < 6*time.Second {
			t.Errorf("a Job of %d s gives its gate %s: %v", ends, run, err)
		}
	}
}
