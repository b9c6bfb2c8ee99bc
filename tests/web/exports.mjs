// exports.mjs - calls the module's exports with invalid numbers: invalid pointers, pointers into
// other data, arbitrary lengths. Each call, and the allocation after it, must return or trap.
// Releasing memory twice must trap.
//
//     node tests/web/exports.mjs MODEL.vit WIDE.vit
//
// The attention of a block of WIDE takes a few megabytes more than 4 GB.
//
// A worker makes the calls, so that an endless call is detected. The last line is "N passed, N
// failed".
import { readFile } from 'node:fs/promises';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import { Engine } from '../../examples/web/vit/engine.mjs';
import { chooseModules } from '../../examples/web/vit/features.mjs';
import { loadModule } from '../../examples/web/vit/load.mjs';
import { Model } from '../../examples/web/vit/vit.mjs';
import { check, summary } from '../checks.mjs';

const PATIENCE = 20000; // milliseconds for a worker to start and make all calls of an export
const source = new URL('../../examples/web/vit/', import.meta.url);

/** The types of the parameters: m is a model, p a pointer, i an integer, d a double. */
const signatures = {
    open: 'piii', close: 'm', result_string: 'i', info: 'm', sizes: 'm', input: 'm',
    preprocess: 'mpiiii', classify: 'mi', top: 'm', scores: 'mp', forward: 'mppi',
    fit: 'mii',
    attention: 'miiip', components: 'mppiipp', similarity: 'ppiip', positions: 'miipp',
    crop: 'miip', patch_at: 'miidd', allocate: 'i', release: 'p', result: '', message: '',
};
const wild = {
    p: [0, 1, 4, -4, 2 ** 31 - 4, -(2 ** 31), -65536],
    i: [0, -1, 1, 2 ** 31 - 1, -(2 ** 31), 65537],
    d: [0, -1, NaN, Infinity, 1e300],
};
const HALF = 1 << 19; // contents of the bytes at p: zeros, then noise

/** For each parameter, yields every wrong value together with right values of the other parameters.
 * Then yields calls whose parameters are all wrong. */
function* callsOf(signature, right, { m, p }) {
    const pointers = [...wild.p, p, p + HALF, m + 64];
    const valuesOf = (kind) => ('mp'.includes(kind) ? pointers : wild[kind]);
    yield* [...signature].flatMap((kind, at) =>
        valuesOf(kind).map((value) => right.map((other, i) => (i === at ? value : other))));
    for (let i = 0; i < 10; i++) {
        yield [...signature].map((kind) => valuesOf(kind)[i % valuesOf(kind).length]);
    }
}

/** Returns an instance with a model, and valid parameters for each function. */
async function begin(module, bytes) {
    const engine = await Engine.start(module, 1);
    const copy = () => {
        const at = engine.allocate(bytes.length);
        engine.bytes(at, bytes.length).set(bytes);
        return at;
    };
    const m = engine.attempt('open', copy(), bytes.length, 1, 1) >>> 0;
    const p = engine.allocate(2 * HALF);
    engine.bytes(p, HALF).fill(0);
    const grid = engine.allocate(8);
    engine.integers(grid, 2).fill(2);
    engine.bytes(p + HALF, HALF).forEach((_, i, all) => { all[i] = i * 0x9e3779b1 >>> 24; });
    const right = {
        open: () => [copy(), bytes.length, 1, 1], close: () => [m], result_string: () => [-1],
        preprocess: () => [m, p, 8, 8, 24, 0], classify: () => [m, 1], scores: () => [m, p],
        forward: () => [m, p, p, 0], attention: () => [m, 0, 0, 0, p],
        components: () => [m, p, grid, 1, 0, p, p], fit: () => [m, 8, 8], similarity: () => [p, p, 1, 4, p],
        positions: () => [m, -1, 0, p, p], crop: () => [m, 8, 8, p],
        patch_at: () => [m, 8, 8, 1, 1], allocate: () => [64], release: () => [p],
    };
    return { engine, m, p, rightOf: (name) =>
        right[name]?.() ?? [...signatures[name]].map((kind) => ({ m, p, i: 1, d: 1 })[kind]) };
}

/** Makes all calls of one export, and counts their results. */
async function callAll({ file, name, bytes }) {
    const module = await loadModule(new URL(file, source), false);
    const ends = { returned: 0, refused: 0, trapped: 0 };
    let most = 0;
    const { rightOf: first, ...at } = await begin(module, bytes);
    for (const parameters of callsOf(signatures[name], first(name), at)) {
        const { engine } = await begin(module, bytes);
        const { exports, memory } = engine;
        parentPort.postMessage({ at: parameters });
        try {
            const returned = exports[name](...parameters);
            ends[returned === 0 ? 'refused' : 'returned']++;
            // The next calls may trap, but must not hang.
            for (const size of [16, 70000]) exports.release(exports.allocate(size));
        } catch (error) {
            if (!(error instanceof WebAssembly.RuntimeError)) throw error;
            ends.trapped++;
        }
        most = Math.max(most, memory.buffer.byteLength);
    }
    return { ends, most };
}

/** Runs callAll() in a worker, which can be terminated. */
function watched(data) {
    const worker = new Worker(new URL(import.meta.url), { workerData: data });
    let last = null, timer = null;
    return new Promise((done) => {
        timer = setTimeout(() => done({ stuck: last }), PATIENCE);
        worker.on('message', (message) => (message.at ? last = message.at : done(message)));
        worker.on('error', (error) => done({ failed: `${error.message} at ${last}` }));
    }).finally(() => {
        clearTimeout(timer);
        worker.terminate();
    });
}

async function main() {
    const bytes = await readFile(process.argv[2]);
    const file = chooseModules().find((choice) => choice.kind === 'simd').file;
    const module = await loadModule(new URL(file, source), false);
    const known = WebAssembly.Module.exports(module).map(({ name }) => name)
        .filter((name) => !/^(run|_.*|memory)$/.test(name));
    check(known.every((name) => signatures[name] !== undefined),
          `exports without a signature here: ${known.filter((name) => !(name in signatures))}`);
    for (const name of known) {
        const { stuck, failed, ends, most } = await watched({ file, name, bytes });
        check(!stuck, `${name}: no end with ${stuck}`);
        check(!failed, `${name}: ${failed}`);
        if (ends) console.log(`${name}: ${JSON.stringify(ends)}, ${most / 2 ** 20} MB`);
    }
    const { engine, p } = await begin(module, bytes);
    engine.release(p);
    let said = 'nothing';
    try {
        engine.release(p);
    } catch ({ message }) {
        said = message;
    }
    check(/has stopped in release/.test(said), `released twice: ${said}`);

    const wide = await Model.open(process.argv[3], { threads: 1 });
    const { in_chans: chans, img_height: height, img_width: width } = wide.info.config;
    try {
        wide.rollout(new Float32Array(chans * height * width));
        said = 'nothing';
    } catch ({ message }) {
        said = message;
    }
    check(/out of memory/.test(said) && !wide.closed, `attention beyond 4 GB: ${said}`);
    wide.close();
    summary();
}

if (isMainThread) await main();
else parentPort.postMessage(await callAll(workerData));
