// model.mjs - shows the model's card with the lines of vit-info, and a form for checkpoints.
// vit-convert, compiled to WebAssembly, converts the checkpoint. The form has fields for settings
// that the files do not contain.
import { Superseded } from './client.mjs';
import { byId, complain, element, emit, forgive, on, say, sizeText, state } from './state.mjs';

const TEXT_TOWER = /^vit-convert: dropped .* of a text tower/m; // convert.wasm drops it

let engine = null;
let page = null;

// --- the card ---

const sides = {
    center: 'the shorter side, then the centre',
    border: 'the longer side, the rest filled with the mean',
    squash: 'both sides',
    aspect: 'to whole patches, at its own aspect ratio',
};
const list = (numbers) => numbers.map((value) => Number(value.toPrecision(6))).join(', ');

/** Splits lines of "key: value". */
const linesOf = (text) => text.trim().split('\n').filter(Boolean).map((line) => {
    const at = line.indexOf(': ');
    return at < 0 ? ['', line] : [line.slice(0, at), line.slice(at + 2)];
});

/** Returns the input size and the number of patches, as texts, of a model that keeps each photo's
 * aspect ratio. */
function anySizes({ patch_size: size, crop_rounding: rounding, resize_height, resize_width }) {
    const most = Math.floor(resize_height / size) * Math.floor(resize_width / size);
    return { sides: 'any height x any width',
             patches: rounding === 2 ? 'any number of' : `at most ${most}` };
}

function architecture({ config: c, options, preprocessing: { crop_mode: mode } }) {
    const any = mode === 'aspect' ? anySizes(c) : null;
    const { patch_size: size, norm_eps: eps } = c;
    const mlp = c.mlp_dim ? `MLP of ${c.mlp_dim}` : 'no MLP';
    const attention = c.attention === 0 ? `${c.num_heads} heads of ${c.head_dim}, ` : '';
    const patches = state.model.grid?.join(' x ') ?? c.num_patches;
    const extra = (c.has_cls_token ? ', cls_token' : '') + (c.has_dist_token ? ', dist_token' : '');
    return [
        ['input', `${c.in_chans} x ${any?.sides ?? `${c.img_height} x ${c.img_width}`} ` +
            '(channels, height, width)'],
        ['tokens', `${any?.patches ?? `${c.num_tokens}: ${patches}`} patches of ` +
            `${size} x ${size}${extra}`],
        ['blocks', `${c.depth} of width ${c.embed_dim}: ${attention}${mlp}`],
        ['classes', c.num_classes || 'none: gives embeddings'],
        ['options', options || 'none: a plain ViT'],
        ['norm_eps', eps < 1e-4 ? eps.toExponential().replace(/-(.)$/, '-0$1') : eps],
        ['attn_scale', Number(c.attn_scale.toPrecision(9))],
    ];
}

function preprocessing({ preprocessing: p }) {
    return [
        ['resize', `to ${p.resize.join(' x ')}, ${p.interpolation}: ${sides[p.crop_mode] ?? ''}`],
        ['crop', `${p.crop_mode}, ${p.crop.join(' x ')}`],
        ['mean', list(p.mean)],
        ['std', list(p.std)],
    ];
}

function sizes({ bytes, isa }) {
    const { file, session, ...types } = bytes;
    return [
        ['file', sizeText(file)],
        ...Object.entries(types).filter(([, size]) => size)
            .map(([type, size]) => [`tensors in ${type}`, sizeText(size)]),
        ['session', `${sizeText(session)} for one image at a time`],
        ['runs on', `${isa}, ${byId('threads').textContent}`],
    ];
}

function names({ num_labels, num_synsets }, labels) {
    const shown = labels.length > 1 ? `: "${labels[0]}" ... "${labels.at(-1)}"` : '';
    return [
        ['labels', num_labels ? num_labels + shown : 'none'],
        ['synsets', num_synsets || 'none'],
    ];
}

function group(title, rows) {
    const terms = rows.flatMap(([name, value]) =>
        [element('dt', {}, name), element('dd', {}, String(value))]);
    return element('section', {}, element('h3', {}, title), element('dl', {}, ...terms));
}

function showCard() {
    const { info, labels } = state.model;
    const assumed = info.assumed.map((text) =>
        text.match(/^(\w+)=([^=]*)$/)?.slice(1) ?? ['', text]);
    const parts = Object.entries(info.parameters.parts);
    const count = (value) => value.toLocaleString('en');
    byId('card').replaceChildren(
        group('Architecture', architecture(info)),
        group('Preprocessing', preprocessing(info)),
        group('Parameters', [...parts, ['total', info.parameters.total]]
            .map(([name, value]) => [name, count(value)])),
        group('Sizes', sizes(info)),
        group('Labels', names(info, labels)),
        group('Provenance', linesOf(info.source).filter(([key]) => key !== 'assumed')),
        ...(assumed.length ? [group('Assumed', assumed)] : []),
    );
    byId('model-title').textContent = byId('model-title').title = `Model: ${state.modelName}`;
    const { depth, num_classes: classes } = info.config;
    const { total } = info.parameters, millions = `${(total / 1e6).toFixed(1)} M`;
    byId('model-facts').textContent = [`${total < 1e5 ? count(total) : millions} parameters`,
        `${depth} blocks`, `${classes || 'no'} classes`, sizeText(info.bytes.file)].join(', ');
    byId('bundled').hidden = state.modelName === page.bundled.name;
}

// --- a checkpoint ---

let files = [];                     // files given to the form
let findings = [];                  // questions and assumptions of vit-convert --json

/** Returns a field for a setting, with its possible values and the suggested or assumed value. */
function fieldOf({ setting, value, type, choices, suggested, id }) {
    if (type === 'word' || type === 'flag') {
        const unchanged = new Option(value ? `${value}, as assumed` : 'choose', '');
        const options = choices.filter((choice) => choice.value !== value).map((choice) =>
            new Option(choice.value + (choice.note ? `: ${choice.note}` : ''), choice.value));
        const made = element('select', { id }, unchanged, ...options);
        made.value = suggested ?? '';
        return [made];
    }
    const hints = choices.map((choice) => new Option(choice.note ?? '', choice.value));
    const made = element('input', { id, value: suggested ?? '', placeholder: value ?? '',
        name: setting, autocomplete: 'off', spellcheck: false });
    made.setAttribute('list', `${id}-hints`);
    return [made, element('datalist', { id: `${id}-hints` }, ...hints)];
}

function findingList(title, some) {
    if (!some.length) return [];
    const rows = some.map((finding) => {
        const { setting, means, why, option } = finding;
        const field = option ? fieldOf(finding) : [];
        const label = element('label', {}, element('strong', {}, setting),
            ...(means ? [element('span', {}, means)] : []), ...field);
        return element('li', {}, label, element('p', { className: 'note' }, why));
    });
    return [element('h3', {}, title), element('ul', { className: 'findings' }, ...rows)];
}

/** Returns the file of this kind whose name matches `name`, or else the first file of this kind. */
function likeliest(kind, name) {
    const some = files.filter((file) => file.kind === kind);
    return some.find((file) => name.test(file.name)) ?? some[0];
}

/** Returns the arguments of vit-convert from the form's fields. */
function argumentsOf() {
    const args = ['--dtype', byId('dtype').value];
    const arch = byId('arch').value.trim();
    if (arch) args.push('--arch', arch);
    const labels = likeliest('labels', /label|class|synset|word/i);
    if (labels) args.push('--labels', labels.name);
    const config = likeliest('config', /^config\.json$/i);
    if (config) args.push('--config', config.name);
    for (const { option, prefix, id } of findings) {
        const value = byId(id)?.value.trim();
        if (value) args.push(option, prefix + value);
    }
    const more = byId('more').value.match(/'[^']*'|"[^"]*"|[^\s'"]+/g) ?? [];
    args.push(...more.map((word) => word.replace(/^(['"])(.*)\1$/, '$2')));
    return args;
}

/** Rebuilds the form, and keeps the user's choices. */
function showForm({ problem, wrong = [], questions = [], assumed = [], converted, wordless } = {}) {
    const given = new Map(findings.map(({ setting, id }) => [setting, byId(id)?.value]));
    const found = [...questions, ...assumed].filter(({ option }) => option !== '--arch');
    const answered = findings.filter(({ setting }) =>
        given.get(setting) && !found.some((other) => other.setting === setting));
    findings = [...found, ...answered];
    findings.forEach((finding, i) => {
        finding.id = `setting-${i}`;
        finding.suggested = given.get(finding.setting) || finding.suggested;
    });
    const rowsOf = (some) => findings.filter((finding) => some.includes(finding));
    const problems = wrong.map(({ what, advice }) =>
        element('li', {}, advice ? `${what}; ${advice}` : what));
    byId('given').textContent = `${files.map(({ name }) => name).join(', ')}: `
        + 'read on this machine, nothing is uploaded.';
    byId('questions').replaceChildren(
        ...(problem ? [element('pre', { role: 'alert' }, problem)] : []),
        ...(problems.length ? [element('h3', {}, 'Wrong'),
            element('ul', { className: 'wrong' }, ...problems)] : []),
        ...findingList('Missing from the files', rowsOf(questions)),
        ...(converted ? [reportOf(converted, wordless)] : []),
        ...findingList('Answered', answered),
        ...findingList('Assumed: change what is wrong, and convert again', rowsOf(assumed)),
    );
    const again = byId('convert').querySelector('[type=submit]');
    again.textContent = converted ? 'Convert again' : 'Convert';
    again.classList.toggle('main', !converted);
    byId('close-converter').classList.toggle('main', Boolean(converted));
    byId('questions').scrollTop = 0;
    if (!byId('converter').open) byId('converter').showModal();
}

function reportOf(report, wordless) {
    const { container, layout, architecture: name, dtype, bytes, parameters } = report;
    const { labels, dropped = [], notes = [] } = report;
    const words = wordless ? [['words', 'none: this page converts models without their text encoders. '
        + 'The program vit-convert keeps them; drop the file that it writes here']] : [];
    const made = group('Converted, and open', [
        ['read', `${container}, ${layout}`],
        ...(name ? [['architecture', name]] : []),
        ['parameters', parameters.total.toLocaleString('en')],
        ['labels', labels || 'none'],
        ['written', `${sizeText(bytes)} in ${dtype}`],
        ...words,
        ...(dropped.length ? [['dropped', dropped.join(', ')]] : []),
        ...notes.map((note) => ['note', note]),
    ]);
    made.className = 'done';
    return made;
}

/** Cancels a conversion when the form is closed. The page's own button for cancelling is out of
 * reach, because the form covers the page. */
function closeForm() {
    if (!byId('converting').hidden) page.cancel();
    files = [];
    findings = [];
    byId('convert').reset();
}

async function convert(event) {
    event.preventDefault();
    forgive();
    const args = argumentsOf();
    say('Converting');
    byId('converting').hidden = false;
    try {
        const given = files.map(({ name, file }) => ({ name, file }));
        await showResult(await engine.ask('convert', { files: given, args }));
    } catch (error) {
        if (error instanceof Superseded) return;
        showForm({ problem: `It cannot be converted: ${error.message}.` });
        say('Not converted');
    } finally {
        byId('converting').hidden = true;
    }
}

async function showResult({ status, report, output, name, stderr }) {
    if (output) {
        const wordless = TEXT_TOWER.test(stderr);
        showForm({ assumed: report.assumed, converted: report, wordless });
        offer(output, name);
        await page.openModel({ file: new Blob([output]), name, wordless });
        return;
    }
    const said = stderr.replace(/^vit-convert: /gm, '').trim()
        || (status ? 'The converter failed.' : 'Nothing was written.');
    const { questions = [], wrong = [] } = report ?? {};
    showForm({ ...report, problem: questions.length || wrong.length ? null : said });
    say(questions.length ? 'Settings are missing' : 'Not converted');
    (byId('questions').querySelector('.findings input, .findings select') ?? byId('arch')).focus();
}

let offered = null;

function offer(output, name) {
    if (offered) URL.revokeObjectURL(offered);
    offered = URL.createObjectURL(new Blob([output]));
    Object.assign(byId('download'), { href: offered, download: name, hidden: false,
        title: `${name}, ${sizeText(output.byteLength ?? output.size)}` });
}

/** Takes the given files. A checkpoint starts a new conversion. Without one, labels and
 * configurations join the current conversion. */
function take(given) {
    const kinds = ['checkpoint', 'beside', 'labels', 'config'];
    const fresh = kinds.flatMap((kind) =>
        given[kind].map((file) => ({ kind, file, name: file.name })));
    forgive();
    const has = files.some(({ kind }) => kind === 'checkpoint');
    if (given.checkpoint.length) {
        files = [];
        findings = [];
    } else if (!has) {
        complain(`${fresh[0].name}: labels and settings belong to a checkpoint; give both.`);
        return;
    }
    files = [...files.filter(({ name, kind }) => !fresh.some((other) => other.name === name
        || (kind === other.kind && ['labels', 'config'].includes(kind)))), ...fresh];
    showForm();
    say('A checkpoint: convert it to use it');
    byId('arch').focus();
}

export function startModel(client, given) {
    engine = client;
    page = given;
    on('model', showCard);
    on('checkpoint', take);
    byId('convert').addEventListener('submit', convert);
    byId('add-files').addEventListener('click', () => byId('model-files').click());
    byId('details').addEventListener('click', ({ target }) => {
        byId('card').hidden = !byId('card').hidden;
        target.setAttribute('aria-expanded', !byId('card').hidden);
    });
    byId('close-converter').addEventListener('click', () => byId('converter').close());
    byId('converter').addEventListener('close', closeForm);
}
