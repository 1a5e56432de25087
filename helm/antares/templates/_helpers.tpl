{{/* Name of the chart, cut to what a label holds. */}}
{{- define "antares.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of the names of all objects; short enough for the suffixes that follow. A longer one ends in a digest of the whole: two
releases that begin alike do not meet. */}}
{{- define "antares.fullname" -}}
{{- $name := printf "%s-%s" .Release.Name (include "antares.name" .) -}}
{{- if .Values.fullnameOverride -}}
{{- $name = toString .Values.fullnameOverride -}}
{{- else if contains (include "antares.name" .) .Release.Name -}}
{{- $name = .Release.Name -}}
{{- end -}}
{{- if gt (len $name) 40 -}}
{{- printf "%s-%s" ($name | trunc 31 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- else -}}
{{- $name | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* A map whose values Kubernetes wants as strings, whatever YAML took them for; what is null is left out. */}}
{{- define "antares.stringMap" -}}
{{- $lines := list -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $lines = append $lines (printf "%s: %s" ($key | toJson) (kindIs "string" $value | ternary $value (toJson $value) | toJson)) -}}
{{- end -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end -}}

{{/* Labels that never change in the life of a release: selectors are immutable. */}}
{{- define "antares.selector" -}}
app.kubernetes.io/name: {{ include "antares.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* All labels but the component, which the templates add: what the chart sets cannot be set otherwise. */}}
{{- define "antares.labels" -}}
{{- include "antares.labelsWith" (dict "root" . "more" dict) -}}
{{- end -}}

{{/* The same and more: `dict "root" $ "more" LABELS`. */}}
{{- define "antares.labelsWith" -}}
{{- $own := include "antares.selector" .root | fromYaml -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- $_ := set $own "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $others := merge (dict) (.more | default dict) (.root.Values.commonLabels | default dict) -}}
{{- include "antares.stringMap" (merge $own (omit $others "app.kubernetes.io/component")) -}}
{{- end -}}

{{- define "antares.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "antares.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The workloads, as JSON. */}}
{{- define "antares.components" -}}
{{- .Values.single.enabled | ternary (list "server") (list "compiler" "runner") | toJson -}}
{{- end -}}

{{/* The one that compiles. */}}
{{- define "antares.compilingComponent" -}}
{{- .Values.single.enabled | ternary "server" "compiler" -}}
{{- end -}}

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

{{/* Reference of an image: `dict "image" ... "root" $`. */}}
{{- define "antares.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What the restricted Pod Security level asks of a pod. */}}
{{- define "antares.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  {{- toYaml .Values.sandbox.seccompProfile | nindent 2 }}
{{- end -}}

{{/* What the restricted Pod Security level asks of a container, and a read-only root. */}}
{{- define "antares.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Probes. Liveness asks what answers for as long as the process does; readiness the whole. They take the listener that gRPC
clients cannot fill. */}}
{{- define "antares.probes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 2
  failureThreshold: 90
readinessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 5
  timeoutSeconds: 2
  failureThreshold: 2
livenessProbe:
  httpGet:
    path: /livez
    port: metrics
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
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

{{/* Size of the cache's volume, MiB: twice the budget for a rebuild, uploads that are not complete, and what the service keeps free. */}}
{{- define "antares.cacheVolumeMiB" -}}
{{- add (mul 2 (int .Values.compiler.cache.budgetMiB)) (div (int64 (dig "compiler" "upload_bytes_max" 536870912 .Values.compiler.config)) 1048576) 256 -}}
{{- end -}}

{{/* Fails where an upgrade would change the claim of a StatefulSet, which Kubernetes refuses in words that name no value: `dict "root" $
"name" NAME`. Sizes come back in the largest unit that is whole. */}}
{{- define "antares.claimKept" -}}
{{- with lookup "apps/v1" "StatefulSet" .root.Release.Namespace .name -}}
{{- with .spec.volumeClaimTemplates -}}
{{- $had := (index . 0).spec.resources.requests.storage | toString -}}
{{- $units := dict "Mi" 1 "Gi" 1024 "Ti" 1048576 -}}
{{- $unit := get $units (regexFind "[A-Z]i$" $had) -}}
{{- $wanted := include "antares.cacheVolumeMiB" $.root | int64 -}}
{{- if and $unit (ne (mul $unit (regexFind "^[0-9]+" $had | int64)) $wanted) -}}
{{- fail (printf "the volume claim of StatefulSet %s asks for %s and would ask for %dMi: Kubernetes lets no upgrade change it. Keep compiler.cache.budgetMiB and upload_bytes_max, or delete the StatefulSet with --cascade=orphan first" $.name $had $wanted) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Downloads of the compiler at once; each may hold one artifact of 64 MiB. */}}
{{- define "antares.downloads" -}}
8
{{- end -}}

{{/* Memory of a service process, MiB: itself, requests and what is made of them, and a quarter MiB for each call. */}}
{{- define "antares.serviceMiB" -}}
{{- add 256 (mul 2 (int .requestsMiB)) (div (int (dig "listen" "calls_max" 1024 .config)) 4) -}}
{{- end -}}

{{/* Memory of compile workers and downloads, MiB: every worker at its most, 1 GiB for a baseline compile, half as much again for what
they write to memory files. */}}
{{- define "antares.compilingMiB" -}}
{{- $addresses := add 1024 (mul (int .Values.compiler.workers) (int .Values.compiler.workerMemoryMiB)) -}}
{{- $downloads := mul 64 (int (include "antares.downloads" .)) -}}
{{- add (div (mul 3 $addresses) 2) $downloads (include "antares.sharedMiB" .) -}}
{{- end -}}

{{/* Memory of the tiers around the cache, MiB: entries kept, being read, waiting and being written. Defaults are the service's. */}}
{{- define "antares.sharedMiB" -}}
{{- $own := dig "shared" dict .Values.compiler.config -}}
{{- $bytes := add (dig "memory_bytes_max" 67108864 $own | int64) (dig "get_bytes_max" 268435456 $own | int64) (dig "queue_bytes_max" 268435456 $own | int64) -}}
{{- $each := add (dig "gets_max" 64 $own | int) (mul 64 (dig "puts_max" 4 $own | int)) -}}
{{- empty .Values.shared.url | ternary 0 (add (div $bytes 1048576) $each) -}}
{{- end -}}

{{/* Memory of run workers, of those that wait, and of what is kept ready, MiB. */}}
{{- define "antares.runningMiB" -}}
{{- add (mul 32 (add (int .Values.runner.workers) (int .Values.runner.idleWorkers))) (add (int .Values.runner.readyMiB) (int .Values.runner.hotCellsMiB)) -}}
{{- end -}}

{{/* Resources with the memory limit that holds all of it: `dict "own" RESOURCES "MiB" LIST`. */}}
{{- define "antares.resources" -}}
{{- $sum := 0 -}}
{{- range .MiB }}{{ $sum = add $sum (int .) }}{{ end -}}
{{- toYaml (mergeOverwrite (deepCopy .own) (dict "limits" (dict "memory" (printf "%dMi" $sum)))) -}}
{{- end -}}

{{- define "antares.compilerResources" -}}
{{- $parts := list (include "antares.serviceMiB" .Values.compiler) (include "antares.compilingMiB" .) -}}
{{- include "antares.resources" (dict "own" .Values.compiler.resources "MiB" $parts) -}}
{{- end -}}

{{- define "antares.runnerResources" -}}
{{- $parts := list (include "antares.serviceMiB" .Values.runner) (include "antares.runningMiB" .) -}}
{{- include "antares.resources" (dict "own" .Values.runner.resources "MiB" $parts) -}}
{{- end -}}

{{- define "antares.serverResources" -}}
{{- $parts := list (include "antares.serviceMiB" .Values.compiler) (include "antares.compilingMiB" .) (include "antares.runningMiB" .) -}}
{{- include "antares.resources" (dict "own" .Values.single.resources "MiB" $parts) -}}
{{- end -}}

{{/* Budgets of a listener, from the values of its workload. */}}
{{- define "antares.listenBudgets" -}}
request_bytes_max: {{ mul 1048576 (int .requestsMiB) }}
request_bytes_per_peer_max: {{ mul 524288 (int .requestsMiB) }}
connections_max: {{ int .connections }}
{{- end -}}

{{/* A value as TOML: a scalar, a list of them, or a list of tables. */}}
{{- define "antares.tomlValue" -}}
{{- if and (kindIs "slice" .) (gt (len .) 0) (kindIs "map" (first .)) -}}
[{{- range $index, $table := . }}{{ if $index }}, {{ end }}{ {{- $rest := false }}{{ range $key, $value := $table }}{{ if $rest }}, {{ end }}{{ $key }} = {{ $value | toJson }}{{ $rest = true }}{{ end -}} }{{- end -}}]
{{- else -}}
{{ . | toJson }}
{{- end -}}
{{- end -}}

{{/* A configuration file from sections: dict of dict of values. JSON's scalars and lists are TOML's as well. */}}
{{- define "antares.toml" -}}
{{- range $section, $keys := . }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ include "antares.tomlValue" $value }}
{{- end }}
{{ end -}}
{{- end -}}

{{/* How the services are reached. */}}
{{- define "antares.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.secret)) -}}
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

{{/* Sections that both services share. */}}
{{- define "antares.sharedConfig" -}}
listen:
  address: 0.0.0.0:50051
  allow_open: {{ not (and .Values.tls.secret (or .Values.tls.clients .Values.auth.jwksSecret)) }}
  drain_delay_ms: {{ mul 1000 (int .Values.drain.delaySeconds) }}
  drain_grace_ms: {{ mul 1000 (int .Values.drain.graceSeconds) }}
{{- if .Values.tls.secret }}
tls:
  certificate: /etc/antares-tls/tls.crt
  key: /etc/antares-tls/tls.key
  {{- if .Values.tls.clients }}
  client_ca: /etc/antares-tls/ca.crt
  {{- end }}
{{- end }}
{{- if or .Values.auth.jwksSecret .Values.auth.rules }}
auth:
  {{- with .Values.auth.jwksSecret }}
  jwks: /etc/antares-jwks/jwks.json
  issuer: {{ $.Values.auth.issuer | quote }}
  audience: {{ $.Values.auth.audience | quote }}
  {{- end }}
  rules: {{ .Values.auth.rules | toJson }}
{{- end }}
signing:
  valid_days: {{ .Values.signing.validDays }}
{{- with .Values.quotas }}
quotas: {{ toJson . }}
{{- end }}
tenants:
  shared: {{ .Values.tenants.shared }}
  salted: {{ .Values.tenants.salted }}
{{- if .Values.audit.enabled }}
audit:
  target: stderr
  required: {{ .Values.audit.required }}
{{- end }}
metrics:
  address: 0.0.0.0:9464
{{- with .Values.metrics.hosts }}
  hosts: {{ toJson . }}
{{- end }}
log:
  format: json
  filter: {{ .Values.log.filter | quote }}
trace:
  endpoint: {{ .Values.trace.endpoint | quote }}
  sample_ratio: {{ .Values.trace.sampleRatio }}
sandbox:
  allow_degraded: {{ .Values.sandbox.allowDegraded | toJson }}
  limit_store_bypass: {{ .Values.sandbox.limitStoreBypass }}
  limit_indirect_branches: {{ .Values.sandbox.limitIndirectBranches }}
{{- end -}}

{{/* What the chart itself says of compiling, of running, and of both in one: sections of their files. */}}
{{- define "antares.compiling" -}}
{{- $own := dict "cache" (dict "dir" "/var/lib/antares/cache" "budget_bytes" (mul 1048576 (int .Values.compiler.cache.budgetMiB))) "compiler" (dict "workers_max" (int .Values.compiler.workers) "memory_bytes_max" (mul 1048576 (int .Values.compiler.workerMemoryMiB)) "downloads_max" (int (include "antares.downloads" .))) -}}
{{- $_ := set $own "listen" (include "antares.listenBudgets" .Values.compiler | fromYaml) -}}
{{- if .Values.shared.url }}{{ $_ := set $own "shared" (dict "url" .Values.shared.url) }}{{ end -}}
{{- if .Values.shared.signingSecret }}{{ $_ := set $own "signing" (dict "keys" "/etc/antares-signing") }}{{ end -}}
{{- toJson $own -}}
{{- end -}}

{{- define "antares.running" -}}
{{- $own := dict "runner" (dict "workers_max" (int .Values.runner.workers) "idle_workers_max" (int .Values.runner.idleWorkers) "ready_bytes_max" (mul 1048576 (int .Values.runner.readyMiB)) "hot_cells_bytes_max" (mul 1048576 (int .Values.runner.hotCellsMiB))) -}}
{{- if .Values.signing.trustedConfigMap }}{{ $_ := set $own "signing" (dict "trusted" "/etc/antares-trusted/trusted.json") }}{{ end -}}
{{- toJson $own -}}
{{- end -}}

{{- define "antares.compilerConfig" -}}
{{- include "antares.toml" (mergeOverwrite (include "antares.sharedConfig" . | fromYaml) (deepCopy .Values.compiler.config) (include "antares.compiling" . | fromJson)) -}}
{{- end -}}

{{- define "antares.runnerConfig" -}}
{{- $own := include "antares.running" . | fromJson -}}
{{- $_ := set $own "listen" (include "antares.listenBudgets" .Values.runner | fromYaml) -}}
{{- $_ := set $own.runner "compiler_url" (printf "%s://%s-compiler:50051" (include "antares.scheme" .) (include "antares.fullname" .)) -}}
{{- if .Values.shared.url }}{{ $_ := set $own.runner "compiler_resolve_ms" 5000 }}{{ end -}}
{{- if .Values.tls.secret }}{{ $_ := set $own.runner "compiler_ca" "/etc/antares-tls/ca.crt" }}{{ end -}}
{{- include "antares.toml" (mergeOverwrite (include "antares.sharedConfig" . | fromYaml) (deepCopy .Values.runner.config) $own) -}}
{{- end -}}

{{- define "antares.serverConfig" -}}
{{- include "antares.toml" (mergeOverwrite (include "antares.sharedConfig" . | fromYaml) (deepCopy .Values.runner.config) (deepCopy .Values.compiler.config) (include "antares.running" . | fromJson) (include "antares.compiling" . | fromJson)) -}}
{{- end -}}

{{/* How a workload grows and shrinks: quickly up; down one pod at a time, each with the time that its calls may take to end. */}}
{{- define "antares.scalingBehavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - {type: Percent, value: 100, periodSeconds: 30}
scaleDown:
  stabilizationWindowSeconds: 300
  policies:
    - {type: Pods, value: 1, periodSeconds: {{ . }}}
{{- end -}}

{{/* What a pod may have beside what the chart gives it: `dict "own" VALUES`. */}}
{{- define "antares.podExtras" -}}
{{- with .own.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- if .own.userNamespace }}
hostUsers: false
{{- end }}
{{- end -}}

{{/* Number of pods: `dict "root" $ "own" VALUES "name" NAME`. With a scaler it is as many as there are: a field that is taken out of a
Deployment becomes 1, which would end most pods at once. Where nothing can be looked up (helm template) the scaler begins from 1. */}}
{{- define "antares.replicas" -}}
{{- if not .own.autoscaling.enabled -}}
replicas: {{ int .own.replicas }}
{{- else -}}
{{- with lookup "apps/v1" "Deployment" .root.Release.Namespace .name -}}
replicas: {{ int .spec.replicas }}
{{- end -}}
{{- end -}}
{{- end -}}
