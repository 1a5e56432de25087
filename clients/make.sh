#!/usr/bin/env bash
# Makes a package of a client, and installs it into a folder of its own, as those who use it do.
#
#   clients/make.sh python|npm|go FOLDER
#   clients/make.sh go-code FOLDER               only the package antaresv1 of the Go module
#
# FOLDER then has the package (a wheel, a tarball, or the module with its generated code), and an executable `client` that runs
# what was installed: FOLDER/client verify HOST:PORT TX.json, FOLDER/client run HOST:PORT SCRIPT ARG... Needs python3 with venv for
# all of them (its protobuf compiler is used), go for Go, node 20 and npm for npm. Exits with 77 if one of these is missing, or
# what it depends on cannot be fetched.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
proto="$(cd "$here/../proto" && pwd)"
language=$1 folder=$2

# What is installed has one version of everything; clients/versions.sh tries others.
export PIP_CONSTRAINT="$here/constraints.txt"
# clients/python/pyproject.toml has the lowest versions that this code runs with.
GRPCIO_VERSION=$(sed -n 's/^grpcio-tools==//p' "$PIP_CONSTRAINT")
PROTOC_GEN_GO_VERSION=v1.36.11
PROTOC_GEN_GO_GRPC_VERSION=v1.6.0

cache="${XDG_CACHE_HOME:-$HOME/.cache}/antares-tools"
# scripts/setup.sh puts a Go here when the machine has none that is new enough.
[[ -x "$cache/bin/go" ]] && PATH="$cache/bin:$PATH"
mkdir -p "$folder" "$cache"
folder="$(cd "$folder" && pwd)"

missing() { echo "clients: $language: there is no $1" >&2; exit 77; }
away() { echo "clients: $language: $1 cannot be fetched" >&2; exit 77; }

# A Python with the protobuf compiler, made once; prints where it is.
python() {
    command -v python3 >/dev/null || missing python3
    local home="$cache/python-grpcio-tools-$GRPCIO_VERSION"
    exec 9>"$cache/.lock-python-grpcio-tools"
    flock 9
    if [[ ! -f "$home/complete" ]]; then
        rm -rf "$home"
        python3 -m venv "$home" >&2 || missing "module venv of python3"
        "$home/bin/pip" --quiet --disable-pip-version-check install grpcio-tools >&2 || away grpcio-tools
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

make_python() {
    local source="$folder/source" home="$folder/installed"
    cp -r "$here/python" "$source"
    protoc --python_out="$source/src" --pyi_out="$source/src" --grpc_python_out="$source/src"
    touch "$source/src/antares/v1/py.typed"
    "$(python)" -m pip --quiet --disable-pip-version-check wheel --no-deps --wheel-dir "$folder" "$source" >&2 || away setuptools
    # Nothing of what made it is there.
    python3 -m venv "$home" >&2
    "$home/bin/pip" --quiet --disable-pip-version-check install "$folder"/antares_client-*.whl >&2 || away "what the wheel needs"
    executable client "exec '$home/bin/antares-client' \"\$@\""
}

make_npm() {
    command -v npm >/dev/null || missing npm
    [[ "$(node --version)" =~ ^v([0-9]+) && ${BASH_REMATCH[1]} -ge 20 ]] || missing "node 20"
    local source="$folder/source"
    cp -r "$here/node" "$source"
    cp -r "$proto/antares" "$source/antares"
    cd "$source"
    npm ci --silent --no-audit --no-fund --ignore-scripts >&2 || away "a package of package.json"
    npx proto-loader-gen-types --grpcLib=@grpc/grpc-js --outDir=src/generated --includeDirs=. --keepCase \
        --longs=String --enums=String --defaults --oneofs antares/v1/compiler.proto antares/v1/runner.proto >&2
    # Whole in the program, also where that is bundled.
    # shellcheck disable=SC2016 # JavaScript, not the shell, reads it.
    node -e 'const root = new (require("protobufjs").Root)();
        root.resolvePath = (origin, path) => path;
        root.loadSync(["antares/v1/compiler.proto", "antares/v1/runner.proto"], { keepCase: true });
        require("fs").writeFileSync("src/generated/messages.ts", `export default ${JSON.stringify(root)} as object;`)' >&2
    npx tsc >&2
    npm pack --silent --pack-destination "$folder" >&2
    mkdir -p "$folder/installed"
    # shellcheck disable=SC2016 # JavaScript, not the shell, reads it.
    node -p 'const { packages } = require("./package-lock.json");
        const pinned = Object.entries(packages).map(([path, { version }]) => [path.replace("node_modules/", ""), version]);
        JSON.stringify({ private: true, overrides: Object.fromEntries(pinned.filter(([name]) => name)) })' >"$folder/installed/package.json"
    cd "$folder/installed"
    npm install --silent --no-audit --no-fund --ignore-scripts "$folder"/antares-client-*.tgz >&2 || away "what the package needs"
    executable client "exec '$folder/installed/node_modules/.bin/antares-client' \"\$@\""
}

# go_code TARGET: the package antaresv1 of the module, made of the proto files.
go_code() {
    command -v go >/dev/null || missing go
    local target=$1 bin="$cache/go-protoc-$PROTOC_GEN_GO_VERSION-$PROTOC_GEN_GO_GRPC_VERSION" file map=()
    local module=github.com/antares-vm/antares/clients/go
    exec 9>"$cache/.lock-go-protoc"
    flock 9
    GOBIN="$bin" go install "google.golang.org/protobuf/cmd/protoc-gen-go@$PROTOC_GEN_GO_VERSION" >&2 || away protoc-gen-go
    GOBIN="$bin" go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$PROTOC_GEN_GO_GRPC_VERSION" >&2 \
        || away protoc-gen-go-grpc
    exec 9>&-
    rm -rf "$target/antaresv1"
    for file in "$proto"/antares/v1/*.proto; do
        file="antares/v1/$(basename "$file")"
        map+=("--go_opt=M$file=$module/antaresv1" "--go-grpc_opt=M$file=$module/antaresv1")
    done
    PATH="$bin:$PATH" protoc --go_out="$target" --go_opt="module=$module" \
        --go-grpc_out="$target" --go-grpc_opt="module=$module" "${map[@]}"
}

make_go() {
    command -v go >/dev/null || missing go
    local source="$folder/source"
    cp -r "$here/go" "$source"
    go_code "$source"
    # A program of somebody else, which has the module from there.
    mkdir -p "$folder/installed"
    cd "$folder/installed"
    cp "$here/go/example/main.go" .
    rm -f go.mod
    go mod init example.org/program >&2
    go mod edit -require=github.com/antares-vm/antares/clients/go@v0.0.0 -replace="github.com/antares-vm/antares/clients/go=$source"
    go mod tidy >&2 || away "a module of go.mod"
    CGO_ENABLED=0 go build -o "$folder/client" . >&2
}

case $language in
python | npm | go) "make_$language" ;;
go-code) go_code "$folder" ;;
*) echo "clients: python, npm, go or go-code, not $language" >&2; exit 2 ;;
esac
