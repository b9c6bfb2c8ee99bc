// bits.mjs - tests vit/vit.mjs in the browser. For every module and every type of weights, the
// logits of PNGs must equal those of Node and of a native build with VIT_NO_FMA, bit for bit. The
// page must therefore decode a PNG to the same pixels.
import { readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { decode } from '../../examples/web/decode.mjs';
import { Model } from '../../examples/web/vit/vit.mjs';
import { dtypes, nativeLogits, pathOf, write } from './files.mjs';
import { Visit, expect, same, test } from './harness.mjs';

const images = ['rgb', 'grey', 'rgba', 'palette', 'palette4', 'grey16', 'interlaced', 'rgb_trns']
    .map((name) => resolve(`tests/data/images/${name}.png`));
/** The cat comes last, because the native program also computes parts of an image of its size. */
const photos = [...images, ...['noise', 'noise_grey', 'noise_alpha', 'cat'].map((name) =>
    pathOf(`${name}.png`))];

/** Runs in the page. Returns the logits of each photo, as bits. */
async function logitsInPage({ model, photos: names, options }) {
    const { decode: read } = await import('/decode.mjs');
    const { Model: Opened } = await import('/vit/vit.mjs');
    const opened = await Opened.open(`/made/${model}`, options);
    const found = [];
    for (const name of names) {
        const photo = await read(await (await fetch(`/made/${name}`)).blob());
        found.push([...new Uint32Array(opened.run(photo, { logits: true }).logits.buffer)]);
    }
    const { module, threads } = opened;
    opened.close();
    return { module, threads, found };
}

/** Returns the bits that Node computes from the same files. */
async function logitsInNode(model, names) {
    const opened = await Model.open(readFileSync(pathOf(model)), { threads: 2, module: 'simd' });
    const found = [];
    for (const name of names) {
        const photo = await decode(new Blob([readFileSync(pathOf(name))]));
        found.push([...new Uint32Array(opened.run(photo, { logits: true }).logits.buffer)]);
    }
    opened.close();
    return found;
}

const bitsOf = (lines) => lines.map((words) => words.map((word) => parseInt(word, 16)));

function compare(found, wanted, names, where) {
    found.forEach((logits, i) => {
        const at = logits.findIndex((bits, k) => bits !== wanted[i][k]);
        expect(logits.length === wanted[i].length && at < 0,
               `${where}: ${names[i]}: other bits of logit ${at}`);
    });
}

/** The module without SIMD is slow, so it gets only two photos. */
const modules = [['simd', 1], ['simd', 2], ['relaxed', 1], ['relaxed', 2], ['scalar', 1]];

export default async function bits() {
    const names = photos.map((photo) => `bits-${basename(photo)}`);
    photos.forEach((photo, i) => write(names[i], readFileSync(photo)));
    const visited = await Visit.open();
    for (const dtype of dtypes) {
        await test(`logits in ${dtype}: the browser, Node and native, to the bit`, async () => {
            const model = `${dtype}.vit`;
            const wanted = bitsOf(nativeLogits(pathOf(model), photos)).slice(0, photos.length);
            compare(await logitsInNode(model, names), wanted, names, 'Node');
            for (const [module, threads] of modules) {
                const some = module === 'scalar' ? names.slice(-2) : names;
                const options = { module, threads };
                const got = await visited.page.evaluate(logitsInPage, { model, photos: some,
                    options });
                same([got.module, got.threads], [module, threads], 'the module');
                compare(got.found, wanted.slice(-some.length), some,
                    `${module}, ${threads} threads`);
            }
            return `${names.length} photos, ${modules.length} modules`;
        });
    }
    await visited.close();
}
