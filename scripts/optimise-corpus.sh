#!/usr/bin/env bash
# Rewrites guests of this repository with `antares optimise` and prints a table: cycles before and after, time.
# Takes the seconds that each may take (default 120) and the command (default `target/release/antares optimise`).
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

seconds=${1:-120}
read -ra antares <<<"${2:-target/release/antares optimise}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Guests, all without the B extension, and their argument.
guests=(
    "secp256k1-imc 1" "secp256k1-small-imc 1" "schnorr-imc 1" "bls12-381-imc 1" "rsa1024-imc 1"
    "rsa1024-limbs64-imc 1" "mldsa-imc 1" "sphincs-imc 1" "sha256-imc 10" "keccak-imc 10" "blake2b-imc 10"
    "lz4-imc 1" "sort-imc 1" "lua-imc 1"
)

# number KEY: a number of the report.
number() { sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" "$scratch/report.json" | head -n 1; }

echo "| script | cycles before | after | fewer | functions left as they are | time |"
echo "|---|---:|---:|---:|---:|---:|"
for line in "${guests[@]}"; do
    read -r name argument <<<"$line"
    cargo run --quiet --package antares-guests -- "$name" "$scratch/elf" --relocations
    start=$SECONDS
    if ! "${antares[@]}" "$scratch/elf" -o "$scratch/out" --vm-version 2 --budget-s "$seconds" \
        --report "$scratch/report.json" -- "$argument" >"$scratch/said" 2>&1; then
        echo "| $name | | | | $(tail -n 1 "$scratch/said" | cut -c 1-100) | $((SECONDS - start)) s |"
        continue
    fi
    before=$(number cycles_before)
    after=$(number cycles_after)
    share=$(awk -v a="$before" -v b="$after" 'BEGIN { printf "%.1f", (a - b) * 100 / a }')
    left=$(grep -c '"why": ' "$scratch/report.json" || true)
    echo "| $name | $before | $after | $share % | $left | $((SECONDS - start)) s |"
done
