#!/usr/bin/env bash
# A release is pushed to a registry on loopback and verified there by cosign, with the commands of docs/releases.md; ends with the counts.
# cosign is built once, which takes five minutes; signatures.py says what is checked.
#
#   deploy/check/signatures.sh                      a release of programs that do nothing, signed by a key of its own
#   deploy/check/signatures.sh RELEASE PUBLIC       the folder of a release, and its public key
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
command -v skopeo >/dev/null || { echo "signatures: error: there is no skopeo here (Debian package skopeo)" >&2; exit 1; }
cosign="$("$here/tools.sh" cosign)"
registry="$("$here/tools.sh" registry)"
helm="$("$here/tools.sh" helm)"
exec python3 "$here/signatures.py" "$cosign" "$registry" "$helm" "$@"
