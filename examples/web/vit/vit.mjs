// vit.mjs - Vision Transformers in a page or in Node: classes of photos, attention and tokens.
//
//     const model = await Model.open('cifar10-vit.vit');
//     const [best] = model.classify(context.getImageData(0, 0, width, height));
//     console.log(best.label, best.score);
//     model.close();
// vit.d.mts describes every method.
import { Engine, VitError } from './engine.mjs';
import { chooseModules, countCores } from './features.mjs';
import { checkSource, isProvided, loadFirst, openSource, provide } from './load.mjs';
import { checkChoice, checkCount, checkPhoto, checkSides, isPhoto } from './check.mjs';
import './pool.mjs'; // fetched at the same time as engine.mjs

export { VitError, provide };

const MOST_THREADS = 8;              // unless more are requested
const MOST_BYTES = 2 ** 28;          // bytes of the blocks' outputs in one forward pass
const UNSUPPORTED = -9;
const TEXT = 0x74786574n;             // "text"
const kinds = ['embedding', 'rotary', 'relative'];
const names = ['channels', 'height', 'width', 'dim', 'depth', 'heads', 'classes', 'embedding',
               'tokens', 'prefix', 'rows', 'columns', 'classToken'];

async function chooseThreads(threads) {
    if (threads === undefined) return Math.min(await countCores(), MOST_THREADS);
    return checkCount(threads, 'threads', 256);
}

/** Yields ranges { start, end } of blocks whose outputs fit into MOST_BYTES. A block has `each`
 * bytes. */
function* runsOf(count, each) {
    const most = Math.max(1, Math.floor(MOST_BYTES / each));
    for (let start = 0; start < count; start += most) {
        yield { start, end: Math.min(start + most, count) };
    }
}

export class Model {
    #engine;
    #handle;
    #file;
    #own;                            // the model's sizes before any photo
    #sizes;                          // for the latest photo, if photos keep their aspect ratio

    static async open(source, options = {}) {
        checkSource(source);
        const { base = import.meta.url, verify = true, onProgress } = options;
        const choices = chooseModules(options.module, await chooseThreads(options.threads));
        if (choices.some(isProvided) && !options.base) { // nobody gave the URL of thread.mjs
            for (const choice of choices) choice.threads = 1;
        }
        const opened = openSource(source);
        opened.catch(() => {}); // read() handles the error
        const chosen = await loadFirst(choices, base);
        const engine = await Engine.start(chosen.module, chosen.threads, base);
        try {
            const bytes = await engine.read(opened, onProgress);
            engine.startThreads(); // workers started earlier would slow down fetching
            const handle = engine.attempt('open', bytes.at, bytes.size, chosen.threads,
                                          Number(verify));
            return new Model(engine, handle >>> 0, chosen, bytes);
        } catch (error) {
            engine.close();
            throw error;
        }
    }

    constructor(engine, handle, { kind, threads }, { at, size } = {}) {
        if (!(engine instanceof Engine)) throw new TypeError('a model comes from Model.open()');
        this.#engine = engine;
        this.#handle = handle;
        this.#file = { at, size };
        this.module = kind;
        this.threads = threads;
        this.#own = this.#sizes = this.#readSizes();
        const { labels, synsets, ...info } = this.#readInfo();
        this.info = info;
        this.labels = labels;
        this.synsets = synsets;
    }

    #readSizes() {
        const at = this.#engine.call('sizes', this.#handle) >>> 0;
        const sizes = this.#engine.integers(at, names.length);
        return Object.fromEntries(names.map((name, i) => [name, sizes[i]]));
    }

    #readInfo() {
        const at = this.#engine.attempt('info', this.#handle);
        const text = this.#engine.text(at);
        this.#engine.release(at);
        return JSON.parse(text);
    }

    close() {
        this.#engine?.close();
        this.#engine = null;
    }

    get closed() {
        return !this.#engine?.exports;
    }

    get memory() {
        return this.#open().memory.buffer.byteLength;
    }

    file() {
        return this.#open().bytes(this.#file.at, this.#file.size).slice();
    }

    /** Finds the section "text", which is a .vit file; >>format in vit.h describes the table of
     * sections. */
    #findText() {
        const { at, size } = this.#file;
        const view = new DataView(this.#open().memory.buffer, at, size);
        for (let i = 0, entry = 64; i < view.getUint32(12, true); i++, entry += 32) {
            if (view.getBigUint64(entry, true) !== TEXT) continue;
            const start = at + Number(view.getBigUint64(entry + 16, true));
            return { start, length: Number(view.getBigUint64(entry + 24, true)) };
        }
        return null;
    }

    get hasText() {
        return this.#findText() !== null;
    }

    textFile() {
        const place = this.#findText();
        return place && this.#open().bytes(place.start, place.length).slice();
    }

    /** Returns the engine, or throws an error if the model is closed. */
    #open() {
        if (this.closed) throw new Error('the model is closed');
        return this.#engine;
    }

    // --- photos -------------------------------------------------------------------------------

    get #inputSize() {
        return this.#sizes.channels * this.#sizes.height * this.#sizes.width;
    }

    fit(photo) {
        const engine = this.#open();
        const { width, height } = checkSides(photo);
        engine.attempt('fit', this.#handle, width, height);
        this.#sizes = this.#readSizes();
    }

    /** Makes the model's input from a photo, or takes an existing input. */
    #prepare(engine, photo) {
        if (!isPhoto(photo)) {
            const at = engine.call('input', this.#handle) >>> 0;
            this.#checkFloats(photo, this.#inputSize, 'an input');
            engine.floats(at, this.#inputSize).set(photo);
            return;
        }
        const { data, width, height, stride, format } = checkPhoto(photo);
        this.fit(photo);
        engine.borrow(data.length, (at) => {
            engine.bytes(at, data.length).set(data);
            engine.attempt('preprocess', this.#handle, at, width, height, stride, format);
        });
    }

    #checkFloats(values, length, what) {
        if (!(values instanceof Float32Array)) {
            throw new TypeError(`expected a photo, or ${what} as a Float32Array`);
        }
        if (values.length !== length) {
            throw new RangeError(`expected ${what} of ${length} floats, found ${values.length}`);
        }
    }

    preprocess(photo) {
        const engine = this.#open();
        this.#prepare(engine, photo);
        const at = engine.call('input', this.#handle) >>> 0;
        return engine.floats(at, this.#inputSize).slice();
    }

    classify(photo, top = 5) {
        const engine = this.#open();
        const most = top === Infinity ? 2 ** 31 - 1 : checkCount(top, 'top', 2 ** 31 - 1);
        this.#needClasses(engine);
        this.#prepare(engine, photo);
        const count = engine.attempt('classify', this.#handle, most);
        const at = engine.call('top', this.#handle) >>> 0;
        const indices = engine.integers(at, 2 * count), scores = engine.floats(at, 2 * count);
        return Array.from({ length: count }, (_, place) => {
            const index = indices[2 * place];
            return { index, label: this.labels[index], score: scores[2 * place + 1] };
        });
    }

    #needClasses(engine) {
        if (!this.#sizes.classes) throw engine.error(UNSUPPORTED, 'the model has no classes');
    }

    scores(logits) {
        const engine = this.#open();
        this.#needClasses(engine);
        this.#checkFloats(logits, this.#sizes.classes, 'logits');
        return this.#compute(engine, logits.length, (at) => {
            engine.floats(at, logits.length).set(logits);
            engine.call('scores', this.#handle, at);
        });
    }

    /** Returns a copy of the `length` floats that `action` writes. */
    #compute(engine, length, action) {
        return engine.borrow(4 * length, (at) => {
            action(at);
            return engine.floats(at, length).slice();
        });
    }

    crop(photo) {
        const engine = this.#open();
        const { width, height } = checkSides(photo);
        return engine.borrow(8 * 14, (at) => {
            engine.attempt('crop', this.#handle, width, height, at);
            const n = engine.doubles(at, 14);
            const rectangle = (i) => ({ x: n[i], y: n[i + 1], width: n[i + 2], height: n[i + 3] });
            return { ...rectangle(0), rows: n[12], columns: n[13], patches: rectangle(4),
                     resized: { width: n[8], height: n[9], left: n[10], top: n[11] } };
        });
    }

    patchAt(photo, x, y) {
        const engine = this.#open();
        const { width, height } = checkSides(photo);
        if (!Number.isFinite(x) || !Number.isFinite(y)) throw new TypeError('expected a point');
        return engine.call('patch_at', this.#handle, width, height, x, y);
    }

    // --- the network --------------------------------------------------------------------------

    run(photo, wants) {
        const engine = this.#open();
        const { logits, embedding, tokens, attention, blocks: numbers = [] } = wants ?? {};
        const blockTokens = wants?.blockTokens ?? !attention;
        const blocks = Array.from(numbers, (block) => this.#checkBlock(block));
        if (!(logits || embedding || tokens || blocks.length)) {
            throw new RangeError('expected an output that is true: logits, embedding or tokens, ' +
                                 'or a list of blocks');
        }
        if (blocks.length && !blockTokens && !attention) {
            throw new RangeError('blocks need blockTokens or attention');
        }
        if (logits) this.#needClasses(engine);
        this.#prepare(engine, photo);
        const outputs = { ...this.#grid, ...this.#forward(engine, { logits, embedding, tokens }) };
        if (wants.blocks) {
            outputs.blocks = this.#forwardBlocks(engine, blocks, { blockTokens, attention });
        }
        return outputs;
    }

    #checkBlock(block) {
        return checkChoice(block, 'block', this.#sizes.depth);
    }

    #forward(engine, wants) {
        const { classes, embedding, tokens, dim } = this.#sizes;
        const lengths = { logits: classes, embedding, tokens: tokens * dim };
        const asked = Object.keys(lengths).filter((name) => wants[name]);
        if (!asked.length) return {};
        const total = asked.reduce((sum, name) => sum + lengths[name], 0);
        return engine.borrow(4 * total + 12, (at) => {
            const places = { end: at + 12 };
            for (const name of asked) {
                places[name] = places.end;
                places.end += 4 * lengths[name];
            }
            const { logits = 0, embedding: vector = 0, tokens: all = 0 } = places;
            engine.integers(at, 3).set([logits, vector, all]);
            engine.attempt('forward', this.#handle, at, 0, 0);
            return Object.fromEntries(asked.map((name) =>
                [name, engine.floats(places[name], lengths[name]).slice()]));
        });
    }

    /** In each pass, gets the outputs of as many blocks as fit into MOST_BYTES. */
    #forwardBlocks(engine, blocks, { blockTokens, attention }) {
        const { tokens, dim, heads } = this.#sizes;
        const sizes = { tokens: blockTokens ? tokens * dim : 0,
                        attention: attention ? heads * tokens * tokens : 0 };
        const runs = [...runsOf(blocks.length, 4 * (sizes.tokens + sizes.attention))];
        return runs.flatMap(({ start, end }) =>
            this.#forwardRun(engine, blocks.slice(start, end), sizes));
    }

    #forwardRun(engine, blocks, sizes) {
        const each = 4 * (sizes.tokens + sizes.attention);
        const head = 12 + 16 * blocks.length;
        return engine.borrow(head + each * blocks.length, (at) => {
            const placeOf = (i) => at + head + each * i;
            // three NULLs for the other outputs, then a vit_block_output for each block
            const words = [0, 0, 0, ...blocks.flatMap((block, i) => [
                sizes.tokens ? placeOf(i) : 0,
                sizes.attention ? placeOf(i) + 4 * sizes.tokens : 0, block, 0,
            ])];
            engine.integers(at, words.length).set(words);
            engine.attempt('forward', this.#handle, at, at + 12, blocks.length);
            const copy = (place, length) => engine.floats(place, length).slice();
            return blocks.map((block, i) => ({
                block, ...this.#grid,
                ...(sizes.tokens && { tokens: copy(placeOf(i), sizes.tokens) }),
                ...(sizes.attention &&
                    { attention: copy(placeOf(i) + 4 * sizes.tokens, sizes.attention) }),
            }));
        });
    }

    // --- attention and tokens -----------------------------------------------------------------

    get #grid() {
        return { rows: this.#sizes.rows, columns: this.#sizes.columns };
    }

    get #patches() {
        return this.#sizes.rows * this.#sizes.columns;
    }

    #checkPatch(patch) {
        return checkChoice(patch, 'patch', this.#patches);
    }

    attention(photo, { block, patch, head } = {}) {
        const last = this.#sizes.depth - 1;
        return this.#attend(photo, {
            block: block === undefined ? Math.max(last, 0) : this.#checkBlock(block),
            head: head === undefined ? -1 : checkChoice(head, 'head', this.#sizes.heads),
            patch,
        });
    }

    rollout(photo, { patch } = {}) {
        return this.#attend(photo, { block: -1, head: -1, patch });
    }

    #attend(photo, { block, head, patch }) {
        const engine = this.#open();
        const from = patch === undefined ? -1 : this.#checkPatch(patch);
        this.#prepare(engine, photo);
        return this.#compute(engine, this.#patches, (at) =>
            engine.attempt('attention', this.#handle, block, from, head, at));
    }

    /** Returns { values, rows, columns }: the patches' tokens, [rows * columns, dim], of a photo, an
     * input or tokens. */
    #patchTokens(engine, item, block) {
        const { dim, prefix } = this.#sizes;
        let all = item?.tokens, { rows, columns } = all && item.rows ? item : this.#grid;
        if (all !== undefined) {
            this.#checkFloats(all, (prefix + rows * columns) * dim, 'tokens');
        } else {
            this.#prepare(engine, item);
            ({ rows, columns } = this.#grid);
            all = block === undefined ? this.#forward(engine, { tokens: true }).tokens :
                this.#forwardBlocks(engine, [block], { blockTokens: true })[0].tokens;
        }
        return { values: all.subarray(prefix * dim), rows, columns };
    }

    #checkItems(photos, block) {
        const items = Array.isArray(photos) ? photos : [photos];
        if (!items.length) throw new RangeError('expected one photo at least');
        return { items, from: block === undefined ? undefined : this.#checkBlock(block) };
    }

    /** Calls action(at, grids, places) with the patches' tokens of all items, photo by photo; item i
     * has the patches from places[i] to places[i + 1]. */
    #withPatches(engine, { items, from }, action) {
        const { dim } = this.#sizes, places = [0];
        const grids = items.map((item) => this.#patchTokens(engine, item, from));
        for (const { rows, columns } of grids) places.push(places.at(-1) + rows * columns);
        return engine.borrow(4 * dim * places.at(-1), (at) => {
            grids.forEach(({ values }, i) => {
                engine.floats(at + 4 * dim * places[i], values.length).set(values);
            });
            return action(at, grids, places);
        });
    }

    principalComponents(photos, { block, foreground = false } = {}) {
        const engine = this.#open();
        const chosen = this.#checkItems(photos, block), { length } = chosen.items;
        return this.#withPatches(engine, chosen, (patches, grids, places) =>
            engine.borrow(8 * 6 + 8 * length + 12 * places.at(-1), (at) => {
                const sides = at + 48, coordinates = sides + 8 * length;
                engine.integers(sides, 2 * length)
                    .set(grids.flatMap(({ rows, columns }) => [rows, columns]));
                const count = engine.attempt('components', this.#handle, patches, sides, length,
                                             Number(foreground), coordinates, at);
                const numbers = Array.from(engine.doubles(at, 6));
                const { rows, columns } = grids[0];
                return { rows, columns, variance: numbers.slice(0, count),
                         explained: numbers.slice(3, 3 + count),
                         maps: this.#componentMaps(engine, coordinates, places) };
            }));
    }

    /** Turns [patches, 3] into [3, patches] for each photo. */
    #componentMaps(engine, at, places) {
        return places.slice(1).map((end, photo) => {
            const patches = end - places[photo];
            const found = engine.floats(at + 12 * places[photo], 3 * patches);
            return Float32Array.from({ length: 3 * patches }, (_, i) =>
                found[3 * (i % patches) + Math.floor(i / patches)]);
        });
    }

    similarity(photos, patch, { block } = {}) {
        const engine = this.#open();
        const chosen = this.#checkItems(photos, block), { dim } = this.#sizes;
        return this.#withPatches(engine, chosen, (patches, [{ rows, columns }], places) => {
            const place = checkChoice(patch, 'patch', rows * columns), length = places.at(-1);
            const cosines = this.#compute(engine, length, (at) =>
                engine.call('similarity', patches + 4 * place * dim, patches, length, dim, at));
            const maps = places.slice(1).map((end, i) => cosines.slice(places[i], end));
            return { rows, columns, patch: place, maps };
        });
    }

    positions({ kind, block = 0 } = {}) {
        const engine = this.#open();
        const asked = kind === undefined ? -1 : kinds.indexOf(kind);
        if (kind !== undefined && asked < 0) {
            throw new RangeError(`expected a kind of positions: ${kinds.join(', ')}`);
        }
        const of = this.#checkBlock(block), { rows, columns } = this.#own;
        const length = (rows * columns) ** 2;
        return engine.borrow(12 + 4 * length, (at) => {
            engine.attempt('positions', this.#handle, asked, of, at + 12, at);
            const [found, ofBlock, dim] = engine.integers(at, 3);
            return { kind: kinds[found], ...(ofBlock >= 0 && { block: ofBlock }), dim, rows, columns,
                     values: engine.floats(at + 12, length).slice() };
        });
    }

    cosine(a, b) {
        const engine = this.#open();
        this.#checkFloats(a, a?.length, 'a vector');
        this.#checkFloats(b, a.length, 'a vector');
        return engine.borrow(8 * a.length + 4, (at) => {
            engine.floats(at, a.length).set(a);
            engine.floats(at + 4 * a.length, a.length).set(b);
            engine.call('similarity', at, at + 4 * a.length, 1, a.length, at + 8 * a.length);
            return engine.floats(at + 8 * a.length, 1)[0];
        });
    }
}
