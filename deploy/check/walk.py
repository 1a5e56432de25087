"""The commands of docs/first-cluster.md, taken from the page and run.

With real programs (`Stand`, by test_walk.py): the services of a build get the configuration that the chart renders for the page's values, and
the certificates, tokens and keys that the page makes; a server of S3 and a Prometheus are real too. Played are pods, helm's way to the
cluster, and kubectl, which takes the commands of the page and no others. Of runners one is started. Against a real API server (`in_cluster`,
by k8s.py): everything that the page asks of the cluster, with kubectl and helm themselves.

Usage: walk.py values       prints the values that the page writes
"""

import base64
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

import yaml
from waiting import wait

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/first-cluster.md"
NAMESPACE = "antares"
# How long a service may take to serve, and a step of the page, seconds.
START_MAX = 120
STEP_MAX = 600
# Of a block: here (this machine), cluster, service (what serves), reader (an example, not run).
KINDS = ("here", "cluster", "service", "reader")
BLOCK = re.compile(r"(?:<!-- walk: (\w+)(?:; ([^>]*?))? -->\n)?```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Step:
    """A block of commands, and the lines that the page says it prints."""

    def __init__(self, kind, note, commands):
        self.kind, self.note, self.commands, self.says = kind, note or "", commands, []


def steps_of(page):
    steps = []
    for kind, note, language, text in BLOCK.findall(page):
        if language == "sh":
            if kind not in KINDS:
                raise ValueError(f"a block says not where it runs: {text}")
            steps.append(Step(kind, note, text))
        elif language == "text" and steps and steps[-1].kind == "service":
            steps[-1].says += text.splitlines()
    return steps


def values_of(page):
    """What the page writes into values.yaml."""
    return re.search(r"^cat >values.yaml <<'YAML'\n(.*?)^YAML$", page, re.DOTALL | re.MULTILINE).group(1)


def run(step, folder, environment, commands=None):
    """Runs a block in one shell, and compares what it prints; the words that it has printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands or step.commands], cwd=folder, env=environment, capture_output=True, text=True, timeout=STEP_MAX, check=False
    )
    said = done.stdout + done.stderr
    if (done.returncode != 0) != (step.note == "fails"):
        raise AssertionError(f"ended with status {done.returncode}:\n{step.commands}\n{said}")
    for line in step.says:
        if not re.search(".*".join(map(re.escape, line.split("…"))), said):
            raise AssertionError(f"does not say {line!r}:\n{step.commands}\n{said}")
    return said


def program(folder, name, *command):
    """A program of this name for the PATH, which is another one with arguments before."""
    path = folder / name
    words = " ".join(f"'{word}'" for word in map(str, command))
    path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


# ---- against a real API server


def in_cluster(kubectl, helm, kubeconfig, binaries):
    """Runs what the page does here and in the cluster. `kubectl` is a command."""
    with tempfile.TemporaryDirectory(prefix="antares-walk-") as scratch:
        folder, tools = pathlib.Path(scratch, "walk"), pathlib.Path(scratch, "tools")
        folder.mkdir()
        tools.mkdir()
        program(tools, "kubectl", *kubectl)
        program(tools, "helm", helm)
        program(tools, "antares", binaries / "antares")
        environment = {**os.environ, **reader("https://s3.example.com"), "PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig)}
        count = 0
        for step in steps_of(PAGE.read_text(encoding="utf-8")):
            if step.kind in ("here", "cluster"):
                run(step, folder, environment)
                count += 1
        return count


def reader(store):
    """What the page asks its reader to name."""
    return {"ANTARES_CHECKOUT": str(ROOT), "AWS_ACCESS_KEY_ID": "walk", "AWS_SECRET_ACCESS_KEY": "walk", "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": store}


# ---- kubectl and helm, played: what they are asked for becomes files of $WALK_STATE


def files_of(arguments):
    """Keys and contents that kubectl is given for a secret or a ConfigMap."""
    for argument in arguments:
        if argument.startswith("--from-literal="):
            key, value = argument.removeprefix("--from-literal=").split("=", 1)
            yield key, value.encode()
        elif argument.startswith("--from-file="):
            key, _, path = argument.removeprefix("--from-file=").rpartition("=")
            for file in sorted(pathlib.Path(path).iterdir()) if pathlib.Path(path).is_dir() else [pathlib.Path(path)]:
                yield key or file.name, file.read_bytes()


def objects(state):
    return [thing for thing in yaml.safe_load_all((state / "manifests.yaml").read_text(encoding="utf-8")) if thing]


def find(state, name):
    """An object of the release by kubectl's name for it."""
    kind, _, own = name.partition("/")
    found = [thing for thing in objects(state) if thing["kind"].lower() == kind and thing["metadata"]["name"] == own]
    if not found:
        raise SystemExit(f"kubectl: {name} not found")
    return found[0]


def play_kubectl(state, arguments):
    words = [word for index, word in enumerate(arguments) if not word.startswith("--") and (index == 0 or arguments[index - 1] != "--namespace")]
    if words[0] not in ("label",) and words[:2] != ["create", "namespace"] and arguments[arguments.index("--namespace") + 1] != NAMESPACE:
        raise SystemExit("kubectl: another namespace")
    match words:
        case ["create", "namespace", name]:
            (state / "namespace").write_text(name, encoding="utf-8")
        case ["label", "namespace", name, label] if label.endswith("=restricted") and (state / "namespace").read_text(encoding="utf-8") == name:
            pass
        case ["create", "secret", "generic", name] | ["create", "configmap", name]:
            folder = state / ("secret" if words[1] == "secret" else "configmap") / name
            folder.mkdir(parents=True)
            for key, content in files_of(arguments):
                (folder / key).write_bytes(content)
        case ["rollout", "restart", *names]:
            for name in names:
                find(state, name)
            (state / "restart").touch()
        case ["rollout", "status", name]:
            find(state, name)
        case ["get", *names]:
            for name in names:
                find(state, name)
        case ["port-forward", name, ports]:
            thing, port = find(state, name), int(ports.split(":")[1])
            spec = thing["spec"]
            known = spec["ports"] if thing["kind"] == "Service" else spec["template"]["spec"]["containers"][0]["ports"]
            if port not in [one.get("port", one.get("containerPort")) for one in known]:
                raise SystemExit(f"kubectl: {name} has no port {port}")
        case _:
            raise SystemExit(f"kubectl: not played: {arguments}")


def play_helm(state, arguments):
    helm = os.environ["WALK_HELM"]
    match arguments:
        case ["lint", *_]:
            sys.exit(subprocess.run([helm, *arguments], check=False).returncode)
        case ["install", name, chart, *options]:
            options = [option for option in options if option != "--wait"]
            done = subprocess.run([helm, "template", name, chart, *options, "--kube-version", "1.34.0"], stdout=subprocess.PIPE, check=True)
            (state / "manifests.yaml").write_bytes(done.stdout)
            (state / "install").touch()
        case ["test", _, "--namespace", _]:
            (state / "test").touch()
        case _:
            raise SystemExit(f"helm: not played: {arguments}")


# ---- real services in place of pods


class Pod:
    """A container of the release, as a process of this machine: what is mounted are folders, and its ports are others."""

    def __init__(self, stand, spec, number):
        self.stand, self.number = stand, number
        self.container = spec["containers"][0]
        self.folder = stand.folder / f"pod-{stand.next()}"
        self.folder.mkdir()
        self.places = {}
        mounts = {mount["name"]: mount["mountPath"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
        for volume in spec["volumes"]:
            self.places[mounts[volume["name"]]] = stand.volume(volume, self.folder)

    def environment(self):
        env = {one["name"]: self.placed(one["value"]) for one in self.container.get("env", []) if "value" in one}
        for source in self.container.get("envFrom", []):
            for file in self.stand.secret(source["secretRef"]["name"]).iterdir():
                env[file.name] = file.read_text(encoding="utf-8")
        return env

    def placed(self, text):
        """The text with places of this machine, each replaced once: where a path begins, and the longest that fits."""
        paths = "|".join(re.escape(path) for path in sorted(self.places, key=len, reverse=True))
        return re.sub(rf'(?<![\w/.-])({paths})(?=[/"]|$)', lambda match: str(self.places[match.group(1)]), text)


class Service(Pod):
    def __init__(self, stand, spec, number, name):
        super().__init__(stand, spec, number)
        self.name = name
        self.grpc, self.metrics = stand.ports(2)
        config = (self.places["/etc/antares"] / "antares.toml").read_text(encoding="utf-8")
        config = self.placed(config).replace("0.0.0.0:50051", f"127.0.0.1:{self.grpc}").replace("0.0.0.0:9464", f"127.0.0.1:{self.metrics}")
        if compilers := stand.compilers:
            # One name has all their addresses in a cluster.
            urls = ",".join(f"https://localhost:{compiler.grpc}" for compiler in compilers)
            config = config.replace("https://antares-compiler:50051", urls)
        # The folder for temporary files may be on any.
        config = config.replace("[cache]\n", "[cache]\nallow_any_filesystem = true\n")
        path = self.folder / "antares.toml"
        path.write_text(config, encoding="utf-8")
        self.log = self.folder / "log"
        with self.log.open("wb") as log:
            command = [stand.binaries / f"antares-{name}-svc", "--config", path]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **self.environment()})

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def serves(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended with status {self.process.returncode}: {self.said()}")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/healthz", timeout=5):
            return True

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(START_MAX)


class Stand:
    """Everything that the page needs, on this machine. `free_ports` gives ports, `store` starts a server of S3 and gives its address."""

    def __init__(self, binaries, helm, store, free_ports):
        self.binaries, self.ports = pathlib.Path(binaries), free_ports
        self.scratch = tempfile.TemporaryDirectory(prefix="antares-walk-")
        self.folder = pathlib.Path(self.scratch.name)
        self.state, self.walk, tools = (self.folder / name for name in ("state", "walk", "tools"))
        for folder in (self.state, self.walk, tools):
            folder.mkdir()
        for name in ("kubectl", "helm"):
            program(tools, name, sys.executable, __file__, name)
        program(tools, "antares", self.binaries / "antares")
        own = {"PATH": f"{tools}:{os.environ['PATH']}", "WALK_STATE": str(self.state), "WALK_HELM": helm}
        self.environment = {**os.environ, **reader(store), **own}
        self.compilers, self.runners, self.number = [], [], 0

    def next(self):
        self.number += 1
        return self.number

    def secret(self, name, kind="secret"):
        folder = self.state / kind / name
        if not folder.is_dir():
            raise AssertionError(f"pods want the {kind} {name}, which the page does not make")
        return folder

    def volume(self, volume, scratch):
        if "secret" in volume:
            return self.secret(volume["secret"]["secretName"])
        if "configMap" in volume:
            name = volume["configMap"]["name"]
            made = [thing for thing in objects(self.state) if thing["kind"] == "ConfigMap" and thing["metadata"]["name"] == name]
            if not made:
                return self.secret(name, "configmap")
            folder = scratch / f"configmap-{name}"
            folder.mkdir()
            for key, text in made[0].get("data", {}).items():
                (folder / key).write_text(text, encoding="utf-8")
            for key, text in made[0].get("binaryData", {}).items():
                (folder / key).write_bytes(base64.b64decode(text))
            return folder
        folder = scratch / volume["name"]
        folder.mkdir()
        return folder

    def start(self):
        for name, pods, count in (("compiler", self.compilers, None), ("runner", self.runners, 1)):
            spec = find(self.state, f"deployment/antares-{name}")["spec"]
            made = [Service(self, spec["template"]["spec"], number, name) for number in range(count or spec["replicas"])]
            pods += made
            for service in made:
                wait(service.serves, START_MAX, f"{service.name} serves")

    def stop(self):
        for service in self.runners + self.compilers:
            service.stop()
        self.compilers, self.runners = [], []

    def helm_test(self):
        """Runs what the chart's test pod runs."""
        spec = find(self.state, "pod/antares-smoke")["spec"]
        pod = Pod(self, spec, 0)
        for container in spec["containers"]:
            args = [pod.placed(arg).replace("https://antares-runner:50051", f"https://localhost:{self.runners[0].grpc}") for arg in container["args"]]
            done = subprocess.run([self.binaries / "antares", *args], env={**self.environment, **pod.environment()}, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise AssertionError(f"helm test: {container['name']}: {done.stdout}{done.stderr}{self.runners[0].said()}")

    def do(self, step):
        commands = step.commands
        if step.kind == "service":
            commands = commands.replace("localhost:50051", f"localhost:{self.runners[0].grpc}").replace("localhost:9464", f"localhost:{self.runners[0].metrics}")
        said = run(step, self.walk, self.environment, commands)
        for asked, act in (("install", self.start), ("restart", self.restart), ("test", self.helm_test)):
            if (self.state / asked).exists():
                (self.state / asked).unlink()
                act()
        return said

    def restart(self):
        self.stop()
        self.start()

    def close(self):
        self.stop()
        self.scratch.cleanup()


def main():
    match sys.argv[1:]:
        case ["values"]:
            print(values_of(PAGE.read_text(encoding="utf-8")), end="")
        case ["kubectl", *arguments]:
            play_kubectl(pathlib.Path(os.environ["WALK_STATE"]), arguments)
        case ["helm", *arguments]:
            play_helm(pathlib.Path(os.environ["WALK_STATE"]), arguments)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
