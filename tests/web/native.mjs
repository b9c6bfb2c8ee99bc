// native.mjs - runs the native programs for comparison: arrays, JSON, photos as PPM files.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

/** Reads the floats of a .npy file: { values }. */
export function readNpy(path) {
    const bytes = readFileSync(path);
    const end = 10 + bytes.readUInt16LE(8);
    const header = bytes.toString('latin1', 10, end);
    if (!header.includes("'descr': '<f4'")) throw new Error(`${path}: ${header}`);
    const { buffer, byteOffset: start, length } = bytes;
    return { values: new Float32Array(buffer.slice(start + end, start + length)) };
}

export function writePpm(path, { width, height, data }) {
    writeFileSync(path, Buffer.concat([Buffer.from(`P6\n${width} ${height}\n255\n`), data]));
}

/** Makes a photo of random pixels in rgb8. */
export function noise(width, height, seed = 1) {
    let state = seed;
    const data = Uint8Array.from({ length: 3 * width * height }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state >>> 24;
    });
    return { width, height, data, format: 'rgb8' };
}

/** True if both arrays have the same length and the same bits. All NaNs count as equal. */
export function equal(a, b) {
    return a.length === b.length && a.every((x, i) => Object.is(x, b[i]));
}

/** Runs the programs in a folder on one model. */
export class Native {
    constructor(folder, model, work) {
        this.folder = folder;
        this.model = model;
        this.work = work;
    }

    run(program, ...parameters) {
        return execFileSync(`${this.folder}/${program}`, parameters.map(String),
                            { encoding: 'utf8', maxBuffer: 2 ** 28 });
    }

    json(program, ...parameters) {
        return JSON.parse(this.run(program, ...parameters));
    }

    /** Runs `vit-look COMMAND ... --json --npy FILE`; returns the JSON and the values in FILE. */
    look(command, ...parameters) {
        const npy = `${this.work}/look.npy`;
        const all = [command, '-m', this.model, ...parameters];
        const json = this.json('tools/vit-look', ...all, '--json', '--npy', npy);
        return { json, ...readNpy(npy) };
    }

    /** Runs vit-run on a photo with an option --NAME for each name; returns { NAME: values }. */
    outputs(photo, names, ...parameters) {
        const files = names.map((name) => `${this.work}/${name}.npy`);
        this.run('tools/vit-run', '-m', this.model, photo, ...parameters,
                 ...names.flatMap((name, i) => [`--${name}`, files[i]]));
        return Object.fromEntries(names.map((name, i) => [name, readNpy(files[i]).values]));
    }
}
