package render

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

// explain turns what Cluster API refuses into findings at the line of the request that caused it. Cluster API speaks of the
// Cluster it was given; a tenant has never seen that.
func (d *draft) explain(problems []topology.Problem) diag.List {
	var found diag.List
	for _, p := range problems {
		if !repeats(p, problems) {
			found.Add(d.explainOne(p))
		}
	}
	return found
}

// summary is what a schema with alternatives says of a value beside what each alternative does: with the path in the words, and not in the
// field.
var summary = regexp.MustCompile(`^(?:"(\S+)" must validate at least one schema \(anyOf\)|Checked value must be of type .* in (\S+))$`)

// repeats reports whether a problem only sums up others.
func repeats(p topology.Problem, all []topology.Problem) bool {
	m := summary.FindStringSubmatch(shorten(p.Detail))
	if m == nil {
		return false
	}
	about := p.Field + "." + m[1] + m[2]
	return slices.ContainsFunc(all, func(o topology.Problem) bool { return o.Field == about || strings.HasPrefix(o.Field, about+".") })
}

var (
	unspecified = regexp.MustCompile(`^failed validation: "([^"]*)" field\(s\) are not specified`)
	requiredVar = regexp.MustCompile(`^required variable "([^"]*)" must be set`)
	wrongType   = regexp.MustCompile(`^must be of type ([^:]*): "([^"]*)"$`)
	inBody      = regexp.MustCompile(`^\S+ in body `) // the path again
	// badValue is what apimachinery puts before the reason: the whole value as JSON, which for an object variable is a page of it.
	badValue = regexp.MustCompile(`^(Invalid value|Unsupported value|Required value|Forbidden|Too many|Too long|Duplicate value|Not found)(: |$)`)
)

func (d *draft) explainOne(p topology.Problem) diag.Finding {
	detail := strings.ReplaceAll(shorten(p.Detail), ` for cluster "x" in namespace "x"`, "") // topology.Admit judges clusters without their names
	path := splitField(p.Field)
	origin, what := d.locate(path)
	at := d.request.At(origin...)
	switch {
	case unspecified.MatchString(detail):
		unknown := unspecified.FindStringSubmatch(detail)[1]
		first, _, _ := strings.Cut(unknown, ",")
		inner, _ := d.locate(append(slices.Clone(path), append([]string{"value"}, strings.Split(first, ".")...)...))
		at = d.request.KeyAt(inner...)
		return diag.Errorf(at, "variable/unknown-field", "%s has no field %s in class %q%s", what, quoted(unknown), d.class.Key().Name, diag.OneOf(d.fieldsBeside(path, first)))
	case detail == "variable is not defined":
		return diag.Errorf(at, "variable/unknown", "class %q has no variable %q%s", d.class.Key().Name, what, diag.OneOf(d.variableNames()))
	case requiredVar.MatchString(detail):
		name := requiredVar.FindStringSubmatch(detail)[1]
		return d.missing(d.request.At("spec"), []string{name})
	case p.Type == "FieldValueRequired" && what != "":
		return d.missing(at, variablePath(path))
	case d.frozen(origin, what):
		return diag.Errorf(d.record.At("spec", "defaults", what), "ledger/frozen", "the default %s: %v that %s was admitted with is no longer allowed by class %q: %s", what, d.record.Defaults[what], d.request, d.class.Key().Name, inWords(detail)).
			Hintf("every later change to the running cluster fails until the class allows it again, the request sets another, or copyhold defaults accept %s", d.request)
	case what != "":
		if len(origin) > 1 && origin[1] != "variables" { // in the tenant's own word
			what = strings.Join(origin[1:], ".")
		}
		if v := d.request.Text(origin...); v != "" {
			what += fmt.Sprintf(" %q", v)
		}
		return diag.Errorf(at, "variable/invalid", "%s: %s", what, inWords(detail))
	}
	where := ""
	if p.Field != "" {
		where = p.Field + ": "
	}
	return diag.Errorf(at, "cluster/refused", "Cluster API refuses the cluster: %s%s", where, detail)
}

// frozen reports whether a refused value is a default that the ledger has recorded, and not the tenant's.
func (d *draft) frozen(origin []string, variable string) bool {
	if d.record == nil || d.request.Has(origin...) && len(origin) > 2 {
		return false
	}
	_, recorded := d.record.Defaults[variable]
	return recorded
}

// missing says which field of the request would fill a required variable.
func (d *draft) missing(at diag.Pos, path []string) diag.Finding {
	name := strings.Join(path, ".")
	f := diag.Errorf(at, "variable/required", "class %q needs %s", d.class.Key().Name, name)
	for _, field := range catalog.Sorted(catalog.DefaultFields) {
		if to := strings.Join(d.source.Variable(field), "."); to == name || strings.HasPrefix(to, name+".") {
			if written, ok := map[string]string{"dataStore": "controlPlane.dataStore", "size": "workers.POOL.size"}[field]; ok {
				field = written
			}
			return f.Hintf("write spec.%s", field)
		}
	}
	return f.Hintf("write it under spec.variables")
}

func (d *draft) variableNames() []string {
	var out []string
	for _, v := range d.class.Variables() {
		if !strings.ContainsAny(v.Path, ".[{") {
			out = append(out, v.Path)
		}
	}
	return out
}

// fieldsBeside are the fields that the class does have where an unknown one was written.
func (d *draft) fieldsBeside(path []string, unknown string) []string {
	parent := strings.Join(variablePath(path), ".")
	if i := strings.LastIndex(unknown, "."); i >= 0 {
		parent += "." + unknown[:i]
	}
	var out []string
	for _, v := range d.class.Variables() {
		if rest, ok := strings.CutPrefix(v.Path, parent+"."); ok && !strings.ContainsAny(rest, ".[{") {
			out = append(out, rest)
		}
	}
	return out
}

// locate finds the place in the request that a path in the Cluster comes from, and the variable's path when it is one.
func (d *draft) locate(path []string) (origin []string, variable string) {
	rest, ok := cut(path, "spec", "topology")
	if !ok { // the request has clusterNetwork.pods where the Cluster has clusterNetwork.pods.cidrBlocks
		return slices.DeleteFunc(slices.Clone(path), func(s string) bool { return s == "cidrBlocks" }), ""
	}
	if v := variablePath(path); v != nil && len(rest) > 0 && rest[0] == "variables" {
		return d.originAt(v), strings.Join(v, ".")
	}
	if in, ok := cut(rest, "workers", "machineDeployments"); ok && len(in) > 0 {
		pool := in[0]
		if i, err := strconv.Atoi(pool); err == nil && i < len(d.pools) {
			pool = d.pools[i]
		}
		if v := variablePath(path); v != nil {
			return []string{"spec", "workers", pool, "size"}, strings.Join(v, ".")
		}
		return append([]string{"spec", "workers", pool}, in[1:]...), ""
	}
	return append([]string{"spec"}, rest...), ""
}

// variablePath is the path of a variable in a path of the Cluster: variables[a].value.b.c is a.b.c.
func variablePath(path []string) []string {
	for i, p := range path {
		if (p == "variables" || p == "overrides") && i+1 < len(path) && path[i+1] != "overrides" {
			out := []string{path[i+1]}
			if i+2 < len(path) && path[i+2] == "value" {
				out = append(out, path[i+3:]...)
			}
			return out
		}
	}
	return nil
}

// originAt is the place where the value at a variable's path, or the nearest value around it, was written.
func (d *draft) originAt(path []string) []string {
	for n := len(path); n > 0; n-- {
		key := strings.Join(path[:n], ".")
		if n < len(path) { // an element of a list that a field fills
			if at, ok := d.origins[key+"["+path[n]+"]"]; ok {
				return at
			}
		}
		if at, ok := d.origins[key]; ok {
			return append(slices.Clone(at), path[n:]...)
		}
	}
	return []string{"spec", "variables"}
}

func cut(path []string, prefix ...string) ([]string, bool) {
	if len(path) < len(prefix) || !slices.Equal(path[:len(prefix)], prefix) {
		return nil, false
	}
	return path[len(prefix):], true
}

// splitField takes a field path of apimachinery apart: a.b[c].d is a, b, c, d. A key in brackets may hold dots.
func splitField(s string) []string {
	var out []string
	for s != "" {
		switch i := strings.IndexAny(s, ".["); {
		case s[0] == '[':
			end := strings.IndexByte(s, ']')
			if end < 0 {
				return append(out, s)
			}
			out, s = append(out, s[1:end]), strings.TrimPrefix(s[end+1:], ".")
		case i < 0:
			return append(out, s)
		default:
			out = append(out, s[:i])
			if s = s[i:]; s[0] == '.' {
				s = s[1:]
			}
		}
	}
	return out
}

// shorten takes the value that apimachinery repeats out of a message: the finding points at it.
func shorten(detail string) (short string) {
	detail = strings.Join(strings.Fields(detail), " ")
	defer func() { short = inBody.ReplaceAllString(short, "") }()
	m := badValue.FindString(detail)
	if m == "" {
		return detail
	}
	rest := detail[len(m):]
	if strings.HasPrefix(rest, `"`) {
		if q, err := strconv.QuotedPrefix(rest); err == nil {
			after := strings.TrimPrefix(rest[len(q):], ": ")
			if after != "" {
				return after
			}
			return "not accepted"
		}
	}
	return rest
}

// inWords says what apimachinery says, in the words of the other findings.
func inWords(detail string) string {
	if choices, ok := strings.CutPrefix(detail, "supported values: "); ok {
		return "want one of " + strings.ReplaceAll(choices, `"`, "")
	}
	if m := wrongType.FindStringSubmatch(detail); m != nil {
		return fmt.Sprintf("want type %s, got %s", strings.ReplaceAll(m[1], ",", " or "), m[2])
	}
	return detail
}

func quoted(list string) string {
	var out []string
	for s := range strings.SplitSeq(list, ",") {
		out = append(out, fmt.Sprintf("%q", s))
	}
	return strings.Join(out, ", ")
}

func joined(list []string) string { return strings.Join(list, ", ") }
