package catalog

import (
	"slices"

	"copyhold.dev/copyhold/render/diag"
)

// Policy says what has to happen before a change may replace running machines.
type Policy struct {
	Rollouts  RolloutPolicy         `json:"rollouts,omitempty"`  // allow when left out
	Approvers Approvers             `json:"approvers,omitempty"` // who may acknowledge; platform when left out
	Tiers     map[string]PolicyPart `json:"tiers,omitempty"`     // for clusters of a tier
	Tenants   map[string]PolicyPart `json:"tenants,omitempty"`   // for clusters of a namespace
}

// PolicyPart is what a policy says about one tier or one tenant; what is left out is as for all.
type PolicyPart struct {
	Rollouts  RolloutPolicy `json:"rollouts,omitempty"`
	Approvers Approvers     `json:"approvers,omitempty"`
}

// RolloutPolicy is how a rollout is met that the ledger has not accepted.
type RolloutPolicy string

// The policies, from mild to strict.
const (
	Allow       RolloutPolicy = "allow"       // nothing is said
	Warn        RolloutPolicy = "warn"        // a warning
	Acknowledge RolloutPolicy = "acknowledge" // an error: nothing is rendered until somebody has run copyhold ack
)

var rolloutPolicies = []RolloutPolicy{Allow, Warn, Acknowledge}

// String is the policy's name.
func (p RolloutPolicy) String() string { return string(p) }

// Stricter reports whether a policy asks for more than another.
func (p RolloutPolicy) Stricter(than RolloutPolicy) bool {
	return slices.Index(rolloutPolicies, p) > slices.Index(rolloutPolicies, than)
}

// Approvers are those who may acknowledge a rollout.
type Approvers string

// The approvers.
const (
	ByPlatform Approvers = "platform"
	ByTenant   Approvers = "tenant"
)

// RolloutPolicy is what holds for a cluster. Where a tier and a tenant both have a word of their own, the stricter one holds.
func (c *Catalog) RolloutPolicy(tier, tenant string) (RolloutPolicy, Approvers) {
	rollouts, approvers := c.Policy.Rollouts, c.Policy.Approvers
	a, b := c.Policy.Tiers[tier], c.Policy.Tenants[tenant]
	if a.Rollouts != "" || b.Rollouts != "" {
		rollouts = stricter(a.Rollouts, b.Rollouts)
	}
	switch {
	case a.Approvers == ByPlatform || b.Approvers == ByPlatform:
		approvers = ByPlatform
	case a.Approvers != "" || b.Approvers != "":
		approvers = ByTenant
	}
	if rollouts == "" {
		rollouts = Allow
	}
	if approvers == "" {
		approvers = ByPlatform
	}
	return rollouts, approvers
}

// checkPolicy finds words that the policy does not have, and tiers that are not there.
func (c *Catalog) checkPolicy() diag.List {
	var found diag.List
	part := func(p PolicyPart, path ...string) (found diag.List) {
		if p.Rollouts != "" && !slices.Contains(rolloutPolicies, p.Rollouts) {
			found.Add(diag.Errorf(c.At(append(path, "rollouts")...), "catalog/bad-value", "rollouts %q%s", p.Rollouts, diag.OneOf([]string{"acknowledge", "allow", "warn"})))
		}
		if p.Approvers != "" && p.Approvers != ByPlatform && p.Approvers != ByTenant {
			found.Add(diag.Errorf(c.At(append(path, "approvers")...), "catalog/bad-value", "approvers %q%s", p.Approvers, diag.OneOf([]string{"platform", "tenant"})))
		}
		return found
	}
	found.Add(part(PolicyPart{c.Policy.Rollouts, c.Policy.Approvers}, "policy")...)
	for _, name := range Sorted(c.Policy.Tiers) {
		found.Add(c.about(part(c.Policy.Tiers[name], "policy", "tiers", name), partOf("tiers", name))...)
		if _, ok := c.Tiers[name]; !ok {
			found.Add(diag.Errorf(c.At("policy", "tiers", name), "tier/unknown", "the policy speaks of tier %q%s", name, diag.OneOf(Sorted(c.Tiers))))
		}
	}
	for _, name := range Sorted(c.Policy.Tenants) {
		found.Add(c.about(part(c.Policy.Tenants[name], "policy", "tenants", name), partOf("tenants", name))...)
	}
	return found
}

func stricter(a, b RolloutPolicy) RolloutPolicy {
	if a.Stricter(b) {
		return a
	}
	return b
}
