package render

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"copyhold.dev/copyhold/catalog"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/request"
)

// Argo CD reads these annotations of a manifest (its docs/user-guide/sync-options.md and sync-waves.md).
const (
	syncOptions = "argocd.argoproj.io/sync-options"
	syncWave    = "argocd.argoproj.io/sync-wave"
)

// A cluster needs its subnet, so claims go first.
const (
	waveSubnet  = "0"
	waveCluster = "1"
)

// guarded are the sync options of what a tenant would miss: a file removed by mistake must not remove it without a person's word,
// and lists keyed by name must be merged by name.
const guarded = "ServerSideApply=true,Prune=confirm,Delete=confirm"

// announced are the sync options of address manifests: what is pruned of them takes the control planes of running clusters off the network.
const announced = "Prune=confirm,Delete=confirm"

// managedBy is the value of the label app.kubernetes.io/managed-by.
const managedBy = "copyhold"

// metadata is the head of everything rendered for a tenant. Labels stay on the object itself: none ever reaches a machine template,
// where it would roll workers.
func metadata(namespace, name, wave, options string) map[string]any {
	return map[string]any{
		"namespace":   namespace,
		"name":        name,
		"labels":      labels(name, namespace),
		"annotations": map[string]any{syncWave: wave, syncOptions: options},
	}
}

func labels(name, partOf string) map[string]any {
	return map[string]any{
		"app.kubernetes.io/name":       name,
		"app.kubernetes.io/part-of":    partOf,
		"app.kubernetes.io/managed-by": managedBy,
	}
}

// subnetClaim writes a subnet request out as the platform's kind of claim.
func subnetClaim(c *catalog.Catalog, s *request.Subnet) (*manifest.Object, diag.List) {
	kind := c.SubnetClaim
	if kind.Kind == "" {
		return nil, diag.List{diag.Errorf(s.At("kind"), "subnet/not-offered", "the catalog has no subnetClaim: subnets cannot be asked for here")}
	}
	var found diag.List
	spec := map[string]any{}
	if s.Spec.Fields != nil {
		spec = plain(s.Spec.Fields).(map[string]any)
	}
	for _, f := range []struct{ name, value string }{
		{"cidr", s.Spec.CIDR}, {"gateway", s.Spec.Gateway}, {"serverAddresses", s.Spec.ServerAddresses},
	} {
		to := kind.Fields[f.name]
		if f.value == "" || to == "" { // a field the claim does not have is for copyhold's own checks
			continue
		}
		path := strings.Split(to, ".")
		if lookup(spec, path) != nil {
			found.Add(diag.Errorf(s.At("spec", f.name), "request/conflict", "%s is given twice: here, and as fields.%s", f.name, to))
			continue
		}
		at := spec
		for i, key := range path[:len(path)-1] {
			next, ok := at[key].(map[string]any)
			if !ok && at[key] != nil {
				found.Add(diag.Errorf(s.At(append([]string{"spec", "fields"}, path[:i+1]...)...), "request/conflict", "fields.%s, want a mapping: %s is put into it", strings.Join(path[:i+1], "."), f.name))
				return nil, found
			}
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		at[path[len(path)-1]] = f.value
	}
	o := &manifest.Object{Object: map[string]any{
		"apiVersion": kind.APIVersion,
		"kind":       kind.Kind,
		"metadata":   metadata(s.Namespace, s.Name, waveSubnet, guarded),
		"spec":       spec,
	}}
	return o, found
}

// holding is an address that a cluster has.
type holding struct {
	pool, namespace, address string
}

// addressManifests are MetalLB's pools and advertisements for the catalog's address pools (its api/v1beta1).
func addressManifests(c *catalog.Catalog, held []holding) []*manifest.Object {
	var out []*manifest.Object
	for _, name := range catalog.Sorted(c.AddressPools) {
		p := c.AddressPools[name]
		switch p.Mode {
		case catalog.ModePool:
			out = append(out, ipAddressPool(name, name, p, texts(p.Addresses), nil), advertisement(name, p))
		case catalog.ModePerTenant:
			byTenant := map[string][]string{}
			for _, h := range held {
				if h.pool == name {
					byTenant[h.namespace] = append(byTenant[h.namespace], h.address)
				}
			}
			for _, ns := range catalog.Sorted(byTenant) {
				fence := map[string]any{"namespaces": []any{ns}}
				out = append(out, ipAddressPool(name+"."+ns, name, p, singles(byTenant[ns]), fence))
			}
			if len(byTenant) > 0 { // an advertisement that selects nothing would still be read as a promise
				out = append(out, advertisement(name, p))
			}
		}
	}
	return out
}

// ipAddressPool hands its addresses out only when asked for one by name: every control plane asks for the address it was given.
func ipAddressPool(name, pool string, p catalog.AddressPool, addresses []any, fence map[string]any) *manifest.Object {
	spec := map[string]any{"addresses": addresses, "autoAssign": false}
	if p.AvoidBuggyIPs {
		spec["avoidBuggyIPs"] = true
	}
	if fence != nil {
		spec["serviceAllocation"] = fence
	}
	return &manifest.Object{Object: map[string]any{
		"apiVersion": "metallb.io/v1beta1",
		"kind":       "IPAddressPool",
		"metadata":   map[string]any{"namespace": p.Namespace, "name": name, "labels": labels(pool, pool), "annotations": map[string]any{syncOptions: announced}},
		"spec":       spec,
	}}
}

// advertisement announces the pools that carry the address pool's label, so that a tenant's pool that comes later is announced too.
func advertisement(name string, p catalog.AddressPool) *manifest.Object {
	kind, spec := "L2Advertisement", map[string]any{}
	if a := p.Advertisement; a != nil {
		kind = a.Kind
		if a.Spec != nil {
			spec = plain(a.Spec).(map[string]any)
		}
	}
	spec["ipAddressPoolSelectors"] = []any{map[string]any{"matchLabels": map[string]any{
		"app.kubernetes.io/managed-by": managedBy,
		"app.kubernetes.io/part-of":    name,
	}}}
	return &manifest.Object{Object: map[string]any{
		"apiVersion": "metallb.io/v1beta1",
		"kind":       kind,
		"metadata":   map[string]any{"namespace": p.Namespace, "name": name, "labels": labels(name, name), "annotations": map[string]any{syncOptions: announced}},
		"spec":       spec,
	}}
}

func texts(list []string) []any {
	var out []any
	for _, t := range list {
		if a, err := netip.ParseAddr(t); err == nil { // MetalLB reads no bare address
			t = netip.PrefixFrom(a, a.BitLen()).String()
		}
		out = append(out, t)
	}
	return out
}

// singles writes addresses as ranges of one, in numerical order.
func singles(addresses []string) []any {
	slices.SortFunc(addresses, func(a, b string) int {
		x, errX := netip.ParseAddr(a)
		y, errY := netip.ParseAddr(b)
		if errX != nil || errY != nil {
			return cmp.Compare(a, b)
		}
		return x.Compare(y)
	})
	return texts(slices.Compact(addresses))
}

// classObjects are the ClusterClasses and templates that the platform application installs.
func (b *builder) classObjects() []*manifest.Object {
	var out []*manifest.Object
	for _, key := range catalog.Sorted(b.in.Catalog.Classes) {
		if !b.in.Catalog.Classes[key].Render {
			continue
		}
		objects, ok := b.source(key)
		if !ok {
			continue
		}
		for _, o := range objects {
			b.found.Add(b.in.Catalog.Placeholder(key, o)...)
			o = manifest.Bare(o)
			a := o.GetAnnotations()
			if a == nil {
				a = map[string]string{}
			}
			// An old template is in use until the last machine made from it is gone.
			a[syncOptions] = strings.Join(unique("ServerSideApply=true", "Prune=confirm", "Delete=confirm", a[syncOptions]), ",")
			o.SetAnnotations(a)
			out = append(out, o)
		}
	}
	return out
}

func unique(options ...string) []string {
	var out []string
	for _, list := range options {
		for o := range strings.SplitSeq(list, ",") {
			if o != "" && !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}
