// keep.mjs - stores the taught boxes, their photos with embeddings, and the learnt model for the
// next visit, in this browser's IndexedDB. No other part of the page stores anything.

const NAME = 'vit-teach';
const PATIENCE = 3000;     // milliseconds after which the page starts without the storage
const STORES = ['boxes', 'photos', 'lesson'];    // each value has its `id`

let database = null;

const ended = (request) => new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
});

function open() {
    database ??= new Promise((done, fail) => {
        const request = indexedDB.open(NAME, 1);
        request.onupgradeneeded = () => {
            for (const name of STORES) request.result.createObjectStore(name, { keyPath: 'id' });
        };
        request.onsuccess = () => done(request.result);
        request.onerror = () => fail(request.error);
        request.onblocked = () => fail(new Error('another tab has it open'));
    });
    return database;
}

/** Calls action(stores) in one transaction, and waits for the end of the transaction. */
async function change(action) {
    const transaction = (await open()).transaction(STORES, 'readwrite');
    await new Promise((done, fail) => {
        transaction.oncomplete = done;
        transaction.onabort = () => fail(transaction.error ?? new Error('it was aborted'));
        action(Object.fromEntries(STORES.map((name) => [name, transaction.objectStore(name)])));
    });
}

/** Returns { boxes, photos, lesson }: two lists in the order of their ids, and a value or null. */
export async function recall() {
    const late = new Promise((_, fail) => {
        setTimeout(() => fail(new Error('no answer')), PATIENCE);
    });
    return Promise.race([readAll(), late]);
}

async function readAll() {
    const transaction = (await open()).transaction(STORES);
    const lists = STORES.map((name) => ended(transaction.objectStore(name).getAll()));
    const [boxes, photos, lesson] = await Promise.all(lists);
    return { boxes, photos, lesson: lesson[0] ?? null };
}

export const keep = (name, value) => change((stores) => stores[name].put(value));

export const drop = (name, ids) => change((stores) => {
    for (const id of ids) stores[name].delete(id);
});

export const dropAll = () => change((stores) => {
    for (const store of Object.values(stores)) store.clear();
});
