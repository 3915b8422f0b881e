package impact

import (
	"fmt"
	"strconv"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// workers compares the worker pools of a cluster.
func (c *comparer) workers(d *Diff, was, is *render.Cluster) error {
	before, err := poolsOf(was)
	if err != nil {
		return err
	}
	after, err := poolsOf(is)
	if err != nil {
		return err
	}
	var gone, fresh []string
	for _, name := range topology.PoolNames(was.Manifest) {
		if after[name] == nil {
			gone = append(gone, name)
		}
	}
	for _, name := range topology.PoolNames(is.Manifest) {
		if before[name] == nil {
			fresh = append(fresh, name)
			refused, err := c.refusedByServer(nil, after[name])
			if err != nil {
				return err
			}
			if refused != "" {
				d.Changes = append(d.Changes, Change{Action: Frozen, Pool: name, Words: refused})
			}
			continue
		}
		changes, err := c.pool(was, is, name, before[name], after[name])
		if err != nil {
			return err
		}
		d.Changes = append(d.Changes, changes...)
	}
	d.Changes = append(d.Changes, comings(was, is, gone, fresh)...)
	return nil
}

func poolsOf(c *render.Cluster) (map[string]*topology.Pool, error) {
	pools, problems, err := c.Class.Pools(c.Manifest)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%s", words(problems))
	}
	return pools, err
}

// comings tells pools that come and go, and those that only seem to: Cluster API knows a pool by its name, so a new name is a new pool.
func comings(was, is *render.Cluster, gone, fresh []string) []Change {
	var out []Change
	left := len(gone) > 0
	for _, name := range gone {
		old := topology.PoolOf(was.Manifest, name)
		m := machines(old)
		twin := -1
		for i, n := range fresh {
			if topology.PoolOf(is.Manifest, n)["class"] == old["class"] && (twin < 0 || alike(old, topology.PoolOf(is.Manifest, n))) {
				twin = i
			}
		}
		if twin < 0 {
			out = append(out, Change{Action: Delete, Pool: name, Machines: &m, Words: "the pool is gone: its machines are drained and deleted",
				Causes: []Cause{at(is.Request.KeyAt("spec", "workers"), "workers."+name, "there", nil)}})
			continue
		}
		n := fresh[twin]
		fresh = append(fresh[:twin:twin], fresh[twin+1:]...)
		out = append(out, replaced(is, name, n, m))
	}
	for _, name := range fresh {
		m := machines(topology.PoolOf(is.Manifest, name))
		out = append(out, comes(is, name, m, left))
	}
	return out
}

// replaced is a pool that comes in place of another.
func replaced(is *render.Cluster, old, fresh string, m Machines) Change {
	c := heldTo(is, Change{Action: Replace, Pool: fresh, Machines: &m,
		Words:  fmt.Sprintf("worker pool %s gives way to %s: to Cluster API these are two pools, so %s and the new ones come without waiting for each other", old, fresh, goes(m)),
		Causes: []Cause{at(is.Request.KeyAt("spec", "workers", fresh), "workers", old, fresh)}})
	c.Pool = old
	return c
}

// comes is a pool that is new. One that comes while another goes, or after one that the ledger still has, or that the ledger has itself
// from before, has to be accepted.
func comes(is *render.Cluster, pool string, m Machines, left bool) Change {
	c := Change{Action: Create, Pool: pool, Machines: &m, Hash: is.Accepts[pool], Causes: []Cause{at(is.Request.KeyAt("spec", "workers", pool), "workers."+pool, nil, "new")}}
	if r := is.Record; left || r != nil && (r.Rollouts[pool] != "" && r.Rollouts[pool] != is.Accepts[pool] || len(render.Vanished(r, is.Accepts)) > 0) {
		return heldTo(is, c)
	}
	return c
}

func goes(m Machines) string {
	if m.Max == 1 && m.Min == 1 {
		return "the old machine goes"
	}
	return "the old " + m.String() + " go"
}

// alike compares two pools but for their names.
func alike(a, b map[string]any) bool { return equalBut("name", a, b) }

// equalBut compares two parts of manifests without one of their fields.
func equalBut(field string, a, b map[string]any) bool {
	strip := func(m map[string]any) map[string]any {
		out := map[string]any{}
		for k, v := range m {
			if k != field {
				out[k] = v
			}
		}
		return out
	}
	return topology.Equal(strip(a), strip(b))
}

// pool compares a pool that is there on both sides.
func (c *comparer) pool(was, is *render.Cluster, name string, before, after *topology.Pool) ([]Change, error) {
	old, now := topology.PoolOf(was.Manifest, name), topology.PoolOf(is.Manifest, name)
	m := machines(old)
	hash, then := is.Accepts[name], was.Accepts[name]
	change := heldTo(is, Change{Pool: name, Machines: &m})
	var out []Change
	switch {
	case hash != then:
		answer, err := c.rollout(was, is, name, before, after)
		if err != nil {
			return nil, err
		}
		change.Action, change.Words, change.Causes, change.Differences = answer.action, answer.words, answer.causes, answer.differences
		change.Condition = answer.condition
		if change.Action != None {
			out = append(out, change)
		}
	case before != after: // written in other words it may be refused all the same
		refused, err := c.refusedByServer(before, after)
		if err != nil {
			return nil, err
		}
		if refused != "" {
			change.Action, change.Words, change.Policy = Frozen, refused, ""
			out = append(out, change)
		}
	}
	if hash == then && waits(before, after) {
		out = append(out, Change{Action: InPlace, Pool: name, Words: held(before, after)})
	}
	if before.OnDelete() && !after.OnDelete() && len(out) == 0 {
		out = append(out, strategyEnds(is, name, m, c.settingCauses(was, is, name, "rollout")))
	}
	if skew := imageSkew(before, after); skew != "" {
		out = append(out, Change{Action: ImageSkew, Pool: name, Machines: &m, Words: skew})
	}
	if to := machines(now); to != m {
		get := func(o *manifest.Object) any { return machines(topology.PoolOf(o, name)) }
		out = append(out, Change{Action: Scale, Pool: name, Machines: &to, Words: "from " + m.String() + " to " + to.String(),
			Causes: c.overlayCauses(was, is, get, at(is.Request.At("spec", "workers", name), "workers."+name, m.String(), to.String()))})
	} else if len(out) == 0 && !topology.Equal(before.Settings(), after.Settings()) {
		out = append(out, Change{Action: InPlace, Pool: name, Words: "labels, annotations, timeouts or rollout settings of the pool", Causes: c.settingCauses(was, is, name)})
	}
	return out, nil
}

// strategyEnds is a pool whose machines were left to be replaced by hand. No hash tells whether any were.
func strategyEnds(is *render.Cluster, pool string, m Machines, causes []Cause) Change {
	return Change{Action: Unknown, Pool: pool, Machines: &m, Causes: causes, Policy: is.RolloutPolicy().String(),
		Words: "the pool's strategy is no longer OnDelete: machines that were to be replaced when somebody deletes them are replaced now, and only the management cluster knows whether there are any"}
}

// waits reports whether a pool stays as it is while its cluster is upgraded.
func waits(before, after *topology.Pool) bool {
	return after.Deferred != "" && before.Version() != after.Version()
}

// held says what becomes of a pool whose upgrade is deferred.
func held(before, after *topology.Pool) string {
	return fmt.Sprintf("%s: the pool stays as it is, on %s, until that is taken away; every other change to it waits too", after.Deferred, before.Version())
}

// machines reads how many machines a pool's topology asks for. Where the autoscaler decides there is no fixed number.
func machines(md map[string]any) Machines {
	if n, ok := md["replicas"].(int64); ok {
		return Machines{int(n), int(n)}
	}
	meta, _ := md["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	number := func(key string) (int, bool) {
		s, _ := annotations[key].(string)
		n, err := strconv.Atoi(s)
		return n, err == nil
	}
	low, okLow := number(clusterv1.AutoscalerMinSizeAnnotation)
	high, okHigh := number(clusterv1.AutoscalerMaxSizeAnnotation)
	if okLow && okHigh {
		return Machines{low, high}
	}
	return Machines{1, 1} // what Cluster API starts a pool with that says nothing
}
