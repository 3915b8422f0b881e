package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// Claim is a cluster's wish for an address.
type Claim struct {
	Field string     // address or serverAddress
	Pool  string     // pool to take it from
	Pin   netip.Addr // the one address wished for; invalid when any will do
	At    diag.Pos   // where it is asked for
}

// Wanted is what a cluster that is asked for needs of the ledger.
type Wanted struct {
	Namespace, Name string
	Claims          []Claim
	Class           string         // namespace/name of its ClusterClass
	Defaults        map[string]any // the class's variable defaults today
	Later           []string       // those of them that are nothing to a cluster which was admitted without
	At              diag.Pos
}

func (w Wanted) holder() string { return w.Namespace + "/" + w.Name }

// Planning is the input of Plan. Today is handed in: the ledger knows no clock.
type Planning struct {
	Wanted     []Wanted
	Pools      map[string]Pool
	Namespaces []string // whose requests are all in Wanted: a cluster recorded there and not wanted is gone
	Today      Date
	Until      Date // the first day on which an address released today may go to somebody else
	Move       bool // let a pin move a cluster from the address it has
}

// Write is a file to write, in the order of the plan.
type Write struct {
	File string
	Data []byte
}

// Plan is what has to change in a ledger. An empty plan changes nothing.
type Plan struct {
	Writes  []Write
	Records []*Record // those among the writes
	Words   []string  // what is done, a line each
}

// Plan works out what the ledger needs so that every wanted cluster has its addresses and recorded defaults, and every cluster
// that is gone has given its addresses back. It is the same for the same input. With an error in the list nothing is to be written.
//
// Locks come before the record that rests on them: whoever is cut off between the two leaves a lock that the next plan finds and
// builds on. The ledger itself is not changed.
func (l *Ledger) Plan(in Planning) (Plan, diag.List) {
	p := &planner{ledger: l, in: in, used: l.inUse(in), byHolder: map[string][]*Lock{}, locks: map[string]*Lock{}}
	for _, k := range l.AllLocks() {
		p.byHolder[k.Holder] = append(p.byHolder[k.Holder], k)
	}
	wanted := slices.SortedFunc(slices.Values(in.Wanted), byHolder)
	here := map[string]bool{}
	for _, w := range wanted {
		here[w.holder()] = true
	}
	for _, r := range l.AllRecords() {
		if !here[r.Holder()] && r.Released == "" && slices.Contains(in.Namespaces, r.Namespace) {
			p.release(r)
		}
	}
	for _, w := range wanted {
		p.serve(w)
	}
	return p.plan()
}

func byHolder(a, b Wanted) int {
	if a.Namespace == b.Namespace {
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.holder(), b.holder())
}

type planner struct {
	ledger   *Ledger
	in       Planning
	used     map[string]map[netip.Addr]string // who has an address, by sphere
	byHolder map[string][]*Lock               // in order of pool and address
	locks    map[string]*Lock                 // to write, by file
	records  []*Record                        // to write
	words    []string
	found    diag.List
}

// inUse are the addresses that must not be picked, and who has them: held or in quarantine, in a record, or pinned by a request.
func (l *Ledger) inUse(in Planning) map[string]map[netip.Addr]string {
	used := map[string]map[netip.Addr]string{}
	add := func(pool string, a netip.Addr, holder string) { use(used, pool, a, holder) }
	claimed := map[string]string{}                                                             // pool by holder and field, for records that do not say it
	for _, w := range slices.Backward(slices.SortedFunc(slices.Values(in.Wanted), byHolder)) { // of two that pin one address, the first by name
		for _, c := range w.Claims {
			claimed[w.holder()+" "+c.Field] = c.Pool
			if c.Pin.IsValid() {
				add(c.Pool, c.Pin, w.holder())
			}
		}
	}
	for _, k := range l.AllLocks() {
		if !k.Released() || in.Today.Before(k.Until) {
			add(k.Pool, k.Address, k.Holder)
		}
	}
	for _, r := range l.AllRecords() {
		if r.Released != "" {
			continue
		}
		for _, h := range r.holdings() { // a record outweighs a lock: clusters are rendered from it
			add(or(h.pool, claimed[r.Holder()+" "+h.field]), h.address, r.Holder())
		}
	}
	return used
}

// use notes who has an address.
func use(used map[string]map[netip.Addr]string, pool string, a netip.Addr, holder string) {
	spheres := []string{sphere(pool)}
	if spheres[0] != "" {
		spheres = append(spheres, subnets)
	}
	for _, s := range spheres {
		if used[s] == nil {
			used[s] = map[netip.Addr]string{}
		}
		used[s][a] = holder
	}
}

type holding struct {
	field, pool string
	address     netip.Addr
}

// holdings are the addresses a record names.
func (r *Record) holdings() []holding {
	var out []holding
	for _, h := range []struct{ field, pool, address string }{{"address", r.AddressPool, r.Address}, {"serverAddress", r.ServerPool, r.ServerAddress}} {
		if a, err := netip.ParseAddr(h.address); err == nil {
			out = append(out, holding{h.field, h.pool, a})
		}
	}
	return out
}

// release gives back what a cluster that is gone has.
func (p *planner) release(r *Record) {
	gone := *r
	gone.Released = p.in.Today
	p.records = append(p.records, &gone)
	for _, h := range r.holdings() {
		if h.pool == "" || !p.giveBack(r.Holder(), h.pool, h.address) {
			continue
		}
		p.say("%s releases %s of %s until %s: its request is gone", r.Holder(), h.address, h.pool, p.in.Until)
	}
}

// giveBack releases an address that a cluster leaves, unless it is somebody else's too. It reports whether it did.
func (p *planner) giveBack(holder, pool string, a netip.Addr) bool {
	k := p.ledger.Locks[pool][a]
	if k != nil && k.Holder != holder {
		return false
	}
	for _, r := range p.ledger.Records {
		if k == nil && r.Holder() != holder && r.Released == "" && slices.ContainsFunc(r.holdings(), func(h holding) bool { return h.address == a && sphere(h.pool) == sphere(pool) }) {
			return false
		}
	}
	p.lock(&Lock{Pool: pool, Address: a, Holder: holder, Until: p.in.Until})
	return true
}

func (p *planner) lock(k *Lock) { p.locks[p.ledger.LockFile(k.Pool, k.Address)] = k }

func (p *planner) say(format string, args ...any) {
	p.words = append(p.words, fmt.Sprintf(format, args...))
}

// serve gives one cluster what it wants.
func (p *planner) serve(w Wanted) {
	old := p.ledger.Records[w.holder()]
	r := &Record{Namespace: w.Namespace, Name: w.Name}
	switch {
	case old == nil:
	case old.Released == "":
		r.RecordSpec = old.RecordSpec
	case len(old.Rollouts) > 0: // a released cluster runs until somebody has confirmed its prune: what was accepted of it still is
		r.Rollouts = old.Rollouts
		p.say("%s comes back after %s: the rollout hashes that were accepted then still are, and copyhold ack accepts others", w.holder(), old.Released)
	}
	for _, c := range w.Claims {
		has := netip.Addr{}
		pool := ""
		for _, h := range r.holdings() {
			if h.field == c.Field {
				has, pool = h.address, h.pool
			}
		}
		a, from, ok := p.address(w, c, has, pool)
		if !ok {
			continue
		}
		if c.Field == "address" {
			r.Address, r.AddressPool = a.String(), from
		} else {
			r.ServerAddress, r.ServerPool = a.String(), from
		}
	}
	for _, h := range r.holdings() { // an address that is not claimed any more stays the cluster's until that is gone
		claimed := slices.ContainsFunc(w.Claims, func(c Claim) bool { return c.Field == h.field })
		switch {
		case claimed || h.pool == "":
		case p.in.Move && h.field == "address":
			p.giveBack(w.holder(), h.pool, h.address)
			p.say("%s GIVES UP %s of %s: kubeconfigs and certificates with it break", w.holder(), h.address, h.pool)
			r.Address, r.AddressPool = "", ""
		default:
			p.keep(w, Claim{Field: h.field, Pool: h.pool, At: w.At}, h.address, h.pool)
		}
	}
	if old == nil && slices.ContainsFunc(p.byHolder[w.holder()], func(k *Lock) bool { return !k.Released() }) {
		p.say("%s had addresses and no record: its defaults and rollout hashes are those of today; if a record was lost, restore it from Git instead", w.holder())
	}
	p.defaults(r, w, old)
	if old == nil || !same(old.RecordSpec, r.RecordSpec) {
		p.records = append(p.records, r)
	}
}

// address finds the address a claim is to have, and takes its lock where that is not done.
func (p *planner) address(w Wanted, c Claim, has netip.Addr, pool string) (netip.Addr, string, bool) {
	if pool == "" { // a record that an older hand wrote without it
		pool = c.Pool
	}
	switch {
	case has.IsValid() && (!c.Pin.IsValid() || c.Pin == has):
		return has, pool, p.keep(w, c, has, pool)
	case has.IsValid() && !p.in.Move:
		p.found.Add(diag.Errorf(c.At, "ledger/address-differs", "%s %s, but the ledger has %s for %s", c.Field, c.Pin, has, w.holder()).
			Hintf("write %s, or remove the field; --move takes the new one, and breaks kubeconfigs and certificates", has))
		return has, pool, false
	case c.Pin.IsValid():
		if !p.pin(w, c) {
			return has, pool, false
		}
		if has.IsValid() {
			p.giveBack(w.holder(), pool, has)
			p.say("%s MOVES from %s to %s: kubeconfigs and certificates with the old address break", w.holder(), has, c.Pin)
		}
		return c.Pin, c.Pool, true
	}
	if k := p.before(w, c); k != nil {
		return k.Address, c.Pool, p.keep(w, c, k.Address, c.Pool)
	}
	a, ok := p.in.Pools[c.Pool].Pick(w.holder(), p.used[sphere(c.Pool)], p.used[across(c.Pool)])
	if !ok {
		p.found.Add(p.exhausted(w, c))
		return a, "", false
	}
	p.take(w, c, a)
	return a, c.Pool, true
}

// before is a lock of the cluster's own that no record speaks of: one that a run which was cut off has taken, or else one that the
// cluster had when it was here before and that is still kept from others.
func (p *planner) before(w Wanted, c Claim) *Lock {
	var was *Lock
	for _, k := range p.byHolder[w.holder()] {
		switch {
		case k.Pool != c.Pool || p.used[sphere(k.Pool)][k.Address] != w.holder():
		case !k.Released():
			return k
		case was == nil && p.in.Today.Before(k.Until) && p.in.Pools[c.Pool].State(k.Address) == "":
			was = k
		}
	}
	return was
}

func (p *planner) take(w Wanted, c Claim, a netip.Addr) {
	use(p.used, c.Pool, a, w.holder())
	p.lock(&Lock{Pool: c.Pool, Address: a, Holder: w.holder()})
	p.say("%s takes %s of %s", w.holder(), a, c.Pool)
}

// keep makes sure that the lock of an address a cluster has is the cluster's.
func (p *planner) keep(w Wanted, c Claim, a netip.Addr, pool string) bool {
	k := p.ledger.Locks[pool][a]
	switch {
	case k != nil && k.Holder == w.holder() && !k.Released():
		return true
	case p.used[sphere(pool)][a] != "" && p.used[sphere(pool)][a] != w.holder():
		p.found.Add(diag.Errorf(c.At, "ledger/held", "%s %s of %s is held by %s", c.Field, a, w.holder(), p.used[sphere(pool)][a]).
			Hintf("one of the two came second and must get another address: see git log %s, remove that one's record and run copyhold allocate", p.ledger.LockFile(pool, a)))
		return false
	case k == nil:
		p.lock(&Lock{Pool: pool, Address: a, Holder: w.holder()})
		p.say("%s has %s of %s on record: its lock is written", w.holder(), a, pool)
		return true
	case k.Holder == w.holder(), k.Released() && !p.in.Today.Before(k.Until):
		p.lock(&Lock{Pool: pool, Address: a, Holder: w.holder()})
		p.say("%s takes %s of %s again", w.holder(), a, pool)
		return true
	}
	p.found.Add(diag.Errorf(c.At, "ledger/held", "%s %s of %s is held by %s", c.Field, a, w.holder(), k.Holder).
		Hintf("one of the two came second and must get another address: see git log %s, remove that one's record and run copyhold allocate", p.ledger.LockFile(pool, a)))
	return false
}

// pin takes the one address a request asks for.
func (p *planner) pin(w Wanted, c Claim) bool {
	pool := p.in.Pools[c.Pool]
	k := p.ledger.Locks[c.Pool][c.Pin]
	switch state := pool.State(c.Pin); {
	case state == Outside:
		p.found.Add(diag.Errorf(c.At, "pool/outside", "%s %s of %s is not in %s, %s: %s", c.Field, c.Pin, w.holder(), pool.Title(), pool.Spans(), p.share(pool).words(pool)).
			Hintf("choose one of those, or remove the field and run copyhold allocate"))
		return false
	case state == Reserved:
		p.found.Add(diag.Errorf(c.At, "pool/reserved", "%s %s of %s is reserved in %s: %s", c.Field, c.Pin, w.holder(), pool.Title(), pool.ReservedSpans()).
			Hintf("choose another of %s, or remove the field and run copyhold allocate", pool.Spans()))
		return false
	case k != nil && k.Holder != w.holder() && !k.Released():
		p.found.Add(diag.Errorf(c.At, "ledger/held", "%s %s of %s is held by %s", c.Field, c.Pin, w.holder(), k.Holder).
			Hintf("choose another, or remove the field and run copyhold allocate"))
		return false
	case k != nil && k.Holder != w.holder() && p.in.Today.Before(k.Until):
		p.found.Add(diag.Errorf(c.At, "ledger/quarantine", "%s %s of %s was released by %s and is in quarantine until %s", c.Field, c.Pin, w.holder(), k.Holder, k.Until).
			Hintf("choose another, or remove the field and run copyhold allocate"))
		return false
	}
	if has := p.used[sphere(c.Pool)][c.Pin]; has != "" && has != w.holder() { // on record, or pinned, without a lock
		p.found.Add(diag.Errorf(c.At, "ledger/held", "%s %s of %s is held by %s", c.Field, c.Pin, w.holder(), has).
			Hintf("choose another, or remove the field and run copyhold allocate"))
		return false
	}
	if has := p.used[across(c.Pool)][c.Pin]; has != "" && !(k != nil && k.Holder == w.holder() && !k.Released()) {
		p.found.Add(diag.Errorf(c.At, "ledger/held", "%s %s of %s is held by %s as its %s", c.Field, c.Pin, w.holder(), has, otherField(c.Pool)).
			Hintf("choose another, or remove the field and run copyhold allocate"))
		return false
	}
	if k == nil || k.Holder != w.holder() || k.Released() {
		p.take(w, c, c.Pin)
	}
	return true
}

// otherField is the field of those addresses that one of a pool is held against across the spheres.
func otherField(pool string) string {
	if sphere(pool) == "" {
		return "serverAddress"
	}
	return "address"
}

func (p *planner) exhausted(w Wanted, c Claim) diag.Finding {
	pool := p.in.Pools[c.Pool]
	if len(pool.Ranges) == 0 {
		return diag.Errorf(c.At, "ledger/exhausted", "no address is free for %s: there is no pool %q", w.holder(), c.Pool)
	}
	s := p.share(pool)
	way := pool.Widen() + ", or somebody gives one back"
	if s.quarantined > 0 {
		way = fmt.Sprintf("wait until %s, or %s", s.first, way)
	}
	return diag.Errorf(c.At, "ledger/exhausted", "no address is free for %s in %s, %s: %s", w.holder(), pool.Title(), pool.Spans(), s.words(pool)).
		Hintf("%s; copyhold ledger pools lists who has what", way)
}

// defaults records what the class's variables default to, for a cluster that has no record of it yet. What is recorded stays.
func (p *planner) defaults(r *Record, w Wanted, old *Record) {
	if w.Class == "" {
		return
	}
	if r.Class != w.Class {
		if old != nil && r.Class != "" {
			p.say("%s moves from class %s to %s: its defaults are recorded anew", w.holder(), r.Class, w.Class)
		}
		r.Class, r.Defaults = w.Class, maps.Clone(w.Defaults)
		return
	}
	defaults := map[string]any{}
	for _, place := range slices.Sorted(maps.Keys(w.Defaults)) {
		value, ok := r.Defaults[place]
		if !ok && slices.Contains(w.Later, place) {
			continue
		}
		if !ok {
			value = w.Defaults[place]
			p.say("%s records %s: %v, new in class %s", w.holder(), place, value, w.Class)
		}
		defaults[place] = value
	}
	for _, place := range slices.Sorted(maps.Keys(r.Defaults)) {
		if _, ok := w.Defaults[place]; !ok {
			p.say("%s drops %s, which class %s no longer has", w.holder(), place, w.Class)
		}
	}
	r.Defaults = defaults
}

// Release gives back what a cluster has, whoever asks for it.
func (l *Ledger) Release(holder string, today, until Date) (Plan, diag.List) {
	p := &planner{ledger: l, in: Planning{Today: today, Until: until}, locks: map[string]*Lock{}}
	r := l.Records[holder]
	known := r != nil
	if known && r.Released == "" {
		p.release(r)
	}
	for _, k := range l.AllLocks() { // a lock without a record is given back as well
		if k.Holder != holder {
			continue
		}
		known = true
		if file := l.LockFile(k.Pool, k.Address); !k.Released() && p.locks[file] == nil {
			p.lock(&Lock{Pool: k.Pool, Address: k.Address, Holder: holder, Until: until})
			p.say("%s releases %s of %s until %s", holder, k.Address, k.Pool, until)
		}
	}
	if !known {
		return Plan{}, diag.List{diag.Errorf(diag.Pos{}, "ledger/gone", "the ledger has nothing of %s", holder)}
	}
	return p.plan()
}

// Difference is a variable default as recorded and as the class has it today; "-" where it has none.
type Difference struct {
	Place    string `json:"variable"`
	Recorded string `json:"recorded"`
	Today    string `json:"today"`
	Same     bool   `json:"same"`
}

// CompareDefaults sets a cluster's recorded defaults beside today's, by place.
func CompareDefaults(r *Record, w Wanted) []Difference {
	places := maps.Clone(w.Defaults)
	if places == nil {
		places = map[string]any{}
	}
	maps.Copy(places, r.Defaults)
	var out []Difference
	for _, place := range sortedKeys(places) {
		d := Difference{Place: place, Recorded: text(r.Defaults, place), Today: text(w.Defaults, place)}
		d.Same = d.Recorded == d.Today
		out = append(out, d)
	}
	return out
}

func text(m map[string]any, place string) string {
	v, ok := m[place]
	if !ok {
		return "-"
	}
	j, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(j)
}

// AcceptDefaults records today's defaults for a cluster that has a record.
func (l *Ledger) AcceptDefaults(w Wanted) Plan {
	old := l.Records[w.holder()]
	r := *old
	r.Class, r.Defaults = w.Class, maps.Clone(w.Defaults)
	p := &planner{ledger: l}
	for _, d := range CompareDefaults(old, w) {
		if !d.Same {
			p.say("%s: %s was %s, is %s from now on", w.holder(), d.Place, d.Recorded, d.Today)
		}
	}
	if !same(old.RecordSpec, r.RecordSpec) {
		p.records = append(p.records, &r)
	}
	out, _ := p.plan()
	return out
}

// same reports whether two record bodies are written the same way.
func same(a, b RecordSpec) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func (p *planner) plan() (Plan, diag.List) {
	if p.found.Failed() {
		return Plan{}, p.found
	}
	out := Plan{Words: p.words, Records: p.records}
	for _, file := range slices.Sorted(maps.Keys(p.locks)) {
		data, err := FormatLock(p.locks[file])
		if err != nil {
			panic(err) // strings only
		}
		out.Writes = append(out.Writes, Write{file, data})
	}
	readable := map[string]bool{} // defaults that were found to come back as they were written; most clusters have the same
	for _, r := range p.records {
		file := path.Clean(p.ledger.RecordFile(r.Holder()))
		data, err := FormatRecord(r)
		if key := text(map[string]any{"": r.Defaults}, ""); err == nil && !readable[key] {
			back, bad := ParseRecord(file, data)
			readable[key] = !bad.Failed() && same(back.RecordSpec, r.RecordSpec)
			if !readable[key] {
				err = errors.New("it would not be read back as it was written")
			}
		}
		if err != nil {
			p.found.Add(diag.Errorf(diag.Pos{File: file}, "ledger/unwritable", "the record of %s cannot be written: %v", r.Holder(), err).
				Hintf("a variable default of class %s holds text that YAML cannot keep: change it there", r.Class))
			continue
		}
		out.Writes = append(out.Writes, Write{file, data})
	}
	if p.found.Failed() {
		return Plan{}, p.found
	}
	return out, p.found
}
