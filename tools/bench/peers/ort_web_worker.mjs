// ort_web_worker.mjs MODEL.onnx INPUT IMAGE THREADS
// onnxruntime-web in Node behind the line protocol of bench_peers.py.
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

async function main () {
  const [model, input, image, threads] = process.argv.slice(2)
  const ort = createRequire(process.cwd() + '/build/peers/')('onnxruntime-web')
  ort.env.wasm.numThreads = Number(threads)
  const session = await ort.InferenceSession.create(readFileSync(model), {
    executionProviders: ['wasm'],
    graphOptimizationLevel: 'all'
  })
  const shape = [1, 3, Number(image), Number(image)]
  const bytes = readFileSync(input).subarray(0, 4 * shape.reduce((a, b) => a * b))
  const tensor = new ort.Tensor('float32', new Float32Array(new Uint8Array(bytes).buffer), shape)
  const feeds = { [session.inputNames[0]]: tensor }
  console.log('ready onnxruntime-web ' + ort.env.versions.web)
  for await (const line of createInterface({ input: process.stdin })) {
    const start = process.hrtime.bigint()
    const outputs = await session.run(feeds)
    if (line === 'run') {
      console.log(Number(process.hrtime.bigint() - start) / 1e6)
    } else {
      writeFileSync(line.slice('logits '.length), outputs[session.outputNames[0]].data)
      console.log('ok')
    }
  }
  process.exit() // its threads would go on
}

main().catch(error => console.log('unavailable ' + error.message))
