package topology

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// shelf is a client of an API server that is not there: it has the classes, the kinds that they name and, when asked about a Cluster
// that runs, its control plane, and nothing else. The engine only reads from it.
type shelf struct {
	client.Client // nil: whatever else is called is a fault, and found by the tests
	classes       []*clusterv1.ClusterClass
	controlPlane  *unstructured.Unstructured // of the Cluster that is asked about
	clusters      []clusterv1.Cluster        // that use the class that is asked about
}

func (s shelf) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	switch o := obj.(type) {
	case *clusterv1.ClusterClass:
		for _, c := range s.classes {
			if key == client.ObjectKeyFromObject(c) {
				*o = *c // the engine only reads it
				return nil
			}
		}
	case *metav1.PartialObjectMetadata: // which version of a kind speaks which contract
		for _, c := range s.classes {
			for _, r := range references(c) {
				gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
				for _, name := range []string{contract.CalculateCRDName(gvk.Group, gvk.Kind), contract.CalculateCRDName(gvk.Group, madeOf(gvk.Kind))} {
					if key.Name == name {
						o.Name, o.Labels = name, contractLabels(gvk.Version)
						return nil
					}
				}
			}
		}
	case *unstructured.Unstructured:
		if p := s.controlPlane; p != nil && o.GetKind() == p.GetKind() && key.Name == p.GetName() {
			o.Object = runtime.DeepCopyJSON(p.Object)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: fmt.Sprintf("%T", obj)}, key.String())
}

// List finds no Machines and no MachineDeployments: no rollout is under way in the Clusters that are asked about.
func (s shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if l, ok := list.(*clusterv1.ClusterList); ok {
		l.Items = s.clusters
		return nil
	}
	return meta.SetList(list, nil)
}

// madeOf is the kind of the objects that Cluster API makes of a template of this kind.
func madeOf(template string) string {
	const suffix = "Template"
	if len(template) > len(suffix) && template[len(template)-len(suffix):] == suffix {
		return template[:len(template)-len(suffix)]
	}
	return template
}

// contractLabels say that a version of a kind speaks both contracts. A provider's own CRD says which one it speaks; nothing but the
// look-up of the version depends on it here (util/contract/version.go).
func contractLabels(version string) map[string]string {
	return map[string]string{"cluster.x-k8s.io/v1beta1": version, "cluster.x-k8s.io/v1beta2": version}
}

// contractCRDs are the CustomResourceDefinitions that tell the engine which version of a kind speaks which contract. Only their names
// and labels are read.
func contractCRDs(refs map[string]clusterv1.ClusterClassTemplateReference) []client.Object {
	seen := map[string]bool{}
	var out []client.Object
	for _, r := range refs {
		gvk := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
		name := contract.CalculateCRDName(gvk.Group, gvk.Kind)
		if seen[name] {
			continue
		}
		seen[name] = true
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name, crd.Labels = name, contractLabels(gvk.Version)
		out = append(out, crd)
	}
	return out
}
