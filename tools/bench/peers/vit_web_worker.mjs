// vit_web_worker.mjs MODEL.vit INPUT IMAGE THREADS
// vit.h in WebAssembly behind the line protocol of workers.py; it gives no embeddings.
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
  const images = readFileSync(input)
  const bytes = 4 * 3 * Number(image) ** 2 // of an image

  // The milliseconds of the forward pass.
  function run (index) {
    const pixels = images.subarray(index * bytes, (index + 1) * bytes)
    new Uint8Array(memory.buffer, vit.input(handle)).set(pixels)
    const start = process.hrtime.bigint()
    classifier.classes = vit.forward(handle)
    const end = process.hrtime.bigint()
    classifier.check()
    return Number(end - start) / 1e6
  }

  console.log(`ready vit.h, ${file}`)
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'run') {
      console.log(run(0))
    } else {
      const logits = []
      for (let i = 0; i < images.length / bytes; i++) {
        run(i)
        logits.push(...classifier.logits())
      }
      writeFileSync(line.slice('logits '.length), new Float32Array(logits))
      console.log('ok')
    }
  }
}

main().catch(error => console.log('unavailable ' + error.message))
