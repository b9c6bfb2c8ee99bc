#!/usr/bin/python3
"""figures.py - draws the charts and fills the tables of the pages from tools/bench/figures/*.json.

In a page, the lines between "<!-- KIND CLASS -->" and the next empty line are replaced. CLASS is
the name of a file of figures; block() has the list of kinds.
"""
import glob
import json
import os
import re
import subprocess
import textwrap

import chart
from chart import threads_text, unique

FOLDER = os.path.relpath(os.path.join(os.path.dirname(__file__), "../figures"))
PAGES = ["README.md", "tools/bench/README.md"]
CLASSES = {"avx2": "AVX2", "avx512": "AVX-512"}
# The model of accuracy.json, and the model whose speed the tables show beside it.
TIMED_AS = "vit_tiny_patch16_224"
# The models of README's table. tools/vit-get downloads each of them. A row has the megabytes of the
# .vit file in f32, int8 and int4, and the architecture with the same speed.
MODELS = {
    "deit_tiny_patch16_224.fb_in1k": ((22.9, 7.2, 4.7), "vit_tiny_patch16_224"),
    "vit_tiny_patch16_224.augreg_in21k_ft_in1k": ((22.9, 7.2, 4.7), "vit_tiny_patch16_224"),
    "vit_small_patch16_224.augreg_in21k_ft_in1k": ((88.2, 23.1, 13.5), "vit_small_patch16_224"),
    "deit3_small_patch16_224.fb_in22k_ft_in1k": ((88.3, 23.2, 13.5), "vit_small_patch16_224"),
    "vit_small_patch16_384.augreg_in21k_ft_in1k": ((88.8, 23.7, 14.1), "vit_small_patch16_224@384"),
    "vit_base_patch16_224.augreg2_in21k_ft_in1k": ((346, 88.7, 50.9), "vit_base_patch16_224"),
    "vit_base_patch16_clip_224.laion2b_ft_in12k_in1k": ((346, 88.7, 50.9), "vit_base_patch16_224"),
    "vit_small_patch14_dinov2.lvd142m": ((89.8, 24.8, 15.2), "vit_small_patch16_224@592"),
}


def short(arch):
    """Shortens a name: vit_base_patch16_224 becomes B/16."""
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
    """Returns the results of models and types that were measured with every number of threads."""
    results = [r for r in data["results"] if "@" not in r["arch"]]
    def threads(arch, dtype):
        return {r["threads"] for r in results if (r["arch"], r["dtype"]) == (arch, dtype)}
    most = max(len(threads(r["arch"], r["dtype"])) for r in results)
    return [r for r in results if len(threads(r["arch"], r["dtype"])) == most]


def tokens_results(data):
    """Returns the results, f32 and int8, of models that were measured with several image sizes."""
    resized = {base(r) for r in data["results"] if "@" in r["arch"]}
    return sorted((r for r in data["results"] if base(r) in resized and r["threads"] == 1
                   and r["dtype"] in ("f32", "int8")),
                  key=lambda r: (r["dtype"], r["tokens"]))


def accuracy_results(accuracy, data):
    """Returns the results of accuracy.json, each with its images per second."""
    if not accuracy:
        return []
    speed = {(r["runtime"], r["dtype"]): 1e3 / r["ms"] for r in data["results"]
             if (r["arch"], r["threads"]) == (TIMED_AS, 1)}
    return [{**r, "speed": speed.get((r["runtime"], r["dtype"]))} for r in accuracy["results"]]


# === Tables ===

def named(results):
    """Groups the results under the short names of their models."""
    return [{**r, "arch": short(r["arch"])} for r in results]


def tokens_table(results):
    return chart.speed([{**r, "arch": "%s, %d tokens" % (short(r["arch"]), r["tokens"])}
                         for r in results])


def accuracy_table(results):
    lines = ["| runtime | weights | best class as in f32 | cosine | worst | images a second |",
             "|---|---|--:|--:|--:|--:|"]
    for r in results:
        lines.append("| %s | %s | %.1f %% | %.5f | %.5f | %s |" % (
            r["runtime"], r["dtype"], 100 * r["agreement"], r["cosine"], r["cosine_min"],
            "%.1f" % r["speed"] if r["speed"] else "-"))
    return lines


def readme_table(files):
    """Returns the table of B/16 on one thread; the fastest is bold."""
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


def models_table(files):
    """Returns the table of README's models: time of an image on one thread, f32 and int8."""
    lines = ["| timm's name | parameters | top-1 | MB: f32, int8, int4 | AVX2: f32, int8 | AVX-512 |",
             "|---|--:|--:|--:|--:|--:|"]
    known = json.loads(subprocess.check_output(["tools/vit-get", "--list", "--json"]))["models"]
    known = {model["name"]: model for model in known}
    for name, (sizes, arch) in MODELS.items():
        model, top1 = known[name], known[name]["top1_percent"]
        times = []
        for data in (files[c]["results"] for c in CLASSES):
            row = {r["dtype"]: r["ms"] for r in data
                   if (r["arch"], r["threads"], r["runtime"]) == (arch, 1, "vit.h")}
            times.append("%.0f, %.0f ms" % (row["f32"], row["int8"]))
        lines.append("| [%s](https://huggingface.co/%s) | %.1f M | %s | %s | %s |" % (
            name, model["repository"], model["parameters_millions"],
            "%.1f %%" % top1 if top1 else model["for"],
            ", ".join("%.3g" % size for size in sizes), " | ".join(times)))
    return lines


def machine(data):
    return "%s, %s" % (data["cpu"], data["date"])


def about(data):
    versions = ", ".join(unique(r["version"] for r in data["results"]))
    return textwrap.wrap("%s: %s. %s" % (machine(data), versions, data["limits"]), 100)


# === Charts ===

def speed_chart(name, files):
    """Draws a panel for each number of threads, with a group for each model and type."""
    data = files[name]
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


def tokens_chart(name, files):
    data = files[name]
    results, panels = tokens_results(data), []
    if not results:
        return None
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


def accuracy_chart(name, files):
    """Draws the types of vit.h beside int8 of the other runtimes."""
    wanted = {"vit.h": ("f32", "bf16", "int8", "int4")}
    results = [r for r in accuracy_results(files.get("accuracy"), files[name])
               if r["speed"] and r["dtype"] in wanted.get(r["runtime"], ("int8",))]
    if not results:
        return None
    panels = [(label, highest, [(r["runtime"], r["dtype"], r["speed"], factor * r[key])
                                for r in results])
              for label, highest, factor, key in (
                  ("best class as in f32, %", 100, 100, "agreement"),
                  ("cosine of the embedding, mean", 1, 1, "cosine"))]
    accuracy = files["accuracy"]
    return chart.scatter("%s: accuracy over speed, %s" % (CLASSES[name], accuracy["model"]), panels,
                         "images a second, one thread",
                         ["Up and to the right is better. " + accuracy["images"],
                          machine(files[name])])


CHARTS = {"speed_chart": ("Speed", speed_chart),
          "tokens_chart": ("Time a token, by the number of tokens", tokens_chart),
          "accuracy_chart": ("Accuracy over speed", accuracy_chart)}


# === Pages ===

def block(kind, name, files):
    """Returns the lines that belong after <!-- KIND NAME -->."""
    data = files.get(name, {})
    if kind == "readme":
        return readme_table(files)
    if kind == "models":
        return models_table(files)
    if kind == "about":
        return about(data)
    if kind.endswith("_chart"):
        svg = "figures/%s-%s.svg" % (kind[:-6], name)
        return ["![%s](%s)" % (CHARTS[kind][0], svg)] if CHARTS[kind][1](name, files) else []
    results = {"speed": speed_results(data), "tokens": tokens_results(data),
               "batches": data.get("batches"), "cold": data.get("cold"),
               "accuracy": accuracy_results(files.get("accuracy"), data)}[kind]
    table = {"tokens": tokens_table, "cold": lambda r: chart.cold(named(r)),
             "accuracy": accuracy_table}.get(kind, lambda r: chart.speed(named(r)))
    return table(results) if results else ["Not measured yet."]


def fill(path, files):
    with open(path) as f:
        page = f.read()
    page = re.sub(r"(<!-- (\w+) (\w+) -->)(?:\n[^\n]+)*",
                  lambda match: "\n".join([match[1]] + block(match[2], match[3], files)), page)
    with open(path, "w") as f:
        f.write(page)


def main():
    files = load()
    for name in CLASSES:
        for kind, (_, draw) in CHARTS.items():
            svg = draw(name, files)
            if svg:
                with open("%s/%s-%s.svg" % (FOLDER, kind[:-6], name), "w") as f:
                    f.write(svg)
    for path in PAGES:
        fill(path, files)


if __name__ == "__main__":
    main()
