{{/*
A worker machine. Takes the chart's context as "root", and the pool's name and settings as "name" and "pool".
*/}}
{{- define "kubevirt.machine" -}}
{{- $v := .root.Values }}
{{- $specs := $v.variables.machineSpecs | default dict }}
{{- $size := dict "cores" $specs.cpuCores "memory" (printf "%vGi" $specs.memoryGiB) }}
{{- if ne .pool.size "custom" }}{{ $size = get $v.sizes .pool.size }}{{ end }}
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: KubevirtMachineTemplate
metadata:
  name: {{ printf "%s-%s" $v.name .name | toJson }}
spec:
  template:
    spec:
      # By default the provider logs in by SSH to see whether a machine has bootstrapped. A tenant's subnet is closed to it, and it
      # has no keys for a cluster that Kamaji manages.
      virtualMachineBootstrapCheck:
        checkStrategy: none
      virtualMachineTemplate:
        spec:
          runStrategy: Always
          template:
            {{- with $v.subnet }}
            metadata:
              annotations:
                {{ $v.network.subnetAnnotation | quote }}: {{ toJson . }}
            {{- end }}
            spec:
              # When its host is drained, the provider drains the node before the machine goes.
              evictionStrategy: External
              domain:
                cpu:
                  cores: {{ $size.cores | int64 }}
                memory:
                  guest: {{ toJson $size.memory }}
                devices:
                  disks: # the provider adds the one with cloud-init
                  - name: root
                    disk: {bus: virtio}
                  interfaces:
                  # The machine takes over the pod's address. With masquerade every node would report the same one.
                  - name: default
                    bridge: {}
              networks:
              - name: default
                {{- if $v.network.attachment }}
                multus: {networkName: {{ toJson $v.network.attachment }}}
                {{- else }}
                pod: {}
                {{- end }}
              volumes:
              - name: root
                containerDisk:
                  image: {{ printf "%s:%s" $v.containerDisk.image ($v.containerDisk.tag | default ($v.version | replace "+" "_")) | toJson }}
              {{- with $v.variables.infrastructure }}
              {{- with .nodeSelector }}
              nodeSelector: {{ toJson . }}
              {{- end }}
              {{- with .tolerations }}
              tolerations: {{ toJson . }}
              {{- end }}
              {{- if hasKey . "terminationGracePeriodSeconds" }}
              terminationGracePeriodSeconds: {{ .terminationGracePeriodSeconds | int64 }}
              {{- end }}
              {{- end }}
{{- end }}
