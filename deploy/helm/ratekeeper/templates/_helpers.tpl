{{- define "ratekeeper.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ratekeeper.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "ratekeeper.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ratekeeper.selector" -}}
app.kubernetes.io/name: {{ include "ratekeeper.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ratekeeper.labels" -}}
{{ include "ratekeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "ratekeeper.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "ratekeeper.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ratekeeper.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ratekeeper.rulesConfigMap" -}}
{{- default (printf "%s-rules" (include "ratekeeper.fullname" .)) .Values.rules.existingConfigMap -}}
{{- end -}}

{{/* The processes that share the limits during an outage of the store. */}}
{{- define "ratekeeper.nodes" -}}
{{- if .Values.store.nodes -}}
{{- .Values.store.nodes -}}
{{- else if .Values.autoscaling.enabled -}}
{{- .Values.autoscaling.maxReplicas -}}
{{- else -}}
{{- .Values.replicas -}}
{{- end -}}
{{- end -}}

{{/* Ports of the data wires that are served, as name and number. */}}
{{- define "ratekeeper.dataPorts" -}}
{{- $ports := dict -}}
{{- range $wire := list "http" "grpc" "resp" -}}
{{- if index $.Values.wires $wire -}}
{{- $_ := set $ports $wire (index $.Values.ports $wire) -}}
{{- end -}}
{{- end -}}
{{- toYaml $ports -}}
{{- end -}}
