"""Fires the alerts on real services: breaks one thing after the other and waits until a real Prometheus says that the alert
for it is firing.

Usage: drill.py FOLDER [STEP...]      where `cargo build --workspace` puts programs; some steps want those of the tests

A compiler and a runner service run with one worker each; other processes run where Landlock is missing, with a small queue, with certificates
and keys that change, on a small volume, and with a compiler that fails and little room for uploads. The rules are those of deploy/prometheus, with windows, waits and least numbers of calls cut short: an hour becomes half a minute. Needs Debian's
prometheus on the PATH, and root: workers have another user, and the cache a file system of its own.

At the end everything is mended, and no alert is left.

Not drilled; promtool's tests fire them: what only a mistake in Antares, LLVM or sled can bring about; what needs a kernel that hides
processes; AntaresCacheCorrupt and AntaresCacheSetAside, because sled's own checksums find damaged bytes first, and a set-aside store is no
outage; and what takes many lines, peers or minutes.
"""

import base64
import contextlib
import ctypes
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import dashboard
from waiting import free_port, free_ports, wait

NOT_DRILLED = {
    # mistakes
    "AntaresWorkersUnfenced", "AntaresCacheBlobs", "AntaresProfileMismatch", "AntaresCompilesDiffer", "AntaresPanics", "AntaresTaskEnds",
    "AntaresWildFault", "AntaresWrongCode",
    # what no service here can be brought to
    "AntaresWorkersUnseen", "AntaresCacheCorrupt", "AntaresCacheSetAside",
    # it takes too many, or too long
    "AntaresAuditLost", "AntaresLogLost", "AntaresSharedTierWritesDropped",
}
# What the windows of the rules become: enough scrapes for a rate, and short enough to wait for.
WINDOWS = {"5m": "10s", "10m": "30s", "15m": "30s", "30m": "30s", "1h": "30s", "6h": "30s", "3d": "30s", "7d": "1h"}
FIRING_DEADLINE_S = 60
READY_DEADLINE_S = 60
# RISC-V: a jump to itself; and li a7, 93; ecall, an exit.
ENDLESS = [0x0000006F]
EXIT = [0x05D00893, 0x00000073]
# ld a1, 8(sp); slli a1, a1, 20; ld a1, 0(a1); exit: an address that is not known to be good.
LOAD = [0x00813583, 0x01459593, 0x0005B583, *EXIT]


def short_rules():
    """The rules as they stand, with other times."""
    text = (dashboard.PROMETHEUS / "antares.rules.yml").read_text(encoding="utf-8")
    text = re.sub(r"\[(\w+)\]", lambda match: f"[{WINDOWS[match.group(1)]}]", text)
    text = re.sub(r"for: \w+", "for: 1s", text)
    return re.sub(r"> (20|50|100|120|1440)$", "> 5", text, flags=re.MULTILINE)


def elf_of(words, tail=b""):
    """An ELF of one executable segment that holds the headers and the code; what stands behind it makes it another script."""
    code = struct.pack(f"<{len(words)}I", *words)
    size = 120 + len(code)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, 243, 1)
    head += struct.pack("<QQQIHHHHHH", 0x10078, 64, 0, 1, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x10000, 0x10000, size, size, 0x1000)
    return head + segment + code + tail


def without_landlock():
    """In the child, before exec: landlock_create_ruleset is answered with ENOSYS, as by an old kernel."""
    libc = ctypes.CDLL(None, use_errno=True)
    refuse, allow, number = 0x00050026, 0x7FFF0000, 444
    program = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in program))
    filters = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.create_string_buffer(filters), 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


def with_small_volume(folder, options=b"size=96m"):
    """In the child, before exec: a small file system of its own at a folder, which no other process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    private, new_namespace = 1 << 18 | 1 << 14, 0x00020000
    if (
        libc.unshare(new_namespace)
        or libc.mount(b"none", b"/", None, private, None)
        or libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, options)
    ):
        raise OSError(ctypes.get_errno(), "no file system of its own")


class Service:
    """One process of Antares with a configuration of its own."""

    def __init__(self, drill, name, command, config, preexec=None, environment=None, is_whole=True, listen=""):
        self.drill, self.name, self.command, self.preexec = drill, name, command, preexec
        self.environment, self.is_whole, self.last_words = environment or {}, is_whole, []
        self.grpc, self.metrics = free_ports(2)
        self.path = drill.folder / f"{name}.toml"
        text = f'[listen]\naddress = "127.0.0.1:{self.grpc}"\n{listen}[metrics]\naddress = "127.0.0.1:{self.metrics}"\n{config}'
        self.path.write_text(text, encoding="utf-8")
        self.process = None

    def start(self):
        with (self.drill.folder / f"{self.name}.log").open("a", encoding="utf-8") as log:
            command = [str(self.drill.binaries / self.command[0]), *self.command[1:], "--config", str(self.path), *self.last_words]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=self.preexec, env=os.environ | self.environment)
        try:
            wait(self.answers, READY_DEADLINE_S, f"{self.name} is not healthy")
        except TimeoutError:
            print(self.log(), file=sys.stderr)
            raise

    def log(self):
        return (self.drill.folder / f"{self.name}.log").read_text(encoding="utf-8")[-2000:]

    def answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.log()}")
        # One that begins with a failure serves its metrics alone.
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/{'healthz' if self.is_whole else 'metrics'}", timeout=5) as answer:
            return answer.status == 200

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait()

    def restart(self, how=signal.SIGTERM):
        self.stop(how)
        self.start()

    def zygote(self):
        """The worker process that this one has started."""
        return next(iter(children(self.process.pid)), None)

    def workers(self):
        zygote = self.zygote()
        return children(zygote) if zygote else []


def children(process):
    """Numbers of the processes that this one has started, whichever of its threads did."""
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            found += [int(number) for number in (task / "children").read_text().split()]
        except OSError:
            # It has ended.
            continue
    return found


class Drill:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        self.volume = folder / "volume"
        self.volume.mkdir()
        cache = f'[cache]\nallow_any_filesystem = true\nbudget_bytes = 1048576\ndir = "{folder}/'
        self.compiler = Service(
            self, "compiler", ["antares-compiler-svc"], f'{cache}volume/cache"\n[compiler]\nscript_bytes_max = 524288\nworkers_max = 1\n[admin]\nloopback = true\n',
            lambda: with_small_volume(self.volume),
        )
        config = f'[runner]\ncompiler_url = "http://127.0.0.1:{self.compiler.grpc}"\nworkers_max = 1\n'
        # Accepts connections and never says a word.
        self.silent = socket.create_server(("127.0.0.1", 0))
        silent = f"http://127.0.0.1:{self.silent.getsockname()[1]}"
        config += f'[trace]\nendpoint = "{silent}"\nsample_ratio = 0\n[profile_push]\notlp = true\n'
        self.runner = Service(self, "runner", ["antares-runner-svc"], config)
        self.node = free_port()
        config = f'{cache}degraded"\n[sandbox]\nallow_degraded = ["landlock"]\n[audit]\ntarget = "/dev/full"\n[node]\nrpc = "http://127.0.0.1:{self.node}"\n[quotas]\ncalls_max = 1\n[compiler]\nscript_bytes_max = 524288\n'
        self.degraded = Service(self, "degraded", ["antares", "serve"], config, without_landlock)
        # Where its workers are, until they are gone.
        self.workers, self.failing = folder / "workers", folder / "failing"
        self.link_workers(self.workers)
        self.link_workers(self.failing, "failing-compiler")
        self.store = free_port()
        small = "[compiler]\nscript_bytes_max = 524288\n"
        config = f'{cache}crowded"\n[shared]\nurl = "s3://drill"\n[trace]\nendpoint = "http://127.0.0.1:1"\n{small}[runner]\nworkers_max = 1\nqueue_max = 1\n'
        account = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.store}", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        self.crowded = Service(self, "crowded", ["antares", "serve"], config, environment=account | {"ANTARES_WORKER_DIR": str(self.workers)})
        self.certificate = Certificate(folder / "tls")
        self.certificate.issue(-1, 3)
        self.key_set = folder / "jwks.json"
        self.key_set.write_text(json.dumps({"keys": [self.certificate.public_key()]}), encoding="utf-8")
        config = f'{cache}doomed"\n[tls]\ncertificate = "{self.certificate.path}"\nkey = "{self.certificate.key}"\n[auth]\njwks = "{self.key_set}"\n'
        config += f'issuer = "i"\naudience = "a"\n[[auth.rules]]\ntoken = "t"\ntenant = "t"\nroles = ["execute"]\n{small}'
        self.doomed = Service(self, "doomed", ["antares", "serve"], config)
        self.small = folder / "full"
        self.small.mkdir()
        self.full = Service(
            self, "full", ["antares-compiler-svc"], f'{cache}full"\n{small}[signing]\nkeys = "{folder}/signing"\n', lambda: with_small_volume(self.small, b"size=32m"), is_whole=False
        )
        config = f'{cache}narrow"\n{small}[runner]\nworkers_max = 1\n'
        self.narrow = Service(self, "narrow", ["antares", "serve"], config, listen="calls_max = 16\n")
        self.tuned = Service(self, "tuned", ["tuned-server"], f"{small}[tuned]\npartial_uploads_max = 2\nuploads_max = 100\n", environment={"ANTARES_WORKER_DIR": str(self.failing)})
        self.tuned.command, self.tuned.last_words = [*self.tuned.command, "--listen", f"127.0.0.1:{self.tuned.grpc}"], ["--data", str(folder / "tuned")]
        self.services = [self.compiler, self.runner, self.degraded, self.crowded, self.doomed, self.full, self.narrow, self.tuned]
        self.number = 0
        self.fired = set()

    def link_workers(self, folder, compiler="antares-compile-worker"):
        folder.mkdir(exist_ok=True)
        for name, program in (("antares-run-worker", "antares-run-worker"), ("antares-compile-worker", compiler)):
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(self.binaries / program)

    def enlarge(self, option):
        """The small volume, under the process that uses it."""
        inside = ["nsenter", "--target", str(self.full.process.pid), "--mount"]
        subprocess.run([*inside, "mount", "-o", f"remount,{option}", self.small], check=True)

    def script(self, words, tail=b""):
        self.number += 1
        path = self.folder / f"{self.number}.elf"
        path.write_bytes(elf_of(words, tail or str(self.number).encode()))
        return path

    def run(self, script, *options, on=None):
        server = on or self.runner
        command = [str(self.binaries / "antares"), "run", "--server", f"http://127.0.0.1:{server.grpc}", *options]
        return subprocess.Popen([*command, str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def endless(self, deadline_ms, on=None):
        return self.run(self.script(ENDLESS), "--deadline-ms", str(deadline_ms), "--max-cycles", "1000000000000", on=on)

    def crowd(self, count, on):
        """So many endless runs of a service at once, again and again meanwhile."""

        def run_all():
            for client in [self.endless(4000, on) for _ in range(count)]:
                client.wait()

        return going_on(run_all)

    def wait_for_run(self):
        wait(lambda: any(is_running(worker) for worker in self.runner.workers()), 20, "no worker runs")

    def signal_worker(self, how):
        """A run is under way, and its worker gets a signal."""
        client = self.endless(20000)
        self.wait_for_run()
        for worker in self.runner.workers():
            os.kill(worker, how)
        client.wait()

    def antares(self, *words):
        """Runs the command to its end, whatever that is."""
        subprocess.run([self.binaries / "antares", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def expect(self, prometheus, *names, on=None, **labels):
        """Waits until each of these alerts has fired, of this service if one is given, and with these labels; they need not do so at the same time."""
        left = set(names)
        if on:
            labels["instance"] = f"127.0.0.1:{on.metrics}"

        def have_fired():
            for rule in prometheus.alerts():
                firing = [alert for alert in rule["alerts"] if alert["state"] == "firing"]
                firing = [alert for alert in firing if labels.items() <= alert["labels"].items()]
                if rule["name"] in left and firing:
                    left.remove(rule["name"])
                    self.fired.add(rule["name"])
                    what = [key for key in ("summary", "description") if not rule["annotations"].get(key)]
                    if what == ["summary", "description"] or not rule["annotations"].get("runbook_url"):
                        raise RuntimeError(f"{rule['name']} does not say what to do")
                    print(f"drill: {rule['name']} fires", flush=True)
            return not left

        try:
            wait(have_fired, FIRING_DEADLINE_S, "all fire")
        except TimeoutError:
            raise TimeoutError(f"{', '.join(sorted(left))} does not fire within {FIRING_DEADLINE_S} s") from None

    def expect_end(self, prometheus, *names):
        """Waits until none of these alerts fires any more."""

        def have_ended():
            return not {rule["name"] for rule in prometheus.alerts() if rule["state"] == "firing"} & set(names)

        wait(have_ended, FIRING_DEADLINE_S, f"{', '.join(names)} ends")
        print(f"drill: {', '.join(names)} ends", flush=True)


class Certificate:
    """A key, and a certificate of it whose days can be set again and again."""

    def __init__(self, folder):
        self.folder, self.key, self.path = folder, folder / "tls.key", folder / "tls.crt"
        folder.mkdir()
        config = "[ca]\ndefault_ca = d\n[d]\ndatabase = index\nnew_certs_dir = .\nserial = serial\ndefault_md = sha256\npolicy = p\nunique_subject = no\nx509_extensions = e\n[e]\nsubjectAltName = DNS:drill\n[p]\ncommonName = supplied\n"
        for name, text in (("ca.cnf", config), ("index", ""), ("serial", "10\n")):
            (folder / name).write_text(text, encoding="utf-8")
        self.openssl("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout tls.key -out tls.csr -subj /CN=drill")

    def openssl(self, words):
        return subprocess.run(["openssl", *words.split()], cwd=self.folder, check=True, capture_output=True).stdout

    def issue(self, begin, end):
        """One that is valid from and until so many days from now."""
        dates = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * days)) for days in (begin, end)]
        self.openssl(f"ca -batch -notext -selfsign -config ca.cnf -keyfile tls.key -in tls.csr -out new.crt -startdate {dates[0]} -enddate {dates[1]}")
        (self.folder / "new.crt").rename(self.path)

    def public_key(self):
        """As a JWK."""
        x, y = (base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (lambda der: (der[-64:-32], der[-32:]))(self.openssl("pkey -in tls.key -pubout -outform DER")))
        return {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "drill", "x": x, "y": y}


def is_running(process):
    """Whether the process computes."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "R"
    except OSError:
        return False


@contextlib.contextmanager
def listening(port, answer):
    """An HTTP server of others: `answer` has the status and the body for a request and its body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self):
            status, body = answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            for name, value in (("Content-Length", len(body)), ("Content-Type", "application/json"), ("ETag", '"e"')):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body if self.command != "HEAD" else b"")

        do_GET = do_PUT = do_HEAD = do_POST = reply

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def open_calls(service, method, peer, tenants, message=b""):
    """A connection of a peer with a call of each of these tenants, none of which ends. It reads no answer."""

    def frame(kind, flags, stream, payload):
        return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload

    def field(name, value):
        return b"".join([b"\0", *(bytes([len(text)]) + text.encode() for text in (name, value))])

    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    for number, tenant in enumerate(tenants):
        head = {":method": "POST", ":scheme": "http", ":path": f"/antares.v1.{method}", ":authority": "drill", "te": "trailers"}
        head |= {"content-type": "application/grpc", "antares-tenant": tenant}
        stream = 2 * number + 1
        sent += frame(1, 4, stream, b"".join(field(*pair) for pair in head.items()))
        sent += frame(0, 0, stream, struct.pack(">BI", 0, len(message)) + message) if message else b""
    connection = socket.create_connection(("127.0.0.1", service.grpc), 5, (peer, 0))
    connection.sendall(sent)
    return connection


@contextlib.contextmanager
def going_on(ask):
    """Asks again and again meanwhile."""
    stop = threading.Event()

    def go_on():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                ask()

    asking = threading.Thread(target=go_on)
    asking.start()
    try:
        yield
    finally:
        stop.set()
        asking.join()


# ---- what is broken, one after the other


def missing_layer(drill, prometheus):
    drill.expect(prometheus, "AntaresSandboxLayerMissing")


def busy_workers(drill, prometheus):
    """One run holds the only worker for long, and many short ones wait behind it."""
    keepers = [drill.endless(6000) for _ in range(3)]
    drill.wait_for_run()
    short = drill.script(EXIT)
    clients = [drill.run(short, "--tier", "interpreter") for _ in range(30)]
    drill.expect(prometheus, "AntaresWorkersSaturated", "AntaresQueueWait", "AntaresOverhead")
    for client in [*keepers, *clients]:
        client.wait()


def violation(drill, prometheus):
    # The kernel's own signal for a system call outside of the policy.
    drill.signal_worker(signal.SIGSYS)
    drill.expect(prometheus, "AntaresSandboxViolation")


def lost_workers(drill, prometheus):
    with going_on(lambda: drill.signal_worker(signal.SIGKILL)):
        drill.expect(prometheus, "AntaresWorkersLost")


def lost_zygotes(drill, prometheus):
    for _ in range(4):
        zygote = drill.runner.zygote()
        os.kill(zygote, signal.SIGKILL)
        drill.run(drill.script(EXIT), "--tier", "interpreter").wait()
        wait(lambda zygote=zygote: drill.runner.zygote() not in (None, zygote), 20, "no new zygote")
    drill.expect(prometheus, "AntaresZygoteRestarts")


def full_compiles(drill, prometheus):
    """More new scripts than may wait for their full compile (64), which takes longer than the baseline's."""
    # addi a0, a0, 1
    words = [0x00150513] * 4000 + EXIT
    for _ in range(6):
        clients = [drill.run(drill.script(words), "--tier", "native") for _ in range(15)]
        for client in clients:
            client.wait()
    drill.expect(prometheus, "AntaresFullCompilesLost")


def compile_queue(drill, prometheus):
    """The process that compile workers are forked from stands still."""
    zygote = drill.compiler.zygote()
    os.kill(zygote, signal.SIGSTOP)
    clients = [drill.run(drill.script(EXIT), "--tier", "native") for _ in range(30)]
    try:
        drill.expect(prometheus, "AntaresCompileQueue")
    finally:
        os.kill(zygote, signal.SIGCONT)
    for client in clients:
        client.wait()


def fill(drill, folder):
    """Writes into a folder of the compiler's volume until nothing more fits."""
    path = pathlib.Path(f"/proc/{drill.compiler.process.pid}/root{folder}/ballast")
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))
    return path


def full_volume(drill, prometheus):
    """Nothing more fits on the volume that the cache is on."""
    ballast = fill(drill, drill.volume)
    for _ in range(20):
        drill.run(drill.script(EXIT, os.urandom(100_000)), "--tier", "native").wait()
    try:
        drill.expect(prometheus, "AntaresUploadsRefused")
    finally:
        ballast.unlink()


def used_up_budget(drill, prometheus):
    """Operators have pinned half of the store, may pin no more, and no script fits that needs more than the other half."""
    scripts = [drill.script(EXIT, os.urandom(50_000)) for _ in range(15)]
    keys = [hashlib.sha256(script.read_bytes()).hexdigest() for script in scripts]
    server = f"http://127.0.0.1:{drill.compiler.grpc}"
    for script, key in zip(scripts, keys):
        drill.run(script, "--tier", "native").wait()
        drill.antares("pin", key, "--server", server)
    drill.expect(prometheus, "AntaresTurnedAway", on=drill.compiler)
    for _ in range(15):
        drill.run(drill.script(EXIT, os.urandom(250_000)), "--tier", "native").wait()
    drill.expect(prometheus, "AntaresCacheRejects", on=drill.compiler)
    drill.antares("unpin", *keys, "--server", server)


def refused_processes(drill, prometheus):
    """The kernel lets the process that workers are forked from make none. Setting another user's limits needs a capability."""
    limit = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "prlimit", "--pid", str(drill.runner.zygote())]
    before = subprocess.run([*limit, "--nproc", "--output=SOFT", "--noheadings"], check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run([*limit, "--nproc=1:"], check=True)
    try:
        for _ in range(20):
            drill.run(drill.script(EXIT), "--tier", "interpreter").wait()
        drill.expect(prometheus, "AntaresWorkersNotForked")
    finally:
        subprocess.run([*limit, f"--nproc={before}:"], check=True)


def many_connections(drill, prometheus):
    """More TLS handshakes that go on for long than may be, of several peers; and a peer with more connections than it may have."""
    with contextlib.ExitStack() as stack:
        for number in range(600):
            source = (f"127.0.0.{2 + number % 4}", 0)
            stack.enter_context(socket.create_connection(("127.0.0.1", drill.doomed.grpc), 5, source))
        drill.expect(prometheus, "AntaresConnectionsRefused", on=drill.doomed)
    with drill.crowd(20, drill.narrow):
        drill.expect(prometheus, "AntaresConnectionsRefused", on=drill.narrow)


def many_calls(drill, prometheus):
    """Two peers hold all call slots, and a third one calls."""
    with contextlib.ExitStack() as stack:
        for peer, tenants in (("127.0.0.2", "aaaaaaaabbbb"), ("127.0.0.3", "aaaa"), ("127.0.0.4", "abcdefgh" * 8)):
            stack.enter_context(open_calls(drill.narrow, "RunnerService/Execute", peer, tenants))
        drill.expect(prometheus, "AntaresCallsRefused", on=drill.narrow)


def open_uploads(drill, prometheus):
    """More uploads at once than may be incomplete."""
    # UploadRequest: its header, which has a digest and a size.
    message = b"\x0a\x44\x0a\x40" + b"00" * 32 + b"\x10\x01"
    with open_calls(drill.tuned, "CompilerService/Upload", "127.0.0.2", "a" * 40, message):
        drill.expect(prometheus, "AntaresUploadsRefused", on=drill.tuned, reason="upload_bytes")


def bad_compiler(drill, prometheus):
    """A compile worker that emits a forbidden instruction, leaves out a check, or fails."""
    for tail in (b"syscall", b"proved", b"fails"):
        drill.run(drill.script(LOAD, tail), "--tier", "native", on=drill.tuned).wait()
    drill.expect(prometheus, "AntaresCodeRefused", "AntaresUnproved", "AntaresCompilesFail", on=drill.tuned)


def full_folder(drill, prometheus):
    """Somebody else's file in the folder of the cache."""
    ballast = fill(drill, drill.volume / "cache")
    try:
        drill.expect(prometheus, "AntaresCacheDisk")
    finally:
        ballast.unlink()


def lost_store(drill, prometheus):
    """The folder of a store is gone under the process that has it."""
    shutil.rmtree(drill.folder / "degraded")
    drill.expect(prometheus, "AntaresNotServing")


def full_audit_log(drill, prometheus):
    """A disk that takes no line."""
    drill.run(drill.script(EXIT), "--tier", "interpreter", on=drill.degraded).wait()
    drill.expect(prometheus, "AntaresAuditBroken")


def absent_node(drill, prometheus):
    """Nobody listens where the CKB node should be; and then somebody who gives another transaction. Transactions come without their cells."""
    path = drill.folder / "bare.json"
    spent = {"since": "0x0", "previous_output": {"tx_hash": "0x" + "11" * 32, "index": "0x0"}}
    empty = {name: [] for name in ("cell_deps", "header_deps", "outputs", "outputs_data", "witnesses")}
    path.write_text(json.dumps({"version": "0x0", "inputs": [spent], **empty}), encoding="utf-8")
    other = {"version": "0x0", "inputs": [], "hash": spent["previous_output"]["tx_hash"], **empty}
    committed = {"status": "committed", "block_hash": "0x" + "22" * 32, "block_number": "0x1", "tx_index": "0x0", "reason": None}

    def ask():
        drill.antares("verify", "--tx", path, "--server", f"http://127.0.0.1:{drill.degraded.grpc}")

    with going_on(ask):
        drill.expect(prometheus, "AntaresNodeFails", result="unavailable")

    def lie(request, body):
        return 200, {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": {"transaction": other, "tx_status": committed, "cycles": None}}

    with listening(drill.node, lie), going_on(ask):
        drill.expect(prometheus, "AntaresNodeFails", result="wrong")


def silent_receiver(drill, prometheus):
    """Whoever should take profiles says nothing."""
    for _ in range(40):
        drill.run(drill.script(EXIT), "--tier", "interpreter").wait()
    drill.expect(prometheus, "AntaresProfilePush")


def no_compiler(drill, prometheus):
    """The compiler is gone: calls that need it fail by our fault, others are interpreted."""
    drill.compiler.stop(signal.SIGKILL)
    clients = []
    for _ in range(30):
        clients.append(drill.run(drill.script(EXIT), "--tier", "native"))
        clients.append(drill.run(drill.script(EXIT), "--tier", "auto"))
        time.sleep(0.2)
    for client in clients:
        client.wait()
    drill.expect(prometheus, "AntaresDown", "AntaresNoCompiler", "AntaresErrorBudgetFast", "AntaresErrorBudgetMedium", "AntaresErrorBudgetSlow")


def full_queue(drill, prometheus):
    """A run on the only worker, one that waits, and others that find no room; nobody takes their spans."""
    with drill.crowd(12, drill.crowded):
        drill.expect(prometheus, "AntaresTurnedAway", "AntaresSpansLost", on=drill.crowded)


def full_quota(drill, prometheus):
    """A tenant that may have one call has many."""
    with drill.crowd(12, drill.degraded):
        drill.expect(prometheus, "AntaresQuotaRefused", on=drill.degraded)


def absent_object_store(drill, prometheus):
    """An object store that never answers; and then one that refuses."""

    def ask():
        drill.run(drill.script(EXIT), "--tier", "native", on=drill.crowded).wait()

    with socket.create_server(("127.0.0.1", drill.store), backlog=4096), going_on(ask):
        drill.expect(prometheus, "AntaresSharedTierAway")
    with listening(drill.store, lambda request, body: (403, {})), going_on(ask):
        drill.expect(prometheus, "AntaresSharedTierRefused")


def certificates(drill, prometheus):
    """One that ends soon, one that has ended, one that has not begun; and a good one ends it all."""
    drill.expect(prometheus, "AntaresCertificateEnds")
    drill.certificate.issue(-2, -1)
    drill.expect(prometheus, "AntaresCertificateLastDay")
    drill.certificate.issue(1, 300)
    drill.expect(prometheus, "AntaresCertificateNotYetValid")
    drill.certificate.issue(-1, 300)
    drill.expect_end(prometheus, "AntaresCertificateEnds", "AntaresCertificateLastDay", "AntaresCertificateNotYetValid")


def useless_key_sets(drill, prometheus):
    good = drill.key_set.read_text(encoding="utf-8")
    drill.key_set.write_text("none", encoding="utf-8")
    drill.expect(prometheus, "AntaresReloadsFail")
    drill.key_set.write_text('{"keys": []}', encoding="utf-8")
    drill.expect(prometheus, "AntaresKeysGone")
    drill.key_set.write_text(good, encoding="utf-8")
    drill.expect_end(prometheus, "AntaresKeysGone")


def small_volume(drill, prometheus):
    """A store on a file system without room until it is larger; then on one that takes no file, until it may; and it starts again and again."""
    drill.expect(prometheus, "AntaresNotServing", on=drill.full)
    drill.enlarge("size=96m")
    drill.expect_end(prometheus, "AntaresNotServing")
    drill.full.preexec = lambda: with_small_volume(drill.small, b"size=96m,nr_inodes=2")
    with going_on(drill.full.restart):
        drill.expect(prometheus, "AntaresCacheUnavailable", "AntaresRestarts", on=drill.full)
    drill.enlarge("nr_inodes=4096")
    drill.expect_end(prometheus, "AntaresNotServing", "AntaresCacheUnavailable")


def no_worker_program(drill, prometheus):
    """The program of the workers is gone, and the process that they are forked from ends."""
    for name in ("antares-run-worker", "antares-compile-worker"):
        (drill.workers / name).unlink()
    for zygote in children(drill.crowded.process.pid):
        os.kill(zygote, signal.SIGKILL)
    drill.expect(prometheus, "AntaresNotServing", on=drill.crowded)


def no_runners(drill, prometheus):
    """Prometheus finds the compiler alone, and then all again."""
    prometheus.forget([f"127.0.0.1:{drill.compiler.metrics}"])
    drill.expect(prometheus, "AntaresGone")
    prometheus.forget(prometheus.targets)
    drill.expect_end(prometheus, "AntaresGone")


def no_targets(drill, prometheus):
    prometheus.forget()
    drill.expect(prometheus, "AntaresAbsent")
    prometheus.forget(prometheus.targets)
    drill.expect_end(prometheus, "AntaresAbsent")


def mended(drill, prometheus):
    """Everything is as it should be again, and each alert that has fired ends."""
    drill.degraded.preexec = None
    drill.full.preexec = lambda: with_small_volume(drill.small)
    drill.degraded.path.write_text(drill.degraded.path.read_text(encoding="utf-8").replace("/dev/full", str(drill.folder / "audit")), encoding="utf-8")
    for folder in (drill.workers, drill.failing):
        drill.link_workers(folder)
    missing = "<Error><Code>NoSuchKey</Code></Error>"
    with listening(drill.store, lambda request, body: (200, {}) if request.command == "PUT" else (404, missing)):
        for service in drill.services:
            service.is_whole = True
            service.restart(signal.SIGKILL)
        drill.expect_end(prometheus, *drill.fired)


# What is broken, in order, and the states of outages.py that it makes.
STEPS = {
    missing_layer: [], small_volume: ["no space under the store (`no_space`)", "the store cannot be opened (`unavailable`)"],
    certificates: ["a certificate has ended", "a certificate is not valid yet"],
    useless_key_sets: ["changed keys or certificates are of no use", "the key set of tokens has no key any more"],
    full_audit_log: ["the audit log cannot be written (`audit.required`: calls are refused)"],
    absent_node: ["the CKB node is away (`node.rpc`: calls without cells fail)", "the CKB node gives what its hashes do not fit"],
    full_quota: ["a tenant is refused by its quota"],
    lost_store: ["the store's directory is gone (`lost`)"], full_queue: ["the queue is full (`runner.queue_max`)"],
    absent_object_store: ["the object store is away", "the object store refuses"], no_worker_program: ["workers cannot be started"],
    busy_workers: [], violation: ["a worker violated the sandbox policy"], lost_workers: ["workers die"], lost_zygotes: [], full_compiles: [],
    compile_queue: [], full_folder: [],
    used_up_budget: ["the store's budget is used up", "other room is used up (bytes, uploads, downloads, operations, pins, workers, places of a peer)"],
    many_calls: ["calls find no place"], open_uploads: ["uploads find no room among uploads"],
    bad_compiler: ["native code is refused by the check of machine code"],
    refused_processes: ["the kernel forks no workers"], many_connections: ["connections find no place", "handshakes find no place"], full_volume: ["uploads find the volume full"], silent_receiver: [],
    no_runners: ["all runners leave the discovery while a compiler lives"],
    no_compiler: ["a process is gone, or does not start (configuration, a missing layer)", "no compiler answers a runner, which interprets", "calls fail"],
    no_targets: ["all targets are gone"], mended: [],
}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    wanted = sys.argv[2:]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="antares-drill-"))
    drill = Drill(pathlib.Path(sys.argv[1]).resolve(), folder)
    rules = folder / "rules.yml"
    rules.write_text(short_rules(), encoding="utf-8")
    failed = []
    try:
        for service in drill.services:
            service.start()
        targets = [f"127.0.0.1:{service.metrics}" for service in drill.services]
        with dashboard.Prometheus(targets, rules) as prometheus:
            for step in STEPS:
                if wanted and step.__name__ not in wanted:
                    continue
                try:
                    step(drill, prometheus)
                except (TimeoutError, RuntimeError, OSError) as error:
                    failed.append(f"{step.__name__}: {error}")
                    print(f"WRONG: {failed[-1]}", flush=True)
    finally:
        for service in drill.services:
            service.stop(signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
    every = dashboard.alerts_of((dashboard.PROMETHEUS / "antares.rules.yml").read_text(encoding="utf-8"))
    left = every - drill.fired - NOT_DRILLED
    if not wanted and left:
        failed.append(f"nothing fired {', '.join(sorted(left))}")
        print(f"WRONG: {failed[-1]}")
    print(f"drill: {len(drill.fired)} of {len(every)} alerts fired, {len(NOT_DRILLED)} cannot be drilled")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
