// vit.d.mts - the types of vit.mjs: Vision Transformers in a page or in Node.
// Every method but open() is synchronous and blocks while it computes: call it in a worker to keep
// a page responsive. Returned arrays belong to the caller.

/** A refusal by vit.h or a tool. Wrong arguments throw TypeErrors and RangeErrors instead. */
export class VitError extends Error {
    /** A vit_result: -1 to -10, as in vit.h. */
    readonly result: number;
    /** vit_result_string() of the result; the message may have details. */
    readonly resultString: string;
}

export type PixelFormat = 'rgb8' | 'rgba8' | 'gray8' | 'bgr8' | 'bgra8';

/** Rows of pixels from the top; a canvas's ImageData is one. At most 2^20 pixels a side. */
export interface Photo {
    readonly width: number;
    readonly height: number;
    readonly data: Uint8Array | Uint8ClampedArray;
    /** Default: rgba8, whose alpha is ignored. */
    readonly format?: PixelFormat;
    /** Bytes from one row to the next; by default without a gap. */
    readonly stride?: number;
}

/** A preprocessed photo: [in_chans, img_height, img_width] floats. */
export type Input = Float32Array;

export type ModuleKind = 'scalar' | 'simd' | 'relaxed';

export interface OpenOptions {
    /** The most threads. Default: one for each core, up to 8, if threads are available; otherwise
       1. */
    threads?: number;
    /** Default: the fastest that this engine runs and the server has. */
    module?: ModuleKind;
    /** The folder of the modules and of thread.mjs, with a slash at its end; by default that of
       vit.mjs. */
    base?: string | URL;
    /** Reports the bytes read so far; total is undefined if the server does not send it. */
    onProgress?: (read: number, total: number | undefined) => void;
    /** Verifies every tensor's checksum; true by default. */
    verify?: boolean;
}

/** WebAssembly.Module, if the types of pages are there. */
export type CompiledModule = typeof globalThis extends
    { WebAssembly: { Module: { prototype: infer T } } } ? T : object;

/**
 * Modules to use in place of the files of those names ('vit.wasm', 'words.wasm'), for engines that
 * compile nothing at run time and for bundlers: compiled, or their bytes or URLs. With one of
 * vit.mjs's own, a model has one thread unless OpenOptions.base has the folder of thread.mjs.
 */
export function provide(
    files: Record<string, CompiledModule | ArrayBuffer | Uint8Array | string | URL>): void;

/** The output of `vit-info --json`, without "file"; labels and synsets are members of the model. */
export interface ModelInfo {
    /** Every field that a .vit file stores, by its name in vit.h. */
    config: Record<string, number>;
    preprocessing: {
        resize: [height: number, width: number];
        crop: [height: number, width: number];
        crop_mode: string;
        interpolation: string;
        mean: number[];
        std: number[];
    };
    parameters: { total: number; parts: Record<string, number> };
    /** Bytes of the file, of the tensors of each type, of a session. */
    bytes: { file: number; session: number } & Record<string, number>;
    /** The kernels in use: "wasm-simd" or "scalar". */
    isa: string;
    num_tensors: number;
    num_labels: number;
    num_synsets: number;
    /** vit-convert's assumptions. */
    assumed: string[];
    /** Lines of "key: value": the origin of the weights. */
    source: string;
    /** The differences from a plain ViT, in words: "4 register tokens, SiLU"; "" if there are
       none. */
    options: string;
    /** Hash of all that affects an embedding: models with equal ones give equal embeddings. */
    backbone: string;
}

export interface Prediction {
    index: number;
    /** null if the file names no classes. */
    label: string | null;
    /** Probability: by softmax or by sigmoid, depending on the model. */
    score: number;
}

export interface Rectangle { x: number; y: number; width: number; height: number }

/** The places of a photo's patches, in the photo's pixels from its top left corner. */
export interface Crop extends Rectangle {
    // The rectangle itself is the model's input; padding extends beyond the photo.

    /** The grid of patches, and the part of the input that it covers. */
    rows: number;
    columns: number;
    patches: Rectangle;
    /** vit_find_crop: the photo is resized to this size, and the input begins at left, top. */
    resized: { width: number; height: number; left: number; top: number };
}

export interface Wants {
    logits?: boolean;
    embedding?: boolean;
    /** Tokens after the final norm. */
    tokens?: boolean;
    /** Blocks from 0 on whose tokens and attention are returned. */
    blocks?: readonly number[];
    /** Tokens after each of `blocks`; by default true unless `attention` is. */
    blockTokens?: boolean;
    /** The attention of each of `blocks`. */
    attention?: boolean;
}

/** Of the photo's patches. */
interface Grid { rows: number; columns: number }

interface AllOutputs {
    /** [num_classes] */
    logits: Float32Array;
    /** [embedding width] */
    embedding: Float32Array;
    /** [num_tokens, embed_dim]: prefix tokens, then the patches row by row. */
    tokens: Float32Array;
}

interface AllBlockOutputs {
    /** [num_tokens, embed_dim] */
    tokens: Float32Array;
    /** [num_heads, num_tokens, num_tokens]: row i is the attention of token i. */
    attention: Float32Array;
}

/** The names that W requests by a literal true. */
type Asked<W> = { [K in keyof W]: W[K] extends true ? K : never }[keyof W];
/** These members of T exist; the others may. */
type Given<T, Names> = Pick<T, Extract<keyof T, Names>> & Partial<T>;

/** Requested outputs exist, as far as the type of `wants` shows it. */
export type Outputs<W extends Wants = Wants> = Grid & Given<AllOutputs, Asked<W>> &
    /** In the order of wants.blocks. */
    (W extends { blocks: readonly number[] } ? { blocks: BlockOutput<W>[] }
        : { blocks?: BlockOutput<W>[] });

export type BlockOutput<W extends Wants = Wants> = { block: number } & Grid & Given<AllBlockOutputs,
    (W extends { attention: true } ? 'attention' : never) |
    (W extends { blockTokens: true } | { blockTokens?: undefined; attention?: false } ? 'tokens'
        : never)>;

export interface AttentionChoice {
    /** From 0 on; by default the last. */
    block?: number;
    /** The attending patch, row by row; by default the class token, or the mean of all tokens
     * in models without one. */
    patch?: number;
    /** One head; by default the mean of all. */
    head?: number;
}

export interface Components {
    /** The first photo's. */
    rows: number;
    columns: number;
    /** For each photo [3, rows, columns] of its grid; NaN for patches outside the foreground. */
    maps: Float32Array[];
    /** The variance of each component, at most three, and its share of all. */
    variance: number[];
    explained: number[];
}

export interface Similarity {
    rows: number;
    columns: number;
    patch: number;
    /** For each photo [rows, columns] of its grid. */
    maps: Float32Array[];
}

export interface Positions {
    kind: PositionKind;
    /** For models whose blocks have their own positions, otherwise undefined. */
    block?: number;
    /** The length of a position's vector. */
    dim: number;
    rows: number;
    columns: number;
    /** Cosine of each position to each: [n, n], n = rows * columns. */
    values: Float32Array;
}

export type PositionKind = 'embedding' | 'rotary' | 'relative';

/** The output of run(), or its tokens, [num_tokens, embed_dim], and the grid of their patches; by
 * default that of the latest photo. */
export interface Tokens {
    readonly tokens: Float32Array;
    readonly rows?: number;
    readonly columns?: number;
}

/** One .vit file with a session, in its own memory. */
export class Model {
    /**
     * source is the bytes of a .vit file, or their place: a URL or, in Node, a path. They are read
     * in pieces into the module's memory. Throws a VitError for an invalid file.
     */
    static open(source: ArrayBuffer | Uint8Array | Blob | Response | string | URL,
                options?: OpenOptions): Promise<Model>;
    private constructor();

    readonly info: ModelInfo;
    /** [num_classes]; null for those without a name. */
    readonly labels: readonly (string | null)[];
    /** [num_classes]: WordNet's ids, null for those without one. */
    readonly synsets: readonly (string | null)[];
    readonly threads: number;
    readonly module: ModuleKind;
    /** Bytes of the module's memory at present; it never shrinks. */
    readonly memory: number;
    readonly closed: boolean;

    /** The best `top` classes, 5 if left out, the best first. */
    classify(photo: Photo | Input, top?: number): Prediction[];
    /** Sets the size of inputs to that of a photo, if the model keeps photos' aspect ratios
     * (`crop_mode` "aspect"). Each call with a photo does so itself; an Input needs it again after
     * photos of other sizes. */
    fit(photo: { readonly width: number; readonly height: number }): void;
    /** The bits of vit_preprocess. */
    preprocess(photo: Photo): Input;
    crop(photo: { readonly width: number; readonly height: number }): Crop;
    /** The patch at a point of a photo, in its pixels; -1 if none is there. */
    patchAt(photo: { readonly width: number; readonly height: number },
            x: number, y: number): number;
    run<W extends Wants>(photo: Photo | Input,
                         wants: W & { [K in Exclude<keyof W, keyof Wants>]: never }): Outputs<W>;
    /** Turns logits into the model's probabilities; a new array. */
    scores(logits: Float32Array): Float32Array;

    // The values of tools/vit-look, from the same code.

    /** A token's attention in a block: [rows, columns]. */
    attention(photo: Photo | Input, choice?: AttentionChoice): Float32Array;
    /** Through all blocks (Abnar and Zuidema 2020): [rows, columns]. */
    rollout(photo: Photo | Input, choice?: { patch?: number }): Float32Array;
    /** The first three components of all photos' tokens, after the final norm or a block. */
    principalComponents(photos: readonly (Photo | Input | Tokens)[],
                        choice?: { block?: number; foreground?: boolean }): Components;
    /** Cosines to a patch of the first photo. */
    similarity(photos: readonly (Photo | Input | Tokens)[], patch: number,
               choice?: { block?: number }): Similarity;
    /** Of the first kind that the model has, or of `kind`. */
    positions(choice?: { kind?: PositionKind; block?: number }): Positions;
    /** Of two vectors of equal length, such as embeddings: -1 to 1. */
    cosine(a: Float32Array, b: Float32Array): number;

    /** A copy of the .vit file. */
    file(): Uint8Array;

    /** True if the file has a text encoder, for words.mjs. */
    readonly hasText: boolean;
    /** A copy of the text encoder's own .vit file; null if there is none. */
    textFile(): Uint8Array | null;

    /** Ends the threads and frees the memory. Every call except close() throws afterwards. */
    close(): void;
}
