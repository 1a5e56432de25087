#!/usr/bin/env bash
# Builds the peers (qemu, Wasmtime, PolkaVM behind one program), then runs the bench with the arguments given. Peers that
# do not build are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

peers=${CARGO_TARGET_DIR:-target}/peers
if ! cargo build --quiet --release --locked --manifest-path bench/peers/Cargo.toml --target-dir "$peers"; then
    echo "bench: the peers do not all build here; trying qemu alone"
    cargo build --quiet --release --locked --no-default-features --manifest-path bench/peers/Cargo.toml --target-dir "$peers" ||
        echo "bench: no peers"
fi
cargo run --quiet --release --package antares-bench -- "$@"
