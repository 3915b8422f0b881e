package impact

import (
	"reflect"
	"slices"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

// stuck says why a cluster that was there cannot be rendered any more, and what becomes of the running one: it stays as it was asked
// for, and its class may change all the same.
func (c *comparer) stuck(d *Diff, was, is *render.Cluster) error {
	judged, err := c.classAlone(d, was, is)
	if err != nil || slices.ContainsFunc(d.Changes, func(x Change) bool { return x.Action == Frozen && x.Pool == "" }) {
		return err
	}
	change := Change{Action: Rejected, Words: "it cannot be rendered: " + first(is.Found) + "; what runs stays as it is"}
	unchanged := reflect.DeepEqual(was.Request.Spec, is.Request.Spec)
	if !judged && unchanged && slices.ContainsFunc(is.Found, func(f diag.Finding) bool { return f.Name == "cluster/frozen" || f.Name == "ledger/frozen" }) {
		change = Change{Action: Frozen, Words: first(is.Found)}
	}
	if len(d.Changes) > 0 {
		change.Words = "it cannot be rendered: " + first(is.Found) + "; what runs stays as it was asked for, but its class changes"
	}
	d.Changes = append([]Change{change}, d.Changes...)
	return nil
}

// classAlone judges what a change of the class does to a cluster that stays as it was asked for, since the change of the cluster itself
// does not reach it. It is not judged when the class is the same, or another.
func (c *comparer) classAlone(d *Diff, was, is *render.Cluster) (judged bool, err error) {
	if was.Manifest == nil || was.Class == nil || is.Class == nil || was.Class.Key() != is.Class.Key() || was.Class.Digest() == is.Class.Digest() {
		return false, nil
	}
	then, problems, err := c.under(is.Class, was)
	if err != nil {
		return false, err
	}
	if len(problems) > 0 {
		d.Changes = append(d.Changes, Change{Action: Frozen, Words: "the class no longer takes what the running cluster has (" + words(problems) + "): every later reconcile of it fails, so no scaling and no upgrade reaches it",
			Causes: []Cause{theClass(is)}})
		return true, nil
	}
	return true, c.judge(d, was, then)
}

// under is a cluster, with its Cluster as it is, in a management cluster with another class. With problems there is none.
func (c *comparer) under(class *topology.Class, of *render.Cluster) (*render.Cluster, []topology.Problem, error) {
	manifest, problems, err := class.Admit(of.Manifest)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	pools, problems, err := class.Pools(manifest)
	if err != nil || len(problems) > 0 {
		return nil, problems, err
	}
	then := *of
	then.Class, then.Manifest = class, manifest
	if then.Hashes, then.Accepts, err = topology.Hashes(pools, c.is.Schemas); err != nil {
		return nil, nil, err
	}
	return &then, nil, nil
}
