// ppm.mjs - a PPM file (P6, 8 bits a channel) as a photo of vit.mjs.

const header = /^P6(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s/;

/** Turns a file's bytes into { width, height, data, format }; throws an Error with the reason. */
export function readPpm(bytes) {
    const found = header.exec(new TextDecoder('latin1').decode(bytes.subarray(0, 512)));
    if (!found) throw new Error('is not a PPM file: expected P6, width, height and 255');
    const [width, height, largest] = found.slice(1).map(Number);
    if (largest !== 255) throw new Error(`expected samples up to 255, found up to ${largest}`);
    if (!width || !height) throw new Error(`has no pixels: found ${width} x ${height}`);
    const rgb = bytes.subarray(found[0].length);
    if (rgb.length < 3 * width * height) {
        throw new Error(`expected ${3 * width * height} bytes of pixels, found ${rgb.length}`);
    }
    return { width, height, data: rgb.subarray(0, 3 * width * height), format: 'rgb8' };
}
