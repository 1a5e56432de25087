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
{{- $name = printf "%s-%s" ($name | trunc 31 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "names of objects would begin with %q, and those of services are lower-case letters, digits and -, the first a letter: set fullnameOverride" $name) -}}
{{- end -}}
{{- $name -}}
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
{{- $others := include "antares.over" (list .root.Values.commonLabels .more) | fromJson -}}
{{- include "antares.stringMap" (merge $own (omit $others "app.kubernetes.io/component")) -}}
{{- end -}}

{{/* Maps one over the other, key by key; the last wins, and what is null is left out. `merge` takes false and 0 for nothing. */}}
{{- define "antares.over" -}}
{{- $result := dict -}}
{{- range $map := . -}}
{{- range $key, $value := $map -}}
{{- if kindIs "invalid" $value }}{{ $_ := unset $result $key }}{{ else }}{{ $_ := set $result $key $value }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $result -}}
{{- end -}}

{{- define "antares.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* What stands under `metadata`: `dict "root" $ "name" NAME`, and where there are any "namespace", "component", "labels" and "annotations". */}}
{{- define "antares.metadata" -}}
name: {{ .name | quote }}
namespace: {{ .namespace | default (include "antares.namespace" .root) | quote }}
labels:
  {{- include "antares.labelsWith" (dict "root" .root "more" .labels) | nindent 2 }}
  {{- with .component }}
  app.kubernetes.io/component: {{ . | quote }}
  {{- end }}
{{- with include "antares.stringMap" (include "antares.over" (list .root.Values.commonAnnotations .annotations) | fromJson) }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
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

{{/* Fails where an upgrade would change the claim of a StatefulSet, which Kubernetes refuses in words that name no value: `dict "root" $
"name" NAME`. Sizes come back in the largest unit that is whole. */}}
{{- define "antares.claimKept" -}}
{{- with lookup "apps/v1" "StatefulSet" (include "antares.namespace" .root) .name -}}
{{- with .spec.volumeClaimTemplates -}}
{{- $had := (index . 0).spec.resources.requests.storage | toString -}}
{{- $units := dict "Mi" 1 "Gi" 1024 "Ti" 1048576 -}}
{{- $unit := get $units (regexFind "[A-Z]i$" $had) -}}
{{- $wanted := include "antares.cacheVolumeMiB" $.root | int64 -}}
{{- if and $unit (ne (mul $unit (regexFind "^[0-9]+" $had | int64)) $wanted) -}}
{{- fail (printf "the volume claim of StatefulSet %s asks for %s and would ask for %dMi: Kubernetes lets no upgrade change it. Keep compiler.cache.budgetMiB, or delete the StatefulSet with --cascade=orphan first" $.name $had $wanted) -}}
{{- end -}}
{{- end -}}
{{- end -}}
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

{{/* Number of pods: `dict "root" $ "own" VALUES "name" NAME`. With a scaler it is as many as there are: a field that is taken out of a
Deployment becomes 1, which would end most pods at once. Where nothing can be looked up (helm template) the scaler begins from 1. */}}
{{- define "antares.replicas" -}}
{{- if not .own.autoscaling.enabled -}}
replicas: {{ int .own.replicas }}
{{- else -}}
{{- with lookup "apps/v1" "Deployment" (include "antares.namespace" .root) .name -}}
replicas: {{ int .spec.replicas }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A number, or a share such as 25%. */}}
{{- define "antares.intOrString" -}}
{{- hasSuffix "%" (toString .) | ternary (toString . | quote) (int .) -}}
{{- end -}}
