{{- /* What the init container and the one that runs have in common. */}}
{{- define "fairlead.container" -}}
image: {{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: NODE_NAME
    valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
  {{- with .Values.apiServer.host }}
  # Instead of the ClusterIP that pods are told, and that this program makes work.
  - { name: KUBERNETES_SERVICE_HOST, value: {{ quote . }} }
  - { name: KUBERNETES_SERVICE_PORT, value: {{ quote $.Values.apiServer.port }} }
  {{- end }}
volumeMounts:
  - { name: kube-proxy, mountPath: /var/lib/kube-proxy, readOnly: true }
  # What programs of iptables-legacy lock, while kube-proxy's rules are removed from there.
  - { name: xtables-lock, mountPath: /run/xtables.lock }
  {{- if .Values.connectTime }}
  # What programs at connect are kept in, and what they are attached to. In /sys a container cannot
  # have a folder of its own.
  - { name: bpf, mountPath: /host/bpf }
  - { name: cgroup, mountPath: /host/cgroup, readOnly: true }
  {{- end }}
{{- end }}
{{- define "fairlead.args" -}}
- --config=/var/lib/kube-proxy/config.conf
- --hostname-override=$(NODE_NAME)
{{- range .Values.args }}
- {{ quote . }}
{{- end }}
{{- end }}
