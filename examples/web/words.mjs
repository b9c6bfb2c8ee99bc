// words.mjs - the text fields, for models with a text encoder. One field takes words, by which the
// photos are sorted. The other takes classes, which replace the model's own.
import { Superseded } from './client.mjs';
import { paintThumb, select } from './photos.mjs';
import { byId, element, emit, forgive, on, readPhotos, say, state } from './state.mjs';

const THUMB = 140;
const MOST = 1000;                  // classes

let engine = null;
let asked = '';                     // the words that sort the list
let answers = new Map();            // photo: { cosine }

const shown = (text) => (text.length > 60 ? `${text.slice(0, 57)}...` : text);
/** Returns a note if a text is too long or seems to be wrongly decoded; '' otherwise. */
function remarkOn(name, { cut, misread }, context) {
    const more = `${cut} token${cut === 1 ? '' : 's'} too many: the model reads ${context}`;
    return [cut ? `${name} has ${more}; its end is left out.` : '',
        misread ? `${name} looks like UTF-8 read as Windows-1252; the text is used unchanged.` : '']
        .filter(Boolean).join(' ');
}

function tell(id, text, wrong = false) {
    byId(id).textContent = text;
    byId(id).classList.toggle('bad', wrong);
}

// --- photos by words ---

function list() {
    const ranked = [...answers.keys()].filter((photo) => state.photos.includes(photo))
        .sort((a, b) => answers.get(b).cosine - answers.get(a).cosine);
    const focused = byId('found').contains(document.activeElement);
    byId('found').replaceChildren(...ranked.map((photo) => {
        const canvas = element('canvas', { width: 1, height: 1 });
        const { cosine: exact } = answers.get(photo), cosine = exact.toFixed(3);
        const button = element('button', { type: 'button', title: photo.name }, canvas,
            element('span', {}, cosine), element('span', { className: 'name' }, photo.name));
        button.dataset.cosine = exact;
        button.setAttribute('aria-current', photo === state.selected);
        button.addEventListener('click', () => select(photo));
        paintThumb(canvas, photo, THUMB);
        return element('li', {}, button);
    }));
    if (focused) byId('found').querySelector('[aria-current=true]')?.focus();
}

async function find() {
    const text = asked, photos = readPhotos();
    if (!text || !photos.length) {
        answers = new Map();
        list();
        tell('found-note', text ? 'There are no photos yet: drop some, and they are sorted.' : '');
        return;
    }
    try {
        const keys = photos.map(({ key }) => key);
        const { cosines, fits, note, context } = await engine.ask('find', { keys, text },
            { latest: 'find' });
        answers = new Map(photos.map((photo, i) => [photo, { cosine: cosines[i] }]));
        list();
        const count = `${photos.length} photo${photos.length === 1 ? '' : 's'}`;
        const remarks = fits.includes(true) ? `${count} by "${shown(text)}", the best first.`
            : `No photo fits "${shown(text)}"; the nearest is first.`;
        tell('found-note', `${remarks} ${remarkOn('This text', note, context)}`.trim());
    } catch (error) {
        if (!(error instanceof Superseded)) tell('found-note', `${error.message}.`, true);
    }
}

function submitFind(event) {
    event.preventDefault();
    asked = byId('find-words').value.trim();
    if (asked) find();
    else tell('found-note', 'Type what the photos should show.', true);
}

/** The view that views.mjs shows in the tab for words. */
export const words = {
    start() {
        byId('finding').addEventListener('submit', submitFind);
        on('photos', list);
        on('select', list);
        on('settled', () => { if (asked) find(); });
    },

    reset() {
        asked = '';
        answers = new Map();
        byId('find-words').value = '';
        tell('found-note', '');
        list();
    },

    update: list,
    paintLarge() {},
};

// --- classes by words ---

/** Reads the fields for classes and templates. Throws an Error with the reason if their texts are
 * invalid. */
function readNaming() {
    const listOf = (id, separator) =>
        byId(id).value.split(separator).map((text) => text.trim()).filter(Boolean);
    const texts = listOf('class-words', ','), templates = listOf('template', '|');
    const twice = texts.find((text, i) => texts.indexOf(text) < i);
    if (twice) throw new Error(`"${shown(twice)}" occurs twice`);
    if (texts.length > MOST) throw new Error(`The page takes ${MOST} classes, not ${texts.length}`);
    const bare = templates.find((template) => !template.includes('{}'));
    if (bare) throw new Error(`"${shown(bare)}" needs {} in place of the class`);
    if (!texts.length && templates.length) throw new Error('Name the classes of the sentence, too');
    if (!texts.length && !state.naming) throw new Error('Name two classes or more');
    return { texts, templates };
}

async function submitNaming(event) {
    event.preventDefault();
    forgive();
    try {
        const naming = readNaming();
        const { notes, context } = await engine.ask('name', naming, { latest: 'name' });
        state.naming = naming.texts.length ? naming : null;
        byId('naming').classList.toggle('named', Boolean(state.naming));
        const { texts } = naming;
        const remarks = texts.map((text, i) => remarkOn(`"${shown(text)}"`, notes[i], context));
        tell('naming-note', remarks.find(Boolean) ?? '');
        say(texts.length ? `Classes: ${shown(texts.join(', '))}` : 'The classes are removed');
        emit('named');
    } catch (error) {
        if (!(error instanceof Superseded)) tell('naming-note', `${error.message}.`, true);
    }
}

export function startWords(client) {
    engine = client;
    byId('naming').addEventListener('submit', submitNaming);
    on('model', () => {
        byId('naming').hidden = !state.model.words;
        byId('naming').reset();
        byId('naming').classList.remove('named');
        byId('naming').classList.toggle('bare', !state.model.info.config.num_classes);
        tell('naming-note', '');
    });
}
