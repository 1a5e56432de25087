import assert from "node:assert";
import { createRequire } from "node:module";
import { test } from "node:test";

import { Client, Refused } from "antares-client";

test("both kinds of modules have the same classes", () => {
  const required = createRequire(import.meta.url)("antares-client");
  assert.deepStrictEqual([required.Client, required.Refused], [Client, Refused]);
});
