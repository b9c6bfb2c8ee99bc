// photos.mjs - reads the pixels of photos from any source. Pages use the browser's decoders;
// without a browser, photo.wasm decodes photos.
import { addressOf, bytesOf, loadModule, provide } from './load.mjs';
import { inNode } from './pool.mjs';

/* The WebAssembly modules. Vite and webpack copy and rename files whose URLs have this form. */
const files = import.meta.url ? {
    'vit.wasm': new URL('./vit.wasm', import.meta.url),
    'vit-scalar.wasm': new URL('./vit-scalar.wasm', import.meta.url),
    'vit-relaxed.wasm': new URL('./vit-relaxed.wasm', import.meta.url),
    'photo.wasm': new URL('./photo.wasm', import.meta.url),
    'words.wasm': new URL('./words.wasm', import.meta.url),
    'convert.wasm': new URL('./convert.wasm', import.meta.url),
    'learn.wasm': new URL('./learn.wasm', import.meta.url),
} : {};
const renamed = Object.entries(files).filter(([name, url]) => !url.pathname.endsWith(`/${name}`));
if (renamed.length) provide(Object.fromEntries(renamed));

/** inNode is also true in Deno, which has both functions but no canvas to draw on. */
const inPage = !inNode && typeof OffscreenCanvas === 'function' &&
    typeof createImageBitmap === 'function';
const pictures = ['HTMLImageElement', 'HTMLCanvasElement', 'HTMLVideoElement', 'SVGImageElement',
                  'ImageBitmap', 'OffscreenCanvas', 'VideoFrame'];

const isA = (thing, name) => typeof globalThis[name] === 'function' &&
    thing instanceof globalThis[name];

export class PhotoError extends Error {
    name = 'PhotoError';
}

/** Returns the pixels of a picture that the browser has decoded. */
async function ofPicture(picture) {
    const { exact, pixelsOf } = await import('./decode.mjs');
    if (isA(picture, 'HTMLImageElement')) await picture.decode();
    const image = await createImageBitmap(picture, exact);
    try {
        return pixelsOf(image);
    } finally {
        image.close();
    }
}

async function ofBlob(blob, name) {
    try {
        if (inPage) return await (await import('./decode.mjs')).decode(blob);
        return await ofBytes(new Uint8Array(await blob.arrayBuffer()));
    } catch (error) {
        if (error.name !== 'PhotoError') throw error;
        throw new PhotoError(`${name}: ${error.message}`, { cause: error });
    }
}

/** Makes an instance of photo.wasm for each photo, so that its memory is freed afterwards and a
 * damaged file cannot harm the next photo. */
async function ofBytes(bytes) {
    const module = await loadModule(addressOf('photo.wasm', import.meta.url), true);
    const { exports } = await WebAssembly.instantiate(module);
    const at = exports.allocate(Math.max(bytes.length, 1)) >>> 0;
    if (!at) throw new PhotoError(`the image is too large: ${bytes.length} bytes`);
    new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
    let answer;
    try {
        answer = exports.decode(at, bytes.length) >>> 0;
    } catch (error) {
        throw new PhotoError('the image is damaged: its decoder failed', { cause: error });
    }
    const { buffer } = exports.memory;
    const [width, height, pixels, text] = new Uint32Array(buffer, answer, 4);
    if (!pixels) {
        const reason = new Uint8Array(buffer, text);
        throw new PhotoError(new TextDecoder().decode(reason.subarray(0, reason.indexOf(0))));
    }
    const data = new Uint8Array(buffer, pixels, 3 * width * height);
    return { width, height, data, format: 'rgb8' };
}

const isPixels = ({ width, height, data }) =>
    Number.isInteger(width) && Number.isInteger(height) && ArrayBuffer.isView(data);

/** Returns a photo as vit.mjs takes it, from any object that contains a photo. */
export async function photoOf(source) {
    if (typeof source === 'string' || source instanceof URL) {
        const name = String(source).slice(0, 200);
        const bytes = await bytesOf(source).catch((error) => {
            throw error.code === 'ENOENT' ? new Error(`${name}: no such file`) : error;
        });
        return ofBlob(new Blob([bytes]), name);
    }
    if (Object(source) !== source) throw new TypeError('expected a photo: a URL, a Blob, pixels');
    if (isPixels(source)) return source;
    if (pictures.some((name) => isA(source, name))) return ofPicture(source);
    if (source instanceof Response) {
        if (!source.ok) throw new Error(`${source.url}: HTTP status ${source.status}`);
        return ofBlob(await source.blob(), source.url || 'the photo');
    }
    if (source instanceof Blob) return ofBlob(source, source.name ?? 'the photo');
    const bytes = source instanceof ArrayBuffer ? new Uint8Array(source) : source;
    if (bytes instanceof Uint8Array) return ofBlob(new Blob([bytes]), 'the photo');
    throw new TypeError('expected a photo: a URL, a Blob, the bytes of a file, an image or pixels');
}
