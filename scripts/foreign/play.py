"""Opens the page of docs/play in Chromium: play.py FOLDER EXAMPLES [PICTURES]. Light and dark, wide and narrow, it must
tell what an example of ckb-debugger costs, draw its flame graph, be loaded soon, and ask nobody else for anything.
What it looks like goes into the folder PICTURES."""

import functools
import http.server
import pathlib
import sys
import threading

from playwright.sync_api import sync_playwright

folder, examples, *pictures = sys.argv[1:]
LOADED_BYTES_MAX = 3_000_000
PICTURE_BYTES_MAX = 150_000
loaded = []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def copyfile(self, source, outputfile):
        content = source.read()
        loaded.append(len(content))
        outputfile.write(content)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}/"

RUNS = [
    (["fib"], "Accepted: exit 0, 3364(3.3K) cycles", ("fib", "1,361")),
    (["always_failure"], "Refused: exit 1, 2493(2.4K) cycles", None),
    (
        ["spawn.json", "spawn_caller_strcat", "spawn_callee_strcat"],
        "Accepted: exit 0, 119776(117.0K) cycles",
        ("main", "5,754"),
    ),
]

first_load = 0
with sync_playwright() as tool:
    browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    for scheme in ["light", "dark"]:
        for width in [1280, 390]:
            page = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme).new_page()
            errors, asked = [], []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: asked.append(request.url))
            for files, verdict, counted in RUNS:
                page.goto(base)
                page.set_input_files("#file", [f"{examples}/{name}" for name in files])
                page.click("button")
                page.get_by_text(verdict).wait_for(timeout=120_000)
                if counted:
                    function, cycles = counted
                    page.locator("#flame div", has_text=function).first.wait_for(timeout=120_000)
                    page.get_by_text(f"In functions of the first VM: {cycles} cycles").wait_for()
                first_load = first_load or sum(loaded)
                assert page.evaluate("document.documentElement.scrollWidth") == width, "the page is wider than the screen"
            for to in pictures:
                path = pathlib.Path(to, f"play-{scheme}-{width}.png")
                page.screenshot(path=path, full_page=True)
                assert path.stat().st_size <= PICTURE_BYTES_MAX, path
            outside = [url for url in asked if not url.startswith(base)]
            assert not errors and not outside, (errors, outside)
    browser.close()
assert 0 < first_load <= LOADED_BYTES_MAX, first_load
print(f"play: the page works; {first_load} bytes are loaded for the first verdict")
