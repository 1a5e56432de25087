{{/* The rules of files/, without what is disabled and with what is overridden. Names that no alert has are refused: an alert that is thought
to be off, or to have another threshold, must be so. */}}
{{- define "antares.rules" -}}
{{- $rules := .Values.monitoring.rules -}}
{{- $overrides := $rules.overrides | default dict -}}
{{- $known := list -}}
{{- $groups := list -}}
{{- range (.Files.Get "files/antares.rules.yml" | fromYaml).groups -}}
{{- $kept := list -}}
{{- range .rules -}}
{{- $alert := .alert | default "" -}}
{{- $known = append $known $alert -}}
{{- if not $alert -}}
{{- $kept = append $kept . -}}
{{- else if not (has $alert $rules.disabled) -}}
{{- $kept = append $kept (include "antares.rule" (dict "rule" . "own" (get $overrides $alert | default dict) "rules" $rules) | fromJson) -}}
{{- end -}}
{{- end -}}
{{- $groups = append $groups (dict "name" .name "rules" $kept) -}}
{{- end -}}
{{- range concat ($rules.disabled | default list) (keys $overrides) -}}
{{- if not (has . $known) -}}
{{- fail (printf "monitoring.rules: there is no alert %s" .) -}}
{{- end -}}
{{- end -}}
{{- toYaml (dict "groups" $groups) -}}
{{- end -}}

{{/* One alert, as JSON: `dict "rule" RULE "own" OVERRIDE "rules" VALUES`. */}}
{{- define "antares.rule" -}}
{{- $expr := .own.expr | default .rule.expr -}}
{{- if hasKey .own "threshold" -}}
{{- $end := "(>=|<=|==|>|<) *[0-9.]+( *[*] *[0-9.]+)?\\s*$" -}}
{{- /* Of several comparisons the last one is hardly the one that is meant. */ -}}
{{- if or (not (regexMatch $end $expr)) (gt (len (regexFindAll "(>=|<=|==|>|<) *[0-9.]+" $expr -1)) 1) -}}
{{- fail (printf "monitoring.rules.overrides.%s.threshold: the expression does not end in its only number to compare with; override expr" .rule.alert) -}}
{{- end -}}
{{- $expr = regexReplaceAll $end $expr (printf "${1} %v" .own.threshold) -}}
{{- end -}}
{{- $rule := dict "alert" .rule.alert "expr" $expr -}}
{{- with .own.for | default (get .rule "for") }}{{ $_ := set $rule "for" . }}{{ end -}}
{{- $severity := dict "severity" (.own.severity | default (get (.rules.severities | default dict) .rule.labels.severity | default .rule.labels.severity)) -}}
{{- $_ := set $rule "labels" (include "antares.over" (list .rules.alertLabels .rule.labels .own.labels $severity) | fromJson) -}}
{{- $runbook := dict -}}
{{- with .rules.runbookUrl }}{{ $_ := set $runbook "runbook_url" (printf "%s#%s" . (lower $.rule.alert)) }}{{ end -}}
{{- $_ := set $rule "annotations" (include "antares.over" (list .rules.alertAnnotations .rule.annotations $runbook .own.annotations) | fromJson) -}}
{{- toJson $rule -}}
{{- end -}}
