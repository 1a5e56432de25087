#!/usr/bin/env bash
# The images of compiler, runner and both in one, with link-time optimisation: target/images/layout (OCI), and what is said
# about them beside it.
set -euo pipefail
cd "$(dirname "$0")/.."

out=${CARGO_TARGET_DIR:-target}/images
# What antares_build_info and the first line of the log say.
ANTARES_REVISION="$(git rev-parse HEAD)"
export ANTARES_REVISION
cargo build --profile dist --locked --package antares-cli --package antares-compiler-svc --package antares-runner-svc \
    --package antares-compile-worker --package antares-run-worker
rm -rf "$out"
python3 deploy/images/build.py "${CARGO_TARGET_DIR:-target}/dist" "$out"
echo "images: the layout is $out/layout; skopeo copy oci:$out/layout:runner docker://REGISTRY/antares/runner:TAG"
