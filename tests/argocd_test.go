package tests

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"copyhold.dev/copyhold/render/manifest"
)

// kustomized builds a folder, by kind/name.
func kustomized(t *testing.T, dir string) map[string]*unstructured.Unstructured {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, r := range built.Resources() {
		m, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{Object: m}
		out[o.GetKind()+"/"+o.GetName()] = o
	}
	return out
}

// at is the value under a path of maps, nil when there is none.
func at(o *unstructured.Unstructured, fields ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, fields...)
	return v
}

// pairs are two fields of each element of a list of maps, joined.
func pairs(t *testing.T, list any, a, b string) []string {
	t.Helper()
	var out []string
	elements, ok := list.([]any)
	if !ok {
		t.Fatalf("%v, want a list", list)
	}
	for _, e := range elements {
		m := e.(map[string]any)
		x, _ := m[a].(string)
		y, _ := m[b].(string)
		out = append(out, x+" "+y)
	}
	return out
}

// The example projects allow the kinds and namespaces that the example fleet is rendered to, and a tenant's no others.
func TestArgoCDProjects(t *testing.T) {
	objects := kustomized(t, "../examples/argocd")
	const here = "https://kubernetes.default.svc "
	for folder, file := range applications(t, "../examples/fleet") {
		name := "copyhold-platform"
		if ns, ok := strings.CutPrefix(folder, "tenants/"); ok {
			name = "tenant-" + ns
		}
		project := objects["AppProject/"+name]
		if project == nil {
			t.Errorf("no project for %s", folder)
			continue
		}
		data, err := os.ReadFile(filepath.Join("../examples/fleet", file))
		if err != nil {
			t.Fatal(err)
		}
		all, err := manifest.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		var kinds, wide, places []string
		for _, o := range all {
			kind := o.GroupVersionKind().Group + " " + o.GetKind()
			if o.GetNamespace() == "" {
				wide = append(wide, kind)
				continue
			}
			kinds, places = append(kinds, kind), append(places, here+o.GetNamespace())
		}
		for _, c := range []struct {
			what            string
			allowed, wanted []string
		}{
			{"kinds", pairs(t, at(project, "spec", "namespaceResourceWhitelist"), "group", "kind"), kinds},
			{"kinds of the whole cluster", pairs(t, at(project, "spec", "clusterResourceWhitelist"), "group", "kind"), wide},
			{"namespaces", pairs(t, at(project, "spec", "destinations"), "server", "namespace"), places},
		} {
			slices.Sort(c.allowed)
			slices.Sort(c.wanted)
			if wanted := slices.Compact(c.wanted); !slices.Equal(c.allowed, wanted) {
				t.Errorf("project %s allows %s %q, and rendered are %q", name, c.what, c.allowed, wanted)
			}
		}
		delete(objects, "AppProject/"+name)
	}
	for id, o := range objects {
		if o.GetKind() == "AppProject" {
			t.Errorf("%s is for nobody in examples/fleet", id)
		}
		if o.GetNamespace() != "argocd" {
			t.Errorf("%s is in namespace %q", id, o.GetNamespace())
		}
	}
}

// What keeps a fleet when a folder vanishes is in the ApplicationSet, and both applications name the plugin by the name it has.
func TestArgoCDApplications(t *testing.T) {
	objects := kustomized(t, "../examples/argocd")
	set, platform := objects["ApplicationSet/copyhold-tenants"], objects["Application/copyhold-platform"]
	if set == nil || platform == nil {
		t.Fatalf("there is no ApplicationSet or no platform Application among %d objects", len(objects))
	}
	if at(set, "spec", "syncPolicy", "preserveResourcesOnDeletion") != true || at(set, "spec", "syncPolicy", "applicationsSync") != "create-update" {
		t.Errorf("the ApplicationSet's syncPolicy is %v", at(set, "spec", "syncPolicy"))
	}
	var config struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	data, err := os.ReadFile("../plugin/plugin.yaml")
	if err == nil {
		err = yaml.Unmarshal(data, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	template := &unstructured.Unstructured{Object: at(set, "spec", "template").(map[string]any)}
	for what, app := range map[string]*unstructured.Unstructured{"the ApplicationSet's template": template, "the platform Application": platform} {
		if got := at(app, "spec", "source", "plugin", "name"); got != config.Metadata.Name {
			t.Errorf("%s names plugin %v, want %s", what, got, config.Metadata.Name)
		}
		if len(app.GetFinalizers()) > 0 {
			t.Errorf("%s has finalizers %v: its deletion would delete the fleet", what, app.GetFinalizers())
		}
		if at(app, "spec", "syncPolicy", "automated", "prune") != false || app.GetAnnotations()["argocd.argoproj.io/compare-options"] != "ServerSideDiff=true" {
			t.Errorf("%s: %v, %v", what, at(app, "spec", "syncPolicy"), app.GetAnnotations())
		}
		if options, ok := at(app, "spec", "syncPolicy", "syncOptions").([]any); !ok || !slices.Contains(options, any("ServerSideApply=true")) {
			t.Errorf("%s has sync options %v", what, options)
		}
	}
}

// findingName is a finding as docs/argocd.md names it.
var findingName = regexp.MustCompile(`[\[` + "`" + `]([a-z]+/[a-z]+(?:-[a-z]+)*)[\]` + "`" + `]`)

// The findings that docs/argocd.md explains are findings that there are, and all that only the plugin has are explained.
func TestArgoCDDocs(t *testing.T) {
	doc, err := os.ReadFile("../docs/argocd.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for _, m := range findingName.FindAllStringSubmatch(string(doc), -1) {
		if strings.HasPrefix(m[1], "projects/") || strings.HasPrefix(m[1], "examples/") { // folders
			continue
		}
		explained[m[1]] = true
	}
	if len(explained) < 10 {
		t.Fatalf("only %d findings are explained: %v", len(explained), explained)
	}
	code := ""
	for _, dir := range []string{"../plugin", "../render", "../catalog"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			data, err := os.ReadFile(name)
			code += string(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range explained {
		if !strings.Contains(code, `"`+name+`"`) {
			t.Errorf("docs/argocd.md explains %s, which nothing finds", name)
		}
	}
	for _, m := range regexp.MustCompile(`"(plugin/[a-z-]+)"`).FindAllStringSubmatch(code, -1) {
		if !explained[m[1]] {
			t.Errorf("docs/argocd.md does not explain %s", m[1])
		}
	}
}
