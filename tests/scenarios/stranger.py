"""A stranger's client: knows the address and the names of the calls, and learns the messages by reflection.

usage: stranger.py ADDRESS ELF ARG; prints one JSON object.
"""

import hashlib
import json
import os
import sys

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

PACKAGE = "antares.v1"
CHUNK_BYTES = 64 << 10


def channel(address):
    """A connection, with what the environment has: STRANGER_CA, STRANGER_CERT and STRANGER_KEY (files), STRANGER_TOKEN."""
    if "STRANGER_CA" not in os.environ:
        return grpc.insecure_channel(address)
    files = [os.environ.get(f"STRANGER_{name}") for name in ("CA", "KEY", "CERT")]
    ca, key, certificate = (open(path, "rb").read() if path else None for path in files)
    credentials = grpc.ssl_channel_credentials(ca, key, certificate)
    if token := os.environ.get("STRANGER_TOKEN"):
        credentials = grpc.composite_channel_credentials(credentials, grpc.access_token_call_credentials(token))
    return grpc.secure_channel(address, credentials)


class Client:
    """Calls methods by name with plain dictionaries."""

    def __init__(self, address):
        self.channel = channel(address)
        self.database = ProtoReflectionDescriptorDatabase(self.channel)
        self.pool = DescriptorPool(self.database)

    def services(self):
        return sorted(self.database.get_services())

    def call(self, service, method, requests):
        """One answer to one request, or to a list of them as a stream."""
        found = self.pool.FindServiceByName(f"{PACKAGE}.{service}").methods_by_name[method]
        request, response = GetMessageClass(found.input_type), GetMessageClass(found.output_type)
        path = f"/{PACKAGE}.{service}/{method}"
        coding = {"request_serializer": request.SerializeToString, "response_deserializer": response.FromString}
        if isinstance(requests, dict):
            answer = self.channel.unary_unary(path, **coding)(request(**requests), timeout=60)
        else:
            answer = self.channel.stream_unary(path, **coding)((request(**each) for each in requests), timeout=60)
        return json_format.MessageToDict(answer, preserving_proto_field_name=True)


def parts(elf, digest):
    """The messages of an upload."""
    yield {"header": {"sha256": digest, "size_bytes": len(elf)}}
    for at in range(0, len(elf), CHUNK_BYTES):
        yield {"chunk": elf[at : at + CHUNK_BYTES]}


def refusal(client, digest):
    """Status and message of an execution that cannot be."""
    try:
        client.call("RunnerService", "Execute", {"script": {"sha256": digest}})
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def main(address, path, argument):
    client = Client(address)
    with open(path, "rb") as file:
        elf = file.read()
    digest = hashlib.sha256(elf).hexdigest()
    script = {"sha256": digest}
    request = {"script": script, "args": [argument.encode()], "tier": "TIER_NATIVE", "request_id": "stranger"}
    result = {
        "services": client.services(),
        "unknown": refusal(client, "00" * 32),
        "upload": client.call("CompilerService", "Upload", list(parts(elf, digest))),
        "compile": client.call("CompilerService", "Compile", {"script_sha256": digest}),
        "execute": client.call("RunnerService", "Execute", request),
    }
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
