// views.mjs - "See" and "Compare": uses every view by mouse and keyboard, and compares its numbers
// with tools/vit-look and its canvases with reference/*.png.
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { cat, json, pathOf } from './files.mjs';
import { Visit, built, expect, same, test } from './harness.mjs';

const references = resolve('tests/web/reference');
const LARGEST = 200000;     // bytes of all references
const APART = 40;           // a pixel differs if a colour differs by more than this, of 255
const SHARE = 0.01;         // the share of pixels that may differ
const MEAN = 2;             // the largest mean of all differences

export const look = (...args) => json('tools/vit-look', ...args, '--json', '-o', pathOf('look.png'));
const catPng = pathOf('cat.png');

/** Runs in the page: draws small copies of an element's visible canvases on one sheet; returns the
 * number of canvases and the bytes of a PNG. */
async function sheetOf(selector) {
    const all = [...document.querySelectorAll(`${selector} canvas`)]
        .filter((canvas) => canvas.checkVisibility() && canvas.width > 4);
    const many = all.length > 24, side = many ? 16 : 56;
    const columns = Math.min(all.length, many ? 12 : 6);
    const sheet = new OffscreenCanvas(columns * side, Math.ceil(all.length / columns) * side);
    const context = sheet.getContext('2d');
    context.imageSmoothingQuality = 'high';
    all.forEach((canvas, i) => {
        const scale = side / Math.max(canvas.width, canvas.height);
        context.drawImage(canvas, i % columns * side, Math.floor(i / columns) * side,
                          canvas.width * scale, canvas.height * scale);
    });
    const blob = await sheet.convertToBlob({ type: 'image/png' });
    return { count: all.length, bytes: [...new Uint8Array(await blob.arrayBuffer())] };
}

/** Runs in the page: compares two PNGs. Returns { mean, share }, or { sizes } if these differ. */
async function distance({ found, wanted, apart }) {
    const [a, b] = await Promise.all([found, wanted].map(async (bytes) => {
        const bitmap = await createImageBitmap(new Blob([Uint8Array.from(bytes)]));
        const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d');
        context.drawImage(bitmap, 0, 0);
        return context.getImageData(0, 0, bitmap.width, bitmap.height);
    }));
    if (a.width !== b.width || a.height !== b.height) return { sizes: [a, b].map(
        ({ width, height }) => `${width} x ${height}`) };
    let sum = 0, differ = 0;
    for (let i = 0; i < a.data.length; i += 4) {
        const most = Math.max(...[0, 1, 2].map((c) => Math.abs(a.data[i + c] - b.data[i + c])));
        sum += most;
        if (most > apart) differ++;
    }
    return { mean: 4 * sum / a.data.length, share: 4 * differ / a.data.length };
}

/** Compares a panel with its reference, or writes the reference. */
async function picture({ page }, name, selector, update) {
    const { count, bytes } = await page.evaluate(sheetOf, selector);
    expect(count > 0, `${selector} has no canvas`);
    const path = resolve(references, `${name}.png`);
    writeFileSync(resolve(built, `${name}.png`), Buffer.from(bytes));
    if (update) {
        mkdirSync(references, { recursive: true });
        writeFileSync(path, Buffer.from(bytes));
        return 'written';
    }
    expect(existsSync(path), `no ${path}: --references writes it`);
    const wanted = [...readFileSync(path)];
    const { sizes, mean, share } = await page.evaluate(distance, { found: bytes, wanted,
        apart: APART });
    expect(!sizes, `${name}.png: ${sizes?.join(', reference ')}`);
    expect(mean <= MEAN && share <= SHARE, `${name}.png differs from its reference: ` +
        `${mean.toFixed(2)} of 255 on average, ${(100 * share).toFixed(2)} % of the pixels much`);
    return `${count} canvases, ${mean.toFixed(2)} apart`;
}

/** Compares "...; 0.0014 to 0.082" with the range that vit-look printed, to two digits. */
export function sameRange(caption, { images }, image = 0) {
    const [, ...shown] = /(-?[\d.e-]+) to (-?[\d.e-]+)$/.exec(caption) ?? [];
    const values = images[image].values.flat(2);
    const wanted = [Math.min(...values), Math.max(...values)];
    shown.forEach((text, i) => {
        const off = Math.abs(text - wanted[i]);
        expect(off <= 0.006 || off <= 0.05 * Math.abs(wanted[i]),
               `"${caption}": look says ${wanted.join(' to ')}`);
    });
    expect(shown.length === 2, `"${caption}": no range`);
}

/** Returns the middle of a patch in the cat's grid of 8 x 8: its place on a map, and in the photo's
 * pixels. */
const inMap = async (page, name, row, column) => {
    const canvas = await page.locator(`#${name}-map canvas`).boundingBox();
    return { x: canvas.x + (column + 0.5) / 8 * canvas.width,
             y: canvas.y + (row + 0.5) / 8 * canvas.height };
};
const inPhoto = (row, column) => `${column * 16 + 8},${row * 16 + 8}`;

export default async function views({ references: update }) {
    const visited = await Visit.open();
    const { page } = visited;
    const caption = (name) => page.locator(`#${name}-caption`).innerText();
    const shows = (name, text) => page.waitForFunction(([id, wanted]) =>
        document.getElementById(id).textContent.includes(wanted), [`${name}-caption`, text]);
    const tab = (name) => visited.work(() => page.getByRole('tab', { name }).click());
    const clickPatch = async (name, row, column) => {
        const { x, y } = await inMap(page, name, row, column);
        await visited.work(() => page.mouse.click(x, y));
        await page.mouse.move(2, 2);
    };

    await test('two photos for the views', async () => {
        await visited.drop([catPng, cat]);
        same(await page.locator('#photos li').count(), 2, 'photos');
    });

    await test('attention: the mean of the heads of the middle block', async () => {
        await shows('attention', 'class token, block 3, mean of 6 heads');
        sameRange(await caption('attention'), look('attention', catPng, '--block', '3'));
        return picture(visited, 'attention', '#panel-attention', update);
    });

    await test('attention: a head that is pointed at', async () => {
        await page.locator('#heads button').nth(3).hover();
        await shows('attention', 'head 2');
        sameRange(await caption('attention'), look('attention', catPng, '--head', '2', '--block',
            '3'));
        await page.mouse.move(2, 2);
        await shows('attention', 'mean of 6 heads');
    });

    await test('attention: a head that is chosen, a patch, another block', async () => {
        await page.locator('#heads button').nth(2).click();
        await page.mouse.move(2, 2);
        await clickPatch('attention', 2, 3);
        await shows('attention', 'patch at row 3, column 4');
        await visited.work(async () => {
            await page.locator('#block').focus();
            await page.keyboard.press('Home');
        });
        await shows('attention', 'block 0, head 1');
        sameRange(await caption('attention'),
                  look('attention', catPng, '--head', '1', '--block', '0', '--at', inPhoto(2, 3)));
        const remark = await picture(visited, 'attention-patch', '#panel-attention', update);
        await visited.work(() => page.locator('#attention-reset').click());
        await shows('attention', 'class token');
        same([await page.locator('#attention-reset').isVisible(),
              await page.evaluate(() => document.activeElement.id)], [false, 'attention-map'],
             'the button when it has done its work, the focus');
        return remark;
    });

    await test('attention: every head of every block', async () => {
        const squeezed = await page.locator('#matrix').evaluate((matrix) => {
            matrix.style.height = '6rem';   // as small as with many heads
            const [{ clientHeight, firstChild }] = matrix.children;
            matrix.style.height = '';
            return clientHeight < firstChild.clientHeight;
        });
        expect(!squeezed, 'where there are many heads their maps are cut off');
        const one = page.locator('#matrix').getByRole('button', { name: 'Block 5, head 4' });
        await one.hover();
        await shows('attention', 'block 5, head 4');
        sameRange(await caption('attention'), look('attention', catPng, '--head', '4', '--block',
            '5'));
        await visited.work(() => one.click());
        same(await page.locator('#block').inputValue(), '5', 'the block');
    });

    await test('rollout', async () => {
        await tab('Rollout');
        sameRange(await caption('rollout'), look('attention', '--rollout', catPng));
        await clickPatch('rollout', 5, 1);
        await shows('rollout', 'patch at row 6, column 2');
        sameRange(await caption('rollout'), look('attention', '--rollout', catPng, '--at',
            inPhoto(5, 1)));
        return picture(visited, 'rollout', '#panel-rollout', update);
    });

    await test('tokens', async () => {
        await tab('Tokens');
        const shares = async () => {
            const text = await caption('tokens');
            return text.match(/[\d.]+(?= %)/g).map(Number);
        };
        const close = (found, { explained }, what) => found.forEach((share, i) =>
            expect(Math.abs(share - 100 * explained[i]) < 0.11, `${what}: ${found.join(' ')}`));
        close(await shares(), look('tokens', catPng, cat), 'shares');
        const remark = await picture(visited, 'tokens', '#panel-tokens', update);
        await visited.work(() => page.locator('#tokens-block').selectOption('3'));
        close(await shares(), look('tokens', catPng, cat, '--block', '3'), 'after block 3');
        await visited.work(() => page.locator('#foreground').check());
        close(await shares(), look('tokens', catPng, cat, '--block', '3', '--foreground'),
            'foreground');
        await picture(visited, 'tokens-foreground', '#panel-tokens', update);
        return remark;
    });

    await test('similarity', async () => {
        await tab('Similarity');
        const wanted = (...args) => look('similarity', catPng, cat, ...args);
        sameRange(await caption('similarity'), wanted('--at', inPhoto(4, 4)));
        await clickPatch('similarity', 1, 2);
        await shows('similarity', 'row 2, column 3');
        const at = wanted('--at', inPhoto(1, 2));
        sameRange(await caption('similarity'), at);
        sameRange(await page.locator('#similarity-maps button span').first().innerText(), at, 1);
        return picture(visited, 'similarity', '#panel-similarity', update);
    });

    await test('positions', async () => {
        await tab('Positions');
        const { cosines } = look('positions').models[0];
        const { x, y } = await inMap(page, 'positions', 6, 2);
        await page.mouse.move(x, y);
        await shows('position', 'row 7, column 3');
        sameRange(await caption('position'), { images: [{ values: cosines[6 * 8 + 2] }] });
        return picture(visited, 'positions', '#panel-positions', update);
    });

    await test('the large maps are of one size, and large', async () => {
        const widths = [];
        for (const name of ['Rollout', 'Tokens', 'Similarity']) {
            await tab(name);
            const map = page.locator(`#panel-${name.toLowerCase()} .map`);
            const { width, height } = await map.boundingBox();
            widths.push(width);
            expect(height > 350, `${name}: ${height} pixels high`);
        }
        const panel = await page.locator('#panel-similarity').boundingBox();
        same(widths, Array(3).fill(panel.width), 'widths');
    });

    await test('the maps by keyboard', async () => {
        await tab('Rollout');
        await page.locator('#rollout-map').focus();
        for (const key of ['ArrowUp', 'ArrowLeft', 'ArrowLeft',
            'ArrowUp']) await page.keyboard.press(key);
        await visited.work(() => page.keyboard.press('Enter'));
        await shows('rollout', 'patch at row 4, column 3');
        await visited.work(() => page.keyboard.press('Escape'));
        await shows('rollout', 'class token');
    });

    await test('compare: two photos', async () => picture(visited, 'compare', '.pair', update));

    await test('another photo, without leaving a view', async () => {
        await visited.work(() => page.locator('#photos button').nth(1).click());
        sameRange(await caption('rollout'), look('attention', '--rollout', cat));
    });

    await test('the references are small', () => {
        const sizes = readdirSync(references).map((name) => statSync(resolve(references,
            name)).size);
        const total = sizes.reduce((sum, size) => sum + size, 0);
        expect(sizes.length > 6 && total < LARGEST, `${sizes.length} of ${total} bytes`);
        return `${sizes.length} of ${(total / 1000).toFixed(0)} KB`;
    });
    await visited.close();
}
