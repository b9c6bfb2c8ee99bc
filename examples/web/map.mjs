// map.mjs - draws a photo with a colour for each patch, in the scales of tools/vit-look, and lets
// the user choose a patch by mouse or arrow keys.
import { say } from './state.mjs';

/** Two of matplotlib's maps (Smith, van der Walt, Firing; CC0), with ten colours each. Colours
   between these are interpolated linearly. */
const viridis = [[68, 1, 84], [72, 40, 120], [62, 73, 137], [49, 104, 142], [38, 130, 142],
    [31, 158, 137], [53, 183, 121], [110, 206, 88], [181, 222, 43], [253, 231, 37]];
const inferno = [[0, 0, 4], [27, 12, 65], [74, 12, 107], [120, 28, 109], [165, 44, 96],
    [207, 68, 70], [237, 105, 37], [251, 155, 6], [247, 209, 61], [252, 255, 164]];

function colourOf(map, value) {
    if (Number.isNaN(value)) return [128, 128, 128];
    const at = Math.min(Math.max(value, 0), 1) * (map.length - 1);
    const i = Math.min(Math.floor(at), map.length - 2);
    return map[i].map((from, c) => Math.floor(from + (map[i + 1][c] - from) * (at - i) + 0.5));
}

const cssOf = ([red, green, blue], alpha = 1) => `rgb(${red} ${green} ${blue} / ${alpha})`;

/** Returns [least, largest] of all values but NaN; [0, 0] if there are no others. */
export function rangeOf(...arrays) {
    let least = Infinity, largest = -Infinity;
    for (const values of arrays) {
        for (const value of values) {
            if (value < least) least = value;
            if (value > largest) largest = value;
        }
    }
    return least <= largest ? [least, largest] : [0, 0];
}

const shareOf = (value, [least, largest]) =>
    (largest > least ? (value - least) / (largest - least) : 0.5);

/**
 * Returns the colours of patches. The scale goes from the least to the largest value, or over
 * `range`. The smaller a value, the less its colour covers the photo. Otherwise, if one value
 * stands out, the nearly black colours of all other patches would hide the photo.
 */
export const heatColours = (values, range = rangeOf(values)) => Array.from(values, (value) => {
    const share = shareOf(value, range);
    return cssOf(colourOf(inferno, share), 0.45 + 0.35 * (share || 0));
});

/** Returns the patches' colours: red, green and blue are components [3, patches], or 0 for NaN. */
export function componentColours(maps, ranges) {
    const count = maps.length / 3;
    return Array.from({ length: count }, (_, i) => cssOf([0, 1, 2].map((k) => {
        const value = maps[k * count + i];
        return Number.isNaN(value) ? 0 : Math.floor(255 * shareOf(value, ranges[k]) + 0.5);
    })));
}

// --- places of patches ---

/** Returns the edges of the grid's columns or rows, in the photo's pixels. */
const edges = (begin, length, count) =>
    Array.from({ length: count + 1 }, (_, i) => begin + length * i / count);

function gridOf({ rows, columns, patches }) {
    const { x, y, width, height } = patches;
    return { x: edges(x, width, columns), y: edges(y, height, rows) };
}

/** Returns the part of the photo that the model sees. */
export function seenOf({ width, height, crop }) {
    const x = Math.max(crop.x, 0), y = Math.max(crop.y, 0);
    return { x, y, width: Math.min(crop.x + crop.width, width) - x,
        height: Math.min(crop.y + crop.height, height) - y };
}

const greys = new WeakMap();

/** Returns the photo in grey, computed once. */
function greyOf(view) {
    if (greys.has(view)) return greys.get(view);
    const canvas = new OffscreenCanvas(view.width, view.height);
    const context = canvas.getContext('2d', { willReadFrequently: true });
    context.drawImage(view, 0, 0);
    const pixels = context.getImageData(0, 0, view.width, view.height);
    const { data } = pixels;
    for (let i = 0; i < data.length; i += 4) {
        data[i] = data[i + 1] = data[i + 2] =
            (299 * data[i] + 587 * data[i + 1] + 114 * data[i + 2] + 500) / 1000;
    }
    context.putImageData(pixels, 0, 0);
    greys.set(view, canvas);
    return canvas;
}

// --- painting ---

const density = () => Math.min(devicePixelRatio || 1, 2);

/** Returns the size in CSS pixels at which an image fits a box; null if the box is hidden. */
function fit(width, height, box) {
    const scale = Math.min(box.clientWidth / width, box.clientHeight / height);
    return scale > 0 ? [width * scale, height * scale] : null;
}

/** Centres the canvas in the box by a transform, so that a change of the canvas's size shifts no
 * other element. */
function putInto(canvas, [width, height], box) {
    const left = (box.clientWidth - width) / 2, top = (box.clientHeight - height) / 2;
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px`,
        transform: `translate(${left}px, ${top}px)` });
}

/**
 * Gives the canvas the size for a part of a photo: all of it, or only the part that the model sees.
 * This part fits the element `box`, or its longer side has `size` CSS pixels. Returns the part and
 * the canvas's pixels per pixel of it; null if the box is hidden.
 */
function frameOf(canvas, photo, { box, size = 320, whole = true }) {
    const part = whole ? { x: 0, y: 0, width: photo.width, height: photo.height } : seenOf(photo);
    const longer = Math.max(part.width, part.height);
    const fitted = box ? fit(part.width, part.height, box)
        : [part.width * size / longer, part.height * size / longer];
    if (!fitted) return null;
    [canvas.width, canvas.height] = fitted.map((side) => Math.max(1, Math.round(side * density())));
    if (box) putInto(canvas, fitted, box);
    return { part, scale: canvas.width / part.width, down: canvas.height / part.height };
}

/**
 * Draws a photo under its patches' colours, or the photo alone if the colours are null. The patch
 * `marked` gets a red frame, and the patch `cursor` a blue one; -1 is no patch.
 */
export function paint(canvas, photo, colours, options = {}) {
    const { marked = -1, cursor = -1 } = options;
    const frame = frameOf(canvas, photo, options);
    if (!frame) return;
    const { part, scale, down } = frame;
    const context = canvas.getContext('2d');
    const source = colours ? greyOf(photo.view) : photo.view;
    const ratio = photo.view.width / photo.width, ratioDown = photo.view.height / photo.height;
    context.drawImage(source, part.x * ratio, part.y * ratioDown, part.width * ratio,
        part.height * ratioDown, 0, 0, canvas.width, canvas.height);
    if (!photo.crop) return;
    const across = (left) => Math.round((left - part.x) * scale);
    const below = (top) => Math.round((top - part.y) * down);
    const { x, y } = gridOf(photo.crop);
    const boxOf = (patch) => {
        const row = Math.floor(patch / photo.crop.columns), column = patch % photo.crop.columns;
        const left = across(x[column]), top = below(y[row]);
        return [left, top, across(x[column + 1]) - left, below(y[row + 1]) - top];
    };
    colours?.forEach((colour, patch) => {
        context.fillStyle = colour;
        context.fillRect(...boxOf(patch));
    });
    dimOutside(context, photo, across, below);
    if (marked >= 0) outline(context, boxOf(marked), '#e8000b');
    if (cursor >= 0) outline(context, boxOf(cursor), '#2b8cff');
}

function outline(context, [x, y, width, height], colour) {
    const line = Math.max(2, Math.round(context.canvas.width / 200));
    context.lineWidth = line + 2;
    context.strokeStyle = '#fff';
    context.strokeRect(x - 1, y - 1, width + 2, height + 2);
    context.lineWidth = line;
    context.strokeStyle = colour;
    context.strokeRect(x - 1, y - 1, width + 2, height + 2);
}

/** Fades the area outside the model's input. */
function dimOutside(context, photo, across, below) {
    const { x, y, width, height } = seenOf(photo);
    const left = across(x), top = below(y), right = across(x + width), bottom = below(y + height);
    const { width: w, height: h } = context.canvas;
    context.fillStyle = 'rgb(255 255 255 / 60%)';
    context.beginPath();
    context.rect(0, 0, w, h);
    context.rect(left, top, right - left, bottom - top);
    context.fill('evenodd');
    if (left <= 0 && top <= 0 && right >= w && bottom >= h) return;
    context.strokeStyle = '#fff';
    context.lineWidth = 1;
    context.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
}

/** Pixels of viridis for values from -1 to 1. */
const cosinePixels = Uint32Array.from({ length: 512 }, (_, i) => {
    const [red, green, blue] = colourOf(viridis, i / 511);
    return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
});

/** Paints a canvas of squares: value(column, row), NaN for the background. */
function paintSquares(canvas, columns, rows, scale, value) {
    canvas.width = columns * scale;
    canvas.height = rows * scale;
    const context = canvas.getContext('2d');
    const image = context.createImageData(canvas.width, canvas.height);
    const pixels = new Uint32Array(image.data.buffer);
    for (let y = 0, at = 0; y < canvas.height; y++) {
        for (let x = 0; x < canvas.width; x++, at++) {
            const cosine = value(Math.floor(x / scale), Math.floor(y / scale));
            if (Number.isNaN(cosine)) continue;
            pixels[at] = cosinePixels[Math.round((Math.min(Math.max(cosine, -1), 1) + 1) * 255.5)];
        }
    }
    context.putImageData(image, 0, 0);
    return context;
}

/** Figure 7 of the ViT paper: each cell of the grid shows the cosines of the cell's position with
 * all positions, [n, n]. */
export function paintGrids(canvas, { rows, columns, values }, box, cursor = -1) {
    const n = rows * columns, across = columns * (columns + 1) - 1, down = rows * (rows + 1) - 1;
    const fitted = fit(across, down, box);
    if (!fitted) return;
    const scale = Math.max(1, Math.floor(fitted[0] * density() / across));
    const context = paintSquares(canvas, across, down, scale, (x, y) => {
        const column = Math.floor(x / (columns + 1)), row = Math.floor(y / (rows + 1));
        const inColumn = x % (columns + 1), inRow = y % (rows + 1);
        if (inColumn === columns || inRow === rows) return NaN;
        return values[(row * columns + column) * n + inRow * columns + inColumn];
    });
    putInto(canvas, fitted, box);
    if (cursor < 0) return;
    const left = cursor % columns * (columns + 1), top = Math.floor(cursor / columns) * (rows + 1);
    outline(context, [left, top, columns, rows].map((side) => side * scale), '#e8000b');
}

/** Draws one position's cosines, large. */
export function paintOne(canvas, { rows, columns, values }, place, box) {
    const fitted = fit(columns, rows, box);
    if (!fitted) return;
    const n = rows * columns, scale = Math.max(1, Math.floor(fitted[0] * density() / columns));
    const context = paintSquares(canvas, columns, rows, scale,
        (column, row) => values[place * n + row * columns + column]);
    putInto(canvas, fitted, box);
    const corner = [place % columns, Math.floor(place / columns), 1, 1];
    outline(context, corner.map((side) => side * scale), '#e8000b');
}

// --- choosing on a map ---

/**
 * Lets the user choose a place in the grid that a button's canvas shows. A click or Enter chooses
 * the place, the arrow keys move a cursor, and Escape resets the choice. grid() returns { rows,
 * columns } or null. at(x, y) returns the place under a point, 0 to 1 across and down. The function
 * calls moved(place) and chosen(place). Place -1 stands for no place.
 */
export function makeMap(button, { grid, at, moved, chosen }) {
    const canvas = button.querySelector('canvas');
    let cursor = -1;
    const move = (place, aloud) => {
        if (place === cursor) return;
        cursor = place;
        moved(place);
        const shown = grid();
        if (aloud && place >= 0) {
            const { columns } = shown;
            say(`Row ${Math.floor(place / columns) + 1}, column ${place % columns + 1}`);
        }
    };
    const under = (event) => {
        const box = canvas.getBoundingClientRect();
        return at((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    };
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    button.addEventListener('keydown', (event) => {
        const shown = grid();
        if (!shown) return;
        const { rows, columns } = shown;
        if (steps[event.key]) {
            const from = cursor >= 0 ? cursor : middleOf(shown);
            const [down, right] = cursor >= 0 ? steps[event.key] : [0, 0];
            const row = Math.min(Math.max(Math.floor(from / columns) + down, 0), rows - 1);
            const column = Math.min(Math.max(from % columns + right, 0), columns - 1);
            move(row * columns + column, true);
        } else if (event.key === 'Enter' || event.key === ' ') {
            if (cursor >= 0) chosen(cursor);
        } else if (event.key === 'Escape') {
            move(-1);
            chosen(-1);
        } else {
            return;
        }
        event.preventDefault();
    });
    button.addEventListener('pointermove', (event) => {
        if (event.pointerType === 'mouse' && grid()) move(under(event));
    });
    button.addEventListener('pointerleave', () => move(-1));
    button.addEventListener('blur', () => move(-1));
    button.addEventListener('click', (event) => {
        if (event.detail === 0 || !grid()) return; // keydown, above, handles the keyboard
        const place = under(event);
        if (place >= 0) chosen(place);
    });
}

/** Returns the index of the cell in the middle of a grid. */
export const middleOf = ({ rows, columns }) =>
    Math.floor(rows / 2) * columns + Math.floor(columns / 2);

/** Returns the patch at a point of a canvas that shows a whole photo; -1 outside all patches. */
export function patchAt({ width, height, crop }, x, y) {
    const { patches, rows, columns } = crop;
    const column = Math.floor((x * width - patches.x) / patches.width * columns);
    const row = Math.floor((y * height - patches.y) / patches.height * rows);
    return row >= 0 && row < rows && column >= 0 && column < columns ? row * columns + column : -1;
}
