#!/usr/bin/env bash
# Every test there is, in one target directory; ends with the counts over all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# The workers are processes of their own: cargo test alone would not build them for the packages that start them.
build() { cargo build --workspace --all-targets; }

run_tests() { cargo test --workspace --no-fail-fast 2>&1 | tee "$log"; }

# sum WORD: over the closing lines of all test binaries, "test result: ok. 12 passed; 0 failed; 1 ignored; ...".
sum() { awk -v word="$1" '/^test result: / { for (i = 2; i <= NF; i++) if ($i ~ "^" word ";") n += $(i - 1) } END { print n + 0 }' "$log"; }

step "cargo build" build
if [ ${#steps_failed[@]} -eq 0 ]; then
    step "cargo test" run_tests
fi
step "chart" deploy/check/chart.sh

echo
for name in ${steps_failed[@]+"${steps_failed[@]}"}; do
    echo "failed: $name"
done
failed=$(($(sum failed) + ${#steps_failed[@]}))
passed=$(($(sum passed) + steps_passed))
# A test that cannot run on this machine passes and says so; it is counted apart.
skipped=$(grep -c '^skipped: ' "$log" || true)
echo "total: $((passed - skipped)) passed, $failed failed, $((skipped + $(sum ignored))) skipped"
[ "$failed" -eq 0 ]
