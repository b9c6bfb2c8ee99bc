// missing.mjs - tests servers and folders where modules are missing or damaged. The next best
// module must run, and a missing module must be requested only once.
//
//     node tests/web/missing.mjs TINY.vit CLIP.vit
//
// With Node's flags for relaxed SIMD, the test covers the module with relaxed SIMD too. The last
// line is "N passed, N failed".
import { copyFile, mkdir, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Converter } from '../../examples/web/vit/convert.mjs';
import { chooseModules } from '../../examples/web/vit/features.mjs';
import { Learner } from '../../examples/web/vit/learn.mjs';
import { Model } from '../../examples/web/vit/vit.mjs';
import { Words } from '../../examples/web/vit/words.mjs';
import { check, summary } from '../checks.mjs';

const tiny = await readFile(process.argv[2]);
const source = new URL('../../examples/web/vit/', import.meta.url);
const names = (await readdir(source)).filter((name) => /\.wasm(\.gz)?$/.test(name));
const files = new Map(await Promise.all(
    names.map(async (name) => [name, await readFile(new URL(name, source))])));
const choices = chooseModules().filter(({ file }) => files.has(file));
const [best, next] = choices;

// --- a server, which has a folder for each case -----------------------------------------------------

const cases = new Map();
const page = Buffer.from('<!doctype html><title>Not found</title><p>Go to the first page.');

/** A folder's function gives the response for a file: null means the file itself, a number is an
 * HTTP status, and bytes replace the file's content. */
const server = createServer((request, response) => {
    const [, folder, name] = request.url.split('/');
    const found = cases.get(folder);
    found.requests.push(name);
    const instead = found.instead(name, files.get(name)) ?? files.get(name) ?? 404;
    if (typeof instead === 'number') response.writeHead(instead).end();
    else response.end(instead);
});
await new Promise((done) => { server.listen(0, '127.0.0.1', done); });

function folderOf(instead) {
    const folder = String(cases.size);
    const requests = [];
    cases.set(folder, { instead, requests });
    const base = `http://127.0.0.1:${server.address().port}/${folder}/`;
    return { base, requests, asked: (name) => requests.filter((other) => other === name).length };
}

/** Returns the name of the module that runs, or the error message. */
async function opens(options) {
    try {
        const model = await Model.open(tiny, { threads: 1, ...options });
        const { module } = model;
        model.close();
        return module;
    } catch (error) {
        return error.message;
    }
}

const is = (found, wanted, what) =>
    check(found === wanted, `${what}: expected ${wanted}, found ${found}`);

const isBest = (name) => name.startsWith(`${best.file}`);
const isPacked = (name) => name.endsWith('.gz');
const cut = (bytes) => bytes?.subarray(0, bytes.length >> 1);

// --- modules --------------------------------------------------------------------------------------

const damages = {
    'is missing': () => 404,
    'is a page': () => page,
    'is cut': (_, bytes) => cut(bytes),
    'is empty': () => Buffer.alloc(0),
    'is another module': (name) => files.get(`convert.wasm${isPacked(name) ? '.gz' : ''}`),
};
for (const [what, damage] of Object.entries(damages)) {
    // From one file, the engine makes one module for use with threads and another for use without.
    const both = folderOf((name, bytes) => (isBest(name) ? damage(name, bytes) : null));
    for (const threads of [1, 2, 1]) {
        is(await opens({ base: both.base, threads }), next.kind, `the best ${what}`);
    }
    is(both.asked(best.file), 1, `the best ${what}: asked for`);
    is(both.asked(`${best.file}.gz`), 1, `the best ${what}: asked for, compressed`);
    const said = await opens({ base: both.base, module: best.kind });
    check(said.includes(best.file), `what is asked for ${what}: "${said}"`);

    const packed = folderOf((name, bytes) => (isPacked(name) ? damage(name, bytes) : null));
    is(await opens({ base: packed.base }), best.kind, `the compressed one ${what}`);
    is(await opens({ base: packed.base, module: next.kind }), next.kind, `and another ${what}`);
    is(packed.requests.filter(isPacked).length, 1, `compressed ones asked for: each ${what}`);

    const all = folderOf(damage);
    const message = await opens({ base: all.base });
    for (const { file } of choices) {
        check(message.includes(`/${file}: `), `each ${what}: "${message}" names ${file}`);
    }
}

const busy = folderOf((name) => (isBest(name) && busy.requests.length < 3 ? 503 : null));
is(await opens({ base: busy.base }), next.kind, 'a busy server');
is(await opens({ base: busy.base }), best.kind, 'a server that was busy');

// --- a folder ---------------------------------------------------------------------------------------

const folder = await mkdtemp(join(tmpdir(), 'vit-missing-'));
await mkdir(join(folder, 'vit'));
await copyFile(new URL(next.file, source), join(folder, 'vit', next.file));
is(await opens({ base: pathToFileURL(join(folder, 'vit/')) }), next.kind, 'a folder of one module');
const none = await opens({ base: pathToFileURL(`${folder}/`) });
check(choices.every(({ file }) => none.includes(file)), `a folder of none: "${none}"`);
await rm(folder, { recursive: true });

// --- the converter, the learner, words -------------------------------------------------------------

const withText = await Model.open(process.argv[3], { threads: 1 });
const alone = [['convert.wasm', (options) => Converter.open(options)],
               ['learn.wasm', (options) => Learner.open(options)],
               ['words.wasm', (options) => Words.open(withText, options)]];
for (const [file, open] of alone) {
    const opened = ({ base }) => open({ base }).then(() => 'yes', ({ message }) => message);
    for (const [what, damage] of Object.entries(damages)) {
        if (what === 'is another module') continue; // the other module is this module, or loads as
                                                    // well
        const packed = folderOf((name, bytes) => (isPacked(name) ? damage(name, bytes) : null));
        for (let i = 0; i < 2; i++) is(await opened(packed), 'yes', `${file}.gz ${what}`);
        is(packed.requests.join(' '), `${file}.gz ${file}`, `${file}.gz ${what}`);
        const both = folderOf(damage);
        for (let i = 0; i < 2; i++) {
            const said = await opened(both);
            check(said.includes(`/${file}: `), `${file} ${what}: "${said}"`);
        }
        is(both.requests.join(' '), `${file}.gz ${file}`, `${file} ${what}`);
    }
}

server.close();
summary();
