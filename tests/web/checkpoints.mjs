// checkpoints.mjs - drops a checkpoint on the page, fills in the form, opens the model and
// downloads it. The downloaded file must have the bytes that vit-convert writes.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { makeChecker } from './access.mjs';
import { json, pathOf, write } from './files.mjs';
import { shownClasses } from './classes.mjs';
import { expect, same, skip, visit } from './harness.mjs';

/** This program is built with VIT_NO_FMA, because WebAssembly has no fused multiply-add. */
const converter = resolve('build/nofma/tools/vit-convert');

/** Returns the bytes of the .vit file that the native program writes with these arguments. */
export function native(file, args, ...beside) {
    const cwd = pathOf('native');
    rmSync(cwd, { recursive: true, force: true }); // the program reads files beside a checkpoint
    mkdirSync(cwd, { recursive: true });
    for (const path of [file, ...beside]) copyFileSync(path, resolve(cwd, basename(path)));
    const { status, stderr } = spawnSync(converter, ['-q', ...args, '-o', 'model.vit',
        basename(file)],
                                         { cwd });
    same(status, 0, `vit-convert ${args.join(' ')}: ${stderr}`);
    return readFileSync(resolve(cwd, 'model.vit'));
}

const dialog = (page) => page.getByRole('dialog', { name: 'Convert a checkpoint' });

async function press(visited) {
    await visited.work(() => dialog(visited.page).getByRole('button', { name: 'Convert' }).click());
}

/** Returns the file that the page offers after the conversion. */
export async function download({ page }) {
    await dialog(page).getByText('Converted, and open').waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    const offered = page.waitForEvent('download');
    await page.getByRole('link', { name: /Download/ }).click();
    const file = await offered;
    const bytes = readFileSync(await file.path());
    expect(file.suggestedFilename().endsWith('.vit'), file.suggestedFilename());
    return bytes;
}

/** Drops the checkpoint, fills in the form's fields by their labels, and starts the conversion. */
export async function convert(visited, file, dtype, fields = {}) {
    const { page } = visited;
    await visited.dropOnly(file);
    await dialog(page).waitFor();
    await dialog(page).getByLabel('Weights in').selectOption(dtype);
    if (Object.keys(fields).length) await press(visited);
    for (const [name, value] of Object.entries(fields)) {
        const field = dialog(page).getByLabel(name);
        if (await field.evaluate((element) => element.tagName) === 'SELECT') {
            await field.selectOption(value);
        } else {
            await field.fill(value);
        }
    }
    await press(visited);
}

export const sameBytes = (found, wanted) => expect(found.equals(wanted),
    `other bytes than vit-convert's: ${found.length}, ${wanted.length} there`);

export default async function checkpoints() {
    const own = (name) => resolve(`tests/data/own/${name}`);
    for (const dtype of ['f32', 'int8']) {
        await visit(`a .safetensors in ${dtype}: the bytes of vit-convert`, {}, async (visited) => {
            const file = own('heads_slices/model.safetensors');
            await convert(visited, file, dtype);
            const found = await download(visited);
            sameBytes(found, native(file, ['--dtype', dtype]));
            return `${found.length} bytes`;
        });
    }

    await visit('a .pt, what was assumed changed', {}, async (visited) => {
        const file = resolve('tests/data/modules/whole.pt');
        await convert(visited, file, 'f16', { block_type: 'post_norm' });
        sameBytes(await download(visited), native(file, ['--dtype', 'f16', '--set',
            'block_type=post_norm']));
    });

    await visit('a question, its form, the answer', {}, async (visited) => {
        const { page } = visited;
        const file = own('unnamed_asked/model.pt');
        await visited.dropOnly(file);
        await dialog(page).waitFor();
        const { height } = await dialog(page).boundingBox();
        expect(height < 250, `the form is ${height} pixels high before it has anything to show`);
        await press(visited);
        await dialog(page).getByRole('heading', { name: /^Missing/ }).waitFor();
        same(await page.evaluate(() => document.activeElement.tagName), 'SELECT', 'the focus');
        const check = await makeChecker(page);
        await check('the form');
        await page.setViewportSize({ width: 390, height: 844 });
        const cut = await page.locator('#questions').evaluate((list) =>
            [...list.querySelectorAll('h3, strong, span, p, select, input')].filter((element) =>
                element.getBoundingClientRect().right > list.getBoundingClientRect().right)
                .map(({ textContent }) => textContent));
        same(cut, [], 'cut off on a phone');
        await dialog(page).getByLabel('qkv_interleave').selectOption('per_head');
        await press(visited);
        sameBytes(await download(visited),
                  native(file, ['--dtype', 'f32', '--set', 'qkv_interleave=per_head']));
    });

    await visit('what vit-convert advises, as more options', {}, async (visited) => {
        const file = own('autoencoder_asked/model.safetensors');
        await convert(visited, file, 'f32',
                      { 'More options': "--ignore 'decoder.*' --set num_heads=2" });
        sameBytes(await download(visited), native(file,
            ['--dtype', 'f32', '--ignore', 'decoder.*', '--set', 'num_heads=2']));
    });

    await visit('a folder, as it is downloaded', {}, async (visited) => {
        const { page } = visited;
        const folder = pathOf('repository'), fixture = resolve('tests/data/fixtures/chans1');
        mkdirSync(folder, { recursive: true });
        for (const name of ['config.json', 'model.safetensors']) {
            copyFileSync(resolve(fixture, name), resolve(folder, name));
        }
        for (const name of ['preprocessor_config.json', 'a_tokenizer.json', 'README.md',
                            '.gitattributes', 'LICENSE.txt']) write(`repository/${name}`, '{}\n');
        write('repository/words.txt', Array.from({ length: 10 }, (_, i) => `word ${i}\n`).join(''));
        await visited.dropOnly(folder);
        await dialog(page).waitFor();
        same(await page.locator('#error').innerText(), '', 'the message');
        await press(visited);
        const [file, ...beside] = ['model.safetensors', 'config.json', 'words.txt']
            .map((name) => resolve(folder, name));
        sameBytes(await download(visited), native(file, ['--dtype', 'f32', '--labels', 'words.txt',
            '--config', 'config.json'], ...beside));
    });

    await visit('a checkpoint that is refused', {}, async (visited) => {
        const { page } = visited;
        await visited.dropOnly(own('cnn/model.safetensors'));
        await dialog(page).waitFor();
        await press(visited);
        await dialog(page).getByText(/looks like the blocks of a transformer/).first().waitFor();
        await page.keyboard.press('Escape');
        await dialog(page).waitFor({ state: 'hidden' });
        await visited.drop(pathOf('cat.png'));
        same((await shownClasses(page))[0].name, 'cat', 'the model before is still there');
    });

    await visit('a checkpoint and its labels: the classes', {}, async (visited) => {
        const { page } = visited;
        const [weights, labels, photo] = ['weights.safetensors', 'labels.txt',
            'cat.png'].map(pathOf);
        await visited.dropOnly([weights, labels]);
        await dialog(page).waitFor();
        await press(visited);
        sameBytes(await download(visited),
                  native(weights, ['--dtype', 'f32', '--labels', 'labels.txt'], labels));
        await visited.drop(photo);
        const [{ name, percent }] = await shownClasses(page);
        const [{ label, prob }] = json('tools/vit-classify', '-m', pathOf('native/model.vit'),
            '--json',
                                       photo).top;
        same([name, percent], [label, Number((100 * prob).toFixed(1))], 'the class');
        return `${name} ${percent} %`;
    });

    await deit();
}

async function deit() {
    const data = process.env.WEB_TEST_DATA;
    const file = data && resolve(data, 'deit_tiny_patch16_224.safetensors');
    const name = 'DeiT-Ti as a checkpoint';
    if (!file || !existsSync(file)) {
        skip(name, 'WEB_TEST_DATA is not set');
        return;
    }
    await visit(name, {}, async (visited) => {
        const { page } = visited;
        await visited.dropOnly(file);
        await dialog(page).waitFor();
        await dialog(page).getByLabel(/Architecture/).fill('deit_tiny_patch16_224');
        await press(visited);
        sameBytes(await download(visited),
                  native(file, ['--dtype', 'f32', '--arch', 'deit_tiny_patch16_224']));
    });
}
