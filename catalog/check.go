package catalog

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

var version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// fieldPath is the path of a field in an object's spec.
var fieldPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*$`)

var kindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// maxQuarantine is a hundred years: an address that is kept for longer is reserved.
const maxQuarantine = 36500

// check finds what is wrong with catalog.yaml by itself, without rendering a class.
func (c *Catalog) check() diag.List {
	var found diag.List
	for _, need := range []struct {
		field string
		empty bool
	}{
		{"clusterAPI", c.ClusterAPI == ""}, {"tiers", len(c.Tiers) == 0}, {"classes", len(c.Classes) == 0 && !c.onlyCharts()}, {"versions", len(c.Versions) == 0},
	} {
		if need.empty {
			found.Add(diag.Errorf(c.At(need.field), "catalog/missing-field", "no spec.%s", need.field))
		}
	}
	if q := c.Quarantine(); q < 0 || q > maxQuarantine {
		found.Add(diag.Errorf(c.At("quarantineDays"), "catalog/bad-value", "quarantineDays %d, want 0 to %d", q, maxQuarantine))
	}
	for i, v := range c.Versions {
		if !version.MatchString(v) {
			found.Add(diag.Errorf(c.At("versions", fmt.Sprint(i)), "version/malformed", "version %q, want v and three numbers, as in v1.34.1", v))
		}
	}
	for _, name := range Sorted(c.Tiers) {
		found.Add(c.about(c.checkTier(name), partOf("tiers", name))...)
	}
	for _, name := range Sorted(c.Classes) {
		found.Add(c.about(c.checkClass(name), partOf("classes", name))...)
	}
	from := map[string]string{} // a management cluster has one class of a name
	for _, name := range Sorted(c.Tiers) {
		t := c.Tiers[name]
		if t.Chart != "" {
			continue
		}
		key := c.Classes[t.From].Namespace + "/" + t.Class
		if other, ok := from[key]; ok && other != t.From {
			f := diag.Errorf(c.At("tiers", name, "from"), "catalog/ambiguous-class", "ClusterClass %s comes from %q here and from %q for another tier", key, t.From, other).
				Hintf("the management cluster has one class of that name: take it from one source")
			found.Add(c.about(diag.List{f}, partOf("classes", t.From), partOf("classes", other))...)
		}
		from[key] = t.From
	}
	found.Add(c.checkPools()...)
	found.Add(c.checkSubnetClaim()...)
	found.Add(c.checkPolicy()...)
	found.Add(c.checkGate()...)
	found.Add(c.checkTenants()...)
	found.Add(c.checkOverlaps()...)
	for _, name := range Sorted(c.Overlays) {
		found.Add(c.about(c.checkOverlay(name), partOf("overlays", name))...)
	}
	return found
}

func (c *Catalog) checkTier(name string) diag.List {
	var found diag.List
	t := c.Tiers[name]
	if t.Chart != "" || t.Class == "" && t.From == "" {
		return append(c.checkChartTier(name), c.checkTierPool(name)...)
	}
	for field, set := range map[string]bool{"values": t.Values != nil, "digest": t.Digest != "", "access": t.Access != "", "domain": t.Domain != ""} {
		if set {
			found.Add(diag.Errorf(c.At("tiers", name, field), "catalog/tier-source", "tier %q has %s, which is for tiers with a chart", name, field))
		}
	}
	if t.Class == "" {
		found.Add(diag.Errorf(c.At("tiers", name, "class"), "catalog/missing-field", "tier %q names no class", name))
	}
	if _, ok := c.Classes[t.From]; !ok {
		found.Add(diag.Errorf(c.At("tiers", name, "from"), "catalog/unknown-class-source", "tier %q takes its class from %q, which is not under classes%s", name, t.From, diag.OneOf(Sorted(c.Classes))))
	}
	return append(found, c.checkTierPool(name)...)
}

// checkTierPool finds what a tier has from other parts of the catalog that are not there.
func (c *Catalog) checkTierPool(name string) diag.List {
	var found diag.List
	t := c.Tiers[name]
	if _, ok := c.AddressPools[t.AddressPool]; !ok && t.AddressPool != "" {
		found.Add(diag.Errorf(c.At("tiers", name, "addressPool"), "pool/unknown", "tier %q takes addresses from %q, which is not under addressPools%s", name, t.AddressPool, diag.OneOf(Sorted(c.AddressPools))))
	}
	place := strings.Join(c.Classes[t.From].Variable("dataStore"), ".")
	if t.Chart != "" {
		place = DefaultFields["dataStore"]
	}
	store, _ := t.Defaults[place].(string)
	if _, ok := c.DataStores[store]; !ok && store != "" && len(c.DataStores) > 0 { // whoever was admitted with it goes on
		found.Add(diag.Warnf(c.At("tiers", name, "defaults", place), "datastore/unknown", "DataStore %q, the default of tier %q, is not under dataStores%s: new clusters that name none are refused", store, name, diag.OneOf(Sorted(c.DataStores))))
	}
	return found
}

func (c *Catalog) checkClass(name string) diag.List {
	var found diag.List
	s := c.Classes[name]
	at := func(p ...string) diag.Pos { return c.At(append([]string{"classes", name}, p...)...) }
	if (s.Chart == "") == (s.Manifests == "") {
		found.Add(diag.Errorf(at(), "catalog/class-source", "class source %q, want one of chart and manifests", name))
	}
	if s.Manifests != "" && s.Values != nil {
		found.Add(diag.Errorf(at("values"), "catalog/class-source", "class source %q has values, but manifests take none", name))
	}
	if s.Manifests != "" && s.KMetal != "" {
		found.Add(diag.Errorf(at("kmetal"), "catalog/class-source", "class source %q has a KMetal resource, but manifests take none", name))
	}
	found.Add(c.checkPath(at("kmetal"), s.KMetal, "file")...)
	if s.Namespace != "" && len(validation.IsDNS1123Label(s.Namespace)) > 0 {
		found.Add(diag.Errorf(at("namespace"), "catalog/bad-name", "namespace %q, want lower-case letters, digits and -", s.Namespace))
	}
	if s.Namespace == "" {
		found.Add(diag.Errorf(at("namespace"), "catalog/missing-field", "class source %q has no namespace", name))
	}
	for _, field := range []string{"chart", "manifests"} {
		found.Add(c.checkPath(at(field), map[string]string{"chart": s.Chart, "manifests": s.Manifests}[field], "folder")...)
	}
	for _, f := range Sorted(s.Fields) {
		if _, ok := DefaultFields[f]; !ok {
			found.Add(diag.Errorf(at("fields", f), "catalog/unknown-field", "unknown request field %q%s", f, diag.OneOf(Sorted(DefaultFields))))
		}
	}
	return found
}

// checkPath wants a folder or file below the catalog's own folder: nothing is followed out of it.
func (c *Catalog) checkPath(at diag.Pos, p, what string) diag.List {
	if p == "" || (path.Clean(p) == strings.TrimSuffix(p, "/") && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../") && p != ".") {
		return nil
	}
	return diag.List{diag.Errorf(at, "catalog/outside", "path %q, want a %s below %s", p, what, c.dir)}
}

// Dir is the repository path of a folder that catalog.yaml names.
func (c *Catalog) Dir(p string) string { return path.Join(c.dir, p) }

func (c *Catalog) checkPools() diag.List {
	var found diag.List
	type owned struct {
		ledger.Range
		pool string
		at   diag.Pos
	}
	var all []owned
	for _, name := range Sorted(c.AddressPools) {
		var own diag.List
		p := c.AddressPools[name]
		at := func(p ...string) diag.Pos { return c.At(append([]string{"addressPools", name}, p...)...) }
		if errs := validation.IsDNS1123Label(name); len(errs) > 0 {
			own.Add(diag.Errorf(at(), "catalog/bad-name", "address pool %q, want lower-case letters, digits and -", name))
		}
		if p.Namespace != "" && len(validation.IsDNS1123Label(p.Namespace)) > 0 {
			own.Add(diag.Errorf(at("namespace"), "catalog/bad-name", "namespace %q, want lower-case letters, digits and -", p.Namespace))
		}
		if p.Namespace == "" {
			own.Add(diag.Errorf(at("namespace"), "catalog/missing-field", "address pool %q has no namespace", name))
		}
		if len(p.Addresses) == 0 {
			own.Add(diag.Errorf(at("addresses"), "pool/empty", "address pool %q has no addresses", name))
		}
		if m := p.Mode; m != "" && m != ModeNone && m != ModePool && m != ModePerTenant {
			own.Add(diag.Errorf(at("mode"), "catalog/unknown-mode", "mode %q%s", m, diag.OneOf([]string{string(ModeNone), string(ModePool), string(ModePerTenant)})))
		}
		if a := p.Advertisement; a != nil && a.Kind != "L2Advertisement" && a.Kind != "BGPAdvertisement" {
			own.Add(diag.Errorf(at("advertisement"), "catalog/unknown-kind", "advertisement %q%s", a.Kind, diag.OneOf([]string{"L2Advertisement", "BGPAdvertisement"})))
		}
		ranges, bad := parseRanges(p.Addresses, func(i int) diag.Pos { return at("addresses", fmt.Sprint(i)) })
		own.Add(bad...)
		for i, r := range ranges {
			all = append(all, owned{r, name, at("addresses", fmt.Sprint(i))})
		}
		reserved, worse := parseRanges(p.Reserved, func(i int) diag.Pos { return at("reserved", fmt.Sprint(i)) })
		own.Add(worse...)
		pool := ledger.Pool{Name: name, Ranges: ranges, Reserved: reserved, AvoidBuggyIPs: p.AvoidBuggyIPs}
		if len(bad)+len(worse) == 0 {
			own.Add(checkRanges(pool, at)...)
		}
		c.Pools[name] = pool
		found.Add(c.about(own, partOf("addressPools", name))...)
	}
	// MetalLB refuses its whole configuration when two pools overlap (its internal/config), so this is never a matter of one pool.
	slices.SortStableFunc(all, func(a, b owned) int { return a.First.Compare(b.First) })
	for i := 1; i < len(all); i++ {
		// The widest range before this one is what it can run into.
		widest := slices.MaxFunc(all[:i], func(a, b owned) int { return a.Last.Compare(b.Last) })
		if widest.Overlaps(all[i].Range) {
			f := diag.Errorf(all[i].at, "pool/overlap", "%s of address pool %q overlaps %s of %q", all[i].Range, all[i].pool, widest.Range, widest.pool).
				Hintf("MetalLB refuses all pools when two overlap")
			found.Add(c.about(diag.List{f}, partOf("addressPools", all[i].pool), partOf("addressPools", widest.pool))...)
		}
	}
	return found
}

// checkRanges finds addresses that nothing can announce, what is reserved and in no range of the address pool, and a pool of which nothing is
// left. Whoever has an address of such a pool keeps it, so the latter two are warnings.
func checkRanges(pool ledger.Pool, at func(p ...string) diag.Pos) diag.List {
	var found diag.List
	for i, r := range pool.Ranges {
		if ledger.Special(r.First) || ledger.Special(r.Last) {
			found.Add(diag.Errorf(at("addresses", fmt.Sprint(i)), "pool/bad-range", "addresses %s reach into a special range (unspecified, loopback, link-local or multicast), want those that a load balancer can announce", r))
		}
	}
	for i, r := range pool.Reserved {
		if !slices.ContainsFunc(pool.Ranges, r.Overlaps) {
			found.Add(diag.Warnf(at("reserved", fmt.Sprint(i)), "pool/outside", "reserved %s is in none of the addresses of %s, and keeps nothing back", r, pool.Title()))
		}
	}
	if _, free := pool.Pick(""); len(pool.Ranges) > 0 && !free {
		found.Add(diag.Warnf(at("reserved"), "pool/empty", "all addresses of %s are reserved: none can be given out", pool.Title()))
	}
	return found
}

func parseRanges(texts []string, at func(i int) diag.Pos) ([]ledger.Range, diag.List) {
	var out []ledger.Range
	var found diag.List
	for i, t := range texts {
		r, err := ledger.ParseRange(t)
		if err != nil {
			found.Add(diag.Errorf(at(i), "pool/bad-range", "addresses %q, want first-last, a CIDR or one address", t))
			continue
		}
		out = append(out, r)
	}
	return out, found
}

func (c *Catalog) checkSubnetClaim() diag.List {
	s := c.SubnetClaim
	var found diag.List
	if s.APIVersion == "" && s.Kind == "" && len(s.Fields) == 0 {
		return nil
	}
	for _, need := range []struct{ field, value string }{{"apiVersion", s.APIVersion}, {"kind", s.Kind}} {
		if need.value == "" {
			found.Add(diag.Errorf(c.At("subnetClaim", need.field), "catalog/missing-field", "subnetClaim has no %s", need.field))
		}
	}
	if s.Kind != "" && !kindName.MatchString(s.Kind) {
		found.Add(diag.Errorf(c.At("subnetClaim", "kind"), "catalog/bad-name", "kind %q, want a word such as SubnetClaim", s.Kind))
	}
	known := []string{"cidr", "gateway", "serverAddresses"}
	for _, f := range Sorted(s.Fields) {
		if !slices.Contains(known, f) {
			found.Add(diag.Errorf(c.At("subnetClaim", "fields", f), "catalog/unknown-field", "unknown request field %q%s", f, diag.OneOf(known)))
		}
		if to := s.Fields[f]; to != "" && !fieldPath.MatchString(to) {
			found.Add(diag.Errorf(c.At("subnetClaim", "fields", f), "catalog/bad-name", "field %q, want the path of a field in the claim's spec, as in network.cidr", to))
		}
	}
	return found
}

func (c *Catalog) checkOverlay(name string) diag.List {
	var found diag.List
	o := c.Overlays[name]
	if o.Path == "" {
		found.Add(diag.Errorf(c.At("overlays", name, "path"), "catalog/missing-field", "overlay %q has no path", name))
	}
	found.Add(c.checkPath(c.At("overlays", name, "path"), o.Path, "folder")...)
	for i, t := range o.Tiers {
		if _, ok := c.Tiers[t]; !ok {
			found.Add(diag.Errorf(c.At("overlays", name, "tiers", fmt.Sprint(i)), "tier/unknown", "overlay %q is for tier %q, which is not under tiers%s", name, t, diag.OneOf(Sorted(c.Tiers))))
		}
	}
	return found
}
