"""The ways in which Prometheus reaches Antares with what this repository ships, and the labels that each gives its targets.

Rules and dashboards must hold on the series of each: a label that one way sets is no label to select by.
"""

import json
import pathlib
import re
import subprocess
import tempfile

# Labels of a target by the way it is found. An address is added as `instance` by Prometheus.
WAYS = {
    # deploy/prometheus/prometheus.yml, for deploy/compose.yaml.
    "compose": {"job": "antares"},
    # The chart's PodMonitor, as the Prometheus operator turns it into a scrape configuration; test_chart.py holds it to the template. Its
    # ServiceMonitor gives the same: the label `service` is dropped, as antares_serving has one of its own, which Prometheus would rename.
    "pod_monitor": {
        "job": "antares",
        "namespace": "verify",
        "pod": "release-antares-runner-0",
        "container": "runner",
        "endpoint": "metrics",
        "app_kubernetes_io_component": "runner",
        "app_kubernetes_io_instance": "antares",
    },
    # The pods' annotations, as the job kubernetes-pods of Prometheus' own chart reads them.
    "annotations": {
        "job": "kubernetes-pods",
        "namespace": "verify",
        "pod": "release-antares-runner-0",
        "node": "node-1",
        "app_kubernetes_io_name": "antares",
        "app_kubernetes_io_component": "runner",
        "app_kubernetes_io_instance": "antares",
    },
}


def as_text(labels):
    return ", ".join(f'{name}="{value}"' for name, value in labels.items())


def series_of(tests, labels):
    """Promtool's tests with the series of `instance="i"` as a target of these labels has them."""
    return re.sub(r'\{(?:job="antares", )?instance="i"', f'{{{as_text(labels)}, instance="i"', tests)


def promtool(tests):
    """What promtool says of tests of rules; nothing where all hold."""
    with tempfile.TemporaryDirectory(prefix="antares-promtool-") as folder:
        path = pathlib.Path(folder, "some.test.yml")
        # JSON is YAML.
        path.write_text(tests if isinstance(tests, str) else json.dumps(tests), encoding="utf-8")
        done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode != 0 else ""


def target_labels(monitor, pod, service=None):
    """Labels of the target that the Prometheus operator makes of the first endpoint of a PodMonitor and a pod, or of a ServiceMonitor, its
    service and a pod behind that: its own ones, the pod's that are asked for, then the relabelings, of which those are understood that set a
    constant or drop a label."""
    (endpoint,) = monitor["spec"]["endpoints" if service else "podMetricsEndpoints"]
    labels_of_pod = pod["metadata"].get("labels", {})
    container = next(one for one in pod["containers"] if any(port["name"] == endpoint["port"] for port in one["ports"]))
    labels = {
        "namespace": pod["metadata"]["namespace"],
        "container": container["name"],
        "pod": pod["metadata"]["name"],
        "job": service["metadata"]["name"] if service else f"{pod['metadata']['namespace']}/{monitor['metadata']['name']}",
        "endpoint": endpoint["port"],
    }
    if service:
        labels["service"] = service["metadata"]["name"]
    for name in monitor["spec"].get("podTargetLabels", []):
        labels[re.sub(r"[^a-zA-Z0-9_]", "_", name)] = labels_of_pod[name]
    if "jobLabel" in monitor["spec"]:
        labels["job"] = (service["metadata"]["labels"] if service else labels_of_pod)[monitor["spec"]["jobLabel"]]
    for step in endpoint.get("relabelings", []):
        if set(step) == {"targetLabel", "replacement"}:
            labels[step["targetLabel"]] = step["replacement"]
        elif step.get("action") == "labeldrop":
            labels = {name: value for name, value in labels.items() if not re.fullmatch(step["regex"], name)}
        else:
            raise ValueError(f"a relabeling that this check does not understand: {step}")
    return labels
