package impact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// controlPlane compares the control plane and the infrastructure of a cluster.
func (c *comparer) controlPlane(d *Diff, was, is *render.Cluster) error {
	a, err := was.Class.ControlPlaneKey(was.Manifest)
	if err != nil {
		return err
	}
	b, err := is.Class.ControlPlaneKey(is.Manifest)
	seen := !maps.Equal(was.Hashes, is.Hashes) && is.Class.ControlPlaneSeesHashes()
	if err != nil || a == b && !seen {
		return err
	}
	if was.Class.External() || is.Class.External() {
		d.Changes = append(d.Changes, Change{Action: Unknown, Words: "a runtime extension has a say in the control plane: what becomes of it cannot be foretold", Causes: c.controlPlaneCauses(was, is)})
		return nil
	}
	before, problems, err := was.Class.Desired(was.Manifest)
	if err != nil || len(problems) > 0 {
		return err
	}
	after, problems, err := is.Class.Desired(is.Manifest)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		d.Changes = append(d.Changes, Change{Action: Frozen, Words: "every later reconcile of the cluster fails: " + words(problems)})
		return nil
	}
	unknown := slices.Concat(before.ControlPlaneUnknown, after.ControlPlaneUnknown)
	seen = seen && slices.Contains(unknown, "builtin")
	for _, o := range []struct {
		was, is *manifest.Object
		action  Action
		words   string
	}{
		{before.ControlPlane, after.ControlPlane, ControlPlane, ""},
		{before.ControlPlaneMachine, after.ControlPlaneMachine, ControlPlane, "the machines of the control plane are replaced"},
		{before.InfrastructureCluster, after.InfrastructureCluster, InPlace, ""},
	} {
		if o.was == nil || o.is == nil { // both, or the webhook refuses the class
			continue
		}
		change, err := c.object(o.was, o.is, o.action)
		if change.Action == o.action && change.Words == "" {
			change.Words = o.words
		}
		if err != nil {
			return err
		}
		if (change.Action == ControlPlane || o.is == after.ControlPlane && seen && change.Action == "") && len(unknown) > 0 {
			change.Action, change.Words, change.Differences = Unknown, "it depends on what only the management cluster knows ("+list(unknown)+"): what becomes of the control plane cannot be foretold", nil
		}
		if change.Action == ControlPlane && o.words == "" && was.Request.Spec.Version != is.Request.Spec.Version {
			steps, err := upgrade(was, is)
			if err != nil {
				return err
			}
			change.Words = join(change.Words, steps)
		}
		if change.Action != "" {
			change.Causes = c.controlPlaneCauses(was, is)
			d.Changes = append(d.Changes, change)
		}
	}
	return nil
}

// upgrade says in which order an upgrade goes on, where there is an order.
func upgrade(was, is *render.Cluster) (string, error) {
	first, then, err := topology.UpgradeSteps(was.Class, is.Class, was.Manifest, is.Manifest)
	if err != nil {
		return "", err
	}
	words := ""
	if len(first) > 1 {
		words = "the control plane goes through " + strings.Join(first, ", ")
		if len(then) > 1 {
			words += fmt.Sprintf(" and workers are replaced %d times, for %s", len(then), strings.Join(then, ", "))
		}
	}
	if pools := topology.PoolNames(is.Manifest); len(pools) > 1 {
		atOnce := "one at a time"
		if n := is.Manifest.GetAnnotations()[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation]; n != "" && n != "1" {
			atOnce = n + " at a time"
		}
		words = join(words, "after it the worker pools, "+atOnce+": "+strings.Join(pools, ", "))
	}
	return words, nil
}

// object compares two states of an object that Cluster API changes in place.
func (c *comparer) object(was, is *manifest.Object, action Action) (Change, error) {
	if was.GroupVersionKind().GroupKind() != is.GroupVersionKind().GroupKind() {
		return Change{Action: Rejected, Words: "its kind would change from " + was.GetKind() + " to " + is.GetKind() + ", which Cluster API refuses"}, nil
	}
	differences, err := c.is.Schemas.SpecDifferences(was, is)
	if err != nil || len(differences) == 0 {
		return Change{}, err
	}
	problems, err := c.is.Schemas.Validate(is, was)
	if err != nil {
		return Change{}, err
	}
	known, err := c.was.Schemas.Validate(was, nil)
	if err != nil {
		return Change{}, err
	}
	change := Change{Action: action, Differences: plain(differences)}
	if len(problems) > 0 && !slices.Equal(problems, known) {
		change.Action = Frozen
		change.Words = "the API server refuses what Cluster API makes of it (" + is.GetKind() + ": " + words(problems) + "): every later reconcile of the cluster fails"
		return change, nil
	}
	for _, d := range differences {
		if d.Path == "dataStoreName" || d.Path == "dataStore" {
			change.Words = "the control plane's state is moved to another DataStore: a migration, during which the API server is away"
		}
	}
	return change, nil
}

// controlPlaneCauses are the changes of the request and the class that the control plane reads.
func (c *comparer) controlPlaneCauses(was, is *render.Cluster) []Cause {
	base, err := was.Class.ControlPlaneKey(was.Manifest)
	if err != nil {
		return nil
	}
	var out []Cause
	all := c.candidates(was, is, "")
	if a, b := was.Request.Spec.ControlPlane.Replicas, is.Request.Spec.ControlPlane.Replicas; !topology.Equal(a, b) {
		cause := at(is.Request.At("spec", "controlPlane", "replicas"), "controlPlane.replicas", replicas(a), replicas(b))
		all = append(all, candidate{cause, topology.With(was.Manifest, replicas(b), "controlPlane", "replicas")})
	}
	for _, x := range all {
		if key, err := was.Class.ControlPlaneKey(x.alone); err == nil && key != base {
			out = append(out, x.cause)
		}
	}
	if was.Class.Key() != is.Class.Key() {
		return append(out, c.tierCause(was, is))
	}
	if was.Class.Digest() != is.Class.Digest() {
		if key, err := is.Class.ControlPlaneKey(was.Manifest); err == nil && key != base {
			out = append(out, theClass(is))
		}
	}
	return out
}

// causesOf finds the place in the request that a refused change was written at.
func (c *comparer) causesOf(was, is *render.Cluster, problems []topology.Problem) []Cause {
	var out []Cause
	for _, x := range c.candidates(was, is, "") {
		name := strings.TrimPrefix(x.cause.Field, "variable ")
		if slices.ContainsFunc(problems, func(p topology.Problem) bool {
			return strings.Contains(p.Field, name) || strings.Contains(p.Field, "version") && name == "version"
		}) || len(problems) == 0 {
			out = append(out, x.cause)
		}
	}
	return out
}

// replicas is a number of replicas as a manifest holds it.
func replicas(n *int32) any {
	if n == nil {
		return nil
	}
	return int64(*n)
}
