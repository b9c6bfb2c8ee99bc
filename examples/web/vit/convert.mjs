// convert.mjs - vit-convert in WebAssembly: checkpoints become .vit files in a page or in Node.
//
//     const converter = await Converter.open();
//     const { status, report, output, stderr } = await converter.convert(
//         [{ name: 'model.safetensors', file }], ['--dtype', 'int8']);
// It runs vit-convert itself, with its options and messages. A conversion blocks the calling
// thread. A page should therefore convert in a worker. Only there are Blobs read piece by piece.
import { inputOf, normal } from './files.mjs';
import { addressOf, loadModule } from './load.mjs';
import { Wasi } from './wasi.mjs';

const BESIDE = /(^|\/)(preprocessor_|open_clip_)?config\.json$|\.(txt|csv|md|npy)$/i;
const INDEX = /\.index\.json$/i;

/** Finds the checkpoint among several files. If the files contain an index of shards, this index is
 * the checkpoint. If not, the checkpoint is the first file that is neither a configuration nor a
 * list of labels. */
export function checkpointAmong(names) {
    return names.find((name) => INDEX.test(name)) ?? names.find((name) => !BESIDE.test(name)) ??
        names[0];
}

/** "model.vit" for "some/model.safetensors". */
function nameOfOutput(checkpoint, args) {
    const suffix = args.includes('--c-array') ? '.h'
        : args.join(' ').match(/--to[ =]safetensors/) ? '.safetensors' : '.vit';
    const name = checkpoint.slice(checkpoint.lastIndexOf('/') + 1);
    return name.replace(/(\.index\.json|\.[a-z0-9]{1,12})$/i, '') + suffix;
}

/** Returns a function that removes progress bars from terminal output, and reports them. */
const progressOf = (onProgress) => (text) =>
    text.replace(/\r(?:\x1b\[\?7l([^\x1b]*))?\x1b\[K(?:\x1b\[\?7h)?/g, (_, bar) => {
        const [, step, percent, seconds] = bar?.match(/^(\w+) \[.*\] +(\d+) % +(\d+) s left/) ?? [];
        if (step) onProgress(`${step} ${percent} %, ${seconds} s left`, percent / 100);
        return '';
    });

const noOption = (name) => (name.startsWith('-') ? `./${name}` : name);
const OUTPUT_OPTION = /^(-o.*|--output(=.*)?|--json)$/;

export class Converter {
    /** `base` is the folder of convert.wasm, with a slash at its end; by default the folder of this
     * file. */
    static async open({ base = import.meta.url } = {}) {
        return new Converter(await loadModule(addressOf('convert.wasm', base), true));   // unchanged
    }

    /** Uses a module that was compiled elsewhere, for example in the page that started a worker. */
    constructor(module) {
        this.module = module;
    }

    /**
     * files: [{ name, file }] has the checkpoint, the files beside it, and the files that args
     * name. Each file is a Blob, a Uint8Array, or an object with size and read(at, bytes). args are
     * options of vit-convert, except -o and --json.
     */
    async convert(files, args = [], onProgress = null) {
        const wrong = args.find((arg) => OUTPUT_OPTION.test(arg));
        if (wrong) throw new TypeError(`${wrong} is not allowed in args`);
        if (files.length === 0) throw new TypeError('expected a checkpoint');
        const known = new Map();
        for (const { name, file } of files) {
            const path = normal(name);
            if (known.has(path)) throw new TypeError(`${name} occurs twice`);
            known.set(path, await inputOf(file));
        }
        const checkpoint = checkpointAmong([...known.keys()]);
        const name = nameOfOutput(checkpoint, args);
        const wasi = new Wasi(
            ['vit-convert', ...args, '--json', '-o', noOption(name), noOption(checkpoint)],
            known, onProgress && progressOf(onProgress));
        return wasi.runFor(name, this.module);
    }
}
