// browser.mjs - measures vit.h and onnxruntime-web in the same Chromium, on the same model. `make
// bench-web` installs both and runs this program.
//
//     node tools/bench/peers/browser.mjs [--rounds 24] [--cold 5] [--markdown FILE]
// ViT-Ti/16 with random weights, f32 and int8, one and two threads, each runtime in a worker of a
// page. A cold start lasts from the navigation to the first logits, in a new profile. In warm
// measurements, both runtimes are in one page, and each round runs each of them once, in random
// order. The measured time is from normalized pixels to logits.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { cpus, loadavg } from 'node:os';
import { extname, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const ARCH = 'vit_tiny_patch16_224';
const WARMING = 6;       // uncounted runs, while the engine compiles hot code
const PAUSE = 40;        // milliseconds between runs, in which the threads of the last run fall asleep
const TOLERANCE = 1e-4;  // largest difference of f32 logits, relative to the largest logit

const { values: chosen } = parseArgs({ options: {
    rounds: { type: 'string', default: '24' },
    cold: { type: 'string', default: '5' },
    markdown: { type: 'string' },
} });
const rounds = Number(chosen.rounds), starts = Number(chosen.cold);

const built = resolve('build/web');
const { chromium } = createRequire(`${built}/`)('playwright-core');
const ort = resolve(built, 'node_modules/onnxruntime-web/dist');
const folders = { vit: resolve('examples/web/vit'), ort,
    models: resolve(`build/peers/models/${ARCH}`),
                  worker: resolve('tools/bench/peers') };
const cells = ['f32', 'int8'].flatMap((dtype) => [1, 2].flatMap((threads) =>
    ['vit.h', 'onnxruntime-web'].map((runtime) => ({ runtime, dtype, threads }))));
const pairs = cells.flatMap((cell, i) => (i % 2 ? [] : [[cell, cells[i + 1]]]));

// --- models -------------------------------------------------------------------------------------

function prepare() {
    const { dependencies } = JSON.parse(readFileSync('tools/bench/peers/package.json'));
    const wanted = dependencies['onnxruntime-web'];
    const installed = resolve(built, 'node_modules/onnxruntime-web/package.json');
    if (!existsSync(installed) || JSON.parse(readFileSync(installed)).version !== wanted) {
        execFileSync('npm', ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund',
                             '--silent', `onnxruntime-web@${wanted}`], { cwd: built });
    }
    execFileSync('/usr/bin/python3', ['-B', '-c', 'import sys; sys.path.insert(0, sys.argv[1]);' +
        'import workers; workers.prepare(workers.find_model(sys.argv[2]), ["f32", "int8"])',
        'tools/bench/peers', ARCH], { stdio: ['ignore', 'inherit', 'inherit'] });
}

// --- a server -----------------------------------------------------------------------------------

const types = { '.mjs': 'text/javascript', '.js': 'text/javascript', '.wasm': 'application/wasm' };
const counted = { bytes: 0 };
const contents = new Map(); // files to send stay in memory, because this program shares the cores
                            // with the browser

function contentsOf(path) {
    if (!contents.has(path)) contents.set(path, readFileSync(path));
    return contents.get(path);
}

function startServer() {
    const server = createServer((request, response) => {
        const { pathname } = new URL(request.url, 'http://localhost');
        const headers = { 'Cross-Origin-Opener-Policy': 'same-origin',
                          'Cross-Origin-Embedder-Policy': 'require-corp',
                              'Cache-Control': 'no-store' };
        if (pathname === '/') {
            response.writeHead(200, { ...headers, 'Content-Type': 'text/html' });
            response.end('<!DOCTYPE html><link rel="icon" href="data:,"><title>speed</title>');
            return;
        }
        const [, folder, name] = /^\/(\w+)\/([\w.-]+)$/.exec(pathname) ?? [];
        const path = folders[folder] && resolve(folders[folder], name);
        if (!path || !existsSync(path)) {
            response.writeHead(404).end();
            return;
        }
        const bytes = contentsOf(path);
        counted.bytes += bytes.length;
        headers['Content-Type'] = types[extname(path)] ?? 'application/octet-stream';
        response.writeHead(200, { ...headers, 'Content-Length': bytes.length }).end(bytes);
    });
    return new Promise((done) => {
        server.listen(0, 'localhost', () => done({ server,
            url: `http://localhost:${server.address().port}/` }));
    });
}

// --- measuring ----------------------------------------------------------------------------------

/** Runs in the page: starts the runtime of `cell` in a worker, unless it has been started, and runs
 * it once. Returns the logits, the milliseconds of the run, and the time when it ended. */
function runIn(cell) {
    const name = `${cell.runtime} ${cell.dtype} ${cell.threads}`;
    globalThis.workers ??= {};
    globalThis.workers[name] ??= new Worker('/worker/browser_worker.mjs', { type: 'module' });
    const worker = globalThis.workers[name];
    return new Promise((done, fail) => {
        worker.onerror = ({ message }) => fail(new Error(message || 'no worker'));
        worker.onmessage = ({ data }) => (data.error ? fail(new Error(data.error))
            : done({ ...data, logits: [...data.logits], at: performance.now() }));
        worker.postMessage(cell);
    });
}

const sleep = (ms) => new Promise((done) => { setTimeout(done, ms); });
const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
const least = (numbers) => Math.min(...numbers);

/** Shuffles a list; the order depends only on the seed. */
function shuffled(list, seed) {
    let state = seed + 1;
    const next = () => (state = state * 48271 % 2147483647) / 2147483647;
    return list.map((item) => [next(), item]).sort(([a], [b]) => a - b).map(([, item]) => item);
}

async function measureCold(browser, url) {
    for (let i = 0; i <= starts; i++) {
        for (const cell of shuffled(cells, i)) {
            const context = await browser.newContext();
            const page = await context.newPage();
            counted.bytes = 0;
            // The runtime starts with the page, without waiting for this program.
            await page.addInitScript(`globalThis.first = (${runIn})(${JSON.stringify(cell)});`);
            await page.goto(url);
            const { at } = await page.evaluate(() => globalThis.first);
            cell.fetched = counted.bytes;
            if (i) (cell.cold ??= []).push(at); // the first start reads the files from the disk
            await context.close();
        }
    }
}

/** Runs two runtimes in turn, with the same type and number of threads. No other runtime is open,
 * because its threads would disturb them. */
async function measureWarm(browser, url, pair) {
    const page = await browser.newPage();
    await page.goto(url);
    for (const cell of pair) {
        for (let i = 0; i < WARMING; i++) {
            const { logits, about } = await page.evaluate(runIn, plain(cell));
            Object.assign(cell, { logits, about });
        }
    }
    for (let i = 0; i < rounds; i++) {
        for (const cell of shuffled(pair, i)) {
            await sleep(PAUSE);
            (cell.warm ??= []).push((await page.evaluate(runIn, plain(cell))).ms);
        }
    }
    await page.close();
}

const plain = ({ runtime, dtype, threads }) => ({ runtime, dtype, threads });

/** Compares the logits of each cell with those of onnxruntime-web in f32 on one thread. */
function compareLogits() {
    const { logits: wanted } = cells.find(({ runtime, dtype, threads }) =>
        runtime === 'onnxruntime-web' && dtype === 'f32' && threads === 1);
    const largest = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const wrong = [];
    for (const { runtime, dtype, threads, logits } of cells) {
        const off = logits.reduce((most, x, i) => Math.max(most, Math.abs(x - wanted[i])),
            0) / largest;
        const limit = dtype === 'f32' ? TOLERANCE : 0.2;
        if (!(off <= limit) || logits.length !== wanted.length) {
            wrong.push(`${runtime}, ${dtype}, ${threads} threads: logits differ by ${off}`);
        }
    }
    return wrong;
}

// --- reporting ----------------------------------------------------------------------------------

const mb = (bytes) => (bytes / 1e6).toFixed(1);
const times = (theirs, ours) => `**${(theirs / ours).toFixed(2)}**`;

function table() {
    const lines = [
        '| weights | threads | | MB fetched | first class | warm, median | warm, least |',
        '|---|--:|---|--:|--:|--:|--:|'];
    const line = (...fields) => lines.push(`| ${fields.join(' | ')} |`);
    for (const pair of pairs) {
        for (const { runtime, dtype, threads, fetched, cold, warm } of pair) {
            line(dtype, threads, runtime, mb(fetched), `${median(cold).toFixed(0)} ms`,
                 `${median(warm).toFixed(1)} ms`, `${least(warm).toFixed(1)} ms`);
        }
        const [ours, theirs] = pair;
        line('', '', 'times', times(theirs.fetched, ours.fetched),
             times(median(theirs.cold), median(ours.cold)),
             times(median(theirs.warm), median(ours.warm)), times(least(theirs.warm),
                 least(ours.warm)));
    }
    return lines.join('\n');
}

function sizes() {
    const of = (path) => {
        const bytes = readFileSync(path);
        return [bytes.length, gzipSync(bytes, { level: 9 }).length];
    };
    const kind = cells[0].about === 'simd' ? '' : `-${cells[0].about}`;
    const [ours, oursPacked] = of(resolve(folders.vit, `vit${kind}.wasm`));
    const [theirs, theirsPacked] = of(resolve(ort, 'ort-wasm-simd-threaded.wasm'));
    const kb = (bytes) => (bytes / 1e3).toFixed(0);
    return `Modules: vit.h ${kb(ours)} KB (${kb(oursPacked)} gzipped), onnxruntime-web ` +
        `${(theirs / 1e6).toFixed(1)} MB (${(theirsPacked / 1e6).toFixed(1)}): ` +
        `${(theirs / ours).toFixed(0)} and ${(theirsPacked / oursPacked).toFixed(0)} times.`;
}

prepare();
const { server, url } = await startServer();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
                                        chromiumSandbox: process.getuid() !== 0 });
const before = loadavg()[0];
await measureCold(browser, url);
for (const pair of pairs) await measureWarm(browser, url, pair);
const version = browser.version();
await browser.close();
server.closeAllConnections();
server.close();

const wrong = compareLogits();
const about = `${cpus()[0].model}, ${cpus().length} cores, Chromium ${version}, ${ARCH}, vit.h ` +
    `(${cells[0].about}), onnxruntime-web ${cells[1].about}; cold: median of ${starts} starts, ` +
    `warm: ${rounds} interleaved runs; load of the machine ${before.toFixed(1)} to ` +
    `${loadavg()[0].toFixed(1)}.`;
const text = [about, '', table(), '', sizes()].join('\n');
console.log(text);
for (const what of wrong) console.log(`WRONG: ${what}`);
if (chosen.markdown) writeFileSync(chosen.markdown, `${text}\n`);
process.exitCode = wrong.length ? 1 : 0;
