package tests

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"
	"sigs.k8s.io/cluster-api/util/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/manifest"
)

// desired are the specs that Cluster API's topology controller would write for a new Cluster, as its own generator computes them.
type desired struct {
	controlPlane map[string]any // spec of the KamajiControlPlane
	machine      map[string]any // spec.template.spec of the first worker pool's KubevirtMachineTemplate
	bootstrap    map[string]any // spec.template.spec of its bootstrap template
}

// generator computes desired state of Clusters of one class.
type generator struct {
	class     *clusterv1.ClusterClass
	templates map[string]*manifest.Object // by place in the class, see catalog.TemplateRefs
	generate  desiredstate.Generator
}

// newGenerator takes the objects of a class source.
func newGenerator(t *testing.T, objects []*manifest.Object, class string) *generator {
	t.Helper()
	g := &generator{class: &clusterv1.ClusterClass{}, templates: map[string]*manifest.Object{}}
	var all []client.Object
	seen := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() != "ClusterClass" || o.GetName() != class {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, g.class); err != nil {
			t.Fatal(err)
		}
		for _, r := range catalog.TemplateRefs(o) {
			for _, tmpl := range objects {
				if tmpl.GetKind() == r.Kind && tmpl.GetName() == r.Name {
					g.templates[r.Place] = tmpl
					all = append(all, tmpl)
				}
			}
			gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
			for _, kind := range []string{gvk.Kind, gvk.Kind[:len(gvk.Kind)-len("Template")]} {
				crd := &apiextensionsv1.CustomResourceDefinition{} // all that the engine reads of it is which version speaks which contract
				crd.Name = contract.CalculateCRDName(gvk.Group, kind)
				crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta2": gvk.Version}
				if !seen[crd.Name] {
					seen[crd.Name] = true
					all = append(all, crd)
				}
			}
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(all, g.class)...).WithStatusSubresource(&clusterv1.ClusterClass{}).Build()
	key := client.ObjectKeyFromObject(g.class)
	for range 2 { // the first round says that it is not paused
		if _, err := (&clusterclass.Reconciler{Client: c}).Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	err := c.Get(ctx, key, g.class)
	if err == nil {
		g.generate, err = desiredstate.NewGenerator(c, clustercache.NewFakeEmptyClusterCache(), nil, nil, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// desired takes a Cluster that has been admitted.
func (g *generator) desired(t *testing.T, o *manifest.Object) desired {
	t.Helper()
	cl := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, cl); err != nil {
		t.Fatal(err)
	}
	s := scope.New(cl)
	s.Blueprint = &scope.ClusterBlueprint{
		Topology: cl.Spec.Topology, ClusterClass: g.class,
		InfrastructureClusterTemplate: g.templates["spec.infrastructure"],
		ControlPlane:                  &scope.ControlPlaneBlueprint{Template: g.templates["spec.controlPlane"]},
		MachineDeployments:            map[string]*scope.MachineDeploymentBlueprint{},
		MachinePools:                  map[string]*scope.MachinePoolBlueprint{},
	}
	for _, w := range g.class.Spec.Workers.MachineDeployments {
		s.Blueprint.MachineDeployments[w.Class] = &scope.MachineDeploymentBlueprint{
			BootstrapTemplate:             g.templates["spec.workers.machineDeployments["+w.Class+"].bootstrap"],
			InfrastructureMachineTemplate: g.templates["spec.workers.machineDeployments["+w.Class+"].infrastructure"],
		}
	}
	s.Current.ControlPlane = &scope.ControlPlaneState{}
	state, err := g.generate.Generate(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	pool := state.MachineDeployments[cl.Spec.Topology.Workers.MachineDeployments[0].Name]
	return desired{
		controlPlane: inner(state.ControlPlane.Object, "spec"),
		machine:      inner(pool.InfrastructureMachineTemplate, "spec", "template", "spec"),
		bootstrap:    inner(pool.BootstrapTemplate, "spec", "template", "spec"),
	}
}

func inner(o *manifest.Object, path ...string) map[string]any {
	at := o.Object
	for _, key := range path {
		at, _ = at[key].(map[string]any)
	}
	return at
}
