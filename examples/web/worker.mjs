// worker.mjs - does all slow work: decodes photos, runs the model, converts checkpoints. The page
// sends { type, data } and gets { progress }, then { result } or { error }. client.mjs sends one
// request at a time.
import { decode } from './decode.mjs';
import { Model } from './vit/vit.mjs';

const VIEW = 640;                   // the longer side of a displayed photo
const THUMB = 96;                   // the side of a photo in a box
const CACHE = 384 * 2 ** 20;        // largest number of bytes of kept inputs, tokens and attention
const TOP = 5;

let model = null;
let words = null;                   // the model's text encoder, opened when the first text arrives
let naming = null;                  // the page's own classes: { texts, embeddings }
const photos = new Map();           // key: { name, file, size: { width, height } }

// --- a cache of computed results ---

const cache = new Map();            // the least recently used first
let cached = 0;

function keep(name, value, bytes) {
    cache.set(name, { value, bytes });
    cached += bytes;
    for (const [oldest, entry] of cache) {
        if (cached <= CACHE || oldest === name) break;
        cache.delete(oldest);
        cached -= entry.bytes;
    }
    return value;
}

function recall(name) {
    const entry = cache.get(name);
    if (!entry) return null;
    cache.delete(name);
    cache.set(name, entry);
    return entry.value;
}

function forget(prefix) {
    for (const [name, { bytes }] of cache) {
        if (!name.startsWith(prefix)) continue;
        cache.delete(name);
        cached -= bytes;
    }
}

function progress(text, done, total) {
    postMessage({ progress: { text, done, total } });
}

// --- photos ---

/** Makes a smaller copy for the page: each pixel is the mean of the pixels that it covers. */
function shrink({ width, height, data }, side = VIEW) {
    const scale = Math.min(1, side / Math.max(width, height));
    const across = Math.max(1, Math.round(width * scale));
    const down = Math.max(1, Math.round(height * scale));
    const small = new ImageData(across, down);
    for (let y = 0, to = 0; y < down; y++) {
        const top = Math.floor(y * height / down);
        const bottom = Math.max(top + 1, Math.floor((y + 1) * height / down));
        for (let x = 0; x < across; x++, to += 4) {
            const left = Math.floor(x * width / across);
            const right = Math.max(left + 1, Math.floor((x + 1) * width / across));
            let red = 0, green = 0, blue = 0;
            for (let row = top; row < bottom; row++) {
                for (let at = (row * width + left) * 3; at < (row * width + right) * 3; at += 3) {
                    red += data[at];
                    green += data[at + 1];
                    blue += data[at + 2];
                }
            }
            const count = (bottom - top) * (right - left);
            small.data[to] = red / count;
            small.data[to + 1] = green / count;
            small.data[to + 2] = blue / count;
            small.data[to + 3] = 255;
        }
    }
    return createImageBitmap(small);
}

/** Returns the square in the middle as a small file. */
async function thumbOf(decoded) {
    const view = await shrink(decoded, 2 * THUMB);
    const canvas = new OffscreenCanvas(THUMB, THUMB), from = Math.min(view.width, view.height);
    canvas.getContext('2d').drawImage(view, (view.width - from) / 2, (view.height - from) / 2, from,
        from, 0, 0, THUMB, THUMB);
    view.close();
    return canvas.convertToBlob({ type: 'image/jpeg', quality: 0.8 });
}

const keepsAspect = () => model.info.preprocessing.crop_mode === 'aspect';

function checkChannels() {
    const channels = model.info.config.in_chans;
    if (channels === 1 || channels === 3) return;
    throw new Error(`the inputs of this model have ${channels} channels, photos have 3`);
}

/** Returns the size, in eighths of the photo's, at which a photo must be decoded: at least the
 * displayed size and, as in the programs, twice the resized size. */
function eighthsOf(size) {
    if (keepsAspect()) return 8; // here the grid depends on the photo's full size
    const resized = cropOf(size)?.resized;
    const suffice = (eighths) => resized && size.width * eighths >= 16 * resized.width
        && size.height * eighths >= 16 * resized.height
        && Math.max(size.width, size.height) * eighths >= 8 * VIEW;
    return [1, 2, 4].find(suffice) ?? 8;
}

/** Returns the model's input for a photo. If `look` is given, calls it with the decoded photo. */
async function inputOf(key, look = null) {
    const name = `${key}/input`;
    const photo = photos.get(key);
    const known = recall(name);
    if (known && !look) {
        model.fit(photo.size);
        return known;
    }
    checkChannels();
    const decoded = await decode(photo.file, eighthsOf);
    const { width, height } = decoded.size ?? decoded;
    photo.size = { width, height };
    if (look) await look(decoded);
    const input = known ?? model.preprocess(decoded);
    model.fit(photo.size);
    return known ?? keep(name, input, input.byteLength);
}

/** Returns { tokens } after a block, or after the final norm, and the other outputs of the same
 * pass. */
async function outputsOf(key, block = null) {
    const name = `${key}/tokens/${block ?? 'last'}`;
    const known = recall(name);
    if (known) return known;
    const input = await inputOf(key);
    const start = performance.now();
    let outputs;
    if (block === null) {
        const wants = { tokens: true, embedding: true, logits: model.info.config.num_classes > 0 };
        outputs = model.run(input, wants);
    } else {
        [outputs] = model.run(input, { blocks: [block] }).blocks;
    }
    outputs.ms = performance.now() - start;
    return keep(name, outputs, outputs.tokens.byteLength);
}

/** Calls action for each of several photos, and reports the progress. */
async function each(keys, text, action) {
    const results = [];
    for (const [i, key] of keys.entries()) {
        progress(`${text}: photo ${i + 1} of ${keys.length}`, i, keys.length);
        results.push(await action(key));
    }
    return results;
}

/** Returns the likeliest classes. If classes are equally likely, the class with the lower number
 * comes first. */
function best(outputs) {
    const logits = naming ? words.logits(jointOf(outputs), naming.embeddings) : outputs.logits;
    if (!logits) return null;
    const scores = (naming ? words : model).scores(logits);
    const labels = naming ? naming.texts : model.labels;
    const order = Array.from(logits.keys()).sort((a, b) => logits[b] - logits[a] || a - b);
    return order.slice(0, TOP).map((index) => ({
        index, label: labels[index] ?? null, score: scores[index],
    }));
}

function cropOf(size) {
    try {
        return model.crop(size);
    } catch {
        return null; // the model's patches are no areas of a photo
    }
}

// --- attention ---

const MOST_MAPS = 2 ** 27;           // largest number of bytes of attention from one pass

/** Calls `use` with the attention [heads, tokens, tokens] of several blocks, one after the
 * other. */
async function eachAttention(key, blocks, use) {
    const input = await inputOf(key);
    const { num_heads, num_tokens, num_patches } = model.info.config;
    const { rows, columns } = cropOf(photos.get(key).size) ?? { rows: num_patches, columns: 1 };
    const tokens = num_tokens - num_patches + rows * columns;
    const most = Math.max(1, Math.floor(MOST_MAPS / (4 * num_heads * tokens ** 2)));
    for (let i = 0; i < blocks.length; i += most) {
        const some = blocks.slice(i, i + most);
        const names = some.map((block) => `${key}/attention/${block}`);
        let maps = names.map(recall);
        if (maps.includes(null)) {
            if (blocks.length > most) progress('Attention', i, blocks.length);
            maps = model.run(input, { blocks: some, attention: true }).blocks
                .map(({ attention }, k) => keep(names[k], attention, attention.byteLength));
        }
        maps.forEach(use);
    }
}

/** Returns the attention of one token to the patches, in one head. Token -1 stands for the mean of
 * all tokens. */
function rowOf(maps, head, from) {
    const { num_heads, num_tokens, num_patches } = model.info.config;
    const tokens = Math.sqrt(maps.length / num_heads);
    const patches = tokens - (num_tokens - num_patches);
    const map = maps.subarray(head * tokens * tokens, (head + 1) * tokens * tokens);
    if (from >= 0) return map.slice((from + 1) * tokens - patches, (from + 1) * tokens);
    const sums = new Float64Array(tokens);
    for (let i = 0; i < tokens; i++) {
        for (let j = 0; j < tokens; j++) sums[j] += map[i * tokens + j] / tokens;
    }
    return Float32Array.from(sums.subarray(tokens - patches));
}

/** Sums in double, in the order of the heads, like tools/vit-look. */
function meanOf(heads) {
    return heads[0].map((_, i) => heads.reduce((sum, head) => sum + head[i], 0) / heads.length);
}

// --- a checkpoint ---

let converter = null;
let learner = null;

async function convert({ files, args }) {
    const { Converter } = await import('./vit/convert.mjs');
    converter ??= await Converter.open();
    return converter.convert(files, args, (line) => progress(line));
}

// --- words ---

async function openWords() {
    const { Words } = await import('./vit/words.mjs');
    words ??= await Words.open(model);
    return words;
}

/** Returns the vector to compare with texts, as in the programs: the head's output if it is as wide
 * as a text's vector, else the embedding. */
const jointOf = ({ logits, embedding }) => (logits?.length === words.dim ? logits : embedding);

/** Returns { embedding, cut } of a text. If there are templates, `text` is the name that is put
 * into them. */
function textOf(text, templates = []) {
    const name = `text/${JSON.stringify([text, ...templates])}`;
    return recall(name) ?? keep(name, words.embedIn(text, templates), 4 * words.dim);
}

// --- the requests ---

const answers = {
    async open({ source, threads, module }) {
        const onProgress = (done, total) => progress('Reading the model', done, total);
        const next = await Model.open(source, { threads, module, onProgress });
        model?.close();
        words?.close();
        model = next;
        words = naming = null;
        cache.clear();
        cached = 0;
        const { info, labels, threads: used, module: kind } = model;
        const { img_width: width, img_height: height } = info.config;
        const crop = cropOf({ width, height });
        const grid = crop && [crop.rows, crop.columns];
        return { info, labels, threads: used, module: kind, grid, words: model.hasText };
    },

    /** Gives the photos to a replacement worker. */
    know({ list }) {
        for (const { key, name, file } of list) photos.set(key, { name, file });
    },

    forget({ key }) {
        photos.delete(key);
        forget(`${key}/`);
    },

    async read({ key, name, file }) {
        let view = null;
        if (!photos.has(key)) photos.set(key, { name, file });
        await inputOf(key, async (decoded) => { view = await shrink(decoded); });
        return { ...photos.get(key).size, view, ...await answers.classify({ key }) };
    },

    async classify({ key }) {
        const outputs = await outputsOf(key);
        return { classes: best(outputs), ms: outputs.ms, crop: cropOf(photos.get(key).size) };
    },

    /** Computes the embedding of a photo in a box. The worker does not keep the photo. */
    async sample({ file, thumb = false }) {
        checkChannels();
        const decoded = await decode(file, eighthsOf);
        const input = model.preprocess(decoded);
        const { embedding } = model.run(input, { embedding: true });
        return { embedding, backbone: model.info.backbone,
            ...(thumb && { thumb: await thumbOf(decoded) }) };
    },

    /** Returns the .vit file of the open model. */
    file() {
        return new Blob([model.file()]);
    },

    async learn({ base, photos: given, args }) {
        const { Learner } = await import('./vit/learn.mjs');
        learner ??= await Learner.open();
        return learner.learn(base ?? model.file(), given, args);
    },

    /** Classifies a frame of the camera, without keeping it. */
    frame({ bitmap }) {
        checkChannels();
        const { width, height } = bitmap;
        const context = frameContext(width, height);
        context.drawImage(bitmap, 0, 0);
        bitmap.close();
        const photo = context.getImageData(0, 0, width, height);
        const start = performance.now();
        const input = model.preprocess(photo);
        const classes = model.info.config.num_classes > 0;
        const wants = { logits: classes, embedding: !classes || naming !== null };
        const found = best(model.run(input, wants));
        return { classes: found, ms: performance.now() - start, crop: cropOf(photo) };
    },

    /** For each block, returns the attention of every head and the mean of all heads. Patch -1 is
     * the class token. */
    async attention({ key, blocks, patch }) {
        const { num_tokens, num_patches, num_heads, has_cls_token, attention } = model.info.config;
        if (attention) {
            throw new Error('This model has no attention maps: each token attends only to itself');
        }
        const from = patch >= 0 ? num_tokens - num_patches + patch : has_cls_token ? 0 : -1;
        const results = [];
        await eachAttention(key, blocks, (maps) => {
            const heads = Array.from({ length: num_heads }, (_, head) => rowOf(maps, head, from));
            results.push({ heads, mean: meanOf(heads) });
        });
        return results;
    },

    async rollout({ key, patch }) {
        const input = await inputOf(key);
        return model.rollout(input, patch >= 0 ? { patch } : {});
    },

    async tokens({ keys, block, foreground }) {
        const outputs = await each(keys, 'Tokens', (key) => outputsOf(key, block));
        return model.principalComponents(outputs, { foreground });
    },

    async similarity({ keys, patch, block }) {
        const outputs = await each(keys, 'Similarity', (key) => outputsOf(key, block));
        return model.similarity(outputs, patch);
    },

    positions({ kind, block }) {
        return model.positions({ kind, block });
    },

    /** Returns the kinds of positions that the model has. */
    kinds() {
        return ['embedding', 'rotary', 'relative'].filter((kind) => {
            try {
                return model.positions({ kind });
            } catch {
                return false;
            }
        });
    },

    /** Returns the cosines between the embeddings of the first photo and of all photos. */
    async compare({ keys }) {
        const outputs = await each(keys, 'Compare', (key) => outputsOf(key));
        return outputs.map(({ embedding }) => model.cosine(outputs[0].embedding, embedding));
    },

    /** Makes these texts the classes; without texts, restores the model's own. */
    async name({ texts, templates }) {
        await openWords();
        const found = texts.map((text, i) => {
            progress(`Class ${i + 1} of ${texts.length}`, i, texts.length);
            return textOf(text, templates);
        });
        const embeddings = found.map(({ embedding }) => embedding), notes = found.map(({ cut, misread }) => ({ cut, misread }));
        const { context } = words;
        naming = texts.length ? { texts, embeddings } : null;
        return { context, notes };
    },

    /** Returns the photos' cosines with the text, and which of them (sigmoid: logits) exceed 0. */
    async find({ keys, text }) {
        const { scale, bias, sigmoid, context } = await openWords();
        const { embedding, ...note } = textOf(text);
        const cosines = [];
        for (const [i, key] of keys.entries()) {
            progress(`Find: photo ${i + 1} of ${keys.length}`, i, keys.length);
            cosines.push(model.cosine(jointOf(await outputsOf(key)), embedding));
        }
        const fits = cosines.map((cosine) => (sigmoid ? scale * cosine + bias : cosine) > 0);
        return { cosines, fits, note, context };
    },

    convert,
};

let frameCanvas = null;

function frameContext(width, height) {
    if (frameCanvas?.width !== width || frameCanvas.height !== height) {
        frameCanvas = new OffscreenCanvas(width, height);
    }
    return frameCanvas.getContext('2d', { willReadFrequently: true });
}

const needNoModel = new Set(['open', 'know', 'forget', 'convert']);

/** Lists the part of a response that is transferred to the page, its picture. Other parts are
 * copied, because the cache may keep them. */
function movable(result) {
    return result?.view ? [result.view] : [];
}

onmessage = async ({ data: { type, data } }) => {
    try {
        if (!model && !needNoModel.has(type)) throw new Error('no model is open');
        const result = await answers[type](data);
        postMessage({ result }, movable(result));
    } catch (error) {
        const { message, name, resultString } = error;
        postMessage({ error: { message: message || String(error), name, resultString } });
    }
};
