package impact

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/semver"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

// Effect is what a change of one field of a request, or of one variable, does to a running cluster of a tier. It is found out by trying
// values on Cluster API's engine, not written down anywhere.
type Effect struct {
	Field    string             // as a tenant writes it
	Variable *topology.Variable // nil for a field that is no variable
	Fed      string             // the request field that feeds the variable, or ""
	Tries    []Try              // those with another outcome than those before, worst first
	Refused  string             // why none of the values that were tried is taken, or ""
}

// Try is a change that was tried.
type Try struct {
	From, To    any
	When        string // what else the request says, "" for the plainest one
	Action      Action
	Changes     []Change
	Differences []Difference
}

// Worst is the most severe outcome.
func (e Effect) Worst() Action {
	worst := None
	for _, t := range e.Tries {
		if t.Action.rank() > worst.rank() {
			worst = t.Action
		}
	}
	return worst
}

// Explain tries out what changes do to a running cluster of a tier: of the fields of a request first, then of the variables. Those that
// wanted refuses are left out.
func Explain(p *render.Prober, tier string, wanted func(field string) bool) ([]Effect, error) {
	x := &explainer{prober: p, tier: tier, version: oldest(p.Input().Catalog.Versions)}
	if p.Input().Catalog.Tiers[tier].Chart != "" {
		if x.chart = p.Chart(tier); x.chart == nil {
			return nil, fmt.Errorf("the chart of tier %q cannot be used: copyhold check says why", tier)
		}
	}
	base, err := p.Cluster(x.request("", "replicas: 2"), false)
	if err != nil {
		return nil, err
	}
	if base.Manifest == nil || base.Hashes == nil {
		return nil, fmt.Errorf("the plainest request of tier %q cannot be rendered: %s", tier, first(base.Found))
	}
	x.base = base
	var out []Effect
	for _, f := range x.fields() {
		if !wanted(f.field) {
			continue
		}
		e, err := x.field(f)
		if err != nil {
			return nil, err
		}
		if n := len(out); n > 0 && out[n-1].Field == e.Field {
			out[n-1].add(e.Tries...)
			continue
		}
		out = append(out, e)
	}
	if x.chart != nil {
		variables, err := x.chartVariables(wanted)
		return append(out, variables...), err
	}
	variables, err := x.variables(wanted)
	return append(out, variables...), err
}

// add enters outcomes that are not there yet, and keeps the worst first.
func (e *Effect) add(tries ...Try) {
	for _, t := range tries {
		if !slices.ContainsFunc(e.Tries, func(o Try) bool { return o.Action == t.Action }) {
			e.Tries = append(e.Tries, t)
		}
	}
	slices.SortStableFunc(e.Tries, func(a, b Try) int { return b.Action.rank() - a.Action.rank() })
}

type explainer struct {
	prober        *render.Prober
	tier, version string
	base          *render.Cluster
	chart         *catalog.TierChart // nil when the tier has a class
}

// request is the text of a request: what is put under spec, and into its one worker pool.
func (x *explainer) request(spec, pool string) string { return x.named("md-0", x.version, spec, pool) }

func (x *explainer) named(name, version, spec, pool string) string {
	if spec != "" && !strings.HasPrefix(spec, "  ") {
		spec = "  " + spec + "\n"
	}
	subnet, workers := fmt.Sprintf("  subnet: %s\n", render.ProbeSubnet), fmt.Sprintf("  workers:\n    %s: {%s}\n", name, pool)
	if x.chart != nil && !x.chart.Takes("subnet") || strings.HasPrefix(spec, "  subnet:") {
		subnet = ""
	}
	if x.chart != nil && !x.chart.Takes("workers") {
		workers = ""
	}
	if x.chart != nil && !strings.Contains(spec, "  variables:") {
		spec += requiredVariables(x.chart)
	}
	return fmt.Sprintf("apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata: {name: probe}\nspec:\n  tier: %s\n  version: %s\n%s%s%s", x.tier, version, subnet, spec, workers)
}

func oldest(versions []string) string {
	sorted := slices.SortedFunc(slices.Values(versions), semver.Compare)
	if len(sorted) == 0 {
		return "v1.0.0"
	}
	return sorted[0]
}

func newest(versions []string) string {
	sorted := slices.SortedFunc(slices.Values(versions), semver.Compare)
	return sorted[len(sorted)-1]
}

// fieldProbe is a change of a request.
type fieldProbe struct {
	field         string
	from, to      any
	before, after string
	address       bool // the ledger gives another address
}

func (x *explainer) fields() []fieldProbe {
	plainest := x.request("", "replicas: 2")
	next := semver.MajorMinor(x.version) + ".99"
	if x.chart != nil { // what it makes machines of may go by version
		next = newest(x.prober.Input().Catalog.Versions)
	}
	all := []fieldProbe{
		{field: "version", from: x.version, to: next, before: plainest, after: x.named("md-0", next, "", "replicas: 2")},
		{field: "address", from: "one", to: "another", before: plainest, after: plainest, address: true},
		{field: "publicNames", to: "a.example", before: plainest, after: x.request("publicNames: [a.example]", "replicas: 2")},
		{field: "controlPlane.replicas", from: 2, to: 3, before: x.request("controlPlane: {replicas: 2}", "replicas: 2"), after: x.request("controlPlane: {replicas: 3}", "replicas: 2")},
		{field: "controlPlane.dataStore", from: "one", to: "two", before: x.request("controlPlane: {dataStore: one}", "replicas: 2"), after: x.request("controlPlane: {dataStore: two}", "replicas: 2")},
		{field: "controlPlane.resources", to: "requests", before: plainest, after: x.request("controlPlane: {resources: {apiServer: {requests: {cpu: 500m}}}}", "replicas: 2")},
		{field: "clusterNetwork", to: "pods", before: plainest, after: x.request("clusterNetwork: {pods: [203.0.113.0/24]}", "replicas: 2")},
		{field: "workers.POOL.replicas", from: 2, to: 3, before: plainest, after: x.request("", "replicas: 3")},
		{field: "workers.POOL.min", from: "replicas: 2", to: "min: 2, max: 5", before: plainest, after: x.request("", "min: 2, max: 5")},
	}
	if x.chart != nil && x.chart.Takes("subnet") {
		all = append(all, fieldProbe{field: "subnet", from: render.ProbeSubnet, to: render.ProbeSubnet + "-two", before: plainest, after: x.request("subnet: "+render.ProbeSubnet+"-two", "replicas: 2")})
	}
	for _, size := range x.sizes() {
		all = append(all, fieldProbe{field: "workers.POOL.size", from: "the default", to: size, before: plainest, after: x.request("", "replicas: 2, size: "+size)})
	}
	for _, class := range x.workerClasses() {
		all = append(all, fieldProbe{field: "workers.POOL.class", from: "the default", to: class, before: plainest, after: x.request("", "replicas: 2, class: "+class)})
	}
	if x.chart != nil && !x.chart.Takes("workers") {
		return slices.DeleteFunc(all, func(f fieldProbe) bool { return strings.HasPrefix(f.field, "workers.") })
	}
	return append(all,
		fieldProbe{field: "workers.POOL.failureDomain", to: "zone-b", before: plainest, after: x.request("", "replicas: 2, failureDomain: zone-b")},
		fieldProbe{field: "workers.POOL.labels", to: "team: a", before: plainest, after: x.request("", "replicas: 2, labels: {team: a}")},
		fieldProbe{field: "workers.POOL (its name)", from: "md-0", to: "md-1", before: plainest, after: x.named("md-1", x.version, "", "replicas: 2")},
	)
}

// sizes are the machine sizes of the tier.
func (x *explainer) sizes() []string {
	path := x.source().Variable("size")
	if len(path) != 1 {
		return nil
	}
	for _, v := range x.known() {
		if v.Path == path[0] {
			return v.Choices
		}
	}
	return nil
}

func (x *explainer) source() catalog.ClassSource {
	if x.chart != nil {
		return catalog.ClassSource{Fields: x.chart.Fields()}
	}
	c := x.prober.Input().Catalog
	return c.Classes[c.Tiers[x.tier].From]
}

// field tries one change of a request.
func (x *explainer) field(f fieldProbe) (Effect, error) {
	e := Effect{Field: f.field}
	before, err := x.prober.Cluster(f.before, false)
	if err != nil {
		return e, err
	}
	after, err := x.prober.Cluster(f.after, f.address)
	if err != nil {
		return e, err
	}
	if before.Manifest == nil || after.Manifest == nil {
		broken := after
		if before.Manifest == nil {
			broken = before
		}
		e.Refused = firstMessage(broken)
		return e, nil
	}
	t, err := x.try(before, after)
	if other, _, _ := after.Request.NetworkChange(before.Request); other != "" { // check --base refuses it, whatever it would do
		t.Changes = []Change{{Action: Rejected}}
	}
	t.From, t.To = f.from, f.to
	e.Tries = []Try{t}
	return e, err
}

func firstMessage(c *render.Cluster) string {
	for _, f := range c.Found.Sorted() {
		if f.Severity == diag.Error {
			return f.Message
		}
	}
	return "refused"
}

func (x *explainer) try(before, after *render.Cluster) (Try, error) {
	c := &comparer{was: x.fleet(before), is: x.fleet(after), pools: map[poolPair]*poolAnswer{}}
	d, err := c.cluster(before, after)
	if err != nil || d == nil {
		return Try{Action: None}, err
	}
	t := Try{Action: d.Worst(), Changes: d.Changes}
	for _, change := range d.Changes {
		t.Differences = append(t.Differences, change.Differences...)
	}
	return t, nil
}

func (x *explainer) fleet(c *render.Cluster) *render.Fleet {
	return &render.Fleet{Input: x.prober.Input(), Clusters: map[string]*render.Cluster{c.Request.String(): c}, Schemas: x.prober.Schemas()}
}

// variables tries every variable of the class, and every field of it that holds a value, under each choice of the others.
func (x *explainer) variables(wanted func(string) bool) ([]Effect, error) {
	var leaves []topology.Variable
	all := x.base.Class.Variables()
	for _, v := range all {
		inner := slices.ContainsFunc(all, func(o topology.Variable) bool { return strings.HasPrefix(o.Path, v.Path+".") })
		if !strings.ContainsAny(v.Path, "[{") && !(v.Type == "object" && inner) {
			leaves = append(leaves, v)
		}
	}
	settings := []setting{{cluster: x.base}}
	for _, v := range leaves {
		if strings.Contains(v.Path, ".") || len(v.Choices) == 0 {
			continue
		}
		for _, choice := range v.Choices {
			c, err := x.prober.With(x.base, x.base.Class.WithVariableAt(x.base.Manifest, v.Path, choice))
			if err != nil {
				return nil, err
			}
			if c != nil {
				settings = append(settings, setting{v.Path, choice, c})
			}
		}
	}
	leaves = slices.DeleteFunc(leaves, func(v topology.Variable) bool { return !wanted(v.Path) })
	out := make([]Effect, len(leaves))
	errs := make([]error, len(leaves))
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i, v := range leaves {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			out[i], errs[i] = x.variable(v, settings)
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// variable tries the values of one variable in all settings of the others.
func (x *explainer) variable(v topology.Variable, settings []setting) (Effect, error) {
	e := Effect{Field: v.Path, Variable: &v, Fed: x.fed(v.Path)}
	for _, s := range settings {
		if s.variable == v.Path {
			continue
		}
		if err := x.values(&e, v, s); err != nil {
			return e, err
		}
	}
	if len(e.Tries) == 0 {
		e.Refused = "no value that was tried is taken"
	}
	return e, nil
}

// setting is a cluster in which another variable has one of its choices.
type setting struct {
	variable, choice string
	cluster          *render.Cluster
}

func (s setting) String() string {
	if s.variable == "" {
		return ""
	}
	return s.variable + " is " + s.choice
}

// values tries the values of one variable in one setting. Only what has another outcome than all that was tried is kept.
func (x *explainer) values(e *Effect, v topology.Variable, s setting) error {
	var from *render.Cluster
	var was any
	for _, value := range append(x.base.Class.Samples(v.Path), nil) {
		c, err := x.prober.With(s.cluster, x.base.Class.WithVariableAt(s.cluster.Manifest, v.Path, value))
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		if from == nil {
			from, was = c, value
			continue
		}
		t, err := x.try(from, c)
		if err != nil {
			return err
		}
		t.From, t.To, t.When = was, value, s.String()
		e.add(t)
	}
	return nil
}

// fed is the field of a request that feeds a variable.
func (x *explainer) fed(path string) string {
	for _, field := range catalog.Sorted(catalog.DefaultFields) {
		if to := strings.Join(x.source().Variable(field), "."); to == path {
			switch field {
			case "dataStore":
				return "controlPlane.dataStore"
			case "size":
				return "workers.POOL.size"
			}
			return field
		}
	}
	return ""
}

// InWords is what an action on a running cluster means, for somebody who asks before making the change.
func (a Action) InWords() string {
	return map[Action]string{
		None: "nothing", InPlace: "nothing that runs", Scale: "machines come or go", Create: "machines come", ControlPlane: "the control plane's pods roll",
		ImageSkew: "kubelets newer than their API server", OnDelete: "machines take it when they are deleted", Unknown: "cannot be told offline",
		Latent: "every machine of the pool is replaced", Rollout: "every machine of the pool is replaced", Address: "endpoint or certificate changes",
		Replace: "all machines of the pool go, others come", Frozen: "every later reconcile fails", Rejected: "refused", Delete: "machines go",
	}[a]
}

// Outcome is what changes of the field do, worst first, in one line.
func (e Effect) Outcome() string {
	if len(e.Tries) == 0 {
		return "not here: " + e.Refused
	}
	var parts []string
	worst := e.Tries[0]
	parts = append(parts, worst.all())
	if worst.When != "" {
		parts[0] += " when " + worst.When
		if rest := e.Tries[1:]; len(rest) > 0 {
			parts = append(parts, "else "+rest[0].all())
		}
	}
	return strings.Join(parts, "; ")
}

// all are the outcomes of one try.
func (t Try) all() string {
	if len(t.Changes) == 0 {
		return None.InWords()
	}
	var out []string
	for _, a := range slices.Backward(Actions) {
		if slices.ContainsFunc(t.Changes, func(c Change) bool { return c.Action == a }) {
			out = append(out, a.InWords())
		}
	}
	return strings.Join(out, ", ")
}
