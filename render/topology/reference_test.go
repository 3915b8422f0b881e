package topology_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment/mdutil"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/index"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// world is a management cluster in memory: Cluster API's webhooks, its ClusterClass reconciler and its whole topology reconciler, on a
// fake client. What it does is the truth that predictions are held against.
type world struct {
	client   client.WithWatch
	server   *apiServer
	topology *topologycluster.Reconciler
	synced   map[client.ObjectKey]*manifest.Object // what was last applied, by Cluster
}

// ownScheme is one world's own: the fake client enters the kinds that it meets into it.
func ownScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	switchOn()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

var switchOn = sync.OnceFunc(func() {
	ctrl.SetLogger(logr.Discard())
	if err := feature.MutableGates.Set(string(feature.ClusterTopology) + "=true"); err != nil {
		panic(err) // the gate is Cluster API's own
	}
})

// quiet is a manager whose events go nowhere: the recorder that it would make dials the API server.
type quiet struct{ ctrl.Manager }

func (quiet) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

func newWorld(t testing.TB) *world {
	t.Helper()
	s := ownScheme(t)
	w := &world{server: server(t), synced: map[client.ObjectKey]*manifest.Object{}}
	kinds := meta.NewDefaultRESTMapper(nil)
	for gvk := range s.AllKnownTypes() {
		if !strings.HasSuffix(gvk.Kind, "List") && !strings.HasSuffix(gvk.Kind, "Options") {
			kinds.Add(gvk, meta.RESTScopeNamespace)
		}
	}
	for gvk := range w.server.resources {
		kinds.Add(gvk, meta.RESTScopeNamespace)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithRESTMapper(kinds).WithReturnManagedFields().WithInterceptorFuncs(w.server.funcs()).
		WithIndex(&clusterv1.Cluster{}, index.ClusterClassRefPath, index.ClusterByClusterClassRef).
		WithStatusSubresource(&clusterv1.ClusterClass{}, &clusterv1.Cluster{}, &clusterv1.MachineDeployment{})
	for _, crd := range w.server.definitions { // which version speaks which contract
		head := &apiextensionsv1.CustomResourceDefinition{}
		head.Name, head.Labels = crd.Name, crd.Labels
		b.WithObjects(head)
	}
	w.client = b.Build()
	manager, err := ctrl.NewManager(&rest.Config{Host: "http://192.0.2.1:1"}, ctrl.Options{ // never started, never dialled
		Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return kinds, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return w.client, nil },
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) {
			return &informertest.FakeInformers{Scheme: s}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.topology = &topologycluster.Reconciler{Client: w.client, APIReader: w.client, ClusterCache: clustercache.NewFakeEmptyClusterCache()}
	if err := w.topology.SetupWithManager(t.Context(), quiet{manager}, controller.Options{SkipNameValidation: ptr.To(true)}); err != nil {
		t.Fatal(err)
	}
	return w
}

// install brings a ClusterClass and its templates to the given state, but for what is refused: by the ClusterClass webhook, or by the API
// server for a template.
func (w *world) install(ctx context.Context, objects []*manifest.Object, key topology.Key) (refused, err error) {
	var templates []*manifest.Object
	class := &clusterv1.ClusterClass{}
	for _, o := range objects {
		switch {
		case !topology.IsClass(o):
			templates = append(templates, o)
		case o.GetName() == key.Name:
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.DeepCopy().Object, class); err != nil {
				return nil, err
			}
		}
	}
	live := &clusterv1.ClusterClass{}
	err = w.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, live)
	hook := &admission.ClusterClass{Client: w.client}
	fresh := apierrors.IsNotFound(err)
	if fresh {
		_, refused = hook.ValidateCreate(ctx, class)
	} else if err == nil {
		_, refused = hook.ValidateUpdate(ctx, live, class)
	} else {
		return nil, err
	}
	stays := refused != nil
	for _, o := range templates {
		if unchangeable := w.server.unchangeable(ctx, w.client, o); unchangeable != nil {
			refused = errors.Join(refused, unchangeable)
			continue
		}
		if err := w.put(ctx, o); err != nil {
			return nil, err
		}
	}
	if stays {
		return refused, nil
	}
	if fresh {
		class.Generation = 1
		err = w.client.Create(ctx, class)
	} else {
		class.ResourceVersion, class.UID, class.Generation, class.Status = live.ResourceVersion, live.UID, live.Generation+1, live.Status
		err = w.client.Update(ctx, class)
	}
	if err != nil {
		return nil, err
	}
	for range 2 { // the first round of a new class finds out that it is not paused
		if _, err := (&clusterclass.Reconciler{Client: w.client}).Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(class)}); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// put creates or replaces an object.
func (w *world) put(ctx context.Context, o *manifest.Object) error {
	o = w.server.stored(o)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(o.GroupVersionKind())
	switch err := w.client.Get(ctx, client.ObjectKeyFromObject(o), live); {
	case apierrors.IsNotFound(err):
		return w.client.Create(ctx, o)
	case err != nil:
		return err
	}
	o.SetResourceVersion(live.GetResourceVersion())
	return w.client.Update(ctx, o)
}

// sync applies a Cluster as it is rendered. refused is what Cluster API's webhooks have against it: then nothing is done.
func (w *world) sync(ctx context.Context, o *manifest.Object) (refused, err error) {
	wanted := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.DeepCopy().Object, wanted); err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(wanted)
	class := &clusterv1.ClusterClass{}
	classKey := wanted.GetClassKey()
	if err := w.client.Get(ctx, classKey, class); err != nil {
		return nil, err
	}
	live := &clusterv1.Cluster{}
	hook := &admission.Cluster{Client: w.client}
	err = w.client.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		wanted.UID = types.UID("11111111-1111-4111-8111-" + fmt.Sprintf("%012x", len(w.synced)+1))
		if refused = hook.Default(ctx, wanted); refused == nil {
			_, refused = hook.ValidateCreate(ctx, wanted)
		}
		if refused == nil {
			w.synced[key] = o
			err = w.client.Create(ctx, wanted)
		} else {
			err = nil
		}
		return refused, err
	}
	if err != nil {
		return nil, err
	}
	changed := live.DeepCopy()
	changed.Spec.Topology, changed.Spec.ClusterNetwork = wanted.Spec.Topology, wanted.Spec.ClusterNetwork
	changed.Labels = replaced(live.Labels, w.synced[key].GetLabels(), wanted.Labels)
	changed.Annotations = replaced(live.Annotations, w.synced[key].GetAnnotations(), wanted.Annotations)
	if errs := hook.DefaultAndValidateVariables(ctx, changed, live, class); len(errs) > 0 {
		return errs.ToAggregate(), nil
	}
	if _, refused = hook.ValidateUpdate(ctx, live, changed); refused != nil {
		return refused, nil
	}
	w.synced[key] = o
	return nil, w.client.Update(ctx, changed)
}

// replaced are the labels that are there, with those that somebody applied before in their new state.
func replaced(live, before, after map[string]string) map[string]string {
	out := maps.Clone(live)
	maps.DeleteFunc(out, func(k, _ string) bool { _, ours := before[k]; return ours })
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, after)
	return out
}

// errRestless is of a Cluster that every reconcile changes anew, since its class makes templates of the templates' own names.
var errRestless = errors.New("it does not come to rest")

// settle reconciles a Cluster until nothing changes any more, and plays the providers in between: the control plane comes up at the
// version that is asked of it. failed is the error of a reconcile that fails for good.
func (w *world) settle(ctx context.Context, key client.ObjectKey) (s *state, failed error) {
	last := w.state(ctx, key)
	for round := 0; ; round++ {
		result, err := w.topology.Reconcile(ctx, ctrl.Request{NamespacedName: key})
		conflict := err != nil && strings.Contains(err.Error(), "object was modified")
		if round == 15 {
			if err != nil {
				return last, err
			}
			return last, errRestless
		}
		if conflict { // a work queue tries again
			continue
		}
		if err != nil {
			return w.state(ctx, key), err
		}
		if err := w.provide(ctx, key); err != nil {
			return last, err
		}
		now := w.state(ctx, key)
		if result.IsZero() && now.print == last.print {
			return now, nil
		}
		last = now
	}
}

// provide is what a control-plane provider reports.
func (w *world) provide(ctx context.Context, key client.ObjectKey) error {
	cp, err := w.referenced(ctx, key, func(s clusterv1.ClusterSpec) clusterv1.ContractVersionedObjectReference { return s.ControlPlaneRef })
	if err != nil || cp == nil {
		return err
	}
	version, _, err := unstructured.NestedString(cp.Object, "spec", "version")
	if err != nil {
		return err
	}
	status := map[string]any{
		"version": version, "ready": true, "externalManagedControlPlane": true,
		"initialization": map[string]any{"controlPlaneInitialized": true},
	}
	if now, _ := cp.Object["status"].(map[string]any); now["version"] == version {
		return nil
	}
	cp.Object["status"] = status
	return w.client.Update(ctx, cp)
}

func (w *world) referenced(ctx context.Context, key client.ObjectKey, which func(clusterv1.ClusterSpec) clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	cl := &clusterv1.Cluster{}
	if err := w.client.Get(ctx, key, cl); err != nil {
		return nil, err
	}
	ref := which(cl.Spec)
	if ref.Name == "" {
		return nil, nil
	}
	for gvk := range w.server.resources {
		if gvk.Group == ref.APIGroup && gvk.Kind == ref.Kind {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(gvk)
			return o, w.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: ref.Name}, o)
		}
	}
	return nil, fmt.Errorf("there is no kind %s", ref.Kind)
}

// remove takes a Cluster away with all that was made for it.
func (w *world) remove(ctx context.Context, key client.ObjectKey) error {
	cl := &clusterv1.Cluster{}
	if err := w.client.Get(ctx, key, cl); err != nil {
		return err
	}
	delete(w.synced, key)
	mds := &clusterv1.MachineDeploymentList{}
	if err := w.client.List(ctx, mds, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
		return err
	}
	for i := range mds.Items {
		if err := w.client.Delete(ctx, &mds.Items[i]); err != nil {
			return err
		}
	}
	return w.client.Delete(ctx, cl)
}

// state is what of a Cluster's objects a prediction is about.
type state struct {
	controlPlane   string // its spec, defaulted, as JSON
	infrastructure string
	pools          map[string]clusterv1.MachineDeploymentSpec
	print          string // of all of it
}

func (w *world) state(ctx context.Context, key client.ObjectKey) *state {
	s := &state{pools: map[string]clusterv1.MachineDeploymentSpec{}}
	spec := func(which func(clusterv1.ClusterSpec) clusterv1.ContractVersionedObjectReference) string {
		o, err := w.referenced(ctx, key, which)
		if err != nil || o == nil {
			return fmt.Sprint(err)
		}
		return toJSON(w.server.defaulted(o).Object["spec"])
	}
	s.controlPlane = spec(func(s clusterv1.ClusterSpec) clusterv1.ContractVersionedObjectReference { return s.ControlPlaneRef })
	s.infrastructure = spec(func(s clusterv1.ClusterSpec) clusterv1.ContractVersionedObjectReference { return s.InfrastructureRef })
	mds := &clusterv1.MachineDeploymentList{}
	if err := w.client.List(ctx, mds, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
		s.print = err.Error()
		return s
	}
	for _, md := range mds.Items {
		s.pools[md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]] = md.Spec
	}
	s.print = toJSON([]any{s.controlPlane, s.infrastructure, s.pools})
	return s
}

func toJSON(v any) string {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err) // all of it came from JSON
	}
	return string(j)
}

// rolled are the pools of both states whose machines are replaced between them, by the rule of Cluster API's MachineDeployment
// controller, in order.
func (s *state) rolled(now *state) []string {
	var out []string
	for name, was := range s.pools {
		is, there := now.pools[name]
		if !there {
			continue
		}
		same, _ := mdutil.MachineTemplateUpToDate(&was.Template, &is.Template)
		after := is.Rollout.After // machines older than that time are replaced when it comes
		if !same || !after.IsZero() && !after.Equal(&was.Rollout.After) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
