package catalog

import (
	"regexp"

	"k8s.io/apimachinery/pkg/util/validation"

	"copyhold.dev/copyhold/render/diag"
)

// Gate is the hook that says, before a sync, which machines it will replace. It is advisory: what holds a rollout back is the policy.
type Gate struct {
	Image            string   `json:"image"`                      // of copyhold, as the management cluster pulls it
	Mode             GateMode `json:"mode,omitempty"`             // warn when left out
	Namespace        string   `json:"namespace,omitempty"`        // where the platform application's hook runs
	ImagePullSecrets []string `json:"imagePullSecrets,omitempty"` // names of Secrets, in each namespace that a hook runs in
	DeadlineSeconds  *int64   `json:"deadlineSeconds,omitempty"`  // of one Job, from its start to its end; 300 when left out
}

// GateMode says what a gate does.
type GateMode string

// The modes of a gate.
const (
	GateOff  GateMode = "off"
	GateWarn GateMode = "warn" // a log and Events; what it finds never fails a sync
)

// On reports whether hooks are rendered.
func (g *Gate) On() bool { return g != nil && g.Mode != GateOff }

// Deadline is how many seconds one Job may take, after which Kubernetes ends it.
func (g *Gate) Deadline() int64 {
	if g.DeadlineSeconds == nil {
		return 300
	}
	return *g.DeadlineSeconds
}

// RunSeconds is how much of that the gate itself may take: four fifths. The rest is for its pod to start, so that a gate that is too slow says so
// itself, and is not ended without a word.
func (g *Gate) RunSeconds() int64 { return g.Deadline() * 4 / 5 }

// FansOut reports whether the platform application has a gate: it changes ClusterClasses, and so clusters that are not its own.
func (c *Catalog) FansOut() bool {
	if !c.Gate.On() {
		return false
	}
	for _, s := range c.Classes {
		if s.Render {
			return true
		}
	}
	return false
}

// image is as much of an image's name as would be taken for something else if it were wrong.
var image = regexp.MustCompile(`^[a-z0-9][A-Za-z0-9._/:@-]*$`)

// checkGate finds what is wrong with the gate. Every application has one.
func (c *Catalog) checkGate() diag.List {
	g := c.Gate
	if g == nil {
		return nil
	}
	var found diag.List
	if g.Mode != "" && g.Mode != GateOff && g.Mode != GateWarn {
		found.Add(diag.Errorf(c.At("gate", "mode"), "catalog/bad-value", "mode %q%s", g.Mode, diag.OneOf([]string{string(GateOff), string(GateWarn)})).
			Hintf("what holds an unaccepted rollout back is policy.rollouts: acknowledge"))
	}
	switch {
	case g.Image == "" && g.On():
		found.Add(diag.Errorf(c.At("gate", "image"), "catalog/missing-field", "the gate has no image").
			Hintf("enter the image of copyhold that Argo CD's sidecar runs"))
	case g.Image != "" && !image.MatchString(g.Image):
		found.Add(diag.Errorf(c.At("gate", "image"), "catalog/bad-value", "image %q, want one as in registry.example.org/copyhold:v1.0.0", g.Image))
	}
	switch {
	case g.Namespace == "" && c.FansOut():
		found.Add(diag.Errorf(c.At("gate", "namespace"), "catalog/missing-field", "the gate has no namespace, and the platform application, which renders classes, needs one to run its gate in"))
	case g.Namespace != "" && len(validation.IsDNS1123Label(g.Namespace)) > 0:
		found.Add(diag.Errorf(c.At("gate", "namespace"), "catalog/bad-name", "namespace %q, want lower-case letters, digits and -", g.Namespace))
	}
	for _, name := range g.ImagePullSecrets {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			found.Add(diag.Errorf(c.At("gate", "imagePullSecrets"), "catalog/bad-name", "Secret %q, want lower-case letters, digits, - and .", name))
		}
	}
	if d := g.Deadline(); d < 30 || d > 3600 {
		found.Add(diag.Errorf(c.At("gate", "deadlineSeconds"), "catalog/bad-value", "deadlineSeconds %d, want 30 to 3600", d))
	}
	return found
}
