package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
)

// stated is a value of a cluster's variable and where somebody wrote it: in the request, or as a default in the ledger's record or in the
// catalog. What is wrong with a default is said where it stands: whoever wrote the request never saw it.
type stated struct {
	value any
	at    diag.Pos
	field []string // of the request, by which it is told whether a rule binds; the tier, where that brings the value
	whose string   // in words, of a default; "" of a value that is in the request
}

// stated is the value of the variable that a field feeds; nil when neither the request nor a default has one.
func (d *draft) stated(field string) stated {
	if d.chart != nil && catalog.Direct(field) {
		v, origin := d.given(field)
		return stated{value: v, at: d.request.At(origin...), field: origin}
	}
	return d.statedAt(d.source.Variable(field))
}

// statedAt is stated for the path of a variable.
func (d *draft) statedAt(path []string) stated {
	if v := lookup(d.variables, path); v != nil {
		origin := d.originAt(path)
		return stated{value: v, at: d.request.At(origin...), field: origin}
	}
	v := lookup(d.filled(), path)
	if v == nil {
		return stated{at: d.request.At("spec", "tier"), field: []string{"spec", "tier"}}
	}
	at, whose := d.defaultAt(path)
	return stated{value: v, at: at, field: []string{"spec", "tier"}, whose: whose}
}

// entry is an entry of a list, and where it is written.
func (d *draft) entry(s stated, i int) stated {
	if s.whose == "" {
		s.field = append(slices.Clone(s.field), fmt.Sprint(i))
		s.at = d.request.At(s.field...)
	}
	return s
}

// blame finds what is wrong with a value, by an admission rule.
func (d *draft) blame(s stated, name, format string, args ...any) diag.Finding {
	return s.hinted(d.admissionAt(s.at, s.field, name, format, args...))
}

// fault finds what is wrong with a value, whoever has it.
func (s stated) fault(name, format string, args ...any) diag.Finding {
	return s.hinted(diag.Errorf(s.at, name, format, args...))
}

// warn finds what is wrong with a value, by a state rule.
func (s stated) warn(name, format string, args ...any) diag.Finding {
	return s.hinted(diag.Warnf(s.at, name, format, args...))
}

// hinted says whose default it is.
func (s stated) hinted(f diag.Finding) diag.Finding {
	if s.whose == "" {
		return f
	}
	return f.Hintf("%s", s.whose)
}

// defaultAt is where the default is written that fills in a variable at a path, and whose it is in words.
func (d *draft) defaultAt(path []string) (diag.Pos, string) {
	place, rest := d.defaultOf(path)
	if !d.isNew() && d.record.Class == d.shape() {
		if _, recorded := d.record.Defaults[place]; recorded {
			return d.record.At(append([]string{"spec", "defaults", place}, rest...)...),
				fmt.Sprintf("a default that %s was admitted with: its request may set another", d.request)
		}
	}
	tier := d.request.Spec.Tier
	if _, own := d.tier.Defaults[place]; own {
		return d.catalog.At(append([]string{"tiers", tier, "defaults", place}, rest...)...), fmt.Sprintf("a default of tier %q, for clusters that do not say", tier)
	}
	what := "class"
	if d.chart != nil {
		what = "chart"
	}
	return d.catalog.At("tiers", tier, what), fmt.Sprintf("a default %s of the %s of tier %q, for clusters that do not say", place, what, tier)
}

// defaultOf is the place of the default that fills in a variable at a path, and the rest of the path in its value: the nearest one around
// the path, or else one below it.
func (d *draft) defaultOf(path []string) (place string, rest []string) {
	all := d.allDefaults()
	for n := len(path); n > 0; n-- {
		if place = strings.Join(path[:n], "."); all[place] != nil {
			return place, path[n:]
		}
	}
	for _, place := range catalog.Sorted(all) {
		if strings.HasPrefix(place, strings.Join(path, ".")+".") {
			return place, nil
		}
	}
	return "", nil
}

// filled are the variables with their defaults, as Cluster API fills them in: a default at a variable's own name makes the variable, one
// that is deeper only fills in a value that is there. A chart has all its defaults.
func (d *draft) filled() map[string]any {
	if d.full != nil {
		return d.full
	}
	if d.chart != nil {
		d.full = d.chart.WithDefaults(d.variables, d.defaults)
		return d.full
	}
	d.full = d.withRoom()
	all := d.allDefaults()
	byDepth := slices.SortedStableFunc(slices.Values(catalog.Sorted(all)), func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
	for _, place := range byDepth {
		if !strings.ContainsAny(place, "[{") {
			d.full = fillIn(d.full, strings.Split(place, "."), all[place])
		}
	}
	return d.full
}

// withRoom are the variables with what an address is put into that the ledger is still to give: defaults beside it will be filled in.
func (d *draft) withRoom() map[string]any {
	out := map[string]any{}
	maps.Copy(out, d.variables)
	room := func(path []string) {
		for n := 1; n < len(path); n++ {
			out = fillIn(out, path[:n], map[string]any{})
		}
	}
	if d.takesAddress() {
		room(d.source.Variable("address"))
	}
	if d.tier.ServerAddress {
		room(d.source.Variable("serverAddress"))
	}
	return out
}

// fillIn is a copy of values with one at a path that has none, where there is something to put it into.
func fillIn(values map[string]any, path []string, value any) map[string]any {
	there, has := values[path[0]]
	switch inner, isMap := there.(map[string]any); {
	case len(path) == 1 && !has:
		values = maps.Clone(values)
		values[path[0]] = value
	case len(path) > 1 && isMap:
		values = maps.Clone(values)
		values[path[0]] = fillIn(inner, path[1:], value)
	}
	return values
}
