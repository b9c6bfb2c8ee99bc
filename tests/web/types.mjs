// types.mjs - checks the declarations of examples/web/vit with TypeScript in strict mode:
// consumer.mts must compile, TypeScript must refuse the wrong calls in it, and everything that is
// declared must exist.
import { createRequire } from 'node:module';
import { basename, resolve } from 'node:path';
import { built, expect, same, test } from './harness.mjs';

const ts = createRequire(`${built}/`)('typescript');
const options = {
    noEmit: true, strict: true, noUncheckedIndexedAccess: true, types: [],
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext,
    lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
};

/** Returns the messages of TypeScript, one per line. */
function complaints(program) {
    return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
        const line = file ? file.getLineAndCharacterOfPosition(start).line + 1 : 0;
        const text = ts.flattenDiagnosticMessageText(messageText, ' ');
        return `${basename(file?.fileName ?? '')}:${line}: ${text}`;
    });
}

/** Returns the names of classes, functions and constants that a file of declarations exports. */
function declaredIn(program, path) {
    const checker = program.getTypeChecker();
    const module = checker.getSymbolAtLocation(program.getSourceFile(path));
    return checker.getExportsOfModule(module)
        .filter(({ flags }) => flags & ts.SymbolFlags.Value).map(({ name }) => name).sort();
}

export default async function types() {
    const program = ts.createProgram([resolve('tests/web/consumer.mts')], options);

    await test('types: right calls compile in strict mode, wrong ones do not', () => {
        const found = complaints(program);
        expect(!found.length, found.slice(0, 5).join('; '));
        return `TypeScript ${ts.version}`;
    });

    await test('types: what is declared is exported, and the reverse', async () => {
        for (const name of ['vit', 'convert', 'learn', 'words']) {
            const path = resolve(`examples/web/vit/${name}`);
            const exported = Object.keys(await import(`${path}.mjs`));
            same(declaredIn(program, `${path}.d.mts`), exported, name);
        }
    });
}
