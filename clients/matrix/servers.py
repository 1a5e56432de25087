"""Servers of the matrix: processes as the chart starts them, and one of next year."""

import http.server
import json
import subprocess
import time

from callers import BUILT, PATIENCE_S, origin


class Server:
    """A process that can be stopped, continued, and started again at the addresses that it had."""

    def __init__(self, folder, program, sections):
        self._folder, self._program, self._sections = folder, program, sections
        self.address, self.web = "127.0.0.1:0", "127.0.0.1:0"
        folder.mkdir()
        self.start()

    def start(self):
        config, log = self._folder / "antares.toml", self._folder / "log"
        web = f'[web]\naddress = "{self.web}"\norigins = ["{origin()}"]\n'
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
    """One server, or a compiler with runners as the chart has them, until `stack` closes."""

    def __init__(self, folder, runners, stack, sections=""):
        folder.mkdir()
        self._folder, self._stack, self.all = folder, stack, []
        if runners == 0:
            self.fronts = [self._start("server", ("antares", "serve"), sections)]
            return
        compiler = self._start("compiler", ("antares-compiler-svc",), "")
        runner = f'{sections}[runner]\ncompiler_url = "http://{compiler.address}"\n'
        self.fronts = [self._start(f"runner-{number}", ("antares-runner-svc",), runner) for number in range(runners)]

    def _start(self, name, program, sections):
        server = Server(self._folder / name, program, sections)
        self._stack.callback(server.kill)
        self.all.append(server)
        return server


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
