// api.mjs - compares every method of vit.mjs with the native programs, bit for bit.
//
//     node tests/web/api.mjs PROGRAMS WORK KIND:THREADS,... MODEL.vit...
//
// PROGRAMS is a folder with tools/ and examples/ that were built with VIT_NO_FMA. WORK is a folder
// for temporary files. The last line is "N passed, N failed".
import { readFile } from 'node:fs/promises';
import { readPpm } from '../../examples/web/vit/ppm.mjs';
import { Model } from '../../examples/web/vit/vit.mjs';
import { check, summary } from '../checks.mjs';
import { Native, equal, noise, writePpm } from './native.mjs';

const [programs, work, variants, ...models] = process.argv.slice(2);
const files = ['examples/cat.ppm', `${work}/tall.ppm`, `${work}/small.ppm`];
writePpm(files[1], noise(75, 200));
writePpm(files[2], noise(9, 5, 2));
const photos = await Promise.all(files.map(async (file) => readPpm(await readFile(file))));
const POINT = [31, 90]; // in the first

const near = (a, b) => Math.abs(a - b) <= 6e-9 * Math.abs(b); // nine digits

/** The native results with which every variant is compared. */
function ask(native) {
    const look = (...parameters) => native.look(...parameters);
    const at = ['--at', POINT.join()];
    const card = native.json('tools/vit-info', '--json', '--labels', native.model);
    const config = card.config;
    const wanted = { card, depth: config.depth };
    wanted.classify = files.map((file) =>
        native.json('tools/vit-classify', '-m', native.model, '--json', '-k', 4, file).top);
    wanted.outputs = files.map((file) =>
        native.outputs(file, ['logits', 'embedding', 'tokens', 'attention', 'block-tokens',
                              'dump-input'], '--block', 'all'));
    wanted.attention = look('attention', files[0]);
    wanted.tall = look('attention', files[1]);
    wanted.head = look('attention', files[0], '--block', 1, '--head', 1, ...at);
    wanted.heads = look('attention', files[1], '--block', 0, '--heads', 'all');
    wanted.rollout = files.map((file) => look('attention', file, '--rollout'));
    wanted.rolloutAt = look('attention', files[0], '--rollout', ...at);
    wanted.tokens = look('tokens', ...files);
    wanted.foreground = look('tokens', files[0], files[1], '--foreground', '--block', 1);
    wanted.similarity = look('similarity', ...files, ...at);
    wanted.similarityOf = look('similarity', files[0], ...at, '--block', 0);
    wanted.positions = look('positions');
    return wanted;
}

function checkInfo(model, { card }, name) {
    const { file, labels, synsets, isa, bytes, ...others } = card;
    const { isa: own, bytes: ownBytes, ...found } = model.info;
    check(JSON.stringify(found) === JSON.stringify(others), `${name}: info of ${file}`);
    check(JSON.stringify({ ...ownBytes, session: 0 }) === JSON.stringify({ ...bytes, session: 0 }),
          `${name}: sizes`);
    check(ownBytes.session > 0 && own === (model.module === 'scalar' ? isa : 'wasm-simd'),
          `${name}: kernels ${own}`);
    check(JSON.stringify([model.labels, model.synsets]) === JSON.stringify([labels, synsets]),
          `${name}: labels`);
}

function checkClasses(model, wanted, name) {
    photos.forEach((photo, i) => {
        const best = model.classify(photo, 4);
        const same = best.length === 4 && best.every(({ index, label, score }, place) => {
            const native = wanted.classify[i][place];
            return index === native.index && label === native.label &&
                score === Math.fround(native.prob);
        });
        check(same, `${name}: classes of ${files[i]}`);
        const again = model.classify(model.preprocess(photo), 1);
        check(again.length === 1 && again[0].score === best[0].score, `${name}: of an input`);
        check(model.classify(photo, Infinity).length === model.labels.length, `${name}: all`);
    });
}

function checkOutputs(model, wanted, name) {
    const blocks = Array.from({ length: wanted.depth }, (_, block) => block);
    photos.forEach((photo, i) => {
        const native = wanted.outputs[i];
        const found = model.run(photo, { logits: true, embedding: true, tokens: true, blocks,
                                         blockTokens: true, attention: true });
        const join = (key) => Float32Array.from(found.blocks.flatMap((b) => Array.from(b[key])));
        check(equal(model.preprocess(photo), native['dump-input']), `${name}: input ${i}`);
        for (const key of ['logits', 'embedding', 'tokens']) {
            check(equal(found[key], native[key]), `${name}: ${key} of ${files[i]}`);
        }
        check(equal(join('attention'), native.attention), `${name}: attention of ${files[i]}`);
        check(equal(join('tokens'), native['block-tokens']), `${name}: blocks of ${files[i]}`);
        const scores = model.scores(found.logits);
        const best = model.classify(photo, 1)[0];
        check(scores[best.index] === best.score, `${name}: scores of ${files[i]}`);
    });
    const [last] = model.run(photos[0], { blocks: [wanted.depth - 1] }).blocks;
    check(last.block === wanted.depth - 1 && last.attention === undefined, `${name}: one block`);
}

function checkAttention(model, wanted, patch, name) {
    const [cat, tall] = photos;
    check(equal(model.attention(cat), wanted.attention.values), `${name}: attention`);
    check(equal(model.attention(tall), wanted.tall.values), `${name}: attention, tall`);
    check(equal(model.attention(cat, { block: 1, head: 1, patch }), wanted.head.values),
          `${name}: attention of a patch`);
    const heads = Array.from({ length: wanted.card.config.num_heads }, (_, head) =>
        Array.from(model.attention(tall, { block: 0, head })));
    check(equal(Float32Array.from(heads.flat()), wanted.heads.values), `${name}: each head`);
    photos.forEach((photo, i) => {
        check(equal(model.rollout(photo), wanted.rollout[i].values), `${name}: rollout ${i}`);
    });
    check(equal(model.rollout(cat, { patch }), wanted.rolloutAt.values),
          `${name}: rollout of a patch`);
}

const join = (maps) => Float32Array.from(maps.flatMap((map) => Array.from(map)));

function checkTokens(model, wanted, patch, name) {
    const components = model.principalComponents(photos);
    const { variance, explained } = wanted.tokens.json;
    check(equal(join(components.maps), wanted.tokens.values), `${name}: components`);
    check(components.variance.every((x, k) => near(x, variance[k])) &&
          components.explained.every((x, k) => near(x, explained[k])) &&
          components.variance.length === variance.length, `${name}: variance`);
    const front = model.principalComponents(photos.slice(0, 2), { block: 1, foreground: true });
    check(equal(join(front.maps), wanted.foreground.values), `${name}: foreground`);
    check(front.maps[0].some(Number.isNaN), `${name}: there is a background`);
    const tokens = photos.map((photo) => model.run(photo, { tokens: true }));
    const same = model.principalComponents(tokens);
    check(equal(join(same.maps), wanted.tokens.values), `${name}: components of tokens`);
    const similar = model.similarity(photos, patch);
    check(equal(join(similar.maps), wanted.similarity.values), `${name}: similarity`);
    check(equal(join(model.similarity(tokens, patch).maps), wanted.similarity.values),
          `${name}: similarity of tokens`);
    check(equal(join(model.similarity([photos[0]], patch, { block: 0 }).maps),
                wanted.similarityOf.values), `${name}: similarity in a block`);
}

function checkPlaces(model, wanted, name) {
    const { seen, size } = wanted.tall.json.images[0];
    const { x, y, width, height, rows, columns } = model.crop(photos[1]);
    const sides = [Math.max(x, 0), Math.max(y, 0), Math.min(x + width, size[0]),
                   Math.min(y + height, size[1])];
    check(sides.every((side, i) => near(side, seen[i])), `${name}: crop ${sides}, ${seen}`);
    const { row, column } = wanted.similarity.json.at;
    const patch = model.patchAt(photos[0], ...POINT);
    check(patch === row * columns + column && rows > row, `${name}: patch ${patch}`);
    check(model.patchAt(photos[0], -1, 0) === -1, `${name}: no patch`);
    return patch;
}

function checkPositions(model, wanted, name) {
    const found = model.positions(), [native] = wanted.positions.json.models;
    check(equal(found.values, wanted.positions.values), `${name}: positions`);
    check(found.kind === native.kind && found.dim === native.dim && found.block === native.block &&
          found.rows === native.grid[0] && found.columns === native.grid[1],
          `${name}: kind of positions`);
}

for (const path of models) {
    const wanted = ask(new Native(programs, path, work));
    for (const variant of variants.split(',')) {
        const [module, threads] = variant.split(':');
        const name = `${path} ${variant}`;
        const model = await Model.open(path, { module, threads: Number(threads) });
        check(model.module === module && model.threads === Number(threads), `${name}: module`);
        checkInfo(model, wanted, name);
        checkClasses(model, wanted, name);
        checkOutputs(model, wanted, name);
        const patch = checkPlaces(model, wanted, name);
        checkAttention(model, wanted, patch, name);
        checkTokens(model, wanted, patch, name);
        checkPositions(model, wanted, name);
        model.close();
    }
}
summary();
