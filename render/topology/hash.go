package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Scheme names the rules by which rollout hashes are made. Hashes of different schemes say nothing about each other.
const Scheme = "v1"

// Hash is a digest of everything that makes Cluster API replace the machines of a pool, as v1:<16 hex digits>. There is none for a
// pool of which something is unknown.
//
// Cluster API makes a new MachineSet when one of four fields of a MachineDeployment's template changes: its version, its failure
// domain, and the names of its two templates; and when the time of rollout.after comes (MachineTemplateUpToDate in
// core/reconcilers/machinedeployment/mdutil/util.go). It gives a template a new name when anything below its spec changes
// (reconcileReferencedTemplate in core/reconcilers/topology/cluster/reconcile_state.go); both sides of that comparison have been
// through the API server's defaulting, so a field that is equal to its default is left out here.
func (p *Pool) Hash(s *Schemas) (string, error) {
	if len(p.Unknown) > 0 {
		return "", nil
	}
	in, err := p.inputs(s)
	if err != nil {
		return "", err
	}
	return p.digest(Scheme, in)
}

// accept is what is to be accepted of a pool of which something is unknown, as unknown-v1:<16 hex digits>: a digest of all that can bear
// on its machines. hashes are those of the cluster's pools: a patch that looks at everything sees them too.
func (p *Pool) accept(s *Schemas, hashes map[string]string) (string, error) {
	in, err := p.inputs(s)
	if err != nil {
		return "", err
	}
	withoutUnknown(in, p)
	seen := map[string]string{}
	if slices.Contains(p.Unknown, "builtin") {
		seen = hashes
	}
	return p.digest(unknownPrefix+Scheme, map[string]any{"known": in, "infrastructure": p.infrastructureKey[:], "bootstrap": p.bootstrapKey[:], "hashes": seen})
}

// Hashes are the rollout hashes of a cluster's pools, "" where something is unknown, and what is to be accepted of each.
func Hashes(pools map[string]*Pool, s *Schemas) (hashes, accepts map[string]string, err error) {
	hashes, accepts = map[string]string{}, map[string]string{}
	for name, p := range pools {
		if hashes[name], err = p.Hash(s); err != nil {
			return nil, nil, err
		}
	}
	for name, p := range pools {
		if accepts[name] = hashes[name]; accepts[name] == "" {
			if accepts[name], err = p.accept(s, hashes); err != nil {
				return nil, nil, err
			}
		}
	}
	return hashes, accepts, nil
}

// unknownPrefix comes before Scheme for pools of which something is unknown.
const unknownPrefix = "unknown-"

func (p *Pool) digest(scheme string, in map[string]any) (string, error) {
	j, err := json.Marshal(in) // sorts keys
	if err != nil {
		return "", fmt.Errorf("hashing worker pool %s: %w", p.Name, err)
	}
	h := sha256.Sum256(j)
	return scheme + ":" + hex.EncodeToString(h[:8]), nil
}

// inputs are what the hash is made of.
func (p *Pool) inputs(s *Schemas) (map[string]any, error) {
	infrastructure, err := s.explicit(p.Infrastructure)
	if err != nil {
		return nil, err
	}
	bootstrap, err := s.explicit(p.Bootstrap)
	if err != nil {
		return nil, err
	}
	in := p.fields()
	in["infrastructure"] = map[string]any{"kind": p.Infrastructure.GroupVersionKind().GroupKind().String(), "spec": infrastructure}
	in["bootstrap"] = map[string]any{"kind": p.Bootstrap.GroupVersionKind().GroupKind().String(), "spec": bootstrap}
	return in, nil
}

// fields are the inputs that are no templates.
func (p *Pool) fields() map[string]any {
	spec := p.Deployment.Spec
	// A pool whose upgrade is deferred keeps the version it has, which is not in the tree: its hash speaks of the rest.
	version := spec.Template.Spec.Version
	if p.Deferred {
		version = "deferred"
	}
	in := map[string]any{"version": version, "failureDomain": spec.Template.Spec.FailureDomain}
	if after := spec.Rollout.After; !after.IsZero() {
		in["after"] = after.UTC().Format("2006-01-02T15:04:05Z07:00")
	}
	return in
}

// withoutUnknown leaves out the templates of which one of the pools does not know everything.
func withoutUnknown(in map[string]any, pools ...*Pool) {
	for _, p := range pools {
		if len(p.unknownInfrastructure) > 0 {
			delete(in, "infrastructure")
		}
		if len(p.unknownBootstrap) > 0 {
			delete(in, "bootstrap")
		}
	}
}

// Certain reports whether machines are replaced for certain when a pool goes from one state to the other: what is known of both
// differs, read with these schemas.
func Certain(was, is *Pool, s *Schemas) (bool, error) {
	a, err := was.inputs(s)
	if err != nil {
		return false, err
	}
	b, err := is.inputs(s)
	if err != nil {
		return false, err
	}
	withoutUnknown(a, was, is)
	withoutUnknown(b, was, is)
	return !sameJSON(a, b), nil
}

// Comparable reports whether two hashes were made by the same rules.
func Comparable(a, b string) bool {
	schemeA, _, okA := strings.Cut(a, ":")
	schemeB, _, okB := strings.Cut(b, ":")
	return okA && okB && schemeA == schemeB
}

// Older reports whether a hash was made by the rules of an earlier release.
func Older(hash string) bool {
	number := func(s string) int {
		scheme, _, _ := strings.Cut(s, ":")
		n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(scheme, unknownPrefix), "v"))
		if err != nil {
			return 0
		}
		return n
	}
	return number(hash) < number(Scheme)
}

// Settings is what of a pool's MachineDeployment and MachineHealthCheck is changed in place: everything but the templates, the number
// of machines, and the names of objects.
func (p *Pool) Settings() map[string]any {
	d := p.Deployment.Spec
	t := d.Template
	out := map[string]any{
		"labels":          anonymous(p.Deployment.Labels),
		"annotations":     p.Deployment.Annotations,
		"machine":         []any{anonymous(t.Labels), t.Annotations},
		"strategy":        d.Rollout.Strategy,
		"deletion":        []any{d.Deletion, t.Spec.Deletion},
		"remediation":     d.Remediation,
		"minReadySeconds": t.Spec.MinReadySeconds,
		"readinessGates":  t.Spec.ReadinessGates,
		"taints":          t.Spec.Taints,
	}
	if h := p.HealthCheck; h != nil {
		out["healthCheck"] = []any{h.Spec.Checks, h.Spec.Remediation}
	}
	return out
}

// anonymous are labels without the one that names the cluster.
func anonymous(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, clusterv1.ClusterNameLabel)
	return out
}

// OnDelete reports whether machines are replaced only when somebody deletes them.
func (p *Pool) OnDelete() bool {
	return p.Deployment.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
}

// Version is the Kubernetes version of the pool's machines once all is done.
func (p *Pool) Version() string { return p.Deployment.Spec.Template.Spec.Version }
