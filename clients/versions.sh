#!/usr/bin/env bash
# Runs the tests of the packages for Python and Node with the lowest versions that they declare, and with the newest.
#
#   clients/versions.sh [python|npm]...
#
# Needs what make.sh needs, and registries. Exits with 77 if one of these is missing.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1

away() { echo "clients: $1: its lowest versions cannot be fetched" >&2; exit 77; }

test_python() {
    "$here/make.sh" python "$folder/python"
    local lowest
    mapfile -t lowest < <(grep '^dependencies' "$here/python/pyproject.toml" | grep -o '"[^"]*"' | sed 's/"//g; s/>=/==/; s/,.*//')
    python3 -m venv "$folder/python/lowest"
    "$folder/python/lowest/bin/pip" --quiet --disable-pip-version-check install "${lowest[@]}" "$folder"/python/*.whl || away python
    for home in lowest installed; do
        echo "python: $home: $("$folder/python/$home/bin/pip" --disable-pip-version-check freeze | tr '\n' ' ')"
        "$folder/python/$home/bin/python" -m unittest discover "$here/python/tests"
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
        cp "$here"/node/test/*.test.* "$folder/npm/$home/"
        (cd "$folder/npm/$home" && npm ls && node --test)
    done
    test_bundle
}

# What a bundler makes of the tests runs where no package is, and a program has types.
test_bundle() {
    cd "$folder/npm/installed"
    npm install --silent --no-audit --no-fund --no-save esbuild || away npm
    mkdir "$folder/bundled"
    npx esbuild client.test.js --bundle --platform=node --outfile="$folder/bundled/client.test.js"
    (cd "$folder/bundled" && node --test)
    cp "$here/node/test/caller.mts" .
    sed '/^for await/,/^}/d' caller.mts >caller.cts
    "$folder/npm/source/node_modules/.bin/tsc" --strict --noEmit --skipLibCheck --target es2022 --module node16 \
        --typeRoots "$folder/npm/source/node_modules/@types" caller.mts caller.cts
}

(($#)) || set -- python npm
for language; do "test_$language"; done
