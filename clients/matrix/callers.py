"""Clients of the matrix: each verifies a transaction, and runs a script, and says what it was told in one form."""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
CLIENTS_FOLDER = HERE.parent
ROOT = CLIENTS_FOLDER.parent
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
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


class Package:
    """What make.sh installs: one process verifies what comes, another one runs a script."""

    def __init__(self, language, folder):
        self._folder = folder / language
        self._folder.mkdir()
        made = subprocess.run([CLIENTS_FOLDER / "make.sh", language, self._folder], capture_output=True, text=True)
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
        words = [home / "bin/openapi-python-client", "generate", "--meta", "none", "--path", ROOT / "proto/openapi.json"]
        subprocess.run([*words, "--output-path", made / "antares_client"], check=True, capture_output=True)
        self._process = Process(home / "bin/python", HERE / "openapi.py", env={**os.environ, "PYTHONPATH": str(made)})


class OpenapiTs(Generated):
    def __init__(self, _language, folder):
        if not shutil.which("node"):
            raise Missing("there is no node")
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", ".", *OPENAPI_TS]
        home = tool(OPENAPI_TS[0].split("/")[1].replace("@", "-"), lambda _: [install])
        made = folder / "openapi-ts"
        made.mkdir()
        shutil.copy(HERE / "openapi.ts", made)
        generate = [home / "node_modules/.bin/openapi-ts", "-i", ROOT / "proto/openapi.json", "-o", made / "generated"]
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
            self.reply("text/html", (HERE / "page.html").read_bytes())

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
