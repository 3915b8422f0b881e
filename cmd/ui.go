package cmd

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"copyhold.dev/copyhold/render/diag"
)

// The rules of the user interface:
//
//   - stdout carries data and nothing else; all words go to stderr, so that a pipe never swallows a warning or swallows one as data.
//   - A finding is one line, file:line:col: message [name], then at most one line "  hint: ...". Warnings say so after the place.
//   - What is not about a place in a file starts with "copyhold: ".
//   - Messages are lower case, have no full stop, and quote what they speak of.
//   - All findings are printed, sorted by place; none is held back for a next run.
//   - Colour only on a terminal, never with NO_COLOR set or TERM=dumb, and never the only sign of anything.

func wantsColour(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

const (
	red    = "31"
	yellow = "33"
	bold   = "1"
	dim    = "2"
)

func (a *app) paint(code, s string) string {
	if !a.colour || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (a *app) finding(f diag.Finding) {
	line, colour := f.String(), red
	if f.Severity == diag.Warning {
		colour = yellow
	}
	if place := f.Pos.String(); place != "" {
		line = a.paint(bold, place+":") + strings.TrimPrefix(line, place+":")
	}
	name := "[" + f.Name + "]"
	fmt.Fprintln(a.stderr, strings.TrimSuffix(line, name)+a.paint(colour, name))
	if f.Hint != "" {
		fmt.Fprintln(a.stderr, a.paint(dim, "  hint: "+f.Hint))
	}
}

func (a *app) fail(message, hint string) {
	fmt.Fprintln(a.stderr, a.paint(red, "copyhold: ")+message)
	if hint != "" {
		fmt.Fprintln(a.stderr, a.paint(dim, "  hint: "+hint))
	}
}

// say tells what was done.
func (a *app) say(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }
