"""antares-client verify HOST:PORT TX.json, or antares-client run HOST:PORT SCRIPT ARG...: prints the answer as JSON. TX.json may be -:
then standard input has a transaction in each line, and every line has its answer.

ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from google.protobuf import json_format
from google.protobuf.message import Message

from . import Client, Refused


def write(answer: Message) -> None:
    print(json_format.MessageToJson(answer, indent=None), flush=True)


def verify_lines(client: Client) -> None:
    for line in sys.stdin.buffer:
        try:
            write(client.verify(line))
        except Refused as refused:
            fields = [field for field, _ in refused.violations]
            print(json.dumps({"error": {"code": refused.code.value[0], "reason": refused.reason, "fields": fields}}), flush=True)


def main() -> None:
    if len(sys.argv) < 4 or sys.argv[1] not in ("verify", "run"):
        sys.exit(__doc__)
    verb, address, path, *args = sys.argv[1:]
    ca, certificate, key, token_file = map(
        os.environ.get, ("ANTARES_TLS_CA", "ANTARES_TLS_CERT", "ANTARES_TLS_KEY", "ANTARES_TOKEN_FILE")
    )
    try:
        with Client(address, ca=ca, certificate=certificate, key=key, token_file=token_file) as client:
            if verb == "run":
                write(client.execute(Path(path).read_bytes(), args))
            elif path == "-":
                verify_lines(client)
            else:
                write(client.verify(Path(path).read_bytes()))
    except Refused as refused:
        sys.exit(f"{refused.code.name} {refused.reason}: {refused}")


if __name__ == "__main__":
    main()
