#!/usr/bin/env bash
# Every test there is, in one target directory; ends with the counts over all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The workers are processes of their own: cargo test alone would not build them for the packages that start them.
build() { cargo build --quiet --workspace --all-targets; }

run_tests() { cargo test --workspace --no-fail-fast 2>&1 | tee "$log"; }

# Sums the closing lines of all test binaries: "test result: ok. 12 passed; 0 failed; 1 ignored; ...".
count() { sed -n "s/^test result: .* \([0-9][0-9]*\) $1;.*/\1/p" "$log" | paste -sd+ | bc_sum; }
bc_sum() { read -r sum || sum=0; echo $((sum)); }

step "build everything" build
if [ ${#steps_failed[@]} -eq 0 ]; then
    step "cargo test" run_tests
fi
for check in deploy/check/chart.sh deploy/check/dashboard.sh; do
    if [ -x "$check" ]; then
        step "$check" "$check"
    fi
done

# A test that could not run here prints "skipped: REASON" and passes; it is counted apart.
skipped=$(grep -c '^skipped: ' "$log" || true)
passed=$(($(count passed) - skipped + steps_passed))
failed=$(($(count failed) + ${#steps_failed[@]}))
printf 'failed step: %s\n' ${steps_failed[@]+"${steps_failed[@]}"} | grep -v ': $' || true
echo "total: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
