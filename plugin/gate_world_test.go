package plugin

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/gate"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

const fleetFolder = "../examples/fleet"

// repository is a copy of the example fleet in which texts of files are replaced; a file that is replaced by nothing at all is removed.
// The ledger accepts nothing of it: where the policy wants that, it is a warning here.
func repository(t *testing.T, edits ...edit) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(fleetFolder)); err != nil {
		t.Fatal(err)
	}
	for _, e := range append(edits, edit{"catalog/catalog.yaml", "rollouts: acknowledge", "rollouts: warn"}) {
		name := filepath.Join(root, e.file)
		if e.from == "" {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(data, []byte(e.from)) {
			t.Fatalf("%s has no %q", e.file, e.from)
		}
		if err := os.WriteFile(name, bytes.ReplaceAll(data, []byte(e.from), []byte(e.to)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

type edit struct{ file, from, to string }

// rendered is what a repository makes of some of its applications.
func rendered(t *testing.T, root string, paths ...string) []*manifest.Object {
	t.Helper()
	_, set, found, err := render.Render(os.DirFS(root), paths...)
	if err != nil || found.Failed() {
		t.Fatalf("%v\n%s", err, found)
	}
	return set.Objects()
}

// wantedOf is what the hook of an application is given.
func wantedOf(t *testing.T, root, path string) gate.Wanted {
	t.Helper()
	var text string
	for _, o := range rendered(t, root, path) {
		if render.IsHook(o) && o.GetKind() == "ConfigMap" {
			chunk, _, _ := unstructured.NestedString(o.Object, "data", "wanted")
			text += chunk
		}
	}
	w, err := gate.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// world is a management cluster.
type world struct {
	objects  map[string]*unstructured.Unstructured // by kind namespace/name
	funcs    interceptor.Funcs
	patience time.Duration
	until    context.Context // the run's, or nil
	unhashed string          // a cluster of whose worker pool nobody can tell offline
}

func (w *world) copied() *world {
	out := &world{objects: map[string]*unstructured.Unstructured{}}
	for name, o := range w.objects {
		out.objects[name] = o.DeepCopy()
	}
	return out
}

// worldOf is a management cluster on which a repository was synced: its Clusters, its classes as an API server keeps them, and the
// MachineDeployments that Cluster API makes.
func worldOf(t *testing.T, root string) *world {
	t.Helper()
	w := &world{objects: map[string]*unstructured.Unstructured{}}
	in, found, err := render.Load(os.DirFS(root), ".")
	if err != nil || in == nil || in.Catalog == nil {
		t.Fatalf("%v\n%s", err, found)
	}
	schemas := topology.NewSchemas(in.Catalog.Schema)
	for source := range in.Catalog.Classes {
		objects, found, err := in.Catalog.ClassObjects(source)
		if err != nil || found.Failed() {
			t.Fatalf("%v\n%s", err, found)
		}
		for _, o := range objects {
			if stored, err := schemas.Default(o); err == nil {
				o = stored
			}
			w.add(o.DeepCopy())
		}
	}
	for _, o := range rendered(t, root, "tenants") {
		if o.GetKind() == "Cluster" {
			o = o.DeepCopy()
			o.SetUID("5f0c")
			w.add(o)
			w.addMachines(t, o)
		}
	}
	return w
}

func (w *world) add(o *unstructured.Unstructured) {
	w.objects[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
}

// addMachines adds the MachineDeployments of a Cluster. A pool that the autoscaler sizes has three machines.
func (w *world) addMachines(t *testing.T, cluster *unstructured.Unstructured) {
	t.Helper()
	mds, _, err := unstructured.NestedSlice(cluster.Object, "spec", "topology", "workers", "machineDeployments")
	if err != nil {
		t.Fatal(err)
	}
	for _, md := range mds {
		name := md.(map[string]any)["name"].(string)
		n, sized := md.(map[string]any)["replicas"].(int64)
		if !sized {
			n = 3
		}
		o := &unstructured.Unstructured{Object: map[string]any{
			"spec":   map[string]any{"replicas": n},
			"status": map[string]any{"replicas": n, "upToDateReplicas": n},
		}}
		o.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
		o.SetNamespace(cluster.GetNamespace())
		o.SetName(cluster.GetName() + "-" + name + "-x7k2p")
		o.SetLabels(map[string]string{clusterv1.ClusterNameLabel: cluster.GetName(), clusterv1.ClusterTopologyMachineDeploymentNameLabel: name})
		w.add(o)
	}
}

// change edits a Cluster that runs.
func (w *world) change(t *testing.T, cluster string, how func(o *unstructured.Unstructured)) {
	t.Helper()
	o := w.objects["Cluster "+cluster]
	if o == nil {
		t.Fatalf("there is no Cluster %s among %v", cluster, slices.Sorted(maps.Keys(w.objects)))
	}
	how(o)
}

func annotate(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		a := o.GetAnnotations()
		if a[key] = value; value == "" {
			delete(a, key)
		}
		o.SetAnnotations(a)
	}
}

// run runs a gate against the world, and returns its log, the Events it has written and its error, as text.
func (w *world) run(t *testing.T, wanted gate.Wanted) string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := eventsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		objects = append(objects, w.objects[name])
	}
	plain := fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithObjects(objects...).Build()
	var log strings.Builder
	g := Gate{API: interceptor.NewClient(plain, w.funcs), Log: &log, Now: func() time.Time { return time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC) }, Patience: w.patience}
	ctx := w.until
	if ctx == nil {
		ctx = t.Context()
	}
	err := g.Run(ctx, wanted)
	var events eventsv1.EventList
	if err := plain.List(context.Background(), &events); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(events.Items, func(a, b eventsv1.Event) int { return strings.Compare(a.Namespace+a.Name, b.Namespace+b.Name) })
	for _, e := range events.Items {
		if e.ReportingController == "" || e.ReportingInstance != wanted.Job || e.Action == "" || e.EventTime.IsZero() || e.Regarding.Namespace != e.Namespace || len(e.Note) > 1000 {
			t.Errorf("an API server refuses the Event %+v", e)
		}
		fmt.Fprintf(&log, "EVENT %s %s %s %s/%s: %s\n", e.Type, e.Reason, e.Regarding.Kind, e.Regarding.Namespace, e.Regarding.Name, e.Note)
	}
	if err != nil {
		fmt.Fprintf(&log, "ERROR %v\n", err)
	}
	return log.String()
}
