// Package impact compares what two states of a tenants repository make of its clusters, and says what the change between them does to
// the running ones: which worker pools are replaced, and why.
//
// Compare takes two fleets and gives a Report, which is plain data; there is a file for each way to write one.
package impact

import (
	"cmp"
	"fmt"
	"slices"

	"copyhold.dev/copyhold/render/diag"
)

// Action is what a change does to a cluster or to one of its worker pools.
type Action string

// The actions, from what nobody notices to what hurts most.
const (
	None         Action = "none"
	InPlace      Action = "in-place"      // objects change, nothing is replaced
	Scale        Action = "scale"         // machines come or go, the others stay
	Create       Action = "create"        //
	ControlPlane Action = "control-plane" // the control plane's pods roll, machines stay
	ImageSkew    Action = "image-skew"    // the worker image is newer than the control plane: not a supported pair
	OnDelete     Action = "on-delete"     // the template changes; a machine is replaced when somebody deletes it
	Unknown      Action = "unknown"       // cannot be told offline; it may be a rollout
	Latent       Action = "latent"        // a rollout that starts with the cluster's next reconcile, not with the change itself
	Rollout      Action = "rollout"       // every machine of the pool is replaced, a few at a time
	Address      Action = "address"       // endpoint or certificate names change: kubeconfigs may break
	Replace      Action = "replace"       // all machines of the pool go before the new ones are there
	Frozen       Action = "frozen"        // every later reconcile of the cluster fails, nothing reaches it any more
	Rejected     Action = "rejected"      // an API server refuses it: nothing happens
	Delete       Action = "delete"        //
)

// Actions are all actions, mildest first.
var Actions = []Action{None, InPlace, Scale, Create, ControlPlane, ImageSkew, OnDelete, Unknown, Latent, Rollout, Address, Replace, Frozen, Rejected, Delete}

// AtLeast reports whether an action is as severe as a threshold. Whatever may replace machines reaches the threshold rollout: what is
// unknown, and what is latent, too.
func (a Action) AtLeast(threshold Action) bool {
	if threshold == Rollout && (a == Unknown || a == Latent) {
		return true
	}
	return a.rank() >= threshold.rank()
}

func (a Action) rank() int { return slices.Index(Actions, a) }

// Rolls reports whether machines are replaced because of it, now or soon.
func (a Action) Rolls() bool { return a == Rollout || a == Latent || a == Replace }

// Machines is how many machines a pool has: a fixed number, or what the autoscaler may choose from.
type Machines struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

func (m Machines) plus(o Machines) Machines { return Machines{m.Min + o.Min, m.Max + o.Max} }

// String is "3 machines" or "2 to 10 machines".
func (m Machines) String() string {
	switch {
	case m.Min != m.Max:
		return fmt.Sprintf("%d to %d machines", m.Min, m.Max)
	case m.Max == 1:
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", m.Max)
}

// Report is what a change does.
type Report struct {
	Version  string   `json:"version"`  // of this format
	Base     string   `json:"base"`     // what is compared: a commit's hash, or a folder
	Head     string   `json:"head"`     //
	Clusters []*Diff  `json:"clusters"` // those on which something happens, by namespace and name
	Same     int      `json:"same"`     // how many clusters were compared and nothing happens on them
	Skipped  int      `json:"skipped"`  // tenants not looked at, since nothing that they are made from differs
	Objects  []Object `json:"objects"`  // other manifests that differ
	Classes  []Class  `json:"classes"`  // ClusterClasses that differ, with what follows from it
	Notes    []string `json:"notes"`    // what was not checked, and what is taken for granted
}

// FormatVersion is the version of the JSON form. Fields may be added to it; none changes its meaning.
const FormatVersion = "copyhold.dev/impact/v1"

// Diff is what happens to one cluster.
type Diff struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Tier      string   `json:"tier"`
	Class     string   `json:"class"`            // namespace/name of its ClusterClass
	Digest    string   `json:"digest,omitempty"` // of the class and its templates: the prediction holds for a live class of this content
	Changes   []Change `json:"changes"`          // the cluster itself first, then its worker pools by name
	at        diag.Pos
}

// String is namespace/name.
func (d *Diff) String() string { return d.Namespace + "/" + d.Name }

// Worst is the most severe action on the cluster.
func (d *Diff) Worst() Action {
	worst := None
	for _, c := range d.Changes {
		if c.Action.rank() > worst.rank() {
			worst = c.Action
		}
	}
	return worst
}

// Change is one thing that happens.
type Change struct {
	Action       Action       `json:"action"`
	Pool         string       `json:"pool,omitempty"`         // worker pool; empty for the cluster and its control plane
	Machines     *Machines    `json:"machines,omitempty"`     // that it happens to
	Words        string       `json:"words,omitempty"`        // what it means, when the action does not say all
	Causes       []Cause      `json:"causes,omitempty"`       // why
	Differences  []Difference `json:"differences,omitempty"`  // what of the objects that Cluster API makes is not what it was
	Hash         string       `json:"hash,omitempty"`         // rollout hash after the change
	Acknowledged bool         `json:"acknowledged,omitempty"` // the ledger says that somebody has accepted this hash
	Policy       string       `json:"policy,omitempty"`       // what applies to rollouts here: allow, warn or acknowledge
	Condition    string       `json:"condition,omitempty"`    // on which it depends: see IfHeldBack
}

// Conditions of a change. Whether a worker pool with deferUpgrade is held back from an upgrade of its cluster stands in the management
// cluster alone: the requests before and after a change have one version.
const (
	IfHeldBack     = "if-held-back"     // machines are replaced only if the pool is held back
	UnlessHeldBack = "unless-held-back" // if the pool is held back, machines are replaced when deferUpgrade is taken away
)

// Cause is why something happens.
type Cause struct {
	At     string `json:"at,omitempty"` // file:line:col
	Field  string `json:"field"`        // in the request's or the catalog's words
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
	Class  bool   `json:"class,omitempty"` // it lies in the ClusterClass, not in the request

	pos diag.Pos
}

// Difference is one value of an object that Cluster API makes.
type Difference struct {
	Object string `json:"object,omitempty"` // its kind
	Path   string `json:"path"`
	Before any    `json:"before"`
	After  any    `json:"after"`
}

// Object is a manifest other than a Cluster that differs.
type Object struct {
	Action Action `json:"action"` // create, in-place or delete; address for what hands out addresses
	Kind   string `json:"kind"`
	Name   string `json:"name"` // namespace/name
	Words  string `json:"words,omitempty"`
}

// Class is a ClusterClass that differs, and how far that reaches.
type Class struct {
	Name     string         `json:"name"`     // namespace/name
	Clusters int            `json:"clusters"` // of the class
	Reach    map[Action]int `json:"reach"`    // clusters by their worst action
	Words    []string       `json:"words,omitempty"`
}

// Total is a count of an action.
type Total struct {
	Clusters, Pools int
	Machines        Machines
}

// Totals are counted over all clusters: by action, what it happens to.
func (r *Report) Totals() map[Action]Total {
	out := map[Action]Total{}
	for _, d := range r.Clusters {
		seen := map[Action]bool{}
		for _, c := range d.Changes {
			t := out[c.Action]
			if !seen[c.Action] {
				t.Clusters++
			}
			seen[c.Action] = true
			if c.Pool != "" {
				t.Pools++
			}
			if c.Machines != nil {
				t.Machines = t.Machines.plus(*c.Machines)
			}
			out[c.Action] = t
		}
	}
	return out
}

// Worst is the most severe action of the report.
func (r *Report) Worst() Action {
	worst := None
	for _, d := range r.Clusters {
		if w := d.Worst(); w.rank() > worst.rank() {
			worst = w
		}
	}
	for _, o := range r.Objects {
		if o.Action.rank() > worst.rank() {
			worst = o.Action
		}
	}
	return worst
}

// Reaches reports whether anything in the report is as severe as a threshold.
func (r *Report) Reaches(threshold Action) bool {
	for _, d := range r.Clusters {
		for _, c := range d.Changes {
			if c.Action.AtLeast(threshold) {
				return true
			}
		}
	}
	return slices.ContainsFunc(r.Objects, func(o Object) bool { return o.Action.AtLeast(threshold) })
}

// bySeverity orders clusters worst first, then by name.
func bySeverity(clusters []*Diff) []*Diff {
	return slices.SortedStableFunc(slices.Values(clusters), func(a, b *Diff) int {
		return cmp.Or(cmp.Compare(b.Worst().rank(), a.Worst().rank()), cmp.Compare(a.String(), b.String()))
	})
}
