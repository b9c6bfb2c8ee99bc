// wasm_pool.mjs - the pool of workers where something goes wrong, and a memory that grows.
//
//     node tests/wasm_pool.mjs MODULE.wasm MODEL.vit
//
// MODULE has shared memory. The last line is "N passed, N failed".
import { readFileSync } from 'node:fs';
import { Pool } from '../examples/wasm/pool.mjs';
import { Classifier } from '../examples/wasm/vit.mjs';
import { check, summary } from './checks.mjs';

const [wasm, model] = process.argv.slice(2);
const module = await WebAssembly.compile(readFileSync(wasm));
const bytes = readFileSync(model);
const SIDE = 64;
const pixels = Uint8Array.from({ length: 4 * SIDE * SIDE }, (_, i) => (i * 2654435761) >>> 24);

async function fails(action, wanted, what) {
    const message = await action().then(() => 'no error', (error) => error.message);
    check(message.includes(wanted), `${what}: ${message}`);
}

const workerOf = (text) => new URL(`data:text/javascript,${encodeURIComponent(text)}`);
const starting = (text) => () => Pool.start(module, 3, workerOf(text));

await fails(() => Pool.start(module, 3, new URL('none.mjs', import.meta.url)),
            'a worker does not start: ', 'no file');
await fails(starting('a word too many'), 'a worker does not start: ', 'no JavaScript');
await fails(starting('throw new Error("broken")'), 'a worker does not start: broken', 'throws');
await fails(starting('process.exit(3)'), 'it ended with code 3', 'exits');
await fails(starting('import { parentPort } from "node:worker_threads";' +
                     'parentPort.once("message", () => parentPort.postMessage("no memory"));'),
            'a worker does not start: no memory', 'says why');
await fails(() => Classifier.open(module, new Uint8Array(64), 3), '.vit', 'no model');

// A task that traps: index 1 calls a function that is not there.
const pool = await Pool.start(module, 2);
let message = 'no error';
try {
    pool.parallelFor(8, 0x7fffffff, 0);
} catch (error) {
    message = error.message;
}
check(message === 'a worker has failed', `a task that traps: ${message}`);
pool.close();

/** In the same memory, which grows for every one of them. */
async function logitsOf(threads, extra) {
    const classifier = await Classifier.open(module, bytes, threads);
    const before = classifier.memory.buffer.byteLength;
    for (let i = 0; i < extra; i++) classifier.copy(new Uint8Array(1 << 24));
    classifier.classify(pixels, SIDE, SIDE);
    const logits = classifier.logits();
    const grown = classifier.memory.buffer.byteLength - before;
    check(grown >= extra << 24, `${threads} threads: the memory grew by ${grown} bytes`);
    classifier.close();
    return logits;
}
const wanted = await logitsOf(1, 0);
for (const threads of [2, 4, 9]) {
    const logits = await logitsOf(threads, 4);
    check(logits.every((x, i) => Object.is(x, wanted[i])), `${threads} threads: other bits`);
}

// Again and again, with more workers than CPUs: no index is lost, none is computed twice.
const busy = await Classifier.open(module, bytes, 4);
for (let i = 0; i < 30; i++) {
    busy.classify(pixels, SIDE, SIDE);
    check(busy.logits().every((x, k) => Object.is(x, wanted[k])), `run ${i}: other bits`);
}
// It is not closed: workers that wait keep no program from ending.

summary();
