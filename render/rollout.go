package render

import (
	"maps"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// RolloutPolicy is what holds for rollouts of the cluster.
func (c *Cluster) RolloutPolicy() catalog.RolloutPolicy { return c.policy }

// locked finds worker pools whose hash is not the one that the ledger has accepted. Where the policy wants an acknowledgement that is
// an error: nothing is rendered, what runs stays, and no way of syncing gets around it.
func (b *builder) locked(d *draft) diag.List {
	policy, _ := b.in.Catalog.RolloutPolicy(d.request.Spec.Tier, d.request.Namespace)
	if policy == catalog.Allow {
		return nil
	}
	find := diag.Warnf
	if policy == catalog.Acknowledge {
		find = diag.Errorf
	}
	var found diag.List
	if d.record == nil {
		if len(d.accepts) > 0 && !b.judged && !b.probing && !d.found.Failed() { // nothing else asks for a record of one without an address
			found.Add(find(d.request.At("metadata", "name"), "rollout/unrecorded", "no rollout hash of %s is recorded", d.request).
				Hintf("copyhold allocate records it"))
		}
		return found
	}
	gone := Vanished(d.record, d.accepts)
	replaces := ", and its machines may be replaced" // what happens to them depends on what runs: diff says it
	if d.steady {
		replaces = ""
	}
	for _, pool := range catalog.Sorted(d.accepts) {
		hash, accepted := d.accepts[pool], d.record.Rollouts[pool]
		at := d.record.At("spec", "rollouts", pool)
		switch {
		case hash == accepted:
		case accepted == "" && len(gone) > 0:
			found.Add(find(d.request.KeyAt("spec", "workers", pool), "rollout/unacknowledged", "worker pool %s of %s is new, and %s, which the ledger has, is gone: if it comes in place of that, machines go before the new ones are there", pool, d.request, joined(gone)).
				Hintf("keep the old name; or copyhold ack %s accepts it", d.request))
		case accepted == "":
			found.Add(find(at, "rollout/unrecorded", "no rollout hash of worker pool %s of %s is recorded", pool, d.request).
				Hintf("copyhold allocate records it"))
		case !topology.Comparable(hash, accepted):
			find := find
			if topology.Older(accepted) {
				find = diag.Warnf // recorded by an earlier release: nobody has to accept anything anew
			}
			found.Add(find(at, "rollout/scheme", "the rollout hash of worker pool %s of %s is %s and %s is recorded: the two cannot be compared", pool, d.request, hash, accepted).
				Hintf("copyhold ack %s records it anew", d.request))
		case d.hashes[pool] == "":
			found.Add(find(at, "rollout/unacknowledged", "the machines of worker pool %s of %s may be replaced, which only the management cluster can tell: what they depend on is %s, and %s is accepted", pool, d.request, hash, accepted).
				Hintf("copyhold diff says why; copyhold ack %s accepts it", d.request))
		default:
			found.Add(find(at, "rollout/unacknowledged", "worker pool %s of %s is not as it was accepted%s: its rollout hash is %s, and %s is accepted", pool, d.request, replaces, hash, accepted).
				Hintf("copyhold diff says what becomes of them, and why; copyhold ack %s accepts it", d.request))
		}
	}
	return found
}

// Vanished are the worker pools that a record has and a cluster no longer asks for. Their names stay in the record until somebody has run
// copyhold ack, and until then no new pool is recorded beside them: it may be one of them under another name.
func Vanished[V any](r *ledger.Record, pools map[string]V) []string {
	var out []string
	for _, pool := range catalog.Sorted(r.Rollouts) {
		if _, there := pools[pool]; !there {
			out = append(out, pool)
		}
	}
	return out
}

// Recordable are the rollout hashes that a cluster's record is to have without anybody's word: those it has, and of a new worker pool what
// it is now. Where rollouts are not simply allowed, a new pool has to wait while another has vanished.
func (c *Cluster) Recordable() map[string]string {
	out := map[string]string{}
	held := c.policy != catalog.Allow && len(Vanished(c.Record, c.Accepts)) > 0
	if held {
		maps.Copy(out, c.Record.Rollouts)
	}
	for pool, hash := range c.Accepts {
		if accepted := c.Record.Rollouts[pool]; accepted != "" {
			out[pool] = accepted
		} else if !held {
			out[pool] = hash
		}
	}
	return out
}

// Unrecorded is an input of those clusters of in that have a worker pool without a recorded hash, or a recorded hash without a worker
// pool. Records are those of a plan, which are to be written: a cluster that gets its first one is still to be judged as one that comes in.
func (in *Input) Unrecorded(records []*ledger.Record) *Input {
	out := *in
	out.Tenants = nil
	planned := map[string]*ledger.Record{}
	for _, r := range records {
		planned[r.Holder()] = r
	}
	for _, t := range in.Tenants {
		copied := *t
		copied.Clusters = nil
		copied.Records, copied.fresh = map[string]*ledger.Record{}, map[string]bool{}
		for _, c := range t.Clusters {
			r := t.Records[c.Name]
			if p := planned[c.String()]; p != nil {
				r = p
			}
			if r != nil && r.Released == "" && (t.Records[c.Name] == nil || !recorded(c, r)) {
				copied.Clusters = append(copied.Clusters, c)
				copied.Records[c.Name] = r
				copied.fresh[c.Name] = t.Records[c.Name] == nil
			}
		}
		if len(copied.Clusters) > 0 {
			out.Tenants = append(out.Tenants, &copied)
		}
	}
	out.Complete, out.Platform = false, false
	return &out
}

func recorded(c *request.Cluster, r *ledger.Record) bool {
	pools := workersOf(c)
	for name := range pools {
		if r.Rollouts[name] == "" {
			return false
		}
	}
	return len(r.Rollouts) == len(pools)
}
