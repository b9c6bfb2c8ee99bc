// teach.mjs - "Teach": boxes of photos become classes of the model. vit-learn, compiled to
// WebAssembly, learns them and writes a file. The page then runs this file.
import { grabFrame, startStream } from './camera.mjs';
import { Superseded } from './client.mjs';
import { kindOf } from './files.mjs';
import { drop, dropAll, keep, recall } from './keep.mjs';
import { byId, complain, element, emit, forgive, iconButton, on, say, state } from './state.mjs';

const FILE = 'mine.vit';
const MOST = 1000;                   // photos in all boxes
const PACE = 100;                    // least number of milliseconds between frames
const TWINS = /[\s_]+/g;

let engine = null;
let page = null;
let boxes = [];                      // { id, name, photos: [{ id, name, file, embedding, ... }] }
let lesson = null;                   // the last teaching: { file, base, summary }
let lastId = 0;
let link = null;

/** Returns an id above all earlier ids, including the ids of earlier visits. */
const newId = () => { lastId = Math.max(lastId + 1, Date.now() * 1000); return lastId; };
const photosOf = () => boxes.flatMap(({ photos }) => photos);
const countOf = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
const nameOf = (box) => box.name.trim() || `box ${boxes.indexOf(box) + 1}`;

// --- for the next visit ---

let failed = false;

async function kept(action) {
    try {
        await action;
    } catch (error) {
        byId('keeps').textContent = 'This browser cannot keep them for your next visit: '
            + `${error?.message || error}.`;
        if (!failed) say('This browser cannot keep what you teach');
        failed = true;
    }
}

const keepBox = ({ id, name }) => kept(keep('boxes', { id, name }));
const keepPhoto = (box, { url, doubt, ...photo }) =>
    kept(keep('photos', { ...photo, box: box.id }));

/** Restores the boxes of an earlier visit. Returns the model of that visit, as an argument of
 * openModel(), or null. */
export async function recallLesson() {
    let found;
    try {
        found = await recall();
    } catch {
        return null;                 // no storage: the next attempt to store shows a message
    }
    boxes = found.boxes.map((box) => ({ ...box,
        photos: found.photos.filter((photo) => photo.box === box.id) }));
    lesson = found.lesson;
    lastId = Math.max(0, ...found.boxes.map(({ id }) => id), ...found.photos.map(({ id }) => id));
    return lesson ? { file: lesson.file, name: FILE, taught: true } : null;
}

function clear() {
    const count = photosOf().length;
    if (!confirm(`Remove all boxes, ${countOf(count, 'photo')}${lesson ? ` and ${FILE}` : ''} from `
        + 'this browser?')) return;
    for (const { url } of photosOf()) if (url) URL.revokeObjectURL(url);
    const taught = state.taught;
    boxes = [];
    lesson = null;
    kept(dropAll());
    addBoxes();
    show();
    if (taught) page.openModel(page.bundled);
    say('All boxes are removed');
    byId('boxes').querySelector('input').focus();
}

// --- boxes ---

function addBox(name) {
    const box = { id: newId(), name, photos: [] };
    boxes.push(box);
    keepBox(box);
    return box;
}

/** Adds the first two boxes. They are stored once they get a photo or another name. */
function addBoxes() {
    for (const name of ['Class 1', 'Class 2']) boxes.push({ id: newId(), name, photos: [] });
}

function rename(box, name) {
    box.name = name;
    keepBox(box);
}

function removeBox(box) {
    const at = boxes.indexOf(box);
    boxes.splice(at, 1);
    kept(drop('boxes', [box.id]));
    kept(drop('photos', box.photos.map(({ id }) => id)));
    for (const { url } of box.photos) if (url) URL.revokeObjectURL(url);
    show();
    say(`${nameOf(box) || 'The box'} is removed`);
    const next = byId('boxes').children[Math.min(at, boxes.length - 1)];
    (next?.querySelector('input') ?? byId('add-box')).focus();
}

/** Reads photos into a box, one after the other. Returns how many were added. */
async function addTo(box, files, quiet = false) {
    const refused = [];
    let added = 0;
    forgive();
    if (boxes.every(({ id }) => id !== box.id)) return 0;
    for (const [i, file] of files.entries()) {
        if (photosOf().length >= MOST) {
            complain(`The boxes hold ${MOST} photos; remove some first.`);
            break;
        }
        if (files.length > 1) {
            emit('progress', { text: `Photo ${i + 1} of ${files.length}`, done: i,
                total: files.length });
        }
        const name = file.name || 'pasted photo';
        try {
            const found = await engine.ask('sample', { file, thumb: true }, { quiet });
            const photo = { id: newId(), name, file, ...found };
            if (!boxes.includes(box)) return added;
            if (!box.photos.length) keepBox(box);
            box.photos.push(photo);
            keepPhoto(box, photo);
            added++;
            showPhotos(box);
        } catch (error) {
            if (error instanceof Superseded) return added;
            refused.push(error.name === 'PhotoError' ? `${name}: ${error.message}`
                : `${name} cannot be read: ${error.message}`);
        }
    }
    if (refused.length) {
        const more = refused.length > 3 ? ` And ${refused.length - 3} more.` : '';
        complain(`${refused.slice(0, 3).join('. ')}.${more}`);
    }
    if (!quiet) say(`${nameOf(box)}: ${countOf(box.photos.length, 'photo')}`);
    return added;
}

/** Takes dropped or chosen files into the box with this id. */
export async function takeInto(id, files) {
    const box = boxes.find((other) => other.id === id), photos = [], others = [];
    if (!box) return;
    for (const file of files) ((await kindOf(file)) === 'photo' ? photos : others).push(file);
    if (!photos.length && others.length) {
        complain(`${others[0].name}: not a photo; a box takes nothing else.`);
        return;
    }
    await addTo(box, photos);
}

function removePhoto(box, photo) {
    const at = box.photos.indexOf(photo);
    box.photos.splice(at, 1);
    kept(drop('photos', [photo.id]));
    if (photo.url) URL.revokeObjectURL(photo.url);
    showPhotos(box);
    say(`${photo.name} is removed from ${nameOf(box)}`);
    const list = byId(`box-${box.id}`).querySelectorAll('.samples button');
    (list[Math.min(at, list.length - 1)] ?? byId(`box-${box.id}`).querySelector('.add')).focus();
}

// --- the camera ---

let held = null;                     // the box whose button is held

async function hold(box) {
    if (held) return;
    if (!state.live) {
        await startStream();
        if (state.live) say('The camera is on: hold the button to collect frames');
        return;
    }
    const before = box.photos.length;
    held = box;
    byId(`box-${box.id}`).classList.add('held');
    do {
        const next = performance.now() + PACE;
        const file = await grabFrame();
        if (!file || !await addTo(box, [file], true)) break;
        await new Promise((done) => { setTimeout(done, next - performance.now()); });
    } while (held === box && state.live);
    release();
    byId(`box-${box.id}`)?.classList.remove('held');
    const count = box.photos.length - before;
    say(`${nameOf(box)}: ${countOf(count, 'frame')} added, ${countOf(box.photos.length, 'photo')}`);
}

const release = () => { held = null; };

/** A pointer, Space or Enter can hold the button. Any other click, such as a screen reader's, takes
 * one frame. */
function holdable(button, box) {
    let pressed = false;
    const press = (event) => {
        pressed = true;
        if (event.button) return;
        hold(box);
    };
    button.addEventListener('pointerdown', (event) => {
        button.setPointerCapture(event.pointerId);
        press(event);
    });
    button.addEventListener('keydown', (event) => {
        if (![' ', 'Enter'].includes(event.key)) return;
        event.preventDefault();
        if (!event.repeat) press(event);
    });
    for (const name of ['pointerup', 'pointercancel', 'blur']) {
        button.addEventListener(name, release);
    }
    button.addEventListener('keyup', () => {
        release();
        pressed = false;
    });
    button.addEventListener('contextmenu', (event) => event.preventDefault());
    button.addEventListener('click', () => {
        if (!pressed) {
            hold(box);
            release();
        }
        pressed = false;
    });
}

// --- display ---

function thumbOf(box, photo) {
    photo.url ??= URL.createObjectURL(photo.thumb);
    const doubt = photo.doubt ? `: looks like ${photo.doubt}` : '';
    const button = iconButton(`Remove ${photo.name}${doubt}`,
        element('img', { src: photo.url, alt: '', width: 48, height: 48 }));
    button.classList.toggle('doubt', Boolean(doubt));
    button.addEventListener('click', () => removePhoto(box, photo));
    button.addEventListener('keydown', ({ key }) => {
        if (key === 'Delete') removePhoto(box, photo);
    });
    return element('li', {}, button);
}

function showPhotos(box) {
    const item = byId(`box-${box.id}`);
    const list = item.querySelector('.samples');
    const shown = new Map([...list.children].map((child) => [Number(child.dataset.id), child]));
    list.replaceChildren(...box.photos.map((photo) => {
        const known = shown.get(photo.id);
        if (known && !photo.changed) return known;
        photo.changed = false;
        const made = thumbOf(box, photo);
        made.dataset.id = photo.id;
        return made;
    }));
    item.querySelector('.count').textContent = countOf(box.photos.length, 'photo');
    list.scrollTop = list.scrollHeight;
    showButtons();
}

function boxItem(box, i) {
    const { id } = box;
    const name = element('input', { value: box.name, autocomplete: 'off', spellcheck: false,
        maxLength: 100, 'aria-label': `Name of box ${i + 1}` });
    const input = element('input', { type: 'file', accept: 'image/*,.ppm,.pgm', multiple: true,
        hidden: true });
    const buttonOf = (text, className) =>
        element('button', { type: 'button', className, textContent: text });
    const add = buttonOf('Add photos', 'small add');
    const frames = buttonOf('Hold for frames', 'small frames');
    const remove = iconButton(`Remove box ${nameOf(box)}`, '×');
    const label = () => {
        add.ariaLabel = `Add photos to ${nameOf(box)}`;
        frames.ariaLabel = `Hold for frames of ${nameOf(box)}`;
        remove.ariaLabel = remove.title = `Remove box ${nameOf(box)}`;
        list.ariaLabel = `Photos of ${nameOf(box)}`;
    };
    const list = element('ul', { className: 'samples' });
    remove.className = 'small remove';
    label();
    name.addEventListener('input', () => { rename(box, name.value); label(); });
    name.addEventListener('focus', () => name.select());
    add.addEventListener('click', () => input.click());
    input.addEventListener('change', () => {
        takeInto(id, [...input.files]);
        input.value = '';
    });
    remove.addEventListener('click', () => removeBox(box));
    holdable(frames, box);
    return element('li', { id: `box-${id}`, className: 'box', 'data-box': id },
        element('div', { className: 'box-head' }, name,
            element('span', { className: 'quiet count' }), remove),
        list, element('div', { className: 'buttons' }, add, frames, input));
}

function show() {
    byId('boxes').replaceChildren(...boxes.map(boxItem));
    for (const box of boxes) showPhotos(box);
    showLesson();
}

function showButtons() {
    byId('learn').disabled = !photosOf().length;
    byId('clear').disabled = !photosOf().length && !lesson;
    byId('learn').textContent = lesson ? 'Teach again' : 'Teach';
}

function showLesson() {
    if (link) URL.revokeObjectURL(link);
    link = lesson ? URL.createObjectURL(lesson.file) : null;
    Object.assign(byId('mine'), { hidden: !lesson, download: FILE, href: link ?? '' });
    byId('lesson').textContent = lesson?.summary ?? '';
    const learnt = /^learned: \d+ photos of (\d+) classes/m.exec(state.model?.info.source ?? '');
    byId('earlier').hidden = !learnt || state.taught;
    if (learnt) {
        byId('earlier-text').textContent =
            `Keep the ${countOf(Number(learnt[1]), 'class').replace('classs', 'classes')} that `
            + `${state.modelName} has learnt`;
    }
    showButtons();
}

function toggle() {
    const open = byId('teach').hidden;
    if (open && !boxes.length) addBoxes();
    if (open) show();
    byId('teach').hidden = !open;
    byId('views').hidden = open;
    byId('teaching').setAttribute('aria-expanded', open);
    byId('teaching').textContent = open ? 'Done' : 'Teach your own';
    if (open) byId('boxes').querySelector('input').focus();
}

// --- teaching ---

/** Returns a unique file name for each photo: vit-learn takes it as a path and may print it. */
function namesOf(photos) {
    const seen = new Set();
    return photos.map(({ name }) => {
        const plain = name.replace(/[/\\\0-\x1f\x7f]+/g, '_').replace(/^\.+$/, '_') || '_';
        let own = plain;
        for (let i = 2; seen.has(own); i++) own = `${plain} (${i})`;
        seen.add(own);
        return own;
    });
}

/** Returns the reason why the boxes cannot be learnt, and the box that causes it; null if they
 * can. */
function problemOf() {
    const names = new Map();
    for (const box of boxes) {
        const key = box.name.trim().replace(TWINS, ' ').toLowerCase();
        if (!key && !box.photos.length) continue;
        if (!key) return [box, 'This box has no name: give it one.'];
        if (!box.photos.length) {
            return [box, `${nameOf(box)} has no photos: add some, or remove the box.`];
        }
        if (names.has(key)) {
            return [box, `Two boxes have the name ${nameOf(box)}: rename one, or put their photos `
                + 'together.'];
        }
        names.set(key, box);
    }
    return null;
}

/** Computes the embeddings again for photos whose embedding comes from another model's backbone. */
async function embed(photos) {
    const { backbone } = state.model.info;
    const others = photos.filter((photo) => photo.backbone !== backbone);
    for (const [i, photo] of others.entries()) {
        emit('progress', { text: `Photo ${i + 1} of ${others.length}`, done: i,
            total: others.length });
        Object.assign(photo, await engine.ask('sample', { file: photo.file }));
        keepPhoto(boxes.find((box) => box.photos.includes(photo)), photo);
    }
}

async function teach() {
    const problem = problemOf();
    forgive();
    if (problem) {
        complain(problem[1]);
        byId(`box-${problem[0].id}`).querySelector('input').focus();
        return;
    }
    const used = boxes.filter(({ photos }) => photos.length);
    const photos = used.flatMap((box) => box.photos);
    const names = namesOf(photos);
    const classOf = new Map(used.flatMap((box) => box.photos.map((photo) => [photo, box.name])));
    const adds = !byId('earlier').hidden && byId('keep-earlier').checked;
    say('Teaching');
    byId('learn').disabled = true;
    try {
        await embed(photos);
        // Later teachings start from this base again, because photos may have left their boxes.
        const base = adds ? await engine.ask('file') : state.taught ? lesson?.base ?? null : null;
        const given = photos.map((photo, i) => ({ name: names[i], classes: [classOf.get(photo)],
            embedding: photo.embedding }));
        const start = performance.now();
        const { report, output, stderr } = await engine.ask('learn',
            { base, photos: given, args: base ? ['--add'] : [] });
        if (output) await take(report, output, base, photos, names, performance.now() - start);
        else refuse(stderr);
    } catch (error) {
        if (error instanceof Superseded) return;
        complain(`The photos cannot be learnt: ${error.message}.`);
        say('Not learnt');
    } finally {
        showButtons();
    }
}

function refuse(stderr) {
    const text = stderr.replace(/^vit-learn: (list\.csv: |model\.vit: )?/gm, '')
        .replace(/(^| )\.\//gm, '$1').trim();
    complain(`${text.charAt(0).toUpperCase()}${text.slice(1)}.`);
    say('Not learnt');
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function summaryOf({ photos, stored, classes, folds, held_out: held, top1, none, twice, doubts },
                   ms) {
    const known = classes.filter((name) => name !== 'none of these').length;
    const from = stored ? `, ${stored} of them from before` : '';
    const parts = [`Learnt ${known} ${known === 1 ? 'class' : 'classes'} from `
        + `${countOf(photos, 'photo')}${from} in ${(ms / 1000).toFixed(1)} s.`];
    if (!folds) {
        parts.push('The accuracy of one class is unknown: add a box "none of these" with photos '
            + 'of other things.');
    } else if (held) {
        parts.push(`${percent(top1)} of ${held} held-out photos get their class`
            + `${none ? `, and ${none} would be "none of these"` : ''}.`);
    } else {
        parts.push('The accuracy is unknown: every class has one photo.');
    }
    if (twice) parts.push(`${countOf(twice, 'copy').replace('copys', 'copies')} left out.`);
    if (doubts.length) {
        parts.push(`Look at the ${countOf(doubts.length, 'marked photo')}: each looks more like `
            + 'another class.');
    }
    return parts.join(' ');
}

async function take(report, output, base, photos, names, ms) {
    const doubts = new Map(report.doubts.map(({ path, best }) => [path?.replace(/^\.\//, ''), best]));
    photos.forEach((photo, i) => {
        const doubt = doubts.get(names[i]);
        photo.changed = photo.doubt !== doubt;
        photo.doubt = doubt;
    });
    lesson = { id: 0, file: output, base, summary: summaryOf(report, ms) };
    kept(keep('lesson', lesson));
    await page.openModel({ file: output, name: FILE, taught: true });
    for (const box of boxes) showPhotos(box);
    showLesson();
}

export function startTeach(client, given) {
    engine = client;
    page = given;
    on('model', () => { if (!byId('teach').hidden) showLesson(); });
    byId('teaching').addEventListener('click', toggle);
    byId('add-box').addEventListener('click', () => {
        const box = addBox(`Class ${boxes.length + 1}`);
        show();
        byId(`box-${box.id}`).querySelector('input').focus();
    });
    byId('learn').addEventListener('click', teach);
    byId('clear').addEventListener('click', clear);
}
