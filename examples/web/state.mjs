// state.mjs - the state of the page: the model, the photos and the displayed photo. After a change
// of the state, a module calls emit(), which calls the listeners.

export const state = {
    model: null,       // the worker's response to `open`: info, labels, threads, module
    modelName: '',
    photos: [],        // { key, name, file, width, height, crop, view, classes, ... } in order
    selected: null,    // the displayed photo
    live: false,       // the camera is on
    taught: false,     // this page has made the open model by teaching
    wordless: false,   // this page has converted the model and dropped its text encoder
    naming: null,      // { texts, templates }: classes that the visitor has named
};

const listeners = new Map();

export function on(name, listener) {
    if (!listeners.has(name)) listeners.set(name, []);
    listeners.get(name).push(listener);
}

/** Events: 'model', 'checkpoint' (its files were given), 'progress', 'photos' (the list changed),
 * 'photo' (one was read or classified), 'settled' (all were), 'select', 'live', 'named'. */
export function emit(name, detail) {
    for (const listener of listeners.get(name) ?? []) listener(detail);
}

/** Returns the photos that the worker has read without an error. */
export const readPhotos = () => state.photos.filter((photo) => photo.view);

export const byId = (id) => document.getElementById(id);

/** element('li', { className: 'x' }, child, 'text', ...) */
export function element(name, properties = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
        if (key.includes('-') || key === 'role') made.setAttribute(key, value);
        else made[key] = value;
    }
    made.append(...children);
    return made;
}

/** Returns "4.3 MB", with decimal prefixes, like disks and vit-info. */
export function sizeText(bytes) {
    for (const [size, digits, unit] of [[1e9, 2, 'GB'], [1e6, 1, 'MB'], [1e3, 1, 'KB']]) {
        if (bytes >= size || unit === 'KB') return `${(bytes / size).toFixed(digits)} ${unit}`;
    }
    return '';
}

/** Returns a button with an icon instead of text. */
export const iconButton = (name, ...children) =>
    element('button', { type: 'button', title: name, 'aria-label': name }, ...children);

export function say(text) {
    byId('status').textContent = text;
}

/** Shows an error until it is dismissed or another action begins. */
export function complain(text) {
    const close = element('button', { type: 'button', className: 'small', textContent: 'Close' });
    close.addEventListener('click', forgive);
    // An open dialog covers the page, so the error must be inside the dialog.
    (document.querySelector('dialog[open]') ?? document.body).append(byId('error'));
    byId('error').replaceChildren(element('p', {}, text), close);
    document.documentElement.dataset.state = 'error';
}

export function forgive() {
    byId('error').replaceChildren();
    if (document.documentElement.dataset.state === 'error') {
        document.documentElement.dataset.state = state.model ? 'ready' : 'loading';
    }
}
