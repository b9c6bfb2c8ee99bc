// words.d.mts - the types of words.mjs: texts by a model's text encoder, in a page or in Node.
import { type Model } from './vit.mjs';

export interface TextEmbedding {
    /** [dim], of length 1: its cosine to a photo's vector says how well the two fit. */
    embedding: Float32Array;
    /** How many tokens the text encoder has read, those at both ends included. */
    ids: number;
    /** How many tokens were left out at the end, because they exceed the context. */
    cut: number;
    /** The text looks like UTF-8 that was decoded as Windows-1252; it is used unchanged. */
    misread: boolean;
}

/** A text encoder, in its own memory. It runs on the calling thread. */
export class Words {
    /**
     * Opens the text encoder of a model, or of Model.textFile(). `base` is the folder of
     * words.wasm(.gz), with a slash at its end; by default that of words.mjs. The model may be
     * closed afterwards. Throws if there is no text encoder, or a VitError if it is damaged.
     */
    static open(model: Model | Uint8Array, options?: {
        base?: string | URL;
        /** Verifies every tensor's checksum; true by default. */
        verify?: boolean;
    }): Promise<Words>;
    private constructor();

    /** The most tokens of a text. */
    readonly context: number;
    /** The width of an embedding, the same as that of a photo's. */
    readonly dim: number;
    /** logit = scale * cosine + bias; probabilities are their softmax (CLIP), or the sigmoid of
     *  each (SigLIP). */
    readonly scale: number;
    readonly bias: number;
    readonly sigmoid: boolean;

    /** The embedding of a text. A RangeError has the place of half a surrogate pair. */
    embed(text: string): TextEmbedding;
    /** The mean over templates, such as 'a photo of a {}'; without any, of the text alone. `ids`
     *  and `cut` are those of the longest. */
    embedIn(text: string, templates: readonly string[]): TextEmbedding;
    /** Of a photo's vector, of any length, and the embeddings of texts. */
    logits(vector: Float32Array, embeddings: readonly Float32Array[]): Float32Array;
    /** Turns logits into probabilities; a new array. */
    scores(logits: Float32Array): Float32Array;

    /** Frees the memory. embed() throws afterwards. */
    close(): void;
}
