"""Pushes a release to a registry on loopback and verifies it there, with the commands of docs/releases.md and cosign itself.

Usage: signatures.py COSIGN REGISTRY HELM [RELEASE PUBLIC]      the first three are programs; without a release one is made of programs
                                                               that do nothing, and signed by a key of its own
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/images"))

import release  # noqa: E402
import walk  # noqa: E402
from waiting import free_port, wait_for_listener  # noqa: E402

PAGE = ROOT / "docs/releases.md"
START_MAX = 60


def commands():
    """The commands that push, and those that verify, one by one, as the page has them."""
    section = PAGE.read_text(encoding="utf-8").split("Pushing is the last step")[1].split("\n## ")[0]
    push, verify = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return push, verify.splitlines()


def key_pair(folder, name):
    key, public = folder / f"{name}.pem", folder / f"{name}.pub"
    subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    return key, public


def stand_in(folder):
    binaries, out = folder / "dist", folder / "made"
    binaries.mkdir()
    for program in release.PROGRAMS:
        shutil.copy("/usr/bin/true", binaries / program)
    with mock.patch.object(release, "mistakes", return_value=[]):
        release.make("0.1.0", binaries, out)
    key, public = key_pair(folder, "release")
    release.sign(out, key)
    return out, public


class Registry:
    def __init__(self, program):
        self.port = free_port()
        self.process = subprocess.Popen([program, "-port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_listener(self.port, self.process, START_MAX)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Check:
    """Commands run in a folder where it lies as the page has it."""

    def __init__(self, folder, programs, out, public, registry):
        cosign, helm = programs
        self.folder, self.registry = folder, f"localhost:{registry.port}"
        (self.version,) = [name.removeprefix("antares-chart-").removesuffix(".tgz") for name in os.listdir(out) if name.startswith("antares-chart-")]
        tools = folder / "tools"
        for path in (tools, folder / "target"):
            path.mkdir()
        (folder / f"target/release-{self.version}").symlink_to(out)
        (folder / "deploy").symlink_to(ROOT / "deploy")
        (folder / "release.pub").write_bytes(public.read_bytes())
        walk.program(tools, "cosign", cosign)
        # The registry of the check speaks no TLS, which cosign takes on loopback by itself.
        skopeo = shutil.which("skopeo")
        (tools / "skopeo").write_text(f'#!/bin/sh\nshift\nexec {skopeo} copy --quiet --insecure-policy --dest-tls-verify=false "$@"\n', encoding="utf-8")
        (tools / "helm").write_text(f'#!/bin/sh\nexec {helm} "$@" --plain-http\n', encoding="utf-8")
        for name in ("skopeo", "helm"):
            (tools / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder)}
        self.passed = self.failed = 0

    def run(self, name, command, fails=""):
        """Whether it goes well; with `fails` whether it ends with these words."""
        command = command.replace("X.Y.Z", self.version).replace("registry.example.com", self.registry)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if (done.returncode != 0 and fails in said) if fails else done.returncode == 0:
            self.passed += 1
            print(f"signatures: ok: {name}", flush=True)
        else:
            self.failed += 1
            print(f"signatures: FAILED: {name}: status {done.returncode}: {said[-2000:]}", flush=True)

    def all(self):
        push, verify = commands()
        self.run("everything is pushed", push)
        for command in verify:
            self.run(command, command)
            for other in ("runner", "antares"):
                if "/antares/compiler:" in command:
                    self.run(command.replace("compiler", other), command.replace("antares/compiler:", f"antares/{other}:"))
        package = f"antares-chart-{self.version}.tgz"
        self.run("the chart is what was signed", f"cmp antares-X.Y.Z.tgz target/release-X.Y.Z/{package}")
        key_pair(self.folder, "other")
        for command in verify:
            if command.startswith("cosign"):
                self.run(f"not by another key: {command}", command.replace("release.pub", "other.pub"), fails="signature")
        self.run("an image without a signature", "skopeo copy oci:target/release-X.Y.Z/images/layout:runner docker://registry.example.com/antares/bare:X.Y.Z")
        self.run("is refused", verify[0].replace("compiler", "bare"), fails="no signatures found")
        self.run("the runner in place of the compiler", "skopeo copy oci:target/release-X.Y.Z/images/layout:runner docker://registry.example.com/antares/compiler:X.Y.Z")
        self.run("is refused", verify[0], fails="no signatures found")


def main():
    cosign, registry, helm, *given = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="antares-signatures-") as scratch:
        folder = pathlib.Path(scratch)
        out, public = (pathlib.Path(path).resolve() for path in given) if given else stand_in(folder)
        running = Registry(registry)
        try:
            check = Check(folder, (cosign, helm), out, public, running)
            check.all()
        finally:
            running.stop()
    print(f"signatures: {check.passed} passed, {check.failed} failed, 0 skipped")
    return check.failed != 0


if __name__ == "__main__":
    sys.exit(main())
