// The same classes as for `require`.
export { Client, Refused } from "./index.js";
export type { Answer, Options, SessionOptions, Transaction, VerifyOptions } from "./index.js";
