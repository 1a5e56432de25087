#!/usr/bin/env python3
"""The same calls by every kind of client to every shape of server, and a table of the results.

    clients/matrix.py [CLIENT...]

Needs the programs that `cargo build --workspace --all-targets` makes, and for each client what make.sh needs for it. A client that
cannot be had is skipped aloud. Exits with 1 if a client is told something else than the table expects. Clients over HTTP follow the
table of docs/clients.md here; packages follow it themselves. All shapes are there at the same time, because most of it is waiting.
"""

import hashlib
import http.server
import json
import os
import pathlib
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "matrix"))

from callers import CLIENTS, Curl, Generated, Missing  # noqa: E402
from servers import NextYear, Servers  # noqa: E402


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


def verdict(caller):
    return caller.verify(mock(exits(0)))


def at_once(work, callers):
    """What `work` gives for each, by the client's name."""
    with ThreadPoolExecutor(len(callers) or 1) as threads:
        return dict(zip(callers, threads.map(work, callers.values())))


def one_after_another(told):
    """Of each client, its different answers."""
    return {name: ", ".join(dict.fromkeys(one[name] for one in told)) for name in told[0]}


def restart(callers, servers):
    """The callers have connections to servers that are others now. Of several runners one is away at any time."""
    told = []
    for server in servers.all:
        server.kill()
        if len(servers.fronts) > 1 and server in servers.fronts:
            told.append(at_once(verdict, callers))
        server.start()
        told.append(at_once(verdict, callers))
    return one_after_another(told)


def silence(callers, servers):
    """One server stops without a word, and goes on later; of several runners the others answer."""
    servers.fronts[0].process.send_signal(signal.SIGSTOP)
    told = at_once(lambda caller: ", ".join({verdict(caller) for _ in servers.fronts}), callers)
    servers.fronts[0].process.send_signal(signal.SIGCONT)
    return one_after_another([told, at_once(verdict, callers)])


def each(work):
    return lambda callers, _servers: at_once(work, callers)


SPELT = "INVALID_ARGUMENT TRANSACTION_INVALID mock_info.inputs[0].output.type_"
ROWS = [
    ("new script", each(verdict), lambda _: PASSES),
    ("script by digest", each(lambda caller: caller.run(exits(7))), lambda _: "exit 7"),
    ("failing", each(lambda caller: caller.verify(mock(exits(7)))), lambda _: FAILS),
    ("misspelt key", each(lambda caller: caller.verify(mock(exits(0), type_key="type_"))), lambda _: SPELT),
    ("restart", restart, lambda _: PASSES),
    ("silence", silence, lambda servers: PASSES if len(servers.fronts) > 1 else f"UNAVAILABLE, {PASSES}"),
]


def connected(clients, fronts, stack):
    callers = {name: client.connect(fronts) for name, client in clients.items()}
    for caller in callers.values():
        stack.callback(caller.close)
    return callers


def quota(clients, folder, runners):
    """One run uses up what the tenant has for the next minutes."""
    with ExitStack() as stack:
        servers = Servers(folder, runners, stack, "[quotas]\nguest_cycles_per_second = 1\n")
        for front in servers.fronts:
            verdict(Curl("", folder).connect([front]))
        return at_once(verdict, connected(clients, servers.fronts, stack))


def check(title, runners, clients, folder):
    """Rows: what was done, what is expected, what each client was told."""
    with ExitStack() as stack:
        servers = Servers(folder / title, runners, stack)
        callers = connected(clients, servers.fronts, stack)
        limited = stack.enter_context(ThreadPoolExecutor(1)).submit(quota, clients, folder / f"{title}, quotas", runners)
        rows = [(f"{title}: {name}", expected(servers), work(callers, servers)) for name, work, expected in ROWS]
        return [*rows, (f"{title}: quota", "RESOURCE_EXHAUSTED QUOTA", limited.result())]


def deaf(clients):
    """A port that takes connections and never says a word."""
    with ExitStack() as stack, socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        address = "{}:{}".format(*listener.getsockname())
        callers = connected(clients, [SimpleNamespace(address=address, web=address)], stack)
        return [("a deaf port", "UNAVAILABLE", at_once(verdict, callers))]


def newer(clients):
    """What generated clients make of a newer server."""
    clients = {name: client for name, client in clients.items() if isinstance(client, Generated)}
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NextYear)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with ExitStack() as stack:
        stack.callback(server.shutdown)
        callers = connected(clients, [SimpleNamespace(web=f"127.0.0.1:{server.server_port}")], stack)
        return [("a newer server: added field, value", "LATER 7", at_once(verdict, callers))]


def show(names, rows):
    """Prints the table; gives the clients that were told what is expected."""
    print(f"{'':35}" + "".join(f"  {name}" for name in names))
    for title, expected, told in rows:
        cells = {name: "ok" if one == expected else "WRONG" for name, one in told.items()}
        print(f"{title:35}" + "".join(f"  {cells.get(name, ''):>{len(name)}}" for name in names) + f"  {expected}")
        for name in (name for name, cell in cells.items() if cell != "ok"):
            print(f"matrix: {title}: {name}: {told[name]}")
    return {name for name in names if all(told.get(name, expected) == expected for _, expected, told in rows)}


def made(name, folder):
    try:
        return CLIENTS[name](name, folder)
    except Missing as missing:
        print(f"matrix: skipped: {name}: {missing}", flush=True)
        return None


def main():
    names, start = sys.argv[1:] or list(CLIENTS), time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as stack:
        folder, threads = pathlib.Path(folder), stack.enter_context(ThreadPoolExecutor())
        clients = dict(zip(names, threads.map(lambda name: made(name, folder), names)))
        clients = {name: client for name, client in clients.items() if client}
        for client in clients.values():
            stack.callback(client.end)
        print(f"matrix: {len(clients)} of {len(names)} kinds of clients, made in {time.monotonic() - start:.0f} s", flush=True)
        shapes = {"one server": 0, "split pair": 1, "three runners": 3}
        parts = [threads.submit(check, title, runners, clients, folder) for title, runners in shapes.items()]
        parts += [threads.submit(part, clients) for part in (deaf, newer)]
        right = show(clients, [row for part in parts for row in part.result()])
    print(f"matrix: {time.monotonic() - start:.0f} s")
    print(f"clients: {len(right)} passed, {len(clients) - len(right)} failed, {len(names) - len(clients)} skipped")
    return 0 if len(right) == len(clients) else 1


if __name__ == "__main__":
    sys.exit(main())
