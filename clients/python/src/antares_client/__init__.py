"""A client of Antares: runs CKB-VM scripts and verifies CKB transactions on a server."""

import hashlib
import json
import random
import time

import grpc
from antares.v1 import compiler_pb2, compiler_pb2_grpc, runner_pb2, runner_pb2_grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from .transaction import fields_of

__all__ = ["Client", "Refused"]

CHUNK_BYTES = 64 << 10
ATTEMPTS_MAX = 8
# Data of a cell from which on it goes by digest.
REFERENCE_BYTES_MIN = 4 << 10
# Digests that a server is asked for at once.
ASKED_MAX = 256
# What comes from a server that is gone, or from a proxy or a connection in its stead, if it has no reason.
GONE = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class Refused(Exception):
    """There is no verdict. `code` is the status, `reason` what the proto files list, `violations` the fields that are wrong."""

    def __init__(self, error):
        super().__init__(error.details() or error.code().name)
        self.code = error.code()
        self.reason, self.delay, self.violations = "", None, []
        status = rpc_status.from_call(error)
        for detail in status.details if status else []:
            info, retry, wrong = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
            if detail.Unpack(info):
                self.reason = info.reason
            elif detail.Unpack(retry):
                self.delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            elif detail.Unpack(wrong):
                self.violations = [(one.field, one.description) for one in wrong.field_violations]
        if self.delay is None and not self.reason and self.code in GONE:
            self.delay = 0


class Client:
    """A connection to a server. Use it with `with`, or close it."""

    def __init__(self, address, *, ca=None, certificate=None, key=None, token_file=None, deadline_s=300, tenant=None):
        self._deadline_s = deadline_s
        self._token_file = token_file
        self._metadata = [("antares-tenant", tenant)] if tenant else []
        options = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]
        if ca is None:
            if token_file:
                raise ValueError("a token goes over encrypted connections only: name ca")
            self._channel = grpc.insecure_channel(address, options)
        else:
            files = (open(path, "rb").read() if path else None for path in (ca, key, certificate))
            self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(*files), options)
        self.runner = runner_pb2_grpc.RunnerServiceStub(self._channel)
        self.compiler = compiler_pb2_grpc.CompilerServiceStub(self._channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._channel.close()

    def verify(self, transaction, *, rules=None, limits=None, tier=None, sign=False, group=None):
        """The answer (VerifyTransactionResponse) to a transaction in ckb-debugger's JSON: text, bytes or what json.loads gives.

        Data of large cells goes by digest, and is uploaded where the server has not got it."""
        if isinstance(transaction, (str, bytes, bytearray)):
            transaction = json.loads(transaction)
        blobs = {}
        request = runner_pb2.VerifyTransactionRequest(
            fields=fields_of(transaction, lambda data: _named(blobs, data)),
            rules=rules, limits=limits, tier=tier, sign=sign, group=group,
        )
        return self._with_blobs(blobs, lambda: self._ask(self.runner.VerifyTransaction, request))

    def execute(self, script, args=(), *, limits=None, tier=None):
        """The answer (ExecuteResponse) to a run of `script`, an ELF, with `args`, texts or bytes."""
        blobs = {}
        args = [arg.encode() if isinstance(arg, str) else arg for arg in args]
        request = runner_pb2.ExecuteRequest(
            script={"sha256": _named(blobs, script, 0)}, args=args, limits=limits, tier=tier
        )
        return self._with_blobs(blobs, lambda: self._ask(self.runner.Execute, request))

    def capabilities(self):
        """Limits and versions of the server, and how many calls it recommends now."""
        return self._ask(self.runner.GetCapabilities, runner_pb2.GetRunnerCapabilitiesRequest())

    def upload(self, blob):
        """Stores a script, or data of a cell, under its digest."""
        header = {"sha256": hashlib.sha256(blob).hexdigest(), "size_bytes": len(blob)}

        def parts():
            yield compiler_pb2.UploadRequest(header=header)
            for at in range(0, len(blob), CHUNK_BYTES):
                yield compiler_pb2.UploadRequest(chunk=blob[at : at + CHUNK_BYTES])

        return self._patiently(lambda **words: self.compiler.Upload(parts(), **words))

    def _with_blobs(self, blobs, ask):
        try:
            return ask()
        except Refused as refused:
            if refused.reason != "SCRIPT_NOT_FOUND" or not blobs:
                raise
        digests = list(blobs)
        for at in range(0, len(digests), ASKED_MAX):
            asked = compiler_pb2.FindMissingRequest(script_sha256=digests[at : at + ASKED_MAX])
            for digest in self._ask(self.compiler.FindMissing, asked).missing_sha256:
                self.upload(blobs[digest])
        return ask()

    def _ask(self, call, request):
        return self._patiently(lambda **words: call(request, **words))

    def _patiently(self, call):
        """The answer of `call`, asked again where the server says so, after its delay."""
        end = time.monotonic() + self._deadline_s
        for attempt in range(ATTEMPTS_MAX):
            try:
                return call(timeout=max(end - time.monotonic(), 0), metadata=self._told())
            except grpc.RpcError as error:
                refused = Refused(error)
                # Not all clients at the same time.
                wait = (refused.delay or 0) + random.uniform(0, min(0.05 * 2**attempt, 3))
                if refused.delay is None or attempt + 1 == ATTEMPTS_MAX or time.monotonic() + wait >= end:
                    raise refused from error
                time.sleep(wait)

    def _told(self):
        if not self._token_file:
            return self._metadata
        # It may be renewed.
        with open(self._token_file, encoding="ascii") as file:
            return [*self._metadata, ("authorization", f"Bearer {file.read().strip()}")]


def _named(blobs, data, least=REFERENCE_BYTES_MIN):
    """The digest of `data`, which is kept in `blobs`; None if it is short."""
    if len(data) < least:
        return None
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return digest
