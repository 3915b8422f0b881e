package impact_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"copyhold.dev/copyhold/render/impact"
	"copyhold.dev/copyhold/render/manifest"
)

const explicit = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: solar-md-0, namespace: photon-prod}
spec:
  clusterName: solar
  replicas: 3
  selector: {matchLabels: {pool: md-0}}
  template:
    metadata: {labels: {pool: md-0}}
    spec:
      clusterName: solar
      version: v1.34.1
      bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfigTemplate, name: solar-md-0-1}}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: KubevirtMachineTemplate, name: solar-md-0-1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: KubevirtMachineTemplate
metadata: {name: solar-md-0-1, namespace: photon-prod}
spec: {template: {spec: {virtualMachineTemplate: {spec: {runStrategy: Always}}}}}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: pool, namespace: metallb-system}
spec: {addresses: [192.0.2.0/24]}
`

// Objects that are written out are judged by the rule of their own controller, and by what names what.
func TestObjects(t *testing.T) {
	held := func() []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("198.51.100.1")}
	}
	for _, c := range []struct {
		name     string
		old, new string
		want     string
	}{
		{"nothing", "", "", ""},
		{"version", "version: v1.34.1", "version: v1.34.2", "rollout MachineDeployment photon-prod/solar-md-0: 3 machines: spec.version v1.34.1, v1.34.2 required"},
		{"reference", "kind: KubevirtMachineTemplate, name: solar-md-0-1}", "kind: KubevirtMachineTemplate, name: solar-md-0-2}", "rollout MachineDeployment photon-prod/solar-md-0: 3 machines: spec.infrastructureRef KubevirtMachineTemplate solar-md-0-1, KubevirtMachineTemplate solar-md-0-2 required"},
		{"failure domain", "version: v1.34.1", "version: v1.34.1\n      failureDomain: b", "rollout MachineDeployment photon-prod/solar-md-0: 3 machines: spec.failureDomain , b required"},
		{"rollout after", "  replicas: 3", "  replicas: 3\n  rollout: {after: \"2027-01-01T00:00:00Z\"}", "rollout MachineDeployment photon-prod/solar-md-0: 3 machines: spec.rollout.after 2027-01-01T00:00:00Z"},
		{"on delete", "  replicas: 3\n", "  replicas: 3\n  rollout: {strategy: {type: OnDelete}}\n", "in-place MachineDeployment photon-prod/solar-md-0: "},
		{"replicas", "replicas: 3", "replicas: 4", "scale MachineDeployment photon-prod/solar-md-0: from 3 machines to 4 machines"},
		{"a drain timeout", "version: v1.34.1", "version: v1.34.1\n      deletion: {nodeDrainTimeoutSeconds: 60}", "in-place MachineDeployment photon-prod/solar-md-0: "},
		{"a label of the machines", "metadata: {labels: {pool: md-0}}", "metadata: {labels: {pool: md-0, a: b}}", "in-place MachineDeployment photon-prod/solar-md-0: "},
		{"a template under its name", "runStrategy: Always", "runStrategy: Halted", "in-place KubevirtMachineTemplate photon-prod/solar-md-0-1: edited under its name, which MachineDeployment solar-md-0 names: machines that run never take it, only new ones do; give it a new name"},
		{"addresses that a cluster has", "192.0.2.0/24", "192.0.2.128/25", "address IPAddressPool metallb-system/pool: nothing hands out 192.0.2.10, 192.0.2.11 any more: taken from the clusters that have them"},
		{"addresses that nobody has", "192.0.2.0/24", "192.0.2.0/25", "in-place IPAddressPool metallb-system/pool: it hands out other addresses; every one that a cluster has is still among those handed out"},
		{"a fence", "addresses: [192.0.2.0/24]", "addresses: [192.0.2.0/24], serviceAllocation: {namespaces: [a]}", "address IPAddressPool metallb-system/pool: it hands out or announces control-plane addresses, to others or in another way than before"},
		{"the address pool gone", explicit[strings.LastIndex(explicit, "---"):], "", "address IPAddressPool metallb-system/pool: nothing hands out 192.0.2.10, 192.0.2.11 any more: taken from the clusters that have them"},
		{"the deployment gone", explicit[:strings.Index(explicit, "---")], "", "delete MachineDeployment photon-prod/solar-md-0: its 3 machines go once somebody confirms the prune"},
	} {
		parse := func(text string) []*manifest.Object {
			objects, err := manifest.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return objects
		}
		if !strings.Contains(explicit, c.old) {
			t.Fatalf("%s: there is no %q", c.name, c.old)
		}
		got, err := impact.Objects(parse(explicit), parse(strings.Replace(explicit, c.old, c.new, 1)), held, "")
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, o := range got {
			words = append(words, fmt.Sprintf("%s %s %s: %s", o.Action, o.Kind, o.Name, o.Words))
		}
		if text := strings.Join(words, "\n"); text != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, text, c.want)
		}
	}
}
