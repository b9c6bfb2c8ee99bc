// single.mjs - page.mjs as a single file: a bundler includes the module and the model in this file.
import wasm from 'vit-h/vit/vit.wasm';
import model from 'vit-h/models/cifar10-vit.vit';
import { provide } from 'vit-h';
import { lineOf } from './line.mjs';

provide({ 'vit.wasm': wasm });
const line = await lineOf('cat.ppm', { model }).catch((error) => String(error));
document.body.textContent = line;
document.title = 'done';
