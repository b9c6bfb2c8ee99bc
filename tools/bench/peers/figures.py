#!/usr/bin/python3
"""figures.py - draws the charts and fills the tables of the pages from tools/bench/figures/*.json.

A page says where: the lines after "<!-- KIND CLASS -->", up to an empty one, are written anew.
CLASS is the name of a file of figures, KIND one of TABLES.
"""
import glob
import json
import os
import re
import textwrap

import chart
import tables
from tables import threads_text, unique

FOLDER = os.path.relpath(os.path.join(os.path.dirname(__file__), "../figures"))
PAGES = ["README.md", "tools/bench/README.md"]
CLASSES = {"avx2": "AVX2", "avx512": "AVX-512"}
# What accuracy.json is about, and which speed goes with it.
TIMED_AS = "vit_tiny_patch16_224"


def short(arch):
    """vit_base_patch16_224 is B/16."""
    match = re.match(r"\w*?_(tiny|small|base|large)_patch(\d+)_", arch)
    return "%s/%s" % (dict(tiny="Ti", small="S", base="B", large="L")[match[1]], match[2])


def load():
    files = {}
    for path in sorted(glob.glob(FOLDER + "/*.json")):
        with open(path) as f:
            files[os.path.basename(path)[:-5]] = json.load(f)
    return files


# === What belongs to which figure ===

def base(r):
    return r["arch"].partition("@")[0]


def speed_results(data):
    """Of the models and types that were measured with every number of threads."""
    results = [r for r in data["results"] if "@" not in r["arch"]]
    def threads(arch, dtype):
        return {r["threads"] for r in results if (r["arch"], r["dtype"]) == (arch, dtype)}
    most = max(len(threads(r["arch"], r["dtype"])) for r in results)
    return [r for r in results if len(threads(r["arch"], r["dtype"])) == most]


def tokens_results(data):
    """Of the models that were measured with several sizes of images, f32 and int8."""
    resized = {base(r) for r in data["results"] if "@" in r["arch"]}
    return sorted((r for r in data["results"] if base(r) in resized and r["threads"] == 1
                   and r["dtype"] in ("f32", "int8")),
                  key=lambda r: (r["dtype"], r["tokens"]))


def accuracy_results(accuracy, data):
    """With the images a second of each."""
    speed = {(r["runtime"], r["dtype"]): 1e3 / r["ms"] for r in data["results"]
             if (r["arch"], r["threads"]) == (TIMED_AS, 1)}
    return [{**r, "speed": speed.get((r["runtime"], r["dtype"]))} for r in accuracy["results"]]


# === Tables ===

def named(results):
    """Under their short names."""
    return [{**r, "arch": short(r["arch"])} for r in results]


def tokens_table(data):
    return tables.speed([{**r, "arch": "%s, %d tokens" % (short(r["arch"]), r["tokens"])}
                         for r in tokens_results(data)])


def accuracy_table(accuracy, data):
    lines = ["| runtime | weights | best class as in f32 | cosine | worst | images a second |",
             "|---|---|--:|--:|--:|--:|"]
    for r in accuracy_results(accuracy, data):
        lines.append("| %s | %s | %.1f %% | %.5f | %.5f | %s |" % (
            r["runtime"], r["dtype"], 100 * r["agreement"], r["cosine"], r["cosine_min"],
            "%.1f" % r["speed"] if r["speed"] else "-"))
    return lines


def readme_table(files):
    """B/16, one thread; the fastest is bold."""
    runtimes = ["vit.h", "ONNX Runtime", "PyTorch", "ncnn"]
    lines = ["| CPU | weights | %s |" % " | ".join(runtimes), "|---|---|" + "--:|" * len(runtimes)]
    for name, title in CLASSES.items():
        results = [r for r in speed_results(files[name])
                   if (short(r["arch"]), r["threads"]) == ("B/16", 1)]
        for dtype in unique(r["dtype"] for r in results):
            row = {r["runtime"]: r["ms"] for r in results if r["dtype"] == dtype}
            cells = [("**%.0f ms**" if row[n] == min(row.values()) else "%.0f ms") % row[n]
                     if n in row else "-" for n in runtimes]
            lines.append("| %s | %s | %s |" % (title, dtype, " | ".join(cells)))
    return lines


def machine(data):
    return "%s, %s" % (data["cpu"], data["date"])


def about(data):
    versions = ", ".join(unique(r["version"] for r in data["results"]))
    return textwrap.wrap("%s: %s. %s" % (machine(data), versions, data["limits"]), 100)


TABLES = {
    "about": lambda files, name: about(files[name]),
    "speed": lambda files, name: tables.speed(named(speed_results(files[name]))),
    "tokens": lambda files, name: tokens_table(files[name]),
    "batch": lambda files, name: tables.speed(named(files[name]["batches"])),
    "cold": lambda files, name: tables.cold(named(files[name]["cold"])),
    "accuracy": lambda files, name: accuracy_table(files["accuracy"], files[name]),
    "readme": lambda files, name: readme_table(files),
}


def fill(path, files):
    def table(match):
        lines = TABLES[match[2]](files, match[3])
        return "\n".join([match[1]] + lines)
    with open(path) as f:
        page = f.read()
    page = re.sub(r"(<!-- (\w+) (\w+) -->)(?:\n[^\n]+)*", table, page)
    with open(path, "w") as f:
        f.write(page)


# === Charts ===

def speed_chart(name, data):
    """A panel for each number of threads; a group for each model and type."""
    results, panels = speed_results(data), []
    for threads in unique(r["threads"] for r in results):
        groups = {}
        for r in results:
            if r["threads"] == threads:
                groups.setdefault("%s, %s" % (short(r["arch"]), r["dtype"]), []).append(
                    (r["runtime"], r["ms"]))
        panels.append((threads_text(threads), list(groups.items())))
    return chart.ratio_bars("%s: one image at a time" % CLASSES[name], panels,
                            [machine(data), "Medians of interleaved runs."])


def tokens_chart(name, data):
    results, panels = tokens_results(data), []
    for dtype in unique(r["dtype"] for r in results):
        series = {}
        for r in (r for r in results if r["dtype"] == dtype):
            point = r["tokens"], 1e3 * r["ms"] / r["tokens"]
            series.setdefault(r["runtime"], []).append(point)
        panels.append((dtype, list(series.items())))
    return chart.lines("%s: %s with larger images, one thread" % (CLASSES[name],
                                                                  short(results[0]["arch"])),
                       panels, "tokens of an image", "microseconds a token",
                       [machine(data), "Lower is better."])


def accuracy_chart(name, accuracy, data):
    results = [r for r in accuracy_results(accuracy, data)
               if r["speed"] and r["dtype"] in (("f32", "bf16", "int8", "int4")
                                                if r["runtime"] == "vit.h" else ("int8",))]
    panels = [("best class as in f32, %", 100, [
                  (r["runtime"], r["dtype"], r["speed"], 100 * r["agreement"]) for r in results]),
              ("cosine of the embedding, mean", 1, [
                  (r["runtime"], r["dtype"], r["speed"], r["cosine"]) for r in results])]
    return chart.scatter("%s: accuracy over speed, %s" % (CLASSES[name], accuracy["model"]), panels,
                         "images a second, one thread",
                         ["Up and to the right is better. " + accuracy["images"], machine(data)])


def main():
    files = load()
    for name in CLASSES:
        charts = {"speed": speed_chart(name, files[name])}
        if tokens_results(files[name]):
            charts["tokens"] = tokens_chart(name, files[name])
        if any(r["speed"] for r in accuracy_results(files["accuracy"], files[name])):
            charts["accuracy"] = accuracy_chart(name, files["accuracy"], files[name])
        for kind, svg in charts.items():
            with open("%s/%s-%s.svg" % (FOLDER, kind, name), "w") as f:
                f.write(svg)
    for path in PAGES:
        fill(path, files)


if __name__ == "__main__":
    main()
