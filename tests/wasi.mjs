// wasi.mjs - runs a program compiled for wasm32-wasi: node tests/wasi.mjs PROGRAM.wasm ARGUMENTS...
// The program can access the current folder.
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args, preopens: { '.': '.' } });
const imports = { wasi_snapshot_preview1: wasi.wasiImport };
const { instance } = await WebAssembly.instantiate(await readFile(args[0]), imports);
process.exitCode = wasi.start(instance);
