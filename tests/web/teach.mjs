// teach.mjs - teaches the page classes from photos in boxes, by mouse, keyboard and camera. The
// taught model's file must have the bytes that vit-learn writes, and must open in native programs.
// The next visit must show the same boxes, until they are cleared. The suite also covers wrong
// boxes.
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { makeChecker } from './access.mjs';
import { shownClasses } from './classes.mjs';
import { colours, model, pathOf, write } from './files.mjs';
import { built, expect, same, visit } from './harness.mjs';

const names = Object.keys(colours);
const photosOf = (name, count = 6) =>
    Array.from({ length: count }, (_, i) => pathOf(`${name}${i}.png`));
const unseen = (name) => pathOf(`${name}7.png`);

/** Returns the .vit file that vit-learn writes. This vit-learn is built without fused multiply-add,
    because WebAssembly has none. boxes: { class: paths }. */
function native(boxes, base = model, args = []) {
    const cwd = pathOf('native-learn');
    rmSync(cwd, { recursive: true, force: true });
    for (const [name, paths] of Object.entries(boxes)) {
        mkdirSync(resolve(cwd, 'photos', name), { recursive: true });
        for (const path of paths) copyFileSync(path, resolve(cwd, 'photos', name, basename(path)));
    }
    const { status, stderr } = spawnSync(resolve('build/nofma/tools/vit-learn'),
        ['-q', '-m', resolve(base), ...args, 'photos', '-o', 'mine.vit'], { cwd, encoding: 'utf8' });
    same(status, 0, `vit-learn: ${stderr}`);
    return readFileSync(resolve(cwd, 'mine.vit'));
}

const boxAt = (page, i) => page.locator('#boxes > li').nth(i);
const fieldAt = (page, i) => boxAt(page, i).getByRole('textbox');
const countAt = (page, i) => boxAt(page, i).locator('.count').innerText();

async function open({ page }) {
    await page.getByRole('button', { name: 'Teach your own' }).click();
    await page.locator('#teach').waitFor();
}

/** Fills boxes: { class: paths }. */
async function fill(visited, boxes) {
    const { page } = visited;
    for (const [i, [name, paths]] of Object.entries(boxes).entries()) {
        if (await page.locator('#boxes > li').count() <= i) await page.click('#add-box');
        await fieldAt(page, i).fill(name);
        if (paths.length) await visited.drop(paths, `#boxes > li:nth-child(${i + 1})`);
    }
}

async function teach(visited) {
    await visited.work(() => visited.page.locator('#learn').click());
}

async function downloaded({ page }) {
    const offered = page.waitForEvent('download');
    await page.getByRole('link', { name: 'Download mine.vit' }).click();
    const file = await offered;
    same(file.suggestedFilename(), 'mine.vit', 'the name');
    return readFileSync(await file.path());
}

const equal = (a, b, what) => expect(Buffer.compare(a, b) === 0,
    `${what}: ${a.length} bytes, expected the ${b.length} of vit-learn`);

/** Returns the numbers of boxes, photos and lessons in the browser's database. */
const stored = ({ page }) => page.evaluate(() => new Promise((done, fail) => {
    const request = indexedDB.open('vit-teach', 1);
    request.onerror = () => fail(request.error);
    request.onsuccess = () => {
        const stores = ['boxes', 'photos', 'lesson'];
        const transaction = request.result.transaction(stores);
        Promise.all(stores.map((name) => new Promise((counted) => {
            const count = transaction.objectStore(name).count();
            count.onsuccess = () => counted(count.result);
        }))).then((counts) => { request.result.close(); done(counts); });
    };
}));

async function untilStored(visited, wanted) {
    for (let i = 0; i < 100; i++) {
        if (JSON.stringify(await stored(visited)) === JSON.stringify(wanted)) return;
        await new Promise((next) => { setTimeout(next, 50); });
    }
    same(await stored(visited), wanted, 'boxes, photos, lessons kept');
}

async function answersTo(visited, path) {
    await visited.drop(path);
    return (await shownClasses(visited.page))[0];
}

// --- the mouse -------------------------------------------------------------------------------------

const three = Object.fromEntries(names.map((name) => [name, photosOf(name)]));

async function byMouse() {
    await visit('teach: photos are dropped into boxes; the bytes of vit-learn', {},
        async (visited) => {
        const { page } = visited;
        same(await page.locator('#views').isVisible(), true, 'the views, before');
        await open(visited);
        same(await page.locator('#views').isVisible(), false, 'the views, while it is open');
        await fill(visited, three);
        same(await Promise.all(names.map((_, i) => countAt(page, i))), names.map(() => '6 photos'),
            'what the boxes hold');
        await teach(visited);
        const said = await visited.text('#lesson');
        expect(/^Learnt 3 classes from 18 photos in [\d.]+ s\. 100\.0 % of 18 held-out photos/.test(said),
            said);
        same(await visited.text('#model-title'), 'Model: mine.vit', 'the model');
        await page.screenshot({ path: resolve(built, 'teach.png'), fullPage: true });

        const bytes = await downloaded(visited);
        equal(bytes, native(three), 'the file');
        const file = write('mine.vit', bytes);
        execFileSync('tools/vit-info', ['--check', file]);
        for (const name of names) {
            const { name: best, percent } = await answersTo(visited, unseen(name));
            same(best, name, 'the class on the page');
            expect(percent > 50, `${name}: ${percent} %`);
            const { top } = JSON.parse(execFileSync('tools/vit-classify',
                ['-m', file, '--json', unseen(name)], { encoding: 'utf8' }));
            same(top[0].label, name, 'the class by vit-classify');
            expect(Math.abs(100 * top[0].prob - percent) < 0.2,
                `${name}: ${percent} %, native ${100 * top[0].prob} %`);
        }
        same((await answersTo(visited, pathOf('cat.png'))).name, 'none of these', 'a cat');

        await teach(visited);
        equal(await downloaded(visited), bytes, 'taught again');
        await page.getByRole('button', { name: 'Remove red5.png' }).click();
        same(await countAt(page, 0), '5 photos', 'after one is removed');
        await boxAt(page, 2).getByRole('button', { name: 'Remove box blue' }).click();
        await teach(visited);
        equal(await downloaded(visited),
            native({ red: photosOf('red', 5), green: three.green }), 'with less');
        await page.getByRole('button', { name: 'Done' }).click();
        same(await page.locator('#views').isVisible(), true, 'the views, afterwards');
        return said;
    });
}

async function nextVisit() {
    await visit('teach: it is there in the next visit, until it is cleared', {}, async (visited) => {
        const { page } = visited;
        await open(visited);
        await fill(visited, three);
        await teach(visited);
        const bytes = await downloaded(visited);
        await untilStored(visited, [3, 18, 1]);

        await page.reload();
        await visited.until('ready');
        same(await visited.text('#model-title'), 'Model: mine.vit', 'the model');
        same((await answersTo(visited, unseen('green'))).name, 'green', 'its answer');
        await open(visited);
        for (const [i, name] of names.entries()) {
            same([await fieldAt(page, i).inputValue(), await countAt(page, i)], [name, '6 photos'],
                'a box');
        }
        expect(/^Learnt 3 classes/.test(await visited.text('#lesson')), 'what was said');
        equal(await downloaded(visited), bytes, 'the file');
        await visited.drop(unseen('red'), '#boxes > li:nth-child(1)');
        await teach(visited);
        const more = { ...three, red: [...three.red, unseen('red')] };
        equal(await downloaded(visited), native(more), 'with a photo more');

        page.once('dialog', (dialog) => dialog.dismiss());
        await page.getByRole('button', { name: 'Clear all' }).click();
        await untilStored(visited, [3, 19, 1]);
        page.once('dialog', (dialog) => dialog.accept());
        await visited.work(() => page.getByRole('button', { name: 'Clear all' }).click());
        await untilStored(visited, [0, 0, 0]);
        same([await visited.text('#model-title'), await visited.text('#lesson'),
              await page.locator('#mine').isVisible(), await countAt(page, 0)],
             ['Model: the bundled model', '', false, '0 photos'], 'what is left');
        await page.reload();
        await visited.until('ready');
        same(await visited.text('#model-title'), 'Model: the bundled model', 'the model afterwards');
    });
}

// --- the keyboard and the screen reader --------------------------------------------------------------

/** { role, name } of each element in the card that can have the focus, as a screen reader gets
 * them. */
async function controlsOf({ cdp, page }) {
    await cdp.send('Accessibility.enable');
    const { root } = await cdp.send('DOM.getDocument');
    const { nodeId } = await cdp.send('DOM.querySelector', { nodeId: root.nodeId,
        selector: '#teach' });
    const { nodes } = await cdp.send('Accessibility.queryAXTree', { nodeId });
    await page.evaluate(() => {});
    return nodes.filter(({ ignored, properties = [] }) => !ignored
        && properties.some(({ name, value }) => name === 'focusable' && value.value))
        .map(({ role, name }) => ({ role: role.value, name: name?.value ?? '' }));
}

async function byKeyboard() {
    await visit('teach: by keyboard alone; what a screen reader is told', {}, async (visited) => {
        const { page } = visited;
        const focused = () => page.evaluate(() => {
            const { id, className, ariaLabel } = document.activeElement;
            return id || ariaLabel || className;
        });
        const tabTo = async (wanted) => {
            for (let i = 0; i < 60; i++) {
                if (await focused() === wanted) return;
                await page.keyboard.press('Tab');
            }
            throw new Error(`Tab does not reach "${wanted}": it is at "${await focused()}"`);
        };
        const says = (id, text) => page.waitForFunction(([at, wanted]) =>
            document.getElementById(at).textContent.includes(wanted), [id, text]);

        await tabTo('teaching');
        await page.keyboard.press('Enter');
        same(await focused(), 'Name of box 1', 'the focus, once it is open');
        for (const [i, name] of ['red', 'blue'].entries()) {
            await tabTo(`Name of box ${i + 1}`);
            await page.keyboard.type(name);              // replaces the selected name
            await tabTo(`Add photos to ${name}`);
            const chooser = page.waitForEvent('filechooser');
            await page.keyboard.press('Enter');
            const files = await chooser;
            await visited.work(() => files.setFiles(photosOf(name, 4)));
            await says('status', `${name}: 4 photos`);
        }
        await page.keyboard.press('Shift+Tab');
        await page.keyboard.press('Delete');
        await says('status', 'blue3.png is removed from blue');
        same([await countAt(page, 1), await focused()], ['3 photos', 'Remove blue2.png'],
            'after Delete');

        const controls = await controlsOf(visited);
        const nameless = controls.filter(({ name }) => !name);
        expect(!nameless.length, `without a name: ${nameless.map(({ role }) => role)}`);
        for (const [role, name] of [['textbox', 'Name of box 1'], ['button', 'Remove box red'],
            ['button', 'Add photos to red'], ['button', 'Hold for frames of red'],
            ['button', 'Remove red0.png'], ['button', 'Add a box'], ['button', 'Teach'],
            ['button', 'Clear all']]) {
            expect(controls.some((one) => one.role === role && one.name === name),
                `no ${role} "${name}" among ${controls.map((one) => one.name).join(', ')}`);
            await tabTo(await page.getByRole(role, { name, exact: true }).first()
                .evaluate(({ id, ariaLabel, className }) => id || ariaLabel || className));
        }

        await tabTo('learn');
        await visited.work(() => page.keyboard.press('Enter'));
        await says('lesson', 'Learnt 2 classes from 7 photos');
        same(await page.locator('#lesson').getAttribute('role'), 'status', 'the role of the result');
        await tabTo('mine');
        const offered = page.waitForEvent('download');
        await page.keyboard.press('Enter');
        equal(readFileSync(await (await offered).path()),
            native({ red: photosOf('red', 4), blue: photosOf('blue', 3) }), 'the file');
        return `${controls.length} controls`;
    });
}

async function looks() {
    const phone = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true,
                    hasTouch: true };
    for (const [name, options] of [['light', {}], ['dark', { colorScheme: 'dark' }],
                                   ['phone', phone]]) {
        await visit(`teach: axe-core, ${name}`, options, async (visited) => {
            const { page } = visited;
            const check = await makeChecker(page);
            await open(visited);
            await check('empty boxes');
            await fill(visited, { red: photosOf('red', 3), blue: photosOf('blue', 3) });
            await teach(visited);
            await page.locator('#lesson:not(:empty)').waitFor();
            await check('taught');
            await page.screenshot({ path: resolve(built, `teach-${name}.png`), fullPage: true });
            const { wide, screen } = await page.evaluate(() => ({
                wide: document.documentElement.scrollWidth, screen: innerWidth }));
            expect(wide <= screen, `the page is ${wide} pixels wide, the screen ${screen}`);
        });
    }
}

// --- the camera --------------------------------------------------------------------------------------

async function byCamera() {
    const flags = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream',
                   `--use-file-for-fake-video-capture=${pathOf('red.y4m')}`];
    await visit('teach: frames of the camera; live answers', { flags }, async (visited) => {
        const { page } = visited;
        const says = (pattern) => page.waitForFunction((text) =>
            new RegExp(text).test(document.querySelector('#status').textContent), pattern.source);
        await open(visited);
        await fill(visited, { red: [], blue: photosOf('blue', 4) });
        const frames = boxAt(page, 0).getByRole('button', { name: 'Hold for frames of red' });

        await frames.click();
        await says(/^The camera is on: hold/);
        same(await countAt(page, 0), '0 photos', 'after the click that starts the camera');
        await frames.hover();
        await page.mouse.down();
        await page.waitForFunction(() => /^[3-9]|\d\d/.test(
            document.querySelector('#boxes .count').textContent));
        await page.mouse.up();
        await says(/^red: \d+ frames added, \d+ photos$/);
        const held = parseInt(await countAt(page, 0), 10);

        await frames.focus();
        await page.keyboard.down(' ');
        await page.waitForFunction((count) => parseInt(
            document.querySelector('#boxes .count').textContent, 10) >= count + 2, held);
        await page.keyboard.up(' ');
        await page.locator('.box.held').waitFor({ state: 'detached' });
        const pressed = parseInt(await countAt(page, 0), 10);

        await frames.evaluate((button) => button.click());    // as a screen reader does
        await says(/^red: 1 frame added/);
        same(parseInt(await countAt(page, 0), 10), pressed + 1, 'frames, after a click');

        await page.locator('#learn').click();    // the page never becomes idle, because of the
                                                 // camera's frames
        await page.waitForFunction(() => document.querySelector('#model-title').textContent ===
            'Model: mine.vit' && document.querySelector('#bars .name').textContent === 'red'
            && / frames a second/.test(document.querySelector('#speed').textContent));
        await says(/^Camera: red, \d+ %/);
        execFileSync('tools/vit-info', ['--check', write('mine.vit', await downloaded(visited))]);
        return `${held} frames by mouse, ${pressed - held} by keyboard`;
    });
}

// --- other models --------------------------------------------------------------------------------------

async function otherModels() {
    await visit('teach: another model, and one that has learnt', {}, async (visited) => {
        const { page } = visited;
        const two = { red: three.red, blue: three.blue };
        await open(visited);
        await fill(visited, two);
        await visited.drop(pathOf('int8.vit'));          // the stored embeddings are from the other
                                                         // model
        await teach(visited);
        equal(await downloaded(visited), native(two, pathOf('int8.vit')), 'by int8');

        await visited.drop(write('learnt.vit', native({ green: three.green, blue: [unseen('blue')] })));
        const keeps = page.getByRole('checkbox', { name: 'Keep the 2 classes that learnt.vit' });
        same(await keeps.isChecked(), true, 'keeps what it has learnt');
        await teach(visited);
        const said = await visited.text('#lesson');
        expect(/^Learnt 3 classes from 19 photos, 7 of them from before/.test(said), said);
        equal(await downloaded(visited), native(two, pathOf('learnt.vit'), ['--add']), 'added');
        same(await page.locator('#earlier').isVisible(), false, 'the choice, of what is taught here');

        await page.getByRole('button', { name: 'Remove red5.png' }).click();
        await teach(visited);
        equal(await downloaded(visited),
            native({ ...two, red: photosOf('red', 5) }, pathOf('learnt.vit'), ['--add']),
            'added, with one photo less');

        await visited.drop(pathOf('learnt.vit'));
        await keeps.uncheck();
        await teach(visited);
        expect(/^Learnt 2 classes from 11 photos in/.test(await visited.text('#lesson')), 'without');
        equal(await downloaded(visited), native({ ...two, red: photosOf('red', 5) }), 'without');
    });
}

// --- what is wrong -------------------------------------------------------------------------------------

async function wrong() {
    await visit('teach: boxes that cannot be learnt', {}, async (visited) => {
        const { page } = visited;
        const refused = async (pattern) => {
            await page.locator('#learn').click();
            await page.waitForFunction((text) =>
                new RegExp(text).test(document.querySelector('#error').textContent), pattern.source);
        };
        await open(visited);
        same(await page.locator('#learn').isDisabled(), true, 'no photos: Teach is off');
        await fill(visited, { red: photosOf('red', 1) });
        await refused(/Class 2 has no photos: add some, or remove the box/);
        same(await page.evaluate(() => document.activeElement.ariaLabel), 'Name of box 2',
            'the focus');
        await boxAt(page, 1).getByRole('button', { name: 'Remove box' }).click();
        await refused(/One photo is too few to learn from: give at least two photos of each class/);

        await fill(visited, { red: photosOf('red', 3), Red: photosOf('blue', 2) });
        await refused(/Two boxes have the name Red: rename one/);
        await fieldAt(page, 1).fill(' ');
        await refused(/This box has no name: give it one/);
        await fieldAt(page, 1).fill('blue');
        await visited.drop(pathOf('red0.png'), '#boxes > li:nth-child(2)');
        await refused(/red0\.png.* and red0\.png.* are the same photo/);
        same(await page.locator('#mine').isVisible(), false, 'nothing to download');
        same(await visited.text('#model-title'), 'Model: the bundled model', 'the model');

        await visited.dropOnly(pathOf('words.txt'), '#boxes > li:nth-child(1)');
        await page.locator('#error p', { hasText: 'words.txt: not a photo' }).waitFor();
        await visited.drop([pathOf('empty.jpg'), pathOf('green0.png')],
            '#boxes > li:nth-child(1)');
        const text = await visited.text('#error p');
        expect(/^empty\.jpg: the image is empty/.test(text), text);
    });

    await visit('teach: one class, and names as people give them', {}, async (visited) => {
        const { page } = visited;
        await open(visited);
        await boxAt(page, 1).getByRole('button', { name: 'Remove box' }).click();
        const name = 'Tom; "the", cat | mine';
        await fill(visited, { [name]: three.green });
        await teach(visited);
        const said = await visited.text('#lesson');
        expect(/^Learnt 1 class from 6 photos.* add a box "none of these"/.test(said), said);
        same((await answersTo(visited, unseen('green'))).name, name, 'the class');
        same((await answersTo(visited, pathOf('cat.png'))).name, 'none of these', 'a cat');
    });

    await visit('teach: a browser that keeps nothing', {}, async (visited) => {
        const { page } = visited;
        await page.addInitScript(() => {
            IDBFactory.prototype.open = () => { throw new DOMException('it is off', 'SecurityError'); };
        });
        await page.reload();
        await visited.until('ready');
        await open(visited);
        await fill(visited, { red: photosOf('red', 3) });
        await page.getByText('This browser cannot keep them for your next visit: it is off.')
            .waitFor();
        await fill(visited, { red: [], blue: photosOf('blue', 3) });
        await teach(visited);
        equal(await downloaded(visited), native({ red: photosOf('red', 3),
            blue: photosOf('blue', 3) }), 'the file');
    });
}

export default async function suite() {
    await byMouse();
    await nextVisit();
    await byKeyboard();
    await looks();
    await byCamera();
    await otherModels();
    await wrong();
}
