// files.mjs - files for a program compiled for WASI: inputs are read piece by piece, outputs are
// collected in pieces. Nothing touches a disk.

const PIECE = 1 << 20;    // bytes of a piece of an output file
const WINDOW = 1 << 18;   // bytes of an input file read at once

/** Only a browser's worker can read a Blob synchronously. */
const reader = () => (typeof FileReaderSync === 'undefined' ? null : new FileReaderSync());

/** A source with a size and read(at, bytes). A small read gets its bytes from a buffer. */
class Input {
    constructor(source) {
        this.source = source;
        this.size = source.size;
        this.window = new Uint8Array(0);
        this.start = 0;
    }

    read(at, bytes) {
        const length = Math.max(0, Math.min(bytes.length, this.size - at));
        if (length >= WINDOW) return this.fill(at, bytes.subarray(0, length));
        if (at < this.start || at + length > this.start + this.window.length) {
            this.window = new Uint8Array(Math.min(WINDOW, this.size - at));
            this.start = at;
            this.window = this.window.subarray(0, this.fill(at, this.window));
        }
        const from = at - this.start;
        const found = this.window.subarray(from, from + length);
        bytes.set(found);
        return found.length;
    }

    fill(at, bytes) {
        let done = 0;
        while (done < bytes.length) {
            const got = this.source.read(at + done, bytes.subarray(done));
            if (!(got > 0)) break;
            done += got;
        }
        return done;
    }
}

const sourceOfBytes = (bytes) => ({
    size: bytes.length,
    read(at, into) {
        const found = bytes.subarray(at, at + into.length);
        into.set(found);
        return found.length;
    },
});

const sourceOfBlob = (blob, sync) => ({
    size: blob.size,
    read(at, into) {
        const found = sync.readAsArrayBuffer(blob.slice(at, at + into.length));
        into.set(new Uint8Array(found));
        return found.byteLength;
    },
});

/** Makes a readable file of a Blob, a Uint8Array, or an object with size and read(at, bytes). */
export async function inputOf(file) {
    if (file instanceof Uint8Array) return new Input(sourceOfBytes(file));
    if (file instanceof ArrayBuffer) return new Input(sourceOfBytes(new Uint8Array(file)));
    if (typeof Blob !== 'undefined' && file instanceof Blob) {
        const sync = reader();
        if (sync) return new Input(sourceOfBlob(file, sync));
        return new Input(sourceOfBytes(new Uint8Array(await file.arrayBuffer())));
    }
    if (typeof file?.read === 'function' && Number.isSafeInteger(file.size)) return new Input(file);
    throw new TypeError('expected a Blob, a Uint8Array or an object with size and read');
}

/** A file that grows. In a browser's worker, each piece but the one written last becomes a Blob,
 * which the browser may keep on disk. */
export class Output {
    constructor() {
        this.pieces = [];
        this.size = 0;
        this.sync = reader();
        this.open = -1;   // the piece written last, which is not yet a Blob
    }

    write(at, bytes) {
        for (let done = 0; done < bytes.length;) {
            const offset = (at + done) % PIECE;
            const part = bytes.subarray(done, done + PIECE - offset);
            this.piece((at + done - offset) / PIECE).set(part, offset);
            done += part.length;
        }
        this.size = Math.max(this.size, at + bytes.length);
        return bytes.length;
    }

    read(at, bytes) {
        const length = Math.max(0, Math.min(bytes.length, this.size - at));
        for (let done = 0; done < length;) {
            const offset = (at + done) % PIECE;
            const end = Math.min(PIECE, offset + length - done);
            const piece = this.pieces[(at + done - offset) / PIECE];
            const part = piece instanceof Uint8Array ? piece.subarray(offset, end)
                : new Uint8Array(this.sync.readAsArrayBuffer(piece.slice(offset, end)));
            bytes.set(part, done);
            done += part.length;
        }
        return length;
    }

    /** Returns a piece as writable bytes. */
    piece(index) {
        if (this.sync && this.open >= 0 && this.open !== index)
            this.pieces[this.open] = new Blob([this.pieces[this.open]]);
        while (this.pieces.length <= index) this.pieces.push(new Uint8Array(PIECE));
        if (!(this.pieces[index] instanceof Uint8Array))
            this.pieces[index] = new Uint8Array(this.sync.readAsArrayBuffer(this.pieces[index]));
        this.open = index;
        return this.pieces[index];
    }

    /** Returns all bytes as a Blob, and leaves the file empty. */
    take() {
        const parts = [];
        for (let at = 0; this.pieces.length > 0; at += PIECE) {
            const piece = this.pieces.shift();
            const rest = this.size - at;
            parts.push(rest >= PIECE ? new Blob([piece]) : new Blob([piece]).slice(0, rest));
        }
        this.size = 0;
        return new Blob(parts);
    }
}

/** Turns a path into the key of a file: "/a/./b" becomes "a/b". */
export function normal(path) {
    const parts = [];
    for (const part of path.split('/')) {
        if (part === '..') parts.pop();
        else if (part !== '' && part !== '.') parts.push(part);
    }
    return parts.join('/');
}
