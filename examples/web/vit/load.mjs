// load.mjs - reads modules and models from any source, in pages and in Node. Models are read in
// pieces.

import { fromNode, inNode } from './pool.mjs';

const PIECE = 1 << 22;

/** Returns the path if a string or URL stands for a file, and the engine has files (Node). */
async function pathOf(source) {
    if (!inNode) return null;
    const { fileURLToPath } = await fromNode('url');
    const text = String(source);
    if (/^file:/i.test(text)) return fileURLToPath(text);
    return /^[a-z][a-z0-9+.-]+:/i.test(text) ? null : text;
}

export async function bytesOf(url) {
    const path = await pathOf(url);
    if (path !== null) return (await fromNode('fs/promises')).readFile(path);
    const response = await fetch(url);
    if (!response.ok) {
        const { status } = response;
        throw Object.assign(new Error(`${url}: HTTP status ${status}`), { status });
    }
    return response.arrayBuffer();
}

async function expand(data) {
    const bytes = new Uint8Array(data);
    if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes; // the server has expanded the file
    const expanded = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Uint8Array(await new Response(expanded).arrayBuffer());
}

/** Addresses that have no usable module, with the reasons. They are not requested again. */
const missing = new Map();

/** Fetches the bytes and returns use(bytes). */
async function attempt(url, use) {
    if (missing.has(url)) throw missing.get(url);
    const bytes = await bytesOf(url).catch((error) => {
        // A busy or unreachable server may have the file later.
        if (error.code === 'ENOENT' || [404, 410].includes(error.status)) missing.set(url, error);
        throw error;
    });
    try {
        return await use(new Uint8Array(bytes));
    } catch (error) {
        missing.set(url, new Error(`${url}: no module that runs here: ${error.message}`,
                                   { cause: error }));
        throw missing.get(url);
    }
}

/** Folders whose modules lack a NAME.wasm.gz. */
const unpacked = new Set();

/** Records that a folder has no compressed modules, so that the page does not request them. */
export function expectUnpacked(folder) {
    unpacked.add(new URL(folder).href);
}

/** Compiled modules, or promises of them. */
const modules = new Map();

/** Modules that replace the files of the same names. */
const provided = new Map();

export function provide(files) {
    for (const [name, module] of Object.entries(files)) {
        if (!/^[a-z-]+\.wasm$/.test(name)) throw new RangeError(`there is no module '${name}'`);
        if (!(module instanceof WebAssembly.Module) && !isBytes(module) && !isAddress(module)) {
            throw new TypeError(`${name}: expected a WebAssembly.Module, its bytes or its URL`);
        }
        provided.set(name, module);
    }
    modules.clear();
}

export const isProvided = ({ file }) => provided.has(file);

/** Returns the address of NAME.wasm. The module lies in the folder of `base`, unless it was
 * provided. */
export function addressOf(name, base) {
    if (provided.has(name)) return new URL(`provided:${name}`);
    try {
        return new URL(name, new URL(base, globalThis.location?.href));
    } catch {
        throw new TypeError(`base: expected the folder of ${name}, found ${base}`);
    }
}

/** Returns the module at a URL. Reads the compressed file if that file exists and is intact. */
async function readModule(url, compile) {
    const folder = new URL('.', url).href;
    if (typeof DecompressionStream === 'function' && !unpacked.has(folder)) {
        const found = await attempt(`${url}.gz`, async (bytes) => compile(await expand(bytes)))
            .catch(() => null);
        if (found) return found;
    }
    const found = await attempt(url, compile);
    unpacked.add(folder);
    return found;
}

/**
 * Changes one bit of the module, so that the module imports memory that is not shared. The module
 * then runs on one thread in engines that cannot share memory.
 */
function unshare(bytes) {
    let at = 8;
    const number = () => {
        let value = 0;
        for (let shift = 0; ; shift += 7) {
            const byte = bytes[at++];
            if (byte === undefined) throw new Error('the module is cut short');
            value |= (byte & 127) << shift;
            if (byte < 128) return value;
        }
    };
    const skip = () => { const length = number(); at += length; };
    while (bytes[at] !== 2) { // skips to the section of imports
        at++;
        skip();
    }
    at++;
    number(); // its size,
    number(); // number of imports; the linker puts the memory first:
    skip(); // its two names, 2 for a memory, its limits
    skip();
    if (bytes[at] !== 2) throw new Error('the first import of the module is no memory');
    bytes[at + 1] &= ~2; // "shared"
    return bytes;
}

async function findModule({ href, protocol, pathname }, compile) {
    if (protocol !== 'provided:') return readModule(href, compile);
    const given = provided.get(pathname);
    if (given instanceof WebAssembly.Module) return given;
    if (isBytes(given)) return compile(new Uint8Array(given).slice());
    return attempt(String(given), compile);
}

/** Returns the module at an address, from NAME.wasm.gz if that file exists. Compiles each module
 * only once. */
export function loadModule(url, shared) {
    const key = `${url} ${shared}`;
    if (!modules.has(key)) {
        modules.set(key, findModule(new URL(url), async (bytes) =>
            WebAssembly.compile(shared ? bytes : unshare(bytes))));
        modules.get(key).catch(() => modules.delete(key));
    }
    return modules.get(key);
}

/** Returns the first of chooseModules() that exists and compiles: { module, kind, threads }. */
export async function loadFirst(choices, base) {
    const known = choices.filter(isProvided);
    const reasons = [];
    for (const choice of known.length ? known : choices) {
        try {
            const url = addressOf(choice.file, base);
            return { ...choice, module: await loadModule(url, choice.threads > 1) };
        } catch (error) {
            reasons.push(error);
        }
    }
    if (reasons.length === 1) throw reasons[0];
    throw new AggregateError(reasons, reasons.map(({ message }) => message).join('; '));
}

// --- models: { total, pieces }, total undefined if the size is unknown ---------------------------

async function* piecesOfBlob(blob) {
    for (let at = 0; at < blob.size; at += PIECE) {
        yield new Uint8Array(await blob.slice(at, at + PIECE).arrayBuffer());
    }
}

async function* piecesOfStream(stream) {
    let reader, bytes;
    try {
        reader = stream.getReader({ mode: 'byob' });
        bytes = new Uint8Array(PIECE);
    } catch { // no stream of bytes
        reader = stream.getReader();
    }
    try {
        for (;;) {
            const { done, value } = await reader.read(bytes);
            if (done) return;
            yield value;
            if (bytes) bytes = new Uint8Array(value.buffer);
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}

async function* piecesOfFile(file) {
    const piece = new Uint8Array(PIECE);
    try {
        for (;;) {
            const { bytesRead } = await file.read(piece, 0, PIECE, null);
            if (bytesRead === 0) return;
            yield piece.subarray(0, bytesRead);
        }
    } finally {
        await file.close();
    }
}

async function openFile(path) {
    const file = await (await fromNode('fs/promises')).open(path);
    const { size } = await file.stat();
    return { total: size, pieces: piecesOfFile(file) };
}

function openResponse(response) {
    if (!response.ok) throw new Error(`${response.url}: HTTP status ${response.status}`);
    const length = response.headers.get('content-encoding') ? null :
        response.headers.get('content-length');
    return { total: length === null ? undefined : Number(length),
             pieces: response.body ? piecesOfStream(response.body) : [] };
}

async function openAddress(source) {
    const path = await pathOf(source);
    return path === null ? openResponse(await fetch(source)) : openFile(path);
}

const isBytes = (source) => source instanceof ArrayBuffer ||
    (ArrayBuffer.isView(source) && source.BYTES_PER_ELEMENT === 1);
const isAddress = (source) => typeof source === 'string' || source instanceof URL;

export function checkSource(source) {
    if (isBytes(source) || isAddress(source) || source instanceof Blob ||
        source instanceof Response) return;
    throw new TypeError('expected the bytes of a .vit file, a Blob, a Response or a URL');
}

/** Begins to read any source that checkSource accepts. */
export async function openSource(source) {
    if (isAddress(source)) return openAddress(source);
    if (source instanceof Blob) return { total: source.size, pieces: piecesOfBlob(source) };
    if (source instanceof Response) return openResponse(source);
    const bytes = source instanceof ArrayBuffer ? new Uint8Array(source) : source;
    return { total: bytes.length, pieces: [bytes] };
}
