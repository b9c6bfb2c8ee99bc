#!/usr/bin/python3
"""Writes data/convert/resample.f32: what PyTorch makes of position embeddings for another grid, as
timm resamples them: F.interpolate(mode="bicubic", antialias=True). test_convert_units.c generates
the same inputs and compares. Little-endian float32, the cases one after the other, [H, W, D] each.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

# old height, old width, new height, new width, channels
CASES = [(14, 14, 24, 24, 1), (24, 24, 14, 14, 2), (14, 14, 7, 28, 1), (7, 7, 12, 9, 3),
         (16, 16, 5, 5, 2), (2, 2, 3, 3, 4), (1, 1, 4, 4, 2), (8, 8, 1, 1, 3), (6, 6, 6, 6, 2)]


def inputs(count):
    """Uniform in [-1, 1), exact in float32."""
    state, out = 12345, np.empty(count, np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = (state >> 8) / 2.0**23 - 1
    return out


here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "data", "convert", "resample.f32"), "wb") as file:
    for height, width, new_height, new_width, dim in CASES:
        x = torch.from_numpy(inputs(height * width * dim)).reshape(1, height, width, dim)
        y = F.interpolate(x.permute(0, 3, 1, 2), size=(new_height, new_width), mode="bicubic",
                          antialias=True)
        file.write(y.permute(0, 2, 3, 1)[0].contiguous().numpy().astype("<f4").tobytes())
