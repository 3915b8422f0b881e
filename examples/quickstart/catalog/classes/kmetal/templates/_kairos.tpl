{{/*
The Kairos tiers, standard and expert: workers boot from a volume of their own, cloned from the golden image of their storage tier and
Kubernetes version. Takes the name of the class; with "full", all that standard lacks: resources and registry of the control plane,
machines of custom size, and their placement.
*/}}
{{- define "kmetal.kairos.class" -}}
{{- $values := .root.Values }}
{{- $sizes := ternary (list "small" "medium" "large" "custom") (list "small" "medium" "large") .full }}
{{- $common := dict "root" .root "class" .class }}
{{- $infrastructure := "infrastructure.cluster.x-k8s.io/v1alpha1" }}
{{- $kamaji := printf "controlplane.cluster.x-k8s.io/%s" $values.kamaji.apiVersion }}
{{- $cluster := merge (dict
    "role" "cluster" "spec" "kmetal.spec.cluster" "apiVersion" $infrastructure "kind" "KubevirtClusterTemplate") $common }}
{{- $controlPlane := merge (dict
    "role" "control-plane" "spec" "kmetal.spec.controlPlane" "apiVersion" $kamaji "kind" "KamajiControlPlaneTemplate") $common }}
{{- $worker := merge (dict
    "role" "worker" "spec" "kmetal.spec.kairos.worker" "apiVersion" $infrastructure "kind" "KubevirtMachineTemplate") $common }}
{{- $kind := $values.kairos.bootstrap }}
{{- $mark := ternary (dict "copyhold.dev/placeholder" "apiVersion and kind of this template are nobody's yet") dict $kind.placeholder }}
{{- $bootstrap := merge (dict
    "role" "bootstrap" "spec" "kmetal.spec.kairos.bootstrap" "apiVersion" $kind.apiVersion "kind" $kind.kind "annotations" $mark) $common }}
apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata:
  name: {{ .class }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "kmetal.labels" $common | nindent 4 }}
spec:
  infrastructure:
    templateRef:
      {{- include "kmetal.templateRef" $cluster | nindent 6 }}
  controlPlane:
    templateRef:
      {{- include "kmetal.templateRef" $controlPlane | nindent 6 }}
  workers:
    machineDeployments:
    - class: default-worker
      bootstrap:
        templateRef:
          {{- include "kmetal.templateRef" $bootstrap | nindent 10 }}
      infrastructure:
        templateRef:
          {{- include "kmetal.templateRef" $worker | nindent 10 }}
  variables:
  {{- include "kmetal.variable.network" . | nindent 2 }}
  {{- include "kmetal.variable.controlPlane" (dict "full" .full) | nindent 2 }}
  {{- include "kmetal.variable.machineSize" $sizes | nindent 2 }}
  {{- if .full }}
  {{- include "kmetal.variable.machineSpecs" . | nindent 2 }}
  {{- end }}
  {{- include "kmetal.variable.machineStorage" $values.dataVolume | nindent 2 }}
  {{- if .full }}
  {{- include "kmetal.variable.infrastructure" . | nindent 2 }}
  {{- end }}
  {{- include "kmetal.variable.bootstrapConfig" dict | nindent 2 }}
  patches:
  {{- include "kmetal.patches.controlPlane" (dict "on" $controlPlane "full" .full) | trim | nindent 2 }}
  {{- include "kmetal.patches.worker" (dict "on" $worker "sizes" $sizes) | trim | nindent 2 }}
  {{- if .full }}
  {{- include "kmetal.patches.placement" $worker | trim | nindent 2 }}
  {{- end }}
  {{- include "kmetal.patches.kairos" (dict "worker" $worker "bootstrap" $bootstrap) | trim | nindent 2 }}
---
{{ include "kmetal.template" $cluster }}
---
{{ include "kmetal.template" $controlPlane }}
---
{{ include "kmetal.template" $worker }}
---
{{ include "kmetal.template" $bootstrap }}
{{- end }}

{{- define "kmetal.spec.kairos.worker" -}}
{{- include "kmetal.machine" (dict "values" .Values "namespace" .Release.Namespace) }}
{{- end }}

{{- define "kmetal.spec.kairos.bootstrap" -}}
template:
  spec:
    {{- toYaml .Values.kairos.bootstrap.spec | nindent 4 }}
{{- end }}

{{/*
Patches of the Kairos tiers alone. All of what they write is part of a machine.
*/}}
{{- define "kmetal.patches.kairos" -}}
{{- $match := dict "machineDeploymentClass" (dict "names" (list "default-worker")) }}
{{- $selector := include "kmetal.selector" (dict "on" .worker "match" $match) }}
{{- $boot := .worker.root.Values.dataVolume }}
{{- $volume := "/spec/template/spec/virtualMachineTemplate/spec/dataVolumeTemplates/0/spec" }}
- name: boot-image
  description: Boots the golden image of the machine's storage tier and Kubernetes version
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $volume }}/sourceRef/name
      valueFrom:
        template: '{{ `{{ printf "PREFIX-%s-%s" (.builtin.machineDeployment.version | replace "+" "-") (dig "machineStorage" "size" "" . | default "SIZE") | lower | toJson }}` | replace "PREFIX" $boot.goldenImage.prefix | replace "SIZE" (first $boot.storageTiers) }}'
- name: boot-access-mode
  description: How the boot volume may be attached
  enabledIf: {{ include "kmetal.given" "machineStorage.storageAccessMode" | squote }}
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $volume }}/storage/accessModes
      valueFrom:
        template: '{{ `[{{ .machineStorage.storageAccessMode | toJson }}]` }}'
{{- include "kmetal.copies" (dict "on" .worker "match" $match "at" (printf "%s/storage" $volume) "copies" (list
    (dict "name" "boot-size" "from" "machineStorage.size" "to" "resources/requests/storage" "description" "Size of the boot volume")
    (dict "name" "boot-storage-class" "from" "machineStorage.storageClass" "to" "storageClassName" "description" "Another StorageClass for the boot volume"))) }}
{{- include "kmetal.copies" (dict "on" .bootstrap "match" $match "at" "/spec/template/spec" "copies" (list
    (dict "name" "server-address" "from" "bootstrapConfig.serverAddress" "to" .bootstrap.root.Values.kairos.bootstrap.serverAddress "description" "Address that machines join by"))) }}
{{- end }}
