// harness.mjs - shared by the tests of the page: counts, a server, a browser, and visits to the
// page, which record every message, failed request and shift of the layout.
import { createRequire } from 'node:module';
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, resolve } from 'node:path';
import { handler } from '../../examples/web/serve.mjs';

const PATIENCE = 30000; // milliseconds that a test waits at most
const QUIET = 60; // milliseconds without a change after which the page counts as idle
export const built = resolve('build/web');
export const made = resolve(built, 'made');
const require = createRequire(`${built}/`);
const { chromium } = require('playwright-core');

// --- counts -------------------------------------------------------------------------------------

let passed = 0;
let failed = 0;

export function expect(ok, what) {
    if (!ok) throw new Error(what);
}

export function same(found, wanted, what) {
    const [is, should] = [found, wanted].map((value) => JSON.stringify(value));
    expect(is === should, `${what}: expected ${should}, found ${is}`);
}

/** Prints one line: ok, or FAILED and the reason. */
export async function test(name, action) {
    try {
        const remark = await action();
        passed++;
        console.log(`ok ${name}${remark ? `: ${remark}` : ''}`);
    } catch (error) {
        failed++;
        const at = error.stack?.split('\n').find((line) => line.includes('/tests/web/')) ?? '';
        console.log(`FAILED ${name}: ${error.message}${at.replace(/^.*(\/tests)/, ' ($1')}`);
    }
}

export function skip(name, why) {
    console.log(`skipped ${name}: ${why}`);
}

export function summary() {
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed || !passed ? 1 : 0;
}

// --- servers ------------------------------------------------------------------------------------

const listening = (server) => new Promise((done) => {
    server.listen(0, 'localhost', () => done(server.address().port));
});

const headersOfScripts = {
    'Cross-Origin-Embedder-Policy': 'require-corp',
    'Content-Security-Policy': "default-src 'self'; connect-src 'self'",
};
const madeTypes = { '.mjs': 'text/javascript', '.html': 'text/html' };

/** Sends a file that the tests made. A script gets the headers `policy`, like the page's
 * scripts. */
async function sendMade(name, response, policy) {
    const bytes = await readFile(resolve(made, name)).catch(() => null);
    const headers = { 'Content-Type': madeTypes[extname(name)] ?? 'application/octet-stream' };
    if (name.endsWith('.mjs')) Object.assign(headers, policy);
    response.writeHead(bytes ? 200 : 404, headers).end(bytes);
}

/**
 * Serves the page, and under /made/ the files that the tests made. `requests` of the returned
 * object lists the requested paths. `useless` replaces the service worker by one that does nothing.
 * `lacks` is a pattern for the paths of files that are missing.
 */
async function startServer({ isolation = true, useless = false, lacks = null } = {}) {
    const requests = [];
    const page = handler({ isolation });
    const server = createServer((request, response) => {
        requests.push(request.url);
        if (request.url.startsWith('/made/')) {
            sendMade(request.url.slice(6), response, isolation ? headersOfScripts : {});
        } else if (useless && request.headers['service-worker']) {
            response.writeHead(200, { 'Content-Type': 'text/javascript' });
            response.end('addEventListener("install", () => skipWaiting()); ' +
                'addEventListener("activate", (event) => event.waitUntil(clients.claim()));');
        } else if (lacks?.test(request.url)) {
            response.writeHead(404).end();
        } else {
            page(request, response);
        }
    });
    const url = `http://localhost:${await listening(server)}/`;
    return { url, requests, close: () => { server.closeAllConnections(); server.close(); } };
}

/** Starts the proxy for every host except localhost. Without this proxy, each
 * request that it receives would leave the machine. */
async function startTrap() {
    const caught = [];
    const server = createServer((request, response) => {
        caught.push(request.url);
        response.writeHead(403).end();
    });
    server.on('connect', (request, socket) => {
        caught.push(request.url);
        socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    });
    const port = await listening(server);
    return { port, caught, close: () => { server.closeAllConnections(); server.close(); } };
}

// --- the browser --------------------------------------------------------------------------------

const trap = await startTrap();
const browsers = new Map();

/**
 * Returns the browser process for a set of flags, and starts it when it is first used. Browsers
 * look for updates at an address where no server listens.
 */
export async function browserWith(...flags) {
    const key = flags.join(' ');
    if (!browsers.has(key)) {
        browsers.set(key, await chromium.launch({
            executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
            args: ['--proxy-server=http://localhost:9', '--hide-scrollbars', ...flags,
                   '--disable-features=AutofillServerCommunication,Translate,PaintHolding'],
            chromiumSandbox: process.getuid() !== 0,
        }));
    }
    return browsers.get(key);
}

export async function closeAll() {
    for (const browser of browsers.values()) await browser.close();
    trap.close();
    for (const server of Object.values(servers)) server.close();
}

/** The servers, in this order: one that sends the headers for threads; one without these headers;
 * one without the headers and with a service worker that does not add them; without the best
 * module; without compressed modules; without any module; without the example; without
 * words.wasm. */
export const servers = {
    isolated: await startServer(),
    plain: await startServer({ isolation: false }),
    useless: await startServer({ isolation: false, useless: true }),
    slower: await startServer({ lacks: /relaxed/ }),
    unpacked: await startServer({ lacks: /\.gz$/ }),
    without: await startServer({ lacks: /\.wasm/ }),
    bare: await startServer({ lacks: /cat\.jpg/ }),
    wordless: await startServer({ lacks: /words\.wasm/ }),
};

// --- visits -------------------------------------------------------------------------------------

/** The records of all visits. */
export const seen = { visits: 0, requests: [], caught: trap.caught, problems: [], shifts: [] };

/** Runs in the page before its own scripts. */
function observe() {
    globalThis.observed = { shifts: [], states: [], changed: 0 };
    new PerformanceObserver((list) => {
        for (const { value, hadRecentInput, sources } of list.getEntries()) {
            if (hadRecentInput) continue;
            const names = sources.map(({ node }) => {
                const element = node?.nodeType === 3 ? node.parentElement : node;
                return element ? element.tagName + (element.id && `#${element.id}`) +
                    (element.className && `.${element.className}`) : '?';
            });
            observed.shifts.push({ value, names });
        }
    }).observe({ type: 'layout-shift', buffered: true });
    new MutationObserver(() => {
        observed.states.push(document.documentElement.dataset.state);
        observed.changed = performance.now();
    }).observe(document, { subtree: true, attributeFilter: ['data-state'] });
}

/** A visit to the page in a new browser profile. */
export class Visit {
    /**
     * `flags` are flags of the browser. `isolation` is true if the server sets the headers.
     * `serviceWorkers` is 'allow' or 'block'. `query` is part of the page's address. All other
     * options are Playwright's.
     */
    static async open({ flags = [], isolation = true, serviceWorkers = 'block', query = '',
                        path = '', ready = true, server, ...options } = {}) {
        const visit = new Visit();
        const browser = await browserWith(...flags);
        visit.server = server ?? (isolation ? servers.isolated : servers.plain);
        visit.context = await browser.newContext({
            viewport: { width: 1280, height: 900 }, serviceWorkers,
            proxy: { server: `http://localhost:${trap.port}`, bypass: 'localhost' }, ...options,
        });
        visit.context.setDefaultTimeout(PATIENCE);
        visit.problems = [];
        visit.requests = [];
        visit.watch();
        visit.page = await visit.context.newPage();
        visit.page.on('filechooser', () => {}); // prevents the browser's file dialog
        visit.cdp = await visit.context.newCDPSession(visit.page);
        await visit.page.addInitScript(observe);
        await visit.page.goto(visit.server.url + path + query);
        if (ready) await visit.until('ready');
        return visit;
    }

    watch() {
        const { context, problems } = this;
        seen.visits++;
        context.on('request', (request) => this.requests.push(request.url()));
        context.on('requestfailed', (request) => {
            problems.push(`${request.url()}: ${request.failure()?.errorText}`);
        });
        context.on('console', (message) => {
            if (['log', 'info', 'debug'].includes(message.type())) return;
            problems.push(`${message.type()}: ${message.text()}`);
        });
        context.on('weberror', (error) => problems.push(`uncaught: ${error.error().message}`));
    }

    /** Messages and requests that match this pattern are expected, so they do not count. */
    overlook(pattern) {
        this.overlooked = pattern;
    }

    /** Waits until the page reaches one of these states. */
    async until(...states) {
        await this.page.waitForFunction((wanted) =>
            wanted.includes(document.documentElement.dataset.state), states);
    }

    /** Starts work in the page, and waits until the page has been idle for a while. */
    async work(action) {
        const before = await this.page.evaluate(() => observed.states.length);
        await action();
        await this.page.waitForFunction(([count, quiet]) => observed.states.length > count &&
            ['ready', 'error'].includes(observed.states.at(-1)) &&
            performance.now() - observed.changed > quiet, [before, QUIET], { polling: 20 });
    }

    /** Drops files on the page, as from the desktop. */
    async dropOnly(files, selector = '#drop') {
        await this.page.locator(selector).scrollIntoViewIfNeeded();
        const box = await this.page.locator(selector).boundingBox();
        const data = { items: [], files: [files].flat().map((file) => resolve(file)),
                       dragOperationsMask: 1 };
        const at = { x: box.x + box.width / 2, y: box.y + Math.min(box.height / 2, 60) };
        for (const type of ['dragEnter', 'dragOver', 'drop']) {
            await this.cdp.send('Input.dispatchDragEvent', { type, ...at, data });
        }
    }

    async drop(files, selector) {
        await this.work(() => this.dropOnly(files, selector));
    }

    text(selector) {
        return this.page.locator(selector).innerText();
    }

    /** Ends the visit. The records of all visits are checked together at the end. */
    async close() {
        const shifts = await this.page.evaluate(() => observed.shifts).catch(() => []);
        const total = shifts.reduce((sum, { value }) => sum + value, 0);
        seen.shifts.push({ total, names: shifts.flatMap(({ names }) => names) });
        const expected = (text) => this.overlooked?.test(text);
        seen.problems.push(...this.problems.filter((text) => !expected(text)));
        seen.requests.push(...this.requests.filter((url) => !expected(url)));
        await this.context.close();
    }
}

/** Runs a test that consists of one visit. */
export async function visit(name, options, action) {
    await test(name, async () => {
        const visited = await Visit.open(options);
        try {
            return await action(visited);
        } finally {
            await visited.close();
        }
    });
}
