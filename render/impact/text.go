package impact

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"copyhold.dev/copyhold/catalog"
)

// Text writes a report for a terminal: a line for each cluster, worst first, and the totals last. verbose adds what of its objects
// differs and why, in full. paint colours a piece of text by an action; nil leaves all as it is.
func (r *Report) Text(w io.Writer, verbose bool, paint func(Action, string) string) error {
	if paint == nil {
		paint = func(_ Action, s string) string { return s }
	}
	var b strings.Builder
	width := 0
	for _, d := range r.Clusters {
		width = max(width, len(d.String()))
	}
	for _, d := range bySeverity(r.Clusters) {
		a := d.Worst()
		fmt.Fprintf(&b, "%s  %-*s  %s\n", paint(a, fmt.Sprintf("%-13s", a)), width, d, d.line())
		if verbose {
			d.details(&b)
		}
	}
	for _, o := range r.Objects {
		if o.ofClass() {
			continue // what it does is said of the clusters
		}
		line := fmt.Sprintf("%s  %s %s", paint(o.Action, fmt.Sprintf("%-13s", o.Action)), o.Kind, o.Name)
		if o.Words != "" {
			line += ": " + o.Words
		}
		b.WriteString(line + "\n")
	}
	for _, c := range r.Classes {
		b.WriteString(c.String() + "\n")
		for _, words := range c.Words {
			b.WriteString("  " + words + "\n")
		}
	}
	notes := slices.Clone(r.Notes)
	if !verbose { // each cluster has it
		notes = append(notes, r.foretold()...)
	}
	for _, n := range notes {
		b.WriteString("note: " + n + "\n")
	}
	b.WriteString(r.Total() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// ofClass reports whether the object is part of a ClusterClass and only comes or changes.
func (o Object) ofClass() bool {
	return (o.Kind == "ClusterClass" || strings.HasSuffix(o.Kind, "Template")) && !o.Action.AtLeast(ControlPlane)
}

// line is what happens to a cluster, in one line: its changes worst first, with the first cause of each.
func (d *Diff) line() string {
	changes := slices.Clone(d.Changes)
	slices.SortStableFunc(changes, func(a, b Change) int { return b.Action.rank() - a.Action.rank() })
	var parts []string
	for _, c := range changes {
		parts = append(parts, c.short(len(changes) > 1))
	}
	return strings.Join(parts, "; ")
}

// short is a change in a few words; named says what it is when the line's head does not.
func (c Change) short(named bool) string {
	var s string
	switch {
	case c.Pool != "" && c.Machines != nil:
		s = fmt.Sprintf("%s (%s)", c.Pool, c.Machines)
	case c.Pool != "":
		s = c.Pool
	case c.Machines != nil:
		s = c.Machines.String()
	}
	if named {
		s = strings.TrimSpace(string(c.Action) + " " + s)
	}
	var why []string
	switch {
	case len(c.Causes) > 0:
		why = append(why, c.Causes[0].String())
		if len(c.Causes) > 1 {
			why = append(why, fmt.Sprintf("and %d more", len(c.Causes)-1))
		}
	case c.Words != "":
		why = append(why, c.Words)
	}
	if mark := c.lock(); mark != "" {
		why = append(why, mark)
	}
	worded := slices.Contains([]Action{Unknown, Rejected, Frozen, Rollout, Replace, ControlPlane, InPlace}, c.Action) || c.Action == Delete && c.Pool == ""
	if len(c.Causes) > 0 && c.Words != "" && worded {
		why = append(why, c.Words)
	}
	switch {
	case s == "":
		return strings.Join(why, "; ")
	case len(why) == 0:
		return s
	}
	return s + ": " + strings.Join(why, "; ")
}

// lock says how a change stands with the policy, in agreement with what generate does.
func (c Change) lock() string {
	switch {
	case c.Policy == "allow" || c.Policy == "":
		return ""
	case c.Hash == "" && (c.Action == Unknown || c.Action == Rollout || c.Action == Replace):
		return "the lock does not hold this"
	case c.Hash == "":
		return ""
	case c.Acknowledged:
		return "acknowledged"
	case c.Policy == "acknowledge":
		return "not acknowledged: generate refuses it"
	}
	return "not acknowledged"
}

// details writes everything about a cluster, indented.
func (d *Diff) details(b *strings.Builder) {
	for _, c := range d.Changes {
		head := string(c.Action)
		if c.Pool != "" {
			head += " of worker pool " + c.Pool
		}
		if c.Machines != nil {
			head += ", " + c.Machines.String()
		}
		fmt.Fprintf(b, "    %s\n", head)
		if c.Words != "" {
			fmt.Fprintf(b, "        %s\n", c.Words)
		}
		for _, cause := range c.Causes {
			fmt.Fprintf(b, "        because of %s\n", cause)
		}
		for _, x := range c.Differences {
			fmt.Fprintf(b, "        %s\n", x)
		}
		switch mark := c.lock(); {
		case mark != "" && c.Hash != "":
			fmt.Fprintf(b, "        %s; rollout hash %s\n", mark, c.Hash)
		case mark != "":
			fmt.Fprintf(b, "        %s\n", mark)
		}
	}
	if d.Digest != "" {
		fmt.Fprintf(b, "    foretold for %s with digest %s\n", shape(d.Class), d.Digest)
	}
}

// foretold names the classes and charts that the report's clusters are of, with as much of their digests as tells them apart: a prediction
// holds for a live class of that content.
func (r *Report) foretold() []string {
	seen := map[string]bool{}
	for _, d := range r.Clusters {
		if d.Digest != "" {
			seen[Foretold(d.Class, d.Digest)] = true
		}
	}
	return catalog.Sorted(seen)
}

// Foretold says which class or chart a prediction is for.
func Foretold(class, digest string) string {
	scheme, sum, _ := strings.Cut(digest, ":")
	return fmt.Sprintf("foretold for %s with digest %s:%.12s", shape(class), scheme, sum)
}

// shape names a class or a chart, as reports have it.
func shape(name string) string {
	if chart, ok := strings.CutPrefix(name, "chart:"); ok {
		return "chart " + chart
	}
	return "class " + name
}

// String is the place, the field, and what it was and is.
func (c Cause) String() string {
	s := c.Field
	switch {
	case c.Before == nil && c.After == nil:
	case c.Before == nil:
		s += " " + Value(c.After)
	case c.After == nil:
		s += " " + Value(c.Before) + " -> nothing"
	default:
		s += " " + Value(c.Before) + " -> " + Value(c.After)
	}
	if c.At != "" {
		s += " (" + c.At + ")"
	}
	return s
}

// String is the object, the path, and what it was and is.
func (d Difference) String() string {
	s := d.Path
	if d.Object != "" {
		s = d.Object + " " + d.Path
	}
	return s + ": " + Value(d.Before) + " -> " + Value(d.After)
}

// maxValue is how many bytes of a value are shown; JSON output has all of it.
const maxValue = 80

// Value is a value as a report shows it: short, on one line.
func Value(v any) string {
	if v == nil {
		return "nothing"
	}
	s, isText := v.(string)
	if !isText {
		j, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		s = string(j)
	} else if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		s = fmt.Sprintf("%q", s)
	}
	if len(s) <= maxValue {
		return s
	}
	cut := maxValue
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// String is one line on how far a class's change reaches.
func (c Class) String() string {
	rolls := 0
	var rest []string
	for i := len(Actions) - 1; i >= 0; i-- {
		a, n := Actions[i], c.Reach[Actions[i]]
		switch {
		case n == 0 || a == None:
		case a == Rollout || a == Latent:
			rolls += n
		default:
			rest = append(rest, fmt.Sprintf("%d %s", n, a))
		}
	}
	s := fmt.Sprintf("%s changes: it rolls workers of %d of %s", shape(c.Name), rolls, count(c.Clusters, "cluster"))
	if len(rest) > 0 {
		s += ", " + strings.Join(rest, ", ")
	}
	return s
}

// Total is the last line: what happens, counted.
func (r *Report) Total() string {
	totals := r.Totals()
	var parts []string
	add := func(format string, a Action, args ...any) {
		if _, there := totals[a]; there {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	of := func(a Action) string { return count(totals[a].Clusters, "cluster") }
	pools := func(a Action) string { return count(totals[a].Pools, "worker pool") }
	if whole := r.whole(Delete); whole.Clusters > 0 {
		parts = append(parts, fmt.Sprintf("%s to delete (%s)", count(whole.Clusters, "cluster"), whole.Machines))
	}
	if n := totals[Delete].Pools; n > 0 {
		parts = append(parts, fmt.Sprintf("%s to delete", count(n, "worker pool")))
	}
	add("%s rejected", Rejected, of(Rejected))
	add("%s frozen", Frozen, of(Frozen))
	add("%s to replace at once (%s)", Replace, pools(Replace), totals[Replace].Machines)
	add("%s with other addresses", Address, of(Address))
	add("%s to roll (%s)", Rollout, pools(Rollout), totals[Rollout].Machines)
	add("%s to roll with the next reconcile (%s)", Latent, pools(Latent), totals[Latent].Machines)
	if t := totals[Unknown]; t.Pools > 0 {
		parts = append(parts, fmt.Sprintf("%s unknown (%s)", pools(Unknown), t.Machines))
	} else {
		add("%s unknown", Unknown, of(Unknown))
	}
	add("%s on delete (%s)", OnDelete, pools(OnDelete), totals[OnDelete].Machines)
	add("%s with too new an image", ImageSkew, pools(ImageSkew))
	add("%s to change in place", ControlPlane, count(totals[ControlPlane].Clusters, "control plane"))
	if whole := r.whole(Create); whole.Clusters > 0 {
		parts = append(parts, count(whole.Clusters, "cluster")+" to create")
	}
	if part := totals[Create].Pools; part > 0 {
		parts = append(parts, count(part, "worker pool")+" to create")
	}
	add("%s to scale", Scale, pools(Scale))
	add("%s otherwise changed in place", InPlace, of(InPlace))
	var same []string
	if r.Same > 0 || r.Skipped == 0 && len(parts) == 0 {
		same = append(same, count(r.Same, "cluster")+" unchanged")
	}
	if r.Skipped > 0 {
		same = append(same, count(r.Skipped, "tenant")+" untouched")
	}
	rest := strings.Join(same, ", ")
	switch {
	case len(parts) == 0 && slices.ContainsFunc(r.Objects, func(o Object) bool { return !o.ofClass() }):
		return "nothing but the objects above changes: " + rest
	case len(parts) == 0:
		return "nothing happens: " + rest
	case rest == "":
		return strings.Join(parts, ", ")
	}
	return strings.Join(parts, ", ") + "; " + rest
}

// whole counts clusters that come or go as a whole, not with a single pool.
func (r *Report) whole(a Action) Total {
	var t Total
	for _, d := range r.Clusters {
		for _, c := range d.Changes {
			if c.Action == a && c.Pool == "" {
				t.Clusters++
				t.Machines = t.Machines.plus(*c.Machines)
			}
		}
	}
	return t
}

// count is "no clusters", "1 cluster", "2 clusters".
func count(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
