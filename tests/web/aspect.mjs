// aspect.mjs - tests models that keep each photo's aspect ratio. The page must give the outputs of
// the native programs, and its converter must write the same files.
import { copyFileSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { convert, download, native, sameBytes } from './checkpoints.mjs';
import { shownClasses } from './classes.mjs';
import { convert as convertNative, json, pathOf, png, readPpm, write } from './files.mjs';
import { Visit, expect, same, test, visit } from './harness.mjs';
import { Native } from './native.mjs';
import { sameRange } from './views.mjs';

const TOLERANCE = 1e-4; // of the largest absolute value
const names = ['wide', 'tall', 'square', 'thin'];
const photos = names.map((name) => `aspect-${name}.png`);
const gap = resolve('tests/data/naflexvit/naflexvit_base_patch16_gap');

/** Each row has a name and the arguments of vit-convert. */
const models = [
    ['SigLIP 2 NaFlex', 'tests/data/naflex'],
    ['naflexvit with classes', gap],
    ['naflexvit of factorised positions', `${gap.replace('_gap', '_parfac_gap')}`],
    ['DINOv2 with the sizes of DPT', 'tests/data/dense/dinov2/model.safetensors', '--dynamic',
     ...['num_heads=2', 'activation=gelu', 'pool=token', 'norm_eps=1e-6', 'pos_resample=dino',
         'crop_mode=aspect', 'crop_rounding=nearest'].flatMap((value) => ['--set', value])],
];

/** Runs in the page. Computes all outputs of each photo twice: in the order of the list from the
 * photo, and in the reverse order from its preprocessed input. */
async function runInPage({ model, photos: files }) {
    const { decode } = await import('/decode.mjs');
    const { Model } = await import('/vit/vit.mjs');
    const opened = await Model.open(`/made/${model}`, { threads: 2 });
    const read = await Promise.all(files.map(async (name) =>
        decode(await (await fetch(`/made/${name}`)).blob())));
    const { depth, num_classes: classes } = opened.info.config;
    const wants = { logits: classes > 0, embedding: true, tokens: true,
                    blocks: [depth - 1], attention: true };
    const list = ({ rows, columns, blocks: [last], ...outputs }) => ({
        grid: [rows, columns], attention: [...last.attention],
        ...Object.fromEntries(Object.entries(outputs).map(([key, values]) => [key, [...values]])),
    });
    const found = read.map((photo) => list(opened.run(photo, wants)));
    const inputs = read.map((photo) => opened.preprocess(photo));
    const again = inputs.map((_, i) => inputs.length - 1 - i).map((i) => {
        opened.fit(read[i]);
        return list(opened.run(inputs[i], wants));
    }).reverse();
    const tokens = read.map((photo) => opened.run(photo, { tokens: true }));
    const result = {
        found, equal: JSON.stringify(found) === JSON.stringify(again),
        components: opened.principalComponents(tokens).maps.map((map) => [...map]),
        componentsOfPhotos: opened.principalComponents(read).maps.map((map) => [...map]),
        similarity: opened.similarity(tokens, 3).maps.map((map) => [...map]),
        rollout: read.map((photo) => [...opened.rollout(photo)]),
        crops: read.map((photo) => opened.crop(photo)),
        last: opened.patchAt(read[0], read[0].width - 1, read[0].height - 1),
        positions: opened.positions().values.length,
    };
    opened.close();
    return result;
}

function near(found, wanted, what) {
    same(found.length, wanted.length, `${what}: the length`);
    const largest = wanted.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    const apart = found.reduce((most, x, i) => Math.max(most, Math.abs(x - wanted[i])), 0);
    expect(apart <= TOLERANCE * largest, `${what}: ${apart} apart, of ${largest}`);
    return apart / largest;
}

const look = (command, model, files, ...options) => json('tools/vit-look', command, '-m', model,
    ...files, '--json', '-o', pathOf('aspect-look.png'), ...options).images;

function compare(result, model, files) {
    const { found, equal } = result, tool = new Native('.', model, pathOf('.'));
    const components = look('tokens', model, files), rollout = look('attention', model, files, '--rollout');
    const grids = components.map(({ grid }) => grid);
    let most = 0;
    same(found.map(({ grid }) => grid), grids, 'the grids');
    same(result.crops.map(({ rows, columns }) => [rows, columns]), grids, 'the grids of crop()');
    same(result.last, grids[0][0] * grids[0][1] - 1, 'the patch in the corner');
    const [{ grid: [rows, columns] }] = json('tools/vit-look', 'positions', '-m', model, '--json',
                                             '-o', pathOf('aspect-look.png')).models;
    same(result.positions, (rows * columns) ** 2, 'the positions as stored');
    expect(new Set(grids.map(String)).size === names.length, 'all photos have one grid');
    expect(equal, 'other outputs from inputs, in another order');
    files.forEach((file, i) => {
        const { grid, ...outputs } = found[i];
        const wanted = tool.outputs(file, Object.keys(outputs));
        for (const [key, values] of Object.entries(outputs)) {
            most = Math.max(most, near(values, wanted[key], `${names[i]}: ${key}`));
        }
        const flat = (images) => images[i].values.flat(3);
        near(result.components[i], flat(components), `${names[i]}: components`);
        near(result.componentsOfPhotos[i], flat(components), `${names[i]}: of photos`);
        near(result.rollout[i], flat(rollout), `${names[i]}: rollout`);
        same(result.similarity[i].length, grid[0] * grid[1], `${names[i]}: similarity`);
    });
    return most;
}

export default async function aspect() {
    for (const [i, name] of names.entries()) {
        const { width, height, pixels } = readPpm(`tests/data/naflex/${name}.ppm`);
        write(photos[i], png(width, height, 8, 2, pixels));
    }
    const visited = await Visit.open();
    for (const [i, [title, ...args]] of models.entries()) {
        const file = `aspect${i}.vit`;
        convertNative(...args, '-o', pathOf(file));
        await test(`${title}: each photo at its own grid, as natively`, async () => {
            const result = await visited.page.evaluate(runInPage, { model: file, photos });
            const most = compare(result, pathOf(file), photos.map(pathOf));
            return `${photos.length} photos, at most ${most.toExponential(1)} apart`;
        });
    }
    await visited.close();

    await visit('naflexvit: converted, and photos of several shapes', {}, async (on) => {
        const { page } = on, folder = pathOf('naflexvit');
        mkdirSync(folder, { recursive: true });
        for (const name of ['config.json', 'model.safetensors']) {
            copyFileSync(resolve(gap, name), resolve(folder, name));
        }
        await convert(on, folder, 'f32');
        const [file, config] = ['model.safetensors', 'config.json'].map((name) =>
            resolve(folder, name));
        sameBytes(await download(on), native(file, ['--dtype', 'f32', '--config', 'config.json'],
                                             config));
        const photo = pathOf(photos[0]);
        await on.drop(photo);
        const [{ percent }] = await shownClasses(page);
        const [{ prob }] = json('tools/vit-classify', '-m', pathOf('native/model.vit'), '--json',
                                photo).top;
        same(percent, Number((100 * prob).toFixed(1)), `the class of ${photo}`);
    });

    for (const tab of ['Attention', 'Rollout', 'Tokens', 'Similarity']) {
        await visit(`${tab} of photos of two shapes`, {}, async (on) => {
            const { page } = on, files = photos.slice(0, 2).map(pathOf), key = tab.toLowerCase();
            await on.drop(pathOf('aspect1.vit'));
            await on.drop(files);
            await on.work(() => page.getByRole('tab', { name: 'Positions' }).click());
            await on.work(() => page.getByRole('tab', { name: tab }).click());
            const caption = await on.text(`#${key}-caption`);
            if (tab === 'Rollout') {
                const images = look('attention', pathOf('aspect1.vit'), files, '--rollout');
                sameRange(caption, { images }, 1); // the photo that was dropped last
            }
            same(await page.locator('#views-empty').isVisible(), false, 'a message instead');
            return caption;
        });
    }
}
