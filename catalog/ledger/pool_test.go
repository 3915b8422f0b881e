package ledger

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

// ranges parses ranges, which must be right.
func ranges(t testing.TB, texts ...string) []Range {
	t.Helper()
	var out []Range
	for _, s := range texts {
		r, err := ParseRange(s)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// all lists a small pool address by address, in the order of its ranges.
func all(p Pool) []netip.Addr {
	var out []netip.Addr
	for _, r := range p.Ranges {
		for a := r.First; a.IsValid() && a.Compare(r.Last) <= 0; a = a.Next() {
			out = append(out, a)
		}
	}
	return out
}

// free lists what a small pool can give out, by asking each rule about each address.
func free(p Pool, used map[netip.Addr]string) []netip.Addr {
	return slices.DeleteFunc(all(p), func(a netip.Addr) bool {
		for _, r := range p.Reserved {
			if a.Compare(r.First) >= 0 && a.Compare(r.Last) <= 0 {
				return true
			}
		}
		end := a.AsSlice()[len(a.AsSlice())-1]
		return p.AvoidBuggyIPs && a.Is4() && (end == 0 || end == 255) || used[a] != ""
	})
}

// usedBy gives addresses to a holder.
func usedBy(holder string, addresses ...netip.Addr) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, a := range addresses {
		out[a] = holder
	}
	return out
}

func TestPoolState(t *testing.T) {
	p := Pool{
		Ranges:        ranges(t, "172.21.208.0/24", "10.100.0.250-10.100.1.5", "2001:db8::/126"),
		Reserved:      ranges(t, "172.21.208.1", "172.21.208.100-172.21.208.109", "2001:db8::", "192.0.2.0/24"),
		AvoidBuggyIPs: true,
	}
	for a, want := range map[string]State{
		"172.21.207.255": Outside,
		"172.21.208.0":   Reserved, // buggy
		"172.21.208.1":   Reserved,
		"172.21.208.2":   "",
		"172.21.208.99":  "",
		"172.21.208.100": Reserved,
		"172.21.208.109": Reserved,
		"172.21.208.110": "",
		"172.21.208.255": Reserved, // buggy
		"172.21.209.0":   Outside,
		"10.100.0.249":   Outside,
		"10.100.0.250":   "",
		"10.100.0.255":   Reserved, // buggy in the middle of a range
		"10.100.1.0":     Reserved,
		"10.100.1.5":     "",
		"10.100.1.6":     Outside,
		"192.0.2.7":      Outside, // reserved, but not of the pool
		"2001:db8::":     Reserved,
		"2001:db8::1":    "",
		"2001:db8::3":    "",
		"2001:db8::4":    Outside,
	} {
		if got := p.State(netip.MustParseAddr(a)); got != want {
			t.Errorf("State(%s) = %q, want %q", a, got, want)
		}
	}
	v6 := Pool{Ranges: ranges(t, "2001:db8::/118"), AvoidBuggyIPs: true}
	for _, a := range []string{"2001:db8::", "2001:db8::ff", "2001:db8::100"} {
		if got := v6.State(netip.MustParseAddr(a)); got != "" { // it is IPv4 that some devices get wrong
			t.Errorf("State(%s) = %q, want it free: IPv6 has no buggy addresses", a, got)
		}
	}
	if got := (Pool{}).State(netip.MustParseAddr("192.0.2.1")); got != Outside {
		t.Errorf("State of an empty pool = %q, want %q", got, Outside)
	}
}

func TestPoolSize(t *testing.T) {
	for _, c := range []struct {
		ranges []string
		want   string
	}{
		{nil, "0"},
		{[]string{"192.0.2.1"}, "1"},
		{[]string{"172.21.208.100-172.21.208.199"}, "100"},
		{[]string{"172.21.208.0/24", "10.100.0.0/16", "192.0.2.9"}, "65793"},
		{[]string{"0.0.0.0/0"}, "4294967296"},
		{[]string{"2001:db8::/64"}, "18446744073709551616"},
		{[]string{"2001:db8::/32", "198.51.100.0/24"}, "79228162514264337593543950592"},
		{[]string{"::/0"}, "340282366920938463463374607431768211456"},
	} {
		p := Pool{Ranges: ranges(t, c.ranges...)}
		if got := p.Size().String(); got != c.want {
			t.Errorf("Size(%v) = %s, want %s", c.ranges, got, c.want)
		}
	}
}

// at counts through the ranges as a list of the addresses would.
func TestPoolAt(t *testing.T) {
	p := Pool{Ranges: ranges(t, "192.0.2.250-192.0.3.4", "10.100.0.7", "2001:db8::fffe-2001:db8::1:1", "255.255.255.254-255.255.255.255")}
	for i, want := range all(p) {
		if got := p.at(big.NewInt(int64(i))); got != want {
			t.Errorf("at(%d) = %s, want %s", i, got, want)
		}
	}
	wide := Pool{Ranges: ranges(t, "198.51.100.0/24", "::/0")}
	last := new(big.Int).Sub(wide.Size(), big.NewInt(1))
	if got, want := wide.at(last).String(), "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"; got != want {
		t.Errorf("at(%s) = %s, want %s", last, got, want)
	}
}

// What a name picks is promised: were it to change, two branches made with two releases would meet where today they do not.
// The place is the SHA-256 of the name, a zero byte and the attempt as four bytes, as a number, modulo the size of the pool.
func TestPickIsPromised(t *testing.T) {
	for _, c := range []struct{ pool, holder, want string }{
		{"172.21.208.100-172.21.208.199", "photon-prod/solar", "172.21.208.137"},
		{"172.21.208.100-172.21.208.199", "photon-prod/lunar", "172.21.208.162"},
		{"172.21.208.100-172.21.208.199", "dynamo-prod/solar", "172.21.208.178"},
		{"10.100.0.0/15", "quark-dev/lunar", "10.100.244.137"},
		{"2001:db8::/64", "photon-prod/solar", "2001:db8::2a2f:dab8:669:c195"},
		{"::/0", "photon-prod/solar", "416b:3d71:a2a9:a675:2a2f:dab8:669:c195"},
	} {
		a, ok := Pool{Ranges: ranges(t, c.pool)}.Pick(c.holder, nil)
		if !ok || a.String() != c.want {
			t.Errorf("Pick(%s, %s) = %s, %v, want %s", c.pool, c.holder, a, ok, c.want)
		}
	}
}

func TestPickNone(t *testing.T) {
	full := Pool{Ranges: ranges(t, "172.21.208.100-172.21.208.199")}
	for name, c := range map[string]struct {
		pool Pool
		used map[netip.Addr]string
	}{
		"no ranges":           {Pool{}, nil},
		"one address, used":   {Pool{Ranges: ranges(t, "192.0.2.1")}, usedBy("dynamo-prod/solar", netip.MustParseAddr("192.0.2.1"))},
		"all used":            {full, usedBy("dynamo-prod/solar", all(full)...)},
		"all reserved":        {Pool{Ranges: ranges(t, "10.100.0.0/15"), Reserved: ranges(t, "10.0.0.0/8")}, nil},
		"all reserved, /64":   {Pool{Ranges: ranges(t, "2001:db8::/64"), Reserved: ranges(t, "2001:db8::/65", "2001:db8:0:0:8000::/65")}, nil},
		"all buggy":           {Pool{Ranges: ranges(t, "192.0.2.255-192.0.3.0", "255.255.255.255"), AvoidBuggyIPs: true}, nil},
		"buggy, then used":    {Pool{Ranges: ranges(t, "192.0.2.254-192.0.3.1"), AvoidBuggyIPs: true}, usedBy("dynamo-prod/solar", netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("192.0.3.1"))},
		"the end of IPv4":     {Pool{Ranges: ranges(t, "255.255.255.254-255.255.255.255"), Reserved: ranges(t, "255.255.255.0/24")}, nil},
		"the end of IPv6":     {Pool{Ranges: ranges(t, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"), Reserved: ranges(t, "::/0")}, nil},
		"the end, used":       {Pool{Ranges: ranges(t, "255.255.255.255")}, usedBy("dynamo-prod/solar", netip.MustParseAddr("255.255.255.255"))},
		"reserved in reserve": {Pool{Ranges: ranges(t, "192.0.2.0/28"), Reserved: ranges(t, "192.0.2.0/28", "192.0.2.3", "192.0.2.4-192.0.2.5")}, nil},
	} {
		if a, ok := c.pool.Pick("photon-prod/solar", c.used); ok || a.IsValid() {
			t.Errorf("%s: Pick = %s, %v, want none", name, a, ok)
		}
	}
}

// The one address that is left is found wherever it lies, whoever looks for it.
func TestPickLast(t *testing.T) {
	for name, p := range map[string]Pool{
		"one range":     {Ranges: ranges(t, "172.21.208.0/24")},
		"avoid buggy":   {Ranges: ranges(t, "172.21.208.200-172.21.209.9"), AvoidBuggyIPs: true},
		"three ranges":  {Ranges: ranges(t, "192.0.2.240/28", "10.100.0.3", "198.51.100.0/25")},
		"not in order":  {Ranges: ranges(t, "198.51.100.9-198.51.100.20", "10.100.0.0/30", "172.21.208.0/29")},
		"reserved":      {Ranges: ranges(t, "172.21.208.0/25"), Reserved: ranges(t, "172.21.208.7-172.21.208.120", "172.21.208.64/26", "172.21.208.2")},
		"both families": {Ranges: ranges(t, "2001:db8::fff0-2001:db8::1:f", "203.0.113.0/28"), Reserved: ranges(t, "2001:db8::fff8/125", "203.0.113.4/30")},
		"ends of both":  {Ranges: ranges(t, "255.255.255.248/29", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff8/125", "0.0.0.0/30", "::/126")},
	} {
		open := free(p, nil)
		for _, want := range open {
			used := usedBy("dynamo-prod/solar", open...)
			delete(used, want)
			for i := range 3 {
				holder := fmt.Sprintf("photon-prod/solar-%d", i)
				if got, ok := p.Pick(holder, used); !ok || got != want {
					t.Errorf("%s: Pick(%s) with only %s left = %s, %v", name, holder, want, got, ok)
				}
			}
		}
	}
	// Too large to be listed: everything but one address is reserved.
	left := netip.MustParseAddr("2001:db8::1234:5678:9abc:def0")
	large := Pool{Ranges: ranges(t, "2001:db8::/64"), Reserved: []Range{{netip.MustParseAddr("2001:db8::"), left.Prev()}, {left.Next(), netip.MustParseAddr("2001:db8::ffff:ffff:ffff:ffff")}}}
	if got, ok := large.Pick("photon-prod/solar", nil); !ok || got != left {
		t.Errorf("Pick with only %s left of a /64 = %s, %v", left, got, ok)
	}
	if got, ok := large.Pick("photon-prod/solar", usedBy("dynamo-prod/solar", left)); ok {
		t.Errorf("Pick with nothing left of a /64 = %s, want none", got)
	}
}

// search starts anywhere, walks to the end of the pool and round to where it began.
func TestSearchWalksRound(t *testing.T) {
	pool := Pool{Ranges: ranges(t, "198.51.100.250-198.51.101.5", "10.100.0.9", "2001:db8::8/126", "172.21.208.0/28"), Reserved: ranges(t, "172.21.208.4/31", "198.51.100.252"), AvoidBuggyIPs: true}
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	list := all(pool)
	for range 200 {
		used := map[netip.Addr]string{}
		for _, a := range list {
			if r.IntN(3) > 0 {
				used[a] = "dynamo-prod/solar"
			}
		}
		open := free(pool, used)
		for i, start := range list {
			var want netip.Addr
			for _, a := range slices.Concat(list[i:], list[:i]) {
				if slices.Contains(open, a) {
					want = a
					break
				}
			}
			if got, ok := pool.search(start, used); got != want || ok != want.IsValid() {
				t.Fatalf("search(%s) = %s, %v, want %s (seed %d)\nused: %v", start, got, ok, want, seed, used)
			}
		}
	}
}

func TestFirstFree(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       string
		blocked []string // in the order that search gives them
		buggy   bool
		want    string
	}{
		{"nothing blocked", "192.0.2.0/29", nil, false, "192.0.2.0"},
		{"the first is buggy", "192.0.2.0/29", nil, true, "192.0.2.1"},
		{"one blocked", "192.0.2.0/29", []string{"192.0.2.0"}, false, "192.0.2.1"},
		{"a row blocked", "192.0.2.0/29", []string{"192.0.2.0", "192.0.2.1", "192.0.2.2"}, false, "192.0.2.3"},
		{"a gap", "192.0.2.0/29", []string{"192.0.2.0", "192.0.2.2"}, false, "192.0.2.1"},
		{"nested", "192.0.2.0/29", []string{"192.0.2.0-192.0.2.5", "192.0.2.1", "192.0.2.2-192.0.2.3"}, false, "192.0.2.6"},
		{"overlapping", "192.0.2.0/29", []string{"192.0.2.0-192.0.2.3", "192.0.2.2-192.0.2.4", "192.0.2.3"}, false, "192.0.2.5"},
		{"the same twice", "192.0.2.0/29", []string{"192.0.2.0", "192.0.2.0"}, false, "192.0.2.1"},
		{"begins before", "192.0.2.4/30", []string{"192.0.2.0-192.0.2.5"}, false, "192.0.2.6"},
		{"ends behind", "192.0.2.0/30", []string{"192.0.2.1-198.51.100.1"}, false, "192.0.2.0"},
		{"all before", "192.0.2.4/30", []string{"10.0.0.0/8", "192.0.2.0-192.0.2.3"}, false, "192.0.2.4"},
		{"all blocked", "192.0.2.0/30", []string{"192.0.2.0/31", "192.0.2.2", "192.0.2.3"}, false, ""},
		{"blocked and buggy", "192.0.2.253-192.0.3.2", []string{"192.0.2.253-192.0.2.254", "192.0.3.1"}, true, "192.0.3.2"},
		{"the end of IPv4", "255.255.255.252/30", []string{"255.255.255.252-255.255.255.255"}, false, ""},
		{"buggy to the end of IPv4", "255.255.255.254-255.255.255.255", []string{"255.255.255.254"}, true, ""},
		{"the last of IPv4", "255.255.255.252/30", []string{"255.255.255.252-255.255.255.254"}, false, "255.255.255.255"},
		{"the end of IPv6", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126", []string{"::/0"}, false, ""},
		{"the other family does not block", "2001:db8::/64", []string{"0.0.0.0/0"}, false, "2001:db8::"},
		{"nor this way round", "192.0.2.0/30", []string{"192.0.2.0", "::/0"}, false, "192.0.2.1"},
	} {
		got, ok := Pool{AvoidBuggyIPs: c.buggy}.firstFree(ranges(t, c.r)[0], ranges(t, c.blocked...))
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("%s: firstFree(%s, %v) = %s, %v, want %q", c.name, c.r, c.blocked, got, ok, c.want)
		}
	}
}

// In small pools of every make, Pick finds an address exactly when there is one, and it is one that may be given out.
func TestPickAgainstScan(t *testing.T) {
	const seed = 13
	r := rand.New(rand.NewPCG(seed, seed))
	none, last := 0, 0
	for i := range 4000 {
		pool := randomPool(r)
		used := map[netip.Addr]string{}
		density := []float64{0, 0.3, 0.8, 0.95, 1}[r.IntN(5)]
		for _, a := range all(pool) {
			if r.Float64() < density {
				used[a] = "dynamo-prod/solar"
			}
		}
		used[netip.MustParseAddr("203.0.113.77")] = "dynamo-prod/lunar" // of another pool
		open := free(pool, used)
		holder := fmt.Sprintf("photon-prod/solar-%d", i)
		got, ok := pool.Pick(holder, used)
		if ok != (len(open) > 0) || ok && !slices.Contains(open, got) {
			t.Fatalf("Pick(%s) = %s, %v, want one of %v (seed %d)\npool: %+v\nused: %v", holder, got, ok, open, seed, pool, used)
		}
		if again, _ := pool.Pick(holder, used); again != got {
			t.Fatalf("Pick(%s) = %s, then %s (seed %d)", holder, got, again, seed)
		}
		switch len(open) {
		case 0:
			none++
		case 1:
			last++
		}
	}
	if none < 100 || last < 100 {
		t.Errorf("only %d pools were full and %d had one address left: the test does not try what it is for", none, last)
	}
}

// randomPool has up to four ranges of up to 40 addresses, about half of them reserved.
func randomPool(r *rand.Rand) Pool {
	p := Pool{AvoidBuggyIPs: r.IntN(2) == 0}
	bases := []string{"172.21.208.0", "10.100.0.230", "192.0.2.250", "255.255.255.215", "2001:db8::fff0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffd7"}
	r.Shuffle(len(bases), func(i, j int) { bases[i], bases[j] = bases[j], bases[i] })
	span := func(from netip.Addr, most int) Range {
		first := from
		for range r.IntN(most / 2) {
			first = first.Next()
		}
		last := first
		for range r.IntN(most / 2) {
			last = last.Next()
		}
		return Range{first, last}
	}
	for _, base := range bases[:1+r.IntN(4)] {
		one := span(netip.MustParseAddr(base), 40)
		p.Ranges = append(p.Ranges, one)
		for range r.IntN(4) { // they may overlap each other and reach beyond the range
			p.Reserved = append(p.Reserved, span(one.First, 20))
		}
	}
	return p
}

// As long as its first choice is free, a cluster gets it, whoever else is there and whatever is reserved elsewhere.
func TestPickIsStable(t *testing.T) {
	const seed = 17
	r := rand.New(rand.NewPCG(seed, seed))
	for _, text := range []string{"172.21.208.0/25", "10.100.0.0/15", "2001:db8::/64"} {
		pool := Pool{Ranges: ranges(t, text)}
		for i := range 100 {
			holder := fmt.Sprintf("photon-prod/solar-%d", i)
			want, _ := pool.Pick(holder, nil)
			used := map[netip.Addr]string{}
			for j := range r.IntN(400) {
				if a, ok := pool.Pick(fmt.Sprintf("dynamo-prod/lunar-%d-%d", i, j), used); ok && a != want {
					used[a] = "dynamo-prod/lunar"
				}
			}
			crowded := pool
			if a, ok := pool.Pick("quark-dev/solar", used); ok && a != want {
				crowded.Reserved = []Range{{a, a}}
			}
			if got, ok := crowded.Pick(holder, used); !ok || got != want {
				t.Fatalf("Pick(%s, %s) among %d others = %s, %v, want its first choice %s (seed %d)", text, holder, len(used), got, ok, want, seed)
			}
			used[want] = "dynamo-prod/lunar"
			if got, ok := crowded.Pick(holder, used); ok && got == want {
				t.Fatalf("Pick(%s, %s) = %s, which is used", text, holder, got)
			}
		}
	}
}

// Names that differ little are spread over the whole pool, so that two branches rarely meet.
func TestPickSpreads(t *testing.T) {
	const perAddress = 100
	for _, c := range []struct {
		pool    string
		buckets int
		bucket  func(netip.Addr) int
	}{
		{"172.21.208.0/24", 256, func(a netip.Addr) int { return int(a.As4()[3]) }},
		{"10.100.0.0/15", 512, func(a netip.Addr) int { b := a.As4(); return int(b[1]-100)*256 + int(b[2]) }},
		{"2001:db8::/64", 256, func(a netip.Addr) int { return int(a.As16()[8]) }},
		{"2001:db8::/64", 256, func(a netip.Addr) int { return int(a.As16()[15]) }},
	} {
		pool := Pool{Ranges: ranges(t, c.pool)}
		counts := make([]int, c.buckets)
		for i := range c.buckets * perAddress {
			a, _ := pool.Pick(fmt.Sprintf("photon-prod/solar-%d", i), nil)
			counts[c.bucket(a)]++
		}
		// The sum is about as large as there are buckets when the spread is even; 1.5 times that is odd beyond any accident.
		sum := 0.0
		for _, n := range counts {
			d := float64(n - perAddress)
			sum += d * d / perAddress
		}
		if most := 1.5 * float64(c.buckets); sum > most {
			t.Errorf("%s: picks are unevenly spread: chi-square %.0f over %d buckets, want at most %.0f", c.pool, sum, c.buckets, most)
		}
	}
}

// A growing pool of 131,072 addresses, to three quarters: what a large fleet's ledger goes through over the years.
func BenchmarkPickGrowing(b *testing.B) {
	benchmarkPicks(b, Pool{Ranges: ranges(b, "10.100.0.0/15"), AvoidBuggyIPs: true})
}

func BenchmarkPickIPv6(b *testing.B) { benchmarkPicks(b, Pool{Ranges: ranges(b, "2001:db8::/64")}) }

// benchmarkPicks gives 100,000 clusters an address each.
func benchmarkPicks(b *testing.B, pool Pool) {
	holders := make([]string, 100_000)
	for i := range holders {
		holders[i] = fmt.Sprintf("photon-prod/solar-%d", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		used := make(map[netip.Addr]string, len(holders))
		for _, h := range holders {
			a, ok := pool.Pick(h, used)
			if !ok {
				b.Fatalf("Pick(%s): none free at %d of %s", h, len(used), pool.Size())
			}
			used[a] = h
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(holders)), "ns/pick")
}

// One pick with all but one of 65,536 addresses taken: no hash leads there, so the pool is searched.
func BenchmarkPickNearlyFull(b *testing.B) {
	pool := Pool{Ranges: ranges(b, "10.100.0.0/16")}
	used := usedBy("dynamo-prod/solar", all(pool)...)
	delete(used, netip.MustParseAddr("10.100.123.45"))
	b.ReportAllocs()
	for b.Loop() {
		if a, ok := pool.Pick("photon-prod/solar", used); !ok || a.String() != "10.100.123.45" {
			b.Fatalf("Pick = %s, %v", a, ok)
		}
	}
}

func TestPoolWords(t *testing.T) {
	many := Pool{Name: "vips", AvoidBuggyIPs: true}
	for _, text := range []string{"192.0.2.1", "192.0.2.3", "192.0.2.5", "192.0.2.7", "192.0.2.9", "192.0.2.11-192.0.2.13", "192.0.2.15"} {
		many.Ranges = append(many.Ranges, rangeOf(t, text))
	}
	subnet := Pool{Name: "photon-prod.production", Ranges: []Range{rangeOf(t, "10.100.0.240-10.100.0.254")}, Reserved: []Range{rangeOf(t, "10.100.0.254")}}
	for _, c := range [][2]string{
		{many.Title(), `address pool "vips"`},
		{many.Spans(), "192.0.2.1, 192.0.2.3, 192.0.2.5, 192.0.2.7, 192.0.2.9, 2 more"},
		{many.ReservedSpans(), "what ends in .0 or .255"},
		{many.Widen(), "the platform team adds addresses under addressPools.vips in the catalog"},
		{subnet.Title(), "the serverAddresses of subnet photon-prod/production"},
		{subnet.Spans(), "10.100.0.240-10.100.0.254"},
		{subnet.ReservedSpans(), "10.100.0.254"},
		{subnet.Widen(), `widen spec.serverAddresses of SubnetRequest "production"`},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
}

func rangeOf(t *testing.T, text string) Range {
	t.Helper()
	r, err := ParseRange(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
