package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"

	"copyhold.dev/copyhold/render/manifest"
)

// Update runs Cluster API's admission of a change to a Cluster that runs and has settled (core/webhooks/admission/cluster.go): steps
// between versions, other classes, rules about changes of variables. The problems are those for which it is refused.
func Update(was, is *Class, old, changed *manifest.Object) ([]Problem, error) {
	before, after := &clusterv1.Cluster{}, &clusterv1.Cluster{}
	for o, into := range map[*manifest.Object]*clusterv1.Cluster{old: before, changed: after} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
		}
	}
	s := shelf{classes: []*clusterv1.ClusterClass{is.class, was.class}}
	if before.Spec.Topology.Version != after.Spec.Topology.Version {
		d, problems, err := was.Desired(old)
		if err != nil || len(problems) > 0 { // it is frozen as it is: nothing else can be said
			return problems, err
		}
		s.controlPlane = settled(d.ControlPlane)
		gvk := d.ControlPlane.GroupVersionKind()
		ref := clusterv1.ContractVersionedObjectReference{APIGroup: gvk.Group, Kind: gvk.Kind, Name: d.ControlPlane.GetName()}
		before.Spec.ControlPlaneRef, after.Spec.ControlPlaneRef = ref, ref
	}
	ctx := context.Background()
	var out []Problem
	for _, e := range (&admission.Cluster{}).DefaultAndValidateVariables(ctx, after, before, is.class) {
		out = append(out, Problem{Field: e.Field, Type: string(e.Type), Detail: e.ErrorBody()})
	}
	if _, err := (&admission.Cluster{Client: s}).ValidateUpdate(ctx, before, after); err != nil {
		out = append(out, problemsOf(err)...)
	}
	return out, nil
}

// UpgradeSteps are the versions that the control plane and the workers of a Cluster go through, in order, when it goes from one version
// to another (exp/topology/desiredstate/upgrade_plan.go): more than one only for a class that names its Kubernetes versions.
func UpgradeSteps(was, is *Class, old, changed *manifest.Object) (controlPlane, workers []string, err error) {
	d, problems, err := was.Desired(old)
	if err != nil || len(problems) > 0 {
		return nil, nil, err
	}
	cl := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, cl); err != nil {
		return nil, nil, fmt.Errorf("reading Cluster %s: %w", changed.GetName(), err)
	}
	s := scope.New(cl)
	s.Blueprint = is.blueprint(cl)
	s.Current.ControlPlane = &scope.ControlPlaneState{Object: settled(d.ControlPlane)}
	s.Current.MachineDeployments = scope.MachineDeploymentsStateMap{}
	for name, p := range d.Pools {
		s.Current.MachineDeployments[name] = &scope.MachineDeploymentState{Object: p.Deployment}
	}
	plan := desiredstate.GetUpgradePlanOneMinor
	if versions := is.class.Spec.KubernetesVersions; len(versions) > 0 {
		plan = desiredstate.GetUpgradePlanFromClusterClassVersions(versions)
	}
	if err := desiredstate.ComputeUpgradePlan(context.Background(), s, plan); err != nil {
		return nil, nil, fmt.Errorf("planning the upgrade of %s: %w", changed.GetName(), err)
	}
	return s.UpgradeTracker.ControlPlane.UpgradePlan, s.UpgradeTracker.MachineDeployments.UpgradePlan, nil
}

// settled is a control plane as it is when it has come up at its own version.
func settled(o *unstructured.Unstructured) *unstructured.Unstructured {
	out := o.DeepCopy()
	version := lookup(out, "spec", "version")
	out.Object["status"] = map[string]any{
		"version":                     version,
		"ready":                       true,
		"externalManagedControlPlane": true,
		"initialization":              map[string]any{"controlPlaneInitialized": true},
	}
	return out
}

// Refused is what of a change of a ClusterClass and its templates is refused, and by whom.
type Refused struct {
	Class     []Problem // by Cluster API's admission of ClusterClasses
	Templates []Problem // by an API server, for templates that keep their names
	Left      *Class    // what there is once all that is not refused has been applied; nil when nothing is refused
}

// UpdateClass runs Cluster API's admission of a change to a ClusterClass (core/webhooks/admission/clusterclass.go) that these Clusters
// use, and asks an API server's rules about changes for the templates that it keeps: some kinds refuse any change of their spec
// (KubevirtClusterTemplate does).
func UpdateClass(was, is *Class, clusters []*manifest.Object, schemas *Schemas) (Refused, error) {
	s := shelf{}
	for _, o := range clusters {
		cl := clusterv1.Cluster{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &cl); err != nil {
			return Refused{}, fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
		}
		s.clusters = append(s.clusters, cl)
	}
	var r Refused
	if _, err := (&admission.ClusterClass{Client: s}).ValidateUpdate(context.Background(), was.written(), is.written()); err != nil {
		r.Class = problemsOf(err)
	}
	kept := map[templateKey]bool{}
	for key, t := range is.templates {
		old := was.templates[key]
		if old == nil || Equal(old.Object["spec"], t.Object["spec"]) {
			continue
		}
		problems, err := refusesEdit(old, t, schemas)
		if err != nil {
			return Refused{}, err
		}
		for _, p := range problems {
			p.Field = key.kind + " " + key.name + ": " + p.Field
			r.Templates, kept[key] = append(r.Templates, p), true
		}
	}
	slices.SortStableFunc(r.Templates, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	if len(r.Class) > 0 || len(kept) > 0 {
		r.Left = left(was, is, len(r.Class) > 0, kept)
	}
	return r, nil
}

// refusesEdit asks for a template that keeps its name. What is wrong with it whatever it was before is not said: it is wrong with what is
// made of it, too.
func refusesEdit(was, is *manifest.Object, schemas *Schemas) ([]Problem, error) {
	alone, err := schemas.Validate(is, nil)
	if err != nil {
		return nil, err
	}
	problems, err := schemas.Validate(is, was)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(problems, func(p Problem) bool {
		return slices.Contains(alone, p) || p.Detail == emptiedWords // that is about what Cluster API applies
	}), nil
}

// left is a class after a change of which the ClusterClass, or some templates, are refused.
func left(was, is *Class, class bool, refused map[templateKey]bool) *Class {
	from := is
	if class {
		from = was
	}
	templates := maps.Clone(from.templates)
	for key := range templates {
		switch {
		case refused[key]:
			templates[key] = was.templates[key]
		case is.templates[key] != nil:
			templates[key] = is.templates[key]
		}
	}
	out := from.with(from.written())
	out.templates, out.wanted, out.partMemo = templates, newMemo[generated](), &partMemo{}
	if out.digest = out.sum(); out.SameClass(was) && maps.EqualFunc(templates, was.templates, sameTemplate) {
		out.digest = was.digest
	}
	return out
}

func sameTemplate(a, b *manifest.Object) bool { return Equal(a.Object, b.Object) }
