package render

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
	"copyhold.dev/copyhold/render/topology"
)

// An admission rule says who may come in. It binds a cluster that is new, and a field that a change touches; whoever runs with it already
// is only warned: what the platform takes back must not break the tenants that rely on it. A state rule says what is wrong with how
// things are, and only warns.

// admission makes a finding of an admission rule about a field of the request.
func (d *draft) admission(field []string, name, format string, args ...any) diag.Finding {
	return d.admissionAt(d.request.At(field...), field, name, format, args...)
}

// admissionAt is admission where the place to point at is another than the field that decides.
func (d *draft) admissionAt(at diag.Pos, field []string, name, format string, args ...any) diag.Finding {
	if d.enters(field...) {
		return diag.Errorf(at, name, format, args...)
	}
	return diag.Warnf(at, name, format, args...)
}

// enters reports whether a field of the cluster is new: the ledger has no record of the cluster, or the change that is looked at brings
// the cluster, or another value of the field.
func (d *draft) enters(field ...string) bool {
	if d.isNew() {
		return true
	}
	return d.base.touches(d.request, field)
}

// isNew reports whether the ledger has yet to take the cluster in.
func (d *draft) isNew() bool { return d.record == nil || d.tenant.fresh[d.request.Name] }

// rules finds what the documentation of the tiers says and no schema does, and what the cluster's tenant may not have. The variables
// are those of the request.
func (d *draft) rules(c *catalog.Catalog, t *Tenant) {
	d.allowed(c, t.terms)
	d.sizes()
	d.volumes()
	d.placement()
	d.names()
	d.nodePort()
	d.settings(c)
	d.dataStore(c, t.terms)
	d.resources()
	d.network(c, t)
	d.full = nil // drafts are kept by the thousands
}

// allowed finds a tier or address pool that is not for this tenant.
func (d *draft) allowed(c *catalog.Catalog, tenant catalog.Tenant) {
	ns := d.request.Namespace
	if tier := d.request.Spec.Tier; !catalog.May(tenant.Tiers, tier) {
		d.found.Add(d.admission([]string{"spec", "tier"}, "tier/not-allowed", "tier %q is not for %s%s", tier, ns, diag.OneOf(tenant.Tiers)).Hintf("%s", askFor(c, ns, "tiers")))
	}
	if pool := d.pool(); d.takesAddress() && !catalog.May(tenant.AddressPools, pool) {
		d.found.Add(d.admission([]string{"spec", "tier"}, "pool/not-allowed", "tier %q takes addresses of pool %q, which is not for %s%s", d.request.Spec.Tier, pool, ns, diag.OneOf(tenant.AddressPools)).
			Hintf("%s", askFor(c, ns, "addressPools")))
	}
}

// askFor names the place where the platform team says what a tenant may have.
func askFor(c *catalog.Catalog, namespace, field string) string {
	at, entry := c.TenantAt(namespace, field)
	return fmt.Sprintf("the platform team says what %s may have: %s.%s in %s", namespace, entry, field, at.File)
}

// given is the value of the variable that a field feeds, and where in the request it was written.
func (d *draft) given(field string) (value any, origin []string) {
	if d.chart != nil && catalog.Direct(field) {
		if value = d.direct[field]; value == nil {
			return nil, nil
		}
		return value, d.placeOf([]string{field})
	}
	path := d.source.Variable(field)
	if value = lookup(d.variables, path); value == nil {
		return nil, nil
	}
	return value, d.originOf(path)
}

// originOf is where the request says the value at a variable's path.
func (d *draft) originOf(path []string) []string {
	if origin := d.origins[strings.Join(path, ".")]; origin != nil {
		return origin
	}
	return append([]string{"spec", "variables"}, path...)
}

// effective is the value of the variable that a field feeds, or else its default.
func (d *draft) effective(field string) any { return d.stated(field).value }

// size is the machine size of a worker pool.
func (d *draft) size(pool string) (string, stated) {
	if s := d.workers()[pool].Size; s != "" {
		field := []string{"spec", "workers", pool, "size"}
		return s, stated{value: s, at: d.request.At(field...), field: field}
	}
	s := d.stated("size")
	size, _ := s.value.(string)
	return size, s
}

// customSize is the size whose figures are in machineSpecs, by the documented name.
const customSize = "custom"

// sizes finds a custom size without its figures. The class leaves the template's own in place then, and nobody is told.
func (d *draft) sizes() {
	path := d.source.Variable("machineSpecs")
	for _, pool := range d.pools {
		size, s := d.size(pool)
		if size != customSize || path == nil {
			continue
		}
		specs, _ := d.effective("machineSpecs").(map[string]any)
		figures := d.figures(path)
		whose := fmt.Sprintf("worker pool %q", pool)
		if s.whose != "" { // it is said far from the request
			whose += fmt.Sprintf(" of %s", d.request)
		}
		for _, figure := range figures {
			if specs[figure] == nil {
				place := strings.Join(append(slices.Clone(path), figure), ".")
				d.found.Add(d.admissionAt(s.at, append([]string{"spec", "variables"}, path...), "size/no-specs",
					"%s is of size %s, and variables.%s is not set: its machines would have the figure that the template happens to have", whose, size, place).
					Hintf("set %s under variables.%s", strings.Join(figures, " and "), strings.Join(path, ".")))
			}
		}
	}
}

// figures are the fields of a variable of the class.
func (d *draft) figures(path []string) []string {
	var out []string
	for _, v := range d.options() {
		if figure, ok := strings.CutPrefix(v.Path, strings.Join(path, ".")+"."); ok {
			out = append(out, figure)
		}
	}
	return out
}

// volumes finds a StorageClass of the tenant's choice. It is allowed, and slow.
func (d *draft) volumes() {
	s := d.stated("storageClass")
	if s.value == nil || s.value == "" || d.class == nil || s.value == bootStorageClass(d.class) {
		return
	}
	d.found.Add(s.warn("storage/no-clone",
		"storage class %q is not that of the golden images: each new machine waits for a full copy of its boot volume in place of a clone, at every rollout", s.value).
		Hintf("remove it, unless the volumes must be of that class"))
}

// bootStorageClass is the StorageClass of boot volumes as the class has it; nil when it leaves that to the management cluster.
func bootStorageClass(c *topology.Class) any {
	for _, t := range c.Templates() {
		volumes, _ := lookup(t.Object, []string{"spec", "template", "spec", "virtualMachineTemplate", "spec", "dataVolumeTemplates"}).([]any)
		for _, v := range volumes {
			m, _ := v.(map[string]any)
			if name := lookup(m, []string{"spec", "storage", "storageClassName"}); name != nil {
				return name
			}
		}
	}
	return nil
}

// computeLabel is what kMetal marks the hosts with that run machines.
const computeLabel = "node-role.kubernetes.io/compute"

// placement finds a node selector that hosts may match which run no machines.
func (d *draft) placement() {
	s := d.stated("nodeSelector")
	selector, _ := s.value.(map[string]any)
	for _, key := range catalog.Sorted(selector) {
		value, _ := selector[key].(string)
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			label := s
			if s.whose == "" {
				label.field = append(slices.Clone(s.field), key)
				label.at = d.request.KeyAt(label.field...)
			}
			d.found.Add(d.blame(label, "placement/bad-label", "the node selector has %s: %q, which is no label: the pods of the machines are refused, and no machine starts", key, value))
		}
	}
	if _, ok := selector[computeLabel]; ok || len(selector) == 0 {
		return
	}
	d.found.Add(s.warn("placement/no-compute-label",
		"the node selector does not ask for %s: a host may match that runs no machines, and a machine that is put there never starts", computeLabel).
		Hintf(`add %s: ""`, computeLabel))
}

// names finds a name for the API server's certificate with a port, where the class takes one: the control plane provider does not.
func (d *draft) names() {
	s := d.stated("publicNames")
	list, _ := s.value.([]any)
	for i, entry := range list {
		name, _ := entry.(string)
		if host := request.HostOf(name); host != "" && host != name {
			d.found.Add(d.blame(d.entry(s, i), "names/port", "name %q for the certificate has a port: the control plane provider refuses it, and the control plane never comes up", name).
				Hintf("write %q", host))
		}
	}
}

// The ports that a Service of type NodePort can have, as Kubernetes has them by default.
const (
	firstNodePort = 30000
	lastNodePort  = 32767
)

// nodePort finds a port that no Service of type NodePort can have.
func (d *draft) nodePort() {
	s := d.stated("nodePort")
	port, whole := s.value.(int64)
	if d.effective("serviceType") != "NodePort" || !whole || port >= firstNodePort && port <= lastNodePort {
		return
	}
	d.found.Add(d.blame(s, "port/outside", "node port %d, want one from %d to %d: the Service is refused, and the control plane cannot be reached", port, firstNodePort, lastNodePort))
}

// dataStore finds a DataStore that is not there, or not for this tenant. The variable is looked at where the catalog takes the request's
// field for it away too: a tenant can write it still.
func (d *draft) dataStore(c *catalog.Catalog, tenant catalog.Tenant) {
	path := d.source.Variable("dataStore")
	if path == nil {
		path = catalog.ClassSource{}.Variable("dataStore")
	}
	place := strings.Join(path, ".")
	if !slices.ContainsFunc(d.options(), func(v topology.Variable) bool { return v.Path == place }) {
		return
	}
	s := d.statedAt(path)
	name, _ := s.value.(string)
	if name == "" {
		d.noDataStore(c, tenant, s)
		return
	}
	ns := d.request.Namespace
	store, known := c.DataStores[name]
	switch {
	case !known && len(c.DataStores) > 0:
		d.found.Add(d.blame(s, "datastore/unknown", "DataStore %q is not in the catalog%s: the control plane would never come up", name, diag.OneOf(storesOf(c, tenant, ns))))
	case !catalog.May(store.Tenants, ns):
		d.found.Add(d.blame(s, "datastore/not-allowed", "DataStore %q is not for %s%s", name, ns, diag.OneOf(storesOf(c, tenant, ns))))
	case !catalog.May(tenant.DataStores, name):
		d.found.Add(d.blame(s, "datastore/not-allowed", "DataStore %q is not for %s%s", name, ns, diag.OneOf(storesOf(c, tenant, ns))).Hintf("%s", askFor(c, ns, "dataStores")))
	}
}

// noDataStore finds a cluster that names no DataStore, of a tenant that may not use every one: Kamaji puts it into its default one, and
// which that is nobody can tell from here.
func (d *draft) noDataStore(c *catalog.Catalog, tenant catalog.Tenant, s stated) {
	ns := d.request.Namespace
	may := storesOf(c, tenant, ns)
	if tenant.DataStores == nil && len(may) == len(c.DataStores) {
		return
	}
	d.found.Add(d.blame(s, "datastore/not-allowed", "the cluster names no DataStore, so Kamaji takes its default one, and %s may not use every one%s", ns, diag.OneOf(may)).
		Hintf("write spec.controlPlane.dataStore, or give the tier a default for %s", strings.Join(catalog.ClassSource{}.Variable("dataStore"), ".")))
}

// storesOf are the DataStores that a tenant may use.
func storesOf(c *catalog.Catalog, tenant catalog.Tenant, namespace string) []string {
	var out []string
	for _, name := range catalog.Sorted(c.DataStores) {
		s := c.DataStores[name]
		if catalog.May(tenant.DataStores, name) && catalog.May(s.Tenants, namespace) {
			out = append(out, name)
		}
	}
	return out
}

// images finds worker pools whose machines boot another Kubernetes version than their cluster has. One image may serve all clusters of
// a class: when its tag is raised, clusters that stay behind get a kubelet that is newer than their API server.
func (b *builder) images(d *draft, pools map[string]*topology.Pool) {
	for _, name := range catalog.Sorted(pools) {
		p := pools[name]
		image := b.machine(p).image
		newer := semver.Compare(image, p.Version()) > 0
		if image == "" || semver.Compare(image, p.Version()) == 0 {
			continue
		}
		if p.Deferred != "" && !newer && !d.isNew() { // it stays behind on purpose; a new cluster has nothing to stay behind on
			continue
		}
		what := fmt.Sprintf("the workers boot an image of %s, whatever version the cluster asks for, and it asks for %s", image, p.Version())
		version := []string{"spec", "version"}
		switch {
		case d.enters(version...) || d.enters("spec", "tier"):
			d.refused.Add(diag.Errorf(d.request.At(version...), "version/image-differs", "%s", what).
				Hintf("ask for %s, or for another tier", image))
		case newer:
			d.refused.Add(diag.Warnf(d.request.At(version...), "version/image-skew", "%s: a kubelet must not be newer than its API server, and nobody tests it", what).
				Hintf("move the cluster to %s", image))
		default:
			d.refused.Add(diag.Warnf(d.request.At(version...), "version/image-differs", "%s: the workers stay behind", what).
				Hintf("the tag of the image must equal the version that clusters ask for"))
		}
	}
}
