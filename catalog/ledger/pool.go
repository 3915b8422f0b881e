package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"net/netip"
	"slices"
)

// Pool is a set of addresses to give out. Ranges do not overlap; an address in Reserved is in the pool but never given out.
type Pool struct {
	Name          string
	Ranges        []Range
	Reserved      []Range
	AvoidBuggyIPs bool // never give out IPv4 addresses that end in .0 or .255, as MetalLB's field of that name
}

// State says whether an address may be given out.
type State string

// The states of an address in a pool. The zero value means that it may be given out, as far as the pool is concerned.
const (
	Outside  State = "outside"
	Reserved State = "reserved"
)

// State is the state of an address in the pool.
func (p Pool) State(a netip.Addr) State {
	in := func(ranges []Range) bool {
		return slices.ContainsFunc(ranges, func(r Range) bool { return r.Contains(a) })
	}
	switch {
	case !in(p.Ranges):
		return Outside
	case in(p.Reserved) || p.buggy(a):
		return Reserved
	}
	return ""
}

func (p Pool) buggy(a netip.Addr) bool {
	if !p.AvoidBuggyIPs || !a.Is4() {
		return false
	}
	last := a.As4()[3]
	return last == 0 || last == 255
}

// Size is the number of addresses in the pool, reserved ones included.
func (p Pool) Size() *big.Int {
	n := new(big.Int)
	for _, r := range p.Ranges {
		n.Add(n, r.size())
	}
	return n
}

func (r Range) size() *big.Int {
	n := new(big.Int).Sub(number(r.Last), number(r.First))
	return n.Add(n, big.NewInt(1))
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }

// at is the address n places into the pool, which must be large enough.
func (p Pool) at(n *big.Int) netip.Addr {
	left := new(big.Int).Set(n)
	for _, r := range p.Ranges {
		if size := r.size(); left.Cmp(size) >= 0 {
			left.Sub(left, size)
			continue
		}
		b := left.Add(left, number(r.First)).FillBytes(make([]byte, len(r.First.AsSlice())))
		a, _ := netip.AddrFromSlice(b)
		return a
	}
	panic("ledger: place beyond the end of a pool")
}

// probes is how many places are tried by hash before the pool is searched. At a pool three quarters full, one allocation in fifty
// million goes on to search.
const probes = 64

// Pick chooses a free address for a holder: by hash of its name, so that the choice depends on nothing else as long as the address
// is free, and two branches that add different clusters rarely meet. used says who has an address. It is not ok when none is free.
func (p Pool) Pick(holder string, used ...map[netip.Addr]string) (a netip.Addr, ok bool) {
	size := p.Size()
	if size.Sign() == 0 {
		return netip.Addr{}, false
	}
	for i := range uint32(probes) {
		if a = p.at(place(holder, i, size)); p.State(a) == "" && !slices.ContainsFunc(used, func(by map[netip.Addr]string) bool { return by[a] != "" }) {
			return a, true
		}
	}
	return p.search(p.at(place(holder, 0, size)), used...)
}

// place is where in a pool of that size the holder's i-th choice lies.
func place(holder string, i uint32, size *big.Int) *big.Int {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(holder+"\x00"), i))
	n := new(big.Int).SetBytes(sum[:])
	return n.Mod(n, size)
}

// search walks through the pool from an address on, round to where it began, in strides over what is taken:
//
//	pool     [.........start.................]   [..........]
//	walked             1------------------->     2--------->
//	         3-------->
func (p Pool) search(start netip.Addr, used ...map[netip.Addr]string) (netip.Addr, bool) {
	blocked := slices.Clone(p.Reserved)
	for _, by := range used {
		for a := range by {
			blocked = append(blocked, Range{a, a})
		}
	}
	slices.SortFunc(blocked, func(a, b Range) int { return a.First.Compare(b.First) })
	var walk, before []Range
	for _, r := range p.Ranges {
		switch {
		case !r.Contains(start) && len(walk) == 0:
			before = append(before, r)
		case r.Contains(start):
			walk = append(walk, Range{start, r.Last})
			if start != r.First {
				before = append(before, Range{r.First, start.Prev()})
			}
		default:
			walk = append(walk, r)
		}
	}
	for _, r := range append(walk, before...) {
		if a, ok := p.firstFree(r, blocked); ok {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// firstFree is the lowest address of a range that no blocked range has. The blocked ranges are sorted by their first address.
func (p Pool) firstFree(r Range, blocked []Range) (netip.Addr, bool) {
	a := r.First
	for i := 0; a.IsValid() && r.Contains(a); {
		switch {
		case i < len(blocked) && blocked[i].Last.Less(a):
			i++
		case i < len(blocked) && blocked[i].Contains(a):
			a = blocked[i].Last.Next()
		case p.buggy(a):
			a = a.Next()
		default:
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Usage is how full a pool is, in addresses. Used are held, Quarantine released and not yet free again; Free are all that can be
// given out today.
type Usage struct {
	Pool                 string
	Size, Reserved, Free *big.Int
	Used, Quarantine     int
}

// Usage counts the addresses of pools, in order of their names.
func (l *Ledger) Usage(pools map[string]Pool, today Date) []Usage {
	var out []Usage
	for _, name := range sortedKeys(pools) {
		p := pools[name]
		u := Usage{Pool: name, Size: p.Size(), Reserved: p.withheld()}
		taken := big.NewInt(0) // of those that could be given out
		for _, k := range l.Locks[name] {
			switch {
			case !k.Released():
				u.Used++
			case today.Before(k.Until):
				u.Quarantine++
			default:
				continue
			}
			if p.State(k.Address) == "" {
				taken.Add(taken, big.NewInt(1))
			}
		}
		u.Free = new(big.Int).Sub(u.Size, u.Reserved)
		u.Free.Sub(u.Free, taken)
		out = append(out, u)
	}
	return out
}

// withheld counts the addresses in the pool that are never given out.
func (p Pool) withheld() *big.Int {
	n := new(big.Int)
	for _, r := range p.Ranges {
		for _, cut := range merged(p.Reserved) {
			if cut.Overlaps(r) {
				n.Add(n, Range{later(cut.First, r.First), earlier(cut.Last, r.Last)}.size())
			}
		}
		if !p.AvoidBuggyIPs || !r.First.Is4() {
			continue
		}
		// Of every 256 addresses two are buggy; the ends of the range are walked one by one.
		for a := r.First; a.IsValid() && r.Contains(a); {
			if p.buggy(a) && !slices.ContainsFunc(p.Reserved, func(c Range) bool { return c.Contains(a) }) {
				n.Add(n, big.NewInt(1))
			}
			a = nextBuggy(a)
		}
	}
	return n
}

// nextBuggy is the next IPv4 address after a that ends in .0 or .255, or an invalid one at the end.
func nextBuggy(a netip.Addr) netip.Addr {
	b := a.As4()
	if b[3] == 255 {
		return a.Next()
	}
	b[3] = 255
	return netip.AddrFrom4(b)
}

// merged are ranges sorted and joined where they touch or overlap.
func merged(ranges []Range) []Range {
	s := slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return a.First.Compare(b.First) })
	var out []Range
	for _, r := range s {
		if n := len(out); n > 0 && out[n-1].Overlaps(r) {
			out[n-1].Last = later(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
}

func later(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

func earlier(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return a
	}
	return b
}
