#!/usr/bin/env bash
# Prints the path of a Python with grpcio and its reflection client, made once outside the repository, beside the tools
# of deploy/check/tools.sh.
set -euo pipefail

GRPCIO_VERSION=1.85.1

cache="${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools"
home="$cache/python-grpcio-$GRPCIO_VERSION"
mkdir -p "$cache"
exec 9>"$cache/.lock-python-grpcio"
flock 9
if [[ ! -f "$home/complete" ]]; then
    echo "scenarios: making a Python environment with grpcio $GRPCIO_VERSION in $home (once)" >&2
    rm -rf "$home"
    python3 -m venv "$home" >&2 || { echo "scenarios: python3 -m venv failed: install python3-venv" >&2; exit 1; }
    "$home/bin/pip" --quiet --disable-pip-version-check install \
        "grpcio==$GRPCIO_VERSION" "grpcio-reflection==$GRPCIO_VERSION" >&2
    touch "$home/complete"
fi
echo "$home/bin/python"
