// consumer.mts - what others write with the package in TypeScript. Under each @ts-expect-error is a
// call that must be refused.
import { classify, close, embed, open, photoOf, provide, Model, VitError } from 'vit-h';
import type { ClassifyOptions, ModelInfo, Photo, PhotoSource, Prediction } from 'vit-h';
import { Converter, type Converted } from 'vit-h/convert';
import { Learner } from 'vit-h/learn';
import { Words } from 'vit-h/words';

export async function first(photo: PhotoSource,
                            options: ClassifyOptions): Promise<Prediction | null> {
    const [best] = await classify(photo, { top: 1, threads: 2, ...options });
    return best ? { ...best, label: best.label ?? null } : null;
}

export async function similar(a: string | Blob, b: URL | Uint8Array): Promise<number> {
    const model: Model = await open('model.vit', { module: 'simd', onProgress: console.log });
    const photo: Photo = await photoOf(a);
    const wants = { embedding: true, blocks: [0], attention: true } as const;
    const { embedding, blocks } = model.run(photo, wants);
    const other: Float32Array = await embed(b, { model });
    const info: ModelInfo = model.info;
    if (model.hasText) (await Words.open(model)).close();
    await close();
    return info.num_labels + (blocks[0]?.attention.length ?? 0) + model.cosine(embedding, other);
}

export async function convert(file: Blob): Promise<Converted | string> {
    const converter = await Converter.open();
    provide({ 'vit.wasm': new URL('vit.wasm', 'https://localhost/') });
    const found = await converter.convert([{ name: 'model.safetensors', file }]);
    await (await Learner.open()).learn(file, [], ['--known=0.9']);
    return found.status === 0 ? found.report ?? 'no report' : found.stderr;
}

export async function wrong(error: unknown): Promise<void> {
    if (error instanceof VitError) console.log(error.result.toFixed());
    // @ts-expect-error: a photo is no number
    await classify(7);
    // @ts-expect-error: there is no such option
    await classify('cat.jpg', { count: 3 });
    // @ts-expect-error: an embedding has no options of classes
    await embed('cat.jpg', { top: 3 });
    // @ts-expect-error: there is no such module
    await open('model.vit', { module: 'avx2' });
    // @ts-expect-error: a label may be null
    (await classify('cat.jpg'))[0]!.label.length;
    // @ts-expect-error: pixels have a width and a height
    await classify({ data: new Uint8Array(3) });
}
