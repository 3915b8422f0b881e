package catalog

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// Tenant is what one tenant may use, and what it is given. In an entry of tenants, what is left out is that of defaultTenant; there, it
// is no restriction.
type Tenant struct {
	Tiers        []string          `json:"tiers,omitempty"`        // those it may ask for; a set
	AddressPools []string          `json:"addressPools,omitempty"` // those its control planes may take an address of; a set
	DataStores   []string          `json:"dataStores,omitempty"`   // those it may name; a set
	Quota        Quota             `json:"quota,omitempty"`        //
	Subnets      map[string]Subnet `json:"subnets,omitempty"`      // made elsewhere: those that are no SubnetRequest; nil when nobody says
	Groups       []string          `json:"groups,omitempty"`       // bound to tenancy.clusterRole in the tenant's namespace
	Users        []string          `json:"users,omitempty"`        // likewise
}

// Quota is the most that a tenant's clusters may take together. All worker pools count at their autoscaler's maximum.
type Quota struct {
	Clusters *int64 `json:"clusters,omitempty"`
	Workers  *int64 `json:"workers,omitempty"` // machines
	CPU      any    `json:"cpu,omitempty"`     // of all machines, a quantity: 64
	Memory   any    `json:"memory,omitempty"`  // of all machines, a quantity: 256Gi
}

// Subnet is a subnet of a tenant that somebody else makes.
type Subnet struct {
	CIDR    string `json:"cidr,omitempty"`    // not checked against when left out
	Gateway string `json:"gateway,omitempty"` //
}

// DataStore is a Kamaji DataStore.
type DataStore struct {
	Description string   `json:"description,omitempty"`
	Tenants     []string `json:"tenants,omitempty"` // who may use it; everybody when left out
}

// MachineSize is what a machine of a size takes. It is asked only where the machine's own template does not say.
type MachineSize struct {
	CPU    any `json:"cpu"`    // a quantity
	Memory any `json:"memory"` // a quantity
}

// Tenancy is what the platform application makes for every tenant under tenants.
type Tenancy struct {
	Namespaces     bool              `json:"namespaces,omitempty"`     // the Namespace
	Labels         map[string]string `json:"labels,omitempty"`         // of the Namespace, beside our own
	ResourceQuotas bool              `json:"resourceQuotas,omitempty"` // a ResourceQuota that counts clusters
	ClusterRole    string            `json:"clusterRole,omitempty"`    // bound to the tenant's groups and users
}

// Tenant is what holds for a namespace.
func (c *Catalog) Tenant(namespace string) Tenant {
	t, d := c.Tenants[namespace], c.DefaultTenant
	if t.Tiers == nil {
		t.Tiers = d.Tiers
	}
	if t.AddressPools == nil {
		t.AddressPools = d.AddressPools
	}
	if t.DataStores == nil {
		t.DataStores = d.DataStores
	}
	if t.Groups == nil {
		t.Groups = d.Groups
	}
	if t.Users == nil {
		t.Users = d.Users
	}
	if t.Quota.Clusters == nil {
		t.Quota.Clusters = d.Quota.Clusters
	}
	if t.Quota.Workers == nil {
		t.Quota.Workers = d.Quota.Workers
	}
	if t.Quota.CPU == nil {
		t.Quota.CPU = d.Quota.CPU
	}
	if t.Quota.Memory == nil {
		t.Quota.Memory = d.Quota.Memory
	}
	if d.Subnets != nil {
		own := t.Subnets
		t.Subnets = maps.Clone(d.Subnets)
		maps.Copy(t.Subnets, own)
	}
	return t
}

// TenantAt is the place that a field of a tenant is written at: its own entry, or the default one. It gives the name of that place too.
func (c *Catalog) TenantAt(namespace string, p ...string) (at diag.Pos, name string) {
	own := append([]string{"spec", "tenants", namespace}, p...)
	if c.doc.Has(own...) {
		return c.doc.At(own...), "tenants." + namespace
	}
	return c.At(append([]string{"defaultTenant"}, p...)...), "defaultTenant"
}

// None reports whether the quota limits nothing.
func (q Quota) None() bool {
	return q.Clusters == nil && q.Workers == nil && q.CPU == nil && q.Memory == nil
}

// May reports whether a set of choices allows one; an absent set allows all.
func May(choices []string, one string) bool { return choices == nil || slices.Contains(choices, one) }

// checkTenants finds what is wrong with the tenants, and names in them that the catalog does not have.
func (c *Catalog) checkTenants() diag.List {
	found := c.checkTenant(c.DefaultTenant, "defaultTenant")
	for _, name := range Sorted(c.Tenants) {
		own := c.checkTenant(c.Tenants[name], "tenants", name)
		if len(validation.IsDNS1123Label(name)) > 0 {
			own.Add(diag.Errorf(c.At("tenants", name), "catalog/bad-name", "tenant %q, want a namespace: lower-case letters, digits and -", name))
		}
		found.Add(c.about(own, partOf("tenants", name))...)
	}
	for _, name := range Sorted(c.MachineSizes) {
		s := c.MachineSizes[name]
		for field, v := range map[string]any{"cpu": s.CPU, "memory": s.Memory} {
			found.Add(c.checkQuantity(field, v, false, "machineSizes", name, field)...)
		}
	}
	for _, name := range Sorted(c.PlatformCIDRs) {
		if _, err := ledger.ParseNetwork(c.PlatformCIDRs[name]); err != nil {
			found.Add(ledger.MalformedAt(c.At("platformCIDRs", name), "catalog/bad-value", err))
		}
	}
	if role := c.Tenancy.ClusterRole; role != "" && len(content.IsPathSegmentName(role)) > 0 {
		found.Add(diag.Errorf(c.At("tenancy", "clusterRole"), "catalog/bad-name", "ClusterRole %q, want a name without / and %%", role))
	}
	for _, key := range Sorted(c.Tenancy.Labels) {
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(c.Tenancy.Labels[key])) > 0 {
			found.Add(diag.Errorf(c.At("tenancy", "labels", key), "catalog/bad-value", "label %s: %q is not one that Kubernetes takes", key, c.Tenancy.Labels[key]))
		}
	}
	return found
}

func (c *Catalog) checkTenant(t Tenant, p ...string) diag.List {
	var found diag.List
	at := func(q ...string) diag.Pos { return c.At(append(slices.Clone(p), q...)...) }
	names := func(field, what, finding string, list, known []string) {
		for i, n := range list {
			if !slices.Contains(known, n) {
				found.Add(diag.Errorf(at(field, fmt.Sprint(i)), finding, "%s %q is not in the catalog%s", what, n, diag.OneOf(known)))
			}
		}
	}
	for field, list := range map[string][]string{"groups": t.Groups, "users": t.Users} {
		if len(list) > 0 && c.Tenancy.ClusterRole == "" {
			found.Add(diag.Errorf(at(field), "catalog/missing-field", "%s has %s, and there is no tenancy.clusterRole to bind them to", strings.Join(p, "."), field))
		}
		for i, name := range list {
			if strings.TrimSpace(name) != name || name == "" {
				found.Add(diag.Errorf(at(field, fmt.Sprint(i)), "catalog/bad-name", "%q under %s, want a name as the API server knows it", name, field))
			}
		}
	}
	names("tiers", "tier", "tier/unknown", t.Tiers, Sorted(c.Tiers))
	names("addressPools", "address pool", "pool/unknown", t.AddressPools, Sorted(c.AddressPools))
	names("dataStores", "DataStore", "datastore/unknown", t.DataStores, Sorted(c.DataStores))
	for field, n := range map[string]*int64{"clusters": t.Quota.Clusters, "workers": t.Quota.Workers} {
		if n != nil && *n < 0 {
			found.Add(diag.Errorf(at("quota", field), "catalog/bad-value", "quota.%s %d, want 0 or more", field, *n))
		}
	}
	for field, v := range map[string]any{"cpu": t.Quota.CPU, "memory": t.Quota.Memory} {
		if v != nil {
			found.Add(c.checkQuantity(field, v, true, append(slices.Clone(p), "quota", field)...)...)
		}
	}
	for _, name := range Sorted(t.Subnets) {
		s := t.Subnets[name]
		if len(validation.IsDNS1123Label(name)) > 0 {
			found.Add(diag.Errorf(at("subnets", name), "catalog/bad-name", "subnet %q, want lower-case letters, digits and -", name))
		}
		cidr := netip.Prefix{}
		if s.CIDR != "" {
			var err error
			if cidr, err = ledger.ParseSubnet(s.CIDR); err != nil {
				found.Add(ledger.MalformedAt(at("subnets", name, "cidr"), "catalog/bad-value", err))
				cidr = netip.Prefix{}
			}
		}
		if s.Gateway == "" {
			continue
		}
		if _, _, err := ledger.ParseGateway(s.Gateway, cidr); err != nil {
			found.Add(ledger.MalformedAt(at("subnets", name, "gateway"), "catalog/bad-value", err))
		}
	}
	return found
}
