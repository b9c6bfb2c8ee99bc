#!/usr/bin/python3
"""bench_peers.py - measures vit.h, ONNX Runtime, PyTorch and ncnn on the same model and input.

Run it as `make bench-peers`, from the root of the repository. Each runtime is a worker process
(workers.py). The workers run in turn, again and again, because other load of the machine then slows
all of them alike. The measured time is that of the forward pass, from normalized pixels to logits
in memory. With --cold it begins at the start of the process.
"""
import argparse
import datetime
import json
import math
import os
import random
import shlex
import statistics
import sys
import time

import chart
import workers
from chart import threads_text, unique
from workers import PEERS, RUNS, Worker, say

TOLERANCE = 1e-4                # of f32 logits, relative to the largest


# === Measuring ===

def difference(a, b):
    """Returns the largest difference of two outputs, relative to the largest value of b; infinite
    if they cannot be compared."""
    if len(a) != len(b) or not all(map(math.isfinite, a)):
        return math.inf
    return max(abs(x - y) for x, y in zip(a, b)) / (max(map(abs, b)) or 1)


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (sum(x * x for x in a) * sum(x * x for x in b) or 1) ** 0.5


def start_all(model, refused, threads, options, log, notes):
    """Starts all workers; returns {worker: batch}."""
    started = {}
    for batch in options.batch:
        for runtime, dtype, command in workers.commands(model, refused, threads, batch, options):
            worker = Worker(runtime, dtype, command, options.isa, log)
            if worker.problem:
                notes.add("%s %s: %s" % (runtime, dtype, worker.problem))
                worker.end()
            else:
                started[worker] = batch
    if not started:
        sys.exit("nothing can run: " + "; ".join(sorted(notes)))
    return started


def result(worker, model, batch, threads, times):
    """Returns the common members of all results; `times` are those of a batch."""
    side, patch = int(model.sizes[5]), int(model.sizes[4])
    return {"arch": model.name, "tokens": (side // patch) ** 2 + 1, "batch": batch,
            "threads": threads, "dtype": worker.dtype, "runtime": worker.runtime,
            "version": worker.name, "runs": len(times),
            "ms": round(statistics.median(times) / batch, 3),
            "ms_min": round(min(times) / batch, 3)}


def measure(model, refused, threads, options, log, notes):
    """Returns a list of results, one for each batch, dtype and runtime."""
    started = start_all(model, refused, threads, options, log, notes)
    say("%s, %s: %d workers, %d rounds"
        % (model.name, threads_text(threads), len(started), options.rounds))
    logits = {w: w.outputs("logits", workers.input_for(batch)[1]) for w, batch in started.items()}
    for i in range(options.rounds):
        for worker in random.Random(i).sample(list(started), len(started)):
            worker.turn()

    reference = next((w for w in started if (w.runtime, w.dtype) == ("PyTorch", "f32")),
                     next(iter(started)))
    results = []
    for w, batch in started.items():
        pairs = list(zip(logits[w], logits[reference]))
        resident, peak = w.memory()
        results.append({
            **result(w, model, batch, threads, w.times),
            "resident_mib": round(resident), "peak_mib": round(peak),
            "reference": "%s in %s" % (reference.runtime, reference.dtype),
            "difference": max(difference(*pair) for pair in pairs),
            "cosine": statistics.mean(cosine(*pair) for pair in pairs)})
        w.end()
    return results


def measure_cold(model, refused, threads, options, log, notes):
    """Measures from the start of a process to its first logits, and a later forward pass."""
    all_commands = list(workers.commands(model, refused, threads, 1, options))
    say("%s, %s: %d workers, %d starts each"
        % (model.name, threads_text(threads), len(all_commands), options.cold))
    times, last = {}, {}
    for i in range(options.cold + 1):
        order = list(range(len(all_commands)))
        random.Random(i).shuffle(order)
        for key in order:
            runtime, dtype, command = all_commands[key]
            time.sleep(workers.PAUSE)
            start = time.perf_counter()
            worker = Worker(runtime, dtype, command, options.isa, log)
            if worker.problem:
                notes.add("%s %s: %s" % (runtime, dtype, worker.problem))
            else:
                worker.ask("run")
                cold = 1e3 * (time.perf_counter() - start)
                warm = statistics.median(float(worker.ask("run")) for _ in range(RUNS))
                if i:   # the first run reads the files from the disk
                    times.setdefault(key, []).append((cold, warm))
                last[key] = worker
            worker.end()
    return [{**result(last[key], model, 1, threads, [cold for cold, _ in times[key]]),
             "forward_ms": round(statistics.median(warm for _, warm in times[key]), 3)}
            for key in sorted(times)]


# === Reporting ===

def cpu_name():
    with open("/proc/cpuinfo") as f:
        fields = dict(map(str.strip, line.split(":", 1)) for line in f if ":" in line)
    flags = fields.get("flags", "").split()
    best = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if f in flags]
    return "%s, family %s model %s (%s)" % (
        fields.get("model name", os.uname().machine), fields.get("cpu family", "?"),
        fields.get("model", "?"), " ".join(best[-3:]))


def limits_text(options):
    """Describes the runtimes that --isa limits, and those that it does not."""
    if options.isa == "auto":
        return ""
    limited, free = ["vit.h"], []
    if options.onnxruntime != workers.ONNXRUNTIME:
        limited += ["ONNX Runtime (a patched copy)"]
    else:
        free += ["ONNX Runtime (it has no switch)"]
    if options.isa in workers.LIMITS:
        limited += ["PyTorch (%s)" % " ".join(map("=".join,
                                                  workers.LIMITS[options.isa][0].items()))]
        limited += ["ncnn (built so)"] if options.ncnn else []
    else:
        free = ["the others"]
    text = "Limited to %s: %s." % (options.isa, ", ".join(limited))
    return text + (" Not limited: %s." % ", ".join(free) if free else "")


def add_to_file(path, kind, results, about):
    """Adds results to a file of figures; results of the same kind and configuration are
    replaced."""
    def key(r):
        return [r[name] for name in ("arch", "batch", "threads", "dtype", "runtime")]
    try:
        with open(path) as f:
            data = json.load(f)
    except FileNotFoundError:
        data = {}
    new = [key(r) for r in results]
    data.update(about)
    data[kind] = [r for r in data.get(kind, []) if key(r) not in new] + results
    rows = ["%s: [\n  %s\n ]" % (json.dumps(name), ",\n  ".join(map(json.dumps, value)))
            if isinstance(value, list) else "%s: %s" % (json.dumps(name), json.dumps(value))
            for name, value in data.items()]
    with open(path, "w") as f:
        f.write("{\n " + ",\n ".join(rows) + "\n}\n")


def words(text):
    return text.replace(",", " ").split()


def numbers(text):
    return [int(word) for word in words(text)]


def extra(text):
    name, _, command = text.partition("=")
    return name, command


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--archs", type=words, default=["vit_base_patch16_224"],
        help="timm's names; NAME@N for images of N pixels")
    add("--batch", type=numbers, default=[1], help="images at once, up to 32")
    add("--threads", type=numbers, default=[1, 2])
    add("--dtypes", type=words, default=["f32", "bf16", "int8"])
    add("--runtimes", type=lambda text: text.split(","), help="only these, as they are printed")
    add("--rounds", type=int, default=10, help="each: %d runs, the first not counted" % RUNS)
    add("--cold", type=int, metavar="N", help="start each runtime N times instead")
    add("--isa", default="auto", help="limit vit.h, and the others where it is possible: sse2 avx2 "
        "avx512 ...")
    add("--ncnn", metavar="FOLDER", help="a checkout of ncnn's sources, to build and to compare")
    add("--extra", type=extra, default=[], action="append", metavar="NAME=COMMAND",
        help="one more worker; {arch} {checkpoint} {dtype} {image} {input} {threads} {batch} are "
             "replaced")
    add("--wasm", type=shlex.split, metavar="COMMAND",
        help="compare vit.h in WebAssembly with onnxruntime-web, both run by this: node")
    add("--cpu", default=cpu_name(), help="the name to print")
    add("--json", metavar="FILE", help="add the results to this file")
    options = parser.parse_args()
    if not all(1 <= batch <= 32 for batch in options.batch):
        parser.error("--batch: 1 to 32")
    if (options.wasm or options.cold) and options.batch != [1]:
        parser.error("--wasm, --cold: one image at a time")
    return options


def main():
    options = parse_options()
    os.makedirs(PEERS, exist_ok=True)
    workers.install_onnxruntime()
    options.onnxruntime = (options.isa == "avx2" and workers.limit_onnxruntime() or
                           workers.ONNXRUNTIME)
    if options.ncnn:
        options.ncnn = workers.build_ncnn(options.ncnn, options.isa)
    results, notes, date = [], set(), datetime.date.today().isoformat()
    with open(PEERS + "/worker.log", "w") as log:
        for model in map(workers.find_model, options.archs):
            refused = workers.prepare(model, options.dtypes)
            notes |= {"vit.h %s: %s" % item for item in refused.items()}
            for threads in options.threads:
                results += (measure_cold if options.cold else measure)(
                    model, refused, threads, options, log, notes)
    order = unique((r["arch"], r["batch"]) for r in results)
    results.sort(key=lambda r: (order.index((r["arch"], r["batch"])),
                                options.dtypes.index(r["dtype"])))

    print("%s, %s. Median of %d interleaved runs, an image; in brackets: times vit.h's.\n"
          % (options.cpu, date, results[0]["runs"]))
    print("\n".join(chart.speed(results) + [""] +
                    (chart.cold if options.cold else chart.details)(results)))
    if not options.cold:
        print("\nLogits are compared with those of %s." % results[0]["reference"])
    print(limits_text(options))
    for note in sorted(notes):
        print("Not measured: " + note)
    if options.json:
        kind = "cold" if options.cold else "results" if options.batch == [1] else "batches"
        add_to_file(options.json, kind, results,
                    {"cpu": options.cpu, "date": date, "limits": limits_text(options)})

    wrong = [r for r in results if r["dtype"] == "f32" and not r.get("difference", 0) <= TOLERANCE]
    for r in wrong:
        print("WRONG: f32 logits of %(runtime)s, %(arch)s, batch %(batch)d, differ by "
              "%(difference).1e" % r)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
