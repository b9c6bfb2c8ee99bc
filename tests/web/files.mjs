// files.mjs - the files that the tests drop on the page, made anew in build/web/made.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { deflateSync } from 'node:zlib';
import { built, made } from './harness.mjs';

export const pathOf = (name) => resolve(made, name);
export const model = resolve('models/cifar10-vit.vit');
export const cat = resolve('examples/cat.jpg');
export const dtypes = ['f32', 'f16', 'bf16', 'int8', 'calibrated', 'int4'];

export function write(name, bytes) {
    writeFileSync(pathOf(name), bytes);
    return pathOf(name);
}

export const runTool = (program, ...args) => execFileSync(program, args, {
    encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 28,
});

/** Returns the JSON that a program prints. */
export const json = (program, ...args) => JSON.parse(runTool(program, ...args));

export const convert = (...args) => runTool('tools/vit-convert', '-q', ...args);

/** Returns the .npy file of the photos' embeddings, each of length 1. */
export function embeddings(photos) {
    runTool('tools/vit-embed', '--normalize', '-o', pathOf('embeddings.npy'), ...photos);
    return readFileSync(pathOf('embeddings.npy'));
}

/** Returns a function that gives random numbers in [0, 1), the same ones for the same seed. */
export function random(seed) {
    let state = seed >>> 0;
    return () => {
        state = state + 0x6d2b79f5 >>> 0;
        let x = Math.imul(state ^ state >>> 15, state | 1);
        x ^= x + Math.imul(x ^ x >>> 7, x | 61);
        return ((x ^ x >>> 14) >>> 0) / 2 ** 32;
    };
}

/** Returns a copy of a file that is cut short, lacks a part, has up to 64 bytes replaced by one
 * value, or has up to eight changed bytes. */
export function damage(bytes, next) {
    const copy = Uint8Array.from(bytes);
    const place = () => Math.floor(next() * copy.length);
    const [from, to] = [place(), place()].sort((a, b) => a - b);
    switch (Math.floor(next() * 4)) {
    case 0: return copy.subarray(0, from);
    case 1: return Buffer.concat([copy.subarray(0, from), copy.subarray(to)]);
    case 2: return copy.fill(next() * 256, from, Math.min(to, from + 64));
    default:
        for (let i = 1 + next() * 8; i >= 1; i--) copy[place()] = next() * 256;
        return copy;
    }
}

// --- PNG ----------------------------------------------------------------------------------------

const table = Int32Array.from({ length: 256 }, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? n >>> 1 ^ 0xedb88320 : n >>> 1;
    return n;
});

function crc32(bytes) {
    let crc = -1;
    for (const byte of bytes) crc = table[(crc ^ byte) & 255] ^ crc >>> 8;
    return ~crc >>> 0;
}

function chunk(type, data) {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
    const [length, crc] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    crc.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, crc]);
}

/** Makes a PNG. colour: 0 grey, 2 RGB, 6 RGBA. The rows have no filter bytes. */
export function png(width, height, depth, colour, rows) {
    const size = rows.length / height;
    const lines = Buffer.alloc(height * (size + 1));
    for (let y = 0; y < height; y++) lines.set(rows.subarray(y * size, (y + 1) * size),
                                               y * (size + 1) + 1);
    const header = Buffer.alloc(13);
    header.writeUInt32BE(width);
    header.writeUInt32BE(height, 4);
    header.set([depth, colour], 8);
    return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header),
                          chunk('IDAT', deflateSync(lines)), chunk('IEND', Buffer.alloc(0))]);
}

/** Reads a PPM without comments: { width, height, pixels }. */
export function readPpm(path) {
    const bytes = readFileSync(path);
    const header = /^P6\s(\d+)\s(\d+)\s255\s/.exec(bytes.toString('latin1', 0, 40));
    const [width, height] = header.slice(1).map(Number);
    return { width, height, pixels: bytes.subarray(header[0].length) };
}

// --- a camera -----------------------------------------------------------------------------------

/** Converts a photo to a frame of YUV 4:2:0 that is `scale` times as large. */
function yuv({ width, height, pixels }, scale) {
    const [w, h] = [width * scale, height * scale];
    const frame = Buffer.alloc(w * h * 3 / 2);
    for (let y = 0; y < h; y++) {
        for (let x = 0; x < w; x++) {
            const at = 3 * ((y / scale | 0) * width + (x / scale | 0));
            const [r, g, b] = pixels.subarray(at, at + 3);
            frame[y * w + x] = 16 + (65.74 * r + 129.06 * g + 25.06 * b) / 256;
            const chroma = w * h + (y >> 1) * (w >> 1) + (x >> 1);
            frame[chroma] = 128 + (-37.95 * r - 74.49 * g + 112.44 * b) / 256;
            frame[chroma + w * h / 4] = 128 + (112.44 * r - 94.15 * g - 18.29 * b) / 256;
        }
    }
    return frame;
}

/** Makes the video that Chromium's fake camera repeats. */
function y4m(photos, scale) {
    const [{ width, height }] = photos;
    const header = `YUV4MPEG2 W${width * scale} H${height * scale} F10:1 Ip A1:1 C420jpeg\n`;
    return Buffer.concat([Buffer.from(header),
        ...photos.flatMap((photo) => [Buffer.from('FRAME\n'), yuv(photo, scale)])]);
}

/** Makes a picture of noise around a colour. */
function coloured(colour, side, next) {
    const pixels = Uint8Array.from({ length: 3 * side * side }, (_, i) =>
        Math.max(0, Math.min(255, colour[i % 3] + 64 * next() - 32)));
    return { width: side, height: side, pixels };
}

export const colours = { red: [200, 40, 40], green: [40, 180, 40], blue: [40, 60, 200] };

// --- all of them --------------------------------------------------------------------------------

/** Makes the bundled model in all types of weights, PNGs of photos, and wrong files. */
export function makeAll() {
    mkdirSync(made, { recursive: true });
    const weights = pathOf('weights.safetensors');
    convert(model, '--to', 'safetensors', '-o', weights);
    for (const dtype of dtypes) {
        const how = dtype === 'calibrated' ? ['--dtype', 'int8', '--calibrate', cat]
                                           : ['--dtype', dtype];
        convert(weights, ...how, '-o', pathOf(`${dtype}.vit`));
    }
    convert('tests/data/own/heads_slices/model.safetensors', '-o', pathOf('tiny.vit'));
    for (const name of ['headless', 'chans4']) {
        convert(`tests/data/fixtures/${name}/model.pth`, '-o', pathOf(`${name}.vit`));
    }
    const photo = readPpm('examples/cat.ppm');
    const { width, height, pixels } = photo;
    write('cat.png', png(width, height, 8, 2, pixels));
    const next = random(1);
    const noise = Uint8Array.from({ length: 4 * 67 * 41 }, () => next() * 256);
    write('noise.png', png(67, 41, 8, 2, noise.subarray(0, 3 * 67 * 41)));
    write('noise_grey.png', png(67, 41, 8, 0, noise.subarray(0, 67 * 41)));
    write('noise_alpha.png', png(67, 41, 8, 6, noise));
    write('camera.y4m', y4m([photo], 3));
    for (const [name, colour] of Object.entries(colours)) {
        const photos = Array.from({ length: 8 }, () => coloured(colour, 40, next));
        photos.forEach((one, i) => write(`${name}${i}.png`, png(40, 40, 8, 2, one.pixels)));
        write(`${name}.y4m`, y4m(photos, 4));
    }

    const huge = 20000; // 60 KB as a file, but 1.6 GB as a canvas
    write('huge.png', png(huge, huge, 1, 0, Buffer.alloc(huge * huge / 8)));
    write('labels.txt', 'airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n');
    write('words.txt', 'Neither a photo nor a model.\n');
    write('empty.jpg', '');
    write('cut.vit', readFileSync(model).subarray(0, 2000000));
    write('cut.jpg', readFileSync(cat).subarray(0, 400));
    write('bare.html', '<!DOCTYPE html><title>nothing</title>');
    write('leaving.mjs', `fetch('http://example.com/worker')
        .then(() => postMessage('sent'), () => postMessage('refused'));`);
    write('text.vit', 'A text, whatever its name says.\n');
}

/** Returns the logits of a build without fused multiply-add: { file: [bits in hexadecimal] }. */
export function nativeLogits(modelPath, photos) {
    const lines = runTool(resolve(built, 'reference'), made, modelPath, ...photos).trim().split('\n');
    return lines.map((line) => line.split(' ').slice(1));
}
