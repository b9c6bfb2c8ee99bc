// convert.d.mts - the types of convert.mjs: vit-convert in a page or in Node.

/** A file to read at any place. read() fills `into` from byte `at` on and returns how many bytes
 *  it filled in; it blocks. */
export interface Source {
    readonly size: number;
    read(at: number, into: Uint8Array): number;
}

/** A Blob is read piece by piece in a worker of a browser, elsewhere it is read whole first. */
export interface InputFile {
    /** As in messages; with "/" for a file in a folder. */
    readonly name: string;
    readonly file: Blob | Uint8Array | ArrayBuffer | Source;
}

export type SettingType = 'integer' | 'number' | 'flag' | 'word' | 'size' | 'text';

/** A setting of the model. It is given as two arguments: option, and prefix + value. */
export interface Setting {
    /** "num_heads"; of an assumption also words such as "no configuration". */
    setting: string;
    why: string;
    /** What the setting means; null for what is no single setting, as are the next three. */
    means: string | null;
    /** "--set", "--img-size", "--arch", "--weights". */
    option: string | null;
    /** "num_heads=", or "". */
    prefix: string | null;
    type: SettingType | null;
    /** Of a word or flag all of them, else the likely ones; may be empty. */
    choices: { value: string; note: string | null }[];
    /** What vit-convert says to give, in words. */
    text: string;
}

export interface Question extends Setting {
    /** The library's default, what the weights hint at, or the only choice. */
    suggested: string | null;
}

export interface Assumption extends Setting {
    value: string | null;
}

/** What `vit-convert --json` prints of a model. */
export interface Converted {
    checkpoint: string;
    /** "safetensors", "PyTorch zip" ... */
    container: string;
    /** Whose names the tensors have: "timm", "transformers ViT" ... */
    layout: string;
    architecture: string | null;
    config: Record<string, number | number[]>;
    parameters: Record<string, number>;
    /** How many. */
    labels: number;
    dtype: string;
    output: string;
    bytes: number;
    /** Tensors that are not in the model. */
    dropped: string[];
    assumed: Assumption[];
    notes: string[];
    [more: string]: unknown;
}

/** What it prints where it refuses. */
export interface Refused {
    checkpoint: string;
    container: string | null;
    layout: string | null;
    /** The message, which stderr has too. */
    failure: string;
    wrong: { what: string; advice: string | null }[];
    questions: Question[];
    assumed: Assumption[];
    [more: string]: unknown;
}

export type Result = Ended & (
    /** Converted; report is null where the options ask for something else, as --help does. */
    { status: 0; report: Converted | null; output: Blob | null } |
    /** Refused, or wrong arguments: null where vit-convert says no more than stderr has. */
    { status: 1 | 2; report: Refused | null; output: null });

export interface Ended {
    /** Of the output: "model.vit" for "model.safetensors". */
    name: string;
    /** Messages: what is assumed, dropped, asked, wrong. */
    stderr: string;
    /** Bytes of WebAssembly memory at its peak. */
    memory: number;
}

export class Converter {
    /** Fetches and compiles convert.wasm(.gz) from the folder `base`, with a slash at its end;
     *  left out: the folder of convert.mjs. */
    static open(options?: { base?: string | URL }): Promise<Converter>;

    /** Of a module that was compiled elsewhere. */
    constructor(module: WebAssembly.Module);

    readonly module: WebAssembly.Module;

    /**
     * Runs vit-convert with its options, but for -o and --json; checkpointAmong says which file is
     * the checkpoint. What vit-convert refuses is a Result; an exception is a wrong call, a file
     * that cannot be read, or a crash. It blocks until it is done; onProgress gets lines such as
     * "converting 45 %, 3 s left" and the share from 0 to 1. A Converter can be used again, also
     * after an exception: each conversion has memory of its own.
     */
    convert(files: InputFile[], args?: string[],
        onProgress?: (line: string, share: number) => void): Promise<Result>;
}

/** The index of shards, else the first name that is neither a configuration nor a list. */
export function checkpointAmong(names: string[]): string;
