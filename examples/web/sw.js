// sw.js - adds the headers that threads need, on any static host.
//
//     <script src="sw.js"></script>      in the page's head
// A page may share memory among workers only if its server sends two headers. If the server
// omits them, this file, as a script of the page, installs itself as a service worker and reloads
// the page. All later requests of the page pass through it and get the headers. If there are no
// service workers, as without https or localhost, the page runs in one thread.

/** The headers of serve.mjs; the last one also keeps workers from sending data anywhere. */
const headers = {
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Embedder-Policy': 'require-corp',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Content-Security-Policy': "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; " +
        "style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; " +
        "connect-src 'self' blob:; worker-src 'self'; base-uri 'none'; form-action 'none'; " +
        "frame-ancestors 'none'",
};

async function fetchWithHeaders(request) {
    const response = await fetch(request);
    if (response.status === 0) return response; // another origin's response, which may not be read
    const all = new Headers(response.headers);
    for (const [name, value] of Object.entries(headers)) all.set(name, value);
    const { status, statusText } = response;
    return new Response(response.body, { status, statusText, headers: all });
}

function beServiceWorker() {
    self.addEventListener('install', () => self.skipWaiting());
    self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
    self.addEventListener('fetch', (event) => {
        const { request } = event;
        const ours = new URL(request.url).origin === self.location.origin;
        if (!ours || request.method !== 'GET') return;
        if (request.cache === 'only-if-cached' && request.mode !== 'same-origin') return;
        event.respondWith(fetchWithHeaders(request));
    });
}

/** Reloads once: if the page is still not isolated after that, it stays as it is. */
function mayReload() {
    try {
        if (sessionStorage.getItem('isolating')) return false;
        sessionStorage.setItem('isolating', 'yes');
        return true;
    } catch {
        return false; // without storage it could reload forever
    }
}

function isIsolated() {
    try {
        if (self.crossOriginIsolated) sessionStorage.removeItem('isolating');
    } catch {
        // without storage there is nothing to forget
    }
    return self.crossOriginIsolated;
}

async function isolate(script) {
    if (isIsolated() || !navigator.serviceWorker) return;
    if (navigator.serviceWorker.controller) return; // the headers are there, but do not help
    try {
        await navigator.serviceWorker.register(script);
        await navigator.serviceWorker.ready;
    } catch {
        return; // the page runs in one thread
    }
    if (mayReload()) location.reload();
}

if (typeof document === 'undefined') beServiceWorker();
else isolate(document.currentScript.src);
