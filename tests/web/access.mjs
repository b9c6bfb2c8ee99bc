// access.mjs - tests accessibility: axe-core in the light page, in the dark page and on a phone,
// and the use of the page without a mouse. No element may be wider than the screen.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { cat, pathOf } from './files.mjs';
import { Visit, built, expect, same, test, visit } from './harness.mjs';

const axe = readFileSync(resolve(built, 'node_modules/axe-core/axe.min.js'), 'utf8');
const tabs = ['Attention', 'Rollout', 'Tokens', 'Similarity', 'Positions'];
const phone = { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true,
                hasTouch: true };
const looks = [['light', {}, tabs], ['dark', { colorScheme: 'dark' }, tabs.slice(0, 2)],
               ['phone', phone, tabs.slice(2)],
               ['phone, dark', { ...phone, colorScheme: 'dark' }, tabs.slice(0, 1)]];

/** Returns check(where), which fails if axe-core finds a violation in the page's current state. */
export async function makeChecker(page) {
    await page.evaluate(axe);
    return async (where) => {
        const { violations, passes } = await page.evaluate(() => axe.run());
        const found = violations.map(({ id, nodes }) =>
            `${id}: ${nodes.slice(0, 3).map(({ target }) => target.join(' ')).join(', ')}`);
        expect(!found.length, `${where}: ${found.join('; ')}`);
        expect(passes.length > 10, `${where}: only ${passes.length} rules were applied`);
    };
}

async function look(name, options, shown) {
    await visit(`axe-core, ${name}: no violation`, options, async (visited) => {
        const { page } = visited;
        const check = await makeChecker(page);
        await check('at first');
        await visited.drop([pathOf('cat.png'), cat, pathOf('noise.png')]);
        for (const tab of tabs) {
            await visited.work(() => page.getByRole('tab', { name: tab }).click());
            if (shown.includes(tab)) await check(tab);
        }
        await page.screenshot({ path: resolve(built, `${name.replace(', ', '-')}.png`),
                                fullPage: true });
        const { wide, screen } = await page.evaluate(() => ({
            wide: document.documentElement.scrollWidth, screen: innerWidth }));
        expect(wide <= screen, `the page is ${wide} pixels wide, the screen ${screen}`);
        const edgeOf = async (selector) => {
            const { x, width } = await page.locator(selector).boundingBox();
            return options.isMobile ? x : x + width;
        };
        same(await edgeOf('#status'), await edgeOf('#model'), 'the edge of the status');
        await visited.drop(pathOf('words.txt'));
        await check('with a message');
        return `${shown.length + 2} states`;
    });
}

/** Runs in the page: returns the focused element, and whether the focus is visible. */
function focused() {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return { id: element.id, tag: element.tagName, text: element.textContent.trim().slice(0, 30),
             name: element.getAttribute('aria-label') ?? '',
             seen: (outlineStyle !== 'none' && parseFloat(outlineWidth) > 0) ||
                 boxShadow !== 'none',
             inside: box.bottom > 0 && box.top < innerHeight };
}

/** Lists the elements that Tab reaches, until the focus leaves the page or returns to the first. */
async function walk(page, most = 80) {
    const stops = [];
    await page.locator('a.skip').focus();
    stops.push(await page.evaluate(focused));
    for (let i = 0; i < most; i++) {
        await page.keyboard.press('Tab');
        const stop = await page.evaluate(focused);
        if (!stop || stops.length && stop.tag === stops[0].tag &&
            stop.text === stops[0].text) break;
        stops.push(stop);
    }
    return stops;
}

async function keyboard() {
    const visited = await Visit.open();
    const { page } = visited;
    const tabTo = async (id) => {
        for (let i = 0; i < 80; i++) {
            if (await page.evaluate((wanted) => document.activeElement?.id === wanted, id)) return;
            await page.keyboard.press('Tab');
        }
        throw new Error(`Tab does not reach #${id}`);
    };

    await test('by keyboard: a photo is chosen', async () => {
        await tabTo('choose');
        const chooser = page.waitForEvent('filechooser');
        await page.keyboard.press('Enter');
        const files = await chooser;
        await visited.work(() => files.setFiles([pathOf('cat.png'), cat]));
        same(await page.locator('#photos li').count(), 2, 'photos');
    });

    await test('by keyboard: every stop is visible and seen', async () => {
        const stops = await walk(page);
        const ids = stops.map(({ id }) => id);
        for (const id of ['choose', 'camera', 'example', 'remove', 'tab-attention', 'attention-map',
                          'block', 'open-model', 'compare-first']) {
            expect(ids.includes(id),
                `Tab does not stop at #${id}: ${ids.filter(Boolean).join(' ')}`);
        }
        const unseen = stops.filter(({ seen, inside }) => !seen || !inside);
        expect(!unseen.length,
            `not seen: ${unseen.map(({ id, text, name }) => id || text || name)}`);
        same(ids.filter((id) => id.startsWith('tab-')), ['tab-attention'],
            'stops in the list of tabs');
        return `${stops.length} stops`;
    });

    await test('by keyboard: the tabs', async () => {
        await tabTo('tab-attention');
        for (const tab of [...tabs.slice(1), 'Words', tabs[0]]) {
            const press = () => page.keyboard.press('ArrowRight');
            if (tab === 'Words') await press(); // without photos, "Words" computes nothing
            else await visited.work(press);
            const name = tab.toLowerCase();
            same(await page.evaluate(() => document.activeElement.id), `tab-${name}`, 'the focus');
            expect(await page.locator(`#panel-${name}`).isVisible(), `#panel-${name} is hidden`);
        }
        await visited.work(() => page.keyboard.press('End'));
        same(await page.evaluate(() => document.activeElement.id), 'tab-positions', 'End');
        await page.keyboard.press('Home');
        same(await page.evaluate(() => document.activeElement.id), 'tab-words', 'Home');
        await visited.work(() => page.keyboard.press('ArrowRight'));
    });

    await test('by keyboard: a head, a patch', async () => {
        await tabTo('attention-map');
        await page.keyboard.press('ArrowDown');
        await page.keyboard.press('ArrowDown');
        await visited.work(() => page.keyboard.press('Enter'));
        const text = await page.locator('#attention-caption').innerText();
        expect(/patch at row 6, column 5/.test(text), text);
        for (const [id, what] of [['attention-reset', 'the way back'], ['', 'the mean']]) {
            await page.keyboard.press('Tab');
            same(await page.evaluate(() => document.activeElement.id), id, what);
        }
        await page.keyboard.press('Tab');
        await page.keyboard.press('Enter');
        const head = await page.locator('#attention-caption').innerText();
        expect(/head 0/.test(head), head);
    });

    await test('by keyboard: a photo is removed, a message closed', async () => {
        await page.locator('#photos button').first().focus();
        await visited.work(() => page.keyboard.press('Delete'));
        same(await page.locator('#photos li').count(), 1, 'photos');
        await visited.drop(pathOf('words.txt'));
        await page.locator('#error button').focus();
        await page.keyboard.press('Enter');
        same(await page.locator('#error').innerText(), '', 'the message');
    });

    await test('for a screen reader: what is said', async () => {
        const says = (text) => page.waitForFunction((wanted) =>
            document.querySelector('#status').textContent.includes(wanted), text);
        const { role, live } = await page.evaluate(() => ({
            role: document.querySelector('#error').getAttribute('role'),
            live: document.querySelector('#status').getAttribute('aria-live') }));
        same([role, live], ['alert', 'polite'], 'roles');
        await visited.drop(pathOf('cat.png'));
        await says('cat.png: cat, 78.8 %');
    });
    await visited.close();
}

/** With forced colours, a background that shows a value or a choice must still be visible. */
async function forcedColours() {
    await visit('forced colours: bars, and what is chosen', { forcedColors: 'active' },
        async (visited) => {
        await visited.drop([pathOf('cat.png'), cat]);
        const seen = await visited.page.evaluate(() => {
            const styleOf = (selector, part) =>
                getComputedStyle(document.querySelector(selector), part);
            const differ = (name, one, other) => styleOf(one)[name] !== styleOf(other)[name];
            const chosen = (selector, state, name) =>
                differ(name, `${selector}[${state}=true]`, `${selector}[${state}=false]`);
            const { backgroundColor } = styleOf('.bar', '::after');
            return {
                bar: backgroundColor !== styleOf('.bar').backgroundColor,
                tab: chosen('', 'aria-selected', 'backgroundColor'),
                head: chosen('#heads ', 'aria-pressed', 'backgroundColor'),
                photo: chosen('#photos ', 'aria-current', 'borderWidth'),
            };
        });
        same(seen, { bar: true, tab: true, head: true, photo: true }, 'what is seen');
    });
}

async function focusStays() {
    await visit('a photo is chosen in a view: the focus is not lost', {}, async (visited) => {
        const { page } = visited;
        await visited.drop([pathOf('cat.png'), cat, pathOf('noise.png')]);
        for (const name of ['Tokens', 'Similarity']) {
            await visited.work(() => page.getByRole('tab', { name }).click());
            const list = `#${name.toLowerCase()}-maps`;
            await page.locator(`${list} button`).nth(1).focus();
            await visited.work(() => page.keyboard.press('Enter'));
            expect(await page.evaluate((id) => document.activeElement.closest(id), list) !== null,
                   `${name}: it is not in the list`);
        }
    });
}

async function messageInDialog() {
    await visit('a message while the form is open', {}, async (visited) => {
        const { page } = visited;
        await visited.dropOnly(pathOf('weights.safetensors'));
        await page.locator('#converter[open]').waitFor();
        await visited.dropOnly(pathOf('bare.html'));
        const close = page.locator('#error button');
        await close.waitFor();
        const { height } = await close.boundingBox();
        expect(height < 40, `its button is ${height} pixels high: broken into lines`);
        await close.click({ timeout: 5000 });
        same(await page.locator('#error').innerText(), '', 'the message, closed');
        await visited.dropOnly(pathOf('bare.html'));
        await close.waitFor();
        await page.locator('#close-converter').click();
        await visited.drop(pathOf('empty.jpg'));
        expect(/empty\.jpg/.test(await page.locator('#error').innerText()), 'none afterwards');
    });
}

export default async function access() {
    for (const [name, options, shown] of looks) await look(name, options, shown);
    await forcedColours();
    await focusStays();
    await messageInDialog();
    await keyboard();
}
