#!/usr/bin/python3
"""photo_speed.py - measures vit-embed, and Pillow with ONNX Runtime, from JPEGs to embeddings.

Run it as `make bench-photos`, from the root of the repository. It makes three kinds of photos:
texture with the spectrum of photos, texture with strong noise, and pages of text, each in four
encodings. The programs run in turn. The part in Python is Pillow with timm's steps (resize, crop,
normalise). It runs once with `draft`, which decodes at 1/2, 1/4 or 1/8 as vit-embed does, and once
without. The model has
DeiT-Ti's shape, in int8, and each process has one thread. With --accuracy, embeddings of photos
that were decoded at a fraction of their size are compared with those of the whole photos.
"""
import argparse
import ctypes
import glob
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image, ImageDraw

import workers
from workers import PEERS, PYTHON, say

ARCH = "deit_tiny_patch16_224"
RESIZED, SIDE = 248, 224        # timm's crop_pct 0.9
MEAN = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
STD = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)
SIZES = {"500 x 375": (500, 375), "2 MP": (1632, 1224), "12 MP": (4000, 3000),
         "48 MP": (8000, 6000)}
KINDS = ("texture", "noise", "text")
ENCODINGS = ({"quality": 75}, {"quality": 90}, {"quality": 95, "subsampling": 0},
             {"quality": 85, "progressive": True})
# A row of the table: the size, the kinds of photos, and how often a run reads each file.
ROWS = [("500 x 375", KINDS, 8), ("2 MP", KINDS, 3), ("12 MP", ("texture",), 3),
        ("12 MP", ("noise",), 3), ("12 MP", ("text",), 3), ("48 MP", ("texture",), 2)]


# === Python's part: a process of its own ===

class OnnxRuntime:
    """Calls the library in npm's package; the numbers are indices into its table of functions."""

    def __init__(self, model):
        self.library = ctypes.CDLL(os.path.abspath(
            "%s/node_modules/%s/bin/napi-v6/linux/x64/libonnxruntime.so.1"
            % (PEERS, workers.ONNXRUNTIME)))
        self.library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
        get_api = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)
        self.table = get_api(self.library.OrtGetApiBase()[0])(17)
        environment, options, self.session, memory = (ctypes.c_void_p() for _ in range(4))
        self.call(3, 3, b"photos", ctypes.byref(environment))           # CreateEnv
        self.call(10, ctypes.byref(options))                            # CreateSessionOptions
        self.call(24, options, 1)                                       # SetIntraOpNumThreads
        self.call(7, environment, model.encode(), options, ctypes.byref(self.session))
        self.call(69, 1, 0, ctypes.byref(memory))                       # CreateCpuMemoryInfo
        self.input = np.zeros((1, 3, SIDE, SIDE), np.float32)
        self.output = np.zeros((1, 192), np.float32)
        self.values = [self.tensor(memory, array) for array in (self.input, self.output)]
        self.names = [(ctypes.c_char_p * 1)(name) for name in (b"input", b"embedding")]

    def call(self, place, *arguments):
        status = ctypes.CFUNCTYPE(ctypes.c_void_p)(self.table[place])
        status.argtypes = None
        failed = status(*arguments)
        if failed:
            text = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(self.table[2])(failed)
            sys.exit("ONNX Runtime: " + text.decode())

    def tensor(self, memory, array):
        value, shape = ctypes.c_void_p(), (ctypes.c_int64 * array.ndim)(*array.shape)
        self.call(49, memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes),
                  shape, ctypes.c_size_t(array.ndim), 1, ctypes.byref(value))
        return (ctypes.c_void_p * 1)(value.value)

    def run(self):
        self.call(9, self.session, None, self.names[0], self.values[0], ctypes.c_size_t(1),
                  self.names[1], ctypes.c_size_t(1), self.values[1])


def python_input(path, draft):
    image = Image.open(path)
    width, height = image.size
    size = ((RESIZED, RESIZED * height // width) if width < height
            else (RESIZED * width // height, RESIZED))
    if draft:
        image.draft("RGB", (2 * size[0], 2 * size[1]))
    image = image.convert("RGB").resize(size, Image.BICUBIC)
    left, top = (int(round((n - SIDE) / 2)) for n in size)
    pixels = np.asarray(image.crop((left, top, left + SIDE, top + SIDE)), np.float32)
    return (pixels.transpose(2, 0, 1) / 255 - MEAN) / STD


def work(how, model):
    """Reads lines, each the path of a list of photos; prints the seconds and CPU seconds for
    each."""
    runtime = OnnxRuntime(model) if model else None
    print("ready", flush=True)
    for line in sys.stdin:
        with open(line.strip()) as f:
            paths = f.read().split("\n")[:-1]
        start, cpu = time.perf_counter(), time.process_time()
        for path in paths:
            pixels = python_input(path, how == "draft")
            if runtime:
                runtime.input[0] = pixels
                runtime.run()
        print(time.perf_counter() - start, time.process_time() - cpu, flush=True)


class Python:
    """Runs several processes, which share a list."""

    def __init__(self, how, model, count):
        self.processes = [subprocess.Popen(
            [PYTHON, "-B", __file__, "--work", how, model], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(count)]
        for process in self.processes:
            if process.stdout.readline() != "ready\n":
                sys.exit("a Python process failed")

    def run(self, paths):
        lists = [write_list(paths[i::len(self.processes)], i)
                 for i in range(len(self.processes))]
        for process, name in zip(self.processes, lists):
            process.stdin.write(name + "\n")
        answers = [process.stdout.readline().split() for process in self.processes]
        return max(float(a[0]) for a in answers), sum(float(a[1]) for a in answers)


# === vit-embed ===

SCRATCH = tempfile.TemporaryDirectory()     # two processes of this program may run


def write_list(paths, number=0):
    name = "%s/list%d.txt" % (SCRATCH.name, number)
    with open(name, "w") as f:
        f.writelines(path + "\n" for path in paths)
    return name


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def embed(model, paths, *options):
    """Returns the seconds from first photo to last result, and the CPU seconds of the process."""
    before = cpu_of_children()
    output = subprocess.check_output(
        ["tools/vit-embed", "-m", model, "-q", "--json", "--overwrite", "--list",
         write_list(paths), "-o", SCRATCH.name + "/out.npy", *options], text=True)
    return json.loads(output)["seconds"], cpu_of_children() - before


class Embed:
    def __init__(self, model, *options):
        self.model, self.options = model, options

    def run(self, paths):
        return embed(self.model, paths, *self.options)


def classify_cold(path):
    """Returns the milliseconds from the start of the process to its end."""
    before, start = cpu_of_children(), time.perf_counter()
    subprocess.run(["tools/vit-classify", path], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start, cpu_of_children() - before


# === Photos ===

def octaves(width, height, generator):
    """Makes noise with amplitude proportional to wavelength, as in photos, and a little grain."""
    total = np.zeros((height, width, 3), np.float32)
    for cell in 4, 8, 16, 32, 64, 128, 256, 512, 1024:
        small = generator.integers(0, 256, (height // cell + 3, width // cell + 3, 3), np.uint8)
        large = Image.fromarray(small).resize((width, height), Image.BICUBIC)
        total += (np.asarray(large, np.float32) - 127.5) * (cell / 1024) ** 0.7
    return 127.5 + 0.5 * total + generator.normal(0, 4, total.shape).astype(np.float32)


def text_page(width, height):
    tile = Image.new("RGB", (500, 375), (250, 248, 240))
    draw = ImageDraw.Draw(tile)
    words = "the quick brown fox jumps over a lazy dog while 0123456789 letters follow".split()
    for y in range(4, 370, 14):
        line = " ".join(words[(y * 7 + i) % len(words)] for i in range(14))
        draw.text((8, y), line, (20, 20, 30))
    tile = tile.resize((1000, 750), Image.BICUBIC)
    page = Image.new("RGB", (width, height))
    for y in range(0, height, 750):
        for x in range(0, width, 1000):
            page.paste(tile, (x, y))
    return page


def as_image(values):
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def write_photos(folder):
    """Writes windows of one picture, or of four copies of it, so all sizes have the same detail."""
    generator = np.random.default_rng(1)
    texture = octaves(4000, 3000, generator)
    noise = texture + generator.normal(0, 9, texture.shape).astype(np.float32)
    pictures = dict(zip(KINDS, (as_image(texture), as_image(noise), text_page(4000, 3000))))
    for size, (width, height) in SIZES.items():
        for kind, picture in pictures.items():
            if width <= picture.width:
                image = picture.crop((0, 0, width, height))
            else:
                image = Image.new("RGB", (width, height))
                for i in range(4):
                    image.paste(picture, (i % 2 * picture.width, i // 2 * picture.height))
            for i, encoding in enumerate(ENCODINGS):
                image.save("%s/%s-%s-%d.jpg" % (folder, size.replace(" ", ""), kind, i),
                           **encoding)


def paths_of(folder, size, kinds):
    return ["%s/%s-%s-%d.jpg" % (folder, size.replace(" ", ""), kind, i)
            for kind in kinds for i in range(len(ENCODINGS))]


# === Speed ===

def convert(source, to, *options):
    if workers.is_older(to, source, "tools/vit-convert"):
        subprocess.run(["tools/vit-convert", "-q", source, "-o", to, *options], check=True)
    return to


def write_loader(folder):
    """Writes a model for images of 224 pixels that computes next to nothing."""
    import prepare
    import torch
    if not os.path.exists(folder + "/loader.pth"):
        torch.save(prepare.random_checkpoint(16, 1, 16, 112, SIDE), folder + "/loader.pth")
    settings = ["img_size=224", "num_heads=1", "crop_pct=0.9", "interpolation=bicubic"]
    return convert(folder + "/loader.pth", folder + "/loader.vit",
                   *(word for setting in settings for word in ("--set", setting)))


def measure(programs, paths, rounds):
    """Runs all in turn; returns {name: (median of the seconds, least CPU seconds)} per photo."""
    times = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            times[name].append(program.run(paths))
    return {name: (statistics.median(t[0] for t in all_of) / len(paths),
                   min(t[1] for t in all_of) / len(paths)) for name, all_of in times.items()}


def speed_rows(options, loader, int8, onnx):
    """Gives (title, result of measure) for each row."""
    loading = {"vit.h": Embed(loader, "-t", "1"), "Pillow": Python("draft", "", 1),
               "vit.h exact": Embed(loader, "-t", "1", "--exact"),
               "Pillow exact": Python("exact", "", 1)}
    whole = {"1": Embed(int8, "-t", "1"), "open": Embed(int8, "-t", "1", "--no-sandbox"),
             "2": Embed(int8, "-t", "2"), "Python": Python("draft", onnx, 2)}
    for size, kinds, times in ROWS:
        if size not in options.sizes:
            continue
        paths = paths_of(options.folder, size, kinds) * times
        title = size + ("" if kinds == KINDS else ", " + kinds[0])
        say("Measuring", title)
        embed(int8, paths[:len(kinds) * len(ENCODINGS)], "-t", "1")     # into memory
        yield (title, measure(loading, paths, options.rounds),
               measure(whole, paths, options.rounds))


def print_speed(options, rows):
    from bench_peers import cpu_name
    at, unit = (1, "CPU ms a photo") if options.cpu else (0, "ms a photo")
    print("%s, %s; %s" % (cpu_name(), time.strftime("%Y-%m-%d"),
                          "the least of %d rounds" % options.rounds if options.cpu
                          else "medians of %d rounds" % options.rounds))
    print("\nJPEG to input, one thread, %s:\n" % unit)
    print("| photos | vit.h | Pillow, draft | of Pillow's | `--exact` | Pillow | of Pillow's |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for title, loading, _ in rows:
        a, b, c, d = (1e3 * t[at] for t in loading.values())
        print("| %s | %.1f | %.1f | %.2f | %.1f | %.1f | %.2f |" % (title, a, b, a / b, c, d,
                                                                    c / d))
    print("\nJPEG to embedding, DeiT-Ti's shape in int8, %s:\n" % unit)
    print("| photos | vit.h, 1 thread | 2 threads | faster | Python, 2 processes | of vit.h's "
          "| sandbox, CPU |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for title, _, whole in rows:
        one, two, python = (1e3 * whole[name][at] for name in ("1", "2", "Python"))
        print("| %s | %.1f | %.1f | %.2f | %.1f | %.2f | %+.1f %% |" % (
            title, one, two, one / two, python, python / two,
            100 * (whole["1"][1] / whole["open"][1] - 1)))


def print_cold(options):
    """Prints the cold start: the bundled model, a photo of 12 megapixels, all threads."""
    path = paths_of(options.folder, "12 MP", KINDS)[1]
    times = [classify_cold(path) for _ in range(20)]
    print("\nvit-classify, bundled model, one photo of 12 MP, from start to end: median %.1f ms, "
          "least %.1f ms; CPU, least %.1f ms" % (
              1e3 * statistics.median(t[0] for t in times), 1e3 * min(t[0] for t in times),
              1e3 * min(t[1] for t in times)))


def speed(options):
    model = workers.find_model(ARCH)
    workers.prepare(model, [])
    loader = write_loader(options.folder)
    int8 = convert(model.folder + "/model.pth", options.folder + "/int8.vit", "--arch", ARCH,
                   "--dtype", "int8", "--calibrate", model.folder + "/calibrate")
    print_speed(options, list(speed_rows(options, loader, int8, model.folder + "/int8.onnx")))
    print_cold(options)


# === Accuracy ===

def large_photos(folder):
    """Returns the pictures below a folder with at least 2 million pixels, without copies."""
    found = {}
    for path in sorted(glob.glob(folder + "/**/*", recursive=True)):
        real = os.path.realpath(path)
        if not real.lower().endswith((".jpg", ".jpeg", ".png")) or real in found:
            continue
        with Image.open(real) as image:
            if image.width * image.height >= 2000000:
                found[real] = image.convert("RGB")
    return list(found.values())


def window(picture, width, height, choice):
    """Cuts out a random part, without resizing; enlarges smaller pictures to that size."""
    scale = min(1, picture.width / width, picture.height / height)
    w, h = int(width * scale), int(height * scale)
    x, y = choice.randint(0, picture.width - w), choice.randint(0, picture.height - h)
    part = picture.crop((x, y, x + w, y + h))
    return part if part.size == (width, height) else part.resize((width, height), Image.BICUBIC)


def mosaic(pictures, n, choice):
    """Joins n x n windows of 2,000 x 1,500 pixels."""
    image = Image.new("RGB", (2000 * n, 1500 * n))
    for i in range(n * n):
        image.paste(window(choice.choice(pictures), 2000, 1500, choice),
                    (i % n * 2000, i // n * 1500))
    return image


def enlarged(pictures, generator, choice):
    """Enlarges a whole photo to 12 megapixels, and adds the grain of a sensor."""
    picture = choice.choice(pictures)
    height = min(picture.height, picture.width * 3 // 4)
    part = window(picture, height * 4 // 3, height, choice)
    pixels = np.asarray(part.resize((4000, 3000), Image.BICUBIC), np.float32)
    return as_image(pixels + generator.normal(0, 8, pixels.shape).astype(np.float32))


def accuracy_sets(options):
    """Returns {description: paths}."""
    pictures = large_photos(options.accuracy)
    if not pictures:
        sys.exit("%s: no photos of at least 2 million pixels" % options.accuracy)
    choice, generator = random.Random(1), np.random.default_rng(1)
    makers = {
        "parts, 2,048 x 1,536": (112, lambda: window(choice.choice(pictures), 2048, 1536, choice)),
        "12 MP, four parts": (60, lambda: mosaic(pictures, 2, choice)),
        "12 MP, enlarged, with grain": (24, lambda: enlarged(pictures, generator, choice)),
        "48 MP, sixteen parts": (4, lambda: mosaic(pictures, 4, choice)),
    }
    sets = {}
    for title, (count, make) in makers.items():
        say("Making %d: %s" % (count, title))
        paths = sets[title] = []
        for i in range(count):
            path = "%s/accuracy-%d-%d.jpg" % (options.folder, len(sets), i)
            if not os.path.exists(path):
                make().save(path, **ENCODINGS[i % len(ENCODINGS)])
            paths.append(path)
    sets["12 MP, made: texture, noise, text"] = paths_of(options.folder, "12 MP", KINDS)
    print("%d photos, of which all but the made ones are parts" % len(pictures))
    return sets


def accuracy(options):
    if not options.checkpoint:
        sys.exit("--accuracy needs --checkpoint, for example DeiT-Ti's")
    import prepare
    weights = {name: tensor.numpy()
               for name, tensor in prepare.read_safetensors(options.checkpoint).items()}
    vit = convert(options.checkpoint, options.folder + "/accuracy.vit", "--arch", options.arch)
    print("| photos | | best class as with `--exact` | cosine | worst |\n|---|--:|--:|--:|--:|")
    totals = []
    for title, paths in accuracy_sets(options).items():
        rows = []
        for how in [], ["--exact"]:
            embed(vit, paths, *how)
            rows.append(np.load(SCRATCH.name + "/out.npy"))
        lengths = [np.linalg.norm(row, axis=1) for row in rows]
        cosines = (rows[0] * rows[1]).sum(1) / lengths[0] / lengths[1]
        best = [(row @ weights["head.weight"].T + weights["head.bias"]).argmax(1) for row in rows]
        same = best[0] == best[1]
        totals.append((cosines, same))
        print_accuracy(title, cosines, same)
    print_accuracy("all", *(np.concatenate(part) for part in zip(*totals)))


def print_accuracy(title, cosines, same):
    print("| %s | %d | %.1f %% | %.5f | %.5f |" % (title, len(same), 100 * same.mean(),
                                                   cosines.mean(), cosines.min()))


def main():
    global ENCODINGS
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--rounds", type=int, default=3)
    add("--sizes", nargs="+", default=list(SIZES), choices=SIZES)
    add("--quality", type=int, metavar="Q",
        help="baseline JPEGs of this quality instead of four encodings")
    add("--cpu", action="store_true",
        help="CPU seconds, where the machine has other work: of two threads, their sum")
    add("--accuracy", metavar="FOLDER", help="of large photos, of which others are made")
    add("--checkpoint", metavar="FILE",
        help="safetensors in timm's names, with a head")
    add("--arch", default=ARCH, help="of the checkpoint, by timm's name")
    add("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work)
    options.folder = "%s/photos%s" % (PEERS, options.quality or "")
    if options.quality:
        ENCODINGS = ({"quality": options.quality},) * len(ENCODINGS)
    if not os.path.exists(options.folder + "/made"):
        say("Making photos in", options.folder)
        os.makedirs(options.folder, exist_ok=True)
        write_photos(options.folder)
        open(options.folder + "/made", "w").close()
    workers.install_onnxruntime()
    (accuracy if options.accuracy else speed)(options)


if __name__ == "__main__":
    main()
