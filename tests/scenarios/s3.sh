#!/usr/bin/env bash
# Prints the path of a server of S3 for tests (moto), made once outside the repository, beside the tools of
# deploy/check/tools.sh.
set -euo pipefail

MOTO_VERSION=5.2.0

cache="${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools"
home="$cache/moto-$MOTO_VERSION"
mkdir -p "$cache"
exec 9>"$cache/.lock-moto"
flock 9
if [[ ! -f "$home/complete" ]]; then
    echo "scenarios: making a Python environment with moto $MOTO_VERSION in $home (once)" >&2
    rm -rf "$home"
    python3 -m venv "$home" >&2 || { echo "scenarios: python3 -m venv failed: install python3-venv" >&2; exit 1; }
    "$home/bin/pip" --quiet --disable-pip-version-check install "moto[server]==$MOTO_VERSION" >&2
    touch "$home/complete"
fi
echo "$home/bin/moto_server"
