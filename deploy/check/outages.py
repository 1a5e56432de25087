"""Every state in which a component refuses calls or does not serve fires an alert within ten minutes, on the series of each shipped way of
scraping. Promtool runs the rules; the table of what fired when stands in deploy/RUNBOOK.md. drill.py makes each state with real processes.

Usage: outages.py [--write]      without it: status 1 if a state has no alert in time, or the runbook's table is another
"""

import pathlib
import re
import sys

import drill
import scraping

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/prometheus/antares.rules.yml"
RUNBOOK = ROOT / "deploy/RUNBOOK.md"
BEGIN, END = "<!-- From outages.py. -->", "<!-- The end of it. -->"
# Minutes that all is well, and within which an alert must follow.
WELL, LATEST = 60, 10
# What each state is to Prometheus: series as they are before and from then on, and the alert that is expected.
STATES = {
    "a process is gone, or does not start (configuration, a missing layer)": ("AntaresDown", {"up{}": ("1", "0")}),
    "all targets are gone": ("AntaresAbsent", {"up{}": ("1", "stale"), "antares_build_info{}": ("1", "stale"), 'antares_serving{service="antares.v1.RunnerService"}': ("1", "stale")}),
    "all runners leave the discovery while a compiler lives": ("AntaresGone", {'antares_serving{service="antares.v1.RunnerService"}': ("1", "stale"), 'antares_serving{service="antares.v1.CompilerService"}': ("1", "1")}),
    "the store cannot be opened (`unavailable`)": ("AntaresCacheUnavailable", {'antares_cache_state{state="unavailable"}': ("0", "1"), 'antares_serving{service="antares.v1.CompilerService"}': ("1", "0")}),
    "the store's directory is gone (`lost`)": ("AntaresNotServing", {'antares_cache_state{state="lost"}': ("0", "1"), 'antares_serving{service="antares.v1.CompilerService"}': ("1", "0")}),
    "no space under the store (`no_space`)": ("AntaresNotServing", {'antares_cache_state{state="no_space"}': ("0", "1"), 'antares_serving{service="antares.v1.CompilerService"}': ("1", "0")}),
    "workers cannot be started": ("AntaresNotServing", {'antares_serving{service="antares.v1.RunnerService"}': ("1", "0")}),
    "no compiler answers a runner, which interprets": ("AntaresNoCompiler", {'antares_fallbacks_total{reason="source_unavailable"}': ("0", "+60"), 'antares_guest_cycles_total{tier="interpreter"}': ("0", "+6000"), 'antares_guest_cycles_total{tier="native"}': ("0", "+60")}),
    "the kernel forks no workers": ("AntaresWorkersNotForked", {'antares_workers_not_forked_total{role="run"}': ("0", "+5")}),
    "uploads find the volume full": ("AntaresUploadsRefused", {'antares_uploads_refused_total{reason="disk_full"}': ("0", "+5")}),
    "uploads find no room among uploads": ("AntaresUploadsRefused", {'antares_uploads_refused_total{reason="upload_bytes"}': ("0", "+5")}),
    "the store's budget is used up": ("AntaresCacheRejects", {"antares_cache_rejected_total{}": ("0", "+5")}),
    "the audit log cannot be written (`audit.required`: calls are refused)": ("AntaresAuditBroken", {"antares_audit_broken{}": ("0", "1")}),
    "a certificate has ended": ("AntaresCertificateLastDay", {'antares_certificate_expiry_timestamp_seconds{file="server"}': ("9999999", "1")}),
    "a certificate is not valid yet": ("AntaresCertificateNotYetValid", {'antares_certificate_begin_timestamp_seconds{file="server"}': ("1", "9999999")}),
    "calls find no place": ("AntaresCallsRefused", {'antares_calls_refused_total{scope="server"}': ("0", "+60")}),
    "the queue is full (`runner.queue_max`)": ("AntaresTurnedAway", {'antares_executions_total{outcome="queue_full"}': ("0", "+60")}),
    "other room is used up (bytes, uploads, downloads, operations, pins, workers, places of a peer)": ("AntaresTurnedAway", {'rpc_server_call_duration_seconds_count{rpc_method="antares.v1.CompilerService/Upload", rpc_response_status_code="RESOURCE_EXHAUSTED"}': ("0", "+60"), 'antares_quota_refused_total{quota="calls_max"}': ("0", "0")}),
    "connections find no place": ("AntaresConnectionsRefused", {'antares_connections_closed_total{listener="grpc", reason="full"}': ("0", "+60")}),
    "handshakes find no place": ("AntaresConnectionsRefused", {'antares_tls_handshakes_total{result="busy"}': ("0", "+60")}),
    "a tenant is refused by its quota": ("AntaresQuotaRefused", {'antares_quota_refused_total{quota="calls_max"}': ("0", "+60")}),
    "the CKB node is away (`node.rpc`: calls without cells fail)": ("AntaresNodeFails", {'antares_node_lookups_total{result="unavailable"}': ("0", "+5")}),
    "the CKB node gives what its hashes do not fit": ("AntaresNodeFails", {'antares_node_lookups_total{result="wrong"}': ("0", "+5")}),
    "the key set of tokens has no key any more": ("AntaresKeysGone", {'antares_jwks_keys{state="taken"}': ("1", "0")}),
    "changed keys or certificates are of no use": ("AntaresReloadsFail", {'antares_reloads_total{kind="jwks", result="failed"}': ("0", "+1")}),
    "calls fail": ("AntaresErrorBudgetFast", {'rpc_server_call_duration_seconds_count{rpc_method="antares.v1.RunnerService/Execute", rpc_response_status_code="INTERNAL"}': ("0", "+60")}),
    "native code is refused by the check of machine code": ("AntaresCodeRefused", {'antares_code_refused_total{role="compile"}': ("0", "+1")}),
    "the object store is away": ("AntaresSharedTierAway", {'antares_tier_breaker_state{state="open"}': ("0", "1")}),
    "the object store refuses": ("AntaresSharedTierRefused", {'antares_tier_failures_total{kind="refused"}': ("0", "+5")}),
    "workers die": ("AntaresWorkersLost", {'antares_workers_lost_total{role="run"}': ("0", "+5")}),
    "a worker violated the sandbox policy": ("AntaresSandboxViolation", {'antares_sandbox_violations_total{role="run"}': ("0", "+1")}),
}


def values(before, after):
    """A series in promtool's notation: a value as it is, a counter that grows by `+N` a minute, or the end of its target (`stale`)."""
    begin = f"{before}x{WELL}"
    if after == "stale":
        return f"{begin} stale _x{LATEST + 2}"
    if after.startswith("+"):
        return f"{begin} {after[1:]}+{after[1:]}x{LATEST + 2}"
    return f"{begin} {after}x{LATEST + 2}"


def series(changes):
    healthy = {"up{}": ("1", "1"), "antares_build_info{}": ("1", "1"), 'antares_serving{service="antares.v1.RunnerService"}': ("1", "1")}
    for name, (before, after) in (healthy | changes).items():
        yield name, values(before, after)


def fired_after(alert, changes, labels):
    """Minutes from the begin of the state to the alert, of which none fires before; None if it does not come in time."""
    target = scraping.as_text(labels | {"instance": "i"})
    inputs = [
        {"series": re.sub(r"\{(.*)\}$", lambda match: "{" + ", ".join(filter(None, (target, match.group(1)))) + "}", name), "values": text}
        for name, text in series(changes)
    ]
    tests = [{"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{WELL}m", "exp_samples": []}]
    expr = f'(count(ALERTS{{alertname="{alert}", alertstate="firing"}}) > bool 0) or vector(0)'
    tests += [{"expr": expr, "eval_time": f"{WELL + minute}m", "exp_samples": [{"value": 1}]} for minute in range(1, LATEST + 1)]
    case = {"interval": "1m", "input_series": inputs, "promql_expr_test": tests}
    words = scraping.promtool({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]})
    early = [60 * int(hours or 0) + int(minutes or 0) - WELL for hours, minutes in re.findall(r"time: (?:(\d+)h)?(?:(\d+)m)?,", words)]
    if words and (not early or 0 in early):
        raise SystemExit(f"{alert}: {words}")
    last = max(early, default=0)
    return None if last == LATEST else last + 1


def table():
    """Rows of state, alert and minutes: the latest of all ways of scraping."""
    minutes = {}
    for name, (alert, changes) in STATES.items():
        times = [fired_after(alert, changes, labels) for labels in scraping.WAYS.values()]
        if None in times:
            raise SystemExit(f"{name}: {alert} does not fire within {LATEST} minutes, by way of scraping: {times}")
        minutes[name] = max(times)
    severity = dict(re.findall(r"alert: (\w+)\n(?:.*\n)*?        labels: \{severity: (\w+)\}", RULES.read_text(encoding="utf-8")))
    if difference := set(STATES) ^ {state for states in drill.STEPS.values() for state in states}:
        raise SystemExit(f"drill.py makes other states: {sorted(difference)}")
    rows = ["| state | alert | kind | minutes |", "|---|---|---|---|"]
    rows += [f"| {name} | {STATES[name][0]} | {severity[STATES[name][0]]} | {minutes[name]} |" for name in STATES]
    return "\n".join(rows)


def main():
    before = RUNBOOK.read_text(encoding="utf-8")
    head, rest = before.split(BEGIN)
    after = f"{head}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"
    if "--write" in sys.argv:
        RUNBOOK.write_text(after, encoding="utf-8")
    elif after != before:
        raise SystemExit("deploy/RUNBOOK.md has another table: run deploy/check/outages.py --write")


if __name__ == "__main__":
    main()
