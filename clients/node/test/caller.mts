// A program with types, which tsc --strict accepts.

import { Client, Refused, type Answer, type SessionOptions } from "antares-client";

const options: SessionOptions = { diagnosis: true, limits: { max_cycles: "1000" } };
const client = new Client("127.0.0.1:50051", { deadlineMs: 30_000 });

for await (const [place, answer] of client.verifySession(["{}", { tx: {} }], options)) {
  const whole: Answer = answer;
  const cycles: string = answer instanceof Refused ? answer.reason : answer.cycles;
  console.log(place + 1, whole, cycles);
}
// @ts-expect-error: no option of a session
client.verifySession([], { sign: true });
