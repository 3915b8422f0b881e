package impact

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// poolPair is two states of a pool. Pools of many clusters share one: the answer does too, where the class alone is the cause.
type poolPair struct{ was, is topology.PartKey }

type poolAnswer struct {
	action      Action
	words       string
	condition   string
	causes      []Cause
	differences []Difference
}

// rollout says what follows when the hash of a pool is not what it was.
func (c *comparer) rollout(was, is *render.Cluster, name string, before, after *topology.Pool) (*poolAnswer, error) {
	classOnly := was.Class.Key() == is.Class.Key() && topology.Equal(was.Manifest.Object["spec"], is.Manifest.Object["spec"])
	var pair poolPair
	if classOnly {
		a, err := was.Class.PoolKeys(was.Manifest)
		if err != nil {
			return nil, err
		}
		b, err := is.Class.PoolKeys(is.Manifest)
		if err != nil {
			return nil, err
		}
		pair = poolPair{a[name], b[name]}
		c.mu.Lock()
		known := c.pools[pair]
		c.mu.Unlock()
		if known != nil {
			return known, nil
		}
	}
	answer, err := c.workOut(was, is, name, before, after)
	if err == nil && classOnly {
		c.mu.Lock()
		c.pools[pair] = answer
		c.mu.Unlock()
	}
	return answer, err
}

func (c *comparer) workOut(was, is *render.Cluster, name string, before, after *topology.Pool) (*poolAnswer, error) {
	differences, err := before.Differences(after, c.is.Schemas)
	if err != nil {
		return nil, err
	}
	a := &poolAnswer{action: Rollout, differences: plain(differences)}
	certain, err := topology.Certain(before, after, c.is.Schemas)
	if err != nil {
		return nil, err
	}
	unknown := list(slices.Concat(before.Unknown, after.Unknown))
	undecided := "its machines depend on what only the management cluster knows (" + unknown + "): a rollout can be neither foretold nor ruled out"
	refused, err := c.refusedByServer(before, after)
	if err != nil {
		return nil, err
	}
	switch {
	case refused != "":
		a.action, a.words = Frozen, refused
	case waits(before, after):
		a.action, a.words = InPlace, held(before, after)
	case (before.Deferred == "") != (after.Deferred == "") && onlyVersion(differences) && before.Version() == after.Version():
		a.action, a.words = InPlace, after.Deferred+" is set: the pool keeps the version it has"
		if before.Deferred != "" {
			a.action, a.condition = Rollout, IfHeldBack
			a.words = fmt.Sprintf("%s is taken away: machines are replaced if the pool was held back from an upgrade, and move to %s; if not, nothing happens to them", before.Deferred, after.Version())
		}
	case !certain && unknown != "":
		a.action, a.words = Unknown, undecided
	case !certain && after.Deferred != "":
		a.action, a.words = InPlace, after.Deferred+": nothing is replaced on "+after.Version()+"; the pool's rollout hash speaks of every version that it may be on, and changes"
	case !certain:
		a.action, a.words = InPlace, "nothing is replaced: only the schemas in the catalog's folder crds change, and with them the pool's rollout hash"
	case onlyAfterGone(differences):
		a.action, a.words = InPlace, "rollout.after is taken away: nothing is replaced for that"
	case after.OnDelete():
		a.action, a.words = OnDelete, "the pool's strategy is OnDelete: a machine takes the new form when somebody deletes it"
	case was.Class.Digest() != is.Class.Digest() && was.Class.SameClass(is.Class) && topology.Equal(was.Manifest.Object["spec"], is.Manifest.Object["spec"]):
		a.action, a.words = Latent, "a template is edited under its old name, which Cluster API does not watch: the rollout starts with the cluster's next reconcile, at its next sync or within ten minutes"
	}
	if a.causes, err = c.causes(was, is, name, before, after, differences, certain); err != nil {
		return nil, err
	}
	switch {
	case unknown != "" && a.action == InPlace && !waits(before, after): // a pool that waits waits with all of it
		a.action, a.words = Unknown, join(a.words, undecided)
	case unknown != "" && a.action.Rolls():
		a.words = join(a.words, "what else changes depends on what only the management cluster knows ("+unknown+")")
	}
	if before.Deferred != "" && after.Deferred != "" && slices.Contains([]Action{Rollout, OnDelete, Latent}, a.action) {
		a.condition = UnlessHeldBack
		a.words = join(a.words, "if the pool is held back from an upgrade by "+after.Deferred+", this waits until that is taken away")
	}
	if second := secondRollout(before, after); second != "" && a.action == Rollout {
		a.words = join(a.words, second)
	}
	return a, nil
}

func onlyVersion(differences []topology.Difference) bool {
	return !slices.ContainsFunc(differences, func(d topology.Difference) bool { return d.Object != "" || d.Path != "version" })
}

// onlyAfterGone reports whether nothing differs but the time of a rollout that is no longer asked for.
func onlyAfterGone(differences []topology.Difference) bool {
	return len(differences) == 1 && differences[0].Object == "" && differences[0].Path == "after" && differences[0].After == nil
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// refusedByServer asks the schemas about what Cluster API makes of a pool, in words; "" when they take it, or took it no more before. A
// pool that is new has no state before.
func (c *comparer) refusedByServer(before, after *topology.Pool) (string, error) {
	if before != nil && waits(before, after) { // nothing is made of it meanwhile
		return "", nil
	}
	objects := [][2]*manifest.Object{{nil, after.Infrastructure}, {nil, after.Bootstrap}}
	if before != nil {
		objects[0][0], objects[1][0] = before.Infrastructure, before.Bootstrap
	}
	for _, o := range objects {
		was, is := o[0], o[1]
		if was != nil && topology.Equal(was.Object["spec"], is.Object["spec"]) {
			continue
		}
		problems, err := c.is.Schemas.Validate(is, was)
		if err != nil {
			return "", err
		}
		var known []topology.Problem
		if was != nil {
			if known, err = c.was.Schemas.Validate(was, nil); err != nil {
				return "", err
			}
		}
		if len(problems) > 0 && !slices.Equal(problems, known) {
			return "the API server refuses what Cluster API makes of it (" + is.GetKind() + ": " + words(problems) + "): nothing is replaced, and every later reconcile of the cluster fails", nil
		}
	}
	return "", nil
}

func plain(differences []topology.Difference) []Difference {
	var out []Difference
	for _, d := range differences {
		out = append(out, Difference(d))
	}
	return out
}

// imageSkew finds a worker image that is newer than the control plane and was not before: a kubelet must not be newer than its API
// server (the version skew policy of Kubernetes).
func imageSkew(before, after *topology.Pool) string {
	skewed := func(p *topology.Pool) bool {
		v := p.ImageVersion()
		return v != "" && semver.Compare(v, p.Version()) > 0
	}
	if !skewed(after) || skewed(before) {
		return ""
	}
	return fmt.Sprintf("the worker image is %s, the control plane %s: a kubelet must not be newer than its API server", after.ImageVersion(), after.Version())
}

// secondRollout finds a rollout that will have to be done again: the version moves and the image does not, or the other way about.
func secondRollout(before, after *topology.Pool) string {
	image, was := after.ImageVersion(), before.ImageVersion()
	versionMoves, imageMoves := before.Version() != after.Version(), image != was
	switch {
	case image == "" || versionMoves == imageMoves || image == after.Version():
		return ""
	case versionMoves:
		return fmt.Sprintf("the worker image stays at %s: moving it to %s later replaces these machines a second time, so change both in one commit", image, after.Version())
	}
	return fmt.Sprintf("the version stays at %s: moving it to %s later replaces these machines a second time, so change both in one commit", after.Version(), image)
}

func list(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
