// pool.mjs - threads for a module built with shared memory: workers of Node or of a web page.
//
//     const pool = new Pool(module, 4);                // 3 workers and the caller
//     const { exports } = pool.instance;
//     await pool.start();
//     ...
//     pool.close();
// The module imports parallel_for(count, task, arg) and exports run(task, arg, index). The caller
// and the workers each take the next index until none is left.
// Every worker has its own instance in the same memory. They communicate through `control`, a few
// integers in that memory.
export const inNode = typeof process === 'object' && Boolean(process.versions?.node);

/** Imports one of Node's modules. The name is an expression, so that bundlers for pages ignore
 * it. */
export const fromNode = (name) =>
    import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`);

/** Indices into `control`. */
export const JOB = 0;      // counts the jobs; workers sleep on it
export const LEFT = 1;     // number of indices that are still free, if positive
export const DONE = 2;     // number of finished indices; the caller sleeps on it
export const COUNT = 3;    // only a holder of an index may read these three
export const TASK = 4;
export const ARG = 5;
export const FAILED = 6;   // a task has trapped, or a worker has ended
export const CONTROL_SIZE = 7;

const STACK = 1 << 18;     // bytes for each worker; the tasks of vit.h need a tenth of it
const INITIAL = 64;        // pages of 64 KiB, as in the module,
const LARGEST = 65535;     // and the maximum
const LOOKS = 100;         // reads of a value between two reads of the clock
// Milliseconds that a thread polls before it sleeps. These times exceed the pauses in a forward
// pass, so that threads do not sleep there: an operating system may put two threads that wake each
// other on one core.
const LONG = 0.5;
const SHORT = 0.02;        // if there are more threads than cores
const START = 20000;       // milliseconds for a worker to start,
const PATIENCE = 60000;    // and for the next index to finish

/**
 * Takes indices until none is left. The holder of an index may read the rest of `control`, because
 * the next job begins only after the last index of the current job is finished.
 */
export function work(control, run) {
    for (;;) {
        const left = Atomics.sub(control, LEFT, 1);
        if (left <= 0) return;
        const count = control[COUNT];
        try {
            run(control[TASK], control[ARG], count - left);
        } catch {
            Atomics.store(control, FAILED, 1);
        }
        if (Atomics.add(control, DONE, 1) + 1 === count) Atomics.notify(control, DONE);
    }
}

/** Polls for at most `ms` milliseconds. Returns false if control[at] is still `value`. */
function changes(control, at, value, ms) {
    const end = performance.now() + ms;
    do {
        for (let i = 0; i < LOOKS; i++) {
            if (Atomics.load(control, at) !== value) return true;
        }
    } while (performance.now() < end);
    return false;
}

/**
 * Polls for some time, at most `longest` milliseconds, then sleeps. After a poll without success,
 * as when two threads share a core, the next poll is half as long; else it is twice as long.
 */
export class Waiter {
    constructor(longest) {
        this.longest = longest;
        this.spin = longest;
    }

    /** Waits until control[at] is no longer `value`; false if that takes longer than `patience`. */
    waitWhile(control, at, value, patience = Infinity) {
        const seen = changes(control, at, value, this.spin);
        this.spin = seen ? Math.min(2 * this.spin, this.longest) : Math.max(this.spin / 2, SHORT);
        return seen || Atomics.wait(control, at, value, patience) !== 'timed-out';
    }
}

/** A page's main thread may not sleep, so it keeps polling. */
const canSleep = typeof document === 'undefined';

/** Reserves as much address space as the engine grants; pages take memory only when they are
 * used. */
export function makeMemory(shared) {
    for (let maximum = LARGEST; ; maximum >>= 1) {
        try {
            return new WebAssembly.Memory({ initial: INITIAL, maximum, shared });
        } catch (error) {
            if (maximum < 2 * INITIAL) throw error;
        }
    }
}

/** Starts a worker, in Node with the same handlers as in a page. Deno's own handlers would keep a
 * program from ending. */
async function makeWorker(url) {
    if (!inNode) return new Worker(url, { type: 'module' });
    const threads = await fromNode('worker_threads');
    const worker = new threads.Worker(url);
    worker.on('message', (data) => worker.onmessage?.({ data }));
    worker.on('error', (error) => worker.onerror?.(error));
    worker.on('exit', (code) => worker.onerror?.(new Error(`it ended with code ${code}`)));
    return worker;
}

/** Resolves when the worker waits for jobs. */
function started(worker, message) {
    let timer;
    const answer = new Promise((resolve, reject) => {
        const fail = (why) => reject(new Error(`a worker does not start: ${why}`));
        timer = setTimeout(fail, START, 'no answer');
        worker.onmessage = ({ data }) => (data === 'ready' ? resolve() : fail(data));
        worker.onerror = ({ message: why }) => fail(why ?? 'its file cannot be loaded');
        worker.postMessage(message);
    });
    return answer.finally(() => clearTimeout(timer));
}

export class Pool {
    /** `threads` includes the caller. If there are fewer cores than threads, waiting threads sleep
     * sooner. */
    constructor(module, threads, cores = threads) {
        this.module = module;
        this.threads = threads;
        this.waiter = new Waiter(threads > cores ? SHORT : LONG);
        this.closed = false;
        this.workers = [];
        this.memory = makeMemory(true);
        this.instance = new WebAssembly.Instance(module, {
            env: { memory: this.memory },
            pool: { parallel_for: (count, task, arg) => this.parallelFor(count, task, arg) },
        });
        const at = this.allocate(4 * CONTROL_SIZE);
        this.control = new Int32Array(this.memory.buffer, at, CONTROL_SIZE).fill(0);
    }

    /** Starts the workers. Until then, the instance may be called, but it runs no tasks on workers.
     * `url` is the workers' file. */
    async start(url = new URL('thread.mjs', import.meta.url)) {
        try {
            for (let i = 1; i < this.threads; i++) {
                this.workers.push(await makeWorker(url));
                if (this.closed) throw new Error('the pool is closed');
            }
            await Promise.all(this.workers.map((worker) => this.introduce(worker)));
        } catch (error) {
            this.close();
            throw error;
        }
    }

    async introduce(worker) {
        const { memory, control, module } = this;
        const spin = this.waiter.longest;
        const stack = this.allocate(STACK) + STACK;
        await started(worker, { module, memory, stack, spin, control: control.byteOffset });
        worker.onerror = () => Atomics.store(this.control, FAILED, 1);
        worker.unref?.(); // a program may end without close()
    }

    allocate(size) {
        const at = this.instance.exports.allocate(size) >>> 0;
        if (!at) throw new Error(`no memory for ${size} bytes`);
        return at;
    }

    parallelFor(count, task, arg) {
        const { control } = this;
        Atomics.store(control, DONE, 0);
        control[COUNT] = count;
        control[TASK] = task;
        control[ARG] = arg;
        Atomics.store(control, LEFT, count); // from here on workers may take indices
        Atomics.add(control, JOB, 1);
        Atomics.notify(control, JOB);
        work(control, this.instance.exports.run);
        this.join(count);
    }

    join(count) {
        const { control, waiter } = this;
        for (;;) {
            const done = Atomics.load(control, DONE);
            if (done === count) break;
            const answered = canSleep ? waiter.waitWhile(control, DONE, done, PATIENCE)
                : changes(control, DONE, done, PATIENCE);
            if (!answered) throw new Error('a worker does not answer');
        }
        if (Atomics.load(control, FAILED)) throw new Error('a worker has failed');
    }

    /** Ends the workers; the memory keeps its contents. */
    close() {
        this.closed = true; // start() may still be running
        for (const worker of this.workers.splice(0)) {
            worker.onerror?.(new Error('the pool is closed')); // a start() that waits fails
            worker.onerror = null;
            worker.terminate();
        }
    }
}
