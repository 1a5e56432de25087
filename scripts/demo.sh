#!/usr/bin/env bash
# The main job on this machine, end to end: a real script is uploaded over gRPC, compiled by LLVM to a shared object, kept in
# sled under its content hash, run in a jailed worker, and run again from the cache. Leaves nothing behind but the build.
set -euo pipefail
cd "$(dirname "$0")/.."

# Signatures that the script verifies in one run, and runs of which the median is shown.
signatures=4
repeats=9
# How long the server may take to listen, and to stop, seconds.
start_max=60
stop_max=30
# How long the full compile may take behind the first run, seconds.
full_max=300

scratch=$(mktemp -d)
server_pid=

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

fail() {
    printf '\ndemo: error: %s\n' "$*" >&2
    if [ -s "$scratch/serve.log" ]; then
        printf 'demo: the last lines of the server:\n' >&2
        tail -n 20 "$scratch/serve.log" >&2
    fi
    exit 1
}

# Ends the server as an operator would; one that does not end in time is a fault and is killed.
stop_server() {
    local pid=$server_pid waited=0
    server_pid=
    kill -TERM "$pid" 2>/dev/null || return 0
    while kill -0 "$pid" 2>/dev/null; do
        if [ "$waited" -ge $((stop_max * 10)) ]; then
            kill -KILL "$pid"
            fail "the server did not stop within $stop_max s"
        fi
        sleep 0.1
        waited=$((waited + 1))
    done
    wait "$pid" || fail "the server ended with status $?"
}

clean_up() {
    [ -z "$server_pid" ] || kill -KILL "$server_pid" 2>/dev/null || true
    rm -rf "$scratch"
}
trap clean_up EXIT

# Waits until the server's log says where it listens; sets `url`.
wait_for_server() {
    local waited=0
    while ! url=$(grep -oEm 1 '127\.0\.0\.1:[0-9]+' "$scratch/serve.log"); do
        kill -0 "$server_pid" 2>/dev/null || fail "the server ended before it listened"
        [ "$waited" -lt $((start_max * 10)) ] || fail "the server did not listen within $start_max s"
        sleep 0.1
        waited=$((waited + 1))
    done
}

# number KEY FILE: a number of the JSON object in FILE.
number() { sed -n "s/.*\"$1\":\(-\{0,1\}[0-9][0-9]*\).*/\1/p" "$2"; }
# word KEY FILE: a text of it.
word() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$2"; }

# run FILE ARGS...: runs the script on the server, the JSON object goes to FILE.
run() {
    local out=$1
    shift
    "$antares" run "$script" --server "$url" --json "$@" -- "$signatures" >"$out" || fail "antares run ended with status $?: $(cat "$out")"
    [ "$(word outcome "$out") $(number exit_code "$out")" = "exit 0" ] || fail "the script did not exit with 0: $(cat "$out")"
}

# wait_for_full: runs until the server has the full tier's code.
wait_for_full() {
    local waited=0
    while run "$scratch/full.json" --tier native && [ "$(word code_tier "$scratch/full.json")" != full ]; do
        [ "$waited" -lt $((full_max * 5)) ] || fail "no full code within $full_max s: $(cat "$scratch/full.json")"
        sleep 0.2
        waited=$((waited + 1))
    done
}

# median_us ARGS...: median of `run_us` over several runs.
median_us() {
    local i
    for ((i = 0; i < repeats; i++)); do
        run "$scratch/repeat.json" "$@"
        number run_us "$scratch/repeat.json"
    done | sort -n | sed -n "$((repeats / 2 + 1))p"
}

say "1. Build (the first time takes some minutes)"
echo "Left out, to be sooner: nothing that serves calls is optimised; what compiles and runs scripts is."
echo "What is meant for use comes from \`cargo build --release\`."
cargo build --profile demo --package antares-cli --package antares-run-worker --package antares-compile-worker --package antares-guests
target=$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
antares=$target/demo/antares
"$antares" --version

say "2. Build the script: ECDSA verification on secp256k1, from the C sources of the crate secp256k1-sys"
script=$scratch/secp256k1
cargo run --quiet --profile demo --package antares-guests -- secp256k1 "$script"
echo "$(wc -c <"$script") bytes of RISC-V ELF"
"$antares" explain "$script" --stage hash

say "3. Start the services on this machine's loopback, with an empty cache"
# Any free port, and no metrics page: a server that already runs on this machine is not disturbed.
# The folder for temporary files may be on a file system that no one should keep a cache on; this one is for minutes.
printf '[metrics]\naddress = ""\n[cache]\nallow_any_filesystem = true\n' >"$scratch/serve.toml"
"$antares" serve --config "$scratch/serve.toml" --listen 127.0.0.1:0 --data "$scratch/data" >"$scratch/serve.log" 2>&1 &
server_pid=$!
wait_for_server
echo "listening on $url, data in $scratch/data"

say "4. Upload, compile, store, run: $signatures signatures"
run "$scratch/first.json" --tier native
echo "\$ antares run secp256k1 --server $url --tier native --json -- $signatures"
cat "$scratch/first.json"

say "5. Once more: now from the cache"
run "$scratch/second.json" --tier native
"$antares" run "$script" --server "$url" --tier native -- "$signatures"
[ "$(word cache "$scratch/first.json") $(word cache "$scratch/second.json")" = "miss hit" ] ||
    fail "expected a miss, then a hit: $(word cache "$scratch/first.json"), $(word cache "$scratch/second.json")"

say "6. The same in ckb-vm's interpreter alone, and the speed of all (medians of $repeats runs)"
run "$scratch/interpreter.json" --tier interpreter
for key in cycles load_cycles; do
    [ "$(number $key "$scratch/first.json")" = "$(number $key "$scratch/interpreter.json")" ] ||
        fail "$key differ: native $(number $key "$scratch/first.json"), interpreter $(number $key "$scratch/interpreter.json")"
done
interpreter_us=$(median_us --tier interpreter)
# The first runs have the baseline's code; how many of them there are depends on the machine.
[ "$(word code_tier "$scratch/first.json")" = baseline ] || fail "the first run had no baseline code: $(cat "$scratch/first.json")"
baseline_us=$(number run_us "$scratch/first.json")
say "7. Wait for the full compile, which goes on behind the first runs, and measure its code"
wait_for_full
native_us=$(median_us --tier native)
[ "$(word code_tier "$scratch/repeat.json")" = full ] || fail "the full code is gone: $(cat "$scratch/repeat.json")"

say "8. Verify a whole transaction: examples/transaction.json, whose lock is a script too"
"$antares" verify --tx examples/transaction.json --server "$url" || fail "antares verify ended with status $?"
stop_server

cat <<END
   exit code    0 in both tiers
   cycles       $(number cycles "$scratch/first.json") in both tiers, $(number interpreted_cycles "$scratch/second.json") of them interpreted in the native run
   compile      $(number compile_ms "$scratch/first.json") ms once, then $(number compile_ms "$scratch/second.json") ms
   baseline     $baseline_us us, the first run: native code at once
   full         $native_us us: native code after the full compile
   interpreter  $interpreter_us us: $(awk "BEGIN { printf \"%.1f\", $interpreter_us / $native_us }") times as long

The server has stopped; its data is gone. \`antares run --help\` says what else there is.
END
