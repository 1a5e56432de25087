#!/usr/bin/env bash
# Installs helm/antares on a real control plane (API server, etcd, controllers, scheduler; kwok in place of kubelets) on this machine's
# loopback, and ends with a rolling restart of services under load. The parts are built once, which takes long; k8s.py says what is checked.
#
#   deploy/check/k8s.sh
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cluster="$("$here/tools.sh" cluster)"
helm="$("$here/tools.sh" helm)"
crds="$("$here/tools.sh" crds)"
python="$("$here/tools.sh" python)"
# shellcheck source=deploy/check/built.sh
. "$here/built.sh"
antares="$(newest antares)"
"$python" "$here/k8s.py" "$cluster" "$helm" "$crds" "$here/../../helm/antares" "$antares"
# Pods have no processes there: real ones are replaced one at a time under load here.
if [[ -n $antares ]]; then
    python3 "$here/upgrade.py" "${antares%/*}" "${antares%/*}"
else
    echo "upgrade: skipped: antares is not built"
fi
