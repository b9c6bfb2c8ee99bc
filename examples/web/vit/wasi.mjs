// wasi.mjs - implements the system calls of wasm32-wasi (preview 1) that vit-convert and vit-learn
// make: arguments, clocks, files in a Map, standard output and standard error.
import { Output, normal } from './files.mjs';

const OK = 0, BADF = 8, EXIST = 20, INVAL = 28, IO = 29, ISDIR = 31, NOENT = 44, NOSPC = 51,
    SPIPE = 70;
const TERMINAL = 2, FOLDER = 3, REGULAR = 4;   // types of files
const CREATE = 1, ONLY_FOLDER = 2, EXCLUSIVE = 4, TRUNCATE = 8;   // of path_open
const CAN_WRITE = 64n;                          // a right
const ROOT = 3;                                 // the descriptor of the one folder

/** The exception that proc_exit throws. */
export class Exit extends Error {
    constructor(status) {
        super(`exit status ${status}`);
        this.status = status;
    }
}

/** A stream that keeps its text. */
class Text {
    constructor(isTerminal, onWrite) {
        this.isTerminal = isTerminal;
        this.onWrite = onWrite;
        this.decoder = new TextDecoder();
        this.text = '';
    }

    write(_at, bytes) {
        this.text += this.decoder.decode(bytes.slice(), { stream: true });
        if (this.onWrite) this.text = this.onWrite(this.text);
        return bytes.length;
    }

    read() {
        return 0;
    }
}

export class Wasi {
    /**
     * `files` maps paths to Inputs; written files are added to it as Outputs. At each write to
     * standard error, `onText` gets the kept text with the new text at its end, and returns the
     * text to keep. Standard error is a terminal only if `onText` is given.
     */
    constructor(args, files, onText) {
        this.args = args.map((text) => new TextEncoder().encode(text + '\0'));
        this.files = files;
        this.numbers = new Map();    // the number of each file, which stat reports as its inode
        this.stdout = new Text(false, null);
        this.stderr = new Text(!!onText, onText);
        this.descriptors = [null, this.stdout, this.stderr, null].map((file) => ({ file, at: 0 }));
        this.problem = null;         // the first exception that a file threw
        this.memory = null;
    }

    /** Runs _start; returns the exit status. */
    run(module) {
        const imports = {};
        for (const { name } of WebAssembly.Module.imports(module)) {
            imports[name] = (...values) => this[name](...values);
        }
        const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: imports });
        this.memory = instance.exports.memory;
        try {
            instance.exports._start();
            return 0;
        } catch (error) {
            if (error instanceof Exit) return error.status;
            throw error;
        }
    }

    /**
     * Runs the program, which writes the file `name`. Returns the result of convert() or learn().
     * Throws an exception after a trap, or if the program failed and a file threw an exception.
     */
    runFor(name, module) {
        let status;
        try {
            status = this.run(module);
        } catch (error) {
            const program = new TextDecoder().decode(this.args[0].subarray(0, -1));
            throw new Error(`${program} ended unexpectedly: ${error.message}`, { cause: error });
        }
        if (this.problem && status !== 0) throw this.problem;
        const written = status === 0 ? this.files.get(name) : null;
        return {
            status,
            report: this.stdout.text ? JSON.parse(this.stdout.text) : null,
            output: written?.take ? written.take() : null,
            name,
            stderr: this.stderr.text,
            memory: this.memory.buffer.byteLength,
        };
    }

    // --- memory: each use makes new views, because growth makes views invalid -------------------

    view() {
        return new DataView(this.memory.buffer);
    }

    put32(at, value) {
        this.view().setUint32(at, value, true);
        return OK;
    }

    put64(at, value) {
        this.view().setBigUint64(at, BigInt(value), true);
        return OK;
    }

    path(at, length) {
        return normal(new TextDecoder().decode(new Uint8Array(this.memory.buffer, at, length)));
    }

    /** Calls work(bytes) for each buffer of a read or write, until a buffer is used only in
     * part. */
    each(buffers, count, total, work) {
        let sum = 0;
        for (let i = 0; i < count; i++) {
            const view = this.view();
            const at = view.getUint32(buffers + 8 * i, true);
            const length = view.getUint32(buffers + 8 * i + 4, true);
            if (length === 0) continue;
            const done = work(new Uint8Array(this.memory.buffer, at, length), sum);
            sum += done;
            if (done < length) break;
        }
        return this.put32(total, sum);
    }

    /** If a file throws an exception, the system call fails with `code`. If the program then fails,
       runFor() throws the exception. */
    guard(code, work) {
        try {
            return work();
        } catch (error) {
            this.problem ??= error;
            return code;
        }
    }

    isFolder(path) {
        if (path === '') return true;
        for (const other of this.files.keys()) if (other.startsWith(path + '/')) return true;
        return false;
    }

    // --- arguments, clocks, the end -------------------------------------------------------------

    args_sizes_get(count, size) {
        this.put32(size, this.args.reduce((sum, bytes) => sum + bytes.length, 0));
        return this.put32(count, this.args.length);
    }

    args_get(pointers, bytes) {
        for (const arg of this.args) {
            this.put32(pointers, bytes);
            new Uint8Array(this.memory.buffer, bytes, arg.length).set(arg);
            pointers += 4;
            bytes += arg.length;
        }
        return OK;
    }

    environ_sizes_get(count, size) {
        this.put32(size, 0);
        return this.put32(count, 0);
    }

    environ_get() {
        return OK;
    }

    clock_time_get(clock, _precision, time) {
        const now = clock === 0 ? Date.now() : performance.now();
        return this.put64(time, Math.round(now * 1e6));
    }

    proc_exit(status) {
        throw new Exit(status);
    }

    // --- open files -----------------------------------------------------------------------------

    fd_read(fd, buffers, count, total) {
        const open = this.descriptors[fd];
        if (!open || fd === ROOT) return BADF;
        return this.guard(IO, () => this.each(buffers, count, total, (bytes) => {
            const done = open.file ? open.file.read(open.at, bytes) : 0;
            open.at += done;
            return done;
        }));
    }

    fd_pread(fd, buffers, count, offset, total) {
        const file = this.descriptors[fd]?.file;
        if (!file || fd < ROOT) return BADF;
        return this.guard(IO, () => this.each(buffers, count, total,
            (bytes, sum) => file.read(Number(offset) + sum, bytes)));
    }

    fd_write(fd, buffers, count, total) {
        const open = this.descriptors[fd];
        if (!open?.file?.write) return BADF;
        return this.guard(NOSPC, () => this.each(buffers, count, total, (bytes) => {
            const done = open.file.write(open.at, bytes);
            open.at += done;
            return done;
        }));
    }

    fd_seek(fd, offset, whence, result) {
        const open = this.descriptors[fd];
        if (!open?.file) return BADF;
        if (fd < ROOT) return SPIPE;
        const at = [0, open.at, open.file.size][whence] + Number(offset);
        if (!(at >= 0)) return INVAL;
        open.at = at;
        return this.put64(result, at);
    }

    fd_close(fd) {
        if (!this.descriptors[fd]) return BADF;
        this.descriptors[fd] = null;
        return OK;
    }

    fd_sync(fd) {
        return this.descriptors[fd] ? OK : BADF;
    }

    fd_fdstat_set_flags(fd) {
        return this.descriptors[fd] ? OK : BADF;
    }

    fd_fdstat_get(fd, at) {
        const open = this.descriptors[fd];
        if (!open) return BADF;
        const isTerminal = open.file?.isTerminal;
        new Uint8Array(this.memory.buffer, at, 24).fill(0);
        this.view().setUint8(at, fd === ROOT ? FOLDER : isTerminal ? TERMINAL : REGULAR);
        this.put64(at + 8, isTerminal ? CAN_WRITE : (1n << 30n) - 1n);   // a terminal cannot seek
        return this.put64(at + 16, (1n << 30n) - 1n);
    }

    // --- files by name --------------------------------------------------------------------------

    fd_prestat_get(fd, at) {
        if (fd !== ROOT) return BADF;
        this.put32(at, 0);
        return this.put32(at + 4, 1);
    }

    fd_prestat_dir_name(_fd, at) {
        this.view().setUint8(at, '/'.charCodeAt(0));
        return OK;
    }

    stat(file, at) {
        if (!this.numbers.has(file)) this.numbers.set(file, this.numbers.size + 2);
        new Uint8Array(this.memory.buffer, at, 64).fill(0);
        this.put64(at, 1);
        this.put64(at + 8, file ? this.numbers.get(file) : 1);
        this.view().setUint8(at + 16, file ? REGULAR : FOLDER);
        this.put64(at + 24, 1);
        return this.put64(at + 32, file ? file.size ?? 0 : 0);
    }

    fd_filestat_get(fd, at) {
        const open = this.descriptors[fd];
        return open ? this.stat(open.file, at) : BADF;
    }

    path_filestat_get(_fd, _flags, name, length, at) {
        const path = this.path(name, length);
        const file = this.files.get(path);
        return file || this.isFolder(path) ? this.stat(file ?? null, at) : NOENT;
    }

    path_open(_fd, _follow, name, length, flags, rights, _inheriting, _fdflags, result) {
        const path = this.path(name, length);
        let file = this.files.get(path);
        if (file && flags & CREATE && flags & EXCLUSIVE) return EXIST;
        if (!file && this.isFolder(path)) return ISDIR;
        if (flags & ONLY_FOLDER || (!file && !(flags & CREATE))) return NOENT;
        if (!file || flags & TRUNCATE) this.files.set(path, file = new Output());
        if (rights & CAN_WRITE && !file.write) return IO;
        let fd = ROOT + 1;
        while (this.descriptors[fd]) fd++;
        this.descriptors[fd] = { file, at: 0 };
        return this.put32(result, fd);
    }

    path_rename(_fd, from, fromLength, _toFd, to, toLength) {
        const path = this.path(from, fromLength);
        const file = this.files.get(path);
        if (!file) return NOENT;
        this.files.delete(path);
        this.files.set(this.path(to, toLength), file);
        return OK;
    }

    path_unlink_file(_fd, name, length) {
        return this.files.delete(this.path(name, length)) ? OK : NOENT;
    }
}
