#!/usr/bin/env bash
# Makes an example runnable: generates its code from the proto files, fetches what it depends on, builds it.
#
#   docs/clients/make.sh python|go|typescript FOLDER
#
# FOLDER then has an executable `run`: FOLDER/run HOST:PORT SCRIPT ARG... Needs python3 with venv for all of them (its protobuf
# compiler is used), go for Go, node 20 and npm for TypeScript. Exits with 77 if one of these is missing, or what it
# depends on cannot be fetched.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
proto="$(cd "$here/../../proto" && pwd)"
language=$1 folder=$2
# shellcheck source=clients/tools.sh
. "$here/../../clients/tools.sh"

make_python() {
    protoc --python_out="$folder" --grpc_python_out="$folder"
    cp "$here/python/run.py" "$folder"
    executable run "PYTHONPATH='$folder' exec '$(python)' '$folder/run.py' \"\$@\""
}

make_go() {
    command -v go >/dev/null || missing go
    local file map=()
    GOBIN="$folder/bin" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$PROTOC_GEN_GO_VERSION" >&2 || away protoc-gen-go
    GOBIN="$folder/bin" go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$PROTOC_GEN_GO_GRPC_VERSION" >&2 \
        || away protoc-gen-go-grpc
    cp "$here"/go/{go.mod,go.sum,main.go} "$folder"
    (cd "$folder" && go mod download >&2) || away "a module of go.mod"
    # The example keeps the generated package within itself.
    for file in "$proto"/antares/v1/*.proto; do
        file="antares/v1/$(basename "$file")"
        map+=("--go_opt=M$file=example/antaresv1" "--go-grpc_opt=M$file=example/antaresv1")
    done
    PATH="$folder/bin:$PATH" protoc --go_out="$folder" --go_opt=module=example \
        --go-grpc_out="$folder" --go-grpc_opt=module=example "${map[@]}"
    (cd "$folder" && CGO_ENABLED=0 go build -o run . >&2)
}

make_typescript() {
    command -v npm >/dev/null || missing npm
    [[ "$(node --version)" =~ ^v([0-9]+) && ${BASH_REMATCH[1]} -ge 20 ]] || missing "node 20"
    cp "$here"/typescript/{package.json,package-lock.json,tsconfig.json,run.ts} "$folder"
    cd "$folder"
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || away "a package of package.json"
    npx proto-loader-gen-types --grpcLib=@grpc/grpc-js --outDir=generated --includeDirs="$proto" --keepCase \
        --longs=String --enums=String --defaults --oneofs antares/v1/compiler.proto antares/v1/runner.proto >&2
    npx tsc >&2
    executable run "exec node '$folder/built/run.js' '$proto' \"\$@\""
}

case $language in
python | go | typescript) "make_$language" ;;
*) echo "clients: python, go or typescript, not $language" >&2; exit 2 ;;
esac
