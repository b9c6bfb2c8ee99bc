// line.mjs - the best class of a photo, then the bits of its embedding, on one line.
import { classify, embed } from 'vit-h';

export async function lineOf(photo, options) {
    const [best] = await classify(photo, options);
    const vector = await embed(photo, options);
    const words = [...new Uint32Array(vector.buffer)];
    return [best.label, ...words.map((word) => word.toString(16).padStart(8, '0'))].join(' ');
}
