"""Calls with a client that openapi-python-client made of proto/openapi.json: each line of standard input has address, method, body
and seconds, and each has its answer."""

import json
import sys
from importlib import import_module

import httpx
from antares_client import Client, models

NAMES = {"VerifyTransaction": "verify_transaction", "Execute": "execute"}

for line in sys.stdin:
    call = json.loads(line)
    client = Client(f"http://{call['address']}", timeout=httpx.Timeout(call["seconds"]))
    asked = getattr(models, f"{call['method']}Request").from_dict(call["body"])
    method = import_module(f"antares_client.api.runner_service.runner_service_{NAMES[call['method']]}")
    try:
        answer = method.sync_detailed(client=client, body=asked, grpc_timeout=f"{call['seconds']}S")
        told = {"status": int(answer.status_code), "body": answer.parsed.to_dict()}
    except (httpx.HTTPError, json.JSONDecodeError) as error:
        told = {"lost": repr(error)}
    print(json.dumps(told), flush=True)
