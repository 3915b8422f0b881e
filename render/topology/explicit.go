package topology

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment/mdutil"

	"copyhold.dev/copyhold/render/manifest"
)

// IsDeployment reports whether an object is a MachineDeployment that somebody wrote out, not one that a topology makes.
func IsDeployment(o *manifest.Object) bool {
	return o.GroupVersionKind() == clusterv1.GroupVersion.WithKind("MachineDeployment")
}

// Redeployed says why a MachineDeployment that goes from one state to another replaces its machines, by the rule of its own controller
// (MachineTemplateUpToDate in core/reconcilers/machinedeployment/mdutil/util.go); nothing when it does not. OnDelete says whether a
// machine is replaced only when somebody deletes it.
func Redeployed(was, is *manifest.Object) (why []string, onDelete bool, err error) {
	before, after := &clusterv1.MachineDeployment{}, &clusterv1.MachineDeployment{}
	for o, into := range map[*manifest.Object]*clusterv1.MachineDeployment{was: before, is: after} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, into, true); err != nil {
			return nil, false, fmt.Errorf("reading MachineDeployment %s: %w", o.GetName(), err)
		}
	}
	_, result := mdutil.MachineTemplateUpToDate(&before.Spec.Template, &after.Spec.Template)
	why = result.LogMessages
	if a, b := before.Spec.Rollout.After, after.Spec.Rollout.After; !b.IsZero() && !a.Equal(&b) {
		why = append(why, "spec.rollout.after "+b.UTC().Format("2006-01-02T15:04:05Z07:00"))
	}
	return why, after.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType, nil
}

// DeploymentMachines is how many machines a MachineDeployment has, as a worker pool's topology says it.
func DeploymentMachines(o *manifest.Object) map[string]any {
	out := map[string]any{"metadata": o.Object["metadata"]}
	if n := lookup(o, "spec", "replicas"); n != nil {
		out["replicas"] = n
	}
	return out
}

// UsedBy are the objects among others that name a template, sorted: MachineDeployments and control planes written out.
func UsedBy(template *manifest.Object, others []*manifest.Object) []string {
	var out []string
	gk := template.GroupVersionKind().GroupKind()
	for _, o := range others {
		if o.GetNamespace() == template.GetNamespace() && refersTo(o.Object["spec"], gk.Group, gk.Kind, template.GetName()) {
			out = append(out, o.GetKind()+" "+o.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// refersTo looks for a reference to an object anywhere in a value.
func refersTo(v any, group, kind, name string) bool {
	switch x := v.(type) {
	case map[string]any:
		if x["kind"] == kind && x["name"] == name && (x["apiGroup"] == group || x["apiVersion"] != nil) {
			return true
		}
		for _, inner := range x {
			if refersTo(inner, group, kind, name) {
				return true
			}
		}
	case []any:
		for _, inner := range x {
			if refersTo(inner, group, kind, name) {
				return true
			}
		}
	}
	return false
}
