// firefox.mjs - tests the page in Debian's Firefox, driven by puppeteer-core: photos, threads, a
// view, a checkpoint, a wrong file. The suite is skipped if Firefox is missing. `make test-web
// SUITES=firefox` installs Firefox.
import { createRequire } from 'node:module';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, resolve } from 'node:path';
import { cat, pathOf } from './files.mjs';
import { built, same, servers, skip, test } from './harness.mjs';
import { look, sameRange } from './views.mjs';

const FIREFOX = process.env.FIREFOX ?? '/usr/bin/firefox-esr';
const PATIENCE = 60000; // milliseconds that a test waits at most

/** Runs in the page: drops files of these names and bytes on it. */
function dropIn(files) {
    const dataTransfer = new DataTransfer();
    for (const [name, text] of files) {
        const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
        dataTransfer.items.add(new File([bytes], name));
    }
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true,
                                                        cancelable: true }));
}

/** A visit to the page. Any warning or error of the page or its scripts is a failure. */
class Visit {
    static async open(browser, { server = servers.isolated, query = '' } = {}) {
        const visit = new Visit();
        visit.context = await browser.createBrowserContext();
        visit.page = await visit.context.newPage();
        visit.page.setDefaultTimeout(PATIENCE);
        visit.problems = [];
        visit.page.on('pageerror', ({ message }) => visit.problems.push(message));
        visit.page.on('console', (message) => {
            if (['warn', 'error'].includes(message.type())) visit.problems.push(message.text());
        });
        await visit.page.goto(server.url + query);
        return visit;
    }

    ready() {
        return this.page.waitForFunction(() =>
            document.documentElement.dataset.state === 'ready');
    }

    drop(...paths) {
        return this.page.evaluate(dropIn, paths.map((path) =>
            [basename(path), readFileSync(path).toString('base64')]));
    }

    /** Waits until an element's text matches; returns the text. */
    async says(selector, pattern) {
        const matches = ([where, source]) =>
            new RegExp(source).test(document.querySelector(where)?.innerText ?? '');
        await this.page.waitForFunction(matches, {}, [selector, pattern.source]);
        return this.page.$eval(selector, (element) => element.innerText);
    }

    async close() {
        await this.context.close();
        same(this.problems, [], 'messages');
    }
}

async function showsTheCat(visit, threads) {
    await visit.ready();
    const text = await visit.says('#threads', threads);
    await visit.drop(pathOf('cat.png'));
    await visit.says('#bars li:not(.none)', /cat\s+78\.8/);
    return text;
}

async function runAll(browser) {
    const visited = (name, options, action) => test(`Firefox: ${name}`, async () => {
        const visit = await Visit.open(browser, options);
        const remark = await action(visit);
        await visit.close();
        return remark;
    });

    await visited('the cat, with threads', {}, (visit) =>
        showsTheCat(visit, /^(?!1 thread)\d+ threads, relaxed SIMD/));
    await visited('threads by the service worker', { server: servers.plain }, async (visit) => {
        await visit.page.waitForFunction(() => globalThis.crossOriginIsolated);
        return showsTheCat(visit, /^(?!1 thread)\d+ threads/);
    });
    for (const [query, threads] of [['?threads=1', /^1 thread, relaxed SIMD/],
                                    ['?module=simd', /threads?, SIMD/],
                                    ['?module=scalar', /^1 thread, without SIMD/]]) {
        await visited(query, { query }, (visit) => showsTheCat(visit, threads));
    }

    await visited('attention, rollout', {}, async (visit) => {
        await showsTheCat(visit, /thread/);
        await visit.page.waitForSelector('#attention-map[aria-label^="cat.png"]');
        sameRange(await visit.says('#attention-caption', / to \S+$/),
                  look('attention', pathOf('cat.png'), '--block', '3'));
        await visit.page.click('#tab-rollout');
        sameRange(await visit.says('#rollout-caption', / to \S+$/),
                  look('attention', '--rollout', pathOf('cat.png')));
    });

    await visited('a JPEG, and a file that is neither photo nor model', {}, async (visit) => {
        await visit.ready();
        await visit.drop(cat);
        const text = await visit.says('#bars li:not(.none)', /cat/);
        await visit.drop(pathOf('words.txt'));
        await visit.says('#error', /words\.txt/);
        return text.replace(/\s+/g, ' ');
    });

    await visited('a checkpoint is converted, and opened', {}, async (visit) => {
        await visit.ready();
        await visit.drop(resolve('tests/data/own/heads_slices/model.safetensors'));
        await visit.page.waitForSelector('#converter[open]');
        await visit.page.click('#converter button[type=submit]');
        await visit.says('#converter', /Converted, and open/);
    });
}

export default async function firefox() {
    if (!existsSync(FIREFOX)) {
        skip('Firefox', `no ${FIREFOX}; make test-web SUITES=firefox installs it`);
        return;
    }
    const puppeteer = createRequire(`${built}/`)('puppeteer-core');
    const home = mkdtempSync(resolve(tmpdir(), 'firefox-')); // not the user's
    const browser = await puppeteer.launch({ browser: 'firefox', executablePath: FIREFOX,
                                             headless: true, env: { ...process.env, HOME: home } });
    await test('Firefox starts', () => browser.version());
    await runAll(browser);
    await browser.close();
    rmSync(home, { recursive: true, force: true });
}
