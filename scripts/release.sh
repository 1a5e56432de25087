#!/usr/bin/env bash
# A release from this commit: target/release-VERSION, made twice from one build and compared, signed where KEY names a private key, and verified.
#
#   scripts/release.sh VERSION [KEY]      what to do before, and what to push after: docs/releases.md
#   scripts/release.sh tag VERSION        dates CHANGELOG.md, commits that, and tags it; pushes nothing
set -euo pipefail
cd "$(dirname "$0")/.."

usage='usage: scripts/release.sh VERSION [KEY], or scripts/release.sh tag VERSION'
clean() { [[ -z "$(git status --porcelain)" ]] || { echo "release: the checkout has changes that no commit has"; exit 1; }; }

if [[ ${1:-} == tag ]]; then
    version=${2:?$usage}
    clean
    python3 deploy/images/release.py date "$version" "$(date --utc +%F)"
    git commit --quiet --message "release $version" -- CHANGELOG.md
    git tag --annotate "v$version" --message "Antares $version"
    # Go finds the version of a module in a folder by a tag of that folder.
    git tag --annotate "clients/go/v$version" --message "Client for Go $version"
    echo "release: tagged v$version; make release VERSION=$version, then: git push origin HEAD v$version clients/go/v$version"
    exit
fi
version=${1:?$usage}
key=${2:-}
out=${CARGO_TARGET_DIR:-target}/release-$version
clean
scripts/images.sh
cargo build --profile dist --locked --package antares-debugger --package antares-fuzz --package antares-optimise
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
[[ -n "$(git tag --list "v$version" --points-at HEAD)" ]] || echo "release: this commit has no tag v$version: scripts/release.sh tag $version"
