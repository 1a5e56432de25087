#!/usr/bin/env bash
# Builds the peers (qemu, Wasmtime, PolkaVM and ckb-vm-contrib behind one program), then runs the bench with the arguments
# given. Peers that do not build are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

peers=${CARGO_TARGET_DIR:-target}/peers
export LLVM_SYS_150_PREFIX=${LLVM_SYS_150_PREFIX:-/usr/lib/llvm-15}

build_peers() { cargo build --quiet --release --locked --manifest-path tools/bench/peers/Cargo.toml --target-dir "$peers" "$@"; }

if ! build_peers --features contrib; then
    echo "bench: the peers do not all build here; trying without ckb-vm-contrib, which needs LLVM 15"
    build_peers || build_peers --no-default-features || echo "bench: no peers"
fi
cargo run --quiet --release --package antares-bench -- "$@"
