#!/usr/bin/python3
"""search_speed.py - measures vit-search, the memory, NumPy and, if it is installed, FAISS.

Run it as `make bench-search`. The vectors are random: f32, f16, and f32 with int8 copies. There are
one or two threads. The search, a loop that only adds up the same bytes (read_memory.c), and the
peers run in turn. The table shows medians, and speeds relative to that loop. Files are in
build/peers. The first run of each program, which reads them into memory, does not count.
"""
import argparse
import importlib.util
import itertools
import json
import os
import shutil
import statistics
import subprocess
import time

import numpy

PEERS = "build/peers"
WORK = PEERS + "/search"
READ = PEERS + "/read_memory"
CHUNK = 1 << 16                 # vectors made at a time
TYPES = {"f32": "f32", "f16": "f16", "int8": "f32"}    # type of the vectors of each search


def make_vectors(path, dtype, options):
    """Writes normally distributed vectors and their names, with write() and not through a map,
    because pages that a map has made are slow to map again."""
    random = numpy.random.default_rng(1)
    header = {"descr": dtype, "fortran_order": False, "shape": (options.vectors, options.dim)}
    with open(path, "wb") as file:
        numpy.lib.format.write_array_header_1_0(file, header)
        for first in range(0, options.vectors, CHUNK):
            shape = min(CHUNK, options.vectors - first), options.dim
            random.standard_normal(shape, numpy.float32).astype(dtype).tofile(file)
    with open(path[:-4] + ".txt", "w") as names:
        names.writelines("%d\n" % i for i in range(options.vectors))


def search(dtype, threads, query):
    """Returns the milliseconds and the hits."""
    answer = json.loads(subprocess.check_output(
        ["tools/vit-search", "%s/%s" % (WORK, TYPES[dtype]), "--vector", query, "--json", "-t",
         str(threads)] + (["--int8"] if dtype == "int8" else []), text=True))
    return answer["search_ms"], [found["cosine"] for found in answer["nearest"]]


def read(path, threads):
    """Measures a new map of the file, like the one of vit-search."""
    return float(subprocess.check_output([READ, path, str(threads), "1"], text=True))


def numpy_search(vectors, threads, query):
    """Measures the second of two runs on a copy in memory, without dividing by lengths."""
    code = ("import numpy, sys, time; a = numpy.load(sys.argv[1]); q = numpy.load(sys.argv[2])\n"
            "for _ in range(2):\n"
            "    start = time.perf_counter(); x = a @ q; best = numpy.argpartition(x, -10)[-10:]\n"
            "print(1e3 * (time.perf_counter() - start))")
    return float(subprocess.check_output(
        ["/usr/bin/python3", "-c", code, vectors, query], text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}))


def faiss_search(vectors, threads, query):
    """Measures FAISS like numpy_search."""
    code = ("import faiss, numpy, sys, time; a = numpy.load(sys.argv[1])\n"
            "q = numpy.load(sys.argv[2])[None]; index = faiss.IndexFlatIP(a.shape[1])\n"
            "index.add(a); faiss.omp_set_num_threads(int(sys.argv[3]))\n"
            "for _ in range(2):\n"
            "    start = time.perf_counter(); index.search(q, 10)\n"
            "print(1e3 * (time.perf_counter() - start))")
    return float(subprocess.check_output(
        ["/usr/bin/python3", "-c", code, vectors, query, str(threads)], text=True))


def int8_copy(folder):
    return next(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".i8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=1000000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true", help="search and the memory alone")
    options = parser.parse_args()
    peers = {} if options.no_peers else {"NumPy": numpy_search}
    if peers and importlib.util.find_spec("faiss"):
        peers["FAISS"] = faiss_search
    shutil.rmtree(WORK, ignore_errors=True)
    query, folders = WORK + "/query.npy", {dtype: "%s/%s" % (WORK, dtype)
                                           for dtype in ("f32", "f16")}
    for dtype, folder in folders.items():
        os.makedirs(folder)
        make_vectors(folder + "/rows.npy", {"f32": "<f4", "f16": "<f2"}[dtype], options)
    numpy.save(query, numpy.random.default_rng(2).standard_normal(options.dim, numpy.float32))
    subprocess.run(["cc", "-O3", "-o", READ, os.path.dirname(__file__) + "/read_memory.c",
                    "-lpthread"], check=True)
    expected = search("int8", 2, query)[1]
    rows = {dtype: folders[TYPES[dtype]] + "/rows.npy" for dtype in TYPES}
    times = {}
    for _ in range(options.rounds + 1):
        for dtype, threads in itertools.product(TYPES, (1, 2)):
            copies = int8_copy(folders["f32"]) if dtype == "int8" else rows[dtype]
            read(copies, threads)   # after the peers, because the first run is slow
            ms, found = search(dtype, threads, query)
            if dtype != "f16" and found != expected:
                raise SystemExit("%s finds something else" % dtype)
            times.setdefault((dtype, threads, "search"), []).append(ms)
            times.setdefault((dtype, threads, "read"), []).append(read(copies, threads))
        for (name, peer), threads in itertools.product(peers.items(), (1, 2)):
            ms = peer(rows["f32"], threads, query)
            times.setdefault(("f32", threads, name), []).append(ms)
    print("%d vectors of %d, on %s" % (options.vectors, options.dim, time.strftime("%Y-%m-%d")))
    print("| vectors | threads | search | GB/s | adding up | of its speed | NumPy | FAISS |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for dtype in TYPES:
        for threads in (1, 2):
            median = {name: statistics.median(times[dtype, threads, name][1:])
                      for name in ("search", "read", "NumPy", "FAISS")
                      if (dtype, threads, name) in times}
            size = options.vectors * options.dim * {"f32": 4, "f16": 2, "int8": 1}[dtype]
            print("| %s | %d | %.0f ms | %.1f | %.0f ms | %.2f | %s |" % (
                dtype, threads, median["search"], size / median["search"] / 1e6, median["read"],
                median["read"] / median["search"], " | ".join(
                    "%.0f ms" % median[name] if name in median else "-"
                    for name in ("NumPy", "FAISS"))))
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main()
