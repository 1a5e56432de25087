"""Runs a script: uploads it where the server has not got it, and asks again when the server says that it may be asked again.

    docs/clients/make.sh python FOLDER
    FOLDER/run HOST:PORT SCRIPT ARG...

ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token.
"""

import hashlib
import json
import os
import random
import sys
import time

import grpc
from antares.v1 import compiler_pb2, compiler_pb2_grpc, runner_pb2, runner_pb2_grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

CHUNK_BYTES = 64 << 10
ATTEMPTS_MAX = 8
DEADLINE_S = 300


def connect(address):
    """A channel, encrypted if an authority is named."""
    files = [os.environ.get(f"ANTARES_TLS_{name}") for name in ("CA", "KEY", "CERT")]
    if not files[0]:
        return grpc.insecure_channel(address)
    ca, key, certificate = (open(path, "rb").read() if path else None for path in files)
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    if path := os.environ.get("ANTARES_TOKEN_FILE"):
        with open(path, encoding="ascii") as file:
            token = grpc.access_token_call_credentials(file.read().strip())
        credentials = grpc.composite_channel_credentials(credentials, token)
    return grpc.secure_channel(address, credentials)


def details(error):
    """Reason of an error, and the seconds after which to ask again, None if that is of no use."""
    reason, delay = "", None
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(retry):
            delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    # A server that is gone has no details; another one, or the same a little later, may answer.
    if delay is None and not reason and error.code() == grpc.StatusCode.UNAVAILABLE:
        delay = 0
    return reason, delay


def patiently(call):
    """The answer of `call`, asked again as the proto files say: only what carries a RetryInfo, after its delay."""
    end = time.monotonic() + DEADLINE_S
    for attempt in range(ATTEMPTS_MAX):
        try:
            return call(max(end - time.monotonic(), 0))
        except grpc.RpcError as error:
            _, delay = details(error)
            if delay is None or attempt + 1 == ATTEMPTS_MAX:
                raise
            # Not all clients at the same time.
            wait = delay + random.uniform(0, 0.05 * 2**attempt)
            if time.monotonic() + wait >= end:
                raise
            time.sleep(wait)


def upload(channel, elf):
    """Stores a script under its digest."""
    header = compiler_pb2.UploadRequest(header={"sha256": hashlib.sha256(elf).hexdigest(), "size_bytes": len(elf)})

    def parts():
        yield header
        for at in range(0, len(elf), CHUNK_BYTES):
            yield compiler_pb2.UploadRequest(chunk=elf[at : at + CHUNK_BYTES])

    stub = compiler_pb2_grpc.CompilerServiceStub(channel)
    return patiently(lambda timeout: stub.Upload(parts(), timeout=timeout))


def run(channel, elf, args):
    """The script's verdict."""
    stub = runner_pb2_grpc.RunnerServiceStub(channel)
    script = {"sha256": hashlib.sha256(elf).hexdigest()}
    request = runner_pb2.ExecuteRequest(script=script, text_args=args)
    for _ in range(2):
        try:
            return patiently(lambda timeout: stub.Execute(request, timeout=timeout)).verdict
        except grpc.RpcError as error:
            if details(error)[0] != "SCRIPT_NOT_FOUND":
                raise
            upload(channel, elf)
    raise SystemExit("the script is gone as soon as it is uploaded")


def main(address, path, *args):
    with open(path, "rb") as file:
        elf = file.read()
    with connect(address) as channel:
        verdict = run(channel, elf, args)
    outcome = runner_pb2.Outcome.Name(verdict.outcome)
    print(json.dumps({"outcome": outcome, "exit_code": verdict.exit_code, "cycles": verdict.cycles}))


if __name__ == "__main__":
    main(*sys.argv[1:])
