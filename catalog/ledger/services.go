package ledger

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"copyhold.dev/copyhold/render/diag"
)

// Service is a control plane's Service as it runs in a management cluster.
type Service struct {
	Namespace    string
	Name         string
	ControlPlane string // the TenantControlPlane it belongs to
	Cluster      string // that it says it belongs to, by Cluster API's label; "" when it does not say
	Address      string // that the load balancer gave it; "" when it has none yet
}

// suffix is what Cluster API adds to a cluster's name to make the name of its control plane.
var suffix = regexp.MustCompile(`^-[a-z0-9]{5}$`)

// Of reports whether the Service is the one of a cluster's control plane: by Cluster API's label where it has one, else by its name, which
// is the cluster's, plain or with the suffix that Cluster API adds to generated names.
func (s Service) Of(namespace, cluster string) bool {
	if s.Namespace != namespace || s.Cluster != "" && s.Cluster != cluster {
		return false
	}
	if s.Cluster != "" {
		return true
	}
	rest, ok := strings.CutPrefix(s.ControlPlane, cluster)
	return ok && (rest == "" || suffix.MatchString(rest))
}

// Match pairs Services with clusters, given by namespace/name. A Service whose name fits two clusters (solar-ab1cd is a cluster, and
// solar too) goes to the longer name.
func Match(services []Service, holders []string) map[int]string {
	out := map[int]string{}
	for i, s := range services {
		for _, h := range holders {
			ns, name, _ := strings.Cut(h, "/")
			if s.Of(ns, name) && len(h) > len(out[i]) {
				out[i] = h
			}
		}
	}
	return out
}

// Verify compares the ledger with the Services that run: an address that moved, a Service that nobody has on record, a record without
// a Service, an address outside its pool.
func (l *Ledger) Verify(services []Service, pools map[string]Pool) diag.List {
	var found diag.List
	var holders []string
	for _, r := range l.AllRecords() {
		if r.Released == "" && r.Address != "" {
			holders = append(holders, r.Holder())
		}
	}
	of := Match(services, holders)
	seen := map[string]bool{}
	for i, s := range services {
		name := fmt.Sprintf("service %s/%s", s.Namespace, s.Name)
		h, ok := of[i]
		if !ok {
			found.Add(diag.Errorf(diag.Pos{}, "service/unknown", "%s with address %s belongs to no cluster in the ledger", name, or(s.Address, "none")).
				Hintf("if a request asks for it, copyhold ledger adopt records its address"))
			continue
		}
		seen[h] = true
		r := l.Records[h]
		at := r.At("spec", "address")
		switch {
		case s.Address == "":
			found.Add(diag.Warnf(at, "service/pending", "%s of %s has no address yet, the ledger has %s", name, h, r.Address))
		case s.Address != r.Address:
			found.Add(diag.Errorf(at, "service/moved", "%s of %s has address %s, the ledger has %s", name, h, s.Address, r.Address).
				Hintf("kubeconfigs follow the service: find out which of the two is meant before anything is synced"))
		}
		if a, err := netip.ParseAddr(s.Address); err == nil {
			if pool, ok := pools[r.AddressPool]; ok && pool.State(a) == Outside {
				found.Add(diag.Errorf(at, "pool/outside", "%s of %s has address %s, which is not in %s: %s", name, h, a, pool.Title(), pool.Spans()))
			}
		}
	}
	for _, h := range holders {
		if !seen[h] {
			found.Add(diag.Errorf(l.Records[h].At("spec", "address"), "service/missing", "%s has %s in the ledger, but no service runs for it", h, l.Records[h].Address).
				Hintf("a cluster that is not synced yet has none; otherwise its control plane is gone"))
		}
	}
	return found
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
