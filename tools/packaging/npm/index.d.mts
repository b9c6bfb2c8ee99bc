// index.d.mts - the types of index.mjs: classes and embeddings of photos.
import { Model, VitError, provide } from './vit/vit.mjs';
import type { OpenOptions, Photo, Prediction } from './vit/vit.mjs';

export { Model, VitError, provide };
export type * from './vit/vit.mjs';

/** The instances of a class, or `never` in engines without that class. */
type Of<Name extends string> =
    typeof globalThis extends { [name in Name]: { prototype: infer T } } ? T : never;

/** The objects of a page that contain a picture. */
export type Picture = Of<'HTMLImageElement'> | Of<'HTMLCanvasElement'> | Of<'HTMLVideoElement'> |
    Of<'ImageBitmap'> | Of<'OffscreenCanvas'> | Of<'VideoFrame'>;

/**
 * A photo: a URL or, in Node, Deno and Bun, a path; a file as a Blob, a Response or bytes; pixels,
 * such as an ImageData; in a page, a picture that it shows.
 *
 * Node, Deno, Bun and Workers read JPEG, PNG, BMP, GIF, TGA, PGM and PPM files. Pages read PNG,
 * PGM, PPM and all formats of the browser.
 */
export type PhotoSource =
    string | URL | Blob | Response | ArrayBuffer | Uint8Array | Photo | Picture;

/** A .vit file: a URL or, in Node, Deno and Bun, a path; a Blob, a Response or bytes. */
export type ModelSource = Parameters<typeof Model.open>[0];

export interface Options extends OpenOptions {
    /** The model; by default the bundled model, with CIFAR-10's ten classes. It stays open until
     * close(). */
    model?: ModelSource | Model;
}

export interface ClassifyOptions extends Options {
    /** The number of classes to return, best first; 5 by default, Infinity for all. */
    top?: number;
}

/** Returns the most probable classes of a photo, best first. */
export function classify(photo: PhotoSource, options?: ClassifyOptions): Promise<Prediction[]>;

/** Returns the vector of a photo. The cosine of two vectors is the similarity of the photos. */
export function embed(photo: PhotoSource, options?: Options): Promise<Float32Array>;

/** Opens a model for all other methods of Model; close it yourself. */
export function open(model?: ModelSource, options?: OpenOptions): Promise<Model>;

/** Returns the pixels of a photo, for the methods of Model. Throws a PhotoError if a file is not a
 * photo. */
export function photoOf(photo: PhotoSource): Promise<Photo>;

/** Closes the models that classify() and embed() have opened. */
export function close(): Promise<void>;
