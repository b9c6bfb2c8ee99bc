// page.mjs - writes lines into the body of a page: the line of cat.ppm twice, and once by each
// module; then the class of cat.jpg by its URL, as a Blob, an <img>, a canvas and its ImageData.
import { classify, open } from 'vit-h';
import { lineOf } from './line.mjs';

async function labelsOf() {
    const blob = await (await fetch('cat.jpg')).blob();
    const image = document.createElement('img');
    image.src = 'cat.jpg';
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
    const labels = [];
    for (const photo of ['cat.jpg', blob, image, canvas, pixels]) {
        labels.push((await classify(photo))[0].label);
    }
    return labels;
}

async function show() {
    const model = await open();
    const { module, threads } = model;
    const lines = [await lineOf('cat.ppm'), await lineOf('cat.ppm', { model })];
    for (const kind of ['scalar', 'simd', 'relaxed']) {
        lines.push(await lineOf('cat.ppm', { module: kind }));
    }
    return [...lines, (await labelsOf()).join(' '),
            `${module}, ${threads > 1 ? 'threads' : '1 thread'}`];
}

document.body.textContent = (await show().catch((error) => [String(error)])).join('\n');
document.title = 'done';
