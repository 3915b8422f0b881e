package chart

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestFindings(t *testing.T) {
	tests := []struct {
		name    string
		archive string // the empty one is a chart with nothing but a Chart.yaml
		values  map[string]any
		want    string
	}{
		{name: "nothing to render"},
		{
			name:    "Chart.yaml is not YAML",
			archive: "-- solar/Chart.yaml --\nname: solar\nversion: [\n",
			want:    "solar/Chart.yaml:2: did not find expected node content [chart/invalid]\n",
		},
		{
			name:    "Chart.yaml without a version",
			archive: "-- solar/Chart.yaml --\nname: solar\n",
			want:    "solar/Chart.yaml: version is required [chart/invalid]\n",
		},
		{
			name:    "Chart.yaml with a wrong type",
			archive: "-- solar/Chart.yaml --\nname: {}\n",
			want:    "solar/Chart.yaml: name: want string, got object [chart/invalid]\n",
		},
		{
			name:    "values.yaml is not a mapping",
			archive: "-- solar/values.yaml --\n- a\n",
			want:    "solar/values.yaml: want a mapping (key: value), got array [chart/invalid]\n",
		},
		{
			name:    "library",
			archive: "-- solar/Chart.yaml --\napiVersion: v2\nname: solar\nversion: 1.0.0\ntype: library\n",
			want:    "solar/Chart.yaml: solar is a library chart, which renders nothing by itself [chart/invalid]\n",
		},
		{
			name:    "helmignore",
			archive: "-- solar/.helmignore --\n**/x\n",
			want:    "solar/.helmignore: double-star (**) syntax is not supported [chart/invalid]\n",
		},
		{
			name:    "kubeVersion",
			archive: "-- solar/Chart.yaml --\napiVersion: v2\nname: solar\nversion: 1.0.0\nkubeVersion: <1.30\n",
			want:    "solar/Chart.yaml: the chart wants Kubernetes \"<1.30\", and charts are rendered for v1.36.0 [chart/kube-version]\n",
		},
		{
			name: "dependencies",
			archive: `
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.0.0
dependencies: [{name: panels, version: ^1.0.0}, {name: pools, version: ^2.0.0}]
-- solar/charts/pools/Chart.yaml --
apiVersion: v2
name: pools
version: 1.0.0
dependencies: [{name: deep, version: 1.0.0, alias: deeper}]
`,
			want: `solar/Chart.yaml: charts/ does not hold dependency "panels" in version "^1.0.0" [chart/missing-dependency]
  hint: vendor it: helm dependency update solar
solar/Chart.yaml: charts/ does not hold dependency "pools" in version "^2.0.0", only 1.0.0 [chart/missing-dependency]
  hint: vendor it: helm dependency update solar
solar/charts/pools/Chart.yaml: charts/ does not hold dependency "deeper" in version "1.0.0" [chart/missing-dependency]
  hint: vendor it: helm dependency update solar/charts/pools
`,
		},
		{
			name: "subcharts that cannot be told apart",
			archive: `
-- solar/charts/a/Chart.yaml --
{apiVersion: v2, name: pools, version: 1.0.0}
-- solar/charts/b/Chart.yaml --
{apiVersion: v2, name: pools, version: 1.0.0}
-- solar/charts/c/values.yaml --
a: 1
`,
			want: `solar/charts/b: subchart pools 1.0.0 is there twice, first in solar/charts/a [chart/invalid]
solar/charts/c: there is no Chart.yaml in solar/charts/c [chart/missing]
`,
		},
		{
			name: "subcharts of one name",
			archive: `
-- solar/charts/a/Chart.yaml --
{apiVersion: v2, name: pools, version: 1.0.0}
-- solar/charts/b/Chart.yaml --
{apiVersion: v2, name: pools, version: 2.0.0}
`,
			want: `solar/Chart.yaml: two subcharts are called "pools", in solar/charts/a and solar/charts/b [chart/invalid]
  hint: give one of them an alias in the dependencies of Chart.yaml
`,
		},
		{
			name:    "values of a subchart",
			archive: "-- solar/charts/pools/Chart.yaml --\n{apiVersion: v2, name: pools, version: 1.0.0}\n",
			values:  map[string]any{"pools": "large"},
			want:    "solar: value \"pools\" is for the subchart of that name, want a mapping (key: value) [chart/values]\n",
		},
		{
			name:   "values that YAML cannot hold",
			values: map[string]any{"a": func() {}},
			want:   "solar: the values of the chart cannot be written as YAML: json: unsupported type: func() [chart/values]\n",
		},
		{
			name:    "output is not YAML",
			archive: "-- solar/templates/a.yaml --\n{{ if true -}}\na: b: c\n{{ end }}\n",
			want:    "solar/templates/a.yaml: the output is not readable: document 1: mapping values are not allowed in this context [chart/output]\n",
		},
		{
			name:    "output is no object",
			archive: "-- solar/templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\n-- solar/templates/b.yaml --\na: b\n",
			want: `solar/templates/a.yaml: the output is not readable: document 1: ConfigMap "" has no apiVersion or no metadata.name [chart/output]
solar/templates/b.yaml: the output is not readable: document 1: an object has no kind [chart/output]
`,
		},
		{
			name: "an object twice",
			archive: `
-- solar/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: panels}}
-- solar/templates/b.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: panels, namespace: photon-prod}}
`,
			want: "solar/templates/b.yaml: ConfigMap photon-prod/panels is there twice, first in solar/templates/a.yaml [chart/output]\n",
		},
		{
			name: "hook",
			archive: `
-- solar/templates/a.yaml --
{apiVersion: v1, kind: Pod, metadata: {name: panels, annotations: {helm.sh/hook: "test,pre-install"}}}
`,
			want: `solar/templates/a.yaml: Pod panels is a hook (test,pre-install), and a hook is run by helm, which is not there [chart/hook]
  hint: switch the hook off with a value of the chart, or make the object an ordinary one
`,
		},
		{
			name: "two renderings that differ",
			archive: `
-- solar/Chart.yaml --
apiVersion: v2
name: solar
version: 1.0.0
maintainers: [{name: platform}]
-- solar/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Chart.Maintainers | toString | sha256sum }}}}
`,
			want: `solar/templates/a.yaml: two renderings of this template differ [chart/not-repeatable]
  hint: print single fields, not whole objects such as .Chart, and give no two files of one .AsConfig the same name
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := options
			o.Values = tt.values
			wantFindings(t, tree(t, tt.archive), o, tt.want)
		})
	}
}

func TestMissing(t *testing.T) {
	fsys := fstest.MapFS{"empty/readme": {}, "file": {}, "link/Chart.yaml": {Data: []byte("../../secret"), Mode: 1 << 27}}
	for dir, want := range map[string]string{
		"nowhere":  "nowhere: there is no folder nowhere [chart/missing]\n",
		"empty":    "empty: there is no Chart.yaml in empty [chart/missing]\n",
		"file":     "file: file is a file, want the chart's folder [chart/missing]\n  hint: unpack the chart into a folder\n",
		"../solar": "../solar: \"../solar\" is no folder of this repository [chart/missing]\n",
		"link":     "link/Chart.yaml: not an ordinary file; links in a chart are not followed [chart/invalid]\n  hint: put a copy of the file there\n",
	} {
		_, found, err := Render(fsys, dir, options)
		if err != nil || found.String() != want {
			t.Errorf("Render(%s) = %v, %v, want %s", dir, found, err, want)
		}
	}
}

func TestTooLarge(t *testing.T) {
	fsys := tree(t, "")
	fsys["solar/data.bin"] = &fstest.MapFile{Data: make([]byte, maxFile+1)}
	wantFindings(t, fsys, options, `solar/data.bin: a file of a chart has more than 2097152 bytes [chart/too-large]
  hint: name it in .helmignore if the chart does not need it
`)
	fsys["solar/.helmignore"] = &fstest.MapFile{Data: []byte("data.bin\n")}
	wantFindings(t, fsys, options, "")
	for _, name := range strings.Split("abcdef", "") {
		fsys["solar/"+name] = &fstest.MapFile{Data: make([]byte, maxFile-1)}
	}
	wantFindings(t, fsys, options, `solar: the chart has more than 10485760 bytes [chart/too-large]
  hint: name what the chart does not need in .helmignore
`)
}

func TestEndlessTemplate(t *testing.T) {
	wantFindings(t, tree(t, `
-- solar/templates/_helpers.tpl --
{{ define "deep" }}{{ template "deep" . }}{{ end }}
-- solar/templates/a.yaml --
{{ template "deep" . }}
`), options, "solar/templates/_helpers.tpl:1:32: {{template \"deep\" .}}: exceeded maximum template depth (100000) [chart/template]\n")
}

// A finding of a template has the place where the engine stood and the reason at the other end of helm's message.
func TestTemplateFailures(t *testing.T) {
	const helpers = `
-- solar/templates/_helpers.tpl --
{{ define "fails" }}
  {{ fail "panels:\n  want some" }}{{ end }}
{{ define "wrong" }}  {{ index .Values "a" "b" }}{{ end }}
{{ define "outer" }}{{ include "wrong" . }}{{ end }}
{{ define "loop" }}{{ include "loop" . }}{{ end }}
-- solar/values.yaml --
a: text
broken: "{{ if }}"
wrong: "{{ .Values.a.b.c }}"
`
	for _, tt := range []struct{ name, template, want string }{
		{"syntax", "a: b\nc: {{ if }}\n", "2: missing value for if"},
		{"unclosed", "a: b\n{{ if true }}\n", "3: unexpected EOF"},
		{"no such function", "a: b\nc: {{ frobnicate 1 }}\n", `2: function "frobnicate" not defined`},
		{"no such template", "a: {{ include \"panels\" . }}", `1:7: there is no template "panels"`},
		{"required", "a:\n  b: {{ required \"want a region\" .Values.region }}\n", "2:9: want a region"},
		{"fail in a helper", "a: b\nc: {{ include \"fails\" . }}", "2:7: panels: want some"},
		{"error in a helper", "a: {{ include \"outer\" . }}", "1:7: cannot index slice/array with type string [chart/template]\n  hint: it comes from solar/templates/_helpers.tpl:3:26"},
		{"error here", "a: {{ .Values.a.b }}", `1:14: .Values.a.b: there is no field "b"`},
		{"error in a text", "a: {{ tpl .Values.wrong . }}", `1:7: .Values.a.b.c: there is no field "b"`},
		{"broken text", "a: {{ tpl .Values.broken . }}", "1:7: in the text given to tpl: missing value for if"},
		{"division by zero", "a: {{ div 1 0 }}", "1:7: runtime error: integer divide by zero"},
		{"nothing there", "a: {{ .Values.b.c.d }}", `1:14: .Values.b.c.d: there is nothing to take "c" of`},
		{"a value that is not given", "a: {{ tpl .Values.b . }}", "1:18: .Values.b: want a string, got nothing"},
		{"endless include", "a: {{ include \"loop\" . }}", "1:7: template \"loop\" includes itself without end [chart/template]\n  hint: it comes from solar/templates/_helpers.tpl:5:23"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := "solar/templates/a.yaml:" + tt.want + " [chart/template]\n"
			if strings.Contains(tt.want, "[") {
				want = "solar/templates/a.yaml:" + tt.want + "\n"
			}
			wantFindings(t, tree(t, helpers+"-- solar/templates/a.yaml --\n"+tt.template), options, want)
		})
	}
}
