"""A client of Antares: runs CKB-VM scripts and verifies CKB transactions on a server."""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from antares.v1 import common_pb2, compiler_pb2_grpc, runner_pb2, runner_pb2_grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class VerifyOptions(TypedDict, total=False):
        """All of a VerifyTransactionRequest but the transaction."""

        rules: runner_pb2.Rules
        group: runner_pb2.ScriptGroup
        limits: runner_pb2.RunLimits
        tier: runner_pb2.Tier
        request_id: str
        sample_salt: int
        recheck: bool
        diagnosis: bool

    class SessionOptions(TypedDict, total=False):
        """All of a VerifyShared but cells and headers."""

        rules: runner_pb2.Rules
        limits: runner_pb2.RunLimits
        tier: runner_pb2.Tier
        request_id: str
        recheck: bool
        diagnosis: bool

    class ExecuteOptions(TypedDict, total=False):
        """All of an ExecuteRequest but script and arguments."""

        limits: runner_pb2.RunLimits
        tier: runner_pb2.Tier
        request_id: str
        sample_salt: int
        recheck: bool
        diagnosis: bool


__all__ = ["Client", "Refused"]

Answer = TypeVar("Answer")

ATTEMPTS_MAX = 8
MESSAGE_BYTES_MAX = 64 << 20
# All attempts of a call.
DEADLINE_S = 300
CONNECT_MS_MAX = 10_000
KEEPALIVE_MS = 20_000
KEEPALIVE_TIMEOUT_MS = 10_000
PAUSE_S_MIN = 0.05
PAUSE_S_MAX = 3.0
# Transactions of a session that wait for their answers.
WAITING_MAX = 256
SERVICE_CONFIG: dict[str, Any] = {"loadBalancingConfig": [{"round_robin": {}}]}
# A status without a reason comes from a proxy, a broken connection or a server that stops.
PASSING = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
}


class Refused(Exception):
    """There is no verdict. `code` is the status, `reason` what the proto files list, `violations` the fields that are wrong."""

    code: grpc.StatusCode
    reason: str
    violations: list[tuple[str, str]]
    # Seconds after which to retry; None if a retry cannot help.
    delay: float | None

    def __init__(self, code: grpc.StatusCode, message: str, status: status_pb2.Status | None) -> None:
        super().__init__(message or code.name)
        self.code = code
        self.reason, self.delay, self.violations = "", None, []
        for detail in status.details if status else []:
            info, retry, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                self.reason = info.reason
            elif detail.Unpack(retry):
                self.delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            elif detail.Unpack(wrong):
                self.violations = [(one.field, one.description) for one in wrong.field_violations]
        if self.delay is None and not self.reason and self.code in PASSING:
            self.delay = 0

    @classmethod
    def _of_call(cls, error: Any) -> Refused:
        return cls(error.code(), error.details(), rpc_status.from_call(error))

    @classmethod
    def _of_one(cls, error: common_pb2.OperationError) -> Refused:
        code = next(code for code in grpc.StatusCode if code.value[0] == error.code)
        return cls(code, error.message, status_pb2.Status.FromString(error.status_details))


class Client:
    """A connection to host:port, or to a list such as ipv4:10.0.0.1:50051,10.0.0.2:50051. Calls go to all addresses of the list or of
    the name in turn. Use it with `with`, or close it."""

    runner: runner_pb2_grpc.RunnerServiceStub
    compiler: compiler_pb2_grpc.CompilerServiceStub

    def __init__(
        self,
        address: str,
        *,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        token_file: str | None = None,
        deadline_s: float = DEADLINE_S,
        tenant: str | None = None,
    ) -> None:
        self._deadline_s = deadline_s
        self._token_file = token_file
        self._fixed_metadata = [("antares-tenant", tenant)] if tenant else []
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            # This is the time for a connection too.
            ("grpc.min_reconnect_backoff_ms", CONNECT_MS_MAX),
            ("grpc.keepalive_time_ms", KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            # Pings have a limit of their own, 60 s unless it is set.
            ("grpc.http2.ping_timeout_ms", KEEPALIVE_TIMEOUT_MS),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
        ]
        if first := re.match("ipv[46]:([^,]+),", address):
            # gRPC would name the whole list.
            options.append(("grpc.default_authority", first[1]))
        if ca is None:
            if token_file:
                raise ValueError("a token goes over encrypted connections only: name ca")
            self._channel = grpc.insecure_channel(address, options)
        else:
            files = (Path(path).read_bytes() if path else None for path in (ca, key, certificate))
            self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(*files), options)
        self.runner = runner_pb2_grpc.RunnerServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self.compiler = compiler_pb2_grpc.CompilerServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def verify(
        self, transaction: str | bytes | bytearray | Mapping[str, Any], **options: Unpack[VerifyOptions]
    ) -> runner_pb2.VerifyTransactionResponse:
        """The answer to a transaction in ckb-debugger's JSON: text, its bytes, or what json.loads gives."""
        return self._verify(runner_pb2.VerifyTransactionRequest(**options, mock_json=_json(transaction)))

    def verify_bare(
        self, transaction: str | bytes | bytearray, **options: Unpack[VerifyOptions]
    ) -> runner_pb2.VerifyTransactionResponse:
        """The answer to a transaction without its cells, in molecule encoding or in a node's JSON. The server gets the cells from its
        node."""
        return self._verify(runner_pb2.VerifyTransactionRequest(**options, bare=_bytes(transaction)))

    def execute(
        self, script: bytes, args: Iterable[str | bytes] = (), **options: Unpack[ExecuteOptions]
    ) -> runner_pb2.ExecuteResponse:
        """The answer to a run of `script`, an ELF, with `args`. It goes by digest, or with its bytes if the server does not have it."""
        end = self._end()
        request = runner_pb2.ExecuteRequest(**options, args=[_bytes(arg) for arg in args])
        request.script.sha256 = hashlib.sha256(script).hexdigest()

        def execute(**metadata: Any) -> runner_pb2.ExecuteResponse:
            return self.runner.Execute(request, **metadata)

        try:
            return self._retried(execute, end)
        except Refused as refused:
            if refused.reason != "SCRIPT_NOT_FOUND":
                raise
        request.script.elf = script
        return self._retried(execute, end)

    def verify_session(
        self, transactions: Iterable[str | bytes | bytearray | Mapping[str, Any]], **options: Unpack[SessionOptions]
    ) -> Iterator[tuple[int, runner_pb2.VerifyTransactionResponse | Refused]]:
        """The answers to transactions in ckb-debugger's JSON, each with the place of its transaction, in any order. No more
        transactions are taken than have room on the server. A session that is lost goes on with another server."""
        source, waiting, tried = enumerate(transactions), dict[int, runner_pb2.VerifySessionRequest](), dict[int, int]()
        start = runner_pb2.VerifySessionRequest(start=runner_pb2.VerifyShared(**options))
        attempt = 0
        while True:
            queue = SimpleQueue[runner_pb2.VerifySessionRequest | None]()
            for request in (start, *waiting.values()):
                queue.put(request)
            answers = self.runner.VerifySession(iter(queue.get, None), timeout=self._deadline_s, metadata=self._metadata())
            answered = 0
            try:
                while self._fill(source, waiting, queue):
                    answer = next(answers)
                    if answer.WhichOneof("message") != "result":
                        continue
                    one = answer.result
                    error = Refused._of_one(one.error) if one.HasField("error") else None
                    if error and error.delay is not None and tried.get(one.id, 0) + 1 < ATTEMPTS_MAX:
                        tried[one.id] = tried.get(one.id, 0) + 1
                        time.sleep(error.delay + _spread(tried[one.id]))
                        queue.put(waiting[one.id])
                    # What a session has no time for is given back.
                    elif not error or error.reason != "CALL_DEADLINE":
                        del waiting[one.id]
                        answered, attempt = answered + 1, 0
                        yield one.id, error or one.response
                return
            except (grpc.RpcError, StopIteration) as lost:
                refused = Refused._of_call(lost) if isinstance(lost, grpc.RpcError) else Refused(grpc.StatusCode.UNAVAILABLE, "", None)
                is_over = answered and (refused.reason == "SESSION_IDLE" or refused.code == grpc.StatusCode.DEADLINE_EXCEEDED)
                attempt += 1
                if not is_over and refused.delay is None or attempt == ATTEMPTS_MAX:
                    raise refused from lost
                time.sleep((refused.delay or 0) + _spread(attempt))
            finally:
                queue.put(None)
                answers.cancel()

    def _fill(
        self,
        source: Iterator[tuple[int, str | bytes | bytearray | Mapping[str, Any]]],
        waiting: dict[int, runner_pb2.VerifySessionRequest],
        queue: SimpleQueue[runner_pb2.VerifySessionRequest | None],
    ) -> bool:
        """Has as many transactions wait as may; false if there are none."""
        while len(waiting) < WAITING_MAX and (one := next(source, None)):
            transaction = runner_pb2.SharedTransaction(id=one[0], mock_json=_json(one[1]))
            waiting[one[0]] = runner_pb2.VerifySessionRequest(transaction=transaction)
            queue.put(waiting[one[0]])
        return bool(waiting)

    def capabilities(self) -> runner_pb2.RunnerCapabilities:
        """Limits and versions of the server, and how many calls it recommends now."""
        request = runner_pb2.GetRunnerCapabilitiesRequest()
        return self._retried(lambda **metadata: self.runner.GetCapabilities(request, **metadata), self._end())

    def _verify(self, request: runner_pb2.VerifyTransactionRequest) -> runner_pb2.VerifyTransactionResponse:
        return self._retried(lambda **metadata: self.runner.VerifyTransaction(request, **metadata), self._end())

    def _end(self) -> float:
        return time.monotonic() + self._deadline_s

    def _retried(self, call: Callable[..., Answer], end: float) -> Answer:
        """The answer of `call`, which is repeated where the status says so, after its delay."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return call(timeout=max(end - time.monotonic(), 0), metadata=self._metadata())
            except grpc.RpcError as error:
                refused = Refused._of_call(error)
                # Clients spread their retries.
                wait = (refused.delay or 0) + _spread(attempt)
                if refused.delay is None or attempt + 1 == ATTEMPTS_MAX or time.monotonic() + wait >= end:
                    raise refused from error
                time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _metadata(self) -> list[tuple[str, str]]:
        if not self._token_file:
            return self._fixed_metadata
        # It may be renewed.
        token = Path(self._token_file).read_text(encoding="ascii").strip()
        return [*self._fixed_metadata, ("authorization", f"Bearer {token}")]


def _spread(attempt: int) -> float:
    return random.uniform(0, min(PAUSE_S_MIN * 2.0**attempt, PAUSE_S_MAX))


def _json(value: str | bytes | bytearray | Mapping[str, Any]) -> bytes:
    return _bytes(json.dumps(value, allow_nan=False) if isinstance(value, Mapping) else value)


def _bytes(value: str | bytes | bytearray) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
