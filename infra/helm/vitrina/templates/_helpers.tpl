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

{{/* What every container is: this image, no root, nothing writable: (list context own), own being its part of the values. */}}
{{- define "vitrina.container" -}}
{{- $context := index . 0 }}
{{- $own := index . 1 }}
{{- $tag := $context.Values.image.tag | default $context.Chart.AppVersion }}
image: "{{ $context.Values.image.repository }}:{{ $tag }}{{ with $context.Values.image.digest }}@{{ . }}{{ end }}"
imagePullPolicy: {{ $context.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with concat $context.Values.envFrom ($own.envFrom | default list) }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
{{- with $context.Values.extraVolumeMounts }}
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

{{/* The environment that all processes share, and this one's own: (list context own). */}}
{{- define "vitrina.env" -}}
{{- $values := (index . 0).Values }}
{{- $own := index . 1 }}
- name: VITRINA_ALLOWED_SOURCE_SCHEMAS
  value: {{ join "," $values.allowed.sourceSchemas | quote }}
- name: VITRINA_ALLOWED_TARGET_TABLES
  value: {{ join "," $values.allowed.targetTables | quote }}
{{- if $values.elasticsearch.url }}
- name: ELASTICSEARCH_URL
  value: {{ $values.elasticsearch.url | quote }}
- name: VITRINA_ALLOWED_ES_INDEXES
  value: {{ join "," $values.elasticsearch.allowedIndexes | quote }}
{{- end }}
{{- range $name, $value := merge (dict) ($own.env | default dict) $values.env }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}
