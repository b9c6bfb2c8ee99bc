// photos.mjs - the user's photos: their list, the displayed one, its classes.
import { Superseded } from './client.mjs';
import { paint } from './map.mjs';
import { byId, complain, element, emit, forgive, iconButton, on, readPhotos, say, state }
    from './state.mjs';

const MOST = 200;
const THUMB = 72;

let engine = null;
let lastKey = 0;
const batch = { done: 0, total: 0, failed: [] };

// --- adding and removing ---

/** Reads photos, and shows the first of them. The example is removed when another photo arrives. */
export function addPhotos(files, example = false) {
    const room = MOST - state.photos.length;
    if (files.length > room) complain(`The page keeps ${MOST} photos; remove some first.`);
    else forgive();
    const added = files.slice(0, Math.max(room, 0)).map((file) => ({
        key: ++lastKey, file, name: file.name || 'pasted photo', view: null, example,
    }));
    state.photos.push(...added);
    batch.total += added.length;
    emit('photos');
    tellBatch(added[0]);
    return Promise.all(added.map((photo, i) => read(photo, i === 0)));
}

function tellBatch(photo) {
    if (batch.total > 1) {
        emit('progress', { text: `Photo ${batch.done + 1} of ${batch.total}`, ...batch });
    } else if (photo) {
        emit('progress', { text: `Reading ${photo.name}` });
    }
}

async function read(photo, wanted) {
    const { key, name, file } = photo;
    try {
        Object.assign(photo, await engine.ask('read', { key, name, file }));
        const example = state.photos.find((other) => other.example && other !== photo);
        if (example) retire(example);
        if (wanted || !state.selected) select(photo);
        if (example) emit('photos');
        emit('photo', photo);
    } catch (error) {
        state.photos = state.photos.filter((other) => other !== photo);
        emit('photos');
        if (!(error instanceof Superseded)) batch.failed.push(reason(name, error));
    }
    batch.done++;
    if (batch.done === batch.total) settle();
    else tellBatch();
}

const reason = (name, { message, name: kind }) =>
    (kind === 'PhotoError' ? `${name}: ${message}.` : `${name} cannot be read: ${message}.`);

function settle() {
    const { failed } = batch;
    Object.assign(batch, { done: 0, total: 0, failed: [] });
    if (failed.length) {
        const more = failed.length > 3 ? ` And ${failed.length - 3} more.` : '';
        complain(failed.slice(0, 3).join(' ') + more);
    }
    emit('settled');
}

export function select(photo) {
    if (state.selected === photo) return;
    state.selected = photo;
    emit('select');
}

function retire(photo) {
    state.photos = state.photos.filter((other) => other !== photo);
    engine.ask('forget', { key: photo.key }, { quiet: true }).catch(() => {});
    if (state.selected === photo) state.selected = null;
}

function remove(photo) {
    const at = state.photos.indexOf(photo);
    if (at < 0) return;
    retire(photo);
    emit('photos');
    const next = state.photos[Math.min(at, state.photos.length - 1)];
    if (next?.view) select(next);
    else emit('select');
    say(`${photo.name} is removed`);
    (next ? document.querySelector('#photos [aria-current=true]') : byId('choose'))?.focus();
}

/** After a change of the model or its classes, classifies all photos, the displayed one first. */
async function classifyAll() {
    const photos = readPhotos();
    for (const photo of photos) photo.ms = undefined;
    photos.sort((a, b) => (b === state.selected) - (a === state.selected));
    await Promise.all(photos.map(classify));
    emit('settled');
}

async function classify(photo) {
    try {
        Object.assign(photo, await engine.ask('classify', { key: photo.key }));
    } catch (error) {
        photo.classes = null;
        photo.problem = error instanceof Superseded ? 'choose it once more' : error.message;
        if (!(error instanceof Superseded)) complain(reason(photo.name, error));
    }
    emit('photo', photo);
}

// --- display ---

function showList() {
    const items = state.photos.map((photo) => {
        const canvas = element('canvas', { width: 1, height: 1 });
        const button = iconButton(photo.name, canvas);
        button.setAttribute('aria-current', photo === state.selected);
        button.disabled = !photo.view;
        if (photo.view) paintThumb(canvas, photo);
        button.addEventListener('click', () => {
            if (photo.ms === undefined) classify(photo);
            select(photo);
        });
        button.addEventListener('keydown', ({ key }) => { if (key === 'Delete') remove(photo); });
        return element('li', {}, button);
    });
    byId('photos').replaceChildren(...items);
    byId('remove').hidden = !state.selected;
}

/** Draws the square in the middle of the photo. */
export function paintThumb(canvas, { view }, side = THUMB) {
    const pixels = side * Math.min(devicePixelRatio || 1, 2);
    const from = Math.min(view.width, view.height);
    canvas.width = canvas.height = pixels;
    canvas.getContext('2d').drawImage(view, (view.width - from) / 2, (view.height - from) / 2, from,
        from, 0, 0, pixels, pixels);
}

function showSelected() {
    for (const [i, photo] of state.photos.entries()) {
        const button = byId('photos').children[i]?.firstChild;
        button?.setAttribute('aria-current', photo === state.selected);
        if (photo === state.selected) {
            button?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
        }
    }
    const photo = state.selected;
    byId('remove').hidden = !photo;
    byId('invite').hidden = Boolean(photo) || state.live;
    byId('photo').hidden = !photo || state.live;
    if (state.live) return;
    showClasses(photo?.classes, photo?.ms);
    byId('caption').textContent = photo ? captionOf(photo) : '';
    if (photo) showPhoto(photo);
}

function showPhoto(photo) {
    const canvas = byId('photo');
    const best = photo.classes?.[0];
    paint(canvas, photo, null, { box: canvas.parentElement });
    canvas.setAttribute('aria-label', `${photo.name}${best ? `: ${nameOf(best)}` : ''}`);
}

function captionOf({ name, width, height, crop, example }) {
    const size = `${example ? 'Example: ' : ''}${name}, ${width} x ${height}`;
    const whole = !crop
        || (crop.x <= 0 && crop.y <= 0 && crop.width >= width && crop.height >= height);
    return whole ? size : `${size}; the model sees what is in the frame`;
}

const nameOf = ({ label, index }) => label ?? `class ${index}`;

const lackOf = ({ words }) => (words ? 'This model has no classes of its own: name yours.'
    : 'This model has no classes: it gives embeddings.');

const WORDLESS = 'It has no text encoder because this page converts models without it; '
    + 'the program vit-convert keeps it.';

/** Shows bars in fixed rows, and the time taken; `rate` is a text, such as "9 frames a second". */
export function showClasses(classes, ms, rate = '') {
    const list = byId('bars');
    while (list.children.length < 5) {
        list.append(element('li', {}, element('span', { className: 'name' }),
            element('span', { className: 'score' }), element('span', { className: 'bar' })));
    }
    [...list.children].forEach((row, i) => {
        const found = classes?.[i];
        row.hidden = false;
        row.classList.toggle('none', !found);
        const [name, score, bar] = row.children;
        name.textContent = name.title = found ? nameOf(found) : '';
        score.textContent = found ? `${(100 * found.score).toFixed(1)} %` : '';
        bar.style.setProperty('--share', found ? found.score : 0);
    });
    const count = state.naming?.texts.length ?? state.model?.info.config.num_classes;
    const known = `${count} class${count > 1 ? 'es' : ''}`;
    const time = ms && `${ms.toFixed(ms < 100 ? 1 : 0)} ms`;
    const line = count === 0 ? lackOf(state.model)
        : !time ? '' : rate ? `${time}, ${rate}` : `${time}, ${known}`;
    byId('speed').textContent = state.wordless ? `${line} ${WORDLESS}`.trim() : line;
}

export function startPhotos(client) {
    engine = client;
    on('photos', showList);
    on('select', showSelected);
    on('live', showSelected);
    on('model', classifyAll);
    on('named', classifyAll);
    on('photo', (photo) => {
        const button = byId('photos').children[state.photos.indexOf(photo)]?.firstChild;
        if (button) {
            button.disabled = false;
            paintThumb(button.firstChild, photo);
        }
        if (photo !== state.selected) return;
        showSelected();
        const best = photo.classes?.[0];
        if (best) say(`${photo.name}: ${nameOf(best)}, ${(100 * best.score).toFixed(1)} %`);
    });
    byId('remove').addEventListener('click', () => remove(state.selected));
    new ResizeObserver(() => { if (state.selected && !state.live) showPhoto(state.selected); })
        .observe(byId('photo').parentElement);
    showClasses(null);
}
