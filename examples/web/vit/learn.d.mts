// learn.d.mts - the types of learn.mjs: vit-learn in a page or in Node.
import { type InputFile } from './convert.mjs';
import type { CompiledModule } from './vit.mjs';

export interface LearnPhoto {
    /** Its name in messages and in the report: a path, each once. */
    name: string;
    /** One class for each photo; or any number for some photo, and the head is a sigmoid. */
    classes: readonly string[];
    /** Model.run()'s `embedding`, by the model that is given, or one with the same backbone. */
    embedding: Float32Array;
}

/** The output of `vit-learn --json`. */
export interface Learned {
    bytes: number;
    photos: number;
    /** Photos that the model had learnt before, and photos left out because they were there twice. */
    stored: number;
    twice: number;
    /** Any number of classes may be right. */
    several: boolean;
    /** In the order of the outputs; the last may be "none of these". */
    classes: string[];
    folds: number;
    /** Photos of which the head that learnt from the others was asked. */
    held_out: number;
    /** Share of them that got their class; null if that is unknown. With `several`, there are
     *  mean_average_precision and f1 instead. */
    top1?: number | null;
    /** Mean of their highest probability. */
    expected?: number | null;
    /** Photos held out that are "none of these", and those of them that would be right. */
    none?: number;
    none_right?: number;
    /** Photos that look more like another class than like their own, the most doubtful first. */
    doubts: { path: string | null; class: string; probability: number; best: string;
              best_probability: number }[];
    /** [class, answer, photos] of photos held out. */
    confusion: [number, number, number][];
    [more: string]: unknown;
}

export type LearnResult = LearnEnded & (
    | { status: 0; report: Learned; output: Blob }
    /** Refused, or wrong arguments: stderr has the reason. */
    | { status: 1 | 2; report: null; output: null });

export interface LearnEnded {
    name: string;
    /** vit-learn's messages. */
    stderr: string;
    /** Bytes of WebAssembly memory at its peak. */
    memory: number;
}

export class Learner {
    /** Fetches and compiles learn.wasm(.gz) from the folder `base`, with a slash at its end; by
     *  default the folder of learn.mjs. */
    static open(options?: { base?: string | URL }): Promise<Learner>;

    /** Takes a module that was compiled elsewhere. */
    constructor(module: CompiledModule);

    readonly module: CompiledModule;

    /**
     * Runs vit-learn with its options, except those of files and decoders. With --add, the classes
     * and photos that the model has learnt stay. A refusal by vit-learn is a result; an exception is a
     * wrong call or a crash. It blocks until it is done.
     */
    learn(model: InputFile['file'], photos: readonly LearnPhoto[],
          args?: readonly string[]): Promise<LearnResult>;
}
