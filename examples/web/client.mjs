// client.mjs - the page's side of worker.mjs: requests and responses, one at a time. Cancelling
// ends the worker and starts another worker, which reads the model again.

/** The error of a request that was cancelled, or replaced by one with the same `latest`. */
export class Superseded extends Error {}

export class Client {
    constructor(onChange) {
        this.onChange = onChange;   // (busy, progress or null)
        this.waiting = [];
        this.running = null;
        this.restore = () => {};    // sends a new worker the model and the photos
        this.start();
    }

    start() {
        this.answered = false;
        this.worker = new Worker(new URL('worker.mjs', import.meta.url), { type: 'module' });
        this.worker.onmessage = ({ data }) => this.hear(data);
        this.worker.onerror = (event) => {
            event.preventDefault();
            const why = event.message || 'worker.mjs cannot be loaded';
            const error = new Error(`The worker failed: ${why}`);
            if (this.answered) this.restart(error);
            else this.fail(error);  // no restart: another worker would fail too
        };
    }

    /**
     * Sends a request to the worker. `latest` is a name: the new request replaces a waiting request
     * with this name. If `quiet`, the page does not show that it is busy. A request with `latest`
     * or `first` overtakes all waiting requests that have neither.
     */
    ask(type, data = {}, { transfer = [], latest = null, quiet = false, first = false } = {}) {
        return new Promise((resolve, reject) => {
            const question = { type, data, transfer, latest, quiet, resolve, reject };
            if (latest) this.drop((other) => other.latest === latest);
            if (first || latest) {
                const at = this.waiting.findIndex((other) => !other.latest && !other.first);
                question.first = true;
                this.waiting.splice(at < 0 ? this.waiting.length : at, 0, question);
            } else {
                this.waiting.push(question);
            }
            this.next();
        });
    }

    drop(which) {
        const dropped = this.waiting.filter(which);
        this.waiting = this.waiting.filter((question) => !dropped.includes(question));
        for (const { reject } of dropped) reject(new Superseded('superseded'));
    }

    next() {
        if (this.running || !this.waiting.length) return;
        this.running = this.waiting.shift();
        const { type, data, transfer } = this.running;
        this.tell(null);
        this.worker.postMessage({ type, data }, transfer);
    }

    hear({ progress, result, error }) {
        this.answered = true;
        if (!this.running) return;
        if (progress) {
            if (!this.running.quiet) this.tell(progress);
            return;
        }
        const { resolve, reject } = this.running;
        this.running = null;
        if (error) reject(Object.assign(new Error(error.message), error));
        else resolve(result);
        this.next();
        if (!this.running) this.tell(null);
    }

    tell(progress) {
        const all = [this.running, ...this.waiting];
        const busy = all.some((question) => question && !question.quiet);
        this.onChange(busy, progress);
    }

    /** Cancels all running and waiting requests. */
    cancel() {
        this.restart(new Superseded('cancelled'));
    }

    restart(reason) {
        this.worker.terminate();
        this.fail(reason);
        this.start();
        this.restore();
    }

    fail(reason) {
        const lost = [this.running, ...this.waiting].filter(Boolean);
        this.running = null;
        this.waiting = [];
        for (const { reject } of lost) reject(reason);
        this.tell(null);
    }
}
