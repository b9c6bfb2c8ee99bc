// learn.mjs - vit-learn in WebAssembly: embeddings with their classes become another head for a model,
// in a page or in Node.
//
//     const learner = await Learner.open();
//     const { embedding } = model.run(photo, { embedding: true });
//     const { report, output } = await learner.learn(
//         model.file(), [{ name: 'IMG_1.jpg', classes: ['Tom'], embedding }, ...]);
//
// It runs vit-learn itself, with its options, messages and bytes. The calling thread waits until
// the model has learnt, so a page should call it in a worker.
import { inputOf, normal } from './files.mjs';
import { addressOf, loadModule } from './load.mjs';
import { Wasi } from './wasi.mjs';

const MODEL = 'model.vit', LIST = 'list.csv', OUTPUT = 'mine.vit';
const OURS = /^(-[om].*|--(output|model)(=.*)?|--json|--exact|--decoder.*)$/;

const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

function checkText(text, what) {
    if (typeof text !== 'string') throw new TypeError(`expected ${what} as a string`);
    if (!text.trim() || /[\0-\x1f\x7f]/.test(text)) {
        throw new RangeError(`expected ${what} without control characters, found "${text}"`);
    }
}

/** A line of vit-learn's list. Because of the comma at the end of the line, the name of a class may
 * contain ';' or '|'. */
function lineOf({ name, classes }) {
    checkText(name, 'the name of a photo');
    for (const one of classes) checkText(one, 'the name of a class');
    return `${[name, ...classes].map(quoted).join(',')},\n`;
}

export class Learner {
    /** `base` is the folder of learn.wasm, with a slash at its end; by default the folder of this
     * file. */
    static async open({ base = import.meta.url } = {}) {
        return new Learner(await loadModule(addressOf('learn.wasm', base), true));   // unchanged
    }

    constructor(module) {
        this.module = module;
    }

    /**
     * model: the .vit file, a Blob or bytes. photos: [{ name, classes, embedding }], each name once.
     * args: options of vit-learn, except those of files and decoders.
     */
    async learn(model, photos, args = []) {
        const wrong = args.find((arg) => OURS.test(arg));
        if (wrong !== undefined) throw new TypeError(`${wrong} is not allowed in args`);
        const files = new Map([[MODEL, await inputOf(model)]]);
        const list = new TextEncoder().encode(photos.map(lineOf).join(''));
        files.set(LIST, await inputOf(list));
        for (const { name, embedding } of photos) {
            if (!(embedding instanceof Float32Array)) {
                throw new TypeError(`${name}: expected its embedding as a Float32Array`);
            }
            if (normal(name) !== name || files.has(name)) {
                throw new RangeError(`expected each photo's name once, as a path, found "${name}"`);
            }
            files.set(name, await inputOf(new Uint8Array(embedding.slice().buffer)));
        }
        const given = photos.length ? [LIST] : [];
        return new Wasi(['vit-learn', ...args, '--json', '-m', MODEL, '-o', OUTPUT, ...given], files)
            .runFor(OUTPUT, this.module);
    }
}
