#!/usr/bin/env node
// serve.mjs - serves this folder on localhost, with the headers that threads need.
//
//     node examples/web/serve.mjs --port 8000
// It uses only Node's own modules. sw.js adds the same headers on other servers.
import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, extname, resolve, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';

const usage = `usage: serve.mjs [--port N] [--host NAME] [--no-isolation]

Serves the page on localhost until it is interrupted.
  --port N        the port; 0: any free port; by default the first free port from 8000 on
  --host NAME     a name or an address of this machine instead of localhost; other machines can
                  then open the page
  --no-isolation  send no headers that threads need, like most static hosts
  --help          this text`;

const FIRST_PORT = 8000;
const TRIES = 20;
const IDLE = 60000;              // milliseconds after which an idle visitor is disconnected
const MOST_TEXT = 1 << 20;       // largest text that is compressed for each visitor

const types = {
    '.css': 'text/css; charset=utf-8',
    '.gz': 'application/gzip',
    '.html': 'text/html; charset=utf-8',
    '.jpg': 'image/jpeg',
    '.js': 'text/javascript; charset=utf-8',
    '.json': 'application/json; charset=utf-8',
    '.md': 'text/markdown; charset=utf-8',
    '.mjs': 'text/javascript; charset=utf-8',
    '.png': 'image/png',
    '.svg': 'image/svg+xml',
    '.ts': 'text/plain; charset=utf-8',
    '.wasm': 'application/wasm',
};

/** The Content-Security-Policy, which keeps the page and its workers from sending data
 * elsewhere. */
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; " +
    "img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self' blob:; " +
    "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Shared memory needs the first two headers. Under them, every file must state which sites may
 * read it; the third header does. */
const isolationHeaders = {
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Embedder-Policy': 'require-corp',
    'Cross-Origin-Resource-Policy': 'same-origin',
};

const here = dirname(fileURLToPath(import.meta.url));

/** Files that the page requests, but that lie in other folders. A file of the same name in the
 * page's folder has precedence. */
const elsewhere = new Map([
    ['model.vit', resolve(here, '../../models/cifar10-vit.vit')],
    ['cat.jpg', resolve(here, '../cat.jpg')],
]);

async function fileAt(path) {
    const found = await stat(path).catch(() => null);
    return found?.isFile() ? found : null;
}

/**
 * Opens a file in the folder, or a link to such a file: { path, found, file }, or null. Properties
 * and contents are read from the opened file, so both belong to one file, even if the name is given
 * to another file meanwhile.
 */
async function openIn(root, path) {
    let file = null;
    try {
        const target = await realpath(path);
        if (!target.startsWith(await realpath(root) + sep)) return null;
        const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
        file = await open(target, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        const found = await file.stat();
        if (found.isFile()) return { path: target, found, file };
    } catch {
        // the file does not exist, or may not be read
    }
    await file?.close();
    return null;
}

/** Opens the file that a URL names; null if it does not exist, is hidden or is outside the
 * folder. */
async function locate(root, url) {
    let name;
    try {
        name = decodeURIComponent(new URL(`http://localhost${url}`).pathname).slice(1);
    } catch {
        return null;
    }
    if (/[\0\\]|(^|\/)\./.test(name)) return null;
    if (name === '' || name.endsWith('/')) name += 'index.html';
    const path = resolve(root, name);
    if (!path.startsWith(root + sep)) return null;
    if (root === here && elsewhere.has(name) && !await fileAt(path)) {
        return openIn(resolve(here, '../..'), elsewhere.get(name));
    }
    return openIn(root, path);
}

const isText = (path) => !['.gz', '.jpg', '.png', '.wasm'].includes(extname(path)) &&
    extname(path) in types;

const takesGzip = (request) =>
    /(^|,)\s*gzip\s*(?!;\s*q=0(\.0*)?\s*(,|$))(;|,|$)/i.test(request.headers['accept-encoding'] ?? '');

/** Sends a file. If the client accepts gzip, sends FILE.gz if that file exists and is not older
 * than FILE. If there is no such FILE.gz, compresses text of at most MOST_TEXT bytes. */
async function send(root, { path, found, file }, request, reply) {
    const packed = await openIn(root, `${path}.gz`);
    try {
        const ready = packed && packed.found.mtimeMs >= found.mtimeMs;
        const text = isText(path) && found.size <= MOST_TEXT;
        const headers = ready || text ? { Vary: 'Accept-Encoding' } : {};
        if (!(ready || text) || !takesGzip(request)) return await reply({ found, file, headers });
        headers['Content-Encoding'] = 'gzip';
        if (ready) return await reply({ ...packed, headers });
        return await reply({ bytes: gzipSync(await file.readFile()), found, headers });
    } finally {
        await packed?.file.close();
    }
}

function refuse(response, status, text, headers = {}) {
    response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8', ...headers });
    response.end(`${text}\n`);
}

/** True if Host is a name of this machine; another name may be DNS rebinding. */
function isMeant({ headers: { host = '' } }, hosts) {
    return hosts.includes(host.replace(/:\d*$/, '').toLowerCase());
}

async function answer(request, response, { root, hosts }, common) {
    if (!isMeant(request, hosts)) {
        refuse(response, 403, 'not a name of this server; to serve it: --host NAME', common);
        return;
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
        refuse(response, 405, 'GET or HEAD, please', { ...common, Allow: 'GET, HEAD' });
        return;
    }
    const wanted = await locate(root, request.url);
    if (!wanted) {
        refuse(response, 404, 'no such file', common);
        return;
    }
    try {
        await send(root, wanted, request, (chosen) =>
            reply(request, response, types[extname(wanted.path)], chosen, common));
    } finally {
        await wanted.file.close();
    }
}

async function reply(request, response, type, { bytes, found, file, headers }, common) {
    const kind = headers['Content-Encoding'] ?? '';
    const tag = `"${found.size.toString(36)}-${Math.floor(found.mtimeMs).toString(36)}${kind}"`;
    const all = { ...common, ...headers, ETag: tag, 'Cache-Control': 'no-cache' };
    if (request.headers['if-none-match'] === tag) {
        response.writeHead(304, all).end();
        return;
    }
    all['Content-Type'] = type ?? 'application/octet-stream';
    all['Content-Length'] = bytes?.length ?? found.size;
    if (request.method === 'HEAD') {
        response.writeHead(200, all).end();
        return;
    }
    if (bytes) {
        response.writeHead(200, all).end(bytes);
        return;
    }
    response.writeHead(200, all);
    const pieces = file.createReadStream({ end: Math.max(found.size - 1, 0), autoClose: false });
    await pipeline(pieces, response);
}

function listen(server, port, host) {
    return new Promise((done, fail) => {
        server.once('error', fail);
        server.listen(port, host.replace(/^\[|\]$/g, ''), () => {
            server.off('error', fail);
            done(server.address().port);
        });
    });
}

/** Returns a request handler, for createServer(handler()). `host` is a name that is accepted
 * besides localhost. */
export function handler({ isolation = true, root = here, host = 'localhost' } = {}) {
    const hosts = ['localhost', '127.0.0.1', '[::1]', host.toLowerCase()];
    const common = { 'X-Content-Type-Options': 'nosniff', 'Content-Security-Policy': policy,
                     ...(isolation ? isolationHeaders : {}) };
    return (request, response) => {
        answer(request, response, { root, hosts }, common).catch(() => {
            if (response.headersSent) response.destroy(); // the visitor left or the file is gone
            else refuse(response, 500, 'the file cannot be read', common);
        });
    };
}

/** Starts a server on `port`, or on the first free port if `port` is undefined. Returns its
 * address. */
async function serve(port, options) {
    const server = createServer(handler(options)).setTimeout(IDLE);
    for (let tried = 0; ; tried++) {
        try {
            const found = await listen(server, port ?? FIRST_PORT + tried, options.host);
            return `http://${options.host}:${found}/`;
        } catch (error) {
            const another = port === undefined && error.code === 'EADDRINUSE';
            if (!another || tried + 1 === TRIES) throw error;
        }
    }
}

function parse() {
    const options = {
        port: { type: 'string' },
        host: { type: 'string', default: 'localhost' },
        'no-isolation': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
    };
    try {
        const { values } = parseArgs({ options });
        if (/^[0-9a-f]*:[0-9a-f:]*$/i.test(values.host)) values.host = `[${values.host}]`;
        if (values.port === undefined || /^\d{1,5}$/.test(values.port) && values.port < 65536) {
            return values;
        }
        console.error(`serve.mjs: --port: expected 0 to 65535, found "${values.port}"`);
    } catch (error) {
        console.error(`serve.mjs: ${error.message}`);
    }
    console.error(usage);
    return process.exit(2);
}

async function main() {
    const chosen = parse();
    if (chosen.help) {
        console.log(usage);
        return;
    }
    const port = chosen.port === undefined ? undefined : Number(chosen.port);
    if (!await fileAt(resolve(here, 'vit/vit.wasm'))) {
        console.error('serve.mjs: vit/vit.wasm is missing: `make web` builds it');
        process.exit(1);
    }
    try {
        const url = await serve(port, { isolation: !chosen['no-isolation'], host: chosen.host });
        console.log(`The page: ${url} (Ctrl-C ends it)`);
    } catch (error) {
        const tried = port ?? `${FIRST_PORT} and the ${TRIES - 1} next`;
        console.error(`serve.mjs: ${error.code === 'EADDRINUSE' ?
            `port ${tried} in use; another one: --port N` : error.message}`);
        process.exit(1);
    }
}

if (process.argv[1] && await realpath(process.argv[1]) === fileURLToPath(import.meta.url)) {
    await main();
}
