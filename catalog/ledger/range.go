package ledger

import (
	"fmt"
	"net/netip"
	"strings"
)

// Range is first to last, both included; First <= Last, one family, no zone.
type Range struct{ First, Last netip.Addr }

// Contains reports whether the address is in the range.
func (r Range) Contains(a netip.Addr) bool { return r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 }

// ParseRange reads first-last, a CIDR or a single address.
func ParseRange(s string) (Range, error) {
	if first, last, ok := strings.Cut(s, "-"); ok {
		a, err := netip.ParseAddr(strings.TrimSpace(first))
		if err != nil {
			return Range{}, err
		}
		b, err := netip.ParseAddr(strings.TrimSpace(last))
		if err != nil {
			return Range{}, err
		}
		if a.Is4() != b.Is4() || b.Less(a) || !plain(a) || !plain(b) {
			return Range{}, fmt.Errorf("range %q does not go from a first to a last address of one family", s)
		}
		return Range{a, b}, nil
	}
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return Range{}, err
		}
		if p.Masked() != p || !plain(p.Addr()) {
			return Range{}, fmt.Errorf("%s has host bits set, want %s", s, p.Masked())
		}
		return Range{p.Addr(), lastOf(p)}, nil
	}
	a, err := netip.ParseAddr(s)
	if err == nil && !plain(a) {
		err = fmt.Errorf("%s is not a plain address", s)
	}
	return Range{a, a}, err
}

// plain is false for addresses that have a second way of being written: with a zone, or IPv4 dressed as IPv6.
func plain(a netip.Addr) bool { return a.Zone() == "" && !a.Is4In6() }

// lastOf is the highest address of a prefix: all host bits one.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// RangeOf is the range of all addresses of a prefix, host bits or not.
func RangeOf(p netip.Prefix) Range {
	p = p.Masked()
	return Range{p.Addr(), lastOf(p)}
}

// Overlaps reports whether two ranges share an address.
//
//	    r.First......r.Last
//	o.First....o.Last                 shared: r.First <= o.Last and o.First <= r.Last
func (r Range) Overlaps(o Range) bool {
	return r.First.Compare(o.Last) <= 0 && o.First.Compare(r.Last) <= 0
}

// String is first-last, or the address when there is only one; ParseRange is its inverse.
func (r Range) String() string {
	if r.First == r.Last {
		return r.First.String()
	}
	return r.First.String() + "-" + r.Last.String()
}
