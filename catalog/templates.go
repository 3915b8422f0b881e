package catalog

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// PlaceholderAnnotation marks a template whose API version and kind nobody has confirmed. It travels with the object, so that a class
// source says the same of it whether it is a chart or a folder of manifests.
const PlaceholderAnnotation = "copyhold.dev/placeholder"

// TemplateRef is a template that a ClusterClass names.
type TemplateRef struct {
	Place                  string // of the reference in the class, as in spec.workers.machineDeployments[default-worker].bootstrap
	APIVersion, Kind, Name string
}

// TemplateRefs are the templates that a ClusterClass names, in the order it names them. A class that Cluster API's types cannot hold
// names none: that is found where the class is loaded.
func TemplateRefs(class *manifest.Object) []TemplateRef {
	var c clusterv1.ClusterClass
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(class.Object, &c); err != nil {
		return nil
	}
	var out []TemplateRef
	add := func(place string, r clusterv1.ClusterClassTemplateReference) {
		if r.IsDefined() {
			out = append(out, TemplateRef{place, r.APIVersion, r.Kind, r.Name})
		}
	}
	add("spec.infrastructure", c.Spec.Infrastructure.TemplateRef)
	add("spec.controlPlane", c.Spec.ControlPlane.TemplateRef)
	add("spec.controlPlane.machineInfrastructure", c.Spec.ControlPlane.MachineInfrastructure.TemplateRef)
	for _, w := range c.Spec.Workers.MachineDeployments {
		add("spec.workers.machineDeployments["+w.Class+"].bootstrap", w.Bootstrap.TemplateRef)
		add("spec.workers.machineDeployments["+w.Class+"].infrastructure", w.Infrastructure.TemplateRef)
	}
	for _, w := range c.Spec.Workers.MachinePools {
		add("spec.workers.machinePools["+w.Class+"].bootstrap", w.Bootstrap.TemplateRef)
		add("spec.workers.machinePools["+w.Class+"].infrastructure", w.Infrastructure.TemplateRef)
	}
	return out
}

// find is the object that a reference names, among those of its class's namespace; nil when it is not there. The version is left out
// of account: an API server gives an object in each version it has.
func (r TemplateRef) find(objects []*manifest.Object) *manifest.Object {
	want := manifest.ID{Group: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).Group, Kind: r.Kind, Name: r.Name}
	for _, o := range objects {
		id := manifest.IDOf(o)
		if id.Namespace = ""; id == want {
			return o
		}
	}
	return nil
}

// Placeholders finds the templates of a ClusterClass whose kind is marked as a placeholder. objects are those of the class source.
func (c *Catalog) Placeholders(source, class string, objects []*manifest.Object) diag.List {
	var found diag.List
	for _, o := range objects {
		if o.GetKind() != "ClusterClass" || o.GetName() != class {
			continue
		}
		for _, r := range TemplateRefs(o) {
			if t := r.find(objects); t != nil {
				found.Add(c.Placeholder(source, t)...)
			}
		}
	}
	return found
}

// Placeholder finds that an object of a class source is marked as a placeholder.
func (c *Catalog) Placeholder(source string, o *manifest.Object) diag.List {
	if _, ok := o.GetAnnotations()[PlaceholderAnnotation]; !ok {
		return nil
	}
	return diag.List{diag.Warnf(c.At("classes", source), "catalog/placeholder", "%s %s of class source %q is a placeholder: nobody has confirmed it", o.GetAPIVersion(), o.GetKind(), source).
		Hintf("look it up with kubectl api-resources, and enter it in the values of the source")}
}
