"""The Grafana dashboards as a table of panels; writes them as Grafana reads them.

Usage: dashboards.py           writes helm/antares/dashboards/*.json
       dashboards.py --check   changes nothing; exits with 1 if a file there is not what this table makes

The files are what the chart ships and Grafana loads. Nobody edits them: what is in ten places there is in one place here.
In expressions, {} stands for the selector of job, namespace, release and instance, @ for it among others, and [$] for the range of a rate.
"""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "helm" / "antares" / "dashboards"

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# What the variables choose. Labels that a way of scraping does not set are empty, and "all" takes those as well.
SELECTOR = 'job=~"$job", namespace=~"$namespace", app_kubernetes_io_instance=~"$release", instance=~"$instance"'
RUNBOOK = "https://github.com/antares-vm/antares/blob/main/deploy/RUNBOOK.md"
TRACES = (
    '/explore?left={"datasource":"${traces}","queries":[{"refId":"A","queryType":"traceqlSearch"}],'
    '"range":{"from":"${__from}","to":"${__to}"}}'
)
WIDTH = 24
HEIGHT = 8
THIRD = 8

# Statuses that are our fault: what the error budget is spent by.
FAULTS = 'rpc_response_status_code=~"UNAVAILABLE|INTERNAL|UNKNOWN|DATA_LOSS"'
CALLS = "rpc_server_call_duration_seconds"
# Other teams' services may be scraped under the same job, and have these families too: which calls and processes are ours.
METHODS = 'rpc_method=~"(antares|grpc)[.].+|_OTHER"'
OF_THE_OBJECTIVE = 'rpc_method=~"antares[.].+"'
OURS = "and on (job, instance) antares_build_info{}"
# The objective of the alerts: one call in a thousand may fail by our fault.
BUDGET = 0.001


def expression(text):
    """The expression with its selector and range."""
    return text.replace("{}", "{@}").replace("@", SELECTOR).replace("[$]", "[$__rate_interval]")


def selector(metric, where=""):
    """Which series of a metric: those that the variables choose, and of calls those of ours."""
    if metric.startswith(CALLS) and "rpc_method" not in where:
        where = ", ".join(filter(None, (METHODS, where)))
    return f"{{@, {where}}}" if where else "{}"


def rate(metric, by="", where=""):
    """The rate of a counter, summed by labels."""
    by = f" by ({by}) " if by else ""
    ours = f" {OURS}" if metric.startswith("process_") else ""
    return f"sum{by}(rate({metric}{selector(metric, where)}[$]){ours})"


def quantile(share, metric, by=""):
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket{selector(metric)}[$])))"


def of_process(text, how="sum"):
    """What the process collector tells, by instance."""
    return f"{how} by (instance) ({text} {OURS})"


def quantiles(metric, *shares):
    return [(f"p{100 * share:g}", quantile(share, metric)) for share in shares]


def panel(title, description, unit, *queries, width=THIRD, **more):
    """Lines over time. A query is (legend, expression); a list of them counts as several."""
    flat = [query for entry in queries for query in (entry if isinstance(entry, list) else [entry])]
    return {"title": title, "description": description, "unit": unit, "queries": flat, "width": width, **more}


def stacked(*arguments, **more):
    return panel(*arguments, stacked=True, **more)


def stat(*arguments, steps, **more):
    """One number; `steps` are colours and the values from which they hold."""
    return panel(*arguments, type="stat", steps=steps, **{"width": 4, **more})


def table(*arguments, **more):
    return panel(*arguments, type="table", **more)


def heatmap(title, description, unit, metric, **more):
    query = ("{{le}}", f"sum by (le) (increase({metric}_bucket{{}}[$]))")
    return panel(title, description, unit, query, type="heatmap", **more)


def hit_ratio(hits, misses, by=""):
    return f"{rate(hits, by)} / ({rate(hits, by)} + {rate(misses, by)})"


FAULT_SHARE = f"({rate(CALLS + '_count', where=f'{OF_THE_OBJECTIVE}, {FAULTS}')} or vector(0)) / {rate(CALLS + '_count', where=OF_THE_OBJECTIVE)}"
REPORTED = "antares_run_seconds"
INTERPRETED = 'tier="interpreter"'

OVERVIEW = [
    (
        "Objectives",
        stat("Processes away",
             "Processes that Prometheus has reached within a week and does not reach now, and services that refuse their calls (NOT_SERVING).", "none",
             ("away", "count(up{} < 1 and on (job, instance) last_over_time(antares_build_info{}[7d])) or vector(0)"), ("not serving", "count(antares_serving{} < 1) or vector(0)"),
             steps=[("green", None), ("red", 1)]),
        stat("Server errors",
             "Share of calls that failed for a reason of ours: UNAVAILABLE, INTERNAL, UNKNOWN, DATA_LOSS. A script that"
             " ends in an error is no such call.",
             "percentunit", ("errors", FAULT_SHARE), steps=[("green", None), ("red", 0.01)]),
        stat("Burn rate",
             "How many times faster than allowed the error budget is spent: at 1, a month's budget lasts a month."
             " Alerts stand at 14.4, 6 and 1, over longer windows.",
             "none", ("burn", f"({FAULT_SHARE}) / {BUDGET}"), steps=[("green", None), ("orange", 1), ("red", 6)]),
        stat("Calls without a fault, 30 days",
             "Share of the calls of the last 30 days that did not fail for a reason of ours. The objective is 99.9 %.",
             "percentunit",
             ("available",
              f"1 - (sum(increase({CALLS}_count{{@, {OF_THE_OBJECTIVE}, {FAULTS}}}[30d])) or vector(0))"
              f" / sum(increase({CALLS}_count{{@, {OF_THE_OBJECTIVE}}}[30d]))"),
             steps=[("red", None), ("green", 1 - BUDGET)]),
        panel("Overhead, p50 and p99",
              "Wall time of executions beside the run itself (fetch, queue, load, answer), those that waited for a"
              " compile left out. The objective: 99 in 100 within 50 ms.",
              "s", quantiles("antares_overhead_seconds", 0.5, 0.99)),
    ),
    (
        "Requests",
        stacked("Calls by method", "gRPC calls that ended, per second.", "reqps",
                ("{{rpc_method}}", rate(f"{CALLS}_count", "rpc_method"))),
        stacked("Calls by status",
                "gRPC calls that ended, per second, by status. NOT_FOUND is how a client learns that it must upload.",
                "reqps", ("{{rpc_response_status_code}}", rate(f"{CALLS}_count", "rpc_response_status_code"))),
        panel("Calls in progress", "Calls that have begun and not ended.", "none",
              ("{{instance}}", "sum by (instance) (antares_calls_in_progress{})")),
        panel("Duration of calls", "From the first byte to the last, streams included.", "s",
              quantiles(CALLS, 0.5, 0.95, 0.99)),
        panel("Duration by method, p95", "From the first byte to the last, streams included.", "s",
              ("{{rpc_method}}", quantile(0.95, CALLS, "rpc_method"))),
        stacked("Executions by outcome",
                "How executions ended, per second. The verdicts about the script are exit, error, cycles_exceeded,"
                " deadline_exceeded and sandbox_violation; the others are executions without one.",
                "ops", ("{{outcome}}", rate("antares_executions_total", "outcome"))),
    ),
    (
        "Admission",
        panel("Connections", "Open connections by listener.", "none",
              ("{{instance}} {{listener}}", "sum by (instance, listener) (antares_connections{})")),
        stacked("Connections closed by the server",
                "Per second, by reason: idle or old ones are no trouble; full and peer_full are clients that found no place.",
                "ops", ("{{listener}} {{reason}}", rate("antares_connections_closed_total", "listener, reason"))),
        stacked("Calls refused", "Calls that found no place, per second, by whose places were taken.", "reqps",
                ("{{scope}}", rate("antares_calls_refused_total", "scope"))),
        stacked("TLS handshakes", "Per second, by how they ended: busy ones found no place, failed ones are clients without a"
                " certificate or with a wrong one.", "ops",
                ("{{result}}", rate("antares_tls_handshakes_total", "result"))),
        stacked("Callers refused", "Calls refused for who made them, per second, by why: TOKEN_INVALID is what strangers get.",
                "reqps", ("{{reason}}", rate("antares_auth_refused_total", "reason"))),
        stacked("Native code refused", "Artifacts refused for what is signed about them, per second, by why: anything but a"
                " revoked key and an old date wants a look at who writes to the cache.", "ops",
                ("{{reason}}", rate("antares_artifacts_refused_total", "reason"))),
        stacked("Quotas used up", "Refusals because a tenant has used up a quota, per second, by quota.",
                "reqps", ("{{quota}}", rate("antares_quota_refused_total", "quota"))),
        stacked("Calls by tenant", "Calls per second, by tenant: the first 32 that came, and the rest.",
                "reqps", ("{{tenant}}", rate("antares_tenant_calls_total", "tenant"))),
        stacked("Cycles by tenant", "Guest cycles per second, by tenant: the first 32 that came, and the rest.",
                "short", ("{{tenant}}", rate("antares_tenant_guest_cycles_total", "tenant"))),
        stacked("Worker time by tenant", "Seconds of run and compile workers per second, by tenant.", "s",
                ("run: {{tenant}}", rate("antares_tenant_run_seconds_total", "tenant")),
                ("compile: {{tenant}}", rate("antares_tenant_compile_seconds_total", "tenant"))),
        stacked("Work by tenant", "Runs, compiles and refused calls per second, by tenant.", "ops",
                ("runs: {{tenant}}", rate("antares_tenant_runs_total", "tenant")),
                ("compiles: {{tenant}}", rate("antares_tenant_compiles_total", "tenant")),
                ("refused: {{tenant}}", rate("antares_tenant_refused_calls_total", "tenant"))),
        stacked("Bytes stored by tenant", "Bytes of newly stored scripts per second, by tenant.",
                "Bps", ("{{tenant}}", rate("antares_tenant_stored_bytes_total", "tenant"))),
        panel("Audit log", "Lines of the audit log that found no room, per second, and 1 while it cannot be written.",
              "short", ("lost", rate("antares_audit_lost_total")), ("broken", "max(antares_audit_broken{@})")),
        panel("Log", "Lines of the log that were lost because nobody read them, and left out because there were too many of their kind, per second.",
              "short", ("lost", rate("antares_log_lost_total")), ("left out", rate("antares_log_left_out_total"))),
        panel("Tasks", "Tasks that must not end: 1 while they run; those that ended and panics, per second.",
              "short", ("{{instance}} {{task}}", "min by (instance, task) (antares_tasks_running{})"),
              ("ended: {{task}}", rate("antares_task_ends_total", "task")), ("panics", rate("antares_panics_total"))),
        panel("Files read again", "Changed certificates, keys and rules, per second: a failed change left the old files in force.",
              "ops", ("{{kind}} {{result}}", rate("antares_reloads_total", "kind, result"))),
        panel("Spans", "Spans per second by what became of them: dropped ones found a full queue, failed ones no collector.",
              "ops", ("{{result}}", rate("antares_trace_spans_total", "result"))),
        panel("Keys of tokens", "Keys of the issuer of tokens: taken, and skipped since they verify none.", "none",
              ("{{instance}} {{state}}", "sum by (instance, state) (antares_jwks_keys{})")),
        panel("Certificates end", "Time until the first certificate of a file ends, or its revocation list should have a successor.",
              "s", ("{{instance}} {{file}}", "min by (instance, file) (antares_certificate_expiry_timestamp_seconds{}) - time()"),
              ("{{instance}} {{file}} begins", "max by (instance, file) (antares_certificate_begin_timestamp_seconds{}) - time()")),
        panel("Bytes of requests", "Bytes of requests in progress: received, being received, waiting in uploads and"
              " sessions; and of answers that their callers have not taken.", "bytes", ("{{instance}}", "sum by (instance) (antares_request_bytes{})")),
    ),
    (
        "Processes",
        table("What is running", "Versions of the processes.", "none", ("{{instance}}", "antares_build_info{}")),
        panel("Memory", "Resident memory of the service processes, workers not included.", "bytes",
              ("{{instance}}", of_process("process_resident_memory_bytes{}"))),
        panel("CPU", "CPU seconds per second of the service processes, workers not included.", "none",
              ("{{instance}}", rate("process_cpu_seconds_total", "instance"))),
        panel("File descriptors", "Open, as a share of the limit.", "percentunit",
              ("{{instance}}", of_process("process_open_fds{} / process_max_fds{}", "max")), max=1),
        panel("Threads", "Threads of the service processes.", "none",
              ("{{instance}}", of_process("process_threads{}"))),
        panel("Age", "Time since the processes started.", "s",
              ("{{instance}}", "time() - " + of_process("process_start_time_seconds{}", "max"))),
    ),
]

EXECUTION = [
    (
        "Cycles",
        stacked("Guest cycles by tier", "Cycles that scripts ran, per second, by the tier that ran them.", "hertz",
                ("{{tier}}", rate("antares_guest_cycles_total", "tier"))),
        panel("Time per million cycles",
              "Wall time in the worker for a million guest cycles: the first place where a slower engine shows.", "ns",
              ("ns per Mcycle",
               f"1e6 * 1e9 * {rate(REPORTED + '_sum')} / {rate('antares_guest_cycles_total')}")),
        panel("Cycles in the interpreter",
              "Share of the guest cycles that no native code ran: new scripts, refused ones, and what native code left.",
              "percentunit",
              ("interpreter",
               f"{rate('antares_guest_cycles_total', where=INTERPRETED)}"
               f" / {rate('antares_guest_cycles_total')}"), max=1),
    ),
    (
        "Executions",
        stacked("Executions by outcome, all",
                "How executions ended, per second. cycles_exceeded is a limit that the caller has set.", "ops",
                ("{{outcome}}", rate("antares_executions_total", "outcome"))),
        stacked("Verifications by outcome",
                "How verifications of transactions ended, per second. ok, failed and refused are verdicts about the"
                " transaction; the others are verifications without one.",
                "ops", ("{{outcome}}", rate("antares_verifications_total", "outcome"))),
        panel("Mean cycles of a run", "Guest cycles of a run or a verification, on average.", "short",
              ("cycles", f"{rate('antares_guest_cycles_total')} / {rate(REPORTED + '_count')}")),
    ),
    (
        "Where the time goes",
        panel("Run, p50 and p95", "Wall time of the run alone, in the worker.", "s", quantiles(REPORTED, 0.5, 0.95)),
        heatmap("Run times", "Runs by their wall time in the worker.", "s", REPORTED),
        panel("Phases of an execution, mean",
              "Queue: waiting for a worker. Load: library and ELF, in the worker. Run: the run alone. Overhead: all but"
              " the run.",
              "s",
              *[(name, f"{rate(metric + '_sum')} / {rate(metric + '_count')}")
                for name, metric in (("queue", "antares_queue_seconds"), ("load", "antares_load_seconds"),
                                     ("run", REPORTED), ("overhead", "antares_overhead_seconds"))]),
        panel("Load and queue, p95", "Loading library and ELF in the worker; waiting for a worker.", "s",
              ("load", quantile(0.95, "antares_load_seconds")), ("queue", quantile(0.95, "antares_queue_seconds"))),
        heatmap("Overhead of executions", "Executions by their wall time beside the run.", "s",
                "antares_overhead_seconds"),
    ),
    (
        "Tiers",
        panel("Native code left or missing",
              "Executions whose native code was left for the interpreter before the end, and executions of tier auto"
              " that had none, per second.",
              "ops", ("left", rate("antares_native_exits_total")),
              ("no native code: {{reason}}", rate("antares_fallbacks_total", "reason"))),
        stacked("Native code by generator",
                "Runs with native code by the generator that made it. New scripts have the baseline's first; much of it"
                " for long means that full compiles do not follow.",
                "ops", ("{{code_tier}}", rate("antares_native_runs_total", "code_tier"))),
        stacked("Hot programs",
                "Programs without native code that proved hot, per second, by what became of them: compiled off the"
                " request path, failed to compile, or dropped because too many were waiting.",
                "ops", ("{{result}}", rate("antares_hot_programs_total", "result"))),
    ),
]

COMPILE = [
    (
        "Compiles",
        stacked("Compiles by result", "Full compiles that ended, per second.", "ops",
                ("{{result}}", rate("antares_compiles_total", "result"))),
        panel("Compile time", "Wall time of full compiles that gave an artifact.", "s",
              quantiles("antares_compile_seconds", 0.5, 0.95)),
        panel("Compiles joined", "Calls that found their compile in progress already and waited for it, per second.",
              "ops", ("joined", rate("antares_compile_joins_total"))),
        stacked("Baselines and what follows",
                "Baseline compiles by how they ended, and the full compiles that followed them. Dropped: the queue was"
                " full.",
                "ops", ("baseline {{result}}", rate("antares_baseline_compiles_total", "result")),
                ("follower {{result}}", rate("antares_follower_compiles_total", "result"))),
        panel("Compiles withheld", "Compiles that were not tried, since they have failed and nothing has changed.", "ops",
              ("withheld {{instance}}", rate("antares_compiles_withheld_total", "instance"))),
        panel("Tiers: reads", "Reads by tier and what they gave; a tier is read if those above it had no entry.", "ops",
              ("{{tier}} {{result}}", rate("antares_tier_reads_total", "tier, result"))),
        panel("Tiers: time of reads", "Time of reads that gave an entry, by tier.", "s",
              ("{{tier}}", "histogram_quantile(0.95, sum by (tier, le) (rate(antares_tier_read_seconds_bucket{@}[$__rate_interval])))")),
        panel("Shared tier: writes", "Writes by what became of them: retried, and dropped or expired when the tier is away for long.", "ops",
              ("{{result}}", rate("antares_tier_writes_total", "result"))),
        panel("Shared tier: failures", "Requests to the shared tier that failed, by why.", "ops",
              ("{{kind}}", rate("antares_tier_failures_total", "kind"))),
        panel("Shared tier: waiting", "Entries that wait to be written.", "none",
              ("entries", "sum(antares_tier_writes_waiting{@})")),
        panel("Shared tier: bytes waiting", "Bytes of entries that wait to be written, and of those kept in memory.", "bytes",
              ("waiting", "sum(antares_tier_writes_waiting_bytes{@})"), ("memory", "sum(antares_tier_memory_bytes{@})")),
        panel("Shared tier: breaker", "Servers whose breaker before the shared tier is at each state.", "none",
              ("{{state}}", "sum by (state) (antares_tier_breaker_state{@})")),
        panel("Compilers known", "Compiler services that each runner knows of.", "none",
              ("{{pod}}", "antares_compilers{@}")),
        panel("What runs found out",
              "Reports of runs that left native code for places that it does not know: learnt by the next compile, known already, of"
              " scripts that have learnt too often, or not stored.", "ops",
              ("{{result}}", rate("antares_hints_total", "result"))),
        panel("Baseline compile time", "Wall time of baseline compiles, as the worker measured it.", "s",
              quantiles("antares_baseline_compile_seconds", 0.5, 0.95)),
        panel("Compile workers and queue", "Compiles at work, compiles that wait, and the most that may be at work.",
              "none",
              *[(name, f'sum({metric}{{@, role="compile"}})')
                for name, metric in (("at work", "antares_workers_busy"), ("waiting", "antares_queue_depth"),
                                     ("most", "antares_workers_max"))]),
    ),
    (
        "Cache",
        panel("Cache hit ratio", "Share of reads answered with verified bytes.", "percentunit",
              ("{{space}}", hit_ratio("antares_cache_hits_total", "antares_cache_misses_total", "space")),
              ("ready in the runner's memory", hit_ratio("antares_ready_hits_total", "antares_ready_misses_total")),
              max=1),
        panel("Hot cells", "Cells by reference that were hot, and those that had to be fetched, per second.", "ops",
              ("hot", rate("antares_hot_cells_hits_total")), ("fetched", rate("antares_hot_cells_misses_total"))),
        panel("Cache bytes",
              "Payload, disk, and the budget that the disk should keep. A rebuild takes up to twice the budget for a"
              " while.",
              "bytes", ("payload {{instance}}", "sum by (instance) (antares_cache_bytes{})"),
              ("disk {{instance}}", "sum by (instance) (antares_cache_disk_bytes{})"),
              ("budget {{instance}}", "sum by (instance) (antares_cache_budget_bytes{})"),
              ("charged {{instance}}", "sum by (instance) (antares_cache_charged_bytes{})"),
              ("in memory {{instance}}", "sum by (instance) (antares_ready_bytes{})"),
              ("hot cells {{instance}}", "sum by (instance) (antares_hot_cells_bytes{})")),
        panel("Cache entries", "Scripts and artifacts stored, and those that runners keep ready in memory.", "none",
              ("{{space}}", "sum by (space) (antares_cache_entries{})"),
              ("ready", "sum(antares_ready_entries{})"),
              ("hot cells", "sum(antares_hot_cells{})")),
        panel("Cache upkeep", "Entries evicted or rejected, and rebuilds, per second.", "ops",
              ("evicted", rate("antares_cache_evictions_total")), ("rejected", rate("antares_cache_rejected_total")),
              ("rebuilds", rate("antares_cache_rebuilds_total")),
              ("set aside", rate("antares_cache_set_aside_total"))),
        panel("Cache trouble",
              "Entries that did not verify and errors of the store since the processes started; blob files, whose space"
              " is never given back. All should be zero.",
              "none", ("corrupt", "sum(antares_cache_corrupt_total{})"),
              ("store errors", "sum(antares_cache_store_errors_total{})"), ("blobs", "sum(antares_cache_blobs{})")),
        panel("Uploads on their way",
              "Bytes of uploads that are not complete, on the volume of the store, and how many they are.", "bytes",
              ("bytes {{instance}}", "sum by (instance) (antares_partial_upload_bytes{})"),
              ("uploads {{instance}}", "sum by (instance) (antares_partial_uploads{})")),
        panel("Uploads that broke off", "Uploads that went on, those that were dropped, and those refused for want of room, per second.", "ops",
              ("gone on with", rate("antares_uploads_resumed_total")),
              ("dropped: {{reason}}", rate("antares_uploads_dropped_total", "reason")),
              ("refused: {{reason}}", rate("antares_uploads_refused_total", "reason"))),
        table("Cache state", "1 at the state that each store is in.", "none",
              ("{{instance}} {{state}}", "max by (instance, state) (antares_cache_state{})")),
    ),
]

WORKERS = [
    (
        "Use",
        panel("Workers busy", "Worker processes with a job, as a share of the most that there may be.", "percentunit",
              ("{{role}}", "sum by (role) (antares_workers_busy{}) / sum by (role) (antares_workers_max{})"), max=1),
        panel("Workers and queue",
              "Workers with a job, workers that wait for another one of their kind, and work that waits for a worker.",
              "none",
              *[(f"{name}: {{{{role}}}}", f"sum by (role) ({metric}{{}})")
                for name, metric in (("busy", "antares_workers_busy"), ("waiting", "antares_queue_depth"),
                                     ("most", "antares_workers_max"), ("resting", "antares_workers_resting"))]),
        panel("Wait for a run worker", "How long executions and verifications waited.", "s",
              quantiles("antares_queue_seconds", 0.5, 0.95, 0.99)),
    ),
    (
        "Life",
        panel("Workers started and used again",
              "Worker processes started, jobs done by workers that had done one before, and workers whose fence was"
              " looked at, per second.",
              "ops",
              *[(f"{name}: {{{{role}}}}", rate(metric, "role"))
                for name, metric in (("started", "antares_workers_spawned_total"),
                                     ("used again", "antares_workers_reused_total"),
                                     ("inspected", "antares_workers_inspected_total"))]),
        panel("Jobs of a worker", "Jobs that a worker does before it ends, on average.", "none",
              ("{{role}}",
               f"1 + {rate('antares_workers_reused_total', 'role')} / {rate('antares_workers_spawned_total', 'role')}")),
        panel("Workers lost, killed, late",
              "Workers that died without an answer, that the fence killed, whose report was false, and that ran out of time; zygotes that were"
              " lost and replaced, and that were renewed in time. Per second.",
              "ops",
              *[(f"{name}: {{{{role}}}}", rate(metric, "role"))
                for name, metric in (("lost", "antares_workers_lost_total"),
                                     ("violation", "antares_sandbox_violations_total"),
                                     ("false report", "antares_false_reports_total"),
                                     ("late", "antares_workers_deadline_total"),
                                     ("not forked", "antares_workers_not_forked_total"),
                                     ("zygote replaced", "antares_zygote_restarts_total"),
                                     ("zygote renewed", "antares_zygote_renewals_total"))]),
    ),
    (
        "Fence",
        stat("Workers without a whole fence", "Workers that were found so when they were looked at. Always 0.", "none",
             ("{{role}}", "sum by (role) (antares_workers_unfenced_total{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        stat("Looks that saw nobody", "Looks at workers that found nobody: /proc hides them, and nobody would see a hole in the fence.", "none",
             ("{{role}}", "sum by (role) (antares_workers_blind_total{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        stat("Violations", "Workers that the fence killed since the processes started.", "none",
             ("{{role}}", "sum by (role) (antares_sandbox_violations_total{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        stat("Wild faults", "Workers whose native code touched memory that it must not, since the processes started.",
             "none", ("{{role}}", "sum by (role) (antares_wild_faults_total{})"),
             steps=[("green", None), ("red", 1)], width=THIRD),
        stat("Refused code", "Compiled libraries with machine code that no generator of ours makes.", "none",
             ("{{role}}", "sum by (role) (antares_code_refused_total{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        stat("Unproved functions", "Functions whose optimized form the compiler's verifier refused, since the processes started.",
             "none", ("functions", "sum(antares_compile_unproved_total{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        stat("Refused orders", "Blocks that keep LLVM's order of instructions since the new one was wrong, since the processes started.",
             "none", ("blocks", "sum(antares_compile_orders_refused_total{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        panel("Second runs", "Native runs that were run again in the interpreter: equal, different, or passed over for want of room or "
              "time.", "ops", ("{{result}}", rate("antares_rechecks_total", "result"))),
        panel("Diagnoses", "Failed runs whose callers asked why: told, or why not. Each takes a worker for ten seconds at most.",
              "ops", ("{{result}}", rate("antares_diagnoses_total", "result"))),
        panel("Lookups at the node", "Cells of bare transactions: had, not known, no answer, or one that is wrong.",
              "ops", ("{{result}}", rate("antares_node_lookups_total", "result"))),
        panel("Second compiles", "Scripts that were compiled again by another worker: to the same bytes, to others, or passed over.",
              "ops", ("{{result}}", rate("antares_recompiles_total", "result"))),
        stat("Quarantine", "Artifacts that are not run any more, because a worker that ran one was killed by the fence.",
             "none", ("artifacts", "sum(antares_artifacts_quarantined{})"), steps=[("green", None), ("red", 1)],
             width=THIRD),
        table("Layers of the fence", "1 where the layer stands around the workers of a role, 0 where it is missing.",
              "none", ("{{role}} {{layer}}", "min by (role, layer) (antares_sandbox_info{})")),
    ),
    (
        "The machine",
        panel("Memory of the services",
              "Resident and virtual memory of the service processes, workers not included.", "bytes",
              ("resident {{instance}}", of_process("process_resident_memory_bytes{}")),
              ("virtual {{instance}}", of_process("process_virtual_memory_bytes{}")), width=12),
        panel("CPU of the services", "CPU seconds per second of the service processes, workers not included.", "none",
              ("{{instance}}", rate("process_cpu_seconds_total", "instance")), width=12),
    ),
]

PROFILING = [
    (
        "Always on",
        panel("Runs in profiles",
              "Runs by whether a sample hit them. Short runs are hit now and then; what no sample hit counts as"
              " [other].",
              "ops", ("sampled: {{sampled}}", rate("antares_profiled_runs_total", "sampled"))),
        panel("Profiles that do not add up",
              "Runs whose samples are not their cycles. Always 0, unless Antares has a mistake.", "short",
              ("{{instance}}", "sum by (instance) (increase(antares_profile_cycle_mismatch_total{}[$]))")),
        panel("Stacks kept", "Stacks of all profiles that are kept, and windows of time that were dropped early for want"
              " of room.",
              "short", ("stacks {{instance}}", "sum by (instance) (antares_profile_stacks{})"),
              ("windows dropped {{instance}}",
               "sum by (instance) (increase(antares_profile_windows_dropped_total{}[$]))")),
        panel("Profiles pushed",
              "Profiles that were to be sent to a receiver, per second: sent; failed, which the receiver did not take;"
              " dropped, which were not tried because it did not take others or time was up. None where push is off.",
              "ops",
              ("{{result}}", rate("antares_profile_pushes_total", "result")), width=12),
        panel("Runs not pushed",
              "Runs that no push has, because too many scripts and tenants waited for it, per second.", "ops",
              ("{{instance}}", rate("antares_profile_unpushed_runs_total", "instance")), width=12),
        panel("Cycles that could be profiled", "Guest cycles by tier, per second: what the profiles add up to.", "hertz",
              ("{{tier}}", rate("antares_guest_cycles_total", "tier")), width=12),
        panel("Calls for profiles", "Calls of ProfileService that ended, per second.", "reqps",
              ("{{rpc_method}}", rate(f"{CALLS}_count", "rpc_method", 'rpc_method=~"antares.v1.ProfileService/.*"')),
              width=12),
    ),
]

DASHBOARDS = {
    "antares-overview": ("Antares: overview", "Objectives, requests and processes of the Antares services.", OVERVIEW),
    "antares-execution": ("Antares: execution and cycles", "Runs and verifications: cycles, time, tiers.", EXECUTION),
    "antares-compile": ("Antares: compile and cache", "Compiles, baselines and the store.", COMPILE),
    "antares-workers": ("Antares: workers and sandbox", "Worker processes and the fence around them.", WORKERS),
    "antares-profiling": ("Antares: profiling", "Where the cycles of scripts go, and how that is known.", PROFILING),
}


def thresholds(steps):
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in steps]}


def lines(spec):
    mode = "normal" if spec.get("stacked") else "none"
    custom = {
        "drawStyle": "line",
        "fillOpacity": 20 if spec.get("stacked") else 8,
        "lineWidth": 1,
        "showPoints": "never",
        "stacking": {"mode": mode, "group": "A"},
    }
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return {"min": 0, "custom": custom}, options


def look_of(spec):
    """Defaults of the fields and options of a panel."""
    kind = spec.get("type", "timeseries")
    if kind == "timeseries":
        return lines(spec)
    if kind == "stat":
        reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        options = {"colorMode": "value", "graphMode": "area", "reduceOptions": reduce, "textMode": "auto"}
        return {"thresholds": thresholds(spec["steps"])}, options
    if kind == "heatmap":
        return {}, {"calculate": False, "yAxis": {"unit": spec["unit"]}, "legend": {"show": True}}
    return {}, {"showHeader": True}


def target(index, legend, text, kind):
    made = {
        "refId": chr(ord("A") + index),
        "datasource": SOURCE,
        "expr": expression(text),
        "legendFormat": legend,
        "editorMode": "code",
        "range": kind != "table",
        "instant": kind == "table",
    }
    # Traces that stand for buckets are dots in the panel.
    if f"{CALLS}_bucket" in text and kind == "timeseries":
        made["exemplar"] = True
    if kind in ("table", "heatmap"):
        made["format"] = kind
    return made


def panel_json(identity, spec, place):
    kind = spec.get("type", "timeseries")
    defaults, options = look_of(spec)
    defaults = {"unit": spec["unit"], "noValue": "none yet", **defaults}
    if "max" in spec:
        defaults["max"] = spec["max"]
    return {
        "id": identity,
        "type": kind,
        "title": spec["title"],
        "description": spec["description"],
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [target(index, *query, kind) for index, query in enumerate(spec["queries"])],
    }


def panels_json(rows):
    """All panels with their places, from left to right and from top to bottom."""
    made, top = [], 0
    for title, *specs in rows:
        place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        row = {"id": len(made) + 1, "type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []}
        made.append(row)
        left, top = 0, top + 1
        for spec in specs:
            if left + spec["width"] > WIDTH:
                left, top = 0, top + HEIGHT
            place = {"h": HEIGHT, "w": spec["width"], "x": left, "y": top}
            made.append(panel_json(len(made) + 1, spec, place))
            left += spec["width"]
        top += HEIGHT
    return made


def query_variable(name, label, text, all_value=".*"):
    """Without `all_value` all is what the query finds."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": text, "refId": name},
        "definition": text,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        **({"allValue": all_value} if all_value else {}),
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard_json(uid, title, description, rows):
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
        query_variable("job", "Job", "label_values(antares_build_info, job)", all_value=None),
        query_variable("namespace", "Namespace", 'label_values(antares_build_info{job=~"$job"}, namespace)'),
        query_variable(
            "release", "Release", 'label_values(antares_build_info{job=~"$job", namespace=~"$namespace"}, app_kubernetes_io_instance)'
        ),
        query_variable("instance", "Instance", f"label_values(antares_build_info{{{SELECTOR.rpartition(', ')[0]}}}, instance)"),
        {"name": "traces", "label": "Traces", "type": "datasource", "query": "tempo", "current": {}},
    ]
    starts = {
        "name": "Starts",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "blue",
        "expr": expression(f"process_start_time_seconds{{}} * 1000 {OURS}"),
        "useValueForTime": True,
        "titleFormat": "started",
        "textFormat": "{{instance}}",
    }
    versions = {
        "name": "Versions",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "purple",
        "expr": f"count by (version) (antares_build_info{{{SELECTOR}}}) unless count by (version) (antares_build_info{{{SELECTOR}}} offset 5m)",
        "step": "60s",
        "titleFormat": "deployed",
        "textFormat": "{{version}}",
    }
    link = {
        "title": "Antares",
        "type": "dashboards",
        "tags": ["antares"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["antares"],
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "version": 1,
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "",
        "annotations": {"list": [starts, versions]},
        "links": [
            link,
            {"title": "Runbook", "type": "link", "icon": "doc", "url": RUNBOOK, "targetBlank": True},
            {"title": "Traces", "type": "link", "icon": "external link", "url": TRACES, "targetBlank": True},
        ],
        "templating": {"list": variables},
        "panels": panels_json(rows),
    }


def files():
    """Name and text of each file."""
    for uid, (title, description, rows) in DASHBOARDS.items():
        text = json.dumps(dashboard_json(uid, title, description, rows), indent=1, ensure_ascii=False)
        yield f"{uid}.json", f"{text}\n"


def wrong_files():
    """What is in the folder and should not be, or is not as it should be."""
    wanted = dict(files())
    there = {path.name for path in FOLDER.glob("*.json")}
    wrong = [f"{name}: dashboards.py does not make it" for name in sorted(there - wanted.keys())]
    for name, text in wanted.items():
        path = FOLDER / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            wrong.append(f"{name}: not what dashboards.py makes; run `make generated`")
    return wrong


def main():
    if sys.argv[1:] == ["--check"]:
        wrong = wrong_files()
        print("\n".join(wrong), end="\n" if wrong else "")
        sys.exit(1 if wrong else 0)
    for name, text in files():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
