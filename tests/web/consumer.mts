// consumer.mts - what others write with vit.mjs, convert.mjs, learn.mjs and words.mjs in TypeScript;
// types.mjs compiles it in strict mode. Under each @ts-expect-error is a call that must be refused.
import { Model, VitError, type Prediction, type Wants } from '../../examples/web/vit/vit.mjs';
import { Converter, type Converted } from '../../examples/web/vit/convert.mjs';
import { Learner, type LearnPhoto } from '../../examples/web/vit/learn.mjs';
import { Words, type TextEmbedding } from '../../examples/web/vit/words.mjs';

export async function first(photo: ImageData, path: URL): Promise<Prediction | null> {
    const model = await Model.open(path, { threads: 2, module: 'simd', onProgress: console.log });
    const [best] = model.classify(photo);
    const { blocks } = model.run(photo, { blocks: [0], attention: true });
    const map: Float32Array = blocks[0]?.attention ?? model.rollout(photo, { patch: 1 });
    model.close();
    return best && map.length ? { ...best, label: best.label ?? model.labels[0] ?? null } : null;
}

/** The second example of README.md; and of other outputs. */
export function look(model: Model, photo: ImageData, wants: Wants): number {
    const { tokens, blocks } = model.run(photo, { tokens: true, blocks: [6], attention: true });
    const { embedding } = model.run(photo, { embedding: true, logits: false });
    const inner = model.run(photo, { blocks: [0, 1] }).blocks.map((block) => block.tokens);
    const perhaps: Float32Array | undefined = model.run(photo, wants).logits;
    return tokens.length + model.cosine(embedding, embedding) + inner.length +
        blocks.reduce((sum, { attention }) => sum + attention.length, perhaps?.length ?? 0);
}

export async function convert(file: File): Promise<Converted | null> {
    const converter = await Converter.open();
    const { status, report, output } = await converter.convert([{ name: file.name, file }], []);
    if (output) await Model.open(output);
    return status === 0 ? report : null;
}

export async function learn(model: Model, photos: LearnPhoto[]): Promise<Model | string> {
    const learner = await Learner.open();
    const { report, output, stderr } = await learner.learn(model.file(), photos, ['--add']);
    return report ? Model.open(output) : stderr;
}

export async function name(model: Model, photo: ImageData, names: string[]): Promise<number[]> {
    if (!model.hasText) return [];
    const words = await Words.open(model);
    const texts: TextEmbedding[] = names.map((one) => words.embedIn(one, ['a photo of {}']));
    const { embedding } = model.run(photo, { embedding: true });
    const scores = words.scores(words.logits(embedding, texts.map((text) => text.embedding)));
    words.close();
    return [...scores, model.cosine(embedding, words.embed('a dog').embedding)];
}

export async function wrong(model: Model, photo: ImageData, error: unknown): Promise<void> {
    if (error instanceof VitError) console.log(error.result.toFixed(), error.resultString);
    // @ts-expect-error: no source is a number
    await Model.open(7);
    // @ts-expect-error: there is no such module
    await Model.open('model.vit', { module: 'avx2' });
    // @ts-expect-error: a photo has pixels
    model.classify({ width: 1, height: 1 });
    // @ts-expect-error: there is no such format
    model.preprocess({ width: 1, height: 1, data: new Uint8Array(3), format: 'rgb' });
    // @ts-expect-error: a label may be null
    model.classify(new Float32Array(3))[0]!.label.length;
    // @ts-expect-error: not asked for
    model.run(photo, { logits: true }).embedding.length;
    // @ts-expect-error: not asked for, as there is attention
    model.run(photo, { blocks: [0], attention: true }).blocks[0]!.tokens.length;
    // @ts-expect-error: misspelt
    model.run(photo, { logits: true, block: [0] });
    // @ts-expect-error: models come from open()
    new Model();
    // @ts-expect-error: nobody sets it
    model.threads = 2;
    // @ts-expect-error: a photo has its classes
    await (await Learner.open()).learn(model.file(), [{ name: 'a', embedding: new Float32Array() }]);
    // @ts-expect-error: a text is a string
    (await Words.open(model)).embed(7);
    // @ts-expect-error: a file has a name
    await (await Converter.open()).convert([{ file: new Blob() }], []);
}
