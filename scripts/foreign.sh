#!/usr/bin/env bash
# Builds the program ckb-debugger for systems that have neither our fence nor native code, and compares what it says
# under their emulators with what the published program printed. Prints a line for each system.
#
#   scripts/foreign.sh                    the first two, which are known to work
#   scripts/foreign.sh wasi|aarch64|windows...
#
# The programs are left in ${CARGO_TARGET_DIR:-target}/foreign.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
say() { printf 'foreign: %s\n' "$*"; }
fail() { printf 'foreign: error: %s\n' "$*" >&2; exit 1; }

triple_of() {
    case $1 in
    wasi) echo wasm32-wasip1 ;;
    aarch64) echo aarch64-unknown-linux-gnu ;;
    windows) echo x86_64-pc-windows-gnu ;;
    *) fail "no such system: $1" ;;
    esac
}

# C and linkers: clang has WebAssembly, the others come with a compiler of their own.
export CC_wasm32_wasip1=clang-22 AR_wasm32_wasip1=llvm-ar-22 CFLAGS_wasm32_wasip1=-ffreestanding
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
# Small: somebody waits for the download.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=${ANTARES_FOREIGN_OPT_LEVEL:-2} CARGO_PROFILE_RELEASE_LTO=thin
export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=true CARGO_PROFILE_RELEASE_PANIC=abort

build() {
    local triple=$1
    if command -v rustup >/dev/null; then
        rustup target list --installed | grep -qx "$triple" || rustup target add "$triple"
    fi
    CARGO_TARGET_DIR=$target/foreign cargo build --release --target "$triple" --package antares-portable
}

# What runs a program of a system here.
runner() {
    case $1 in
    wasi) echo "node --no-warnings --single-threaded $PWD/scripts/foreign/wasi.mjs" ;;
    aarch64) echo "qemu-aarch64 -L /usr/aarch64-linux-gnu" ;;
    windows) echo "wine64" ;;
    esac
}

check() {
    local system=$1 triple program
    triple=$(triple_of "$system")
    build "$triple"
    program=$target/foreign/$triple/release/antares-portable
    for ending in .wasm .exe; do
        [ ! -e "$program$ending" ] || program=$program$ending
    done
    say "$triple: $(stat -c %s "$program") bytes, $(gzip -9c "$program" | wc -c) as gzip"
    ANTARES_FOREIGN="$(runner "$system") $program" WINEDEBUG=-all cargo test --package antares-portable --test goldens
    say "$triple: says what the published program says"
    [ "$system" != wasi ] || page "$program"
}

# The page of docs/play with the program, and whether it works in a browser.
page() {
    local folder=$target/foreign/play
    mkdir -p "$folder"
    cp docs/play/* "$folder"
    cp "$1" "$folder/ckb-debugger.wasm"
    say "the page: $folder"
    if [ -x /usr/bin/chromium ] && python3 -c 'import playwright' 2>/dev/null; then
        python3 scripts/foreign/play.py "$folder" "$(examples)"
    else
        say "the page was not opened: it takes chromium and Python's playwright"
    fi
}

# The folder of ckb-debugger's own examples.
examples() {
    cargo fetch --quiet --manifest-path tests/published/Cargo.toml
    find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name ckb-debugger-1.1.1 -exec echo {}/examples \; -quit
}

if [ $# -eq 0 ]; then
    set -- wasi aarch64
fi
for system in "$@"; do
    check "$system"
done
