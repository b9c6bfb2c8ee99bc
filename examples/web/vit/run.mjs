// run.mjs - classifies a photo, like tools/vit-classify, in WebAssembly.
//
//     node examples/web/vit/run.mjs examples/cat.ppm
//     node examples/web/vit/run.mjs --model vit_base.vit --threads 4 --top 3 --time 20 *.ppm
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readPpm } from './ppm.mjs';
import { Model } from './vit.mjs';

const usage = `usage: run.mjs [--model MODEL.vit] [--module scalar|simd|relaxed] [--threads N]
               [--top K] [--time N] PHOTO.ppm...`;

const path = (name) => fileURLToPath(new URL(name, import.meta.url));

/** Ends the program because of an unreadable file, with the file's name and the reason on one
 * line. */
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
        model: { type: 'string', default: path('../../../models/cifar10-vit.vit') },
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

/** The median time of `count` runs, after as many uncounted runs in which the engine compiles hot
 * code. */
function time(model, photo, count) {
    const ms = [];
    for (let i = 0; i < 2 * count; i++) {
        const start = performance.now();
        model.classify(photo);
        if (i >= count) ms.push(performance.now() - start);
    }
    return ms.sort((a, b) => a - b)[count >> 1];
}

async function lookAt(model, name) {
    const photo = readPpm(await readFile(name));
    const best = model.classify(photo, Number(chosen.top));
    if (chosen.photos.length > 1) console.log(name);
    for (const { index, label, score } of best) {
        console.log(`${(100 * score).toFixed(1).padStart(5)} %  ${label ?? `class ${index}`}`);
    }
    if (Number(chosen.time)) {
        const ms = time(model, photo, Number(chosen.time));
        console.log(`${ms.toFixed(2)} ms, ${model.info.isa}, ${model.module}, ` +
                    `${model.threads} threads`);
    }
}

const chosen = parse();
const model = await attempt(chosen.model, async () =>
    Model.open(chosen.model, { threads: Number(chosen.threads), module: chosen.module }));
for (const name of chosen.photos) {
    await attempt(name, async () => lookAt(model, name));
}
model.close();
