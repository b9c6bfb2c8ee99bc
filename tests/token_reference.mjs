// Prints the ids of a tokenizer.json by Hugging Face's npm package tokenizers, for tests/tokens.sh:
//
//     node token_reference.mjs MODULE TOKENIZER_JSON CONTEXT <TEXTS >IDS
//
// The format is that of token_ids.c. Texts longer than the context keep their first ids.
import { createRequire } from 'node:module'
import { readFileSync, writeSync } from 'node:fs'
const [module, file, context] = process.argv.slice(2)
const { Tokenizer } = createRequire(import.meta.url)(module)
const tokenizer = Tokenizer.fromFile(file)
tokenizer.setTruncation(Number(context))
const data = readFileSync(0)
let texts = []
async function flush() {
    const rows = []
    for (const encoding of await tokenizer.encodeBatch(texts)) {
        const ids = encoding.getIds()
        rows.push(ids.length, ...ids)
    }
    const bytes = Buffer.from(Uint32Array.from(rows).buffer)
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at)
    texts = []
}
for (let at = 0; at < data.length; ) {
    const size = data.readUInt32LE(at)
    texts.push(data.toString('utf8', at + 4, at + 4 + size))
    at += 4 + size
    if (texts.length === 10000) await flush()
}
await flush()
