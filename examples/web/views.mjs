// views.mjs - "See": a model's attention and tokens, one tab for each command of tools/vit-look.
// The worker computes the values; this file draws them.
import { Superseded } from './client.mjs';
import { componentColours, heatColours, makeMap, middleOf, paint, paintGrids, paintOne, patchAt,
    rangeOf } from './map.mjs';
import { select } from './photos.mjs';
import { byId, element, iconButton, on, readPhotos, state } from './state.mjs';
import { words } from './words.mjs';

const MOST = 24;                 // most photos compared
const THUMB = 140;               // longer side of small maps, in CSS pixels

let engine = null;
let current = 'attention';

const config = () => state.model.info.config;
const clsName = () => (config().has_cls_token ? 'class token' : 'mean of all tokens');
const number = (value) => Number(value.toPrecision(2)).toString();
const counted = (count, name) => `${count} ${name}${count === 1 ? '' : 's'}`;
const placeText = (patch, columns) =>
    `row ${Math.floor(patch / columns) + 1}, column ${patch % columns + 1}`;
const fromText = (patch, photo) =>
    (patch < 0 ? clsName() : `patch at ${placeText(patch, photo.crop.columns)}`);

/** Returns the worker's response; null after an error or if a newer request replaces this one. */
async function ask(type, data) {
    try {
        return await engine.ask(type, data, { latest: type });
    } catch (error) {
        if (!(error instanceof Superseded)) showEmpty(`${error.message}.`);
        return null;
    }
}

/** Returns the selected photo and up to MOST - 1 others. */
function shownPhotos() {
    const others = readPhotos().filter((photo) => photo !== state.selected && photo.crop);
    return [state.selected, ...others].slice(0, MOST);
}

/** Fills a list with a button and a canvas for each of `names`, unless it already has these. */
function fillList(list, names, onButton) {
    const same = list.children.length === names.length
        && names.every((name, i) => list.children[i].textContent === name);
    if (!same) {
        list.replaceChildren(...names.map((name, i) => {
            const button = element('button', { type: 'button' }, element('canvas'),
                element('span', {}, name));
            onButton(button, i);
            return element('li', {}, button);
        }));
    }
    return [...list.querySelectorAll('canvas')];
}

/** Draws small maps of the other photos. A click selects a photo; the focus stays in the list. */
function paintOthers(view, photos, names, colours) {
    const list = byId(`${view}-maps`), focused = list.contains(document.activeElement);
    list.replaceChildren();
    const canvases = fillList(list, names, (button, i) => {
        button.addEventListener('click', () => select(photos[i]));
    });
    if (focused) list.querySelector('button')?.focus();
    list.hidden = !photos.length;
    photos.forEach((photo, i) => paint(canvases[i], photo, colours[i], { size: THUMB }));
}

// --- large maps of the selected photo ---

/** A view with a large map has photo, patch (chosen, or -1), cursor, update() and paintLarge(). */
function connectMap(name, view) {
    const choose = (patch) => {
        view.patch = patch;
        view.update();
    };
    makeMap(byId(`${name}-map`), {
        grid: () => view.photo?.crop,
        at: (x, y) => patchAt(view.photo, x, y),
        moved: (patch) => { view.cursor = patch; view.paintLarge(); },
        chosen: choose,
    });
    byId(`${name}-reset`)?.addEventListener('click', () => {
        byId(`${name}-map`).focus();     // choose(-1) hides the focused button
        choose(-1);
    });
}

function paintMap(name, { photo, cursor }, values, options) {
    const { marked, text, range = rangeOf(values), round = number } = options;
    const button = byId(`${name}-map`), [least, largest] = rangeOf(values).map(round);
    paint(button.firstElementChild, photo, heatColours(values, range),
        { box: button, marked, cursor });
    button.setAttribute('aria-label', `${photo.name}: ${text}`);
    byId(`${name}-caption`).textContent = `${text}; ${least} to ${largest}`;
    const reset = byId(`${name}-reset`);
    if (!reset) return;
    reset.hidden = marked < 0;
    reset.textContent = `Back to the ${clsName()}`;
}

// --- attention ---

const attention = {
    block: -1, patch: -1, pinned: -1, hovered: null, cursor: -1, answer: [], photo: null,

    start() {
        byId('block').addEventListener('input', ({ target }) => {
            this.block = Number(target.value);
            this.update();
        });
        connectMap('attention', this);
        byId('every').open = matchMedia('(min-width: 56rem)').matches;
        byId('every').addEventListener('toggle', () => {
            if (state.selected?.crop) this.update();
        });
        byId('matrix').addEventListener('keydown', (event) => this.walk(event));
    },

    reset() {
        // In the last block one patch often dominates; a middle block shows more.
        this.block = config().depth >> 1;
        this.pinned = this.patch = -1;
        byId('block').max = config().depth - 1;
        byId('block').value = this.block;
        byId('matrix').style.setProperty('--blocks', config().depth);
        byId('matrix').style.setProperty('--heads', config().num_heads);
        byId('matrix').replaceChildren();
    },

    async update() {
        const photo = state.selected, { block, patch } = this, { depth } = config();
        const blocks = byId('every').open ? Array.from({ length: depth }, (_, i) => i) : [block];
        byId('block-value').textContent = block;
        const answers = await ask('attention', { key: photo.key, blocks, patch });
        if (!answers || photo !== state.selected || current !== 'attention') return;
        this.photo = photo;
        this.answer = [];                    // by block
        blocks.forEach((number, i) => { this.answer[number] = answers[i]; });
        this.paintHeads();
        this.paintLarge();
        if (byId('every').open) this.paintMatrix();
    },

    /** Connects a button to `head` (-1: the mean) of `block`, or of the chosen block by default. */
    connect(button, head, block) {
        const show = (what) => { this.hovered = what; this.paintLarge(); };
        const own = { head, get block() { return block ?? attention.block; } };
        for (const [name, what] of [['pointerenter', own], ['focus', own], ['pointerleave', null],
            ['blur', null]]) button.addEventListener(name, () => show(what));
        button.addEventListener('click', () => {
            this.pinned = head;
            if (own.block === this.block) {
                this.mark();
                return this.paintLarge();
            }
            this.block = byId('block').value = own.block;
            return this.update();
        });
    },

    paintHeads() {
        const { heads, mean } = this.answer[this.block];
        const names = ['Mean', ...heads.map((_, i) => `Head ${i}`)];
        const canvases = fillList(byId('heads'), names, (button, i) => this.connect(button, i - 1));
        [mean, ...heads].forEach((values, i) =>
            paint(canvases[i], this.photo, heatColours(values), { size: THUMB, whole: false }));
        this.mark();
    },

    paintMatrix() {
        const matrix = byId('matrix'), { depth, num_heads: count } = config();
        if (!matrix.children.length) {
            for (let i = 0; i < depth * count; i++) {
                const block = i % depth, head = Math.floor(i / depth);
                const button = iconButton(`Block ${block}, head ${head}`, element('canvas'));
                this.connect(button, head, block);
                matrix.append(button);
            }
        }
        [...matrix.children].forEach((button, i) => {
            const values = this.answer[i % depth].heads[Math.floor(i / depth)];
            paint(button.firstChild, this.photo, heatColours(values), { size: 56, whole: false });
        });
        this.mark();
    },

    /** Moves the focus by the arrow keys, because the Tab key stops only once in the matrix. */
    walk(event) {
        const { depth } = config(), buttons = [...byId('matrix').children];
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -depth, ArrowDown: depth }[event.key];
        const to = buttons[buttons.indexOf(document.activeElement) + step];
        if (!step) return;
        event.preventDefault();
        to?.focus();
    },

    mark() {
        [...byId('heads').querySelectorAll('button')].forEach((button, i) =>
            button.setAttribute('aria-pressed', i - 1 === this.pinned));
        const chosen = Math.max(this.pinned, 0) * config().depth + this.block;
        [...byId('matrix').children].forEach((button, i) => {
            button.setAttribute('aria-pressed', i === chosen && this.pinned >= 0);
            button.tabIndex = i === chosen ? 0 : -1;
        });
    },

    paintLarge() {
        const { head, block } = this.hovered ?? { head: this.pinned, block: this.block };
        if (!this.answer[block]) return;
        const { heads, mean } = this.answer[block], values = head < 0 ? mean : heads[head];
        const which = head < 0 ? `mean of ${counted(heads.length, 'head')}` : `head ${head}`;
        const text = `${fromText(this.patch, this.photo)}, block ${block}, ${which}`;
        paintMap('attention', this, values, { marked: this.patch, text });
    },
};

// --- rollout ---

const rollout = {
    patch: -1, cursor: -1, values: null, photo: null,

    start() {
        connectMap('rollout', this);
    },

    reset() {
        this.patch = -1;
    },

    async update() {
        const photo = state.selected, { patch } = this;
        const values = await ask('rollout', { key: photo.key, patch });
        if (!values || photo !== state.selected || current !== 'rollout') return;
        Object.assign(this, { values, photo });
        this.paintLarge();
    },

    paintLarge() {
        if (!this.values) return;
        const blocks = counted(config().depth, 'block');
        const text = `${fromText(this.patch, this.photo)}, through ${blocks}`;
        paintMap('rollout', this, this.values, { marked: this.patch, text });
    },
};

// --- tokens ---

/** Fills a select with its options: after the final norm, and after each block. */
function fillBlocks(select) {
    const blocks = Array.from({ length: config().depth }, (_, i) =>
        new Option(`after block ${i}`, String(i)));
    select.replaceChildren(new Option('of the output', ''), ...blocks.reverse());
}

const blockOf = (select) => (select.value === '' ? null : Number(select.value));

const tokens = {
    photo: null, colours: null,

    start() {
        byId('tokens-block').addEventListener('change', () => this.update());
        byId('foreground').addEventListener('change', () => this.update());
    },

    reset() {
        fillBlocks(byId('tokens-block'));
    },

    async update() {
        const photos = shownPhotos(), keys = photos.map(({ key }) => key);
        const block = blockOf(byId('tokens-block')), foreground = byId('foreground').checked;
        const answer = await ask('tokens', { keys, block, foreground });
        if (!answer || current !== 'tokens') return;
        this.paint(photos, answer);
    },

    paint([photo, ...others], { maps, explained }) {
        const third = (map, k) => map.subarray(k * map.length / 3, (k + 1) * map.length / 3);
        const ranges = [0, 1, 2].map((k) => rangeOf(...maps.map((map) => third(map, k))));
        const colours = maps.map((map) => componentColours(map, ranges));
        Object.assign(this, { photo, colours: colours[0] });
        this.paintLarge();
        paintOthers('tokens', others, others.map(({ name }) => name), colours.slice(1));
        const shares = explained.map((share) => `${(100 * share).toFixed(1)} %`).join(', ');
        byId('tokens-caption').textContent =
            `${photo.name}; the components explain ${shares} of the variance`;
    },

    paintLarge() {
        const canvas = byId('tokens-map');
        if (this.colours) paint(canvas, this.photo, this.colours, { box: canvas.parentElement });
    },
};

// --- similarity ---

const similarity = {
    patch: -1, cursor: -1, photo: null, answer: null, range: [0, 0],

    start() {
        byId('similarity-block').addEventListener('change', () => this.update());
        connectMap('similarity', this);
    },

    reset() {
        this.patch = -1;
        fillBlocks(byId('similarity-block'));
    },

    async update() {
        const photos = shownPhotos(), [photo, ...others] = photos;
        if (this.patch < 0) this.patch = middleOf(photo.crop);
        const keys = photos.map(({ key }) => key), block = blockOf(byId('similarity-block'));
        const answer = await ask('similarity', { keys, patch: this.patch, block });
        if (!answer || photo !== state.selected || current !== 'similarity') return;
        const range = rangeOf(...answer.maps), maps = answer.maps.slice(1);
        Object.assign(this, { photo, answer, range });
        this.paintLarge();
        const names = others.map(({ name }, i) => {
            const [least, largest] = rangeOf(maps[i]);
            return `${name}\n${least.toFixed(2)} to ${largest.toFixed(2)}`;
        });
        paintOthers('similarity', others, names, maps.map((map) => heatColours(map, range)));
    },

    paintLarge() {
        if (!this.answer) return;
        const { patch, maps } = this.answer;
        const text = `cosines to the patch at ${placeText(patch, this.photo.crop.columns)}`;
        paintMap('similarity', this, maps[0],
            { marked: patch, text, range: this.range, round: (value) => value.toFixed(2) });
    },

};

// --- positions ---

const positions = {
    kinds: null, answer: null, cursor: -1, place: -1,

    start() {
        byId('kind').addEventListener('change', () => this.update());
        byId('position-block').addEventListener('input', () => this.update());
        makeMap(byId('positions-map'), {
            grid: () => this.answer,
            at: (x, y) => {
                const { rows, columns } = this.answer;
                const row = Math.floor(y * rows), column = Math.floor(x * columns);
                const inside = row >= 0 && row < rows && column >= 0 && column < columns;
                return inside ? row * columns + column : -1;
            },
            moved: (place) => { this.cursor = place; this.paintLarge(); },
            chosen: (place) => { this.place = place; this.paintLarge(); },
        });
    },

    reset() {
        this.kinds = this.answer = null;
        this.place = -1;
        byId('position-block').max = config().depth - 1;
        byId('position-block').value = 0;
    },

    async update() {
        if (!this.kinds) {
            const kinds = await ask('kinds');
            if (!kinds) return;
            this.kinds = kinds;
            byId('kind').replaceChildren(...kinds.map((kind) => new Option(kind)));
        }
        if (!this.kinds.length) return showEmpty('This model has no positions.');
        const kind = byId('kind').value, block = Number(byId('position-block').value);
        const answer = await ask('positions', { kind, block });
        if (!answer || current !== 'positions') return;
        this.answer = answer;
        byId('position-block-value').textContent = block;
        byId('position-block-label').hidden = answer.block === undefined;
        this.paintLarge();
    },

    paintLarge() {
        if (!this.answer) return;
        const { rows, columns, kind, dim, values } = this.answer, n = rows * columns;
        const place = [this.cursor, this.place].find((one) => one >= 0) ?? middleOf(this.answer);
        const button = byId('positions-map'), canvas = byId('position-map');
        paintGrids(button.firstElementChild, this.answer, button, place);
        paintOne(canvas, this.answer, place, canvas.parentElement);
        button.setAttribute('aria-label', `Cosines of ${n} ${kind} positions`);
        byId('positions-caption').textContent =
            `${rows} x ${columns} ${kind} positions of ${dim} numbers`;
        const own = rangeOf(values.subarray(place * n, (place + 1) * n)).map((v) => v.toFixed(2));
        const text = `${placeText(place, columns)}; cosines ${own[0]} to ${own[1]}`;
        byId('position-caption').textContent = text;
        canvas.setAttribute('aria-label', text);
    },
};

// --- tabs ---

const views = { words, attention, rollout, tokens, similarity, positions };

/** Shows a message in place of a view; '' shows the view again. */
function showEmpty(text) {
    byId('views-empty').textContent = text;
    byId('views-empty').hidden = !text;
    for (const name of Object.keys(views)) {
        byId(`panel-${name}`).hidden = name !== current || Boolean(text);
    }
}

function update() {
    if (!state.model) return;
    const photo = state.selected;
    if (current === 'positions' || current === 'words') {
        showEmpty('');
    } else if (!photo?.view) {
        showEmpty('Choose a photo to see what the model looks at.');
        return;
    } else if (photo.ms === undefined) { // the photo is still being classified, or its
                                         // classification was cancelled
        if (!photo.classes) showEmpty(`This photo is not classified: ${photo.problem}.`);
        return;
    } else if (!photo.crop) {
        showEmpty('The patches of this model are not squares of the photo.');
        return;
    } else {
        showEmpty('');
    }
    views[current].update();
}

function open(name, focus = false) {
    current = name;
    for (const tab of byId('tabs').children) {
        const chosen = tab.id === `tab-${name}`;
        tab.setAttribute('aria-selected', chosen);
        tab.tabIndex = chosen ? 0 : -1;
        if (chosen && focus) tab.focus();
    }
    showEmpty(byId('views-empty').hidden ? '' : byId('views-empty').textContent);
    update();
}

function startTabs() {
    byId('tabs').addEventListener('click', ({ target }) => {
        if (target.id.startsWith('tab-')) open(target.id.slice(4));
    });
    byId('tabs').addEventListener('keydown', (event) => {
        const names = Object.keys(views).filter((name) => !byId(`tab-${name}`).hidden);
        const at = names.indexOf(current);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        open(names.at(to % names.length), true);
    });
}

/** Shows the tab for words if the model has a text encoder. Opens the tab if the model has no
 * classes of its own. */
function showWords(shown) {
    byId('tab-words').hidden = !shown;
    if (shown && !config().num_classes) open('words');
    else if (!shown && current === 'words') open('attention');
}

export function startViews(client) {
    engine = client;
    startTabs();
    for (const view of Object.values(views)) view.start();
    on('model', () => {
        for (const view of Object.values(views)) view.reset();
        showWords(state.model.words);
        update();
    });
    on('select', () => {
        similarity.patch = attention.patch = rollout.patch = -1;
        update();
    });
    on('photo', (photo) => { if (photo === state.selected) update(); });
    on('settled', () => { if (current === 'tokens' || current === 'similarity') update(); });
    const observer = new ResizeObserver(() => views[current].paintLarge());
    for (const box of byId('views').querySelectorAll('.map')) observer.observe(box);
}
