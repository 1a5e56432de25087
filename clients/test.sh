#!/usr/bin/env bash
# Runs a package's own tests where make.sh installed it, and checks the types of a caller.
#
#   clients/test.sh python|npm|go FOLDER [INSTALLED]
#
# INSTALLED is a folder with other versions of what the package needs: its types are not checked.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
language=$1 folder=$2 home=${3:-$2/installed}

export PYTHONDONTWRITEBYTECODE=1

case $language in
python)
    "$home/bin/python" -m unittest discover "$here/python/tests"
    [[ $# -eq 2 ]] || exit 0
    if "$home/bin/pip" --quiet --disable-pip-version-check install --constraint "$here/constraints.txt" mypy; then
        "$home/bin/mypy" --strict --cache-dir=/dev/null "$here/python/tests/caller.py"
    else
        echo "clients: python: skipped: mypy cannot be fetched"
    fi
    ;;
npm)
    cp "$here"/node/test/* "$home"
    cd "$home"
    node --test
    [[ $# -eq 2 ]] || exit 0
    sed '/^for await/,/^}/d' caller.mts >caller.cts
    "$folder/source/node_modules/.bin/tsc" --strict --noEmit --skipLibCheck --target es2022 --module node16 \
        --typeRoots "$folder/source/node_modules/@types" caller.mts caller.cts
    ;;
go)
    cd "$folder/source"
    # The race detector needs a compiler of C.
    race=()
    if command -v cc >/dev/null; then race=(-race); fi
    go test "${race[@]}" .
    ;;
esac
