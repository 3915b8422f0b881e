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
A worker machine. What differs between the tiers is where it boots from: takes the chart's values as "values", and of the kubeadm
tier "containerDisk", the image; without one the machine has a boot volume of its own, cloned from a golden image.
*/}}
{{- define "kmetal.machine" -}}
{{- $boot := .values.dataVolume }}
template:
  spec:
    # By default the provider logs in by SSH to see whether a machine has bootstrapped. A tenant's subnet is closed to it, and it
    # has no keys for a cluster that Kamaji manages. That the node has joined is seen in the cluster.
    virtualMachineBootstrapCheck:
      checkStrategy: none
    virtualMachineTemplate:
      spec:
        runStrategy: Always
        {{- if not .containerDisk }}
        dataVolumeTemplates:
        - metadata:
            name: boot # the provider puts the machine's name before it
          spec:
            sourceRef:
              kind: DataSource
              namespace: {{ $boot.goldenImage.namespace | default .namespace }}
              name: {{ $boot.goldenImage.prefix }} # the patch boot-image completes it
            storage:
              accessModes: [{{ first $boot.accessMode }}]
              {{- with $boot.storageClassName }}
              storageClassName: {{ . }}
              {{- end }}
              resources:
                requests:
                  storage: {{ first $boot.storageTiers }}
        {{- end }}
        template:
          metadata:
            annotations: {} # for the subnet
          spec:
            # When its host is drained, the provider drains the node before the machine goes.
            evictionStrategy: External
            domain:
              cpu:
                cores: {{ .values.sizes.small.cores }}
              memory:
                guest: {{ .values.sizes.small.memory | quote }}
              {{- if .containerDisk }}
              firmware:
                bootloader:
                  bios: {} # the documented kubeadm tier forces BIOS
              {{- end }}
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
              {{- if .values.network.attachment }}
              multus:
                networkName: {{ .values.network.attachment | quote }}
              {{- else }}
              pod: {}
              {{- end }}
            volumes:
            - name: root
              {{- if .containerDisk }}
              containerDisk:
                image: {{ .containerDisk | quote }}
              {{- else }}
              dataVolume:
                name: boot
              {{- end }}
{{- end }}

{{- define "kmetal.spec.kubeadm.worker" -}}
{{- /* Without a constant tag the patch worker-image completes the image. */}}
{{- include "kmetal.machine" (dict "values" .Values "containerDisk" (include "kmetal.kubeadm.image" .)) }}
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
