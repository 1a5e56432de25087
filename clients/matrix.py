#!/usr/bin/env python3
"""The same calls by every kind of client to every shape of server, and a table of what each client is told.

    clients/matrix.py [CLIENT...]

Needs the programs that `cargo build --workspace --all-targets` makes, and for each client what make.sh needs for it. A client that
cannot be had is skipped, and the table says why. Exits with 1 if a client is told something else than the table expects, with 77 if
none can be had. Clients over HTTP follow the table of docs/clients.md here; packages follow it themselves.
"""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import queue
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "debug"
TOOLS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "antares-tools"
OPENAPI_PYTHON = "openapi-python-client==0.29.1"
OPENAPI_TS = ["@hey-api/openapi-ts@0.95.0", "typescript@5.9.3", "esbuild@0.28.2"]

MISSING = 77
# Of a call over HTTP: what keepalive gives a package.
SECONDS = 30
ATTEMPTS_MAX = 8
PATIENCE_S = 120
CODES = dict(enumerate(
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED".split()
))


class Missing(Exception):
    """Why a client cannot be had."""


def exits(code):
    """A script that nobody has seen: li a7,93; li a0,CODE; ecall."""
    body = struct.pack("<3I", 0x05D00893, 0x00000513 | code << 20, 0x00000073) + os.urandom(16)
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), 2, 243, 1, 0x10078, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = 0x78 + len(body)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, 0x10000, 0x10000, size, size, 0x1000) + body


def mock(script, type_key="type"):
    """A transaction in ckb-debugger's JSON whose only lock is `script`."""
    digest = hashlib.blake2b(script, digest_size=32, person=b"ckb-default-hash").hexdigest()
    lock = {"code_hash": f"0x{digest}", "hash_type": "data1", "args": "0x"}
    cell = {"capacity": "0x174876e800", "lock": lock, "type": None}
    spent, dep = ({"tx_hash": f"0x{byte * 32}", "index": "0x0"} for byte in ("01", "02"))
    given, code = {"since": "0x0", "previous_output": spent}, {"out_point": dep, "dep_type": "code"}
    source = {"capacity": "0x174876e800", "lock": lock, type_key: None}
    info = {
        "inputs": [{"input": given, "output": source, "data": "0x"}],
        "cell_deps": [{"cell_dep": code, "output": cell, "data": f"0x{script.hex()}"}],
        "header_deps": [],
    }
    tx = {"version": "0x0", "cell_deps": [code], "header_deps": [], "inputs": [given], "outputs": [cell], "outputs_data": ["0x"]}
    return json.dumps({"mock_info": info, "tx": {**tx, "witnesses": ["0x"]}})


class Process:
    """A program that answers each line with a line."""

    def __init__(self, *words, **more):
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, line):
        try:
            print(line, file=self._process.stdin, flush=True)
            answer = self._lines.get(timeout=PATIENCE_S)
        except BrokenPipeError:
            answer = None
        except queue.Empty:
            return {"error": {"code": 4, "reason": f"no answer within {PATIENCE_S} s", "fields": []}}
        return json.loads(answer) if answer else {"error": {"code": 2, "reason": "the client ended", "fields": []}}

    def close(self):
        self._process.kill()
        self._process.wait()


class Server:
    """A process that can be stopped, continued, and started again at the addresses that it had."""

    def __init__(self, folder, program, sections):
        self._folder, self._program, self._sections = folder, program, sections
        self.address, self.web = "127.0.0.1:0", "127.0.0.1:0"
        folder.mkdir()
        self.start()

    def start(self):
        config, log = self._folder / "antares.toml", self._folder / "log"
        web = f'[web]\naddress = "{self.web}"\norigins = ["{Browser.origin()}"]\n'
        config.write_text(f'[metrics]\naddress = "127.0.0.1:0"\n[log]\nformat = "json"\n{web}{self._sections}')
        words = [BUILT / self._program[0], *self._program[1:], "--listen", self.address, "--config", config, "--data", self._folder / "data"]
        with log.open("w") as file:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and self.process.poll() is None:
            for line in log.read_text().splitlines():
                if '"serving"' in line and line.endswith("}"):
                    said = json.loads(line)
                    self.address, self.web = said["address"], said["web"]
                    return
            time.sleep(0.05)
        raise SystemExit(f"matrix: {self._program[0]} does not start:\n{log.read_text()[-2000:]}")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Servers:
    """One server, or a compiler with runners as the chart has them."""

    def __init__(self, folder, runners, sections=""):
        folder.mkdir()
        self.all = []
        if runners == 0:
            self.fronts = [Server(folder / "server", ("antares", "serve"), sections)]
        else:
            self.all.append(Server(folder / "compiler", ("antares-compiler-svc",), ""))
            runner = f'{sections}[runner]\ncompiler_url = "http://{self.all[0].address}"\n'
            self.fronts = [Server(folder / f"runner-{number}", ("antares-runner-svc",), runner) for number in range(runners)]
        self.all += self.fronts

    def kill(self):
        for server in self.all:
            server.kill()


class Package:
    """What make.sh installs: one process verifies what comes, another one runs a script."""

    def __init__(self, language, folder):
        self._folder = folder / language
        self._folder.mkdir()
        made = subprocess.run([HERE / "make.sh", language, self._folder], capture_output=True, text=True)
        if made.returncode == MISSING:
            raise Missing(made.stderr.strip().splitlines()[-1])
        if made.returncode:
            raise SystemExit(f"matrix: make.sh {language}:\n{made.stderr}")
        self._program = self._folder / "client"

    def connect(self, servers):
        addresses = ",".join(server.address for server in servers.fronts)
        # Some take the address of one server only without a scheme of gRPC's.
        self._addresses = f"ipv4:{addresses}" if "," in addresses else addresses
        self._process = Process(self._program, "verify", self._addresses, "-")

    def close(self):
        self._process.close()

    def verify(self, transaction):
        return of_lines(self._process.ask(transaction))

    def run(self, script):
        path = self._folder / "script"
        path.write_bytes(script)
        ran = subprocess.run([self._program, "run", self._addresses, path, "7"], capture_output=True, text=True, timeout=PATIENCE_S)
        if ran.returncode:
            return ran.stderr.strip()[-60:]
        verdict = json.loads(ran.stdout)["verdict"]
        return f"exit {verdict.get('exitCode', verdict.get('exit_code'))}"


class Rust(Package):
    """The crate, in its example."""

    def __init__(self, _language, folder):
        self._folder, self._program = folder, BUILT / "examples" / "lines"
        if not self._program.exists():
            raise Missing("cargo build --workspace --all-targets has not run")

    def connect(self, servers):
        self._addresses = ",".join(server.address for server in servers.fronts)
        self._process = Process(self._program, "verify", self._addresses)


class Http:
    """A caller over HTTP: `_post` makes one attempt."""

    def connect(self, servers):
        self.turn_to([server.web for server in servers.fronts])

    def turn_to(self, addresses):
        self._addresses, self._turn = addresses, 0

    def close(self):
        pass

    def _call(self, method, body):
        for attempt in range(ATTEMPTS_MAX):
            address = self._addresses[self._turn % len(self._addresses)]
            self._turn += 1
            answer = self._post({"address": address, "method": method, "body": body, "seconds": SECONDS})
            error = answer.get("body", {}).get("error", {})
            if "lost" not in answer and (answer.get("status", 200) == 200 or error.get("details")):
                return answer
            # No more of silence than a package has.
            if "lost" in answer and attempt + 1 >= len(self._addresses):
                return answer
            time.sleep(0.05 * 2**attempt)
        return answer

    def verify(self, transaction):
        return of_http(self._call("VerifyTransaction", {"mockJson": base64.b64encode(transaction.encode()).decode()}))

    def run(self, script):
        body = {"script": {"sha256": hashlib.sha256(script).hexdigest()}, "textArgs": ["7"]}
        answer = self._call("Execute", body)
        if of_http(answer) == "NOT_FOUND SCRIPT_NOT_FOUND":
            body["script"] = {"elf": base64.b64encode(script).decode()}
            answer = self._call("Execute", body)
        verdict = answer.get("body", {}).get("verdict")
        return f"exit {verdict['exitCode']}" if verdict else of_http(answer)


class Curl(Http):
    def __init__(self, _language, _folder):
        if not shutil.which("curl"):
            raise Missing("there is no curl")

    def _post(self, call):
        url = f"http://{call['address']}/antares.v1.RunnerService/{call['method']}"
        headers = ["-H", "content-type: application/json", "-H", f"grpc-timeout: {call['seconds']}S"]
        words = ["curl", "-sS", "-m", str(call["seconds"]), "-w", "\n%{http_code}", "--data-binary", "@-", *headers, url]
        done = subprocess.run(words, input=json.dumps(call["body"]), capture_output=True, text=True)
        if done.returncode:
            return {"lost": done.stderr.strip()}
        body, status = done.stdout.rsplit("\n", 1)
        return {"status": int(status), "body": json.loads(body)}


class Generated(Http):
    """A client that a generator made of the OpenAPI file."""

    def _post(self, call):
        return self._process.ask(json.dumps(call))


def tool(name, make):
    """The folder of a generator, which is fetched once."""
    home = TOOLS / name
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        try:
            made = all(subprocess.run(words, cwd=home, capture_output=True).returncode == 0 for words in make(home))
        except FileNotFoundError as error:
            raise Missing(f"there is no {error.filename}") from error
        if not made:
            raise Missing(f"{name} cannot be fetched")
        (home / "complete").touch()
    return home


class OpenapiPython(Generated):
    def __init__(self, _language, folder):
        home = tool(
            OPENAPI_PYTHON.replace("==", "-"),
            lambda home: [[sys.executable, "-m", "venv", home], [home / "bin/pip", "install", "--quiet", OPENAPI_PYTHON]],
        )
        made = folder / "openapi-python"
        words = [home / "bin/openapi-python-client", "generate", "--meta", "none", "--path", HERE.parent / "proto/openapi.json"]
        subprocess.run([*words, "--output-path", made / "antares_client"], check=True, capture_output=True)
        self._process = Process(home / "bin/python", HERE / "matrix/openapi.py", env={**os.environ, "PYTHONPATH": str(made)})


class OpenapiTs(Generated):
    def __init__(self, _language, folder):
        if not shutil.which("node"):
            raise Missing("there is no node")
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", *OPENAPI_TS]
        home = tool(OPENAPI_TS[0].split("/")[1].replace("@", "-"), lambda _: [install])
        made = folder / "openapi-ts"
        made.mkdir()
        shutil.copy(HERE / "matrix/openapi.ts", made)
        generate = [home / "node_modules/.bin/openapi-ts", "-i", HERE.parent / "proto/openapi.json", "-o", made / "generated"]
        subprocess.run([*generate, "-c", "@hey-api/client-fetch", "--no-log-file"], check=True, capture_output=True, cwd=home)
        bundle = [home / "node_modules/.bin/esbuild", made / "openapi.ts", "--bundle", "--platform=node", "--format=esm"]
        subprocess.run([*bundle, f"--outfile={made}/openapi.mjs"], check=True, capture_output=True)
        self._process = Process("node", made / "openapi.mjs")


class Browser(Http):
    """Chromium with a page of another origin than the servers'."""

    calls, answers, _pages = queue.Queue(), queue.Queue(), None

    class Page(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_words):
            pass

        def reply(self, kind, body):
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.reply("text/html", (HERE / "matrix/page.html").read_bytes())

        def do_POST(self):
            told = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if told:
                Browser.answers.put(told)
            self.reply("application/json", json.dumps(Browser.calls.get()).encode())

    @classmethod
    def origin(cls):
        if not cls._pages:
            cls._pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), cls.Page)
            cls._pages.daemon_threads = True
            threading.Thread(target=cls._pages.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{cls._pages.server_port}"

    def __init__(self, _language, folder):
        if not shutil.which("chromium"):
            raise Missing("there is no chromium")
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        words = ["chromium", *quiet, f"--user-data-dir={folder / 'browser'}", self.origin()]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def end(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _post(self, call):
        self.calls.put(call)
        return self.answers.get(timeout=PATIENCE_S)


CLIENTS = {
    "rust": Rust,
    "go": Package,
    "npm": Package,
    "python": Package,
    "browser": Browser,
    "curl": Curl,
    "openapi-python": OpenapiPython,
    "openapi-ts": OpenapiTs,
}


def of_lines(answer):
    if error := answer.get("error"):
        return " ".join([CODES[error["code"]], error["reason"], *error["fields"]]).strip()
    return f"{answer['outcome'].removeprefix('VERIFY_OUTCOME_')} {answer['cycles']}"


def of_http(answer):
    if "lost" in answer:
        return "UNAVAILABLE"
    if "body" not in answer:
        return of_lines(answer)
    if "error" not in answer["body"]:
        return of_lines(answer["body"])
    error = answer["body"]["error"]
    reasons = [detail["reason"] for detail in error["details"] if "reason" in detail]
    fields = [one["field"] for detail in error["details"] for one in detail.get("fieldViolations", [])]
    return " ".join([error["status"], *reasons, *fields])


PASSES, FAILS = "OK 543", "FAILED 543"


def new_script(client, _servers):
    return client.verify(mock(exits(0)))


def failing(client, _servers):
    return client.verify(mock(exits(7)))


def misspelt(client, _servers):
    return client.verify(mock(exits(0), type_key="type_"))


def by_digest(client, _servers):
    return client.run(exits(7))


def restarts(client, servers):
    """The client has connections to servers that are others now. Of several runners one is away at any time."""
    told = []
    for server in servers.all:
        server.kill()
        if len(servers.fronts) > 1 and server in servers.fronts:
            told.append(client.verify(mock(exits(0))))
        server.start()
        told.append(client.verify(mock(exits(0))))
    return ", ".join(sorted(set(told)))


def all_at_once(clients, work):
    with ThreadPoolExecutor(len(clients)) as threads:
        return list(threads.map(work, clients))


def silence(clients, servers):
    """One server stops without a word, and goes on later; of several runners the others answer."""
    servers.fronts[0].process.send_signal(signal.SIGSTOP)
    tries = range(len(servers.fronts))
    told = all_at_once(clients, lambda client: ", ".join(sorted({client.verify(mock(exits(0))) for _ in tries})))
    servers.fronts[0].process.send_signal(signal.SIGCONT)
    after = all_at_once(clients, lambda client: client.verify(mock(exits(0))))
    return [f"{first}, then {second}" for first, second in zip(told, after)]


def each(work):
    return lambda clients, servers: [work(client, servers) for client in clients]


ROWS = [
    ("new script", each(new_script), lambda _: PASSES),
    ("script by digest", each(by_digest), lambda _: "exit 7"),
    ("failing", each(failing), lambda _: FAILS),
    ("misspelt key", each(misspelt), lambda _: "INVALID_ARGUMENT TRANSACTION_INVALID mock_info.inputs[0].output.type_"),
    ("restart", each(restarts), lambda _: PASSES),
    ("silence", silence, lambda servers: f"{'UNAVAILABLE' if len(servers.fronts) == 1 else PASSES}, then {PASSES}"),
]


def quota(clients, folder, runners):
    """One run uses up what the tenant has for the next minutes."""
    servers = Servers(folder, runners, "[quotas]\nguest_cycles_per_second = 1\n")
    try:
        first = Curl("", folder)
        first.connect(servers)
        for _ in servers.fronts:
            first.verify(mock(exits(0)))
        told = []
        for client in clients:
            client.connect(servers)
            told.append(client.verify(mock(exits(0))))
            client.close()
        return told
    finally:
        servers.kill()


class NextYear(http.server.BaseHTTPRequestHandler):
    """A newer server: its answer has a field and a value that nobody knows."""

    def log_message(self, *_words):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"outcome": "VERIFY_OUTCOME_LATER", "cycles": "7", "added": {"x": 1}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def newer(clients):
    """What generated clients make of a newer server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NextYear)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told = {}
    for name, client in clients.items():
        client.turn_to([f"127.0.0.1:{server.server_port}"])
        told[name] = client.verify(mock(exits(0)))
    server.shutdown()
    print(f"{'a newer server':20}" + "".join(f"  {client}" for client in told) + "   expected")
    return show("added field, value", "LATER 7", told)


def show(name, expected, told):
    """A row of the table; whether all are told what is expected."""
    cells = ["ok" if one == expected else "WRONG" for one in told.values()]
    print(f"  {name:18}" + "".join(f"{cell:>{len(client) + 2}}" for client, cell in zip(told, cells)) + f"   {expected}", flush=True)
    for client, one in told.items():
        if one != expected:
            print(f"    {client}: {one}")
    return set(cells) <= {"ok"}


def check(title, runners, clients, folder):
    print(f"{title:20}" + "".join(f"  {client}" for client in clients) + "   expected", flush=True)
    servers = Servers(folder / title, runners)
    is_right = True
    try:
        for client in clients.values():
            client.connect(servers)
        for name, work, expected in ROWS:
            told = dict(zip(clients, work(list(clients.values()), servers)))
            is_right &= show(name, expected(servers), told)
    finally:
        for client in clients.values():
            client.close()
        servers.kill()
    told = dict(zip(clients, quota(list(clients.values()), folder / f"{title}, quotas", runners)))
    return show("quota", "RESOURCE_EXHAUSTED QUOTA", told) and is_right


def main():
    names, clients, start = sys.argv[1:] or list(CLIENTS), {}, time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = pathlib.Path(folder)
        try:
            for name in names:
                try:
                    clients[name] = CLIENTS[name](name, folder)
                except Missing as missing:
                    print(f"matrix: skipped: {name}: {missing}")
            if not clients:
                return MISSING
            shapes = {"one server": 0, "split pair": 1, "three runners": 3}
            is_right = all([check(title, runners, clients, folder) for title, runners in shapes.items()])
            is_right &= newer({name: client for name, client in clients.items() if isinstance(client, Generated)})
        finally:
            for client in clients.values():
                getattr(client, "end", lambda: None)()
    print(f"matrix: {'passed' if is_right else 'FAILED'}, {time.monotonic() - start:.0f} s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
