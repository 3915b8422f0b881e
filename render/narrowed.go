package render

import (
	"fmt"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/strict"
	"copyhold.dev/copyhold/render/topology"
)

// What a class no longer takes must not break those who have it: a running cluster is rendered with what it has, and is warned. Its
// Cluster lies in the management cluster as it is, and Cluster API refuses any other from then on. For a cluster that is new, and for a
// field that the change at hand touches, it is an error.

// narrowing is a value of a running cluster that its class does not take.
type narrowing struct {
	origin   []string // in the request
	variable string
	detail   string // what Cluster API says
}

// allow judges anew a running cluster that Cluster API refuses, without the choices and bounds of the values that it refuses. When that
// is not all that is wrong with it, the answer stays what it was.
func (b *builder) allow(d *draft, o *manifest.Object, a topology.Admission) topology.Admission {
	if b.probing || a.Err != nil || len(a.Problems) == 0 || d.isNew() || d.record.Class != d.class.Key().String() || d.enters("spec", "tier") {
		return a
	}
	base, err := d.base, error(nil)
	if base == nil && b.in.was != nil {
		if base, err = b.in.was(); err != nil {
			return topology.Admission{Err: err}
		}
	}
	var all []narrowing
	var paths [][]string
	for _, p := range a.Problems {
		n, path := d.narrowing(p)
		if path == nil || base.touches(d.request, n.origin) || n.origin[1] == "workers" && base.adds(d.request, n.origin[2]) {
			return a
		}
		if !slices.ContainsFunc(all, func(x narrowing) bool { return x.variable == n.variable && slices.Equal(x.origin, n.origin) }) {
			all, paths = append(all, n), append(paths, path)
		}
	}
	class := b.allowing(d.class, paths)
	stored, problems, err := class.Admit(o)
	if err != nil || len(problems) > 0 {
		return a
	}
	if base == nil && slices.ContainsFunc(all, func(n narrowing) bool { return !d.recorded(n) }) && !b.ran(d, class, o, stored, paths) {
		return a // for all that is known here it may be a slip of the pen
	}
	d.class, d.narrowed = class, all
	return topology.Admission{Cluster: stored}
}

// adds reports whether the change brings a worker pool.
func (b *before) adds(c *request.Cluster, pool string) bool {
	was := b.of(c)
	if was == nil {
		return true
	}
	_, there := workersOf(was)[pool]
	return !there
}

// narrowing is what a problem is about, and the path of that variable's value; nil when it is about no value.
func (d *draft) narrowing(p topology.Problem) (narrowing, []string) {
	path := splitField(p.Field)
	origin, variable := d.locate(path)
	v := variablePath(path)
	if v == nil || variable == "" {
		return narrowing{}, nil
	}
	if origin[1] != "workers" && strict.Within(d.filled(), v) == nil { // a key with a dot in it: the path does not say which value it is
		return narrowing{}, nil
	}
	if len(origin) < 3 { // a default, which nobody has written
		origin = append([]string{"spec", "variables"}, v...)
	}
	return narrowing{origin, variable, inWords(strings.ReplaceAll(shorten(p.Detail), ` for cluster "x" in namespace "x"`, ""))}, v
}

// allowing is a class that takes any values at some places, worked out once.
func (b *builder) allowing(class *topology.Class, paths [][]string) *topology.Class {
	var key strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&key, "%q", p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := dressKey{class, key.String()}
	if b.opened[at] == nil {
		b.opened[at] = class.Allowing(paths...)
	}
	return b.opened[at]
}

// sayNarrowed warns of the values that the class does not take.
func (d *draft) sayNarrowed() {
	class := d.class.Key().Name
	for _, n := range d.narrowed {
		at, what := d.request.At(n.origin...), n.variable
		if n.origin[1] != "variables" {
			what = strings.Join(n.origin[1:], ".")
		}
		value := d.request.Text(n.origin...)
		switch {
		case d.recorded(n):
			d.refused.Add(diag.Warnf(d.record.At("spec", "defaults", n.variable), "ledger/frozen", "the default %s: %v that %s was admitted with is no longer allowed by class %q: %s: %s", n.variable, d.record.Defaults[n.variable], d.request, class, n.detail, everyChange).
				Hintf("until the class allows it again, the request sets another, or copyhold defaults accept %s", d.request))
		case n.variable == catalog.StorageVariable && d.accepted(d.hashes):
			d.refused.Add(diag.Warnf(at, "storage/tier-removed", "storage tier %q is gone from class %q, %s: %s, and no new machine finds a golden image", value, class, n.detail, everyChange).
				Hintf("put it back in dataVolume.storageTiers until no cluster uses it; another size rolls the workers"))
		case n.variable == catalog.StorageVariable:
			d.refused.Add(diag.Warnf(at, "storage/not-a-tier", "%q is not a storage tier of class %q, %s: Cluster API refuses it when the cluster does not have it, and %s when it does", value, class, n.detail, everyChange).
				Hintf("put it right; check --base REVISION tells what a change brings from what runs"))
		default:
			d.refused.Add(diag.Warnf(at, "class/narrowed", "%s %q of %s is not allowed by class %q: %s: %s", what, value, d.request, class, n.detail, everyChange).
				Hintf("the class must allow it until no cluster uses it; another value may roll the workers"))
		}
	}
}

// everyChange is what becomes of a running cluster with a value that its class does not take.
const everyChange = "every later change to the running cluster fails"

// recorded reports whether a value is a default that the ledger has recorded, and not the tenant's.
func (d *draft) recorded(n narrowing) bool {
	_, recorded := d.record.Defaults[n.variable]
	return recorded && !d.request.Has(n.origin...)
}

// ran reports whether the ledger shows that a cluster has run with what the class no longer takes: its machines are those that were
// accepted, and without it they would be others.
func (b *builder) ran(d *draft, class *topology.Class, o, stored *manifest.Object, paths [][]string) bool {
	if !d.accepted(b.hashesOf(class, stored)) {
		return false
	}
	plain, problems, err := d.class.Admit(without(o, paths))
	return err == nil && (len(problems) > 0 || !d.accepted(b.hashesOf(d.class, plain)))
}

// hashesOf are the rollout hashes of a Cluster; none when it cannot be worked out, which is said where it is rendered.
func (b *builder) hashesOf(class *topology.Class, stored *manifest.Object) map[string]string {
	pools, problems, err := class.Pools(stored)
	if err != nil || len(problems) > 0 {
		return nil
	}
	out := map[string]string{}
	for name, p := range pools {
		if out[name], err = p.Hash(b.schemas); err != nil {
			return nil
		}
	}
	return out
}

// without is a Cluster that does not say the values at some paths of variables.
func without(o *manifest.Object, paths [][]string) *manifest.Object {
	o = o.DeepCopy()
	topo, _ := lookup(o.Object, []string{"spec", "topology"}).(map[string]any)
	lists := []map[string]any{topo}
	mds, _ := lookup(topo, []string{"workers", "machineDeployments"}).([]any)
	for _, md := range mds {
		if m, ok := lookup(md.(map[string]any), []string{"variables"}).(map[string]any); ok {
			lists = append(lists, m)
		}
	}
	for _, holder := range lists {
		for _, field := range []string{"variables", "overrides"} {
			list, ok := holder[field].([]any)
			if !ok {
				continue
			}
			holder[field] = slices.DeleteFunc(list, func(v any) bool {
				entry, _ := v.(map[string]any)
				return slices.ContainsFunc(paths, func(p []string) bool { return entry["name"] == p[0] && remove(entry, p) })
			})
		}
	}
	return o
}

// remove takes the value at a path out of a variable; it reports whether that is all of it.
func remove(entry map[string]any, path []string) bool {
	if len(path) == 1 {
		return true
	}
	in, _ := entry["value"].(map[string]any)
	if parent := path[1 : len(path)-1]; len(parent) > 0 {
		in, _ = lookup(in, parent).(map[string]any)
	}
	delete(in, path[len(path)-1])
	return false
}

// accepted reports whether rollout hashes are those that the ledger has, as far as it has any.
func (d *draft) accepted(hashes map[string]string) bool {
	some := false
	for pool, h := range hashes {
		was := d.record.Rollouts[pool]
		if was != "" && was != h {
			return false
		}
		some = some || was != ""
	}
	return some
}
