"""Clients of the matrix: their callers verify transactions and run scripts, and give each answer in one form."""

import base64
import functools
import hashlib
import http.server
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS_FOLDER = HERE.parent
ROOT = CLIENTS_FOLDER.parent
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
TOOLS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "antares-tools"
CONSTRAINTS = CLIENTS_FOLDER / "constraints.txt"
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


class Lines:
    """Calls through a program with the command line of the packages."""

    def __init__(self, program, fronts):
        addresses = ",".join(server.address for server in fronts)
        # gRPC's form of a list; some accept it for lists only.
        self._addresses = f"ipv4:{addresses}" if "," in addresses else addresses
        self._program = program
        self._process = Process(program, "verify", self._addresses, "-")
        self.close = self._process.close

    def verify(self, transaction):
        return of_lines(self._process.ask(transaction))

    def run(self, script):
        with tempfile.NamedTemporaryFile() as file:
            file.write(script)
            file.flush()
            words = [self._program, "run", self._addresses, file.name, "7"]
            ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        if ran.returncode:
            return ran.stderr.strip()[-60:]
        verdict = json.loads(ran.stdout)["verdict"]
        return f"exit {verdict.get('exitCode', verdict.get('exit_code'))}"


class Http:
    """Calls over HTTP: `post` makes one attempt."""

    def __init__(self, post, fronts, close=lambda: None):
        self._post, self._addresses, self._turn = post, [server.web for server in fronts], 0
        self.close = close

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


class Client:
    """A kind of client: `connect` makes a caller of servers."""

    def end(self):
        pass


class Package(Client):
    """What make.sh installs."""

    def __init__(self, language, folder):
        self._program = folder / language / "client"
        made = subprocess.run([CLIENTS_FOLDER / "make.sh", language, folder / language], capture_output=True, text=True)
        if made.returncode == MISSING:
            raise Missing(made.stderr.strip().splitlines()[-1])
        if made.returncode:
            raise SystemExit(f"matrix: make.sh {language}:\n{made.stderr}")

    def connect(self, fronts):
        return Lines(self._program, fronts)


class Rust(Package):
    """The crate, in its example."""

    def __init__(self, _language, _folder):
        self._program = BUILT / "examples" / "lines"
        if not self._program.exists():
            raise Missing("cargo build --workspace --all-targets has not run")


class Curl(Client):
    def __init__(self, _language, _folder):
        if not shutil.which("curl"):
            raise Missing("there is no curl")

    def connect(self, fronts):
        return Http(self._post, fronts)

    @staticmethod
    def _post(call):
        url = f"http://{call['address']}/antares.v1.RunnerService/{call['method']}"
        headers = ["-H", "content-type: application/json", "-H", f"grpc-timeout: {call['seconds']}S"]
        words = ["curl", "-sS", "-m", str(call["seconds"]), "-w", "\n%{http_code}", "--data-binary", "@-", *headers, url]
        done = subprocess.run(words, input=json.dumps(call["body"]), capture_output=True, text=True)
        if done.returncode:
            return {"lost": done.stderr.strip()}
        body, status = done.stdout.rsplit("\n", 1)
        return {"status": int(status), "body": json.loads(body)}


class Generated(Client):
    """A client that a generator made of the OpenAPI file, in a program."""

    def connect(self, fronts):
        process = Process(*self._words, env={**os.environ, "PYTHONPATH": str(self._made)})
        return Http(lambda call: process.ask(json.dumps(call)), fronts, process.close)


def tool(name, versions, make):
    """The folder of a generator, which is fetched once."""
    home = TOOLS / f"{name}-{hashlib.sha256(versions.encode()).hexdigest()[:8]}"
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
            "openapi-python-client",
            CONSTRAINTS.read_text(),
            lambda home: [
                [sys.executable, "-m", "venv", home],
                [home / "bin/pip", "install", "--quiet", "--constraint", CONSTRAINTS, "openapi-python-client"],
            ],
        )
        self._made, self._words = folder / "openapi-python", [home / "bin/python", HERE / "openapi.py"]
        words = [home / "bin/openapi-python-client", "generate", "--meta", "none", "--path", ROOT / "proto/openapi.json"]
        subprocess.run([*words, "--output-path", self._made / "antares_client"], check=True, capture_output=True)


class OpenapiTs(Generated):
    def __init__(self, _language, folder):
        if not shutil.which("node"):
            raise Missing("there is no node")
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", *OPENAPI_TS]
        home = tool("openapi-ts", " ".join(OPENAPI_TS), lambda _: [install])
        self._made = made = folder / "openapi-ts"
        made.mkdir()
        shutil.copy(HERE / "openapi.ts", made)
        generate = [home / "node_modules/.bin/openapi-ts", "-i", ROOT / "proto/openapi.json", "-o", made / "generated"]
        subprocess.run([*generate, "-c", "@hey-api/client-fetch", "--no-log-file"], check=True, capture_output=True, cwd=home)
        bundle = [home / "node_modules/.bin/esbuild", made / "openapi.ts", "--bundle", "--platform=node", "--format=esm"]
        subprocess.run([*bundle, f"--outfile={made}/openapi.mjs"], check=True, capture_output=True)
        self._words = ["node", made / "openapi.mjs"]


class Pages(http.server.BaseHTTPRequestHandler):
    """The browser's page, which makes calls at once: it takes each, and posts its answer."""

    calls, answers = queue.Queue(), {}

    def log_message(self, *_words):
        pass

    def reply(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply("text/html", (HERE / "page.html").read_bytes())

    def do_POST(self):
        told = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/next":
            told = json.dumps(self.calls.get()).encode()
        else:
            self.answers[self.path].put(json.loads(told))
        self.reply("application/json", told)


@functools.cache
def origin():
    """The origin of the page, which is another than the servers'."""
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    pages.daemon_threads = True
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{pages.server_port}"


class Browser(Client):
    """Chromium."""

    def __init__(self, _language, folder):
        if not shutil.which("chromium"):
            raise Missing("there is no chromium")
        quiet = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        words = ["chromium", *quiet, f"--user-data-dir={folder / 'browser'}", origin()]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        self._process.terminate()
        self._process.wait()

    def connect(self, fronts):
        return Http(self._post, fronts)

    @staticmethod
    def _post(call):
        path, told = f"/{uuid.uuid4()}", queue.Queue()
        Pages.answers[path] = told
        Pages.calls.put({**call, "path": path})
        return told.get(timeout=PATIENCE_S)


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
