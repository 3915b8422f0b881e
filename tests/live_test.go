package tests

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// builtinClass is the class that the tests below hold against itself.
const builtinNamespace, builtinClass = "kmetal-capi-providers", "kubevirt-expert"

func vendoredObjects(t *testing.T) []*manifest.Object {
	t.Helper()
	c, found, err := catalog.Load(os.DirFS("../examples/fleet"), "catalog")
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	objects, found, err := c.ClassObjects("kmetal")
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	return objects
}

func compareLive(vendored, live []*manifest.Object) diag.List {
	return catalog.CompareLive(diag.Pos{File: "live.yaml"}, vendored, live, builtinNamespace, builtinClass)
}

// A class that runs is told from the vendored one whichever of its fields, or of its templates', is another, is gone or is new.
func TestLiveDifferences(t *testing.T) {
	vendored := vendoredObjects(t)
	edits := 0
	for i, o := range vendored {
		if !strings.HasPrefix(o.GetName(), builtinClass) {
			continue
		}
		for _, e := range edit(o.Object["spec"], "spec") {
			live := slices.Clone(vendored)
			live[i] = o.DeepCopy()
			e.make(live[i].Object["spec"])
			edits++
			if found := compareLive(vendored, live); !found.Failed() {
				t.Errorf("%s: %s is not found: %s", manifest.IDOf(o), e.what, found)
			}
		}
		live := slices.Delete(slices.Clone(vendored), i, i+1)
		if found := compareLive(vendored, live); len(found) != 1 || found[0].Name != "live/missing" {
			t.Errorf("%s is not there, and this is found: %s", manifest.IDOf(o), found)
		}
	}
	if edits < 500 {
		t.Errorf("only %d edits were tried", edits)
	}
}

// What Cluster API does not act on makes no difference; the order of patches does.
func TestLiveNoise(t *testing.T) {
	vendored := vendoredObjects(t)
	for _, c := range []struct {
		what  string
		edit  func(spec map[string]any)
		found string
	}{
		{"nothing", func(map[string]any) {}, ""},
		{"variables in another order", func(spec map[string]any) { slices.Reverse(spec["variables"].([]any)) }, ""},
		{"choices in another order", func(spec map[string]any) {
			slices.Reverse(schemaOf(spec, "machineSize")["enum"].([]any))
		}, ""},
		{"the API's default for the reason of a rule", func(spec map[string]any) {
			address := schemaOf(spec, "bootstrapConfig")["properties"].(map[string]any)["serverAddress"].(map[string]any)
			address["x-kubernetes-validations"].([]any)[0].(map[string]any)["reason"] = "FieldValueInvalid"
		}, ""},
		{"another reason of a rule", func(spec map[string]any) {
			address := schemaOf(spec, "bootstrapConfig")["properties"].(map[string]any)["serverAddress"].(map[string]any)
			address["x-kubernetes-validations"].([]any)[0].(map[string]any)["reason"] = "FieldValueForbidden"
		}, "spec.variables[bootstrapConfig].schema.openAPIV3Schema.properties.serverAddress.x-kubernetes-validations[0].reason is \"FieldValueForbidden\" live, \"FieldValueInvalid\" vendored"},
		{"patches in another order", func(spec map[string]any) { slices.Reverse(spec["patches"].([]any)) }, "the patches are applied in another order"},
		{"a field of a later Cluster API", func(spec map[string]any) { spec["later"] = "x" }, "unknown field \"spec.later\""},
	} {
		live := slices.Clone(vendored)
		for i, o := range live {
			if o.GetKind() == "ClusterClass" && o.GetName() == builtinClass {
				live[i] = o.DeepCopy()
				c.edit(live[i].Object["spec"].(map[string]any))
			}
		}
		found := compareLive(vendored, live)
		if c.found == "" && len(found) > 0 || c.found != "" && (len(found) != 1 || !strings.Contains(found[0].Message, c.found)) {
			t.Errorf("%s: want %q, found: %s", c.what, c.found, found)
		}
	}
}

func schemaOf(spec map[string]any, variable string) map[string]any {
	for _, v := range spec["variables"].([]any) {
		if v := v.(map[string]any); v["name"] == variable {
			return v["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		}
	}
	return nil
}

// oneEdit changes one thing in a copy of an object.
type oneEdit struct {
	what string
	make func(root any)
}

// edit lists edits of everything below a value that Cluster API acts on; keys lead to the value.
func edit(v any, path string, keys ...any) []oneEdit {
	var out []oneEdit
	in := func(key any) []any { return append(slices.Clone(keys), key) }
	switch v := v.(type) {
	case map[string]any:
		if strings.HasPrefix(path, "spec.template") { // in a class a field that Cluster API's types do not know is an error of its own
			out = append(out, oneEdit{path + " has a new field", func(root any) { reach(root, keys).(map[string]any)["copyhold"] = "x" }})
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			here := path + "." + key
			if key == "description" || strings.HasSuffix(path, "templateRef") && key == "name" {
				continue // words for people, and a template's name: see CompareLive
			}
			if !strings.Contains(path, "templateRef") && key != "templateRef" {
				out = append(out, oneEdit{here + " is gone", func(root any) { delete(reach(root, keys).(map[string]any), key) }})
			}
			out = append(out, edit(v[key], here, in(key)...)...)
		}
	case []any:
		for i := range v {
			out = append(out, edit(v[i], fmt.Sprintf("%s[%d]", path, i), in(i)...)...)
		}
	case string:
		out = append(out, set(path, keys, v+"x"))
	case bool:
		out = append(out, set(path, keys, !v))
	case int64:
		out = append(out, set(path, keys, v+1))
	}
	return out
}

func reach(root any, keys []any) any {
	for _, k := range keys {
		switch at := root.(type) {
		case map[string]any:
			root = at[k.(string)]
		case []any:
			root = at[k.(int)]
		}
	}
	return root
}

func set(path string, keys []any, value any) oneEdit {
	return oneEdit{fmt.Sprintf("%s is %v", path, value), func(root any) {
		last := keys[len(keys)-1]
		switch at := reach(root, keys[:len(keys)-1]).(type) {
		case map[string]any:
			at[last.(string)] = value
		case []any:
			at[last.(int)] = value
		}
	}}
}
