#!/usr/bin/python3
"""Writes tests/data/images: one tiny image of every kind, and the expected pixels. Also writes
tests/data/damaged: JPEGs that Pillow refuses or repairs.

For authoring only (python3-pil): its output is committed. Run it from any folder:

    /usr/bin/python3 tests/make_images.py

    /usr/bin/python3 tests/make_images.py compare [N [SEED]]

instead makes N JPEGs (1000) of all kinds, half of them by libjpeg-turbo's cjpeg if it is installed,
and compares the inputs that `vit-run --dump-input` makes of them, for DeiT-Ti, with Pillow's pixels in
timm's transform (make_preprocess.py, with python3-numpy). Run `make` before.

expected.txt has one line for each file: name, width, height, the largest difference allowed
(0 except for JPEG), and the RGB bytes in hexadecimal, as Pillow's convert("RGB") gives them after
exif_transpose(). 16-bit samples are reduced to their upper byte. (Pillow 9.4 clips grey samples at
255.)
"""
import io
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

from PIL import Image, ImageDraw, ImageFile, ImageOps

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "images")
DAMAGED = os.path.join(os.path.dirname(ROOT), "damaged")
WIDTH, HEIGHT = 11, 7
lines = []
damaged = []


def colour(x, y):
    """A picture without symmetry, so that every orientation differs."""
    return (20 * x + 5, 30 * y + 10, (x * y * 7 + 40) % 256)


def rgb(width=WIDTH, height=HEIGHT):
    image = Image.new("RGB", (width, height))
    image.putdata([colour(x, y) for y in range(height) for x in range(width)])
    return image


def smooth(width=24, height=16):
    """For JPEG: has no detail in which lossy decoders could differ."""
    image = Image.new("RGB", (width, height))
    image.putdata([(8 * x + 20, 12 * y + 20, 4 * x + 4 * y + 30)
                   for y in range(height) for x in range(width)])
    return image


def expect(name, image, tolerance=0):
    lines.append("%s %d %d %d %s" % (name, *image.size, tolerance, image.tobytes().hex()))


def save(image, name, tolerance=0, **options):
    path = os.path.join(ROOT, name)
    image.save(path, **options)
    loaded = Image.open(path)
    expect(name, ImageOps.exif_transpose(loaded).convert("RGB"), tolerance)


def save_bytes(name, data):
    path = os.path.join(ROOT, name)
    with open(path, "wb") as file:
        file.write(data)
    loaded = Image.open(path)
    loaded.load()  # Exif blocks may follow the pixels
    expect(name, ImageOps.exif_transpose(loaded).convert("RGB"))


def write(name, data, image):
    with open(os.path.join(ROOT, name), "wb") as file:
        file.write(data)
    expect(name, image)


def chunk(kind, data):
    return (struct.pack(">I", len(data)) + kind + data
            + struct.pack(">I", zlib.crc32(kind + data)))


def png(width, height, depth, kind, rows, interlace=0, before=b""):
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace))
            + before + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def rows_of(image, pixel):
    width, height = image.size
    return b"".join(b"\0" + b"".join(pixel(*image.getpixel((x, y))) for x in range(width))
                    for y in range(height))


def make_png():
    image = rgb()
    save(image, "rgb.png")
    save(image.convert("L"), "grey.png")
    save(image.convert("1", dither=Image.NONE), "grey1.png")
    save(image.convert("LA"), "grey_alpha.png")
    alpha = image.convert("RGBA")
    alpha.putalpha(image.convert("L"))
    save(alpha, "rgba.png")
    save(image.convert("P", palette=Image.ADAPTIVE, colors=200), "palette.png")
    four = image.quantize(5)
    save(four, "palette4.png", bits=4)
    save(four, "palette_trns.png", transparency=bytes([0, 255, 128, 7, 9]))
    save(image, "rgb_trns.png", transparency=colour(3, 2))

    sixteen = rows_of(image, lambda r, g, b: bytes([r, 99, g, 1, b, 255]))
    write("rgb16.png", png(WIDTH, HEIGHT, 16, 2, sixteen), image)
    grey = image.convert("L")
    rows = b"".join(b"\0" + b"".join(bytes([grey.getpixel((x, y)), 200]) for x in range(WIDTH))
                    for y in range(HEIGHT))
    write("grey16.png", png(WIDTH, HEIGHT, 16, 0, rows), grey.convert("RGB"))

    rows = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                           (1, 0, 2, 2), (0, 1, 1, 2)):
        for y in range(y0, HEIGHT, dy):
            row = b"".join(bytes(image.getpixel((x, y))) for x in range(x0, WIDTH, dx))
            rows += b"\0" + row if row else b""
    write("interlaced.png", png(WIDTH, HEIGHT, 8, 2, rows, interlace=1), image)


def tiff(orientation, order="<"):
    """An Exif block with a tag beside the orientation."""
    return (b"II" if order == "<" else b"MM") + struct.pack(
        order + "HIHHHIHHHHIII", 42, 8, 2, 0x0112, 3, 1, orientation, 0, 0x011A, 4, 1, 72, 0)


def make_png_exif():
    """Before the pixels, and behind them; the second is big-endian."""
    rows = rows_of(rgb(), lambda *sample: bytes(sample))
    for orientation in range(2, 9):
        chunks = chunk(b"eXIf", tiff(orientation))
        save_bytes("exif%d.png" % orientation, png(WIDTH, HEIGHT, 8, 2, rows, before=chunks))
    data = png(WIDTH, HEIGHT, 8, 2, rows)
    end = data.index(b"IEND") - 4
    save_bytes("exif6_big.png", data[:end] + chunk(b"eXIf", tiff(6, ">")) + data[end:])


def make_jpeg():
    image = smooth()
    save(image, "baseline.jpg", 6, quality=95)
    save(image, "full_chroma.jpg", 6, quality=95, subsampling=0)
    save(image, "progressive.jpg", 6, quality=95, progressive=True)
    save(image.convert("L"), "grey.jpg", 4, quality=95)
    save(image.convert("CMYK"), "cmyk.jpg", 10, quality=95)
    for orientation in range(1, 9):
        for name, order in (("exif%d.jpg", "<"),) + ((("exif%d_big.jpg", ">"),)
                                                     if orientation == 6 else ()):
            save(image, name % orientation, 6, quality=90,
                 exif=b"Exif\0\0" + tiff(orientation, order))


def make_damaged():
    """Damages JPEGs as cameras and copies do; the result is "refused", or Pillow's pixels."""
    save_to = io.BytesIO()
    smooth().save(save_to, "JPEG", quality=95)
    whole = save_to.getvalue()
    smooth().save(save_to := io.BytesIO(), "JPEG", quality=95, progressive=True)
    scans = save_to.getvalue()
    start = whole.index(b"\xff\xda") + 14  # of the compressed pixels
    middle = (start + len(whole)) // 2
    zero = whole[:middle] + bytes(20) + whole[middle + 20:]
    table = whole.index(b"\xff\xc4")
    for name, data in (
            ("cut_header", whole[:table + 9]), ("cut_tables", whole[:start - 14]),
            ("cut_scan_header", whole[:start - 5]), ("cut_half", whole[:middle]),
            ("cut_last_bytes", whole[:-6]), ("cut_end_mark", whole[:-2]),
            ("cut_progressive", scans[:len(scans) * 2 // 3]),
            ("end_mark_early", whole[:middle] + b"\xff\xd9"),
            ("end_mark_early_progressive", scans[:len(scans) * 2 // 3] + b"\xff\xd9"),
            ("zeros", zero), ("bits", flip(whole, middle, 0x55)), ("bits_at_start", flip(whole, start, 0xff)),
            ("stray_restart", whole[:middle] + b"\xff\xd3" + whole[middle + 2:]),
            ("stray_marker", whole[:middle] + b"\xff\xc8" + whole[middle + 2:]),
            ("garbage_before_table", whole[:table] + b"garbage" + whole[table:]),
            ("garbage_behind", whole + b"garbage" * 9), ("padded", whole[:-2] + bytes(40)),
            ("bits_progressive", flip(scans, len(scans) * 3 // 4, 0x3c)),
            ("no_table", whole[:table] + whole[table + 2 + int.from_bytes(
                whole[table + 2:table + 4], "big"):]),
            ("quality_of_none", whole.replace(b"\xff\xdb", b"\xff\xec")),
            ("huffman_of_256", flip(whole, table + 5, 0xff)), ("kind_of_12_bits", flip(
                whole, whole.index(b"\xff\xc0") + 4, 8 ^ 12)),
            ("no_size", resize(whole, 0, 24)), ("more_rows", resize(whole, 40, 24))):
        name += ".jpg"
        with open(os.path.join(DAMAGED, name), "wb") as file:
            file.write(data)
        try:
            image = Image.open(io.BytesIO(data)).convert("RGB")
            damaged.append("%s %d %d 0 %s" % (name, *image.size, image.tobytes().hex()))
        except (OSError, SyntaxError):
            damaged.append(name + " refused")


def flip(data, at, bits):
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1:]


def resize(data, height, width):
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4:]


def make_gif():
    image = rgb().quantize(60)
    save(image, "plain.gif", interlace=0)
    save(image, "interlaced.gif", interlace=1)
    second = rgb().rotate(180).quantize(60)
    save(image, "animated.gif", save_all=True, append_images=[second], duration=100)


def make_bmp():
    image = rgb()
    save(image, "rgb.bmp")
    save(image.convert("L"), "grey.bmp")
    save(image.quantize(16), "palette.bmp")
    save(image.convert("1", dither=Image.NONE), "mono.bmp")
    save(image.convert("RGBA"), "rgba.bmp")
    padding = b"\0" * (-WIDTH * 3 % 4)
    rows = b"".join(b"".join(bytes(colour(x, y)[::-1]) for x in range(WIDTH)) + padding
                    for y in range(HEIGHT))
    header = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(rows), 0, 0, 54, 40, WIDTH,
                         -HEIGHT, 1, 24, 0, len(rows), 2835, 2835, 0, 0)
    write("top_down.bmp", header + rows, image)


def make_tga():
    image = rgb()
    save(image, "rgb.tga")
    save(image, "rle.tga", compression="tga_rle")
    save(image.convert("L"), "grey.tga")
    save(image.convert("RGBA"), "rgba.tga")
    save(image.quantize(20), "palette.tga")


def make_pnm():
    image = rgb()
    save(image, "rgb.ppm")
    save(image.convert("L"), "grey.pgm")
    data = b"".join(bytes([v, v]) for y in range(HEIGHT) for x in range(WIDTH)
                    for v in colour(x, y))
    write("rgb16.ppm", b"P6 # sixteen bits\n# a sample\n11 7\n65535\n" + data, image)


def scene(draw):
    """Noise, texture, an even ramp or text; sizes from 1 to 1500."""
    width, height = (draw.choice((draw.randint(1, 40), draw.randint(100, 1500))) for _ in "wh")
    kind = draw.choice(("noise", "texture", "ramp", "text"))
    if kind == "noise":
        return kind, Image.frombytes("RGB", (width, height), draw.randbytes(3 * width * height))
    if kind == "texture":
        small = Image.frombytes("RGB", (37, 23), draw.randbytes(3 * 37 * 23))
        return kind, small.resize((width, height), Image.BICUBIC)
    ramps = [Image.linear_gradient("L").rotate(draw.choice((0, 90, 180, 270))) for _ in "rgb"]
    image = Image.merge("RGB", ramps).resize((width, height), Image.BILINEAR)
    if kind == "text":
        pen = ImageDraw.Draw(image)
        for _ in range(40):
            place = draw.randrange(width), draw.randrange(height)
            pen.text(place, "The quick brown fox 0123456789",
                     fill=tuple(draw.randbytes(3)))
    return kind, image


def by_pillow(draw, image, path):
    mode = draw.choice(("RGB", "RGB", "RGB", "L", "CMYK"))
    options = {"quality": draw.randint(1, 100), "optimize": draw.random() < 0.3,
               "progressive": draw.random() < 0.4}
    if mode == "RGB":
        options["subsampling"] = draw.randrange(3)
    if draw.random() < 0.2:
        options["exif"] = b"Exif\0\0" + tiff(draw.randint(1, 8), draw.choice("<>"))
    image.convert(mode).save(path, "JPEG", **options)
    return "%s %s" % (mode, options)


def by_cjpeg(draw, image, path):
    words = ["cjpeg", "-quality", str(draw.randint(1, 100)), "-dct", draw.choice(("int", "fast"))]
    words += draw.choice(([], [], ["-grayscale"], ["-rgb"]))
    words += draw.choice((["-baseline"], ["-progressive"], ["-optimize"], ["-arithmetic"]))
    words += draw.choice(([], ["-restart", str(draw.randint(1, 9))], ["-restart", "7B"]))
    if "-grayscale" not in words:
        words += ["-sample", draw.choice(("1x1", "2x1", "1x2", "2x2", "4x1", "4x2", "1x4"))]
    image.save(path + ".ppm")
    subprocess.run(words + ["-outfile", path, path + ".ppm"], check=True)
    os.remove(path + ".ppm")
    return " ".join(words)


def compare(count, seed):
    import numpy as np
    import make_preprocess as timm
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tools = os.path.join(root, "tools")
    draw = random.Random(seed)
    ImageFile.MAXBLOCK = 1 << 26  # encoded images must fit, and arithmetic codes must decode
    has_cjpeg = shutil.which("cjpeg") is not None
    subprocess.run([tools + "/vit-run", "--version"], check=True)
    print("Pillow %s%s" % (Image.__version__, "" if has_cjpeg else ", no cjpeg"), flush=True)
    differ, largest = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run(["cc", root + "/tests/random_checkpoint.c", "-lm", "-o", "random"],
                       check=True)
        subprocess.run(["./random", "m.safetensors", "dim=192", "depth=12", "mlp=768", "patch=16",
                        "rows=14", "cols=14", "classes=1000"], check=True)
        subprocess.run([tools + "/vit-convert", "-q", "m.safetensors", "--arch",
                        "deit_tiny_patch16_224.fb_in1k", "-o", "m.vit"], check=True)
        for start in range(0, count, 50):
            made = []
            for i in range(start, min(start + 50, count)):
                kind, image = scene(draw)
                make = by_cjpeg if has_cjpeg and i % 2 else by_pillow
                name = "%04d.jpg" % i
                how = make(draw, image, name)
                made.append((name, kind, image.size, how, Image.open(name).convert("RGB")))
            names = [m[0] for m in made]
            subprocess.run([tools + "/vit-run", "-m", "m.vit", "--no-exif", "--dump-input", "x.npy"]
                           + names, check=True)
            for found, (name, kind, size, how, image) in zip(np.load("x.npy"), made):
                expected = timm.transform(image, 3, 224, 224, 248, 248, timm.CENTER, timm.BICUBIC,
                                          2, timm.EVEN)
                apart = float(np.abs(found - expected).max())
                largest = max(largest, apart)
                differ += not np.array_equal(found, expected)
                if apart and differ <= 20:
                    print("%s %s %s: differs by %g: %s" % (name, kind, size, apart, how))
                os.remove(name)
    print("%d JPEGs: %d inputs differ from Pillow's, by at most %g" % (count, differ, largest))
    return differ > 0


def main():
    if sys.argv[1:2] == ["compare"]:
        sys.exit(compare(*(int(n) for n in (sys.argv[2:4] + ["1000", "1"][len(sys.argv) - 2:]))))
    os.makedirs(ROOT, exist_ok=True)
    os.makedirs(DAMAGED, exist_ok=True)
    for make in (make_png, make_png_exif, make_jpeg, make_damaged, make_gif, make_bmp, make_tga, make_pnm):
        make()
    with open(os.path.join(ROOT, "expected.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(DAMAGED, "expected.txt"), "w") as file:
        file.write("\n".join(damaged) + "\n")
    sizes = [os.path.getsize(os.path.join(ROOT, name)) for name in os.listdir(ROOT)]
    print("%d files, %d bytes" % (len(sizes), sum(sizes)))


if __name__ == "__main__":
    main()
