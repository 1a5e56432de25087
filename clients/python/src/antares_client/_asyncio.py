"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import grpc
import grpc.aio
from antares.v1 import runner_pb2

from ._shared import (
    Answer,
    Connection,
    Refused,
    Retries,
    Session,
    Transaction,
    Transactions,
    add_elf,
    bare_request,
    digest_request,
    mock_request,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._shared import ExecuteOptions, SessionOptions, VerifyOptions

Response = TypeVar("Response")
END = object()


class AsyncClient(Connection):
    """`Client` for asyncio. Make it in a task; all tasks of the loop may share it. Use it with `async with`, or close it."""

    _grpc: ClassVar[Any] = grpc.aio

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._channel.close()

    async def verify(self, transaction: Transaction, **options: Unpack[VerifyOptions]) -> runner_pb2.VerifyTransactionResponse:
        """As `Client.verify`."""
        return await self._verify(mock_request(transaction, options))

    async def verify_bare(
        self, transaction: str | bytes | bytearray, **options: Unpack[VerifyOptions]
    ) -> runner_pb2.VerifyTransactionResponse:
        """As `Client.verify_bare`."""
        return await self._verify(bare_request(transaction, options))

    async def execute(
        self, script: bytes, args: Iterable[str | bytes] = (), **options: Unpack[ExecuteOptions]
    ) -> runner_pb2.ExecuteResponse:
        """As `Client.execute`."""
        end, request = self._end(), digest_request(script, args, options)
        answer: runner_pb2.ExecuteResponse
        try:
            answer = await self._call(self.runner.Execute, request, end)
        except Refused as refused:
            add_elf(request, script, refused)
            answer = await self._call(self.runner.Execute, request, end)
        return answer

    async def verify_session(self, transactions: Transactions, **options: Unpack[SessionOptions]) -> AsyncIterator[tuple[int, Answer]]:
        """As `Client.verify_session`. Answers do not wait for transactions that are still to come."""
        session, source = Session(options), _Source(transactions)
        try:
            while session.waiting or await source.wait():
                try:
                    async with aclosing(self._part(session, source)) as answers:
                        async for answer in answers:
                            yield answer
                except (grpc.RpcError, EOFError) as lost:
                    await asyncio.sleep(session.pause(lost))
        finally:
            source.close()

    async def capabilities(self) -> runner_pb2.RunnerCapabilities:
        """As `Client.capabilities`."""
        request = runner_pb2.GetRunnerCapabilitiesRequest()
        answer: runner_pb2.RunnerCapabilities = await self._call(self.runner.GetCapabilities, request)
        return answer

    async def _verify(self, request: runner_pb2.VerifyTransactionRequest) -> runner_pb2.VerifyTransactionResponse:
        answer: runner_pb2.VerifyTransactionResponse = await self._call(self.runner.VerifyTransaction, request)
        return answer

    async def _part(self, session: Session, source: _Source) -> AsyncGenerator[tuple[int, Answer], None]:
        """What one server does of a session: everything that waits is sent again, then what comes."""
        queue = asyncio.Queue[runner_pb2.VerifySessionRequest | None]()
        for request in session.waiting.values():
            queue.put_nowait(request)
        started = asyncio.Event()

        async def requests() -> AsyncIterator[runner_pb2.VerifySessionRequest]:
            yield session.start
            # A write that fails hides the status of a refused session.
            await started.wait()
            while request := await queue.get():
                yield request

        call = self.runner.VerifySession(requests(), timeout=self._deadline_s, metadata=self._metadata())
        read = asyncio.ensure_future(call.read())
        try:
            while session.waiting or not source.is_over:
                pull = [source.pull()] if session.has_room() and not source.is_over else []
                await asyncio.wait([read, *pull], return_when=asyncio.FIRST_COMPLETED)
                if pull and pull[0].done():
                    if (transaction := source.take()) is not END:
                        queue.put_nowait(session.take(transaction))
                if not read.done():
                    continue
                message = read.result()
                if message is grpc.aio.EOF:
                    raise EOFError
                started.set()
                read = asyncio.ensure_future(call.read())
                if (delay := session.repeat(message)) is not None:
                    again = session.waiting[message.result.id]
                    asyncio.get_running_loop().call_later(delay, queue.put_nowait, again)
                elif answer := session.final(message):
                    yield answer
        finally:
            call.cancel()
            read.cancel()
            started.set()
            queue.put_nowait(None)
            await asyncio.gather(read, return_exceptions=True)

    async def _call(self, call: Callable[..., Awaitable[Response]], request: Any, end: float | None = None) -> Response:
        """As `Client._call`."""
        retries = Retries(end or self._end())
        while True:
            try:
                return await call(request, timeout=retries.time_left(), metadata=self._metadata())
            except grpc.RpcError as error:
                await asyncio.sleep(retries.pause(error))


class _Source:
    """The caller's transactions. One that was asked for outlives the server that it was for."""

    def __init__(self, transactions: Transactions) -> None:
        self._next = _iterate(transactions)
        self._pull: asyncio.Future[Any] | None = None
        self.is_over = False

    def pull(self) -> asyncio.Future[Any]:
        self._pull = self._pull or asyncio.ensure_future(anext(self._next, END))
        return self._pull

    async def wait(self) -> bool:
        """Whether there is one more, when it has come."""
        if not self.is_over:
            await asyncio.wait([self.pull()])
            self.is_over = self.pull().result() is END
        return not self.is_over

    def take(self) -> Any:
        transaction = self.pull().result()
        self._pull, self.is_over = None, transaction is END
        return transaction

    def close(self) -> None:
        if self._pull:
            self._pull.cancel()


async def _iterate(transactions: Transactions) -> AsyncIterator[Transaction]:
    if isinstance(transactions, AsyncIterable):
        async for transaction in transactions:
            yield transaction
    else:
        for transaction in transactions:
            yield transaction
