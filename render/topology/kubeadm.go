package topology

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/webhooks/admission"

	"copyhold.dev/copyhold/render/manifest"
)

// Cluster API's own bootstrap provider has a webhook on KubeadmConfigTemplates. On the dry runs by which the topology controller decides
// whether a template is rotated it fills in what used to be the defaults, and it refuses what its schema cannot
// (bootstrap/kubeadm/webhooks/admission/kubeadmconfigtemplate.go).

var kubeadmTemplate = bootstrapv1.GroupVersion.WithKind("KubeadmConfigTemplate")

// kubeadmExplicit is a spec without what that webhook fills in, if it is of its kind: written out or not, it is the same to the topology
// controller. The spec handed in is not changed.
func kubeadmExplicit(gvk schema.GroupVersionKind, spec any) any {
	if gvk.GroupKind() != kubeadmTemplate.GroupKind() || spec == nil {
		return spec
	}
	spec = runtime.DeepCopyJSONValue(spec)
	s, ok := at(spec, "template", "spec").(map[string]any)
	if !ok {
		return spec
	}
	filled := bootstrapv1.KubeadmConfigSpec{}
	admission.ApplyPreviousKubeadmConfigDefaults(&filled)
	if defaults, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&filled); err == nil {
		takeAway(s, defaults)
	}
	return spec
}

// takeAway takes values that are equal to defaults out of a map, and what is empty after that: an object that has nothing but defaults
// says as much as none.
func takeAway(from, defaults map[string]any) {
	for k, d := range defaults {
		v, there := from[k]
		if !there {
			continue
		}
		inner, isMap := d.(map[string]any)
		m, ok := v.(map[string]any)
		switch {
		case isMap && ok:
			if takeAway(m, inner); len(m) == 0 {
				delete(from, k)
			}
		case reflect.DeepEqual(v, d):
			delete(from, k)
		}
	}
}

// kubeadmProblems are what the webhook refuses of an object, if it is of its kind.
func kubeadmProblems(o *manifest.Object) []Problem {
	if o.GroupVersionKind() != kubeadmTemplate {
		return nil
	}
	if _, err := setup(); err != nil {
		return []Problem{{Detail: err.Error()}}
	}
	c := &bootstrapv1.KubeadmConfigTemplate{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, c); err != nil {
		return []Problem{{Detail: oneLine(err.Error())}} // the webhook cannot read what the schema takes
	}
	if _, err := (&admission.KubeadmConfigTemplate{}).ValidateCreate(context.Background(), c); err != nil {
		return problemsOf(err)
	}
	return nil
}
