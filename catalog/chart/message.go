package chart

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"copyhold.dev/copyhold/render/diag"
)

// Helm says what went wrong as a chain of everything that was going on. What follows finds the two ends of it.
var (
	// A failure starts with the place where the engine was: "template: solar/templates/a.yaml:3:4: ", or in parentheses when
	// helm has shortened it.
	outermost = regexp.MustCompile(`^(?:template: |parse error at \(|execution error at \()(.+?):(\d+)(?::(\d+))?\)?: `)
	// Each step inwards is told like this.
	step    = regexp.MustCompile(`(?s)template: (\S+?):(\d+):(\d+): executing "[^"]*" at <(.*?)>: `)
	calling = regexp.MustCompile(`^error calling \w+: `)
)

// failure makes a finding of a template that cannot be run: where in the template file, and the innermost reason.
func (r *release) failure(err error) diag.Finding {
	text := err.Error()
	files := r.templates()
	at := diag.Pos{File: r.dir}
	reason := text
	if m := outermost.FindStringSubmatch(text); m != nil && files[m[1]] != "" {
		at = place(files[m[1]], m[2], m[3])
		reason = text[len(m[0]):]
	}
	var inner string
	if steps := step.FindAllStringSubmatchIndex(text, -1); steps != nil {
		last := steps[len(steps)-1]
		group := func(n int) string { return text[last[2*n]:last[2*n+1]] }
		reason = text[last[1]:]
		if !calling.MatchString(reason) {
			reason = group(4) + ": " + reason
		}
		// In a text given to tpl, the place would be one of that text, under the template's name.
		p := place(files[group(1)], group(2), group(3))
		if p.File != "" && p != at && !strings.Contains(text, "calling tpl:") {
			inner = p.String()
		}
	}
	f := diag.Errorf(at, "chart/template", "%s", plainly(reason))
	if inner != "" {
		f = f.Hintf("it comes from %s", inner)
	}
	return f
}

// wording puts in plain words what helm and its libraries say.
type wording struct {
	helm *regexp.Regexp
	ours string
}

// words are for what people meet most.
var words = []wording{
	{regexp.MustCompile(`^(?:error calling \w+: )+`), ""},
	// tpl quotes the whole text it was given.
	{regexp.MustCompile(`^cannot parse template "(?:[^"\\]|\\.)*": (?:template: [^ ]+: )?`), "in the text given to tpl: "},
	{regexp.MustCompile(`nil pointer evaluating \S.*\.(\w+)$`), `there is nothing to take "$1" of`},
	{regexp.MustCompile(`wrong type for value; expected (.*); got interface {}$`), "want a $1, got nothing"},
	{regexp.MustCompile(`can't evaluate field (\w+) in type .*$`), `there is no field "$1"`},
	{regexp.MustCompile(`^template: no template ("[^"]*") associated with template "gotpl"$`), "there is no template $1"},
	{regexp.MustCompile(`^rendering template has a nested reference name: (.*): unable to execute template$`), `template "$1" includes itself without end`},
}

func plainly(reason string) string {
	for _, w := range words {
		reason = w.helm.ReplaceAllString(reason, w.ours)
	}
	return oneLine(reason)
}

// place makes a position of what text/template prints, where columns start at 0.
func place(file, line, col string) diag.Pos {
	p := diag.Pos{File: file}
	p.Line, _ = strconv.Atoi(line)
	if c, err := strconv.Atoi(col); err == nil {
		p.Col = c + 1
	}
	return p
}

var (
	notATable = regexp.MustCompile(`^type mismatch on ([^:]+): `)
	ofFile    = regexp.MustCompile(`^cannot load ([\w.]+): `)
	yamlLine  = regexp.MustCompile(`yaml: line (\d+): `)
)

// unmergeable makes a finding of values that do not fit the chart.
func (r *release) unmergeable(err error) diag.Finding {
	at := diag.Pos{File: r.dir}
	if m := notATable.FindStringSubmatch(err.Error()); m != nil {
		return diag.Errorf(at, "chart/values", "value %q is for the subchart of that name, want a mapping (key: value)", m[1])
	}
	return diag.Errorf(at, "chart/values", "%s", oneLine(err.Error()))
}

// unloadable makes a finding of a chart that helm's loader refuses, at the file it means.
func unloadable(dir string, err error) diag.Finding {
	text, at := err.Error(), diag.Pos{File: path.Join(dir, chartFile)}
	if m := ofFile.FindStringSubmatch(text); m != nil {
		at.File = path.Join(dir, m[1])
		text = strings.TrimPrefix(text, m[0])
	}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		at.Line, _ = strconv.Atoi(m[1])
		text = strings.Replace(text, m[0], "", 1)
	}
	text = strings.TrimPrefix(text, "validation: ")
	return diag.Errorf(at, "chart/invalid", "%s", yamlMessage(fmt.Errorf("%s", strings.ReplaceAll(text, "chart.metadata.", ""))))
}

// yamlMessage takes out of a message which libraries it has passed, and what the types are called in them.
func yamlMessage(err error) string {
	text := yamlNoise.Replace(err.Error())
	for _, w := range yamlWords {
		text = w.helm.ReplaceAllString(text, w.ours)
	}
	return oneLine(text)
}

var yamlNoise = strings.NewReplacer("error converting YAML to JSON: ", "", "error unmarshaling JSON: ", "", "while decoding JSON: ", "",
	"json: ", "", "yaml: ", "")

var yamlWords = []wording{
	{regexp.MustCompile(`cannot unmarshal (\w+) into Go value of type map\[.*$`), "want a mapping (key: value), got $1"},
	{regexp.MustCompile(`cannot unmarshal (\w+) into Go struct field \w+\.(\S+) of type (.*)$`), "$2: want $3, got $1"},
	{regexp.MustCompile(`(?s)Object 'Kind' is missing in .*$`), "an object has no kind"},
}

// oneLine makes one line of a message, and not a long one.
func oneLine(text string) string { return clip(strings.Join(strings.Fields(text), " ")) }

func clip(text string) string {
	const most = 300
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most]) + "..."
}
