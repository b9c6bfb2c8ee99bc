// browser.mjs TOOLS FOLDER BROWSER PAGE... - opens pages of a folder in chrome or firefox. For each
// page it prints the text of the body, then the messages, the failed requests, and the modules that
// the page requested twice. The variables CHROMIUM and FIREFOX name the programs.
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { extname, join, normalize } from 'node:path';

const [tools, folder, browserName, ...pages] = process.argv.slice(2);
const puppeteer = createRequire(join(tools, 'package.json'))('puppeteer-core');
const programs = { chrome: process.env.CHROMIUM ?? '/usr/bin/chromium',
                   firefox: process.env.FIREFOX ?? '/usr/bin/firefox-esr' };
const types = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript',
                '.wasm': 'application/wasm', '.jpg': 'image/jpeg' };
const isolation = { 'Cross-Origin-Opener-Policy': 'same-origin',
                    'Cross-Origin-Embedder-Policy': 'require-corp' };

const server = createServer(async ({ url }, response) => {
    const path = normalize(new URL(url, 'http://localhost').pathname);
    const bytes = await readFile(join(folder, path)).catch(() => null);
    const type = types[extname(path)] ?? 'application/octet-stream';
    response.writeHead(bytes ? 200 : 404, { 'Content-Type': type, ...isolation }).end(bytes);
});
await new Promise((done) => { server.listen(0, '127.0.0.1', done); });

const home = mkdtempSync(join(tmpdir(), 'browser-')); // not the user's
const browser = await puppeteer.launch({
    browser: browserName, executablePath: programs[browserName], headless: true,
    args: browserName === 'chrome' && process.getuid() === 0 ? ['--no-sandbox'] : [],
    env: { ...process.env, HOME: home },
});
for (const name of pages) {
    const page = await browser.newPage();
    const problems = [], requests = new Map();
    page.on('console', (message) => problems.push(message.text()));
    page.on('pageerror', (error) => problems.push(error.message));
    page.on('response', (response) => {
        if (response.status() >= 400) problems.push(`${response.status()} ${response.url()}`);
    });
    page.on('request', (request) => {
        const { pathname } = new URL(request.url());
        requests.set(pathname, (requests.get(pathname) ?? 0) + 1);
    });
    await page.goto(`http://127.0.0.1:${server.address().port}/${name}`);
    await page.waitForFunction(() => document.title === 'done', { timeout: 60000 })
        .catch((error) => problems.push(error.message));
    console.log(await page.evaluate(() => document.body.textContent.trim()));
    for (const [path, count] of requests) {
        if (count > 1 && path.endsWith('.wasm')) problems.push(`${path}: requested ${count} times`);
    }
    for (const problem of problems) console.log(problem);
    await page.close();
}
await browser.close();
rmSync(home, { recursive: true, force: true });
server.close();
