package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/gate"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// defaultPool is the worker pool of a request that names none.
const defaultPool = "md-0"

// draft is a Cluster on its way from a request to a manifest.
type draft struct {
	request *request.Cluster
	catalog *catalog.Catalog
	tenant  *Tenant
	tier    catalog.Tier
	source  catalog.ClassSource
	record  *ledger.Record     // nil when the ledger has none
	class   *topology.Class    // nil when the tier has a chart
	chart   *catalog.TierChart // nil when the tier has a class
	found   diag.List
	planned bool                                         // the ledger is still to give it what it needs
	lockOf  func(pool string, a netip.Addr) *ledger.Lock // reads an address's lock; nil when it has none
	base    *before                                      // see Input

	variables map[string]any
	overrides map[string]map[string]any // by pool
	origins   map[string][]string       // where in the request the value at a variable's path was written
	pools     []string                  // in order
	address   string                    // of the control plane, "" when it takes none
	full      map[string]any            // see filled; nil until somebody asks

	defaults map[string]any // of the chart's variables, as recorded
	direct   map[string]any // values of the chart that fields of the request give
	written  *written       // what the chart made; nil when there is none

	composed *manifest.Object  // the Cluster
	cluster  *manifest.Object  // as overlays have changed it
	stages   []stage           // as each overlay has left it, in order
	admitted *manifest.Object  // as Cluster API would store it; nil when it is refused
	hashes   map[string]string // rollout hash by worker pool; "" where something is unknown
	accepts  map[string]string // what the ledger has to accept, by worker pool
	refused  diag.List         // why it is refused
	narrowed []narrowing       // what the class no longer takes of it
	spoiled  diag.List         // what overlays must not do to it
	usage    usage             // what it takes of its tenant's quota
	gate     *gate.Cluster     // what a gate compares of it, when nothing else is kept
	err      error
	judged   bool // the whole ledger is judged elsewhere
	steady   bool // what the change brings is refused, and what runs stays as it is
}

// compose writes the request out as a Cluster. Variable defaults are not filled in here: Cluster API does that.
func (d *draft) compose() *manifest.Object {
	if d.chart != nil {
		return d.composeValues()
	}
	s := d.request.Spec
	d.pools = catalog.Sorted(d.workers())
	d.setVariables()
	topo := map[string]any{
		"classRef": map[string]any{"name": d.class.Key().Name, "namespace": d.class.Key().Namespace},
		"version":  s.Version,
	}
	if list := variableList(d.variables); len(list) > 0 {
		topo["variables"] = list
	}
	if r := s.ControlPlane.Replicas; r != nil {
		topo["controlPlane"] = map[string]any{"replicas": int64(*r)}
	}
	var mds []any
	for _, name := range d.pools {
		mds = append(mds, d.machineDeployment(name))
	}
	topo["workers"] = map[string]any{"machineDeployments": mds}
	spec := map[string]any{"topology": topo}
	if n := clusterNetwork(s.ClusterNetwork); n != nil {
		spec["clusterNetwork"] = n
	}
	o := &manifest.Object{Object: map[string]any{
		"apiVersion": clusterv1.GroupVersion.String(),
		"kind":       "Cluster",
		"metadata":   metadata(d.request.Namespace, d.request.Name, waveCluster, guarded),
		"spec":       spec,
	}}
	return o
}

func (d *draft) workers() map[string]request.Pool {
	if d.chart != nil && !d.chart.Takes("workers") {
		return d.request.Spec.Workers
	}
	return workersOf(d.request)
}

func workersOf(c *request.Cluster) map[string]request.Pool {
	if len(c.Spec.Workers) > 0 {
		return c.Spec.Workers
	}
	return map[string]request.Pool{defaultPool: {}}
}

func (d *draft) machineDeployment(name string) map[string]any {
	p := d.workers()[name]
	md := map[string]any{"name": name, "class": d.workerClass(name, p)}
	annotations := map[string]any{}
	switch {
	case p.Min != nil && p.Max != nil: // the webhook refuses replicas beside these
		annotations[clusterv1.AutoscalerMinSizeAnnotation] = fmt.Sprint(*p.Min)
		annotations[clusterv1.AutoscalerMaxSizeAnnotation] = fmt.Sprint(*p.Max)
	case p.Replicas != nil:
		md["replicas"] = int64(*p.Replicas)
	default:
		md["replicas"] = int64(1)
	}
	if p.DeferUpgrade {
		annotations[clusterv1.ClusterTopologyDeferUpgradeAnnotation] = ""
	}
	if p.FailureDomain != "" {
		md["failureDomain"] = p.FailureDomain
	}
	meta := map[string]any{}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	if len(p.Labels) > 0 {
		labels := map[string]any{}
		for k, v := range p.Labels {
			labels[k] = v
		}
		meta["labels"] = labels
	}
	if len(meta) > 0 {
		md["metadata"] = meta
	}
	if o := d.overrides[name]; len(o) > 0 {
		md["variables"] = map[string]any{"overrides": variableList(o)}
	}
	return md
}

// workerClass is the class the tenant names, else the tier's, else the only one there is.
func (d *draft) workerClass(pool string, p request.Pool) string {
	classes := d.class.WorkerClasses()
	name := p.Class
	switch {
	case name == "" && d.tier.WorkerClass != "":
		name = d.tier.WorkerClass
	case name == "" && len(classes) == 1:
		name = classes[0]
	case name == "":
		d.found.Add(diag.Errorf(d.request.KeyAt("spec", "workers", pool), "request/missing-field", "worker pool %q names no class, and the tier has no default one%s", pool, diag.OneOf(classes)))
		return ""
	}
	if !slices.Contains(classes, name) {
		d.found.Add(diag.Errorf(d.request.At("spec", "workers", pool, "class"), "request/unknown-worker-class", "worker class %q%s", name, diag.OneOf(classes)))
	}
	return name
}

// setVariables fills the variables from the request: what the tenant wrote under variables, then the fields that feed one.
func (d *draft) setVariables() {
	s := d.request.Spec
	d.readVariables()
	d.feed("subnet", s.Subnet, "spec", "subnet")
	d.feed("dataStore", s.ControlPlane.DataStore, "spec", "controlPlane", "dataStore")
	for component, r := range map[string]map[string]any{
		"apiServer": s.ControlPlane.Resources.APIServer, "controllerManager": s.ControlPlane.Resources.ControllerManager, "scheduler": s.ControlPlane.Resources.Scheduler,
	} {
		if r != nil {
			d.feed(component, decimals(plain(r)), "spec", "controlPlane", "resources", component)
		}
	}
	if names := set(s.PublicNames); len(names) > 0 {
		d.feed("publicNames", names, "spec", "publicNames")
		if path := d.source.Variable("publicNames"); path != nil {
			for i, n := range names { // the rendered list is sorted; a message must still find the line
				d.origins[fmt.Sprintf("%s[%d]", strings.Join(path, "."), i)] = []string{"spec", "publicNames", fmt.Sprint(slices.Index(s.PublicNames, n.(string)))}
			}
		}
	}
	d.setSizes()
	d.setAddresses()
	d.full = nil
}

// readVariables takes over what the tenant wrote under variables.
func (d *draft) readVariables() {
	d.variables, d.overrides, d.origins, d.full = map[string]any{}, map[string]map[string]any{}, map[string][]string{}, nil
	for _, name := range catalog.Sorted(d.request.Spec.Variables) {
		d.variables[name] = plain(d.request.Spec.Variables[name])
		d.origins[name] = []string{"spec", "variables", name}
	}
}

// set is a list whose order means nothing: sorted, each entry once.
func set(names []string) []any {
	var out []any
	for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
		out = append(out, n)
	}
	return out
}

// setSizes puts the machine size where it is read. A size that all pools share is the cluster's; where they differ, the cluster
// keeps its own and each pool that differs from it overrides it, so that a new pool never changes the size of another.
func (d *draft) setSizes() {
	path := d.source.Variable("size")
	pools := d.workers()
	var sizes []string
	for _, name := range d.pools {
		sizes = append(sizes, pools[name].Size)
	}
	uniform := len(slices.Compact(slices.Clone(sizes))) == 1
	for _, name := range d.pools {
		size := pools[name].Size
		switch {
		case size == "":
		case len(path) != 1:
			d.found.Add(diag.Errorf(d.request.At("spec", "workers", name, "size"), "request/no-such-field", "tier %q has no machine sizes", d.request.Spec.Tier))
		case d.request.Has("spec", "variables", path[0]):
			d.found.Add(diag.Errorf(d.request.At("spec", "workers", name, "size"), "request/conflict", "workers.%s.size is given beside variables.%s", name, path[0]).
				Hintf("remove the one under variables"))
		case uniform:
			d.variables[path[0]] = size
			d.origins[path[0]] = []string{"spec", "workers", name, "size"}
		default:
			d.overrides[name] = map[string]any{path[0]: size}
		}
	}
}

// feed sets the variable that a request field feeds. An empty value sets nothing.
func (d *draft) feed(field string, value any, origin ...string) {
	if value == "" || value == nil {
		return
	}
	if d.chart != nil && catalog.Direct(field) {
		d.direct[field] = value
		return
	}
	path := d.source.Variable(field)
	if path == nil {
		d.found.Add(diag.Errorf(d.request.At(origin...), "request/no-such-field", "tier %q takes no %s", d.request.Spec.Tier, strings.Join(origin[1:], ".")))
		return
	}
	if d.request.Has(append([]string{"spec", "variables"}, path...)...) {
		d.found.Add(diag.Errorf(d.request.At(origin...), "request/conflict", "%s is given twice: here, and as variables.%s", strings.Join(origin[1:], "."), strings.Join(path, ".")).
			Hintf("remove the one under variables"))
		return
	}
	at := d.variables
	for i, key := range path[:len(path)-1] {
		next, ok := at[key].(map[string]any)
		if !ok && at[key] != nil {
			d.found.Add(diag.Errorf(d.request.At(append([]string{"spec", "variables"}, path[:i+1]...)...), "request/conflict", "variables.%s, want a mapping: %s is put into it", strings.Join(path[:i+1], "."), strings.Join(origin[1:], ".")))
			return
		}
		if !ok {
			next = map[string]any{}
			at[key] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
	d.origins[strings.Join(path, ".")] = origin
}

// value is the value of the variable that a request field feeds, as far as it is set.
func (d *draft) value(field string) any { return lookup(d.variables, d.source.Variable(field)) }

func lookup(m map[string]any, path []string) any {
	var v any = m
	for _, key := range path {
		inner, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = inner[key]
	}
	if len(path) == 0 {
		return nil
	}
	return v
}

func variableList(m map[string]any) []any {
	var out []any
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, map[string]any{"name": name, "value": m[name]})
	}
	return out
}

func clusterNetwork(n *request.ClusterNetwork) map[string]any {
	if n == nil {
		return nil
	}
	out := map[string]any{}
	for field, ranges := range map[string][]string{"pods": n.Pods, "services": n.Services} {
		if len(ranges) == 0 {
			continue
		}
		var list []any // in the tenant's order: the first range is the primary family
		for _, r := range ranges {
			list = append(list, r)
		}
		out[field] = map[string]any{"cidrBlocks": list}
	}
	if n.ServiceDomain != "" {
		out["serviceDomain"] = n.ServiceDomain
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// decimals are quantities of which those with a fraction are text, as Kubernetes reads a number where it wants a quantity.
func decimals(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for key := range x {
			x[key] = decimals(x[key])
		}
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return v
}

// plain converts a decoded value to what an Object may hold: maps, lists, strings, booleans, int64 and float64. The value came
// from YAML by way of JSON, so it can be neither unwritable nor unreadable.
func plain(v any) any {
	data, err := json.Marshal(v)
	var out any
	if err == nil {
		err = utiljson.Unmarshal(data, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("render: a decoded value is not JSON: %v", err))
	}
	return out
}
