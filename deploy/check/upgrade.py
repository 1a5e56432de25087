"""Two builds serve side by side: a compiler and two runners are replaced by those of another build one at a time, in both orders, and back,
over the same store and keys. After each step clients of both builds have the same answer in native code, and nothing was set aside.
Meanwhile clients of both call the runners that serve, with new scripts and known ones, and no call fails.

Usage: upgrade.py OLD NEW      folders of the antares-* binaries of two builds
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import types

import drill

# Which build each service is of, in the order of an upgrade; the second half is one whose runners go first, and the way back.
STEPS = [("old", "old"), ("new", "old"), ("new", "new"), ("new", "old"), ("old", "old"), ("old", "new"), ("new", "new")]
CLIENTS = 2
# As long as a client may take from its choice of a runner to its call.
LISTEN = "drain_delay_ms = 5000\n"


def answer(binaries, runner, script, tier):
    """What a client of a build says of a run."""
    command = [binaries / "antares", "run", "--tier", tier, "--server", f"http://127.0.0.1:{runner.grpc}", "--json", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"ANTARES_CACHE": "off"})
    if done.returncode != 0:
        raise SystemExit(f"WRONG: {binaries}: status {done.returncode}: {done.stdout}{done.stderr}")
    told = json.loads(done.stdout)
    seen = [told[key] for key in ("outcome", "exit_code", "cycles")]
    if seen != ["exit", 0, 501] or tier == "native" and told["native_cycles"] != 501:
        raise SystemExit(f"WRONG: {binaries}: {told}")


class Upgrade:
    def __init__(self, builds, folder):
        self.builds, self.folder = builds, folder
        cache = f'[cache]\nallow_any_filesystem = true\ndir = "{folder}/cache"\n[compiler]\nworkers_max = 1\n'
        self.compiler = self.service("compiler", cache)
        self.runners = [self.service("runner", f'[runner]\ncompiler_url = "http://127.0.0.1:{self.compiler.grpc}"\n') for _ in range(2)]
        self.services = [self.compiler, *self.runners]
        self.running = {}
        # Runners that clients know, as those of a cluster know the pods that are ready.
        self.known = []
        self.stopped = threading.Event()
        self.script = folder / "exit.elf"
        self.script.write_bytes(drill.elf_of(drill.EXIT))

    def service(self, name, config):
        place = types.SimpleNamespace(binaries=None, folder=pathlib.Path(tempfile.mkdtemp(dir=self.folder)))
        return drill.Service(place, name, [f"antares-{name}-svc"], config, listen=LISTEN)

    def replace(self, service, build):
        if self.running.get(service) == build:
            return
        self.known = [one for one in self.known if one != service]
        service.stop()
        service.drill.binaries = self.builds[build]
        service.start()
        self.running[service] = build
        self.known = [one for one in self.runners if one in self.running]

    def call(self, client):
        """Calls one after the other; how many there were."""
        script = self.folder / f"{client}.elf"
        for number in itertools.count():
            if self.stopped.is_set():
                return number
            script.write_bytes(drill.elf_of(drill.EXIT, b"%d" % (number // 2)))
            answer(random.choice(list(self.builds.values())), random.choice(self.known), script, "auto")

    def step(self, builds):
        for service in self.services:
            self.replace(service, builds[0] if service == self.compiler else builds[1])
        for binaries, runner in itertools.product(self.builds.values(), self.runners):
            answer(binaries, runner, self.script, "native")
        print(f"upgrade: compiler {builds[0]}, runners {builds[1]}: clients of both builds agree", flush=True)

    def all(self):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            try:
                self.step(STEPS[0])
                calls = [pool.submit(self.call, client) for client in range(CLIENTS)]
                for builds in STEPS[1:]:
                    self.step(builds)
            finally:
                self.stopped.set()
            print(f"upgrade: {sum(call.result() for call in calls)} calls meanwhile, none failed")
        if aside := list(self.folder.glob("cache/quarantine-*")):
            raise SystemExit(f"WRONG: a store was set aside: {aside}")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    builds = {name: pathlib.Path(path).resolve() for name, path in zip(("old", "new"), sys.argv[1:])}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="antares-upgrade-"))
    upgrade = Upgrade(builds, folder)
    try:
        upgrade.all()
    finally:
        for service in reversed(upgrade.services):
            service.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
