package topology

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/util/annotations"

	"copyhold.dev/copyhold/render/manifest"
)

// A cluster that is written out has no topology: its Cluster, control plane, MachineDeployments and templates are manifests. What follows
// reads worker pools off them, so that hash, differences and machine figures are those of a topology's pools.

// SpecDigest is a digest of a template's kind and spec, as 10 hex digits, for its name: Cluster API replaces machines when a
// MachineDeployment names another template. A field that is equal to its default in the schema is left out, as in Pool.Hash.
func (s *Schemas) SpecDigest(o *manifest.Object) (string, error) {
	spec, err := s.explicit(o)
	if err != nil {
		return "", err
	}
	j, err := json.Marshal([]any{o.GroupVersionKind().GroupKind().String(), spec}) // sorts keys
	if err != nil {
		return "", fmt.Errorf("hashing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	h := sha256.Sum256(j)
	return hex.EncodeToString(h[:5]), nil
}

// WrittenPool is a worker pool as a MachineDeployment and its two templates have it. The problems are fields that Cluster API does not
// have.
func WrittenPool(name string, deployment, infrastructure, bootstrap *manifest.Object) (*Pool, []Problem) {
	md := &clusterv1.MachineDeployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(deployment.Object, md, true); err != nil {
		return nil, []Problem{{Detail: oneLine(err.Error())}}
	}
	return &Pool{Name: name, Infrastructure: infrastructure, Bootstrap: bootstrap, Deployment: md}, nil
}

// AdmitDeployment runs Cluster API's validation of a new MachineDeployment (core/webhooks/admission/machinedeployment.go).
func (p *Pool) AdmitDeployment() []Problem {
	md := p.Deployment.DeepCopy()
	if md.Spec.Rollout.Strategy.Type == "" { // as its webhook defaults it
		md.Spec.Rollout.Strategy.Type = clusterv1.RollingUpdateMachineDeploymentStrategyType
	}
	if _, err := (&admission.MachineDeployment{}).ValidateCreate(context.Background(), md); err != nil {
		return problemsOf(err)
	}
	return nil
}

// AdmitWritten runs Cluster API's validation of a Cluster without topology: of a new one, or of a change when old is not nil.
func AdmitWritten(o, old *manifest.Object) []Problem {
	cl, was := &clusterv1.Cluster{}, &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, cl, true); err != nil {
		return []Problem{{Detail: oneLine(err.Error())}}
	}
	if cl.Spec.Topology.IsDefined() {
		return []Problem{{Field: "spec.topology", Detail: "the objects of a cluster that is written out are not made by a topology"}}
	}
	ctx := context.Background()
	webhook := &admission.Cluster{Client: shelf{}}
	var err error
	if old == nil {
		_, err = webhook.ValidateCreate(ctx, cl)
	} else {
		if bad := runtime.DefaultUnstructuredConverter.FromUnstructured(old.Object, was); bad != nil {
			return []Problem{{Detail: oneLine(bad.Error())}}
		}
		_, err = webhook.ValidateUpdate(ctx, was, cl)
	}
	if err != nil {
		return problemsOf(err)
	}
	return nil
}

// Namespaced reports whether objects of this kind live in a namespace, as far as there is a schema for it.
func (s *Schemas) Namespaced(o *manifest.Object) (namespaced, known bool, err error) {
	k, err := s.kind(o.GroupVersionKind())
	if k == nil || err != nil {
		return false, false, err
	}
	return k.namespaced, true, nil
}

// Loses reports whether a MachineDeployment in its next state does not select the machines that it has now. Its controller gives the new
// selector to its MachineSets (computeDesiredMS in core/reconcilers/machinedeployment/machinedeployment_rollout_planner.go), and those
// count only what it selects.
func (p *Pool) Loses(next *Pool) bool {
	selector, err := metav1.LabelSelectorAsSelector(&next.Deployment.Spec.Selector)
	return err == nil && !selector.Empty() && !selector.Matches(labels.Set(p.Deployment.Spec.Template.Labels)) // an empty one is filled in by the webhook
}

// Paused reports whether the MachineDeployment's controller leaves it alone.
func (p *Pool) Paused() bool {
	spec := p.Deployment.Spec
	return spec.Paused != nil && *spec.Paused || annotations.HasPaused(p.Deployment)
}
