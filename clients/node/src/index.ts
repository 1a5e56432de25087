// A client of Antares: runs CKB-VM scripts and verifies CKB transactions on a server.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import * as grpc from "@grpc/grpc-js";
import { fromJSON } from "@grpc/proto-loader";
import protobuf from "protobufjs";

import messages from "./generated/messages";
import type { ProtoGrpcType as Compilers } from "./generated/compiler";
import type { ProtoGrpcType as Runners } from "./generated/runner";
import type { CompilerServiceClient } from "./generated/antares/v1/CompilerService";
import type { ExecuteRequest } from "./generated/antares/v1/ExecuteRequest";
import type { ExecuteResponse__Output } from "./generated/antares/v1/ExecuteResponse";
import type { RunnerCapabilities__Output } from "./generated/antares/v1/RunnerCapabilities";
import type { RunnerServiceClient } from "./generated/antares/v1/RunnerService";
import type { SharedTransactionResult__Output } from "./generated/antares/v1/SharedTransactionResult";
import type { VerifySessionRequest } from "./generated/antares/v1/VerifySessionRequest";
import type { VerifySessionResponse__Output } from "./generated/antares/v1/VerifySessionResponse";
import type { VerifyShared } from "./generated/antares/v1/VerifyShared";
import type { VerifyTransactionRequest } from "./generated/antares/v1/VerifyTransactionRequest";
import type { VerifyTransactionResponse__Output } from "./generated/antares/v1/VerifyTransactionResponse";

const ATTEMPTS_MAX = 8;
const MESSAGE_BYTES_MAX = 64 << 20;
// All attempts of a call.
const DEADLINE_MS = 300_000;
const CONNECT_MS_MAX = 10_000;
// Between attempts to connect: less than all pauses of a call together.
const RECONNECT_MS_MAX = 1_000;
const KEEPALIVE_MS = 20_000;
const KEEPALIVE_TIMEOUT_MS = 10_000;
const PAUSE_MS_MIN = 50;
const PAUSE_MS_MAX = 3_000;
// Transactions of a session that wait for their answers.
const WAITING_MAX = 256;
const SERVICE_CONFIG = { loadBalancingConfig: [{ round_robin: {} }] };
// A status without a reason comes from a proxy, a broken connection or a server that stops.
const PASSING = [grpc.status.UNAVAILABLE, grpc.status.UNKNOWN, grpc.status.INTERNAL, grpc.status.CANCELLED];

// What an error carries with its code.
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

const loading = { longs: String, enums: String, defaults: true, oneofs: true };
const services = grpc.loadPackageDefinition(fromJSON(messages as protobuf.INamespace, loading)) as unknown as Compilers & Runners;

function decode(type: string, bytes: Uint8Array): any {
  return errors.lookupType(type).decode(bytes);
}

/** There is no verdict. `reason` is what the proto files list, `violations` the fields that are wrong. */
export class Refused extends Error {
  readonly code: grpc.status;
  readonly reason: string = "";
  readonly violations: { field: string; description: string }[] = [];
  /** Milliseconds after which to retry; undefined if a retry cannot help. */
  readonly delay?: number;

  constructor(error: { code: grpc.status; details: string; metadata?: grpc.Metadata }) {
    super(error.details || grpc.status[error.code]);
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
    if (this.delay === undefined && this.reason === "" && PASSING.includes(this.code)) {
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
  /** Milliseconds for a call with all its attempts. */
  deadlineMs?: number;
  tenant?: string;
}

/** All of a request but the transaction. */
export type VerifyOptions = Omit<VerifyTransactionRequest, "mock_json" | "fields" | "bare" | "transaction">;

/** All that transactions of a session share but cells and headers. */
export type SessionOptions = Omit<VerifyShared, "cell_deps" | "headers">;

/** ckb-debugger's JSON: text, its bytes, or an object that is written as JSON. */
export type Transaction = string | Uint8Array | object;
/** What a session says of a transaction. */
export type Answer = VerifyTransactionResponse__Output | Refused;
type Heard = { answer: VerifySessionResponse__Output } | { error: Refused };

/** What is left of a session. */
interface Session {
  source: AsyncIterator<Transaction> | Iterator<Transaction>;
  pulled?: Promise<IteratorResult<Transaction>>;
  hasEnded: boolean;
  next: number;
  waiting: Map<string, VerifySessionRequest>;
  tried: Map<string, number>;
  answered: number;
  /** To the server of now. */
  write: (request: VerifySessionRequest) => void;
}

type Done<T> = (error: grpc.ServiceError | null, answer?: T) => void;
type Call<T> = (metadata: grpc.Metadata, options: grpc.CallOptions, done: Done<T>) => void;

/**
 * A connection to host:port, or to a list such as ipv4:10.0.0.1:50051,10.0.0.2:50051. Calls go to all addresses of the list or of the
 * name in turn. Close it.
 */
export class Client {
  readonly runner: RunnerServiceClient;
  readonly compiler: CompilerServiceClient;
  private readonly channel: grpc.Channel;
  private readonly options: Options;

  constructor(address: string, options: Options = {}) {
    this.options = { ...options };
    this.channel = new grpc.Channel(address, this.credentials(), {
      "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
      "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
      "grpc.max_reconnect_backoff_ms": RECONNECT_MS_MAX,
      "grpc.keepalive_time_ms": KEEPALIVE_MS,
      "grpc.keepalive_timeout_ms": KEEPALIVE_TIMEOUT_MS,
      "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
    });
    const shared = { channelOverride: this.channel };
    const unused = grpc.credentials.createInsecure();
    this.runner = new services.antares.v1.RunnerService(address, unused, shared);
    this.compiler = new services.antares.v1.CompilerService(address, unused, shared);
  }

  close() {
    this.channel.close();
  }

  /** The answer to a transaction in ckb-debugger's JSON: text, its bytes, or an object that is written as JSON. */
  async verify(transaction: Transaction, more: VerifyOptions = {}): Promise<VerifyTransactionResponse__Output> {
    return this.verifyRequest({ ...more, bare: undefined, fields: undefined, mock_json: jsonBytes(transaction) });
  }

  /**
   * The answer to a transaction without its cells, in molecule encoding or in a node's JSON. The server gets the cells from its node.
   */
  async verifyBare(transaction: Transaction, more: VerifyOptions = {}): Promise<VerifyTransactionResponse__Output> {
    return this.verifyRequest({ ...more, bare: jsonBytes(transaction), fields: undefined, mock_json: undefined });
  }

  /** The answer to a run of `script`, an ELF, with `args`. It goes by digest, or with its bytes if the server does not have it. */
  async execute(
    script: Uint8Array,
    args: (string | Uint8Array)[] = [],
    more: Omit<ExecuteRequest, "script" | "args"> = {},
  ): Promise<ExecuteResponse__Output> {
    const end = this.end();
    const request = { ...more, args: args.map((arg) => Buffer.from(arg as Uint8Array)) };
    const execute = (source: ExecuteRequest["script"]) =>
      this.retried<ExecuteResponse__Output>(
        (metadata, options, done) =>
          this.runner.execute({ ...request, script: source }, metadata, options, done as grpc.requestCallback<ExecuteResponse__Output>),
        end,
      );
    try {
      return await execute({ sha256: digest(script) });
    } catch (error) {
      if (!(error instanceof Refused) || !["SCRIPT_NOT_FOUND", "SOURCE_UNAVAILABLE"].includes(error.reason)) {
        throw error;
      }
      return execute({ elf: Buffer.from(script) });
    }
  }

  /**
   * The answers to transactions in ckb-debugger's JSON, each with the place of its transaction, in any order. No more transactions are
   * taken than have room on the server. A session that is lost goes on with another server.
   */
  async *verifySession(
    transactions: AsyncIterable<Transaction> | Iterable<Transaction>,
    more: SessionOptions = {},
  ): AsyncGenerator<[number, Answer]> {
    const all = transactions as AsyncIterable<Transaction> & Iterable<Transaction>;
    const source = all[Symbol.asyncIterator]?.() ?? all[Symbol.iterator]();
    const none = { waiting: new Map(), tried: new Map(), answered: 0, write: () => {} };
    const session: Session = { source, hasEnded: false, next: 0, ...none };
    for (let attempt = 0; ; attempt++) {
      // A server is asked when there is something to ask.
      if (session.waiting.size === 0) {
        await this.take(session);
      }
      if (session.waiting.size === 0) {
        return;
      }
      const before = session.answered;
      try {
        return yield* this.part(session, more);
      } catch (error) {
        if (!(error instanceof Refused)) {
          throw error;
        }
        const hasAnswered = session.answered > before;
        attempt = hasAnswered ? 0 : attempt;
        const isOver = hasAnswered && (error.reason === "SESSION_IDLE" || error.code === grpc.status.DEADLINE_EXCEEDED);
        if ((!isOver && error.delay === undefined) || attempt + 1 === ATTEMPTS_MAX) {
          throw error;
        }
        await sleep((error.delay ?? 0) + spread(attempt));
      }
    }
  }

  /** What one server does of a session: everything that waits is sent again, then what comes. */
  private async *part(session: Session, more: SessionOptions): AsyncGenerator<[number, Answer]> {
    await this.connected(this.end());
    const stream = this.runner.verifySession(this.metadata(), { deadline: this.end() });
    const heard: Heard[] = [];
    let wake = () => {};
    const hear = (one: Heard) => (heard.push(one), wake());
    const lost = { code: grpc.status.UNAVAILABLE, details: "the session ended early" };
    stream.on("data", (answer: VerifySessionResponse__Output) => hear({ answer }));
    stream.on("error", (error: grpc.ServiceError) => hear({ error: new Refused(error) }));
    stream.on("end", () => hear({ error: new Refused(lost) }));
    session.write = (request) => stream.write(request);
    try {
      stream.write({ start: more });
      session.waiting.forEach((request) => stream.write(request));
      while (!session.hasEnded || session.waiting.size > 0) {
        const isHeard = new Promise<void>((resolve) => (wake = resolve));
        if (heard.length === 0) {
          const hasRoom = !session.hasEnded && session.waiting.size < WAITING_MAX;
          const taken = hasRoom ? this.take(session) : isHeard;
          await Promise.race([isHeard, taken]);
        }
        const one = heard.shift();
        if (one && "error" in one) {
          throw one.error;
        }
        const result = one?.answer.result;
        if (result && !this.again(session, result)) {
          session.answered++;
          session.waiting.delete(result.id);
          yield [Number(result.id), result.error ? new Refused(failureOf(result.error)) : result.response!];
        }
      }
    } finally {
      session.write = () => {};
      stream.on("error", () => {});
      stream.cancel();
    }
  }

  /** Has the next transaction wait, when it comes. */
  private async take(session: Session): Promise<void> {
    // One that was asked for may come later.
    const pulled = (session.pulled ??= Promise.resolve(session.source.next()));
    const one = await pulled;
    if (session.pulled !== pulled) {
      return;
    }
    session.pulled = undefined;
    if (one.done) {
      session.hasEnded = true;
      return;
    }
    const id = String(session.next++);
    const request = { transaction: { id, mock_json: jsonBytes(one.value) } };
    session.waiting.set(id, request);
    session.write(request);
  }

  /** Whether a result is none: it passes and is sent again after its delay, or was given back. */
  private again(session: Session, result: SharedTransactionResult__Output): boolean {
    if (!result.error || result.error.reason === "CALL_DEADLINE") {
      return result.error !== null && result.error !== undefined;
    }
    const { delay } = new Refused(failureOf(result.error));
    const tried = (session.tried.get(result.id) ?? 0) + 1;
    if (delay === undefined || tried === ATTEMPTS_MAX) {
      return false;
    }
    session.tried.set(result.id, tried);
    const request = session.waiting.get(result.id)!;
    // Another server has it with all that waits.
    const { write } = session;
    setTimeout(() => write === session.write && write(request), delay + spread(tried));
    return true;
  }

  /** Limits and versions of the server, and how many calls it recommends now. */
  capabilities(): Promise<RunnerCapabilities__Output> {
    return this.retried<RunnerCapabilities__Output>((metadata, options, done) =>
      this.runner.getCapabilities({}, metadata, options, done as grpc.requestCallback<RunnerCapabilities__Output>),
    );
  }

  private verifyRequest(request: VerifyTransactionRequest): Promise<VerifyTransactionResponse__Output> {
    return this.retried<VerifyTransactionResponse__Output>((metadata, options, done) =>
      this.runner.verifyTransaction(request, metadata, options, done as grpc.requestCallback<VerifyTransactionResponse__Output>),
    );
  }

  private end(): number {
    return Date.now() + (this.options.deadlineMs ?? DEADLINE_MS);
  }

  /** Repeats a call where the status says so, after its delay. */
  private async retried<T>(call: Call<T>, deadline = this.end()): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      await this.connected(deadline);
      try {
        return await new Promise<T>((resolve, reject) =>
          call(this.metadata(), { deadline }, (error, answer) => (error ? reject(new Refused(error)) : resolve(answer!))),
        );
      } catch (error) {
        const delay = error instanceof Refused ? error.delay : undefined;
        // Clients spread their retries.
        const wait = (delay ?? 0) + spread(attempt);
        if (delay === undefined || attempt + 1 === ATTEMPTS_MAX || Date.now() + wait >= deadline) {
          throw error;
        }
        await sleep(wait);
      }
    }
  }

  /** Ends when the channel has a connection or has failed to get one: grpc-js has no limit of its own. */
  private async connected(deadline: number): Promise<void> {
    const { READY, TRANSIENT_FAILURE } = grpc.connectivityState;
    const end = Math.min(Date.now() + CONNECT_MS_MAX, deadline);
    for (;;) {
      const state = this.channel.getConnectivityState(true);
      if (state === READY || state === TRANSIENT_FAILURE) {
        return;
      }
      await new Promise<void>((resolve, reject) =>
        this.channel.watchConnectivityState(state, end, (error) => {
          const failure = { code: grpc.status.UNAVAILABLE, details: `no connection after ${CONNECT_MS_MAX} ms` };
          error ? reject(new Refused(failure)) : resolve();
        }),
      );
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

/** How much longer a client waits than others. */
function spread(attempt: number): number {
  return Math.random() * Math.min(PAUSE_MS_MIN * 2 ** attempt, PAUSE_MS_MAX);
}

/** An error of one transaction as that of a call. */
function failureOf(error: { code: number; message: string; status_details: Buffer }) {
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", error.status_details);
  return { code: error.code, details: error.message, metadata };
}

function digest(data: Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function jsonBytes(value: string | Uint8Array | object): Buffer {
  if (typeof value === "string") {
    return Buffer.from(value, "utf8");
  }
  return value instanceof Uint8Array ? Buffer.from(value) : Buffer.from(JSON.stringify(value, exact), "utf8");
}

/** JSON.stringify would lose these, or fail without their place. */
function exact(this: unknown, key: string, value: unknown): unknown {
  if (typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value))) {
    throw new TypeError(`${key}: ${value} has no form in JSON: write hexadecimal text such as "0x64"`);
  }
  return value;
}
