package plugin

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"copyhold.dev/copyhold/render/diag"
)

// MaxMessage is how much of a failure is handed to Argo CD, in bytes. All of it ends up in the Application's condition, after the
// command line; a message of megabytes breaks the connection and is lost.
const MaxMessage = 4 << 10

// Strict makes errors of the warnings that must not reach a management cluster: a placeholder is a kind that no API server knows.
func Strict(found diag.List) diag.List {
	var out diag.List
	for _, f := range found {
		if f.Name == "catalog/placeholder" {
			f.Severity = diag.Error
		}
		out.Add(f)
	}
	return out
}

// Message is what Argo CD shows of findings, the most important first and at most MaxMessage bytes: errors before warnings, and among
// errors those that others follow from. What does not fit is counted.
func Message(found diag.List) string {
	ranked := make([]diag.List, 4)
	for _, f := range found.Sorted() {
		r := rank(f)
		ranked[r].Add(f)
	}
	var all diag.List
	for _, l := range ranked {
		all = append(all, l...)
	}
	var b strings.Builder
	for i, f := range all {
		one := diag.List{f}.String()
		if b.Len()+len(one) <= MaxMessage-len(rest(all[i+1:])) {
			b.WriteString(one)
			continue
		}
		if i == 0 { // one finding that is longer than all may be
			tail := rest(all[1:])
			return Cut(one, MaxMessage-len(tail)) + tail
		}
		b.WriteString(rest(all[i:]))
		break
	}
	return strings.ToValidUTF8(b.String(), "?")
}

// rank is the place of a finding in a message: the Application and the root, the catalog, then what the folder says, then warnings.
func rank(f diag.Finding) int {
	noun := path.Dir(f.Name)
	switch {
	case f.Severity != diag.Error:
		return 3
	case noun == "plugin" || noun == "root" || noun == "path" || noun == "render" || f.Name == "request/argocd-source":
		return 0
	case noun == "catalog" || noun == "class" || noun == "overlay":
		return 1
	}
	return 2
}

// rest is the last line of a message that leaves findings out.
func rest(out diag.List) string {
	errs := 0
	for _, f := range out {
		if f.Severity == diag.Error {
			errs++
		}
	}
	warnings := len(out) - errs
	switch {
	case len(out) == 0:
		return ""
	case errs == 0:
		return fmt.Sprintf("... and %d more, warnings: copyhold check shows them all\n", warnings)
	}
	return fmt.Sprintf("... and %d more, %d of them errors: copyhold check shows them all\n", len(out), errs)
}

// Cut is a text of at most n bytes, with a mark where it was cut, and a line's end.
func Cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= n {
		return text
	}
	const mark = " ...\n"
	text = text[:n-len(mark)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + mark
}
