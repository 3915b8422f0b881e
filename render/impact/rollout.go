package impact

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
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
		a.action, a.words = InPlace, held(before)
	case before.Deferred != after.Deferred && onlyVersion(differences) && before.Version() == after.Version():
		a.action, a.words = InPlace, "deferUpgrade is set: the pool keeps the version it has"
		if before.Deferred {
			a.action, a.condition = Rollout, IfHeldBack
			a.words = fmt.Sprintf("deferUpgrade is taken away: machines are replaced if the pool was held back from an upgrade, and move to %s; if not, nothing happens to them", after.Version())
		}
	case !certain && unknown != "":
		a.action, a.words = Unknown, undecided
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
	if before.Deferred && after.Deferred && slices.Contains([]Action{Rollout, OnDelete, Latent}, a.action) {
		a.condition = UnlessHeldBack
		a.words = join(a.words, "if the pool is held back from an upgrade by deferUpgrade, this waits until that is taken away")
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
	if a == "" {
		return b
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

// causes finds what makes a pool's hash differ, by asking Cluster API's engine about one change at a time.
func (c *comparer) causes(was, is *render.Cluster, pool string, before, after *topology.Pool, differences []topology.Difference, certain bool) ([]Cause, error) {
	var out []Cause
	var base map[string]topology.PartKey // what the pools depend on: all that is left to be seen when nothing is certain
	if !certain {
		var err error
		if base, err = was.Class.PoolKeys(was.Manifest); err != nil {
			return nil, err
		}
	}
	differs := func(class *topology.Class, o *manifest.Object, s *topology.Schemas) bool {
		if !certain {
			keys, err := class.PoolKeys(o)
			return err == nil && keys[pool] != base[pool]
		}
		pools, problems, err := class.Pools(o)
		if err != nil || len(problems) > 0 || pools[pool] == nil {
			return false // a mixture that never was: nothing follows from it
		}
		other, err := topology.Certain(before, pools[pool], s)
		return err == nil && other
	}
	if was.Class.Key() != is.Class.Key() {
		out = append(out, c.tierCause(was, is))
	} else if was.Class.Digest() != is.Class.Digest() {
		if !topology.Equal(was.Manifest.Object["spec"], is.Manifest.Object["spec"]) && !differs(is.Class, was.Manifest, c.was.Schemas) {
			// the class alone would not do it
		} else {
			out = append(out, classCauses(was, is, before, after, differences)...)
		}
	}
	all := c.candidates(was, is, pool)
	for _, candidate := range all {
		if differs(was.Class, candidate.alone, c.was.Schemas) {
			out = append(out, candidate.cause)
		}
	}
	if len(out) == 0 { // only all of it together does
		for _, candidate := range all {
			out = append(out, candidate.cause)
		}
	}
	if len(out) == 0 && was.Class.Digest() != is.Class.Digest() {
		out = classCauses(was, is, before, after, differences)
	}
	return out, nil
}

// tierCause is why a cluster has another class: its request names another tier, or the tier has another class.
func (c *comparer) tierCause(was, is *render.Cluster) Cause {
	if a, b := was.Request.Spec.Tier, is.Request.Spec.Tier; a != b {
		return at(is.Request.At("spec", "tier"), "tier", a, b)
	}
	tier := is.Request.Spec.Tier
	return at(c.is.Input.Catalog.At("tiers", tier, "class"), "class of tier "+tier, was.Class.Key().String(), is.Class.Key().String())
}

func at(pos diag.Pos, field string, before, after any) Cause {
	return Cause{At: pos.String(), pos: pos, Field: field, Before: before, After: after}
}

type candidate struct {
	cause Cause
	alone *manifest.Object // the old Cluster with this change only
}

// candidates are the single changes between two states of a Cluster that could bear on one pool.
func (c *comparer) candidates(was, is *render.Cluster, pool string) []candidate {
	var out []candidate
	if a, b := was.Request.Spec.Version, is.Request.Spec.Version; a != b {
		out = append(out, candidate{at(is.Request.At("spec", "version"), "version", a, b), topology.With(was.Manifest, b, "version")})
	}
	scopes := []string{""}
	if pool != "" {
		scopes = append(scopes, pool)
	}
	for _, scope := range scopes {
		old, now := topology.Variables(was.Manifest, scope), topology.Variables(is.Manifest, scope)
		names := map[string]bool{}
		for n := range old {
			names[n] = true
		}
		for n := range now {
			names[n] = true
		}
		for _, n := range catalog.Sorted(names) {
			if topology.Equal(old[n], now[n]) {
				continue
			}
			out = append(out, candidate{c.variableCause(was, is, scope, n), topology.WithVariable(was.Manifest, scope, n, now[n])})
		}
	}
	out = append(out, c.poolCandidates(was, is, pool)...)
	for _, f := range []struct {
		words string
		get   func(*manifest.Object) map[string]string
		set   func(*manifest.Object, map[string]string)
	}{
		{"labels of the Cluster", (*manifest.Object).GetLabels, (*manifest.Object).SetLabels},
		{"annotations of the Cluster", own, (*manifest.Object).SetAnnotations},
	} {
		if old, now := f.get(was.Manifest), f.get(is.Manifest); !maps.Equal(old, now) {
			alone := was.Manifest.DeepCopy()
			f.set(alone, now)
			cause, _ := c.byOverlay(was, is, func(o *manifest.Object) any { return f.get(o) }, Cause{Field: f.words, Before: old, After: now})
			out = append(out, candidate{cause, alone})
		}
	}
	network := func(o *manifest.Object) any { return o.Object["spec"].(map[string]any)["clusterNetwork"] }
	if a, b := network(was.Manifest), network(is.Manifest); !topology.Equal(a, b) {
		alone := was.Manifest.DeepCopy()
		alone.Object["spec"].(map[string]any)["clusterNetwork"] = b
		cause, _ := c.byOverlay(was, is, network, at(is.Request.At("spec", "clusterNetwork"), "clusterNetwork", a, b))
		out = append(out, candidate{cause, alone})
	}
	return out
}

// variableCause says who has changed a variable: an overlay, the request or the ledger.
func (c *comparer) variableCause(was, is *render.Cluster, scope, name string) Cause {
	get := func(o *manifest.Object) any { return topology.Variables(o, scope)[name] }
	cause := Cause{Field: "variable " + name, Before: get(was.Manifest), After: get(is.Manifest)}
	if scope != "" { // a pool without a value of its own has the cluster's
		if cause.Before == nil {
			cause.Before = topology.Variables(was.Manifest, "")[name]
		}
		if cause.After == nil {
			cause.After = topology.Variables(is.Manifest, "")[name]
		}
	}
	if overlay, ok := c.byOverlay(was, is, get, cause); ok {
		return overlay
	}
	now, written := is.Written(name, scope)
	before, wasWritten := was.Written(name, scope)
	switch {
	case wasWritten && !before.Default && (!written || now.Default): // a line that is gone: it can only be said where it was
		pos := is.Request.KeyAt(append([]string{"spec"}, strings.Split(before.Field, ".")...)...)
		return at(pos, before.Field+", which is taken away", cause.Before, cause.After)
	case written:
		return at(now.At, now.Field, cause.Before, cause.After)
	case wasWritten:
		cause.Field = before.Field
	}
	return cause
}

// byOverlay names the overlay that makes a change. It is not ok, and the cause is as it was, where none does.
func (c *comparer) byOverlay(was, is *render.Cluster, get func(*manifest.Object) any, of Cause) (cause Cause, ok bool) {
	overlay := is.Overlaid(was, get)
	if overlay == "" {
		return of, false
	}
	field := "overlay " + overlay + ": " + of.Field
	if _, there := c.is.Input.Catalog.Overlays[overlay]; !there {
		return Cause{Field: field + ", overlay taken away", Before: of.Before, After: of.After}, true
	}
	return at(c.is.Input.Catalog.At("overlays", overlay), field, of.Before, of.After), true
}

// own are a Cluster's annotations without those that carry rollout hashes.
func own(o *manifest.Object) map[string]string {
	out := o.GetAnnotations()
	maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasPrefix(k, topology.AnnotationPrefix) })
	return out
}

// poolCandidates are the changes of a pool's own fields.
func (c *comparer) poolCandidates(was, is *render.Cluster, pool string) []candidate {
	var out []candidate
	old, now := topology.PoolOf(was.Manifest, pool), topology.PoolOf(is.Manifest, pool)
	for _, field := range []string{"class", "failureDomain", "rollout", "metadata", "replicas"} {
		if topology.Equal(old[field], now[field]) {
			continue
		}
		written, before, after := field, old[field], now[field]
		if field == "metadata" {
			written, before, after = metadataChange(old, now)
		}
		get := func(o *manifest.Object) any { return topology.PoolOf(o, pool)[field] }
		cause, overlaid := c.byOverlay(was, is, get, at(is.Request.At("spec", "workers", pool, written), "workers."+pool+"."+written, before, after))
		if !overlaid && field == "class" && is.Request.Spec.Workers[pool].Class == "" && was.Request.Spec.Workers[pool].Class == "" {
			tier := is.Request.Spec.Tier
			cause = at(c.is.Input.Catalog.At("tiers", tier, "workerClass"), "workerClass of tier "+tier, before, after)
		}
		out = append(out, candidate{cause, topology.WithPool(was.Manifest, pool, field, now[field])})
	}
	return out
}

// metadataChange says a change of a pool's metadata in the words of a request.
func metadataChange(old, now map[string]any) (field string, before, after any) {
	a, _ := old["metadata"].(map[string]any)
	b, _ := now["metadata"].(map[string]any)
	if !topology.Equal(a["labels"], b["labels"]) {
		return "labels", a["labels"], b["labels"]
	}
	notesA, _ := a["annotations"].(map[string]any)
	notesB, _ := b["annotations"].(map[string]any)
	_, deferredA := notesA[clusterv1.ClusterTopologyDeferUpgradeAnnotation]
	_, deferredB := notesB[clusterv1.ClusterTopologyDeferUpgradeAnnotation]
	if deferredA != deferredB {
		return "deferUpgrade", deferredA, deferredB
	}
	return "annotations", a["annotations"], b["annotations"]
}

// classCauses name the patches and templates of a class that write what differs.
func classCauses(was, is *render.Cluster, before, after *topology.Pool, differences []topology.Difference) []Cause {
	var out []Cause
	for _, w := range topology.ClassChanges(was.Class, is.Class, after, differences) {
		out = append(out, Cause{Field: w, Class: true})
	}
	if len(out) == 0 {
		out = append(out, Cause{Field: "class " + is.Class.Key().String(), Class: true})
	}
	return out
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
