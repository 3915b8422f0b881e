package render

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/topology"
)

// versionStep warns of a version that the change at hand brings and that a webhook takes no running cluster to. It is no error: the way
// back from a version that was refused is a step that would be refused as well.
func (b *builder) versionStep(d *draft) {
	was := d.base.of(d.request)
	if was == nil || was.Spec.Version == d.request.Spec.Version || d.isNew() {
		return
	}
	why := ""
	if d.chart != nil {
		why = KamajiRefuses(was.Spec.Version, d.request.Spec.Version)
	} else {
		problems, err := topology.Update(d.class, d.class, topology.With(d.admitted, was.Spec.Version, "version"), d.admitted)
		if d.err = errors.Join(d.err, err); len(problems) > 0 {
			why = "Cluster API's webhook refuses the change: " + problems[0].Words()
		}
	}
	if why != "" {
		d.steady = d.chart == nil || len(d.pools) == 0 // of a chart the API server takes the worker pools' part
		d.refused.Add(diag.Warnf(d.request.At("spec", "version"), "version/refused", "%s: %s", d.request, why))
	}
}

// KamajiRefuses says why Kamaji's webhook takes a control plane to no such version (internal/webhook/handlers/tcp_version.go of Kamaji).
// Nobody else looks: Cluster API's rules on versions are for topologies.
func KamajiRefuses(was, is string) string {
	minor := func(v string) int {
		n, err := strconv.Atoi(strings.TrimPrefix(semver.MajorMinor(v), semver.Major(v)+"."))
		if err != nil {
			return 0
		}
		return n
	}
	switch {
	case semver.Compare(is, was) < 0:
		return fmt.Sprintf("Kamaji's webhook refuses to go back from %s to %s: the control plane stays as it is", was, is)
	case semver.Major(was) != semver.Major(is) || minor(is)-minor(was) > 1:
		return fmt.Sprintf("Kamaji's webhook refuses to skip a minor between %s and %s: the control plane stays as it is", was, is)
	}
	return ""
}
