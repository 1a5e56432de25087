#!/usr/bin/env bash
# The images as in a pod of the restricted level, without Kubernetes: made from the folder of binaries (default target/release), unpacked
# by umoci, which reads what it unpacks by its digests, and run by runc as pod.py says. Ends with status 77, and says why, where the
# machine cannot make containers: without root, runc or umoci, or inside a container that may not make others.
set -euo pipefail
cd "$(dirname "$0")/../.."

binaries=$(readlink -f "${1:-${CARGO_TARGET_DIR:-target}/release}")

# What `make test` counts as skipped.
cannot() {
    echo "pod: skipped: $*" >&2
    exit 77
}

for tool in runc umoci; do
    command -v $tool >/dev/null || cannot "there is no $tool here (Debian package $tool)"
done
[ "$(id -u)" = 0 ] || cannot "making a container needs root here; inside nobody is"

guests=$binaries/guests
[ -x "$guests" ] || { echo "pod: error: $guests is not built (cargo build --package antares-guests)" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Folders of the host that the container's user must be able to pass through.
chmod 755 "$scratch"

# The least that runc must be able to do.
mkdir -p "$scratch"/least/rootfs/{usr,proc}
for link in bin lib lib64; do
    ln -s "usr/$link" "$scratch/least/rootfs/$link"
done
python3 deploy/check/pod.py least "$scratch/least" >"$scratch/least/config.json"
least=$(timeout 20 runc run --bundle "$scratch/least" "antares-least-$$" </dev/null 2>&1) ||
    cannot "runc cannot run /bin/true in a container on this machine: $least"

"$guests" secp256k1 "$scratch/secp256k1"
chmod 644 "$scratch/secp256k1"
python3 deploy/images/build.py "$binaries" "$scratch/images"
for image in compiler runner antares; do
    umoci unpack --image "$scratch/images/layout:$image" "$scratch/$image"
    chmod 755 "$scratch/$image" "$scratch/$image/rootfs"
done
python3 deploy/check/pod.py check "$scratch"
echo "pod: ok"
