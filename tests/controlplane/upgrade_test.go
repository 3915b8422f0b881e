package controlplane

import (
	"slices"
	"testing"
	"time"
)

// TestUpgradeInTwoSteps holds the control plane on its version while the Cluster asks for the next one. Until it has arrived there, no
// machine is replaced, and a change of the size that is asked for meanwhile waits as well; then there is one rollout for both.
func TestUpgradeInTwoSteps(t *testing.T) {
	t.Parallel()
	const ns = "two-steps"
	r := baseOf(t, ns, edit{})
	w := newWorld(t, r.tenant(), r.tenant()+"-classes")
	was := w.build(r)
	before := w.look()
	actor.hold(ns, true)
	request("v1.33.5", "v1.34.1")(r)
	was, _ = w.make(r, was)
	if got, want := happened(before, w.look()), []string{ns + "/solar control-plane"}; !slices.Equal(got, want) {
		t.Errorf("with the control plane on the way: %q, want %q", got, want)
	}
	request("size: small", "size: medium")(r)
	_, _ = w.make(r, was)
	if got, want := happened(before, w.look()), []string{ns + "/solar control-plane"}; !slices.Equal(got, want) {
		t.Errorf("with the control plane on the way, and another size: %q, want %q", got, want)
	}
	start := time.Now()
	actor.hold(ns, false)
	w.settle(start, ns+"/solar")
	after := w.look()
	if got, want := happened(before, after), []string{ns + "/solar control-plane", ns + "/solar md-0 rollout"}; !slices.Equal(got, want) {
		t.Errorf("once the control plane is there: %q, want %q", got, want)
	}
	if n := len(union(before[ns+"/solar"].pools["md-0"].sets, after[ns+"/solar"].pools["md-0"].sets)); n != 2 {
		t.Errorf("%d MachineSets for version and size, want the old one and one more", n)
	}
}
