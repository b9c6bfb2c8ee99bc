// wasm_compare.mjs - compares WebAssembly's logits with native builds' logits.
//
//     node tests/wasm_compare.mjs KIND MODEL.vit SAME.txt NEAR.txt TOLERANCE [THREADS]
//
// SAME and NEAR are outputs of wasm_reference. SAME comes from a build without fused multiply-add,
// so WebAssembly must give the same bits. NEAR comes from a build with fused multiply-add.
// WebAssembly's logits must agree with NEAR to within TOLERANCE of the largest logit, and the best
// class must be the same. The last line is "N passed, N failed".
import { readFileSync } from 'node:fs';
import { readPpm } from '../examples/web/vit/ppm.mjs';
import { Model } from '../examples/web/vit/vit.mjs';
import { check, summary } from './checks.mjs';

const [kind, path, same, near, tolerance, threads = '1'] = process.argv.slice(2);

/** Returns [file, logits] of each line. */
function read(path) {
    const lines = readFileSync(path, 'latin1').trim().split('\n');
    return lines.map((line) => {
        const [file, ...words] = line.split(' ');
        const bits = Uint32Array.from(words, (word) => parseInt(word, 16));
        return [file, new Float32Array(bits.buffer)];
    });
}

const largest = (numbers) => numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
const bestOf = (logits) => logits.indexOf(Math.max(...logits));

const references = read(near);
const model = await Model.open(path, { module: kind, threads: Number(threads) });
check(model.threads === (kind === 'scalar' ? 1 : Number(threads)), `${model.threads} threads`);
let worst = 0;
read(same).forEach(([file, wanted], number) => {
    const photo = readPpm(readFileSync(file));
    const best = model.classify(photo, Infinity);
    const { logits } = model.run(photo, { logits: true });
    const fused = references[number][1];
    const error = largest(logits.map((x, i) => x - fused[i])) / largest(fused);
    const sum = best.reduce((total, { score }) => total + score, 0);
    worst = Math.max(worst, error);
    check(wanted.length > 1 && logits.length === wanted.length, `${file}: number of classes`);
    check(logits.every((x, i) => Object.is(x, wanted[i])), `${file}: other bits`);
    check(error <= Number(tolerance), `${file}: ${error} from the native logits`);
    check(best[0].index === bestOf(fused), `${file}: another class`);
    check(Math.abs(sum - 1) < 1e-5, `${file}: probabilities add up to ${sum}`);
});
console.log(`${kind} (${model.info.isa}, ${threads} threads), ${path}: ` +
            `${references.length} pictures, at most ` +
            `${worst.toExponential(1)} from the native logits`);
summary();
