"""What both clients have: limits, messages, and when to ask again."""

from __future__ import annotations

import hashlib
import json
import random
import re
import time
from collections.abc import AsyncIterable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, Union

import grpc
from antares.v1 import common_pb2, compiler_pb2_grpc, runner_pb2, runner_pb2_grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from typing_extensions import TypedDict

    class VerifyOptions(TypedDict, total=False):
        """All of a VerifyTransactionRequest but the transaction."""

        rules: runner_pb2.Rules
        group: runner_pb2.ScriptGroup
        format: runner_pb2.TransactionFormat
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

# ckb-debugger's JSON: text, its bytes, or what json.loads gives.
Transaction: TypeAlias = Union[str, bytes, bytearray, Mapping[str, Any]]
Transactions: TypeAlias = Union[Iterable[Transaction], AsyncIterable[Transaction]]

ATTEMPTS_MAX = 8
MESSAGE_BYTES_MAX = 64 << 20
# All attempts of a call.
DEADLINE_S = 300
CONNECT_MS_MAX = 10_000
# Between attempts to connect: less than all pauses of a call together.
RECONNECT_MS_MAX = 1_000
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

    def __init__(self, code: grpc.StatusCode, message: str | None = None, details: bytes = b"") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.reason, self.delay, self.violations = "", None, []
        for detail in status(details).details:
            info, retry, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                self.reason = info.reason
            elif detail.Unpack(retry):
                self.delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            elif detail.Unpack(wrong):
                self.violations = [(one.field, one.description) for one in wrong.field_violations]
        if self.delay is None and not self.reason and self.code in PASSING:
            self.delay = 0


Answer: TypeAlias = Union[runner_pb2.VerifyTransactionResponse, Refused]


def status(details: bytes) -> status_pb2.Status:
    try:
        return status_pb2.Status.FromString(details)
    except DecodeError:
        # A proxy may send anything.
        return status_pb2.Status()


def refused_call(error: Any) -> Refused:
    """Both kinds of gRPC's errors have these."""
    details = (value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin")
    return Refused(error.code(), error.details(), next(details, b""))


def refused_one(error: common_pb2.OperationError) -> Refused:
    codes = (code for code in grpc.StatusCode if code.value[0] == error.code)
    return Refused(next(codes, grpc.StatusCode.UNKNOWN), error.message, error.status_details)


class Retries:
    """The attempts of a call until `end`."""

    def __init__(self, end: float) -> None:
        self._end = end
        self._attempt = 0

    def time_left(self) -> float:
        return max(self._end - time.monotonic(), 0)

    def pause(self, error: grpc.RpcError) -> float:
        """Seconds before the next attempt; raises `Refused` if there is none."""
        refused = refused_call(error)
        wait = (refused.delay or 0) + spread(self._attempt)
        self._attempt += 1
        if refused.delay is None or self._attempt == ATTEMPTS_MAX or self.time_left() <= wait:
            raise refused from error
        return wait


class Session:
    """What remains of a session, on any server."""

    def __init__(self, options: SessionOptions) -> None:
        self.start = runner_pb2.VerifySessionRequest(start=runner_pb2.VerifyShared(**options))
        self.waiting: dict[int, runner_pb2.VerifySessionRequest] = {}
        self._tried: dict[int, int] = {}
        self._next = self._attempt = self._answered = 0

    def has_room(self) -> bool:
        return len(self.waiting) < WAITING_MAX

    def take(self, transaction: Transaction) -> runner_pb2.VerifySessionRequest:
        shared = runner_pb2.SharedTransaction(id=self._next, mock_json=json_bytes(transaction))
        request = self.waiting[self._next] = runner_pb2.VerifySessionRequest(transaction=shared)
        self._next += 1
        return request

    def repeat(self, message: runner_pb2.VerifySessionResponse) -> float | None:
        """Seconds after which to send the transaction again that did not get its answer."""
        if message.result.id not in self.waiting or not message.result.HasField("error"):
            return None
        delay, tried = refused_one(message.result.error).delay, self._tried.get(message.result.id, 0) + 1
        if delay is None or tried == ATTEMPTS_MAX:
            return None
        self._tried[message.result.id] = tried
        return delay + spread(tried)

    def final(self, message: runner_pb2.VerifySessionResponse) -> tuple[int, Answer] | None:
        """The answer of a message that has one."""
        result = message.result
        # What a session has no time for is given back.
        if result.id not in self.waiting or result.error.reason == "CALL_DEADLINE" or not message.HasField("result"):
            return None
        del self.waiting[result.id]
        self._tried.pop(result.id, None)
        self._answered, self._attempt = self._answered + 1, 0
        return result.id, refused_one(result.error) if result.HasField("error") else result.response

    def pause(self, lost: Exception) -> float:
        """Seconds before the next server is asked; raises `Refused` if none is."""
        refused = refused_call(lost) if isinstance(lost, grpc.RpcError) else Refused(grpc.StatusCode.UNAVAILABLE)
        is_over = self._answered and (refused.reason == "SESSION_IDLE" or refused.code == grpc.StatusCode.DEADLINE_EXCEEDED)
        self._attempt, self._answered = self._attempt + 1, 0
        if not is_over and refused.delay is None or self._attempt == ATTEMPTS_MAX:
            raise refused from lost
        return (refused.delay or 0) + spread(self._attempt)


class Connection:
    """A connection to host:port, or to a list such as ipv4:10.0.0.1:50051,10.0.0.2:50051. Calls go to all addresses of the list or of
    the name in turn."""

    # Of threads or of asyncio.
    _grpc: ClassVar[Any]
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
        if ca is None:
            if token_file:
                raise ValueError("a token goes over encrypted connections only: name ca")
            self._channel = self._grpc.insecure_channel(address, channel_options(address))
        else:
            files = (Path(path).read_bytes() if path else None for path in (ca, key, certificate))
            credentials = grpc.ssl_channel_credentials(*files)
            self._channel = self._grpc.secure_channel(address, credentials, channel_options(address))
        self.runner = runner_pb2_grpc.RunnerServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self.compiler = compiler_pb2_grpc.CompilerServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def _end(self) -> float:
        return time.monotonic() + self._deadline_s

    def _metadata(self) -> list[tuple[str, str]]:
        if not self._token_file:
            return self._fixed_metadata
        # It may be renewed.
        token = Path(self._token_file).read_text(encoding="ascii").strip()
        return [*self._fixed_metadata, ("authorization", f"Bearer {token}")]


def channel_options(address: str) -> list[tuple[str, int | str]]:
    options: list[tuple[str, int | str]] = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        # This is the time for a connection too.
        ("grpc.min_reconnect_backoff_ms", CONNECT_MS_MAX),
        ("grpc.max_reconnect_backoff_ms", RECONNECT_MS_MAX),
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
    return options


def mock_request(transaction: Transaction, options: VerifyOptions) -> runner_pb2.VerifyTransactionRequest:
    return runner_pb2.VerifyTransactionRequest(**options, mock_json=json_bytes(transaction))


def bare_request(transaction: str | bytes | bytearray, options: VerifyOptions) -> runner_pb2.VerifyTransactionRequest:
    return runner_pb2.VerifyTransactionRequest(**options, bare=raw_bytes(transaction))


def digest_request(script: bytes, args: Iterable[str | bytes], options: ExecuteOptions) -> runner_pb2.ExecuteRequest:
    """A run of a script that the server may have."""
    digest = runner_pb2.Script(sha256=hashlib.sha256(script).hexdigest())
    return runner_pb2.ExecuteRequest(**options, script=digest, args=[raw_bytes(arg) for arg in args])


def add_elf(request: runner_pb2.ExecuteRequest, script: bytes, refused: Refused) -> None:
    """For the server that does not have it, or whose compiler is away; raises what has another reason."""
    if refused.reason not in ("SCRIPT_NOT_FOUND", "SOURCE_UNAVAILABLE"):
        raise refused
    request.script.elf = script


def spread(attempt: int) -> float:
    """How much longer a client waits than others."""
    return random.uniform(0, min(PAUSE_S_MIN * 2.0**attempt, PAUSE_S_MAX))


def json_bytes(value: Transaction) -> bytes:
    return raw_bytes(json.dumps(value, allow_nan=False) if isinstance(value, Mapping) else value)


def raw_bytes(value: str | bytes | bytearray) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
