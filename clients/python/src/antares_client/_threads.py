"""The client for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import grpc
from antares.v1 import runner_pb2

from ._shared import Answer, Connection, Refused, Retries, Session, Transaction, add_elf, bare_request, digest_request, mock_request

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._shared import ExecuteOptions, SessionOptions, VerifyOptions

Response = TypeVar("Response")


class Client(Connection):
    """A client of the servers at host:port, or of a list such as ipv4:10.0.0.1:50051,10.0.0.2:50051. Threads may share it. Use it with
    `with`, or close it."""

    _grpc: ClassVar[Any] = grpc

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def verify(self, transaction: Transaction, **options: Unpack[VerifyOptions]) -> runner_pb2.VerifyTransactionResponse:
        """The answer to a transaction in ckb-debugger's JSON: text, its bytes, or what json.loads gives."""
        return self._verify(mock_request(transaction, options))

    def verify_bare(
        self, transaction: str | bytes | bytearray, **options: Unpack[VerifyOptions]
    ) -> runner_pb2.VerifyTransactionResponse:
        """The answer to a transaction without its cells, in molecule encoding or in a node's JSON. The server gets the cells from its
        node."""
        return self._verify(bare_request(transaction, options))

    def execute(
        self, script: bytes, args: Iterable[str | bytes] = (), **options: Unpack[ExecuteOptions]
    ) -> runner_pb2.ExecuteResponse:
        """The answer to a run of `script`, an ELF, with `args`. It goes by digest, or with its bytes if the server does not have it."""
        end, request = self._end(), digest_request(script, args, options)
        answer: runner_pb2.ExecuteResponse
        try:
            answer = self._call(self.runner.Execute, request, end)
        except Refused as refused:
            add_elf(request, script, refused)
            answer = self._call(self.runner.Execute, request, end)
        return answer

    def verify_session(self, transactions: Iterable[Transaction], **options: Unpack[SessionOptions]) -> Iterator[tuple[int, Answer]]:
        """The answers to transactions in ckb-debugger's JSON, each with the place of its transaction, in any order. No more
        transactions are taken than have room on the server. A session that is lost goes on with another server."""
        session, source = Session(options), iter(transactions)
        while True:
            try:
                yield from self._part(session, source)
                return
            except (grpc.RpcError, EOFError) as lost:
                time.sleep(session.pause(lost))

    def capabilities(self) -> runner_pb2.RunnerCapabilities:
        """Limits and versions of the server, and how many calls it recommends now."""
        request = runner_pb2.GetRunnerCapabilitiesRequest()
        answer: runner_pb2.RunnerCapabilities = self._call(self.runner.GetCapabilities, request)
        return answer

    def _verify(self, request: runner_pb2.VerifyTransactionRequest) -> runner_pb2.VerifyTransactionResponse:
        answer: runner_pb2.VerifyTransactionResponse = self._call(self.runner.VerifyTransaction, request)
        return answer

    def _part(self, session: Session, source: Iterator[Transaction]) -> Iterator[tuple[int, Answer]]:
        """What one server does of a session: everything that waits is sent again, then what comes."""
        queue = SimpleQueue[runner_pb2.VerifySessionRequest | None]()
        for request in (session.start, *session.waiting.values()):
            queue.put(request)
        messages = self.runner.VerifySession(iter(queue.get, None), timeout=self._deadline_s, metadata=self._metadata())
        try:
            while True:
                while session.has_room() and (transaction := next(source, None)) is not None:
                    queue.put(session.take(transaction))
                if not session.waiting:
                    return
                if (message := next(messages, None)) is None:
                    raise EOFError
                if (delay := session.repeat(message)) is not None:
                    timer = threading.Timer(delay, queue.put, [session.waiting[message.result.id]])
                    timer.daemon = True
                    timer.start()
                elif answer := session.final(message):
                    yield answer
        finally:
            queue.put(None)
            messages.cancel()

    def _call(self, call: Callable[..., Response], request: Any, end: float | None = None) -> Response:
        """The answer of `call`, which is repeated where the status says so, after its delay."""
        retries = Retries(end or self._end())
        while True:
            try:
                return call(request, timeout=retries.time_left(), metadata=self._metadata())
            except grpc.RpcError as error:
                time.sleep(retries.pause(error))
