{{/*
Variables of the classes, one template each: names, bounds and defaults are the documented ones. An object has no default of its
own, so that a variable nobody sets stays unset.
*/}}
{{- define "kmetal.variable.network" -}}
- name: network
  required: true
  schema:
    openAPIV3Schema:
      type: object
      description: The network of the workers
      required: [subnet]
      properties:
        subnet:
          type: string
          description: Name of the tenant's subnet claim, in the namespace of the cluster
          minLength: 1
          maxLength: 63
{{- end }}

{{/*
With "full" it offers the registry and the resources of the control plane's pods as well, as not all tiers do.
*/}}
{{- define "kmetal.variable.controlPlane" -}}
- name: controlPlane
  required: false
  schema:
    openAPIV3Schema:
      type: object
      description: The hosted control plane
      properties:
        dataStoreName:
          type: string
          description: The DataStore that holds the cluster's state. Moving to another one migrates it
          maxLength: 253
        {{- if .full }}
        registry:
          type: string
          description: Registry to pull the images of the control plane from
          maxLength: 255
        {{- end }}
        network:
          type: object
          description: How the control plane is reached
          properties:
            serviceType:
              type: string
              description: Type of the control plane's Service
              enum: [LoadBalancer, NodePort, ClusterIP]
              default: LoadBalancer
            serviceAddress:
              type: string
              description: Address of the control plane. It ends up in every kubeconfig and in the API server's certificate
              maxLength: 45
              x-kubernetes-validations:
              - rule: self == '' || isIP(self)
                message: must be an IP address
            certSANs:
              type: array
              description: Further names and addresses for the API server's certificate, such as the public one in front of a NAT
              maxItems: 64
              items:
                type: string
                minLength: 1
                maxLength: 253
                x-kubernetes-validations:
                - rule: "!self.contains(':') || isIP(self)"
                  message: must be a name or an IP address, without a port
        {{- $components := dict "apiServer" "API server" "controllerManager" "controller manager" "scheduler" "scheduler" }}
        {{- range $component, $what := ternary $components dict .full }}
        {{ $component }}:
          type: object
          description: The {{ $what }}
          properties:
            resources:
              type: object
              description: Resources of the container
              properties:
                requests:
                  {{- include "kmetal.quantities" . | nindent 18 }}
                limits:
                  {{- include "kmetal.quantities" . | nindent 18 }}
        {{- end }}
{{- end }}

{{/*
Any resource is taken, not cpu and memory alone: ephemeral-storage is one, and so are those of device plugins.
*/}}
{{- define "kmetal.quantities" -}}
type: object
maxProperties: 16
additionalProperties:
  x-kubernetes-int-or-string: true
  anyOf:
  - type: integer
  - type: string
  minimum: 0
  maxLength: 32
  pattern: ^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$
{{- end }}

{{/*
Takes the names of the sizes on offer.
*/}}
{{- define "kmetal.variable.machineSize" -}}
- name: machineSize
  required: false
  schema:
    openAPIV3Schema:
      type: string
      description: Size of the worker machines
      enum: {{ toJson . }}
      default: small
{{- end }}

{{- define "kmetal.variable.machineSpecs" -}}
- name: machineSpecs
  required: false
  schema:
    openAPIV3Schema:
      type: object
      description: CPU and memory of a worker machine. Read when machineSize is custom, and then both are needed
      properties:
        cpuCores:
          type: integer
          minimum: 1
          maximum: 64
        memoryGiB:
          type: integer
          minimum: 2
          maximum: 128
{{- end }}

{{- define "kmetal.variable.infrastructure" -}}
- name: infrastructure
  required: false
  schema:
    openAPIV3Schema:
      type: object
      description: Where the worker machines run
      properties:
        nodeSelector:
          type: object
          description: Labels of the hosts that may run the machines
          maxProperties: 32
          additionalProperties:
            type: string
            maxLength: 63
        tolerations:
          type: array
          description: Taints of hosts that the machines tolerate
          maxItems: 32
          items:
            type: object
            properties:
              key:
                type: string
                maxLength: 317
              operator:
                type: string
                enum: [Exists, Equal]
              value:
                type: string
                maxLength: 63
              effect:
                type: string
                enum: [NoSchedule, PreferNoSchedule, NoExecute]
              tolerationSeconds:
                type: integer
            x-kubernetes-validations:
            - rule: has(self.key) || has(self.operator) && self.operator == 'Exists'
              message: without a key, operator must be Exists
            - rule: "!has(self.value) || self.value == '' || !has(self.operator) || self.operator == 'Equal'"
              message: operator Exists takes no value
            - rule: "!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'"
              message: tolerationSeconds needs effect NoExecute
        terminationGracePeriodSeconds:
          type: integer
          description: Seconds a machine has to shut down before it is switched off
          minimum: 0
{{- end }}

{{/*
Takes the values under dataVolume. The sizes are those that have golden images.
*/}}
{{- define "kmetal.variable.machineStorage" -}}
- name: machineStorage
  required: false
  schema:
    openAPIV3Schema:
      type: object
      description: The boot volume of a worker machine
      properties:
        size:
          type: string
          description: Storage tier of the volume
          enum: {{ toJson .storageTiers }}
        storageClass:
          type: string
          description: Another StorageClass for the volume. It is then copied in full from the golden image, not cloned
          maxLength: 253
          pattern: ^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$
        storageAccessMode:
          type: string
          description: How the volume may be attached
          enum: {{ toJson .accessMode }}
{{- end }}

{{/*
With "users" it offers the Linux users of the machines as well.
*/}}
{{- define "kmetal.variable.bootstrapConfig" -}}
- name: bootstrapConfig
  required: false
  schema:
    openAPIV3Schema:
      type: object
      description: How the worker machines join
      properties:
        serverAddress:
          type: string
          description: Address of the control plane inside the tenant's subnet
          maxLength: 45
          x-kubernetes-validations:
          - rule: isIP(self)
            message: must be an IP address
        {{- if .users }}
        users:
          type: array
          description: Linux users of the worker machines
          maxItems: 32
          items:
            type: object
            required: [name]
            properties:
              {{- /* Cluster API prints these into cloud-init as they stand, so none may read as anything but one string there. */}}
              name:
                type: string
                pattern: ^[a-z_][a-z0-9_-]{0,31}$
                x-kubernetes-validations:
                - rule: "!(self in ['yes', 'no', 'on', 'off', 'true', 'false', 'null'])"
                  message: must not be a word that YAML reads as something else
              sshAuthorizedKeys:
                type: array
                maxItems: 32
                items:
                  type: string
                  description: "Type, key and comment, as in a .pub file. The comment may not contain any of : # { }"
                  maxLength: 2048
                  pattern: ^[a-z][a-z0-9@.-]* [A-Za-z0-9+/]+=*( [^:#{}[:cntrl:]]*)?$
              sudo:
                type: string
                description: What the user may run as another, in the form of a sudoers entry without its user
                maxLength: 256
                pattern: ^[A-Za-z][^#{}[:cntrl:]]*$
                x-kubernetes-validations:
                - rule: "!self.contains(': ') && !self.endsWith(':')"
                  message: must not have a space after a colon
        {{- end }}
{{- end }}
