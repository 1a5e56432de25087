"""Proves the dashboard and the alerts against a running service: a real Prometheus scrapes it while a load runs, and every
expression must return at least one finite sample.

Usage: dashboard.py --metrics HOST:PORT [--metrics HOST:PORT] [--load COMMAND] [--seconds N]
       dashboard.py --static

--metrics   address of /metrics of a service; several for several processes
--load      shell command run again and again while Prometheus scrapes; it must cause executions and compiles, and finds
            the number of the round in ANTARES_ROUND. Without it whoever calls makes the load
--seconds   how long the load runs; 20 by default
--static    only what needs no service: form of the dashboard, promtool on configuration, rules and their fire drill

Checked: promtool's opinion of deploy/prometheus; the form of the dashboard (title, description, unit, data source, job and
instance in every selector, rate around every counter); every expression of panels, variables and alerts; every metric they
name exists in /metrics and every antares_* metric in /metrics is in a panel or an alert; no alert fires on a healthy
service; every alert's runbook_url leads to a heading. Needs Debian's prometheus (prometheus and promtool on the PATH) and
nothing but Python's own library. Exits with 1 and a list of what is wrong.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "antares.json"
PROMETHEUS = DEPLOY / "prometheus"
RUNBOOK = DEPLOY / "RUNBOOK.md"

JOB = "antares"
SCRAPE_INTERVAL_S = 1
# What Grafana would put for $__rate_interval; long enough that a slow machine still has several scrapes in it.
RATE_INTERVAL = "1m"
READY_DEADLINE_S = 30

METRIC_NAME = re.compile(r"\b((?:antares|rpc_server|process)_[a-z0-9_]+)\b")
SELECTOR = re.compile(r"\b(?:up|(?:antares|rpc_server|process)_[a-z0-9_]+)\s*(\{[^}]*\})?")
COMPARISON = re.compile(r"^(.*\S)\s*(?:==|!=|>=|<=|>|<)\s*[-+0-9.eE]+$", re.DOTALL)
HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


class Findings:
    """What is wrong, and how much was looked at."""

    def __init__(self):
        self.wrong = []
        self.checked = 0

    def expect(self, is_right, text):
        self.checked += 1
        if not is_right:
            self.wrong.append(text)


# ---- the dashboard as a file


def panels_of(dashboard):
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def expressions_of(dashboard):
    """Place and expression of every query."""
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            yield f"panel {panel['title']!r} {target['refId']}", target["expr"]


def check_form(dashboard, findings):
    """The rules of a dashboard that serves everywhere: whatever the data source, the job and the time range."""
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    for name in ("datasource", "job", "instance"):
        findings.expect(name in variables, f"dashboard: no variable {name}")
    findings.expect(variables.get("datasource", {}).get("type") == "datasource", "dashboard: datasource is no data source")
    findings.expect(dashboard.get("editable") is False, "dashboard: must not be editable in place")
    identities = [panel["id"] for panel in dashboard["panels"]]
    findings.expect(len(identities) == len(set(identities)), "dashboard: two panels have one id")
    for panel in panels_of(dashboard):
        place = f"panel {panel.get('title')!r}"
        for key in ("title", "description"):
            findings.expect(panel.get(key), f"{place}: no {key}")
        findings.expect(panel["fieldConfig"]["defaults"].get("unit"), f"{place}: no unit")
        findings.expect(panel["targets"], f"{place}: no query")
        for part in [panel, *panel["targets"]]:
            findings.expect(part["datasource"].get("uid") == "${datasource}", f"{place}: data source is not the variable")
    for place, expression in expressions_of(dashboard):
        check_expression_form(place, expression, findings)


def check_expression_form(place, expression, findings):
    for match in SELECTOR.finditer(expression):
        labels = match.group(1) or ""
        for matcher in ('job=~"$job"', 'instance=~"$instance"'):
            findings.expect(matcher in labels, f"{place}: {match.group(0)} has no {matcher}")
    for duration in re.findall(r"\[([^\]]*)\]", expression):
        findings.expect(duration == "$__rate_interval", f"{place}: [{duration}] is not $__rate_interval")


def run_promtool(findings):
    for arguments in (
        ["check", "config", PROMETHEUS / "prometheus.yml"],
        ["check", "rules", PROMETHEUS / "antares.rules.yml"],
        ["test", "rules", PROMETHEUS / "antares.rules.test.yml"],
    ):
        done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
        findings.expect(done.returncode == 0, f"promtool {arguments[0]} {arguments[1]}: {done.stdout}{done.stderr}".strip())


# ---- a Prometheus of our own


class Prometheus:
    """A real Prometheus with a configuration and data of its own, on a free port, for the time of a `with`."""

    def __init__(self, targets):
        self.targets = targets
        self.port = free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="antares-prometheus-"))

    def __enter__(self):
        config = {
            "global": {"scrape_interval": f"{SCRAPE_INTERVAL_S}s", "evaluation_interval": f"{SCRAPE_INTERVAL_S}s"},
            "rule_files": [str(PROMETHEUS / "antares.rules.yml")],
            "scrape_configs": [{"job_name": JOB, "static_configs": [{"targets": self.targets}]}],
        }
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        with (self.folder / "log").open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    "--log.level=warn",
                ],
                stdout=log,
                stderr=log,
            )
        try:
            wait(self.is_scraping, READY_DEADLINE_S, f"Prometheus does not reach {', '.join(self.targets)}")
        except BaseException:
            print((self.folder / "log").read_text(encoding="utf-8"), file=sys.stderr)
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_scraping(self):
        return sum(value for _, value in self.query(f'up{{job="{JOB}"}}')) == len(self.targets)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            if error.code not in (400, 422):
                raise
            raise ValueError(json.load(error)["error"]) from error

    def query(self, expression):
        """Labels and value of every sample. Raises ValueError for an expression that Prometheus refuses."""
        data = self.get("query", query=expression)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(sample["metric"], float(sample["value"][1])) for sample in data["result"]]

    def alerts(self):
        groups = self.get("rules", type="alert")["groups"]
        return [rule for group in groups for rule in group["rules"]]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except OSError:
            # Not listening, or not ready.
            pass
        time.sleep(0.1)
    raise TimeoutError(f"{what} within {seconds} s")


# ---- what only a running service can show


def metric_families(targets, findings):
    """Names of the families in /metrics of all targets."""
    names = set()
    for target in targets:
        try:
            with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as response:
                text = response.read().decode()
        except OSError as error:
            findings.expect(False, f"{target} does not answer after the load: {error}")
            continue
        names.update(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE "))
    return names


def family_of(name, families):
    """The family of a name in an expression; a histogram's parts belong to it."""
    for part in HISTOGRAM_PARTS:
        if name.endswith(part) and name.removesuffix(part) in families:
            return name.removesuffix(part)
    return name


def names_in(expression):
    # Texts of matchers are no names.
    return set(METRIC_NAME.findall(re.sub(r'"[^"]*"', '""', expression)))


def check_value(place, expression, prometheus, findings):
    """At least one finite sample."""
    try:
        samples = prometheus.query(expression)
    except ValueError as error:
        findings.expect(False, f"{place}: {error}\n      {expression}")
        return
    is_finite = any(math.isfinite(value) for _, value in samples)
    what = "no sample" if not samples else "no finite sample"
    findings.expect(is_finite, f"{place}: {what}\n      {expression}")


def filled_in(expression):
    values = {"$__rate_interval": RATE_INTERVAL, "$job": JOB, "$instance": ".*"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def check_variables(dashboard, prometheus, findings):
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        place = f"variable {variable['name']}"
        match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
        findings.expect(match is not None, f"{place}: not of the form label_values(SELECTOR, LABEL)")
        if match:
            samples = prometheus.query(filled_in(match.group(1)))
            findings.expect(any(match.group(2) in labels for labels, _ in samples), f"{place}: no value")


def check_alerts(prometheus, findings):
    """The value of every alert, its runbook, and that it is silent."""
    headings = set()
    for line in RUNBOOK.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            headings.add(line.lstrip("# ").strip().lower().replace(" ", "-"))
    for rule in prometheus.alerts():
        place = f"alert {rule['name']}"
        match = COMPARISON.match(rule["query"].strip())
        findings.expect(match is not None, f"{place}: must end in a comparison with a number")
        if match:
            check_value(place, match.group(1), prometheus, findings)
        findings.expect(rule["health"] == "ok", f"{place}: {rule.get('lastError')}")
        findings.expect(rule["state"] == "inactive", f"{place}: {rule['state']} on a healthy service: {rule['alerts']}")
        path, _, anchor = rule["annotations"].get("runbook_url", "").partition("#")
        is_there = path.endswith(f"/deploy/{RUNBOOK.name}") and anchor in headings
        findings.expect(is_there, f"{place}: runbook_url leads nowhere: {path}#{anchor}")


def check_names(dashboard, rules, families, findings):
    """Names in panels and alerts exist; our metrics are in a panel or an alert."""
    places = [*expressions_of(dashboard), *((f"alert {rule['name']}", rule["query"]) for rule in rules)]
    shown = set()
    for place, expression in places:
        for name in names_in(expression):
            family = family_of(name, families)
            shown.add(family)
            findings.expect(family in families, f"{place}: {name} is not in /metrics")
    for family in sorted(families):
        if family.startswith(("antares_", "rpc_")):
            findings.expect(family in shown, f"/metrics: {family} is in no panel and no alert")


def make_load(command, seconds, findings):
    """Runs the command over and over until the time is up or it fails."""
    deadline = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < deadline:
        rounds += 1
        environment = {**os.environ, "ANTARES_ROUND": str(rounds)}
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            output = f"{done.stdout}{done.stderr}".strip()
            findings.expect(False, f"the load ended with status {done.returncode} in round {rounds}: {output}")
            break
    print(f"load: {rounds} rounds")


def check_live(options, dashboard, findings):
    with Prometheus(options.metrics) as prometheus:
        if options.load is None:
            time.sleep(options.seconds)
        else:
            make_load(options.load, options.seconds, findings)
        check_variables(dashboard, prometheus, findings)
        for place, expression in expressions_of(dashboard):
            check_value(place, filled_in(expression), prometheus, findings)
        check_alerts(prometheus, findings)
        check_names(dashboard, prometheus.alerts(), metric_families(options.metrics, findings), findings)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", action="append", default=[])
    parser.add_argument("--load")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--static", action="store_true")
    options = parser.parse_args()
    if options.static == bool(options.metrics):
        parser.error("give either --metrics or --static")
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            sys.exit(f"no {program} on the PATH: apt-get install prometheus")
    findings = Findings()
    with DASHBOARD.open(encoding="utf-8") as file:
        dashboard = json.load(file)
    check_form(dashboard, findings)
    run_promtool(findings)
    if options.metrics:
        check_live(options, dashboard, findings)
    for text in findings.wrong:
        print(f"WRONG: {text}")
    expressions = len(list(expressions_of(dashboard)))
    print(f"dashboard: {expressions} expressions, {findings.checked} checks, {len(findings.wrong)} wrong")
    sys.exit(1 if findings.wrong else 0)


if __name__ == "__main__":
    main()
