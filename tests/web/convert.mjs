// convert.mjs - compares the converter in WebAssembly with the native converter: bytes, messages
// and status. It covers files that are read and written in pieces, damaged files, little memory and
// wrong arguments.
//
// node tests/web/convert.mjs VIT_CONVERT  (a native program, built with VIT_NO_FMA)
//
// WEB_TEST_DATA may name a folder with deit_tiny_patch16_224.safetensors, which is then converted
// too.
import { execFileSync, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Converter, checkpointAmong } from '../../examples/web/vit/convert.mjs';
import { Output } from '../../examples/web/vit/files.mjs';
import { check, summary } from '../checks.mjs';

const native = path.resolve(process.argv[2]);
const data = 'tests/data';
const work = path.resolve('build/wasm/convert');
const converter = await Converter.open();

const bytesOf = async (blob) => new Uint8Array(await blob.arrayBuffer());
const same = (a, b) => !!a && !!b && Buffer.compare(Buffer.from(a), Buffer.from(b)) === 0;

/** Returns { status, stderr, report, bytes } of the native program, which runs in a folder with
 * these files. */
function convertNatively(files, args, checkpoint, name) {
    fs.rmSync(work, { recursive: true, force: true });
    for (const file of files) {
        fs.mkdirSync(path.join(work, path.dirname(file.name)), { recursive: true });
        fs.writeFileSync(path.join(work, file.name), file.file);
    }
    const done = spawnSync(native, [...args, '--json', '-o', name, checkpoint], { cwd: work });
    const out = path.join(work, name);
    return {
        status: done.status,
        stderr: done.stderr.toString(),
        report: done.stdout.length ? JSON.parse(done.stdout) : null,
        bytes: done.status === 0 && fs.existsSync(out) ? fs.readFileSync(out) : null,
    };
}

let accepted = 0, refused = 0;
async function compare(title, files, args) {
    const ours = await converter.convert(files, args);
    const theirs = convertNatively(files, args, checkpointAmong(files.map((f) => f.name)),
        ours.name);
    const bytes = ours.output && await bytesOf(ours.output);
    check(ours.status === theirs.status, `${title}: status ${ours.status}, ${theirs.status}`);
    check(ours.stderr === theirs.stderr, `${title}: says\n${ours.stderr}not\n${theirs.stderr}`);
    check(JSON.stringify(ours.report) === JSON.stringify(theirs.report), `${title}: the report`);
    check(bytes ? same(bytes, theirs.bytes) : theirs.bytes === null, `${title}: the bytes`);
    if (ours.status === 0) accepted++;
    else refused++;
    return ours;
}

/** The module does not support GGUF, and its message must state this. */
async function refusesGguf(title, file) {
    const { status, stderr } = await converter.convert([file], []);
    const says = `vit-convert: ${file.name}: GGUF: not supported by this build; give the weights`;
    check(status === 1 && stderr.startsWith(says), `${title}: ${stderr}`);
}

const filesIn = (folder) => fs.readdirSync(folder)
    .filter((name) => fs.statSync(path.join(folder, name)).isFile())
    .map((name) => ({ name, file: fs.readFileSync(path.join(folder, name)) }));

/** Sorts the files so that the checkpoint comes first. */
const first = (files, name) => [...files].sort((a, b) => (b.name === name) - (a.name === name));

// --- every layout and every kind of file ---------------------------------------------------------

for (const [folder, every] of [['layouts', 1], ['own', 2]]) {
    const cases = fs.readFileSync(`${data}/${folder}/cases.txt`, 'utf8').trim().split('\n');
    for (let i = 0; i < cases.length; i += every) {
        const [name, file, args] = cases[i].split('|').map((text) => text.trim());
        const files = filesIn(`${data}/${folder}/${name}`);
        if (name.startsWith('gguf_')) {
            await refusesGguf(name, files[0]);
            continue;
        }
        const options = args.split(/\s+/).filter((word) => word);
        await compare(`${folder}/${name}`, first(files, file), options);
    }
}
check(accepted > 100 && refused > 20, `${accepted} accepted, ${refused} refused`);

for (const folder of ['checkpoints', 'modules']) {
    for (const file of filesIn(`${data}/${folder}`)) {
        if (/\.(txt|bin|json)$/.test(file.name)) continue;
        if (file.name.endsWith('.gguf')) await refusesGguf(file.name, file);
        else await compare(`${folder}/${file.name}`, [file], []);
    }
}
await compare('shards', filesIn(`${data}/checkpoints/shards`), []);

const told = ['--set', 'num_heads=2'];
const torchvision = filesIn(`${data}/layouts/torchvision`);
for (const dtype of ['f32', 'f16', 'bf16', 'int8', 'int4']) {
    await compare(dtype, torchvision, [...told, '--dtype', dtype]);
}
const labels = ['one', 'two', 'three', 'four', 'five', 'six', 'seven'].slice(0, 5).join('\n');
await compare('labels', [...torchvision, { name: 'labels.txt', file: Buffer.from(labels) }],
    [...told, '--labels', 'labels.txt']);
await compare('plan', torchvision, [...told, '--plan', '--img-size', '8', '--dynamic']);
await compare('a .vit', [{ name: 'cifar10.vit', file: fs.readFileSync('models/cifar10-vit.vit') }],
    ['--to', 'safetensors']);

// --- wrong arguments -----------------------------------------------------------------------------

const usage = await compare('an unknown option', torchvision, ['--colour']);
check(usage.status === 2 && usage.report === null && usage.output === null, 'usage');
await compare('an unknown type', torchvision, ['--dtype', 'int3']);
await compare('not there', torchvision, [...told, '--labels', 'none.txt']);
await compare('no checkpoint', [{ name: 'a.txt', file: Buffer.from('text') }], []);
await compare('empty', [{ name: 'a.pth', file: new Uint8Array(0) }], []);
const photos = await converter.convert(torchvision,
    [...told, '--dtype', 'int8', '--calibrate', '.']);
check(photos.status === 1 && photos.stderr.includes('this build reads no photos'), 'photos');

async function throws(title, type, text, work) {
    try {
        await work();
        check(false, `${title}: no exception`);
    } catch (error) {
        check(error instanceof type && error.message.includes(text), `${title}: ${error}`);
    }
}
const convert = (...values) => () => converter.convert(...values);
await throws('no files', TypeError, 'expected a checkpoint', convert([], []));
await throws('twice', TypeError, 'twice', convert([...torchvision, ...torchvision], []));
await throws('no file', TypeError, 'expected a Blob', convert([{ name: 'a.pth', file: 7 }], []));
await throws('-o', TypeError, '-o', convert(torchvision, ['-o', 'x.vit']));
await throws('no module', Error, 'ENOENT', () => Converter.open({ base: import.meta.url }));

const dashed = await converter.convert([{ name: '-q.pth', file: torchvision[0].file }], told);
check(dashed.status === 0 && dashed.name === '-q.vit' && dashed.output, 'a name like an option');
const taken = await converter.convert([...torchvision,
    { name: 'model.vit.tmp-1-0', file: Buffer.from('mine') }], told);
check(taken.status === 0 && taken.output.size > 4, 'a name that a temporary file has');
check(checkpointAmong(['config.json', 'b.pth', 'a.index.json']) === 'a.index.json', 'an index');
check(checkpointAmong(['labels.txt', 'x/config.json', 'b.npz']) === 'b.npz', 'what lies beside it');
check(checkpointAmong(['config.json']) === 'config.json', 'nothing else');

// --- questions as data ---------------------------------------------------------------------------

const asked = await converter.convert(filesIn(`${data}/layouts/hf_clip_no_config`), []);
const answers = { activation: 'gelu', num_heads: '2' };
check(asked.status === 1 && asked.output === null && asked.report.questions.length === 2, 'asks');
const answered = await converter.convert(filesIn(`${data}/layouts/hf_clip_no_config`),
    asked.report.questions.flatMap((q) => [q.option, q.prefix + answers[q.setting]]));
check(answered.status === 0 && answered.output.size > 0, `answered: ${answered.stderr}`);

// --- where files come from -----------------------------------------------------------------------

const expected = await bytesOf((await converter.convert(torchvision, told)).output);
const model = torchvision[0].file;
const sources = {
    'a Blob': new Blob([model]),
    'an ArrayBuffer': new Uint8Array(model).buffer,
    'few bytes at a time': {
        size: model.length,
        read: (at, into) => model.copy(into, 0, at, Math.min(at + into.length, at + 1000)),
    },
};
for (const [title, file] of Object.entries(sources)) {
    const { output } = await converter.convert([{ name: 'model.pth', file }], told);
    check(output && same(await bytesOf(output), expected), title);
}
const gone = { size: 100, read: () => { throw new RangeError('the file is gone'); } };
await throws('a source that throws', RangeError, 'the file is gone',
    convert([{ name: 'a.pth', file: gone }]));
const shorter = await converter.convert([{ name: 'a.pth', file: { size: 100, read: () => 0 } }]);
check(shorter.status === 1 && shorter.stderr.includes('file became shorter'), shorter.stderr);

/** A Blob as in a browser's worker, where its bytes can be read synchronously. */
class WorkersBlob {
    constructor(parts = []) {
        this.bytes = Buffer.concat(parts.map((part) => part.bytes ?? part));
    }

    get size() {
        return this.bytes.length;
    }

    slice(start, end) {
        return new WorkersBlob([this.bytes.subarray(start, end)]);
    }

    async arrayBuffer() {
        return new Uint8Array(this.bytes).buffer;
    }
}
const NodesBlob = globalThis.Blob;
globalThis.Blob = WorkersBlob;
globalThis.FileReaderSync = class {
    readAsArrayBuffer(blob) {
        return new Uint8Array(blob.bytes).buffer;
    }
};
const cifar = new Blob([fs.readFileSync('models/cifar10-vit.vit')]);
const unpacked = await converter.convert([{ name: 'cifar10.vit', file: cifar }],
    ['--to', 'safetensors']);
const whole = Buffer.from(unpacked.output.bytes);
const again = await converter.convert(
    [{ name: 'cifar10.safetensors', file: unpacked.output }], ['--set', 'num_heads=3']);
const output = new Output();
const text = Buffer.alloc(3.5 * (1 << 20), 'pieces of a file; ');
for (let at = 0; at < text.length; at += 70000) output.write(at, text.subarray(at, at + 70000));
output.write(1 << 20, Buffer.from('PIECES'));   // changes a part that is already a Blob
text.write('PIECES', 1 << 20);
const inMemory = output.pieces.filter((piece) => piece instanceof Uint8Array);
check(inMemory.length === 1 && output.size === text.length, `${inMemory.length} in memory`);
const back = new Uint8Array(text.length + 5);
check(output.read(0, back) === text.length && same(back.subarray(0, -5), text), 'reads Blobs');
check(same(output.take().bytes, text), 'all pieces');
globalThis.Blob = NodesBlob;
delete globalThis.FileReaderSync;
const plainly = await converter.convert(
    [{ name: 'cifar10.safetensors', file: whole }], ['--set', 'num_heads=3']);
check(again.status === 0 && same(again.output.bytes, await bytesOf(plainly.output)),
    'pieces that are Blobs');

const lines = [];
let reads = 0;
const slowly = {
    size: whole.length,
    read(at, into) {
        if (reads++ < 8) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
        return whole.copy(into, 0, at);
    },
};
const watched = await converter.convert([{ name: 'cifar10.safetensors', file: slowly }],
    ['--set', 'num_heads=3'], (line, share) => lines.push([line, share]));
check(watched.status === 0 && watched.stderr === plainly.stderr, 'stderr has no progress');
check(lines.length > 0 && lines.every(([line, share]) => share >= 0 && share <= 1 &&
    /^(hashing|converting) \d+ %, \d+ s left$/.test(line)), `progress: ${lines}`);

// --- damage: never a trap ------------------------------------------------------------------------

let steps = 0;
async function damaged(name, bytes, args) {
    const { status, stderr, output } = await converter.convert([{ name, file: bytes }], args);
    const good = status === 0 ? output !== null : status === 1 && output === null &&
        stderr.startsWith('vit-convert: ');
    if (!good) check(false, `${name}: status ${status}, ${stderr}`);
    steps++;
}
const victims = ['layouts/torchvision/model.pth', 'layouts/jax/model.npz',
    'layouts/hf_vit/model.safetensors', 'checkpoints/legacy.pt', 'checkpoints/torchscript.pt',
    'layouts/vit_cpp/model.gguf'].filter((name) => fs.existsSync(`${data}/${name}`));
check(victims.length >= 5, `to damage: ${victims}`);
for (const name of victims) {
    const whole = fs.readFileSync(`${data}/${name}`);
    for (let i = 0; i < 60; i++) {
        const at = Math.floor((whole.length - 1) * (i / 60) ** 2);
        await damaged(`${name} to byte ${at}`, whole.subarray(0, at), told);
        const bent = Buffer.from(whole);
        bent[at] ^= 1 << i % 8;
        await damaged(`${name} at byte ${at}`, bent, told);
    }
}
check(steps === victims.length * 120, 'every damage was tried');

// (module (memory (export "memory") 1) (func (export "_start") unreachable))
const trap = new Converter(await WebAssembly.compile(Buffer.from('0061736d0100000001040160000003' +
    '0201000503010001071302066d656d6f72790200065f737461727400000a05010300000b', 'hex')));
await throws('a trap', Error, 'vit-convert ended unexpectedly: unreachable',
    () => trap.convert(torchvision, told));

// --- little memory -------------------------------------------------------------------------------

/** Returns the module with a limit on the number of its memory pages. */
function withPages(bytes, pages) {
    for (let at = 8; at < bytes.length;) {
        const leb = (from) => {
            let value = 0, next = from;
            for (let shift = 0; ; shift += 7) {
                value |= (bytes[next] & 127) << shift;
                if (bytes[next++] < 128) return [value, next];
            }
        };
        const [size, start] = leb(at + 1);
        if (bytes[at] === 5) {
            const [least] = leb(start + 2);
            const toLeb = (n) => (n < 128 ? [n] : [n & 127 | 128, ...toLeb(n >> 7)]);
            const section = [1, 1, ...toLeb(least), ...toLeb(Math.max(least, pages))];
            return Buffer.concat([bytes.subarray(0, at), Buffer.from([5, section.length,
                ...section]), bytes.subarray(start + size)]);
        }
        at = start + size;
    }
    return null;
}
const moduleBytes = fs.readFileSync('examples/web/vit/convert.wasm');
let short = 0;
for (let pages = 20; pages < 220; pages += 10) {
    const small = new Converter(await WebAssembly.compile(withPages(moduleBytes, pages)));
    const { status, stderr } = await small.convert([{ name: 'c.safetensors', file: whole }],
        ['--set', 'num_heads=3']);
    check(status === 0 || /out of memory|not enough memory/.test(stderr), `${pages}: ${stderr}`);
    if (status) short++;
}
check(short > 2 && short < 20, `${short} of 20 had too little memory`);

// --- a real one ----------------------------------------------------------------------------------

const deit = process.env.WEB_TEST_DATA &&
    path.join(process.env.WEB_TEST_DATA, 'deit_tiny_patch16_224.safetensors');
if (deit && fs.existsSync(deit)) {
    const fd = fs.openSync(deit);
    const source = {
        size: fs.fstatSync(fd).size,
        read: (at, into) => fs.readSync(fd, into, 0, into.length, at),
    };
    const files = [{ name: 'deit.safetensors', file: source }];
    const out = path.join(work, 'deit.vit');
    for (const dtype of ['f32', 'f16', 'bf16', 'int8', 'int4']) {
        const args = ['--arch', 'deit_tiny_patch16_224', '--dtype', dtype];
        const start = performance.now();
        const { status, output, memory } = await converter.convert(files, args);
        const seconds = (performance.now() - start) / 1e3;
        fs.copyFileSync(deit, path.join(work, 'deit.safetensors'));
        execFileSync(native, [...args, '-q', '-o', out, 'deit.safetensors'],
            { cwd: work, stdio: 'ignore' });
        check(status === 0 && same(await bytesOf(output), fs.readFileSync(out)),
            `DeiT-Ti ${dtype}`);
        check(memory < output.size + (8 << 20), `DeiT-Ti ${dtype}: ${memory} bytes of memory`);
        console.log(`DeiT-Ti ${dtype}: ${seconds.toFixed(2)} s, memory ` +
            `${(memory / 1e6).toFixed(1)} MB for ${(output.size / 1e6).toFixed(1)} MB`);
    }
} else {
    console.log('WEB_TEST_DATA has no DeiT-Ti, so that is not converted');
}

fs.rmSync(work, { recursive: true, force: true });
summary();
