{{- define "windlass.name" -}}
{{- if contains .Chart.Name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "windlass.labels" -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "windlass.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}{{ default (include "windlass.name" .) .Values.serviceAccount.name }}
{{- else -}}{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "windlass.isPostgres" -}}{{ if eq .Values.store.engine "postgres" }}true{{ end }}{{- end -}}

{{- define "windlass.scheme" -}}{{ if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end }}{{- end -}}

{{/* What pods of both kinds have in common. */}}
{{- define "windlass.pod" -}}
metadata:
  labels:
    {{- include "windlass.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with .Values.podAnnotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "windlass.serviceAccount" . }}
  automountServiceAccountToken: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  # It is gone within 10 s of SIGTERM.
  terminationGracePeriodSeconds: 20
  securityContext:
    runAsNonRoot: true
    runAsUser: 7788
    runAsGroup: 7788
    fsGroup: 7788
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: windlass
      image: "{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve]
      env:
        {{- include "windlass.environment" . | nindent 8 }}
      ports:
        - {name: http, containerPort: 7788}
      # Restarted when the process does not answer; gets no requests while the store cannot be reached.
      startupProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ include "windlass.scheme" . }}}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: http, scheme: {{ include "windlass.scheme" . }}}
        periodSeconds: 10
        timeoutSeconds: 5
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ include "windlass.scheme" . }}}
        periodSeconds: 5
        timeoutSeconds: 2
      resources: {{ toYaml .Values.resources | nindent 8 }}
      securityContext:
        readOnlyRootFilesystem: true
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: bootstrap-key, mountPath: /run/secrets/windlass, readOnly: true}
        {{- if .Values.tls.existingSecret }}
        - {name: tls, mountPath: /run/secrets/tls, readOnly: true}
        {{- end }}
  volumes:
    - name: bootstrap-key
      secret:
        secretName: {{ required "bootstrapKey.existingSecret: make it with `windlass keys generate`" .Values.bootstrapKey.existingSecret }}
        items: [{key: {{ .Values.bootstrapKey.key }}, path: key}]
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret: {secretName: {{ .Values.tls.existingSecret }}}
    {{- end }}
    {{- if include "windlass.isPostgres" . }}
    - name: data
      emptyDir: {}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "windlass.environment" -}}
{{- if include "windlass.isPostgres" . -}}
- name: WINDLASS_STORE
  valueFrom:
    secretKeyRef:
      name: {{ required "store.postgres.existingSecret: a secret with the address of the database" .Values.store.postgres.existingSecret }}
      key: {{ .Values.store.postgres.key }}
{{- else -}}
- {name: WINDLASS_STORE, value: "sqlite:/data/jobs.db"}
{{- end }}
- {name: WINDLASS_LISTEN, value: "0.0.0.0:7788"}
- {name: WINDLASS_WAIT_FOR_STORE, value: {{ .Values.store.wait | quote }}}
- {name: WINDLASS_BOOTSTRAP_KEY_FILE, value: /run/secrets/windlass/key}
{{- if .Values.tls.existingSecret }}
- {name: WINDLASS_TLS_CERT, value: /run/secrets/tls/tls.crt}
- {name: WINDLASS_TLS_KEY, value: /run/secrets/tls/tls.key}
{{- else }}
- {name: WINDLASS_BEHIND_PROXY, value: "true"}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end -}}
