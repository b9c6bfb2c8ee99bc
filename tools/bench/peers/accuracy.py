#!/usr/bin/python3
"""accuracy.py - measures the loss of accuracy by each type of weights, in each runtime, for a real
model.

Run it as `make bench-accuracy`, from the root of the repository. All runtimes get the same inputs:
photos as vit.h preprocesses them. The best class and the embedding are compared with those of
PyTorch in f32.
"""
import argparse
import glob
import json
import os
import random
import statistics
import subprocess
import sys

import workers
from bench_peers import cosine, words
from workers import PEERS, Worker, say

THREADS, BATCH = 2, 8
MOST = 50                       # images of one run of vit-run


def photos(folder, count):
    """Draws `count` images evenly from a folder and the folders in it."""
    found = sorted(p for p in glob.glob(folder + "/**/*", recursive=True) if os.path.isfile(p))
    random.Random(1).shuffle(found)
    return found[:count]


def write_inputs(model, files):
    """Writes the inputs that vit.h preprocesses: the contents of an .npy after its header."""
    npy = model.folder + "/input.npy"
    with open(model.folder + "/input.f32", "wb") as to:
        for i in range(0, len(files), MOST):
            if subprocess.run(["tools/vit-run", "-m", model.folder + "/f32.vit", "--dump-input",
                               npy] + files[i:i + MOST],
                              stdout=subprocess.DEVNULL).returncode:
                sys.exit("the images cannot be read")
            with open(npy, "rb") as source:
                source.seek(8)
                source.seek(10 + int.from_bytes(source.read(2), "little"))
                to.write(source.read())


def best(logits):
    return max(range(len(logits)), key=logits.__getitem__)


def compare(options, model, refused, log):
    """Returns a result for each runtime and type, PyTorch in f32 first."""
    outputs = {}
    for runtime, dtype, command in workers.commands(model, refused, THREADS, BATCH, options):
        worker = Worker(runtime, dtype, command, "auto", log)
        if worker.problem:
            say("Not measured: %s %s: %s" % (runtime, dtype, worker.problem))
            worker.end()
            continue
        say(worker.name, dtype)
        outputs[runtime, dtype] = [worker.outputs(what, options.count)
                                   for what in ("logits", "embedding")]
        worker.end()
    logits, embeddings = outputs["PyTorch", "f32"]
    results = []
    for (runtime, dtype), (found, vectors) in outputs.items():
        cosines = [cosine(*pair) for pair in zip(vectors, embeddings)]
        same = [best(a) == best(b) for a, b in zip(found, logits)]
        results.append({"runtime": runtime, "dtype": dtype,
                        "agreement": round(statistics.mean(same), 5),
                        "cosine": round(statistics.mean(cosines), 6),
                        "cosine_min": round(min(cosines), 6)})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--checkpoint", required=True, metavar="MODEL.safetensors")
    add("--arch", required=True, help="timm's name")
    add("--images", required=True, metavar="FOLDER")
    add("--calibrate", required=True, metavar="FOLDER", help="for vit-convert")
    add("--count", type=int, default=1000, help="of the images")
    add("--about", default="", help="what images they are")
    add("--dtypes", type=words, default=["f32", "f16", "bf16", "int8", "int4"])
    add("--ncnn", metavar="FOLDER", help="a checkout of ncnn's sources, to build and to compare")
    add("--json", required=True, metavar="FILE")
    parser.set_defaults(isa="auto", onnxruntime=workers.ONNXRUNTIME, runtimes=None, extra=[],
                        wasm=None)
    options = parser.parse_args()

    os.makedirs(PEERS, exist_ok=True)
    workers.install_onnxruntime()
    if options.ncnn:
        options.ncnn = workers.build_ncnn(options.ncnn, "auto")
    model = workers.find_model(options.arch)
    model = model._replace(folder=model.folder + "-real")
    refused = workers.prepare(model, options.dtypes, options.checkpoint, options.calibrate)
    files = photos(options.images, options.count)
    options.count = len(files)
    write_inputs(model, files)
    with open(PEERS + "/worker.log", "w") as log:
        results = compare(options, model, refused, log)
    with open(options.json, "w") as f:
        f.write('{\n "model": %s,\n "images": %s,\n "results": [\n  %s\n ]\n}\n' % (
            json.dumps(options.arch), json.dumps("%d images%s." % (
                options.count, options.about and ", " + options.about)),
            ",\n  ".join(map(json.dumps, results))))
    for r in results:
        print("%-14s %-5s %6.2f %%  cosine %.5f, worst %.5f" % (
            r["runtime"], r["dtype"], 100 * r["agreement"], r["cosine"], r["cosine_min"]))


if __name__ == "__main__":
    main()
