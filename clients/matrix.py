#!/usr/bin/env python3
"""The same calls by every kind of client to every shape of server, and a table of the results.

    clients/matrix.py [--part] [CLIENT...]

--part leaves out the shape with several runners. Needs the programs that `cargo build --workspace --all-targets` makes, and for each client what make.sh needs for it. A client that
cannot be had is skipped, and the table says why. Exits with 1 if a client is told something else than the table expects, with 77 if
none can be had. Clients over HTTP follow the table of docs/clients.md here; packages follow it themselves.
"""

import hashlib
import http.server
import json
import os
import pathlib
import signal
import struct
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "matrix"))

from callers import CLIENTS, Curl, Generated, Missing  # noqa: E402
from servers import NextYear, Servers  # noqa: E402

MISSING = 77


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
    """A row of the table; whether every client gets the expected result."""
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
    words = sys.argv[1:]
    is_part = words[:1] == ["--part"]
    names, clients, start = words[is_part:] or list(CLIENTS), {}, time.monotonic()
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
            shapes = {"one server": 0, "split pair": 1} | ({} if is_part else {"three runners": 3})
            is_right = all([check(title, runners, clients, folder) for title, runners in shapes.items()])
            if generated := {name: client for name, client in clients.items() if isinstance(client, Generated)}:
                is_right &= newer(generated)
        finally:
            for client in clients.values():
                getattr(client, "end", lambda: None)()
    print(f"matrix: {'passed' if is_right else 'FAILED'}, {time.monotonic() - start:.0f} s")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
