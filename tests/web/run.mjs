// run.mjs - tests the page in Debian's Chromium. `make test-web` installs the packages that this
// requires.
//
//     node tests/web/run.mjs [--references] [SUITE...]
//
// --references writes tests/web/reference/*.png instead of comparing with them. The last line is
// "N passed, N failed". WEB_TEST_DATA may name a folder with DeiT-Ti's checkpoint and photos.
import { closeAll, expect, seen, summary, test } from './harness.mjs';
import { makeAll } from './files.mjs';

const all = ['types', 'server', 'classes', 'bits', 'large', 'views', 'wrong', 'checkpoints',
             'aspect', 'access', 'isolation', 'camera', 'teach', 'words', 'firefox'];
const names = process.argv.slice(2).filter((name) => !name.startsWith('--'));
const unknown = names.filter((name) => !all.includes(name));
if (unknown.length) {
    console.error(`run.mjs: no suite "${unknown[0]}"; there are ${all.join(', ')}`);
    process.exit(2);
}

makeAll();
for (const name of names.length ? names : all) {
    const start = performance.now();
    const { default: suite } = await import(`./${name}.mjs`);
    await suite({ references: process.argv.includes('--references') });
    console.log(`-- ${name}: ${((performance.now() - start) / 1000).toFixed(1)} s`);
}

/** Checks that cover the records of all visits. */
if (seen.visits) {
    await test('no message of a page or a worker, no failed request', () => {
        expect(!seen.problems.length, [...new Set(seen.problems)].slice(0, 5).join('; '));
        return `${seen.visits} visits`;
    });
    await test('no request leaves localhost', () => {
        const left = seen.requests.filter((url) => !/^(http:\/\/localhost:|blob:|data:)/.test(url));
        left.push(...seen.caught);
        expect(!left.length, left.slice(0, 5).join(' '));
        return `${seen.requests.length} requests`;
    });
    await test('the layout does not shift', () => {
        const worst = seen.shifts.sort((a, b) => b.total - a.total)[0];
        expect(worst.total < 0.01,
               `${worst.total.toFixed(3)} in one visit: ${worst.names.join(' ')}`);
        return `at most ${worst.total.toFixed(4)}`;
    });
}
await closeAll();
summary();
