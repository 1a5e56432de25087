import * as bindings from "@ckb-js-std/bindings";
import { readAmount } from "./amounts";

function sum(source: bigint): bigint {
  let total = 0n;
  for (let index = 0; index < 1; index++) total += readAmount(index, source);
  return total;
}

function main(): number {
  return sum(bindings.SOURCE_INPUT) === sum(bindings.SOURCE_OUTPUT) ? 0 : 5;
}

bindings.exit(main());
