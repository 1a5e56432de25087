#!/usr/bin/env bash
# Builds server and workers for release, then measures what a call costs beside its script. Takes --quick.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

cargo build --quiet --release --locked -p antares-cli -p antares-run-worker -p antares-compile-worker
cargo run --quiet --release --locked --package antares-bench -- service "$@"
