package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/chart"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// A cluster of a tier with a chart is written out: the chart makes its Cluster, control plane, MachineDeployments and templates. What a
// tenant wrote goes into the chart as values and nothing of it is run.

// written is what a chart made of a request.
type written struct {
	values  map[string]any
	first   []*manifest.Object // as the chart made them
	objects []*manifest.Object // as overlays have changed them

	others []*manifest.Object        // finished, without the object that stands for the cluster
	pools  map[string]*topology.Pool // worker pools by name
}

// restore takes back what overlays did.
func (w *written) restore() {
	if w != nil {
		w.objects = slices.Clone(w.first)
	}
}

// Made is what a chart made of a request, beside the object that stands for the cluster.
type Made struct {
	Objects []*manifest.Object
	Pools   map[string]*topology.Pool
}

// tierChart is the chart of a tier, read once; nil when it cannot be used, which is found.
func (b *builder) tierChart(name string) *catalog.TierChart {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, done := b.charts[name]; done {
		return t
	}
	t, bad, err := b.in.Catalog.TierChart(name)
	if t != nil {
		more, failed := b.platformValues(name, t)
		bad.Add(more...)
		err = errors.Join(err, failed)
	}
	b.found.Add(bad...)
	b.err = errors.Join(b.err, err)
	if err != nil || bad.Failed() {
		t = nil
	}
	b.charts[name] = t
	return t
}

// platformValues finds what the chart's schema refuses of the values that are the same for all clusters of a tier.
func (b *builder) platformValues(name string, t *catalog.TierChart) (diag.List, error) {
	tier := b.in.Catalog.Tiers[name]
	computed := map[string]any{"name": "x", "namespace": "x", "version": "v1.0.0", "variables": t.WithDefaults(nil, t.Defaults)}
	if tier.Access != "" {
		computed["access"], computed["hostname"] = string(tier.Access), "x."+tier.Domain
	}
	violations, err := t.Violations(t.Values(computed))
	var found diag.List
	for _, v := range violations {
		for _, p := range paths(v) {
			switch {
			case len(p) > 0 && p[0] == "access":
				found.Add(diag.Errorf(b.in.Catalog.At("tiers", name, "access"), "catalog/bad-value", "the chart of tier %q cannot be reached by %s: %s", name, tier.Access, v.Words))
			case len(p) > 1 && p[0] == "variables" && len(v.Missing)+len(v.Unknown) == 0: // what defaults leave open is for requests
				found.Add(b.badChartDefault(name, p[1:], v.Words)...)
			case len(p) == 0 || slices.Contains(catalog.Computed, p[0]):
			case len(v.Missing) > 0:
				found.Add(diag.Errorf(b.in.Catalog.At("tiers", name, "values"), "catalog/missing-field", "the chart of tier %q needs values.%s", name, strings.Join(p, ".")))
			case len(v.Unknown) > 0:
				found.Add(diag.Errorf(b.in.Catalog.At(append([]string{"tiers", name, "values"}, p...)...), "catalog/unknown-field", "the chart of tier %q has no value %s", name, strings.Join(p, ".")))
			default:
				found.Add(diag.Errorf(b.in.Catalog.At(append([]string{"tiers", name, "values"}, p...)...), "catalog/bad-value", "values.%s of tier %q: %s", strings.Join(p, "."), name, v.Words))
			}
		}
	}
	return found, err
}

// badChartDefault finds a default of a tier with a chart that the chart's schema refuses.
func (b *builder) badChartDefault(tier string, path []string, words string) diag.List {
	for n := len(path); n > 0; n-- {
		place := strings.Join(path[:n], ".")
		if _, ours := b.in.Catalog.Tiers[tier].Defaults[place]; ours {
			return diag.List{b.refusedDefault(tier, place, path[n:], words)}
		}
	}
	return nil
}

// paths are the values that a violation is about: each unknown or missing key by itself.
func paths(v chart.Violation) [][]string {
	var out [][]string
	for _, key := range slices.Concat(v.Unknown, v.Missing) {
		out = append(out, append(slices.Clone(v.Path), key))
	}
	if out == nil {
		return [][]string{v.Path}
	}
	return out
}

// shape names what stands behind the cluster, as the ledger records it.
func (d *draft) shape() string {
	if d.chart != nil {
		return d.chart.Key
	}
	return d.class.Key().String()
}

// allDefaults are the defaults of the variables.
func (d *draft) allDefaults() map[string]any {
	if d.chart != nil {
		return d.defaults
	}
	return d.class.Defaults()
}

// options are the variables of the class or chart.
func (d *draft) options() []topology.Variable {
	if d.chart != nil {
		return Variables(d.chart)
	}
	return d.class.Variables()
}

// Variables are those of a chart, as those of a class are told.
func Variables(t *catalog.TierChart) []topology.Variable {
	var out []topology.Variable
	for _, o := range t.Options {
		out = append(out, topology.Variable{Path: o.Path, Type: o.Type, Required: o.Required, Default: o.Default, Choices: o.Choices, Bounds: o.Bounds, Text: o.Text})
	}
	return out
}

// todaysDefaults are the defaults of a tier's variables as they are now.
func (b *builder) todaysDefaults(tier string) topology.Defaults {
	if b.in.Catalog.Tiers[tier].Chart != "" {
		return b.tierChart(tier).Defaults
	}
	return b.tierClass(tier).Defaults()
}

// dressChart takes the defaults that the ledger has recorded for the cluster, in place of those of today.
func (d *draft) dressChart() {
	today := d.chart.Defaults
	d.defaults = today
	switch {
	case d.record == nil:
		return
	case d.record.Class != d.chart.Key:
		d.found.Add(diag.Warnf(d.record.At("spec", "class"), "ledger/unrecorded-default", "the defaults recorded for %s are those of %q, not %s: today's are used", d.request, d.record.Class, d.chart.Key))
		return
	}
	d.defaults = map[string]any{}
	for _, place := range catalog.Sorted(d.record.Defaults) {
		if !d.chart.Has(place) {
			d.found.Add(diag.Warnf(d.record.At("spec", "defaults", place), "ledger/stale-default", "the chart %s no longer has %s: its recorded default is dropped", d.chart.Folder, place))
			continue
		}
		d.defaults[place] = plain(d.record.Defaults[place])
	}
	for _, place := range catalog.Sorted(today) {
		if _, recorded := d.defaults[place]; !recorded && d.chart.Needs(place) {
			d.found.Add(diag.Warnf(d.record.At("spec", "defaults"), "ledger/unrecorded-default", "the default of %s is new in the chart %s and not recorded for %s: today's is used", place, d.chart.Folder, d.request))
			d.defaults[place] = today[place]
		}
	}
}

// composeValues works out the values that the request gives the chart, and the address. What it returns only names the cluster.
func (d *draft) composeValues() *manifest.Object {
	d.direct = map[string]any{}
	d.pools = catalog.Sorted(d.workers())
	d.setVariables()
	return &manifest.Object{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
		"metadata": metadata(d.request.Namespace, d.request.Name, waveCluster, guarded),
	}}
}

// chartValues are the values that the chart is rendered with.
func (d *draft) chartValues() map[string]any {
	s := d.request.Spec
	variables := d.chart.WithDefaults(d.variables, d.defaults)
	computed := maps.Clone(d.direct)
	computed["name"], computed["namespace"], computed["version"], computed["variables"] = d.request.Name, d.request.Namespace, s.Version, variables
	if d.tier.Access != "" {
		computed["access"], computed["hostname"] = string(d.tier.Access), d.hostname()
	}
	if n := s.ControlPlane.Replicas; n != nil {
		computed["controlPlane"] = map[string]any{"replicas": int64(*n)}
	}
	if n := s.ClusterNetwork; n != nil {
		network := map[string]any{}
		for field, ranges := range map[string][]string{"pods": n.Pods, "services": n.Services} {
			if len(ranges) > 0 {
				network[field] = plain(ranges)
			}
		}
		if n.ServiceDomain != "" {
			network["serviceDomain"] = n.ServiceDomain
		}
		computed["clusterNetwork"] = network
	}
	if len(d.pools) > 0 {
		workers := map[string]any{}
		size, _ := lookup(variables, d.source.Variable("size")).(string)
		for _, name := range d.pools {
			workers[name] = poolValues(d.workers()[name], size)
		}
		computed["workers"] = workers
	}
	return d.chart.Values(computed)
}

// hostname is the name that the control plane is reached by, where many share an address.
func (d *draft) hostname() string {
	return d.request.Name + "." + d.request.Namespace + "." + d.tier.Domain
}

// poolValues are a worker pool as a chart gets it. size is that of pools that name none.
func poolValues(p request.Pool, size string) map[string]any {
	out := map[string]any{}
	switch {
	case p.Min != nil && p.Max != nil:
		out["min"], out["max"] = int64(*p.Min), int64(*p.Max)
	case p.Replicas != nil:
		out["replicas"] = int64(*p.Replicas)
	default:
		out["replicas"] = int64(1)
	}
	if p.Size != "" {
		size = p.Size
	}
	for field, text := range map[string]string{"size": size, "class": p.Class, "failureDomain": p.FailureDomain} {
		if text != "" {
			out[field] = text
		}
	}
	if p.DeferUpgrade {
		out["deferUpgrade"] = true
	}
	if len(p.Labels) > 0 {
		out["labels"] = plain(p.Labels)
	}
	return out
}

// write renders the chart for a cluster. What is wrong is found with the draft.
func (p *part) write(d *draft) {
	if d.chart == nil {
		return
	}
	values := d.chartValues()
	if bad := d.violations(values); bad.Failed() || d.found.Failed() {
		d.found.Add(slices.DeleteFunc(bad, d.said)...)
		return
	}
	objects, bad := d.chart.Objects(d.request.Namespace, d.request.Name, values)
	d.found.Add(d.blamed(bad)...)
	if bad.Failed() {
		return
	}
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(d.request.Namespace)
		}
	}
	bad = p.inspect(d, objects)
	d.found.Add(bad...)
	if !bad.Failed() {
		d.written = &written{values: values, first: objects, objects: slices.Clone(objects)}
	}
}

// said reports whether a fault was found before, in words of ours.
func (d *draft) said(f diag.Finding) bool {
	return slices.ContainsFunc(d.found, func(known diag.Finding) bool {
		return known.Severity == diag.Error && (known.Pos == f.Pos || known.Name == "size/no-specs" && f.Name == "variable/required" && strings.Contains(f.Message, "machineSpecs"))
	})
}

// blamed says what is wrong with a chart where a tenant looks: at the request. Nobody but the platform team can put it right.
func (d *draft) blamed(found diag.List) diag.List {
	var out diag.List
	for _, f := range found {
		x := f
		x.Pos, x.Message = d.request.At("metadata", "name"), fmt.Sprintf("the chart of tier %q makes nothing of %s: %s", d.request.Spec.Tier, d.request, f.Message)
		out.Add(x.Hintf("it comes from %s", f.Pos))
	}
	return out
}

// violations are what the chart's schema refuses, at the lines of the request.
func (d *draft) violations(values map[string]any) diag.List {
	all, err := d.chart.Violations(values)
	d.err = errors.Join(d.err, err)
	var found diag.List
	for _, v := range all {
		for _, p := range paths(v) {
			switch {
			case len(p) > 0 && !slices.Contains(catalog.Computed, p[0]): // the platform team's, found with the tier
				continue
			case len(p) > 0 && p[0] == "address" && len(v.Missing) > 0 && d.tier.AddressPool != "": // found where addresses are
				continue
			}
			found.Add(d.violation(v, p))
		}
	}
	return found
}

// violation is one value that the schema refuses.
func (d *draft) violation(v chart.Violation, path []string) diag.Finding {
	tier := d.request.Spec.Tier
	origin := d.placeOf(path)
	field := strings.Join(origin[1:], ".")
	variable := ""
	if len(path) > 0 && path[0] == "variables" {
		variable = strings.Join(path[1:], ".")
	}
	switch {
	case len(v.Unknown) > 0 && variable != "":
		return diag.Errorf(d.request.KeyAt(origin...), "variable/unknown", "tier %q has no variable %q%s", tier, variable, diag.OneOf(d.besides(path[1:len(path)-1])))
	case len(v.Unknown) > 0:
		return diag.Errorf(d.request.KeyAt(origin...), "request/no-such-field", "tier %q takes no %s", tier, field)
	case len(v.Missing) > 0 && variable != "":
		return diag.Errorf(d.request.At(origin[:len(origin)-1]...), "variable/required", "tier %q needs %s", tier, variable).Hintf("write it under spec.variables")
	case len(v.Missing) > 0 && path[0] == "address":
		return diag.Errorf(d.request.At("metadata", "name"), "ledger/no-address", "tier %q needs an address, and takes none from an address pool", tier).
			Hintf("the platform team gives the tier an addressPool in the catalog")
	case len(v.Missing) > 0:
		return diag.Errorf(d.request.At(origin...), "request/missing-field", "tier %q needs %s", tier, strings.Join(append([]string{"spec"}, path...), "."))
	}
	if variable != "" && d.frozen(origin, variable) {
		return diag.Errorf(d.record.At("spec", "defaults", variable), "ledger/frozen", "the default %s: %v that %s was admitted with is no longer allowed by the chart of tier %q: %s", variable, d.record.Defaults[variable], d.request, tier, v.Words).
			Hintf("the request sets another, or copyhold defaults accept %s", d.request)
	}
	if text := d.request.Text(origin...); text != "" {
		field += fmt.Sprintf(" %q", text)
	}
	if variable != "" && !d.request.Has(origin...) {
		if s := d.statedAt(path[1:]); s.whose != "" {
			return s.fault("variable/invalid", "default %s %s: %s", variable, diag.JSON(s.value), v.Words)
		}
	}
	return diag.Errorf(d.request.At(origin...), "variable/invalid", "%s: %s", field, v.Words)
}

// besides are the variables that the chart does have at a path.
func (d *draft) besides(path []string) []string {
	var out []string
	prefix := strings.Join(append(slices.Clone(path), ""), ".")
	for _, o := range d.chart.Options {
		if rest, ok := strings.CutPrefix(o.Path, prefix); ok && !strings.Contains(rest, ".") {
			out = append(out, rest)
		}
	}
	return out
}

// placeOf is the place in the request that a value of the chart comes from.
func (d *draft) placeOf(path []string) []string {
	switch {
	case len(path) == 0 || slices.Contains([]string{"name", "namespace", "hostname", "access"}, path[0]):
		return []string{"metadata", "name"}
	case path[0] == "address" || path[0] == "serverAddress":
		return d.origin(path[0])
	case path[0] == "variables":
		return d.variableAt(path[1:])
	}
	return append([]string{"spec"}, path...)
}

// variableAt is where a variable was written, by its path.
func (d *draft) variableAt(path []string) []string {
	origin := d.originAt(path)
	if len(origin) == 2 { // nobody wrote it
		return append(origin, path...)
	}
	return origin
}
