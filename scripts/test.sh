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
# One thread more than processors: many tests wait for a while.
run_tests() { RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))} logged cargo test --workspace --no-fail-fast; }
check_chart() { logged deploy/check/chart.sh; }

# logged COMMAND...: runs it, shows what it says, and keeps that. A process that it leaves behind has its output still,
# and would be waited for until it ends: it is told and ended.
logged() {
    local status=0 to shows pipe
    exec {to}> >(tee -a "$log")
    shows=$!
    pipe=$(readlink "/proc/$shows/fd/0") || pipe=
    "$@" >&"$to" 2>&1 {to}>&- || status=$?
    exec {to}>&-
    end_those_left "$shows" "$pipe"
    wait "$shows" || true
    return $status
}

# end_those_left PROCESS PIPE: ends whoever else has PIPE open, after a while in which they may end by themselves.
end_those_left() {
    local left number
    [ -n "$2" ] || return 0
    for _ in $(seq 50); do
        left=$(find /proc/[0-9]*/fd -lname "${2//[\[\]]/?}" 2>/dev/null | cut -d / -f 3 | sort -u | grep -vx "$1" || true)
        [ -n "$left" ] || return 0
        sleep 0.1
    done
    for number in $left; do
        echo "left behind, and ended now: $number $(tr '\0' ' ' <"/proc/$number/cmdline" | cut -c 1-300)" | tee -a "$log"
        kill -KILL "$number" || true
    done
}

# One check to us: every expression of dashboards and alerts against a real Prometheus that scrapes a real service.
check_dashboard() {
    if logged deploy/check/observe.sh; then
        echo "dashboard: 1 passed, 0 failed, 0 skipped" | tee -a "$log"
    else
        echo "dashboard: 0 passed, 1 failed, 0 skipped" | tee -a "$log"
        return 1
    fi
}

# One check to us: a real collector and the real pprof read the profiles of a real service.
check_profiles() {
    if logged python3 deploy/check/profiles.py "${CARGO_TARGET_DIR:-target}/debug/antares"; then
        echo "profiles: 1 passed, 0 failed, 0 skipped" | tee -a "$log"
    else
        echo "profiles: 0 passed, 1 failed, 0 skipped" | tee -a "$log"
        return 1
    fi
}

# Each kind of client counts; one that cannot be fetched is skipped.
check_clients() { logged timeout 480 clients/matrix.py; }

# One check to us: the services run a script in a container that has nothing that a restricted pod has not.
check_pod() {
    local status=0
    deploy/check/pod.sh "${CARGO_TARGET_DIR:-target}/debug" || status=$?
    case $status in
    0) echo "pod: 1 passed, 0 failed, 0 skipped" | tee -a "$log" ;;
    # It has said why.
    77) echo "pod: 0 passed, 0 failed, 1 skipped" | tee -a "$log" ;;
    *)
        echo "pod: 0 passed, 1 failed, 0 skipped" | tee -a "$log"
        return 1
        ;;
    esac
}

# What failed, and the first lines of what it said: logs are often read from their end.
show_failures() {
    awk '
        /^---- .* stdout ----$/ { inside = 1; print }
        /^(failures:|test result: .*)$/ { inside = left = 0 }
        inside && /^thread .* panicked at / { left = 8 }
        # What the checks of dashboards and profiles found.
        /^(WRONG|observe|profiles|matrix): / { print substr($0, 1, 600); next }
        /^Traceback / { left = 12; print; next }
        # What a server that the test started had to say.
        inside && /"(WARN|ERROR)"/ { print substr($0, 1, 600); next }
        /^error: test failed|process didn.t exit successfully|^test .* FAILED$/ { print substr($0, 1, 300); next }
        left > 0 && !/^$/ { print substr($0, 1, 300); left-- }' "$log"
}

# sum WORD: over the closing lines of all test binaries ("test result: ok. 12 passed; 0 failed; 1 ignored; ...") and of
# the checks that count for themselves ("chart: 64 passed, 0 failed, 0 skipped").
sum() {
    awk -v word="$1" '
        /^test result: / || /^[a-z]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {
            for (i = 2; i <= NF; i++) if ($i ~ "^" word "[;,]?$") n += $(i - 1)
        }
        END { print n + 0 }' "$log"
}

# Tests that meet a full disk fail without naming it.
disk() { echo "disk: $(df --output=avail -BG . | tail -n 1 | tr -d ' G') GB free"; }

disk
step "cargo build" build
if [ ${#steps_failed[@]} -eq 0 ]; then
    step "cargo test" run_tests
    step "chart" check_chart
    step "dashboard" check_dashboard
    step "profiles" check_profiles
    step "clients" check_clients
    step "pod" check_pod
fi

disk
[ ${#steps_failed[@]} -eq 0 ] || show_failures
# Suites that died in the middle have counted nothing.
died=$(awk '/process didn.t exit successfully: .*\(signal: / { n++ } END { print n + 0 }' "$log")
failed=$(($(sum failed) + died))
skipped=$(($(sum skipped) + $(sum ignored)))
echo
for name in ${steps_failed[@]+"${steps_failed[@]}"}; do
    echo "failed: $name"
done
# A step that failed before it could count is a failure too.
if [ ${#steps_failed[@]} -gt 0 ] && [ "$failed" -eq 0 ]; then
    failed=${#steps_failed[@]}
fi
echo "total: $(sum passed) passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
