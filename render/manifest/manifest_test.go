package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

// Text that some version of YAML reads as another type comes back as the same text, from a reader of YAML 1.1 and from one that
// leans to 1.2.
func TestTextStaysText(t *testing.T) {
	for _, s := range []string{
		"yes", "no", "on", "off", "y", "n", "true", "null", "~", "", " ", "1", "1.30", "1e3", "0777", "0o17", "0x1f", "0b1", "1_000", ".inf", "-.inf", ".nan",
		"1:30", "190:20:30", "2026-12-01", "2026-12-01T00:00:00Z", "=", "<<", "*a", "&a", "!x", "- a", "a: b", "a #b", "#", "@x", "`", "%", "{}", "[]", "{a", "'", `"`, `\`,
		"a\nb", "a\n", "\na", "  a", "a  ", "\t", "a\tb", "é", "\u2028", "\u00a0", "2001:db8::1", "172.21.208.100", "v1.34.1", "+1", "-1", ".5", "5.", "1E5", "0.0.0.0/0", "N/A", "NaN", "nan", "Inf",
	} {
		o := &Object{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": map[string]any{"value": s, "k-" + s: "x"}}}
		out, err := YAML(o)
		if err != nil {
			t.Errorf("YAML with %q: %v", s, err)
			continue
		}
		var old, modern struct {
			Data map[string]any `json:"data" yaml:"data"`
		}
		if err := yaml.Unmarshal(out, &old); err != nil {
			t.Errorf("%q is written as\n%s, which YAML 1.1 does not read: %v", s, out, err)
		}
		if err := kyaml.Unmarshal(out, &modern); err != nil {
			t.Errorf("%q is written as\n%s, which YAML 1.2 does not read: %v", s, out, err)
		}
		for reader, data := range map[string]map[string]any{"1.1": old.Data, "1.2": modern.Data} {
			if data["value"] != s || data["k-"+s] != "x" {
				t.Errorf("%q is written as\n%s and read by YAML %s as %#v", s, out, reader, data)
			}
		}
	}
}

const three = `apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: solar, namespace: photon-prod}
---
# nothing
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: photon-prod}}
- {apiVersion: x.example.org/v1, kind: SubnetClaim, metadata: {name: production, namespace: photon-prod}, spec: {big: 9007199254740993}}
`

func TestParseAndSort(t *testing.T) {
	objects, err := Parse([]byte(three))
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(objects...)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range s.Objects() {
		ids = append(ids, IDOf(o).String())
	}
	want := []string{"Namespace photon-prod", "SubnetClaim.x.example.org photon-prod/production", "Cluster.cluster.x-k8s.io photon-prod/solar"}
	if d := cmp.Diff(want, ids); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
	var b strings.Builder
	if err := s.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "big: 9007199254740993\n") {
		t.Errorf("a large number is not written as it was read:\n%s", b.String())
	}
	again, err := Parse([]byte(b.String()))
	if err != nil || len(again) != 3 {
		t.Errorf("what is written does not parse: %d objects, %v", len(again), err)
	}
	if _, err := New(append(objects, objects[0].DeepCopy())...); err == nil || !strings.Contains(err.Error(), "Cluster.cluster.x-k8s.io photon-prod/solar is there twice") {
		t.Errorf("New with a double = %v", err)
	}
}

// Keys that encoders like to sort as numbers come out in one order, whatever the map does.
func TestSameBytes(t *testing.T) {
	data := map[string]any{}
	for _, k := range []string{"a1", "a01", "a10", "a2", "a1b", "01", "1", "0x1", "a-1", "a.1", "a_1", "A1", "10", "b2", "b010"} {
		data[k] = map[string]any{"a10": "x", "a2": "x", "a01": "x", "a1": "x"}
	}
	var first []byte
	for range 200 {
		o := (&Object{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}, "data": data}}).DeepCopy()
		out, err := YAML(o)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out
		}
		if d := cmp.Diff(string(first), string(out)); d != "" {
			t.Fatalf("YAML gives two texts for one object (-first +later):\n%s", d)
		}
	}
}

// Several JSON values one after the other are all read: a YAML parser stops after the first.
func TestParseJSONStream(t *testing.T) {
	objects, err := Parse([]byte(`
{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}}
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "A", "metadata": {"name": "z"}}]}
{"apiVersion": "v1", "kind": "A", "metadata": {"name": "last"}}
---
{apiVersion: v1, kind: A, metadata: {name: yaml}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.GetName())
	}
	if want := []string{"x", "z", "last", "yaml"}; !slices.Equal(names, want) {
		t.Errorf("read %v, want %v", names, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"kind: A\nmetadata: {name: x}\n":                                       "document 1",
		"apiVersion: v1\nkind: A\nmetadata: {}\n":                              "no apiVersion or no metadata.name",
		"apiVersion: v1\nkind: A\nkind: B\nmetadata: {name: x}\n":              `"kind" already set`,
		"apiVersion: v1\nkind: A\nmetadata: {name: x}\n---\n- a\n":             "document 2",
		"apiVersion: v1\nkind: A\nmetadata: {name: x}\n---\nplain text here\n": "document 2",
		"a: b: c\n": "document 1",
		"apiVersion: v1\nkind: A\nmetadata: {name: x}\n...\napiVersion: v1\nkind: B\nmetadata: {name: x}\n":    "document 1: something follows it",
		"{apiVersion: v1, kind: A, metadata: {name: x}}\n{apiVersion: v1, kind: A, metadata: {name: other}}\n": "document 1",
		`{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}} {"apiVersion": "v1"`:                     "document 1",
		`{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}} {"apiVersion": "v1"}`:                    "document 1: Object 'Kind' is missing",
		`{"apiVersion": "v1", "kind": "A", "kind": "B", "metadata": {"name": "x"}}`:                            `"kind" already set`,
		"apiVersion: v1\nkind: List\n":                                 "a List without items",
		"apiVersion: v1\nkind: List\nitems: [{metadata: {name: x}}]\n": "item 1 of a List: an object without kind",
		"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: A, metadata: {name: x}}, {apiVersion: v1, kind: List, items: []}]": `item 2 of a List: List "" has no apiVersion`,
	} {
		if got, err := Parse([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, %v, want an error with %q", in, got, err, want)
		}
	}
}
