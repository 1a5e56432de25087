// Runs a WASI program as a command: node wasi.mjs PROGRAM.wasm WORD... It sees the current folder, and what is below
// the folders that ANTARES_WASI_FOLDERS names, separated by colons.
import { readFile } from 'node:fs/promises';
import process, { argv, cwd, env } from 'node:process';
import { WASI } from 'node:wasi';

const folders = (env.ANTARES_WASI_FOLDERS ?? '').split(':').filter(Boolean);
const preopens = Object.fromEntries([['.', cwd()], ...folders.map((folder) => [folder, folder])]);
const wasi = new WASI({ version: 'preview1', args: argv.slice(2), env, preopens, returnOnExit: true });
const module = await WebAssembly.compile(await readFile(argv[2]));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
