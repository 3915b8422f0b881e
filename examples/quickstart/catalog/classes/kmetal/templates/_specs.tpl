{{/*
Specs of the templates that all tiers share. They are hashed into the names of the templates: see kmetal.spec.
*/}}
{{- define "kmetal.spec.cluster" -}}
template:
  metadata:
    # Kamaji's provider fills in the endpoint, and KubeVirt's leaves the object alone. The mark is read on the object itself, so
    # it stands here and not on the template's own metadata.
    annotations:
      cluster.x-k8s.io/managed-by: kamaji
  spec: {}
{{- end }}

{{- define "kmetal.spec.controlPlane" -}}
template:
  spec:
    addons:
      coreDNS: {}
      kubeProxy: {}
      # The API server reaches kubelets through agents on the workers: it runs outside of the tenant's subnet.
      konnectivity: {}
    # Empty, for the patches that set resources.
    apiServer: {}
    controllerManager: {}
    scheduler: {}
    network:
      serviceType: LoadBalancer
{{- end }}

{{/*
A worker machine of the kubeadm tier.
*/}}
{{- define "kmetal.spec.kubeadm.worker" -}}
template:
  spec:
    # By default the provider logs in by SSH to see whether a machine has bootstrapped. A tenant's subnet is closed to it, and it
    # has no keys for a cluster that Kamaji manages. That the node has joined is seen in the cluster.
    virtualMachineBootstrapCheck:
      checkStrategy: none
    virtualMachineTemplate:
      spec:
        runStrategy: Always
        template:
          metadata:
            annotations: {} # for the subnet
          spec:
            # When its host is drained, the provider drains the node before the machine goes.
            evictionStrategy: External
            domain:
              cpu:
                cores: {{ .Values.sizes.small.cores }}
              memory:
                guest: {{ .Values.sizes.small.memory | quote }}
              firmware:
                bootloader:
                  bios: {} # the documented tier forces BIOS
              devices:
                disks: # the provider adds the one with cloud-init
                - name: root
                  disk:
                    bus: virtio
                interfaces:
                # The machine takes over the pod's address. With masquerade every node would report the same one, and pods of
                # one node could not reach those of another.
                - name: default
                  bridge: {}
            networks:
            - name: default
              {{- if .Values.network.attachment }}
              multus:
                networkName: {{ .Values.network.attachment | quote }}
              {{- else }}
              pod: {}
              {{- end }}
            volumes:
            - name: root
              containerDisk:
                {{- /* Without a constant tag the patch worker-image completes this. */}}
                image: {{ include "kmetal.kubeadm.image" . | quote }}
{{- end }}

{{- define "kmetal.kubeadm.image" -}}
{{- with .Values.kubeadm.containerDisk }}{{ .image }}{{ with .tag }}:{{ . }}{{ end }}{{ end -}}
{{- end }}

{{- define "kmetal.spec.kubeadm.bootstrap" -}}
template:
  spec:
    joinConfiguration:
      nodeRegistration:
        imagePullPolicy: IfNotPresent # kubeadm's own default: the object may not be empty
        {{- with .Values.kubeadm.kubeletExtraArgs }}
        kubeletExtraArgs:
          {{- toYaml . | nindent 10 }}
        {{- end }}
{{- end }}

{{/*
Patches of the kubeadm tier alone.
*/}}
{{- define "kmetal.patches.kubeadm" -}}
{{- $match := dict "machineDeploymentClass" (dict "names" (list "default-worker")) }}
{{- if not .worker.root.Values.kubeadm.containerDisk.tag }}
- name: worker-image
  description: Boots the container disk of the workers' Kubernetes version
  definitions:
  - selector:
      {{- include "kmetal.selector" (dict "on" .worker "match" $match) | nindent 6 }}
    jsonPatches:
    - op: add
      path: /spec/template/spec/virtualMachineTemplate/spec/template/spec/volumes/0/containerDisk/image
      valueFrom:
        template: '{{ `{{ .builtin.machineDeployment.version | replace "+" "_" | printf "IMAGE:%s" | toJson }}` | replace "IMAGE" (include "kmetal.kubeadm.image" .worker.root) }}'
{{- end }}
{{- include "kmetal.copies" (dict "on" .bootstrap "match" $match "at" "/spec/template/spec" "copies" (list
    (dict "name" "users" "from" "bootstrapConfig.users" "to" "users" "description" "Linux users of the machine"))) }}
{{- end }}
