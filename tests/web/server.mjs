// server.mjs - tests examples/web/serve.mjs: its responses, refusals and messages.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync,
         writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { handler } from '../../examples/web/serve.mjs';
import { expect, same, servers, test } from './harness.mjs';

/** Returns { status, headers, body }. The path is sent unchanged, so it may contain "..". */
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

/** Starts serve.mjs as a command. After its first output or its end, resolves to { out, err,
 * status, stop }, where `status` is undefined while it runs. */
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

const runtime = 250000, everything = 805000; // bytes of all files; one visit fetches only a part

const kb = (bytes) => (bytes / 1000).toFixed(0);

/** The paths of the files that pages fetch: all files except those for Node and documentation. */
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

    await test('serve.mjs: links, pipes and folders in the folder', async () => {
        const folder = mkdtempSync(join(tmpdir(), 'vit-serve-'));
        const root = join(folder, 'root');
        const path = (name) => join(root, name);
        mkdirSync(path('folder.css.gz'), { recursive: true });
        writeFileSync(join(folder, 'secret.css'), 'secret');
        writeFileSync(join(folder, 'secret.css.gz'), gzipSync('secret'));
        for (const name of ['packed', 'folder', 'pipe', 'plain', 'inside']) {
            writeFileSync(path(`${name}.css`), name);
        }
        symlinkSync('../secret.css.gz', path('packed.css.gz'));
        symlinkSync('../secret.css', path('link.css'));
        symlinkSync('..', path('up'));
        symlinkSync('none', path('broken.css'));
        symlinkSync('inside.css', path('within.css'));
        execFileSync('mkfifo', [path('pipe.css.gz'), path('pipe')]);
        const own = createServer(handler({ root }));
        await new Promise((done) => { own.listen(0, 'localhost', done); });
        const server = { url: `http://localhost:${own.address().port}/` };
        const headers = { 'Accept-Encoding': 'gzip' };
        try {
            for (const name of ['packed', 'folder', 'pipe', 'plain']) {
                const { body } = await ask(`/${name}.css`, { server, headers });
                same(gunzipSync(body).toString(), name, name);
            }
            same(gunzipSync((await ask('/within.css', { server, headers })).body).toString(),
                 'inside', 'a link that stays inside');
            for (const name of ['link.css', 'packed.css.gz', 'up/secret.css', 'broken.css', 'pipe',
                                'folder.css.gz', '/secret.css']) {
                same((await ask(`/${name}`, { server, headers })).status, 404, name);
            }
        } finally {
            own.closeAllConnections();
            own.close();
            rmSync(folder, { recursive: true });
        }
    });

    await test('serve.mjs: by its own names only, in no frame', async () => {
        const { port } = new URL(servers.isolated.url);
        const status = async (host) => (await ask('/', { headers: { Host: host } })).status;
        for (const host of [`localhost:${port}`, 'localhost', 'LocalHost', `127.0.0.1:${port}`,
                            `[::1]:${port}`]) {
            same(await status(host), 200, host);
        }
        for (const host of ['example.com', `example.com:${port}`, 'localhost.example.com',
                            '127.0.0.1.example.com:80', 'localhost:80:80', '[::2]']) {
            same(await status(host), 403, host);
        }
        const { headers } = await ask('/');
        expect(/frame-ancestors 'none'/.test(headers['content-security-policy']), 'frames');
    });

    await test('serve.mjs: compressed not for whom it is nothing', async () => {
        for (const [accepted, coding] of [['gzip;q=0', undefined], ['gzip; q=0.0, br', undefined],
                                          ['x-gzip-not', undefined], ['gzip;q=0.5', 'gzip'],
                                          ['GZIP', 'gzip'], ['br, gzip', 'gzip']]) {
            const { headers } = await ask('/sw.js', { headers: { 'Accept-Encoding': accepted } });
            same(headers['content-encoding'], coding, accepted);
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

        const named = await start('--host', '127.0.0.1', '--port', '0');
        const [, at] = /^The page: (http:\/\/127\.0\.0\.1:\d+\/) /.exec(named.out) ?? [];
        expect(at && (await fetch(at)).status === 200, `--host: "${named.out}${named.err}"`);
        await named.stop();

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
