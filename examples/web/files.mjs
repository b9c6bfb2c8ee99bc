// files.mjs - recognises a file by its first bytes and its name.

const endings = /\.(safetensors|pth|pt|bin|npz|pkl|ckpt|tar|gguf|model)$/i;
const photos = /\.(jpe?g|png|gif|bmp|webp|avif|heic|heif|tiff?|pgm|ppm|jxl)$/i;

const starts = (bytes, ...values) => values.every((value, i) => bytes[i] === value);

/** Returns 'photo', 'model', 'checkpoint', 'beside' (a file that belongs beside a checkpoint),
   'labels', 'config' or 'other'. */
export async function kindOf(file) {
    const { name = '', type = '' } = file;
    const head = await file.slice(0, 16).arrayBuffer().catch(() => new ArrayBuffer(0));
    const bytes = new Uint8Array(head);
    if (starts(bytes, 0x89, 0x56, 0x49, 0x54) || /\.vit$/i.test(name)) return 'model';
    if (endings.test(name) || (starts(bytes, 0x80) && bytes[1] < 6)) return 'checkpoint';
    if (bytes[8] === 0x7b && bytes[6] === 0 && bytes[7] === 0) return 'checkpoint'; // safetensors
    if (photos.test(name) || (type.startsWith('image/') && !type.includes('svg'))) return 'photo';
    if (starts(bytes, 0xff, 0xd8, 0xff) || starts(bytes, 0x89, 0x50, 0x4e, 0x47)) return 'photo';
    if (/^preprocessor_config\.json$|\.index\.json$/i.test(name)) return 'beside';
    if (/\.json$/i.test(name)) return 'config';
    if (/\.(txt|csv)$/i.test(name)) return 'labels';
    return 'other';
}
