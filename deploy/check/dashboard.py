"""Proves the dashboards and the alerts against a running service: a real Prometheus scrapes it while a load runs, and every
expression must return at least one finite sample.

Usage: dashboard.py --metrics HOST:PORT [--metrics HOST:PORT] [--load COMMAND] [--seconds N]
       dashboard.py --static

--metrics   address of /metrics of a service; several for several processes
--load      shell command run again and again while Prometheus scrapes; it must cause executions and compiles, and finds
            the number of the round in ANTARES_ROUND. Without it whoever calls makes the load
--seconds   how long the load runs; 20 by default
--static    only what needs no service: form of the dashboards, promtool on configuration, rules and their tests, names of
            metrics in code, dashboards, rules and docs

Checked: promtool's opinion of deploy/prometheus; every alert has a promtool test in which it fires; the form of the
dashboards (made by deploy/grafana/dashboards.py; title, description, unit, data source, job and instance in every selector,
a rate around every counter, no panel twice in a row); every metric that the code declares is in a panel and in
docs/reference/metrics.md, and every name in panels, rules and docs is one that the code declares; every expression of panels,
variables, rules and alerts gives data; no alert fires on a healthy service; every alert's runbook_url leads to a heading.
Needs Debian's prometheus (prometheus and promtool on the PATH) and
nothing but Python's own library. Exits with 1 and a list of what is wrong.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import neighbours
import scraping
from waiting import free_port, wait

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
ROOT = DEPLOY.parent
DASHBOARDS = ROOT / "helm" / "antares" / "dashboards"
PROMETHEUS = DEPLOY / "prometheus"
RUNBOOK = DEPLOY / "RUNBOOK.md"

SCRAPE_INTERVAL_S = 1
# What Grafana would put for $__rate_interval; long enough that a slow machine still has several scrapes in it.
RATE_INTERVAL = "1m"
READY_DEADLINE_S = 180
ANSWER_DEADLINE_S = 120
# What has no data after the load has more load until then: a slow machine makes few rounds within its seconds.
DATA_DEADLINE_S = 240
ROUNDS_MIN = 3

METRIC_NAME = re.compile(r"(?<![:\w])((?:antares|rpc_server|process)_[a-z0-9_]+)\b")
SELECTOR = re.compile(r"\b(?:up|(?:antares|rpc_server|process)_[a-z0-9_]+)\s*(\{[^}]*\})?")
COMPARISON = re.compile(r"^(.*\S)\s*(?:==|!=|>=|<=|>|<)\s*[-+0-9.eE]+(?:\s*\*\s*[0-9.]+)?$", re.DOTALL)
# A text in a file that declares metrics which is the name of one.
DECLARED = re.compile(r'"((?:antares|rpc_server)_[a-z0-9_]+)"')
# Documents that name metrics.
DOCUMENTS = ("docs/reference/metrics.md", "docs/operations.md", "docs/profiling.md", "deploy/RUNBOOK.md", "deploy/README.md", "helm/antares/README.md")
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


def dashboards():
    """All of them, by the name of their file."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))}


def expressions_of(dashboard):
    """Place and expression of every query."""
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            yield f"{dashboard['uid']}: panel {panel['title']!r} {target['refId']}", target["expr"]


def check_form(dashboard, findings):
    """The rules of a dashboard that serves everywhere: whatever the data source, the job and the time range."""
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    for name in ("datasource", "job", "namespace", "release", "instance"):
        findings.expect(name in variables, f"dashboard: no variable {name}")
    findings.expect(variables.get("datasource", {}).get("type") == "datasource", "dashboard: datasource is no data source")
    findings.expect(dashboard.get("editable") is False, "dashboard: must not be editable in place")
    for name, all_value in (("job", None), ("namespace", ".*"), ("release", ".*"), ("instance", ".*")):
        # On time range change: targets come and go.
        findings.expect(variables.get(name, {}).get("refresh") == 2, f"dashboard: variable {name} is not refreshed")
        # All jobs are those of ours, not those of everybody.
        findings.expect(variables.get(name, {}).get("allValue") == all_value, f"dashboard: variable {name}: all must be {all_value}")
    for key in ("id", "title"):
        keys = [panel[key] for panel in dashboard["panels"]]
        findings.expect(len(keys) == len(set(keys)), f"dashboard {dashboard['uid']}: two panels have one {key}")
    for panel in panels_of(dashboard):
        place = f"panel {panel.get('title')!r}"
        for key in ("title", "description"):
            findings.expect(panel.get(key), f"{place}: no {key}")
        for key in ("unit", "noValue"):
            findings.expect(panel["fieldConfig"]["defaults"].get(key), f"{place}: no {key}")
        findings.expect(panel["targets"], f"{place}: no query")
        letters = [target["refId"] for target in panel["targets"]]
        findings.expect(len(letters) == len(set(letters)), f"{place}: two queries have one letter")
        for target in panel["targets"]:
            findings.expect(target["expr"].strip() and target["legendFormat"], f"{place}: a query without text or legend")
        for part in [panel, *panel["targets"]]:
            findings.expect(part["datasource"].get("uid") == "${datasource}", f"{place}: data source is not the variable")
    for place, expression in expressions_of(dashboard):
        check_expression_form(place, expression, findings)


def check_expression_form(place, expression, findings):
    for match in SELECTOR.finditer(expression):
        labels = match.group(1) or ""
        for matcher in ('job=~"$job"', 'namespace=~"$namespace"', '_instance=~"$release"', ' instance=~"$instance"'):
            findings.expect(matcher in labels, f"{place}: {match.group(0)} has no {matcher}")
        # Others have these too, in the same job where annotations are scraped.
        name = match.group(0).split("{")[0]
        if name == "up" or name.startswith("process_"):
            findings.expect("and on (job, instance)" in expression, f"{place}: {name} is everybody's")
        if name.startswith("rpc_server_"):
            findings.expect('rpc_method=~"' in labels, f"{place}: {name} is everybody's")
    for name in re.findall(r"\b(?:rate|increase)\(\s*(\w+)", expression):
        is_counter = name.endswith(("_total", *HISTOGRAM_PARTS))
        findings.expect(is_counter, f"{place}: a rate of {name}, which is no counter")
    for match in re.finditer(r"(?<!\w)((?:antares|rpc|process)_\w+_bucket)", expression):
        before = expression[: match.start()].rstrip()
        findings.expect(before.endswith(("rate(", "increase(")), f"{place}: {match.group(1)} without a rate")
    # Texts of matchers have brackets too.
    for duration in re.findall(r"\[([^\]]*)\]", re.sub(r'"[^"]*"', '""', expression)):
        findings.expect(duration in ("$__rate_interval", "30d", "7d"), f"{place}: [{duration}] is none of $__rate_interval, the objective's and the alert's")


def run_promtool(findings):
    for arguments in (
        ["check", "config", PROMETHEUS / "prometheus.yml"],
        ["check", "rules", PROMETHEUS / "antares.rules.yml"],
        ["test", "rules", PROMETHEUS / "antares.rules.test.yml"],
    ):
        promtool(arguments, findings)
    # The same on the series that each way of scraping makes.
    tests = (PROMETHEUS / "antares.rules.test.yml").read_text(encoding="utf-8").replace("antares.rules.yml", str(PROMETHEUS / "antares.rules.yml"))
    for way, labels in scraping.WAYS.items():
        words = scraping.promtool(scraping.series_of(tests, labels))
        findings.expect(not words, f"promtool test rules, {way}: {words}")


def check_neighbours(findings):
    """Panels tell of our processes and calls alone, in each way of scraping."""
    panels = {panel["title"]: filled_in(panel["targets"][0]["expr"]) for panel in panels_of(dashboards()["antares-overview.json"]) if panel["targets"]}
    words = scraping.promtool(neighbours.test_of(panels))
    findings.expect(not words, f"promtool test rules, neighbours: {words}")


def promtool(arguments, findings):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    findings.expect(done.returncode == 0, f"promtool {arguments[0]} {arguments[1]}: {done.stdout}{done.stderr}".strip())


def alerts_of(text):
    """Names of the alerts in the rules, or of those that a promtool test expects."""
    return set(re.findall(r"- alert: (\w+)", text)) | set(re.findall(r'alertname="(\w+)"', text))


def check_tests(findings):
    """Every alert fires in a test of promtool, and one that pages says what to do now."""
    text = (PROMETHEUS / "antares.rules.yml").read_text(encoding="utf-8")
    for alert in text.split("- alert: ")[1:]:
        is_told = "description:" in alert or "severity: page" not in alert
        findings.expect(is_told, f"alert {alert.split()[0]}: pages without a description of what to do now")
    rules = alerts_of(text)
    tested = alerts_of((PROMETHEUS / "antares.rules.test.yml").read_text(encoding="utf-8"))
    for name in sorted(rules - tested):
        findings.expect(False, f"alert {name}: no promtool test in which it fires")
    findings.expect(rules, "no alert in the rules")


# ---- names of metrics, wherever they are written


def declared_metrics():
    """Names of the metrics that the code declares."""
    names = set()
    for folder in ("crates", "cache", "compiler-svc", "runner-svc", "cli"):
        for path in (ROOT / folder).rglob("*.rs"):
            if "tests" in path.parts:
                continue
            code = path.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
            if re.search(r"\bMetrics\b", code):
                names.update(DECLARED.findall(code))
    return names


def check_written_names(findings):
    """Code, panels, rules and documents speak of the same metrics."""
    declared = declared_metrics()
    findings.expect(len(declared) > 40, f"only {len(declared)} metrics are declared: is this check still right?")
    shown = set()
    for dashboard in dashboards().values():
        for place, expression in expressions_of(dashboard):
            names = {family_of(name, declared) for name in names_in(expression)}
            shown |= names
            check_declared(place, names, declared, findings)
    rules = (PROMETHEUS / "antares.rules.yml").read_text(encoding="utf-8")
    expressions = re.findall(r"expr: (?:>-\n)?(.*?)(?=\n +(?:for|labels|- record|- alert)|\Z)", rules, re.DOTALL)
    check_declared("rules", {family_of(name, declared) for name in names_in(" ".join(expressions))}, declared, findings)
    for document in DOCUMENTS:
        text = (ROOT / document).read_text(encoding="utf-8")
        named = {family_of(name, declared) for name in re.findall(r"`((?:antares|rpc_server)_[a-z0-9_]+)[`{]", text)}
        check_declared(document, named, declared, findings)
    operations = (ROOT / DOCUMENTS[0]).read_text(encoding="utf-8")
    for name in sorted(declared):
        findings.expect(name in shown, f"{name}: in no panel")
        findings.expect(f"| `{name}` |" in operations, f"{name}: not in {DOCUMENTS[0]}")


def check_declared(place, names, declared, findings):
    for name in sorted(names):
        is_known = name in declared or name.startswith("process_")
        findings.expect(is_known, f"{place}: {name} is no metric that the code declares")


# ---- a Prometheus of our own


class Prometheus:
    """A real Prometheus with a configuration and data of its own, on a free port, for the time of a `with`. It scrapes each target
    in each of `ways`, so that rules and panels see the labels of all of them."""

    def __init__(self, targets, rules=PROMETHEUS / "antares.rules.yml", ways=None):
        self.targets = targets
        self.ways = scraping.WAYS if ways is None else ways
        self.rules_file = rules
        self.port = free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="antares-prometheus-"))

    def __enter__(self):
        self.write_config(self.targets)
        with (self.folder / "log").open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                    # What is gone is gone soon.
                    "--query.lookback-delta=15s",
                    "--enable-feature=exemplar-storage",
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

    def write_config(self, targets):
        config = {
            "global": {"scrape_interval": f"{SCRAPE_INTERVAL_S}s", "evaluation_interval": f"{SCRAPE_INTERVAL_S}s"},
            "rule_files": [str(self.rules_file)],
            "scrape_configs": [
                {"job_name": way, "static_configs": [{"targets": targets, "labels": labels}]} for way, labels in self.ways.items()
            ],
        }
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")

    def forget(self, others=()):
        """From now on it has no targets but `others`."""
        self.write_config(list(others))
        self.process.send_signal(signal.SIGHUP)

    def is_scraping(self):
        return sum(value for _, value in self.query("up")) == len(self.targets) * len(self.ways)

    def get(self, path, **parameters):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=ANSWER_DEADLINE_S) as response:
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

    def exemplars(self, expression):
        """The exemplars of the last five minutes."""
        now = time.time()
        data = self.get("query_exemplars", query=expression, start=now - 300, end=now)
        return [exemplar for series in data for exemplar in series["exemplars"]]

    def rules(self, kind):
        groups = self.get("rules", type=kind)["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def alerts(self):
        return self.rules("alert")


# ---- what only a running service can show


def metric_families(targets, findings):
    """Names of the families in /metrics of all targets."""
    names = set()
    for target in targets:
        try:
            with urllib.request.urlopen(f"http://{target}/metrics", timeout=ANSWER_DEADLINE_S) as response:
                text = response.read().decode()
        except OSError as error:
            findings.expect(False, f"{target} does not answer after the load: {error}")
            continue
        names.update(line.split()[2] for line in text.splitlines() if line.startswith("# TYPE "))
    return names


# Its buckets name traces.
EXEMPLARS_OF = "rpc_server_call_duration_seconds_bucket"

# Of features that the service of this check does not use.
ELSEWHERE = {
    "antares_certificate_begin_timestamp_seconds",
    "antares_certificate_expiry_timestamp_seconds",
    "antares_compilers",
}


# What they measure is the speed of the machine, which runs a debug build here beside who knows what.
OF_SPEED = {"AntaresOverhead", "AntaresQueueWait", "AntaresCompileQueue", "AntaresWorkersSaturated"}


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
    if ELSEWHERE & names_in(expression):
        return
    try:
        samples = prometheus.query(expression)
    except ValueError as error:
        findings.expect(False, f"{place}: {error}\n      {expression}")
        return
    is_finite = any(math.isfinite(value) for _, value in samples)
    what = "no sample" if not samples else "no finite sample"
    findings.expect(is_finite, f"{place}: {what}\n      {expression}")


def filled_in(expression):
    values = {"$__rate_interval": RATE_INTERVAL, **dict.fromkeys(("$job", "$namespace", "$release", "$instance"), ".*")}
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
        for part in re.split(r"\s+(?:and|unless)\s+", rule["query"].strip()):
            match = COMPARISON.match(re.sub(r"^on ?\([\w, ]*\) ?", "", part))
            findings.expect(match is not None, f"{place}: {part} must end in a comparison with a number")
            if match:
                # Where all is well what may be absent is there.
                value = re.sub(r"^absent\((.*)\)$", r"\1", match.group(1))
                # Alerts are silent here.
                if "ALERTS{" not in value:
                    check_value(place, value, prometheus, findings)
        findings.expect(rule["health"] == "ok", f"{place}: {rule.get('lastError')}")
        is_silent = rule["state"] == "inactive" or rule["name"] in OF_SPEED
        findings.expect(is_silent, f"{place}: {rule['state']} on a healthy service: {rule['alerts']}")
        path, _, anchor = rule["annotations"].get("runbook_url", "").partition("#")
        is_there = path.endswith(f"/deploy/{RUNBOOK.name}") and anchor in headings
        findings.expect(is_there, f"{place}: runbook_url leads nowhere: {path}#{anchor}")


def check_names(rules, families, findings):
    """Names in panels and rules exist; our metrics are in a panel."""
    panels = [entry for dashboard in dashboards().values() for entry in expressions_of(dashboard)]
    places = [*panels, *((f"rule {rule['name']}", rule["query"]) for rule in rules)]
    shown = set()
    for place, expression in places:
        for name in names_in(expression):
            family = family_of(name, families)
            shown.add(family)
            # What only a runner has whose compilers are elsewhere.
            is_there = family in families or family in ELSEWHERE
            findings.expect(is_there, f"{place}: {name} is not in /metrics")
    for family in sorted(families):
        if family.startswith(("antares_", "rpc_")):
            findings.expect(family in shown, f"/metrics: {family} is in no panel and no rule")


class Load:
    """A command that causes what is measured; without one whoever calls makes the load."""

    def __init__(self, command, findings):
        self.command = command
        self.findings = findings
        self.rounds = 0

    def make(self, seconds, rounds):
        """At least as many seconds and rounds; false if a round failed."""
        if self.command is None:
            time.sleep(seconds)
            return True
        deadline, last = time.monotonic() + seconds, self.rounds + rounds
        while time.monotonic() < deadline or self.rounds < last:
            self.rounds += 1
            environment = {**os.environ, "ANTARES_ROUND": str(self.rounds)}
            done = subprocess.run(["sh", "-c", self.command], capture_output=True, text=True, check=False, env=environment)
            if done.returncode != 0:
                output = f"{done.stdout}{done.stderr}".strip()
                self.findings.expect(False, f"the load ended with status {done.returncode} in round {self.rounds}: {output}")
                return False
        return True


def data_findings(options, prometheus):
    """What is wrong with what the service shows now."""
    findings = Findings()
    for dashboard in dashboards().values():
        check_variables(dashboard, prometheus, findings)
        for place, expression in expressions_of(dashboard):
            check_value(place, filled_in(expression), prometheus, findings)
    check_alerts(prometheus, findings)
    for rule in prometheus.rules("record"):
        check_value(f"rule {rule['name']}", rule["query"], prometheus, findings)
    traces = [exemplar["labels"].get("trace_id", "") for exemplar in prometheus.exemplars(EXEMPLARS_OF)]
    are_traces = traces and all(re.fullmatch("[0-9a-f]{32}", trace) for trace in traces)
    findings.expect(are_traces, f"{EXEMPLARS_OF}: exemplars name these traces: {traces}")
    rules = [*prometheus.alerts(), *prometheus.rules("record")]
    check_names(rules, metric_families(options.metrics, findings), findings)
    return findings


def check_live(options, findings):
    with Prometheus(options.metrics) as prometheus:
        load = Load(options.load, findings)
        is_loaded = load.make(options.seconds, ROUNDS_MIN)
        deadline = time.monotonic() + DATA_DEADLINE_S
        found = data_findings(options, prometheus)
        while found.wrong and is_loaded and time.monotonic() < deadline:
            print(f"load: {load.rounds} rounds, {len(found.wrong)} wrong yet, first: {found.wrong[0]}")
            is_loaded = load.make(0, 1)
            found = data_findings(options, prometheus)
        print(f"load: {load.rounds} rounds")
        findings.wrong += found.wrong
        findings.checked += found.checked


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
    made = subprocess.run(
        [sys.executable, str(DEPLOY / "grafana" / "dashboards.py"), "--check"], capture_output=True, text=True, check=False
    )
    findings.expect(made.returncode == 0, f"{made.stdout}{made.stderr}".strip())
    for dashboard in dashboards().values():
        check_form(dashboard, findings)
    run_promtool(findings)
    check_neighbours(findings)
    check_tests(findings)
    check_written_names(findings)
    if options.metrics:
        check_live(options, findings)
    for text in findings.wrong:
        print(f"WRONG: {text}")
    expressions = sum(len(list(expressions_of(dashboard))) for dashboard in dashboards().values())
    print(f"dashboards: {expressions} expressions, {findings.checked} checks, {len(findings.wrong)} wrong")
    sys.exit(1 if findings.wrong else 0)


if __name__ == "__main__":
    main()
