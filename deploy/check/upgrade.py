"""Two builds serve side by side: a compiler and a runner are replaced by those of another build one at a time, in both orders, and back, over
the same store and keys. After each step clients of both builds have the same answer in native code, and nothing was set aside.

Usage: upgrade.py OLD NEW      folders of the antares-* binaries of two builds
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

import drill

# Which build each service is of, in the order of an upgrade; the second half is one whose runners go first, and the way back.
STEPS = [("old", "old"), ("new", "old"), ("new", "new"), ("new", "old"), ("old", "old"), ("old", "new"), ("new", "new")]


def answer(binaries, runner, script):
    """What a client of a build says of a run in native code."""
    command = [binaries / "antares", "run", "--tier", "native", "--server", f"http://127.0.0.1:{runner.grpc}", "--json", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"ANTARES_CACHE": "off"})
    if done.returncode != 0:
        raise SystemExit(f"{binaries}: status {done.returncode}: {done.stdout}{done.stderr}")
    told = json.loads(done.stdout)
    return {key: told[key] for key in ("outcome", "exit_code", "cycles", "native_cycles")}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    builds = {name: pathlib.Path(path).resolve() for name, path in zip(("old", "new"), sys.argv[1:])}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="antares-upgrade-"))
    places = [types.SimpleNamespace(binaries=None, folder=folder) for _ in range(2)]
    cache = f'[cache]\nallow_any_filesystem = true\ndir = "{folder}/cache"\n[compiler]\nworkers_max = 1\n'
    compiler = drill.Service(places[0], "compiler", ["antares-compiler-svc"], cache)
    runner = drill.Service(places[1], "runner", ["antares-runner-svc"], f'[runner]\ncompiler_url = "http://127.0.0.1:{compiler.grpc}"\n')
    script = folder / "exit.elf"
    script.write_bytes(drill.elf_of(drill.EXIT))
    first, running = None, [None, None]
    try:
        for step in STEPS:
            for service, place, index in ((compiler, places[0], 0), (runner, places[1], 1)):
                if running[index] != step[index]:
                    service.stop()
                    place.binaries = builds[step[index]]
                    service.start()
            running = list(step)
            for name, binaries in builds.items():
                seen = answer(binaries, runner, script)
                first = first or seen
                if seen != first:
                    raise SystemExit(f"WRONG: compiler {step[0]}, runner {step[1]}, client {name}: {seen}, and {first} before")
            print(f"upgrade: compiler {step[0]}, runner {step[1]}: {len(builds)} clients agree", flush=True)
        if aside := list((folder / "cache").glob("quarantine-*")):
            raise SystemExit(f"WRONG: a store was set aside: {aside}")
    finally:
        for service in (runner, compiler):
            service.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
