{{/* Size of the cache's volume, MiB: twice the budget for a rebuild, uploads that are not complete, and what the service keeps free. */}}
{{- define "antares.cacheVolumeMiB" -}}
{{- add (mul 2 (int .Values.compiler.cache.budgetMiB)) 512 256 -}}
{{- end -}}

{{/* Memory of a service process, MiB: itself, requests and what is made of them, and a quarter MiB for each call. */}}
{{- define "antares.serviceMiB" -}}
{{- add 256 (mul 2 (int .requestsMiB)) (div (int (dig "listen" "calls_max" 1024 .config)) 4) -}}
{{- end -}}

{{/* Memory of compile workers and downloads, MiB: every worker at its most, 1 GiB for a baseline compile, half as much again for what
they write to memory files; and for the entries of a store beyond 2 GiB. */}}
{{- define "antares.compilingMiB" -}}
{{- $addresses := add 1024 (mul (int .Values.compiler.workers) (int .Values.compiler.workerMemoryMiB)) -}}
{{- $downloads := mul 8 64 -}}
{{- $entries := div (max 0 (sub (int .Values.compiler.cache.budgetMiB) 2048)) 16 -}}
{{- add (div (mul 3 $addresses) 2) $downloads $entries (include "antares.sharedMiB" .) -}}
{{- end -}}

{{/* Memory of the tiers around the cache, MiB: 64 of entries kept, 256 and 1 for each of 64 reads, 256 waiting, 4 of 64 being written. */}}
{{- define "antares.sharedMiB" -}}
{{- empty .Values.shared.url | ternary 0 (add 64 256 64 256 (mul 4 64)) -}}
{{- end -}}

{{/* Memory for what a node gives, MiB: 64 cached, 96 for each of 4 lookups. */}}
{{- define "antares.nodeMiB" -}}
{{- empty (dig "node" "rpc" "" .Values.runner.config) | ternary 0 (add 64 (mul 4 96)) -}}
{{- end -}}

{{/* Memory of run workers, of those that wait, of what is kept ready, and of what a node gives, MiB. */}}
{{- define "antares.runningMiB" -}}
{{- add (mul 32 (add (int .Values.runner.workers) (int .Values.runner.idleWorkers))) (add (int .Values.runner.readyMiB) (int .Values.runner.hotCellsMiB)) (include "antares.nodeMiB" . | int) -}}
{{- end -}}

{{/* Resources with the memory limit that holds all of it, and a request for what emptyDirs may hold: `dict "own" RESOURCES "MiB" LIST
"diskMiB" NUMBER`. */}}
{{- define "antares.resources" -}}
{{- $sum := 0 -}}
{{- range .MiB }}{{ $sum = add $sum (int .) }}{{ end -}}
{{- $disk := dict "requests" (dict "ephemeral-storage" (printf "%dMi" (int .diskMiB))) -}}
{{- toYaml (mergeOverwrite $disk (deepCopy .own) (dict "limits" (dict "memory" (printf "%dMi" $sum)))) -}}
{{- end -}}

{{/* What the emptyDirs of a compiler may hold, MiB: /tmp, and the cache without a claim. */}}
{{- define "antares.compilingDiskMiB" -}}
{{- $isClaimed := and .Values.compiler.cache.persistent (empty .Values.shared.url) -}}
{{- add 64 ($isClaimed | ternary 0 (include "antares.cacheVolumeMiB" . | int)) -}}
{{- end -}}

{{- define "antares.compilerResources" -}}
{{- $parts := list (include "antares.serviceMiB" .Values.compiler) (include "antares.compilingMiB" .) -}}
{{- include "antares.resources" (dict "own" .Values.compiler.resources "MiB" $parts "diskMiB" (include "antares.compilingDiskMiB" .)) -}}
{{- end -}}

{{- define "antares.runnerResources" -}}
{{- $parts := list (include "antares.serviceMiB" .Values.runner) (include "antares.runningMiB" .) -}}
{{- include "antares.resources" (dict "own" .Values.runner.resources "MiB" $parts "diskMiB" 16) -}}
{{- end -}}

{{- define "antares.serverResources" -}}
{{- $parts := list (include "antares.serviceMiB" .Values.compiler) (include "antares.compilingMiB" .) (include "antares.runningMiB" .) -}}
{{- include "antares.resources" (dict "own" .Values.single.resources "MiB" $parts "diskMiB" (include "antares.compilingDiskMiB" .)) -}}
{{- end -}}

{{/* Budgets of a listener, from the values of its workload. */}}
{{- define "antares.listenBudgets" -}}
request_bytes_max: {{ mul 1048576 (int .requestsMiB) }}
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

{{/* Where a listener listens: `dict "root" $ "port" PORT`. IPv6's any-address takes IPv4 as well. */}}
{{- define "antares.listenAddress" -}}
{{- $service := .root.Values.service -}}
{{- $isSix := or (has "IPv6" ($service.ipFamilies | default list)) (hasSuffix "DualStack" ($service.ipFamilyPolicy | default "")) -}}
{{- $address := .root.Values.listenAddress | default ($isSix | ternary "::" "0.0.0.0") | trimPrefix "[" | trimSuffix "]" -}}
{{- printf "%s:%d" (contains ":" $address | ternary (printf "[%s]" $address) $address) (int .port) -}}
{{- end -}}

{{/* Sections one over the other, key by key. */}}
{{- define "antares.sections" -}}
{{- $result := dict -}}
{{- range $sections := . -}}
{{- range $section, $keys := $sections -}}
{{- $_ := set $result $section (include "antares.over" (list (get $result $section | default dict) $keys) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- include "antares.toml" $result -}}
{{- end -}}

{{/* Sections that both services share. */}}
{{- define "antares.sharedConfig" -}}
listen:
  address: {{ include "antares.listenAddress" (dict "root" . "port" 50051) | quote }}
  allow_open: {{ not (and .Values.tls.secret (or .Values.tls.clients .Values.auth.jwksSecret .Values.auth.jwksUri)) }}
  drain_delay_ms: {{ mul 1000 (int .Values.drain.delaySeconds) }}
  drain_grace_ms: {{ mul 1000 (int .Values.drain.graceSeconds) }}
{{- if (.Values.web | default dict).enabled }}
web:
  address: {{ include "antares.listenAddress" (dict "root" . "port" 8080) | quote }}
  origins: {{ .Values.web.origins | toJson }}
{{- end }}
{{- if .Values.tls.secret }}
tls:
  certificate: /etc/antares-tls/tls.crt
  key: /etc/antares-tls/tls.key
  {{- if .Values.tls.clients }}
  client_ca: /etc/antares-tls/ca.crt
  {{- end }}
{{- end }}
{{- $auth := .Values.auth }}
{{- $isAsked := or $auth.jwksSecret $auth.jwksUri (and .Values.tls.secret .Values.tls.clients) }}
{{- if and $isAsked (not $auth.rules) }}
{{- fail "auth.rules: certificates and tokens let nobody in without a rule for them" }}
{{- end }}
{{- if and $auth.jwksSecret $auth.jwksUri }}
{{- fail "auth.jwksUri makes no sense with auth.jwksSecret" }}
{{- end }}
{{- if or $isAsked $auth.rules }}
auth:
  {{- if $auth.jwksSecret }}
  jwks: /etc/antares-jwks/jwks.json
  {{- end }}
  {{- with $auth.jwksUri }}
  jwks: {{ . | quote }}
  {{- end }}
  {{- if or $auth.jwksSecret $auth.jwksUri }}
  issuer: {{ $auth.issuer | quote }}
  audiences: {{ prepend $auth.audiences $auth.audience | toJson }}
  {{- end }}
  rules: {{ $auth.rules | toJson }}
{{- end }}
{{- with .Values.quotas }}
quotas: {{ toJson . }}
{{- end }}
tenants:
  isolation: {{ .Values.tenants.shared | ternary "none" (.Values.tenants.salted | ternary "code" "uploads") | quote }}
{{- if .Values.audit.enabled }}
audit:
  target: {{ .Values.audit.target | quote }}
  required: {{ .Values.audit.required }}
{{- end }}
metrics:
  address: {{ include "antares.listenAddress" (dict "root" . "port" 9464) | quote }}
{{- with .Values.metrics.hosts }}
  hosts: {{ toJson . }}
{{- end }}
log:
  format: {{ .Values.log.format | quote }}
  filter: {{ .Values.log.filter | quote }}
trace:
  endpoint: {{ .Values.trace.endpoint | quote }}
  sample_ratio: {{ .Values.trace.sampleRatio }}
sandbox:
  allow_degraded: {{ .Values.sandbox.allowDegraded | toJson }}
  speculation_limits: {{ .Values.sandbox.speculationLimits | toJson }}
{{- end -}}

{{/* What the chart itself says of compiling, of running, and of both in one: sections of their files. */}}
{{- define "antares.compiling" -}}
{{- $own := dict "cache" (dict "dir" "/var/lib/antares/cache" "budget_bytes" (mul 1048576 (int .Values.compiler.cache.budgetMiB))) "compiler" (dict "workers_max" (int .Values.compiler.workers) "memory_bytes_max" (mul 1048576 (int .Values.compiler.workerMemoryMiB))) -}}
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
{{- include "antares.sections" (list (include "antares.sharedConfig" . | fromYaml) .Values.compiler.config (include "antares.compiling" . | fromJson)) -}}
{{- end -}}

{{- define "antares.runnerConfig" -}}
{{- $own := include "antares.running" . | fromJson -}}
{{- $_ := set $own "listen" (include "antares.listenBudgets" .Values.runner | fromYaml) -}}
{{- $_ := set $own.runner "compiler_url" (printf "%s://%s-compiler:50051" (include "antares.scheme" .) (include "antares.fullname" .)) -}}
{{- $before := dict -}}
{{- if .Values.tls.secret }}{{ $_ := set $before "compiler_ca" "/etc/antares-tls/ca.crt" }}{{ end -}}
{{- include "antares.sections" (list (include "antares.sharedConfig" . | fromYaml) (dict "runner" $before) .Values.runner.config $own) -}}
{{- end -}}

{{- define "antares.serverConfig" -}}
{{- include "antares.sections" (list (include "antares.sharedConfig" . | fromYaml) .Values.runner.config .Values.compiler.config (include "antares.running" . | fromJson) (include "antares.compiling" . | fromJson)) -}}
{{- end -}}

{{/* What of a configuration takes force with a restart only: the rest is read again where it stands. */}}
{{- define "antares.restartConfig" -}}
{{- regexReplaceAll "\\n+" (regexReplaceAll "(?m)^rules = .*$|^\\[(quotas|tenants)\\]\\n(.+\\n)*" . "") "\n" -}}
{{- end -}}
