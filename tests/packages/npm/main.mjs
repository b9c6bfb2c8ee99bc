// main.mjs PHOTO - prints the line of a photo, if its path, bytes, Blob, URL and pixels give the
// same line. Then prints the errors for files that are not photos or models, and the results of the
// other modules. Runs in Node, Deno and Bun.
import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { classify, close, open, photoOf } from 'vit-h';
import { lineOf } from './line.mjs';

const [photo] = process.argv.slice(2);
const bytes = new Uint8Array(await readFile(photo));
const ways = {
    path: photo, bytes, url: pathToFileURL(photo), blob: new Blob([bytes], { type: 'image/jpeg' }),
    buffer: bytes.slice().buffer, pixels: await photoOf(photo),
    response: await photoOf(new Response(bytes)),
    data: `data:image/jpeg;base64,${Buffer.from(bytes).toString('base64')}`,
};
const lines = new Map();
for (const [way, source] of Object.entries(ways)) {
    const line = await lineOf(source);
    lines.set(line, [...lines.get(line) ?? [], way]);
}
const model = await open(undefined, { threads: 2 });
const { module, threads } = model;
lines.set(await lineOf(bytes, { model }), ['two threads']);
console.log(lines.size === 1 && threads === 2 ? [...lines.keys()][0]
    : `${module}, ${threads} threads: ${[...lines.values()].join('; ')}`);
model.close();

/** Returns the class by a model that was converted twice, and the length of a text's vector. */
async function convert() {
    const { Converter } = await import('vit-h/convert');
    const { Words } = await import('vit-h/words');
    const converter = await Converter.open();
    const to = async (name, file, args) => {
        const { output, stderr } = await converter.convert([{ name, file }], args);
        return output ?? Promise.reject(new Error(stderr));
    };
    const bundled = await readFile('node_modules/vit-h/models/cifar10-vit.vit');
    const weights = await to('model.vit', bundled, ['--to', 'safetensors']);
    const converted = await to('model.safetensors', weights, ['--dtype', 'int8']);
    const [best] = await classify(photo, { model: converted });
    const both = await open();
    const words = await Words.open(both);
    const { length } = words.embed('a cat').embedding;
    words.close();
    both.close();
    return `class ${best.index}, ${length} numbers`;
}

const reason = (promise) => promise.then(() => 'nothing thrown',
                                         ({ name, message }) => `${name}: ${message}`);
console.log(await reason(classify(bytes.subarray(0, 3000))));
console.log(await reason(classify('none.jpg')));
console.log(await reason(classify(bytes, { model: bytes })));
console.log(await reason(classify(7)));
console.log(await convert());
await close();
