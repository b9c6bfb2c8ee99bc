#!/usr/bin/env python3
"""vit.h from Python, by ctypes: the classes of a PPM and its embedding. Nothing but the standard
library is needed; with NumPy, the embedding is an array.

    python3 examples/vit_ctypes.py build/lib/libvit.so.1 models/cifar10-vit.vit examples/cat.ppm
"""
import ctypes
import re
import sys

try:
    import numpy
except ImportError:
    numpy = None


class Image(ctypes.Structure):  # vit_image; the layouts are in tests/abi/list.txt
    _fields_ = [("pixels", ctypes.c_char_p), ("width", ctypes.c_int), ("height", ctypes.c_int),
                ("stride", ctypes.c_int), ("format", ctypes.c_int)]


class Prediction(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int), ("score", ctypes.c_float)]


class Model:
    def __init__(self, library, path):
        self.lib = ctypes.CDLL(library)
        self.lib.vit_label.restype = self.lib.vit_result_string.restype = ctypes.c_char_p
        self.lib.vit_workspace_size.restype = self.lib.vit_preprocess_size.restype = ctypes.c_size_t
        self.lib.vit_abi.restype = ctypes.c_uint
        abi = self.lib.vit_abi()  # its upper half: the size of vit_model, in units of 4 bytes
        self.model = (ctypes.c_uint64 * ((abi >> 16) // 2 + 1))()
        result = self.lib.vit_model_open(path.encode(), ctypes.c_uint(abi), self.model)
        detail = ctypes.cast(ctypes.addressof(self.model) + 4, ctypes.c_char_p).value.decode()
        self.check(result, "%s: %s" % (path, detail))
        self.config = (ctypes.c_int * 11).from_buffer(self.model, 228)  # vit_model.config

    def check(self, result, what):
        if result:
            raise OSError("%s: %s" % (what, self.lib.vit_result_string(result).decode()))

    def classify(self, image, k):
        top = (Prediction * k)()
        self.check(self.lib.vit_classify(self.model, ctypes.byref(image), k, top), "classify")
        return [(self.lib.vit_label(self.model, p.index).decode(), p.score) for p in top]

    def embed(self, image):
        input_ = (ctypes.c_float * (self.config[0] * self.config[1] * self.config[2]))()
        vector = (ctypes.c_float * self.lib.vit_embedding_dim(self.model))()
        workspace = ctypes.create_string_buffer(self.lib.vit_workspace_size(self.model, None))
        session = (ctypes.c_uint64 * 48)()  # vit_session
        outputs = (ctypes.c_void_p * 11)(None, ctypes.addressof(vector))  # vit_outputs
        self.check(self.lib.vit_preprocess(self.model, ctypes.byref(image), input_, None,
                                           ctypes.c_size_t(0)), "preprocess")
        self.check(self.lib.vit_session_init(session, self.model, None, workspace,
                                             ctypes.c_size_t(len(workspace))), "session")
        self.check(self.lib.vit_forward(session, input_, 1, outputs), "forward")
        return numpy.frombuffer(vector, numpy.float32) if numpy else list(vector)


def read_ppm(path):
    with open(path, "rb") as file:
        data = file.read()
    head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    if not head or len(data) - head.end() < int(head[1]) * int(head[2]) * 3:
        raise OSError("%s: not a whole PPM file of 8 bits a colour" % path)
    return Image(data[head.end():], int(head[1]), int(head[2]), 0, 0)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        model, photo = Model(*sys.argv[1:3]), read_ppm(sys.argv[3])
        for label, score in model.classify(photo, 3):
            print("%s, %.1f %%" % (label, 100 * score))
        vector = model.embed(photo)
        print("%s of %d, %.6f first" % (type(vector).__name__, len(vector), vector[0]))
    except OSError as error:
        sys.exit(str(error))
