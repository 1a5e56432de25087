"""Runs the images under runc as a pod of the restricted level would: user 65532, no capability, no new privileges, a read-only root,
namespaces of its own, and a seccomp profile that refuses what the runtimes' default profiles refuse. First compiler and runner in one
network, as containers of a pod, then both in one process. Two scripts are uploaded, compiled by both tiers, stored and run.

Usage: pod.py least FOLDER      prints the config.json of a container that does nothing
       pod.py check FOLDER      FOLDER has the unpacked images compiler, runner and antares, each with a config.json of its own, and the
                                script secp256k1 of `make demo`
"""

import contextlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMOKE = ROOT / "helm/antares/files"
# How long a service may take to serve, and a container to end, seconds.
START_MAX = 120
STOP_MAX = 60

# Refused by the default profiles of containerd and moby to a container without capabilities.
REFUSED = """acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module fsconfig fsmount
fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
lookup_dcookie mount mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pivot_root
quotactl quotactl_fd reboot request_key setdomainname sethostname setns settimeofday stime swapoff swapon umount umount2
unshare userfaultfd uselib ustat vhangup""".split()
NAMESPACES_MASK = 0x7E020000

COMPILER = """
[listen]
address = "127.0.0.1:50051"
[metrics]
address = "127.0.0.1:9464"
[cache]
dir = "/var/lib/antares/cache"
"""
RUNNER = """
[listen]
address = "127.0.0.1:50052"
[metrics]
address = "127.0.0.1:9465"
[runner]
compiler_url = "http://127.0.0.1:50051"
"""
BOTH = COMPILER.replace("9464", "9466").replace("50051", "50053")


def expect(condition, message):
    if not condition:
        raise SystemExit(f"pod: error: {message}")


def seccomp():
    rules = [
        {"names": REFUSED, "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    ]
    for bit in range(32):
        if NAMESPACES_MASK >> bit & 1:
            flag = {"index": 0, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"}
            rules.append({"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [flag]})
    architectures = ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"]
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": architectures, "syscalls": rules}


def bind(source, destination):
    return {"destination": destination, "type": "bind", "source": str(source), "options": ["rbind", "ro", "nosuid", "nodev"]}


def memory(destination, size):
    # As a volume with fsGroup: the user's. Its mode is that of the folder in the image.
    options = ["nosuid", "nodev", "noexec", "uid=65532", "gid=65532", f"size={size}"]
    return {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": options}


def configured(process, mounts, network=None):
    """config.json of a container: the image says who runs what, the pod all the rest."""
    nothing = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")}
    namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
    namespaces.append({"type": "network"} | ({"path": network} if network else {}))
    devices = ["nosuid", "strictatime", "mode=755", "size=65536k"]
    return {
        "ociVersion": "1.0.2",
        "process": {**process, "terminal": False, "capabilities": nothing, "noNewPrivileges": True, "rlimits": []},
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "pod",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": devices},
            *mounts,
        ],
        "linux": {
            "namespaces": namespaces,
            "seccomp": seccomp(),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        },
    }


def least():
    process = {"user": {"uid": 65532, "gid": 65532}, "args": ["/bin/true"], "env": ["PATH=/usr/bin"], "cwd": "/"}
    config = configured(process, [bind("/usr", "/usr")])
    del config["linux"]["seccomp"]
    return config


class Container:
    def __init__(self, bundle, configuration, args, network=None):
        self.bundle, self.name = bundle, f"antares-check-{os.getpid()}-{bundle.name}"
        settings = bundle / "settings"
        settings.mkdir()
        (settings / "antares.toml").write_text(configuration, encoding="utf-8")
        image = json.loads((bundle / "config.json").read_text(encoding="utf-8"))["process"]
        expect(image["user"] == {"uid": 65532, "gid": 65532}, f"{bundle.name}: the image's user is {image['user']}")
        image["args"] += args
        mounts = [memory("/tmp", "64m"), memory("/var/lib/antares", "512m"), bind(settings, "/etc/antares")]
        # What the check itself runs in there: images have no other programs than ours.
        check = bundle / "rootfs/opt/check"
        check.mkdir(parents=True)
        for program in ("touch", "unshare"):
            (check / program).touch()
            mounts.append(bind(f"/usr/bin/{program}", f"/opt/check/{program}"))
        for script in (SMOKE / "smoke.elf", bundle.parent / "secp256k1"):
            (check / script.name).touch()
            mounts.append(bind(script, f"/opt/check/{script.name}"))
        (bundle / "config.json").write_text(json.dumps(configured(image, mounts, network)), encoding="utf-8")
        self.log = bundle / "log"
        with open(self.log, "wb") as log:
            command = ["runc", "run", "--bundle", bundle, self.name]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def logged(self):
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def runc(self, command, *args):
        return subprocess.run(["runc", command, self.name, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)

    def pid(self):
        return json.loads(self.runc("state").stdout)["pid"]

    def execute(self, *args):
        done = self.runc("exec", *args)
        expect(done.returncode == 0, f"{args} in {self.name} ended with {done.returncode}: {done.stdout}{done.stderr}\n{self.logged()}")
        return done.stdout

    def refuses(self, *args, message):
        done = self.runc("exec", *args)
        expect(done.returncode != 0 and message in done.stderr, f"{args} in {self.name}: {done.returncode}, {done.stderr!r}")

    def wait(self, server):
        deadline = time.monotonic() + START_MAX
        while self.runc("exec", "/usr/local/bin/antares", "health", "--server", server).returncode != 0:
            expect(self.process.poll() is None, f"{self.name} ended with status {self.process.returncode}:\n{self.logged()}")
            expect(time.monotonic() < deadline, f"{self.name} is not healthy after {START_MAX} s:\n{self.logged()}")
            time.sleep(0.2)

    def stop(self):
        self.runc("kill", "TERM")
        status = self.process.wait(STOP_MAX)
        expect(status == 0, f"{self.name} ended with status {status}:\n{self.logged()}")

    def remove(self):
        self.runc("delete", "--force")
        self.process.wait(STOP_MAX)

    def confined(self):
        status = dict(line.split(":\t") for line in pathlib.Path(f"/proc/{self.pid()}/status").read_text().splitlines() if ":\t" in line)
        has = {key: status[key] for key in ("Uid", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")}
        none = "0" * 16
        wanted = {"Uid": "\t".join(["65532"] * 4), "CapEff": none, "CapPrm": none, "CapBnd": none, "NoNewPrivs": "1", "Seccomp": "2"}
        expect(has == wanted, f"{self.name} has {has}")
        self.refuses("/opt/check/touch", "/usr/x", message="Read-only file system")
        self.refuses("/opt/check/unshare", "-U", "/opt/check/touch", message="Operation not permitted")


def contents(bundle, compiles):
    """No program but ours, LLVM where it is needed alone, nothing that makes anybody more than they are."""
    root = bundle / "rootfs"
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in files:
        mode, inside = path.stat().st_mode, path.relative_to(root)
        expect(not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH), f"{bundle.name}: {inside} has mode {mode:o}")
        ours = inside.parts[:3] == ("usr", "local", "bin") and inside.name.startswith("antares")
        library = inside.parts[:3] == ("usr", "lib", "x86_64-linux-gnu")
        expect(ours or library or not mode & 0o111, f"{bundle.name}: {inside} is a program")
    expect(any("libLLVM" in path.name for path in files) == compiles, f"{bundle.name}: LLVM, or none of it")


def run_all(container, server, script, arguments, expected=None):
    """The script's first run, runs until there is the full tier's code (LLVM's), and one in the interpreter: all with the same cycles."""
    antares = ["/usr/local/bin/antares", "run", f"/opt/check/{script}", "--server", server, "--json"]

    def run(tier, *more):
        answer = json.loads(container.execute(*antares, "--tier", tier, *more, "--", *arguments))
        expect((answer["outcome"], answer["exit_code"]) == ("exit", 0), f"{script}: {answer}")
        return answer

    first = run("native")
    expect(first["cache"] == "miss" and expected in (None, first["cycles"]), f"{script}: not a miss, or not {expected} cycles: {first}")
    deadline = time.monotonic() + START_MAX
    # As the chart's test does.
    exactly = f"--expect-cycles={first['cycles']}"
    while (full := run("native", exactly))["code_tier"] != "full":
        expect(time.monotonic() < deadline, f"{script}: no full code after {START_MAX} s: {full}\n{container.logged()}")
        time.sleep(0.2)
    expect(full["cache"] == "hit", f"{script}: not a hit: {full}")
    interpreted = run("interpreter", exactly)
    wrong = f"--expect-cycles={first['cycles'] + 1}"
    container.refuses(*antares, wrong, "--", *arguments, message="were expected")
    took = ", ".join(f"{name} {answer['run_us']} us" for name, answer in (("first", first), ("full", full), ("interpreter", interpreted)))
    print(f"pod: {container.bundle.name}: {script}: {first['cycles']} cycles in all tiers; {took}")


def run_scripts(container, server):
    run_all(container, server, "smoke.elf", [], int((SMOKE / "smoke.cycles").read_text()))
    # What `make demo` runs: so many signatures.
    run_all(container, server, "secp256k1", ["4"])


def check(folder):
    for name, compiles in (("compiler", True), ("runner", False), ("antares", True)):
        contents(folder / name, compiles)
    config = ["--config", "/etc/antares/antares.toml"]
    with contextlib.ExitStack() as stack:

        def start(name, configuration, args, network=None):
            container = Container(folder / name, configuration, args, network)
            stack.callback(container.remove)
            return container

        compiler = start("compiler", COMPILER, config)
        deadline = time.monotonic() + START_MAX
        while compiler.runc("state").returncode != 0 or compiler.pid() == 0:
            expect(time.monotonic() < deadline and compiler.process.poll() is None, f"no compiler: {compiler.logged()}")
            time.sleep(0.1)
        runner = start("runner", RUNNER, config, f"/proc/{compiler.pid()}/ns/net")
        runner.wait("127.0.0.1:50051")
        runner.wait("127.0.0.1:50052")
        run_scripts(runner, "127.0.0.1:50052")
        both = start("antares", BOTH, ["serve", *config])
        both.wait("127.0.0.1:50053")
        # It looks at workers of both kinds.
        print(both.execute("/usr/local/bin/antares", "doctor"))
        run_scripts(both, "127.0.0.1:50053")
        for container in (runner, compiler, both):
            container.confined()
            container.stop()


if __name__ == "__main__":
    if sys.argv[1] == "least":
        print(json.dumps(least()))
    else:
        check(pathlib.Path(sys.argv[2]))
