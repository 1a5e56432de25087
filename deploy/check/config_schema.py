"""Writes the chart's schema of `compiler.config` and `runner.config` from the tables of docs/reference/configuration.md: every key of the configuration, but
those that other values of the chart stand for.

Usage: config_schema.py CHART [--check]      with --check nothing is written: status 1 if the schema is not what would be written
"""

import json
import pathlib
import re
import sys

# Keys that the chart sets, with the value that stands for each.
OF_THE_CHART = {
    "listen.address": "listenAddress",
    "listen.allow_open": "tls and auth",
    "listen.request_bytes_max": "*.requestsMiB",
    "listen.drain_delay_ms": "drain.delaySeconds",
    "listen.drain_grace_ms": "drain.graceSeconds",
    "tls.certificate": "tls.secret",
    "tls.key": "tls.secret",
    "tls.client_ca": "tls.clients",
    "auth.jwks": "auth.jwksSecret or auth.jwksUri",
    "auth.issuer": "auth.issuer",
    "auth.audiences": "auth.audience and auth.audiences",
    "auth.rules": "auth.rules",
    "quotas.calls_max": "quotas",
    "quotas.guest_cycles_per_second": "quotas",
    "quotas.compile_seconds_per_hour": "quotas",
    "quotas.stored_bytes_max": "quotas",
    "quotas.tenants": "quotas",
    "tenants.isolation": "tenants.shared and tenants.salted",
    "audit.target": "audit.target",
    "audit.required": "audit.required",
    "metrics.address": "listenAddress",
    "metrics.hosts": "metrics.hosts",
    "log.format": "log.format",
    "log.filter": "log.filter",
    "trace.endpoint": "trace.endpoint",
    "trace.sample_ratio": "trace.sampleRatio",
    "sandbox.allow_degraded": "sandbox.allowDegraded",
    "sandbox.speculation_limits": "sandbox.speculationLimits",
    "cache.dir": "compiler.cache",
    "cache.budget_bytes": "compiler.cache.budgetMiB",
    "shared.url": "shared.url",
    "signing.keys": "shared.signingSecret",
    "signing.trusted": "signing.trustedConfigMap",
    "compiler.workers_max": "compiler.workers",
    "compiler.memory_bytes_max": "compiler.workerMemoryMiB",
    "runner.workers_max": "runner.workers",
    "runner.idle_workers_max": "runner.idleWorkers",
    "runner.ready_bytes_max": "runner.readyMiB",
    "runner.hot_cells_bytes_max": "runner.hotCellsMiB",
    "runner.compiler_url": "the service of the compilers",
}
# Whole numbers that a file can hold and that survive YAML, which has floats alone.
EXACT_MAX = 2**53


def documented(text):
    """Default, as TOML, of every key of the configuration."""
    found, section = {}, None
    for line in text.splitlines():
        heading = re.match(r"#+ (?:`\[(\w+)\]`)?", line)
        row = re.match(r"\| `(\w+)` \| .+? \| (.+?) \| ", line)
        if heading:
            section = heading.group(1)
        elif row and section:
            found[f"{section}.{row.group(1)}"] = row.group(2).strip("`")
    return found


def kind(default):
    """Schema of a value whose default is this."""
    if default in ("true", "false"):
        return {"type": "boolean"}
    if default.startswith('"'):
        return {"type": "string"}
    if default.startswith("["):
        return {"type": "array", "items": {"type": "string"}}
    if "." in default:
        return {"type": "number"}
    return {"type": "integer", "minimum": 0, "maximum": EXACT_MAX}


def schema(keys):
    sections = {}
    for key, default in keys.items():
        section, name = key.split(".")
        properties = sections.setdefault(section, {"type": "object", "additionalProperties": False, "properties": {}})["properties"]
        # No value of such a key is this sentence, and the refusal says it.
        properties[name] = {"const": f"(of the chart: {OF_THE_CHART[key]})"} if key in OF_THE_CHART else kind(default)
    return {"type": "object", "additionalProperties": False, "properties": sections}


def main():
    chart = pathlib.Path(sys.argv[1])
    docs = pathlib.Path(__file__).resolve().parents[2] / "docs/reference/configuration.md"
    keys = documented(docs.read_text(encoding="utf-8"))
    if gone := set(OF_THE_CHART) - set(keys):
        raise SystemExit(f"keys that are documented no more: {sorted(gone)}")
    path = chart / "values.schema.json"
    before = path.read_text(encoding="utf-8")
    values = json.loads(before)
    values["definitions"]["config"] = schema(keys)
    after = json.dumps(values, indent=2) + "\n"
    if "--check" not in sys.argv:
        path.write_text(after, encoding="utf-8")
    elif after != before:
        raise SystemExit("values.schema.json is not what docs/reference/configuration.md says: run `make generated`")


if __name__ == "__main__":
    main()
