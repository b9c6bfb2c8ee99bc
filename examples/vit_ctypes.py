#!/usr/bin/env python3
"""vit.h from Python, by ctypes: the classes of a PPM and its embedding. Nothing but the standard
library is needed; NumPy takes the embedding as it is: numpy.asarray(embedding)."""
import re
import sys
from ctypes import *


class Image(Structure):  # vit_image; the layouts are in tests/abi/list.txt
    _fields_ = [("pixels", c_char_p), ("width", c_int), ("height", c_int), ("stride", c_int),
                ("format", c_int)]


class Model:
    def __init__(self, library, path):
        self.vit = CDLL(library)
        self.vit.vit_label.restype = self.vit.vit_result_string.restype = c_char_p
        abi = self.vit.vit_abi()  # its upper 24 bits: the size of vit_model, in units of 4 bytes
        self.model = (c_uint64 * ((abi >> 8) // 2 + 1))()
        if self.vit.vit_model_open_as(abi, path.encode(errors="surrogateescape"), 0, self.model):
            raise OSError(string_at(addressof(self.model) + 4).decode(errors="replace"))

    def run(self, image):  # (probability, class) of all, best first; and the embedding
        vit, model = self.vit, self.model
        classes = (c_int * 11).from_buffer(model, 228)[10]  # vit_model.config.num_classes
        session, answer = (c_uint64 * 64)(), (POINTER(c_float) * 2)()  # vit_session, vit_answer
        result = (vit.vit_session_init(session, model, None, None, c_size_t(0)) or
                  vit.vit_run(session, byref(image), 1, answer))
        scores = answer[0][:classes] if not result else []
        embedding = (c_float * vit.vit_embedding_dim(model))()
        if not result:
            memmove(embedding, answer[1], sizeof(embedding))
        vit.vit_session_close(session)
        if result:
            raise OSError(vit.vit_result_string(result).decode())
        classes = [(score, vit.vit_label(model, i).decode()) for i, score in enumerate(scores)]
        return sorted(classes, reverse=True), embedding


def read_ppm(path):
    with open(path, "rb") as file:
        data = file.read()
    head = re.match(rb"P6\s+(\d+)\s+(\d+)\s+255\s", data)
    if not head or len(data) - head.end() < int(head[1]) * int(head[2]) * 3:
        raise OSError("%s: not a whole PPM file of 8 bits a colour" % path)
    return Image(data[head.end():], int(head[1]), int(head[2]))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: vit_ctypes.py libvit.so.2 MODEL.vit PHOTO.ppm")
    try:
        classes, embedding = Model(*sys.argv[1:3]).run(read_ppm(sys.argv[3]))
    except OSError as error:
        sys.exit(str(error))
    for score, label in classes[:3]:
        print("%s, %.1f %%" % (label, 100 * score))
    print("embedding of %d, %.6f first" % (len(embedding), embedding[0]))
