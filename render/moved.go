package render

import (
	"path"
	"slices"

	"copyhold.dev/copyhold/catalog/ledger"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/request"
)

// standOn are the running clusters of a tenant whose machines are on a subnet.
func (t *Tenant) standOn(subnet string) []string {
	var out []string
	for _, c := range t.Clusters {
		if c.Spec.Subnet == subnet && t.Records[c.Name] != nil {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// moved finds subnets that the change at hand takes away from under running clusters, or gives another range or gateway. The change is
// refused; once it is there, the clusters are only warned.
func (b *before) moved(t *Tenant) diag.List {
	if b == nil || t.partial {
		return nil
	}
	var found diag.List
	for _, s := range t.Subnets {
		was := b.subnets[s.String()]
		on := t.standOn(s.Name)
		if was == nil || len(on) == 0 {
			continue
		}
		if was.Spec.CIDR != s.Spec.CIDR {
			found.Add(diag.Errorf(s.At("spec", "cidr"), "subnet/changed", "subnet %q gets range %s in place of %s, and machines of %s are there: Kube-OVN calls the range of a subnet immutable", s.Name, s.Spec.CIDR, was.Spec.CIDR, joined(on)).
				Hintf("keep the range; a SubnetRequest of another name gives a subnet beside it"))
		}
		if was.Spec.Gateway != s.Spec.Gateway {
			found.Add(diag.Warnf(s.At("spec", "gateway"), "subnet/changed", "subnet %q gets gateway %q in place of %q, and machines of %s are there: nobody can tell from here whether they learn of it", s.Name, s.Spec.Gateway, was.Spec.Gateway, joined(on)))
		}
	}
	return found
}

// bringsRange reports whether the change brings a subnet, or another range of one.
func (b *before) bringsRange(s *request.Subnet) bool {
	if b == nil || !b.changed[s.File()] {
		return false
	}
	was := b.subnets[s.String()]
	return was == nil || was.Spec.CIDR != s.Spec.CIDR
}

// gone finds a running cluster whose subnet was a SubnetRequest and is none any more: the ledger has a server address of it, or the change
// at hand takes it away.
func (d *draft) gone(name string, t *Tenant) bool {
	if d.isNew() || name == "" {
		return false
	}
	var was *request.Subnet
	if d.base != nil {
		was = d.base.subnets[t.Namespace+"/"+name]
	}
	field := d.originOf(d.source.Variable("subnet"))
	if d.enters(field...) || was == nil && d.record.ServerPool != ledger.SubnetPool(t.Namespace, name) {
		return false
	}
	at := d.request.At(field...)
	if was != nil {
		d.found.Add(diag.Errorf(at, "subnet/removed", "the change removes the SubnetRequest %q, and machines of %s are there: its SubnetClaim goes with it, and their network may go with that", name, d.request).
			Hintf("restore it in %s; remove it once no cluster is on it", path.Dir(was.File())))
		return true
	}
	d.found.Add(diag.Warnf(at, "subnet/removed", "the SubnetRequest %q is gone, and machines of %s are there: once its SubnetClaim is pruned they may have no network", name, d.request).
		Hintf("restore it; remove it once no cluster is on it"))
	return true
}
