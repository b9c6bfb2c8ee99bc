// isolation.mjs - tests the page with and without threads and SIMD. The server sends the headers
// for threads, or the service worker adds these headers, or there are none. Some engines lack
// features.
import { cat, model, pathOf } from './files.mjs';
import { shownClasses } from './classes.mjs';
import { Visit, expect, same, seen, servers, test, visit } from './harness.mjs';

const noSimd = '--js-flags=--no-enable-sse4-1';
const noWasm = '--js-flags=--jitless';

/** Checks the class of the cat, and that the page states the number of threads and this kind of
 * module. Returns the page's statement. */
async function computes(visited, threads, kind) {
    const { page } = visited;
    await visited.drop(pathOf('cat.png'));
    const [{ name, percent }] = await shownClasses(page);
    same([name, percent], ['cat', 78.8], 'the class');
    const text = await page.locator('#threads').innerText();
    const [, count] = /^(\d+) threads?/.exec(text) ?? [];
    expect(threads(Number(count)), `"${text}": number of threads`);
    expect(text.includes(kind), `"${text}": expected ${kind}`);
    return text;
}

const isolated = (page) => page.evaluate(() => crossOriginIsolated);
const several = (count) => count > 1;
const one = (count) => count === 1;

/** Returns a function that counts the requests for the page itself since this call. */
function loads(server) {
    const before = server.requests.length;
    return () => server.requests.slice(before).filter((url) => url === '/').length;
}

/** Tries requests to other hosts, from the page and from its worker. */
async function tryToLeave(page) {
    return page.evaluate(async () => {
        const outside = 'http://example.com/leaving';
        const tried = [await fetch(outside).then(() => 'sent', () => 'refused')];
        tried.push(await new Promise((done) => {
            const image = new Image();
            image.onload = () => done('sent');
            image.onerror = () => done('refused');
            image.src = outside;
        }));
        const worker = new Worker('/made/leaving.mjs', { type: 'module' });
        tried.push(await new Promise((done) => { worker.onmessage = ({ data }) => done(data); }));
        navigator.sendBeacon(outside, 'x'); // sendBeacon may return true even for a blocked request
        return tried;
    });
}

export default async function isolation() {
    await visit('threads, by the headers of the server', {}, async (visited) => {
        expect(await isolated(visited.page), 'not isolated');
        return computes(visited, several, 'relaxed SIMD');
    });

    await test('threads, by the service worker, after one more load', async () => {
        const count = loads(servers.plain);
        const visited = await Visit.open({ isolation: false, serviceWorkers: 'allow',
            ready: false });
        visited.overlook(/ERR_ABORTED/); // requests for files that the first load was still
                                         // fetching
        const { page } = visited;
        await page.waitForFunction(() => globalThis.crossOriginIsolated).catch(() => {});
        expect(await isolated(page), 'not isolated');
        await visited.until('ready');
        const remark = await computes(visited, several, 'relaxed SIMD');
        same(count(), 2, 'loads of the page');
        await page.reload();
        await visited.until('ready');
        same([await isolated(page), count()], [true, 3], 'isolated, and loads, after one by hand');
        const header = await page.evaluate(async () => [...(await fetch('/worker.mjs')).headers]);
        const policy = header.find(([name]) => name === 'content-security-policy')?.[1];
        const served = await fetch(`${servers.isolated.url}worker.mjs`);
        same(policy, served.headers.get('content-security-policy'), 'the policy');
        await visited.close();
        return remark;
    });

    await visit('one thread where nobody sets headers', { isolation: false }, async (visited) => {
        visited.overlook(/registration blocked by Playwright/);
        const count = loads(servers.plain);
        expect(!await isolated(visited.page), 'isolated');
        const remark = await computes(visited, one, 'relaxed SIMD');
        same(count(), 0, 'loads once more');
        return remark;
    });

    await test('a service worker that does not help: one load more, no other', async () => {
        const count = loads(servers.useless);
        const visited = await Visit.open({ server: servers.useless, serviceWorkers: 'allow',
                                           ready: false });
        visited.overlook(/ERR_ABORTED/);
        await visited.page.waitForTimeout(1500);
        await visited.until('ready');
        expect(!await isolated(visited.page), 'isolated');
        same(count(), 2, 'loads of the page');
        const remark = await computes(visited, one, 'SIMD');
        await visited.close();
        return remark;
    });

    for (const [query, threads, kind] of [['?threads=1', one, 'relaxed SIMD'],
                                          ['?module=simd', several, 'SIMD'],
                                          ['?module=simd&threads=1', one, 'SIMD'],
                                          ['?module=scalar', one, 'without SIMD']]) {
        await visit(`the address says ${query}`, { query }, async (visited) => {
            const text = await computes(visited, threads, kind);
            expect(kind !== 'SIMD' || !text.includes('relaxed'), `"${text}"`);
        });
    }

    await visit('an engine without SIMD', { flags: [noSimd] }, async (visited) => {
        return computes(visited, one, 'without SIMD');
    });

    for (const [server, kind, lacking] of [
        ['slower', 'SIMD', ['/vit/vit-relaxed.wasm.gz', '/vit/vit-relaxed.wasm']],
        ['unpacked', 'relaxed SIMD', ['/vit/vit-relaxed.wasm.gz']]]) {
        await visit(`a server without ${lacking.at(-1)}`, { server: servers[server] },
            async (visited) => {
            visited.overlook(/404|relaxed/);
            const remark = await computes(visited, several, kind);
            expect(kind !== 'SIMD' || !remark.includes('relaxed'), `"${remark}"`);
            await visited.drop(model);
            await visited.work(() => visited.page.locator('#bundled').click());
            same(servers[server].requests.filter((url) => lacking.includes(url)), lacking,
                 'asked for what is not there');
            return remark;
        });
    }

    await visit('a server without modules', { server: servers.without, ready: false },
        async (visited) => {
        visited.overlook(/404|\.wasm/);
        await visited.until('error');
        const text = await visited.page.locator('#error').innerText();
        for (const name of ['vit-relaxed', 'vit', 'vit-scalar']) {
            expect(text.includes(`/${name}.wasm: HTTP status 404`), `"${text}": ${name}`);
        }
    });

    await visit('an engine without WebAssembly', { flags: [noWasm], ready: false },
        async (visited) => {
        await visited.until('error');
        const text = await visited.page.locator('#error').innerText();
        expect(/no WebAssembly/.test(text), `"${text}"`);
    });

    await test('the browser refuses what would leave', async () => {
        for (const options of [{}, { isolation: false, serviceWorkers: 'allow' }]) {
            const visited = await Visit.open(options);
            visited.overlook(/Content Security Policy|ERR_ABORTED|example\.com/);
            const before = seen.caught.length;
            same(await tryToLeave(visited.page), ['refused', 'refused', 'refused'],
                 'what was tried');
            same(seen.caught.slice(before), [], 'what arrived');
            await visited.close();
        }
    });

    await test('what leaves without that policy is caught', async () => {
        const visited = await Visit.open({ server: servers.useless, ready: false,
                                           path: 'made/bare.html' });
        visited.overlook(/example\.com|ERR_FAILED|Failed to load/);
        await visited.page.evaluate(() => fetch('http://example.com/caught').catch(() => {}));
        same(seen.caught.splice(0), ['http://example.com/caught'], 'what arrived');
        await visited.close();
    });

    await visit('while it computes the page answers', { query: '?module=scalar' },
        async (visited) => {
        const before = await visited.page.evaluate(() => observed.states.length);
        await visited.dropOnly(cat);
        const longest = await visited.page.evaluate((count) => new Promise((done) => {
            let most = 0, last = performance.now();
            const look = () => {
                const now = performance.now();
                most = Math.max(most, now - last);
                last = now;
                if (observed.states.length > count + 1 && observed.states.at(-1) === 'ready') {
                    done(most);
                } else {
                    setTimeout(look, 0);
                }
            };
            look();
        }), before);
        expect(longest < 500, `it did not answer for ${longest.toFixed(0)} ms`);
        return `at most ${longest.toFixed(0)} ms`;
    });
}
