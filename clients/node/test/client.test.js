// The client against a server of this process: node --test FILE, where antares-client is installed.

const assert = require("node:assert");
const { once } = require("node:events");
const { test } = require("node:test");

const grpc = require("@grpc/grpc-js");
const { Client } = require("antares-client");

const MESSAGE_BYTES_MAX = 64 << 20;

/** Calls `check` with a client, and a server that notes requests and answers with `errors` first. */
async function served(check) {
  const server = new grpc.Server({ "grpc.max_receive_message_length": -1 });
  const seen = { requests: [], errors: [], deadline: undefined };
  const any = new Client("127.0.0.1:1");
  server.addService(any.runner.constructor.service, {
    verifyTransaction(call, done) {
      seen.requests.push(call.request);
      seen.deadline = call.getDeadline();
      const error = seen.errors.pop();
      error ? done(error) : done(null, { request_id: call.request.request_id });
    },
    verifySession(call) {
      let number = 0;
      call.on("data", ({ transaction }) => {
        // Of the first parts the third transaction is lost, and all that was in progress.
        if (number === 3 && seen.errors.length > 0) {
          call.emit("error", seen.errors.pop());
        } else if (number <= 3 || seen.errors.length === 0) {
          number++;
          transaction && call.write({ result: { id: transaction.id, response: { request_id: transaction.mock_json.toString() } } });
        }
      });
      call.on("end", () => call.end());
    },
  });
  any.close();
  const port = await new Promise((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))),
  );
  const client = new Client(`127.0.0.1:${port}`);
  try {
    await check(client, seen);
  } finally {
    client.close();
    server.forceShutdown();
  }
}

/** grpc-status-details-bin with ErrorInfo { reason: "QUOTA" }. */
function quota() {
  const field = (number, bytes) => Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
  const any = Buffer.concat([
    field(1, Buffer.from("type.googleapis.com/google.rpc.ErrorInfo")),
    field(2, field(1, Buffer.from("QUOTA"))),
  ]);
  const metadata = new grpc.Metadata();
  metadata.set("grpc-status-details-bin", field(3, any));
  return { code: grpc.status.RESOURCE_EXHAUSTED, details: "used up", metadata };
}

test("transactions go unchanged", () =>
  served(async (client, seen) => {
    for (const [given, sent] of [[" {} ", " {} "], [Buffer.from("{}"), "{}"], [{ tx: 1 }, '{"tx":1}']]) {
      await client.verify(given);
      const request = seen.requests.pop();
      assert.deepStrictEqual([request.transaction, request.mock_json.toString()], ["mock_json", sent]);
    }
    await client.verifyBare(Buffer.from([1]));
    assert.deepStrictEqual([...seen.requests.pop().bare], [1]);
    for (const capacity of [100n, NaN, Infinity]) {
      await assert.rejects(client.verify({ capacity }), /capacity/);
    }
  }));

test("options stay as they are", () =>
  served(async (client) => {
    const options = Object.freeze({ request_id: "one", limits: Object.freeze({ max_cycles: "7" }) });
    assert.strictEqual((await client.verify("{}", options)).request_id, "one");
  }));

test("64 calls share a client and options", () =>
  served(async (client) => {
    const limits = Object.freeze({ max_cycles: "7" });
    const names = [...Array(64).keys()].map(String);
    const answers = await Promise.all(names.map((request_id) => client.verify("{}", { request_id, limits })));
    assert.deepStrictEqual(answers.map((answer) => answer.request_id), names);
  }));

test("calls have a deadline", () =>
  served(async (client, seen) => {
    await client.verify("{}");
    // It is rounded up on its way.
    assert.ok(seen.deadline - Date.now() < 2 * 300_000);
  }));

test("only what passes is repeated", () =>
  served(async (client, seen) => {
    seen.errors = [{ code: grpc.status.UNAVAILABLE, details: "gone" }];
    await client.verify("{}");
    assert.strictEqual(seen.requests.length, 2);
    seen.errors = [quota()];
    await assert.rejects(client.verify("{}"), { reason: "QUOTA" });
    assert.strictEqual(seen.requests.length, 3);
  }));

test("a message that is too long is sent once", () =>
  served(async (client) => {
    let attempts = 0;
    const send = client.runner.verifyTransaction.bind(client.runner);
    client.runner.verifyTransaction = (...words) => (attempts++, send(...words));
    await assert.rejects(client.verify(Buffer.alloc(MESSAGE_BYTES_MAX + 1)), { code: grpc.status.RESOURCE_EXHAUSTED });
    assert.strictEqual(attempts, 1);
  }));

test("a session goes on where it was lost", () =>
  served(async (client, seen) => {
    const { UNAVAILABLE, DEADLINE_EXCEEDED } = grpc.status;
    seen.errors = [UNAVAILABLE, DEADLINE_EXCEEDED, UNAVAILABLE].map((code) => ({ code, details: "" }));
    async function* lines() {
      for (let line = 0; line < 1_000; line++) {
        yield String(line);
      }
    }
    const answers = new Map();
    for await (const [place, answer] of client.verifySession(lines())) {
      assert.ok(!answers.has(place));
      answers.set(place, answer.request_id);
    }
    assert.deepStrictEqual(seen.errors, []);
    assert.ok(answers.size === 1_000 && [...answers].every(([place, line]) => String(place) === line));
    seen.errors = [quota()];
    await assert.rejects(async () => {
      for await (const _ of client.verifySession(["1", "2", "3", "4"])) {
      }
    }, { reason: "QUOTA" });
  }));
