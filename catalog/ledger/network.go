package ledger

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"copyhold.dev/copyhold/render/diag"
)

// Malformed is what is wrong with a text that should be an address or a range, in words, and how to write it instead; "" where nobody can
// tell.
type Malformed struct{ Words, Write string }

func (m *Malformed) Error() string { return m.Words }

// MalformedAt finds what is wrong with a text at its place.
func MalformedAt(at diag.Pos, name string, err error) diag.Finding {
	f := diag.Errorf(at, name, "%v", err)
	if m := (*Malformed)(nil); errors.As(err, &m) && m.Write != "" {
		f = f.Hintf("write %q", m.Write)
	}
	return f
}

// ParseNetwork reads a CIDR in the one way of writing it, without host bits.
func ParseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, &Malformed{Words: fmt.Sprintf("range %q, want a CIDR, as in 10.100.0.0/24", text)}
	case p.Addr().Is4In6():
		return p, &Malformed{Words: fmt.Sprintf("range %q is IPv4 written as IPv6, want one of the two", text)}
	case p.Masked() != p:
		return p, &Malformed{fmt.Sprintf("range %q has host bits set", text), p.Masked().String()}
	case p.String() != text:
		return p, &Malformed{Words: fmt.Sprintf("range %q, want it written %s", text, p)}
	}
	return p, nil
}

// ParseSubnet reads the range of a network that machines can stand in.
func ParseSubnet(text string) (netip.Prefix, error) {
	p, err := ParseNetwork(text)
	switch {
	case err != nil:
		return p, err
	case Special(p.Addr()):
		return p, &Malformed{Words: fmt.Sprintf("range %q is a special one (unspecified, loopback, link-local or multicast), want one that machines can have", text)}
	case p.IsSingleIP():
		return p, &Malformed{Words: fmt.Sprintf("range %q holds one address, want one with room for a gateway and machines", text)}
	}
	return p, nil
}

// Special reports whether an address is of a range that no machine has one of.
func Special(a netip.Addr) bool {
	return a.IsMulticast() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}

// ParseGateway reads the address of a subnet's gateway. outside says that it is an address, and none that a router of the subnet can have.
func ParseGateway(text string, subnet netip.Prefix) (a netip.Addr, outside bool, err error) {
	a, err = netip.ParseAddr(text)
	switch {
	case err != nil || a.Zone() != "":
		return a, false, &Malformed{Words: fmt.Sprintf("gateway %q, want an IP address", text)}
	case a.Is4In6() || a.String() != text:
		return a, false, &Malformed{Words: fmt.Sprintf("gateway %q, want it written %s", text, a.Unmap())}
	case subnet.IsValid() && !subnet.Contains(a):
		return a, true, &Malformed{Words: fmt.Sprintf("gateway %s is not in %s", a, subnet)}
	}
	if slices.Contains(Edges(subnet), a) {
		return a, true, &Malformed{Words: fmt.Sprintf("gateway %s is the network or broadcast address of %s: no router can have it", a, subnet)}
	}
	return a, false, nil
}

// Edges are the addresses of a subnet that no machine can have: the first and last of IPv4 (but for RFC 3021), the first of IPv6, which is
// that of all its routers (RFC 4291).
func Edges(p netip.Prefix) []netip.Addr {
	switch {
	case !p.IsValid() || p.Bits() >= p.Addr().BitLen()-1:
		return nil
	case p.Addr().Is4():
		return []netip.Addr{p.Masked().Addr(), lastOf(p.Masked())}
	}
	return []netip.Addr{p.Masked().Addr()}
}
