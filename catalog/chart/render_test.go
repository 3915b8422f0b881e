package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"copyhold.dev/copyhold/render/manifest"
)

var options = Options{Name: "solar", Namespace: "photon-prod"}

// tree unpacks a txtar archive. The chart under test is in the folder solar; a Chart.yaml is put in unless the archive has one.
func tree(t testing.TB, archive string) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{"solar/Chart.yaml": {Data: []byte("apiVersion: v2\nname: solar\nversion: 1.0.0\n")}}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		m[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return m
}

// yaml gives objects as one text.
func yaml(t testing.TB, objects []*manifest.Object) string {
	t.Helper()
	set, err := manifest.New(objects...)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := set.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// render wants no finding, and gives the objects as one text.
func render(t testing.TB, fsys fs.FS, o Options) string {
	t.Helper()
	objects, found, err := Render(fsys, "solar", o)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		t.Fatalf("Render found:\n%s", found)
	}
	return yaml(t, objects)
}

const whole = `
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.2.3
kubeVersion: ">=1.30-0"
dependencies:
  - {name: pools, version: ^1.0.0, repository: "", alias: workers}
  - {name: panels, version: 1.0.0, repository: "", condition: panels.enabled}
  - {name: absent, version: 1.0.0, repository: "", condition: absent.enabled}
-- solar/values.yaml --
region: north
greeting: "hello from {{ .Release.Name }}"
panels: {enabled: false}
absent: {enabled: false}
workers: {size: large}
-- solar/values.schema.json --
{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"region": {"$ref": "#/definitions/word"}}, "definitions": {"word": {"type": "string"}}}
-- solar/.helmignore --
*.orig
-- solar/templates/b.yaml.orig --
{{ now }} this file is ignored
-- solar/templates/NOTES.txt --
{{ now }} is not run {{ fail "nor this" }}
-- solar/templates/_helpers.tpl --
{{ define "solar.name" }}{{ .Release.Name }}-{{ .Values.region }}{{ end }}
-- solar/templates/b.yaml --
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "solar.name" . }}
  namespace: {{ .Release.Namespace }}
  annotations: {sum: {{ include (print $.Template.BasePath "/a.yaml") . | sha256sum | trunc 8 }}}
data:
  file: {{ .Files.Get "config/app.txt" | quote }}
  outside: {{ .Files.Get "../secret.txt" | quote }}
  greeting: {{ tpl .Values.greeting . }}
  release: "{{ .Release.IsInstall }} {{ .Release.IsUpgrade }} {{ .Release.Revision }} {{ .Release.Service }}"
  kube: {{ .Capabilities.KubeVersion.Version }}
  helm: {{ .Capabilities.HelmVersion.Version }}{{ .Capabilities.HelmVersion.GoVersion }}
  api: "{{ .Capabilities.APIVersions.Has "cluster.x-k8s.io/v1beta2" }} {{ .Capabilities.APIVersions.Has "cluster.x-k8s.io/v1beta1" }}"
-- solar/templates/a.yaml --
{{- if .Values.namespace }}
apiVersion: v1
kind: Namespace
metadata: {name: photon-prod}
{{- end }}
---
# nothing but a comment
-- solar/templates/tests/test.yaml --
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: "test-success, test"}}
-- solar/crds/panels.yaml --
this is not looked at: [
-- solar/config/app.txt --
watts: 100
-- secret.txt --
not in the chart
-- solar/charts/pools/Chart.yaml --
apiVersion: v2
name: pools
version: 1.4.0
-- solar/charts/pools/values.yaml --
size: small
count: 2
-- solar/charts/pools/templates/pool.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Chart.Name }}}
data: {size: {{ .Values.size }}, count: "{{ .Values.count }}"}
-- solar/charts/panels/Chart.yaml --
apiVersion: v2
name: panels
version: 1.0.0
-- solar/charts/panels/templates/panel.yaml --
{{ uuidv4 }} {{ fail "panels are off" }}
-- solar/charts/README --
a loose file in charts/
`

func TestRender(t *testing.T) {
	got := render(t, tree(t, whole), Options{Name: "solar", Namespace: "photon-prod", Values: map[string]any{
		"namespace": true, "region": "south", "workers": map[string]any{"count": 3},
	}})
	want := `apiVersion: v1
kind: Namespace
metadata:
  name: photon-prod
---
apiVersion: v1
data:
  count: "3"
  size: large
kind: ConfigMap
metadata:
  name: workers
---
apiVersion: v1
data:
  api: true false
  file: |
    watts: 100
  greeting: hello from solar
  helm: v3.21.0
  kube: v1.36.0
  outside: ""
  release: true false 1 Helm
kind: ConfigMap
metadata:
  annotations:
    sum: 0d86ee09
  name: solar-south
  namespace: photon-prod
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("Render (-want +got):\n%s", d)
	}
}

// The second rendering of a process must not see what the first did to the chart or the values.
func TestRenderIsRepeatable(t *testing.T) {
	fsys := tree(t, whole+`
-- solar/templates/c.yaml --
{{- $_ := set .Values "region" "changed" }}
{{- $_ := set .Values.given "deep" "changed" }}
`)
	given := map[string]any{"given": map[string]any{"deep": "mine"}, "count": int64(7)}
	o := Options{Name: "solar", Namespace: "photon-prod", Values: given}
	first := render(t, fsys, o)
	for range 5 {
		if d := cmp.Diff(first, render(t, fsys, o)); d != "" {
			t.Fatalf("a later rendering differs (-first +later):\n%s", d)
		}
	}
	if d := cmp.Diff(map[string]any{"given": map[string]any{"deep": "mine"}, "count": int64(7)}, given); d != "" {
		t.Errorf("Render changed the caller's values (-want +got):\n%s", d)
	}
}

func TestRenderAtTheRoot(t *testing.T) {
	m, err := fs.Sub(tree(t, `
-- solar/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Chart.Name }}}}
`), "solar")
	if err != nil {
		t.Fatal(err)
	}
	objects, found, err := Render(m, ".", options)
	if err != nil || len(found) > 0 || len(objects) != 1 || objects[0].GetName() != "solar" {
		t.Errorf("Render(root) = %v, %v, %v", objects, found, err)
	}
}

// pack makes the archive that `helm package` would, with the given files under a folder.
func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchivedSubchart(t *testing.T) {
	fsys := tree(t, `
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.0.0
dependencies: [{name: panels, version: 1.0.0}]
`)
	archive := func(template string) *fstest.MapFile {
		return &fstest.MapFile{Data: pack(t, map[string]string{
			"panels/Chart.yaml":                      "apiVersion: v2\nname: panels\nversion: 1.0.0\n",
			"panels/templates/panel.yaml":            template,
			"panels/charts/deep/Chart.yaml":          "apiVersion: v2\nname: deep\nversion: 1.0.0\n",
			"panels/charts/deep/templates/_deep.tpl": `{{ define "deep" }}from the deep{{ end }}`,
		})}
	}
	const name = "solar/charts/panels-1.0.0.tgz"
	fsys[name] = archive(`{apiVersion: v1, kind: ConfigMap, metadata: {name: panel}, data: {a: {{ include "deep" . }}}}`)
	want := "apiVersion: v1\ndata:\n  a: from the deep\nkind: ConfigMap\nmetadata:\n  name: panel\n"
	if d := cmp.Diff(want, render(t, fsys, options)); d != "" {
		t.Errorf("Render (-want +got):\n%s", d)
	}
	fsys[name] = archive("a: b\nc: {{ uuidv4 }}\n")
	wantFindings(t, fsys, options, `solar/charts/panels-1.0.0.tgz/templates/panel.yaml:2:7: "uuidv4" is random, so each rendering would give other manifests [chart/not-repeatable]
  hint: take it from the values, or have it made in the cluster
`)
	fsys[name] = archive(strings.Repeat("#", maxFile+1))
	wantFindings(t, fsys, options, `solar/charts/panels-1.0.0.tgz/templates/panel.yaml: a file of a chart has more than 2097152 bytes [chart/too-large]
  hint: name it in .helmignore if the chart does not need it
`)
	fsys[name] = &fstest.MapFile{Data: []byte("not packed")}
	wantFindings(t, fsys, options, "solar/charts/panels-1.0.0.tgz: not the archive of a chart: gzip: invalid header [chart/invalid]\n")
}

// wantFindings wants exactly these findings, no object with them, and the same once more.
func wantFindings(t testing.TB, fsys fs.FS, o Options, want string) {
	t.Helper()
	for range 3 {
		objects, found, err := Render(fsys, "solar", o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, found.String()); d != "" {
			t.Fatalf("findings (-want +got):\n%s", d)
		}
		if found.Failed() && objects != nil {
			t.Fatalf("got %d objects along with an error", len(objects))
		}
	}
}

type brokenFS struct {
	fs.FS
	name string
}

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == b.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("input/output error")}
	}
	return b.FS.Open(name)
}

func TestUnreadableTree(t *testing.T) {
	for _, name := range []string{"solar", "solar/templates", "solar/templates/b.yaml", "solar/.helmignore"} {
		objects, found, err := Render(brokenFS{tree(t, whole), name}, "solar", options)
		if want := "reading chart: open " + name + ": input/output error"; err == nil || err.Error() != want {
			t.Errorf("Render with a broken %s: error %v, want %s", name, err, want)
		}
		if objects != nil || found != nil {
			t.Errorf("Render with a broken %s gave %v, %v besides the error", name, objects, found)
		}
	}
}

// FuzzRender wants no panic, findings inside the chart, and no object beside an error.
func FuzzRender(f *testing.F) {
	f.Add("apiVersion: v2\nname: solar\nversion: 1.0.0\n", "a: 1\n", `{"type": "object"}`, "{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Values.a }}}}")
	f.Add("dependencies: [null]\nname: solar\nversion: 1.0.0\n", "[]", `{"$ref": "#"}`, "{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}")
	f.Add("name: solar\nversion: 1.0.0\nmaintainers: [null]\n", "null", `true`, "{{ template \"missing\" . }}")
	f.Add("name: solar\nversion: 1.0.0\ndependencies: [{name: solar, import-values: [1, {}, [a], {child: .., parent: ''}]}]", "&a [*a]", `{"properties": {"a": {"$id": "http://192.0.2.1/x", "$ref": "#/y"}}}`, "{{ (index .Values 1).x.y }}")
	f.Add("name: solar\nversion: 1.0.0\n", "a: '{{ tpl .Values.a . }}'", `[1`, "{{ tpl .Values.a . }}{{ break }}")
	f.Add("name: ../solar\nversion: 1.0.0\n", "\x00", "\x00", "\x00")
	f.Add("name: solar\nversion: 1.0.0\ntype: library\n", "solar: 1", "null", "{{ range $i, $e := until 3 }}---\na: {{ $i }}\n{{ end }}{{ else }}")
	f.Add("- 1", "a: !!binary x", `{"$schema": 1, "type": 7}`, "{{ .Files.Glob \"[\" }}{{ .Files.Lines \"x\" }}{{ .Chart.Validate }}{{ div 1 0 }}")
	f.Fuzz(func(t *testing.T, chart, values, schema, template string) {
		m := fstest.MapFS{
			"solar/Chart.yaml":                    {Data: []byte(chart)},
			"solar/values.yaml":                   {Data: []byte(values)},
			"solar/values.schema.json":            {Data: []byte(schema)},
			"solar/templates/a.yaml":              {Data: []byte(template)},
			"solar/templates/_b.tpl":              {Data: []byte(template)},
			"solar/charts/panels/Chart.yaml":      {Data: []byte("apiVersion: v2\nname: panels\nversion: 1.0.0\n")},
			"solar/charts/panels/values.yaml":     {Data: []byte(values)},
			"solar/charts/panels/templates/p.tpl": {Data: []byte(template)},
		}
		objects, found, err := Render(m, "solar", options)
		if err != nil {
			t.Fatal(err)
		}
		if found.Failed() && objects != nil {
			t.Error("objects along with an error")
		}
		for _, f := range found {
			if f.Pos.File != "solar" && !strings.HasPrefix(f.Pos.File, "solar/") || strings.ContainsAny(f.Message, "\n\r") || f.Message == "" {
				t.Errorf("finding %q", f)
			}
		}
	})
}
