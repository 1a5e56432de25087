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

away() { echo "clients: $1: its lowest versions cannot be fetched" >&2; exit 77; }

test_python() {
    "$here/make.sh" python "$folder/python"
    local lowest
    mapfile -t lowest < <(grep '^dependencies' "$here/python/pyproject.toml" | grep -o '"[^"]*"' | sed 's/"//g; s/>=/==/; s/,.*//')
    python3 -m venv "$folder/python/lowest"
    "$folder/python/lowest/bin/pip" --quiet --disable-pip-version-check install "${lowest[@]}" "$folder"/python/*.whl || away python
    for home in lowest installed; do
        echo "python: $home: $("$folder/python/$home/bin/pip" --disable-pip-version-check freeze | tr '\n' ' ')"
        "$here/test.sh" python "$folder/python" "$folder/python/$home"
    done
}

test_npm() {
    "$here/make.sh" npm "$folder/npm"
    cp -r "$folder/npm/installed" "$folder/npm/lowest"
    local lowest
    # shellcheck disable=SC2016 # JavaScript, not the shell, reads it.
    mapfile -t lowest < <(node -p 'Object.entries(require(process.argv[1]).dependencies).map(([name, range]) =>
        `${name}@${range.replace("^", "")}`).join("\n")' "$here/node/package.json")
    (cd "$folder/npm/lowest" && npm install --silent --no-audit --no-fund --ignore-scripts "${lowest[@]}") || away npm
    for home in lowest installed; do
        (cd "$folder/npm/$home" && npm ls)
        "$here/test.sh" npm "$folder/npm" "$folder/npm/$home"
    done
    test_bundle
}

# What a bundler makes of the tests runs where no package is.
test_bundle() {
    cd "$folder/npm/installed"
    npm install --silent --no-audit --no-fund --no-save esbuild || away npm
    mkdir "$folder/bundled"
    npx esbuild client.test.js --bundle --platform=node --outfile="$folder/bundled/client.test.js"
    (cd "$folder/bundled" && node --test)
}

(($#)) || set -- python npm
for language; do "test_$language"; done
