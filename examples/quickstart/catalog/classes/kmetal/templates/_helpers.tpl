{{/*
The labels of every object. None may stand under spec.template: there they would be part of the machine's spec, and an edit
would roll workers.
*/}}
{{- define "kmetal.labels" -}}
app.kubernetes.io/name: {{ .class }}
app.kubernetes.io/part-of: {{ .root.Chart.Name }}
app.kubernetes.io/managed-by: copyhold
{{- end }}

{{/*
Templates of a class. Each is described by a dict of

  root        the chart's own context
  class       name of the ClusterClass it belongs to
  role        what it is to the class
  apiVersion, kind
  spec        name of the template that prints its spec
  annotations of the template itself; may be left out

and is named after the content of that spec, since the providers refuse to change the spec of a template that exists: an edited
spec gives a new name, and nothing else does. Comments, order of keys and indentation are not content.
*/}}
{{- define "kmetal.spec" -}}
{{- $spec := include .spec .root | fromYaml -}}
{{- with get $spec "Error" }}{{ fail . }}{{ end -}}
{{- toYaml $spec -}}
{{- end }}

{{- define "kmetal.templateName" -}}
{{- $content := include "kmetal.spec" . | fromYaml | toJson -}}
{{- printf "%s-%s-%s" .class .role (sha256sum $content | trunc 8) -}}
{{- end }}

{{- define "kmetal.templateRef" -}}
apiVersion: {{ .apiVersion }}
kind: {{ .kind }}
name: {{ include "kmetal.templateName" . }}
{{- end }}

{{- define "kmetal.template" -}}
apiVersion: {{ .apiVersion }}
kind: {{ .kind }}
metadata:
  name: {{ include "kmetal.templateName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "kmetal.labels" . | nindent 4 }}
  {{- with get . "annotations" }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "kmetal.spec" . | nindent 2 }}
{{- end }}

{{/*
A list of patches that each copy one field of a variable to one field of a template. Takes

  on      the template, described as above
  match   matchResources of the selector
  at      JSON pointer of the part of the template that the paths below are relative to
  copies  a list of {name, description, from, to, when}: copy variable field "from" to path "to". A field that is absent or empty
          is not copied; "when" replaces that condition.

Copied values never pass through a text template, so nothing a tenant writes can turn into another type or another field.
*/}}
{{- define "kmetal.copies" -}}
{{- range .copies }}
- name: {{ .name }}
  description: {{ .description | quote }}
  enabledIf: {{ get . "when" | default (include "kmetal.given" .from) | squote }}
  definitions:
  - selector:
      {{- include "kmetal.selector" $ | nindent 6 }}
    jsonPatches:
    - op: add
      path: {{ $.at }}/{{ .to }}
      valueFrom: {variable: {{ .from }}}
{{- end }}
{{- end }}

{{- define "kmetal.selector" -}}
apiVersion: {{ .on.apiVersion }}
kind: {{ .on.kind }}
matchResources: {{ toJson .match }}
{{- end }}

{{/*
The condition that a field of a variable is there and not empty. dig gives "" for whatever is missing on the way to it.
*/}}
{{- define "kmetal.given" -}}
{{- printf `{{ dig "%s" "" . | empty | not }}` (splitList "." . | join `" "`) -}}
{{- end }}
