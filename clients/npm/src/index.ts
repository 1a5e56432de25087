// A client of Antares: runs CKB-VM scripts and verifies CKB transactions on a server.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import protobuf from "protobufjs";

import type { ProtoGrpcType as Compilers } from "./generated/compiler";
import type { ProtoGrpcType as Runners } from "./generated/runner";
import type { CompilerServiceClient } from "./generated/antares/v1/CompilerService";
import type { ExecuteRequest } from "./generated/antares/v1/ExecuteRequest";
import type { ExecuteResponse__Output } from "./generated/antares/v1/ExecuteResponse";
import type { FindMissingResponse__Output } from "./generated/antares/v1/FindMissingResponse";
import type { RunnerCapabilities__Output } from "./generated/antares/v1/RunnerCapabilities";
import type { RunnerServiceClient } from "./generated/antares/v1/RunnerService";
import type { UploadResponse__Output } from "./generated/antares/v1/UploadResponse";
import type { VerifyTransactionRequest } from "./generated/antares/v1/VerifyTransactionRequest";
import type { VerifyTransactionResponse__Output } from "./generated/antares/v1/VerifyTransactionResponse";
import { fieldsOf, type Mock } from "./transaction";

const CHUNK_BYTES = 64 << 10;
const ATTEMPTS_MAX = 8;
const MESSAGE_BYTES_MAX = 64 << 20;
// Data of a cell from which on it goes by digest.
const REFERENCE_BYTES_MIN = 4 << 10;
// Digests that a server is asked for at once.
const ASKED_MAX = 256;
// What comes from a server that is gone, or from a proxy or a connection in its stead, if it has no reason.
const GONE = [
  grpc.status.UNAVAILABLE,
  grpc.status.UNKNOWN,
  grpc.status.INTERNAL,
  grpc.status.CANCELLED,
  grpc.status.RESOURCE_EXHAUSTED,
];

// What an error carries beside its code.
const errors = protobuf.parse(`
  syntax = "proto3";
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message ErrorInfo { string reason = 1; }
  message Duration { int64 seconds = 1; int32 nanos = 2; }
  message RetryInfo { Duration retry_delay = 1; }
  message FieldViolation { string field = 1; string description = 2; }
  message BadRequest { repeated FieldViolation field_violations = 1; }
`).root;

function decode(type: string, bytes: Uint8Array): any {
  return errors.lookupType(type).decode(bytes);
}

/** There is no verdict. `reason` is what the proto files list, `violations` the fields that are wrong. */
export class Refused extends Error {
  readonly code: grpc.status;
  readonly reason: string = "";
  readonly violations: { field: string; description: string }[] = [];
  /** Milliseconds after which to ask again; undefined if that is of no use. */
  readonly delay?: number;

  constructor(error: grpc.ServiceError) {
    super(error.details || error.message);
    this.code = error.code;
    for (const bytes of error.metadata?.get("grpc-status-details-bin") ?? []) {
      for (const detail of decode("Status", bytes as Buffer).details) {
        if (detail.typeUrl.endsWith("/google.rpc.ErrorInfo")) {
          this.reason = decode("ErrorInfo", detail.value).reason;
        } else if (detail.typeUrl.endsWith("/google.rpc.RetryInfo")) {
          const after = decode("RetryInfo", detail.value).retryDelay;
          this.delay = Number(after?.seconds ?? 0) * 1000 + (after?.nanos ?? 0) / 1e6;
        } else if (detail.typeUrl.endsWith("/google.rpc.BadRequest")) {
          this.violations = decode("BadRequest", detail.value).fieldViolations;
        }
      }
    }
    if (this.delay === undefined && this.reason === "" && GONE.includes(this.code)) {
      this.delay = 0;
    }
  }
}

export interface Options {
  /** Files in PEM: the authority (without it nothing is encrypted), and the client's own certificate and key. */
  ca?: string;
  certificate?: string;
  key?: string;
  /** A file with a bearer token, which may be renewed. */
  tokenFile?: string;
  deadlineMs?: number;
  tenant?: string;
}

type Done<T> = (error: grpc.ServiceError | null, answer?: T) => void;
type Call<T> = (metadata: grpc.Metadata, options: grpc.CallOptions, done: Done<T>) => void;
type Blobs = Map<string, Uint8Array>;

/** A connection to a server. Close it. */
export class Client {
  readonly runner: RunnerServiceClient;
  readonly compiler: CompilerServiceClient;
  private readonly options: Options;

  constructor(address: string, options: Options = {}) {
    const root = join(__dirname, "..");
    const loading = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true, includeDirs: [root] };
    const load = (file: string) => grpc.loadPackageDefinition(loadSync(`antares/v1/${file}.proto`, loading)) as unknown;
    const limits = {
      "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
      "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
    };
    this.options = options;
    const secure = this.credentials();
    this.runner = new (load("runner") as Runners).antares.v1.RunnerService(address, secure, limits);
    this.compiler = new (load("compiler") as Compilers).antares.v1.CompilerService(address, secure, limits);
  }

  close() {
    this.runner.close();
    this.compiler.close();
  }

  /**
   * The answer to a transaction in ckb-debugger's JSON. Data of large cells goes by digest, and is uploaded where the server has
   * not got it.
   */
  verify(
    transaction: string | Mock,
    more: Omit<VerifyTransactionRequest, "fields" | "mock_json" | "transaction"> = {},
  ): Promise<VerifyTransactionResponse__Output> {
    const blobs: Blobs = new Map();
    const mock: Mock = typeof transaction === "string" ? JSON.parse(transaction) : transaction;
    const fields = fieldsOf(mock, (data) => (data.length < REFERENCE_BYTES_MIN ? undefined : named(blobs, data)));
    const request: VerifyTransactionRequest = { ...more, fields };
    return this.withBlobs(blobs, () =>
      this.patiently<VerifyTransactionResponse__Output>((metadata, options, done) =>
        this.runner.verifyTransaction(request, metadata, options, done as grpc.requestCallback<VerifyTransactionResponse__Output>),
      ),
    );
  }

  /** The answer to a run of `script`, an ELF, with `args`. */
  execute(
    script: Uint8Array,
    args: (string | Uint8Array)[] = [],
    more: Omit<ExecuteRequest, "script" | "args"> = {},
  ): Promise<ExecuteResponse__Output> {
    const blobs: Blobs = new Map();
    const request: ExecuteRequest = {
      ...more,
      script: { sha256: named(blobs, script) },
      args: args.map((arg) => Buffer.from(arg as Uint8Array)),
    };
    return this.withBlobs(blobs, () =>
      this.patiently<ExecuteResponse__Output>((metadata, options, done) =>
        this.runner.execute(request, metadata, options, done as grpc.requestCallback<ExecuteResponse__Output>),
      ),
    );
  }

  /** Limits and versions of the server, and how many calls it recommends now. */
  capabilities(): Promise<RunnerCapabilities__Output> {
    return this.patiently<RunnerCapabilities__Output>((metadata, options, done) =>
      this.runner.getCapabilities({}, metadata, options, done as grpc.requestCallback<RunnerCapabilities__Output>),
    );
  }

  /** Stores a script, or data of a cell, under its digest. */
  upload(blob: Uint8Array): Promise<UploadResponse__Output> {
    return this.patiently<UploadResponse__Output>((metadata, options, done) => {
      const stream = this.compiler.upload(metadata, options, done as grpc.requestCallback<UploadResponse__Output>);
      stream.write({ header: { sha256: digest(blob), size_bytes: blob.length } });
      for (let at = 0; at < blob.length; at += CHUNK_BYTES) {
        stream.write({ chunk: Buffer.from(blob.subarray(at, at + CHUNK_BYTES)) });
      }
      stream.end();
    });
  }

  private async withBlobs<T>(blobs: Blobs, ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Refused) || error.reason !== "SCRIPT_NOT_FOUND" || blobs.size === 0) {
        throw error;
      }
    }
    const digests = [...blobs.keys()];
    for (let at = 0; at < digests.length; at += ASKED_MAX) {
      const asked = { script_sha256: digests.slice(at, at + ASKED_MAX) };
      const answer = await this.patiently<FindMissingResponse__Output>((metadata, options, done) =>
        this.compiler.findMissing(asked, metadata, options, done as grpc.requestCallback<FindMissingResponse__Output>),
      );
      for (const missing of answer.missing_sha256) {
        await this.upload(blobs.get(missing)!);
      }
    }
    return ask();
  }

  /** Asked again where the server says so, after its delay. */
  private async patiently<T>(call: Call<T>): Promise<T> {
    const deadline = Date.now() + (this.options.deadlineMs ?? 300_000);
    for (let attempt = 1; ; attempt++) {
      try {
        return await new Promise<T>((resolve, reject) =>
          call(this.metadata(), { deadline }, (error, answer) => (error ? reject(new Refused(error)) : resolve(answer!))),
        );
      } catch (error) {
        const { delay } = error as Refused;
        // Not all clients at the same time.
        const wait = (delay ?? 0) + Math.random() * Math.min(25 * 2 ** attempt, 3000);
        if (delay === undefined || attempt === ATTEMPTS_MAX || Date.now() + wait >= deadline) {
          throw error;
        }
        await sleep(wait);
      }
    }
  }

  private metadata(): grpc.Metadata {
    const metadata = new grpc.Metadata();
    const { tokenFile, tenant } = this.options;
    if (tenant) {
      metadata.set("antares-tenant", tenant);
    }
    if (tokenFile) {
      metadata.set("authorization", `Bearer ${readFileSync(tokenFile, "ascii").trim()}`);
    }
    return metadata;
  }

  private credentials(): grpc.ChannelCredentials {
    const { ca, key, certificate, tokenFile } = this.options;
    const file = (path?: string) => (path ? readFileSync(path) : null);
    if (!ca && tokenFile) {
      throw new Error("a token goes over encrypted connections only: name ca");
    }
    return ca ? grpc.credentials.createSsl(file(ca), file(key), file(certificate)) : grpc.credentials.createInsecure();
  }
}

function digest(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function named(blobs: Blobs, data: Uint8Array): string {
  const sha256 = digest(data);
  blobs.set(sha256, data);
  return sha256;
}
