"""Every command of docs/first-cluster.md, with the services of a build, a server of S3 and a Prometheus; walk.py says what is real and what is
played. $HELM and $GOFAKES3 are programs, $ANTARES is one of a build that has the services beside; chart.sh sets them."""

import os
import pathlib
import subprocess
import unittest

import dashboard
import scraping
import waiting
import walk

PAGE = walk.PAGE.read_text(encoding="utf-8")
ANTARES = pathlib.Path(os.environ.get("ANTARES") or "/nonexistent")
BUILT = all((ANTARES.parent / f"antares-{name}").exists() for name in ("compiler-svc", "runner-svc", "compile-worker", "run-worker"))


class Page(unittest.TestCase):
    def test_every_block_of_commands_says_where_it_runs(self):
        steps = walk.steps_of(PAGE)
        self.assertEqual(PAGE.count("```sh\n"), len(steps))
        self.assertEqual({step.kind for step in steps}, set(walk.KINDS))
        # What is not run are the reader's own names.
        self.assertEqual([set(line.split()[0] for line in step.commands.splitlines()) for step in steps if step.kind == "reader"], [{"export"}])
        self.assertGreater(sum(len(step.says) for step in steps), 2)
        with self.assertRaisesRegex(ValueError, "says not where it runs"):
            walk.steps_of("```sh\nrm x\n```\n")

    def test_what_is_played_takes_nothing_else(self):
        for arguments in (["apply", "--namespace", "antares"], ["get", "pods", "--namespace", "other"]):
            with self.assertRaises(SystemExit):
                walk.play_kubectl(pathlib.Path("/nonexistent"), arguments)


@unittest.skipUnless(BUILT and "GOFAKES3" in os.environ, "the services are not built")
class Walk(unittest.TestCase):
    def setUp(self):
        port = waiting.free_port()
        command = [os.environ["GOFAKES3"], "-backend", "memory", "-autobucket", "-host", f"127.0.0.1:{port}"]
        store = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(store.wait)
        self.addCleanup(store.kill)
        waiting.wait_for_listener(port, store, walk.START_MAX)
        self.stand = walk.Stand(ANTARES.parent, os.environ.get("HELM", "helm"), f"http://127.0.0.1:{port}", waiting.free_ports)
        self.addCleanup(self.stand.close)

    def test_the_page_leads_to_a_verified_transaction(self):
        for step in walk.steps_of(PAGE):
            if step.kind != "reader":
                self.stand.do(step)
        services = self.stand.compilers + self.stand.runners
        self.assertEqual(len(services), 3)
        # Prometheus as the chart's PodMonitor has it look.
        targets = [f"127.0.0.1:{service.metrics}" for service in services]
        with dashboard.Prometheus(targets, ways={"pod_monitor": scraping.WAYS["pod_monitor"]}) as prometheus:
            serving = prometheus.query("antares_serving")
            self.assertGreaterEqual(len(serving), len(services))
            self.assertEqual({value for _, value in serving}, {1.0})
            self.assertEqual([rule["name"] for rule in prometheus.alerts() if rule["state"] == "firing"], [])


if __name__ == "__main__":
    unittest.main()
