package gate

import (
	"fmt"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// most is how many lines of one sort a log has. A platform of ten thousand clusters says the rest in figures.
const most = 500

// Text is the report as a person reads it: the summary first, then what is worst.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "copyhold gate: %s\n", r.Summary())
	shown := map[Verdict]int{}
	for _, o := range r.Outcomes {
		if shown[o.Verdict]++; shown[o.Verdict] > most {
			continue
		}
		fmt.Fprintf(&b, "\n%-12s  %s\n", o.Verdict, o.subject())
		for _, c := range o.Causes {
			fmt.Fprintf(&b, "              %s\n", diag.OneLine(c))
		}
		if o.Held != "" {
			fmt.Fprintf(&b, "              not yet: %s\n", o.Held)
		}
	}
	for _, v := range verdicts {
		if rest := shown[v] - most; rest > 0 {
			fmt.Fprintf(&b, "\n%-12s  and %d more\n", v, rest)
		}
	}
	b.WriteString("\n")
	for i, g := range r.Live.Gaps {
		if i == most {
			fmt.Fprintf(&b, "not checked: and %d more\n", len(r.Live.Gaps)-most)
			break
		}
		b.WriteString("not checked: " + g.Text())
	}
	for i, n := range r.Notes {
		if i == most {
			fmt.Fprintf(&b, "note: and %d more\n", len(r.Notes)-most)
			break
		}
		fmt.Fprintf(&b, "note: %s\n", diag.OneLine(n))
	}
	if len(r.Come) > 0 {
		fmt.Fprintf(&b, "new worker pools: %s\n", some(r.Come))
	}
	if len(r.Fresh) > 0 && !r.Wanted.Platform {
		fmt.Fprintf(&b, "new clusters: %s\n", some(r.Fresh))
	}
	b.WriteString(r.looked())
	return b.String()
}

// Text is a gap with what the API server says of it and the way out, a line each.
func (g Gap) Text() string {
	text := diag.OneLine(g.What) + "\n"
	if g.Says != "" {
		text += "  the API server says: " + diag.OneLine(g.Says) + "\n"
	}
	if g.Hint != "" {
		text += "  hint: " + g.Hint + "\n"
	}
	return text
}

// Summary is one line: what happens to machines, worst first.
func (r Report) Summary() string {
	where := r.Wanted.Application
	switch {
	case r.Live.NoAPI:
		return fmt.Sprintf("nothing to compare %s with: the API server has no Clusters of cluster.x-k8s.io/v1beta2", where)
	case r.Blind():
		return fmt.Sprintf("NOT CHECKED: nobody knows what this sync of %s does to machines", where)
	}
	var parts []string
	count := map[Verdict]int{}
	machines := map[Verdict]int64{}
	vague := map[Verdict]bool{}
	for _, o := range r.Outcomes {
		count[o.Verdict]++
		machines[o.Verdict] += o.Count
		vague[o.Verdict] = vague[o.Verdict] || !o.Counted
	}
	for _, v := range verdicts {
		n := count[v]
		if n == 0 {
			continue
		}
		of := quantity(machines[v], "machine")
		switch {
		case vague[v] && machines[v] == 0:
			of = "number of machines not known"
		case vague[v]:
			of = "at least " + of
		}
		switch v {
		case ClusterGoes:
			parts = append(parts, fmt.Sprintf("%s no longer asked for (%s)", quantity(int64(n), "Cluster"), of))
		case PoolGoes:
			parts = append(parts, fmt.Sprintf("%s to go (%s)", quantity(int64(n), "worker pool"), of))
		case WillRoll:
			parts = append(parts, fmt.Sprintf("%s WILL ROLL (%s)", quantity(int64(n), "worker pool"), of))
		case Unknown:
			parts = append(parts, fmt.Sprintf("of %s nobody can tell (%s)", quantity(int64(n), "worker pool or Cluster"), of))
		}
	}
	text := fmt.Sprintf("no machine of %s is replaced", where)
	if len(r.Live.Gaps) > 0 {
		text = fmt.Sprintf("of what could be looked at of %s no machine is replaced", where)
	}
	switch {
	case len(parts) > 0:
		text = fmt.Sprintf("%s: %s", where, strings.Join(parts, "; "))
	case len(r.Live.Clusters) == 0 && len(r.Live.Gaps) == 0 && r.Wanted.Platform:
		text = fmt.Sprintf("nothing runs yet that %s could replace", where)
	case len(r.Live.Clusters) == 0 && len(r.Live.Gaps) == 0:
		text = fmt.Sprintf("nothing runs yet for %s: %s to be created", where, quantity(int64(len(r.Fresh)), "cluster"))
	}
	if len(r.Live.Gaps) > 0 {
		text += "; NOT EVERYTHING WAS CHECKED"
	}
	return text
}

// Blind reports whether Clusters could be looked at nowhere. That none are there is something else: somebody has looked.
func (r Report) Blind() bool { return !r.Live.NoAPI && r.Live.Lists == 0 }

func (r Report) looked() string {
	classes := 0
	for _, c := range r.Live.Classes {
		if c.Unknown == "" {
			classes++
		}
	}
	where := r.Live.Reach
	if where == "" {
		where = "nowhere"
	}
	return fmt.Sprintf("looked at %s %s and %s; unchanged: %s\n", quantity(int64(len(r.Live.Clusters)), "Cluster"), where, quantity(int64(classes), "ClusterClass"), quantity(int64(r.Same), "worker pool"))
}

// subject is what an outcome is about, with its machines.
func (o Outcome) subject() string {
	s := o.Cluster.String()
	if o.Pool != "" {
		s += "  " + o.Pool
	}
	return s + "  " + o.machines()
}

func (o Outcome) machines() string {
	if !o.Counted {
		return "(number of machines not known)"
	}
	return "(" + quantity(o.Count, "machine") + ")"
}

// Event is what is to be written down beside a Cluster.
type Event struct {
	Cluster      *LiveCluster
	Reason, Note string
}

// reasons are those of Events, by verdict.
var reasons = map[Verdict]string{ClusterGoes: "ClusterNotWanted", PoolGoes: "WorkersWillGo", WillRoll: "WorkersWillRoll", Unknown: "RolloutUnknown"}

// maxNote is how long the note of an Event may be, in bytes (k8s.io/api/events/v1: less than 1 kB).
const maxNote = 1000

// Events are those of a report, one for each outcome.
func (r Report) Events() []Event {
	var out []Event
	for _, o := range r.Outcomes {
		subject := "the Cluster"
		if o.Pool != "" {
			subject = "worker pool " + o.Pool
		}
		what := map[Verdict]string{
			ClusterGoes: "is deleted by a sync that prunes", PoolGoes: "goes with this sync",
			WillRoll: "will roll", Unknown: "may roll: nobody can tell",
		}[o.Verdict]
		note := fmt.Sprintf("%s %s %s: %s", subject, o.machines(), what, strings.Join(o.Causes, "; "))
		if o.Held != "" {
			note += "; not yet: " + o.Held
		}
		out = append(out, Event{o.Cluster, reasons[o.Verdict], Shortened(diag.OneLine(note))})
	}
	return out
}

// Shortened is a note of an Event, cut where it would be refused.
func Shortened(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-4], "") + " ..."
}

func quantity(n int64, word string) string {
	if n == 1 {
		return "1 " + word
	}
	switch {
	case strings.HasSuffix(word, "ss"):
		word += "es"
	case word == "worker pool or Cluster":
		word = "worker pools or Clusters"
	default:
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}
