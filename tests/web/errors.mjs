// errors.mjs - tests the errors of vit.mjs about arguments, models and sources, and checks that no
// memory leaks.
//
//     node --expose-gc tests/web/errors.mjs MODEL.vit TINY.vit
//
// The test opens TINY cut at every byte, so TINY should be small. The last line is "N passed, N
// failed".
import { openAsBlob } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { pathToFileURL } from 'node:url';
import { Engine } from '../../examples/web/vit/engine.mjs';
import { loadModule } from '../../examples/web/vit/load.mjs';
import { Model, VitError } from '../../examples/web/vit/vit.mjs';
import { check, summary } from '../checks.mjs';
import { equal, noise } from './native.mjs';

const [path, tinyPath] = process.argv.slice(2);
const bytes = await readFile(path), tiny = await readFile(tinyPath);
const photo = noise(40, 30);
const one = { threads: 1 };

async function errorOf(action) {
    try {
        await action();
    } catch (error) {
        return error;
    }
    return new Error('no error');
}

async function throws(action, type, text, what) {
    const error = await errorOf(action);
    check(error instanceof type && error.message.includes(text), `${what}: ${error.message}`);
    return error;
}

// --- arguments ---------------------------------------------------------------------------------

const model = await Model.open(bytes, one);
const wanted = model.run(photo, { logits: true }).logits;
const { num_tokens: count, embed_dim: dim } = model.info.config;
const vector = new Float32Array(3);
const other = (changes) => ({ ...photo, ...changes });

const wrongTypes = {
    'no photo': () => model.classify(),
    'a null photo': () => model.classify(null),
    'a number': () => model.classify(5),
    'pixels alone': () => model.classify(photo.data),
    'no pixels': () => model.classify({ width: 1, height: 1 }),
    'pixels of 16 bits': () => model.classify(other({ data: new Uint16Array(3600) })),
    'a list of pixels': () => model.classify(other({ data: Array.from(photo.data) })),
    'a width that is text': () => model.classify(other({ width: '40' })),
    'a width that is NaN as text': () => model.preprocess(other({ width: undefined })),
    'an input of doubles': () => model.run(new Float64Array(3072), { logits: true }),
    'a top that is text': () => model.classify(photo, '3'),
    'a block that is text': () => model.run(photo, { blocks: ['1'] }),
    'no point': () => model.patchAt(photo, 1),
    'no size': () => model.crop(),
    'no vectors': () => model.cosine(),
    'one vector': () => model.cosine(vector),
    'no logits': () => model.scores([1, 2]),
    'tokens that are a list': () => model.similarity([{ tokens: [1] }], 0),
    'no model': () => new Model(null, 0, {}),
};
const wrongRanges = {
    'an empty photo': () => model.classify(other({ width: 0 })),
    'a negative height': () => model.classify(other({ height: -30 })),
    'half a pixel': () => model.classify(other({ width: 40.5 })),
    'NaN pixels': () => model.classify(other({ width: NaN })),
    'too large a photo': () => model.preprocess(other({ width: 2 ** 20 + 1 })),
    'far too large a photo': () => model.preprocess(other({ width: 2 ** 40 })),
    'too few pixels': () => model.classify(other({ height: 31 })),
    'too many pixels': () => model.classify(other({ height: 29 })),
    'rgb taken for rgba': () => model.classify(other({ format: undefined })),
    'no such format': () => model.classify(other({ format: 'cmyk8' })),
    'a format of all objects': () => model.classify(other({ format: 'toString' })),
    'a stride too short': () => model.classify(other({ stride: 119 })),
    'a stride too long': () => model.classify(other({ stride: 121 })),
    'a huge stride': () => model.classify(other({ stride: 2 ** 31 })),
    'a negative stride': () => model.classify(other({ stride: -120 })),
    'a short input': () => model.classify(new Float32Array(3071)),
    'a long input': () => model.run(new Float32Array(3073), { logits: true }),
    'no top': () => model.classify(photo, 0),
    'a negative top': () => model.classify(photo, -1),
    'half a top': () => model.classify(photo, 1.5),
    'nothing wanted': () => model.run(photo, {}),
    'nothing wanted at all': () => model.run(photo),
    'nothing of a block': () => model.run(photo, { blocks: [0], blockTokens: false }),
    'a block too far': () => model.run(photo, { blocks: [model.info.config.depth] }),
    'block -1': () => model.run(photo, { blocks: [0, -1] }),
    'half a block': () => model.attention(photo, { block: 0.5 }),
    'a head too far': () => model.attention(photo, { head: model.info.config.num_heads }),
    'head -1': () => model.attention(photo, { head: -1 }),
    'a patch too far': () => model.rollout(photo, { patch: 64 }),
    'patch -1': () => model.similarity([photo], -1),
    'no photos': () => model.principalComponents([]),
    'too few tokens': () => model.similarity([{ tokens: new Float32Array(count * dim - 1) }], 0),
    'no such positions': () => model.positions({ kind: 'none' }),
    'positions of all objects': () => model.positions({ kind: 'constructor' }),
    'vectors of two lengths': () => model.cosine(vector, new Float32Array(4)),
    'logits too many': () => model.scores(new Float32Array(11)),
};

for (const [what, call] of Object.entries(wrongTypes)) await throws(call, TypeError, '', what);
for (const [what, call] of Object.entries(wrongRanges)) await throws(call, RangeError, '', what);
const kind = await throws(() => model.positions({ kind: 'rotary' }), VitError,
                          'no positions of the kind rotary', 'rotary');
check(kind.result === -9 && kind.resultString.includes('not supported'), `${kind.resultString}`);
check(equal(model.run(photo, { logits: true }).logits, wanted), 'the same logits afterwards');

// These photos have the same colours in other formats.
const rgba = Uint8ClampedArray.from({ length: 4800 }, (_, i) =>
    (i % 4 === 3 ? i : photo.data[3 * (i >> 2) + i % 4]));
const wide = new Uint8Array(130 * 30);
const bgr = photo.data.map((_, i) => photo.data[i - i % 3 + 2 - i % 3]);
for (let y = 0; y < 30; y++) wide.set(photo.data.subarray(120 * y, 120 * y + 120), 130 * y);
const alike = {
    rgba8: { width: 40, height: 30, data: rgba },
    stride: other({ data: wide, stride: 130 }),
    'stride, cut': other({ data: wide.subarray(0, 130 * 29 + 120), stride: 130 }),
    bgr8: other({ data: bgr, format: 'bgr8' }),
    input: model.preprocess(photo),
};
for (const [what, same] of Object.entries(alike)) {
    check(equal(model.run(same, { logits: true }).logits, wanted), what);
}

// --- memory ------------------------------------------------------------------------------------

const calls = [
    () => model.classify(photo), () => model.preprocess(photo), () => model.crop(photo),
    () => model.patchAt(photo, 3, 4), () => model.rollout(photo), () => model.attention(photo),
    () => model.run(photo, { logits: true, embedding: true, tokens: true, blocks: [0, 3, 3],
                             blockTokens: true, attention: true }),
    () => model.principalComponents([photo, photo], { foreground: true }),
    () => model.similarity([photo], 5), () => model.positions(), () => model.cosine(vector, vector),
    () => model.scores(wanted),
];
calls.forEach((call) => call());
const before = model.memory;
for (let i = 0; i < 20; i++) calls.forEach((call) => call());
for (const action of Object.values(wrongRanges)) await errorOf(action);
check(model.memory === before, `calls took ${model.memory - before} bytes`);

const methods = ['classify', 'preprocess', 'crop', 'patchAt', 'run', 'scores', 'attention',
                 'rollout', 'principalComponents', 'similarity', 'positions', 'cosine'];
model.close();
model.close();
check(model.closed, 'it is closed');
for (const method of methods) {
    await throws(() => model[method](photo, 1), Error, 'the model is closed', `closed: ${method}`);
}
await throws(() => model.memory, Error, 'the model is closed', 'closed: memory');
check(model.labels.length === 10 && model.info.config.depth > 0, 'its card is still there');

// Opens many models in the same memory, and then many models that each have a memory of their own.
const url = new URL('../../examples/web/vit/vit-scalar.wasm', import.meta.url);
const engine = await Engine.start(await loadModule(url, false), 1);
function openIn(data) {
    const at = engine.allocate(data.length);
    engine.bytes(at, data.length).set(data);
    return engine.call('open', at, data.length, 1, 1);
}
function sizeAfter(times) {
    for (let i = 0; i < times; i++) {
        const handle = openIn(bytes);
        engine.release(engine.attempt('info', handle));
        engine.call('close', handle);
        check(openIn(bytes.subarray(0, -1)) === 0, 'a byte less is refused');
    }
    return engine.memory.buffer.byteLength;
}
const size = sizeAfter(2);
check(sizeAfter(200) === size, `200 models took ${sizeAfter(0) - size} bytes`);

async function residentAfter(times, options) {
    for (let i = 0; i < times; i++) {
        const opened = await Model.open(bytes, options);
        opened.close();
        if (i % 20 === 0) globalThis.gc();
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    globalThis.gc();
    return process.memoryUsage().rss / 2 ** 20;
}
for (const [times, threads] of [[200, 1], [30, 2]]) {
    const resident = await residentAfter(20, { threads });
    const grown = await residentAfter(times, { threads }) - resident;
    // leaks would exceed a gigabyte
    check(grown < 100, `${times} models of ${threads} threads took ${grown} MB`);
}
for (let i = 0; i < 5; i++) (await Model.open(bytes, { threads: 6 })).close();
await new Promise((resolve) => setTimeout(resolve, 1000));
const workers = process.getActiveResourcesInfo().filter((name) => name === 'MessagePort').length;
check(workers === 0, `${workers} workers outlived their models, closed before all had started`);

const beyond = await throws(() => engine.allocate(2 ** 32), VitError, 'out of memory', '4 GB');
check(beyond.result === -3, `result ${beyond.result}`);
await throws(() => engine.allocate(2 ** 40), VitError, 'out of memory', 'more than any');
engine.allocate(2 ** 31); // later addresses have their highest bit set
const high = openIn(bytes);
const card = JSON.parse(engine.text(engine.attempt('info', high)));
check(high >>> 0 > 2 ** 31 && card.config.depth > 0, 'a model above 2 GB');
engine.close();

// --- models ------------------------------------------------------------------------------------

for (let length = 0; length < tiny.length; length++) {
    const error = await errorOf(() => Model.open(tiny.subarray(0, length), one));
    check(error instanceof VitError && error.result < 0 && error.message.length > 10,
          `${length} bytes: ${error.message}`);
    if (length % 200 === 0) globalThis.gc();
}
let state = 1;
for (let i = 0; i < 300; i++) {
    const damaged = Uint8Array.from(tiny);
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    damaged[state % tiny.length] ^= 1 << (state >>> 29);
    const error = await errorOf(() => Model.open(damaged, one));
    check(error instanceof VitError, `bit of byte ${state % tiny.length}: ${error.message}`);
}
const smallest = await Model.open(tiny, one);
check(smallest.classify(photo, 1)[0].label === null, 'a model without labels');
smallest.close();

// --- sources -----------------------------------------------------------------------------------

const server = createServer((request, response) => {
    const cut = request.url === '/cut.vit' ? bytes.subarray(0, 100000) : bytes;
    if (request.url === '/none.vit') response.writeHead(404);
    else if (request.url !== '/chunked.vit') response.setHeader('content-length', cut.length);
    if (request.url === '/broken.vit') {
        response.write(bytes.subarray(0, 100000), () => response.destroy());
    } else {
        response.end(cut);
    }
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const address = (name) => `http://127.0.0.1:${server.address().port}/${name}.vit`;

const padded = new Uint8Array(bytes.length + 5);
padded.set(bytes, 5);
const sources = {
    'an ArrayBuffer': () => padded.slice(5).buffer,
    'part of an array': () => padded.subarray(5),
    'a Blob': () => new Blob([bytes]),
    'a file as a Blob': () => openAsBlob(path),
    'a path': () => path,
    'a file URL': () => pathToFileURL(path),
    'its text': () => pathToFileURL(path).href,
    'an address': () => address('model'),
    'an address without a length': () => new URL(address('chunked')),
    'a Response': () => fetch(address('model')),
};
for (const [what, source] of Object.entries(sources)) {
    let read = 0;
    const opened = await Model.open(await source(), {
        ...one, onProgress: (now) => { read = now; } });
    check(equal(opened.run(photo, { logits: true }).logits, wanted), what);
    check(read === bytes.length, `${what}: read ${read} bytes`);
    opened.close();
}
const unreadable = {
    'no file': [`${path}.none`, 'ENOENT'],
    'a folder': ['tests', 'EISDIR'],
    'no such address': [address('none'), 'HTTP status 404'],
    'a connection that breaks': [address('broken'), ''],
    'nobody listens': ['http://127.0.0.1:1/model.vit', ''],
    'no such scheme': ['gopher://127.0.0.1/model.vit', ''],
};
for (const [what, [source, text]] of Object.entries(unreadable)) {
    const error = await throws(() => Model.open(source, one), VitError, text, what);
    check(error.result === -2 && error.message.startsWith(error.resultString), `${what}: result`);
}
await throws(() => Model.open(address('cut'), one), VitError, 'shorter', 'a cut file');
server.close();

await throws(() => Model.open(), TypeError, 'a .vit file', 'no source');
await throws(() => Model.open({}), TypeError, 'a .vit file', 'an object');
await throws(() => Model.open(bytes, { threads: 0 }), RangeError, 'threads', 'no threads');
await throws(() => Model.open(bytes, { threads: 'two' }), TypeError, 'threads', 'threads as text');
await throws(() => Model.open(bytes, { module: 'fast' }), RangeError, 'fast', 'no such module');
await throws(() => Model.open(bytes, { base: 'file:///none/' }), Error, 'ENOENT', 'no modules');
const scalar = await Model.open(bytes, { module: 'scalar', threads: 4 });
check(scalar.threads === 1 && scalar.info.isa === 'scalar', 'no threads without SIMD');
scalar.close();

summary();
