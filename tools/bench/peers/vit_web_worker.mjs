// vit_web_worker.mjs MODEL.vit INPUT IMAGE THREADS
// Runs vit.h in WebAssembly, by the line protocol of workers.py, without embeddings.
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Model } from '../../../examples/web/vit/vit.mjs'

async function main () {
  const [path, input, image, threads] = process.argv.slice(2)
  const model = await Model.open(path, { threads: Number(threads) })
  const size = 3 * Number(image) ** 2 // floats of an image
  const bytes = readFileSync(input)
  const images = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)

  // Returns the logits, and the milliseconds of the forward pass.
  function run (index) {
    const photo = images.subarray(index * size, (index + 1) * size)
    const start = process.hrtime.bigint()
    const { logits } = model.run(photo, { logits: true })
    return { ms: Number(process.hrtime.bigint() - start) / 1e6, logits }
  }

  console.log(`ready vit.h, ${model.module}`)
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'run') {
      console.log(run(0).ms)
    } else {
      const logits = []
      for (let i = 0; i < images.length / size; i++) logits.push(...run(i).logits)
      writeFileSync(line.slice('logits '.length), new Float32Array(logits))
      console.log('ok')
    }
  }
}

main().catch(error => console.log('unavailable ' + error.message))
