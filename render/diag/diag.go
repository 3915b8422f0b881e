// Package diag holds what is wrong with a user's files, and where.
// It is the shared language of every other package and depends on none of them; it never prints and never decides an exit code.
//
// Start at Finding, then List.
package diag

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Pos is a place in a file of the tenants repository.
// File is slash-separated and relative to the repository's root. Line and Col start at 1 and count as an editor does;
// a zero Line means the file as a whole, a zero Pos means no place at all.
type Pos struct {
	File string
	Line int
	Col  int
}

// String gives file:line:col, as editors and CI logs link it.
func (p Pos) String() string {
	file := p.File
	if strings.ContainsFunc(file, unicode.IsControl) { // a file's name must not be able to write findings
		file = strconv.Quote(file)
	}
	switch {
	case file == "":
		return ""
	case p.Line == 0:
		return file
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", file, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Col)
}

// Severity says whether a finding stops the work.
type Severity int

// The two severities. An Error makes the exit code 1; a Warning is printed and changes nothing.
const (
	Error Severity = iota
	Warning
)

// Finding is one thing that is wrong, or soon will be.
//
// Message is lower case, has no full stop, quotes the value and says what was expected. Hint, when there is one, is the way out.
// Name is noun/problem (request/unknown-field) and never changes meaning once released.
type Finding struct {
	Pos      Pos
	Severity Severity
	Name     string
	Message  string
	Hint     string
}

// Errorf makes a finding that stops the work.
func Errorf(pos Pos, name, format string, args ...any) Finding {
	return Finding{Pos: pos, Name: name, Message: fmt.Sprintf(format, args...)}
}

// Warnf makes a finding that is only printed.
func Warnf(pos Pos, name, format string, args ...any) Finding {
	return Finding{Pos: pos, Severity: Warning, Name: name, Message: fmt.Sprintf(format, args...)}
}

// Hintf returns the finding with its way out.
func (f Finding) Hintf(format string, args ...any) Finding {
	f.Hint = OneLine(fmt.Sprintf(format, args...))
	return f
}

// String is the one-line form, "file:line:col: message [name]", without the hint.
func (f Finding) String() string {
	var b strings.Builder
	if p := f.Pos.String(); p != "" {
		b.WriteString(p + ": ")
	}
	if f.Severity == Warning {
		b.WriteString("warning: ")
	}
	fmt.Fprintf(&b, "%s [%s]", OneLine(f.Message), f.Name)
	return b.String()
}

// OneLine keeps what others say on the one line that it is given: who can choose a text must not be able to write lines of ours.
func OneLine(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	}
	return s
}

// List is a set of findings. Its zero value is clean.
type List []Finding

// Add appends findings.
func (l *List) Add(f ...Finding) { *l = append(*l, f...) }

// Failed reports whether any finding is an error.
func (l List) Failed() bool {
	return slices.ContainsFunc(l, func(f Finding) bool { return f.Severity == Error })
}

// Sorted returns the findings by file, line, column and name, each once.
func (l List) Sorted() List {
	out := slices.Clone(l)
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
			cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(out)
}

// String is every finding with its hint, a line each.
func (l List) String() string {
	var b strings.Builder
	for _, f := range l.Sorted() {
		b.WriteString(f.String() + "\n")
		if f.Hint != "" {
			b.WriteString("  hint: " + f.Hint + "\n")
		}
	}
	return b.String()
}

// JSON is a value in a message, as JSON.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return string(text)
}

// OneOf is the end of a message that lists the choices: ", want one of a, b" when there are under ten, else "".
func OneOf(choices []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(choices)))
	switch n := len(sorted); {
	case n == 0 || n >= 10:
		return ""
	case n == 1:
		return ", want " + sorted[0]
	}
	return ", want one of " + strings.Join(sorted, ", ")
}

// Nearest returns the choice that a misspelt word most likely meant, or "" when none is near.
func Nearest(word string, choices []string) string {
	best, least := "", 1+len(word)/3
	for _, c := range slices.Sorted(slices.Values(choices)) {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	return best
}

// distance counts the single-character edits between two words, a swap of neighbours being one (optimal string alignment).
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range b {
		d[0][j+1] = j + 1
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

// ErrOutside is what a tree answers for a link that leads out of it.
var ErrOutside = errors.New("the link leads out of the repository")
