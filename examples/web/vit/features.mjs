// features.mjs - which of the modules this engine can run.

const header = [0, 97, 115, 109, 1, 0, 0, 0];
const instructions = (...bytes) => new Uint8Array([
    ...header,
    1, 5, 1, 96, 0, 1, 127,                  // a type () -> i32,
    3, 2, 1, 0,                              // one function of it,
    7, 5, 1, 1, 102, 0, 0,                   // exported as f,
    10, bytes.length + 4, 1, bytes.length + 2, 0, ...bytes, 11,
]);
const vector = (byte) => [253, 12, ...Array(16).fill(byte)]; // v128.const

/** i16x8.extract_lane_s(v128.const ...) */
export const hasSimd = WebAssembly.validate(instructions(...vector(1), 253, 24, 0));

/** i16x8.extract_lane_s(i16x8.relaxed_dot_i8x16_i7x16_s(63 ..., 255 ...)) */
const relaxed = instructions(...vector(63), ...vector(255), 253, 146, 2, 253, 24, 0);

/** Eight bits are more than the instruction promises: on ARM the first of them is a sign. */
function dotIsUnsigned() {
    if (!WebAssembly.validate(relaxed)) return false;
    const { f } = new WebAssembly.Instance(new WebAssembly.Module(relaxed)).exports;
    return f() === 2 * 63 * 255;
}

export const hasRelaxedDot = dotIsUnsigned();

/** In a page: whether it is cross-origin isolated, so that workers may share memory. */
export const hasThreads = globalThis.crossOriginIsolated ?? typeof SharedArrayBuffer === 'function';

export async function countCores() {
    return globalThis.navigator?.hardwareConcurrency ??
        (await import('node:os')).availableParallelism();
}

const runs = { scalar: true, simd: hasSimd, relaxed: hasRelaxedDot };

/**
 * { kind, threads, file } that come closest to what is asked for; kind undefined: the fastest that
 * this engine runs. Threads need SIMD: engines without it have none.
 */
export function chooseModule(kind, threads = 1) {
    const found = kind ?? (hasRelaxedDot ? 'relaxed' : hasSimd ? 'simd' : 'scalar');
    if (!Object.hasOwn(runs, found)) throw new RangeError(`there is no module '${found}'`);
    if (!runs[found]) throw new RangeError(`this engine cannot run the module '${found}'`);
    const most = hasThreads && found !== 'scalar' ? threads : 1;
    const name = { scalar: '-scalar', simd: '', relaxed: '-relaxed' }[found];
    return { kind: found, threads: most, file: `vit${name}.wasm` };
}
