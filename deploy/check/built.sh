# Sourced by the checks: which build of ours they look at.
# shellcheck shell=bash

# newest NAME: the newest build of a program in $CARGO_TARGET_DIR or target/, if there is one.
newest() {
    local target=${CARGO_TARGET_DIR:-$(dirname "${BASH_SOURCE[0]}")/../../target}
    # Folders that are not there are no error.
    { find "$target/debug" "$target/release" -maxdepth 1 -name "$1" -type f -printf '%T@ %p\n' 2>/dev/null || true; } |
        sort -rn | head -n 1 | cut -d ' ' -f 2
}
