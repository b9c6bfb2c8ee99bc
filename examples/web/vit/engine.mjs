// engine.mjs - an instance of the module: its memory, its threads, its failures.
import { countCores } from './features.mjs';
import { addressOf } from './load.mjs';
import { Pool, makeMemory } from './pool.mjs';

const LARGEST = 2 ** 32 - 2 ** 20; // largest request in bytes
const IO = -2;
const MEMORY = -3;

/** The error that vit.h or a tool reported. */
export class VitError extends Error {
    constructor(result, resultString, detail) {
        super(detail && detail !== resultString ? `${resultString}: ${detail}` : resultString);
        this.name = 'VitError';
        this.result = result;
        this.resultString = resultString;
    }
}

/** Each use makes new views of the memory, because views become invalid when the memory grows. */
export class Engine {
    /** base: the folder of thread.mjs. */
    static async start(module, threads, base) {
        if (threads === 1) {
            return Engine.alone(module, false).catch((error) => {
                if (!(error instanceof WebAssembly.LinkError)) throw error;
                return Engine.alone(module, true); // the caller's module has shared memory
            });
        }
        const pool = new Pool(module, threads, await countCores());
        const engine = new Engine(pool.instance.exports, pool.memory, pool);
        engine.base = base;
        return engine;
    }

    static async alone(module, shared) {
        const memory = makeMemory(shared);
        const { exports } = await WebAssembly.instantiate(module, {
            env: { memory },
            pool: { parallel_for: () => { throw new Error('there are no threads'); } },
        });
        return new Engine(exports, memory, null);
    }

    constructor(exports, memory, pool) {
        this.exports = exports;
        this.memory = memory;
        this.pool = pool;
    }

    /** Until the workers run, the caller computes alone. If the workers fail to start, the next
     * call throws an error. */
    startThreads() {
        this.pool?.start(addressOf('thread.mjs', this.base)).catch((error) => {
            this.threadless = error;
        });
    }

    /** Ends the workers; the memory is freed with the last reference. */
    close() {
        this.pool?.close();
        this.exports = this.memory = this.pool = null;
    }

    /** Returns a function's result. After an exception the instance is unusable. */
    call(name, ...parameters) {
        if (this.threadless) throw this.threadless;
        try {
            return this.exports[name](...parameters);
        } catch (error) {
            this.close();
            throw new Error(`the module has stopped in ${name}: ${error.message}`,
                            { cause: error });
        }
    }

    /** Calls a function, and returns its result. If this is 0, throws the module's message. */
    attempt(name, ...parameters) {
        const returned = this.call(name, ...parameters);
        if (returned === 0) throw this.failure();
        return returned;
    }

    failure() {
        return this.error(this.call('result'), this.text(this.call('message')));
    }

    error(result, detail) {
        return new VitError(result, this.text(this.call('result_string', result)), detail);
    }

    allocate(size) {
        const at = size <= LARGEST ? this.call('allocate', size) >>> 0 : 0;
        if (!at) throw this.error(MEMORY, `${size} bytes`);
        return at;
    }

    release(at) {
        if (this.exports) this.call('release', at);
    }

    /** Calls action(at) with the address of `size` bytes, which exist until the action returns. */
    borrow(size, action) {
        const at = this.allocate(size);
        try {
            return action(at);
        } finally {
            this.release(at);
        }
    }

    bytes(at, length) {
        return new Uint8Array(this.memory.buffer, at, length);
    }

    floats(at, length) {
        return new Float32Array(this.memory.buffer, at, length);
    }

    integers(at, length) {
        return new Int32Array(this.memory.buffer, at, length);
    }

    doubles(at, length) {
        return new Float64Array(this.memory.buffer, at, length);
    }

    text(pointer) {
        const bytes = new Uint8Array(this.memory.buffer, pointer >>> 0);
        // decode() refuses shared memory, so it gets a copy.
        return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
    }

    /** Copies all bytes of a source from openSource() into the memory, and returns { at, size }. */
    async read(source, onProgress) {
        let opened;
        try {
            opened = await source;
        } catch (error) {
            throw this.#unreadable(error);
        }
        return this.#readPieces(opened, onProgress);
    }

    #unreadable(error) {
        return error instanceof VitError || !this.exports ? error :
            this.error(IO, error.message);
    }

    async #readPieces({ total, pieces }, onProgress) {
        const buffer = new Growing(this, total ?? 1 << 20);
        try {
            for await (const piece of pieces) {
                buffer.add(piece);
                onProgress?.(buffer.size, total);
            }
        } catch (error) {
            this.release(buffer.at);
            throw this.#unreadable(error);
        }
        return buffer;
    }
}

/** Consecutive bytes in the memory, which grow with each added piece. */
class Growing {
    constructor(engine, room) {
        this.engine = engine;
        this.room = room;
        this.at = engine.allocate(room);
        this.size = 0;
    }

    add(piece) {
        const wanted = this.size + piece.length;
        if (wanted > this.room) this.grow(Math.max(wanted, 2 * this.room));
        this.engine.bytes(this.at + this.size, piece.length).set(piece);
        this.size = wanted;
    }

    grow(room) {
        const at = this.engine.allocate(room);
        this.engine.bytes(at, this.size).set(this.engine.bytes(this.at, this.size));
        this.engine.release(this.at);
        this.at = at;
        this.room = room;
    }
}
