// vit.mjs - classify.wasm for JavaScript, in Node as in a web page.
//
//     const module = await WebAssembly.compileStreaming(fetch('classify.wasm'));
//     const classifier = await Classifier.open(module, vitBytes);
//     const [best] = classifier.classify(rgba, width, height, 1);
//     console.log(best.label, best.prob);
import { Pool } from './pool.mjs';

const isShared = (module) => WebAssembly.Module.imports(module).length > 0;

/** Views of the module's memory are made for each use: they break when it grows. */
export class Classifier {
    /**
     * The module compiled, the bytes of a .vit file, for a module with shared memory the number of
     * threads; throws an Error that says what is wrong.
     */
    static async open(module, bytes, threads = 1) {
        if (!isShared(module)) {
            if (threads > 1) throw new Error('the module has one thread');
            const { exports } = await WebAssembly.instantiate(module);
            return new Classifier(exports, exports.memory, bytes, 1);
        }
        const pool = await Pool.start(module, threads);
        try {
            return new Classifier(pool.instance.exports, pool.memory, bytes, threads, pool);
        } catch (error) {
            pool.close();
            throw error;
        }
    }

    constructor(exports, memory, bytes, threads, pool = null) {
        this.vit = exports;
        this.memory = memory;
        this.pool = pool;
        this.handle = this.vit.open(this.copy(bytes), bytes.length, threads);
        this.classes = 0;
        if (!this.handle) throw new Error('out of memory');
        this.check();
    }

    /** Gives the memory back and ends the workers; the object is of no use afterwards. */
    close() {
        this.vit.close(this.handle);
        this.handle = 0;
        this.pool?.close();
    }

    /** The k best classes of a photo, best first; a canvas has pixels in this form. */
    classify(rgba, width, height, k = 5) {
        if (rgba.length !== 4 * width * height) {
            throw new Error(`expected ${4 * width * height} bytes of pixels, found ${rgba.length}`);
        }
        const pixels = this.copy(rgba);
        this.classes = this.vit.classify(this.handle, pixels, width, height);
        this.vit.release(pixels);
        this.check();
        const length = Math.min(k, this.classes);
        return Array.from({ length }, (_, place) => this.prediction(place));
    }

    prediction(place) {
        const index = this.vit.index(this.handle, place);
        const label = this.text(this.vit.label(this.handle, place)) || `class ${index}`;
        return { index, label, prob: this.vit.prob(this.handle, place) };
    }

    /** Of the last photo, in the order of the classes: a copy. */
    logits() {
        const at = this.vit.logits(this.handle);
        return new Float32Array(this.memory.buffer, at, this.classes).slice();
    }

    /** The kernels in use: 'wasm-simd' or 'scalar'. */
    tier() {
        return this.text(this.vit.tier());
    }

    check() {
        const error = this.text(this.vit.error(this.handle));
        if (error) throw new Error(error);
    }

    copy(bytes) {
        const at = this.vit.allocate(bytes.length);
        if (!at) throw new Error(`no memory for ${bytes.length} bytes`);
        new Uint8Array(this.memory.buffer, at, bytes.length).set(bytes);
        return at;
    }

    text(at) {
        const bytes = new Uint8Array(this.memory.buffer, at);
        return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))); // it refuses shared ones
    }
}
