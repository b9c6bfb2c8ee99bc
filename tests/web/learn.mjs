// learn.mjs - compares vit-learn in WebAssembly, which gets embeddings, with the native vit-learn,
// which gets photos. The bytes, messages and reports must be the same. Native programs must open
// the learnt files and give the right classes. Wrong input must be refused.
//
//     node tests/web/learn.mjs NATIVE MODEL...   the folder of native programs, built with VIT_NO_FMA
//
// The last line is "N passed, N failed".
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Learner } from '../../examples/web/vit/learn.mjs';
import { Model } from '../../examples/web/vit/vit.mjs';
import { check, summary } from '../checks.mjs';
import { writePpm } from './native.mjs';

const native = path.resolve(process.argv[2], 'tools');
const bundled = path.resolve('models/cifar10-vit.vit');
const others = process.argv.slice(3);
const work = path.resolve('build/wasm/learn');
fs.rmSync(work, { recursive: true, force: true });
fs.mkdirSync(work, { recursive: true });
const learner = await Learner.open();

// --- photos ----------------------------------------------------------------------------------------

const SIDE = 40;
let seed = 1;
const noise = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed >>> 24) % 64 - 32;
};

/** Makes a noisy picture of a colour. */
function photo(colour) {
    const data = new Uint8Array(SIDE * SIDE * 3);
    const level = noise() / 2;
    data.forEach((_, i) => {
        data[i] = Math.max(0, Math.min(255, colour[i % 3] + level + noise()));
    });
    return { width: SIDE, height: SIDE, data, format: 'rgb8' };
}

const colours = { red: [200, 40, 40], green: [40, 180, 40], blue: [40, 60, 200],
                  grey: [120, 120, 120] };

const models = new Map();

/** Returns { name, classes, embedding } of photos, which are also written as files into the work
 * folder. */
async function photosOf(file, counts, classesOf = (name) => [name]) {
    if (!models.has(file)) models.set(file, await Model.open(file, { threads: 1 }));
    const model = models.get(file), photos = [];
    for (const [name, count] of Object.entries(counts)) {
        for (let i = 0; i < count; i++) {
            const picture = photo(colours[name] ?? colours.grey);
            const own = `${name}${models.size}-${photos.length}-${seed}.ppm`;
            writePpm(path.join(work, own), picture);
            const { embedding } = model.run(picture, { embedding: true });
            photos.push({ name: own, classes: classesOf(name, i), embedding });
        }
    }
    return photos;
}

// --- both ------------------------------------------------------------------------------------------

const run = (program, args) => spawnSync(path.join(native, program), args,
    { cwd: work, encoding: 'utf8' });
const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

function learnNatively(model, photos, args) {
    const list = photos.map(({ name, classes }) => `${[name, ...classes].map(quoted).join(',')},\n`);
    fs.writeFileSync(path.join(work, 'list.csv'), list.join(''));
    const out = path.join(work, 'mine.vit');
    fs.rmSync(out, { force: true });
    fs.copyFileSync(model, path.join(work, 'model.vit'));
    const done = run('vit-learn', [...args, '-q', '--json', '-m', 'model.vit', '-o', 'mine.vit',
        ...(photos.length ? ['list.csv'] : [])]);
    return { status: done.status, stderr: done.stderr,
             report: done.stdout ? JSON.parse(done.stdout) : null,
             bytes: fs.existsSync(out) ? fs.readFileSync(out) : null };
}

const times = ['embed_seconds', 'learn_seconds'];
const timeless = (report) => report && JSON.stringify(report, (key, value) =>
    (times.includes(key) ? undefined : value));

/** Compares both programs. Returns learn()'s result with `bytes`: the learnt file, or null. */
async function compare(title, model, photos, args = []) {
    const ours = await learner.learn(fs.readFileSync(model), photos, args);
    const theirs = learnNatively(model, photos, args);
    check(ours.status === theirs.status, `${title}: status ${ours.status}, ${theirs.status}`);
    check(ours.stderr === theirs.stderr, `${title}: says\n${ours.stderr}not\n${theirs.stderr}`);
    check(timeless(ours.report) === timeless(theirs.report),
          `${title}: reports\n${timeless(ours.report)} not\n${timeless(theirs.report)}`);
    const bytes = ours.output && Buffer.from(await ours.output.arrayBuffer());
    check(bytes ? Buffer.compare(bytes, theirs.bytes ?? Buffer.alloc(0)) === 0
        : theirs.bytes === null, `${title}: the bytes`);
    return { ...ours, bytes };
}

const keep = (bytes, name) => {
    const file = path.join(work, name);
    fs.writeFileSync(file, bytes);
    return file;
};

// --- what learns -----------------------------------------------------------------------------------

const three = await photosOf(bundled, { red: 7, green: 6, blue: 5 });
const learnt = await compare('three classes', bundled, three);
check(learnt.report?.classes.join() === 'blue,green,red,none of these', 'the names of classes');
const mine = keep(learnt.bytes, 'learnt.vit');
const backwards = await compare('in another order', bundled, [...three].reverse());
check(Buffer.compare(backwards.bytes, learnt.bytes) === 0, 'another order gives other bytes');
await compare('one class', bundled, three.slice(0, 7));
await compare('a photo twice', bundled, [...three, { ...three[0], name: 'again.ppm' }].map((one) => {
    if (one.name === 'again.ppm') fs.copyFileSync(path.join(work, three[0].name),
        path.join(work, one.name));
    return one;
}));
await compare('without "none of these"', bundled, three, ['--known', '1']);
await compare('three folds', bundled, three, ['--folds=3']);
await compare('only one of a class', bundled, three.slice(0, 14));
await compare('names with separators', bundled,
    await photosOf(bundled, { red: 3, blue: 3 }, (name) => [`${name}; "the" |, one`]));
await compare('a class of the name', bundled,
    await photosOf(bundled, { red: 4, grey: 4 }, (name) => [name === 'grey' ? 'none of these' : name]));
await compare('several classes a photo', bundled,
    await photosOf(bundled, { red: 5, blue: 5, grey: 2 },
        (name, i) => (name === 'grey' ? [] : i ? [name, 'colour'] : [name])));
await compare('--several', bundled, three, ['--several']);

// --- and learns more -------------------------------------------------------------------------------

const grey = await photosOf(mine, { grey: 5, blue: 2 });
const more = await compare('--add', mine, grey, ['--add']);
const all = await compare('all at once', bundled, [...three, ...grey]);
check(Buffer.compare(more.bytes, all.bytes) === 0, '--add gives other bytes than all at once');
await compare('without --add', mine, grey);
await compare('--forget', mine, [], ['--forget', 'green']);
await compare('--forget what is not there', mine, [], ['--forget', 'violet']);
await compare('--add to what has learnt nothing', bundled, grey, ['--add']);

// --- other types of weights ------------------------------------------------------------------------

for (const file of others) {
    await compare(`from ${file}`, file, await photosOf(file, { red: 4, green: 4 }));
    check(models.get(file).info.backbone !== models.get(bundled).info.backbone,
          `${file}: the backbone of another model`);
}

// --- the file --------------------------------------------------------------------------------------

const checked = run('vit-info', ['--check', mine]);
check(checked.status === 0, `vit-info --check: ${checked.stdout}${checked.stderr}`);
const opened = await Model.open(mine);
check(opened.info.backbone === models.get(bundled).info.backbone, 'the backbone is another one');
check(Buffer.compare(opened.file(), learnt.bytes) === 0, 'file() gives other bytes');
for (const name of ['red', 'green', 'blue']) {
    const picture = photo(colours[name]);
    writePpm(path.join(work, 'new.ppm'), picture);
    const said = run('vit-classify', ['-m', mine, '-k', '1', 'new.ppm']).stdout;
    check(new RegExp(`^ *[0-9.]+ % +${name}$`, 'm').test(said), `vit-classify: ${name} is ${said}`);
    check(opened.classify(picture, 1)[0].label === name, `classify: not ${name}`);
}

// --- what is wrong ---------------------------------------------------------------------------------

const [first] = three;
const twin = { ...first, name: 'twin.ppm', classes: ['other'] };
fs.copyFileSync(path.join(work, first.name), path.join(work, twin.name));
await compare('a photo in two classes', bundled, [...three, twin]);
await compare('one photo', bundled, [first]);
await compare('no class', bundled, [{ ...first, classes: [] }]);
await compare('classes of one name', bundled,
    [...three.slice(0, 3), ...three.slice(3, 6).map((one) => ({ ...one, classes: ['Red'] }))]);
const hurt = keep(learnt.bytes.subarray(0, 5000), 'hurt.vit');
await compare('a model that is cut off', hurt, three);

const damaged = (change) => {
    const embedding = first.embedding.slice();
    return [...three.slice(1), { ...first, embedding: change(embedding) ?? embedding }];
};
for (const [title, photos, pattern] of [
    ['NaN', damaged((x) => { x[3] = NaN; }), /its embedding has the value (-)?nan at index 3; expected -65504 to 65504/],
    ['too large', damaged((x) => { x[0] = 1e6; }), /its embedding has the value 1e\+06 at index 0/],
    ['too short', damaged((x) => x.slice(1)), /expected an embedding of 192 floats, found fewer/],
    ['too long', damaged((x) => Float32Array.of(...x, 0)), /of 192 floats, found more/],
]) {
    const { status, stderr, output } = await learner.learn(fs.readFileSync(bundled), photos);
    check(status === 1 && output === null && pattern.test(stderr), `${title}: ${status} ${stderr}`);
}
for (const [title, photos, args, pattern] of [
    ['a name with an end of line', [{ ...first, name: 'a\nb' }], [], /control characters/],
    ['a class without a name', [{ ...first, classes: [' '] }], [], /name of a class/],
    ['a class that is no string', [{ ...first, classes: [1] }], [], /as a string/],
    ['a name twice', [first, first], [], /each photo's name once/],
    ['a name of ours', [{ ...first, name: 'model.vit' }], [], /each photo's name once/],
    ['a name that climbs', [{ ...first, name: '../a' }], [], /as a path/],
    ['a list of numbers', [{ ...first, embedding: [1, 2] }], [], /as a Float32Array/],
    ['-o', [first], ['-o', 'x.vit'], /-o is not allowed in args/],
    ['--model', [first], ['--model=x.vit'], /is not allowed in args/],
]) {
    let said = 'nothing';
    await learner.learn(fs.readFileSync(bundled), photos, args).catch(({ message }) => {
        said = message;
    });
    check(pattern.test(said), `${title}: ${said}`);
}
check((await learner.learn(fs.readFileSync(bundled), three, ['--fold', 'x'])).status === 2,
      'a wrong option');
summary();
