#!/usr/bin/env bash
# The services as in a pod of the restricted level, without Kubernetes: under runc with user 65532, no capability, no new
# privileges, a read-only root, namespaces of its own, and a seccomp profile that refuses what the runtimes' default profiles
# refuse. Inside, `antares doctor` must find all required layers, and a server must compile and run a script with the cycles
# that the chart's smoke test expects. Takes the folder of the binaries (default target/release). Ends with status 77, and says
# why, where the machine cannot make containers: without root or runc, or inside a container that may not make others.
set -euo pipefail
cd "$(dirname "$0")/../.."

binaries=$(readlink -f "${1:-${CARGO_TARGET_DIR:-target}/release}")
# How long all of it may take, seconds.
pod_max=120

fail() {
    echo "pod: error: $*" >&2
    exit 1
}

# What `make test` counts as skipped.
cannot() {
    echo "pod: skipped: $*" >&2
    exit 77
}

command -v runc >/dev/null || cannot "there is no runc here (Debian package runc)"
[ "$(id -u)" = 0 ] || cannot "making a container needs root here; inside nobody is"
for name in antares antares-run-worker antares-compile-worker; do
    [ -x "$binaries/$name" ] || fail "$binaries/$name is not built"
done

bundle=$(mktemp -d)
name=antares-check-$$
clean_up() {
    runc delete --force "$name" 2>/dev/null || true
    runc delete --force "$name-least" 2>/dev/null || true
    rm -rf "$bundle"
}
trap clean_up EXIT

mkdir -p "$bundle"/rootfs/{usr,etc,proc,dev,sys,tmp,data,opt/antares,opt/check}
for link in bin lib lib64 sbin; do
    ln -s "usr/$link" "$bundle/rootfs/$link"
done
# Folders of the host that the container's user must be able to pass through.
chmod 755 "$bundle" "$bundle/rootfs"
# What is mounted there takes their mode.
chmod 1777 "$bundle"/rootfs/{tmp,data}
mkdir "$bundle/check"
cp helm/antares/files/smoke.elf helm/antares/files/smoke.cycles "$bundle/check/"
cat >"$bundle/check/inside.sh" <<'INSIDE'
set -eu
export PATH=/opt/antares:/usr/bin:/bin
echo "user $(id -u), $(grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t\n' '  ')"
touch /usr/x 2>/dev/null && { echo "the root can be written"; exit 1; }
unshare -U true 2>/dev/null && { echo "unshare is let through"; exit 1; }
antares doctor
antares serve --listen 127.0.0.1:50051 --data /data/store >/data/log 2>&1 &
server=$!
url=127.0.0.1:50051
for _ in $(seq 300); do
    # The log names the address once it listens; the network is the pod's own, so that any port is free.
    ! grep -q "$url" /data/log || break
    kill -0 $server 2>/dev/null || { cat /data/log; exit 1; }
    sleep 0.1
done
for round in first second; do
    answer=$(antares run /opt/check/smoke.elf --server "$url" --tier native --json)
    echo "$round run: $answer"
    case $answer in
    *"\"cycles\":$(cat /opt/check/smoke.cycles),"*) ;;
    *) echo "not the cycles that were expected: $(cat /opt/check/smoke.cycles)"; exit 1 ;;
    esac
done
kill -TERM $server
wait $server
echo "pod: ok"
INSIDE

# Two configurations: the pod, and the least that runc must be able to do for it.
mkdir -p "$bundle/least"
python3 - "$bundle" "$binaries" <<'CONFIG'
"""Writes config.json of the bundle, and of one beside it that only shows whether runc works here."""
import json
import sys

bundle, binaries = sys.argv[1:]


def bind(source, destination):
    options = ["rbind", "ro", "nosuid", "nodev"]
    return {"destination": destination, "type": "bind", "source": source, "options": options}


def memory(destination, size):
    options = ["nosuid", "nodev", "noexec", "mode=1777", f"size={size}"]
    return {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": options}


# Refused by the default profiles of containerd and moby to a container without capabilities.
refused = """acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module fsconfig fsmount
fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl
lookup_dcookie mount mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pivot_root
quotactl quotactl_fd reboot request_key setdomainname sethostname setns settimeofday stime swapoff swapon umount umount2
unshare userfaultfd uselib ustat vhangup""".split()
namespaces_mask = 0x7E020000
seccomp = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"],
    "syscalls": [
        {"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": 1},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
    ],
}
for bit in range(32):
    if namespaces_mask >> bit & 1:
        flag = {"index": 0, "value": 1 << bit, "valueTwo": 1 << bit, "op": "SCMP_CMP_MASKED_EQ"}
        seccomp["syscalls"].append(
            {"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "args": [flag]}
        )
nothing = {kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")}
config = {
    "ociVersion": "1.0.2",
    "process": {
        "terminal": False,
        "user": {"uid": 65532, "gid": 65532},
        "args": ["/bin/sh", "/opt/check/inside.sh"],
        "env": ["PATH=/usr/bin:/bin"],
        "cwd": "/",
        "capabilities": nothing,
        "noNewPrivileges": True,
    },
    "root": {"path": "rootfs", "readonly": True},
    "hostname": "pod",
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
        },
        bind("/usr", "/usr"),
        bind("/etc", "/etc"),
        bind(binaries, "/opt/antares"),
        bind(f"{bundle}/check", "/opt/check"),
        memory("/tmp", "64m"),
        memory("/data", "512m"),
    ],
    "linux": {
        "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
        "seccomp": seccomp,
        "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    },
}
with open(f"{bundle}/config.json", "w", encoding="utf-8") as file:
    json.dump(config, file)
config["process"]["args"] = ["/bin/true"]
config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] not in ("/opt/antares", "/opt/check")]
config["linux"]["seccomp"] = None
config["root"]["path"] = f"{bundle}/rootfs"
with open(f"{bundle}/least/config.json", "w", encoding="utf-8") as file:
    json.dump(config, file)
CONFIG

least=$(timeout 20 runc run --bundle "$bundle/least" "$name-least" </dev/null 2>&1) ||
    cannot "runc cannot run /bin/true in a container on this machine: $least"
status=0
timeout "$pod_max" runc run --bundle "$bundle" "$name" </dev/null || status=$?
[ "$status" -eq 0 ] || fail "the pod ended with status $status"
