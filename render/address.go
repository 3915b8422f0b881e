package render

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
)

// setAddresses fills in the control-plane address and the server address: from the ledger's record, or else from the request's
// pin. An address that neither has is a finding; none is ever made up here.
func (d *draft) setAddresses() {
	d.refuseUnledgered()
	d.sayServiceType()
	r := d.request
	if d.takesAddress() {
		recorded := ""
		if d.record != nil {
			recorded = d.record.Address
		}
		d.address = d.pick("address", recorded, r.Spec.Address)
		d.locked("address", d.pool(), d.address, recorded)
		if d.address == "" && !d.planned {
			d.found.Add(diag.Errorf(r.At("metadata", "name"), "ledger/no-address", "cluster %q has no address in the ledger", r).
				Hintf("copyhold allocate gives it one of address pool %q", d.tier.AddressPool))
		}
		d.feed("address", d.address, d.origin("address")...)
	} else if r.Spec.Address != "" {
		why := fmt.Sprintf("tier %q has no address pool", r.Spec.Tier)
		if d.tier.AddressPool != "" {
			why = fmt.Sprintf("its service type is %v, not LoadBalancer", d.serviceType())
		}
		d.found.Add(diag.Errorf(r.At("spec", "address"), "request/no-such-field", "the cluster takes no address: %s", why))
	}
	if d.record != nil && d.record.Address != "" && !d.takesAddress() {
		d.found.Add(diag.Errorf(r.At("metadata", "name"), "ledger/address-dropped", "%s has address %s in the ledger, and would take none now: kubeconfigs and certificates with it break", r, d.record.Address).
			Hintf("if that is meant, copyhold allocate --move gives the address back"))
	}
	recorded := ""
	if d.record != nil {
		recorded = d.record.ServerAddress
	}
	if a := d.pick("serverAddress", recorded, r.Spec.ServerAddress); a != "" {
		d.locked("serverAddress", d.serverPool(recorded), a, recorded)
		d.feed("serverAddress", a, d.origin("serverAddress")...)
	}
}

// takesAddress reports whether the control plane is reached by an address of the tier's pool.
func (d *draft) takesAddress() bool {
	if d.tier.AddressPool == "" {
		return false
	}
	if d.tier.Access != "" {
		return false
	}
	serviceType := d.serviceType()
	return serviceType == "" || serviceType == "LoadBalancer"
}

// serviceType is how the control plane is reached; "" when nothing says. An address that the ledger has given outweighs a default: it is
// in kubeconfigs and certificates.
func (d *draft) serviceType() string {
	path := d.source.Variable("serviceType")
	if s, set := lookup(d.variables, path).(string); set {
		return s
	}
	if d.chart == nil && d.record != nil && d.record.Address != "" {
		return ""
	}
	s, _ := d.allDefaults()[strings.Join(path, ".")].(string)
	return s
}

// sayServiceType writes out a default because of which the cluster takes no address. Cluster API fills it in only beside other values of
// the variable; without, the load balancer would give the control plane an address that is in no ledger.
func (d *draft) sayServiceType() {
	if s := d.serviceType(); d.chart == nil && s != "" && s != "LoadBalancer" && d.value("serviceType") == nil {
		d.feed("serviceType", s, "spec", "tier")
	}
}

// pool is the address pool that the cluster's address is of: the one it was taken from, whatever the tier says today.
func (d *draft) pool() string {
	if d.record != nil && d.record.Address != "" && d.record.AddressPool != "" {
		return d.record.AddressPool
	}
	return d.tier.AddressPool
}

// serverPool is the pool that the server address is of; "" when it is of a subnet that the ledger has nothing to say of.
func (d *draft) serverPool(recorded string) string {
	if recorded != "" {
		return d.record.ServerPool
	}
	if s, _ := d.tenant.subnet(d.request.Spec.Subnet); s.pooled {
		return ledger.SubnetPool(d.request.Namespace, d.request.Spec.Subnet)
	}
	return ""
}

// locked finds an address that is not the cluster's by its lock: a pin, or one in a record that somebody has written by hand. Where the
// whole ledger is judged, only a pin is looked at here. A cluster that is about to be taken into the ledger has no lock yet.
func (d *draft) locked(field, pool, text, recorded string) {
	a, err := netip.ParseAddr(text)
	if err != nil || d.lockOf == nil || d.planned || d.tenant.fresh[d.request.Name] || pool == "" && recorded == "" || d.judged && recorded != "" {
		return
	}
	at := d.request.At("spec", field)
	if recorded != "" && !d.request.Has("spec", field) {
		at = d.record.At("spec", field)
	}
	k := d.lockOf(pool, a)
	switch {
	case k != nil && k.Holder != d.request.String() && !k.Released():
		d.found.Add(diag.Errorf(d.request.At("spec", field), "ledger/held", "%s %s of %s is held by %s", field, a, d.request, k.Holder).
			Hintf("choose another, or remove the field and run copyhold allocate"))
	case d.judged: // that it is not in the ledger yet is found there
	case d.record == nil:
		d.found.Add(diag.Errorf(d.request.At("metadata", "name"), "ledger/not-allocated", "%s is not in the ledger yet", d.request).
			Hintf("run copyhold allocate, and commit what it writes with the request"))
	case k == nil || k.Holder != d.request.String():
		d.found.Add(diag.Errorf(at, "ledger/no-lock", "%s %s of %s has no lock: nothing keeps it from being given out again", field, a, d.request).
			Hintf("run copyhold allocate: it writes the lock"))
	case k.Released():
		d.found.Add(diag.Errorf(at, "ledger/disagree", "%s has %s %s, but its lock is released", d.request, field, a).
			Hintf("run copyhold allocate, which takes it again if it can"))
	}
}

// addressesKept finds an address in the finished Cluster that did not come from the ledger or the pin: from a default, an overlay or a
// field that the ledger does not watch. It is the last look before a cluster goes out.
func (d *draft) addressesKept(o *manifest.Object) diag.List {
	var found diag.List
	foreign := func(where string, v any) {
		found.Add(diag.Errorf(d.request.At("metadata", "name"), "request/unledgered-address", "%s of %s is %v, which is not from the ledger", where, d.request, v).
			Hintf("addresses come from the ledger or a pin: look at the defaults of the class and tier, and at overlays"))
	}
	is := variablesOf(o)
	for _, field := range []string{"address", "serverAddress"} {
		path := d.source.Variable(field)
		if path == nil {
			continue
		}
		if now := lookup(is, path); now != nil && now != "" && !reflect.DeepEqual(now, lookup(d.variables, path)) {
			foreign(strings.Join(path, "."), now)
		}
		topo, _ := lookup(o.Object, []string{"spec", "topology"}).(map[string]any)
		for _, holder := range overrideHolders(topo) {
			if now := lookup(holder, path); now != nil {
				foreign("an override of "+strings.Join(path, "."), now)
			}
		}
	}
	if host := lookup(o.Object, []string{"spec", "controlPlaneEndpoint"}); host != nil {
		foreign("spec.controlPlaneEndpoint", host)
	}
	return found
}

// overrideHolders are the variable overrides of the control plane and of each worker pool, by variable.
func overrideHolders(topo map[string]any) []map[string]any {
	parts := []any{topo["controlPlane"]}
	mds, _ := lookup(topo, []string{"workers", "machineDeployments"}).([]any)
	var out []map[string]any
	for _, part := range append(parts, mds...) {
		m, _ := part.(map[string]any)
		list, _ := lookup(m, []string{"variables", "overrides"}).([]any)
		values := map[string]any{}
		for _, v := range list {
			if o, ok := v.(map[string]any); ok {
				if name, ok := o["name"].(string); ok {
					values[name] = o["value"]
				}
			}
		}
		if len(values) > 0 {
			out = append(out, values)
		}
	}
	return out
}

// pick chooses between what the ledger says and what the request pins; they must not disagree, since a moved address breaks
// every kubeconfig and certificate made with the old one.
func (d *draft) pick(field, recorded, pinned string) string {
	if recorded != "" && pinned != "" && recorded != pinned {
		d.found.Add(diag.Errorf(d.request.At("spec", field), "ledger/address-differs", "%s %s, but the ledger has %s for %s", field, pinned, recorded, d.request).
			Hintf("write %s, or remove the field: a changed address breaks kubeconfigs and certificates", recorded))
		return recorded
	}
	if recorded != "" {
		return recorded
	}
	return pinned
}

func (d *draft) origin(field string) []string {
	if d.request.Has("spec", field) {
		return []string{"spec", field}
	}
	return []string{"metadata", "name"}
}

// refuseUnledgered refuses an address that is written as a plain variable, past the field that the ledger watches.
func (d *draft) refuseUnledgered() {
	for _, field := range []string{"address", "serverAddress"} {
		path := d.source.Variable(field)
		if d.chart != nil {
			path = strings.Split(catalog.DefaultFields[field], ".")
		}
		if path == nil || lookup(d.variables, path) == nil {
			continue
		}
		at := append([]string{"spec", "variables"}, path...)
		d.found.Add(diag.Errorf(d.request.At(at...), "request/unledgered-address", "an address must not be set through variables").
			Hintf("write it as spec.%s: addresses are kept in the ledger", field))
		parent := d.variables
		if len(path) > 1 {
			parent = lookup(d.variables, path[:len(path)-1]).(map[string]any)
		}
		delete(parent, path[len(path)-1])
	}
}

// inPool finds an address outside its address pool, or reserved in it. Both are allowed to a cluster that has it in the ledger:
// a pool that shrinks must not take an address away from who runs there.
func (d *draft) inPool(c *catalog.Catalog) {
	if d.address == "" {
		return
	}
	pool, ok := c.Pools[d.pool()]
	if !ok { // of a pool that is no longer offered: check says so
		return
	}
	a, err := netip.ParseAddr(d.address)
	state := pool.State(a)
	if err != nil || state == "" {
		return
	}
	why := fmt.Sprintf("not in %s: %s", pool.Title(), pool.Spans())
	if state == ledger.Reserved {
		why = fmt.Sprintf("reserved in %s: %s", pool.Title(), pool.ReservedSpans())
	}
	f := d.admission(d.origin("address"), "pool/"+string(state), "address %s of %s is %s", d.address, d.request, why)
	if d.record != nil && d.base != nil && d.base.platform { // the address may have been given out before the same change shrank the pool
		f.Severity = diag.Warning
	}
	if f.Severity == diag.Error {
		d.found.Add(f.Hintf("choose another of %s, or remove the field and run copyhold allocate", pool.Spans()))
		return
	}
	d.found.Add(f.Hintf("the cluster keeps it: the load balancer must go on announcing it, by addressPools.%s in the catalog or otherwise", pool.Name))
}
