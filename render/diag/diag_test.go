package diag

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListString(t *testing.T) {
	var l List
	l.Add(
		Warnf(Pos{File: "b.yaml", Line: 2, Col: 3}, "x/late", "third"),
		Errorf(Pos{File: "a.yaml", Line: 10}, "x/early", "second: %q", "v"),
		Errorf(Pos{}, "x/nowhere", "first").Hintf("go %s", "on"),
		Errorf(Pos{File: "c\n\x1b[31md.yaml"}, "x/name", "a\nb\x1bc").Hintf("d\ne"),
		Errorf(Pos{File: "a.yaml", Line: 10}, "x/early", "second: %q", "v"),
	)
	want := `first [x/nowhere]
  hint: go on
a.yaml:10: second: "v" [x/early]
b.yaml:2:3: warning: third [x/late]
"c\n\x1b[31md.yaml": a b c [x/name]
  hint: d e
`
	if d := cmp.Diff(want, l.String()); d != "" {
		t.Errorf("String (-want +got):\n%s", d)
	}
	if !l.Failed() || (List{l[0]}).Failed() {
		t.Error("Failed does not tell errors from warnings")
	}
}

func TestNearest(t *testing.T) {
	choices := []string{"tier", "version", "subnet", "workers", "cidr"}
	for word, want := range map[string]string{"teir": "tier", "verison": "version", "Subnets": "subnet", "worker": "workers", "zzz": "", "cid": "cidr", "": ""} {
		if got := Nearest(word, choices); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got, want := OneOf([]string{"b", "a"}), ", want one of a, b"; got != want {
		t.Errorf("OneOf = %q, want %q", got, want)
	}
	if got := OneOf([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"}); got != "" {
		t.Errorf("OneOf of ten = %q, want nothing", got)
	}
}
