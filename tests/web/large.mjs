// large.mjs - tests photos of 12 megapixels. A JPEG must be decoded at a fraction of its size,
// quickly, in every orientation, and to nearly the pixels of the whole photo.
import { Visit, expect, same, test } from './harness.mjs';

const WIDTH = 4000, HEIGHT = 3000;

/**
 * Runs in the page. For each EXIF orientation, decodes the photo at its whole size and at a quarter
 * of it, scales the whole photo down to a quarter, and returns the mean difference between the two
 * small images (in red only), and the milliseconds of both decodings.
 */
async function decodeInPage({ width, height }) {
    const { decode } = await import('/decode.mjs');
    const picture = await createImageBitmap(await (await fetch('/cat.jpg')).blob());
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext('2d').drawImage(picture, 0, 0, width, height);
    const plain = new Uint8Array(await (await canvas.convertToBlob({
        type: 'image/jpeg', quality: 0.9 })).arrayBuffer());
    /** Inserts an APP1 segment after the first marker: a big-endian TIFF with one entry, the
     * orientation. */
    const turned = (orientation) => new Blob([plain.subarray(0, 2), Uint8Array.of(
        0xff, 0xe1, 0, 34, 0x45, 0x78, 0x69, 0x66, 0, 0, 0x4d, 0x4d, 0, 42, 0, 0, 0, 8, 0, 1,
        0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0), plain.subarray(2)]);
    const timed = async (file, eighths) => {
        const start = performance.now();
        return [await decode(file, () => eighths), performance.now() - start];
    };
    const found = [];
    for (let orientation = 1; orientation <= 8; orientation++) {
        const file = turned(orientation);
        const [whole, slow] = await timed(file, 8), [part, fast] = await timed(file, 2);
        let sum = 0;
        const ratio = whole.width / part.width;
        for (let y = 0; y < part.height; y++) {
            for (let x = 0; x < part.width; x++) { // the mean of the pixels that (x, y) replaces
                let mean = 0;
                for (let down = 0; down < ratio; down++) {
                    for (let right = 0; right < ratio; right++) {
                        mean += whole.data[((y * ratio + down) * whole.width
                            + x * ratio + right) * 3];
                    }
                }
                sum += Math.abs(mean / ratio ** 2 - part.data[(y * part.width + x) * 3]);
            }
        }
        found.push({ orientation, size: part.size, width: part.width, height: part.height, ratio,
            difference: sum / (part.width * part.height), whole: slow, part: fast });
    }
    const decoder = globalThis.ImageDecoder;
    delete globalThis.ImageDecoder;
    const [without] = await timed(turned(6), 2);
    globalThis.ImageDecoder = decoder;
    const cut = new Blob([plain.subarray(0, plain.length >> 1)]);
    const refused = await decode(cut, () => 2).then(() => null, (error) => error.message);
    return { found, without: [without.width, without.height], refused };
}

export default async function large() {
    const visited = await Visit.open();
    await test('a JPEG of 12 megapixels at a quarter of its size, in all orientations', async () => {
        const { found, without, refused } = await visited.page.evaluate(decodeInPage,
            { width: WIDTH, height: HEIGHT });
        for (const { orientation, size, width, height, ratio, difference } of found) {
            const sides = orientation < 5 ? [WIDTH, HEIGHT] : [HEIGHT, WIDTH];
            same([size.width, size.height], sides, `size of orientation ${orientation}`);
            same([width, height, ratio], [sides[0] / 4, sides[1] / 4, 4], 'its pixels');
            expect(difference < 1.5, `orientation ${orientation}: ${difference} levels apart`);
        }
        same(without, [HEIGHT, WIDTH], 'without ImageDecoder, the whole photo');
        same(refused, 'the image is truncated', 'half a file');
        const ms = (what) => Math.min(...found.map((turn) => turn[what])).toFixed(0);
        return `${ms('part')} ms, whole ${ms('whole')} ms`;
    });
    await visited.close();
}
