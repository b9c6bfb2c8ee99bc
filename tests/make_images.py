#!/usr/bin/python3
"""Writes tests/data/images: one tiny image of every kind, and what their pixels must be.

Authoring only (python3-pil): the tests read what is committed. Run it from anywhere:

    /usr/bin/python3 tests/make_images.py

expected.txt has one line for each file: name, width, height, the largest difference allowed
(0 but for JPEG), and the RGB bytes in hexadecimal, as Pillow's convert("RGB") gives them after
exif_transpose(), except that 16-bit samples are reduced to their upper byte. (Pillow 9.4 clips grey
ones at 255.)
"""
import os
import struct
import zlib

from PIL import Image, ImageOps

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "images")
WIDTH, HEIGHT = 11, 7
lines = []


def colour(x, y):
    """A picture without symmetry, so that every orientation differs."""
    return (20 * x + 5, 30 * y + 10, (x * y * 7 + 40) % 256)


def rgb(width=WIDTH, height=HEIGHT):
    image = Image.new("RGB", (width, height))
    image.putdata([colour(x, y) for y in range(height) for x in range(width)])
    return image


def smooth(width=24, height=16):
    """For JPEG: no detail that a lossy decoder could differ about."""
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


def main():
    os.makedirs(ROOT, exist_ok=True)
    for make in (make_png, make_png_exif, make_jpeg, make_gif, make_bmp, make_tga, make_pnm):
        make()
    with open(os.path.join(ROOT, "expected.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")
    sizes = [os.path.getsize(os.path.join(ROOT, name)) for name in os.listdir(ROOT)]
    print("%d files, %d bytes" % (len(sizes), sum(sizes)))


if __name__ == "__main__":
    main()
