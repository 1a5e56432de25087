// Runs a script: uploads it where the server has not got it, and asks again when the server says that it may be asked again.
//
//   docs/clients/make.sh typescript FOLDER
//   FOLDER/run HOST:PORT SCRIPT ARG...
//
// ANTARES_TLS_CA, ANTARES_TLS_CERT and ANTARES_TLS_KEY name files,
// ANTARES_TOKEN_FILE one with a token.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import protobuf from "protobufjs";

import type { ProtoGrpcType as Compiler } from "./generated/compiler";
import type { ProtoGrpcType as Runner } from "./generated/runner";
import type { ExecuteResponse__Output } from "./generated/antares/v1/ExecuteResponse";
import type { UploadResponse__Output } from "./generated/antares/v1/UploadResponse";

const CHUNK_BYTES = 64 << 10;
const ATTEMPTS_MAX = 8;
const DEADLINE_MS = 300_000;

// What an error carries beside its code.
const errors = protobuf.parse(`
  syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message RetryInfo { Duration retry_delay = 1; }
`).root;

function decode(type: string, bytes: Uint8Array): any {
  return errors.lookupType(type).decode(bytes);
}

/** Reason of an error, and milliseconds after which to ask again, undefined if that is of no use. */
function details(error: grpc.ServiceError): { reason: string; delay?: number } {
  let reason = "";
  let delay: number | undefined;
  for (const bytes of error.metadata?.get("grpc-status-details-bin") ?? []) {
    for (const detail of decode("Status", bytes as Buffer).details) {
      if (detail.typeUrl.endsWith("/google.rpc.ErrorInfo")) {
        reason = decode("ErrorInfo", detail.value).reason;
      } else if (detail.typeUrl.endsWith("/google.rpc.RetryInfo")) {
        const after = decode("RetryInfo", detail.value).retryDelay;
        delay = Number(after?.seconds ?? 0) * 1000 + (after?.nanos ?? 0) / 1e6;
      }
    }
  }
  // A server that is gone has no details; another one, or the same a little later, may answer.
  if (delay === undefined && reason === "" && error.code === grpc.status.UNAVAILABLE) {
    delay = 0;
  }
  return { reason, delay };
}

type Done<T> = (error: grpc.ServiceError | null, answer?: T) => void;

/** Asks again as the proto files say: only what carries a RetryInfo, after its delay. */
async function patiently<T>(call: (options: grpc.CallOptions, done: Done<T>) => void): Promise<T> {
  const deadline = Date.now() + DEADLINE_MS;
  for (let attempt = 1; ; attempt++) {
    try {
      return await new Promise<T>((resolve, reject) =>
        call({ deadline }, (error, answer) => (error ? reject(error) : resolve(answer!))),
      );
    } catch (error) {
      const { delay } = details(error as grpc.ServiceError);
      // Not all clients at the same time.
      const wait = (delay ?? 0) + Math.random() * 25 * 2 ** attempt;
      if (delay === undefined || attempt === ATTEMPTS_MAX || Date.now() + wait >= deadline) {
        throw error;
      }
      await sleep(wait);
    }
  }
}

function credentials(): grpc.ChannelCredentials {
  const { ANTARES_TLS_CA, ANTARES_TLS_KEY, ANTARES_TLS_CERT, ANTARES_TOKEN_FILE } = process.env;
  if (!ANTARES_TLS_CA) {
    return grpc.credentials.createInsecure();
  }
  const file = (path?: string) => (path ? readFileSync(path) : null);
  const encrypted = grpc.credentials.createSsl(file(ANTARES_TLS_CA), file(ANTARES_TLS_KEY), file(ANTARES_TLS_CERT));
  if (!ANTARES_TOKEN_FILE) {
    return encrypted;
  }
  const token = grpc.credentials.createFromMetadataGenerator((_, done) => {
    const metadata = new grpc.Metadata();
    metadata.set("authorization", `Bearer ${readFileSync(ANTARES_TOKEN_FILE, "ascii").trim()}`);
    done(null, metadata);
  });
  return grpc.credentials.combineChannelCredentials(encrypted, token);
}

async function main(proto: string, address: string, path: string, args: string[]) {
  const options = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true, includeDirs: [proto] };
  const load = (file: string) => grpc.loadPackageDefinition(loadSync(`antares/v1/${file}.proto`, options)) as unknown;
  const compilers = new (load("compiler") as Compiler).antares.v1.CompilerService(address, credentials());
  const runners = new (load("runner") as Runner).antares.v1.RunnerService(address, credentials());
  const elf = readFileSync(path);
  const sha256 = createHash("sha256").update(elf).digest("hex");

  const upload = () =>
    patiently<UploadResponse__Output>((options, done) => {
      const stream = compilers.upload(options, done as grpc.requestCallback<UploadResponse__Output>);
      stream.write({ header: { sha256, size_bytes: elf.length } });
      for (let at = 0; at < elf.length; at += CHUNK_BYTES) {
        stream.write({ chunk: elf.subarray(at, at + CHUNK_BYTES) });
      }
      stream.end();
    });
  const execute = () =>
    patiently<ExecuteResponse__Output>((options, done) =>
      runners.execute({ script: { sha256 }, text_args: args }, options, done as grpc.requestCallback<ExecuteResponse__Output>),
    );
  const { verdict } = await execute().catch(async (error) => {
    if (details(error).reason !== "SCRIPT_NOT_FOUND") {
      throw error;
    }
    await upload();
    return execute();
  });
  console.log(JSON.stringify({ outcome: verdict?.outcome, exit_code: verdict?.exit_code, cycles: Number(verdict?.cycles) }));
  compilers.close();
  runners.close();
}

const [proto, address, path, ...args] = process.argv.slice(2);
main(proto, address, path, args).catch((error: Error) => {
  console.error(error.message);
  process.exit(1);
});
