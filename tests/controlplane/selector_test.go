package controlplane

import (
	"slices"
	"strings"
	"testing"
)

// TestSelectors changes the selector of a running MachineDeployment. Where the next one does not match the machines there are, Cluster API
// makes others beside them and forgets those, which no edit of a request can bring about and copyhold diff foretells.
func TestSelectors(t *testing.T) {
	t.Parallel()
	const file, is, with = "templates/_kamaji.tpl", `$labels := dict "cluster`, `$labels := dict "shelf" "a" "cluster`
	for _, c := range []struct {
		name   string
		edit   edit
		says   string
		others int
	}{
		{"missing", edit{chart: true, change: explicit(file, is, with)}, "replace", 1},
		{"matching", edit{chart: true, prepare: explicit(file, is, with), change: explicit(file, "    matchLabels: {{ toJson $labels }}", `    matchLabels: {{ omit $labels "shelf" | toJson }}`)}, "in-place", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			namespace := "selector-" + c.name
			base := baseOf(t, namespace, c.edit)
			w := newWorld(t, namespace, namespace+"-classes")
			was := w.build(base)
			before := machineNames(w)
			edited := copyOf(t, base.root)
			c.edit.change(edited)
			allocated(edited)
			predicted, words := prediction(edited.diff(base), nil)
			if !slices.ContainsFunc(predicted, func(p string) bool { return strings.HasSuffix(p, " "+c.says) }) {
				t.Errorf("copyhold says %q, want %s: %s", predicted, c.says, words)
			}
			w.make(edited, was)
			w.touch()
			after := machineNames(w)
			for _, name := range before {
				if !slices.Contains(after, name) {
					t.Errorf("machine %s is gone", name)
				}
			}
			if len(after) != len(before)+c.others {
				t.Errorf("machines %v, then %v, want %d beside them", before, after, c.others)
			}
			tell("a selector %s the machines there are: %v, then %v", c.name, before, after)
		})
	}
}

func machineNames(w *world) []string {
	var out []string
	for _, o := range w.list(machines) {
		out = append(out, o.GetName())
	}
	slices.Sort(out)
	return out
}
