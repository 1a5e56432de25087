#!/usr/bin/env bash
# Rewrites real scripts with `antares optimise` and prints a table: cycles before and after, windows, time.
# Takes the seconds that each may take (default 120), a program of the build (default target/release/antares),
# and a folder for reports and proofs, which scripts/check-proofs.sh reads (default: none are kept). What follows
# goes to `antares optimise` as it is, --grow say.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

seconds=${1:-120}
antares=${2:-target/release/antares}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
kept=${3:-$scratch/kept}
more=("${@:4}")

# Guests of this repository: name, argument. Those with -b are built with the B extension, and so is what is in Rust.
guests=(
    "sphincs-imc 1" "sphincs-b 1" "mldsa-imc 1" "mldsa-b 1" "rsa1024-imc 1" "rsa1024-b 1"
    "rsa1024-limbs64-imc 1" "rsa1024-limbs64-b 1" "bls12-381-imc 1" "bls12-381-b 1" "lua-imc 1" "lua-b 1"
    "secp256k1-imc 1" "secp256k1-b 1" "schnorr-imc 1" "schnorr-b 1" "sha256-imc 10" "sha256-b 10"
    "keccak-imc 10" "keccak-b 10" "blake2b-imc 10" "blake2b-b 10" "lz4-imc 1" "lz4-b 1" "sort-imc 1" "sort-b 1"
    "pairing 1"
)
# Published scripts, all without B, by the names that `published` gives them.
published=(
    "default lock, mock_tx.json" "sighash 0.5.4, two inputs" "multisig 0.6.0, two of three keys"
    "anyone_can_pay, the owner's key" "omni_lock, one key" "omni_lock, a key of Ethereum"
    "omni_lock, two of three keys" "ckb-js-vm, calls" "ckb-js-vm, text" "ckb-js-vm, numbers"
)

# number KEY FILE: a number of the report in FILE.
number() { sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" "$2" | head -n 1; }

# row NAME KIND ELF WORDS...: rewrites ELF and prints its line; KIND says to which sum it belongs.
row() {
    local name=$1 kind=$2 elf=$3 start=$SECONDS before after proved all folder
    shift 3
    folder=$kept/$(tr -c 'A-Za-z0-9\n' - <<<"$name")
    mkdir -p "$folder"
    if ! "$antares" optimise "$elf" -o "$folder/out" --budget-s "$seconds" --report "$folder/report.json" \
        --no-cache --smt-out "$folder" "${more[@]}" "$@" >"$scratch/said" 2>&1; then
        echo "| $name | | | | $(tail -n 1 "$scratch/said" | cut -c 1-100) | $((SECONDS - start)) s |"
        return
    fi
    before=$(number cycles_before "$folder/report.json")
    after=$(number cycles_after "$folder/report.json")
    proved=$(grep -c '"is_proved": true' "$folder/report.json" || true)
    all=$(grep -c '"is_proved": ' "$folder/report.json" || true)
    echo "$before $after" >>"$scratch/$kind"
    share=$(awk -v a="$before" -v b="$after" 'BEGIN { printf "%.1f", (a - b) * 100 / a }')
    echo "| $name | $before | $after | $share % | $proved of $all | $((SECONDS - start)) s |"
}

# mean TEXT FILE...: the geometric mean of what is left.
mean() {
    local text=$1
    shift
    cat "$@" | awk -v text="$text" \
        '{ sum += log($2 / $1) } END { if (NR) printf "%s, %d: %.1f %% fewer.\n", text, NR, (1 - exp(sum / NR)) * 100 }'
}

: >"$scratch/plain"
: >"$scratch/b"
: >"$scratch/published"
cargo run --quiet --package antares-tests --bin published -- "$scratch/scripts" >"$scratch/list"
echo "| script | cycles before | after | fewer | windows proved, of rewritten | time |"
echo "|---|---:|---:|---:|---:|---:|"
for name in "${published[@]}"; do
    IFS=$'\t' read -r _ elf transaction source < <(grep "^$name	" "$scratch/list") || continue
    if [ "$transaction" = - ]; then
        row "$name" published "$scratch/scripts/$elf" -- -e "$(cat "$source")"
    else
        row "$name" published "$scratch/scripts/$elf" --tx "$scratch/scripts/$transaction"
    fi
done
for line in "${guests[@]}"; do
    read -r name argument <<<"$line"
    cargo run --quiet --package antares-guests -- "$name" "$scratch/elf"
    case $name in *-imc) kind=plain ;; *) kind=b ;; esac
    row "$name" "$kind" "$scratch/elf" -- "$argument"
done
echo
mean "Published, without B" "$scratch/published"
mean "Of this repository, without B" "$scratch/plain"
mean "Of this repository, with B" "$scratch/b"
mean "All without B" "$scratch/published" "$scratch/plain"
mean "All" "$scratch/published" "$scratch/plain" "$scratch/b"
