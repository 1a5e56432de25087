// Calls with a client that @hey-api/openapi-ts made of proto/openapi.json: each line of standard input has address, method, body and
// seconds, and each has its answer.

import { createInterface } from "node:readline";

import { createClient } from "./generated/client";
import { runnerServiceExecute, runnerServiceVerifyTransaction } from "./generated/sdk.gen";

const methods = { Execute: runnerServiceExecute, VerifyTransaction: runnerServiceVerifyTransaction };

for await (const line of createInterface({ input: process.stdin })) {
  const { address, method, body, seconds } = JSON.parse(line);
  const signal = AbortSignal.timeout(seconds * 1000);
  const headers = { "grpc-timeout": `${seconds}S` };
  const client = createClient({ baseUrl: `http://${address}` });
  const { data, error, response } = await methods[method as keyof typeof methods]({ client, body, headers, signal });
  console.log(JSON.stringify(response ? { status: response.status, body: data ?? error } : { lost: String(error) }));
}
