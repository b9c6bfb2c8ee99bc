// vit.d.mts - the types of vit.mjs: Vision Transformers in a page or in Node.
//
// Every method but open() is synchronous and computes until it is done: call them in a worker of
// your own where nothing may freeze. Arrays that are returned belong to you.

/** What vit.h or a tool refuses. Wrong arguments are TypeErrors and RangeErrors instead. */
export class VitError extends Error {
    /** A vit_result: -1 to -10, as in vit.h. */
    readonly result: number;
    /** vit_result_string() of it; the message says more where there is more to say. */
    readonly resultString: string;
}

export type PixelFormat = 'rgb8' | 'rgba8' | 'gray8' | 'bgr8' | 'bgra8';

/** Rows of pixels from the top; a canvas's ImageData is one. At most 2^20 pixels a side. */
export interface Photo {
    readonly width: number;
    readonly height: number;
    readonly data: Uint8Array | Uint8ClampedArray;
    /** Left out: rgba8, whose alpha is ignored. */
    readonly format?: PixelFormat;
    /** Bytes from one row to the next; left out: no gap. */
    readonly stride?: number;
}

/** What preprocessing would make: [in_chans, img_height, img_width] floats. */
export type Input = Float32Array;

export type ModuleKind = 'scalar' | 'simd' | 'relaxed';

export interface OpenOptions {
    /** At most; left out: one for each core, 8 at most, where threads are to be had, else 1. */
    threads?: number;
    /** Left out: the fastest that this engine runs and that is there. */
    module?: ModuleKind;
    /** The folder of the modules, with a slash at its end; left out: that of vit.mjs. */
    base?: string | URL;
    /** Of the bytes read so far; total is undefined where the server does not say. */
    onProgress?: (read: number, total: number | undefined) => void;
    /** Compare every tensor with its checksum; left out: true. */
    verify?: boolean;
}

/** What `vit-info --json` prints, without "file"; labels and synsets are the model's own. */
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
    /** Of the file, of the tensors of each type, of a session. */
    bytes: { file: number; session: number } & Record<string, number>;
    /** The kernels in use: "wasm-simd" or "scalar". */
    isa: string;
    num_tensors: number;
    num_labels: number;
    num_synsets: number;
    /** What vit-convert had to assume. */
    assumed: string[];
    /** Lines of "key: value": where the weights came from. */
    source: string;
    /** What differs from a plain ViT, in words: "4 register tokens, SiLU"; "" if nothing does. */
    options: string;
}

export interface Prediction {
    index: number;
    /** null if the file names no classes. */
    label: string | null;
    /** Probability: of softmax, or of sigmoid, as the model says. */
    score: number;
}

export interface Rectangle { x: number; y: number; width: number; height: number }

/** Where a photo's patches lie, in the photo's pixels from its top left corner. */
export interface Crop extends Rectangle {
    // The rectangle itself is the model's input; where that is padded, it goes beyond the photo.

    /** The grid of patches, and the part of the input that it covers. */
    rows: number;
    columns: number;
    patches: Rectangle;
    /** vit_find_crop: the photo is resized to these, and the input begins at left, top. */
    resized: { width: number; height: number; left: number; top: number };
}

export interface Wants {
    logits?: boolean;
    embedding?: boolean;
    /** After the final norm. */
    tokens?: boolean;
    /** Blocks from 0 on, whose tokens and attention are kept. */
    blocks?: readonly number[];
    /** Tokens as each of `blocks` leaves them; left out: true unless `attention` is. */
    blockTokens?: boolean;
    /** The attention of each of `blocks`. */
    attention?: boolean;
}

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
    /** [num_heads, num_tokens, num_tokens]: row i is what token i attends to. */
    attention: Float32Array;
}

/** The names that W wants by a literal true. */
type Asked<W> = { [K in keyof W]: W[K] extends true ? K : never }[keyof W];
/** These of T are there, the others may be. */
type Given<T, Names> = Pick<T, Extract<keyof T, Names>> & Partial<T>;

/** What was asked for is there, as far as the type of `wants` shows it. */
export type Outputs<W extends Wants = Wants> = Given<AllOutputs, Asked<W>> &
    /** In the order of wants.blocks. */
    (W extends { blocks: readonly number[] } ? { blocks: BlockOutput<W>[] }
        : { blocks?: BlockOutput<W>[] });

export type BlockOutput<W extends Wants = Wants> = { block: number } & Given<AllBlockOutputs,
    (W extends { attention: true } ? 'attention' : never) |
    (W extends { blockTokens: true } | { blockTokens?: undefined; attention?: false } ? 'tokens'
        : never)>;

export interface AttentionChoice {
    /** From 0 on; left out: the last. */
    block?: number;
    /** The patch that attends, row by row; left out: the class token, or the mean of all tokens
     * in models without one. */
    patch?: number;
    /** One head; left out: the mean of all. */
    head?: number;
}

export interface Components {
    rows: number;
    columns: number;
    /** For each photo [3, rows, columns]; NaN where a patch is not foreground. */
    maps: Float32Array[];
    /** Of each component, at most three; and its share of all. */
    variance: number[];
    explained: number[];
}

export interface Similarity {
    rows: number;
    columns: number;
    patch: number;
    /** For each photo [rows, columns]. */
    maps: Float32Array[];
}

export interface Positions {
    kind: PositionKind;
    /** Of models whose blocks have their own, else undefined. */
    block?: number;
    /** Of a position's vector. */
    dim: number;
    rows: number;
    columns: number;
    /** Cosine of each position to each: [n, n], n = rows * columns. */
    values: Float32Array;
}

export type PositionKind = 'embedding' | 'rotary' | 'relative';

/** The output of run() or the tokens of it; [num_tokens, embed_dim]. */
export interface Tokens { readonly tokens: Float32Array }

/** One .vit file with a session, in a memory of its own. */
export class Model {
    /**
     * The bytes of a .vit file, or where they are: a URL, in Node also a path. They are read in
     * pieces into the module's memory. Throws a VitError for a file that is not sound.
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
    /** The bits of vit_preprocess. */
    preprocess(photo: Photo): Input;
    crop(photo: { readonly width: number; readonly height: number }): Crop;
    /** The patch at a point of a photo, in its pixels; -1 if none is there. */
    patchAt(photo: { readonly width: number; readonly height: number },
            x: number, y: number): number;
    run<W extends Wants>(photo: Photo | Input,
                         wants: W & { [K in Exclude<keyof W, keyof Wants>]: never }): Outputs<W>;
    /** logits to probabilities, as the model says; a new array. */
    scores(logits: Float32Array): Float32Array;

    // The numbers of tools/vit-look, by the same code.

    /** What a token attends to in a block: [rows, columns]. */
    attention(photo: Photo | Input, choice?: AttentionChoice): Float32Array;
    /** Through all blocks (Abnar and Zuidema 2020): [rows, columns]. */
    rollout(photo: Photo | Input, choice?: { patch?: number }): Float32Array;
    /** The first three, common to all photos, of the tokens after the final norm or a block. */
    principalComponents(photos: readonly (Photo | Input | Tokens)[],
                        choice?: { block?: number; foreground?: boolean }): Components;
    /** Cosines to a patch of the first photo. */
    similarity(photos: readonly (Photo | Input | Tokens)[], patch: number,
               choice?: { block?: number }): Similarity;
    /** Of the first kind that the model has, or of `kind`. */
    positions(choice?: { kind?: PositionKind; block?: number }): Positions;
    /** Of two vectors of equal length, such as embeddings: -1 to 1. */
    cosine(a: Float32Array, b: Float32Array): number;

    /** Ends the threads and frees the memory. Everything but a second close() throws afterwards. */
    close(): void;
}
