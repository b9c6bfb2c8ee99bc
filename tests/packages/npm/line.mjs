// line.mjs - returns one line with the best class of a photo and the bits of its embedding.
import { classify, embed } from 'vit-h';

export async function lineOf(photo, options) {
    const [best] = await classify(photo, options);
    const vector = await embed(photo, options);
    const words = [...new Uint32Array(vector.buffer)];
    return [best.label, ...words.map((word) => word.toString(16).padStart(8, '0'))].join(' ');
}
