// ort_worker.js MODEL.onnx INPUT IMAGE THREADS BATCH
// ONNX Runtime behind the line protocol of bench_peers.py.
'use strict'
const fs = require('fs')
const readline = require('readline')
const ort = require(process.cwd() + '/build/peers/node_modules/onnxruntime-node')

async function main () {
  const [model, input, image, threads, batch] = process.argv.slice(2)
  const session = await ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    graphOptimizationLevel: 'all',
    executionMode: 'sequential',
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    // Its threads may spin while it runs, as by default, but not while the others do.
    extra: { session: { force_spinning_stop: '1' } }
  })
  const shape = [Number(batch), 3, Number(image), Number(image)]
  const floats = shape.reduce((a, b) => a * b)
  const bytes = fs.readFileSync(input).subarray(0, 4 * floats)
  const tensor = new ort.Tensor('float32', new Float32Array(new Uint8Array(bytes).buffer), shape)
  const feeds = { [session.inputNames[0]]: tensor }
  console.log('ready ONNX Runtime ' + ort.env.versions.node)
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const start = process.hrtime.bigint()
    const outputs = await session.run(feeds)
    if (line === 'run') {
      console.log(Number(process.hrtime.bigint() - start) / 1e6)
    } else {
      fs.writeFileSync(line.slice('logits '.length), outputs[session.outputNames[0]].data)
      console.log('ok')
    }
  }
}

main().catch(error => console.log('unavailable ' + error.message))
