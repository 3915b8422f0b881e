package controlplane

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestDefaults changes the default of a variable that the request does not set. As copyhold renders it, nothing happens. Two controls show
// what its way of writing all variables out is for: a manifest that leaves the variable out, once applied server side, once as a merge
// patch or kubectl replace writes lists.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		naive bool
		again func(w *world, o *unstructured.Unstructured) error // how the manifest is applied after the class has changed
		rolls bool
	}{
		{"as rendered", false, (*world).applyAgain, false},
		{"left out, server-side apply", true, (*world).applyAgain, false},
		{"left out, list replaced", true, (*world).mergeVariables, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := baseOf(t, "defaults-"+strings.NewReplacer(" ", "-", ",", "").Replace(c.name), edit{prepare: request(", size: small", "")})
			w := newWorld(t, r.tenant(), r.tenant()+"-classes")
			if err := w.apply(r.render("catalog")); err != nil {
				t.Fatal(err)
			}
			w.settle(time.Time{})
			cluster := clusterOf(t, r)
			if c.naive {
				cluster = without(cluster, "machineSize")
			}
			if err := w.apply([]*unstructured.Unstructured{cluster}); err != nil {
				t.Fatal(err)
			}
			w.arrived()
			before := w.look()
			chart("templates/_variables.tpl", "default: small", "default: medium")(r)
			start := time.Now()
			if err := w.apply(r.render("catalog")); err != nil {
				t.Fatal(err)
			}
			w.settle(start, r.tenant()+"/solar")
			if !c.naive {
				cluster = clusterOf(t, r)
			}
			if err := c.again(w, cluster); err != nil {
				t.Fatal(err)
			}
			w.touch()
			if got := happened(before, w.look()); strings.Contains(strings.Join(got, " "), "rollout") != c.rolls {
				t.Errorf("a rollout is wanted: %v, and what happens is %q", c.rolls, got)
			}
		})
	}
}

func clusterOf(t *testing.T, r repository) *unstructured.Unstructured {
	t.Helper()
	for _, o := range r.render("tenants/" + r.tenant()) {
		if o.GetKind() == "Cluster" {
			return o
		}
	}
	t.Fatal("no Cluster")
	return nil
}

// without is a Cluster that does not name a variable.
func without(o *unstructured.Unstructured, variable string) *unstructured.Unstructured {
	o = o.DeepCopy()
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "topology", "variables")
	var out []any
	for _, v := range list {
		if v.(map[string]any)["name"] != variable {
			out = append(out, v)
		}
	}
	_ = unstructured.SetNestedSlice(o.Object, out, "spec", "topology", "variables")
	return o
}

func (w *world) applyAgain(o *unstructured.Unstructured) error {
	_, err := w.applyOne(o)
	return err
}

// mergeVariables writes a manifest as a merge patch, in which a list is a value.
func (w *world) mergeVariables(o *unstructured.Unstructured) error {
	data, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = w.of(o).Patch(w.t.Context(), o.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: "kubectl"})
	return err
}
