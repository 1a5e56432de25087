"""The client against a server of this process: python -m unittest discover clients/python/tests, where the wheel is installed."""

import copy
import importlib.metadata
import math
import re
import unittest
from concurrent import futures
from pathlib import Path

import grpc
from antares.v1 import common_pb2, runner_pb2, runner_pb2_grpc
from antares_client import MESSAGE_BYTES_MAX, Client, Refused
from google.protobuf.any_pb2 import Any
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status


class Runner(runner_pb2_grpc.RunnerServiceServicer):
    def __init__(self):
        self.requests, self.errors, self.time_left = [], [], None

    def VerifyTransaction(self, request, context):
        self.requests.append(request)
        self.time_left = context.time_remaining()
        if self.errors:
            self.errors.pop()(context)
        return runner_pb2.VerifyTransactionResponse(request_id=request.request_id)


    def VerifySession(self, requests, context):
        next(requests)
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


def quota(context):
    detail = Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason="QUOTA"))
    context.abort_with_status(rpc_status.to_status(status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, details=[detail])))


def over(context):
    context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "over")


def gone(context):
    context.abort(grpc.StatusCode.UNAVAILABLE, "gone")


class Clients(unittest.TestCase):
    def setUp(self):
        self.runner = Runner()
        server = grpc.server(futures.ThreadPoolExecutor(4))
        runner_pb2_grpc.add_RunnerServiceServicer_to_server(self.runner, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        self.client = Client(f"127.0.0.1:{port}")
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
        for error, calls in [(gone, 2), (quota, 1)]:
            self.runner.requests, self.runner.errors = [], [error]
            try:
                self.client.verify("{}")
            except Refused as refused:
                self.assertEqual(refused.reason, "QUOTA")
            self.assertEqual(len(self.runner.requests), calls)

    def test_a_session_goes_on_where_it_was_lost(self):
        self.runner.errors = [gone, over, gone]
        texts = [f"{number}" for number in range(1_000)]
        answers = dict(self.client.verify_session(texts[:500] + ["bad"] + texts[501:]))
        self.assertEqual(answers.pop(500).code, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual({place: answer.request_id for place, answer in answers.items()}, {i: texts[i] for i in range(1_000) if i != 500})
        self.assertEqual(list(self.client.verify_session([])), [])
        self.runner.errors = [quota]
        with self.assertRaises(Refused) as caught:
            list(self.client.verify_session(texts))
        self.assertEqual(caught.exception.reason, "QUOTA")

    def test_a_message_that_is_too_long_is_sent_once(self):
        attempts, send = [], self.client.runner.VerifyTransaction
        self.client.runner.VerifyTransaction = lambda *words, **more: attempts.append(1) or send(*words, **more)
        with self.assertRaises(Refused) as caught:
            self.client.verify(bytes(MESSAGE_BYTES_MAX + 1))
        self.assertEqual(caught.exception.code, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual(len(attempts), 1)

    def test_the_lowest_versions_run_the_generated_code(self):
        messages, calls = (Path(module.__file__).read_text() for module in (runner_pb2, runner_pb2_grpc))
        protobuf = ".".join(re.search(r"Domain\.PUBLIC,\s*(\d+),\s*(\d+),\s*(\d+)", messages).groups())
        grpcio = re.search("GRPC_GENERATED_VERSION = '(.*)'", calls)[1]
        required = importlib.metadata.requires("antares-client")
        self.assertEqual(required, [f"grpcio>={grpcio}", f"grpcio-status>={grpcio}", f"protobuf>={protobuf}"])
