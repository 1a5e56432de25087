// ckb-debugger's JSON as messages, in molecule encoding.

import type { CellFields } from "./generated/antares/v1/CellFields";
import type { TransactionFields } from "./generated/antares/v1/TransactionFields";

interface Script {
  code_hash: string;
  hash_type: "data" | "type" | "data1" | "data2";
  args: string;
}
interface Output {
  capacity: string;
  lock: Script;
  type?: Script | null;
}
interface OutPoint {
  tx_hash: string;
  index: string;
}
interface Input {
  since: string;
  previous_output: OutPoint;
}
interface CellDep {
  out_point: OutPoint;
  dep_type: "code" | "dep_group";
}
interface Cell {
  output: Output;
  data: string;
  header?: string | null;
}
/** ckb-debugger's mock transaction, as `JSON.parse` gives it. */
export interface Mock {
  mock_info: {
    inputs: (Cell & { input: Input })[];
    cell_deps: (Cell & { cell_dep: CellDep })[];
    header_deps: Record<string, string>[];
    extensions?: [string, string][];
  };
  tx: {
    version: string;
    cell_deps: CellDep[];
    header_deps: string[];
    inputs: Input[];
    outputs: Output[];
    outputs_data: string[];
    witnesses: string[];
  };
}

const HASH_TYPES = { data: 0, type: 1, data1: 2, data2: 4 };
const DEP_TYPES = { code: 0, dep_group: 1 };

function bytes(text: string): Buffer {
  if (text.length % 2 !== 0 || !/^0x[0-9a-fA-F]*$/.test(text)) {
    throw new Error(`${JSON.stringify(text.slice(0, 20))} is not 0x and pairs of hex digits`);
  }
  return Buffer.from(text.slice(2), "hex");
}

function number(text: string, width: number): Buffer {
  const found = Buffer.alloc(width);
  let rest = BigInt(text);
  for (let at = 0; at < width; at++, rest >>= 8n) {
    found[at] = Number(rest & 0xffn);
  }
  return found;
}

function count(length: number): Buffer {
  const found = Buffer.alloc(4);
  found.writeUInt32LE(length);
  return found;
}

function fixvec(items: Buffer[]): Buffer {
  return Buffer.concat([count(items.length), ...items]);
}

/** A table, or a vector of things that differ in length: both have offsets. */
function table(fields: Buffer[]): Buffer {
  let at = 4 + 4 * fields.length;
  const head = fields.map((field) => {
    const offset = count(at);
    at += field.length;
    return offset;
  });
  return Buffer.concat([count(at), ...head, ...fields]);
}

function data(content: Buffer): Buffer {
  return Buffer.concat([count(content.length), content]);
}

function script(of: Script): Buffer {
  return table([bytes(of.code_hash), Buffer.from([HASH_TYPES[of.hash_type]]), data(bytes(of.args))]);
}

function output(of: Output): Buffer {
  return table([number(of.capacity, 8), script(of.lock), of.type ? script(of.type) : Buffer.alloc(0)]);
}

function outPoint(of: OutPoint): Buffer {
  return Buffer.concat([bytes(of.tx_hash), number(of.index, 4)]);
}

function input(of: Input): Buffer {
  return Buffer.concat([number(of.since, 8), outPoint(of.previous_output)]);
}

function cellDep(of: CellDep): Buffer {
  return Buffer.concat([outPoint(of.out_point), Buffer.from([DEP_TYPES[of.dep_type]])]);
}

function transaction(tx: Mock["tx"]): Buffer {
  const raw = table([
    number(tx.version, 4),
    fixvec(tx.cell_deps.map(cellDep)),
    fixvec(tx.header_deps.map(bytes)),
    fixvec(tx.inputs.map(input)),
    table(tx.outputs.map(output)),
    table(tx.outputs_data.map((content) => data(bytes(content)))),
  ]);
  return table([raw, table(tx.witnesses.map((witness) => data(bytes(witness))))]);
}

function header(of: Record<string, string>): Buffer {
  const numbers: [string, number][] = [
    ["version", 4],
    ["compact_target", 4],
    ["timestamp", 8],
    ["number", 8],
    ["epoch", 8],
  ];
  const hashes = ["parent_hash", "transactions_root", "proposals_hash", "extra_hash", "dao"];
  return Buffer.concat([
    ...numbers.map(([key, width]) => number(of[key], width)),
    ...hashes.map((key) => bytes(of[key])),
    number(of.nonce, 16),
  ]);
}

/** The fields of a mock transaction. `name` gives the digest under which data goes, or nothing. */
export function fieldsOf(mock: Mock, name: (data: Buffer) => string | undefined): TransactionFields {
  const { mock_info: info, tx } = mock;
  const cell = (entry: Cell): CellFields => {
    const content = bytes(entry.data);
    const digest = name(content);
    return {
      output: output(entry.output),
      ...(digest ? { data_sha256: digest } : { data: content }),
      ...(entry.header ? { block_hash: bytes(entry.header) } : {}),
    };
  };
  const key = (of: Input) => outPoint(of.previous_output).toString("hex");
  const given = new Map(info.inputs.map((entry) => [key(entry.input), entry]));
  const spent = tx.inputs.map((entry) => {
    const found = given.get(key(entry));
    if (!found) {
      throw new Error(`no entry of mock_info.inputs gives the cell ${entry.previous_output.tx_hash}:${entry.previous_output.index}`);
    }
    return found;
  });
  return {
    tx: transaction(tx),
    inputs: spent.map(cell),
    cell_deps: info.cell_deps.map((entry) => ({ out_point: outPoint(entry.cell_dep.out_point), cell: cell(entry) })),
    headers: info.header_deps.map(header),
    extensions: (info.extensions ?? []).map(([block, extension]) => ({
      block_hash: bytes(block),
      extension: bytes(extension),
    })),
  };
}
