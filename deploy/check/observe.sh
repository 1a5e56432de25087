#!/usr/bin/env bash
# Starts `antares serve` from a build, makes a load of executions and fresh compiles, and lets dashboard.py judge
# dashboards and alerts against what Prometheus saw, and promtool an hour of the same.
#
#   deploy/check/observe.sh [ANTARES]      the binary; by default the newest build in $CARGO_TARGET_DIR or target/
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"

# shellcheck source=deploy/check/built.sh
. "$here/built.sh"
antares=${1:-$(newest antares)}
[[ -x $antares ]] || { echo "observe: no antares binary: cargo build first"; exit 1; }

scratch="$(mktemp -d)"
server=
store=
collector=
# shellcheck disable=SC2317  # called by the trap
finish() {
    for process in $server $store $collector; do { kill "$process" && wait "$process"; } 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap finish EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
grpc=$(free_port)
metrics=$(free_port)
s3=127.0.0.1:$(free_port)
"$("$here/tools.sh" gofakes3)" -backend memory -initialbucket observe -host "$s3" >"$scratch/s3" 2>&1 &
store=$!
otlp=127.0.0.1:$(free_port)
cat >"$scratch/collector.yaml" <<YAML
receivers: {otlp: {protocols: {grpc: {endpoint: "$otlp"}}}}
exporters: {debug: {}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
YAML
"$("$here/tools.sh" collector)" --config "file:$scratch/collector.yaml" >"$scratch/collector" 2>&1 &
collector=$!
export AWS_ENDPOINT_URL=http://$s3 AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
cat >"$scratch/antares.toml" <<TOML
[listen]
address = "127.0.0.1:$grpc"
[metrics]
address = "127.0.0.1:$metrics"
[cache]
dir = "$scratch/cache"
# The folder for temporary files may be on any.
allow_any_filesystem = true
[shared]
url = "s3://observe"
[trace]
endpoint = "http://$otlp"
sample_ratio = 1.0
TOML
"$antares" serve --config "$scratch/antares.toml" >"$scratch/log" 2>&1 &
server=$!
deadline=$((SECONDS + 60))
until curl --silent --fail "http://127.0.0.1:$metrics/healthz" >"$scratch/healthz"; do
    kill -0 "$server" 2>/dev/null || { echo "observe: antares serve ended:"; cat "$scratch/log"; exit 1; }
    ((SECONDS < deadline)) || { echo "observe: antares serve is not healthy after 60 s:"; cat "$scratch/log"; exit 1; }
    sleep 0.1
done

# The bytes behind an ELF mean nothing to it, but make it another script: each round is a fresh compile, and a cached one.
cat >"$scratch/round.sh" <<'ROUND'
set -eu
cp "$ELF" "$SCRATCH/script.elf"
printf '%s' "$ANTARES_ROUND" >>"$SCRATCH/script.elf"
"$ANTARES" run --tier auto --server "$SERVER" "$SCRATCH/script.elf"
"$ANTARES" run --tier native --server "$SERVER" "$SCRATCH/script.elf"
"$ANTARES" run --tier interpreter --server "$SERVER" "$SCRATCH/script.elf"
"$GRPCURL" -plaintext "${SERVER#http://}" antares.v1.ProfileService/ListProfiles
ROUND
GRPCURL="$("$here/tools.sh" grpcurl)"
export GRPCURL ANTARES=$antares ELF=$root/helm/antares/files/smoke.elf SCRATCH=$scratch SERVER=http://127.0.0.1:$grpc
python3 "$here/dashboard.py" --metrics "127.0.0.1:$metrics" --load "sh $scratch/round.sh" "${@:2}"
# An hour of it in simulated time.
python3 "$here/healthy_hour.py" --metrics "127.0.0.1:$metrics" --load "sh $scratch/round.sh"
python3 "$here/outages.py"
