// words.mjs - tests words that sort the photos and name classes. With CLIP and SigLIP, the results
// must be those of vit-search and vit-classify. The suite also covers texts that are too long or
// wrong, pages without photos, models without words, and the converter.
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { makeChecker } from './access.mjs';
import { cat, colours, convert, json, model, pathOf, runTool, write } from './files.mjs';
import { built, expect, same, servers, test, visit } from './harness.mjs';
import { Model } from '../../examples/web/vit/vit.mjs';
import { Words } from '../../examples/web/vit/words.mjs';

const committed = 'tests/data/text', APART = 1e-4;
const clip = pathOf('clip.vit'), siglip = pathOf('siglip.vit');
const photos = [...Object.keys(colours).flatMap((name) => [0, 1, 2].map((i) => `${name}${i}.png`)),
                'cat.png', 'noise.png'].map(pathOf);
const LONG = 'one two three four five six seven';

/** Makes a folder for each model, with its checkpoint, configuration and tokenizer, and converts
 * the folder to a .vit file. */
function makeModels() {
    for (const [name, output] of [['hf_clip', clip], ['hf_siglip', siglip]]) {
        const folder = pathOf(name);
        mkdirSync(folder, { recursive: true });
        for (const from of [`${committed}/${name}`, `${committed}/tokenizer`]) {
            for (const file of readdirSync(from)) {
                if (!/\.npy$/.test(file)) copyFileSync(`${from}/${file}`, resolve(folder, file));
            }
        }
        convert(folder, '-o', output);
    }
}

async function find(visited, text) {
    await visited.page.locator('#find-words').fill(text);
    const button = visited.page.getByRole('button', { name: 'Find', exact: true });
    await visited.work(() => button.click());
}

async function name(visited, texts, template = '') {
    const { page } = visited;
    await page.locator('#class-words').fill(texts);
    if (template && !await page.locator('#template').isVisible()) {
        await page.locator('#naming summary').click();
    }
    if (await page.locator('#template').isVisible()) await page.locator('#template').fill(template);
    await visited.work(() => page.getByRole('button', { name: 'Name', exact: true }).click());
}

const found = ({ page }) => page.locator('#found button').evaluateAll((buttons) =>
    buttons.map(({ title, dataset }) => ({ name: title, cosine: Number(dataset.cosine) })));

/** Checks that values agree to within APART and have the same order. The order of two values that
 * differ by less than APART is not checked. */
function compare(shown, native, value, what) {
    same(shown.map((one) => one.name).sort(), native.map((one) => one.name).sort(), what);
    for (const [i, { name: at, [value]: is }] of shown.entries()) {
        const should = native.find((one) => one.name === at)[value];
        expect(Math.abs(is - should) <= APART, `${what}, ${at}: ${is}, native ${should}`);
        expect(native[i].name === at || Math.abs(native[i][value] - is) <= APART,
            `${what}: place ${i + 1} has ${at}, native ${native[i].name}`);
    }
}

function nearest(text) {
    return json('tools/vit-search', pathOf('words.npy'), '--words', text, '-k', '100', '--json')
        .nearest.map(({ name: path, cosine }) => ({ name: basename(path), cosine }));
}

const bars = ({ page }) => page.locator('#bars li:not(.none)').evaluateAll((rows) =>
    rows.map((row) => ({ name: row.querySelector('.name').textContent,
        prob: Number(row.querySelector('.bar').style.getPropertyValue('--share')) })));

function classified(file, photo, texts, templates) {
    const args = templates.flatMap((template) => ['--template', template]);
    return json('tools/vit-classify', '-m', file, '--classes', texts, ...args, '--json', photo).top
        .map(({ label, prob }) => ({ name: label, prob }));
}

async function asNative(title, file) {
    await visit(`words: ${title} sorts and names as vit-search and vit-classify`, {},
        async (visited) => {
        const { page } = visited;
        await visited.drop(file);
        same(await page.locator('#tab-words').getAttribute('aria-selected'), 'true', 'the tab');
        const fetched = visited.requests.some((url) => url.includes('words.wasm'));
        same(fetched, false, 'words.wasm, before a text');
        await visited.drop(photos);
        const index = pathOf('words.npy');
        runTool('tools/vit-embed', '-q', '--overwrite', '-m', file, '-o', index, ...photos);
        let least = 1, most = -1;
        for (const text of ['the cat', 'a DOG', 'in the   cat &amp; Ünïcode 日本語 🐈', LONG]) {
            await find(visited, text);
            const shown = await found(visited), native = nearest(text);
            compare(shown, native, 'cosine', text);
            least = Math.min(least, ...shown.map(({ cosine }) => cosine));
            most = Math.max(most, ...shown.map(({ cosine }) => cosine));
        }
        expect(most - least > 100 * APART, `all cosines are ${most}`);
        const last = (await found(visited)).at(-1).name;
        await page.locator('#found button').last().click();
        expect((await visited.text('#caption')).startsWith(last), 'the photo that is chosen');

        const texts = 'cat, the dog,in the cat , dog on';
        for (const templates of [[], ['the {} in'], ['the {} in', 'a {}', '{}']]) {
            await name(visited, texts, templates.join(' | '));
            compare(await bars(visited), classified(file, pathOf(last), texts, templates), 'prob',
                `${texts} in ${templates}`);
        }
        await page.locator('#photos button').first().click();
        const native = classified(file, photos[0], texts, ['the {} in', 'a {}', '{}']);
        compare(await bars(visited), native, 'prob', 'another photo');
        await visited.work(() => page.locator('#bundled').click());
        same((await bars(visited)).length, 5, 'its own classes');
        same(await page.locator('#found button').count(), 0, 'what was found');
        return `cosines ${least.toFixed(3)} to ${most.toFixed(3)}`;
    });
}

/** The bundled model's text encoder is trained, so the meaning of the words matters here. */
async function asBundled() {
    await visit('words: the bundled model finds the cat, and names it', {}, async (visited) => {
        const { page } = visited;
        same(await page.locator('#tab-attention').getAttribute('aria-selected'), 'true', 'the tab');
        await visited.drop([...photos, cat]);
        await page.locator('#photos button').last().click();
        await page.getByRole('tab', { name: 'Words' }).click();
        await find(visited, 'a photo of a cat');
        const [first] = await found(visited);
        expect(/^cat\./.test(first.name), `the first is ${first.name}`);
        runTool('tools/vit-embed', '-q', '--overwrite', '-m', model, '-o', pathOf('words.npy'),
            ...photos, cat);
        compare((await found(visited)).filter(({ name: at }) => at !== 'cat.jpg'),
            nearest('a photo of a cat').filter(({ name: at }) => at !== 'cat.jpg'), 'cosine', 'cat');
        await name(visited, 'ship, dog, cat', 'a photo of a {}');
        const [best, ...others] = await bars(visited);
        same([best.name, others.length], ['cat', 2], 'the class');
        await name(visited, '');
        same((await bars(visited)).length, 5, 'its own classes again');
        return `cat ${(100 * best.prob).toFixed(1)} %`;
    });
}

async function states() {
    await visit('words: no boxes for a model without words', {}, async (visited) => {
        const { page } = visited, boxes = ['#tab-words', '#panel-words', '#naming'];
        const shown = () => Promise.all(boxes.map((box) => page.locator(box).isVisible()));
        await page.getByRole('tab', { name: 'Words' }).click();
        same(await shown(), [true, true, true], 'with words');
        await visited.drop(pathOf('f32.vit'));
        same(await shown(), [false, false, false], 'without');
        same(await page.locator('#tab-attention').getAttribute('aria-selected'), 'true', 'the tab');
    });

    await visit('words: no photos, no match, too long, wrong', {}, async (visited) => {
        const { page } = visited;
        const note = async (id, pattern) => {
            const text = await visited.text(id);
            expect(pattern.test(text), `${id}: "${text}"`);
        };
        const press = async (button) => {
            await page.getByRole('button', { name: button, exact: true }).click();
        };
        await visited.drop(clip);
        await page.locator('#remove').click();
        await page.locator('#find-words').fill('the cat');
        await press('Find');
        await note('#found-note', /^There are no photos yet: drop some/);
        await visited.drop(photos);
        same((await found(visited)).length, photos.length, 'photos, sorted as they come');
        await page.locator('#remove').click();
        same((await found(visited)).length, photos.length - 1, 'without the one that is removed');
        await press('Find');
        await note('#found-note', /^No photo fits "the cat"; the nearest is first\.$/);
        await page.locator('#find-words').fill(' ');
        await press('Find');
        await note('#found-note', /^Type what the photos should show\.$/);
        await find(visited, LONG);
        await note('#found-note', /first\. This text has 19 tokens too many: the model reads 9/);
        await find(visited, 'CafÃ© aâ‚¬');
        await note('#found-note', /\. This text looks like UTF-8 read as Windows-1252; the text is used/);
        await find(visited, 'Ça là, São Paulo');
        await note('#found-note', /^(?!.*Windows).* first\./);
        await page.locator('#find-words').evaluate((field) => { field.value = 'a\ud800cat'; });
        await press('Find');
        await page.locator('#found-note.bad').waitFor();
        await note('#found-note', /^'a': half of a character follows, at 1\.$/);

        await press('Name');
        await note('#naming-note', /^Name two classes or more\.$/);
        await page.locator('#class-words').fill('cat, dog, cat');
        await press('Name');
        await note('#naming-note', /^"cat" occurs twice\.$/);
        await name(visited, `cat, ${LONG}`);
        await note('#naming-note', /^"one two .* seven" has 19 tokens too many/);
        await name(visited, 'cat, cafÃ©');
        await note('#naming-note', /^"cafÃ©" looks like UTF-8 read as Windows-1252/);
        await page.locator('#naming summary').click();
        await page.locator('#template').fill('a photo');
        await press('Name');
        await note('#naming-note', /^"a photo" needs \{\} in place of the class\.$/);
        await name(visited, '');
        await note('#speed', /^This model has no classes of its own: name yours\.$/);
        same((await bars(visited)).length, 0, 'no classes');
    });

    await visit('words: after Cancel, and without words.wasm', { server: servers.wordless },
        async (visited) => {
        const { page } = visited;
        visited.overlook(/words\.wasm|404/);
        await visited.drop([clip, ...photos]);
        await find(visited, 'the cat');
        const said = await visited.text('#found-note');
        expect(/words\.wasm: HTTP status 404/.test(said), said);
        expect(await page.locator('#found button').count() === 0, 'nothing is listed');
    });

    await visit('words: a replacement worker has the classes', {}, async (visited) => {
        const { page } = visited;
        await visited.drop([clip, photos[0]]);
        await name(visited, 'cat, dog');
        await page.evaluate(() => document.querySelector('#cancel').click());
        await visited.until('ready');
        await visited.drop(photos[3]);
        const native = classified(clip, photos[3], 'cat, dog', []);
        compare(await bars(visited), native, 'prob', 'after it');
    });
}

/** Returns the rows of a .npy file of floats. */
function rowsOf(path, count) {
    const bytes = readFileSync(path);
    const data = Uint8Array.from(bytes.subarray(10 + bytes.readUInt16LE(8)));
    const values = new Float32Array(data.buffer);
    const width = values.length / count;
    return Array.from({ length: count }, (_, i) => values.subarray(i * width, (i + 1) * width));
}

/** Returns 'KIND: MESSAGE' for the error that a call throws, or '' if it throws no error. */
async function thrownBy(action) {
    try {
        await action();
        return '';
    } catch ({ name: kind, message }) {
        return `${kind}: ${message}`;
    }
}

async function inNode() {
    await test('words: embeddings in Node are those of vit-embed --texts', async () => {
        const texts = ['the cat', 'in a dog', 'ΣΊΣΥΦΟΣ &lt;3', LONG];
        const output = pathOf('texts.npy');
        let most = 0;
        for (const file of [clip, siglip]) {
            rmSync(output, { force: true });
            runTool('tools/vit-embed', '-q', '-m', file, '--texts',
                write('texts.list', `${texts.join('\n')}\n`), '-o', output);
            const both = await Model.open(file, { threads: 1 }), words = await Words.open(both);
            both.close();
            for (const [i, row] of rowsOf(output, texts.length).entries()) {
                const { embedding } = words.embed(texts[i]);
                same(embedding.length, row.length, 'the width');
                most = Math.max(most, ...row.map((value, k) => Math.abs(value - embedding[k])));
            }
            words.close();
        }
        expect(most < 1e-5, `${most} apart`);
        return `at most ${most.toExponential(1)} apart`;
    });

    await test('words: what is wrong, in Node', async () => {
        const both = await Model.open(clip, { threads: 1 }), file = both.textFile();
        const words = await Words.open(file), other = await Model.open(pathOf('f32.vit'), { threads: 1 });
        same([other.hasText, other.textFile(), both.hasText], [false, null, true], 'has text');
        const damaged = Uint8Array.from(file);
        damaged[file.length - 1000] ^= 1;
        const long = new Float32Array(words.dim + 1);
        for (const [action, message] of [
            [() => Words.open(other), 'Error: the model has no text encoder'],
            [() => Words.open(damaged), /^VitError: file contradicts itself: /],
            [() => Words.open(file.subarray(0, file.length - 1)), /^VitError: /],
            [() => words.embed(7), 'TypeError: expected a text as a string'],
            [() => words.embed('dog\udc00'), /^RangeError: 'dog': half of a character .* at 3$/],
            [() => words.embedIn('dog', ['a {}', 'a']), /^RangeError: 'a': expected {} in place/],
            [() => words.logits(long, [words.embed('a').embedding]),
             /^RangeError: expected vectors of 12/],
            [() => { words.close(); words.embed('a'); }, 'Error: the text encoder is closed'],
            [() => new Words(), 'TypeError: words come from Words.open()'],
        ]) {
            const thrown = await thrownBy(action);
            expect(message.test?.(thrown) ?? thrown === message, `${message}: "${thrown}"`);
        }
        for (const one of [both, other]) one.close();
    });
}

/** The page's converter leaves text encoders out, and prints a message about it. */
async function converted() {
    await visit('words: the converter of the page says that it leaves them out', {},
        async (visited) => {
        const { page } = visited;
        await visited.dropOnly(['model.safetensors', 'config.json'].map((file) =>
            resolve(pathOf('hf_clip'), file)));
        await page.locator('#converter[open]').waitFor();
        await visited.work(() => page.locator('#convert [type=submit]').click());
        const report = await visited.text('#questions');
        expect(/vit-convert keeps them/.test(report), report);
        await page.locator('#close-converter').click();
        same(await page.locator('#tab-words').isVisible(), false, 'the tab');
        const said = await visited.text('#speed');
        expect(/It has no text encoder because .*; the program vit-convert keeps it\.$/.test(said), said);
    });
}

async function looks() {
    const phone = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true,
                    hasTouch: true };
    for (const [look, options] of [['light', {}], ['dark', { colorScheme: 'dark' }],
                                   ['phone', phone]]) {
        await visit(`words: axe-core, ${look}`, options, async (visited) => {
            const { page } = visited;
            const check = await makeChecker(page);
            const picture = (state) => page.screenshot({ fullPage: true,
                path: resolve(built, `words-${look}${state}.png`) });
            await visited.drop(clip);
            await check('empty');
            await picture('-empty');
            await visited.drop([...photos, cat]);
            await page.locator('#find-words').focus();
            await page.keyboard.type('the cat');
            await visited.work(() => page.keyboard.press('Enter'));
            same((await found(visited)).length, photos.length + 1, 'photos, by the keyboard');
            await name(visited, 'a cat, a dog, an empty street', 'a photo of {}');
            await find(visited, LONG);
            await check('found');
            await picture('');
            const { wide, screen } = await page.evaluate(() => ({
                wide: document.documentElement.scrollWidth, screen: innerWidth }));
            expect(wide <= screen, `the page is ${wide} pixels wide, the screen ${screen}`);
        });
    }
}

export default async function suite() {
    makeModels();
    await inNode();
    await asNative('CLIP', clip);
    await asNative('SigLIP', siglip);
    await asBundled();
    await states();
    await converted();
    await looks();
}
