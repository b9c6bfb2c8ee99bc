#!/usr/bin/env node
// cli.mjs - the program vit-h, which prints classes and embeddings of photos.
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { open, photoOf } from './index.mjs';

const usage = `usage: vit-h classify [--top K] [--json] PHOTO...
       vit-h embed PHOTO...
       vit-h info

  --model MODEL   a .vit file or its URL; by default the bundled model of CIFAR-10's classes
  --threads N     by default one for each core, up to 8
  --top K         how many classes are printed; by default 5
  --json          a line of JSON for each photo

PHOTO is a path or URL of a JPEG, PNG, BMP, GIF, TGA, PGM or PPM file. \`embed\` prints a line of
JSON for each photo; \`info\` prints a line of JSON about the model.`;

class Usage extends Error {}

function count(text, name) {
    if (text === undefined) return undefined;
    if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
    throw new Usage(`--${name}: expected a number from 1 on, found '${text}'`);
}

function parse(args) {
    const text = { type: 'string' };
    const options = { model: text, threads: text, top: text, json: { type: 'boolean' },
                      help: { type: 'boolean', short: 'h' }, version: { type: 'boolean' } };
    let parsed;
    try {
        parsed = parseArgs({ args, options, allowPositionals: true });
    } catch (error) {
        throw new Usage(error.message);
    }
    const { values, positionals: [command, ...photos] } = parsed;
    if (values.help || values.version) return values;
    if (!Object.hasOwn(commands, command ?? '')) {
        throw new Usage(command ? `there is no command '${command}'` : 'expected a command');
    }
    if (command === 'info' ? photos.length : !photos.length) {
        throw new Usage(`${command}: expected ${command === 'info' ? 'no photo' : 'a photo'}`);
    }
    return { ...values, command, photos, threads: count(values.threads, 'threads'),
             top: count(values.top, 'top') };
}

const shown = ({ index, label, score }) =>
    `${(100 * score).toFixed(1).padStart(5)} %  ${label ?? `class ${index}`}`;

const commands = {
    classify(model, file, photo, { top, json, photos }) {
        const classes = model.classify(photo, top);
        if (json) return [JSON.stringify({ file, classes })];
        return [...(photos.length > 1 ? [file] : []), ...classes.map(shown)];
    },

    /** Prints nine digits of each number, which keep all bits of a float. */
    embed(model, file, photo) {
        const { embedding } = model.run(photo, { embedding: true });
        const numbers = Array.from(embedding, (x) => Number(x.toPrecision(9)));
        return [JSON.stringify({ file, embedding: numbers })];
    },

    info: null,
};

const reasonOf = (error, file) =>
    (error.message.startsWith(file) ? error.message : `${file}: ${error.message}`);

async function versionOf() {
    return JSON.parse(await readFile(new URL('package.json', import.meta.url), 'utf8')).version;
}

async function show(model, file, asked) {
    const lines = commands[asked.command](model, file, await photoOf(file), asked);
    for (const line of lines) console.log(line);
}

async function main() {
    const asked = parse(process.argv.slice(2));
    if (!asked.command) {
        console.log(asked.version ? await versionOf() : usage);
        return;
    }
    const model = await open(asked.model, { threads: asked.threads }).catch((error) => {
        throw new Error(reasonOf(error, asked.model ?? 'the bundled model'));
    });
    if (asked.command === 'info') console.log(JSON.stringify(model.info));
    for (const file of asked.photos) {
        await show(model, file, asked).catch((error) => {
            console.error(`vit-h: ${reasonOf(error, file)}`);
            process.exitCode = 1;
        });
    }
    model.close();
}

main().catch((error) => {
    console.error(`vit-h: ${error.message}${error instanceof Usage ? `\n${usage}` : ''}`);
    process.exitCode = error instanceof Usage ? 2 : 1;
});
