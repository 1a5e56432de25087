#!/usr/bin/env bash
# Builds the program ckb-debugger for systems that have neither our fence nor native code, and compares what it says
# under their emulators with what the published program printed. Prints a line for each system.
#
#   scripts/foreign.sh                    all that can be had here; says what is skipped, and why
#   scripts/foreign.sh wasi|aarch64|windows|macos|macos-intel...    those
#
# The programs are left in ${CARGO_TARGET_DIR:-target}/foreign. Of macOS there is no emulator: those are built alone.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

# zig has what programs for macOS are linked with; playwright opens the page.
zig_version="0.17.1"
zigbuild_version="0.24.1"
playwright_version="1.65.2"

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
say() { printf 'foreign: %s\n' "$*"; }
fail() { printf 'foreign: error: %s\n' "$*" >&2; exit 1; }

triple_of() {
    case $1 in
    wasi) echo wasm32-wasip1 ;;
    aarch64) echo aarch64-unknown-linux-gnu ;;
    windows) echo x86_64-pc-windows-gnu ;;
    macos) echo aarch64-apple-darwin ;;
    macos-intel) echo x86_64-apple-darwin ;;
    *) fail "no such system: $1" ;;
    esac
}

# C and linkers: clang has WebAssembly, zig has macOS, the others come with a compiler of their own.
export CC_wasm32_wasip1=clang-22 AR_wasm32_wasip1=llvm-ar-22 CFLAGS_wasm32_wasip1=-ffreestanding
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
# The oldest macOS that Rust's standard library is for on ARM; zig would take a newer one.
export MACOSX_DEPLOYMENT_TARGET=11.0
# Small: somebody waits for the download.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=${ANTARES_FOREIGN_OPT_LEVEL:-2} CARGO_PROFILE_RELEASE_LTO=thin
export CARGO_PROFILE_RELEASE_DEBUG=false CARGO_PROFILE_RELEASE_STRIP=true CARGO_PROFILE_RELEASE_PANIC=abort

# Python's packages NAME==VERSION..., in an environment of their own. Prints its folder.
python_with() {
    local home="$tools/python-${*//==/-}"
    home=${home// /-}
    if [ ! -e "$home/ready" ]; then
        { rm -rf "$home" && python3 -m venv "$home" &&
            "$home/bin/pip" install --quiet --disable-pip-version-check "$@"; } >&2 || return 1
        touch "$home/ready"
    fi
    echo "$home"
}

# Fails if a program for the system cannot be built here, and says why.
can_build() {
    local triple=$1
    if command -v rustup >/dev/null && ! rustup target list --installed | grep -qx "$triple"; then
        rustup target add "$triple" || return 1
    fi
    case $triple in
    *-apple-*) zig=$(python_with "ziglang==$zig_version" "cargo-zigbuild==$zigbuild_version") ;;
    esac
}

build() {
    local triple=$1 command=build
    [[ $triple != *-apple-* ]] || command=zigbuild
    PATH="${zig:+$zig/bin:}$PATH" CARGO_TARGET_DIR=$target/foreign \
        cargo $command --release --target "$triple" --package antares-debugger --bin ckb-debugger-portable --no-default-features
}

# Debian's wine64 is on no PATH without the package wine, which wants 32 bits too.
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
wineserver=$(command -v wineserver || echo /usr/lib/wine/wineserver)

# What runs a program of a system here.
runner() {
    case $1 in
    wasi) echo "node --no-warnings --single-threaded $PWD/scripts/foreign/wasi.mjs" ;;
    aarch64) echo "qemu-aarch64 -L /usr/aarch64-linux-gnu" ;;
    windows) echo "$wine" ;;
    esac
}

# A Windows in a temporary folder, whose services are there before anybody waits for their output's end.
start_wine() {
    WINEPREFIX=$(mktemp -d)
    export WINEPREFIX WINEDEBUG=-all
    trap end_wine EXIT
    "$wineserver" -p </dev/null >/dev/null 2>&1
    "$wine" wineboot --init </dev/null >/dev/null 2>&1
    # Absent before version 9. Not beside the program, where somebody would ship it.
    local random=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
    [ -e "$random" ] ||
        x86_64-w64-mingw32-gcc -shared -O2 -s -o "$random" scripts/foreign/bcryptprimitives.c -ladvapi32
}

end_wine() {
    "$wineserver" -k || true
    rm -rf "$WINEPREFIX"
}

check() {
    local system=$1 triple program
    triple=$(triple_of "$system")
    if ! can_build "$triple"; then
        [ "$2" = wanted ] && fail "$triple: it cannot be built here, see above"
        say "$triple: skipped: it cannot be built here, see above"
        return
    fi
    build "$triple"
    program=$target/foreign/$triple/release/ckb-debugger-portable
    for ending in .wasm .exe; do
        [ ! -e "$program$ending" ] || program=$program$ending
    done
    say "$triple: $(stat -c %s "$program") bytes, $(gzip -9c "$program" | wc -c) as gzip"
    case $system in
    macos*)
        say "$triple: built, not run: there is no such system here"
        return
        ;;
    windows)
        start_wine
        # What Windows has in its paths is tested there.
        CARGO_TARGET_DIR=$target/foreign CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=$wine \
            cargo test --package antares-debugger --no-default-features --lib --target "$triple"
        ;;
    esac
    ANTARES_FOREIGN="$(runner "$system") $program" cargo test --package antares-debugger --test portable
    say "$triple: says what the published program says"
    case $system in
    windows) end_wine && trap - EXIT ;;
    wasi) page "$program" ;;
    esac
}

# The page of docs/play with the program, and whether it works in a browser.
page() {
    local folder=$target/foreign/play python
    mkdir -p "$folder"
    cp docs/play/* "$folder"
    cp "$1" "$folder/ckb-debugger.wasm"
    say "the page: $folder"
    if [ ! -x /usr/bin/chromium ]; then
        say "the page: not opened: there is no chromium"
    elif ! python=$(python_with "playwright==$playwright_version"); then
        say "the page: not opened: Python's playwright cannot be had, see above"
    else
        "$python/bin/python3" scripts/foreign/play.py "$folder" "$(examples)"
    fi
}

# The folder of ckb-debugger's own examples.
examples() {
    cargo fetch --quiet --manifest-path tests/published/Cargo.toml
    find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name ckb-debugger-1.1.1 -exec echo {}/examples \; -quit
}

if [ $# -gt 0 ]; then
    for system in "$@"; do
        check "$system" wanted
    done
else
    for system in wasi aarch64 windows macos macos-intel; do
        check "$system" if-possible
    done
fi
