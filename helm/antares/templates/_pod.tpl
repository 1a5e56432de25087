{{/* Over nodes and zones as far as there are some: `dict "root" $ "own" VALUES "component" NAME`. */}}
{{- define "antares.spread" -}}
{{- if .own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml .own.topologySpreadConstraints | nindent 2 }}
{{- else if .own.spread }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "antares.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Reference of an image: `dict "image" ... "root" $`. A registry of one's own takes the place of one that the repository names. */}}
{{- define "antares.image" -}}
{{- $repository := .image.repository -}}
{{- with dig "imageRegistry" "" (.root.Values.global | default dict) -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Secrets for pulling images: those of all charts of a release, by word or by name, and ours. */}}
{{- define "antares.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat (dig "imagePullSecrets" list (.Values.global | default dict) | default list) (.Values.imagePullSecrets | default list) -}}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* What the restricted Pod Security level asks of a pod: `dict "root" $ "own" VALUES`. */}}
{{- define "antares.podSecurityContext" -}}
{{- $seccomp := dict "seccompProfile" .root.Values.sandbox.seccompProfile -}}
{{- include "antares.over" (list .root.Values.podSecurityContext .own.podSecurityContext $seccomp) | fromJson | toYaml -}}
{{- end -}}

{{/* What the restricted Pod Security level asks of a container, and a read-only root: `dict "root" $ "own" VALUES`. */}}
{{- define "antares.containerSecurityContext" -}}
{{- include "antares.over" (list .root.Values.containerSecurityContext .own.containerSecurityContext) | fromJson | toYaml -}}
{{- end -}}

{{/* Probes. Liveness asks what answers for as long as the process does; readiness the whole. They take the listener that gRPC
clients cannot fill. */}}
{{- define "antares.probes" -}}
{{- range $name, $path := dict "startup" "/healthz" "readiness" "/healthz" "liveness" "/livez" -}}
{{- with get ($.Values.probes | default dict) $name }}
{{ $name }}Probe:
  {{- toYaml . | nindent 2 }}
  httpGet:
    path: {{ $path }}
    port: metrics
{{- end }}
{{- end -}}
{{- end -}}

{{/* The pod goes on serving while the endpoints forget it. The sleep action is on by default from 1.30. */}}
{{- define "antares.lifecycle" -}}
{{- if and (gt (int .Values.drain.preStopSeconds) 0) (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
lifecycle:
  preStop:
    sleep:
      seconds: {{ int .Values.drain.preStopSeconds }}
{{- end -}}
{{- end -}}

{{- define "antares.terminationGracePeriodSeconds" -}}
{{- add (int .Values.drain.preStopSeconds) (int .Values.drain.delaySeconds) (int .Values.drain.graceSeconds) 10 -}}
{{- end -}}

{{- define "antares.podAnnotations" -}}
{{- if .root.Values.scrapeAnnotations.enabled }}
prometheus.io/scrape: "true"
prometheus.io/port: "9464"
prometheus.io/path: /metrics
{{- end }}
{{- with omit (.own | default dict) "checksum/config" (ternary "prometheus.io/scrape" "-" .root.Values.scrapeAnnotations.enabled) (ternary "prometheus.io/port" "-" .root.Values.scrapeAnnotations.enabled) (ternary "prometheus.io/path" "-" .root.Values.scrapeAnnotations.enabled) }}
{{ include "antares.stringMap" . }}
{{- end }}
{{- end -}}

{{/* The secret with certificates, where a container and a pod name it. Renewed files appear in it without a restart. */}}
{{- define "antares.tlsMount" -}}
{{- if .Values.tls.secret }}
- name: tls
  mountPath: /etc/antares-tls
  readOnly: true
{{- end }}
{{- if .Values.auth.jwksSecret }}
- name: jwks
  mountPath: /etc/antares-jwks
  readOnly: true
{{- end }}
{{- end -}}
{{- define "antares.tlsVolume" -}}
{{- if .Values.tls.secret }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secret | quote }}
    defaultMode: 0440
{{- end }}
{{- if .Values.auth.jwksSecret }}
- name: jwks
  secret:
    secretName: {{ .Values.auth.jwksSecret | quote }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* The keys whose native code runners take. */}}
{{- define "antares.trustedMount" -}}
{{- if .Values.signing.trustedConfigMap }}
- name: trusted
  mountPath: /etc/antares-trusted
  readOnly: true
{{- end }}
{{- end -}}
{{- define "antares.trustedVolume" -}}
{{- if .Values.signing.trustedConfigMap }}
- name: trusted
  configMap:
    name: {{ .Values.signing.trustedConfigMap | quote }}
{{- end }}
{{- end -}}

{{/* What stands in a pod before its containers: `dict "root" $ "own" VALUES`. */}}
{{- define "antares.podHead" -}}
serviceAccountName: {{ include "antares.serviceAccountName" .root | quote }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "antares.terminationGracePeriodSeconds" .root }}
{{- with .own.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- if .own.userNamespace }}
hostUsers: false
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .root.Values.schedulerName }}
schedulerName: {{ . | quote }}
{{- end }}
{{- with .root.Values.dnsPolicy }}
dnsPolicy: {{ . | quote }}
{{- end }}
{{- with .root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "antares.imagePullSecrets" .root }}
{{ . }}
{{- end }}
securityContext:
  {{- include "antares.podSecurityContext" . | nindent 2 }}
{{- with .own.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where a pod may go: `dict "own" VALUES`. */}}
{{- define "antares.placement" -}}
{{- with .own.nodeSelector }}
nodeSelector:
  {{- include "antares.stringMap" . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* How one generation of pods takes the place of another: `dict "root" $ "own" VALUES "isDeployment" BOOL`. */}}
{{- define "antares.rollout" -}}
{{- with .own.minReadySeconds }}
minReadySeconds: {{ int . }}
{{- end }}
{{- if ne (.root.Values.revisionHistoryLimit | toString) "" }}
revisionHistoryLimit: {{ int .root.Values.revisionHistoryLimit }}
{{- end }}
{{- if .own.strategy }}
{{ .isDeployment | ternary "strategy" "updateStrategy" }}:
  {{- toYaml .own.strategy | nindent 2 }}
{{- else if .isDeployment }}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxUnavailable: 0
    maxSurge: 1
{{- end }}
{{- end -}}
