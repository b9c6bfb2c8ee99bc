// words.mjs - computes embeddings of texts by the text encoder of a model such as CLIP or SigLIP.
//
//     const words = await Words.open(model);
//     const { embedding } = words.embed('a dog on a beach');
//     model.cosine(model.run(photo, { embedding: true }).embedding, embedding);
//     words.close();
//
// words.d.mts describes every method.
import { Engine } from './engine.mjs';
import { hasSimd } from './features.mjs';
import { addressOf, loadModule, openSource } from './load.mjs';

const GAP = '{}';

/** Detects UTF-8 that was decoded as Windows-1252, by the rule of tools/infer/words.c. */
const HIGH = '[\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]';
const MISREAD = new RegExp(`[ÂÃ]${HIGH}|[à-ï]${HIGH}{2}|[ð-ô]${HIGH}{3}`, 'u');

/** Like vit_normalize, computes in double and then rounds. */
function normalize(vector) {
    const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
    return length > 0 ? vector.map((value) => value / length) : vector;
}

function cosineOf(a, b) {
    let product = 0, first = 0, second = 0;
    for (let i = 0; i < a.length; i++) {
        product += a[i] * b[i];
        first += a[i] * a[i];
        second += b[i] * b[i];
    }
    return product / Math.sqrt(first * second);
}

function checkText(text) {
    if (typeof text !== 'string') throw new TypeError('expected a text as a string');
    const at = text.search(/\p{Surrogate}/u);
    if (at >= 0) {
        throw new RangeError(`'${text.slice(0, at)}': half of a character follows, at ${at}`);
    }
    return new TextEncoder().encode(text);
}

function fillIn(template, text) {
    const at = typeof template === 'string' ? template.indexOf(GAP) : -1;
    if (at < 0) throw new RangeError(`'${template}': expected {} in place of the class`);
    return template.slice(0, at) + text + template.slice(at + GAP.length);
}

export class Words {
    #engine;
    #handle;

    static async open(model, { base = import.meta.url, verify = true } = {}) {
        const file = ArrayBuffer.isView(model) ? model : model.textFile();
        if (!file) throw new Error('the model has no text encoder');
        if (!hasSimd) throw new Error('words need SIMD, which this engine lacks');
        const module = await loadModule(addressOf('words.wasm', base), false);
        const engine = await Engine.start(module, 1);
        try {
            const { at, size } = await engine.read(openSource(file));
            return new Words(engine, engine.attempt('open', at, size, Number(verify)) >>> 0);
        } catch (error) {
            engine.close();
            throw error;
        }
    }

    constructor(engine, handle) {
        if (!(engine instanceof Engine)) throw new TypeError('words come from Words.open()');
        this.#engine = engine;
        this.#handle = handle;
        const numbers = engine.doubles(engine.call('numbers', handle) >>> 0, 5);
        [this.context, this.dim, this.scale, this.bias] = numbers;
        this.sigmoid = numbers[4] === 1;
    }

    close() {
        this.#engine?.close();
        this.#engine = null;
    }

    embed(text) {
        const engine = this.#engine, bytes = checkText(text), { dim } = this;
        if (!engine?.exports) throw new Error('the text encoder is closed');
        return engine.borrow(16 + 4 * dim + bytes.length, (at) => {
            const vector = at + 16, start = vector + 4 * dim;
            engine.bytes(start, bytes.length).set(bytes);
            engine.attempt('embed', this.#handle, start, bytes.length, vector, at);
            const [ids, cut] = engine.doubles(at, 2);
            return { embedding: normalize(engine.floats(vector, dim).slice()), ids, cut,
                     misread: MISREAD.test(text) };
        });
    }

    embedIn(text, templates) {
        if (!templates.length) return this.embed(text);
        const all = templates.map((template) => this.embed(fillIn(template, text)));
        const sum = new Float32Array(this.dim);
        for (const { embedding } of all) embedding.forEach((value, i) => { sum[i] += value; });
        return { embedding: normalize(sum), ids: Math.max(...all.map(({ ids }) => ids)),
                 cut: Math.max(...all.map(({ cut }) => cut)),
                 misread: all.some(({ misread }) => misread) };
    }

    logits(vector, embeddings) {
        return Float32Array.from(embeddings, (embedding) => {
            if (vector.length === embedding.length) {
                return this.scale * cosineOf(vector, embedding) + this.bias;
            }
            throw new RangeError(`expected vectors of ${embedding.length} values as the texts ` +
                                 `have, found one of ${vector.length}`);
        });
    }

    scores(logits) {
        if (this.sigmoid) return logits.map((x) => 1 / (1 + Math.exp(-x)));
        const most = Math.max(...logits), shares = logits.map((x) => Math.exp(x - most));
        const sum = shares.reduce((a, b) => a + b, 0);
        return shares.map((share) => share / sum);
    }
}
