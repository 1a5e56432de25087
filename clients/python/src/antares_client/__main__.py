"""antares-client verify HOST:PORT TX.json, or antares-client run HOST:PORT SCRIPT ARG...: prints the answer as JSON.

ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token."""

import os
import sys

from google.protobuf import json_format

from . import Client, Refused


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in ("verify", "run"):
        sys.exit(__doc__)
    verb, address, path, *args = sys.argv[1:]
    name = os.environ.get
    files = {"ca": name("ANTARES_TLS_CA"), "certificate": name("ANTARES_TLS_CERT"), "key": name("ANTARES_TLS_KEY")}
    with open(path, "rb") as file:
        content = file.read()
    try:
        with Client(address, **files, token_file=name("ANTARES_TOKEN_FILE")) as client:
            answer = client.verify(content) if verb == "verify" else client.execute(content, args)
    except Refused as refused:
        sys.exit(f"{refused.code.name} {refused.reason}: {refused}")
    print(json_format.MessageToJson(answer, indent=None))


if __name__ == "__main__":
    main()
