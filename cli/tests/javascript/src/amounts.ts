import * as bindings from "@ckb-js-std/bindings";

export class AmountError extends Error {}

export function readAmount(index: number, source: bigint): bigint {
  const data = bindings.loadCellData(index, source);
  if (data.byteLength < 16) {
    throw new AmountError(`cell ${index} has ${data.byteLength} bytes of data, an amount takes 16`);
  }
  return new DataView(data).getBigUint64(0, true);
}
