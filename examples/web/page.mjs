// page.mjs - starts the page: opens the model, takes files from any source, shows the progress.
// Each part of the page is a separate module; worker.mjs does all computing.
import { startCamera, stopStream } from './camera.mjs';
import { Client, Superseded } from './client.mjs';
import { startCompare } from './compare.mjs';
import { kindOf } from './files.mjs';
import { startModel } from './model.mjs';
import { addPhotos, startPhotos } from './photos.mjs';
import { recallLesson, startTeach, takeInto } from './teach.mjs';
import { byId, complain, emit, forgive, on, say, state } from './state.mjs';
import { startViews } from './views.mjs';
import { startWords } from './words.mjs';

/** The URLs are relative to the page. serve.mjs serves the files of both URLs. */
const BUNDLED = { url: 'model.vit', name: 'the bundled model' };
const EXAMPLE = 'cat.jpg';

const root = document.documentElement;
const asked = new URLSearchParams(location.search);  // ?threads=1&module=simd

// --- progress ---

function showWork(busy, progress) {
    if (root.dataset.state !== 'error' || busy) {
        root.dataset.state = !state.model ? 'loading' : busy ? 'busy' : 'ready';
    }
    byId('cancel').hidden = byId('progress').hidden = !busy;
    if (progress) showProgress(progress);
    else if (!busy) showProgress({ text: '' });
}

/** Shows text that a screen reader may skip; say() announces important messages. */
function showProgress({ text, done, total }) {
    byId('doing').textContent = text;
    if (total) Object.assign(byId('progress'), { max: total, value: done });
    else byId('progress').removeAttribute('value');
}

// --- the model ---

let source = null;               // of the open model

function optionsOf(from) {
    const threads = Number(asked.get('threads')) || undefined;
    const module = asked.get('module') ?? state.model?.module; // saves a search for modules
    return { source: from.file ?? new URL(from.url, location.href).href, threads, module };
}

/** Opens the model { url or file, name, taught, wordless }. If the model cannot be read, the
 * previous model stays open. */
async function openModel(from) {
    forgive();
    say(`Opening ${from.name}`);
    try {
        state.model = await engine.ask('open', optionsOf(from));
    } catch (error) {
        say(state.model ? 'Ready' : 'No model is open');
        if (!state.model) byId('bundled').hidden = false;
        if (error instanceof Superseded) {
            if (!state.model) complain('No model is open. Open the bundled one, or yours.');
            return false;
        }
        complain(`${from.name} cannot be opened: ${error.message}.`);
        return false;
    }
    source = from;
    state.modelName = from.name;
    state.taught = Boolean(from.taught);
    state.wordless = Boolean(from.wordless);
    state.naming = null;
    root.dataset.state = 'ready';
    say('Ready');
    showThreads();
    emit('model');
    return true;
}

const moduleText = { relaxed: 'relaxed SIMD', simd: 'SIMD', scalar: 'without SIMD, so slower' };

function showThreads() {
    const { threads, module } = state.model;
    const alone = threads === 1 && !globalThis.crossOriginIsolated;
    byId('threads').textContent = `${threads} thread${threads > 1 ? 's' : ''}`
        + `${alone ? ' (the page is not isolated)' : ''}, ${moduleText[module] ?? module}`;
}

/** Gives a replacement worker the model and the photos. */
function restore() {
    const list = state.photos.map(({ key, name, file }) => ({ key, name, file }));
    if (source) engine.ask('open', optionsOf(source)).catch(() => {});
    engine.ask('know', { list }, { first: true }).catch(() => {});
    if (source && state.naming) engine.ask('name', state.naming).catch(() => {});
}

function cancel() {
    stopStream();
    engine.cancel();
    say('Cancelled');
}

// --- files ---

/**
 * Takes any combination of photos, a model, and a checkpoint with its labels and configuration.
 * Other files in a folder are ignored.
 */
async function takeFiles(files, inFolder = false) {
    const given = { photo: [], model: [], checkpoint: [], beside: [], labels: [], config: [],
        other: [] };
    for (const file of files) given[await kindOf(file)].push(file);
    if (inFolder && given.other.length < files.length) given.other = [];
    if (given.model.length) await openModel({ file: given.model[0], name: given.model[0].name });
    if (given.model.length > 1) {
        complain(`Opened the first of ${given.model.length} models: ${given.model[0].name}.`);
    }
    if (inFolder && !given.checkpoint.length) given.beside = given.labels = given.config = [];
    if (['checkpoint', 'beside', 'labels', 'config'].some((kind) => given[kind].length)) {
        emit('checkpoint', given);
    }
    if (given.photo.length) {
        stopStream();
        await addPhotos(given.photo);
    }
    if (given.other.length) {
        const names = given.other.map(({ name }) => name || 'the pasted file').join(', ');
        complain(`${names}: neither a photo nor a model. Photos are JPEG, PNG and what else this `
            + 'browser decodes; models are .vit files or checkpoints: .safetensors, .pth, .pt, '
            + '.bin, .npz.');
    }
}

/** Reads dropped folders, in the order of the names. */
async function takeDropped(transfer, take = takeFiles) {
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.());
    if (!entries.some((entry) => entry?.isDirectory)) return take([...transfer.files]);
    const files = [];
    const byName = (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true });
    const walk = async (entry) => {
        if (entry.isFile) {
            files.push(await new Promise((done, fail) => { entry.file(done, fail); }));
            return;
        }
        const reader = entry.createReader(), all = [];
        for (;;) {
            const some = await new Promise((done, fail) => { reader.readEntries(done, fail); });
            if (!some.length) break;
            all.push(...some);
        }
        for (const one of all.sort(byName)) if (!one.name.startsWith('.')) await walk(one);
    };
    try {
        for (const entry of entries.filter(Boolean)) await walk(entry);
    } catch (error) {
        return complain(`The folder cannot be read: ${error.message}.`);
    }
    if (!files.length) return complain('There are no files in that folder.');
    return take(files, true);
}

async function fetchExample() {
    const response = await fetch(EXAMPLE);
    if (!response.ok) throw new Error(`HTTP status ${response.status}`);
    return new File([await response.blob()], EXAMPLE);
}

/** Opens the model learnt in an earlier visit, or the bundled one, and shows the example. */
async function openFirst() {
    const example = fetchExample().catch(() => null);
    const learnt = await recallLesson();
    const opened = (learnt && await openModel(learnt)) || await openModel(BUNDLED);
    const file = await example;
    if (opened && file && !state.photos.length && !state.live) addPhotos([file], true);
}

function startDropping() {
    let depth = 0;
    const show = (step) => {
        depth = step ? depth + step : 0;
        document.body.classList.toggle('dropping', depth > 0);
    };
    addEventListener('dragenter', (event) => { event.preventDefault(); show(1); });
    addEventListener('dragleave', () => show(-1));
    addEventListener('dragover', (event) => event.preventDefault());
    addEventListener('drop', (event) => {
        event.preventDefault();
        show(0);
        const box = Number(event.target.closest?.('[data-box]')?.dataset.box);
        takeDropped(event.dataTransfer, box ? (files) => takeInto(box, files) : takeFiles);
    });
    addEventListener('paste', (event) => {
        const files = [...event.clipboardData?.files ?? []];
        if (files.length) takeFiles(files);
    });
}

function startChoosing() {
    for (const [button, input] of [['choose', 'photo-files'], ['open-model', 'model-files']]) {
        byId(button).addEventListener('click', () => byId(input).click());
        byId(input).addEventListener('change', ({ target }) => {
            takeFiles([...target.files]);
            target.value = '';
        });
    }
    byId('add-photos').addEventListener('click', () => byId('photo-files').click());
    byId('example').addEventListener('click', async () => {
        try {
            takeFiles([await fetchExample()]);
        } catch (error) {
            complain(`The example cannot be loaded: ${error.message}.`);
        }
    });
    byId('bundled').addEventListener('click', () => openModel(BUNDLED));
    byId('cancel').addEventListener('click', cancel);
}

// --- start ---

const engine = new Client(showWork);
engine.restore = restore;

on('progress', showProgress);
on('settled', () => { if (state.model && !state.selected?.classes) say('Ready'); });
startPhotos(engine);
startViews(engine);
startWords(engine);
startCompare(engine);
startCamera(engine);
startModel(engine, { openModel, cancel, bundled: BUNDLED });
startTeach(engine, { openModel, bundled: BUNDLED });
startDropping();
startChoosing();

if (typeof WebAssembly !== 'object') {
    complain('This browser has no WebAssembly, which this page needs. Current versions of all '
        + 'browsers have WebAssembly; a setting may have turned it off.');
} else {
    openFirst();
}
