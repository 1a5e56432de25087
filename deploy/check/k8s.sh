#!/usr/bin/env bash
# Installs helm/antares on a real control plane (API server, etcd, controllers, scheduler; kwok in place of kubelets) on this machine's
# loopback, and ends with the counts. The parts are built once, which takes long; k8s.py says what is checked.
#
#   deploy/check/k8s.sh
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cluster="$("$here/tools.sh" cluster)"
helm="$("$here/tools.sh" helm)"
crds="$("$here/tools.sh" crds)"
python="$("$here/tools.sh" python)"
# For the keys of the walk; without it the walk is skipped.
target=${CARGO_TARGET_DIR:-$here/../../target}
antares="$({ find "$target/debug" "$target/release" -maxdepth 1 -name antares -type f -printf '%T@ %p\n' 2>/dev/null || true; } |
    sort -rn | head -n 1 | cut -d ' ' -f 2)"
exec "$python" "$here/k8s.py" "$cluster" "$helm" "$crds" "$here/../../helm/antares" "$antares"
