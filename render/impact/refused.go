package impact

import (
	"slices"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

// refusal is a change of a class that is refused, whole or in part.
type refusal struct {
	why  diag.List
	left *topology.Class // what the class is once all that is not refused has been applied
}

// beside says of a cluster that the change of its class is refused, and what comes of all that is changed beside it: a request is synced
// with another application than its class, and a template is another object.
func (c *comparer) beside(d *Diff, r refusal, was, is *render.Cluster) error {
	said, err := c.judgeBeside(d, r, was, is)
	d.Changes = slices.Insert(d.Changes, 0, Change{Action: Rejected, Words: first(r.why) + ": " + said, Causes: []Cause{theClass(is)}})
	return err
}

func (c *comparer) judgeBeside(d *Diff, r refusal, was, is *render.Cluster) (string, error) {
	alone := *is
	alone.Class = r.left
	var then *render.Cluster
	var problems []topology.Problem
	var err error
	said := ""
	if is.Manifest == nil || is.Hashes == nil {
		said = "; the cluster cannot be rendered either: " + first(is.Found)
	} else if then, problems, err = c.under(r.left, is); len(problems) > 0 {
		said = "; with the class as it stays, Cluster API does not take the cluster: " + words(problems)
	}
	switch {
	case err != nil:
	case said != "":
		_, err = c.classAlone(d, was, &alone)
	default:
		_, err = c.classed(d, was, then)
	}
	if err != nil {
		return "", err
	}
	if len(d.Changes) == 0 {
		return "it stays as it is, and so does the cluster" + said, nil
	}
	for i, change := range d.Changes {
		if change.Hash != "" { // the ledger and the lock speak of what is rendered
			d.Changes[i] = heldTo(is, change)
		}
	}
	return "it stays as it is, and what else changes comes all the same" + said, nil
}
