"""The client against a server of this process: python -m unittest discover clients/python/tests, where the wheel is installed."""

import asyncio
import copy
import importlib.metadata
import math
import re
import threading
import unittest
from concurrent import futures
from pathlib import Path

import grpc
from antares.v1 import common_pb2, runner_pb2, runner_pb2_grpc
from antares_client import MESSAGE_BYTES_MAX, AsyncClient, Client, Refused
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2


class Runner(runner_pb2_grpc.RunnerServiceServicer):
    def __init__(self):
        self.requests, self.errors, self.time_left, self.lacking = [], [], None, "SCRIPT_NOT_FOUND"

    def VerifyTransaction(self, request, context):
        self.requests.append(request)
        self.time_left = context.time_remaining()
        if self.errors:
            self.errors.pop()(context)
        return runner_pb2.VerifyTransactionResponse(request_id=request.request_id)

    def Execute(self, request, context):
        self.requests.append(request)
        if not request.script.elf:
            refuse(context, grpc.StatusCode.NOT_FOUND, self.lacking)
        return runner_pb2.ExecuteResponse(request_id=request.request_id)

    def VerifySession(self, requests, context):
        next(requests)
        if self.errors == [quota]:
            self.errors.pop()(context)
        yield runner_pb2.VerifySessionResponse(started=runner_pb2.VerifySessionStarted())
        for number, request in enumerate(requests):
            # Of each part the third is lost, and all that was in progress.
            if number == 2 and self.errors:
                self.errors.pop()(context)
            result = runner_pb2.SharedTransactionResult(id=request.transaction.id)
            if b"bad" in request.transaction.mock_json:
                result.error.CopyFrom(common_pb2.OperationError(code=3, message="bad"))
            else:
                result.response.request_id = request.transaction.mock_json.decode()
            yield runner_pb2.VerifySessionResponse(result=result)


def refuse(context, code, reason):
    detail = Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=reason))
    status = status_pb2.Status(code=code.value[0], details=[detail])
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, reason)


def quota(context):
    refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA")


def unclear(context):
    context.set_trailing_metadata([("grpc-status-details-bin", b"\xff")])
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, "unclear")


def over(context):
    context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "over")


def gone(context):
    context.abort(grpc.StatusCode.UNAVAILABLE, "gone")


class Tasks:
    """`AsyncClient` behind the calls of `Client`, each in a task of one loop."""

    # gRPC has one for all its channels.
    loop = asyncio.new_event_loop()

    def __init__(self, address):
        self.client = self.run(self.make(address))
        self.runner = self.client.runner

    async def make(self, address):
        return AsyncClient(address)

    def run(self, task):
        return asyncio.run_coroutine_threadsafe(task, self.loop).result()

    def __getattr__(self, name):
        return lambda *words, **more: self.run(getattr(self.client, name)(*words, **more))

    def verify_session(self, transactions):
        async def stream():
            for transaction in transactions:
                yield transaction

        async def answers():
            return [answer async for answer in self.client.verify_session(stream())]

        return self.run(answers())

    def close(self):
        self.run(self.client.close())


class OfThreads(unittest.TestCase):
    connect = Client

    def setUp(self):
        self.runner = Runner()
        server = grpc.server(futures.ThreadPoolExecutor(4))
        runner_pb2_grpc.add_RunnerServiceServicer_to_server(self.runner, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        self.client = self.connect(f"127.0.0.1:{port}")
        self.addCleanup(self.client.close)

    def test_transactions_go_unchanged(self):
        for given, sent in [(" {} ", b" {} "), (b"\xff", b"\xff"), ({"tx": 18446744073709551716}, b'{"tx": 18446744073709551716}')]:
            self.client.verify(given)
            self.assertEqual(self.runner.requests[-1], runner_pb2.VerifyTransactionRequest(mock_json=sent))
        self.client.verify_bare(b"\x01")
        self.assertEqual(self.runner.requests[-1], runner_pb2.VerifyTransactionRequest(bare=b"\x01"))
        with self.assertRaises(ValueError):
            self.client.verify({"tx": math.nan})
        with self.assertRaises(ValueError):
            self.client.verify("{}", sign=True)

    def test_options_stay_as_they_are(self):
        options = {"limits": runner_pb2.RunLimits(max_cycles=7), "request_id": "one"}
        before = copy.deepcopy(options)
        self.assertEqual(self.client.verify("{}", **options).request_id, "one")
        self.assertEqual(options, before)

    def test_calls_have_a_deadline(self):
        self.client.verify("{}")
        # It is rounded up on its way.
        self.assertLess(self.runner.time_left, 2 * 300)

    def test_only_what_passes_is_repeated(self):
        for error, calls, reason in [(gone, 2, None), (quota, 1, "QUOTA"), (unclear, 1, "")]:
            self.runner.requests, self.runner.errors, heard = [], [error], None
            try:
                self.client.verify("{}")
            except Refused as refused:
                heard = refused.reason
            self.assertEqual((len(self.runner.requests), heard), (calls, reason))

    def test_64_share_a_client_and_a_request(self):
        options = {"limits": runner_pb2.RunLimits(max_cycles=7)}

        def verify(number):
            return [self.client.verify("{}", request_id=f"{number}", **options).request_id for _ in range(10)]

        with futures.ThreadPoolExecutor(64) as threads:
            self.assertEqual(list(threads.map(verify, range(64))), [[f"{number}"] * 10 for number in range(64)])

    def test_a_script_goes_by_digest_first(self):
        for self.runner.lacking in ("SCRIPT_NOT_FOUND", "SOURCE_UNAVAILABLE"):
            self.client.execute(b"elf", ["7"], request_id="one")
        self.assertEqual([request.script.WhichOneof("source") for request in self.runner.requests], ["sha256", "elf"] * 2)
        self.assertEqual({(request.request_id, *request.args) for request in self.runner.requests}, {("one", b"7")})

    def test_a_session_goes_on_where_it_was_lost(self):
        self.runner.errors = [gone, over, gone]
        texts = [f"{number}" for number in range(1_000)]
        answers = dict(self.client.verify_session(texts[:500] + ["bad"] + texts[501:]))
        self.assertEqual(answers.pop(500).code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual({place: answer.request_id for place, answer in answers.items()}, {i: texts[i] for i in range(1_000) if i != 500})
        self.runner.errors = [quota]
        with self.assertRaises(Refused) as caught:
            list(self.client.verify_session(texts))
        self.assertEqual(caught.exception.reason, "QUOTA")
        # Last: who answers it may read `errors` after it has ended.
        self.assertEqual(list(self.client.verify_session([])), [])

    def test_a_message_that_is_too_long_is_sent_once(self):
        attempts, send = [], self.client.runner.VerifyTransaction
        self.client.runner.VerifyTransaction = lambda *words, **more: attempts.append(1) or send(*words, **more)
        with self.assertRaises(Refused) as caught:
            self.client.verify(bytes(MESSAGE_BYTES_MAX + 1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(len(attempts), 1)



class OfTasks(OfThreads):
    connect = Tasks

    @classmethod
    def setUpClass(cls):
        thread = threading.Thread(target=Tasks.loop.run_forever)
        thread.start()
        cls.addClassCleanup(Tasks.loop.close)
        cls.addClassCleanup(thread.join)
        cls.addClassCleanup(Tasks.loop.call_soon_threadsafe, Tasks.loop.stop)

    def test_answers_do_not_wait_for_more_transactions(self):
        async def check():
            answered = asyncio.Event()

            async def transactions():
                yield "first"
                await answered.wait()
                yield "second"

            seen = []
            async for place, answer in self.client.client.verify_session(transactions()):
                answered.set()
                seen.append((place, answer.request_id))
            return seen

        self.assertEqual(self.client.run(asyncio.wait_for(check(), 60)), [(0, "first"), (1, "second")])


class Package(unittest.TestCase):
    def test_the_lowest_versions_run_the_generated_code(self):
        messages, calls = (Path(module.__file__).read_text() for module in (runner_pb2, runner_pb2_grpc))
        protobuf = ".".join(re.search(r"Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+)", messages).groups())
        grpcio = re.search("GRPC_GENERATED_VERSION = '(.*)'", calls)[1]
        required = [one for one in importlib.metadata.requires("antares-client") if "extra" not in one]
        self.assertEqual(required[0], f"grpcio>={grpcio}")
        self.assertIn(f">={protobuf}", required[2])
