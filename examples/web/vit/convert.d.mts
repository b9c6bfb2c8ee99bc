// convert.d.mts - the types of convert.mjs: vit-convert in a page or in Node.
import type { CompiledModule } from './vit.mjs';

/** A file with random access. read() fills `into` from byte `at` on and returns the number of bytes
 *  filled; it blocks. */
export interface Source {
    readonly size: number;
    read(at: number, into: Uint8Array): number;
}

/** A worker of a browser reads a Blob piece by piece; elsewhere it is first read whole. */
export interface InputFile {
    /** Its name in messages; with "/" for a file in a folder. */
    readonly name: string;
    readonly file: Blob | Uint8Array | ArrayBuffer | Source;
}

export type SettingType = 'integer' | 'number' | 'flag' | 'word' | 'size' | 'text';

/** A setting of the model. Pass it as two arguments: option, and prefix + value. */
export interface Setting {
    /** "num_heads"; for an assumption also words such as "no configuration". */
    setting: string;
    why: string;
    /** The meaning of the setting; null if it is not a single setting, like the next three. */
    means: string | null;
    /** "--set", "--img-size", "--arch", "--weights". */
    option: string | null;
    /** "num_heads=", or "". */
    prefix: string | null;
    type: SettingType | null;
    /** All values of a word or flag, otherwise the likely ones; may be empty. */
    choices: { value: string; note: string | null }[];
    /** vit-convert's advice, in words. */
    text: string;
}

export interface Question extends Setting {
    /** The library's default, the weights' hint, or the only choice. */
    suggested: string | null;
}

export interface Assumption extends Setting {
    value: string | null;
}

/** The output of `vit-convert --json` for a model. */
export interface Converted {
    checkpoint: string;
    /** "safetensors", "PyTorch zip" ... */
    container: string;
    /** The library of the tensors' names: "timm", "transformers ViT" ... */
    layout: string;
    architecture: string | null;
    config: Record<string, number | number[]>;
    parameters: Record<string, number>;
    /** How many. */
    labels: number;
    dtype: string;
    output: string;
    bytes: number;
    /** Tensors that are not part of the model. */
    dropped: string[];
    assumed: Assumption[];
    notes: string[];
    [more: string]: unknown;
}

/** Its output for a refused checkpoint. */
export interface Refused {
    checkpoint: string;
    container: string | null;
    layout: string | null;
    /** The message, which is also in stderr. */
    failure: string;
    wrong: { what: string; advice: string | null }[];
    questions: Question[];
    assumed: Assumption[];
    [more: string]: unknown;
}

export type Result = Ended & (
    /** Converted; report is null if the options have another result, such as --help. */
    { status: 0; report: Converted | null; output: Blob | null } |
    /** Refused, or wrong arguments; null if vit-convert's only output is stderr. */
    { status: 1 | 2; report: Refused | null; output: null });

export interface Ended {
    /** The output's name: "model.vit" for "model.safetensors". */
    name: string;
    /** Messages: assumptions, dropped tensors, questions, errors. */
    stderr: string;
    /** Bytes of WebAssembly memory at its peak. */
    memory: number;
}

export class Converter {
    /** Fetches and compiles convert.wasm(.gz) from the folder `base`, with a slash at its end; by
     *  default the folder of convert.mjs. */
    static open(options?: { base?: string | URL }): Promise<Converter>;

    /** Takes a module that was compiled elsewhere. */
    constructor(module: CompiledModule);

    readonly module: CompiledModule;

    /**
     * Runs vit-convert with its options, except -o and --json; checkpointAmong finds the checkpoint
     * among the files. A refusal by vit-convert is a Result; an exception is a wrong call, a file
     * that cannot be read, or a crash. It blocks until it is done; onProgress receives lines such
     * as "converting 45 %, 3 s left" and the share from 0 to 1. A Converter can be reused, even
     * after an exception: each conversion has its own memory.
     */
    convert(files: InputFile[], args?: string[],
        onProgress?: (line: string, share: number) => void): Promise<Result>;
}

/** The index of shards, else the first name that is neither a configuration nor a list. */
export function checkpointAmong(names: string[]): string;
