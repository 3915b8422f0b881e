package ledger

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// Check finds what is wrong with a ledger as it stands. wanted are the clusters that are asked for, pools the address pools and the
// subnets' pools by name.
//
// A doubled address is an error for both holders. What allocate would put right is an error too, with that way out: a cluster is
// rendered from its record, and a record without its lock does not keep anybody else away.
func (l *Ledger) Check(wanted []Wanted, pools map[string]Pool) diag.List {
	var found diag.List
	asked := map[string]Wanted{}
	for _, w := range wanted {
		asked[w.holder()] = w
	}
	owners := map[string]map[netip.Addr][]*Record{} // by sphere
	for _, r := range l.AllRecords() {
		if r.Released != "" {
			continue
		}
		for _, h := range r.holdings() {
			s := sphere(h.pool)
			if owners[s] == nil {
				owners[s] = map[netip.Addr][]*Record{}
			}
			owners[s][h.address] = append(owners[s][h.address], r)
			found.Add(l.checkHolding(r, h, pools)...)
		}
		if _, ok := asked[r.Holder()]; !ok {
			found.Add(diag.Errorf(r.At(), "ledger/gone", "the record speaks of %s, which nobody asks for", r.Holder()).
				Hintf("copyhold allocate releases its addresses; or restore its request"))
		}
	}
	for _, k := range l.AllLocks() {
		found.Add(l.checkLock(k)...)
	}
	for _, s := range sortedKeys(owners) {
		for a, records := range owners[s] {
			if s != "" && len(owners[""][a]) > 0 {
				found.Add(l.crossed(a, owners[""][a][0], records[0])...)
			}
			if len(records) < 2 {
				continue
			}
			var names []string
			for _, r := range records {
				names = append(names, r.Holder())
			}
			for _, r := range records {
				found.Add(diag.Errorf(r.At("spec"), "ledger/duplicate", "address %s is on record for more than one cluster: %s", a, strings.Join(names, ", ")).
					Hintf("the one that came later must give it up: see git log %s", path.Join(l.dir, "addresses")))
			}
		}
	}
	return found
}

// crossed is what is found where the address of a control plane is one in a subnet too.
func (l *Ledger) crossed(a netip.Addr, controlPlane, workers *Record) diag.List {
	var found diag.List
	for _, r := range []*Record{controlPlane, workers} {
		found.Add(diag.Errorf(r.At("spec"), "ledger/duplicate", "%s is the control plane's address of %s and the server address of %s", a, controlPlane.Holder(), workers.Holder()).
			Hintf("the one that came later must give it up, and a subnet must keep out of the address pools: see git log %s", path.Join(l.dir, "addresses")))
	}
	return found
}

// CheckWanted finds what stands between clusters that are asked for and the ledger: no record yet, or an address that is not theirs to
// take. Nobody's quarantine is over for it, since it knows no day: what is still kept from others stays so.
func (l *Ledger) CheckWanted(wanted []Wanted, pools map[string]Pool) diag.List {
	_, found := l.Plan(Planning{Wanted: wanted, Pools: pools, Today: "0000-00-00", Until: "0000-00-00"})
	for _, w := range wanted {
		r := l.Records[w.holder()]
		if r != nil && r.Released == "" || slices.ContainsFunc(found, func(f diag.Finding) bool {
			return slices.ContainsFunc(w.Claims, func(c Claim) bool { return c.At == f.Pos })
		}) {
			continue
		}
		found.Add(diag.Errorf(w.At, "ledger/not-allocated", "%s is not in the ledger yet", w.holder()).
			Hintf("run copyhold allocate, and commit what it writes with the request"))
	}
	return found
}

// checkHolding compares an address on record with its lock and its pool.
func (l *Ledger) checkHolding(r *Record, h holding, pools map[string]Pool) diag.List {
	var found diag.List
	at := func() diag.Pos { return r.At("spec", h.field) }
	switch k := l.Locks[h.pool][h.address]; {
	case h.pool == "":
		found.Add(diag.Errorf(at(), "ledger/no-lock", "%s %s of %s is on record without its pool, so it has no lock", h.field, h.address, r.Holder()).
			Hintf("run copyhold allocate: it writes both"))
	case k == nil:
		found.Add(diag.Errorf(at(), "ledger/no-lock", "%s %s of %s has no lock: nothing keeps it from being given out again", h.field, h.address, r.Holder()).
			Hintf("run copyhold allocate: it writes %s", l.LockFile(h.pool, h.address)))
	case k.Holder != r.Holder():
		found.Add(diag.Errorf(at(), "ledger/disagree", "the record of %s has %s, but its lock names %s", r.Holder(), h.address, k.Holder).
			Hintf("see git log %s: one of the two was edited by hand", l.LockFile(h.pool, h.address)))
	case k.Released():
		found.Add(diag.Errorf(at(), "ledger/disagree", "the record of %s has %s, but its lock is released", r.Holder(), h.address).
			Hintf("run copyhold allocate, which takes it again if it can"))
	}
	pool, ok := pools[h.pool]
	switch {
	case !ok && h.pool != "":
		found.Add(diag.Warnf(at(), "pool/unknown", "%s %s of %s is from %q, which is no longer offered", h.field, h.address, r.Holder(), h.pool))
	case ok && pool.State(h.address) == Outside:
		found.Add(diag.Warnf(at(), "pool/outside", "%s %s of %s is not in %s: %s", h.field, h.address, r.Holder(), pool.Title(), pool.Spans()))
	case ok && pool.State(h.address) == Reserved:
		found.Add(diag.Warnf(at(), "pool/reserved", "%s %s of %s is reserved in %s: %s", h.field, h.address, r.Holder(), pool.Title(), pool.ReservedSpans()))
	}
	return found
}

// checkLock finds a lock that no record stands behind, and an address that has a file in two pools.
func (l *Ledger) checkLock(k *Lock) diag.List {
	var found diag.List
	if k.Released() {
		return nil
	}
	r := l.Records[k.Holder]
	behind := r != nil && r.Released == "" && slices.ContainsFunc(r.holdings(), func(h holding) bool { return h.pool == k.Pool && h.address == k.Address })
	if !behind {
		found.Add(diag.Errorf(k.At("spec", "holder"), "ledger/no-record", "%s is held by %s, whose record does not have it", k.Address, k.Holder).
			Hintf("run copyhold allocate: it completes a run that was cut off; if the cluster is gone, copyhold release %s", k.Holder))
	}
	for _, other := range sortedKeys(l.Locks) {
		o := l.Locks[other][k.Address]
		if other != k.Pool && sphere(other) == sphere(k.Pool) && o != nil && !o.Released() {
			found.Add(diag.Errorf(k.At("spec", "address"), "ledger/duplicate", "%s is held in %q and in %q", k.Address, k.Pool, other).
				Hintf("an address belongs to one pool: release one of the two"))
		}
	}
	return found
}
