// browser_worker.mjs - a runtime in a worker of a page, for browser.mjs: opens a model, then runs
// it repeatedly on the same values.
const SIDE = 224;

/** The input [3, 224, 224] is a pattern from -1.5 to 1.5, which needs no file. */
const input = new Float32Array(3 * SIDE * SIDE);
for (let i = 0; i < input.length; i++) input[i] = (i % 44) / 22 - 1 + ((i % 1885) / 1885 - 0.5);

const runtimes = {
    async 'vit.h'({ dtype, threads }) {
        const { Model } = await import('/vit/vit.mjs');
        const model = await Model.open(`/models/${dtype}.vit`, { threads });
        return { run: () => model.run(input, { logits: true }).logits, about: model.module };
    },

    async 'onnxruntime-web'({ dtype, threads }) {
        const ort = await import('/ort/ort.wasm.min.mjs');
        ort.env.wasm.wasmPaths = '/ort/';
        ort.env.wasm.numThreads = threads;
        const session = await ort.InferenceSession.create(`/models/${dtype}.onnx`, {
            executionProviders: ['wasm'], graphOptimizationLevel: 'all',
        });
        const image = new ort.Tensor('float32', input, [1, 3, SIDE, SIDE]);
        const run = async () => (await session.run({ [session.inputNames[0]]: image }, ['logits']))
            .logits.data;
        return { run, about: ort.env.versions.web };
    },
};

let runtime = null;

onmessage = async ({ data }) => {
    try {
        runtime ??= await runtimes[data.runtime](data);
        const start = performance.now();
        const logits = await runtime.run();
        const ms = performance.now() - start;
        postMessage({ ms, about: runtime.about, logits: Float32Array.from(logits) });
    } catch (error) {
        postMessage({ error: error.message });
    }
};
