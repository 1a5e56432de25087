"""Installs the chart on a real API server and looks at what comes of it: admission at the restricted Pod Security level, install, upgrade,
rollback, scaling, eviction, every file of ci/ and presets/, the sets of foreign_values.yaml, and the walk of docs/first-cluster.md. Kubelets are fake: what pods do when they run is pod.sh's.

Usage: k8s.py PROGRAM HELM CRDS CHART [ANTARES]      PROGRAM: the parts of a cluster, of tools.sh; CRDS: folder of custom resource definitions;
                                                     ANTARES: the binary, for the walk
"""

import copy
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import walk
import yaml
from control_plane import ControlPlane, Refused, wait_for

# How long helm may wait for objects, seconds.
HELM_MAX = 300
NODES = 6
# The chart before its claim for the cache grew: helm/antares/README.md says how to upgrade past that.
SMALLER_CLAIM = "a25345f"

RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


def core(namespace, kind):
    return f"/api/v1/namespaces/{namespace}/{kind}"


def apps(namespace, kind):
    return f"/apis/apps/v1/namespaces/{namespace}/{kind}"


def owned(release):
    return f"?labelSelector=app.kubernetes.io/instance%3D{release}"


def part(release, component):
    return owned(release) + f",app.kubernetes.io/component%3D{component}"


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


class Surroundings(threading.Thread):
    """What a cluster has beside the control plane, as far as helm waits for it: addresses for LoadBalancers, and the end of test pods."""

    def __init__(self, plane):
        super().__init__(daemon=True)
        self.plane = plane
        self.stopped = threading.Event()
        # The phase in which test pods end.
        self.test_phase = "Succeeded"

    def run(self):
        while not self.stopped.wait(0.2):
            try:
                self.look()
            except (OSError, Refused):
                # An object that went meanwhile, or a control plane that stops: the next round shows.
                continue

    def look(self):
        for service in self.plane.items("/api/v1/services"):
            if service["spec"]["type"] == "LoadBalancer" and not service["status"]["loadBalancer"].get("ingress"):
                where = core(service["metadata"]["namespace"], "services") + f"/{service['metadata']['name']}/status"
                self.plane.patch(where, {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
        for pod in self.plane.items("/api/v1/pods?labelSelector=app.kubernetes.io/component%3Dsmoke"):
            if pod["status"].get("phase") == "Running":
                where = core(pod["metadata"]["namespace"], "pods") + f"/{pod['metadata']['name']}/status"
                self.plane.patch(where, {"status": {"phase": self.test_phase}})


class Check:
    def __init__(self, plane, helm, crds, chart, scratch, antares=None):
        self.plane, self.helm_program, self.crds = plane, helm, pathlib.Path(crds)
        self.chart = pathlib.Path(chart)
        self.scratch = pathlib.Path(scratch)
        self.antares = antares and pathlib.Path(antares)
        self.surroundings = Surroundings(plane)
        self.passed = self.failed = self.skipped = 0

    def run(self, name, step):
        begin = time.monotonic()
        try:
            step()
            self.passed += 1
            print(f"k8s: ok: {name} ({time.monotonic() - begin:.1f} s)", flush=True)
        except Exception as error:  # pylint: disable=broad-except  # whatever it was: it failed, and the others go on
            self.failed += 1
            print(f"k8s: FAILED: {name}: {error}", flush=True)
            if not isinstance(error, (AssertionError, Refused, TimeoutError)):
                traceback.print_exc(limit=-3, file=sys.stdout)

    def skip(self, name, why):
        self.skipped += 1
        print(f"k8s: skipped: {name}: {why}", flush=True)

    # Helm.

    def helm(self, *args, namespace, fails=False):
        command = [self.helm_program, *map(str, args), "--namespace", namespace, "--kubeconfig", str(self.plane.kubeconfig())]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * HELM_MAX, check=False)
        said = f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        if (done.returncode != 0) != fails:
            raise AssertionError(f"helm {args[0]} ended with status {done.returncode}: {said}\n{self.waiting(namespace)}")
        # Fields that the API server does not know, old versions of objects, and pods that it would refuse come as warnings.
        expect("arning:" not in done.stderr and "would violate" not in done.stderr, f"helm {args[0]} was warned: {done.stderr}")
        return done.stdout

    def waiting(self, namespace):
        """Why pods are not there or not ready, in the words of whoever tried."""
        events = self.plane.items(core(namespace, "events") + "?fieldSelector=type%3DWarning")
        return "\n".join(f"{e['involvedObject']['name']}: {e['reason']}: {e['message']}" for e in events[-10:])

    def install(self, namespace, *args, chart=None):
        return self.helm("install", "antares", chart or self.chart, "--wait", f"--timeout={HELM_MAX}s", *args, namespace=namespace)

    def upgrade(self, namespace, *args, chart=None):
        return self.helm("upgrade", "antares", chart or self.chart, "--wait", f"--timeout={HELM_MAX}s", *args, namespace=namespace)

    def namespace(self, name):
        metadata = {"name": name, "labels": RESTRICTED}
        self.plane.create("/api/v1/namespaces", {"metadata": metadata})
        wait_for("the default service account", lambda: self.plane.find(core(name, "serviceaccounts") + "/default"))
        # Named by ci/production-values.yaml.
        self.plane.create(core(name, "serviceaccounts"), {"metadata": {"name": "existing"}})

    # What a cluster has.

    def prepare(self):
        for number in range(NODES):
            name = f"node-{number}"
            labels = {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
            }
            room = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
            node = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": room, "capacity": room}}
            self.plane.create("/api/v1/nodes", node)
        for storage_class in ("standard", "fast"):
            default = {"storageclass.kubernetes.io/is-default-class": str(storage_class == "standard").lower()}
            thing = {"metadata": {"name": storage_class, "annotations": default}, "provisioner": "kubernetes.io/no-provisioner"}
            self.plane.create("/apis/storage.k8s.io/v1/storageclasses", thing)
            for number in range(16):
                self.plane.create("/api/v1/persistentvolumes", volume(f"{storage_class}-{number}", storage_class))
        priority = {"metadata": {"name": "high"}, "value": 1000}
        self.plane.create("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
        self.plane.create("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "crun"}, "handler": "crun"})
        wait_for("nodes are ready", lambda: len(self.ready("/api/v1/nodes")) == NODES and self.plane.alive())

    def ready(self, path):
        """Those that are ready, and are not about to go."""
        return [
            thing
            for thing in self.plane.items(path)
            if not thing["metadata"].get("deletionTimestamp")
            and any(c["type"] == "Ready" and c["status"] == "True" for c in thing["status"].get("conditions", []))
        ]

    def custom_resources(self):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        names = []
        for path in sorted(self.crds.glob("*.yaml")):
            for thing in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if thing:
                    # Nobody is there to convert between versions.
                    thing["spec"].pop("conversion", None)
                    self.plane.create(definitions, thing)
                    names.append(thing["metadata"]["name"])
        expect(names, f"no definitions in {self.crds}")
        for name in names:
            wait_for(f"{name} is served", lambda name=name: established(self.plane.get(f"{definitions}/{name}")))

    # Checks of one release.

    def restricted(self):
        """The runner's pod is taken as it is; each of these changes must have it refused, or the check proves nothing."""
        where = core("plain", "pods") + "?dryRun=All"
        rendered = self.helm("template", "antares", self.chart, namespace="plain")
        runner = next(t for t in yaml.safe_load_all(rendered) if t and t["metadata"]["name"] == "antares-runner" and t["kind"] == "Deployment")
        spec = runner["spec"]["template"]["spec"]
        spec["serviceAccountName"] = "default"
        self.plane.create(where, {"metadata": {"name": "as-it-is"}, "spec": spec})
        for name, change in VIOLATIONS.items():
            bad = copy.deepcopy(spec)
            change(bad, bad["containers"][0])
            try:
                self.plane.create(where, {"metadata": {"name": "bad"}, "spec": bad})
            except Refused as refusal:
                expect("violates PodSecurity" in refusal.message, f"{name}: refused for another reason: {refusal}")
            else:
                raise AssertionError(f"{name}: admitted")

    def installed(self):
        self.install("plain")
        plane = self.plane
        compiler = plane.get(apps("plain", "statefulsets") + "/antares-compiler")
        runner = plane.get(apps("plain", "deployments") + "/antares-runner")
        expect(compiler["status"].get("readyReplicas") == 1, "the compiler is not ready")
        expect(runner["status"].get("readyReplicas") == 2, "the runners are not ready")
        claims = plane.items(core("plain", "persistentvolumeclaims"))
        expect([claim["status"]["phase"] for claim in claims] == ["Bound"], "the cache's claim is not bound")
        policies = plane.items("/apis/networking.k8s.io/v1/namespaces/plain/networkpolicies")
        expect(len(policies) == 2, f"{len(policies)} network policies")
        for policy in policies:
            expect(policy["spec"]["policyTypes"] == ["Ingress", "Egress"], "a policy leaves a direction open")
        for service, pods in (("antares-compiler", 1), ("antares-runner", 2), ("antares-runner-headless", 2)):
            wait_for(f"{service} has {pods} endpoints", lambda service=service, pods=pods: self.endpoints("plain", service) == pods)

    def endpoints(self, namespace, service):
        where = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        slices = self.plane.items(f"{where}?labelSelector=kubernetes.io/service-name%3D{service}")
        return sum(end["conditions"]["ready"] for piece in slices for end in piece.get("endpoints") or [])

    def spread(self):
        nodes = {pod["spec"]["nodeName"] for pod in self.ready(core("plain", "pods") + part("antares", "runner"))}
        expect(len(nodes) == 2, f"two runners are on {nodes}")

    def helm_test(self):
        self.helm("test", "antares", f"--timeout={HELM_MAX}s", namespace="plain")
        self.surroundings.test_phase = "Failed"
        try:
            self.helm("test", "antares", f"--timeout={HELM_MAX}s", namespace="plain", fails=True)
        finally:
            self.surroundings.test_phase = "Succeeded"
        pods = core("plain", "pods")
        for pod in self.plane.items(pods + part("antares", "smoke")):
            self.plane.delete(f"{pods}/{pod['metadata']['name']}")

    def scale(self):
        self.plane.patch(apps("plain", "deployments") + "/antares-runner/scale", {"spec": {"replicas": 6}})
        runners = core("plain", "pods") + part("antares", "runner")
        wait_for("six runners", lambda: len(self.ready(runners)) == 6)
        nodes = {pod["spec"]["nodeName"] for pod in self.ready(runners)}
        expect(len(nodes) == NODES, f"six runners are on {len(nodes)} nodes")

    def evict(self):
        """A budget lets one pod go; the next may not before its replacement is there."""
        budget = "/apis/policy/v1/namespaces/plain/poddisruptionbudgets/antares-runner"
        wait_for("the budget counts", lambda: self.plane.get(budget)["status"].get("disruptionsAllowed") == 1)
        first, second = self.ready(core("plain", "pods") + part("antares", "runner"))[:2]
        # Without kubelets the replacement does not become ready.
        self.plane.pause("kwok")
        try:
            self.evict_pod(first)
            try:
                self.evict_pod(second)
            except Refused as refusal:
                expect(refusal.status == 429, f"refused for another reason: {refusal}")
            else:
                raise AssertionError("a second pod was evicted at once")
        finally:
            self.plane.resume("kwok")
        wait_for("the budget has room again", lambda: self.plane.get(budget)["status"].get("disruptionsAllowed") == 1)
        self.evict_pod(second)

    def evict_pod(self, pod):
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "plain"}}
        self.plane.create(core("plain", "pods") + f"/{name}/eviction", eviction)

    def runner_image(self):
        return self.plane.get(apps("plain", "deployments") + "/antares-runner")["spec"]["template"]["spec"]["containers"][0]["image"]

    def watched(self, least, step):
        """Does the step, while runners may never be fewer than they should be."""
        where = apps("plain", "deployments") + "/antares-runner"
        done, seen = threading.Event(), []

        def look():
            while not done.wait(0.05):
                runner = self.plane.get(where)
                seen.append(min(runner["spec"]["replicas"], runner["status"].get("availableReplicas", 0)))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            step()
        finally:
            done.set()
            thread.join()
        expect(seen and min(seen) >= least, f"there were {min(seen, default='no')} runners, not {least}")

    def rollout(self):
        before = self.runner_image()
        change = ["--set", "runner.image.tag=next,runner.replicas=4,runner.workers=8"]
        self.upgrade("plain", "--set", "runner.replicas=4")
        self.watched(4, lambda: self.upgrade("plain", *change))
        expect(self.runner_image() == "antares/runner:next", f"runners have the image {self.runner_image()}")
        self.watched(4, lambda: self.helm("rollback", "antares", "2", "--wait", f"--timeout={HELM_MAX}s", namespace="plain"))
        expect(self.runner_image() == before, f"after the rollback runners have the image {self.runner_image()}")
        images = {c["image"] for pod in self.ready(core("plain", "pods") + part("antares", "runner")) for c in pod["spec"]["containers"]}
        expect(images == {before}, f"pods have {images}")

    def autoscaler(self):
        """A scaler that is switched on finds as many pods as there were, and raises them to its least."""
        scaler = "runner.autoscaling.enabled=true,runner.autoscaling.minReplicas="
        self.watched(4, lambda: self.upgrade("plain", "--set", scaler + "3"))
        self.watched(4, lambda: self.upgrade("plain", "--set", scaler + "5"))
        runners = core("plain", "pods") + part("antares", "runner")
        wait_for("the scaler's least", lambda: len(self.ready(runners)) == 5)
        status = self.plane.get("/apis/autoscaling/v2/namespaces/plain/horizontalpodautoscalers/antares-runner")["status"]
        conditions = {c["type"]: c["status"] for c in status["conditions"]}
        expect(conditions.get("AbleToScale") == "True", f"the scaler says {conditions}")

    def to_shared_tier(self):
        """From one compiler with a volume to three without."""
        self.upgrade("plain", "--set", "shared.url=s3://bucket/prefix,compiler.replicas=3")
        expect(self.plane.find(apps("plain", "statefulsets") + "/antares-compiler") is None, "the StatefulSet is still there")
        expect(self.plane.get(apps("plain", "deployments") + "/antares-compiler")["status"].get("readyReplicas") == 3, "not three compilers")

    def to_single(self):
        """From three compilers and the runners to one process that is both; the services lead to it under their names."""
        self.upgrade("plain", "--set", "single.enabled=true")
        workloads = [thing["metadata"]["name"] for kind in ("deployments", "statefulsets") for thing in self.plane.items(apps("plain", kind))]
        expect(workloads == ["antares-server"], f"workloads are {workloads}")
        for service in ("antares-compiler", "antares-runner", "antares-runner-headless"):
            wait_for(f"{service} has one endpoint", lambda service=service: self.endpoints("plain", service) == 1)

    def uninstalled(self, namespace="plain"):
        self.helm("uninstall", "antares", "--wait", f"--timeout={HELM_MAX}s", namespace=namespace)
        for path in (core(namespace, kind) for kind in ("pods", "services", "configmaps", "secrets", "serviceaccounts")):
            wait_for(f"nothing of the release in {path}", lambda path=path: not self.plane.items(path + owned("antares")))

    # Charts of earlier commits, and all values.

    def earlier(self, commit):
        """The chart as of a commit, or None where this clone does not go back so far."""
        folder = self.scratch / f"chart-{commit}"
        folder.mkdir()
        archive = subprocess.run(["git", "-C", self.chart, "archive", commit, "."], capture_output=True, check=False)
        if archive.returncode != 0:
            return None
        subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)
        return folder

    def before_the_last_change(self):
        log = ["git", "-C", self.chart, "log", "--max-count=2", "--format=%h", "--", "."]
        commits = subprocess.run(log, capture_output=True, text=True, check=False).stdout.split()
        return commits[-1] if commits else "HEAD"

    def upgrade_from(self, namespace, chart, by_hand=None):
        self.namespace(namespace)
        self.install(namespace, chart=chart)
        before = self.plane.items(core(namespace, "persistentvolumeclaims"))
        if by_hand:
            by_hand()
        self.upgrade(namespace)
        after = self.plane.items(core(namespace, "persistentvolumeclaims"))
        expect([c["metadata"]["uid"] for c in before] == [c["metadata"]["uid"] for c in after], "the cache's claim is another")
        # No way leads back to a smaller claim.
        if not by_hand:
            self.helm("rollback", "antares", "--wait", f"--timeout={HELM_MAX}s", namespace=namespace)
        self.uninstalled(namespace)

    def orphan(self, namespace):
        """What the chart's README says is needed where the claim grows."""
        where = apps(namespace, "statefulsets") + "/antares-compiler"
        try:
            self.upgrade(namespace)
        except AssertionError as refusal:
            expect("--cascade=orphan" in str(refusal), str(refusal))
        else:
            raise AssertionError("the claim template was changed in place: the README is out of date")
        self.plane.ask("DELETE", where, {"propagationPolicy": "Orphan"})
        wait_for("the StatefulSet is gone", lambda: self.plane.find(where) is None)
        expect(len(self.ready(core(namespace, "pods") + part("antares", "compiler"))) == 1, "the compiler's pod went with it")

    def values(self, path):
        namespace = f"{path.parent.name}-{path.stem}"
        self.namespace(namespace)
        self.install(namespace, "--values", path)
        for component in ("runner", "compiler") if path.stem != "small" else ("server",):
            expect(self.ready(core(namespace, "pods") + part("antares", component)), f"no {component} is ready")
        self.helm("test", "antares", f"--timeout={HELM_MAX}s", namespace=namespace)
        self.uninstalled(namespace)

    def admitted(self):
        """Every object that the chart makes of the sets for other clusters, as the API server takes it (a dry run, with its defaults and its
        checks of fields); what it warns of is a failure."""
        sets = yaml.safe_load(pathlib.Path(__file__).with_name("foreign_values.yaml").read_text(encoding="utf-8"))
        for namespace in ("foreign", "elsewhere", "monitoring"):
            self.namespace(namespace)
        for name, values in sets.items():
            path = self.scratch / f"foreign-{name}.yaml"
            path.write_text(yaml.safe_dump(values), encoding="utf-8")
            made = self.helm("template", "antares", self.chart, "--values", path, namespace="foreign")
            (self.scratch / "objects.yaml").write_text(made, encoding="utf-8")
            command = [*self.kubectl(), "apply", "--dry-run=server", "--validate=strict", "-f", str(self.scratch / "objects.yaml")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            refused = [line for line in done.stderr.splitlines() if line and not any(text in line for text in WARNED.get(name, ()))]
            expect(not refused, f"{name}: {refused}")
            expect("(server dry run)" in done.stdout, f"{name}: nothing was asked")
        return len(sets)

    def kubectl(self):
        return [self.plane.program, "kubectl", f"--kubeconfig={self.plane.kubeconfig()}"]

    def walked(self):
        count = walk.in_cluster([self.plane.program, "kubectl"], self.helm_program, self.plane.kubeconfig(), self.antares.parent)
        expect(count > 10, f"the page has {count} blocks")
        expect(len(self.ready(core(walk.NAMESPACE, "pods") + part("antares", "runner"))) == 3, "not three runners")
        self.uninstalled(walk.NAMESPACE)

    def all(self):
        # Nothing can be checked without.
        self.prepare()
        self.run("custom resources are served", self.custom_resources)
        self.surroundings.start()
        self.namespace("plain")
        self.run("restricted: pods of the chart are admitted, others are not", self.restricted)
        self.run("install with default values", self.installed)
        self.run("runners are on different nodes", self.spread)
        self.run("helm test takes the end of the smoke pod for its result", self.helm_test)
        self.run("scale to six runners, on six nodes", self.scale)
        self.run("budgets let one runner go at a time", self.evict)
        self.run("upgrade and rollback never have too few runners", self.rollout)
        self.run("an autoscaler is switched on", self.autoscaler)
        self.run("from one compiler with a volume to three without", self.to_shared_tier)
        self.run("from there to a single server", self.to_single)
        self.run("uninstall leaves nothing", self.uninstalled)
        commit = self.before_the_last_change()
        for name, commit, by_hand in (("earlier", commit, None), ("smaller", SMALLER_CLAIM, lambda: self.orphan("smaller"))):
            chart = self.earlier(commit)
            label = f"upgrade from the chart of {commit}" + (", with the claim's step by hand" if by_hand else ", and back")
            if chart:
                self.run(label, lambda name=name, chart=chart, by_hand=by_hand: self.upgrade_from(name, chart, by_hand))
            else:
                self.skip(label, "this clone does not have that commit")
        for path in sorted([*self.chart.glob("ci/*-values.yaml"), *self.chart.glob("presets/*.yaml")]):
            self.run(f"{path.parent.name}/{path.name}: install, test, uninstall", lambda path=path: self.values(path))
        self.run("the sets for other clusters are admitted", self.admitted)
        label = "docs/first-cluster.md: what it asks of the cluster"
        if self.antares:
            self.run(label, self.walked)
        else:
            self.skip(label, "antares is not built")
        self.surroundings.stopped.set()


def established(definition):
    conditions = definition.get("status", {}).get("conditions", [])
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def volume(name, storage_class):
    spec = {
        "capacity": {"storage": "200Gi"},
        # The values of ci/ ask for it with this class.
        "accessModes": ["ReadWriteOncePod" if storage_class == "fast" else "ReadWriteOnce"],
        "storageClassName": storage_class,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": "check.example.com", "volumeHandle": name},
    }
    return {"metadata": {"name": name}, "spec": spec}


# What the API server warns of because a set asks for it, in words of its warning.
WARNED = {"traffic": ["use \"PreferSameZone\""], "fixed-address": ["spec.externalIPs is deprecated"], "sidecars": ['containers "wait", "proxy" must set']}

# What a pod of the restricted level may not be.
VIOLATIONS = {
    "user 0": lambda pod, container: pod["securityContext"].update(runAsNonRoot=False, runAsUser=0),
    "escalation": lambda pod, container: container["securityContext"].update(allowPrivilegeEscalation=True),
    "capabilities": lambda pod, container: container["securityContext"].pop("capabilities"),
    "no seccomp": lambda pod, container: pod["securityContext"].pop("seccompProfile"),
    "the node's network": lambda pod, container: pod.update(hostNetwork=True),
    "a path of the node": lambda pod, container: pod["volumes"].append({"name": "node", "hostPath": {"path": "/"}}),
}


def main():
    program, helm, crds, chart, *antares = sys.argv[1:]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="antares-k8s-") as folder:
        plane = ControlPlane(program, folder)
        try:
            plane.start()
            print(f"k8s: {plane.get('/version')['gitVersion']} is ready after {time.monotonic() - begin:.1f} s", flush=True)
            check = Check(plane, helm, crds, chart, folder, *filter(None, antares))
            check.all()
        finally:
            plane.stop()
    print(f"k8s: {time.monotonic() - begin:.0f} s")
    print(f"k8s: {check.passed} passed, {check.failed} failed, {check.skipped} skipped")
    return check.failed != 0


if __name__ == "__main__":
    sys.exit(main())
