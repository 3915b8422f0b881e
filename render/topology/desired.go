package topology

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/exp/topology/desiredstate"
	"sigs.k8s.io/cluster-api/exp/topology/scope"

	"copyhold.dev/copyhold/render/manifest"
)

// AnnotationPrefix is what the names of the annotations begin with that a Cluster carries its rollout hashes in:
// rollout.copyhold.dev/<worker pool>.
const AnnotationPrefix = "rollout.copyhold.dev/"

// Desired is what Cluster API makes of a Cluster once everything has settled. The names of its objects are random and mean nothing;
// nothing in it may be changed.
type Desired struct {
	InfrastructureCluster *manifest.Object
	ControlPlane          *manifest.Object
	ControlPlaneMachine   *manifest.Object // machine template of the control plane; nil when it is hosted
	Pools                 map[string]*Pool // by name in the Cluster's topology

	// ControlPlaneUnknown says what the control plane depends on that only a management cluster knows, as Pool.Unknown does for a pool.
	ControlPlaneUnknown []string
}

// Pool is a worker pool: what its machines are made from.
type Pool struct {
	Name           string
	Infrastructure *manifest.Object // infrastructure machine template
	Bootstrap      *manifest.Object // bootstrap config template
	Deployment     *clusterv1.MachineDeployment
	HealthCheck    *clusterv1.MachineHealthCheck // nil when there is none
	Deferred       bool                          // it stays on its version, and as it is, while the cluster is upgraded

	// Unknown says what the templates depend on that only a management cluster knows, each as a patch names it; when there is
	// something, nobody can tell offline whether a change rolls the pool.
	Unknown []string

	unknownInfrastructure, unknownBootstrap []string
	infrastructureKey, bootstrapKey         PartKey // set by Pools
}

// Desired runs Cluster API's generator (exp/topology/desiredstate) on a Cluster that was admitted. It looks at the Cluster as if it were
// new, so it gives the state in which every change ends, an upgrade too. The problems are those for which every reconcile of such a
// Cluster fails: it is frozen then.
//
// Answers are kept by content.
func (c *Class) Desired(o *manifest.Object) (*Desired, []Problem, error) {
	key, err := json.Marshal([]any{o.Object["spec"], o.GetNamespace(), o.GetName(), settledAnnotations(o), o.GetLabels()})
	if err != nil {
		return nil, nil, fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
	}
	a := c.wanted.do(sha256.Sum256(key), func() generated { return c.desired(o) })
	return a.desired, a.problems, a.err
}

type generated struct {
	desired  *Desired
	problems []Problem
	err      error
}

func (c *Class) desired(o *manifest.Object) generated {
	cl, err := settledCluster(o)
	if err != nil {
		return generated{err: err}
	}
	d, problems, err := c.generate(cl)
	if err != nil || len(problems) > 0 {
		return generated{problems: problems, err: err}
	}
	if err := c.findUnknown(cl, d); err != nil {
		return generated{err: err}
	}
	return generated{desired: d}
}

// settledCluster is a Cluster as the generator takes it.
func settledCluster(o *manifest.Object) (*clusterv1.Cluster, error) {
	cl := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, cl); err != nil {
		return nil, fmt.Errorf("reading Cluster %s: %w", o.GetName(), err)
	}
	cl.Annotations = settledAnnotations(o)
	cl.UID = "00000000-0000-4000-8000-000000000001"
	return cl, nil
}

// settledAnnotations are the Cluster's annotations without our own: those are made of the desired state.
func settledAnnotations(o *manifest.Object) map[string]string {
	out := maps.Clone(o.GetAnnotations())
	maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasPrefix(k, AnnotationPrefix) })
	if len(out) == 0 {
		return nil
	}
	return out
}

// generate runs the generator once.
func (c *Class) generate(cl *clusterv1.Cluster) (*Desired, []Problem, error) {
	g, err := desiredstate.NewGenerator(shelf{classes: []*clusterv1.ClusterClass{c.class}}, clustercache.NewFakeEmptyClusterCache(), nil, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("starting Cluster API's generator: %w", err)
	}
	s := scope.New(cl)
	s.Blueprint = c.blueprint(cl)
	s.Current.ControlPlane = &scope.ControlPlaneState{}
	state, err := g.Generate(context.Background(), s)
	if err != nil {
		return nil, []Problem{{Detail: oneLine(err.Error())}}, nil
	}
	d := &Desired{InfrastructureCluster: state.InfrastructureCluster, ControlPlane: state.ControlPlane.Object, ControlPlaneMachine: state.ControlPlane.InfrastructureMachineTemplate, Pools: map[string]*Pool{}}
	for name, md := range state.MachineDeployments {
		d.Pools[name] = &Pool{
			Name: name, Infrastructure: md.InfrastructureMachineTemplate, Bootstrap: md.BootstrapTemplate,
			Deployment: md.Object, HealthCheck: md.MachineHealthCheck, Deferred: deferred(cl.Spec.Topology, name),
		}
	}
	return d, nil, nil
}

// deferred reports whether a pool's upgrade is put off, by its own annotation or by a hold on it or on a pool before it
// (isMachineDeploymentDeferred in exp/topology/desiredstate/desired_state.go).
func deferred(t clusterv1.Topology, pool string) bool {
	held := false
	for _, md := range t.Workers.MachineDeployments {
		_, own := md.Metadata.Annotations[clusterv1.ClusterTopologyDeferUpgradeAnnotation]
		_, hold := md.Metadata.Annotations[clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation]
		held = held || hold
		if md.Name == pool {
			return own || held
		}
	}
	return false
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// blueprint is the class as the generator takes it (core/reconcilers/topology/cluster/blueprint.go). The generator writes labels into
// the templates it is given, so it gets its own.
func (c *Class) blueprint(cl *clusterv1.Cluster) *scope.ClusterBlueprint {
	own := func(r clusterv1.ClusterClassTemplateReference) *manifest.Object {
		if t := c.template(r); t != nil {
			return &manifest.Object{Object: t.Object}
		}
		return nil
	}
	spec := c.class.Spec
	b := &scope.ClusterBlueprint{
		Topology:                      cl.Spec.Topology,
		ClusterClass:                  c.class,
		InfrastructureClusterTemplate: own(spec.Infrastructure.TemplateRef),
		ControlPlane: &scope.ControlPlaneBlueprint{
			Template:                      own(spec.ControlPlane.TemplateRef),
			InfrastructureMachineTemplate: own(spec.ControlPlane.MachineInfrastructure.TemplateRef),
			HealthCheck:                   spec.ControlPlane.HealthCheck,
		},
		MachineDeployments: map[string]*scope.MachineDeploymentBlueprint{},
		MachinePools:       map[string]*scope.MachinePoolBlueprint{},
	}
	for _, w := range spec.Workers.MachineDeployments {
		md := &scope.MachineDeploymentBlueprint{
			BootstrapTemplate:             own(w.Bootstrap.TemplateRef),
			InfrastructureMachineTemplate: own(w.Infrastructure.TemplateRef),
			HealthCheck:                   w.HealthCheck,
		}
		w.Metadata.DeepCopyInto(&md.Metadata)
		b.MachineDeployments[w.Class] = md
	}
	for _, w := range spec.Workers.MachinePools {
		mp := &scope.MachinePoolBlueprint{BootstrapTemplate: own(w.Bootstrap.TemplateRef), InfrastructureMachinePoolTemplate: own(w.Infrastructure.TemplateRef)}
		w.Metadata.DeepCopyInto(&mp.Metadata)
		b.MachinePools[w.Class] = mp
	}
	return b
}

// findUnknown notes for the control plane and each template of the pools what they depend on that cannot be known offline. A patch that
// reads such an input by name is taken at its word. Where a patch hands all of its data to a function, or reads annotations, the
// generator is run again with those inputs changed, and the outcome compared.
func (c *Class) findUnknown(cl *clusterv1.Cluster, d *Desired) error {
	type part struct {
		reads   reads
		unknown *[]string
		made    func(*Desired) []*manifest.Object
	}
	s := c.class.Spec.ControlPlane
	parts := []part{{c.part(s.TemplateRef, s.MachineInfrastructure.TemplateRef).reads, &d.ControlPlaneUnknown,
		func(d *Desired) []*manifest.Object { return []*manifest.Object{d.ControlPlane, d.ControlPlaneMachine} }}}
	for _, name := range slices.Sorted(maps.Keys(d.Pools)) {
		p := d.Pools[name]
		parts = append(parts,
			part{c.reads(p.Infrastructure), &p.unknownInfrastructure, func(d *Desired) []*manifest.Object { return []*manifest.Object{d.Pools[name].Infrastructure} }},
			part{c.reads(p.Bootstrap), &p.unknownBootstrap, func(d *Desired) []*manifest.Object { return []*manifest.Object{d.Pools[name].Bootstrap} }})
	}
	var again *Desired
	var problems []Problem
	for _, p := range parts {
		*p.unknown = p.reads.unknowable()
		switch {
		case !p.reads.everything:
			continue
		case c.External():
			continue
		case len(*p.unknown) > 0: // so there is nothing to be learned from trying
			*p.unknown = append(*p.unknown, "builtin")
			continue
		}
		if again == nil && len(problems) == 0 {
			var err error
			if again, problems, err = c.generate(varied(cl, d)); err != nil {
				return err
			}
		}
		if len(problems) > 0 || !slices.EqualFunc(p.made(d), p.made(again), sameSpec) {
			*p.unknown = []string{"builtin"}
		}
	}
	for _, p := range d.Pools {
		p.Unknown = slices.Compact(slices.Sorted(slices.Values(slices.Concat(p.unknownInfrastructure, p.unknownBootstrap))))
	}
	return nil
}

// unknownOf is what of Unknown comes from one of the pool's templates.
func (p *Pool) unknownOf(template *manifest.Object) []string {
	if template == p.Infrastructure {
		return p.unknownInfrastructure
	}
	return p.unknownBootstrap
}

// varied is the Cluster with other values of what cannot be known. The names of objects are random as it is.
func varied(cl *clusterv1.Cluster, d *Desired) *clusterv1.Cluster {
	out := cl.DeepCopy()
	out.UID = "ffffffff-ffff-4fff-bfff-fffffffffffe"
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	for pool := range d.Pools {
		out.Annotations[AnnotationPrefix+pool] = "v1:0000000000000000"
	}
	return out
}

func sameSpec(a, b *manifest.Object) bool {
	return (a == nil) == (b == nil) && (a == nil || sameJSON(a.Object["spec"], b.Object["spec"]))
}
