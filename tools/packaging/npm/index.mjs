// index.mjs - classes and embeddings of photos.
//
//     import { classify, embed } from 'vit-h';
//     const [best] = await classify('photo.jpg');
//     console.log(best.label, best.score);
//
// index.d.mts describes every function.
import { expectUnpacked } from './vit/load.mjs';
import { Model, VitError, provide } from './vit/vit.mjs';
import { photoOf } from './vit/photos.mjs';

export { Model, VitError, photoOf, provide };

const here = import.meta.url; // undefined in Workers and in some bundles
for (const folder of here ? ['.', 'vit/'] : []) expectUnpacked(new URL(folder, here));

/** Promises of the models that classify() and embed() have opened, by model and options. */
const opened = new Map();
const names = new WeakMap(); // names for models that are objects, such as a Blob
let count = 0;

function nameOf(source) {
    if (typeof source === 'string' || source instanceof URL) return String(source);
    if (!names.has(source)) names.set(source, `object ${count++}`);
    return names.get(source);
}

function bundled() {
    // Bundlers copy the file only if import.meta.url itself, not `here`, is written in its URL.
    if (here) return new URL('./models/cifar10-vit.vit', import.meta.url);
    throw new TypeError('model: expected a .vit file; the bundled one is not available here');
}

export async function open(model, options) {
    return Model.open(model ?? bundled(), options);
}

async function modelOf({ model = bundled(), ...options }) {
    if (model instanceof Model) return model;
    if (typeof model !== 'string' && Object(model) !== model) {
        throw new TypeError('model: expected the bytes of a .vit file, a Blob, a URL or a Model');
    }
    const { threads, module, base, verify } = options;
    const key = [nameOf(model), threads, module, base, verify].join('\n');
    if (!opened.has(key)) {
        opened.set(key, Model.open(model, options));
        opened.get(key).catch(() => opened.delete(key));
    }
    const found = await opened.get(key);
    if (!found.closed) return found;
    opened.delete(key); // after a failure
    return modelOf({ model, ...options });
}

/** Reads the photo and the model at the same time. */
async function withPhoto(photo, options, use) {
    const [pixels, model] = await Promise.allSettled([photoOf(photo), modelOf(options)]);
    if (model.reason) throw model.reason;
    if (pixels.reason) throw pixels.reason;
    return use(model.value, pixels.value);
}

export async function classify(photo, options = {}) {
    return withPhoto(photo, options, (model, pixels) => model.classify(pixels, options.top));
}

export async function embed(photo, options = {}) {
    return withPhoto(photo, options,
        (model, pixels) => model.run(pixels, { embedding: true }).embedding);
}

export async function close() {
    const models = [...opened.values()];
    opened.clear();
    for (const model of await Promise.allSettled(models)) model.value?.close();
}
