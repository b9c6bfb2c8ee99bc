// decode.mjs - decodes a photo file to { width, height, data, format: 'rgb8' }, in a worker. A
// large JPEG may be decoded at a smaller size; `size` is then the photo's own { width, height }.
// This file decodes PNG, PGM and PPM to the bits of the native programs: it drops alpha without
// multiplying, keeps the upper 8 bits of 16-bit samples, and applies no colour profile. A canvas
// cannot do this. The browser decodes all other formats, and turns a photo upright by its EXIF
// data.

const MAX_BYTES = 256 * 2 ** 20;     // the limits of the native programs
const MAX_PIXELS = 2 ** 27;
const STRIP = 2 ** 22;               // pixels taken from a canvas at once

export class PhotoError extends Error {
    name = 'PhotoError';
}

const fail = (text) => { throw new PhotoError(`the image ${text}`); };

function checkSize(width, height) {
    if (!width || !height) fail('is damaged: it has no pixels');
    if (width * height <= MAX_PIXELS) return;
    fail(`is too large: ${width} x ${height} pixels, at most ${MAX_PIXELS / 1e6 | 0} million are `
        + 'read. Make it smaller first; a model sees a few hundred pixels a side');
}

// --- the kind of a file ---

const begins = (bytes, text, at = 0) =>
    [...text].every((letter, i) => bytes[at + i] === letter.charCodeAt(0));

/** Returns 'png', 'jpeg', 'heic' ...; null for any other kind of file. */
function photoKind(bytes) {
    if (begins(bytes, '\x89PNG\r\n\x1a\n')) return 'png';
    if (begins(bytes, '\xff\xd8\xff')) return 'jpeg';
    if (/^P[56]\s/.test(String.fromCharCode(...bytes.subarray(0, 3)))) return 'pnm';
    if (begins(bytes, 'GIF8')) return 'gif';
    if (begins(bytes, 'BM')) return 'bmp';
    if (begins(bytes, 'RIFF') && begins(bytes, 'WEBP', 8)) return 'webp';
    if (begins(bytes, 'II*\0') || begins(bytes, 'MM\0*')) return 'tiff';
    if (begins(bytes, 'ftyp', 4)) {
        if (begins(bytes, 'avi', 8)) return 'avif';
        if (begins(bytes, 'hei', 8) || begins(bytes, 'hev', 8) || begins(bytes, 'mif1', 8)) {
            return 'heic';
        }
    }
    return null;
}

/**
 * eighths({ width, height }) returns 1, 2, 4 or 8: the smallest number of eighths of a JPEG's size
 * that is large enough for the caller. Decoding at a smaller size can take a fifth of the time.
 */
export async function decode(file, eighths = () => 8) {
    if (file.size === 0) fail('is empty');
    if (file.size > MAX_BYTES) {
        fail(`is too large: ${(file.size / 2 ** 20).toFixed(0)} MiB, at most `
            + `${MAX_BYTES / 2 ** 20} are read. Make it smaller first`);
    }
    const bytes = new Uint8Array(await file.arrayBuffer());
    const kind = photoKind(bytes);
    if (kind === 'png' && typeof DecompressionStream === 'function') return decodePng(bytes);
    if (kind === 'pnm') return decodePnm(bytes);
    const whole = kind === 'jpeg' ? checkJpeg(bytes) : null;
    const fraction = whole && await decodeFraction(bytes, whole, eighths(whole));
    const image = fraction ?? await browserDecodes(file, kind);
    try {
        const photo = pixelsOf(image);
        const turned = { width: whole?.height, height: whole?.width };
        return fraction ? { ...photo, size: image.rotation % 180 ? turned : whole } : photo;
    } finally {
        image.close();
    }
}

// --- the browser's decoders ---

export const exact = {
    colorSpaceConversion: 'none', premultiplyAlpha: 'none', imageOrientation: 'from-image',
};

async function browserDecodes(file, kind) {
    try {
        return await createImageBitmap(file, exact);
    } catch {
        if (kind === 'heic' || kind === 'tiff' || kind === 'avif') {
            return fail(`is a ${kind.toUpperCase()} photo, which this browser does not decode. `
                + 'Save it as JPEG or PNG first');
        }
        return fail(kind ? `is damaged: the browser does not decode this ${kind.toUpperCase()}`
            : 'is in no format that this browser decodes. Use a JPEG or PNG file');
    }
}

/**
 * Scaled decoding by libjpeg, which some browsers offer in ImageDecoder. Returns null if `eighths`
 * is 8, if this browser has no ImageDecoder or does not report the photo's orientation, or if
 * decoding fails. browserDecodes then decodes the photo or reports the error.
 */
async function decodeFraction(bytes, { width, height }, eighths) {
    if (eighths === 8 || !globalThis.VideoFrame?.prototype.hasOwnProperty('rotation')
        || typeof ImageDecoder !== 'function') return null;
    const desiredWidth = Math.ceil(width * eighths / 8);
    const desiredHeight = Math.ceil(height * eighths / 8);
    const decoder = new ImageDecoder({ data: bytes, type: 'image/jpeg',
        colorSpaceConversion: 'none', desiredWidth, desiredHeight });
    try {
        const { image } = await decoder.decode();
        if (image.codedWidth === desiredWidth && image.codedHeight === desiredHeight) return image;
        image.close();
    } catch {
        // null, as above
    } finally {
        decoder.close();
    }
    return null;
}

/** Draws the photo strip by strip, because browsers limit the size of a canvas, and a canvas for
 * the whole photo takes much memory. */
export function pixelsOf(image) {
    const width = image.displayWidth ?? image.width, height = image.displayHeight ?? image.height;
    checkSize(width, height);
    const data = new Uint8Array(width * height * 3);
    const rows = Math.min(height, Math.max(1, Math.floor(STRIP / width)));
    const canvas = new OffscreenCanvas(width, rows);
    const context = canvas.getContext('2d', { willReadFrequently: true });
    for (let y = 0, to = 0; y < height; y += rows) {
        const count = Math.min(rows, height - y);
        context.clearRect(0, 0, width, rows);
        context.drawImage(image, 0, -y);
        const rgba = context.getImageData(0, 0, width, count).data;
        for (let from = 0; from < rgba.length; from += 4) {
            data[to++] = rgba[from];
            data[to++] = rgba[from + 1];
            data[to++] = rgba[from + 2];
        }
    }
    return { width, height, data, format: 'rgb8' };
}

/** Returns the size. Refuses a file that ends too early, because browsers would accept it. */
function checkJpeg(bytes) {
    const view = new DataView(bytes.buffer);
    let size = null;
    for (let at = 2; ;) {
        while (at < bytes.length && bytes[at] !== 0xff) at++;
        while (at < bytes.length && bytes[at] === 0xff) at++;
        const marker = bytes[at++];
        if (at + 2 > bytes.length) fail('is truncated');
        if (marker === 0 || marker === 1 || (marker >= 0xd0 && marker <= 0xd8)) continue;
        if (marker === 0xd9) fail('is truncated');
        const frame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
        if (frame && at + 7 <= bytes.length) {
            size = { width: view.getUint16(at + 5), height: view.getUint16(at + 3) };
            checkSize(size.width, size.height);
        }
        at += view.getUint16(at);
        if (marker === 0xda) { // start of scan: the end marker comes after it
            let end = bytes.length;
            while ((end = bytes.lastIndexOf(0xd9, end - 1)) > at) {
                if (bytes[end - 1] === 0xff) return size;
            }
            fail('is truncated');
        }
    }
}

// --- PGM and PPM ---

function decodePnm(bytes) {
    const head = new TextDecoder('latin1').decode(bytes.subarray(0, 4096));
    const gap = String.raw`(?:\s|#[^\n]*\n)+`;
    const found = head.match(new RegExp(`^P([56])${gap}(\\d+)${gap}(\\d+)${gap}(\\d+)\\s`));
    if (!found) fail('is damaged: not a valid PGM or PPM header');
    const [whole, kind, width, height, max] = found.map((text, i) => (i ? Number(text) : text));
    checkSize(width, height);
    const channels = kind === 6 ? 3 : 1, each = max < 256 ? 1 : 2;
    if (max < 1 || max > 65535) fail('is damaged: not a valid PGM or PPM header');
    const samples = bytes.subarray(whole.length);
    if (samples.length < width * height * channels * each) fail('is truncated');
    const data = new Uint8Array(width * height * 3);
    for (let i = 0; i < data.length; i++) {
        const at = (channels === 3 ? i : Math.floor(i / 3)) * each;
        const sample = each === 1 ? samples[at] : samples[at] * 256 + samples[at + 1];
        data[i] = Math.floor((Math.min(sample, max) * 255 + (max >> 1)) / max);
    }
    return { width, height, data, format: 'rgb8' };
}

// --- PNG ---

const crcTable = Uint32Array.from({ length: 256 }, (_, n) => {
    for (let bit = 0; bit < 8; bit++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
    return n;
});

function crc32(bytes) {
    let crc = 0xffffffff;
    for (let i = 0; i < bytes.length; i++) crc = crcTable[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
    return (crc ^ 0xffffffff) >>> 0;
}

/** Returns the header, the palette, and the compressed rows. */
function readChunks(bytes) {
    const view = new DataView(bytes.buffer);
    const png = { palette: null, rows: [] };
    for (let at = 8; ;) {
        if (bytes.length - at < 12) fail('is truncated');
        const length = view.getUint32(at);
        if (length > bytes.length - at - 12) fail('is truncated');
        const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
        const body = bytes.subarray(at + 8, at + 8 + length);
        const known = ['IHDR', 'PLTE', 'IDAT', 'IEND'].includes(name);
        if (!known && !(bytes[at + 4] & 32)) fail('is damaged: unknown PNG chunk');
        const end = at + 8 + length;
        if (known && crc32(bytes.subarray(at + 4, end)) !== view.getUint32(end)) {
            fail('is damaged: PNG checksum differs');
        }
        if (at === 8 && (name !== 'IHDR' || length !== 13)) fail('is damaged: no PNG header');
        if (at === 8) {
            png.width = view.getUint32(16);
            png.height = view.getUint32(20);
            [png.depth, png.colour, , , png.interlaced] = body.subarray(8);
            checkSize(png.width, png.height);
        } else if (name === 'PLTE') {
            png.palette = body;
        } else if (name === 'IDAT') {
            png.rows.push(body);
        } else if (name === 'IEND') {
            return png;
        }
        at += 12 + length;
    }
}

/** Adam7: first column, first row, step across, step down. */
const adam7 = [[0, 0, 8, 8], [4, 0, 8, 8], [0, 4, 4, 8], [2, 0, 4, 4], [0, 2, 2, 4], [1, 0, 2, 2],
    [0, 1, 1, 2]];

function passesOf({ width, height, interlaced }) {
    const passes = interlaced ? adam7 : [[0, 0, 1, 1]];
    return passes.map(([x, y, across, down]) => ({
        x, y, across, down,
        width: Math.ceil((width - x) / across),
        height: Math.ceil((height - y) / down),
    })).filter((pass) => pass.width > 0 && pass.height > 0);
}

function paeth(a, b, c) {
    const p = a + b - c, pa = Math.abs(p - a), pb = Math.abs(p - b), pc = Math.abs(p - c);
    if (pa <= pb && pa <= pc) return a;
    return pb <= pc ? b : c;
}

/** Reverses the filter of a row: `line` has the filter's number, then `size` bytes. `above` is the
 * previous row, or zeros for the first row. */
function unfilter(line, above, size, step) {
    const filter = line[0];
    if (filter > 4) fail('is damaged: unknown PNG filter');
    for (let i = 1; filter && i <= size; i++) {
        const left = i > step ? line[i - step] : 0, up = above[i];
        if (filter === 1) line[i] += left;
        else if (filter === 2) line[i] += up;
        else if (filter === 3) line[i] += (left + up) >> 1;
        else line[i] += paeth(left, up, i > step ? above[i - step] : 0);
    }
}

/** Writes the samples of a row as red, green and blue to their places. */
function place(png, pass, line, row, data) {
    const { depth, channels, palette } = png;
    const bytes = depth === 16 ? 2 : 1, grey = channels < 3;
    let to = ((pass.y + row * pass.down) * png.width + pass.x) * 3;
    for (let i = 0; i < pass.width; i++, to += 3 * pass.across) {
        let at = 1 + i * channels * bytes;
        if (depth < 8) {
            const bit = i * depth;
            let sample = (line[1 + (bit >> 3)] >> (8 - depth - (bit & 7))) & ((1 << depth) - 1);
            if (!palette) sample *= 255 / ((1 << depth) - 1);
            data[to] = data[to + 1] = data[to + 2] = sample;
        } else if (grey) {
            data[to] = data[to + 1] = data[to + 2] = line[at];
        } else {
            for (let c = 0; c < 3; c++, at += bytes) data[to + c] = line[at];
        }
        if (!palette) continue;
        const colour = data[to] * 3;
        if (colour >= palette.length) fail('is damaged: a colour that is not in its palette');
        for (let c = 0; c < 3; c++) data[to + c] = palette[colour + c];
    }
}

const depthsOf = { 0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16] };
const channelsOf = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

async function decodePng(bytes) {
    const png = readChunks(bytes);
    if (!depthsOf[png.colour]?.includes(png.depth)) fail('is damaged: no such kind of PNG');
    if (png.colour !== 3) png.palette = null;
    else if (!png.palette) fail('is damaged: it has no palette');
    png.channels = channelsOf[png.colour];
    const data = new Uint8Array(png.width * png.height * 3);
    const rows = rowsOf(png, data);
    rows.next();
    const reader = new Blob(png.rows).stream().pipeThrough(new DecompressionStream('deflate'))
        .getReader();
    for (let finished = false; !finished;) {
        const { value, done } = await reader.read().catch(() => fail('is damaged: PNG data'));
        if (done) fail('is truncated');
        finished = rows.next(value).done;
    }
    reader.cancel().catch(() => {});
    return { width: png.width, height: png.height, data, format: 'rgb8' };
}

/** Takes the inflated rows in pieces of any size; `done` is true after the last row. */
function* rowsOf(png, data) {
    let piece = yield, at = 0;
    for (const pass of passesOf(png)) {
        const size = Math.ceil(pass.width * png.channels * png.depth / 8);
        let line = new Uint8Array(1 + size), above = new Uint8Array(1 + size);
        for (let row = 0; row < pass.height; row++) {
            for (let have = 0; have <= size;) {
                while (at === piece.length) [piece, at] = [yield, 0];
                const count = Math.min(1 + size - have, piece.length - at);
                line.set(piece.subarray(at, at + count), have);
                have += count;
                at += count;
            }
            unfilter(line, above, size, Math.ceil(png.channels * png.depth / 8));
            place(png, pass, line, row, data);
            [line, above] = [above, line];
        }
    }
}
