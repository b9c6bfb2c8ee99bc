// browser.mjs TOOLS FOLDER PAGE... - opens pages of a folder in Chromium, and prints for each the
// text of its body, then each message, failed request and module that it requested twice.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { extname, join, normalize } from 'node:path';

const [tools, folder, ...pages] = process.argv.slice(2);
const { chromium } = createRequire(join(tools, 'package.json'))('playwright-core');
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

const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    chromiumSandbox: process.getuid() !== 0,
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
    await page.waitForFunction(() => document.title === 'done', null, { timeout: 60000 })
        .catch((error) => problems.push(error.message));
    console.log(await page.evaluate(() => document.body.textContent.trim()));
    for (const [path, count] of requests) {
        if (count > 1 && path.endsWith('.wasm')) problems.push(`${path}: requested ${count} times`);
    }
    for (const problem of problems) console.log(problem);
    await page.close();
}
await browser.close();
server.close();
