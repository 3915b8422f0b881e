package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// manager is the name that Argo CD's application controller writes under.
const manager = "argocd-controller"

// world is a part of the control plane that one test has for itself: the namespaces of some tenants and that of their classes.
type world struct {
	t          *testing.T
	c          dynamic.Interface
	namespaces []string

	mu       sync.Mutex
	warnings []string
}

func newWorld(t *testing.T, namespaces ...string) *world {
	t.Helper()
	w := &world{t: t, namespaces: namespaces}
	config := rest.CopyConfig(live.config)
	config.WarningHandlerWithContext = w
	var err error
	if w.c, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	for _, ns := range namespaces {
		w.namespace(ns)
	}
	return w
}

// HandleWarningHeaderWithContext keeps what the API server warns of.
func (w *world) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.warnings = append(w.warnings, text)
}

func (w *world) namespace(name string) {
	w.t.Helper()
	_, err := w.c.Resource(namespaces).Create(w.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
}

func (w *world) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	return w.c.Resource(resourceOf(o)).Namespace(o.GetNamespace())
}

// apply writes objects as Argo CD's sync does: server side, by force, in the order of waves and kinds. Fields that no schema knows are errors.
func (w *world) apply(objects []*unstructured.Unstructured, options ...func(*metav1.PatchOptions)) error {
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	var errs []string
	for _, o := range objects {
		if _, err := w.applyOne(o, options...); err != nil {
			errs = append(errs, fmt.Sprintf("%s %s/%s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), err))
		}
	}
	if errs != nil {
		return fmt.Errorf("%s", strings.Join(errs, "\n"))
	}
	return nil
}

func (w *world) applyOne(o *unstructured.Unstructured, options ...func(*metav1.PatchOptions)) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	force := true
	opts := metav1.PatchOptions{FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict}
	for _, option := range options {
		option(&opts)
	}
	return w.of(o).Patch(w.t.Context(), o.GetName(), types.ApplyPatchType, data, opts)
}

// rank is an object's place in a sync: its wave, then its kind, of which Argo CD knows the first ones by name.
func rank(o *unstructured.Unstructured) int {
	wave := 0
	fmt.Sscanf(o.GetAnnotations()["argocd.argoproj.io/sync-wave"], "%d", &wave)
	kind := slices.Index([]string{"Namespace", "ResourceQuota", "RoleBinding"}, o.GetKind())
	if kind < 0 {
		kind = 9
	}
	return 10*wave + kind
}

// sync applies what a repository renders, and prunes what it does not render any more.
func (w *world) sync(was, now []*unstructured.Unstructured) error {
	err := w.apply(now)
	for _, o := range was {
		if find(now, o) == nil && !strings.Contains(o.GetAnnotations()["argocd.argoproj.io/sync-options"], "Prune=false") {
			if e := w.of(o).Delete(w.t.Context(), o.GetName(), metav1.DeleteOptions{}); e != nil && err == nil {
				err = e
			}
		}
	}
	return err
}

func find(objects []*unstructured.Unstructured, o *unstructured.Unstructured) *unstructured.Unstructured {
	for _, x := range objects {
		if x.GroupVersionKind().GroupKind() == o.GroupVersionKind().GroupKind() && x.GetNamespace() == o.GetNamespace() && x.GetName() == o.GetName() {
			return x
		}
	}
	return nil
}

func (w *world) list(r schema.GroupVersionResource) []*unstructured.Unstructured {
	w.t.Helper()
	var out []*unstructured.Unstructured
	for _, ns := range w.namespaces {
		l, err := w.c.Resource(r).Namespace(ns).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	return out
}

func (w *world) get(r schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	w.t.Helper()
	o, err := w.c.Resource(r).Namespace(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

// quiet is for how long nothing may have happened for a world to be at rest. Cluster API spaces reconciles by a second.
const quiet = 1500 * time.Millisecond

// settle waits until nothing goes on any more: no reconcile runs, none was for a while, and two looks at all objects are equal. Clusters
// that are named, by namespace/name, must have been looked at since a time.
func (w *world) settle(since time.Time, names ...string) {
	w.t.Helper()
	var before string
	var waiting string
	err := poll(w.t.Context(), 5*time.Minute, "the world is at rest", func() (bool, error) {
		if waiting = "the managers to come to rest"; live.watch.idle(w.namespaces...) < quiet {
			return false, nil
		}
		if waiting = w.waiting(since, names); waiting != "" {
			return false, nil
		}
		now := w.versions()
		rest := now == before
		before = now
		return rest, nil
	})
	if err != nil {
		w.t.Fatalf("%v; waiting for %s", err, waiting)
	}
}

// waiting says what has not been looked at yet.
func (w *world) waiting(since time.Time, names []string) string {
	for _, class := range w.list(clusterClasses) {
		if observed := field(class, "status", "observedGeneration"); observed != class.GetGeneration() {
			return "ClusterClass " + class.GetName()
		}
	}
	for _, md := range w.list(machineDeployments) {
		if observed := field(md, "status", "observedGeneration"); observed != md.GetGeneration() {
			return "MachineDeployment " + md.GetName()
		}
	}
	for _, c := range w.list(clusters) {
		controller, observed := "topology/cluster", conditionOf(c, "TopologyReconciled")["observedGeneration"]
		if field(c, "spec", "topology") == nil {
			controller, observed = "cluster", field(c, "status", "observedGeneration")
		}
		if c.GetDeletionTimestamp() != nil || observed != c.GetGeneration() {
			return "Cluster " + c.GetName()
		}
		if slices.Contains(names, c.GetNamespace()+"/"+c.GetName()) && !live.watch.since(controller, c.GetNamespace(), c.GetName(), since) {
			return "a reconcile of Cluster " + c.GetName()
		}
	}
	return ""
}

// versions is every object of the world with its version.
func (w *world) versions() string {
	var out []string
	for _, r := range []schema.GroupVersionResource{clusters, machineDeployments, machineSets, machines, kamajiControlPlanes, kubevirtClusters, kubevirtMachines,
		machineTemplates, kubeadmTemplates, kairosTemplates} {
		for _, o := range w.list(r) {
			out = append(out, o.GetKind()+" "+o.GetName()+" "+o.GetResourceVersion())
		}
	}
	return strings.Join(out, "\n")
}

// touch gives Cluster API a reason to look at the Clusters again that has nothing to do with their content, and waits until it has. A
// Cluster of which the web hook takes no write is left alone.
func (w *world) touch() {
	w.t.Helper()
	start := time.Now()
	var touched []string
	for _, c := range w.list(clusters) {
		data := fmt.Sprintf(`{"metadata":{"annotations":{"example.org/touched":%q}}}`, start.Format(time.RFC3339Nano))
		_, err := w.c.Resource(clusters).Namespace(c.GetNamespace()).Patch(w.t.Context(), c.GetName(), types.MergePatchType, []byte(data), metav1.PatchOptions{FieldManager: "kubectl-annotate"})
		switch {
		case err == nil:
			touched = append(touched, c.GetNamespace()+"/"+c.GetName())
		case !frozen(&clusterState{object: c}):
			w.t.Fatal(err)
		}
	}
	w.settle(start, touched...)
}
