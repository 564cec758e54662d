{{- define "fairlead.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fairlead.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "fairlead.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "fairlead.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "fairlead.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "fairlead.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "fairlead.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "fairlead.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fairlead.selector" -}}
app.kubernetes.io/name: {{ include "fairlead.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Of objects and pods. k8s-app is what dashboards and alerts for kube-proxy select. */}}
{{- define "fairlead.podLabels" -}}
{{ include "fairlead.selector" . }}
app.kubernetes.io/version: {{ quote .Chart.AppVersion }}
app.kubernetes.io/component: service-proxy
k8s-app: kube-proxy
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "fairlead.labels" -}}
{{ include "fairlead.podLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The name, labels and annotations of an object: (list . SUFFIX LABELS ANNOTATIONS). Objects of
the whole cluster have no namespace. */}}
{{- define "fairlead.clusterMetadata" -}}
{{- $root := index . 0 -}}
name: {{ include "fairlead.fullname" $root }}{{ index . 1 }}
labels:
  {{- include "fairlead.labels" $root | nindent 2 }}
  {{- with index . 2 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (index . 3) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- define "fairlead.metadata" -}}
{{ include "fairlead.clusterMetadata" . }}
namespace: {{ include "fairlead.namespace" (index . 0) }}
{{- end }}

{{- /* Common to the init container and the one that runs. */}}
{{- define "fairlead.container" -}}
image: {{ include "fairlead.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: NODE_NAME
    valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
  {{- with .Values.apiServer.host }}
  # Replaces the ClusterIP in the environment of pods, which works only once Fairlead runs.
  - { name: KUBERNETES_SERVICE_HOST, value: {{ quote . }} }
  - { name: KUBERNETES_SERVICE_PORT, value: {{ quote $.Values.apiServer.port }} }
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumeMounts:
  - { name: kube-proxy, mountPath: {{ .Values.configMap.mountPath }}, readOnly: true }
  # Programs of iptables-legacy lock this file while kube-proxy's rules are removed from there.
  - { name: xtables-lock, mountPath: /run/xtables.lock }
  {{- if .Values.connectTime }}
  # Where connect-time programs are kept, and what they are attached to. In /sys a container cannot
  # have a directory of its own.
  - { name: bpf, mountPath: /host/bpf }
  - { name: cgroup, mountPath: /host/cgroup, readOnly: true }
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "fairlead.args" -}}
- --config={{ .Values.configMap.mountPath }}/{{ .Values.configMap.key }}
- --hostname-override=$(NODE_NAME)
{{- if .Values.reader.enabled }}
- --read-bind-address=0.0.0.0:{{ .Values.reader.port }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ quote . }}
{{- end }}
{{- end }}

{{- define "fairlead.securityContext" -}}
{{- if .Values.securityContext -}}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- else if eq .Values.profile "hardened" -}}
securityContext:
  privileged: false
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  seccompProfile: { type: RuntimeDefault }
  # NET_ADMIN writes the rules, and reads those of others.
  {{- if .Values.connectTime }}
  # BPF loads the programs of connect-time translation.
  capabilities: { drop: [ALL], add: [NET_ADMIN, BPF] }
  {{- else }}
  capabilities: { drop: [ALL], add: [NET_ADMIN] }
  {{- end }}
{{- else -}}
# Conntrack sysctls and the OOM score need more than CAP_NET_ADMIN, as with kube-proxy.
securityContext: { privileged: true }
{{- end }}
{{- end }}

{{- /* Fails when a port of the values is not that of the configuration: (list . FIELD PORT). */}}
{{- define "fairlead.checkPort" -}}
{{- $root := index . 0 }}
{{- $field := index . 1 }}
{{- $port := index . 2 | int }}
{{- if $root.Values.configMap.create }}
{{- with index $root.Values.config (printf "%sBindAddress" $field) }}
{{- $actual := regexFind "[0-9]+$" . | int }}
{{- if ne $actual $port }}
{{- fail (printf "config.%sBindAddress has port %d: set %sPort to %d, not %d" $field $actual $field $actual $port) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails when the metrics are on a loopback address only, where Prometheus cannot scrape. */}}
{{- define "fairlead.checkReachable" -}}
{{- if .Values.configMap.create }}
{{- $address := default "127.0.0.1" .Values.config.metricsBindAddress }}
{{- if regexMatch "^(127\\.|localhost|\\[?::1)" $address }}
{{- fail "monitoring: metrics are served on 127.0.0.1 only, so Prometheus would scrape a closed port: set config.metricsBindAddress to 0.0.0.0:10249" }}
{{- end }}
{{- else if not .Values.monitoring.metricsReachable }}
{{- fail (printf "monitoring: metrics are served on 127.0.0.1 unless the ConfigMap %s has metricsBindAddress: 0.0.0.0:%d in key %s: set that, then monitoring.metricsReachable to true" .Values.configMap.name (int .Values.metricsPort) .Values.configMap.key) }}
{{- end }}
{{- end }}
