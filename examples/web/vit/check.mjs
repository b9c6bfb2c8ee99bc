// check.mjs - checks arguments of vit.mjs. A wrong argument throws a TypeError or a RangeError,
// before it reaches the module's memory.

const LARGEST_SIDE = 2 ** 20;
const LARGEST_STRIDE = 2 ** 31 - 1;

/** The formats of vit_pixel, and the bytes of a pixel in each format. */
const formats = { rgb8: [0, 3], rgba8: [1, 4], gray8: [2, 1], bgr8: [3, 3], bgra8: [4, 4] };

function checkInteger(value, name, least, most) {
    if (typeof value !== 'number') throw new TypeError(`${name}: expected a number`);
    if (!Number.isInteger(value) || value < least || value > most) {
        throw new RangeError(`${name}: expected ${least} to ${most}, found ${value}`);
    }
    return value;
}

export const checkCount = (value, name, most) => checkInteger(value, name, 1, most);

/** Checks the index of one of `count` items, and returns it. */
export function checkChoice(value, name, count) {
    if (count === 0) throw new RangeError(`the model has no ${name}`);
    return checkInteger(value, name, 0, count - 1);
}

export const isPhoto = (photo) =>
    typeof photo === 'object' && photo !== null && !ArrayBuffer.isView(photo);

/** Checks the width and height of a photo, and returns them. */
export function checkSides(photo) {
    if (!isPhoto(photo)) throw new TypeError('expected a photo: width, height and data');
    const { width, height } = photo;
    return { width: checkInteger(width, 'width', 1, LARGEST_SIDE),
             height: checkInteger(height, 'height', 1, LARGEST_SIDE) };
}

const isBytes = (data) => ArrayBuffer.isView(data) && data.BYTES_PER_ELEMENT === 1;

/** Checks a photo. Returns { data, width, height, stride, format } as in vit.h, with data cut to
 * the needed length. */
export function checkPhoto(photo) {
    const { width, height } = checkSides(photo);
    const { data, format: name = 'rgba8', stride } = photo;
    if (!isBytes(data)) throw new TypeError('data: expected a Uint8Array or Uint8ClampedArray');
    if (!Object.hasOwn(formats, name)) {
        throw new RangeError(`format: expected ${Object.keys(formats).join(', ')}, found ${name}`);
    }
    const [format, bytes] = formats[name];
    const row = bytes * width;
    const step = stride === undefined ? row : checkInteger(stride, 'stride', row, LARGEST_STRIDE);
    const needed = step * (height - 1) + row;
    if (stride === undefined ? data.length !== needed : data.length < needed) {
        throw new RangeError(`data: expected ${needed} bytes for ${width} x ${height} pixels of ` +
                             `${name}, found ${data.length}`);
    }
    return { data: data.subarray(0, needed), width, height, stride: step, format };
}
