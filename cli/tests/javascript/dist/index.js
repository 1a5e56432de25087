// src/index.ts
import * as bindings2 from "@ckb-js-std/bindings";

// src/amounts.ts
import * as bindings from "@ckb-js-std/bindings";
var AmountError = class extends Error {
};
function readAmount(index, source) {
  const data = bindings.loadCellData(index, source);
  if (data.byteLength < 16) {
    throw new AmountError(`cell ${index} has ${data.byteLength} bytes of data, an amount takes 16`);
  }
  return new DataView(data).getBigUint64(0, true);
}

// src/index.ts
function sum(source) {
  let total = 0n;
  for (let index = 0; index < 1; index++) total += readAmount(index, source);
  return total;
}
function main() {
  return sum(bindings2.SOURCE_INPUT) === sum(bindings2.SOURCE_OUTPUT) ? 0 : 5;
}
bindings2.exit(main());
//# sourceMappingURL=index.js.map
