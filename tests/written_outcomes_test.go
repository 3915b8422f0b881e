package tests

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"copyhold.dev/copyhold/render"
	"copyhold.dev/copyhold/render/diag"
	"copyhold.dev/copyhold/render/impact"
	"copyhold.dev/copyhold/render/manifest"
	"copyhold.dev/copyhold/render/topology"
)

// tiersExample is examples/tiers in memory, with edits: file, what is there, what comes in its place. "" for what is there writes a file.
func tiersExample(t *testing.T, edits ...[3]string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	tree := os.DirFS("../examples/tiers")
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		out[name] = &fstest.MapFile{Data: data}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		switch f := out[e[0]]; {
		case e[1] == "":
			out[e[0]] = &fstest.MapFile{Data: []byte(e[2])}
		case f == nil || !strings.Contains(string(f.Data), e[1]):
			t.Fatalf("%s does not hold %q", e[0], e[1])
		default:
			out[e[0]] = &fstest.MapFile{Data: []byte(strings.Replace(string(f.Data), e[1], e[2], 1))}
		}
	}
	return out
}

// changesOf is what a change of the example does to one cluster, as "action pool" in the order of the report, and the two states.
func changesOf(t *testing.T, was, is fstest.MapFS, cluster string) ([]string, *impact.Diff, [2]*render.Cluster) {
	t.Helper()
	var fleets [2]*render.Fleet
	for i, tree := range []fstest.MapFS{was, is} {
		f, err := render.LoadFleet(tree, []string{"tenants/" + cluster + ".yaml"})
		if err != nil {
			t.Fatal(err)
		}
		fleets[i] = f
	}
	r, err := impact.Compare(fleets[0], fleets[1])
	if err != nil {
		t.Fatal(err)
	}
	states := [2]*render.Cluster{fleets[0].Clusters[cluster], fleets[1].Clusters[cluster]}
	i := slices.IndexFunc(r.Clusters, func(d *impact.Diff) bool { return d.String() == cluster })
	if i < 0 {
		return nil, nil, states
	}
	var out []string
	for _, c := range r.Clusters[i].Changes {
		out = append(out, strings.TrimSpace(string(c.Action)+" "+c.Pool))
	}
	return out, r.Clusters[i], states
}

// templateNames are the names of a cluster's machine and bootstrap templates.
func templateNames(c *render.Cluster) []string {
	var out []string
	for _, o := range c.Made.Objects {
		if strings.HasSuffix(o.GetKind(), "MachineTemplate") || strings.HasSuffix(o.GetKind(), "ConfigTemplate") {
			out = append(out, o.GetKind()+" "+o.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// For each tier with workers, a size is a rollout by another template name, replicas a scale, a version the control plane and then the
// workers; a default of the chart is nothing to those that run, and a figure or template of it a rollout.
func TestTiersOutcomes(t *testing.T) {
	for _, x := range []struct{ file, tier, pool string }{
		{"photon-prod/lunar", "kubevirt", "replicas: 1"}, {"dynamo-prod/solar", "proxmox", "replicas: 3"}, {"dynamo-prod/lunar", "nutanix", "replicas: 2"},
		{"dynamo-prod/tidal", "metal-stack", "replicas: 2"}, {"dynamo-prod/stellar", "packet", "replicas: 2"}, {"dynamo-prod/polar", "hetzner", "replicas: 2"},
	} {
		request, chart := "tenants/"+x.file+".yaml", "catalog/tiers/"+x.tier+"/"
		for _, c := range []struct {
			what     string
			was, is  [][3]string
			want     string
			renaming bool
		}{
			{"size", nil, [][3]string{{request, x.pool, x.pool + ", size: large"}}, "rollout md-0", true},
			{"replicas", nil, [][3]string{{request, x.pool, "replicas: 7"}}, "scale md-0", false},
			{"autoscaler", nil, [][3]string{{request, x.pool, "min: 1, max: 9"}}, "scale md-0", false},
			{"version", [][3]string{{request, "v1.34.1", "v1.33.5"}}, nil, "control-plane, rollout md-0", true},
			{"failure domain", nil, [][3]string{{request, x.pool, x.pool + ", failureDomain: zone-b"}}, "rollout md-0", false},
			{"labels", nil, [][3]string{{request, x.pool, x.pool + ", labels: {team: a}"}}, "in-place md-0", false},
			{"data store", nil, [][3]string{{request, "spec:\n", "spec:\n  controlPlane: {dataStore: gold}\n"}}, "control-plane", false},
			{"pool renamed", nil, [][3]string{{request, "md-0", "md-1"}}, "replace md-0", true},
			{"default of the chart", nil, [][3]string{{chart + "values.yaml", "machineSize: small", "machineSize: large"}}, "", false},
			{"template's own name", nil, [][3]string{{chart + "templates/_kamaji.tpl", "kind: KubeadmConfigTemplate\nmetadata:\n", "kind: KubeadmConfigTemplate\nmetadata:\n  annotations: {a.example.org/b: c}\n"}}, "in-place", false},
			{"template", nil, [][3]string{{chart + "templates/_kamaji.tpl", "imagePullPolicy: IfNotPresent", "imagePullPolicy: Always"}}, "rollout md-0", true},
			{"back a version", nil, [][3]string{{request, "v1.34.1", "v1.33.5"}}, "rejected, unknown md-0", true},
		} {
			if c.what == "size" && strings.Contains(x.pool, "3") {
				c.is[0][1], c.is[0][2] = "size: medium", "size: large"
			}
			t.Run(x.tier+"/"+c.what, func(t *testing.T) {
				got, d, states := changesOf(t, tiersExample(t, c.was...), tiersExample(t, c.is...), x.file)
				if x.tier == "hetzner" && c.what == "pool renamed" { // its placement group has its name
					got = slices.DeleteFunc(got, func(s string) bool { return s == "in-place" })
				}
				if s := strings.Join(got, ", "); s != c.want {
					t.Fatalf("%q, want %q: %+v", s, c.want, d)
				}
				for i, s := range states {
					if s.Manifest == nil || len(s.Made.Pools) != 1 {
						t.Fatalf("state %d cannot be rendered: %s", i, s.Found)
					}
				}
				if x.tier == "packet" && strings.HasSuffix(c.what, "version") { // its image serves every version
					c.renaming = false
				}
				if renamed := !slices.Equal(templateNames(states[0]), templateNames(states[1])); renamed != c.renaming {
					t.Errorf("templates %v, then %v: renamed %v, want %v", templateNames(states[0]), templateNames(states[1]), renamed, c.renaming)
				}
				agrees(t, states)
				for _, change := range allChanges(d) {
					if len(change.Causes) == 0 && c.what != "template's own name" {
						t.Errorf("%s %s says no cause", change.Action, change.Pool)
					}
				}
			})
		}
	}
}

func allChanges(d *impact.Diff) []impact.Change {
	if d == nil {
		return nil
	}
	return d.Changes
}

// agrees holds the rollout hash against the rule of the MachineDeployment's own controller: the two move together.
func agrees(t *testing.T, states [2]*render.Cluster) {
	t.Helper()
	find := func(c *render.Cluster) *manifest.Object {
		for _, o := range c.Made.Objects {
			if topology.IsDeployment(o) {
				return o
			}
		}
		return nil
	}
	was, is := find(states[0]), find(states[1])
	if was.GetName() != is.GetName() {
		return
	}
	why, _, err := topology.Redeployed(was, is)
	if err != nil {
		t.Fatal(err)
	}
	if hash := states[0].Hashes["md-0"] != states[1].Hashes["md-0"]; hash != (len(why) > 0) {
		t.Errorf("the hash moves: %v; the controller replaces machines: %v", hash, why)
	}
}

// A control plane by itself has no machines: whatever changes is its own.
func TestKamajiOutcomes(t *testing.T) {
	const request = "tenants/photon-prod/stellar.yaml"
	for _, c := range []struct{ old, now, want string }{
		{"v1.34.1", "v1.34.1\n  controlPlane: {replicas: 3}", "control-plane"},
		{"v1.34.1", "v1.34.1\n  controlPlane: {dataStore: gold}", "control-plane"},
		{"v1.34.1", "v1.34.1\n  publicNames: [a.example.org]", "address, control-plane"},
		{"v1.34.1", "v1.34.1\n  variables: {addons: {coreDNS: false}}", "control-plane"},
		{"v1.34.1", "v1.33.5", "rejected"},
		{"tier: kamaji", "tier: kubevirt", "delete"},
	} {
		got, d, _ := changesOf(t, tiersExample(t), tiersExample(t, [3]string{request, c.old, c.now}), "photon-prod/stellar")
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q: %+v", c.now, s, c.want, d)
		}
	}
	got, _, _ := changesOf(t, tiersExample(t, [3]string{request, "v1.34.1", "v1.33.5"}), tiersExample(t), "photon-prod/stellar")
	if s := strings.Join(got, ", "); s != "control-plane" {
		t.Errorf("a version up: %q, want control-plane", s)
	}
	port := [3]string{"tenants/photon-prod/comet.yaml", "nodePort: 30443", "nodePort: 30555"}
	if got, _, _ := changesOf(t, tiersExample(t), tiersExample(t, port), "photon-prod/comet"); strings.Join(got, ", ") != "address, control-plane" {
		t.Errorf("another node port: %q, want address and control-plane", got)
	}
}

// A chart cannot make what is not its cluster's, what would never take effect, or an address that is not from the ledger.
func TestChartsThatAreRefused(t *testing.T) {
	const chart, more = "catalog/tiers/kubevirt/", "catalog/tiers/kubevirt/templates/more.yaml"
	object := func(apiVersion, kind, metadata, rest string) [3]string {
		return [3]string{more, "", "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {" + metadata + "}\n" + rest}
	}
	for _, c := range []struct {
		edit [3]string
		want string
	}{
		{object("v1", "ConfigMap", `name: "{{ .Values.name }}-x", namespace: kube-system`, ""), "chart/foreign-object"},
		{object("v1", "ConfigMap", `name: other`, ""), "chart/foreign-object"},
		{object("v1", "ConfigMap", `name: "{{ .Values.name }}-x", labels: {cluster.x-k8s.io/cluster-name: other}`, ""), "chart/foreign-object"},
		{object("cluster.x-k8s.io/v1beta2", "MachineHealthCheck", `name: "{{ .Values.name }}-x"`, "spec: {clusterName: other}"), "chart/foreign-object"},
		{object("v1", "ConfigMap", `name: "{{ .Values.name }}-x", finalizers: [a.example.org/b]`, ""), "chart/foreign-object"},
		{object("v1", "Namespace", `name: "{{ .Values.name }}-x"`, ""), "chart/cluster-scoped"},
		{object("rbac.authorization.k8s.io/v1", "ClusterRole", `name: "{{ .Values.name }}-x"`, ""), "chart/cluster-scoped"},
		{object("kamaji.clastix.io/v1alpha1", "DataStore", `name: "{{ .Values.name }}-x"`, ""), "chart/cluster-scoped"},
		{object("rbac.authorization.k8s.io/v1", "RoleBinding", `name: "{{ .Values.name }}-x"`, ""), "chart/unknown-kind"},
		{object("v1", "Pod", `name: "{{ .Values.name }}-x"`, ""), "chart/unknown-kind"},
		{object("example.org/v1", "Thing", `name: "{{ .Values.name }}-x"`, ""), "chart/unknown-kind"},
		{object("v1", "ConfigMap", `name: "{{ .Values.name }}-x", annotations: {argocd.argoproj.io/hook: PreSync}`, ""), "chart/hook"},
		{object("v1", "ConfigMap", `name: "{{ .Values.name }}-x", annotations: {helm.sh/hook: pre-install}`, ""), "chart/hook"},
		{object("cluster.x-k8s.io/v1beta2", "Machine", `name: "{{ .Values.name }}-x"`, "spec: {}"), "chart/unjudged"},
		{object("kamaji.clastix.io/v1alpha1", "TenantControlPlane", `name: "{{ .Values.name }}-x"`, "spec: {kubernetes: {version: v1.34.1}}"), "chart/no-cluster"},
		{object("infrastructure.cluster.x-k8s.io/v1alpha1", "KubevirtMachineTemplate", `name: "{{ .Values.name }}-x"`, "spec: {}"), "chart/unused-template"},
		{object("v1", "Service", `name: "{{ .Values.name }}-x", annotations: {metallb.io/loadBalancerIPs: 198.51.100.9}`, "spec: {type: LoadBalancer}"), "chart/unledgered-address"},
		{object("v1", "Service", `name: "{{ .Values.name }}-x"`, "spec: {type: LoadBalancer, loadBalancerIP: 198.51.100.9}"), "chart/unledgered-address"},
		{object("v1", "Service", `name: "{{ .Values.name }}-x"`, "spec: {externalIPs: [198.51.100.9]}"), "chart/unledgered-address"},
		{[3]string{chart + "templates/cluster.yaml", "", ""}, "chart/no-cluster"},
		{[3]string{chart + "templates/workers.yaml", "{{- range $name, $pool := .Values.workers }}", "{{- range $name, $pool := dict }}"}, "chart/pools"},
		{[3]string{chart + "templates/_kamaji.tpl", "serviceAddress: {{ toJson . }}", "serviceAddress: 198.51.100.9"}, "chart/unledgered-address"},
		{[3]string{chart + "templates/_kamaji.tpl", `"metallb.io/loadBalancerIPs" .`, `"metallb.io/loadBalancerIPs" "198.51.100.9"`}, "chart/unledgered-address"},
		{[3]string{chart + "templates/cluster.yaml", "spec: {}", "spec: {controlPlaneEndpoint: {host: 198.51.100.9, port: 6443}}"}, "chart/unledgered-address"},
		{[3]string{"catalog/tiers/metal-stack/templates/cluster.yaml", "host: {{ toJson .Values.address }}", "host: 198.51.100.9"}, "chart/unledgered-address"},
		{[3]string{"catalog/tiers/metal-stack/templates/cluster.yaml", "port: 6443", "port: 443"}, "chart/port"},
		{object("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Cluster", `name: "{{ .Values.name }}"`, "spec: {}"), "chart/unledgered-address"},
		{[3]string{chart + "templates/_kamaji.tpl", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster", "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster"}, "chart/refused"},
		{[3]string{chart + "templates/_kamaji.tpl", "apiGroup: controlplane.cluster.x-k8s.io", "apiVersion: controlplane.cluster.x-k8s.io/v1alpha2"}, "chart/refused"},
		{[3]string{chart + "templates/_kamaji.tpl", "kind: KamajiControlPlane\n    name: {{ toJson $v.name }}", "kind: KamajiControlPlane\n    name: other"}, "chart/reference"},
		{[3]string{chart + "templates/_kamaji.tpl", "version: {{ toJson $v.version }}\n      {{- with .pool.failureDomain }}", "version: v1.30.0\n      {{- with .pool.failureDomain }}"}, "chart/version"},
		{[3]string{chart + "templates/_kamaji.tpl", "clusterName: {{ toJson $v.name }}\n  {{- if hasKey", "clusterName: {{ toJson $v.name }}\n  machineNamingStrategy: {}\n  {{- if hasKey"}, "chart/refused"},
		{[3]string{chart + "templates/_kamaji.tpl", "    matchLabels: {{ toJson $labels }}", "    matchLabels: {{ merge dict $labels (.pool.labels | default dict) | toJson }}"}, "chart/selector"},
		{[3]string{chart + "templates/_machine.tpl", "evictionStrategy:", "evictionStrategies:"}, "cluster/refused"},
		{[3]string{chart + "values.schema.json", "", ""}, "chart/invalid"},
		{[3]string{chart + "values.yaml", "kubelet:\n", "address: 198.51.100.9\nkubelet:\n"}, "chart/computed-value"},
		{[3]string{"catalog/catalog.yaml", "chart: tiers/kubevirt\n", "chart: tiers/kubevirt\n      digest: h1:other\n"}, "class/digest"},
		{[3]string{"catalog/catalog.yaml", "chart: tiers/kubevirt\n", "chart: tiers/kubevirt\n      class: kubevirt-kubeadm\n"}, "catalog/tier-source"},
		{[3]string{"catalog/catalog.yaml", "gateway: {name: control-planes, namespace: gateways, sectionName: tls}", "gateway: {name: control-planes}"}, "catalog/missing-field"},
		{[3]string{"catalog/catalog.yaml", "      access: gateway\n", "      access: gateway\n      addressPool: tenant-cp-pool\n"}, "catalog/bad-value"},
	} {
		_, set, found, err := render.Render(tiersExample(t, c.edit), ".")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Name == c.want && f.Severity == diag.Error }) {
			t.Errorf("%v: want %s, got\n%s", c.edit, c.want, found)
		}
		if len(set.Objects()) > 0 {
			t.Errorf("%v: %d objects are rendered all the same", c.edit, len(set.Objects()))
		}
	}
}

// Kamaji knows a control plane by its name, so a chart must not give one the name that another cluster has.
func TestControlPlanesOfOneName(t *testing.T) {
	const common = "catalog/tiers/kubevirt/templates/_kamaji.tpl"
	edits := [][3]string{
		{common, "kind: KamajiControlPlane\n    name: {{ toJson $v.name }}", "kind: KamajiControlPlane\n    name: {{ $v.name }}-cp"},
		{common, "kind: KamajiControlPlane\nmetadata:\n  name: {{ toJson $v.name }}", "kind: KamajiControlPlane\nmetadata:\n  name: {{ $v.name }}-cp"},
	}
	collides := func(more ...[3]string) bool {
		t.Helper()
		_, _, found, err := render.Render(tiersExample(t, append(slices.Clone(edits), more...)...), "tenants/photon-prod")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(found, func(f diag.Finding) bool {
			return f.Name == "request/collision" && strings.Contains(f.Message, "solar-cp")
		})
	}
	request := func(name string) [3]string {
		return [3]string{"tenants/photon-prod/more.yaml", "", "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata: {name: " + name + "}\nspec: {tier: kamaji, version: v1.34.1, variables: {controlPlane: {network: {serviceType: ClusterIP}}}}\n"}
	}
	if !collides(request("solar-cp")) || collides(request("solar-cq")) || collides() {
		t.Errorf("solar-cp: %v, solar-cq: %v, alone: %v", collides(request("solar-cp")), collides(request("solar-cq")), collides())
	}
}

// The rollout annotations are the engine's: neither a chart nor an overlay can add one.
func TestRolloutAnnotationsOfCharts(t *testing.T) {
	edit := [3]string{"catalog/tiers/kubevirt/templates/_kamaji.tpl", "kind: Cluster\nmetadata:\n", "kind: Cluster\nmetadata:\n  annotations: {rollout.copyhold.dev/other: v1:0000000000000000, rollout.copyhold.dev/md-0: v1:0000000000000000}\n"}
	_, set, found, err := render.Render(tiersExample(t, edit), "tenants/photon-prod/lunar.yaml")
	if err != nil || found.Failed() {
		t.Fatal(err, found)
	}
	for _, o := range set.Objects() {
		if o.GetKind() != "Cluster" {
			continue
		}
		if a := o.GetAnnotations(); a["rollout.copyhold.dev/other"] != "" || a["rollout.copyhold.dev/md-0"] == "" || strings.HasSuffix(a["rollout.copyhold.dev/md-0"], ":0000000000000000") {
			t.Errorf("%v", a)
		}
		return
	}
	t.Error("no Cluster is rendered")
}

// A template's name follows its content alone: neither another name in the chart nor a default that is written out gives it another,
// and nothing is replaced for either.
func TestTemplateNames(t *testing.T) {
	const machine, common = "catalog/tiers/kubevirt/templates/_machine.tpl", "catalog/tiers/kubevirt/templates/_kamaji.tpl"
	const check = "      virtualMachineBootstrapCheck:\n        checkStrategy: none\n"
	for what, c := range map[string]struct{ was, is [][3]string }{
		"another name in the chart": {nil, [][3]string{
			{machine, `"%s-%s" $v.name .name`, `"%s-%s-machine" $v.name .name`},
			{common, "kind: {{ .machine }}\n        name: {{ toJson $name }}", "kind: {{ .machine }}\n        name: {{ printf \"%s-machine\" $name | toJson }}"},
		}},
		"a default written out": {[][3]string{{machine, check, "      virtualMachineBootstrapCheck: {}\n"}}, [][3]string{{machine, "checkStrategy: none", "checkStrategy: ssh"}}},
	} {
		_, d, states := changesOf(t, tiersExample(t, c.was...), tiersExample(t, c.is...), "photon-prod/lunar")
		if states[0].Manifest == nil || states[1].Manifest == nil {
			t.Fatalf("%s: %s %s", what, states[0].Found, states[1].Found)
		}
		if was, is := templateNames(states[0]), templateNames(states[1]); !slices.Equal(was, is) {
			t.Errorf("%s: templates %v, then %v", what, was, is)
		}
		if d != nil && d.Worst() != impact.InPlace {
			t.Errorf("%s: %+v", what, d.Changes)
		}
		agrees(t, states)
	}
}

// Behind a Gateway or an ingress controller a control plane has a name and takes no address.
func TestAccessByName(t *testing.T) {
	f, err := render.LoadFleet(tiersExample(t), []string{"tenants/photon-prod"})
	if err != nil {
		t.Fatal(err)
	}
	lunar, polar := f.Clusters["photon-prod/lunar"], f.Clusters["photon-prod/polar"]
	for _, c := range []*render.Cluster{lunar, polar} {
		if c.Record.Address != "" || c.Record.AddressPool != "" {
			t.Errorf("%s has address %s in the ledger", c.Request, c.Record.Address)
		}
	}
	i := slices.IndexFunc(lunar.Made.Objects, func(o *manifest.Object) bool { return o.GetKind() == "KamajiControlPlane" })
	network := fieldAt(t, lunar.Made.Objects[i], "spec", "network").(map[string]any)
	if network["serviceType"] != "ClusterIP" || network["serviceAddress"] != nil || network["serviceAnnotations"] != nil {
		t.Errorf("%v", network)
	}
	want := map[string]any{"hostname": "lunar.photon-prod.k8s.example.org", "name": "control-planes", "namespace": "gateways", "sectionName": "tls"}
	if !topology.Equal(network["gateway"], want) {
		t.Errorf("gateway %v, want %v", network["gateway"], want)
	}
	const name = "polar.photon-prod.k8s.example.org"
	if host := fieldAt(t, polar.Manifest, "spec", "controlPlane", "ingress", "hostname"); host != name {
		t.Errorf("ingress at %v", host)
	}
	if sans := fieldAt(t, polar.Manifest, "spec", "networkProfile", "certSANs"); !topology.Equal(sans, []any{name}) {
		t.Errorf("the certificate has %v", sans)
	}
	domain := [3]string{"catalog/catalog.yaml", "domain: k8s.example.org", "domain: k8s.example.net"}
	if got, _, _ := changesOf(t, tiersExample(t), tiersExample(t, domain), "photon-prod/lunar"); strings.Join(got, ", ") != "address, control-plane" {
		t.Errorf("another domain: %q", got)
	}
	pin := [3]string{"tenants/photon-prod/lunar.yaml", "spec:\n", "spec:\n  address: 172.21.208.150\n"}
	if _, _, found, err := render.Render(tiersExample(t, pin), "tenants/photon-prod"); err != nil || !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Name == "request/no-such-field" }) {
		t.Errorf("a pinned address: %v\n%s", err, found)
	}
}

func fieldAt(t *testing.T, o *manifest.Object, path ...string) any {
	t.Helper()
	var v any = o.Object
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s has no %s", o.GetKind(), strings.Join(path, "."))
		}
		v = m[key]
	}
	return v
}

// Overlays come before templates are named: what one changes of a machine is a rollout, and says so. One that takes the version apart is
// refused.
func TestOverlaysOfWrittenClusters(t *testing.T) {
	overlay := func(kind, patch string) [][3]string {
		return [][3]string{
			{"catalog/overlays/own/kustomization.yaml", "", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: " + kind + "}\n  patch: |\n    - " + patch + "\n"},
			{"catalog/catalog.yaml", "  versions:", "  overlays: {own: {path: overlays/own, tiers: [kubevirt-gateway]}}\n  versions:"},
		}
	}
	const template = "/spec/template/spec/virtualMachineTemplate/spec/template/spec/evictionStrategy"
	got, d, states := changesOf(t, tiersExample(t), tiersExample(t, overlay("KubevirtMachineTemplate", "{op: replace, path: "+template+", value: None}")...), "photon-prod/lunar")
	if strings.Join(got, ", ") != "rollout md-0" || !strings.Contains(d.Changes[0].Causes[0].Field, "overlay") {
		t.Errorf("%q: %+v", got, d)
	}
	if slices.Equal(templateNames(states[0]), templateNames(states[1])) {
		t.Errorf("the templates are called %v still", templateNames(states[1]))
	}
	agrees(t, states)
	got, d, _ = changesOf(t, tiersExample(t), tiersExample(t, overlay("MachineDeployment", "{op: replace, path: /spec/replicas, value: 4}")...), "photon-prod/lunar")
	if strings.Join(got, ", ") != "scale md-0" || d.Changes[0].Causes[0].Field != "overlay own: workers.md-0" {
		t.Errorf("machines by an overlay: %q: %+v", got, d)
	}
	for what, patch := range map[string]string{"renames": "{op: replace, path: /metadata/name, value: lunar-other}", "cannot be read": "{op: replace, path"} {
		got, d, states = changesOf(t, tiersExample(t), tiersExample(t, overlay("MachineDeployment", patch)...), "photon-prod/lunar")
		if strings.Join(got, ", ") != "rejected" || states[1].Manifest != nil {
			t.Errorf("an overlay that %s: %q: %+v", what, got, d)
		}
	}
	for _, x := range []struct{ kind, patch string }{
		{"MachineDeployment", "{op: replace, path: /spec/template/spec/version, value: v1.33.5}"},
		{"MachineDeployment", "{op: replace, path: /spec/template/spec/infrastructureRef/name, value: other}"},
		{"Cluster", "{op: replace, path: /spec/controlPlaneRef/name, value: other}"},
		{"KamajiControlPlane", "{op: add, path: /spec/network/serviceAddress, value: 198.51.100.9}"},
	} {
		_, set, found, err := render.Render(tiersExample(t, overlay(x.kind, x.patch)...), "tenants/photon-prod")
		if err != nil || len(set.Objects()) > 0 || !slices.ContainsFunc(found, func(f diag.Finding) bool { return f.Name == "overlay/refused" }) {
			t.Errorf("%s %s: %v\n%s", x.kind, x.patch, err, found)
		}
	}
}

// The charts of the built-in tiers run nothing that a tenant wrote, and all that have a KamajiControlPlane share one file.
func TestBuiltinCharts(t *testing.T) {
	shared := map[string]string{}
	tree := os.DirFS("../examples/tiers/catalog/tiers")
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if regexp.MustCompile(`\btpl\b|\blookup\b`).Match(data) {
			t.Errorf("%s calls tpl or lookup", name)
		}
		if strings.HasSuffix(name, "/_kamaji.tpl") {
			shared[string(data)] = name
		}
		return err
	})
	if err != nil || len(shared) != 1 {
		t.Errorf("%d versions of the shared file: %v", len(shared), err)
	}
}
