// checks.mjs - counts checks. The last line of a test is "N passed, N failed".
let passed = 0;
let failed = 0;

export function check(ok, what) {
    if (ok) passed++;
    else failed++;
    if (!ok) console.log(`FAILED ${what}`);
}

export function summary() {
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed ? 1 : 0;
}
