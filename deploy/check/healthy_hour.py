"""A healthy system under load fires no alert for an hour, in simulated time: promtool runs the rules over the series that a real
service made under a real load, held for an hour, on the labels of each shipped way of scraping.

Usage: healthy_hour.py --metrics HOST:PORT --load COMMAND [--seconds N]

--metrics   address of /metrics of a service
--load      shell command run again and again; finds the number of the round in ANTARES_ROUND
--seconds   how long the service is watched under the load; 20 by default

What was seen in a second stands for STEP_S seconds: counters go on at the rates that they had, gauges have the values that they had
by turns. Exits with 1 and the alerts that fired.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

import dashboard
import scraping

RULES = pathlib.Path(__file__).resolve().parents[1] / "prometheus" / "antares.rules.yml"
# As Prometheus scrapes by default in the chart, and steps of an hour.
STEP_S = 15
STEPS = 3600 // STEP_S
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def snapshot_of(text):
    """Kind and value of every series, by its name with labels."""
    kinds, values = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ", 3)
            kinds[family] = kind
        elif match := SAMPLE.match(line):
            name, labels, value = match.groups()
            family = next((name.removesuffix(part) for part in dashboard.HISTOGRAM_PARTS if name.removesuffix(part) in kinds), name)
            grows = kinds.get(family) in ("counter", "histogram") and not (name == family and kinds.get(family) == "histogram")
            values[(name, labels or "")] = (grows, float(value))
    return values


def hour_of(snapshots):
    """Each series as a list of values, one for each step of an hour."""
    series = {}
    for key in sorted({key for snapshot in snapshots for key in snapshot}):
        seen = [snapshot[key] for snapshot in snapshots if key in snapshot]
        values = [value for _, value in seen]
        if not seen[0][0]:
            series[key] = [values[step % len(values)] for step in range(STEPS + 1)]
            continue
        # What was not there yet was 0.
        missing = len(snapshots) - len(values)
        values = [0.0] * missing + values
        growth = [max(after - before, 0.0) * STEP_S for before, after in zip(values, values[1:])]
        total, grown = values[0], []
        for step in range(STEPS + 1):
            grown.append(total)
            total += growth[step % len(growth)] if growth else 0.0
        series[key] = grown
    return series


def test_of(series, labels):
    """A test of promtool: these series on a target with `labels`, and no alert that fires at any step of the hour."""
    target = scraping.as_text(labels | {"instance": "i"})
    inputs = [{"series": f"up{{{target}}}", "values": f"1x{STEPS}"}]
    for (name, own), values in series.items():
        text = ", ".join(filter(None, (target, own)))
        inputs.append({"series": f"{name}{{{text}}}", "values": " ".join(f"{value:.10g}" for value in values)})
    # Series of ALERTS that were there at any time.
    fired = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))'
    case = {"interval": f"{STEP_S}s", "input_series": inputs, "promql_expr_test": [{"expr": fired, "eval_time": "1h", "exp_samples": []}]}
    return {"rule_files": [str(RULES)], "evaluation_interval": f"{STEP_S}s", "tests": [case]}


def fired_in(series, labels):
    """The alerts that fire within the hour."""
    words = scraping.promtool(test_of(series, labels))
    fired = sorted(set(re.findall(r'alertname="(\w+)"', words)))
    if words and not fired:
        raise SystemExit(f"promtool: {words[-4000:]}")
    return fired


def check_hour(snapshots):
    """Way of scraping and alert of all that fire."""
    series = hour_of(snapshots)
    names = {name for name, _ in series}
    if "antares_build_info" not in names or len(snapshots) < 2:
        raise SystemExit(f"there is no hour to be made of {len(snapshots)} looks at {len(names)} families")
    return [(way, alert) for way, labels in scraping.WAYS.items() for alert in fired_in(series, labels)]


class Load:
    """Runs the command again and again in a thread for the time of a `with`; fails if it does."""

    def __init__(self, command):
        self.command, self.rounds, self.failure = command, 0, None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.is_over.is_set():
            self.rounds += 1
            # Other scripts than those of the check before.
            environment = {**os.environ, "ANTARES_ROUND": f"hour {self.rounds}"}
            done = subprocess.run(["sh", "-c", self.command], capture_output=True, text=True, check=False, env=environment)
            if done.returncode != 0:
                self.failure = f"the load ended with status {done.returncode} in round {self.rounds}: {done.stdout}{done.stderr}"
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()
        if self.failure:
            raise SystemExit(self.failure)


def watch(target, seconds):
    """A look at the service each second."""
    snapshots = []
    deadline = time.monotonic() + seconds
    while len(snapshots) < 2 or time.monotonic() < deadline:
        begun = time.monotonic()
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=60) as response:
            snapshots.append(snapshot_of(response.read().decode()))
        time.sleep(max(0.0, 1 - (time.monotonic() - begun)))
    return snapshots


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", required=True)
    parser.add_argument("--load", required=True)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    with Load(options.load) as load:
        snapshots = watch(options.metrics, options.seconds)
        wrong = check_hour(snapshots)
    for way, alert in wrong:
        print(f"WRONG: {alert} fires on a healthy service under load, scraped by way of {way}")
    print(f"healthy hour: {len(snapshots)} looks at {len(snapshots[-1])} series, {load.rounds} rounds of load, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
