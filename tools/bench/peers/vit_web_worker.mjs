// vit_web_worker.mjs MODEL.vit INPUT IMAGE THREADS
// vit.h in WebAssembly behind the line protocol of bench_peers.py.
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { moduleFile } from '../../../examples/wasm/features.mjs'
import { Classifier } from '../../../examples/wasm/vit.mjs'

async function main () {
  const [model, input, image, threads] = process.argv.slice(2)
  const file = moduleFile(Number(threads))
  const url = new URL(`../../../examples/wasm/${file}`, import.meta.url)
  const module = await WebAssembly.compile(readFileSync(url))
  const classifier = await Classifier.open(module, readFileSync(model), Number(threads))
  const { vit, handle, memory } = classifier
  const pixels = readFileSync(input).subarray(0, 4 * 3 * Number(image) ** 2)
  console.log(`ready ${file} in Node ${process.versions.node}`)
  for await (const line of createInterface({ input: process.stdin })) {
    new Uint8Array(memory.buffer, vit.input(handle)).set(pixels)
    const start = process.hrtime.bigint()
    classifier.classes = vit.forward(handle)
    const end = process.hrtime.bigint()
    classifier.check()
    if (line === 'run') {
      console.log(Number(end - start) / 1e6)
    } else {
      writeFileSync(line.slice('logits '.length), classifier.logits())
      console.log('ok')
    }
  }
}

main().catch(error => console.log('unavailable ' + error.message))
