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

// The API server refuses an edit of what was immutable, whoever reads it, and of nothing else.
func TestEditsOfImmutableData(t *testing.T) {
	alone := func(rest string) [][3]string {
		return [][3]string{{"catalog/tiers/kubevirt/templates/boot.yaml", "", "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ .Values.name }}-boot\n" + rest}}
	}
	for _, c := range []struct {
		what    string
		was, is [][3]string
		want    string
	}{
		{"other content", alone("immutable: true\nstringData: {boot: one}\n"), alone("immutable: true\nstringData: {boot: two}\n"), "rejected"},
		{"no longer immutable", alone("immutable: true\nstringData: {boot: one}\n"), alone("stringData: {boot: one}\n"), "rejected"},
		{"the same content in another field", alone("immutable: true\nstringData: {boot: one}\n"), alone("immutable: true\ndata: {boot: b25l}\n"), "in-place"},
		{"it was not immutable", alone("stringData: {boot: one}\n"), alone("immutable: true\nstringData: {boot: two}\n"), "in-place"},
		{"it was not immutable, and is read from now on", alone("stringData: {boot: one}\n"), bootSecret("boot", "immutable: true\n", "two"), "rollout batch, rollout md-0"},
		{"it is read no longer", bootSecret("boot", "immutable: true\n", "one"), alone("immutable: true\nstringData: {boot: two}\n"), "rejected, rollout batch, rollout md-0"},
	} {
		got, d, _ := changesOf(t, tiersExample(t, c.was...), tiersExample(t, c.is...), "photon-prod/solar")
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q: %+v", c.what, s, c.want, d)
		}
	}
}

// A chart, or an overlay, can do to running clusters what no request can, and is judged by what it makes.
func TestEditsOfChartsAreJudged(t *testing.T) {
	const kubevirt = "catalog/tiers/kubevirt/templates/"
	const common, own = kubevirt + "_kamaji.tpl", kubevirt + "own.yaml"
	const kamaji = "catalog/tiers/kamaji/templates/tenantcontrolplane.yaml"
	const controlPlane = "kind: KamajiControlPlane\nmetadata:\n  name: {{ toJson $v.name }}"
	const controlPlaneRef = "kind: KamajiControlPlane\n    name: {{ toJson $v.name }}"
	const deployment = "  clusterName: {{ toJson $v.name }}\n  {{- if hasKey"
	paused := [3]string{common, deployment, strings.Replace(deployment, "\n", "\n  paused: true\n", 1)}
	selector := func(labels string) [3]string {
		const is = "    matchLabels: {{ toJson $labels }}\n  template:\n    metadata:\n      labels: {{ merge dict"
		return [3]string{common, is, "    matchLabels: {{ merge (dict " + labels + ") $labels | toJson }}\n  template:\n    metadata:\n      labels: {{ merge (dict " + labels + ")"}
	}
	overlay := func(kind, patch string) [][3]string {
		return [][3]string{
			{"catalog/overlays/own/kustomization.yaml", "", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: " + kind + "}\n  patch: |\n    - " + patch + "\n"},
			{"catalog/catalog.yaml", "  versions:", "  overlays: {own: {path: overlays/own, tenants: [photon-prod]}}\n  versions:"},
		}
	}
	cni := func(strategy, content string) [][3]string {
		return [][3]string{{own, "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Values.name }}-cni\"}\ndata: {cni: " + content + "}\n---\n" +
			"apiVersion: addons.cluster.x-k8s.io/v1beta2\nkind: ClusterResourceSet\nmetadata: {name: \"{{ .Values.name }}-cni\"}\nspec:\n" + strategy +
			"  clusterSelector: {matchLabels: {cluster.x-k8s.io/cluster-name: \"{{ .Values.name }}\"}}\n  resources: [{kind: ConfigMap, name: \"{{ .Values.name }}-cni\"}]\n"}}
	}
	shape := func(cores string) [][3]string {
		return [][3]string{
			{own, "", "apiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: MachineShape\nmetadata: {name: \"{{ .Values.name }}-shape\"}\nspec: {cores: " + cores + "}\n"},
			{kubevirt + "_machine.tpl", "          runStrategy: Always\n", "          runStrategy: Always\n          instancetype: {kind: MachineShape, name: \"{{ $v.name }}-shape\"}\n"},
		}
	}
	for _, c := range []struct {
		what, cluster string
		was, is       [][3]string
		want, words   string
	}{
		{"another control plane", "photon-prod/solar", nil, [][3]string{{common, controlPlaneRef, "kind: KamajiControlPlane\n    name: {{ $v.name }}-cp"}, {common, controlPlane, "kind: KamajiControlPlane\nmetadata:\n  name: {{ $v.name }}-cp"}},
			"delete", "its KamajiControlPlane solar gives way"},
		{"another infrastructure of the same kind", "photon-prod/solar", nil, [][3]string{{common, "kind: {{ .infrastructure }}\n    name: {{ toJson $v.name }}", "kind: {{ .infrastructure }}\n    name: {{ $v.name }}-own"}, {kubevirt + "cluster.yaml", "name: {{ toJson .Values.name }}", "name: {{ .Values.name }}-own"}},
			"replace", "its KubevirtCluster solar gives way"},
		{"port of the API server", "photon-prod/solar", nil, [][3]string{{common, "apiServerPort: 6443", "apiServerPort: 7443"}}, "address, in-place", "reached in another way"},
		{"port of a control plane by itself", "photon-prod/tidal", nil, [][3]string{{kamaji, "{{ else }}6443{{ end }}", "{{ else }}7443{{ end }}"}}, "address, control-plane", "reached in another way"},
		{"service type", "photon-prod/solar", nil, overlay("KamajiControlPlane", "{op: replace, path: /spec/network/serviceType, value: ClusterIP}"), "address, control-plane", "reached in another way"},
		{"names in the certificate", "photon-prod/polar", nil, [][3]string{{kamaji, "(ternary (list $v.hostname) list (not (empty $v.access)))", "list"}}, "address, control-plane", "names in the API server's certificate"},
		{"ranges by the chart", "photon-prod/lunar", nil, [][3]string{{common, "apiServerPort: 6443", "apiServerPort: 6443\n    pods: {cidrBlocks: [10.99.0.0/16]}"}}, "in-place, in-place", "the ranges and the domain of a cluster cannot be changed"},
		{"ranges by an overlay", "photon-prod/stellar", nil, overlay("TenantControlPlane", "{op: add, path: /spec/networkProfile/podCidr, value: 10.99.0.0/16}"), "in-place, control-plane", "the ranges and the domain of a cluster cannot be changed"},
		{"a rule of a firewall", "dynamo-prod/tidal", nil, [][3]string{{"catalog/catalog.yaml", "networks: [internet]}", "networks: [internet], egress: [{protocol: TCP, ports: [5432], to: [198.51.100.0/24]}]}"}}, "unknown", "its provider may make the firewall anew"},
		{"a selector that matches no machine there is", "photon-prod/lunar", [][3]string{selector(`"a" "b"`)}, [][3]string{selector(`"a" "c"`)}, "replace md-0", "no longer selects the machines"},
		{"a selector that matches them still", "photon-prod/lunar", [][3]string{selector(`"a" "b"`)}, nil, "in-place md-0", "labels"},
		{"a pause", "photon-prod/lunar", nil, [][3]string{paused}, "in-place", ""},
		{"a size while paused", "photon-prod/lunar", [][3]string{paused}, [][3]string{paused, {"tenants/photon-prod/lunar.yaml", "replicas: 1", "replicas: 1, size: large"}}, "rollout md-0", "paused: this waits"},
		{"the end of a pause", "photon-prod/lunar", [][3]string{paused}, nil, "unknown md-0", "no longer paused"},
		{"what is applied once", "photon-prod/solar", cni("", "one"), cni("", "two"), "in-place", "ClusterResourceSet solar-cni applies it once"},
		{"what is applied always", "photon-prod/solar", cni("  strategy: Reconcile\n", "one"), cni("  strategy: Reconcile\n", "two"), "in-place", "labels, annotations or data"},
		{"what machines are made with", "photon-prod/solar", shape("1"), shape("2"), "unknown", "machines of batch, md-0 are made with it"},
	} {
		got, d, states := changesOf(t, tiersExample(t, c.was...), tiersExample(t, c.is...), c.cluster)
		if states[0].Manifest == nil || states[1].Manifest == nil {
			t.Errorf("%s: %s %s", c.what, states[0].Found, states[1].Found)
			continue
		}
		if s := strings.Join(got, ", "); s != c.want || !slices.ContainsFunc(d.Changes, func(x impact.Change) bool { return strings.Contains(x.Words, c.words) }) {
			t.Errorf("%s: %q, want %q with %q: %+v", c.what, s, c.want, c.words, d)
			continue
		}
		for _, x := range d.Changes {
			if len(x.Causes) == 0 && !strings.HasSuffix(x.Words, " comes") {
				t.Errorf("%s: %s has no cause: %s", c.what, x.Action, x.Words)
			}
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
