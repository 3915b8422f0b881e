package impact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"copyhold.dev/copyhold/render/impact"
)

// big is a report on n clusters that roll and as many that scale.
func big(n int) *impact.Report {
	r := impact.Nothing(3)
	for i := range n {
		two := impact.Machines{Min: 2, Max: 2}
		r.Clusters = append(r.Clusters,
			&impact.Diff{Namespace: "photon-prod", Name: fmt.Sprintf("roll-%04d", i), Changes: []impact.Change{{
				Action: impact.Rollout, Pool: "md-0", Machines: &two, Hash: "v1:0123456789abcdef", Policy: "acknowledge",
				Causes:      []impact.Cause{{At: "tenants/photon-prod/x.yaml:1:1", Field: "workers.md-0.size", Before: "small", After: "me|dium `now` <b> @all_of*you"}},
				Differences: []impact.Difference{{Object: "KubevirtMachineTemplate", Path: "spec.cores", Before: 2, After: strings.Repeat("é", 100)}},
			}}},
			&impact.Diff{Namespace: "photon-prod", Name: fmt.Sprintf("scale-%04d", i), Changes: []impact.Change{{Action: impact.Scale, Pool: "md-0", Machines: &two, Words: "from 1 machine to 2 machines"}}})
	}
	return r
}

// However many clusters a report has, as Markdown it can be a comment, and begins with the totals and what rolls.
func TestMarkdownBounds(t *testing.T) {
	for _, n := range []int{1, 15, 40, 300, 2000} {
		var b bytes.Buffer
		if err := big(n).Markdown(&b); err != nil {
			t.Fatal(err)
		}
		s := b.String()
		if len(s) > 60000 || !utf8.ValidString(s) {
			t.Errorf("%d clusters: %d bytes, valid UTF-8: %v", n, len(s), utf8.ValidString(s))
		}
		total := fmt.Sprintf("%d worker pool", n)
		if !strings.HasPrefix(s, "**"+total) {
			t.Errorf("%d clusters: begins with %q", n, s[:60])
		}
		top := s[:min(len(s), 4000)]
		if n <= 40 {
			for i := range n {
				if name := fmt.Sprintf("photon-prod/roll-%04d", i); !strings.Contains(top, name) {
					t.Errorf("%d clusters: %s is not among the first 4,000 bytes", n, name)
				}
			}
		} else if !strings.Contains(top, "more below") || !strings.Contains(top, "rollout: photon-prod/roll-0000") {
			t.Errorf("%d clusters: the top does not say that there are more:\n%s", n, top[len(top)-200:])
		}
		if strings.Contains(s, "copyhold diff -v") != (n > 40) {
			t.Errorf("%d clusters: says that something is cut: %v", n, n <= 40)
		}
		for _, raw := range []string{"me|dium", "<b>", "@all"} {
			if before, _, found := strings.Cut(top, "<details>"); found && strings.Contains(before, raw) {
				t.Errorf("%q is written as it is into a table", raw)
			}
		}
	}
}

// The other forms say the same, each in its own way.
func TestForms(t *testing.T) {
	r := big(2)
	var text, annotations, j bytes.Buffer
	for _, err := range []error{r.Text(&text, true, nil), r.GitHub(&annotations), r.JSON(&j)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text.String(), "not acknowledged: generate refuses it") || !utf8.Valid(text.Bytes()) {
		t.Errorf("text: %s", text.String())
	}
	lines := strings.Split(strings.TrimSpace(annotations.String()), "\n")
	if len(lines) != 5 || !strings.HasPrefix(lines[0], "::error title=rollout%3A photon-prod/roll-0000::") || !strings.HasPrefix(lines[2], "::notice ") {
		t.Errorf("annotations:\n%s", annotations.String())
	}
	var back impact.Report
	d := json.NewDecoder(&j)
	d.DisallowUnknownFields()
	if err := d.Decode(&back); err != nil {
		t.Fatal(err)
	}
	if back.Version != "copyhold.dev/impact/v1" || len(back.Clusters) != 4 || back.Clusters[0].Changes[0].Causes[0].Field != "workers.md-0.size" || back.Skipped != 3 {
		t.Errorf("read back: %+v", back)
	}
}

// What a line says of the lock is what generate does: it goes by the hash that is accepted, whatever becomes of the machines.
func TestLock(t *testing.T) {
	const hash = "v1:0123456789abcdef"
	for _, x := range []struct {
		change impact.Change
		want   string
	}{
		{impact.Change{Action: impact.Rollout, Hash: hash, Policy: "allow"}, ""},
		{impact.Change{Action: impact.Rollout, Hash: hash, Policy: "warn"}, "not acknowledged"},
		{impact.Change{Action: impact.Rollout, Hash: hash, Policy: "acknowledge"}, "not acknowledged: generate refuses it"},
		{impact.Change{Action: impact.InPlace, Hash: hash, Policy: "acknowledge"}, "not acknowledged: generate refuses it"},
		{impact.Change{Action: impact.OnDelete, Hash: hash, Policy: "acknowledge"}, "not acknowledged: generate refuses it"},
		{impact.Change{Action: impact.Replace, Hash: hash, Policy: "acknowledge", Acknowledged: true}, "acknowledged"},
		{impact.Change{Action: impact.Create, Hash: hash}, ""},
		{impact.Change{Action: impact.Unknown, Policy: "acknowledge"}, "the lock does not hold this"},
		{impact.Change{Action: impact.Unknown, Policy: "warn"}, "the lock does not hold this"},
		{impact.Change{Action: impact.Unknown, Policy: "allow"}, ""},
		{impact.Change{Action: impact.Unknown, Hash: "unknown-" + hash, Policy: "acknowledge"}, "not acknowledged: generate refuses it"},
	} {
		x.change.Pool, x.change.Words = "md-0", "words"
		r := impact.Nothing(0)
		r.Clusters = []*impact.Diff{{Namespace: "photon-prod", Name: "solar", Changes: []impact.Change{x.change}}}
		var b bytes.Buffer
		if err := r.Text(&b, false, nil); err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(b.String(), "\n")
		_, got, _ := strings.Cut(line, "md-0: words")
		if got = strings.TrimPrefix(got, "; "); got != x.want {
			t.Errorf("%s under %q, acknowledged %v: %q, want %q", x.change.Action, x.change.Policy, x.change.Acknowledged, got, x.want)
		}
	}
}
