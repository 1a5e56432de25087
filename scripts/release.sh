#!/usr/bin/env bash
# A release from this commit: target/release-VERSION, made twice from one build and compared, signed where KEY names a private key, and verified.
#
#   scripts/release.sh VERSION [KEY]      what to write before, and what to push after: deploy/README.md
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: scripts/release.sh VERSION [KEY]}
key=${2:-}
out=${CARGO_TARGET_DIR:-target}/release-$version
[[ -z "$(git status --porcelain)" ]] || { echo "release: the checkout has changes that no commit has"; exit 1; }
scripts/images.sh
rm -rf "$out" "$out.again"
for folder in "$out" "$out.again"; do
    python3 deploy/images/release.py make "$version" "${CARGO_TARGET_DIR:-target}/dist" "$folder"
done
cmp "$out/SHA256SUMS" "$out.again/SHA256SUMS"
rm -rf "$out.again"
if [[ -n $key ]]; then
    python3 deploy/images/release.py sign "$out" "$key"
    openssl pkey -in "$key" -pubout -out "$out.pub"
    python3 deploy/images/release.py verify "$out" "$out.pub"
fi
echo "release: $out"
echo "release: tag it with: git tag --annotate v$version --message 'Antares $version'"
