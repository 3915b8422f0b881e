package ledger

import (
	"fmt"
	"slices"
	"strings"
)

// Title names the pool to people: an address pool of the catalog, or the server addresses of a subnet.
func (p Pool) Title() string {
	if namespace, subnet, ok := strings.Cut(p.Name, "."); ok {
		return fmt.Sprintf("the serverAddresses of subnet %s/%s", namespace, subnet)
	}
	return fmt.Sprintf("address pool %q", p.Name)
}

// Spans are the pool's ranges as text, the first few of many.
func (p Pool) Spans() string { return spans(p.Ranges) }

// ReservedSpans is what is reserved in the pool, as text.
func (p Pool) ReservedSpans() string {
	inside := slices.DeleteFunc(slices.Clone(p.Reserved), func(r Range) bool { return !slices.ContainsFunc(p.Ranges, r.Overlaps) })
	if p.AvoidBuggyIPs {
		return strings.TrimPrefix(spans(inside)+", and what ends in .0 or .255", ", and ")
	}
	return spans(inside)
}

func spans(ranges []Range) string {
	const most = 5
	var out []string
	for _, r := range ranges {
		out = append(out, r.String())
	}
	if n := len(out) - most; n > 0 {
		out = append(out[:most], fmt.Sprintf("%d more", n))
	}
	return strings.Join(out, ", ")
}

// Widen says where the pool gets further addresses.
func (p Pool) Widen() string {
	if _, subnet, ok := strings.Cut(p.Name, "."); ok {
		return fmt.Sprintf("widen spec.serverAddresses of SubnetRequest %q", subnet)
	}
	return fmt.Sprintf("the platform team adds addresses under addressPools.%s in the catalog", p.Name)
}

// share is how the addresses of a pool are spread.
type share struct {
	held, quarantined int
	first             Date // on which one of those in quarantine is free again
	across            int  // that are given out in another sphere
}

// share counts the addresses of a pool that could be given out and are not free.
func (p *planner) share(pool Pool) share {
	var s share
	for a := range p.used[sphere(pool.Name)] {
		k := p.ledger.Locks[pool.Name][a]
		if planned := p.locks[p.ledger.LockFile(pool.Name, a)]; planned != nil { // released by this very plan
			k = planned
		}
		switch {
		case pool.State(a) != "":
		case k != nil && k.Released() && p.in.Today.Before(k.Until):
			if s.quarantined++; s.first == "" || k.Until.Before(s.first) {
				s.first = k.Until
			}
		default:
			s.held++
		}
	}
	for a := range p.used[across(pool.Name)] {
		if pool.State(a) == "" && p.used[sphere(pool.Name)][a] == "" {
			s.across++
		}
	}
	return s
}

// words tells how the addresses of a pool are spread.
func (s share) words(pool Pool) string {
	out := []string{fmt.Sprintf("%s in all", pool.Size()), fmt.Sprintf("%s reserved", pool.withheld()), fmt.Sprintf("%d held", s.held), fmt.Sprintf("%d in quarantine", s.quarantined)}
	if s.first != "" {
		out[3] += fmt.Sprintf(" (the first until %s)", s.first)
	}
	if s.across > 0 {
		out = append(out, fmt.Sprintf("%d the %s of others", s.across, otherField(pool.Name)))
	}
	return strings.Join(out, ", ")
}
