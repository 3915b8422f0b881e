package overlay

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/render/manifest"
)

const solar = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: solar
  namespace: photon-prod
  labels: {team: photon}
spec:
  topology:
    version: v1.34.1
    variables:
    - {name: serviceAddress, value: 192.0.2.10}
    - {name: dataStore, value: default}
`

const lunar = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: lunar
  namespace: photon-prod
spec:
  topology:
    version: v1.33.5
    variables:
    - {name: serviceAddress, value: 192.0.2.11}
`

const subnet = `apiVersion: example.net/v1alpha1
kind: SubnetClaim
metadata:
  name: production
  namespace: photon-prod
spec:
  cidr: 198.51.100.0/24
`

func parse(t testing.TB, docs ...string) []*manifest.Object {
	t.Helper()
	objects, err := manifest.Parse([]byte(strings.Join(docs, "---\n")))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func load(t testing.TB, tree fstest.MapFS) Overlay {
	t.Helper()
	o, found, err := Load(tree, "o")
	if err != nil || len(found) > 0 {
		t.Fatalf("Load = %v, %v", found, err)
	}
	return o
}

// written is the objects as they would go out, in the order given.
func written(t testing.TB, objects []*manifest.Object) string {
	t.Helper()
	var b strings.Builder
	for i, o := range objects {
		y, err := manifest.YAML(o)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(y)
	}
	return b.String()
}

func TestApply(t *testing.T) {
	tests := map[string]struct {
		tree fstest.MapFS
		want [][2]string // what is replaced in the text of the objects
	}{
		"nothing": {folder("patches: []\n"), nil},
		"strategic merge with a target": {
			folder("patches:\n- path: p.yaml\n  target: {kind: Cluster, name: s.*}\n",
				"p.yaml", "kind: ignored\nmetadata: {name: ignored, labels: {tier: gold}}\nspec: {paused: true}\n"),
			[][2]string{
				{"    team: photon\n", "    team: photon\n    tier: gold\n"},
				{"spec:\n  topology:\n    variables:\n    - name: serviceAddress\n      value: 192.0.2.10", "spec:\n  paused: true\n  topology:\n    variables:\n    - name: serviceAddress\n      value: 192.0.2.10"},
			}},
		"strategic merge by name, several in one file, and one inline": {
			folder("patchesStrategicMerge:\n- p.yaml\n- |\n  apiVersion: example.net/v1alpha1\n  kind: SubnetClaim\n  metadata: {name: production, namespace: photon-prod}\n  spec: {gateway: 198.51.100.1}\n",
				"p.yaml", head(lunar)+"spec: {paused: true}\n---\n"+head(solar)+"  labels: {team: null}\n"),
			[][2]string{
				{"  labels:\n    team: photon\n", "  labels: {}\n"},
				{"spec:\n  topology:\n    variables:\n    - name: serviceAddress\n      value: 192.0.2.11", "spec:\n  paused: true\n  topology:\n    variables:\n    - name: serviceAddress\n      value: 192.0.2.11"},
				{"  cidr: 198.51.100.0/24\n", "  cidr: 198.51.100.0/24\n  gateway: 198.51.100.1\n"},
			}},
		"a list of a custom resource is replaced whole": {
			folder("patches:\n- patch: |\n    kind: Cluster\n    metadata: {name: any}\n    spec: {topology: {variables: [{name: dataStore, value: fast}]}}\n  target: {kind: Cluster, name: solar}\n"),
			[][2]string{{"    - name: serviceAddress\n      value: 192.0.2.10\n    - name: dataStore\n      value: default\n", "    - name: dataStore\n      value: fast\n"}}},
		"JSON 6902 for one element of a list": {
			folder("patches:\n- path: p.json\n  target: {group: cluster.x-k8s.io, version: v1beta2, labelSelector: team=photon}\n",
				"p.json", `[{"op": "replace", "path": "/spec/topology/variables/1/value", "value": "fast"},
				{"op": "add", "path": "/spec/topology/variables/0", "value": {"name": "first", "value": null}}]`),
			[][2]string{
				{"value: default", "value: fast"},
				{"    - name: serviceAddress\n      value: 192.0.2.10", "    - name: first\n      value: null\n    - name: serviceAddress\n      value: 192.0.2.10"},
			}},
		"labels and annotations, on the object alone": {
			folder("labels:\n- pairs: {stage: \"1\"}\n  includeSelectors: false\ncommonAnnotations: {note: \"true\"}\n"),
			[][2]string{
				{"  labels:\n    team: photon\n  name: solar", "  annotations:\n    note: \"true\"\n  labels:\n    stage: \"1\"\n    team: photon\n  name: solar"},
				{"  name: lunar", "  annotations:\n    note: \"true\"\n  labels:\n    stage: \"1\"\n  name: lunar"},
				{"  name: production", "  annotations:\n    note: \"true\"\n  labels:\n    stage: \"1\"\n  name: production"},
			}},
		"patchesJson6902 comes after annotations, replacements last": {
			folder("replacements:\n- source: {kind: SubnetClaim, fieldPath: spec.cidr}\n  targets:\n  - select: {kind: Cluster, name: lunar}\n    fieldPaths: [metadata.annotations.note]\n" +
				"patchesJson6902:\n- target: {kind: Cluster, name: lunar}\n  patch: |-\n    - op: replace\n      path: /metadata/annotations/note\n      value: early\n    - op: replace\n      path: /spec/topology/version\n      value: v1.33.6\n" +
				"commonAnnotations: {note: earliest}\n"),
			[][2]string{
				{"  labels:\n    team: photon\n  name: solar", "  annotations:\n    note: earliest\n  labels:\n    team: photon\n  name: solar"},
				{"  name: lunar", "  annotations:\n    note: 198.51.100.0/24\n  name: lunar"},
				{"v1.33.5", "v1.33.6"},
				{"  name: production", "  annotations:\n    note: earliest\n  name: production"},
			}},
		"replacements from files": {
			folder("replacements:\n- path: all.yaml\n- path: one.yaml\n",
				"all.yaml", "- sourceValue: v1.34.2\n  targets:\n  - select: {kind: Cluster}\n    reject: [{name: lunar}]\n    fieldPaths: [spec.topology.version]\n",
				"one.yaml", "source: {kind: Cluster, name: solar, fieldPath: spec.topology.variables.0.value}\ntargets:\n- select: {name: lunar}\n  fieldPaths: ['spec.topology.variables.[name=serviceAddress].value']\n"),
			[][2]string{{"v1.34.1", "v1.34.2"}, {"192.0.2.11", "192.0.2.10"}}},
		"what is for absent objects does nothing": {
			folder("patchesStrategicMerge:\n- |\n  apiVersion: cluster.x-k8s.io/v1beta2\n  kind: Cluster\n  metadata: {name: stellar, namespace: photon-prod}\n  spec: {paused: true}\n" +
				"patches:\n- patch: '[{op: test, path: /a, value: b}]'\n  target: {kind: Nothing}\n" +
				"replacements:\n- source: {kind: Nothing, fieldPath: a}\n  targets: [{select: {name: stellar}, fieldPaths: [a]}]\n"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := parse(t, solar, lunar, subnet)
			want := written(t, in)
			for _, r := range test.want {
				if strings.Count(want, r[0]) != 1 {
					t.Fatalf("%q is not there once in\n%s", r[0], want)
				}
				want = strings.Replace(want, r[0], r[1], 1)
			}
			out, found := load(t, test.tree).Apply(in)
			if len(found) > 0 {
				t.Fatalf("Apply: %v", found)
			}
			if diff := cmp.Diff(want, written(t, out)); diff != "" {
				t.Errorf("Apply (-want +got)\n%s", diff)
			}
		})
	}
}

// head is an object's manifest up to its namespace.
func head(object string) string {
	before, _, _ := strings.Cut(object, "photon-prod\n")
	return before + "photon-prod\n"
}

// awkward is all that a round trip could spoil.
const awkward = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: solar
  namespace: photon-prod
  creationTimestamp: null
  annotations: {note: old}
spec:
  text: ["1.30", "yes", "off", "null", "~", "", "0777", "0x1f", "1e3", "1_000", ".inf", "12:30:00", "2024-01-31", v1.34.1, "2001:db8::1", "::", "a: b", "- a", "# a", "<&>", 'it''s', "é 😀", "=", "!!int 3"]
  lines: ["one\ntwo\n", "\n  one\n\n", "trailing  \nspace", "a\n---\nb\n...\n", "tab\there", "cr\r\nlf"]
  numbers: [0, -1, 1.5, 1e3, 1e21, 1234567, 107374182400, 9007199254740993, 9223372036854775807, -9223372036854775808]
  other: [true, false, null, {}, [], {a: {}, b: [], c: null, d: [[], {}]}]
  order: [c, a, b, a]
  nodeLabels: {node-role.kubernetes.io/compute: "", "123": x, "true": "false", "1.5": "y"}
status: {}
`

// Whichever way one annotation is written, nothing else moves by a byte.
func TestApplyKeeps(t *testing.T) {
	tests := map[string]string{
		"strategic merge":   "patches: [{target: {kind: Cluster}, patch: '{kind: a, metadata: {name: a, annotations: {note: new}}}'}]\n",
		"by name":           "patchesStrategicMerge: ['{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: solar, namespace: photon-prod, annotations: {note: new}}}']\n",
		"JSON 6902":         "patches: [{target: {kind: Cluster}, patch: '[{op: replace, path: /metadata/annotations/note, value: new}]'}]\n",
		"patchesJson6902":   "patchesJson6902: [{target: {kind: Cluster}, patch: '[{op: replace, path: /metadata/annotations/note, value: new}]'}]\n",
		"commonAnnotations": "commonAnnotations: {note: new}\n",
		"replacement":       "replacements: [{sourceValue: new, targets: [{select: {kind: Cluster}, fieldPaths: [metadata.annotations.note]}]}]\n",
	}
	in := parse(t, awkward)
	want := strings.Replace(written(t, in), "note: old", "note: new", 1)
	for name, overlay := range tests {
		t.Run(name, func(t *testing.T) {
			out, found := load(t, folder(overlay)).Apply(in)
			if len(found) > 0 {
				t.Fatalf("Apply: %v", found)
			}
			if diff := cmp.Diff(want, written(t, out)); diff != "" {
				t.Errorf("Apply (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(in[0].Object["spec"], out[0].Object["spec"]); diff != "" {
				t.Errorf("Apply changes values or their types (-want +got)\n%s", diff)
			}
		})
	}
}

// What kustomize leaves out of its own accord, as Apply's comment says.
func TestApplyLeavesOut(t *testing.T) {
	in := parse(t, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {}\n  labels: {}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n"+
		"  annotations: {config.kubernetes.io/origin: a, config.kubernetes.io/index: '1', internal.config.kubernetes.io/index: '1', a: b}\n")
	out, found := load(t, folder("patches: [{target: {name: a}, patch: '{kind: a, metadata: {name: a}, data: {a: b}}'}]\n")).Apply(in)
	if len(found) > 0 {
		t.Fatal(found)
	}
	want := "apiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\nmetadata:\n  labels: {}\n  name: a\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n    a: b\n  name: b\n"
	if diff := cmp.Diff(want, written(t, out)); diff != "" {
		t.Errorf("Apply (-want +got)\n%s", diff)
	}
}

// What a patch itself says arrives as it was written, too.
func TestApplyWrites(t *testing.T) {
	value := strings.Split(awkward, "spec:\n")[1]
	value = strings.TrimSuffix(value, "status: {}\n")
	want := parse(t, awkward)[0].Object["spec"]
	for name, patch := range map[string]string{
		"strategic merge": "kind: a\nmetadata: {name: a}\nspec:\n" + value,
		"JSON 6902":       "- op: add\n  path: /spec\n  value:\n" + strings.ReplaceAll("\n"+value, "\n  ", "\n      "),
	} {
		tree := folder("patches: [{target: {kind: Cluster}, path: p.yaml}]\n", "p.yaml", patch)
		out, found := load(t, tree).Apply(parse(t, head(awkward)))
		if len(found) > 0 {
			t.Fatalf("%s: Apply: %v", name, found)
		}
		if diff := cmp.Diff(want, out[0].Object["spec"]); diff != "" {
			t.Errorf("%s: Apply (-want +got)\n%s", name, diff)
		}
	}
}

func TestApplyOrderAndInput(t *testing.T) {
	o := load(t, folder("commonAnnotations: {a: b}\npatches: [{target: {name: c1.*}, patch: '[{op: remove, path: /metadata/labels}]'}]\n"))
	var docs []string
	for i := range 230 { // more than two batches
		docs = append(docs, strings.Replace(solar, "name: solar", fmt.Sprintf("name: c%d", i*7%230), 1))
	}
	in := parse(t, append(docs, subnet)...)
	before := written(t, in)
	first, found := o.Apply(in)
	if len(found) > 0 {
		t.Fatal(found)
	}
	if len(first) != len(in) {
		t.Fatalf("Apply gives %d objects, want %d", len(first), len(in))
	}
	for i := range in {
		if keyOf(in[i]) != keyOf(first[i]) {
			t.Fatalf("object %d is %v, want %v", i, keyOf(first[i]), keyOf(in[i]))
		}
		if first[i].GetAnnotations()["a"] != "b" || strings.HasPrefix(first[i].GetName(), "c1") != (first[i].GetLabels() == nil) && i < 230 {
			t.Errorf("%s is not changed as wanted: %v", first[i].GetName(), first[i].Object["metadata"])
		}
	}
	second, _ := o.Apply(in)
	if written(t, first) != written(t, second) {
		t.Error("Apply gives two results for one input")
	}
	// Nothing of the output is shared with the input.
	for _, obj := range append(first, second...) {
		obj.Object["spec"].(map[string]any)["topology"] = nil
		obj.SetName("changed")
	}
	if before != written(t, in) {
		t.Error("Apply changes or shares its input")
	}
	none, found := o.Apply(nil)
	if len(none) > 0 || len(found) > 0 {
		t.Errorf("Apply(nil) = %v, %v", none, found)
	}
}

func TestApplyEmptyOverlayCopies(t *testing.T) {
	in := parse(t, solar)
	out, found := Overlay{}.Apply(in)
	if len(found) > 0 || written(t, in) != written(t, out) {
		t.Errorf("Apply = %v, %v, want the object as it was", out, found)
	}
	out[0].SetName("changed")
	if in[0].GetName() != "solar" {
		t.Error("Apply shares its input")
	}
}

func TestUnmatched(t *testing.T) {
	o := load(t, folder("patches:\n"+
		"- {patch: '[]', target: {kind: Cluster, name: sol}}\n"+
		"- {patch: '[]', target: {kind: Cluster, name: 'so.*'}}\n"+
		"- {patch: '[]', target: {group: apps, version: v1, kind: Cluster, namespace: photon-prod, labelSelector: a=b}}\n"+
		"- {patch: '[]', target: {labelSelector: a=b}}\n"+
		"- patch: '{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: solar, namespace: photon-prod}}'\n"+
		"- patch: '{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: solar, namespace: photon-prod}}'\n"+
		"replacements:\n- {sourceValue: a, targets: [{select: {name: a}}, {select: {kind: b}}]}\n- {sourceValue: a, targets: [{select: {name: a}}, {select: {name: lunar}}]}\n"))
	found := o.Unmatched(parse(t, solar, lunar))
	want := `o/kustomization.yaml:4:11: warning: no object has kind "Cluster", name "sol": this changes nothing [overlay/no-match]
o/kustomization.yaml:6:11: warning: no object has group "apps", version "v1", kind "Cluster", namespace "photon-prod": this changes nothing [overlay/no-match]
o/kustomization.yaml:8:10: warning: no object has group "cluster.x-k8s.io", version "v1beta1", kind "Cluster", namespace "photon-prod", name "solar": this changes nothing [overlay/no-match]
o/kustomization.yaml:11:3: warning: no object has name "a" or kind "b": this changes nothing [overlay/no-match]
`
	if diff := cmp.Diff(want, found.String()); diff != "" {
		t.Errorf("Unmatched (-want +got)\n%s", diff)
	}
	if found.Failed() {
		t.Error("Unmatched finds errors, want warnings")
	}
	if found := o.Unmatched(nil); len(found) > 0 {
		t.Errorf("Unmatched(nil) = %v, want nothing", found)
	}
}

// Kustomize prints notices about old fields to the process's stderr, which is the product's own.
func TestApplyIsSilent(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	log.SetOutput(w)
	o, loaded, loadErr := Load(folder("patchesStrategicMerge: ['{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: solar, namespace: photon-prod}, spec: {paused: true}}']\n"+
		"patchesJson6902: [{target: {kind: Cluster, labelSelector: team in (photon)}, patch: '[{op: remove, path: /metadata/labels}]'}]\n"), "o")
	out, found := o.Apply(parse(t, solar))
	os.Stdout, os.Stderr = stdout, stderr
	log.SetOutput(stderr)
	w.Close()
	said, err := io.ReadAll(r)
	if err != nil || loadErr != nil || len(loaded) > 0 || len(found) > 0 {
		t.Fatal(err, loadErr, loaded, found)
	}
	if len(said) > 0 {
		t.Errorf("kustomize says %q, want nothing", said)
	}
	if out[0].Object["spec"].(map[string]any)["paused"] != true || out[0].GetLabels() != nil {
		t.Errorf("the old fields have no effect: %v", out[0].Object)
	}
}

func TestApplyConcurrently(t *testing.T) {
	o := load(t, folder("patches: [{target: {kind: Cluster}, patch: '{kind: a, metadata: {name: a}, spec: {paused: true}}'}]\n"))
	in := parse(t, solar, lunar, subnet)
	want, _ := o.Apply(in)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			out, found := o.Apply(in)
			if len(found) > 0 || written(t, out) != written(t, want) {
				t.Errorf("Apply = %v, %v", out, found)
			}
		})
	}
	group.Wait()
}

func BenchmarkApply(b *testing.B) {
	var docs []string
	for i := range 1000 {
		docs = append(docs, strings.Replace(awkward, "name: solar", fmt.Sprintf("name: c%03d", i), 1))
	}
	in := parse(b, docs...)
	for name, overlay := range map[string]string{
		"annotation":   "commonAnnotations: {a: b}\n",
		"five patches": "commonAnnotations: {a: b}\npatches:\n" + strings.Repeat("- {target: {kind: Cluster}, patch: '{kind: a, metadata: {name: a}, spec: {paused: true}}'}\n", 3) + strings.Repeat("- {target: {kind: Cluster}, patch: '[{op: add, path: /spec/a, value: b}]'}\n", 2),
		"replacement":  "replacements: [{sourceValue: a, targets: [{select: {kind: Cluster}, fieldPaths: [metadata.annotations.note]}]}]\n",
	} {
		o := load(b, folder(overlay))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, found := o.Apply(in); len(found) > 0 {
					b.Fatal(found)
				}
			}
		})
	}
}
