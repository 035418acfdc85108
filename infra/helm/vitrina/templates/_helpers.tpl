{{- define "vitrina.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "vitrina.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "vitrina.labels" -}}
{{ include "vitrina.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* What every container is: this image, no root, nothing writable. */}}
{{- define "vitrina.container" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion }}
image: "{{ .Values.image.repository }}:{{ $tag }}{{ with .Values.image.digest }}@{{ . }}{{ end }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with .Values.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What every pod is. */}}
{{- define "vitrina.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - {name: tmp, emptyDir: {}}
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* One variable from the secret: (list context variable key optional). */}}
{{- define "vitrina.secret" -}}
{{- $context := index . 0 -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef: {name: {{ $context.Values.existingSecret }}, key: {{ index . 2 }}, optional: {{ index . 3 }}}
{{- end -}}

{{/* The sources' URLs from their own secrets; with (list context "capture") those of the logins that capture them. */}}
{{- define "vitrina.sources" -}}
{{- $context := index . 0 -}}
{{- $for := index . 1 -}}
{{- range $name, $source := $context.Values.sources }}
{{- $key := eq $for "capture" | ternary $source.captureKey $source.key }}
{{- if $key }}
- name: VITRINA_{{ eq $for "capture" | ternary "CAPTURE_" "" }}SOURCES__{{ upper $name }}
  valueFrom:
    secretKeyRef: {name: {{ $source.secret }}, key: {{ $key }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* The environment that all processes share. */}}
{{- define "vitrina.env" -}}
- name: VITRINA_ALLOWED_SOURCE_SCHEMAS
  value: {{ join "," .Values.allowed.sourceSchemas | quote }}
- name: VITRINA_ALLOWED_TARGET_TABLES
  value: {{ join "," .Values.allowed.targetTables | quote }}
{{- if .Values.elasticsearch.url }}
- name: ELASTICSEARCH_URL
  value: {{ .Values.elasticsearch.url | quote }}
- name: VITRINA_ALLOWED_ES_INDEXES
  value: {{ join "," .Values.elasticsearch.allowedIndexes | quote }}
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}
