// decode.mjs - tests the page's own decoders: PNGs of every kind with known samples, PGM and PPM,
// and damaged files. The test runs in Node, so no browser decodes anything.
import { crc32, deflateSync } from 'node:zlib';
import { decode } from '../../examples/web/decode.mjs';
import { expect, same, test } from './harness.mjs';

let seed = 1;
const random = (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * below);
};

function chunk(name, body) {
    const named = Buffer.concat([Buffer.from(name), body]), ends = Buffer.alloc(8);
    ends.writeUInt32BE(body.length);
    ends.writeUInt32BE(crc32(named), 4);
    return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
}

const channelsOf = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };
const depthsOf = { 0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16] };
const passes = [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2],
                [0, 1, 1, 2]];

/** Packs a row of samples into bytes. */
function packed(samples, depth) {
    const row = Buffer.alloc(Math.ceil(samples.length * depth / 8));
    samples.forEach((sample, i) => {
        if (depth === 16) row.writeUInt16BE(sample, 2 * i);
        else row[i * depth >> 3] |= sample << (8 - depth - (i * depth & 7));
    });
    return row;
}

/** Filters row i with PNG's filter i % 5 (section 9 of the PNG specification). */
function filtered(rows, step) {
    let above = Buffer.alloc(rows[0].length);
    return Buffer.concat(rows.map((row, i) => {
        const filter = i % 5, out = Buffer.alloc(1 + row.length, filter);
        row.forEach((value, x) => {
            const [a, c] = x < step ? [0, 0] : [row[x - step], above[x - step]], b = above[x];
            const p = a + b - c, [pa, pb, pc] = [a, b, c].map((near) => Math.abs(p - near));
            const paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
            out[1 + x] = value - [0, a, b, (a + b) >> 1, paeth][filter];
        });
        above = row;
        return out;
    }));
}

/** Returns { file, data }: a PNG of random samples, and the rgb8 pixels that decode() must give. */
function makePng({ colour, depth, interlaced, width, height, more = [] }) {
    const channels = channelsOf[colour];
    const palette = Buffer.from(Array.from({ length: 3 << depth }, () => random(256)));
    const pixels = Array.from({ length: width * height }, () =>
        Array.from({ length: channels }, () => random(1 << depth)));
    const byteOf = (sample) =>
        (depth === 16 ? sample >> 8 : Math.round(sample * 255 / ((1 << depth) - 1)));
    const data = Buffer.from(pixels.flatMap(([first, ...rest]) => {
        if (colour === 3) return [...palette.subarray(3 * first, 3 * first + 3)];
        return channels < 3 ? Array(3).fill(byteOf(first)) : [first, rest[0], rest[1]].map(byteOf);
    }));
    const parts = (interlaced ? passes : [[0, 0, 1, 1]]).map(([left, top, across, down]) => {
        const rows = [];
        for (let y = top; y < height; y += down) {
            const row = [];
            for (let x = left; x < width; x += across) row.push(...pixels[y * width + x]);
            if (row.length) rows.push(packed(row, depth));
        }
        return rows.length ? filtered(rows, Math.ceil(channels * depth / 8)) : Buffer.alloc(0);
    });
    const header = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, depth, colour, 0, 0, Number(interlaced)]);
    header.writeUInt32BE(width);
    header.writeUInt32BE(height, 4);
    const body = deflateSync(Buffer.concat(parts)), cut = body.length >> 1;
    const file = Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', header),
        ...more, ...(colour === 3 ? [chunk('PLTE', palette)] : []),
        chunk('IDAT', body.subarray(0, cut)), chunk('IDAT', body.subarray(cut)),
        chunk('IEND', Buffer.alloc(0))]);
    return { file, data };
}

const read = (bytes) => decode(new Blob([bytes]));

async function samePixels(file, width, height, data, name) {
    const found = await read(file);
    same(`${found.width} x ${found.height}`, `${width} x ${height}`, name);
    expect(Buffer.compare(Buffer.from(found.data), data) === 0, `${name}: other pixels`);
}

async function refuses(file, text) {
    const message = await read(file).then(() => 'nothing', (error) => error.message);
    expect(message.includes(text), `"${text}" expected, found "${message}"`);
}

export default async function suite() {
    await test('PNG of every kind, to the bit: no profile, no alpha, 8 of 16 bits', async () => {
        const gamma = chunk('gAMA', Buffer.from([0, 1, 0, 0]));
        const kinds = Object.entries(depthsOf).flatMap(([colour, depths]) =>
            depths.flatMap((depth) => [false, true].flatMap((interlaced) =>
                [[53, 37], [3, 5], [1, 1], [9, 2]].map(([width, height], i) => ({
                    colour: Number(colour), depth, interlaced, width, height,
                    more: i % 2 ? [gamma] : [],
                })))));
        for (const kind of kinds) {
            const { file, data } = makePng(kind);
            await samePixels(file, kind.width, kind.height, data, JSON.stringify(kind));
        }
        return `${kinds.length} files`;
    });

    await test('PGM and PPM: comments, 8 and 16 bits, other maxima', async () => {
        await samePixels(Buffer.from('P6 2 1 255\nabcdef'), 2, 1, Buffer.from('abcdef'), 'P6');
        await samePixels(Buffer.from('P5\n# a\n1 2\n255\nab'), 1, 2, Buffer.from('aaabbb'), 'P5');
        await samePixels(Buffer.from([...Buffer.from('P5 2 1 1000\n'), 3, 232, 1, 244]), 2, 1,
                         Buffer.from([255, 255, 255, 128, 128, 128]), '16 bits');
        await refuses(Buffer.from('P6 2 1 255\nabcde'), 'is truncated');
        await refuses(Buffer.from('P6 2 x'), 'is damaged');
    });

    await test('damage', async () => {
        const { file } = makePng({ colour: 2, depth: 8, interlaced: false, width: 40, height: 30 });
        for (const length of [9, 30, 60, file.length >> 1, file.length - 1]) {
            await refuses(file.subarray(0, length), 'is truncated');
        }
        const flipped = Buffer.from(file);
        flipped[file.length >> 1] ^= 1;
        await refuses(flipped, 'PNG checksum differs');
        const huge = Buffer.alloc(13);
        huge.writeUInt32BE(20000);
        huge.writeUInt32BE(20000, 4);
        await refuses(Buffer.concat([file.subarray(0, 8), chunk('IHDR', huge), file.subarray(33)]),
                      'is too large: 20000 x 20000 pixels');
        await refuses(Buffer.alloc(0), 'is empty');
        const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0x80, 0, 0x80, 0, 1, 1, 17, 0]);
        await refuses(jpeg, 'is too large: 32768 x 32768 pixels');
        await refuses(Buffer.from([0xff, 0xd8, 0xff, 0xda, 0, 2, 1, 2, 3, 4]), 'is truncated');
    });
}
