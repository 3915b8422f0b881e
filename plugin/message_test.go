package plugin

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"copyhold.dev/copyhold/render/diag"
)

func TestMessage(t *testing.T) {
	found := diag.List{
		diag.Warnf(diag.Pos{File: "a"}, "x/warning", "first by place, last by weight"),
		diag.Errorf(diag.Pos{File: "b"}, "request/broken", "broken").Hintf("mend it"),
		diag.Errorf(diag.Pos{File: "c"}, "class/refused", "the cause"),
		diag.Errorf(diag.Pos{}, "plugin/unknown-parameter", "the Application itself"),
	}
	want := `the Application itself [plugin/unknown-parameter]
c: the cause [class/refused]
b: broken [request/broken]
  hint: mend it
a: warning: first by place, last by weight [x/warning]
`
	if got := Message(found); got != want {
		t.Errorf("Message = %q, want %q", got, want)
	}
	if got := Message(nil); got != "" {
		t.Errorf("Message of nothing = %q", got)
	}
}

// However much is wrong, the message is as long as it may be, ends at a line's end, and says how much it leaves out.
func TestMessageCap(t *testing.T) {
	for n := range 200 {
		found := diag.List{diag.Warnf(diag.Pos{File: "a"}, "x/warning", "w")}
		for i := range n {
			found.Add(diag.Errorf(diag.Pos{File: fmt.Sprintf("c%03d", i)}, "x/error", "broken, with as many words as this"))
		}
		got := Message(found)
		shown := strings.Count(got, "[x/")
		if len(got) > MaxMessage || !strings.HasSuffix(got, "\n") {
			t.Fatalf("%d findings: %d bytes, ends in %q", len(found), len(got), got[max(0, len(got)-100):])
		}
		rest := len(found) - shown
		switch {
		case rest == 0 && strings.Contains(got, "... and"),
			rest > 1 && !strings.HasSuffix(got, fmt.Sprintf("... and %d more, %d of them errors: copyhold check shows them all\n", rest, rest-1)),
			rest == 1 && !strings.HasSuffix(got, "... and 1 more, warnings: copyhold check shows them all\n"):
			t.Fatalf("%d findings, %d shown: it ends in %q", len(found), shown, got[max(0, len(got)-100):])
		case rest > 0 && len(got) < MaxMessage-200:
			t.Fatalf("%d findings: only %d bytes are used", len(found), len(got))
		}
	}
}

// A single finding may be longer than a message, and may hold what is no text.
func TestMessageLong(t *testing.T) {
	for _, text := range []string{strings.Repeat("é", 5000), strings.Repeat("\xffé", 5000)} {
		got := Message(diag.List{diag.Errorf(diag.Pos{}, "x/error", "%s", text), diag.Errorf(diag.Pos{File: "b"}, "x/error", "y")})
		if len(got) > MaxMessage || len(got) < MaxMessage-100 || !utf8.ValidString(got) || !strings.HasSuffix(got, " ...\n... and 1 more, 1 of them errors: copyhold check shows them all\n") {
			t.Errorf("Message of a finding of %d bytes has %d and ends in %q", len(text), len(got), got[max(0, len(got)-100):])
		}
	}
}

func TestStrict(t *testing.T) {
	got := Strict(diag.List{diag.Warnf(diag.Pos{}, "catalog/placeholder", "p"), diag.Warnf(diag.Pos{}, "x/y", "w")})
	if got[0].Severity != diag.Error || got[1].Severity != diag.Warning {
		t.Errorf("Strict = %v", got)
	}
}
