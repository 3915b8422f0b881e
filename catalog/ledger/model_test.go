package ledger

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// model is the ledger told once more, as plainly as can be: what Plan must come to, found by looking through everything every time.
// It shares the types of Plan's input with the product and none of its thinking.
type model struct {
	locks   map[spot]hold
	records map[string]entry // by holder
}

// spot is an address of a pool.
type spot struct{ pool, address string }

// hold says who has an address, or had it last. until is empty while it is held.
type hold struct{ holder, until string }

// entry is a cluster's record. defaults is JSON, so that entries can be compared.
type entry struct{ address, addressPool, serverAddress, serverPool, class, defaults, released string }

// cell is an address of a model's pool.
type cell struct {
	address string
	state   State
}

func (m model) clone() model { return model{maps.Clone(m.locks), maps.Clone(m.records)} }

func (m model) equal(o model) bool {
	return maps.Equal(m.locks, o.locks) && maps.Equal(m.records, o.records)
}

// spots are the addresses an entry names.
func (e entry) spots() []spot {
	var out []spot
	if e.address != "" {
		out = append(out, spot{e.addressPool, e.address})
	}
	if e.serverAddress != "" {
		out = append(out, spot{e.serverPool, e.serverAddress})
	}
	return out
}

// meet reports whether two spots are one address: in subnets only when the subnet is the same.
func (s spot) meet(o spot) bool {
	subnets := strings.Contains(s.pool, ".") || strings.Contains(o.pool, ".")
	return s.address == o.address && (s.pool == o.pool || !subnets)
}

// recorded are the clusters that have an address on record.
func (m model) recorded(s spot) []string {
	var out []string
	for holder, e := range m.records {
		if e.released == "" && slices.ContainsFunc(e.spots(), s.meet) {
			out = append(out, holder)
		}
	}
	return out
}

// owner is who has an address: on record, else by a lock that is held or in quarantine, else as the first by name that pins it.
func (m model) owner(s spot, today string, wanted []Wanted) string {
	if on := m.recorded(s); len(on) > 0 {
		return on[0]
	}
	for at, k := range m.locks {
		if s.meet(at) && (k.until == "" || today < k.until) {
			return k.holder
		}
	}
	first := ""
	for _, w := range wanted {
		for _, c := range w.Claims {
			name := w.Namespace + "/" + w.Name
			if c.Pin.IsValid() && s.meet(spot{c.Pool, c.Pin.String()}) && (first == "" || name < first) {
				first = name
			}
		}
	}
	return first
}

// situation is the input of a plan as the model sees it.
type situation struct {
	wanted       []Wanted
	pools        map[string][]cell
	namespaces   []string
	today, until string
	move         bool
}

// plan is the ledger after a plan, or what is wrong, each as its place and name. Which of several free addresses a cluster picks is
// not for the model to say: chosen is asked, and must answer with one of those allowed.
func (m model) plan(in situation, chosen func(holder, field string, allowed []string) string) (after model, problems []string) {
	after = m.clone()
	asked := map[string]Wanted{}
	for _, w := range in.wanted {
		asked[w.Namespace+"/"+w.Name] = w
	}
	for holder, e := range m.records {
		namespace, _, _ := strings.Cut(holder, "/")
		if _, ok := asked[holder]; ok || e.released != "" || !slices.Contains(in.namespaces, namespace) {
			continue
		}
		e.released = in.today
		after.records[holder] = e
		for _, s := range e.spots() {
			m.giveBack(after, holder, s, in.until)
		}
	}
	taken := map[spot]bool{}
	for _, holder := range slices.Sorted(maps.Keys(asked)) {
		w, e := asked[holder], m.records[holder]
		if e.released != "" {
			e = entry{}
		}
		for _, field := range []string{"address", "serverAddress"} {
			has := spot{e.addressPool, e.address}
			if field == "serverAddress" {
				has = spot{e.serverPool, e.serverAddress}
			}
			c := Claim{Field: field, At: w.At} // what a cluster has and no longer asks for stays its own
			if i := slices.IndexFunc(w.Claims, func(c Claim) bool { return c.Field == field }); i >= 0 {
				c = w.Claims[i]
			} else if has.address == "" {
				continue
			} else if field == "address" && in.move { // unless it is told to give it up
				m.giveBack(after, holder, has, in.until)
				e.addressPool, e.address = "", ""
				continue
			}
			got, problem := m.claim(in, holder, c, has, taken, chosen)
			if problem != "" {
				problems = append(problems, c.At.String()+" "+problem)
				continue
			}
			if has.address != "" && has != got {
				m.giveBack(after, holder, has, in.until)
			}
			taken[got] = true
			after.locks[got] = hold{holder, ""}
			if c.Field == "serverAddress" {
				e.serverPool, e.serverAddress = got.pool, got.address
			} else {
				e.addressPool, e.address = got.pool, got.address
			}
		}
		e.defaults = defaultsAfter(e, w)
		e.class = w.Class
		after.records[holder] = e
	}
	slices.Sort(problems)
	return after, problems
}

// giveBack puts an address that a cluster had until today into quarantine, unless it is somebody else's.
func (m model) giveBack(after model, holder string, s spot, until string) {
	k, has := m.locks[s]
	if has && k.holder == holder || !has && slices.Equal(m.recorded(s), []string{holder}) {
		after.locks[s] = hold{holder, until}
	}
}

// release is the ledger after a cluster's things were given back by hand.
func (m model) release(holder, today, until string) model {
	after := m.clone()
	if e, ok := m.records[holder]; ok && e.released == "" {
		e.released = today
		after.records[holder] = e
		for _, s := range e.spots() {
			m.giveBack(after, holder, s, until)
		}
	}
	for s, k := range m.locks {
		if k == (hold{holder, ""}) {
			after.locks[s] = hold{holder, until}
		}
	}
	return after
}

// claim is what a cluster gets for one claim, or the name of what is wrong with it.
func (m model) claim(in situation, holder string, c Claim, has spot, taken map[spot]bool, chosen func(holder, field string, allowed []string) string) (spot, string) {
	pin := spot{c.Pool, ""}
	if c.Pin.IsValid() {
		pin.address = c.Pin.String()
	}
	switch {
	case has.address != "" && (pin.address == "" || pin.address == has.address):
		k, locked := m.locks[has]
		others := slices.ContainsFunc(m.recorded(has), func(h string) bool { return h != holder })
		switch {
		case locked && k.holder == holder && k.until == "":
		case locked && k.holder != holder && (k.until == "" || in.today < k.until), others:
			return spot{}, "ledger/held"
		}
		return has, ""
	case has.address != "" && !in.move:
		return spot{}, "ledger/address-differs"
	case pin.address != "":
		i := slices.IndexFunc(in.pools[c.Pool], func(x cell) bool { return x.address == pin.address && x.state != Outside })
		k, locked := m.locks[pin]
		switch {
		case i < 0:
			return spot{}, "pool/outside"
		case in.pools[c.Pool][i].state == Reserved:
			return spot{}, "pool/reserved"
		case locked && k.holder != holder && k.until != "" && in.today < k.until:
			return spot{}, "ledger/quarantine"
		case m.owner(pin, in.today, in.wanted) != holder:
			return spot{}, "ledger/held"
		}
		return pin, ""
	}
	var held, mine, open []string
	for s, k := range m.locks {
		if s.pool != c.Pool || k.holder != holder || m.owner(s, in.today, in.wanted) != holder {
			continue
		}
		if k.until == "" {
			held = append(held, s.address)
		} else if in.today < k.until && slices.Contains(in.pools[c.Pool], cell{s.address, ""}) {
			mine = append(mine, s.address)
		}
	}
	for _, x := range in.pools[c.Pool] {
		s := spot{c.Pool, x.address}
		if x.state == "" && !taken[s] && m.owner(s, in.today, in.wanted) == "" {
			open = append(open, x.address)
		}
	}
	for _, allowed := range [][]string{held, mine, open} {
		if len(allowed) > 0 {
			return spot{c.Pool, chosen(holder, c.Field, allowed)}, ""
		}
	}
	return spot{}, "ledger/exhausted"
}

// defaultsAfter keeps what is recorded of the class, and takes the rest as it is today.
func defaultsAfter(e entry, w Wanted) string {
	out := map[string]any{}
	recorded := map[string]any{}
	if e.class == w.Class && e.defaults != "" {
		if err := json.Unmarshal([]byte(e.defaults), &recorded); err != nil {
			panic(err)
		}
	}
	for place, value := range w.Defaults {
		out[place] = value
		if old, ok := recorded[place]; ok {
			out[place] = old
		}
	}
	return asJSON(out)
}

func asJSON(m map[string]any) string {
	if len(m) == 0 {
		return "{}"
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// asModel is what a ledger says.
func asModel(l *Ledger) model {
	m := model{map[spot]hold{}, map[string]entry{}}
	for pool, locks := range l.Locks {
		for a, k := range locks {
			m.locks[spot{pool, a.String()}] = hold{k.Holder, string(k.Until)}
		}
	}
	for holder, r := range l.Records {
		m.records[holder] = entry{r.Address, r.AddressPool, r.ServerAddress, r.ServerPool, r.Class, asJSON(r.Defaults), string(r.Released)}
	}
	return m
}

// asPool is a model's pool as the product takes it.
func asPool(name string, cells []cell) Pool {
	p := Pool{Name: name}
	for _, c := range cells {
		one := netip.MustParseAddr(c.address)
		if c.state == Outside {
			continue
		}
		if n := len(p.Ranges); n > 0 && p.Ranges[n-1].Last.Next() == one {
			p.Ranges[n-1].Last = one
		} else {
			p.Ranges = append(p.Ranges, Range{one, one})
		}
		if c.state == Reserved {
			p.Reserved = append(p.Reserved, Range{one, one})
		}
	}
	return p
}

// apply is the ledger after files were written: each is read back as Load would read it.
func apply(t testing.TB, l *Ledger, writes []Write) *Ledger {
	t.Helper()
	out := &Ledger{Records: maps.Clone(l.Records), Locks: map[string]map[netip.Addr]*Lock{}, dir: l.dir}
	for pool, locks := range l.Locks {
		out.Locks[pool] = maps.Clone(locks)
	}
	for _, w := range writes {
		if strings.HasPrefix(w.File, l.dir+"/addresses/") {
			k, found := ParseLock(w.File, w.Data)
			if len(found) > 0 || w.File != l.LockFile(k.Pool, k.Address) {
				t.Fatalf("ParseLock(%s) = %s\n%s", w.File, found, w.Data)
			}
			out.put(k)
			continue
		}
		r, found := ParseRecord(w.File, w.Data)
		if len(found) > 0 || w.File != l.RecordFile(r.Holder()) {
			t.Fatalf("ParseRecord(%s) = %s\n%s", w.File, found, w.Data)
		}
		out.Records[r.Holder()] = r
	}
	return out
}
