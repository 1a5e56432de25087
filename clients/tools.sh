# Sourced by clients/make.sh and docs/clients/make.sh, which set `proto`, `language` and `folder`: what both need to make code of the
# proto files, and how they say that it is not there.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034  # set by who sources this, and for it

GRPCIO_VERSION=1.85.1
PROTOC_GEN_GO_VERSION=v1.36.11
PROTOC_GEN_GO_GRPC_VERSION=v1.6.0

cache="${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools"
# scripts/setup.sh puts a Go here when the machine has none that is new enough.
[[ -x "$cache/bin/go" ]] && PATH="$cache/bin:$PATH"
mkdir -p "$folder" "$cache"
folder="$(cd "$folder" && pwd)"

missing() { echo "clients: $language: there is no $1" >&2; exit 77; }
away() { echo "clients: $language: $1 cannot be fetched" >&2; exit 77; }

# A Python with gRPC and the protobuf compiler, made once; prints where it is.
python() {
    command -v python3 >/dev/null || missing python3
    local home="$cache/python-grpcio-tools-$GRPCIO_VERSION"
    exec 9>"$cache/.lock-python-grpcio-tools"
    flock 9
    if [[ ! -f "$home/complete" ]]; then
        rm -rf "$home"
        python3 -m venv "$home" >&2 || missing "module venv of python3"
        "$home/bin/pip" --quiet --disable-pip-version-check install \
            "grpcio==$GRPCIO_VERSION" "grpcio-tools==$GRPCIO_VERSION" "grpcio-status==$GRPCIO_VERSION" >&2 || away grpcio
        touch "$home/complete"
    fi
    exec 9>&-
    echo "$home/bin/python"
}

# protoc OPTION...: over all proto files.
protoc() {
    local interpreter
    interpreter="$(python)"
    (cd "$proto" && "$interpreter" -m grpc_tools.protoc -I . "$@" antares/v1/*.proto)
}

# executable NAME LINE...: a script in the folder that does the lines.
executable() {
    local name=$1
    shift
    { echo '#!/bin/sh'; printf '%s\n' "$@"; } >"$folder/$name"
    chmod +x "$folder/$name"
}
