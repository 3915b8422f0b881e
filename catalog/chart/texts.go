package chart

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template/parse"

	helm "helm.sh/helm/v3/pkg/chart"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/strict"
)

// texts gives the parts of a text that is found in a value or a template. One that does not parse is left to helm: it may not be
// meant as a template at all.
func texts(text, label string, at diag.Pos) []part {
	if !strings.Contains(text, "{{") {
		return nil
	}
	all, err := trees("text", text)
	if err != nil {
		return nil
	}
	var out []part
	for _, tree := range all {
		out = append(out, part{tree: tree, where: func(parse.Pos) diag.Pos { return at }, label: label})
	}
	return out
}

// defaults is a values.yaml in which a chart's values may stand, and the keys to them from its top.
type defaults struct {
	doc   strict.Document
	under []string
}

// valueTexts gives the strings in a chart's values that hold template text, with where they are written: in its own values.yaml or
// in that of a chart around it. prefix is the way to the values from those of the outermost chart, with a dot at its end.
func (r *release) valueTexts(c *helm.Chart, values map[string]any, prefix string, outer []defaults) ([]part, diag.List) {
	var out []part
	var found diag.List
	var calling []callingText
	subs := map[string]*helm.Chart{}
	for _, d := range c.Dependencies() {
		subs[d.Name()] = d
	}
	written := append(r.defaults(c), outer...)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if d := subs[key]; d != nil {
			table, _ := values[key].(map[string]any)
			parts, bad := r.valueTexts(d, table, prefix+key+".", within(written, key))
			out = append(out, parts...)
			found.Add(bad...)
			continue
		}
		if key == "global" && prefix != "" { // a copy of the parent's
			continue
		}
		eachString(values[key], []string{key}, func(path []string, text string) {
			at := diag.Pos{File: r.dir}
			for _, w := range written { // the outermost comes last, and wins
				if p := slices.Concat(w.under, path); w.doc.Text(p...) == text {
					at = w.doc.At(p...)
				}
			}
			own := strings.Join(path, ".")
			for _, p := range texts(text, fmt.Sprintf("value %q: ", prefix+own), at) {
				out = append(out, p)
				if f := p.facts(); f.tpl {
					calling = append(calling, callingText{own, at, f.values})
				}
			}
		})
	}
	for _, t := range calling {
		if t.endless(calling) {
			found.Add(diag.Errorf(t.at, "chart/template", "value %q comes back to itself through tpl, without end", prefix+t.path))
		}
	}
	return out, found
}

// callingText is a value that, when it is handed to tpl, hands values to tpl itself.
type callingText struct {
	path   string
	at     diag.Pos
	values []string // paths that it names
}

// endless reports whether a value comes back to itself. Helm does not notice, and the whole process ends for want of stack;
// it does notice a template that includes itself.
func (t callingText) endless(all []callingText) bool {
	seen := map[string]bool{}
	var reaches func(from callingText) bool
	reaches = func(from callingText) bool {
		for _, next := range all {
			if !from.names(next.path) {
				continue
			}
			if next.path == t.path {
				return true
			}
			if !seen[next.path] {
				seen[next.path] = true
				if reaches(next) {
					return true
				}
			}
		}
		return false
	}
	return reaches(t)
}

// names reports whether the text names a value, or a table around it, or all values.
func (t callingText) names(path string) bool {
	return slices.ContainsFunc(t.values, func(v string) bool { return v == "" || path == v || strings.HasPrefix(path, v+".") })
}

// defaults is a chart's values.yaml, or nothing when it uses parts of YAML that strict does not read, such as anchors.
func (r *release) defaults(c *helm.Chart) []defaults {
	var out []defaults
	for _, f := range c.Raw {
		if f.Name == valuesFile {
			docs, _ := strict.Parse(r.file(c, valuesFile), f.Data)
			for _, doc := range docs {
				out = append(out, defaults{doc: doc})
			}
		}
	}
	return out
}

func eachString(v any, path []string, visit func(path []string, text string)) {
	switch v := v.(type) {
	case string:
		visit(path, v)
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachString(v[key], append(slices.Clip(path), key), visit)
		}
	case []any:
		for i, e := range v {
			eachString(e, append(slices.Clip(path), fmt.Sprint(i)), visit)
		}
	}
}

// fileTexts gives the chart's other files that hold template text. Markdown does not count: it shows templates to people.
func (r *release) fileTexts() []part {
	var out []part
	for _, c := range r.charts() {
		for _, f := range c.Files {
			if path.Ext(f.Name) == ".md" || !strings.Contains(string(f.Data), "{{") {
				continue
			}
			all, err := trees(f.Name, string(f.Data))
			if err != nil {
				continue
			}
			for _, tree := range all {
				out = append(out, templatePart(tree, r.file(c, f.Name), string(f.Data)))
			}
		}
	}
	return out
}
