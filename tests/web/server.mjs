// server.mjs - examples/web/serve.mjs: what it sends, what it refuses, what it says.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, same, servers, test } from './harness.mjs';

/** { status, headers, body }; the path goes out as it is. */
function ask(path, { headers = {}, method = 'GET', server = servers.isolated } = {}) {
    const { hostname, port } = new URL(server.url);
    return new Promise((done, fail) => {
        const sent = request({ hostname, port, path, method, headers }, (response) => {
            const parts = [];
            response.on('data', (part) => parts.push(part));
            response.on('end', () => done({ status: response.statusCode, headers: response.headers,
                                            body: Buffer.concat(parts) }));
        });
        sent.on('error', fail);
        sent.end();
    });
}

const started = [];

/** Starts it as a command; resolves to { out, status } of its first line, or its end. */
async function start(...args) {
    const child = spawn('node', ['examples/web/serve.mjs', ...args]);
    started.push(child);
    const texts = { out: '', err: '' };
    child.stderr.on('data', (text) => { texts.err += text; });
    const said = new Promise((done) => child.stdout.on('data', (text) => {
        texts.out += text;
        done();
    }));
    const ended = once(child, 'close').then(([status]) => { texts.status = status; });
    await Promise.race([said, ended]);
    if (texts.status === undefined && texts.out.startsWith('usage')) await ended;
    return { ...texts, stop: () => { child.kill(); return ended; } };
}

const outside = ['/../classify.c', '/%2e%2e/classify.c', '/..%2f..%2fvit.h', '/%2e%2e%2fcat.jpg',
                 '/vit/..%5c..%5c..%5cvit.h', '/../../../../../../etc/passwd', '/.gitignore',
                 '/vit/.', '/vit', '/none', '/constructor', '/%00', '/%zz', '/index.html%00.js',
                 '//etc/passwd/../../etc/passwd', '/vit/../../../vit.h'];

const runtime = 250000, everything = 600000; // bytes

const kb = (bytes) => (bytes / 1000).toFixed(0);

/** Paths of what pages fetch: all but what is for Node or for people. */
function pathsIn(folder, under = '/') {
    return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
        if (entry.isDirectory()) return pathsIn(join(folder, entry.name), `${under}${entry.name}/`);
        const needed = /\.(html|css|m?js|wasm)$/.test(entry.name) &&
            !['serve.mjs', 'run.mjs', 'ppm.mjs'].includes(entry.name);
        return needed ? [under + entry.name] : [];
    });
}

export default async function server() {
    await test('sizes', async () => {
        const paths = pathsIn('examples/web');
        const modules = paths.filter((path) => /^\/vit\/vit.*\.wasm$/.test(path));
        const most = Math.max(...modules.map((path) => statSync(`examples/web${path}`).size));
        expect(modules.length > 1 && most < runtime, `a module of ${most} bytes`);
        let total = 0, texts = 0;
        for (const path of paths) {
            const { body } = await ask(path, { headers: { 'Accept-Encoding': 'gzip' } });
            total += body.length;
            texts += path.endsWith('.wasm') ? 0
                : statSync(`examples/web${path}`).size - body.length;
        }
        expect(paths.length > 15 && total + texts < everything, `${total + texts} bytes in all`);
        return `${kb(total + texts)} KB in all, ${kb(total)} where texts are compressed; ` +
            `a module at most ${kb(most)}`;
    });

    await test('serve.mjs: compressed for whom that is something, the same bytes', async () => {
        for (const path of ['/page.mjs', '/vit/vit.wasm']) {
            const plain = await ask(path);
            const packed = await ask(path, { headers: { 'Accept-Encoding': 'br, gzip' } });
            same([plain.headers['content-encoding'], packed.headers['content-encoding']],
                 [undefined, 'gzip'], path);
            expect(gunzipSync(packed.body).equals(plain.body), `${path}: other bytes`);
            expect(plain.headers.etag !== packed.headers.etag, `${path}: one tag for both`);
            same(Number(packed.headers['content-length']), packed.body.length, `${path}: length`);
        }
        const file = await ask('/vit/vit.wasm.gz', { headers: { 'Accept-Encoding': 'gzip' } });
        same([file.headers['content-encoding'], file.headers['content-type']],
             [undefined, 'application/gzip'], 'the file itself');
    });

    await test('serve.mjs: types of files', async () => {
        const types = { '/': 'text/html', '/style.css': 'text/css', '/sw.js': 'text/javascript',
                        '/page.mjs': 'text/javascript', '/vit/vit.wasm': 'application/wasm',
                        '/model.vit': 'application/octet-stream', '/README.md': 'text/markdown' };
        for (const [path, type] of Object.entries(types)) {
            const { status, headers } = await ask(path);
            same([status, headers['content-type'].split(';')[0]], [200, type], path);
        }
    });

    await test('serve.mjs: the bundled model', async () => {
        const { body } = await ask('/model.vit');
        expect(body.equals(readFileSync('models/cifar10-vit.vit')), 'other bytes');
    });

    await test('serve.mjs: headers for threads, or none', async () => {
        const names = ['cross-origin-opener-policy', 'cross-origin-embedder-policy',
                       'cross-origin-resource-policy'];
        for (const path of ['/', '/worker.mjs', '/vit/vit.wasm', '/none']) {
            const { headers } = await ask(path);
            same(names.map((name) => headers[name]), ['same-origin', 'require-corp', 'same-origin'],
                 path);
            const plain = await ask(path, { server: servers.plain });
            expect(names.every((name) => !plain.headers[name]),
                `${path}: headers without isolation`);
        }
    });

    await test('serve.mjs: nothing outside the folder', async () => {
        for (const path of outside) {
            const { status, body } = await ask(path);
            same(status, 404, path);
            same(body.toString(), 'no such file\n', path);
        }
    });

    await test('serve.mjs: GET and HEAD only', async () => {
        const head = await ask('/sw.js', { method: 'HEAD' });
        same([head.status, head.body.length], [200, 0], 'HEAD');
        same(head.headers['content-length'], String(readFileSync('examples/web/sw.js').length),
             'HEAD: length');
        for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
            const { status, headers } = await ask('/', { method });
            same([status, headers.allow], [405, 'GET, HEAD'], method);
        }
    });

    await test('serve.mjs: a file that has not changed is not sent again', async () => {
        const { headers: { etag } } = await ask('/sw.js');
        const again = await ask('/sw.js', { headers: { 'If-None-Match': etag } });
        same([again.status, again.body.length], [304, 0], 'the same tag');
        same((await ask('/sw.js', { headers: { 'If-None-Match': '"x"' } })).status, 200, 'another');
    });

    await test('serve.mjs: the command', async () => {
        const help = await start('--help');
        same(help.status, 0, '--help');
        expect(/^usage: .*--port N.*--no-isolation/s.test(help.out), '--help says the options');
        for (const wrong of [['--port', 'x'], ['--port', '65536'], ['--nonsense'], ['file']]) {
            const { status, err, stop } = await start(...wrong);
            await stop();
            same(status, 2, wrong.join(' '));
            expect(err.includes('usage: '), `${wrong.join(' ')}: no usage`);
        }
    });

    await test('serve.mjs: ports', async () => {
        const first = await start();
        const second = await start();
        const url = /^The page: (http:\/\/localhost:\d+\/) \(Ctrl-C ends it\)\n$/;
        const [one, two] = [first, second].map(({ out }) => url.exec(out)?.[1]);
        expect(one && two && one !== two, `two servers: "${first.out}" and "${second.out}"`);
        for (const address of [one, two]) same((await fetch(address)).status, 200, address);
        await Promise.all([first.stop(), second.stop()]);

        const other = createServer();
        await new Promise((done) => { other.listen(0, 'localhost', done); });
        const { port } = other.address();
        const third = await start('--port', String(port));
        await third.stop();
        other.close();
        same([third.status, third.err],
             [1, `serve.mjs: port ${port} in use; another one: --port N\n`], 'a port in use');
    });
    for (const child of started) child.kill();
}
