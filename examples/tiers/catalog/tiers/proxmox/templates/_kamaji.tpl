{{/*
What all tiers with a KamajiControlPlane have in common. This file is the same in each of their charts.

What a tenant wrote is printed as JSON throughout, which YAML reads as the one value that it was; nothing of it is run.
*/}}

{{/*
The Cluster. Takes the chart's context as "root", and the kind of its infrastructure as "infrastructure".
*/}}
{{- define "kamaji.cluster" -}}
{{- $v := .root.Values }}
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata:
  name: {{ toJson $v.name }}
  labels:
    cluster.x-k8s.io/cluster-name: {{ toJson $v.name }} # for what selects clusters, such as a HelmChartProxy
spec:
  clusterNetwork:
    apiServerPort: 6443
    {{- with $v.clusterNetwork }}
    {{- with .pods }}
    pods: {cidrBlocks: {{ toJson . }}}
    {{- end }}
    {{- with .services }}
    services: {cidrBlocks: {{ toJson . }}}
    {{- end }}
    {{- with .serviceDomain }}
    serviceDomain: {{ toJson . }}
    {{- end }}
    {{- end }}
  controlPlaneRef:
    apiGroup: controlplane.cluster.x-k8s.io
    kind: KamajiControlPlane
    name: {{ toJson $v.name }}
  infrastructureRef:
    apiGroup: infrastructure.cluster.x-k8s.io
    kind: {{ .infrastructure }}
    name: {{ toJson $v.name }}
{{- end }}

{{/*
The hosted control plane. Takes the chart's context as "root"; "external" says that a cloud controller runs in the cluster, and
"annotations" are further annotations of its Service.

Kamaji gives the address to its certificate, and not to the load balancer: that reads its own annotation. With access by name the
provider adds the host name to the certificate by itself.
*/}}
{{- define "kamaji.controlPlane" -}}
{{- $v := .root.Values }}
{{- $cp := $v.variables.controlPlane }}
apiVersion: controlplane.cluster.x-k8s.io/v1alpha2
kind: KamajiControlPlane
metadata:
  name: {{ toJson $v.name }}
spec:
  version: {{ toJson $v.version }}
  {{- with $v.controlPlane }}
  replicas: {{ toJson .replicas }}
  {{- end }}
  dataStoreName: {{ toJson $cp.dataStoreName }}
  {{- with $cp.registry }}
  registry: {{ toJson . }}
  {{- end }}
  addons:
    coreDNS: {}
    kubeProxy: {}
    # The API server reaches kubelets through agents on the workers.
    konnectivity: {}
  kubelet:
    cgroupfs: systemd
    preferredAddressTypes: {{ toJson $v.kubelet.preferredAddressTypes }}
  {{- range $component := list "apiServer" "controllerManager" "scheduler" }}
  {{- $resources := dig $component "resources" dict $cp }}
  {{- $external := and $.external (eq $component "controllerManager") }}
  {{- if or $resources $external }}
  {{ $component }}:
    {{- if $external }}
    extraArgs: [--cloud-provider=external]
    {{- end }}
    {{- with $resources }}
    resources: {{ toJson . }}
    {{- end }}
  {{- end }}
  {{- end }}
  network:
    {{- if $v.access }}
    serviceType: ClusterIP
    {{ $v.access }}: {{ merge (dict "hostname" $v.hostname) (get $v $v.access) | toJson }}
    {{- else }}
    serviceType: {{ $cp.network.serviceType }}
    {{- with $v.address }}
    serviceAddress: {{ toJson . }}
    {{- end }}
    {{- $annotations := merge dict ($v.serviceAnnotations | default dict) ($.annotations | default dict) }}
    {{- with $v.address }}{{ $_ := set $annotations "metallb.io/loadBalancerIPs" . }}{{ end }}
    {{- with $annotations }}
    serviceAnnotations: {{ toJson . }}
    {{- end }}
    {{- end }}
    {{- with $v.publicNames }}
    certSANs: {{ toJson . }}
    {{- end }}
    {{- with $cp.network.dnsServiceIPs }}
    dnsServiceIPs: {{ toJson . }}
    {{- end }}
{{- end }}

{{/*
A worker pool. Takes the chart's context as "root", the pool's name and settings as "name" and "pool", and the kind of its machine
template as "machine". Its templates have its name: copyhold names them after what is in them.
*/}}
{{- define "kamaji.deployment" -}}
{{- $v := .root.Values }}
{{- $name := printf "%s-%s" $v.name .name }}
{{- $labels := dict "cluster.x-k8s.io/cluster-name" $v.name "cluster.x-k8s.io/deployment-name" $name }}
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: {{ toJson $name }}
  labels: {{ toJson $labels }}
  {{- if hasKey .pool "max" }}
  annotations:
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: {{ .pool.min | int64 | quote }}
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: {{ .pool.max | int64 | quote }}
  {{- end }}
spec:
  clusterName: {{ toJson $v.name }}
  {{- if hasKey .pool "replicas" }}
  replicas: {{ .pool.replicas | int64 }}
  {{- end }}
  selector:
    matchLabels: {{ toJson $labels }}
  template:
    metadata:
      labels: {{ merge dict $labels (.pool.labels | default dict) | toJson }}
    spec:
      clusterName: {{ toJson $v.name }}
      version: {{ toJson $v.version }}
      {{- with .pool.failureDomain }}
      failureDomain: {{ toJson . }}
      {{- end }}
      bootstrap:
        configRef:
          apiGroup: bootstrap.cluster.x-k8s.io
          kind: KubeadmConfigTemplate
          name: {{ toJson $name }}
      infrastructureRef:
        apiGroup: infrastructure.cluster.x-k8s.io
        kind: {{ .machine }}
        name: {{ toJson $name }}
{{- end }}

{{/*
How the machines of a pool join. Takes the chart's context as "root" and the pool's name as "name"; "args" are arguments of kubelet
that the infrastructure needs, and "format" is that of the bootstrap data.
*/}}
{{- define "kamaji.kubeadm" -}}
{{- $v := .root.Values }}
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfigTemplate
metadata:
  name: {{ printf "%s-%s" $v.name .name | toJson }}
spec:
  template:
    spec:
      {{- with .format }}
      format: {{ . }}
      {{- end }}
      joinConfiguration:
        nodeRegistration:
          imagePullPolicy: IfNotPresent # kubeadm's own default: the object may not be empty
          {{- with concat (.args | default list) ($v.kubeadm.kubeletExtraArgs | default list) }}
          kubeletExtraArgs: {{ toJson . }}
          {{- end }}
      {{- with $v.kubeadm.preKubeadmCommands }}
      preKubeadmCommands: {{ toJson . }}
      {{- end }}
      {{- with dig "bootstrapConfig" "users" list $v.variables }}
      users: {{ toJson . }}
      {{- end }}
{{- end }}
