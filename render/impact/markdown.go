package impact

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// The bounds of a Markdown report, in bytes: a comment on a pull request takes 65,536 characters, and people read the top of it.
const (
	maxMarkdown = 60000
	maxTop      = 4000
)

// Markdown writes a report as a comment on a pull request: the totals, a table with everything that may replace machines or worse within
// the first 4,000 characters, then the rest and the details, cut at 60,000.
func (r *Report) Markdown(w io.Writer) error {
	head := "**" + cell(r.Total()) + "**\n"
	var grave, mild []*Diff
	for _, d := range bySeverity(r.Clusters) {
		if d.Worst().AtLeast(Rollout) {
			grave = append(grave, d)
		} else {
			mild = append(mild, d)
		}
	}
	for _, c := range r.Classes {
		head += "\n" + cell(c.String()) + "\n"
	}
	top := table(grave, func(d *Diff) string { return cell(d.line()) })
	if len(head)+len(top) > maxTop { // shorter lines first, then only the names: none of them is left out of the top
		top = table(grave, func(d *Diff) string { return cell(brief(d)) })
	}
	if len(head)+len(top) > maxTop {
		top = names(grave, maxTop-len(head))
	}
	var b strings.Builder
	b.WriteString(head + top)
	limited := func(s string) bool {
		if b.Len()+len(s) > maxMarkdown-200 {
			return false
		}
		b.WriteString(s)
		return true
	}
	cut := !limited(table(mild, func(d *Diff) string { return cell(d.line()) }))
	if slices.ContainsFunc(r.Objects, func(o Object) bool { return !o.ofClass() }) {
		s := "\n| action | object | |\n|---|---|---|\n"
		for _, o := range r.Objects {
			if o.ofClass() {
				continue
			}
			s += fmt.Sprintf("| %s | %s | %s |\n", o.Action, cell(o.Kind+" "+o.Name), cell(o.Words))
		}
		cut = !limited(s) || cut
	}
	for _, n := range r.Notes {
		cut = !limited("\n_"+cell(n)+"_\n") || cut
	}
	for _, d := range bySeverity(r.Clusters) {
		var details strings.Builder
		d.details(&details)
		s := fmt.Sprintf("\n<details><summary>%s: %s</summary>\n\n```\n%s```\n\n</details>\n", d, d.Worst(), strings.ReplaceAll(details.String(), "```", "'''"))
		if !limited(s) {
			cut = true
			break
		}
	}
	if cut {
		b.WriteString("\n... and more: `copyhold diff -v` shows it all\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func table(clusters []*Diff, line func(*Diff) string) string {
	if len(clusters) == 0 {
		return ""
	}
	s := "\n| action | cluster | what and why |\n|---|---|---|\n"
	for _, d := range clusters {
		s += fmt.Sprintf("| %s | %s | %s |\n", d.Worst(), d, line(d))
	}
	return s
}

// brief is what happens to a cluster without the reason.
func brief(d *Diff) string {
	var parts []string
	for _, c := range d.Changes {
		if !c.Action.AtLeast(Rollout) {
			continue
		}
		s := string(c.Action)
		if c.Pool != "" {
			s += " " + c.Pool
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// names lists clusters by action, as many as fit.
func names(clusters []*Diff, room int) string {
	s := ""
	var action Action
	for i, d := range clusters {
		next := ", " + d.String()
		if d.Worst() != action {
			action = d.Worst()
			next = fmt.Sprintf("\n\n%s: %s", action, d)
		}
		if len(s)+len(next) > room-40 {
			return s + fmt.Sprintf(", and %d more below\n", len(clusters)-i)
		}
		s += next
	}
	return s + "\n"
}

// cell keeps text from breaking a table or being read as markup.
func cell(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.NewReplacer("|", "\\|", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "'", "@", "@\u200b").Replace(s)
}
