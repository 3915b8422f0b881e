package tests

import (
	"slices"
	"strings"
	"testing"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/impact"
)

// bootSecret is a Secret of a chart that its bootstrap templates name.
func bootSecret(name, rest, content string) [][3]string {
	const chart = "catalog/tiers/kubevirt/templates/"
	return [][3]string{
		{chart + "boot.yaml", "", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Values.name }}-" + name + "\n" + rest + "stringData:\n  boot: " + content + "\n"},
		{chart + "_kamaji.tpl", "      joinConfiguration:\n", "      files:\n      - path: /etc/boot\n        contentFrom: {secret: {name: {{ $v.name }}-" + name + ", key: boot}}\n      joinConfiguration:\n"},
	}
}

// Machines read a Secret that their bootstrap template names once, when they are made. An edit that those that run would never take is not
// rendered, and what cannot be edited in place goes by another name, which replaces them.
func TestSecretsThatMachinesRead(t *testing.T) {
	const cluster = "photon-prod/solar"
	_, set, found, err := render.Render(tiersExample(t, bootSecret("boot", "", "one")...), ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Objects()) > 0 || !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Name == "chart/read-once" && f.Severity == diag.Error }) {
		t.Errorf("a Secret that can be edited is rendered: %s", found)
	}
	was := tiersExample(t, bootSecret("boot-1", "immutable: true\n", "one")...)
	for _, c := range []struct {
		name, content, want string
	}{
		{"boot-1", "one", ""},
		{"boot-1", "two", "rejected"},
		{"boot-2", "two", "in-place, in-place, rollout batch, rollout md-0"},
	} {
		got, d, _ := changesOf(t, was, tiersExample(t, bootSecret(c.name, "immutable: true\n", c.content)...), cluster)
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s with content %s: %q, want %q: %+v", c.name, c.content, s, c.want, d)
		}
	}
}

// The ranges of a running cluster stay, on tiers with a chart and with a class.
func TestRangesOfRunningClusters(t *testing.T) {
	const file = "tenants/photon-prod/lunar.yaml"
	with := func(network string) [3]string {
		return [3]string{file, "spec:\n", "spec:\n  clusterNetwork: " + network + "\n  variables: {controlPlane: {network: {dnsServiceIPs: [10.211.0.10]}}}\n"}
	}
	was := tiersExample(t, with("{pods: [10.210.0.0/16], services: [10.211.0.0/16]}"))
	for _, c := range []struct{ network, field string }{
		{"{pods: [10.220.0.0/16], services: [10.211.0.0/16]}", "clusterNetwork.pods"},
		{"{services: [10.211.0.0/16]}", "clusterNetwork.pods"},
		{"{pods: [10.210.0.0/16], services: [10.211.0.0/17]}", "clusterNetwork.services"},
		{"{pods: [10.210.0.0/16], services: [10.211.0.0/16], serviceDomain: k8s.example.org}", "clusterNetwork.serviceDomain"},
	} {
		got, d, _ := changesOf(t, was, tiersExample(t, with(c.network)), "photon-prod/lunar")
		i := slices.IndexFunc(d.Changes, func(c impact.Change) bool { return strings.HasPrefix(c.Words, "the ranges and the domain") })
		if i < 0 || d.Changes[i].Action != impact.InPlace || slices.Contains(got, "rejected") {
			t.Errorf("%s: %v, want in-place and a word on ranges: %+v", c.network, got, d)
			continue
		}
		if cause := d.Changes[i].Causes; len(cause) != 1 || cause[0].Field != c.field || !strings.HasPrefix(cause[0].At, file) {
			t.Errorf("%s: causes %+v, want %s in %s", c.network, cause, c.field, file)
		}
	}
}
