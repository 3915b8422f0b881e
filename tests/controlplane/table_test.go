package controlplane

import "strings"

var requestEdits = []edit{
	{name: "request: only a comment, and keys in another order", change: request("  version: v1.33.5\n  subnet: production", "  subnet: production # the tenant's\n  version: v1.33.5")},
	{name: "request: a default written out", change: request("{replicas: 1, size: small}", "{replicas: 1}")},
	{name: "size small to medium", change: request("size: small", "size: medium")},
	{name: "size small to custom with the figures of small", change: request("size: small}", "size: custom}\n  variables: {machineSpecs: {cpuCores: 2, memoryGiB: 4}}")},
	{name: "size small to custom with more memory", change: request("size: small}", "size: custom}\n  variables: {machineSpecs: {cpuCores: 2, memoryGiB: 6}}")},
	{name: "machineSpecs that no size reads", change: request("size: small}", "size: small}\n  variables: {machineSpecs: {cpuCores: 8, memoryGiB: 32}}")},
	{name: "another subnet", change: request("subnet: production", "subnet: batch")},
	{name: "replicas 1 to 2", change: request("replicas: 1", "replicas: 2")},
	{name: "replicas 2 to 1", prepare: request("replicas: 1", "replicas: 2"), change: request("md-0: {replicas: 2", "md-0: {replicas: 1")},
	{name: "replicas 1 to the autoscaler's", change: request("replicas: 1", "min: 1, max: 3")},
	{name: "replicas and size in one edit", change: request("replicas: 1, size: small", "replicas: 2, size: large")},
	{name: "labels of a worker pool", change: request("size: small", "size: small, labels: {team: lunar}")},
	{name: "failure domain of a worker pool", change: request("size: small", "size: small, failureDomain: rack-2")},
	{name: "failure domain taken away", prepare: request("size: small", "size: small, failureDomain: rack-2"), change: request(", failureDomain: rack-2", "")},
	{name: "patch version up", change: request("v1.33.5", "v1.33.9")},
	{name: "minor version up", change: request("v1.33.5", "v1.34.1")},
	{name: "version and size up in one edit", change: both(request("v1.33.5", "v1.34.1"), request("size: small", "size: medium"))},
	{name: "version up, two worker pools", prepare: twoPools, change: request("v1.33.5", "v1.34.1")},
	{name: "version up, one of two worker pools deferred", prepare: both(twoPools, defer0), change: request("v1.33.5", "v1.34.1")},
	{name: "version and size up, worker pool deferred", prepare: defer0, change: both(request("v1.33.5", "v1.34.1"), request("size: small", "size: medium")), hash: held},
	{name: "deferUpgrade set, no upgrade", change: defer0, hash: "the line loses the version"},
	{name: "deferUpgrade taken away, no upgrade", prepare: defer0, change: request(", deferUpgrade: true", ""), hash: "the line has no version while the upgrade is deferred"},
	{name: "deferUpgrade taken away after an upgrade", prepare: defer0, first: request("v1.33.5", "v1.34.1"), change: request(", deferUpgrade: true", "")},
	{name: "size of a worker pool that is held back", prepare: defer0, first: request("v1.33.5", "v1.34.1"), change: request("size: small", "size: medium"), lift: request(", deferUpgrade: true", ""), hash: held},
	{name: "size of a worker pool with deferUpgrade that is not held back", prepare: defer0, change: request("size: small", "size: medium")},
	{name: "deferUpgrade and version in one edit", change: both(defer0, request("v1.33.5", "v1.34.1")), hash: "the line loses the version"},
	{name: "version down", prepare: request("v1.33.5", "v1.34.1"), change: request("v1.34.1", "v1.33.5")},
	{name: "version up by two minors", change: request("v1.33.5", "v1.35.0")},
	{name: "a further public name", change: request("[198.51.100.10]", "[198.51.100.10, solar.example.org]")},
	{name: "a server address", change: request("subnet: production", "subnet: production\n  serverAddress: 10.100.0.250")},
	{name: "another DataStore", change: request("replicas: 2", "replicas: 2\n    dataStore: gold")},
	{name: "control plane replicas 2 to 3", change: request("replicas: 2", "replicas: 3")},
	{name: "control plane replicas left out, which are 2", change: request("  controlPlane:\n    replicas: 2\n", "")},
	{name: "resources of the API server", change: request("replicas: 2", "replicas: 2\n    resources: {apiServer: {requests: {cpu: 500m}}}")},
	{name: "resources of the API server, others", prepare: request("replicas: 2", "replicas: 2\n    resources: {apiServer: {requests: {cpu: 500m}}}"), change: request("500m", `"1"`)},
	{name: "resources of the API server written in another way", prepare: request("replicas: 2", "replicas: 2\n    resources: {apiServer: {requests: {cpu: 500m}}}"), change: request("500m", `"0.5"`)},
	{name: "resources of the API server taken away", prepare: request("replicas: 2", "replicas: 2\n    resources: {apiServer: {requests: {cpu: 500m}}}"), change: request("\n    resources: {apiServer: {requests: {cpu: 500m}}}", "")},
	{name: "one of two kinds of requests taken away", prepare: request("replicas: 2", "replicas: 2\n    resources: {apiServer: {requests: {cpu: 500m, memory: 1Gi}}}"), change: request(", memory: 1Gi", "")},
	{name: "registry of the control plane", change: request("size: small}", "size: small}\n  variables: {controlPlane: {registry: registry.example.org}}")},
	{name: "registry of the control plane, the one that is the default", change: request("size: small}", "size: small}\n  variables: {controlPlane: {registry: registry.k8s.io}}")},
	{name: "service type", change: both(request("size: small}", "size: small}\n  variables: {controlPlane: {network: {serviceType: NodePort}}}"), released)},
	{name: "node selector of the machines", change: request("size: small}", "size: small}\n  variables: {infrastructure: {nodeSelector: {disk: ssd}}}")},
	{name: "tolerations of the machines", change: request("size: small}", "size: small}\n  variables: {infrastructure: {tolerations: [{key: gpu, operator: Exists}]}}")},
	{name: "termination grace period 0", change: request("size: small}", "size: small}\n  variables: {infrastructure: {terminationGracePeriodSeconds: 0}}")},
	{name: "a user of the machines", change: request("size: small}", "size: small}\n  variables: {bootstrapConfig: {users: [{name: developer}]}}")},
	{name: "ranges of the cluster network", change: request("subnet: production", "subnet: production\n  clusterNetwork: {pods: [10.200.0.0/16]}")},
	{name: "a value that the variable's schema refuses", change: request("size: small}", "size: small}\n  variables: {infrastructure: {terminationGracePeriodSeconds: -1}}")},
	{name: "a worker pool more", change: twoPools},
	{name: "a worker pool less", prepare: twoPools, change: request("\n    large: {replicas: 1, size: large}", "")},
	{name: "a worker pool under another name", change: request("md-0:", "workers:")},
	{name: "a cluster more", change: func(r repository) {
		r.write("tenants/"+r.tenant()+"/lunar.yaml", strings.Replace(solar, "solar", "lunar", 1))
	}},
	{name: "a cluster less", prepare: func(r repository) {
		r.write("tenants/"+r.tenant()+"/lunar.yaml", strings.Replace(solar, "solar", "lunar", 1))
	}, change: func(r repository) { r.remove("tenants/" + r.tenant() + "/lunar.yaml") }},
}

// held is why the rollout annotation of a deferred worker pool changes, and no machine is replaced: its template does, and waits.
const held = "the template of a pool that is held back changes, and waits with the version"

var (
	defer0   = request("size: small", "size: small, deferUpgrade: true")
	twoPools = request("size: small}", "size: small}\n    large: {replicas: 1, size: large}")
)

// released gives back the address of solar, which needs none any more.
func released(r repository) { r.must("allocate", "--move") }

var chartEdits = []edit{
	{name: "chart: 4Gi of a size written as 4096Mi", change: chart("values.yaml", "memory: 4Gi", "memory: 4096Mi")},
	{name: "chart: a size that nobody has", change: chart("values.yaml", "cores: 8", "cores: 10")},
	{name: "chart: a size that somebody has", change: chart("values.yaml", "cores: 2", "cores: 3")},
	{name: "chart: arguments of kubelet, template under a new name", change: chart("values.yaml", "kubeletExtraArgs: []", "kubeletExtraArgs: [{name: max-pods, value: \"200\"}]")},
	{name: "chart: tag of the worker image", change: chart("values.yaml", `tag: ""`, "tag: v1")},
	{name: "chart: labels of all objects", change: chart("templates/_helpers.tpl", "app.kubernetes.io/part-of: {{ .root.Chart.Name }}", "app.kubernetes.io/part-of: {{ .root.Chart.Name }}\nexample.org/team: platform")},
	{name: "chart: labels in the machine", change: chart("templates/_specs.tpl", "          metadata:\n            annotations: {} # for the subnet", "          metadata:\n            labels: {team: platform}\n            annotations: {}")},
	{name: "chart: the control plane's template", change: chart("templates/_specs.tpl", "    apiServer: {}", "    apiServer: {extraArgs: [--v=3]}")},
	{name: "chart: the control plane's template says its default", change: chart("templates/_specs.tpl", "    apiServer: {}", "    apiServer: {}\n    registry: registry.k8s.io")},
	{name: "chart: default of machineSize", change: chart("templates/_variables.tpl", "default: small", "default: medium")},
	{name: "chart: default of machineSize, request without size", prepare: request(", size: small", ""), change: chart("templates/_variables.tpl", "default: small", "default: medium")},
	{name: "chart: a variable more, with a default that a patch reads", change: both(
		chart("templates/kubeadm.yaml", "  variables:\n", "  variables:\n  - name: hugePages\n    required: false\n    schema: {openAPIV3Schema: {type: string, default: 2Mi}}\n"),
		chart("templates/kubeadm.yaml", "  patches:\n", `  patches:
  - name: huge-pages
    definitions:
    - selector:
        apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
        kind: KubevirtMachineTemplate
        matchResources: {machineDeploymentClass: {names: [default-worker]}}
      jsonPatches:
      - {op: add, path: /spec/template/spec/virtualMachineTemplate/spec/template/spec/domain/memory/hugepages, value: {}}
      - {op: add, path: /spec/template/spec/virtualMachineTemplate/spec/template/spec/domain/memory/hugepages/pageSize, valueFrom: {variable: hugePages}}
`))},
	{name: "chart: a variable more, with a default that nothing reads", change: chart("templates/kubeadm.yaml", "  variables:\n", "  variables:\n  - name: unused\n    required: false\n    schema: {openAPIV3Schema: {type: string, default: nothing}}\n")},
	{name: "chart: a required variable more", change: chart("templates/kubeadm.yaml", "  variables:\n", "  variables:\n  - name: owner\n    required: true\n    schema: {openAPIV3Schema: {type: string}}\n")},
	{name: "chart: a size that somebody has is withdrawn", change: both(chart("templates/kubeadm.yaml", `list "small" "medium" "large" "custom"`, `list "medium" "large" "custom"`), chart("templates/_variables.tpl", "default: small", "default: medium"))},
	{name: "chart: a size that nobody has is withdrawn", change: chart("templates/kubeadm.yaml", `list "small" "medium" "large" "custom"`, `list "small" "medium" "custom"`)},
	{name: "catalog: default of the DataStore", change: catalog("controlPlane.dataStoreName: default", "controlPlane.dataStoreName: gold")},
	{name: "catalog: a further version on offer", change: catalog("v1.35.0]", "v1.35.0, v1.35.1]")},
}

var classEdits = []edit{
	{class: true, name: "class: replicas on an exported class", change: request("replicas: 1", "replicas: 2")},
	{class: true, name: "class: bootstrap template edited in place", change: class("imagePullPolicy: IfNotPresent", "imagePullPolicy: Always")},
	{class: true, name: "class: machine template edited in place", change: class("evictionStrategy: External", "evictionStrategy: LiveMigrate")},
	{class: true, name: "class: machine template edited in place and a request's labels", change: both(class("evictionStrategy: External", "evictionStrategy: LiveMigrate"), request("size: e1", "size: e1, labels: {team: lunar}"))},
	{class: true, name: "class: control plane template edited in place", change: class("serviceType: LoadBalancer", "serviceType: NodePort")},
	{class: true, name: "class: machine template under a new name", change: class("small-worker-1", "small-worker-2")},
	{class: true, name: "class: machine template edited, under a new name", change: both(class("small-worker-1", "small-worker-2"), class("evictionStrategy: External", "evictionStrategy: LiveMigrate"))},
	{class: true, name: "class: machine template gets an object of which it says the default", prepare: class("        virtualMachineBootstrapCheck:\n          checkStrategy: none\n", ""),
		change: both(class("small-worker-1", "small-worker-2"), class("    template:\n      spec:\n        virtualMachineTemplate:", "    template:\n      spec:\n        virtualMachineBootstrapCheck: {checkStrategy: ssh}\n        virtualMachineTemplate:"))},
	{class: true, name: "class: labels of the machine template", change: class("    name: small-worker-1\n    namespace", "    labels: {team: platform}\n    name: small-worker-1\n    namespace")},
	{class: true, name: "class: drain timeout of a worker class", change: class("      - class: small-worker\n", "      - class: small-worker\n        deletion: {nodeDrainTimeoutSeconds: 60}\n")},
	{class: true, name: "class: minReadySeconds of a worker class", change: class("      - class: small-worker\n", "      - class: small-worker\n        minReadySeconds: 1\n")},
	{class: true, name: "class: failure domain of a worker class", change: class("      - class: small-worker\n", "      - class: small-worker\n        failureDomain: rack-3\n")},
	{class: true, name: "class: surge of a worker class", change: class("      - class: small-worker\n", "      - class: small-worker\n        rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 2}}}\n")},
	{class: true, name: "class: strategy OnDelete", change: class("      - class: small-worker\n", onDelete)},
	{class: true, name: "class: strategy OnDelete, then a size", prepare: class("      - class: small-worker\n", onDelete), change: request("size: e1", "size: e2")},
	{class: true, name: "class: strategy OnDelete and a size in one edit", change: both(class("      - class: small-worker\n", onDelete), request("size: e1", "size: e2"))},
	{class: true, name: "class: a patch writes the value it wrote before in another way", change: class(`"2Gi"`, `"2048Mi"`)},
	{class: true, name: "class: patches under other names", change: class("    - name: flavor\n      definitions", "    - name: flavour\n      definitions")},
	{class: true, name: "class: a patch writes a field that the machine's schema lacks", change: class("/spec/template/spec/virtualMachineTemplate/spec/template/spec/domain/memory/guest", "/spec/template/spec/virtualMachineTemplate/spec/template/spec/domain/memory/guests")},
	{class: true, name: "class: a patch writes a field that the control plane's schema lacks", change: class("path: /spec/template/spec/dataStoreName", "path: /spec/template/spec/dataStorName")},
	{class: true, name: "class: a value that is used is withdrawn", change: class("enum: [e1, e2]\n          default: e1", "enum: [e2]\n          default: e2")},
	{class: true, name: "class: a template that is not there", change: class("            name: small-bootstrap-1\n", "            name: small-bootstrap-9\n")},
	{class: true, name: "class: version up", change: request("v1.33.5", "v1.34.1")},
	{class: true, name: "class: annotation of the cluster template", change: class("cluster.x-k8s.io/managed-by: kamaji", "cluster.x-k8s.io/managed-by: kamaji\n          example.org/team: platform")},
}

var explicitEdits = []edit{
	{chart: true, name: "explicit objects: size small to medium", change: request("size: small", "size: medium")},
	{chart: true, name: "explicit objects: replicas 1 to 2", change: request("replicas: 1", "replicas: 2")},
	{chart: true, name: "explicit objects: replicas 1 to the autoscaler's", change: request("replicas: 1", "min: 1, max: 3")},
	{chart: true, name: "explicit objects: patch version up", change: request("v1.33.5", "v1.33.9")},
	{chart: true, name: "explicit objects: version and size up in one edit", change: both(request("v1.33.5", "v1.34.1"), request("size: small", "size: medium"))},
	{chart: true, name: "explicit objects: labels of a worker pool", change: request("size: small", "size: small, labels: {team: lunar}")},
	{chart: true, name: "explicit objects: another subnet", change: request("subnet: production", "subnet: batch")},
	{chart: true, name: "explicit objects: a user of the machines", change: request("size: small}", "size: small}\n  variables: {bootstrapConfig: {users: [{name: developer}]}}")},
	{chart: true, name: "explicit objects: a further public name", change: request("[198.51.100.10]", "[198.51.100.10, solar.example.org]")},
	{chart: true, name: "explicit objects: control plane replicas 2 to 3", change: request("replicas: 2", "replicas: 3")},
	{chart: true, name: "explicit objects: a worker pool more", change: twoPools},
	{chart: true, name: "explicit objects: a worker pool less", prepare: twoPools, change: request("\n    large: {replicas: 1, size: large}", "")},
	{chart: true, name: "explicit objects: a size that nobody has", change: explicit("values.yaml", "cores: 8", "cores: 10")},
	{chart: true, name: "explicit objects: a size that somebody has", change: explicit("values.yaml", "cores: 2", "cores: 3")},
	{chart: true, name: "explicit objects: machineSize by default, whose default changes", prepare: request(", size: small", ""), change: explicit("values.yaml", "machineSize: small", "machineSize: medium")},
}

const onDelete = "      - class: small-worker\n        rollout: {strategy: {type: OnDelete}}\n"
