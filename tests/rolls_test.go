package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"copyhold.dev/copyhold/catalog/builtin"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/impact"
)

const rollsHead = `# What rolls workers

What a change of a request or of a variable does to a running cluster on the tiers of the built-in catalog. The tables are made by
trying values on Cluster API's own engine, one change at a time; ` + "`go test ./tests -run WhatRollsWorkers -update`" + ` makes them anew, and a
test compares them. For your own catalog ask ` + "`copyhold explain TIER`" + `; for a change you have made, ` + "`copyhold diff`" + `.

A change of a ClusterClass reaches every cluster of the class. Worker changes other than a version change are not taken in turns: all
pools of a cluster, and all clusters of a class, start at once.
`

// TestWhatRollsWorkers keeps the page on what rolls workers equal to what the engine says.
func TestWhatRollsWorkers(t *testing.T) {
	tree := builtin.Repository()
	in, found, err := render.Offer(tree)
	if err != nil || found.Failed() {
		t.Fatal(found, err)
	}
	var b strings.Builder
	b.WriteString(rollsHead)
	p := render.NewProber(tree, in)
	for _, tier := range []string{"standard", "expert", "kubeadm"} {
		effects, err := impact.Explain(p, tier, func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## Tier %s\n\n| field | a change on a running cluster | tried |\n|---|---|---|\n", tier)
		rolls := 0
		for _, e := range effects {
			if e.Worst().Rolls() {
				rolls++
			}
			tried := "-"
			if len(e.Tries) > 0 {
				tried = fmt.Sprintf("`%s -> %s`", impact.Value(e.Tries[0].From), impact.Value(e.Tries[0].To))
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Field, e.Outcome(), tried)
		}
		if rolls < 5 {
			t.Errorf("tier %s: only %d fields roll workers: the probing does not see", tier, rolls)
		}
	}
	const file = "../docs/what-rolls-workers.md"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("%s is not what the engine says (-page +engine); -update rewrites it:\n%s", file, d)
	}
}
