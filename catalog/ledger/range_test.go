package ledger

import (
	"net/netip"
	"testing"
)

func TestParseRange(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"172.21.208.100-172.21.208.199", "172.21.208.100-172.21.208.199"},
		{"172.21.208.100 - 172.21.208.199", "172.21.208.100-172.21.208.199"},
		{"10.100.0.0/24", "10.100.0.0-10.100.0.255"},
		{"10.100.0.0/31", "10.100.0.0-10.100.0.1"},
		{"10.100.0.7", "10.100.0.7"},
		{"0.0.0.0/0", "0.0.0.0-255.255.255.255"},
		{"2001:db8::/64", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff"},
		{"2001:db8::1/128", "2001:db8::1"},
		{"2001:db8::9-2001:db8::10", "2001:db8::9-2001:db8::10"},
	} {
		r, err := ParseRange(c.in)
		if err != nil || r.String() != c.want {
			t.Errorf("ParseRange(%q) = %v, %v, want %s", c.in, r, err, c.want)
			continue
		}
		again, err := ParseRange(r.String())
		if err != nil || again != r {
			t.Errorf("ParseRange(%q) = %v, %v: String is not its inverse", r, again, err)
		}
	}
	for _, in := range []string{"", "x", "10.0.0.2-10.0.0.1", "10.0.0.1-2001:db8::1", "10.0.0.1/24", "10.0.0.0/33", "fe80::1%eth0", "10.0.0.1-", "1.2.3", "fe80::1%a-fe80::2%a", "::ffff:10.0.0.1-10.0.0.2", "::ffff:10.0.0.1", "::ffff:10.0.0.0/104"} {
		if r, err := ParseRange(in); err == nil {
			t.Errorf("ParseRange(%q) = %v, want an error", in, r)
		}
	}
}

func TestOverlapsAndContains(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1-10.0.0.5", "10.0.0.5-10.0.0.9", true},
		{"10.0.0.1-10.0.0.5", "10.0.0.6-10.0.0.9", false},
		{"10.0.0.0/8", "10.1.0.0/16", true},
		{"0.0.0.0/0", "2001:db8::/64", false},
		{"::/0", "0.0.0.0/0", false},
	} {
		a, errA := ParseRange(c.a)
		b, errB := ParseRange(c.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if a.Overlaps(b) != c.want || b.Overlaps(a) != c.want {
			t.Errorf("%s and %s overlap: %v, %v, want %v", a, b, a.Overlaps(b), b.Overlaps(a), c.want)
		}
	}
	r, err := ParseRange("10.0.0.1-10.0.0.5")
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]bool{"10.0.0.0": false, "10.0.0.1": true, "10.0.0.5": true, "10.0.0.6": false, "2001:db8::1": false} {
		if got := r.Contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s contains %s: %v, want %v", r, addr, got, want)
		}
	}
}
