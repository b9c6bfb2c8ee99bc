#!/usr/bin/python3
"""Writes tests/preprocess_vectors.h: the results of Pillow and NumPy for synthetic photos.

For authoring only. The steps are those of timm's evaluation transform: convert, resize, pad and
crop, x / 255, (x - mean) / std in float32. Photos are bytes of a 32-bit LCG;
tests/test_preprocess.c makes the same. Formats that Pillow lacks are converted to RGB by the
formulas below. Each case
keeps the CRC-32 of the resulting float32 tensor.
"""
import os
import sys
import zlib

import numpy as np
from PIL import Image

TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preprocess_vectors.h")

STATS = [  # (mean, std); this script writes the same table for the tests
    ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
]
CENTER, SQUASH, BORDER = 0, 1, 2
EVEN, DOWN = 0, 1
BILINEAR, BICUBIC = 0, 1
MODES = {"RGB": (3, 0), "RGBA": (4, 1), "L": (1, 2)}  # Pillow's: bytes, number in vit.h
FORMATS = {"BGR": 3, "BGRA": 4, "RGB565": 5, "YUYV": 6, "NV12": 7, "F32": 8}

# COVERAGE's golden values: width, height -> width, height, filter, CRC-32 of the RGB bytes
GOLDEN = [
    (37, 23, 16, 16, BICUBIC, 0xe1a8f67f), (500, 375, 330, 248, BICUBIC, 0x10bfd7aa),
    (375, 500, 248, 330, BICUBIC, 0xc485be07), (640, 480, 298, 224, BICUBIC, 0x8c3e5ac9),
    (640, 480, 341, 256, BILINEAR, 0xb9199614), (100, 80, 280, 224, BICUBIC, 0xb02489f5),
    (300, 200, 384, 384, BICUBIC, 0xbd73665e), (33, 33, 257, 129, BILINEAR, 0x8ead4cb3),
    (224, 300, 224, 224, BICUBIC, 0x86e9c998), (1, 1, 224, 224, BICUBIC, 0x3ed97e97),
]


def lcg(count):
    r, out = 12345, bytearray(count)
    for i in range(count):
        r = (r * 1664525 + 1013904223) & 0xffffffff
        out[i] = r >> 24
    return bytes(out)


def exact_rgb(y, u, v):
    """ITU-R BT.601, limited range, in real numbers."""
    y, u, v = (np.asarray(x, np.float64) for x in (y, u, v))
    kr, kb = 0.299, 0.114
    grey, cb, cr = (y - 16) / 219, (u - 128) / 112 * (1 - kb), (v - 128) / 112 * (1 - kr)
    rgb = grey + cr, grey - (cb * kb + cr * kr) / (1 - kb - kr), grey + cb
    return 255 * np.clip(np.stack(rgb, -1), 0, 1)


def yuv_to_rgb(y, u, v):
    """The same with each coefficient rounded to 16 fractional bits."""
    y, u, v = (np.asarray(x, np.int64) for x in (y, u, v))
    c = [round(65536 * 255 / 219)] + [round(65536 * 255 / 224 * k) for k in
                                      (2 * 0.701, 1.772 * 0.114 / 0.587, 1.402 * 0.299 / 0.587,
                                       2 * 0.886)]
    grey = c[0] * (y - 16)
    rgb = (grey + c[1] * (v - 128), grey - c[2] * (u - 128) - c[3] * (v - 128),
           grey + c[4] * (u - 128))
    return np.clip(np.stack(rgb, -1) + 32768 >> 16, 0, 255).astype(np.uint8)


def check_yuv():
    """Checks for every colour that the integers are within one step of the real numbers."""
    u, v = np.meshgrid(np.arange(256), np.arange(256))
    differ = 0
    for y in range(256):
        exact, rounded = exact_rgb(y, u, v), yuv_to_rgb(y + 0 * u, u, v)
        assert np.abs(exact - rounded).max() < 0.51
        differ += np.count_nonzero(np.floor(exact + 0.5) != rounded)
    print("%.3f %% of all values are off by 1" % (differ / 3 / 2**24 * 100))


def floats(count):
    """From -1/8 to 9/8, exact in float32; then one NaN."""
    r, out = 12345, np.empty(count, np.float32)
    for i in range(count):
        r = (r * 1664525 + 1013904223) & 0xffffffff
        out[i] = ((r >> 16) * 5 - 32768) / 262144
    out[count // 2] = np.nan
    return out


def colours(form, w, h):
    """Returns the RGB of a photo in a format that Pillow does not read."""
    pairs = (w + 1) // 2
    if form == "F32":
        x = np.nan_to_num(floats(3 * w * h).astype(np.float64)).reshape(3, h, w)
        return np.clip(np.floor(x * 255 + 0.5), 0, 255).astype(np.uint8).transpose(1, 2, 0)
    if form in ("BGR", "BGRA"):
        data = np.frombuffer(lcg(w * h * len(form)), np.uint8).reshape(h, w, len(form))
        return data[:, :, 2::-1]
    if form == "RGB565":
        words = np.frombuffer(lcg(w * h * 2), "<u2").reshape(h, w).astype(np.int64)
        r, g, b = words // 2048, words // 32 % 64, words % 32
        return np.stack((r * 8 + r // 4, g * 4 + g // 16, b * 8 + b // 4), -1).astype(np.uint8)
    if form == "YUYV":
        data = np.frombuffer(lcg(h * pairs * 4), np.uint8).reshape(h, pairs, 4)
        y, u, v = data[:, :, ::2].reshape(h, -1), data[:, :, 1], data[:, :, 3]
        u, v = u.repeat(2, 1), v.repeat(2, 1)
    else:
        rows = (h + 1) // 2
        data = np.frombuffer(lcg((h + rows) * pairs * 2), np.uint8).reshape(h + rows, pairs, 2)
        y = data[:h].reshape(h, -1)
        u, v = (data[h:, :, i].repeat(2, 0)[:h].repeat(2, 1) for i in (0, 1))
    return yuv_to_rgb(y, u, v)[:, :w]


def photo(mode, width, height):
    if mode in FORMATS:
        return Image.fromarray(np.ascontiguousarray(colours(mode, width, height)))
    return Image.frombytes(mode, (width, height), lcg(width * height * MODES[mode][0]))


def keep_ratio(w, h, target_w, target_h, longest):
    ratios = h / target_h, w / target_w
    ratio = max(ratios) if longest else min(ratios)
    return max(1, round(w / ratio)), max(1, round(h / ratio))


def resized_size(w, h, rw, rh, crop):
    if crop == SQUASH:
        return rw, rh
    if crop == BORDER or rw != rh:
        return keep_ratio(w, h, rw, rh, crop == BORDER)
    return (rw, int(rw * h / w)) if w <= h else (int(rw * w / h), rw)


def crop_down(image, width, height):
    """As transformers does in NumPy: rounds margins down; the larger half of padding is first."""
    w, h = image.size
    left, top = (w - width) // 2, (h - height) // 2
    canvas = Image.new(image.mode, (width, height), 0)
    canvas.paste(image, (-left, -top))
    return canvas


def pad_and_crop(image, width, height, fill):
    w, h = image.size
    if width > w or height > h:
        left, top = max(width - w, 0) // 2, max(height - h, 0) // 2
        right, bottom = (max(width - w, 0) + 1) // 2, (max(height - h, 0) + 1) // 2
        canvas = Image.new(image.mode, (w + left + right, h + top + bottom), fill)
        canvas.paste(image, (left, top))
        image, (w, h) = canvas, canvas.size
    left, top = round((w - width) / 2.0), round((h - height) / 2.0)
    return image.crop((left, top, left + width, top + height))


def transform(image, chans, iw, ih, rw, rh, crop, interpolation, stats, rounding):
    mean, std = (np.array(s[:chans], np.float32).reshape(-1, 1, 1) for s in STATS[stats])
    image = image.convert("L" if chans == 1 else "RGB")
    size = resized_size(*image.size, rw, rh, crop)
    if size != image.size:
        image = image.resize(size, Image.BICUBIC if interpolation == BICUBIC else Image.BILINEAR)
    fill = tuple(round(255 * v) if crop == BORDER else 0 for v in STATS[stats][0][:chans])
    if rounding == DOWN:
        image = crop_down(image, iw, ih)
    else:
        image = pad_and_crop(image, iw, ih, fill if chans > 1 else fill[0])
    pixels = np.asarray(image, np.uint8).reshape(ih, iw, chans).transpose(2, 0, 1)
    return (pixels.astype(np.float32) / np.float32(255.0) - mean) / std


# (mode, w, h, stride padding, chans, input w, input h, resize w, resize h, crop, filter, stats);
# the rounding is added below
CASES = [
    ("RGB", 500, 375, 0, 3, 224, 224, 248, 248, CENTER, BICUBIC, 2),
    ("RGB", 375, 500, 0, 3, 224, 224, 248, 248, CENTER, BICUBIC, 3),
    ("RGB", 200, 300, 0, 3, 224, 224, 256, 256, CENTER, BILINEAR, 0),
    ("RGB", 1000, 700, 0, 3, 32, 32, 32, 32, CENTER, BICUBIC, 1),
    ("RGB", 1000, 700, 7, 3, 30, 40, 44, 33, SQUASH, BILINEAR, 2),
    ("RGB", 16, 16, 0, 3, 16, 16, 16, 16, CENTER, BICUBIC, 1),
    ("RGB", 17, 16, 0, 3, 16, 16, 16, 16, CENTER, BICUBIC, 1),
    ("RGB", 16, 40, 0, 3, 16, 16, 16, 16, CENTER, BICUBIC, 2),
    ("RGB", 40, 16, 0, 3, 16, 16, 16, 16, CENTER, BILINEAR, 2),
    ("RGB", 16, 40, 0, 3, 16, 16, 16, 16, SQUASH, BICUBIC, 2),
    ("RGB", 40, 16, 0, 3, 16, 16, 16, 16, SQUASH, BICUBIC, 2),
    ("RGB", 9, 9, 0, 3, 16, 16, 10, 10, CENTER, BICUBIC, 2),
    ("RGB", 40, 10, 0, 3, 16, 16, 11, 11, CENTER, BICUBIC, 2),
    ("RGB", 10, 40, 0, 3, 16, 16, 11, 11, CENTER, BICUBIC, 3),
    ("RGB", 9, 9, 0, 3, 16, 16, 11, 13, SQUASH, BICUBIC, 2),
    ("RGB", 37, 23, 0, 3, 16, 16, 16, 16, BORDER, BICUBIC, 1),
    ("RGB", 23, 37, 0, 3, 16, 16, 18, 18, BORDER, BICUBIC, 2),
    ("RGB", 37, 23, 5, 3, 20, 16, 13, 15, BORDER, BILINEAR, 3),
    ("RGB", 23, 23, 0, 3, 16, 16, 16, 16, BORDER, BICUBIC, 2),
    ("RGB", 300, 2, 0, 3, 16, 16, 16, 16, BORDER, BICUBIC, 2),
    ("RGB", 2, 300, 0, 3, 15, 15, 16, 16, BORDER, BICUBIC, 2),
    ("RGB", 37, 23, 0, 3, 20, 12, 24, 14, CENTER, BICUBIC, 2),
    ("RGB", 23, 37, 0, 3, 20, 12, 24, 14, CENTER, BICUBIC, 2),
    ("RGB", 61, 61, 0, 3, 12, 20, 13, 25, CENTER, BILINEAR, 1),
    ("RGBA", 37, 23, 0, 3, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("RGBA", 37, 23, 9, 1, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("RGBA", 16, 16, 0, 3, 16, 16, 16, 16, CENTER, BICUBIC, 1),
    ("L", 37, 23, 0, 3, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("L", 37, 23, 3, 3, 16, 16, 18, 18, BORDER, BICUBIC, 3),
    ("L", 37, 23, 0, 1, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("L", 16, 16, 0, 1, 16, 16, 16, 16, CENTER, BICUBIC, 0),
    ("RGB", 37, 23, 0, 1, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("RGB", 28, 28, 0, 1, 28, 28, 28, 28, CENTER, BICUBIC, 1),
    ("RGB", 23, 37, 2, 1, 16, 16, 16, 16, BORDER, BILINEAR, 2),
    ("RGB", 1, 1, 0, 3, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("RGB", 2, 1, 0, 3, 16, 16, 18, 18, CENTER, BILINEAR, 2),
    ("RGB", 1, 1, 0, 3, 16, 16, 18, 18, BORDER, BICUBIC, 2),
    ("RGB", 1, 1, 0, 1, 1, 1, 1, 1, CENTER, BICUBIC, 2),
    ("RGB", 20000, 1, 0, 3, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("RGB", 1, 20000, 0, 3, 16, 16, 18, 18, CENTER, BICUBIC, 2),
    ("RGB", 20000, 1, 0, 3, 16, 16, 18, 18, SQUASH, BICUBIC, 2),
    ("RGB", 1, 20000, 0, 3, 16, 16, 18, 18, SQUASH, BILINEAR, 2),
    ("RGB", 20000, 1, 0, 3, 16, 16, 16, 16, BORDER, BICUBIC, 2),
    ("RGB", 1, 20000, 0, 3, 16, 16, 16, 16, BORDER, BICUBIC, 2),
    ("L", 20000, 3, 0, 1, 16, 16, 18, 18, CENTER, BICUBIC, 2),
] + [  # every parity of the margins: Python rounds halves to even
    ("RGB", 29, 31, 0, 3, 16, 16, 16 + d, 16 + d, CENTER, BICUBIC, 1) for d in range(1, 10)
] + [  # and of the padding
    ("RGB", 29, 31, 0, 3, 16, 16, 16 - d, 16 - d, CENTER, BILINEAR, 1) for d in range(1, 9)
]
CASES = [case + (EVEN,) for case in CASES] + [
    case + (DOWN,) for case in CASES if case[9] != BORDER and case[1] < 100 and case[2] < 100
] + [  # odd and even sides, padded rows, models of one channel; the first keeps the photo
    (form, w, h, pad, chans, 16, 16, side, side, SQUASH, BICUBIC, stats, EVEN) for form in FORMATS
    for w, h, pad, chans, side, stats in (
        (16, 16, 0, 3, 16, 0), (37, 23, 0, 3, 16, 2), (24, 31, 8, 3, 18, 2), (1, 1, 0, 3, 18, 2),
        (37, 23, 8, 1, 16, 2), (300, 20, 0, 3, 18, 1))
]


def check_golden():
    for w, h, ow, oh, interpolation, crc in GOLDEN:
        kind = Image.BICUBIC if interpolation == BICUBIC else Image.BILINEAR
        assert zlib.crc32(photo("RGB", w, h).resize((ow, oh), kind).tobytes()) == crc, (w, h)


def main():
    check_golden()
    check_yuv()
    lines = ["/* Written by tests/make_preprocess.py; do not edit. */", "",
             "static const float vector_stats[%d][2][3] = {" % len(STATS)]
    for mean, std in STATS:
        lines.append("    {{%s}, {%s}}," % (", ".join("%.8ff" % v for v in mean),
                                            ", ".join("%.8ff" % v for v in std)))
    lines += ["};", "",
              "/* width, height, output width, height, interpolation, CRC-32 of the bytes */",
              "static const golden_vector golden_vectors[%d] = {" % len(GOLDEN)]
    lines += ["    {%d, %d, %d, %d, %d, 0x%08xu}," % g for g in GOLDEN]
    lines += ["};", "",
              "/* format, width, height, stride padding, in_chans, img_width, img_height,",
              "   resize_width, resize_height, crop_mode, interpolation, stats,",
              "   crop_rounding, CRC-32 of the floats */",
              "static const photo_vector photo_vectors[%d] = {" % len(CASES)]
    for mode, w, h, pad, chans, *rest in CASES:
        out = transform(photo(mode, w, h), chans, *rest)
        crc = zlib.crc32(np.ascontiguousarray(out, np.float32).tobytes())
        form = FORMATS[mode] if mode in FORMATS else MODES[mode][1]
        numbers = ", ".join(str(v) for v in [form, w, h, pad, chans] + rest)
        lines.append("    {%s, 0x%08xu}," % (numbers, crc))
    lines.append("};")
    with open(TARGET, "w") as f:
        f.write("\n".join(lines) + "\n")
    print(len(GOLDEN), "golden and", len(CASES), "further vectors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
