package render

import (
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
	if policy == catalog.Allow || d.record == nil {
		return nil
	}
	find := diag.Warnf
	if policy == catalog.Acknowledge {
		find = diag.Errorf
	}
	var found diag.List
	for _, pool := range catalog.Sorted(d.accepts) {
		hash, accepted := d.accepts[pool], d.record.Rollouts[pool]
		at := d.record.At("spec", "rollouts", pool)
		switch {
		case hash == accepted:
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
			found.Add(find(at, "rollout/unacknowledged", "the machines of worker pool %s of %s would be replaced: its rollout hash is %s, and %s is accepted", pool, d.request, hash, accepted).
				Hintf("copyhold diff says why; copyhold ack %s accepts it", d.request))
		}
	}
	return found
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
			if r != nil && r.Released == "" && !recorded(c, r) {
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
