package impact

import (
	"maps"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

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
	differs := func(class *topology.Class, o *manifest.Object) bool {
		if !certain {
			keys, err := class.PoolKeys(o)
			return err == nil && keys[pool] != base[pool]
		}
		pools, problems, err := class.Pools(o)
		if err != nil || len(problems) > 0 || pools[pool] == nil {
			return false // a mixture that never was: nothing follows from it
		}
		other, err := topology.Certain(before, pools[pool], c.was.Schemas)
		return err == nil && other
	}
	switch {
	case was.Class.Key() != is.Class.Key():
		out = append(out, c.tierCause(was, is))
	case was.Class.Digest() != is.Class.Digest() && (topology.Equal(was.Manifest.Object["spec"], is.Manifest.Object["spec"]) || differs(is.Class, was.Manifest)): // the class alone does it
		out = append(out, classCauses(was, is, before, after, differences)...)
	}
	all := c.candidates(was, is, pool)
	for _, candidate := range all {
		if differs(was.Class, candidate.alone) {
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
	out = append(out, c.variableCandidates(was, is, pool)...)
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
			cause, _ := c.byOverlay(was, is, func(o *manifest.Object) any { return f.get(o) }, Cause{Field: f.words, Before: without(old, now), After: without(now, old)})
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

// variableCandidates are the variables that have another value for a pool, or for the control plane where pool is "". One that is written
// at another place, and stays what it was, is none.
func (c *comparer) variableCandidates(was, is *render.Cluster, pool string) []candidate {
	var out []candidate
	old, now := topology.Variables(was.Manifest, ""), topology.Variables(is.Manifest, "")
	var oldOwn, nowOwn map[string]any
	names := map[string]bool{}
	if pool != "" {
		oldOwn, nowOwn = topology.Variables(was.Manifest, pool), topology.Variables(is.Manifest, pool)
	}
	for _, values := range []map[string]any{old, now, oldOwn, nowOwn} {
		for n := range values {
			names[n] = true
		}
	}
	effective := func(n string, own, values map[string]any) any {
		if v, there := own[n]; there {
			return v
		}
		return values[n]
	}
	for _, n := range catalog.Sorted(names) {
		if topology.Equal(effective(n, oldOwn, old), effective(n, nowOwn, now)) {
			continue
		}
		alone, scope := topology.WithVariable(was.Manifest, "", n, now[n]), ""
		if !topology.Equal(oldOwn[n], nowOwn[n]) {
			alone, scope = topology.WithVariable(alone, pool, n, nowOwn[n]), pool
		}
		out = append(out, candidate{c.variableCause(was, is, scope, n), alone})
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
	return c.overlayCause(overlay, of), true
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
		out = append(out, candidate{c.poolCause(was, is, pool, field), topology.WithPool(was.Manifest, pool, field, now[field])})
	}
	return out
}

// without is what of one map the other has not, or has otherwise; nil when that is nothing.
func without(m, other map[string]string) any {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(k, v string) bool { was, ok := other[k]; return ok && was == v })
	if len(m) == 0 {
		return nil
	}
	return m
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
		out = append(out, theClass(is))
	}
	return out
}
