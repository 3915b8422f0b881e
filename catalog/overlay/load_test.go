package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/types"
)

const component = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"

// folder is a repository with the overlay o: a component with the text, and further files by their path in it.
func folder(text string, files ...string) fstest.MapFS {
	tree := fstest.MapFS{"o/kustomization.yaml": {Data: []byte(component + text)}}
	for i := 0; i < len(files); i += 2 {
		tree["o/"+files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return tree
}

func TestLoadFinds(t *testing.T) {
	tests := map[string]struct {
		tree fstest.MapFS
		want string
	}{
		"no kustomization": {
			fstest.MapFS{"o/patch.yaml": {}},
			`o: overlay "o" has no kustomization.yaml [overlay/missing]
  hint: write one with kind: Component and apiVersion: kustomize.config.k8s.io/v1alpha1
`},
		"two kustomizations": {
			folder("", "Kustomization", component),
			`o/Kustomization: the overlay has a kustomization.yaml as well, want one [overlay/ambiguous]
  hint: delete one of the two
`},
		"not a component": {
			fstest.MapFS{"o/kustomization.yml": {Data: []byte("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n")}},
			`o/kustomization.yml:1:13: apiVersion "kustomize.config.k8s.io/v1beta1", want kustomize.config.k8s.io/v1alpha1 [overlay/api-version]
o/kustomization.yml:2:7: kind "Kustomization", want Component [overlay/kind]
  hint: a Component changes the objects it is given; a Kustomization brings its own
`},
		"no kind at all": {
			fstest.MapFS{"o/Kustomization": {Data: []byte("patches: [{path: a}]\n")}},
			`o/Kustomization:1:1: apiVersion "", want kustomize.config.k8s.io/v1alpha1 [overlay/api-version]
o/Kustomization:1:1: kind "", want Component [overlay/kind]
  hint: a Component changes the objects it is given; a Kustomization brings its own
o/Kustomization:1:18: no file "a" in the overlay [overlay/no-file]
`},
		"nothing in it": {
			fstest.MapFS{"o/kustomization.yaml": {Data: []byte("# later\n")}},
			"o/kustomization.yaml: 0 documents, want one [overlay/documents]\n"},
		"not YAML": {
			folder("patches: [\n"),
			"o/kustomization.yaml:3: did not find expected node content [yaml/syntax]\n  hint: look at this line and those beside it: indentation, a space after each colon, quotes around values that start with @, ` or %\n"},
		"unknown and mistyped fields, forbidden ones once": {
			folder("patchs: []\nResources: [a]\nresources: [a]\ncommonAnnotations: {a: 1}\npatches:\n- Path: a\n"),
			`o/kustomization.yaml:3:1: unknown field "patchs", want one of apiVersion, commonAnnotations, kind, labels, metadata, patches, patchesJson6902, patchesStrategicMerge, replacements [overlay/unknown-field]
  hint: did you mean "patches"?
o/kustomization.yaml:4:1: unknown field "Resources", want one of apiVersion, commonAnnotations, kind, labels, metadata, patches, patchesJson6902, patchesStrategicMerge, replacements [overlay/unknown-field]
o/kustomization.yaml:5:1: field "resources" is not for overlays: it brings in objects, and can fetch them from elsewhere [overlay/forbidden-field]
  hint: an overlay holds patches, labels, commonAnnotations and replacements
o/kustomization.yaml:6:24: commonAnnotations.a: want a string, got the number 1 [overlay/wrong-type]
  hint: quote it: "1"
o/kustomization.yaml:8:3: unknown field "Path" in patches[0], want one of options, patch, path, target [overlay/unknown-field]
  hint: did you mean "path"?
`},
		"labels where they roll machines": {
			folder("labels:\n- pairs: {a: b}\n- pairs: {c: d}\n  includeSelectors: true\n  includeTemplates: true\n- pairs: {e: f}\n  includeTemplates: false\n"),
			`o/kustomization.yaml:6:3: field "includeSelectors" is not for overlays: it writes selectors and pod templates too, which rolls workers [overlay/forbidden-field]
  hint: use labels with pairs: they go on the object alone
o/kustomization.yaml:7:3: field "includeTemplates" is not for overlays: it writes selectors and pod templates too, which rolls workers [overlay/forbidden-field]
  hint: use labels with pairs: they go on the object alone
`},
		"selectors": {
			folder("patches:\n- target: {name: 'a('}\n  patch: '[]'\n- target: {labelSelector: 'a in b'}\n  patch: '[]'\n- target: {annotationSelector: 'a > 1'}\n  patch: '[]'\n" +
				"replacements:\n- sourceValue: x\n  targets:\n  - select: {kind: '*'}\n    reject: [{name: '['}]\n"),
			"o/kustomization.yaml:4:11: not a regular expression: error parsing regexp: missing closing ): `^(?:a()$` [overlay/selector]\n" +
				"o/kustomization.yaml:6:27: not a selector: unable to parse requirement: found 'b' expected: '(' [overlay/selector]\n" +
				"o/kustomization.yaml:8:32: \"a > 1\" compares numbers, want one of =, !=, in, notin, exists [overlay/selector]\n" +
				"o/kustomization.yaml:13:13: not a regular expression: error parsing regexp: missing argument to repetition operator: `*` [overlay/selector]\n" +
				"o/kustomization.yaml:14:14: not a regular expression: error parsing regexp: missing closing ]: `[)$` [overlay/selector]\n"},
		"no such file": {
			folder("patches:\n- path: a.yaml\n- path: files\npatchesStrategicMerge:\n- b.yaml\n", "files/x", ""),
			`o/kustomization.yaml:4:9: no file "a.yaml" in the overlay [overlay/no-file]
o/kustomization.yaml:5:9: no file "files" in the overlay [overlay/no-file]
o/kustomization.yaml:7:3: no file "b.yaml" in the overlay [overlay/no-file]
`},
		"patches that say nothing, or two things": {
			folder("patches:\n- {}\n- {path: a.yaml, patch: '[]'}\n- path: empty.yaml\n-\n", "empty.yaml", "# later\n"),
			`o/empty.yaml: 0 documents, want one [overlay/patch]
o/kustomization.yaml:4:3: no path and no patch, want one of the two [overlay/patch]
o/kustomization.yaml:5:3: a path and a patch, want one of the two [overlay/patch]
o/kustomization.yaml:7:2: no path and no patch, want one of the two [overlay/patch]
`},
		"patches for nothing": {
			folder("patches:\n- path: ops.json\n- path: part.yaml\n- path: part.yaml\n  target: {kind: Cluster}\n- patch: '{kind: Cluster}'\n  target: {kind: Cluster}\n",
				"ops.json", "[{\"op\": \"remove\", \"path\": \"/a\"}]\n",
				"part.yaml", "---\nkind: Cluster\nmetadata: {name: solar}\n---\nkind: Cluster\nmetadata: {name: lunar}\n"),
			`o/kustomization.yaml:8:10: a strategic merge patch without kind or metadata.name: kustomize wants both, and goes by the target [overlay/patch]
o/ops.json:1:1: a JSON 6902 patch without a target: nothing says which objects it is for [overlay/patch]
o/part.yaml:2:1: a strategic merge patch without a target, want its apiVersion, kind and metadata.name [overlay/patch]
o/part.yaml:5:1: 2 strategic merge patches for one target, want one [overlay/patch]
o/part.yaml:5:1: a strategic merge patch without a target, want its apiVersion, kind and metadata.name [overlay/patch]
`},
		"patches under the wrong field": {
			folder("patchesStrategicMerge:\n- |\n  - op: remove\n    path: /a\npatchesJson6902:\n- target: {kind: Cluster}\n  patch: '{}'\n"),
			`o/kustomization.yaml:4:3: a JSON 6902 patch, want a strategic merge patch [overlay/patch]
o/kustomization.yaml:9:10: a strategic merge patch, want a JSON 6902 patch [overlay/patch]
`},
		"what a patch must not hold, at its line": {
			folder("patches:\n- target: {kind: Cluster}\n  path: ops.yaml\n- target: {kind: Cluster}\n  path: ops.json\n- target: {kind: Cluster}\n  patch: |\n    - op: add\n      path: /a\n      value: &a 1\n- path: part.yaml\n",
				"ops.yaml", "# ops\n--- # the list\n- op: add\n  paht: /a\n  value: 0755\n- op: add\n  paht: /a\n",
				"ops.json", "\n[\n  {\"op\": \"add\", \"path\": 1}\n]\n",
				"part.yaml", "kind: Cluster\nkind: Cluster\n"),
			`o/kustomization.yaml:9:10: line 3 of the patch: anchor &a is not allowed here [yaml/alias]
  hint: write the value out where it is used
o/ops.json:3:25: patch[0].path: want a string, got the number 1 [overlay/wrong-type]
  hint: quote it: "1"
o/ops.yaml:5:10: the number 0755 is read differently by different tools [yaml/number]
  hint: write a decimal number, or quote it if it is text
o/part.yaml:2:1: field "kind" is given twice, first on line 1 [yaml/duplicate-key]
  hint: keep one of the two
`},
		"unknown field of an operation": {
			folder("patches:\n- target: {kind: Cluster}\n  path: ops.yaml\n", "ops.yaml", "- op: add\n  paht: /a\n"),
			`o/ops.yaml:2:3: unknown field "paht" in patch[0], want one of from, op, path, value [overlay/unknown-field]
  hint: did you mean "path"?
`},
		"replacements": {
			folder("replacements:\n- targets: [{select: {kind: Cluster}}]\n- sourceValue: x\n- sourceValue: x\n  targets: [{fieldPaths: [a]}]\n- path: r.yaml\n  sourceValue: x\n- path: r.yaml\n- path: one.yaml\n",
				"r.yaml", "- sourceValue: a\n  targets:\n  - select: {kind: '('}\n- sourceValue: a\n",
				"one.yaml", "sourceValue: a\ntargets: []\nsources: []\n"),
			`o/kustomization.yaml:4:3: want either source or sourceValue [overlay/replacement]
o/kustomization.yaml:5:3: a replacement without targets [overlay/replacement]
o/kustomization.yaml:6:3: a target without select [overlay/replacement]
o/kustomization.yaml:8:3: a path and a replacement, want one of the two [overlay/replacement]
o/one.yaml:3:1: unknown field "sources", want one of source, sourceValue, targets [overlay/unknown-field]
  hint: did you mean "source"?
o/r.yaml:3:13: not a regular expression: error parsing regexp: missing closing ): ` + "`^(?:()$`" + ` [overlay/selector]
o/r.yaml:4:3: a replacement without targets [overlay/replacement]
`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o, found, err := Load(test.tree, "o")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, found.String()); diff != "" {
				t.Errorf("Load: findings (-want +got)\n%s", diff)
			}
			if len(o.entries) > 0 || o.file != "" {
				t.Errorf("Load gives an overlay in spite of findings: %v", o)
			}
		})
	}
}

// Every field of kustomize's that is not allowed is refused at its line, with its reason.
func TestLoadForbids(t *testing.T) {
	reasons := map[string]string{
		"bases": fetches, "resources": fetches, "components": fetches,
		"configMapGenerator": adds, "secretGenerator": adds, "generatorOptions": adds,
		"generators": runs, "transformers": runs, "validators": runs,
		"helmCharts": helm, "helmChartInflationGenerator": helm, "helmGlobals": helm,
		"namePrefix": renames, "nameSuffix": renames, "namespace": "it moves objects to another namespace",
		"openapi": misreads, "crds": misreads, "configurations": misreads,
		"commonLabels": "it writes selectors and pod templates too, which rolls workers",
		"images":       "it writes into every object that looks like a pod",
		"imageTags":    "it writes into every object that looks like a pod",
		"replicas":     "the number of machines is the request's",
		"vars":         "it writes wherever its name stands, and is deprecated",
		"sortOptions":  "the order of objects is fixed", "buildMetadata": "it writes notes that change with the tool",
	}
	for field, why := range reasons {
		_, found, err := Load(folder("# a comment\n"+field+": x\n"), "o")
		if err != nil {
			t.Fatal(err)
		}
		want := `o/kustomization.yaml:4:1: field "` + field + `" is not for overlays: ` + why + " [overlay/forbidden-field]"
		if got, _, _ := strings.Cut(found.String(), "\n"); got != want || len(found) != 1 {
			t.Errorf("Load(%s: x) = %q, want %q alone", field, got, want)
		}
	}
}

// A field that a later kustomize brings is to be decided on, not to slip by as a misspelling.
func TestEveryFieldIsDecided(t *testing.T) {
	decided := map[string]bool{}
	for f := range reflect.TypeFor[fields]().Fields() {
		decided[f.Tag.Get("json")] = true
	}
	for name := range forbidden {
		if decided[name] {
			t.Errorf("%s is both allowed and forbidden", name)
		}
		decided[name] = true
	}
	for f := range reflect.TypeFor[types.Kustomization]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !decided[name] {
			t.Errorf("kustomize's field %s is neither allowed nor forbidden", name)
		}
	}
}

// Nothing outside the folder is read, and nothing that looks like an address ever reaches kustomize.
func TestLoadStaysInside(t *testing.T) {
	tests := map[string]string{
		"/etc/passwd":                      "it is an absolute path",
		"../secret.yaml":                   "it leaves the folder",
		"sub/../../secret.yaml":            "it leaves the folder",
		"sub/../inside.yaml":               "it leaves the folder",
		"https://192.0.2.1/patch.yaml":     "it is an address, and nothing is fetched",
		"HTTP://[2001:db8::1]/patch.yaml":  "it is an address, and nothing is fetched",
		"git@git.example:team/patches":     "it is an address, and nothing is fetched",
		"git::ssh://git.example/patches":   "it is an address, and nothing is fetched",
		"git.example/team/patches?ref=v1":  "it is an address, and nothing is fetched",
		"git.example/team/patches//a.yaml": "it is an address, and nothing is fetched",
		"git.example/team/patches":         "it looks like a repository elsewhere, and nothing is fetched",
		"link.yaml":                        "it is a symbolic link",
		"linked/patch.yaml":                "it goes through a symbolic link",
	}
	for name, why := range tests {
		for field, at := range map[string]string{
			"patches: [{path: '" + name + "', target: {kind: Cluster}}]":         "3:18",
			"patchesStrategicMerge: ['" + name + "']":                            "3:25",
			"patchesJson6902: [{path: '" + name + "', target: {kind: Cluster}}]": "3:26",
			"replacements: [{path: '" + name + "'}]":                             "3:23",
		} {
			tree := folder(field+"\n", "inside.yaml", "kind: Cluster\nmetadata: {name: solar}\n", "sub/x", "")
			tree["secret.yaml"] = &fstest.MapFile{Data: []byte("kind: Secret\n")}
			tree["o/link.yaml"] = &fstest.MapFile{Data: []byte("../secret.yaml"), Mode: fs.ModeSymlink}
			tree["o/linked"] = &fstest.MapFile{Data: []byte("../other"), Mode: fs.ModeSymlink}
			tree["other/patch.yaml"] = &fstest.MapFile{Data: []byte("kind: Secret\n")}
			_, found, err := Load(tree, "o")
			if err != nil {
				t.Fatal(err)
			}
			want := "o/kustomization.yaml:" + at + `: "` + name + `" is not a file of the overlay: ` + why + " [overlay/outside]\n  hint: copy the file into o\n"
			if diff := cmp.Diff(want, found.String()); diff != "" {
				t.Errorf("Load(%s): findings (-want +got)\n%s", field, diff)
			}
		}
	}
	for _, dir := range []string{"../o", "/o", "o/", "a/../o", ""} {
		_, found, err := Load(folder(""), dir)
		if err != nil || len(found) != 1 || found[0].Name != "overlay/outside" {
			t.Errorf("Load(%q) = %v, %v, want overlay/outside", dir, found, err)
		}
	}
}

func TestLoadAcceptsOrdinaryPaths(t *testing.T) {
	part := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	for _, name := range []string{"a.yaml", "./a.yaml", "patches.d/a.yaml", "v1.34/deep/er/a.yaml", "Ä b.yaml"} {
		tree := folder("patches: [{path: '"+name+"'}]\n", strings.TrimPrefix(name, "./"), part)
		if o, found, err := Load(tree, "o"); err != nil || len(found) > 0 || len(o.entries) != 1 {
			t.Errorf("Load(path: %s) = %v, %v, want one patch", name, found, err)
		}
	}
	// The root of the repository is a folder as well.
	tree := fstest.MapFS{"Kustomization": {Data: []byte(component + "metadata: {name: house-rules}\n")}}
	if _, found, err := Load(tree, "."); err != nil || len(found) > 0 {
		t.Errorf("Load(.) = %v, %v", found, err)
	}
}

// On a disk, links are links and a file may be asked for a file below it.
func TestLoadFromDisk(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"o/kustomization.yaml": component + "patches:\n- path: a.yaml\n- path: a.yaml/b\n- path: link.yaml\n- path: linked/secret.yaml\n",
		"o/a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"other/secret.yaml":    "kind: Secret\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"o/link.yaml": "../other/secret.yaml", "o/linked": "../other"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	_, found, err := Load(os.DirFS(root), "o")
	if err != nil {
		t.Fatal(err)
	}
	want := `o/kustomization.yaml:5:9: no file "a.yaml/b" in the overlay: not a directory [overlay/no-file]
o/kustomization.yaml:6:9: "link.yaml" is not a file of the overlay: it is a symbolic link [overlay/outside]
  hint: copy the file into o
o/kustomization.yaml:7:9: "linked/secret.yaml" is not a file of the overlay: it goes through a symbolic link [overlay/outside]
  hint: copy the file into o
`
	if diff := cmp.Diff(want, found.String()); diff != "" {
		t.Errorf("Load: findings (-want +got)\n%s", diff)
	}
}

// broken is a tree with one file that cannot be read, as on a failing disk.
type broken struct {
	fstest.MapFS
	file string
}

var errBroken = errors.New("input/output error")

func (b broken) ReadFile(name string) ([]byte, error) {
	if name == b.file {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errBroken}
	}
	return b.MapFS.ReadFile(name)
}

func TestLoadUnreadableTree(t *testing.T) {
	for _, file := range []string{"o/kustomization.yaml", "o/a.yaml"} {
		_, found, err := Load(broken{folder("patches: [{path: a.yaml}]\n", "a.yaml", ""), file}, "o")
		want := "reading overlay: read " + file + ": input/output error"
		if err == nil || err.Error() != want || !errors.Is(err, errBroken) || found != nil {
			t.Errorf("Load with %s broken = %v, %v, want %s", file, found, err, want)
		}
	}
}

// Hostile overlays give findings, never a panic.
func FuzzLoad(f *testing.F) {
	f.Add("patches: [{path: p.yaml}]", "a: b")
	f.Add("patches: [{path: p.yaml, target: {kind: .*}}]", "- {op: add, path: /spec/a, value: [1e3]}")
	f.Add("patches: [{path: p.yaml, target: {kind: .*}}]", "[{op: copy, from: '', path: /a}]")
	f.Add("patchesStrategicMerge: [p.yaml]", "apiVersion: v1\nkind: List\nmetadata: {name: a}\nitems: [null]")
	f.Add("replacements: [{path: p.yaml}]", "sourceValue: a\ntargets: [{select: {kind: SubnetClaim}, fieldPaths: [spec.empty.a.b]}]")
	f.Add("labels: [{pairs: {a: b}, fields: [{path: spec/template//a, create: true}]}]", "")
	f.Add("commonAnnotations: {internal.config.kubernetes.io/previousNames: 'a,b', internal.config.kubernetes.io/needsHashSuffix: enabled}", "")
	f.Fuzz(func(t *testing.T, overlay, patch string) {
		o, found, err := Load(folder(overlay, "p.yaml", patch), "o")
		if err != nil {
			t.Fatal(err)
		}
		if found.Failed() {
			return
		}
		in := parse(t, solar, subnet+"  empty: ''\n")
		out, found := o.Apply(in)
		if !found.Failed() && len(out) != len(in) {
			t.Errorf("Apply gives %d objects, want %d", len(out), len(in))
		}
		o.Unmatched(in)
	})
}
