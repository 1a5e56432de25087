// Runs ckb-debugger (a WASI program) on files in memory. Nothing leaves this worker but its answer.

const NOT_A_FILE = 8, NO_ENTRY = 44, NOT_SUPPORTED = 58;
const REGULAR = 4, FOLDER = 3, CHARACTERS = 2;
const CREATE = 1, TRUNCATE = 8;

class Ended extends Error {
  constructor(status) { super(`ended with ${status}`); this.status = status; }
}

class System {
  constructor(words, files) {
    this.words = words.map((word) => new TextEncoder().encode(`${word}\0`));
    this.files = files;
    this.open = new Map([[0, { kind: CHARACTERS }], [1, { kind: CHARACTERS, parts: [] }],
      [2, { kind: CHARACTERS, parts: [] }], [3, { kind: FOLDER }]]);
    this.next = 4;
  }

  get view() { return new DataView(this.memory.buffer); }
  bytes(at, length) { return new Uint8Array(this.memory.buffer, at, length); }
  text(parts) { return new TextDecoder().decode(concatenated(parts)); }
  name(at, length) { return new TextDecoder().decode(this.bytes(at, length)).replace(/^(\.?\/)+/, ''); }

  *pieces(at, count) {
    for (let piece = 0; piece < count; piece++) {
      yield this.bytes(this.view.getUint32(at + 8 * piece, true), this.view.getUint32(at + 8 * piece + 4, true));
    }
  }

  stat(at, kind, size) {
    this.bytes(at, 64).fill(0);
    this.view.setUint8(at + 16, kind);
    this.view.setBigUint64(at + 24, 1n, true);
    this.view.setBigUint64(at + 32, BigInt(size), true);
    return 0;
  }

  calls() {
    const known = {
      args_sizes_get: (count, size) => {
        this.view.setUint32(count, this.words.length, true);
        this.view.setUint32(size, this.words.reduce((sum, word) => sum + word.length, 0), true);
        return 0;
      },
      args_get: (pointers, at) => {
        for (const word of this.words) {
          this.view.setUint32(pointers, at, true);
          this.bytes(at, word.length).set(word);
          pointers += 4;
          at += word.length;
        }
        return 0;
      },
      environ_sizes_get: (count, size) => {
        this.view.setUint32(count, 0, true);
        this.view.setUint32(size, 0, true);
        return 0;
      },
      environ_get: () => 0,
      clock_time_get: (_clock, _precision, at) => {
        this.view.setBigUint64(at, BigInt(Date.now()) * 1000000n, true);
        return 0;
      },
      random_get: (at, length) => {
        for (let done = 0; done < length; done += 65536) {
          crypto.getRandomValues(this.bytes(at + done, Math.min(65536, length - done)));
        }
        return 0;
      },
      sched_yield: () => 0,
      proc_exit: (status) => { throw new Ended(status); },
      fd_close: (number) => (this.open.delete(number) ? 0 : NOT_A_FILE),
      fd_fdstat_get: (number, at) => {
        const file = this.open.get(number);
        if (!file) return NOT_A_FILE;
        this.bytes(at, 24).fill(0);
        this.view.setUint8(at, file.kind);
        this.view.setBigUint64(at + 8, ~0n & 0xffffffffffffffffn, true);
        this.view.setBigUint64(at + 16, ~0n & 0xffffffffffffffffn, true);
        return 0;
      },
      fd_prestat_get: (number, at) => {
        if (number !== 3) return NOT_A_FILE;
        this.view.setUint32(at, 0, true);
        this.view.setUint32(at + 4, 1, true);
        return 0;
      },
      fd_prestat_dir_name: (_number, at) => { this.bytes(at, 1)[0] = 46; return 0; },
      fd_read: (number, at, count, told) => {
        const file = this.open.get(number);
        if (!file) return NOT_A_FILE;
        let read = 0;
        for (const piece of this.pieces(at, count)) {
          const bytes = file.name === undefined ? new Uint8Array() : this.files.get(file.name);
          const part = bytes.subarray(file.at, file.at + piece.length);
          piece.set(part);
          file.at += part.length;
          read += part.length;
        }
        this.view.setUint32(told, read, true);
        return 0;
      },
      fd_write: (number, at, count, told) => {
        const file = this.open.get(number);
        if (!file) return NOT_A_FILE;
        let written = 0;
        for (const piece of this.pieces(at, count)) {
          if (file.parts) file.parts.push(piece.slice());
          else {
            const bytes = this.files.get(file.name);
            const whole = new Uint8Array(Math.max(bytes.length, file.at + piece.length));
            whole.set(bytes);
            whole.set(piece, file.at);
            this.files.set(file.name, whole);
            file.at += piece.length;
          }
          written += piece.length;
        }
        this.view.setUint32(told, written, true);
        return 0;
      },
      fd_seek: (number, offset, whence, told) => {
        const file = this.open.get(number);
        if (!file || file.name === undefined) return NOT_A_FILE;
        const base = [0, file.at, this.files.get(file.name).length][whence];
        file.at = Math.max(0, base + Number(offset));
        this.view.setBigUint64(told, BigInt(file.at), true);
        return 0;
      },
      path_filestat_get: (_number, _flags, at, length, told) => {
        const name = this.name(at, length);
        if (name === '' || name === '.') return this.stat(told, FOLDER, 0);
        const bytes = this.files.get(name);
        return bytes ? this.stat(told, REGULAR, bytes.length) : NO_ENTRY;
      },
      path_open: (_number, _look, at, length, flags, _base, _inherited, _modes, told) => {
        const name = this.name(at, length);
        if (!this.files.has(name) && !(flags & CREATE)) return NO_ENTRY;
        if (!this.files.has(name) || flags & TRUNCATE) this.files.set(name, new Uint8Array());
        this.open.set(this.next, { kind: REGULAR, name, at: 0 });
        this.view.setUint32(told, this.next++, true);
        return 0;
      },
    };
    return new Proxy(known, { get: (calls, name) => calls[name] ?? (() => NOT_SUPPORTED) });
  }
}

function concatenated(parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

let program;

async function run(words, files) {
  program ??= WebAssembly.compileStreaming(fetch('ckb-debugger.wasm'));
  const module = await program;
  const system = new System(['ckb-debugger', ...words], files);
  const calls = system.calls();
  const imports = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, calls[name]]));
  const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: imports });
  system.memory = instance.exports.memory;
  let status = 0;
  try {
    instance.exports._start();
  } catch (ended) {
    if (!(ended instanceof Ended)) throw ended;
    status = ended.status;
  }
  return { status, out: system.text(system.open.get(1).parts), err: system.text(system.open.get(2).parts) };
}

onmessage = async ({ data: { given: parts, script, args } }) => {
  try {
    // A transaction may name scripts that are beside it.
    const isTransaction = ([, bytes]) => bytes.find((byte) => byte > 32) === 0x7b;
    const transaction = parts.find(isTransaction);
    const given = transaction ? ['--tx-file', transaction[0], '--script', script] : ['--bin', parts[0][0]];
    const files = () => new Map(parts);
    const verdict = await run([...given, ...(args.length ? ['--', ...args] : [])], files());
    postMessage({ verdict });
    const watched = files();
    const words = ['--enable-flamegraph', '--flamegraph-output', 'flame', ...(args.length ? ['--', ...args] : [])];
    const looked = await run([...given, ...words], watched);
    const flame = watched.get('flame');
    postMessage({ flame: flame ? new TextDecoder().decode(flame) : '', why: looked.out + looked.err });
  } catch (error) {
    postMessage({ failure: String(error) });
  }
};
