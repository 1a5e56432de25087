"""Ports that nobody listens on, and conditions that come true in the end."""

import contextlib
import socket
import time


def free_port():
    return free_ports(1)[0]


def free_ports(count):
    """Ports that nobody listens on, each another one: all are taken at once."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


def wait(condition, seconds, what):
    """What the condition gave when it held. An OSError is a condition that does not hold: who is asked does not listen yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if held := condition():
                return held
        time.sleep(0.1)
    raise TimeoutError(f"{what} within {seconds} s")


def wait_for_listener(port, process, seconds):
    """Until the process listens; fails if it ends."""

    def is_listening():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended with status {process.returncode}")
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True

    wait(is_listening, seconds, f"{process.args[0]} does not listen")
