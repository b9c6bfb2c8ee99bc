#!/usr/bin/python3
"""bench_peers.py - vit.h, ONNX Runtime and PyTorch on the same model and input, interleaved.

Run it as `make bench-peers`, from the root of the repository. Each runtime is a process of its own
that has loaded the model and waits. One after the other gets a turn, again and again, so that
whatever the machine does besides meets all of them alike. What is measured is the forward pass,
from normalized pixels in memory to logits in memory.

A worker speaks lines: it prints "ready NAME" (or "unavailable REASON"), then answers "run" with the
milliseconds of a forward pass and "logits FILE" with "ok" once FILE holds them as f32.
"""
import argparse
import array
import datetime
import glob
import json
import math
import os
import random
import shlex
import statistics
import subprocess
import sys
import time

from chart import bar_chart

HERE = os.path.dirname(os.path.relpath(__file__))
PEERS = "build/peers"
PYTHON = "/usr/bin/python3"     # Debian's, whose packages these are
RUNS = 3                        # of a turn; the first, with cold caches, does not count
PAUSE = 0.03                    # seconds between turns: OpenMP's threads spin on for up to 10 ms
TOLERANCE = 1e-4                # of f32 logits, relative to the largest


def say(*words):
    print(*words, file=sys.stderr, flush=True)


# === Preparing ===

def is_installed(package, version):
    try:
        with open("%s/node_modules/%s/package.json" % (PEERS, package)) as f:
            return json.load(f)["version"] == version
    except OSError:
        return False


def install_onnxruntime():
    with open(HERE + "/package.json") as f:
        wanted = json.load(f)
    versions = wanted["dependencies"]
    if all(is_installed(*item) for item in versions.items()):
        return
    say("Installing with npm into %s: %s (430 MB)" % (PEERS, ", ".join(map(" ".join,
                                                                          versions.items()))))
    with open(PEERS + "/package.json", "w") as f:
        json.dump(wanted, f)
    # No scripts: the package's own would download the CUDA libraries.
    subprocess.run(["npm", "install", "--prefix", PEERS, "--ignore-scripts", "--no-audit",
                    "--no-fund", "--no-package-lock", "--loglevel=error"], check=True,
                   stdout=subprocess.DEVNULL)


def architecture(name):
    """[width, depth, heads, mlp_dim, patch, image] as words."""
    table = subprocess.check_output(["tools/vit-convert", "--list-archs"], text=True)
    for line in table.splitlines():
        if line.split()[0] == name:
            return line.split()[1:]
    sys.exit("%s: tools/vit-convert --list-archs does not know it" % name)


def prepare(arch, dtypes, calibrate):
    """The folder with the model in every format; dtypes that vit-convert refuses, and why."""
    folder, script = "%s/models/%s" % (PEERS, arch), HERE + "/prepare.py"
    last = folder + "/input.f32"
    if not os.path.exists(last) or os.path.getmtime(last) < os.path.getmtime(script):
        say("Writing a random %s and its ONNX graphs into %s" % (arch, folder))
        os.makedirs(folder, exist_ok=True)
        subprocess.run([PYTHON, script, folder] + architecture(arch), check=True)
    refused = {}
    for dtype in dtypes:
        done = subprocess.run(["tools/vit-convert", "-q", folder + "/model.pth", "--arch", arch,
                               "--dtype", dtype, "-o", "%s/%s.vit" % (folder, dtype)] +
                              (["--calibrate", "examples/cat.jpg"] if dtype == "int8" else []),
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            refused[dtype] = done.stderr.strip()
    return folder, refused


# === Workers ===

class Worker:
    def __init__(self, runtime, dtype, command, log):
        self.runtime, self.dtype, self.times = runtime, dtype, []
        # OpenBLAS with OpenMP shares PyTorch's threads; with threads of its own both would fight.
        libraries = ":".join(glob.glob("/usr/lib/*/openblas-openmp"))
        env = dict(os.environ, LD_LIBRARY_PATH=libraries) if runtime == "PyTorch" else None
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=log, text=True, bufsize=1, env=env)
        word, _, self.name = self.process.stdout.readline().strip().partition(" ")
        self.problem = None if word == "ready" else self.name or "it ended; see worker.log"

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit("%s %s ended while it ran; see %s/worker.log"
                     % (self.runtime, self.dtype, PEERS))
        return answer

    def turn(self):
        time.sleep(PAUSE)
        self.times += [float(self.ask("run")) for _ in range(RUNS)][1:]

    def logits(self):
        path, values = PEERS + "/logits.f32", array.array("f")
        if self.ask("logits " + path) != "ok":
            sys.exit("%s %s gave no logits" % (self.runtime, self.dtype))
        with open(path, "rb") as f:
            values.frombytes(f.read())
        return values

    def memory(self):
        """(MiB resident now, at most so far), mapped weights included."""
        with open("/proc/%d/status" % self.process.pid) as f:
            fields = dict(line.split(":", 1) for line in f)
        return tuple(int(fields[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def commands(arch, folder, refused, dtype, threads, batch, extras):
    """(runtime, command) of each that has this dtype."""
    sizes, tail = architecture(arch), [str(threads), str(batch)]
    images = folder + "/input.f32"
    if dtype not in refused:
        yield "vit.h", [PEERS + "/vit_worker", "%s/%s.vit" % (folder, dtype), images] + tail
    if dtype in ("f32", "int8"):
        yield "ONNX Runtime", ["node", HERE + "/ort_worker.js", "%s/%s.onnx" % (folder, dtype),
                               images, sizes[-1]] + tail
    if dtype in ("f32", "bf16", "int8"):
        yield "PyTorch", [PYTHON, HERE + "/torch_worker.py", dtype, folder + "/model.pth",
                          images] + sizes + tail
    for name, command in extras:
        yield name, shlex.split(command.format(
            arch=arch, checkpoint=folder + "/model.pth", dtype=dtype, image=sizes[-1],
            input=images, threads=threads, batch=batch))


def web_commands(arch, folder, refused, dtype, threads, node):
    """The same in WebAssembly."""
    tail = [folder + "/input.f32", architecture(arch)[-1], str(threads)]
    if dtype not in refused:
        yield "vit.h", node + [HERE + "/vit_web_worker.mjs", "%s/%s.vit" % (folder, dtype)] + tail
    if dtype in ("f32", "int8"):
        yield "onnxruntime-web", node + [HERE + "/ort_web_worker.mjs",
                                         "%s/%s.onnx" % (folder, dtype)] + tail


# === Measuring ===

def difference(a, b):
    """Between outputs, relative to the largest of b; infinite where they cannot be compared."""
    if len(a) != len(b) or not all(map(math.isfinite, a)):
        return math.inf
    return max(abs(x - y) for x, y in zip(a, b)) / max(map(abs, b))


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b))
    return dot / (sum(x * x for x in a) * sum(x * x for x in b) or 1) ** 0.5


def measure(arch, folder, refused, batch, threads, options, log, notes):
    """One configuration: a list of results, one for each dtype and runtime."""
    workers = []
    for dtype in options.dtypes:
        for runtime, command in (
                web_commands(arch, folder, refused, dtype, threads, options.wasm) if options.wasm
                else commands(arch, folder, refused, dtype, threads, batch, options.extra)):
            worker = Worker(runtime, dtype, command, log)
            if worker.problem:
                notes.add("%s %s: %s" % (runtime, dtype, worker.problem))
                worker.end()
            else:
                workers.append(worker)

    if not workers:
        sys.exit("nothing can run: " + "; ".join(sorted(notes)))
    say("%s, batch %d, %s: %d workers, %d rounds"
        % (arch, batch, threads_text(threads), len(workers), options.rounds))
    logits = {w: w.logits() for w in workers}
    for i in range(options.rounds):
        random.Random(i).shuffle(workers)
        for worker in workers:
            worker.turn()
    workers.sort(key=list(logits).index)

    reference = next((w for w in workers if (w.runtime, w.dtype) == ("PyTorch", "f32")), workers[0])
    ours = {w.dtype: statistics.median(w.times) for w in workers if w.runtime == "vit.h"}
    results = []
    for w in workers:
        resident, peak = w.memory()
        ms = statistics.median(w.times)
        results.append({
            "arch": arch, "batch": batch, "threads": threads, "dtype": w.dtype,
            "runtime": w.runtime, "version": w.name, "ms": ms, "ms_min": min(w.times),
            "ratio": ms / ours[w.dtype] if w.dtype in ours else None,
            "resident_mib": resident, "peak_mib": peak,
            "reference": "%s in %s" % (reference.runtime, reference.dtype),
            "difference": difference(logits[w], logits[reference]),
            "cosine": cosine(logits[w], logits[reference])})
        w.end()
    return results


# === Reporting ===

def cpu_name():
    with open("/proc/cpuinfo") as f:
        fields = dict(map(str.strip, line.split(":", 1)) for line in f if ":" in line)
    flags = fields.get("flags", "").split()
    best = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8") if f in flags]
    return "%s (%s)" % (fields.get("model name", os.uname().machine), " ".join(best[-3:]))


def threads_text(count):
    return "%d thread%s" % (count, "" if count == 1 else "s")


def unique(values):
    return list(dict.fromkeys(values))


def table(results):
    """Markdown: a row for each model, dtype and number of threads; a column for each runtime."""
    runtimes = unique(r["runtime"] for r in results)
    cells = {}
    for r in results:
        row = cells.setdefault((r["arch"], r["batch"], r["dtype"], r["threads"]), {})
        row[r["runtime"]] = "%.1f ms" % r["ms"]
        if r["runtime"] != "vit.h" and r["ratio"]:
            row[r["runtime"]] += " (%.2f)" % r["ratio"]
    lines = ["| model | batch | weights | threads | %s |" % " | ".join(runtimes),
             "|---|--:|---|--:|%s" % ("--:|" * len(runtimes))]
    for key, row in cells.items():
        lines.append("| %s | %s | %s | %s | %s |"
                     % (*key, " | ".join(row.get(name, "-") for name in runtimes)))
    return lines


def details(results):
    """Markdown: fastest run, memory and agreement."""
    lines = ["| model | batch | weights | threads | runtime | fastest | resident | peak "
             "| logits differ | cosine |", "|---|--:|---|--:|---|--:|--:|--:|--:|--:|"]
    for r in results:
        lines.append("| %(arch)s | %(batch)d | %(dtype)s | %(threads)d | %(version)s "
                     "| %(ms_min).1f ms | %(resident_mib).0f MiB | %(peak_mib).0f MiB "
                     "| %(difference).1e | %(cosine).5f |" % r)
    return lines


def chart(results, cpu, date):
    """Of the first model and batch."""
    first = [r for r in results if (r["arch"], r["batch"]) == (results[0]["arch"],
                                                               results[0]["batch"])]
    groups = {}
    for r in first:
        name = "%s, %s" % (r["dtype"], threads_text(r["threads"]))
        groups.setdefault(name, []).append((r["runtime"], 1e3 * r["batch"] / r["ms"]))
    caption = ["%s, %s. Median of interleaved runs; longer is better." % (cpu, date),
               ", ".join(unique(r["version"] for r in first))]
    return bar_chart("Images per second, %s, batch %d" % (first[0]["arch"], first[0]["batch"]),
                     groups.items(), caption)


def words(text):
    return text.replace(",", " ").split()


def numbers(text):
    return [int(word) for word in words(text)]


def extra(text):
    name, _, command = text.partition("=")
    return name, command


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--archs", type=words, default=["vit_base_patch16_224"], help="timm's names")
    add("--batch", type=numbers, default=[1], help="images at once, up to 8")
    add("--threads", type=numbers, default=[1, 2])
    add("--dtypes", type=words, default=["f32", "bf16", "int8"])
    add("--rounds", type=int, default=10, help="each: %d runs, the first not counted" % RUNS)
    add("--extra", type=extra, default=[], action="append", metavar="NAME=COMMAND",
        help="one more worker; {arch} {checkpoint} {dtype} {image} {input} {threads} {batch} are "
             "replaced")
    add("--wasm", type=shlex.split, metavar="COMMAND",
        help="compare vit.h in WebAssembly with onnxruntime-web, both run by this: node")
    add("--calibrate", metavar="IMAGES", help="for vit-convert")
    add("--cpu", default=cpu_name(), help="the name to print")
    add("--json", metavar="FILE")
    add("--svg", metavar="FILE")
    options = parser.parse_args()
    if not all(1 <= batch <= 8 for batch in options.batch):
        parser.error("--batch: 1 to 8")
    if options.wasm and options.batch != [1]:
        parser.error("--wasm: one image at a time")

    os.makedirs(PEERS, exist_ok=True)
    install_onnxruntime()
    results, notes, date = [], set(), datetime.date.today().isoformat()
    with open(PEERS + "/worker.log", "w") as log:
        for arch in options.archs:
            folder, refused = prepare(arch, options.dtypes, options.calibrate)
            notes |= {"vit.h %s: %s" % item for item in refused.items()}
            for batch in options.batch:
                for threads in options.threads:
                    results += measure(arch, folder, refused, batch, threads, options, log, notes)
    order = unique((r["arch"], r["batch"]) for r in results)
    results.sort(key=lambda r: (order.index((r["arch"], r["batch"])),
                                options.dtypes.index(r["dtype"])))

    print("%s, %s. Median of %d interleaved runs; in brackets: times vit.h's.\n"
          % (options.cpu, date, options.rounds * (RUNS - 1)))
    print("\n".join(table(results) + [""] + details(results)))
    print("\nLogits are compared with those of %s." % results[0]["reference"])
    for note in sorted(notes):
        print("Not measured: " + note)
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"cpu": options.cpu, "date": date, "results": results}, f, indent=1)
    if options.svg:
        with open(options.svg, "w") as f:
            f.write(chart(results, options.cpu, date))

    wrong = [r for r in results if r["dtype"] == "f32" and not r["difference"] <= TOLERANCE]
    for r in wrong:
        print("WRONG: f32 logits of %(runtime)s, %(arch)s, batch %(batch)d, differ by "
              "%(difference).1e" % r)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
