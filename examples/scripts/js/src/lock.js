// A lock that opens if the first witness shows its arguments. It is a starting point and protects nothing.
// Exit codes: 0 it opens, 1 no witness, 2 another one, 3 the transaction cannot be read.
import * as bindings from "@ckb-js-std/bindings";

// ckb-js-vm's own arguments: flags, and code hash and hash type of this script.
const VM_ARGS_BYTES = 2 + 32 + 1;

// The content of a field of bytes in a molecule table; null if it is absent.
function field(table, index) {
  const view = new DataView(table);
  const start = view.getUint32(4 + 4 * index, true);
  const isLast = 8 + 4 * index === view.getUint32(4, true);
  const end = isLast ? table.byteLength : view.getUint32(8 + 4 * index, true);
  return start === end ? null : new Uint8Array(table.slice(start + 4, end));
}

function unlock() {
  const args = field(bindings.loadScript(), 2).slice(VM_ARGS_BYTES);
  let shown;
  try {
    shown = field(bindings.loadWitness(0, bindings.SOURCE_GROUP_INPUT), 0);
  } catch {
    return 1;
  }
  if (shown === null) return 1;
  const isSame = shown.length === args.length && shown.every((byte, at) => byte === args[at]);
  if (!isSame) return 2;
  console.log("opened");
  return 0;
}

bindings.exit(unlock());
