"""Unit tests of the chart: what templates make of values. $HELM is the program; chart.sh sets it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

import scraping
import yaml

CHART = pathlib.Path(__file__).resolve().parents[2] / "helm/antares"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def rendered(values, release="antares", namespace="default", chart=CHART):
    """Objects of a release."""
    command = [os.environ.get("HELM", "helm"), "template", release, chart, "--namespace", namespace, "--values", "-", "--kube-version", "1.34.0"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return [thing for thing in yaml.safe_load_all(done.stdout) if thing]


def render(values=None, chart=CHART):
    """Objects by kind and name."""
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in rendered(values or {}, chart=chart)}


def pod(objects, kind, name):
    return objects[(kind, name)]["spec"]["template"]["spec"]


def configuration(objects, name):
    return tomllib.loads(objects[("ConfigMap", name)]["data"]["antares.toml"])


def memory_mib(spec):
    return int(spec["containers"][0]["resources"]["limits"]["memory"].removesuffix("Mi"))


class Chart(unittest.TestCase):
    def test_images_by_tag_and_by_digest(self):
        objects = render({"runner": {"image": {"digest": DIGEST}}, "compiler": {"image": {"tag": "7"}}})
        self.assertEqual(pod(objects, "Deployment", "antares-runner")["containers"][0]["image"], f"antares/runner@{DIGEST}")
        self.assertEqual(pod(objects, "StatefulSet", "antares-compiler")["containers"][0]["image"], "antares/compiler:7")
        self.assertEqual(objects[("Pod", "antares-smoke")]["spec"]["containers"][0]["image"], f"antares/runner@{DIGEST}")
        version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
        self.assertEqual(pod(render(), "Deployment", "antares-runner")["containers"][0]["image"], f"antares/runner:{version}")

    def test_memory_limits_are_the_sum_of_their_parts(self):
        values = {"compiler": {"workers": 2, "workerMemoryMiB": 1000, "requestsMiB": 100}, "runner": {"workers": 2, "idleWorkers": 3, "readyMiB": 64, "hotCellsMiB": 32, "requestsMiB": 100}}
        objects = render(values)
        service, compiling, running = 256 + 2 * 100 + 1024 // 4, (1024 + 2000) * 3 // 2 + 8 * 64, 32 * 5 + 64 + 32
        self.assertEqual(memory_mib(pod(objects, "StatefulSet", "antares-compiler")), service + compiling)
        self.assertEqual(memory_mib(pod(objects, "Deployment", "antares-runner")), service + running)
        tiers = render(values | {"shared": {"url": "s3://bucket"}})
        self.assertEqual(memory_mib(pod(tiers, "Deployment", "antares-compiler")), service + compiling + 64 + 256 + 64 + 256 + 4 * 64)
        with_node = values["runner"] | {"config": {"node": {"rpc": "http://node:8114"}}}
        self.assertEqual(memory_mib(pod(render(values | {"runner": with_node}), "Deployment", "antares-runner")), service + running + 64 + 4 * 96)
        # Entries of a store beyond 2 GiB.
        large = render(values | {"compiler": values["compiler"] | {"cache": {"budgetMiB": 10240}}})
        self.assertEqual(memory_mib(pod(large, "StatefulSet", "antares-compiler")), service + compiling + 512)
        # As docs/capacity.md has it.
        self.assertEqual(memory_mib(pod(render({"runner": {"workers": 4}}), "Deployment", "antares-runner")), 1920)
        single = render(values | {"single": {"enabled": True}})
        self.assertEqual(memory_mib(pod(single, "StatefulSet", "antares-server")), service + compiling + running)

    def test_the_disk_of_empty_dirs_is_requested(self):
        def requested(values, kind, name):
            return pod(render(values), kind, name)["containers"][0]["resources"]["requests"].get("ephemeral-storage")

        shared, unclaimed = {"shared": {"url": "s3://bucket"}}, {"compiler": {"cache": {"persistent": False}}}
        for values, kind, name, disk in (
            ({}, "Deployment", "antares-runner", "16Mi"),
            ({}, "StatefulSet", "antares-compiler", "64Mi"),
            (shared, "Deployment", "antares-compiler", f"{64 + 2 * 2048 + 768}Mi"),
            (unclaimed | {"single": {"enabled": True}}, "StatefulSet", "antares-server", f"{64 + 2 * 2048 + 768}Mi"),
            ({"runner": {"resources": {"requests": {"ephemeral-storage": "1Gi"}}}}, "Deployment", "antares-runner", "1Gi"),
        ):
            self.assertEqual(requested(values, kind, name), disk, (values, name))

    def test_severities_and_endpoints_as_another_monitoring_wants_them(self):
        rules = {"enabled": True, "severities": {"page": "critical"}, "overrides": {"AntaresDown": {"severity": "own"}}}
        encrypted = {"scheme": "https", "tlsConfig": {"caFile": "/ca"}, "path": "/other"}
        objects = render({"monitoring": {"rules": rules, "serviceMonitor": {"enabled": True, "endpoint": encrypted}}})
        groups = objects[("PrometheusRule", "antares")]["spec"]["groups"]
        severities = {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"] if "alert" in rule}
        self.assertEqual(set(severities.values()), {"critical", "ticket", "own"})
        self.assertEqual(severities["AntaresDown"], "own")
        (endpoint,) = objects[("ServiceMonitor", "antares")]["spec"]["endpoints"]
        self.assertEqual((endpoint["scheme"], endpoint["tlsConfig"], endpoint["path"]), ("https", {"caFile": "/ca"}, "/metrics"))
        self.assertEqual([one["targetLabel"] for one in endpoint["relabelings"] if "targetLabel" in one], ["job"])

    def targets(self, kind, chart=CHART):
        """Labels of a runner's target in one of the chart's ways of scraping."""
        objects = render({"monitoring": {kind[0].lower() + kind[1:]: {"enabled": True}}}, chart)
        template = objects[("Deployment", "antares-runner")]["spec"]["template"]
        monitor, service = objects[(kind, "antares")], None
        if kind == "ServiceMonitor":
            selector = monitor["spec"]["selector"]["matchLabels"].items()
            (service,) = [thing for (what, _), thing in objects.items() if what == "Service" and selector <= thing["metadata"]["labels"].items()]
            self.assertLessEqual(service["spec"]["selector"].items(), template["metadata"]["labels"].items())
        runner = {
            "metadata": template["metadata"] | {"name": scraping.WAYS["pod_monitor"]["pod"], "namespace": "verify"},
            "containers": template["spec"]["containers"],
        }
        return scraping.target_labels(monitor, runner, service)

    def test_monitors_give_the_labels_that_rules_are_tested_with(self):
        self.assertEqual(self.targets("PodMonitor"), scraping.WAYS["pod_monitor"])
        self.assertEqual(self.targets("ServiceMonitor"), scraping.WAYS["pod_monitor"])

    def test_the_example_of_prometheus_gives_its_labels(self):
        (scrape,) = yaml.safe_load((CHART.parents[1] / "deploy/prometheus/prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
        own = [static.get("labels", {}) for static in scrape["static_configs"]]
        self.assertEqual([{"job": scrape["job_name"], **labels} for labels in own], [scraping.WAYS["compose"]])
        self.assertEqual(set(scrape), {"job_name", "static_configs"})

    def test_annotations_lead_to_metrics_and_labels_of_pods_are_those_of_the_rules(self):
        """As Prometheus' own chart reads them: the job kubernetes-pods makes labels of all labels of a pod."""
        template = render()[("Deployment", "antares-runner")]["spec"]["template"]
        annotations = template["metadata"]["annotations"]
        self.assertEqual({key: annotations[f"prometheus.io/{key}"] for key in ("scrape", "port", "path")}, {"scrape": "true", "port": "9464", "path": "/metrics"})
        (container,) = template["spec"]["containers"]
        self.assertIn(9464, [port["containerPort"] for port in container["ports"]])
        way = scraping.WAYS["annotations"]
        labels = {re.sub(r"\W", "_", name): text for name, text in template["metadata"]["labels"].items()}
        for name in [name for name in way if name.startswith("app_")]:
            self.assertEqual(labels[name], way[name])

    def test_no_label_of_a_target_is_one_of_ours(self):
        """Prometheus would rename ours to exported_*, and rules and dashboards would ask for the other one."""
        table = (CHART.parents[1] / "docs/reference/metrics.md").read_text(encoding="utf-8")
        ours = set()
        for labels in re.findall(r"^\| `\w+` \| \w+ \| ([^|]*) \|", table, re.MULTILINE):
            ours |= set(re.findall(r"(?:^|; )`(\w+)`", labels))
        self.assertIn("service", ours)
        for way, labels in scraping.WAYS.items():
            self.assertFalse(ours & set(labels), way)

    def test_a_chart_with_another_job_is_found(self):
        """As it was once: the job was the component, and alerts that asked for one job were blind, or fired for ever."""
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(shutil.copytree(CHART, pathlib.Path(folder, "antares")))
            path = chart / "templates/monitoring.yaml"
            text = path.read_text(encoding="utf-8")
            for changed in (
                text.replace("replacement: antares", 'replacement: "runner"'),
                text.replace("targetLabel: job", "targetLabel: work"),
                text.replace("  podTargetLabels:", "  jobLabel: app.kubernetes.io/component\n  podTargetLabels:").replace("targetLabel: job", "targetLabel: work"),
            ):
                self.assertNotEqual(changed, text)
                path.write_text(changed, encoding="utf-8")
                for kind in ("PodMonitor", "ServiceMonitor"):
                    self.assertNotEqual(self.targets(kind, chart), scraping.WAYS["pod_monitor"])

    def test_each_release_has_dashboards_of_its_own(self):
        def seen(values):
            boards = [json.loads(text) for text in render(values)[("ConfigMap", values.get("fullnameOverride", "antares") + "-dashboard")]["data"].values()]
            self.assertGreater(len(boards), 3)
            for board in boards:
                self.assertLessEqual(len(board["uid"]), 40)
            return {board["uid"] for board in boards} | {board["title"] for board in boards}

        self.assertFalse(seen({}) & seen({"fullnameOverride": "other"}))
        self.assertFalse(seen({}) & seen({"namespaceOverride": "other"}))
        self.assertEqual(seen({}), seen({}))

    def test_what_a_pod_may_have_beside(self):
        extra = {
            "extraEnv": [{"name": "A", "value": "b"}],
            "extraVolumes": [{"name": "more", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
            "affinity": {"podAntiAffinity": {}},
            "priorityClassName": "high",
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "runtimeClassName": "crun",
            "userNamespace": True,
        }
        objects = render({"compiler": extra, "runner": extra})
        for kind, name in (("StatefulSet", "antares-compiler"), ("Deployment", "antares-runner")):
            spec = pod(objects, kind, name)
            self.assertIn({"name": "A", "value": "b"}, spec["containers"][0]["env"])
            self.assertIn({"name": "more", "emptyDir": {}}, spec["volumes"])
            self.assertIn({"name": "more", "mountPath": "/more"}, spec["containers"][0]["volumeMounts"])
            for key in ("affinity", "priorityClassName", "tolerations", "runtimeClassName"):
                self.assertEqual(spec[key], extra[key], key)
            self.assertEqual(spec["nodeSelector"], {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "a": "b"})
            self.assertIs(spec["hostUsers"], False)

    def test_pods_are_spread_over_nodes_and_zones(self):
        workloads = (("StatefulSet", "antares-compiler"), ("Deployment", "antares-runner"))
        for kind, name in workloads:
            spread = pod(render(), kind, name)["topologySpreadConstraints"]
            self.assertEqual([c["topologyKey"] for c in spread], ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
            labels = render()[(kind, name)]["spec"]["template"]["metadata"]["labels"]
            for constraint in spread:
                self.assertLessEqual(constraint["labelSelector"]["matchLabels"].items(), labels.items())
        own = [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
        objects = render({"compiler": {"spread": False}, "runner": {"topologySpreadConstraints": own}})
        self.assertNotIn("topologySpreadConstraints", pod(objects, "StatefulSet", "antares-compiler"))
        self.assertEqual(pod(objects, "Deployment", "antares-runner")["topologySpreadConstraints"], own)

    def test_a_single_server_is_both(self):
        values = {"single": {"enabled": True}, "signing": {"trustedConfigMap": "trusted"}, "trace": {"endpoint": "http://c:4317"}}
        objects = render(values | {"compiler": {"workers": 3, "config": {"compiler": {"wall_ms_max": 5}}}, "runner": {"workers": 5}})
        self.assertEqual([key for key in objects if key[0] in ("Deployment", "StatefulSet")], [("StatefulSet", "antares-server")])
        server = objects[("StatefulSet", "antares-server")]
        container = server["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["image"].split(":")[0], "antares/antares")
        self.assertEqual(container["args"], ["serve", "--config", "/etc/antares/antares.toml"])
        self.assertIn("/etc/antares-trusted", [mount["mountPath"] for mount in container["volumeMounts"]])
        config = configuration(objects, "antares-server")
        self.assertEqual((config["compiler"]["workers_max"], config["runner"]["workers_max"]), (3, 5))
        self.assertEqual((config["compiler"]["wall_ms_max"], config["signing"]["trusted"]), (5, "/etc/antares-trusted/trusted.json"))
        self.assertNotIn("compiler_url", config["runner"])
        labels = server["spec"]["template"]["metadata"]["labels"]
        for name in ("antares-compiler", "antares-runner", "antares-runner-headless"):
            self.assertLessEqual(objects[("Service", name)]["spec"]["selector"].items(), labels.items())
        for kind in ("NetworkPolicy", "PodDisruptionBudget"):
            self.assertEqual([key for key in objects if key[0] == kind], [(kind, "antares-server")])
        with self.assertRaisesRegex(ValueError, "runner.autoscaling is not for single.enabled"):
            render({"single": {"enabled": True}, "runner": {"autoscaling": {"enabled": True}}})

    def test_policies_let_out_what_is_needed_and_no_more(self):
        def ports(values, name):
            rules = render(values)[("NetworkPolicy", name)]["spec"]["egress"]
            return sorted({port["port"] for rule in rules for port in rule["ports"]})

        self.assertEqual(ports({}, "antares-compiler"), [])
        self.assertEqual(ports({}, "antares-runner"), [53, 50051])
        self.assertEqual(ports({"single": {"enabled": True}}, "antares-server"), [])
        store = {"shared": {"url": "s3://bucket", "port": 9000}}
        self.assertEqual(ports(store, "antares-compiler"), [53, 9000])
        self.assertEqual(ports(store, "antares-runner"), [53, 50051])

    def test_a_configuration_that_changes_replaces_the_pods(self):
        def annotations(values):
            objects = render(values)
            return [
                objects[key]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
                for key in (("StatefulSet", "antares-compiler"), ("Deployment", "antares-runner"))
            ]

        before, after = annotations({}), annotations({"runner": {"workers": 7}})
        self.assertEqual([a == b for a, b in zip(before, after, strict=True)], [True, False])
        rule = {"certificate": "antares-runner", "roles": ["compile"]}
        clients = {"tls": {"secret": "tls"}, "auth": {"rules": [rule]}}
        before = annotations(clients)
        self.assertNotEqual(before, annotations(clients | {"log": {"filter": "debug"}}))
        # These are read again in place.
        others = {"auth": {"rules": [rule, rule]}, "quotas": {"calls_max": 3, "tenants": [{"tenant": "a"}]}, "tenants": {"shared": True}}
        self.assertEqual(before, annotations(clients | others))

    def test_selectors_and_claims_do_not_change_with_the_version(self):
        """They are immutable: an upgrade that changed them would be refused."""
        for values in ({}, {"single": {"enabled": True}}, {"commonLabels": {"team": "vm"}}):
            for (kind, _), thing in render(values).items():
                if kind in ("Deployment", "StatefulSet"):
                    parts = [thing["spec"]["selector"]["matchLabels"]]
                    parts += [claim["metadata"]["labels"] for claim in thing["spec"].get("volumeClaimTemplates", [])]
                    for labels in parts:
                        self.assertEqual({key.split("/")[1] for key in labels}, {"name", "instance", "component"})


if __name__ == "__main__":
    unittest.main()
