#!/usr/bin/env bash
# Builds server and workers for release, then measures what a call costs beside its script. Takes --quick, and --ghz for the
# throughput once more by ghz.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

wants_ghz=false
words=()
for word in "$@"; do
    if [ "$word" = --ghz ]; then wants_ghz=true; else words+=("$word"); fi
done
cargo build --quiet --release --locked -p antares-cli -p antares-run-worker -p antares-compile-worker -p antares-bench
cargo run --quiet --release --locked --package antares-bench -- service ${words[@]+"${words[@]}"}
if $wants_ghz; then
    scripts/bench-ghz.sh
fi
