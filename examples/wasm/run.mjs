// run.mjs - says what is in a photo, as examples/classify does, in WebAssembly.
//
//     node examples/wasm/run.mjs examples/cat.ppm
//     node examples/wasm/run.mjs --model vit_base.vit --threads 4 --top 3 --time 20 *.ppm
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { moduleFile } from './features.mjs';
import { readPpm } from './ppm.mjs';
import { Classifier } from './vit.mjs';

const usage = `usage: run.mjs [--model MODEL.vit] [--module MODULE.wasm] [--threads N]
               [--top K] [--time N] PHOTO.ppm...`;

const path = (name) => fileURLToPath(new URL(name, import.meta.url));

/** What cannot be read ends the program: its name and the reason on one line. */
function fail(name, error) {
    console.error(`run.mjs: ${name}: ${error.message}`);
    process.exit(1);
}

async function attempt(name, action) {
    return action().catch((error) => fail(name, error));
}

const isCount = (text) => /^\d{1,6}$/.test(text);
const counts = ['threads', 'top', 'time'];

function parse() {
    const options = {
        model: { type: 'string', default: path('../../models/cifar10-vit.vit') },
        module: { type: 'string' },
        threads: { type: 'string', default: '1' },
        top: { type: 'string', default: '5' },
        time: { type: 'string', default: '0' },
    };
    try {
        const { values, positionals } = parseArgs({ options, allowPositionals: true });
        if (positionals.length && counts.every((name) => isCount(values[name]))) {
            return { ...values, photos: positionals };
        }
    } catch (error) {
        console.error(`run.mjs: ${error.message}`);
    }
    console.error(usage);
    return process.exit(2);
}

/** The median of `count` runs, after as many for the engine to compile what it runs often. */
function time(classifier, photo, count) {
    const ms = [];
    for (let i = 0; i < 2 * count; i++) {
        const start = performance.now();
        classifier.classify(photo.rgba, photo.width, photo.height);
        if (i >= count) ms.push(performance.now() - start);
    }
    return ms.sort((a, b) => a - b)[count >> 1];
}

async function lookAt(classifier, name) {
    const photo = readPpm(await readFile(name));
    const best = classifier.classify(photo.rgba, photo.width, photo.height, Number(chosen.top));
    if (chosen.photos.length > 1) console.log(name);
    for (const { label, prob } of best) {
        console.log(`${(100 * prob).toFixed(1).padStart(5)} %  ${label}`);
    }
    if (Number(chosen.time)) {
        const ms = time(classifier, photo, Number(chosen.time));
        console.log(`${ms.toFixed(2)} ms, ${classifier.tier()}`);
    }
}

const chosen = parse();
const threads = Number(chosen.threads);
const file = chosen.module ?? path(moduleFile(threads));
const module = await attempt(file, async () => WebAssembly.compile(await readFile(file)));
const classifier = await attempt(chosen.model, async () =>
    Classifier.open(module, await readFile(chosen.model), threads));
for (const name of chosen.photos) {
    await attempt(name, async () => lookAt(classifier, name));
}
classifier.close();
