package topology_test

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"copyhold.dev/copyhold/render/manifest"
)

// What the random edits have found once is looked at every time: each was, or could have been, foretold otherwise than it happens.
func TestKnownCasesComeTrue(t *testing.T) {
	for _, x := range []struct {
		name        string
		file        string
		given, edit func(*repository)
		want        string // what happens
	}{
		{name: "a default written by a patch", file: "objects",
			given: patched("ExampleMachineTemplate", "guard", map[string]any{"limits": map[string]any{"cpu": "2"}}),
			edit:  lastValue(map[string]any{"mode": "soft", "limits": map[string]any{"cpu": "2", "memory": "1Gi"}}), want: "none"},
		{name: "an object that is its own default", file: "plain",
			edit: spec("KubevirtMachineTemplate", func(s map[string]any) { s["virtualMachineBootstrapCheck"] = map[string]any{"checkStrategy": "ssh"} }), want: "rollout"},
		{name: "a default taken away by a patch", file: "objects",
			given: patched("ExampleMachineTemplate", "tags", map[string]any{"a": map[string]any{"scope": "machine", "value": "1"}}),
			edit:  lastValue(map[string]any{"a": map[string]any{"value": "1"}}), want: "none"},
		{name: "a patch in place of a field that is there by default only", file: "objects",
			given: spec("ExampleMachineTemplate", func(s map[string]any) { delete(s, "flavor") }),
			edit:  patchedWith("replace", "ExampleMachineTemplate", "flavor", "l"), want: "rollout"},
		{name: "an object emptied by a patch", file: "objects",
			given: patched("ExampleMachineTemplate", "extra", map[string]any{"a": "b"}),
			edit:  lastValue(map[string]any{}), want: "frozen"},
		{name: "an object emptied that has a default of its own", file: "objects",
			given: patched("ExampleMachineTemplate", "disk", map[string]any{"size": "20Gi"}),
			edit:  lastValue(map[string]any{}), want: "none"},
		{name: "a null by a patch", file: "objects", edit: patched("ExampleMachineTemplate", "image", nil), want: "frozen"},
		{name: "a null by a patch where null may be", file: "objects", edit: patched("ExampleMachineTemplate", "note", nil), want: "rollout"},
		{name: "an entry twice in a set", file: "objects", edit: spec("ExampleMachineTemplate", func(s map[string]any) { s["searchDomains"] = []any{"a", "a"} }), want: "frozen"},
		{name: "an entry twice in a list with keys", file: "objects", edit: patched("ExampleMachineTemplate", "nics/-", map[string]any{"name": "eth0"}), want: "frozen"},
		{name: "entries of a list with keys in another order", file: "objects", edit: spec("ExampleMachineTemplate", func(s map[string]any) {
			l := s["nics"].([]any)
			l[0], l[1] = l[1], l[0]
		}), want: "rollout"},
		{name: "what kubeadm's webhook fills in", file: "plain", edit: spec("KubeadmConfigTemplate", func(s map[string]any) {
			s["format"] = "cloud-config"
			s["initConfiguration"] = map[string]any{"nodeRegistration": map[string]any{"imagePullPolicy": "IfNotPresent"}}
		}), want: "none"},
		{name: "another value than kubeadm's webhook fills in", file: "plain", edit: spec("KubeadmConfigTemplate", func(s map[string]any) {
			s["initConfiguration"] = map[string]any{"nodeRegistration": map[string]any{"imagePullPolicy": "Always"}}
		}), want: "rollout"},
		{name: "what kubeadm's webhook refuses", file: "plain", edit: spec("KubeadmConfigTemplate", func(s map[string]any) {
			s["files"] = []any{map[string]any{"path": "/a", "content": "x"}, map[string]any{"path": "/a", "content": "y"}}
		}), want: "frozen"},
		{name: "what kubeadm's webhook cannot read", file: "plain", edit: spec("KubeadmConfigTemplate", func(s map[string]any) {
			s["initConfiguration"] = map[string]any{"bootstrapTokens": []any{map[string]any{"token": "b"}}}
		}), want: "frozen"},
		{name: "a rollout.after", file: "plain", edit: overlaid(map[string]any{"rollout": map[string]any{"after": "2027-01-01T00:00:00Z"}}), want: "rollout"},
		{name: "a rollout.after taken away", file: "plain", given: overlaid(map[string]any{"rollout": map[string]any{"after": "2027-01-01T00:00:00Z"}}), edit: overlaid(nil), want: "in-place"},
		{name: "a class that rolls a cluster whose own change is refused", file: "plain", edit: both(
			spec("KubeadmConfigTemplate", func(s map[string]any) { s["preKubeadmCommands"] = []any{"date"} }), asks("version", "v1.36.0")), want: "rejected"},
		{name: "a class that a cluster stays on whose request it fails", file: "hashed", edit: func(r *repository) {
			delete(entries(r.spec()["variables"])[1]["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any), "default")
		}, want: "rejected"},
		{name: "a new pool that is refused", file: "objects",
			given: func(r *repository) {
				r.spec()["patches"] = append(r.spec()["patches"].([]any), onPool("b", "image", ""))
			},
			edit: func(r *repository) {
				r.clusters["c"].spec["workers"].(map[string]any)["b"] = map[string]any{"class": "worker", "replicas": int64(1)}
			}, want: "frozen"},
		{name: "a pool that waits for its upgrade, of a class that fails it", file: "objects",
			given: func(r *repository) { r.clusters["c"].pool("md-0")["deferUpgrade"] = true },
			edit:  both(patched("ExampleMachineTemplate", "image", nil), asks("version", "v1.34.2")), want: "control-plane"},
		{name: "a control plane that looks at the annotations", file: "plain",
			given: patchedWith("template", "KamajiControlPlaneTemplate", "dataStoreName", "{{ printf \"%v\" .builtin.cluster.metadata.annotations | sha256sum | trunc 8 }}x"),
			edit:  func(r *repository) { r.clusters["c"].pool("md-0")["failureDomain"] = "zone-b" }, want: "rollout"},
		{name: "machines that are named by their template", file: "objects",
			edit: patchedWith("template", "ExampleMachineTemplate", "note", "{{ .builtin.machineDeployment.infrastructureRef.name }}"), want: "restless"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			p := &player{T: t, rand: rand.New(rand.NewPCG(1, 1)), tally: &tally{counts: map[string]int{}}, repo: newRepository(t, "testdata/parity/"+x.file+".yaml"), world: newWorld(t)}
			p.repo.clusters["c"] = &asked{spec: map[string]any{
				"tier": "tier", "version": "v1.34.1", "variables": map[string]any{}, "workers": map[string]any{"md-0": map[string]any{"class": "worker", "replicas": int64(2)}},
			}}
			if x.given != nil {
				x.given(p.repo)
			}
			ctx := t.Context()
			if refused, err := p.world.install(ctx, p.repo.class, p.repo.key); refused != nil || err != nil {
				t.Fatal(refused, err)
			}
			c := p.load(p.repo).Clusters[namespace+"/c"]
			if c.Manifest == nil || !p.begin(ctx, keyOf("c"), []*manifest.Object{c.Manifest}) {
				t.Fatal("the cluster does not begin well: ", c.Found)
			}
			edited := p.repo.copy()
			x.edit(edited)
			p.step(ctx, edited, nil)
			if p.tally.counts[x.want] != 1 {
				t.Errorf("it came to %s, want %s", p.tally, x.want)
			}
		})
	}
}

// spec edits below spec.template.spec of the template of a kind.
func spec(kind string, edit func(map[string]any)) func(*repository) {
	return func(r *repository) {
		edit(at(r.templates(kind)[0].Object, "spec", "template", "spec").(map[string]any))
	}
}

// asks sets a field of the request.
func asks(field string, v any) func(*repository) {
	return func(r *repository) { r.clusters["c"].spec[field] = v }
}

// overlaid sets fields of the worker pool by an overlay.
func overlaid(fields map[string]any) func(*repository) {
	return func(r *repository) { r.clusters["c"].pools = map[string]any{"md-0": fields} }
}

func both(a, b func(*repository)) func(*repository) { return func(r *repository) { a(r); b(r) } }

// patched adds a patch that writes a value into a template.
func patched(kind, path string, v any) func(*repository) { return patchedWith("add", kind, path, v) }

// patchedWith is patched with another operation, or with a Go template.
func patchedWith(op, kind, path string, v any) func(*repository) {
	return func(r *repository) {
		t := r.templates(kind)[0]
		on := map[string]any{"machineDeploymentClass": map[string]any{"names": []any{"*"}}}
		if kind == "KamajiControlPlaneTemplate" {
			on = map[string]any{"controlPlane": true}
		}
		operation := map[string]any{"op": op, "path": "/spec/template/spec/" + path, "value": v}
		switch {
		case op == "template":
			operation = map[string]any{"op": "add", "path": "/spec/template/spec/" + path, "valueFrom": map[string]any{"template": v}}
		case v == nil: // a value that is null is none; a template may give one
			operation = map[string]any{"op": "add", "path": "/spec/template/spec/" + path, "valueFrom": map[string]any{"template": "null"}}
		}
		list, _ := r.spec()["patches"].([]any)
		r.spec()["patches"] = append(list, map[string]any{"name": "last", "definitions": []any{map[string]any{
			"selector":    map[string]any{"apiVersion": t.GetAPIVersion(), "kind": t.GetKind(), "matchResources": on},
			"jsonPatches": []any{operation},
		}}})
	}
}

// lastValue changes the value of the last patch.
func lastValue(v any) func(*repository) {
	return func(r *repository) {
		patches := entries(r.spec()["patches"])
		definition := entries(patches[len(patches)-1]["definitions"])[0]
		entries(definition["jsonPatches"])[0]["value"] = runtime.DeepCopyJSONValue(v)
	}
}

// onPool is a patch on the machine template of one pool.
func onPool(pool, path string, v any) map[string]any {
	return map[string]any{"name": "pool", "enabledIf": `{{ eq .builtin.machineDeployment.topologyName "` + pool + `" }}`, "definitions": []any{map[string]any{
		"selector": map[string]any{"apiVersion": "infrastructure.example.org/v1beta1", "kind": "ExampleMachineTemplate",
			"matchResources": map[string]any{"machineDeploymentClass": map[string]any{"names": []any{"*"}}}},
		"jsonPatches": []any{map[string]any{"op": "add", "path": "/spec/template/spec/" + path, "value": v}},
	}}}
}
