package topology

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"copyhold.dev/copyhold/render/manifest"
)

var small = Key{"platform", "small"}

func objects(t *testing.T) []*manifest.Object {
	t.Helper()
	data, err := os.ReadFile("testdata/class.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := manifest.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func class(t *testing.T) *Class {
	t.Helper()
	c, problems, err := NewClass(objects(t), small)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	return c
}

// cluster is a Cluster of the small class with these variables, as JSON, and one worker pool.
func cluster(t *testing.T, name, variables string) *manifest.Object {
	t.Helper()
	var values map[string]any
	if err := json.Unmarshal([]byte(variables), &values); err != nil {
		t.Fatal(err)
	}
	var list []any
	for _, n := range []string{"machineSize", "network", "unknown", "users", "volumes"} {
		if v, ok := values[n]; ok {
			list = append(list, map[string]any{"name": n, "value": v})
		}
	}
	return &manifest.Object{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": map[string]any{"name": name, "namespace": "photon-prod"},
		"spec": map[string]any{"topology": map[string]any{
			"classRef":  map[string]any{"name": "small", "namespace": "platform"},
			"version":   "v1.34.1",
			"variables": list,
			"workers":   map[string]any{"machineDeployments": []any{map[string]any{"class": "pool", "name": "md-0", "replicas": int64(2)}}},
		}},
	}}
}

// variables are a Cluster's variables as JSON, by name.
func variables(t *testing.T, o *manifest.Object) string {
	t.Helper()
	list, _, err := unstructured.NestedSlice(o.Object, "spec", "topology", "variables")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	for _, v := range list {
		m := v.(map[string]any)
		out[m["name"].(string)] = m["value"]
	}
	j, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(j)
}

func TestAdmitDefaults(t *testing.T) {
	c := class(t)
	for _, x := range []struct{ in, want string }{
		{`{"network":{"subnet":"a"}}`, `{"machineSize":"small","network":{"mtu":1450,"subnet":"a"}}`},
		{`{"network":{"subnet":"a","mtu":1500},"machineSize":"large"}`, `{"machineSize":"large","network":{"mtu":1500,"subnet":"a"}}`},
		{`{"network":{"subnet":"a"},"users":[{"name":"x"},{"name":"y","shell":"/bin/zsh"}],"volumes":{"data":{}}}`,
			`{"machineSize":"small","network":{"mtu":1450,"subnet":"a"},"users":[{"name":"x","shell":"/bin/sh"},{"name":"y","shell":"/bin/zsh"}],"volumes":{"data":{"mode":"ReadWriteOnce"}}}`},
	} {
		in := cluster(t, "solar", x.in)
		before := in.DeepCopy()
		out, problems, err := c.Admit(in)
		if err != nil || len(problems) > 0 {
			t.Fatalf("Admit(%s): %v, %v", x.in, err, problems)
		}
		if got := variables(t, out); got != x.want {
			t.Errorf("Admit(%s) = %s, want %s", x.in, got, x.want)
		}
		if d := cmp.Diff(before.Object, in.Object); d != "" {
			t.Errorf("Admit changed what it was given:\n%s", d)
		}
		again, _, err := c.Admit(out)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(out.Object, again.Object); d != "" {
			t.Errorf("Admit of what Admit returned:\n%s", d)
		}
	}
}

func TestAdmitRefuses(t *testing.T) {
	c := class(t)
	for _, x := range []struct{ in, field, detail string }{
		{`{}`, "spec.topology.variables", `required variable "network" must be set`},
		{`{"network":{"mtu":1500}}`, "spec.topology.variables[network].value.subnet", "Required value"},
		{`{"network":{"subnet":"mgmt-1"}}`, "spec.topology.variables[network].value.subnet", "the management subnet is not for tenants"},
		{`{"network":{"subnet":"a","mtu":1}}`, "spec.topology.variables[network].value.mtu", "should be greater than or equal to 1280"},
		{`{"network":{"subnet":"a","vlan":4}}`, "spec.topology.variables[network]", `"vlan" field(s) are not specified`},
		{`{"network":{"subnet":"a"},"machineSize":"huge"}`, "spec.topology.variables[machineSize].value", "supported values"},
		{`{"network":{"subnet":"a"},"unknown":1}`, "spec.topology.variables[unknown]", "variable is not defined"},
		{`{"network":{"subnet":"a"},"users":[{"name":"x"},{"shell":"y"}]}`, "spec.topology.variables[users].value.[1].name", "Required value"},
	} {
		out, problems, err := c.Admit(cluster(t, "solar", x.in))
		if err != nil || out != nil || len(problems) == 0 {
			t.Errorf("Admit(%s) = %v, %v, %v, want problems", x.in, out, problems, err)
			continue
		}
		found := false
		for _, p := range problems {
			found = found || p.Field == x.field && strings.Contains(p.Detail, x.detail)
		}
		if !found {
			t.Errorf("Admit(%s): %v, want %s: %s", x.in, problems, x.field, x.detail)
		}
	}
}

// Clusters that differ in name share an answer, and still get their own names.
func TestAdmitShares(t *testing.T) {
	c := class(t)
	for _, name := range []string{"solar", "lunar"} {
		out, _, err := c.Admit(cluster(t, name, `{"network":{"subnet":"a"}}`))
		if err != nil || out.GetName() != name {
			t.Errorf("Admit(%s) = %v, %v", name, out, err)
		}
		// What is returned is the caller's to change.
		if err := unstructured.SetNestedField(out.Object, "v9.9.9", "spec", "topology", "version"); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.memo.answers); n != 1 {
		t.Errorf("two Clusters that differ in name gave %d answers, want 1", n)
	}
}

func TestDefaults(t *testing.T) {
	c := class(t)
	want := Defaults{"machineSize": "small", "network.mtu": float64(1450), "users[].shell": "/bin/sh", "volumes{}.mode": "ReadWriteOnce"}
	if d := cmp.Diff(want, c.Defaults()); d != "" {
		t.Errorf("Defaults (-want +got):\n%s", d)
	}
	with, fresh, gone := c.WithDefaults(Defaults{"machineSize": "medium", "network.mtu": float64(1400), "users[].shell": "/bin/sh", "left.over": 1})
	if d := cmp.Diff([]string{"volumes{}.mode"}, fresh); d != "" {
		t.Errorf("fresh (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"left.over"}, gone); d != "" {
		t.Errorf("gone (-want +got):\n%s", d)
	}
	in := cluster(t, "solar", `{"network":{"subnet":"a"},"volumes":{"data":{}}}`)
	out, problems, err := with.Admit(in)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if got, want := variables(t, out), `{"machineSize":"medium","network":{"mtu":1400,"subnet":"a"},"volumes":{"data":{"mode":"ReadWriteOnce"}}}`; got != want {
		t.Errorf("with recorded defaults: %s, want %s", got, want)
	}
	// The class itself still has its own.
	if d := cmp.Diff(want, c.Defaults()); d != "" {
		t.Errorf("WithDefaults changed the class it was called on:\n%s", d)
	}
	// A recorded default that the class no longer allows is refused as any value is.
	frozen, _, _ := c.WithDefaults(Defaults{"machineSize": "tiny"})
	if _, problems, _ := frozen.Admit(in); len(problems) == 0 {
		t.Error("a default outside the enum was accepted")
	}
}

func TestNewClassRefuses(t *testing.T) {
	for _, x := range []struct {
		name string
		edit func([]*manifest.Object) []*manifest.Object
		want string
	}{
		{"no class", func(o []*manifest.Object) []*manifest.Object { return o[1:] }, "there is no ClusterClass platform/small"},
		{"template missing", func(o []*manifest.Object) []*manifest.Object { return o[:4] },
			`there is no KubevirtMachineTemplate "small-machine" beside the class`},
		{"bad CEL", func(o []*manifest.Object) []*manifest.Object {
			j := strings.Replace(mustJSON(o[0]), "!self.startsWith('mgmt')", "self.nope()", 1)
			return append([]*manifest.Object{fromJSON(j)}, o[1:]...)
		}, "undeclared reference to 'nope'"},
		{"patch names an unknown variable", func(o []*manifest.Object) []*manifest.Object {
			j := strings.Replace(mustJSON(o[0]), `"variables":`, `"patches":[{"name":"x","definitions":[{"selector":{"apiVersion":"controlplane.cluster.x-k8s.io/v1alpha2","kind":"KamajiControlPlaneTemplate","matchResources":{"controlPlane":true}},"jsonPatches":[{"op":"add","path":"/spec/template/spec/a","valueFrom":{"variable":"nope"}}]}]}],"variables":`, 1)
			return append([]*manifest.Object{fromJSON(j)}, o[1:]...)
		}, `variable with name nope cannot be found`},
		{"unknown field", func(o []*manifest.Object) []*manifest.Object {
			return append([]*manifest.Object{fromJSON(strings.Replace(mustJSON(o[0]), `"workers":`, `"wrokers":{},"workers":`, 1))}, o[1:]...)
		}, "wrokers"},
	} {
		c, problems, err := NewClass(x.edit(objects(t)), small)
		if err != nil || c != nil || len(problems) == 0 {
			t.Errorf("%s: NewClass = %v, %v, %v, want problems", x.name, c, problems, err)
			continue
		}
		if got := problems[0].Field + ": " + problems[0].Detail; !strings.Contains(got, x.want) {
			t.Errorf("%s: NewClass refuses with %q, want %q in it", x.name, got, x.want)
		}
	}
}

// What an API server writes into objects, and objects of other classes, change neither the class nor its digest; content does.
func TestDigest(t *testing.T) {
	want := class(t).Digest()
	exported := objects(t)
	for _, o := range exported {
		o.SetUID("11111111-1111-1111-1111-111111111111")
		o.SetResourceVersion("42")
		o.SetGeneration(3)
		o.Object["status"] = map[string]any{"observedGeneration": int64(3)}
	}
	other := exported[4].DeepCopy()
	other.SetName("another")
	c, problems, err := NewClass(append(exported, other), small)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if got := c.Digest(); got != want {
		t.Errorf("digest of the exported class is %s, want %s", got, want)
	}
	edited := objects(t)
	if err := unstructured.SetNestedField(edited[4].Object, "ssh", "spec", "template", "spec", "virtualMachineBootstrapCheck", "checkStrategy"); err != nil {
		t.Fatal(err)
	}
	c, problems, err = NewClass(edited, small)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if c.Digest() == want {
		t.Error("an edited template left the digest as it was")
	}
}

func mustJSON(o *manifest.Object) string {
	j, err := o.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return string(j)
}

func fromJSON(j string) *manifest.Object {
	o := &manifest.Object{}
	if err := o.UnmarshalJSON([]byte(j)); err != nil {
		panic(err)
	}
	return o
}
