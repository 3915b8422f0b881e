package impact_test

import "slices"

// A verdict is an edit of a repository and what it does to the one cluster there. given is edited on both sides beforehand.
type verdict struct {
	name         string
	given, edits []edit
	want         string
}

// overlay is a kustomize component with one JSON 6902 patch on all Clusters.
func overlay(patch string) []edit {
	return []edit{
		{catalogFile, "spec:\n", "spec:\n  overlays: {all: {path: overlays/all}}\n"},
		{"catalog/overlays/all/kustomization.yaml", "", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: Cluster}\n  patch: |-\n    " + patch + "\n"},
	}
}

// ledgered puts solar into the ledger, with a recorded default in place of its size.
var ledgered = []edit{
	{catalogFile, "spec:\n", "spec:\n  addressPools: {pool: {namespace: metallb-system, addresses: [192.0.2.0/24]}}\n"},
	{catalogFile, "{class: demo, from: demo,", "{class: demo, from: demo, addressPool: pool,"},
	{catalogFile, "address: address, ", "address: address, serviceType: \"\", "},
	{solar, "      size: small\n", ""},
	{record, "", "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRecord\nmetadata: {name: solar, namespace: photon-prod}\nspec:\n  address: 192.0.2.10\n  addressPool: pool\n  class: platform/demo\n  defaults:\n    machineSize: large\n    network.mtu: 1450\n    dataStore: default\n"},
}

const (
	record    = "ledger/clusters/photon-prod/solar.yaml"
	demoVM    = "metadata: {name: demo-vm, namespace: platform}\nspec:\n  template:\n    spec:\n"
	workerTop = "          runStrategy: Always\n          template:\n            metadata: {annotations: {made-by: us}}\n            spec:\n              domain:\n                cpu: {cores: 2}"
	crdVM     = "catalog/crds/kubevirtmachinetemplates.infrastructure.cluster.x-k8s.io.json"
)

// newDefault is another default of a field of the machine template.
var newDefault = edit{crdVM, `"default": "ssh"`, `"default": "none"`}

// patchOn is a class patch on the workers' machine template that sets an annotation of the machine from a Go template.
func patchOn(template string) edit {
	return edit{classFile, "  - name: join\n", "  - name: probe\n    definitions:\n    - selector: *worker\n      jsonPatches:\n      - {op: add, path: /spec/template/spec/virtualMachineTemplate/spec/template/metadata/annotations/probe, valueFrom: {template: '" + template + "'}}\n  - name: join\n"}
}

// external has a runtime extension patch the class.
var external = edit{classFile, "  - name: medium\n", "  - name: ours\n    external: {generatePatchesExtension: ours}\n  - name: medium\n"}

// versioned has the workers' machine template read the version, deferring defers the pool's upgrade.
var (
	versioned = patchOn("{{ .builtin.machineDeployment.version }}x")
	deferring = edit{solar, "size: small", "size: small\n      deferUpgrade: true"}
)

// Edits of a class that are refused: of a template that may not change, and of a worker class that another cluster has.
var (
	refusedTemplate = edit{classFile, "metadata: {name: demo-cluster, namespace: platform}\nspec: {template: {spec: {}}}", "metadata: {name: demo-cluster, namespace: platform}\nspec: {template: {spec: {sshKeys: {configRef: {name: keys}}}}}"}
	gpuLunar        = edit{"tenants/quark-dev/lunar.yaml", "", lunarText + "  workers:\n    md-0: {replicas: 1, class: gpu}\n"}
	refusedClass    = edit{classFile, "    - class: gpu\n", "    - class: gpu2\n"}
)

var verdicts = []verdict{
	{name: "nothing", want: "none"},

	// Variables and patches.
	{name: "a variable that a patch on the machine template reads", edits: []edit{{solar, "size: small", "size: medium"}}, want: "rollout md-0"},
	{name: "a variable that a patch on the bootstrap template reads", edits: []edit{{solar, "  workers:", "  variables: {joinCommand: echo}\n  workers:"}}, want: "rollout md-0"},
	{name: "a variable that a patch on the control plane reads", edits: []edit{{solar, "  workers:", "  controlPlane: {dataStore: fast}\n  workers:"}}, want: "control-plane"},
	{name: "a variable that no patch reads", edits: []edit{{solar, "  workers:", "  variables: {unread: x}\n  workers:"}}, want: "in-place"},
	{name: "a value that two sizes share", edits: []edit{{solar, "size: small", "size: large"}}, want: "in-place"},
	{name: "a value outside the enum", edits: []edit{{solar, "size: small", "size: huge"}}, want: "rejected"},
	{name: "an unknown variable", edits: []edit{{solar, "  workers:", "  variables: {nope: x}\n  workers:"}}, want: "rejected"},
	{name: "a size written at the cluster instead of the pool, with another failure domain", edits: []edit{{solar, "      size: small\n", "      failureDomain: zone-b\n"}, {solar, "  workers:", "  variables: {machineSize: small}\n  workers:"}}, want: "rollout md-0"},
	{name: "an own size for one pool", given: []edit{{solar, "size: small\n", "size: small\n    md-1: {size: small}\n"}}, edits: []edit{{solar, "md-1: {size: small}", "md-1: {size: medium}"}}, want: "rollout md-1"},

	// The topology.
	{name: "replicas", edits: []edit{{solar, "replicas: 3", "replicas: 5"}}, want: "scale md-0"},
	{name: "replicas that a patch reads", given: []edit{patchOn("{{ .builtin.machineDeployment.replicas }}x")}, edits: []edit{{solar, "replicas: 3", "replicas: 5"}}, want: "rollout md-0, scale md-0"},
	{name: "from replicas to an autoscaler", edits: []edit{{solar, "replicas: 3", "min: 2\n      max: 9"}}, want: "scale md-0"},
	{name: "failure domain", edits: []edit{{solar, "size: small", "size: small\n      failureDomain: zone-b"}}, want: "rollout md-0"},
	{name: "a label of a pool", edits: []edit{{solar, "size: small", "size: small\n      labels: {a: b}"}}, want: "in-place md-0"},
	{name: "a label of a pool that a patch reads", given: []edit{patchOn("{{ .builtin.machineDeployment.metadata.labels | toJson | quote }}")}, edits: []edit{{solar, "size: small", "size: small\n      labels: {a: b}"}}, want: "rollout md-0"},
	{name: "a pool renamed", edits: []edit{{solar, "    md-0:", "    md-1:"}}, want: "replace md-0"},
	{name: "a pool more", edits: []edit{{solar, "size: small\n", "size: small\n    md-1: {replicas: 2}\n"}}, want: "create md-1"},
	{name: "a pool less", given: []edit{{solar, "size: small\n", "size: small\n    md-1: {class: gpu, replicas: 2}\n"}}, edits: []edit{{solar, "    md-1: {class: gpu, replicas: 2}\n", ""}}, want: "delete md-1"},
	{name: "another worker class", edits: []edit{{solar, "size: small", "size: small\n      class: gpu"}}, want: "rollout md-0"},
	{name: "replicas of the control plane", edits: []edit{{solar, "  workers:", "  controlPlane: {replicas: 3}\n  workers:"}}, want: "control-plane"},
	{name: "replicas of the control plane, as they are by default", edits: []edit{{solar, "  workers:", "  controlPlane: {replicas: 2}\n  workers:"}}, want: "in-place"},
	{name: "a rollout after a time", edits: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/rollout, value: {after: \"2027-01-01T00:00:00Z\"}}"), want: "rollout md-0"},
	{name: "a rollout of the control plane after a time, which Kamaji does not have", edits: overlay("- {op: add, path: /spec/topology/controlPlane, value: {rollout: {after: \"2027-01-01T00:00:00Z\"}}}"), want: "frozen"},
	{name: "a drain timeout", edits: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/deletion, value: {nodeDrainTimeoutSeconds: 60}}"), want: "in-place md-0"},
	{name: "a rollout strategy", edits: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/rollout, value: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}}}"), want: "in-place md-0"},
	{name: "a size under the strategy OnDelete", given: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/rollout, value: {strategy: {type: OnDelete}}}"), edits: []edit{{solar, "size: small", "size: medium"}}, want: "on-delete md-0"},
	{name: "a strategy that is no longer OnDelete", given: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/rollout, value: {strategy: {type: OnDelete}}}"), edits: []edit{{"catalog/overlays/all/kustomization.yaml", "OnDelete", "RollingUpdate"}}, want: "unknown md-0"},
	{name: "a pause", edits: overlay("- {op: add, path: /spec/paused, value: true}"), want: "in-place"},
	{name: "the end of a pause", given: overlay("- {op: add, path: /spec/paused, value: true}"), edits: []edit{{"catalog/overlays/all/kustomization.yaml", "value: true", "value: false"}}, want: "unknown"},
	{name: "the worker class that the tier has for pools without one", edits: []edit{{catalogFile, "workerClass: pool", "workerClass: gpu"}}, want: "rollout md-0"},
	{name: "an overlay taken away that set a variable", given: overlay("- {op: add, path: /spec/topology/variables/-, value: {name: joinCommand, value: echo}}"), edits: []edit{{catalogFile, "  overlays: {all: {path: overlays/all}}\n", ""}}, want: "rollout md-0"},
	{name: "a health check", edits: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/healthCheck, value: {enabled: true, checks: {nodeStartupTimeoutSeconds: 600, unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]}}}"), want: "in-place md-0"},
	{name: "taints of a pool", edits: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/taints, value: [{key: a/b, effect: NoSchedule, propagation: Always}]}"), want: "rejected"}, // behind a feature gate of Cluster API that is off
	{name: "an overlay that renames the Cluster", edits: overlay("- {op: replace, path: /metadata/name, value: other}"), want: "rejected"},
	{name: "a label of the Cluster", edits: overlay("- {op: add, path: /metadata/labels/team, value: a}"), want: "in-place"},
	{name: "a label of the Cluster that a patch reads", given: []edit{patchOn("{{ .builtin.cluster.metadata.labels | toJson | quote }}")}, edits: overlay("- {op: add, path: /metadata/labels/team, value: a}"), want: "rollout md-0"},
	{name: "the cluster's own network", edits: []edit{{solar, "  workers:", "  clusterNetwork: {pods: [198.51.100.0/24]}\n  workers:"}}, want: "in-place"},
	{name: "the address", given: ledgered, edits: []edit{{record, "address: 192.0.2.10", "address: 192.0.2.11"}}, want: "address, control-plane"},
	{name: "a size taken away, back to the recorded default", given: append(slices.Clone(ledgered), edit{record, "machineSize: large", "machineSize: medium"}, edit{solar, "      replicas: 3\n", "      replicas: 3\n      size: small\n"}), edits: []edit{{solar, "      size: small\n", ""}}, want: "rollout md-0"},
	{name: "a recorded default", given: ledgered, edits: []edit{{record, "machineSize: large", "machineSize: medium"}}, want: "rollout md-0"},

	// Versions.
	{name: "a version", edits: []edit{{solar, "version: v1.34.1", "version: v1.34.2"}}, want: "control-plane, rollout md-0"},
	{name: "a minor version", edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}, want: "control-plane, rollout md-0"},
	{name: "version and size at once", edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}, {solar, "size: small", "size: medium"}}, want: "control-plane, rollout md-0"},
	{name: "version and image at once", edits: []edit{{solar, "version: v1.34.1", "version: v1.34.2"}, {classFile, "node:v1.34.1", "node:v1.34.2"}}, want: "control-plane, rollout md-0"},
	{name: "two minor versions at once", edits: []edit{{solar, "version: v1.34.1", "version: v1.36.0"}}, want: "rejected"},
	{name: "two minor versions at once of a class that names its versions", given: []edit{{classFile, "spec:\n  infrastructure:", "spec:\n  kubernetesVersions: [v1.34.1, v1.35.0, v1.36.0]\n  infrastructure:"}}, edits: []edit{{solar, "version: v1.34.1", "version: v1.36.0"}}, want: "control-plane, rollout md-0"},
	{name: "a minor version of two pools", given: []edit{{solar, "size: small\n", "size: small\n    md-1: {}\n"}}, edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}, want: "control-plane, rollout md-0, rollout md-1"},
	{name: "a version back", given: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}, edits: []edit{{solar, "version: v1.35.0", "version: v1.34.2"}}, want: "rejected"},
	{name: "a version of a pool whose upgrade is deferred", given: []edit{{solar, "size: small", "size: small\n      deferUpgrade: true"}}, edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}, want: "control-plane, in-place md-0"},
	{name: "a deferred upgrade let go", given: []edit{{solar, "size: small", "size: small\n      deferUpgrade: true"}}, edits: []edit{{solar, "\n      deferUpgrade: true", ""}}, want: "rollout md-0 if-held-back"},
	{name: "a size of a pool whose upgrade is deferred", given: []edit{{solar, "size: small", "size: small\n      deferUpgrade: true"}}, edits: []edit{{solar, "size: small", "size: medium"}}, want: "rollout md-0 unless-held-back"},

	{name: "a version of a pool whose upgrade is deferred, in a class that reads the version", given: []edit{versioned, deferring}, edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}, want: "control-plane, in-place md-0"},
	{name: "a size of a pool whose upgrade is deferred, in a class that reads the version", given: []edit{versioned, deferring}, edits: []edit{{solar, "size: small", "size: medium"}}, want: "rollout md-0 unless-held-back"},
	{name: "an upgrade deferred, in a class that reads the version", given: []edit{versioned}, edits: []edit{deferring}, want: "in-place md-0"},
	{name: "a class that reads the version in another way, of a pool whose upgrade is deferred", given: []edit{versioned, deferring}, edits: []edit{{classFile, "{{ .builtin.machineDeployment.version }}x", "{{ trim .builtin.machineDeployment.version }}x"}}, want: "in-place md-0"},
	{name: "a version of a pool that an overlay holds", given: overlay("- {op: add, path: /spec/topology/workers/machineDeployments/0/metadata, value: {annotations: {topology.cluster.x-k8s.io/hold-upgrade-sequence: \"\"}}}"), edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}, want: "control-plane, in-place md-0"},

	// Templates of the class.
	{name: "a template edited under its name", edits: []edit{{classFile, "cpu: {cores: 2}", "cpu: {cores: 3}"}}, want: "latent md-0"},
	{name: "a template edited under a new name", edits: []edit{{classFile, "cpu: {cores: 2}", "cpu: {cores: 3}"}, {classFile, "kind: KubevirtMachineTemplate, name: demo-vm", "kind: KubevirtMachineTemplate, name: demo-vm-2"}, {classFile, "metadata: {name: demo-vm,", "metadata: {name: demo-vm-2,"}, {classFile, "kind: KubevirtMachineTemplate, name: demo-vm}", "kind: KubevirtMachineTemplate, name: demo-vm-2}"}}, want: "rollout md-0"},
	{name: "a template renamed", edits: []edit{{classFile, "kind: KubevirtMachineTemplate, name: demo-vm", "kind: KubevirtMachineTemplate, name: demo-vm-2"}, {classFile, "metadata: {name: demo-vm,", "metadata: {name: demo-vm-2,"}, {classFile, "kind: KubevirtMachineTemplate, name: demo-vm}", "kind: KubevirtMachineTemplate, name: demo-vm-2}"}}, want: "none"},
	{name: "a label of the template", edits: []edit{{classFile, "metadata: {name: demo-vm, namespace: platform}", "metadata: {name: demo-vm, namespace: platform, labels: {a: b}}"}}, want: "none"},
	{name: "a label below the spec of a template", edits: []edit{{classFile, "  template:\n    spec:\n      preKubeadmCommands", "  template:\n    metadata: {labels: {a: b}}\n    spec:\n      preKubeadmCommands"}}, want: "latent md-0"},
	{name: "a label below the spec of a template whose kind has none there", edits: []edit{{classFile, demoVM, "metadata: {name: demo-vm, namespace: platform}\nspec:\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n"}}, want: "frozen md-0"},
	{name: "the same memory in other words", edits: []edit{{classFile, "guest: 4Gi", "guest: 4096Mi"}}, want: "latent md-0"},
	{name: "a default written out", given: []edit{{classFile, demoVM, demoVM + "      virtualMachineBootstrapCheck: {}\n"}}, edits: []edit{{classFile, "virtualMachineBootstrapCheck: {}", "virtualMachineBootstrapCheck: {checkStrategy: ssh}"}}, want: "none"},
	{name: "another value than the default written out", given: []edit{{classFile, demoVM, demoVM + "      virtualMachineBootstrapCheck: {}\n"}}, edits: []edit{{classFile, "virtualMachineBootstrapCheck: {}", "virtualMachineBootstrapCheck: {checkStrategy: none}"}}, want: "latent md-0"},
	{name: "a field that the schema does not have", edits: []edit{{classFile, "cpu: {cores: 2}", "cpu: {cores: 2, coress: 3}"}}, want: "frozen md-0"},
	{name: "a value of the wrong type", edits: []edit{{classFile, "cpu: {cores: 2}", "cpu: {cores: two}"}}, want: "frozen md-0"},
	{name: "a bootstrap template", edits: []edit{{classFile, "[sleep 1]", "[sleep 2]"}}, want: "latent md-0"},
	{name: "the control plane's template", edits: []edit{{classFile, "network: {serviceType: LoadBalancer}", "network: {serviceType: NodePort}"}}, want: "control-plane"},
	{name: "a default of the control plane written out", edits: []edit{{classFile, "kubelet: {}", "kubelet: {}\n      registry: registry.k8s.io"}}, want: "none"},
	{name: "the infrastructure's template", edits: []edit{refusedTemplate}, want: "rejected"},
	{name: "the infrastructure's template, and a size", edits: []edit{refusedTemplate, {solar, "size: small", "size: medium"}}, want: "rejected, rollout md-0"},
	{name: "the infrastructure's template, and one of machines under its name", edits: []edit{refusedTemplate, {classFile, "cpu: {cores: 2}", "cpu: {cores: 3}"}}, want: "rejected, latent md-0"},
	{name: "the infrastructure's template, and what a patch writes", edits: []edit{refusedTemplate, {classFile, "value: 4}", "value: 6}"}}, given: []edit{{solar, "size: small", "size: medium"}}, want: "rejected, rollout md-0"},
	{name: "a worker class that is not this cluster's", edits: []edit{{classFile, "cpu: {cores: 16}", "cpu: {cores: 32}"}}, want: "none"},
	{name: "a provider's new default", edits: []edit{newDefault}, want: "none"},
	{name: "a provider's new default where the old one is written out", given: []edit{{classFile, demoVM, demoVM + "      virtualMachineBootstrapCheck: {checkStrategy: ssh}\n"}}, edits: []edit{newDefault}, want: "in-place md-0"},
	{name: "a schema that cannot be read", edits: []edit{{crdVM, `"type": "object"`, `"type": "object`}}, want: "rejected"},

	// The class itself.
	{name: "a patch that is on", given: []edit{{solar, "size: small", "size: medium"}}, edits: []edit{{classFile, "value: 4}", "value: 6}"}}, want: "rollout md-0"},
	{name: "a patch that is off", edits: []edit{{classFile, "value: 4}", "value: 6}"}}, want: "none"},
	{name: "a patch that fails", edits: []edit{{classFile, "op: replace, path: /spec/template/spec/virtualMachineTemplate/spec/template/spec/domain/cpu/cores", "op: replace, path: /spec/template/spec/nowhere/cores"}, {classFile, `'{{ eq .machineSize "medium" }}'`, `'{{ eq .machineSize "small" }}'`}}, want: "frozen"},
	{name: "a default of a variable in use", edits: []edit{{classFile, "enum: [small, medium, large], default: small", "enum: [small, medium, large], default: medium"}}, want: "none"},
	{name: "an enum that loses a value in use", edits: []edit{{classFile, "enum: [small, medium, large], default: small", "enum: [medium, large], default: medium"}}, want: "frozen"},
	{name: "an enum that gains a value", edits: []edit{{classFile, "enum: [small, medium, large]", "enum: [small, medium, large, xl]"}}, want: "none"},
	{name: "a variable in use that goes", given: []edit{{solar, "  workers:", "  variables: {unread: x}\n  workers:"}}, edits: []edit{{classFile, "  - name: unread\n    required: false\n    schema: {openAPIV3Schema: {type: string}}\n", ""}}, want: "frozen"},
	{name: "a variable newly required", edits: []edit{{classFile, "  - name: unread\n    required: false\n", "  - name: unread\n    required: true\n"}}, want: "frozen"},
	{name: "a new variable with a default that a worker patch reads", edits: []edit{{classFile, "  - name: unread\n", "  - name: strategy\n    required: false\n    schema: {openAPIV3Schema: {type: string, default: Halted}}\n  - name: unread\n"}, {classFile, "  - name: join\n", "  - name: strategy\n    definitions:\n    - selector: *worker\n      jsonPatches:\n      - {op: replace, path: /spec/template/spec/virtualMachineTemplate/spec/runStrategy, valueFrom: {variable: strategy}}\n  - name: join\n"}}, want: "rollout md-0"},
	{name: "a new nested default that a worker patch reads", given: []edit{patchOn("{{ .network | toJson | quote }}")}, edits: []edit{{classFile, "mtu: {type: integer, default: 1450}", "mtu: {type: integer, default: 1450}\n          vlan: {type: integer, default: 4}"}}, want: "rollout md-0"},
	{name: "a failure domain of the worker class", edits: []edit{{classFile, "    - class: pool\n      bootstrap:", "    - class: pool\n      failureDomain: zone-c\n      bootstrap:"}}, want: "rollout md-0"},
	{name: "a label of the worker class", edits: []edit{{classFile, "    - class: pool\n      bootstrap:", "    - class: pool\n      metadata: {labels: {a: b}}\n      bootstrap:"}}, want: "in-place md-0"},
	{name: "the order of deletion of the worker class", edits: []edit{{classFile, "    - class: pool\n      bootstrap:", "    - class: pool\n      deletion: {order: Newest}\n      bootstrap:"}}, want: "in-place md-0"},
	{name: "a worker class in use that goes", given: []edit{{solar, "size: small", "size: small\n      class: gpu"}}, edits: []edit{{classFile, "    - class: gpu\n", "    - class: gpu2\n"}}, want: "rejected"},
	{name: "a template that is not there", edits: []edit{{classFile, "kind: KubevirtMachineTemplate, name: demo-vm", "kind: KubevirtMachineTemplate, name: gone"}}, want: "rejected"},
	{name: "a worker class in use that goes, of another cluster", given: []edit{gpuLunar}, edits: []edit{refusedClass}, want: "rejected, rejected"},
	{name: "a worker class in use that goes, of another cluster, and a size", given: []edit{gpuLunar}, edits: []edit{refusedClass, {solar, "size: small", "size: medium"}}, want: "rejected, rollout md-0, rejected"},
	{name: "a worker class in use that goes, of another cluster, and a template under its name", given: []edit{gpuLunar}, edits: []edit{refusedClass, {classFile, "cpu: {cores: 2}", "cpu: {cores: 3}"}}, want: "rejected, latent md-0, rejected"},
	{name: "a worker class in use that goes, and its template under its name", given: []edit{gpuLunar}, edits: []edit{refusedClass, {classFile, "cpu: {cores: 16}", "cpu: {cores: 18}"}}, want: "rejected, rejected, latent md-0"},
	{name: "a worker class in use that goes, of another cluster, and what a patch writes", given: []edit{gpuLunar, {solar, "size: small", "size: medium"}}, edits: []edit{refusedClass, {classFile, "value: 4}", "value: 6}"}}, want: "rejected, rejected"},
	{name: "another kind of control plane", edits: []edit{{classFile, "kind: KamajiControlPlaneTemplate, name: demo-cp", "kind: OtherControlPlaneTemplate, name: demo-cp"}, {classFile, "kind: KamajiControlPlaneTemplate\nmetadata: {name: demo-cp", "kind: OtherControlPlaneTemplate\nmetadata: {name: demo-cp"}}, want: "rejected"},
	{name: "another class that makes other machines", given: []edit{{solar, "size: small", "size: medium"}}, edits: []edit{{solar, "tier: demo", "tier: other"}}, want: "control-plane, rollout md-0"},
	{name: "an image newer than the control plane", edits: []edit{{classFile, "node:v1.34.1", "node:v1.35.0"}}, want: "latent md-0, image-skew md-0"},

	// What nobody can know.
	{name: "a version in a class that reads the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{solar, "version: v1.34.1", "version: v1.34.2"}}, want: "control-plane, rollout md-0"},
	{name: "a bootstrap template in a class whose machine templates read the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{classFile, "[sleep 1]", "[sleep 2]"}}, want: "latent md-0"},
	{name: "a change of a class that reads the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{solar, "size: small", "size: medium"}}, want: "unknown md-0"},
	{name: "no change of a class that reads the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{solar, "replicas: 3", "replicas: 4"}}, want: "scale md-0"},
	{name: "a patch of the class that begins to read the uid", edits: []edit{patchOn("{{ .builtin.cluster.uid }}")}, want: "unknown md-0"},
	{name: "a class that reads all there is", given: []edit{patchOn("{{ toJson . | sha256sum }}")}, edits: []edit{{solar, "size: small", "size: medium"}}, want: "unknown md-0"},
	{name: "a class that reads its name", given: []edit{patchOn("{{ .builtin.cluster.name }}")}, edits: []edit{{solar, "size: small", "size: medium"}}, want: "rollout md-0"},

	{name: "a change of a class that a runtime extension patches", given: []edit{external}, edits: []edit{{solar, "size: small", "size: medium"}}, want: "unknown, unknown md-0"},
	{name: "replicas in a class that a runtime extension patches", given: []edit{external}, edits: []edit{{solar, "replicas: 3", "replicas: 4"}}, want: "unknown, unknown md-0, scale md-0"},
	{name: "a control plane that a runtime extension patches", given: []edit{external}, edits: []edit{{solar, "  workers:", "  controlPlane: {dataStore: fast}\n  workers:"}}, want: "unknown, unknown md-0"},
	{name: "no change in a class that a runtime extension patches", given: []edit{external}, want: "none"},
	{name: "a runtime extension that begins to patch the class", edits: []edit{external}, want: "unknown, unknown md-0"},
	{name: "a runtime extension that brings variables", edits: []edit{{classFile, "  - name: medium\n", "  - name: ours\n    external: {generatePatchesExtension: ours, discoverVariablesExtension: ours}\n  - name: medium\n"}}, want: "rejected"},

	// What comes and goes.
	{name: "the request gone", edits: []edit{{solar, "", ""}}, want: "delete"},
	{name: "the tenant's folder gone", given: []edit{{"tenants/quark-dev/README.md", "", "empty"}}, edits: []edit{{solar, "", ""}}, want: "delete"},
	{name: "the request in another file", edits: []edit{{solar, "", ""}, {"tenants/photon-prod/sun.yaml", "", solarText}}, want: "none"},
	{name: "another cluster", edits: []edit{{"tenants/quark-dev/lunar.yaml", "", lunarText}}, want: "create"},
	{name: "a request that can be read again", given: append(slices.Clone(ledgered), edit{solar, "kind: ClusterRequest", "kind: [ClusterRequest"}), edits: []edit{{solar, "kind: [ClusterRequest", "kind: ClusterRequest"}}, want: "unknown"},
	{name: "a request that comes back", given: append(slices.Clone(ledgered), edit{solar, "", ""}, edit{"tenants/quark-dev/lunar.yaml", "", "---\n"}), edits: []edit{{solar, "", solarText}}, want: "unknown"},
	{name: "another cluster that is wrong", edits: []edit{{"tenants/quark-dev/lunar.yaml", "", lunarText + "  variables: {nope: 1}\n"}}, want: "rejected"},
}

const (
	solarText = "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata:\n  name: solar\nspec:\n  tier: demo\n  version: v1.34.1\n  subnet: production\n  workers:\n    md-0:\n      replicas: 3\n      size: small\n"
	lunarText = "apiVersion: copyhold.dev/v1alpha1\nkind: ClusterRequest\nmetadata:\n  name: lunar\nspec:\n  tier: demo\n  version: v1.34.1\n  subnet: production\n"
)

// accepted are edits and whether what is to be accepted of the pool moves with them, whatever becomes of its machines.
var accepted = []struct {
	name         string
	given, edits []edit
	moves        bool
}{
	{name: "a version of a deferred pool", given: []edit{deferring}, edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}},
	{name: "a version of a deferred pool, in a class that reads the version", given: []edit{versioned, deferring}, edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}},
	{name: "a version of a deferred pool, in a class that reads all there is", given: []edit{patchOn("{{ toJson . | sha256sum }}"), deferring}, edits: []edit{{solar, "version: v1.34.1", "version: v1.35.0"}}},
	{name: "a size of a deferred pool, in a class that reads the version", given: []edit{versioned, deferring}, edits: []edit{{solar, "size: small", "size: medium"}}, moves: true},
	{name: "a patch of a deferred pool that reads the version", given: []edit{versioned, deferring}, edits: []edit{{classFile, "{{ .builtin.machineDeployment.version }}x", "{{ trim .builtin.machineDeployment.version }}x"}}, moves: true},
	{name: "a label of a deferred pool, in a class that reads the version", given: []edit{versioned, deferring}, edits: []edit{{solar, "size: small", "size: small\n      labels: {a: b}"}}},
	{name: "the end of a deferral, in a class that reads the version", given: []edit{versioned, deferring}, edits: []edit{{solar, "\n      deferUpgrade: true", ""}}, moves: true},

	{name: "a size, in a class that reads the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{solar, "size: small", "size: medium"}}, moves: true},
	{name: "an autoscaler, in a class that reads the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{solar, "replicas: 3", "min: 2\n      max: 9"}}},
	{name: "a value that moves to the pool, in a class that reads the uid", given: []edit{patchOn("{{ .builtin.cluster.uid }}")}, edits: []edit{{solar, "      size: small\n", ""}, {solar, "  workers:", "  variables: {machineSize: small}\n  workers:"}}},
	{name: "the control plane's template, of a class that a runtime extension patches", given: []edit{external}, edits: []edit{{classFile, "network: {serviceType: LoadBalancer}", "network: {serviceType: NodePort}"}}, moves: true},
	{name: "nothing, of a class that a runtime extension patches", given: []edit{external}},
}
