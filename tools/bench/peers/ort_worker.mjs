// ort_worker.mjs onnxruntime-node|onnxruntime-web MODEL.onnx INPUT IMAGE THREADS BATCH
// Runs ONNX Runtime, native or in WebAssembly, by the line protocol of workers.py.
import { closeSync, fstatSync, openSync, readFileSync, readSync, writeSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const [name, model, input, image, threads, batch] = process.argv.slice(2)
const floats = 3 * Number(image) ** 2 // floats of an image

function open (ort) {
  const options = { graphOptimizationLevel: 'all' }
  if (name === 'onnxruntime-web') {
    ort.env.wasm.numThreads = Number(threads)
    return ort.InferenceSession.create(readFileSync(model),
      { ...options, executionProviders: ['wasm'] })
  }
  return ort.InferenceSession.create(model, {
    ...options,
    executionProviders: ['cpu'],
    executionMode: 'sequential',
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    // The runtime's threads may spin during a run, as by default, but not while other runtimes run.
    extra: { session: { force_spinning_stop: '1' } }
  })
}

async function main () {
  const ort = createRequire(process.cwd() + '/build/peers/')(name)
  const session = await open(ort)
  const images = openSync(input)
  const count = fstatSync(images).size / (4 * floats)

  // Takes at most a batch of images, from number `first` on.
  function feeds (first) {
    const n = Math.min(Number(batch), count - first)
    const values = new Float32Array(n * floats)
    readSync(images, new Uint8Array(values.buffer), 0, 4 * n * floats, 4 * first * floats)
    const shape = [n, 3, Number(image), Number(image)]
    return { [session.inputNames[0]]: new ort.Tensor('float32', values, shape) }
  }

  const start = feeds(0)
  const version = ort.env.versions[name === 'onnxruntime-web' ? 'web' : 'node']
  console.log(`ready ${name === 'onnxruntime-web' ? name : 'ONNX Runtime'} ${version}`)
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === 'run') {
      const begin = process.hrtime.bigint()
      await session.run(start, ['logits'])
      console.log(Number(process.hrtime.bigint() - begin) / 1e6)
    } else {
      const [output, path] = line.split(' ')
      const file = openSync(path, 'w')
      for (let first = 0; first < count; first += Number(batch)) {
        writeSync(file, (await session.run(feeds(first), [output]))[output].data)
      }
      closeSync(file)
      console.log('ok')
    }
  }
  process.exit() // without this call, the threads of onnxruntime-web would keep the process alive
}

main().catch(error => console.log('unavailable ' + error.message))
