// wasm_pool.mjs - tests failures in the pool of workers, and a growing memory.
//
//     node tests/wasm_pool.mjs MODEL.vit
//
// The last line is "N passed, N failed".
import { readFileSync } from 'node:fs';
import { Pool } from '../examples/web/vit/pool.mjs';
import { Model } from '../examples/web/vit/vit.mjs';
import { check, summary } from './checks.mjs';

const [path] = process.argv.slice(2);
const url = new URL('../examples/web/vit/vit.wasm', import.meta.url);
const module = await WebAssembly.compile(readFileSync(url));
const bytes = readFileSync(path);
const SIDE = 64;
const data = Uint8Array.from({ length: 4 * SIDE * SIDE }, (_, i) => (i * 2654435761) >>> 24);
const photo = { width: SIDE, height: SIDE, data };

async function fails(action, wanted, what) {
    const message = await action().then(() => 'no error', (error) => error.message);
    check(message.includes(wanted), `${what}: ${message}`);
}

const workerOf = (text) => new URL(`data:text/javascript,${encodeURIComponent(text)}`);
const start = (url) => () => new Pool(module, 3).start(url);
const starting = (text) => start(workerOf(text));

await fails(start(new URL('none.mjs', import.meta.url)),
            'a worker does not start: ', 'no file');
await fails(starting('a word too many'), 'a worker does not start: ', 'no JavaScript');
await fails(starting('throw new Error("broken")'), 'a worker does not start: broken', 'throws');
await fails(starting('process.exit(3)'), 'it ended with code 3', 'exits');
await fails(starting('import { parentPort } from "node:worker_threads";' +
                     'parentPort.once("message", () => parentPort.postMessage("no memory"));'),
            'a worker does not start: no memory', 'says why');
await fails(() => Model.open(new Uint8Array(64), { threads: 3 }), '.vit', 'no model');

// The function of this task is missing, so each of its indices traps.
const pool = new Pool(module, 2);
await pool.start();
let message = 'no error';
try {
    pool.parallelFor(8, 0x7fffffff, 0);
} catch (error) {
    message = error.message;
}
check(message === 'a worker has failed', `a task that traps: ${message}`);
pool.close();

/** Computes logits after a photo of this side, for which the memory must grow if it is large. */
async function logitsOf(threads, side) {
    const model = await Model.open(bytes, { threads });
    const before = model.memory;
    model.preprocess({ width: side, height: side, data: new Uint8Array(4 * side * side) });
    const grown = model.memory - before;
    check(side === SIDE || grown >= 4 * side * side, `${threads} threads: grew by ${grown} bytes`);
    const { logits } = model.run(photo, { logits: true });
    model.close();
    return logits;
}
const wanted = await logitsOf(1, SIDE);
for (const threads of [2, 4, 9]) {
    const logits = await logitsOf(threads, 4096);
    check(logits.every((x, i) => Object.is(x, wanted[i])), `${threads} threads: other bits`);
}

// In many runs on four threads, no index of a job may be lost or computed twice.
const busy = await Model.open(bytes, { threads: 4 });
check(busy.threads === 4, `${busy.threads} threads`);
for (let i = 0; i < 30; i++) {
    const { logits } = busy.run(photo, { logits: true });
    check(logits.every((x, k) => Object.is(x, wanted[k])), `run ${i}: other bits`);
}
// The pool stays open at the end, to test that waiting workers do not keep the program running.

summary();
