#!/usr/bin/env node
// antares-client verify HOST:PORT TX.json, or antares-client run HOST:PORT SCRIPT ARG...: prints the answer as JSON. TX.json may be -:
// then standard input has a transaction in each line, and every line has its answer.
//
// ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files, ANTARES_TOKEN_FILE one with a token.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import { Client, Refused } from "./index";

/** The answer or the error to each line. */
async function verifyLines(client: Client) {
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      console.log(JSON.stringify(await client.verify(line)));
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
      const { code, reason, violations } = error;
      console.log(JSON.stringify({ error: { code, reason, fields: violations.map((violation) => violation.field) } }));
    }
  }
}

async function main([verb, address, path, ...args]: string[]) {
  if (!["verify", "run"].includes(verb) || !path) {
    throw new Error("usage: antares-client verify HOST:PORT TX.json|- | antares-client run HOST:PORT SCRIPT ARG...");
  }
  const { ANTARES_TLS_CA: ca, ANTARES_TLS_CERT: certificate, ANTARES_TLS_KEY: key, ANTARES_TOKEN_FILE: tokenFile } = process.env;
  const client = new Client(address, { ca, certificate, key, tokenFile });
  try {
    if (verb === "verify" && path === "-") {
      return await verifyLines(client);
    }
    const content = readFileSync(path);
    const answer = verb === "verify" ? await client.verify(content) : await client.execute(content, args);
    console.log(JSON.stringify(answer));
  } finally {
    client.close();
  }
}

main(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.message);
  process.exit(1);
});
