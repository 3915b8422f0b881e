package topology_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/impact"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// pair is a cluster before and after an edit: what was said of it, and what came of it.
type pair struct {
	name string
	done []string // the edits in words

	was, is *render.Cluster
	diff    *impact.Diff // nil when nothing is said

	before, after *state
	refused       error // by a webhook, or it was never rendered
	failed        error // of the reconcile
}

func (p pair) said(action impact.Action, pool string) bool {
	return p.diff != nil && slices.ContainsFunc(p.diff.Changes, func(c impact.Change) bool { return c.Action == action && (c.Pool == pool || pool == "*") })
}

// outcome is what came of it, in a word.
func (p pair) outcome() string {
	switch {
	case p.before != nil && slices.ContainsFunc(catalog.Sorted(p.before.pools), p.held):
		return "held back"
	case p.failed == errRestless:
		return "restless"
	case p.failed != nil:
		return "frozen"
	case p.refused != nil:
		return "rejected"
	case len(p.before.rolled(p.after)) > 0:
		return "rollout"
	case p.before.controlPlane != p.after.controlPlane:
		return "control-plane"
	case p.before.print != p.after.print:
		return "in-place"
	}
	return "none"
}

// spent reports whether the cluster is no base for another edit: it stands still, or the tree does not tell its state.
func (p pair) spent() bool {
	if p.failed != nil || p.refused != nil {
		return true
	}
	return slices.ContainsFunc(topology.PoolNames(p.is.Manifest), func(pool string) bool {
		md := p.after.pools[pool]
		return md.Template.Spec.Version != topologyVersion(p.is.Manifest)
	})
}

// held are the pools that are on another version than their cluster, since their upgrade is deferred: the tree does not tell.
func (p pair) held(pool string) bool {
	md, ok := p.before.pools[pool]
	return ok && md.Template.Spec.Version != topologyVersion(p.was.Manifest)
}

// judgeHeld is judge for a cluster with a pool that is held back. What else is asked of that pool waits, so less happens than is said; and
// the cluster cannot be upgraded further.
func (p pair) judgeHeld() string {
	if p.failed != nil || p.refused != nil {
		return ""
	}
	rolled := p.before.rolled(p.after)
	for _, pool := range catalog.Sorted(p.before.pools) {
		said := p.said(impact.Rollout, pool) || p.said(impact.Latent, pool) || p.said(impact.OnDelete, pool) || p.said(impact.Unknown, pool)
		happened := slices.Contains(rolled, pool)
		if happened && !said || !happened && p.perhaps(pool) && p.held(pool) {
			return fmt.Sprintf("rollout of %s, which is held back: %v, said: %v, happened: %v", pool, p.held(pool), said, happened)
		}
	}
	return ""
}

// judge complains when what was said is not what happened.
func (p pair) judge() string {
	if p.before != nil && slices.ContainsFunc(catalog.Sorted(p.before.pools), p.held) {
		return p.judgeHeld()
	}
	if p.failed == errRestless && p.unknown() {
		return ""
	}
	if p.failed != nil || p.said(impact.Frozen, "*") {
		if p.failed == nil {
			return "said to be frozen, and reconciles"
		}
		if !p.said(impact.Frozen, "*") {
			return fmt.Sprintf("frozen, and nobody said so: %v", p.failed)
		}
		return ""
	}
	if (p.refused != nil) != p.said(impact.Rejected, "*") {
		return fmt.Sprintf("said to be rejected: %v; refused: %v", p.said(impact.Rejected, "*"), p.refused)
	}
	if p.after == nil {
		return ""
	}
	rolled := p.before.rolled(p.after)
	for _, pool := range catalog.Sorted(p.before.pools) {
		_, still := p.after.pools[pool]
		said := p.said(impact.Rollout, pool) || p.said(impact.Latent, pool) || p.said(impact.OnDelete, pool)
		happened := slices.Contains(rolled, pool)
		switch {
		case !still, p.said(impact.Unknown, pool):
		case said && !happened && p.perhaps(pool):
		case said != happened:
			return fmt.Sprintf("rollout of %s said: %v, happened: %v", pool, said, happened)
		case p.is.Manifest == nil || p.refused != nil || p.is.Hashes[pool] == "" && p.was.Hashes[pool] == "":
		case happened != (p.was.Hashes[pool] != p.is.Hashes[pool]) && !p.excepted(pool):
			return fmt.Sprintf("rollout of %s happened: %v, its hash went from %s to %s", pool, happened, p.was.Hashes[pool], p.is.Hashes[pool])
		}
	}
	if said, happened := p.said(impact.ControlPlane, ""), p.before.controlPlane != p.after.controlPlane; said != happened && !p.said(impact.Unknown, "") {
		return fmt.Sprintf("change of the control plane said: %v, happened: %v", said, happened)
	}
	if p.diff == nil && p.before.print != p.after.print {
		return "nothing was said to happen, and something did"
	}
	return ""
}

// unknown reports whether something was said not to be known.
func (p pair) unknown() bool {
	return p.diff != nil && slices.ContainsFunc(p.diff.Changes, func(c impact.Change) bool {
		return c.Action == impact.Unknown || strings.Contains(c.Words, "what only the management cluster knows")
	})
}

// perhaps reports whether a rollout was foretold for a pool only if it was held back before, which nothing in the tree says.
func (p pair) perhaps(pool string) bool {
	return p.diff != nil && slices.ContainsFunc(p.diff.Changes, func(c impact.Change) bool {
		return c.Pool == pool && c.Condition == impact.IfHeldBack
	})
}

// excepted reports whether a pool's hash changes though nothing is replaced, as it must where a state, and not the step to it, is hashed.
func (p pair) excepted(pool string) bool {
	return p.diff != nil && slices.ContainsFunc(p.diff.Changes, func(c impact.Change) bool {
		return c.Pool == pool && (strings.HasPrefix(c.Words, "deferUpgrade") || strings.Contains(c.Words, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation) || strings.HasPrefix(c.Words, "rollout.after is taken away"))
	})
}

// tell is all there is to know about a pair that came out otherwise than was said.
func (p *player) tell(x pair) string {
	var b strings.Builder
	fmt.Fprintf(&b, "class %s, cluster %s\nedits:\n  %s\n", p.repo.file, x.name, strings.Join(x.done, "\n  "))
	fmt.Fprintf(&b, "edits of the class so far:\n  %s\n", strings.Join(p.history, "\n  "))
	if x.diff != nil {
		for _, c := range x.diff.Changes {
			fmt.Fprintf(&b, "said: %s %s %s %s\n", c.Action, c.Pool, c.Words, toJSON(c.Differences))
		}
	}
	fmt.Fprintf(&b, "refused: %v\nfailed: %v\n", x.refused, x.failed)
	if x.was.Manifest != nil && x.is.Manifest != nil {
		fmt.Fprintf(&b, "Cluster (-was +is):\n%s", cmp.Diff(x.was.Manifest.Object, x.is.Manifest.Object))
	}
	if x.before != nil && x.after != nil {
		fmt.Fprintf(&b, "pools (-before +after):\n%s", cmp.Diff(x.before.pools, x.after.pools))
		fmt.Fprintf(&b, "control plane before: %s\nafter: %s\n", x.before.controlPlane, x.after.controlPlane)
	}
	fmt.Fprintf(&b, "Cluster before: %s\n", toJSON(x.was.Manifest))
	return b.String()
}

func topologyVersion(o *manifest.Object) string {
	spec, _ := o.Object["spec"].(map[string]any)
	t, _ := spec["topology"].(map[string]any)
	v, _ := t["version"].(string)
	return v
}
