#!/usr/bin/env python3
"""hello.py - uses vit.h by ctypes, without a package: a photo's best class and embedding.

    make libraries
    $ python3 examples/hello.py build/lib/libvit.so.2 models/cifar10-vit.vit examples/cat.ppm
    cat, 78.8 %
    embedding of 192 numbers, the first -0.101

Python's standard library reads no JPEG. Pillow does: Image.open(path).convert("RGB").tobytes()."""
import os
import re
import sys
from ctypes import *


class Image(Structure):  # vit_image
    _fields_ = [("pixels", c_char_p), ("width", c_int), ("height", c_int), ("stride", c_int),
                ("format", c_int)]


class Prediction(Structure):  # vit_prediction
    _fields_ = [("index", c_int), ("score", c_float)]


class Handle(Structure):  # the first two members of vit_model, the same in every version
    _fields_ = [("abi", c_uint), ("detail", c_char * 224)]


def read_ppm(path):
    with open(path, "rb") as file:
        data = file.read()
    head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    if not head or len(data) - head.end() < int(head[1]) * int(head[2]) * 3:
        raise OSError(path + ": not a whole PPM file of 8 bits a colour")
    return Image(data[head.end():], int(head[1]), int(head[2]))


if len(sys.argv) != 4:
    print("usage: hello.py libvit.so.2 MODEL.vit PHOTO.ppm", file=sys.stderr)
    sys.exit(2)
try:
    vit = CDLL(sys.argv[1])
    vit.vit_label.restype = vit.vit_result_string.restype = c_char_p
    abi, model, best = vit.vit_abi(), Handle(), Prediction()
    resize(model, (abi >> 8) * 4)  # upper 24 bits: the size, in units of 4 bytes
    if vit.vit_model_open_as(abi, os.fsencode(sys.argv[2]), 0, byref(model)):
        raise OSError(model.detail.decode(errors="replace"))
    image = read_ppm(sys.argv[3])
    embedding = (c_float * vit.vit_embedding_dim(byref(model)))()  # numpy.asarray(embedding)
    result = (vit.vit_classify(byref(model), byref(image), 1, byref(best)) or
              vit.vit_embed(byref(model), byref(image), embedding))
    if result:
        raise OSError(vit.vit_result_string(result).decode())
    label = vit.vit_label(byref(model), best.index) or b"a class without a name"
    print("%s, %.1f %%" % (label.decode(errors="replace"), 100 * best.score))
    print("embedding of %d numbers, the first %.3f" % (len(embedding), embedding[0]))
    vit.vit_model_close(byref(model))
except OSError as error:
    sys.exit(str(error))
