{{/*
Patches on the KamajiControlPlaneTemplate. They change the control plane in place and never touch workers. Takes the template as
"on"; with "full", the registry and the resources of the control plane's pods as well, as the variable has them.
*/}}
{{- define "kmetal.patches.controlPlane" -}}
{{- $selector := include "kmetal.selector" (dict "on" .on "match" (dict "controlPlane" true)) }}
{{- include "kmetal.copies" (dict
    "on" .on "match" (dict "controlPlane" true) "at" "/spec/template/spec"
    "copies" (include "kmetal.copies.controlPlane" . | fromYamlArray)) }}
- name: load-balancer-address
  # Kamaji puts serviceAddress into kubeconfigs and certificates but does not ask the load balancer for it; MetalLB is asked by
  # this annotation, and would give out any free address without it.
  description: Asks MetalLB for the declared address
  enabledIf: '{{ `{{ and (eq (dig "controlPlane" "network" "serviceType" "" .) "LoadBalancer") (dig "controlPlane" "network" "serviceAddress" "" . | empty | not) }}` }}'
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: /spec/template/spec/network/serviceAnnotations
      valueFrom:
        template: '{{ `{"metallb.io/loadBalancerIPs": {{ .controlPlane.network.serviceAddress | toJson }}}` }}'
{{- end }}

{{- define "kmetal.copies.controlPlane" -}}
- {name: data-store, from: controlPlane.dataStoreName, to: dataStoreName, description: Keeps the state of the cluster in the chosen DataStore}
{{- if .full }}
- {name: registry, from: controlPlane.registry, to: registry, description: Pulls the images of the control plane from another registry}
{{- end }}
- {name: service-type, from: controlPlane.network.serviceType, to: network/serviceType, description: Type of the control plane's Service}
- {name: service-address, from: controlPlane.network.serviceAddress, to: network/serviceAddress, description: Declares the address of the control plane}
- {name: cert-sans, from: controlPlane.network.certSANs, to: network/certSANs, description: Further names for the API server's certificate}
- {name: advertise-address, from: bootstrapConfig.serverAddress, to: network/advertiseAddress, description: Address of the control plane inside the tenant's subnet}
{{- if .full }}
- {name: api-server-resources, from: controlPlane.apiServer.resources, to: apiServer/resources, description: Resources of the API server}
- {name: controller-manager-resources, from: controlPlane.controllerManager.resources, to: controllerManager/resources, description: Resources of the controller manager}
- {name: scheduler-resources, from: controlPlane.scheduler.resources, to: scheduler/resources, description: Resources of the scheduler}
{{- end }}
{{- end }}

{{/*
Patches on the KubevirtMachineTemplate that all tiers share. Whatever they write is part of a machine: a changed value rolls the
workers. Takes the template and the names of the sizes to choose from.
*/}}
{{- define "kmetal.patches.worker" -}}
{{- $match := dict "machineDeploymentClass" (dict "names" (list "default-worker")) }}
{{- $selector := include "kmetal.selector" (dict "on" .on "match" $match) }}
{{- $vm := "/spec/template/spec/virtualMachineTemplate/spec/template" }}
{{- $values := .on.root.Values }}
- name: subnet
  # Which annotation kMetal's own class writes is not public: network.subnetAnnotation of the chart's values names ours.
  description: Puts the machine on the tenant's subnet
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $vm }}/metadata/annotations/{{ $values.network.subnetAnnotation | replace "/" "~1" }}
      valueFrom: {variable: network.subnet}
{{- range $name := without .sizes "custom" }}
{{- $size := index $values.sizes $name }}
- name: size-{{ $name }}
  description: A {{ $name }} machine
  enabledIf: '{{ printf `{{ eq .machineSize "%s" }}` $name }}'
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $vm }}/spec/domain/cpu/cores
      value: {{ $size.cores }}
    - op: add
      path: {{ $vm }}/spec/domain/memory/guest
      value: {{ $size.memory | quote }}
{{- end }}
{{- if has "custom" .sizes }}
# A custom size without machineSpecs, or with half of it, leaves the template's own figures in place: no schema of one variable can
# refuse that, and an invalid machine would be worse.
- name: size-custom-cores
  description: CPU cores of a machine of custom size
  enabledIf: '{{ `{{ and (eq .machineSize "custom") (dig "machineSpecs" "cpuCores" 0 . | empty | not) }}` }}'
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $vm }}/spec/domain/cpu/cores
      valueFrom: {variable: machineSpecs.cpuCores}
- name: size-custom-memory
  description: Memory of a machine of custom size
  enabledIf: '{{ `{{ and (eq .machineSize "custom") (dig "machineSpecs" "memoryGiB" 0 . | empty | not) }}` }}'
  definitions:
  - selector:
      {{- $selector | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $vm }}/spec/domain/memory/guest
      valueFrom:
        template: '{{ `"{{ .machineSpecs.memoryGiB }}Gi"` }}'
{{- end }}
{{- end }}

{{/*
Placement of the machines, for the tiers that offer it.
*/}}
{{- define "kmetal.patches.placement" -}}
{{- include "kmetal.copies" (dict
    "on" . "match" (dict "machineDeploymentClass" (dict "names" (list "default-worker")))
    "at" "/spec/template/spec/virtualMachineTemplate/spec/template/spec"
    "copies" (include "kmetal.copies.placement" . | fromYamlArray)) }}
{{- end }}

{{- define "kmetal.copies.placement" -}}
- {name: node-selector, from: infrastructure.nodeSelector, to: nodeSelector, description: Hosts that may run the machine}
- {name: tolerations, from: infrastructure.tolerations, to: tolerations, description: Taints of hosts that the machine tolerates}
- name: termination-grace-period
  from: infrastructure.terminationGracePeriodSeconds
  to: terminationGracePeriodSeconds
  description: Time the machine has to shut down
  when: '{{ `{{ hasKey (default dict .infrastructure) "terminationGracePeriodSeconds" }}` }}' # 0 is a value here
{{- end }}
