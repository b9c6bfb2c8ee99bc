// thread.mjs - one of pool.mjs's threads. It gets one message, and then sleeps or works until the
// pool ends it.
import { CONTROL_SIZE, JOB, Waiter, fromNode, inNode, work } from './pool.mjs';

function serve({ module, memory, stack, spin, control: at }, say) {
    const { exports } = new WebAssembly.Instance(module, {
        env: { memory },
        pool: { parallel_for: () => { throw new Error('a task has no tasks'); } },
    });
    const control = new Int32Array(memory.buffer, at, CONTROL_SIZE);
    const waiter = new Waiter(spin);
    exports.__stack_pointer.value = stack;
    let job = Atomics.load(control, JOB);
    say('ready');
    for (;;) {
        work(control, exports.run);
        waiter.waitWhile(control, JOB, job);
        job = Atomics.load(control, JOB);
    }
}

function start(message, say) {
    try {
        serve(message, say);
    } catch (error) {
        say(error.message);
    }
}

if (inNode) {
    const { parentPort } = await fromNode('worker_threads');
    parentPort.once('message', (data) => start(data, (word) => parentPort.postMessage(word)));
} else {
    self.onmessage = ({ data }) => start(data, (word) => self.postMessage(word));
}
