// features.mjs - finds the modules that this engine can run, and the order to try them in.
import { fromNode, inNode } from './pool.mjs';

const header = [0, 97, 115, 109, 1, 0, 0, 0];
const instructions = (...bytes) => new Uint8Array([
    ...header,
    1, 5, 1, 96, 0, 1, 127,                  // a type () -> i32,
    3, 2, 1, 0,                              // one function,
    7, 5, 1, 1, 102, 0, 0,                   // exported as f,
    10, bytes.length + 4, 1, bytes.length + 2, 0, ...bytes, 11,
]);
const vector = (byte) => [253, 12, ...Array(16).fill(byte)]; // v128.const

/** i16x8.extract_lane_s(v128.const ...) */
export const hasSimd = WebAssembly.validate(instructions(...vector(1), 253, 24, 0));

/** i16x8.extract_lane_s(i16x8.relaxed_dot_i8x16_i7x16_s(63 ..., 255 ...)) */
const relaxed = instructions(...vector(63), ...vector(255), 253, 146, 2, 253, 24, 0);

/** True if the relaxed dot product takes 8-bit operands as unsigned, unlike on ARM. */
function dotIsUnsigned() {
    if (!WebAssembly.validate(relaxed)) return false;
    try {
        const { f } = new WebAssembly.Instance(new WebAssembly.Module(relaxed)).exports;
        return f() === 2 * 63 * 255;
    } catch { // Cloudflare's Workers compile nothing at run time
        return false;
    }
}

export const hasRelaxedDot = dotIsUnsigned();

/** In a page: true if it is cross-origin isolated, so that workers may share memory. */
export const hasThreads = globalThis.crossOriginIsolated ??
    (typeof SharedArrayBuffer === 'function' && (typeof Worker === 'function' || inNode));

export async function countCores() {
    const cores = globalThis.navigator?.hardwareConcurrency;
    if (cores !== undefined) return cores;
    const { availableParallelism, cpus } = await fromNode('os');
    return availableParallelism?.() ?? cpus().length;
}

/** The fastest first. */
const modules = {
    relaxed: { runs: hasRelaxedDot, file: 'vit-relaxed.wasm' },
    simd: { runs: hasSimd, file: 'vit.wasm' },
    scalar: { runs: true, file: 'vit-scalar.wasm' },
};

/**
 * Returns [{ kind, threads, file }]: the requested module or, if `kind` is undefined, all modules
 * that this engine can run. A server may lack some of these. Threads need SIMD: engines without
 * SIMD have no threads.
 */
export function chooseModules(kind, threads = 1) {
    if (kind !== undefined && !Object.hasOwn(modules, kind)) {
        throw new RangeError(`there is no module '${kind}'`);
    }
    if (kind !== undefined && !modules[kind].runs) {
        throw new RangeError(`this engine cannot run the module '${kind}'`);
    }
    const kinds = kind === undefined ? Object.keys(modules) : [kind];
    return kinds.filter((each) => modules[each].runs).map((each) => ({
        kind: each, file: modules[each].file,
        threads: hasThreads && each !== 'scalar' ? threads : 1,
    }));
}
