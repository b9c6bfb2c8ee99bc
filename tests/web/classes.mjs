// classes.mjs - adds photos to the page in every way. Their classes and probabilities must be those
// of tools/vit-classify.
import { existsSync, readFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { cat, convert, embeddings, json, model, pathOf } from './files.mjs';
import { expect, same, servers, skip, visit } from './harness.mjs';

/** Returns the displayed classes as [{ name, percent }]. */
export function shownClasses(page) {
    return page.locator('#bars li:not(.none)').evaluateAll((rows) => rows.map((row) => ({
        name: row.querySelector('.name').textContent,
        percent: parseFloat(row.querySelector('.score').textContent),
    })));
}

/** Runs in the page: returns the mean and the largest brightness of the large attention map, in the
 * square in the middle, which is what the model gets. */
function brightness() {
    const canvas = document.querySelector('#attention-map canvas');
    const { width, height } = canvas, side = Math.min(width, height);
    const { data } = canvas.getContext('2d').getImageData((width - side) / 2, (height - side) / 2,
                                                          side, side);
    let sum = 0, most = 0;
    for (let i = 0; i < data.length; i += 4) {
        const light = 0.299 * data[i] + 0.587 * data[i + 1] + 0.114 * data[i + 2];
        sum += light;
        most = Math.max(most, light);
    }
    return { mean: sum / side ** 2, most: Math.round(most) };
}

/** Compares the shown classes with vit-classify's. Probabilities may differ by `apart` percentage
 * points, because browsers decode a JPEG to slightly different pixels. */
async function compare(page, photo, modelPath, apart) {
    const { top } = json('tools/vit-classify', '-m', modelPath, '--json', photo);
    const shown = await shownClasses(page);
    same(shown.length, 5, `${basename(photo)}: number of classes`);
    same(shown[0].name, top[0].label, `${basename(photo)}: the first class`);
    for (const { name, percent } of shown) {
        const native = top.find(({ label }) => label === name);
        if (!native && percent < apart + 100 * top.at(-1).prob) continue; // the sixth there
        expect(native, `${basename(photo)}: "${name}" is not among the native five`);
        expect(Math.abs(percent - 100 * native.prob) <= apart,
               `${basename(photo)}, ${name}: ${percent} %, native ${100 * native.prob} %`);
    }
    return `${shown[0].name} ${shown[0].percent} %`;
}

/** Returns the cosines between the first photo's embedding and the others, from tools/vit-embed. */
function cosinesOf(photos) {
    const bytes = embeddings(photos);
    const start = 10 + bytes.readUInt16LE(8);
    const values = new Float32Array(Uint8Array.from(bytes.subarray(start)).buffer);
    const width = values.length / photos.length;
    const [first, ...others] = photos.map((_, i) => values.subarray(i * width, (i + 1) * width));
    return others.map((other) => first.reduce((sum, x, i) => sum + x * other[i], 0));
}

async function photosOfDeit() {
    const data = process.env.WEB_TEST_DATA;
    const name = 'DeiT-Ti and its photos';
    if (!data) {
        skip(name, 'WEB_TEST_DATA is not set');
        return;
    }
    const deit = pathOf('deit.vit');
    if (!existsSync(deit)) {
        convert(resolve(data, 'deit_tiny_patch16_224.safetensors'), '--arch',
                'deit_tiny_patch16_224', '--labels', resolve(data, 'imagenet_synset_words.txt'),
                '-o', deit);
    }
    await visit(name, {}, async (visited) => {
        await visited.drop(deit);
        const said = [];
        for (const photo of ['chelsea.png', 'coffee.png', 'rocket.jpg']) {
            const path = resolve(data, 'photos', photo);
            await visited.drop(path);
            said.push(await compare(visited.page, path, deit, photo.endsWith('png') ? 0.1 : 2));
        }
        return said.join(', ');
    });
}

export default async function classes() {
    await visit('the page opens, with the bundled model', {}, async ({ page }) => {
        expect((await page.title()).startsWith('vit.h'), 'title');
        await page.getByRole('button', { name: 'Details' }).click();
        const card = await page.locator('#card').innerText();
        const { config, parameters } = json('tools/vit-info', '--json', model);
        expect(card.includes(parameters.total.toLocaleString('en')), 'the card: parameters');
        expect(card.includes(`${config.num_tokens}: `), 'the card: tokens');
        same(await page.locator('#error').innerText(), '', 'an error');
    });

    await visit('at first: the example, a map that is seen, why nothing is compared', {},
        async (visited) => {
        const { page } = visited;
        await page.waitForFunction(() => document.querySelector('#attention-caption').textContent);
        same(await page.locator('#photos li').count(), 1, 'photos');
        const remark = await compare(page, cat, model, 3);
        const { mean, most } = await page.evaluate(brightness);
        expect(mean > 60 && most > 200, `the map: ${mean.toFixed(0)} on average, at most ${most}`);
        expect(/^With two photos or more/.test(await visited.text('#compare-empty')) &&
            await page.locator('#compare-empty button').isVisible(), 'no word in Compare');
        expect(!await page.locator('#compare-body').isVisible(), 'empty boxes in Compare');
        const { y } = await page.locator('#open-model').boundingBox();
        expect(y < 150, `the model is opened ${y} pixels down the page`);
        await visited.drop([pathOf('cat.png'), cat]);
        same(await page.locator('#photos li').count(), 2, 'photos, the example being gone');
        expect(!await page.locator('#compare-empty').isVisible() &&
            await page.locator('#compare-body').isVisible(), 'two photos are not compared');
        return `${remark}, brightness ${mean.toFixed(0)}`;
    });

    await visit('a server without the example', { server: servers.bare }, async (visited) => {
        visited.overlook(/404|cat\.jpg/);
        same([await visited.page.locator('#photos li').count(), await visited.text('#error')],
             [0, ''], 'photos, message');
        expect(/^Choose a photo/.test(await visited.text('#views-empty')), 'no word in its place');
        await visited.drop(pathOf('cat.png'));
        return compare(visited.page, pathOf('cat.png'), model, 0.1);
    });

    await visit('the loading is cancelled; later the bundled model is opened', {},
        async (visited) => {
        const { page } = visited;
        visited.overlook(/model\.vit/);
        await page.route('**/model.vit', () => {}); // no answer
        await page.reload();
        await page.locator('#cancel').click();
        await visited.until('error');
        expect(/No model is open/.test(await page.locator('#error p').innerText()), 'a message');
        await page.unroute('**/model.vit');
        await visited.work(() => page.locator('#bundled').click());
        await visited.drop(cat);
        return compare(page, cat, model, 3);
    });

    await visit('the cat is dropped', {}, async (visited) => {
        await visited.drop(cat);
        return compare(visited.page, cat, model, 3);
    });

    for (const name of ['cat.png', 'noise.png', 'noise_grey.png', 'noise_alpha.png']) {
        await visit(`${name} is dropped`, {}, async (visited) => {
            await visited.drop(pathOf(name));
            return compare(visited.page, pathOf(name), model, 0.1);
        });
    }

    await visit('a photo is chosen', {}, async (visited) => {
        await visited.work(async () => {
            const chooser = visited.page.waitForEvent('filechooser');
            await visited.page.getByRole('button', { name: 'Choose photos' }).click();
            await (await chooser).setFiles([cat]);
        });
        await compare(visited.page, cat, model, 3);
    });

    await visit('a photo is pasted', {}, async (visited) => {
        await visited.work(() => visited.page.evaluate((bytes) => {
            const data = new DataTransfer();
            data.items.add(new File([Uint8Array.from(bytes)], 'image.png', { type: 'image/png' }));
            document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data,
                bubbles: true }));
        }, [...readFileSync(pathOf('cat.png'))]));
        await compare(visited.page, pathOf('cat.png'), model, 0.1);
    });

    await visit('the example', {}, async (visited) => {
        await visited.work(() => visited.page.getByRole('button', { name: 'Example' }).click());
        await compare(visited.page, cat, model, 3);
    });

    await visit('several photos, and one of them removed', {}, async (visited) => {
        const { page } = visited;
        const photos = page.getByRole('list', { name: 'Photos', exact: true }).getByRole('button');
        await visited.drop([cat, pathOf('cat.png'), pathOf('noise.png')]);
        same(await photos.count(), 3, 'photos');
        await visited.work(() => photos.nth(1).click());
        await compare(page, pathOf('cat.png'), model, 0.1);
        await visited.work(() => page.getByRole('button', { name: 'Remove' }).click());
        same(await photos.count(), 2, 'photos after one is removed');
        await compare(page, pathOf('noise.png'), model, 0.1);
    });

    await visit('two photos are compared', {}, async (visited) => {
        const { page } = visited;
        const shown = () => page.locator('#cosine').innerText();
        const settled = (text) => page.waitForFunction((wanted) =>
            document.querySelector('#cosine').textContent === wanted, text);
        await visited.drop([pathOf('cat.png'), cat, pathOf('noise.png')]);
        await page.locator('#compare-body').waitFor();
        const [first, second] = cosinesOf([pathOf('cat.png'), cat, pathOf('noise.png')]);
        await settled(first.toFixed(3)).catch(async () => same(await shown(), first.toFixed(3),
                                                               'cosine of the first two'));
        const nearest = await page.locator('#nearest button').allInnerTexts();
        same(nearest.map((text) => text.trim()), [first.toFixed(3), second.toFixed(3)], 'nearest');
        return `cosines ${nearest.join(', ')}`;
    });

    await photosOfDeit();
}
