// compare.mjs - compares two photos by the cosine of their embeddings, and finds the photos nearest
// to the first.
import { Superseded } from './client.mjs';
import { paint } from './map.mjs';
import { paintThumb } from './photos.mjs';
import { byId, complain, element, on, readPhotos, state } from './state.mjs';

let engine = null;
let first = null, second = null;
let cosines = new Map();            // photo: its cosine with `first`

function show(canvas, photo) {
    paint(canvas, photo, null, { box: canvas.parentElement });
    canvas.setAttribute('aria-label', photo.name);
}

function fillChoices(select, chosen) {
    select.replaceChildren(...readPhotos().map((photo) => new Option(photo.name, photo.key)));
    select.value = chosen.key;
}

function paintPair() {
    if (!first || !second) return;
    show(byId('compare-a'), first);
    show(byId('compare-b'), second);
    const cosine = cosines.get(second);
    byId('cosine').textContent = cosine === undefined ? '' : cosine.toFixed(3);
}

function listNearest() {
    const ranked = [...cosines.keys()].filter((photo) => photo !== first)
        .sort((a, b) => cosines.get(b) - cosines.get(a));
    byId('nearest').replaceChildren(...ranked.map((photo) => {
        const canvas = element('canvas', { width: 1, height: 1 });
        const cosine = cosines.get(photo).toFixed(3);
        const button = element('button', { type: 'button', title: photo.name,
            'aria-label': `${photo.name}, cosine ${cosine}` }, canvas, element('span', {}, cosine));
        button.addEventListener('click', () => choose(first, photo));
        paintThumb(canvas, photo);
        return element('li', {}, button);
    }));
}

function choose(a, b) {
    const changed = a !== first;
    [first, second] = [a, b];
    byId('compare-first').value = a.key;
    byId('compare-second').value = b.key;
    paintPair();
    if (changed) search();
}

/** Computes the cosines of the first photo and all photos that have been read. */
async function search() {
    const query = first, photos = [first, ...readPhotos().filter((photo) => photo !== first)];
    try {
        const answer = await engine.ask('compare', { keys: photos.map(({ key }) => key) },
            { latest: 'compare', quiet: true });
        if (query !== first) return;
        cosines = new Map(photos.map((photo, i) => [photo, answer[i]]));
        paintPair();
        listNearest();
    } catch (error) {
        if (!(error instanceof Superseded)) complain(`Compare: ${error.message}.`);
    }
}

/** Makes the displayed photo `first`. Replaces `second` if it is this photo, or was removed. */
function update() {
    const photos = readPhotos();
    const enough = photos.length > 1 && Boolean(state.selected);
    byId('compare-empty').hidden = enough;
    byId('compare-body').hidden = !enough;
    if (!enough) {
        first = second = null;
        return;
    }
    first = state.selected;
    if (second === first || !photos.includes(second)) {
        second = photos.find((photo) => photo !== first);
    }
    fillChoices(byId('compare-first'), first);
    fillChoices(byId('compare-second'), second);
    cosines = new Map();
    paintPair();
    search();
}

export function startCompare(client) {
    engine = client;
    const chosen = ({ target }) => readPhotos().find(({ key }) => key === Number(target.value));
    byId('compare-first').addEventListener('change', (event) => choose(chosen(event), second));
    byId('compare-second').addEventListener('change', (event) => choose(first, chosen(event)));
    for (const name of ['select', 'settled']) on(name, update);
    on('photos', () => { if (!readPhotos().includes(second) || !state.photos.length) update(); });
    new ResizeObserver(paintPair).observe(byId('compare'));
}
