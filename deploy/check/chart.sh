#!/usr/bin/env bash
# Checks helm/antares without a cluster: unit tests of what templates make of values, and for every file of ci/ and presets/: helm lint, helm template for three Kubernetes versions,
# kubeconform -strict, and the restricted Pod Security level; the same but lint and level for foreign_values.yaml. Every command of docs/first-cluster.md is run. The rendered configuration files go through the real
# binaries where they are built. Every file of ci/refused/ must be refused, with the words in its first line.
#
#   deploy/check/chart.sh            binaries are looked for in $CARGO_TARGET_DIR/debug and /release, or target/
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
chart="$root/helm/antares"

helm="$("$here/tools.sh" helm)"
kubeconform="$("$here/tools.sh" kubeconform)"
schema="$("$here/tools.sh" k8s-schema)"
crds="$("$here/tools.sh" crd-schema)"
gofakes3="$("$here/tools.sh" gofakes3)"
python="$("$here/tools.sh" python)"
mapfile -t kubernetes < <("$here/tools.sh" versions)

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 skipped=0

# check NAME COMMAND...: counts; shows the output of a failure alone.
check() {
    local name=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
        sed 's/^/    /' "$scratch/output"
    fi
}

template() { "$helm" template release "$chart" --namespace antares --values "$1" --kube-version "$2.0"; }

render() { template "$1" "$2" >"$scratch/rendered.yaml"; }

conforms() {
    local place='{{ .NormalizedKubernetesVersion }}{{ .StrictSuffix }}/{{ .ResourceKind }}{{ .KindSuffix }}.json'
    "$kubeconform" -strict -summary -kubernetes-version "$1.0" -schema-location "$schema/$place" \
        -schema-location "$crds/{{ .Group }}/{{ .ResourceKind }}_{{ .ResourceAPIVersion }}.json" "$scratch/rendered.yaml" |
        tee "$scratch/conforms" || return 1
    # Nothing at all conforms as well.
    ! grep -q '^Summary: 0 resources' "$scratch/conforms"
}

# shellcheck source=deploy/check/built.sh
. "$here/built.sh"

check_configs() {
    local values=$1 role path service name command
    "$python" "$here/rendered_config.py" "$scratch/rendered.yaml" "$scratch" >"$scratch/configs"
    while read -r role path; do
        if [[ $role == server ]]; then name=antares command=(serve); else name="antares-$role-svc" command=(); fi
        service="$(newest "$name")"
        if [[ -n $service ]]; then
            check "$values: $name --check-config" "$service" "${command[@]}" --config "$path" --check-config
        else
            skipped=$((skipped + 1))
            echo "skipped: $values: $name is not built, its configuration is not checked"
        fi
    done <"$scratch/configs"
}

# refused VALUES: helm must fail, and say the words in the file's first line.
refused() {
    local words
    words="$(sed -n '1s/^# refused: //p' "$1")"
    [[ -n $words ]] || { echo "the first line must be: # refused: WORDS"; return 1; }
    if template "$1" "${kubernetes[-1]}" >"$scratch/refusal" 2>&1; then
        echo "accepted"
        return 1
    fi
    grep -qF -- "$words" "$scratch/refusal" || { cat "$scratch/refusal"; return 1; }
}

check "alerts of the chart are those of deploy/prometheus" cmp "$chart/files/antares.rules.yml" "$root/deploy/prometheus/antares.rules.yml"
check "values.schema.json has the keys of the configuration" "$python" "$here/config_schema.py" "$chart" --check
"$python" "$here/walk.py" values >"$scratch/first-cluster.yaml"
check "README.md has the values of values.yaml" "$python" "$here/values_table.py" "$chart" --check
for test in test_chart test_odd_values test_foreign_clusters test_config_keys test_pod_security test_images test_release test_healthy_hour test_walk; do
    check "$test" env HELM="$helm" GOFAKES3="$gofakes3" ANTARES="$(newest antares)" PYTHONPATH="$here" "$python" -m unittest --quiet "$test"
done
for values in "$chart"/ci/*-values.yaml "$chart"/presets/*.yaml "$scratch/first-cluster.yaml"; do
    name="${values#"$chart"/}" name="${name#"$scratch"/}"
    check "$name: helm lint" "$helm" lint --strict --quiet --values "$values" "$chart"
    for version in "${kubernetes[@]}"; do
        check "$name: helm template for $version" render "$values" "$version"
        check "$name: kubeconform for $version" conforms "$version"
        check "$name: restricted pods for $version" "$python" "$here/pod_security.py" "$scratch/rendered.yaml"
    done
    check_configs "$name"
done
mkdir "$scratch/foreign"
"$python" -c 'import pathlib, sys, yaml
for name, values in yaml.safe_load(pathlib.Path(sys.argv[1]).read_text()).items():
    pathlib.Path(sys.argv[2], name + ".yaml").write_text(yaml.safe_dump(values))' "$here/foreign_values.yaml" "$scratch/foreign"
for values in "$scratch"/foreign/*.yaml; do
    name="foreign $(basename "$values" .yaml)"
    for version in "${kubernetes[@]}"; do
        check "$name: helm template for $version" render "$values" "$version"
        check "$name: kubeconform for $version" conforms "$version"
    done
    check_configs "$name"
done
for values in "$chart"/ci/refused/*.yaml; do
    check "refused/$(basename "$values")" refused "$values"
done
echo "chart: $passed passed, $failed failed, $skipped skipped"
[[ $failed -eq 0 ]]
