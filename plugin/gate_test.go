package plugin

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"copyhold.dev/copyhold/render/gate"
)

var update = flag.Bool("update", false, "rewrite testdata/gate.txtar")

// Edits of the repository, each of which rolls workers.
var (
	bigger   = edit{"tenants/dynamo-prod/solar.yaml", "cpuCores: 12", "cpuCores: 16"}
	newClass = edit{"catalog/classes/kmetal/values.yaml", "small: {cores: 2", "small: {cores: 5"}
	upgrade  = edit{"tenants/photon-prod/lunar.yaml", "version: v1.33.5", "version: v1.34.1"}
)

// refusing answers as an API server does that does not grant a verb on a resource, in some namespaces or in all.
func refusing(verb, resource string, namespaces ...string) func(ns, of string) error {
	return func(ns, of string) error {
		for _, n := range append(namespaces, map[bool][]string{true: {ns}}[len(namespaces) == 0]...) {
			if n == ns && of == resource {
				return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("User %q cannot %s resource %q", "system:serviceaccount:"+ns, verb, resource))
			}
		}
		return nil
	}
}

// deny puts what refuses in front of an API.
func (w *world) deny(rules ...func(ns, resource string) error) {
	first := func(ns string, o interface {
		GetObjectKind() schema.ObjectKind
	}) error {
		gvk := o.GetObjectKind().GroupVersionKind()
		if len(gvk.Kind) > 4 && gvk.Kind[len(gvk.Kind)-4:] == "List" {
			gvk.Kind = gvk.Kind[:len(gvk.Kind)-4]
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		name := plural.Resource
		if name == "" {
			name = "events"
		}
		for _, r := range rules {
			if err := r(ns, name); err != nil {
				return err
			}
		}
		return nil
	}
	w.funcs = interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(opts)
			if err := first(o.Namespace, l); err != nil {
				return err
			}
			return c.List(ctx, l, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := first(key.Namespace, o); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := first(o.GetNamespace(), o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	}
}

// down is an API server that nobody reaches.
func down(string, string) error {
	return &url.Error{Op: "Get", URL: "https://10.96.0.1:443/apis", Err: syscall.ECONNREFUSED}
}

// What the gate says of a fleet that runs, in words: each case is an application, the repository that is to be synced, and what has
// become of the one that was.
func TestGate(t *testing.T) {
	none := func(*testing.T, *world) {}
	changed := func(cluster string, how func(*unstructured.Unstructured)) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { w.change(t, cluster, how) }
	}
	const key = "rollout.copyhold.dev/md-0"
	cases := []struct {
		name  string
		app   string
		edits []edit
		world func(*testing.T, *world)
	}{
		{"in sync", "tenants/dynamo-prod", nil, none},
		{"in sync, platform", "catalog", nil, none},
		{"a request changes the size", "tenants/dynamo-prod", []edit{bigger}, none},
		{"a request changes the version", "tenants/photon-prod", []edit{upgrade}, none},
		{"a class changes, tenant", "tenants/dynamo-prod", []edit{newClass}, none},
		{"a class changes, platform", "catalog", []edit{newClass}, none},
		{"a class changes, and tenants were synced first", "catalog", []edit{newClass}, func(t *testing.T, w *world) {
			for name, o := range worldOf(t, repository(t, newClass)).objects {
				if o.GetKind() == "Cluster" {
					w.objects[name] = o
				}
			}
		}},
		{"a class changes, and a tenant's request does not read", "catalog", []edit{newClass, {"tenants/quark-dev/lunar.yaml", "subnet:", "subnets:"}}, none},
		{"a class that runs was edited", "tenants/dynamo-prod", nil, func(t *testing.T, w *world) {
			o := w.objects["ClusterClass kmetal-capi-providers/kubevirt-kubeadm"]
			patches, _, _ := unstructured.NestedSlice(o.Object, "spec", "patches")
			if err := unstructured.SetNestedSlice(o.Object, patches[1:], "spec", "patches"); err != nil {
				t.Fatal(err)
			}
		}},
		{"a class is not there", "tenants/quark-dev", nil, func(_ *testing.T, w *world) {
			delete(w.objects, "ClusterClass edge-classes/edge")
		}},
		{"a request is removed", "tenants/dynamo-prod", []edit{{file: "tenants/dynamo-prod/solar.yaml"}}, none},
		{"a worker pool is renamed", "tenants/dynamo-prod", []edit{{"tenants/dynamo-prod/solar.yaml", "md-0:", "blue:"}}, none},
		{"first sync", "tenants/dynamo-prod", nil, func(_ *testing.T, w *world) { w.objects = nil }},
		{"first sync, platform", "catalog", nil, func(_ *testing.T, w *world) { w.objects = nil }},
		{"no Cluster API", "tenants/dynamo-prod", nil, func(_ *testing.T, w *world) {
			w.deny(func(string, string) error {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Cluster"}}
			})
		}},
		{"a Cluster is being deleted", "tenants/dynamo-prod", []edit{bigger}, changed("dynamo-prod/solar", func(o *unstructured.Unstructured) {
			now := metav1.Now()
			o.SetDeletionTimestamp(&now)
			o.SetFinalizers([]string{"cluster.cluster.x-k8s.io"})
		})},
		{"a Cluster is paused", "tenants/dynamo-prod", []edit{bigger}, changed("dynamo-prod/solar", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, true, "spec", "paused")
		})},
		{"a Cluster was not made by copyhold", "tenants/dynamo-prod", []edit{bigger}, changed("dynamo-prod/solar", func(o *unstructured.Unstructured) { o.SetLabels(nil) })},
		{"no annotation, the same topology", "tenants/dynamo-prod", nil, changed("dynamo-prod/lunar", annotate(key, ""))},
		{"no annotation, another topology", "tenants/dynamo-prod", []edit{bigger}, changed("dynamo-prod/solar", annotate(key, ""))},
		{"no annotation, another class", "tenants/dynamo-prod", []edit{newClass}, changed("dynamo-prod/lunar", annotate(key, ""))},
		{"another scheme, the same topology", "tenants/dynamo-prod", nil, changed("dynamo-prod/solar", annotate(key, "v0:0123456789abcdef"))},
		{"another scheme, another topology", "tenants/dynamo-prod", []edit{bigger}, changed("dynamo-prod/solar", annotate(key, "v0:0123456789abcdef"))},
		{"the hash of a pool that is not there", "tenants/dynamo-prod", nil, changed("dynamo-prod/solar", annotate("rollout.copyhold.dev/gone", "v1:0123456789abcdef"))},
		{"an annotation that was edited", "tenants/dynamo-prod", nil, changed("dynamo-prod/solar", annotate(key, "v1:0123456789abcdef"))},
		{"a pool of which nobody can tell, the same topology", "tenants/dynamo-prod", nil, func(t *testing.T, w *world) {
			w.change(t, "dynamo-prod/solar", annotate(key, ""))
			w.unhashed = "dynamo-prod/solar"
		}},
		{"a pool of which nobody can tell, another topology", "tenants/dynamo-prod", []edit{bigger}, func(t *testing.T, w *world) {
			w.change(t, "dynamo-prod/solar", annotate(key, ""))
			w.unhashed = "dynamo-prod/solar"
		}},
		{"a class changes, of which others have Clusters", "catalog", []edit{newClass}, func(_ *testing.T, w *world) {
			o := w.objects["Cluster quark-dev/lunar"].DeepCopy()
			o.SetNamespace("muon-test")
			w.objects = map[string]*unstructured.Unstructured{"Cluster": o, "ClusterClass": w.objects["ClusterClass kmetal-capi-providers/kubevirt-kubeadm"]}
		}},
		{"a rollout is going on", "tenants/dynamo-prod", []edit{bigger}, func(t *testing.T, w *world) {
			for _, o := range w.objects {
				if o.GetKind() == "MachineDeployment" && o.GetLabels()["cluster.x-k8s.io/cluster-name"] == "solar" {
					_ = unstructured.SetNestedField(o.Object, int64(1), "status", "upToDateReplicas")
				}
			}
		}},
		{"nobody may list Clusters", "tenants/dynamo-prod", []edit{bigger}, func(_ *testing.T, w *world) { w.deny(refusing("list", "clusters")) }},
		{"nobody may do anything", "tenants/dynamo-prod", []edit{bigger}, func(_ *testing.T, w *world) { w.deny(refusing("list", "clusters"), refusing("create", "events")) }},
		{"nobody may create Events", "tenants/dynamo-prod", []edit{bigger}, func(_ *testing.T, w *world) { w.deny(refusing("create", "events")) }},
		{"nobody may count machines", "tenants/dynamo-prod", []edit{bigger}, func(_ *testing.T, w *world) { w.deny(refusing("list", "machinedeployments")) }},
		{"nobody may read classes", "tenants/dynamo-prod", []edit{newClass}, func(_ *testing.T, w *world) { w.deny(refusing("get", "clusterclasses")) }},
		{"nobody may read a kind of template", "catalog", []edit{newClass}, func(_ *testing.T, w *world) { w.deny(refusing("get", "kubevirtmachinetemplates")) }},
		{"the platform may look at each namespace but one", "catalog", []edit{newClass}, func(_ *testing.T, w *world) { w.deny(refusing("list", "clusters", "", "quark-dev")) }},
		{"the platform may look nowhere", "catalog", []edit{newClass}, func(_ *testing.T, w *world) {
			w.deny(refusing("list", "clusters"), refusing("get", "clusterclasses"))
		}},
		{"the API server is away", "tenants/dynamo-prod", nil, func(_ *testing.T, w *world) { w.deny(down) }},
		{"the API server does not know who asks", "tenants/dynamo-prod", nil, func(_ *testing.T, w *world) {
			w.deny(func(string, string) error { return apierrors.NewUnauthorized("Unauthorized") })
		}},
	}
	base := worldOf(t, repository(t))
	hooks := map[string]gate.Wanted{}
	var got txtar.Archive
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			hook := fmt.Sprint(c.app, c.edits)
			if _, ok := hooks[hook]; !ok {
				hooks[hook] = wantedOf(t, repository(t, c.edits...), c.app)
			}
			wanted, w := hooks[hook], base.copied()
			c.world(t, w)
			for i, cluster := range wanted.Clusters {
				if cluster.Cluster == w.unhashed {
					wanted.Clusters = slices.Clone(wanted.Clusters)
					wanted.Clusters[i].Pools = map[string]gate.Pool{"md-0": {Accepted: cluster.Pools["md-0"].Accepted}}
				}
			}
			got.Files = append(got.Files, txtar.File{Name: c.name, Data: []byte(w.run(t, wanted))})
		})
	}
	const golden = "testdata/gate.txtar"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(txtar.Format(&got))); d != "" {
		t.Errorf("%s (-written +said):\n%s", golden, d)
	}
}

// An API server that fails for a while is asked again, and pages are put together.
func TestGatePatience(t *testing.T) {
	root := repository(t)
	w, wanted := worldOf(t, root), wantedOf(t, root, "tenants/dynamo-prod")
	whole := w.run(t, wanted)
	failures, pages := 3, 0
	w.funcs = interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		if failures > 0 {
			failures--
			return apierrors.NewTooManyRequests("later", 1)
		}
		o := (&client.ListOptions{}).ApplyOptions(opts)
		if o.Limit == 0 {
			return errors.New("all objects are asked for at once")
		}
		next := o.Continue
		o.Continue = ""
		if err := c.List(ctx, l, o); err != nil {
			return err
		}
		list := l.(*unstructured.UnstructuredList)
		at, err := 0, error(nil)
		if next != "" {
			at, err = strconv.Atoi(next)
		}
		if rest := list.Items[at:]; len(rest) > 1 { // an object a page
			list.Items = rest[:1]
			list.SetContinue(strconv.Itoa(at + 1))
		} else {
			list.Items = rest
		}
		pages++
		return err
	}}
	w.patience = time.Minute
	if got := w.run(t, wanted); got != whole || pages != 4 {
		t.Errorf("in %d pages:\n%s\nat once:\n%s", pages, got, whole)
	}
}

// Thousands of clusters that roll are an Event each, and a log that somebody can read.
func TestGateCrowd(t *testing.T) {
	wanted := wantedOf(t, repository(t, bigger), "tenants/dynamo-prod")
	w := worldOf(t, repository(t))
	i := slices.IndexFunc(wanted.Clusters, func(c gate.Cluster) bool { return c.Cluster == "dynamo-prod/solar" })
	solar := w.objects["Cluster dynamo-prod/solar"]
	const n = 2000
	for k := range n {
		c := wanted.Clusters[i]
		c.Cluster = fmt.Sprintf("dynamo-prod/solar-%04d", k)
		wanted.Clusters = append(wanted.Clusters, c)
		o := solar.DeepCopy()
		o.SetName(fmt.Sprintf("solar-%04d", k))
		w.add(o)
	}
	got := w.run(t, wanted)
	if !strings.HasPrefix(got, "copyhold gate: tenants/dynamo-prod: 2001 worker pools WILL ROLL (at least 4 machines)\n") || !strings.Contains(got, "\nWILL ROLL     and 1501 more\n") ||
		strings.Count(got, "\nEVENT Warning WorkersWillRoll") != n+1 || strings.Count(got, "              NOT accepted") != 500 {
		t.Errorf("%d bytes of log begin with\n%s", len(got), got[:min(len(got), 2000)])
	}
}
