package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

const namespace = "photon-prod"

// repository is a tenants repository with one class and one tenant.
type repository struct {
	file     string // the class comes from
	key      topology.Key
	class    []*manifest.Object // ClusterClass first, then its templates
	clusters map[string]*asked
}

// asked is a request, and what an overlay adds to the Cluster that is made of it.
type asked struct {
	spec         map[string]any // of the request
	labels       map[string]any
	annotations  map[string]any
	controlPlane map[string]any
	pools        map[string]any // of maps: fields of a pool's topology
}

// ops are the overlay as a JSON patch. A pool's metadata is the request's when that gives some.
func (a *asked) ops() []any {
	var out []any
	add := func(path string, v any) {
		out = append(out, map[string]any{"op": "add", "path": path, "value": v})
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, k := range catalog.Sorted(a.labels) {
		add("/metadata/labels/"+escape.Replace(k), a.labels[k])
	}
	for _, k := range catalog.Sorted(a.annotations) {
		add("/metadata/annotations/"+escape.Replace(k), a.annotations[k])
	}
	if len(a.controlPlane) > 0 {
		cp := runtime.DeepCopyJSON(a.controlPlane)
		if n, ok := at(a.spec, "controlPlane", "replicas").(int64); ok {
			cp["replicas"] = n
		}
		add("/spec/topology/controlPlane", cp)
	}
	for i, name := range a.poolNames() {
		extra, _ := a.pools[name].(map[string]any)
		asks := a.pool(name)
		for _, k := range catalog.Sorted(extra) {
			if k == "metadata" && (asks["labels"] != nil || asks["min"] != nil || asks["deferUpgrade"] == true) {
				continue
			}
			add(fmt.Sprintf("/spec/topology/workers/machineDeployments/%d/%s", i, k), extra[k])
		}
	}
	return out
}

func (a *asked) poolNames() []string {
	pools, _ := a.spec["workers"].(map[string]any)
	return catalog.Sorted(pools)
}

func (a *asked) pool(name string) map[string]any { return at(a.spec, "workers", name).(map[string]any) }

func (a *asked) copy() *asked {
	return &asked{runtime.DeepCopyJSON(a.spec), runtime.DeepCopyJSON(a.labels), runtime.DeepCopyJSON(a.annotations), runtime.DeepCopyJSON(a.controlPlane), runtime.DeepCopyJSON(a.pools)}
}

func newRepository(t testing.TB, file string) *repository {
	t.Helper()
	objects, key := readClass(t, file)
	r := &repository{file: file, key: key, clusters: map[string]*asked{}}
	for _, o := range objects {
		if o.GetKind() != "Cluster" {
			r.class = append(r.class, o)
		}
	}
	slices.SortStableFunc(r.class, func(a, b *manifest.Object) int { return rank(a) - rank(b) })
	return r
}

func rank(o *manifest.Object) int {
	if topology.IsClass(o) {
		return 0
	}
	return 1
}

func (r *repository) copy() *repository {
	out := &repository{file: r.file, key: r.key, clusters: map[string]*asked{}}
	for _, o := range r.class {
		out.class = append(out.class, o.DeepCopy())
	}
	for name, a := range r.clusters {
		out.clusters[name] = a.copy()
	}
	return out
}

const catalogText = `apiVersion: copyhold.dev/v1alpha1
kind: Catalog
spec:
  clusterAPI: v1.14.2
  versions: [v1.33.5, v1.34.1, v1.34.2, v1.35.0, v1.36.0]
  tiers:
    tier: {class: %s, from: classes, workerClass: %s}
  classes:
    classes:
      manifests: classes
      namespace: %s
      fields: {subnet: "", address: "", serviceType: "", publicNames: "", dataStore: "", apiServer: "", controllerManager: "", scheduler: "", serverAddress: ""}
`

// tree is the repository's files.
func (r *repository) tree(t testing.TB) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	put := func(name, text string) { out[name] = &fstest.MapFile{Data: []byte(text)} }
	put("copyhold.yaml", "apiVersion: copyhold.dev/v1alpha1\nkind: Repository\n")
	text := fmt.Sprintf(catalogText, r.key.Name, r.workerClasses()[0], r.key.Namespace)
	patches := []any{}
	for _, name := range catalog.Sorted(r.clusters) {
		a := r.clusters[name]
		put("tenants/"+namespace+"/"+name+".yaml", toYAML(map[string]any{
			"apiVersion": "copyhold.dev/v1alpha1", "kind": "ClusterRequest", "metadata": map[string]any{"name": name}, "spec": a.spec,
		}))
		if ops := a.ops(); len(ops) > 0 {
			patches = append(patches, map[string]any{"target": map[string]any{"kind": "Cluster", "name": name}, "patch": toYAML(ops)})
		}
	}
	if len(patches) > 0 {
		text += "  overlays: {all: {path: overlays/all}}\n"
		put("catalog/overlays/all/kustomization.yaml", toYAML(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "patches": patches}))
	}
	put("catalog/catalog.yaml", text)
	var class strings.Builder
	for _, o := range r.class {
		class.WriteString("---\n" + toYAML(o.Object))
	}
	put("catalog/classes/class.yaml", class.String())
	for _, name := range theNames() {
		data, err := definition(name)
		if err != nil {
			t.Fatal(err)
		}
		ext := ".yaml"
		if data[0] == '{' {
			ext = ".json"
		}
		put("catalog/crds/"+name+ext, string(data))
	}
	return out
}

func theNames() []string {
	names, err := definitionNames()
	if err != nil {
		panic(err)
	}
	return names
}

func toYAML(v any) string {
	data, err := yaml.Marshal(v)
	if err != nil {
		panic(err) // all of it came from YAML
	}
	return string(data)
}

// spec is the ClusterClass's own spec.
func (r *repository) spec() map[string]any { return r.class[0].Object["spec"].(map[string]any) }

// at walks down maps and lists of maps.
func at(v any, path ...string) any {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

// entries are the maps of a list.
func entries(v any) []map[string]any {
	list, _ := v.([]any)
	var out []map[string]any
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func (r *repository) workerClasses() []string {
	var out []string
	for _, w := range entries(at(r.spec(), "workers", "machineDeployments")) {
		out = append(out, w["class"].(string))
	}
	return out
}
