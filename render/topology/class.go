// Package topology asks Cluster API's own engine what it would do with a Cluster: it holds the only code that calls
// sigs.k8s.io/cluster-api beyond its API types, and no rule of ours that imitates one of Cluster API's.
// Everything runs in process on objects in memory; no API server is asked.
//
// NewClass loads a ClusterClass with its templates, Class.Admit defaults and validates a Cluster against it.
package topology

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"copyhold.dev/copyhold/render/manifest"
)

// Version is the Cluster API release whose engine is built in.
const Version = "v1.14.2"

// setup switches the engine on once: managed topologies are behind a feature gate that is off by default, and
// controller-runtime complains on stderr until it is given a logger.
var setup = sync.OnceValues(func() (*runtime.Scheme, error) {
	ctrl.SetLogger(logr.Discard())
	// Ignition is behind a gate of the management cluster's, which nobody knows here: whoever writes it out has the gate on.
	for _, gate := range []string{string(feature.ClusterTopology), string(feature.KubeadmBootstrapFormatIgnition)} {
		if err := feature.MutableGates.Set(gate + "=true"); err != nil {
			return nil, err
		}
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// engine is held while a class is reconciled.
var engine sync.Mutex

// Class is a ClusterClass that Cluster API has accepted and reconciled, with the templates it names. It is not changed once
// made and may be used from several goroutines.
type Class struct {
	class     *clusterv1.ClusterClass
	asWritten *clusterv1.ClusterClass // class before WithDefaults; nil where that is class itself
	templates map[templateKey]*manifest.Object
	external  []clusterv1.ClusterClassPatch // patches by runtime extensions, which nobody can ask offline; class is without them
	digest    string
	webhook   *admission.Cluster
	memo      *memo[admitted]
	shapes    shapes
	wanted    *memo[generated]

	defaults func() Defaults // see Defaults; worked out once

	lists   sync.Once
	asLists *clusterv1.ClusterClass // see AdmitAll

	*partMemo
}

type templateKey struct{ group, kind, name string }

// Key names a class in a management cluster.
type Key struct{ Namespace, Name string }

// String is namespace/name.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// IsClass reports whether the object is a ClusterClass that Cluster API's v1beta2 types can hold.
func IsClass(o *manifest.Object) bool {
	return o.GroupVersionKind() == clusterv1.GroupVersion.WithKind("ClusterClass")
}

// NewClass finds the named ClusterClass and its templates among the objects, and runs Cluster API's ClusterClass webhook and
// reconciler on them (core/webhooks/admission/clusterclass.go, core/reconcilers/clusterclass). The problems are what they
// refuse; with problems there is no class. The error is for what should not happen.
func NewClass(objects []*manifest.Object, key Key) (*Class, []Problem, error) {
	scheme, err := setup()
	if err != nil {
		return nil, nil, fmt.Errorf("starting the Cluster API engine: %w", err)
	}
	c := &Class{templates: map[templateKey]*manifest.Object{}, memo: newMemo[admitted](), wanted: newMemo[generated](), partMemo: &partMemo{}}
	c.defaults = sync.OnceValue(c.readDefaults)
	for _, o := range objects {
		if o.GetNamespace() != key.Namespace {
			continue
		}
		o = manifest.Bare(o)
		switch {
		case IsClass(o) && o.GetName() == key.Name:
			c.class = &clusterv1.ClusterClass{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, c.class, true); err != nil {
				return nil, []Problem{{Detail: err.Error()}}, nil
			}
		case !IsClass(o):
			gvk := o.GroupVersionKind()
			c.templates[templateKey{gvk.Group, gvk.Kind, o.GetName()}] = o
		}
	}
	if c.class == nil {
		return nil, []Problem{{Detail: fmt.Sprintf("there is no ClusterClass %s", key)}}, nil
	}
	c.keepReferenced()
	c.digest = c.sum()
	if problems := c.takeExternal(); len(problems) > 0 {
		return nil, problems, nil
	}
	ctx := context.Background()
	if _, err := (&admission.ClusterClass{}).ValidateCreate(ctx, c.class); err != nil {
		return nil, problemsOf(err), nil
	}
	if missing := c.missing(); len(missing) > 0 {
		return nil, missing, nil
	}
	if err := c.reconcile(ctx, scheme); err != nil {
		return nil, nil, err
	}
	c.webhook = &admission.Cluster{Client: shelf{classes: []*clusterv1.ClusterClass{c.class}}}
	return c, nil, nil
}

// takeExternal takes the patches by runtime extensions out of the class. What they would do is unknown, and said to be wherever it bears
// on something; the rest of the class can be worked with. An extension that brings variables cannot be done without.
func (c *Class) takeExternal() []Problem {
	var problems []Problem
	c.class.Spec.Patches = slices.DeleteFunc(c.class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool {
		if p.External == nil {
			return false
		}
		if p.External.DiscoverVariablesExtension != "" {
			problems = append(problems, Problem{Field: "spec.patches[" + p.Name + "].external.discoverVariablesExtension",
				Detail: "the class has variables that a runtime extension brings; it cannot be asked offline"})
		}
		c.external = append(c.external, p)
		return true
	})
	return problems
}

// External reports whether runtime extensions have a say in what the class makes.
func (c *Class) External() bool { return len(c.external) > 0 }

// Stored puts the templates into the form in which an API server with these schemas keeps them, with their defaults: that is what
// patches work on. The digest stays that of what was written. It is called before the class is used.
func (c *Class) Stored(s *Schemas) {
	for key, t := range c.templates {
		if stored, err := s.Default(t); err == nil { // a schema that cannot be used is found where hashes are made
			c.templates[key] = stored
		}
	}
}

// references are the templates a class names, each with the place it is named at.
func references(class *clusterv1.ClusterClass) map[string]clusterv1.ClusterClassTemplateReference {
	s := class.Spec
	refs := map[string]clusterv1.ClusterClassTemplateReference{
		"spec.infrastructure":                     s.Infrastructure.TemplateRef,
		"spec.controlPlane":                       s.ControlPlane.TemplateRef,
		"spec.controlPlane.machineInfrastructure": s.ControlPlane.MachineInfrastructure.TemplateRef,
	}
	for _, w := range s.Workers.MachineDeployments {
		refs["spec.workers.machineDeployments["+w.Class+"].bootstrap"] = w.Bootstrap.TemplateRef
		refs["spec.workers.machineDeployments["+w.Class+"].infrastructure"] = w.Infrastructure.TemplateRef
	}
	for _, w := range s.Workers.MachinePools {
		refs["spec.workers.machinePools["+w.Class+"].bootstrap"] = w.Bootstrap.TemplateRef
		refs["spec.workers.machinePools["+w.Class+"].infrastructure"] = w.Infrastructure.TemplateRef
	}
	for place, r := range refs {
		if !r.IsDefined() {
			delete(refs, place)
		}
	}
	return refs
}

func (c *Class) template(r clusterv1.ClusterClassTemplateReference) *manifest.Object {
	gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	return c.templates[templateKey{gvk.Group, gvk.Kind, r.Name}]
}

// keepReferenced drops the objects that belong to other classes, so that the digest speaks of this class alone.
func (c *Class) keepReferenced() {
	kept := map[templateKey]*manifest.Object{}
	for _, r := range references(c.class) {
		gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
		k := templateKey{gvk.Group, gvk.Kind, r.Name}
		if o := c.templates[k]; o != nil {
			kept[k] = o
		}
	}
	c.templates = kept
}

func (c *Class) missing() []Problem {
	var out []Problem
	for place, r := range references(c.class) {
		if c.template(r) == nil {
			out = append(out, Problem{Field: place + ".templateRef", Detail: fmt.Sprintf("there is no %s %q beside the class", r.Kind, r.Name)})
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
	return out
}

// reconcile runs the ClusterClass reconciler, which fills status.variables: what Cluster API defaults and validates by.
func (c *Class) reconcile(ctx context.Context, scheme *runtime.Scheme) error {
	objects := contractCRDs(references(c.class))
	for _, t := range c.templates {
		objects = append(objects, t)
	}
	// Not paused is what the reconciler finds out first, in a round of its own.
	conditions.Set(c.class, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason})
	// The fake client enters the kinds that it meets into the scheme, which all classes share.
	engine.Lock()
	defer engine.Unlock()
	// Nothing is applied server-side here; the client's own type converters would parse every schema of Kubernetes first.
	cl := fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithObjects(append(objects, c.class)...).
		WithStatusSubresource(&clusterv1.ClusterClass{}).Build()
	key := client.ObjectKeyFromObject(c.class)
	for range 3 {
		if _, err := (&clusterclass.Reconciler{Client: cl}).Reconcile(ctx, ctrl.Request{NamespacedName: key}); err != nil {
			return fmt.Errorf("reconciling ClusterClass %s: %w", key, err)
		}
		if err := cl.Get(ctx, key, c.class); err != nil {
			return fmt.Errorf("reconciling ClusterClass %s: %w", key, err)
		}
		if conditions.IsTrue(c.class, clusterv1.ClusterClassVariablesReadyCondition) {
			return nil
		}
	}
	return fmt.Errorf("ClusterClass %s does not become reconciled", key)
}

// sum is a digest of the class and its templates as written.
func (c *Class) sum() string {
	keys := make([]string, 0, len(c.templates))
	text := map[string]any{}
	for k, o := range c.templates {
		keys = append(keys, fmt.Sprint(k))
		text[fmt.Sprint(k)] = o.Object
	}
	slices.Sort(keys)
	text["class"] = c.class.Spec
	j, err := json.Marshal(text) // sorts keys
	if err != nil {
		panic(err) // both came from JSON
	}
	h := sha256.Sum256(j)
	return "sha256:" + hex.EncodeToString(h[:])
}

// Key is the namespace and name of the class.
func (c *Class) Key() Key { return Key{c.class.Namespace, c.class.Name} }

// Digest identifies the content of the class and the templates it names: "sha256:" and 64 hex digits.
func (c *Class) Digest() string { return c.digest }

// WorkerClasses are the names of the classes a worker pool can have, sorted.
func (c *Class) WorkerClasses() []string {
	var out []string
	for _, w := range c.class.Spec.Workers.MachineDeployments {
		out = append(out, w.Class)
	}
	slices.Sort(out)
	return out
}

// Templates are the templates that the class names, sorted by kind and name.
func (c *Class) Templates() []*manifest.Object {
	return slices.SortedFunc(maps.Values(c.templates), func(a, b *manifest.Object) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
