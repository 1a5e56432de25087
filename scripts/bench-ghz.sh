#!/usr/bin/env bash
# The unary throughput of `make bench-service` once more, by a load generator of strangers: ghz, which learns the service by
# reflection. Takes seconds for each number of clients (default 5). Called by `scripts/bench-service.sh --ghz`.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/env.sh
. scripts/env.sh

seconds=${1:-5}
binaries=$(readlink -f "${CARGO_TARGET_DIR:-target}/release")
ghz=$(deploy/check/tools.sh ghz)
data=$(mktemp -d)
server=
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$data"
}
trap clean_up EXIT

printf '[metrics]\naddress = ""\n[cache]\nallow_any_filesystem = true\n' >"$data/antares.toml"
"$binaries/antares" serve --listen 127.0.0.1:0 --config "$data/antares.toml" --data "$data/store" >"$data/log" 2>&1 &
server=$!
address=
for _ in $(seq 200); do
    address=$(grep -oE '127\.0\.0\.1:[1-9][0-9]*' "$data/log" | head -n 1) && break
    sleep 0.05
done
[ -n "$address" ] || { cat "$data/log" >&2; exit 1; }

# The first call brings the script, the next ones name it.
elf=helm/antares/files/smoke.elf
for _ in $(seq 3); do
    "$binaries/antares" run "$elf" --server "$address" --json >/dev/null
    sleep 0.5
done
call="{\"script\": {\"sha256\": \"$(sha256sum "$elf" | cut -d ' ' -f 1)\"}}"
printf '%8s %12s %10s %10s %8s\n' clients calls/s 'p50, us' 'p99, us' failed
for clients in 1 2 4 16 64 256; do
    connections=$((clients < 4 ? clients : 4))
    "$ghz" --insecure --call antares.v1.RunnerService/Execute --data "$call" --format json --skipFirst 50 \
        --concurrency "$clients" --connections "$connections" --duration "${seconds}s" --duration-stop wait "$address" |
        python3 -c '
import json
import sys

report = json.load(sys.stdin)
at = {row["percentage"]: row["latency"] / 1e3 for row in report["latencyDistribution"]}
failed = sum(report["errorDistribution"].values())
print("%8s %12.0f %10.0f %10.0f %8d" % (sys.argv[1], report["rps"], at[50], at[99], failed))
sys.exit(failed != 0)' "$clients"
done
