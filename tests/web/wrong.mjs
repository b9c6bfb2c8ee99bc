// wrong.mjs - drops files that are mislabelled, too large, truncated or damaged. For each of these
// files, the page must show a message with the file's name, and keep working.
import { mkdirSync, readFileSync } from 'node:fs';
import { deflateRawSync } from 'node:zlib';
import { convert, damage, model, pathOf, random, write } from './files.mjs';
import { shownClasses } from './classes.mjs';
import { Visit, expect, same, test } from './harness.mjs';

/** A file, and the text that the message must contain. */
const wrong = [
    ['song.mp3', /neither a photo nor a model/],
    ['words.txt', /belong to a checkpoint/],
    ['empty.jpg', /is empty/],
    ['text.jpg', /is damaged|in no format/],
    ['cut.jpg', /is truncated/],
    ['cut.png', /is truncated/],
    ['crc.png', /checksum differs/],
    ['huge.png', /is too large: 20000 x 20000/],
    ['claimed.png', /is too large: 2000000000 x 1|is damaged/],
    ['huge.jpg', /is too large: 65535 x 65535|is truncated/],
    ['cut.vit', /shorter than it claims/],
    ['text.vit', /not a .vit file/],
    ['empty.vit', /shorter than it claims/],
    ['giant.vit', /out of memory/],
];

const damages = 100;
const atOnce = 5;

export default async function wrongFiles() {
    makeFiles();
    const visited = await Visit.open();
    const { page } = visited;
    const error = () => page.locator('#error').innerText();

    /** Checks that the page still classifies with the previous model. */
    const usable = async () => {
        await visited.drop(pathOf('cat.png'));
        const [{ name, percent }] = await shownClasses(page);
        same([name, percent, await error()], ['cat', 78.8, ''], 'afterwards: class, score, error');
    };

    for (const [name, message] of wrong) {
        await test(`a wrong file: ${name}`, async () => {
            await visited.drop(pathOf(name));
            const text = await page.locator('#error p').innerText();
            expect(text.includes(name) && message.test(text), `"${text}"`);
            same(await page.locator('html').getAttribute('data-state'), 'error', 'the state');
            await usable();
            return text;
        });
    }

    await test('a checkpoint that would fill the memory', async () => {
        await visited.dropOnly(pathOf('bomb.npz'));
        const dialog = page.getByRole('dialog');
        await dialog.getByRole('button', { name: 'Convert' }).click();
        const text = await dialog.getByText(/inflates from \d+ to 134217728 bytes/).first()
            .innerText();
        await page.keyboard.press('Escape');
        await dialog.waitFor({ state: 'hidden' });
        await usable();
        return text;
    });

    await test('a good photo among wrong ones', async () => {
        await visited.drop([pathOf('cut.jpg'), pathOf('cat.png'), pathOf('empty.jpg')]);
        const text = await error();
        expect(/cut\.jpg/.test(text) && /empty\.jpg/.test(text), `"${text}"`);
        same((await shownClasses(page))[0].name, 'cat', 'the class');
        await usable();
    });

    await test('a folder: what it has beside photos is no mistake', async () => {
        for (const name of ['album/.DS_Store', 'album/notes.md', 'album/labels.txt']) {
            write(name, 'no photo');
        }
        const png = readFileSync(pathOf('cat.png'));
        for (const name of ['album/10.png', 'album/9.png']) write(name, png);
        const before = await page.locator('#photos li').count();
        await visited.drop(pathOf('album'));
        same([await error(), await page.locator('#photos li').count() - before], ['', 2],
             'message, photos');
        expect(/^9\.png/.test(await visited.text('#caption')), 'the first by name is not shown');
    });

    await test('a folder with nothing in it', async () => {
        await visited.dropOnly(pathOf('nothing'));
        const text = await page.locator('#error p').innerText();
        expect(/no files in that folder/.test(text), `"${text}"`);
        await usable();
    });

    await test('a model for inputs of four channels', async () => {
        await visited.drop(pathOf('chans4.vit'));
        for (const shown of ['#error p', '#views-empty']) {
            const text = await visited.text(shown);
            expect(/4 channels, photos have 3/.test(text), `"${text}"`);
        }
        await visited.work(() => page.locator('#bundled').click());
        await usable();
    });

    await test('a message is closed', async () => {
        await visited.drop(pathOf('empty.jpg'));
        await page.locator('#error').getByRole('button', { name: 'Close' }).click();
        same([await error(), await page.locator('html').getAttribute('data-state')], ['', 'ready'],
             'message and state');
    });

    await test('several models: the first is taken, and the page says so', async () => {
        await visited.drop([model, pathOf('tiny.vit')]);
        const text = await error();
        expect(/^Opened the first of 2 models: /.test(text), `"${text}"`);
        await usable();
    });
    await visited.close();

    await damagedFiles('models', readFileSync(pathOf('tiny.vit')), 'vit', 1);
    await damagedFiles('JPEGs', readFileSync('tests/data/images/baseline.jpg'), 'jpg', atOnce);
    await damagedFiles('PNGs', readFileSync(pathOf('noise.png')), 'png', atOnce);
}

/** Makes a valid checkpoint of a megabyte whose input takes 3.2 GB. */
function giant() {
    const shapes = {
        'cls_token': [1, 1, 4], 'pos_embed': [1, 1 + 256 * 255, 4], 'norm.weight': [4],
        'norm.bias': [4], 'patch_embed.proj.weight': [4, 3, 64, 64], 'patch_embed.proj.bias': [4],
        'head.weight': [2, 4], 'head.bias': [2],
    };
    let end = 0;
    const header = JSON.stringify(Object.fromEntries(Object.entries(shapes).map(([name, shape]) => {
        const start = end;
        end += 4 * shape.reduce((product, n) => product * n);
        return [name, { dtype: 'F32', shape, data_offsets: [start, end] }];
    })));
    const length = Buffer.alloc(8);
    length.writeUInt32LE(header.length);
    return Buffer.concat([length, Buffer.from(header), Buffer.alloc(end)]);
}

/** Makes an archive of 130 KB with an array of 128 MB. */
function bomb() {
    const name = Buffer.from('head.weight.npy'), size = 1 << 27;
    const data = deflateRawSync(Buffer.alloc(size));
    const words = (...values) => Buffer.from(values.flatMap((value) => [value & 255, value >> 8]));
    const common = Buffer.concat([words(20, 0, 8, 0, 0, 0, 0), words(data.length & 65535,
        data.length >>> 16, size & 65535, size >>> 16, name.length, 0)]);
    const local = Buffer.concat([words(0x4b50, 0x0403), common, name, data]);
    const entry = Buffer.concat([words(0x4b50, 0x0201, 20), common, words(0, 0, 0, 0, 0, 0, 0),
                                 name]);
    const end = words(0x4b50, 0x0605, 0, 0, 1, 1, entry.length, 0, local.length & 65535,
                      local.length >>> 16, 0);
    return Buffer.concat([local, entry, end]);
}

function makeFiles() {
    const png = readFileSync(pathOf('cat.png'));
    write('song.mp3', Buffer.from('ID3\x03 no photo'));
    write('text.jpg', 'A text.\n');
    write('cut.png', png.subarray(0, 30000));
    const flipped = Buffer.from(png);
    flipped[flipped.length - 60] ^= 1;
    write('crc.png', flipped);
    const claimed = Buffer.from(png);
    claimed.writeUInt32BE(2000000000, 16);
    write('claimed.png', claimed);
    const jpeg = Buffer.from(readFileSync('tests/data/images/baseline.jpg'));
    const frame = jpeg.indexOf(Buffer.from([0xff, 0xc0]));
    jpeg.writeUInt32BE(0xffffffff, frame + 5);
    write('huge.jpg', jpeg);
    write('empty.vit', '');
    write('giant.safetensors', giant());
    convert(pathOf('giant.safetensors'), '--img-size', '16384x16320', '--set', 'depth=0', '--set',
            'num_heads=1', '-o', pathOf('giant.vit'));
    write('bomb.npz', bomb());
    for (const folder of ['album', 'nothing']) mkdirSync(pathOf(folder), { recursive: true });
}

/** Damages files and drops them in groups of `together`. The random changes are the same in each
 * run. */
async function damagedFiles(what, bytes, ending, together) {
    await test(`${damages} damaged ${what}: the page stays usable`, async () => {
        const visited = await Visit.open();
        const { page } = visited;
        const next = random(damages);
        let refused = 0;
        for (let done = 0; done < damages; done += together) {
            const names = Array.from({ length: together }, (_, i) =>
                `damaged-${done + i}.${ending}`);
            for (const name of names) write(name, damage(bytes, next));
            await visited.drop(names.map(pathOf));
            const text = await page.locator('#error').innerText();
            expect(!/worker failed|unreachable|out of bounds|undefined|NaN/i.test(text), text);
            if (text) refused++;
        }
        expect(refused > 0, 'none was refused');
        await visited.drop([model, pathOf('cat.png')]);
        const [{ name, percent }] = await shownClasses(page);
        same([name, percent], ['cat', 78.8], 'afterwards');
        await visited.close();
        return `${refused} of ${damages / together} refused`;
    });
}
