package request

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
)

// MaxClusterName is the longest cluster name, in characters. Cluster API puts names into label values (63 characters) after
// adding to them: a MachineDeployment is <cluster>-<pool>-<5 random>, its MachineSet adds 6 more.
// Source: exp/topology/desiredstate and internal/topology/names of Cluster API.
const MaxClusterName = 63 - len("-md-0") - 2*len("-xxxxx")

// maxPoolName leaves the same room: <cluster>-<pool> and the two suffixes must stay a label value.
const maxPoolName = 63 - 2*len("-xxxxx")

// version is what topology.version takes: v, three numbers, no leading zeros, with pre-release and build as semver has them.
var version = regexp.MustCompile(`^v(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func (c *Cluster) check() diag.List {
	var found diag.List
	s := c.Spec
	found.Add(checkName(c.Meta, "cluster", MaxClusterName)...)
	if s.Tier == "" {
		found.Add(diag.Errorf(c.At("spec", "tier"), "request/missing-field", "no spec.tier").Hintf("copyhold catalog show lists the tiers"))
	}
	switch {
	case s.Version == "":
		found.Add(diag.Errorf(c.At("spec", "version"), "request/missing-field", "no spec.version").Hintf("copyhold catalog show lists the versions"))
	case !version.MatchString(s.Version) || !semver.IsValid(s.Version):
		f := diag.Errorf(c.At("spec", "version"), "version/malformed", "version %q, want v and three numbers, as in v1.34.1", s.Version)
		if version.MatchString("v" + s.Version) {
			f = f.Hintf("write v%s", s.Version)
		}
		found.Add(f)
	}
	found.Add(checkAddress(c.Meta, s.Address, "address")...)
	found.Add(checkAddress(c.Meta, s.ServerAddress, "serverAddress")...)
	found.Add(c.checkPublicNames()...)
	if r := s.ControlPlane.Replicas; r != nil && *r < 1 {
		found.Add(diag.Errorf(c.At("spec", "controlPlane", "replicas"), "request/bad-value", "controlPlane.replicas %d, want 1 or more", *r).
			Hintf("to remove the cluster, remove its request"))
	}
	if c.Has("spec", "workers") && len(s.Workers) == 0 {
		found.Add(diag.Errorf(c.KeyAt("spec", "workers"), "request/bad-value", "workers is empty, want one worker pool or more").
			Hintf("remove the field for one worker pool md-0 with one replica, or write a pool with replicas: 0"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Workers)) {
		found.Add(c.checkPool(name, s.Workers[name])...)
	}
	if n := s.ClusterNetwork; n != nil {
		found.Add(checkRanges(c.Meta, n.Pods, "pods")...)
		found.Add(checkRanges(c.Meta, n.Services, "services")...)
	}
	return found
}

func (c *Cluster) checkPool(name string, p Pool) diag.List {
	var found diag.List
	at := func(field string) diag.Pos { return c.At("spec", "workers", name, field) }
	key := c.KeyAt("spec", "workers", name)
	if errs := validation.IsDNS1123Label(name); len(errs) > 0 && len(name) <= validation.DNS1123LabelMaxLength {
		found.Add(diag.Errorf(key, "request/bad-name", "worker pool %q, want lower-case letters, digits and -, starting and ending with a letter or digit", name))
	} else if n := len(c.Name) + 1 + len(name); n > maxPoolName {
		found.Add(diag.Errorf(key, "request/name-too-long", "cluster and worker pool name together have %d characters, want at most %d: Cluster API adds suffixes and uses the result as a label", n, maxPoolName).
			Hintf("shorten %q by %d or more characters", name, n-maxPoolName))
	}
	if p.Replicas != nil && *p.Replicas < 0 {
		found.Add(diag.Errorf(at("replicas"), "request/bad-value", "replicas %d, want 0 or more", *p.Replicas))
	}
	switch {
	case p.Replicas != nil && (p.Min != nil || p.Max != nil):
		found.Add(diag.Errorf(at("replicas"), "request/conflict", "worker pool %q has replicas and autoscaler bounds (min, max), want one of the two", name).
			Hintf("remove replicas: the autoscaler sets them"))
	case (p.Min == nil) != (p.Max == nil):
		found.Add(diag.Errorf(key, "request/missing-field", "worker pool %q has only one of min and max, want both", name))
	case p.Min != nil && (*p.Min < 0 || *p.Max < *p.Min):
		found.Add(diag.Errorf(at("max"), "request/bad-value", "autoscaler bounds %d to %d, want 0 <= min <= max", *p.Min, *p.Max))
	}
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
		lp := c.KeyAt("spec", "workers", name, "labels", k)
		if reservedLabel(k) {
			found.Add(diag.Errorf(lp, "request/bad-value", "label %q is Cluster API's own: it overwrites it, or takes the machines for other ones", k).
				Hintf("remove it; labels of node.cluster.x-k8s.io, node-role.kubernetes.io and node-restriction.kubernetes.io go on to nodes"))
		}
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			found.Add(diag.Errorf(lp, "request/bad-value", "label key %q: %s", k, plainRule(errs[0])))
		}
		if errs := validation.IsValidLabelValue(p.Labels[k]); len(errs) > 0 {
			found.Add(diag.Errorf(lp, "request/bad-value", "label value %q: %s", p.Labels[k], plainRule(errs[0])))
		}
	}
	return found
}

// reservedLabel reports whether a label is one that Cluster API reads or writes itself: control-plane makes a machine one of the control
// plane, cluster-name and topology labels are overwritten. Those for nodes are not among them (api/core/v1beta2/machine_types.go of
// Cluster API has both).
func reservedLabel(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	const own, nodes = "cluster.x-k8s.io", "node.cluster.x-k8s.io"
	in := func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) }
	return in(own) && !in(nodes)
}

// checkPublicNames wants bare addresses and names: the Kamaji control plane provider refuses entries with a port
// (controllers/kamajicontrolplane_controller_tcp.go of the provider).
func (c *Cluster) checkPublicNames() diag.List {
	var found diag.List
	for i, n := range c.Spec.PublicNames {
		at := c.At("spec", "publicNames", fmt.Sprint(i))
		if _, err := netip.ParseAddr(n); err == nil {
			continue
		}
		bare := strings.TrimPrefix(n, "*.")
		if len(validation.IsDNS1123Subdomain(bare)) == 0 && !looksLikeAddress(n) {
			continue
		}
		f := diag.Errorf(at, "request/bad-value", "public name %q, want an address or a host name, without a port", n)
		if host := HostOf(n); host != "" {
			f = f.Hintf("write %q", host)
		}
		found.Add(f)
	}
	return found
}

// HostOf is the host in a URL or a host:port, or "".
func HostOf(n string) string {
	if _, rest, ok := strings.Cut(n, "://"); ok {
		n, _, _ = strings.Cut(rest, "/")
	}
	if host, _, err := net.SplitHostPort(n); err == nil {
		return host
	}
	if len(validation.IsDNS1123Subdomain(n)) == 0 && !looksLikeAddress(n) {
		return n
	}
	return ""
}

// plainRule is a rule of apimachinery's in words, without the regular expression it ends with.
func plainRule(rule string) string {
	words, _, _ := strings.Cut(rule, " (e.g. ")
	return words
}

// looksLikeAddress is true for 172.21.208.300: digits and dots are a valid host name, but nobody means one.
func looksLikeAddress(n string) bool { return strings.Trim(n, "0123456789.") == "" }

func (s *Subnet) check() diag.List {
	var found diag.List
	found.Add(checkName(s.Meta, "subnet", validation.DNS1123LabelMaxLength)...)
	if s.Spec.CIDR == "" {
		found.Add(diag.Errorf(s.At("spec", "cidr"), "request/missing-field", "no spec.cidr"))
		return found
	}
	cidr, err := ledger.ParseSubnet(s.Spec.CIDR)
	if err != nil {
		found.Add(ledger.MalformedAt(s.At("spec", "cidr"), "request/bad-value", err))
		return found
	}
	if s.Spec.Gateway != "" {
		if _, outside, err := ledger.ParseGateway(s.Spec.Gateway, cidr); err != nil {
			name := "request/bad-value"
			if outside {
				name = "subnet/outside"
			}
			found.Add(ledger.MalformedAt(s.At("spec", "gateway"), name, err))
		}
	}
	if s.Spec.ServerAddresses != "" {
		r, err := ledger.ParseRange(s.Spec.ServerAddresses)
		at := s.At("spec", "serverAddresses")
		switch {
		case err != nil:
			found.Add(diag.Errorf(at, "request/bad-value", "serverAddresses %q, want first-last or a CIDR, as in 10.100.0.240-10.100.0.254", s.Spec.ServerAddresses))
		case !cidr.Contains(r.First) || !cidr.Contains(r.Last):
			found.Add(diag.Errorf(at, "subnet/outside", "serverAddresses %s are not all in %s", s.Spec.ServerAddresses, cidr))
		case s.nobodys(r, cidr):
			found.Add(diag.Errorf(at, "subnet/outside", "serverAddresses %s hold no address that a cluster can have: the network and broadcast address of %s and the gateway are nobody's", s.Spec.ServerAddresses, cidr))
		}
	}
	return found
}

// nobodys reports whether a range holds nothing but addresses that no cluster can have.
func (s *Subnet) nobodys(r ledger.Range, cidr netip.Prefix) bool {
	taken := ledger.Edges(cidr)
	if g, err := netip.ParseAddr(s.Spec.Gateway); err == nil {
		taken = append(taken, g)
	}
	for a := r.First; r.Contains(a); a = a.Next() { // at most one step more than there are taken
		if !slices.Contains(taken, a) {
			return false
		}
	}
	return true
}

func checkName(m Meta, what string, most int) diag.List {
	if m.Name == "" { // found before
		return nil
	}
	at := m.At("metadata", "name")
	if errs := validation.IsDNS1123Label(m.Name); len(errs) > 0 && len(m.Name) <= validation.DNS1123LabelMaxLength {
		f := diag.Errorf(at, "request/bad-name", "%s name %q, want lower-case letters, digits and -, starting and ending with a letter or digit", what, m.Name)
		if l := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(m.Name)); len(validation.IsDNS1123Label(l)) == 0 {
			f = f.Hintf("write %q", l)
		}
		return diag.List{f}
	}
	if n := len(m.Name); n > most {
		why := ""
		if most < validation.DNS1123LabelMaxLength {
			why = ": Cluster API adds suffixes and uses the result as a label"
		}
		return diag.List{diag.Errorf(at, "request/name-too-long", "%s name has %d characters, want at most %d%s", what, n, most, why)}
	}
	return nil
}

// checkAddress wants an address in the one way of writing it, so that no two spellings of one address can meet in the ledger.
func checkAddress(m Meta, text, field string) diag.List {
	if text == "" {
		return nil
	}
	at := m.At("spec", field)
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil || a.Zone() != "":
		return diag.List{diag.Errorf(at, "request/bad-value", "%s %q, want an IP address", field, text)}
	case a.Is4In6() || a.String() != text:
		return diag.List{diag.Errorf(at, "request/bad-value", "%s %q, want it written %s", field, text, a.Unmap())}
	}
	return nil
}

// checkRanges wants one range or one of each family, as Cluster API and Kubernetes take them, that machines can use.
func checkRanges(m Meta, ranges []string, field string) diag.List {
	var found diag.List
	families := map[bool]int{}
	for i, r := range ranges {
		at := m.At("spec", "clusterNetwork", field, fmt.Sprint(i))
		p, err := ledger.ParseNetwork(r)
		if err != nil {
			found.Add(ledger.MalformedAt(at, "request/bad-value", err))
			continue
		}
		a := p.Addr()
		switch families[a.Is4()]++; {
		case ledger.Special(a):
			found.Add(diag.Errorf(at, "request/bad-value", "range %q of %s is a special one (unspecified, loopback, link-local or multicast), want one that machines can have", r, field))
		case families[a.Is4()] == 2:
			found.Add(diag.Errorf(at, "request/bad-value", "range %q is the second of its family in %s, want one range, or one of IPv4 and one of IPv6", r, field))
		}
	}
	return found
}
