package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog/chart"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// Access is how a hosted control plane is reached.
type Access string

// The ways in. Left out, each control plane has an address of its own, or what its service type gives it.
const (
	ByGateway Access = "gateway" // a TLSRoute of a Gateway: many control planes share its address
	ByIngress Access = "ingress" // an Ingress with TLS passthrough
)

// Computed are the values of a tier's chart that come from the request and the ledger. The platform team's own values have other names.
var Computed = []string{"name", "namespace", "version", "subnet", "address", "serverAddress", "publicNames", "access", "hostname", "controlPlane", "clusterNetwork", "workers", "variables"}

// direct are the fields of a request that a chart gets as values of the same name. The others feed the chart's variables.
var direct = []string{"subnet", "address", "serverAddress", "publicNames"}

// Direct reports whether a request field is a value of a chart, not one of its variables.
func Direct(field string) bool { return slices.Contains(direct, field) }

// TierChart is the chart behind a tier, read once: it makes the objects of each of the tier's clusters.
type TierChart struct {
	Tier    string
	Folder  string // repository path
	Key     string // chart:NAME, by the name in Chart.yaml: what the defaults in the ledger are of
	Options []Option
	Digest  string

	// Defaults are those of the chart's variables with the tier's own over them, by place: controlPlane.network.serviceType.
	Defaults map[string]any

	chart  *chart.Chart
	values map[string]any // the chart's own and the catalog's, without what a request says
	takes  map[string]bool
	own    map[string]bool // variables that the chart itself has a default for
}

// Option is a variable of a chart, or a field of one, as values.schema.json declares it.
type Option struct {
	Path     string
	Type     string
	Required bool // within its parent
	Default  any
	Choices  []string
	Bounds   string
	Text     string
	Examples []any // values of its kind that the chart takes
	whole    bool  // nothing is declared below it
}

// TierChart reads the chart of a tier. What is wrong with it is found; there is no chart then.
func (c *Catalog) TierChart(name string) (*TierChart, diag.List, error) {
	t := c.Tiers[name]
	digest, err := c.digestOf(t.Chart)
	if err != nil {
		return nil, nil, err
	}
	if t.Digest != "" && t.Digest != digest {
		return nil, diag.List{diag.Errorf(c.At("tiers", name, "digest"), "class/digest", "the files of tier %q have digest %s, not %s", name, digest, t.Digest).
			Hintf("if the edit is meant, enter the new digest; otherwise restore the files from Git")}, nil
	}
	opened, found, err := chart.Open(c.tree, c.Dir(t.Chart))
	if err != nil || found.Failed() {
		return nil, c.named(found, t.Chart, "tiers", name, "chart"), err
	}
	out := &TierChart{Tier: name, Folder: c.Dir(t.Chart), Key: "chart:" + opened.Name(), Digest: digest, chart: opened, takes: map[string]bool{}}
	file, data := opened.SchemaFile()
	if data == nil {
		return nil, diag.List{diag.Errorf(diag.Pos{File: file}, "chart/no-schema", "the chart of tier %q has no values.schema.json, by which requests are judged", name)}, nil
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil { // found when it was opened
		return nil, nil, fmt.Errorf("reading %s: %w", file, err)
	}
	fields, _ := schema["properties"].(map[string]any)
	for field := range fields {
		out.takes[field] = true
	}
	own, bad := opened.Defaults()
	if bad.Failed() {
		return nil, bad, nil
	}
	out.values = merge(own, plainValues(t.Values))
	variables, _ := out.values["variables"].(map[string]any)
	delete(out.values, "variables")
	out.Defaults = map[string]any{}
	out.options(resolver{schema}, fields["variables"], nil, variables)
	out.own = map[string]bool{}
	for place := range out.Defaults {
		out.own[place] = true
	}
	found.Add(c.tierDefaults(name, out)...)
	found.Add(c.takesNone(name, out.Takes, func(field string) string { return "the chart has no value " + field })...)
	for _, field := range Computed {
		if _, ok := out.values[field]; ok {
			found.Add(diag.Errorf(diag.Pos{File: out.Folder + "/values.yaml"}, "chart/computed-value", "the chart of tier %q has a default for %s, which comes from the request", name, field).
				Hintf("what a tenant may leave open is a default under variables"))
		}
	}
	if found.Failed() {
		return nil, found, nil
	}
	return out, found, nil
}

// takesNone finds a tier whose clusters are given an address of the ledger that nothing takes; why says what does not take the field.
func (c *Catalog) takesNone(tier string, takes func(field string) bool, why func(field string) string) diag.List {
	t := c.Tiers[tier]
	var found diag.List
	for _, x := range []struct {
		field, from string
		needed      bool
	}{{"address", "addressPool", t.AddressPool != ""}, {"serverAddress", "serverAddress", t.ServerAddress}} {
		if x.needed && !takes(x.field) {
			found.Add(diag.Errorf(c.At("tiers", tier, x.from), "catalog/no-such-field", "tier %q has %s, and its clusters can be given no %s: %s", tier, x.from, x.field, why(x.field)))
		}
	}
	return found
}

// TakesNone finds a tier with a ClusterClass whose clusters are given an address that no variable takes.
func (c *Catalog) TakesNone(tier string) diag.List {
	from := c.Tiers[tier].From
	return c.takesNone(tier, func(field string) bool { return c.Classes[from].Variable(field) != nil },
		func(string) string { return fmt.Sprintf("classes.%s.fields takes the field away", from) })
}

// tierDefaults lays the tier's defaults over those of its chart.
func (c *Catalog) tierDefaults(name string, t *TierChart) diag.List {
	var found diag.List
	for _, place := range Sorted(c.Tiers[name].Defaults) {
		if !slices.ContainsFunc(t.Options, func(o Option) bool { return o.Path == place && o.whole }) {
			found.Add(diag.Errorf(c.At("tiers", name, "defaults", place), "catalog/unknown-variable", "the chart of tier %q has no variable %q", name, place))
			continue
		}
		t.Defaults[place] = plainValues(map[string]any{"": c.Tiers[name].Defaults[place]})[""]
	}
	for i, o := range t.Options {
		t.Options[i].Default = t.Defaults[o.Path]
	}
	return found
}

// TierDigest is the digest of a tier's chart, as Digest is that of a class source.
func (c *Catalog) TierDigest(name string) (string, error) { return c.digestOf(c.Tiers[name].Chart) }

// resolver follows the references of a schema within itself.
type resolver struct{ root map[string]any }

func (r resolver) schema(v any) map[string]any {
	s, _ := v.(map[string]any)
	ref, _ := s["$ref"].(string)
	if rest, ok := strings.CutPrefix(ref, "#/"); ok {
		to, _ := dig(r.root, strings.Split(rest, "/")...).(map[string]any)
		return to
	}
	return s
}

// options notes what the schema of the variables declares, down to what is given as a whole, and the default of each.
func (t *TierChart) options(r resolver, schema any, path []string, value any) {
	s := r.schema(schema)
	fields, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	values, _ := value.(map[string]any)
	for _, name := range Sorted(fields) {
		f := r.schema(fields[name])
		here := append(slices.Clone(path), name)
		inner, _ := f["properties"].(map[string]any)
		o := Option{Path: strings.Join(here, "."), Type: typeOf(f), Required: slices.Contains(required, any(name)), Bounds: bounds(f), whole: len(inner) == 0}
		o.Text, _ = f["description"].(string)
		o.Examples, _ = f["examples"].([]any)
		choices, _ := f["enum"].([]any)
		for _, v := range choices {
			o.Choices = append(o.Choices, fmt.Sprint(v))
		}
		def, has := values[name]
		if has && def != nil && o.whole {
			t.Defaults[o.Path] = def
		}
		t.Options = append(t.Options, o)
		t.options(r, f, here, def)
	}
}

func typeOf(schema map[string]any) string {
	switch x := schema["type"].(type) {
	case string:
		return x
	case []any:
		var all []string
		for _, v := range x {
			all = append(all, fmt.Sprint(v))
		}
		return strings.Join(all, " or ")
	}
	return "any"
}

func bounds(s map[string]any) string {
	number := func(key string) (string, bool) {
		f, ok := s[key].(float64)
		return fmt.Sprint(f), ok
	}
	low, hasLow := number("minimum")
	high, hasHigh := number("maximum")
	most, hasMost := number("maxLength")
	switch {
	case hasLow && hasHigh:
		return low + " to " + high
	case hasLow:
		return low + " or more"
	case hasHigh:
		return "at most " + high
	case hasMost:
		return "at most " + most + " characters"
	}
	return ""
}

// Takes reports whether the chart has a use for a field of a request: for one of Computed, or for a variable that it feeds.
func (t *TierChart) Takes(field string) bool { return t.takes[field] }

// Needs reports whether the chart has a default of its own for a variable, which its templates may count on. A default that only the
// tier gives is for clusters that come later: those that run were admitted without it.
func (t *TierChart) Needs(path string) bool { return t.own[path] }

// Has reports whether the chart has a variable at a path.
func (t *TierChart) Has(path string) bool {
	return slices.ContainsFunc(t.Options, func(o Option) bool { return o.Path == path })
}

// Fields says which variable of the chart each field of a request feeds, as ClassSource.Fields does: kMetal's name, where the chart has it.
func (t *TierChart) Fields() map[string]string {
	out := map[string]string{}
	for field, path := range DefaultFields {
		out[field] = ""
		if !Direct(field) && t.Has(path) {
			out[field] = path
		}
	}
	if port := "controlPlane.network.nodePort"; t.Has(port) {
		out["nodePort"] = port
	}
	return out
}

// Values are what the chart is rendered with: its own and the catalog's values, and over them those computed for one cluster.
func (t *TierChart) Values(computed map[string]any) map[string]any {
	out := maps.Clone(t.values)
	for _, field := range Computed {
		if v, ok := computed[field]; ok {
			out[field] = v
		}
	}
	return out
}

// WithDefaults are variables with defaults for what they leave open. A default is for the place that it is kept by: mappings that the
// chart declares are filled in key by key, all else is given as a whole.
func (t *TierChart) WithDefaults(variables, defaults map[string]any) map[string]any {
	out := map[string]any{}
	for _, place := range Sorted(defaults) {
		put(out, strings.Split(place, "."), defaults[place])
	}
	t.overlay(out, variables, nil)
	return out
}

// overlay lays variables over values, key by key as far as the chart declares keys.
func (t *TierChart) overlay(values, over map[string]any, path []string) {
	for key, v := range over {
		here := append(slices.Clone(path), key)
		a, isMap := values[key].(map[string]any)
		b, alsoMap := v.(map[string]any)
		whole := slices.ContainsFunc(t.Options, func(o Option) bool { return o.whole && o.Path == strings.Join(here, ".") })
		if isMap && alsoMap && !whole {
			a = maps.Clone(a)
			values[key] = a
			t.overlay(a, b, here)
			continue
		}
		values[key] = v
	}
}

// put sets the value at a path.
func put(m map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := m[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			m[key] = next
		}
		m = next
	}
	m[path[len(path)-1]] = value
}

// Violations are what the chart's schema refuses of values.
func (t *TierChart) Violations(values map[string]any) ([]chart.Violation, error) {
	return t.chart.Violations(values)
}

// Objects renders the chart for a cluster.
func (t *TierChart) Objects(namespace, name string, values map[string]any) ([]*manifest.Object, diag.List) {
	return t.chart.Render(chart.Options{Name: name, Namespace: namespace, Values: values})
}

// onlyCharts reports whether no tier has a ClusterClass.
func (c *Catalog) onlyCharts() bool {
	for _, t := range c.Tiers {
		if t.Chart == "" {
			return false
		}
	}
	return true
}

// checkChartTier finds what is wrong with a tier that is backed by a chart, without reading the chart.
func (c *Catalog) checkChartTier(name string) diag.List {
	var found diag.List
	t := c.Tiers[name]
	at := func(p ...string) diag.Pos { return c.At(append([]string{"tiers", name}, p...)...) }
	if t.Chart == "" {
		return diag.List{diag.Errorf(at(), "catalog/missing-field", "tier %q names neither a class nor a chart", name).
			Hintf("class: NAME and from: SOURCE, or chart: FOLDER")}
	}
	if t.Class != "" || t.From != "" || t.WorkerClass != "" {
		found.Add(diag.Errorf(at(), "catalog/tier-source", "tier %q has a chart and a class (class, from, workerClass), want one of the two", name))
	}
	found.Add(c.checkPath(at("chart"), t.Chart, "folder")...)
	for _, field := range Sorted(t.Values) {
		if slices.Contains(Computed, field) {
			found.Add(diag.Errorf(at("values", field), "catalog/bad-value", "%s comes from the request: it is no value of the tier", field).
				Hintf("defaults for what a tenant leaves open go under defaults"))
		}
	}
	switch {
	case t.Access != "" && t.Access != ByGateway && t.Access != ByIngress:
		found.Add(diag.Errorf(at("access"), "catalog/bad-value", "access %q%s", t.Access, diag.OneOf([]string{string(ByGateway), string(ByIngress)})))
	case t.Access != "" && t.Domain == "":
		found.Add(diag.Errorf(at("domain"), "catalog/missing-field", "tier %q has no domain, by which its control planes are told apart", name).
			Hintf("domain: k8s.example.org makes NAME.NAMESPACE.k8s.example.org"))
	case t.Access != "" && t.AddressPool != "":
		found.Add(diag.Errorf(at("addressPool"), "catalog/bad-value", "tier %q is reached by %s: its clusters take no address, and it needs no address pool", name, t.Access))
	case t.Access == "" && t.Domain != "":
		found.Add(diag.Errorf(at("domain"), "catalog/bad-value", "tier %q has a domain and no access", name))
	}
	if t.Domain != "" && len(validation.IsDNS1123Subdomain(t.Domain)) > 0 {
		found.Add(diag.Errorf(at("domain"), "catalog/bad-name", "domain %q, want a host name such as k8s.example.org", t.Domain))
	}
	return found
}
