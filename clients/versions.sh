#!/usr/bin/env bash
# Runs the tests of the packages for Python and Node with the lowest versions that they declare, and with the newest.
#
#   clients/versions.sh [python|npm]...
#
# Needs what make.sh needs, and registries. Exits with 77 if one of these is missing. Takes two to four minutes.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

away() { echo "clients: $1: its lowest or newest versions cannot be fetched" >&2; exit 77; }

# try_python HOME VERSION...
try_python() {
    local pip="$folder/python/$1/bin/pip"
    python3 -m venv "$folder/python/$1"
    "$pip" --quiet --disable-pip-version-check install "${@:2}" "$folder"/python/*.whl || away python
    echo "python: $1: $("$pip" --disable-pip-version-check freeze | tr '\n' ' ')"
    "$here/test.sh" python "$folder/python" "$folder/python/$1"
}

test_python() {
    "$here/make.sh" python "$folder/python"
    local lowest
    mapfile -t lowest < <(grep '^dependencies' "$here/python/pyproject.toml" | grep -o '"[^"]*"' | sed 's/"//g; s/>=/==/; s/,.*//')
    try_python lowest "${lowest[@]}"
    try_python newest
}

# try_npm HOME VERSION...
try_npm() {
    mkdir "$folder/npm/$1"
    cd "$folder/npm/$1"
    echo '{"private": true}' >package.json
    npm install --silent --no-audit --no-fund --ignore-scripts "${@:2}" "$folder"/npm/*.tgz || away npm
    npm ls
    "$here/test.sh" npm "$folder/npm" "$PWD"
}

test_npm() {
    "$here/make.sh" npm "$folder/npm"
    local lowest
    # shellcheck disable=SC2016 # JavaScript, not the shell, reads it.
    mapfile -t lowest < <(node -p 'Object.entries(require(process.argv[1]).dependencies).map(([name, range]) =>
        `${name}@${range.replace("^", "")}`).join("\n")' "$here/node/package.json")
    try_npm lowest "${lowest[@]}"
    try_npm newest
    test_bundle
}

# What a bundler makes of the tests runs where no package is.
test_bundle() {
    cd "$folder/npm/newest"
    npm install --silent --no-audit --no-fund --no-save esbuild || away npm
    mkdir "$folder/bundled"
    npx esbuild client.test.js --bundle --platform=node --outfile="$folder/bundled/client.test.js"
    (cd "$folder/bundled" && node --test)
}

(($#)) || set -- python npm
for language; do "test_$language"; done
