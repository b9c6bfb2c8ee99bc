#!/usr/bin/python3
"""Writes data/convert/resample.f32: what PyTorch makes of position embeddings for another grid, in
the way of each library that vit_pos_resample names. test_convert_units.c generates the same inputs
and compares. Little-endian float32, the ways one after the other, all cases of each, [H, W, D].

For JAX it is scipy.ndimage.zoom(order=1) that counts, which keeps the corners' centres as PyTorch's
align_corners does.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

# old height, old width, new height, new width, channels
CASES = [(14, 14, 24, 24, 1), (24, 24, 14, 14, 2), (14, 14, 7, 28, 1), (7, 7, 12, 9, 3),
         (16, 16, 5, 5, 2), (2, 2, 3, 3, 4), (1, 1, 4, 4, 2), (8, 8, 1, 1, 3), (6, 6, 6, 6, 2)]


def dino(x, size):
    """By a factor that is a little too large, so that the size is not rounded down."""
    factors = [(new + 0.1) / old for new, old in zip(size, x.shape[2:])]
    y = F.interpolate(x, scale_factor=factors, mode="bicubic")
    assert list(y.shape[2:]) == list(size)
    return y


# In the order of vit_pos_resample.
WAYS = [
    lambda x, size: F.interpolate(x, size=size, mode="bicubic", antialias=True),
    lambda x, size: F.interpolate(x, size=size, mode="bicubic"),
    lambda x, size: F.interpolate(x, size=size, mode="bicubic", align_corners=True),
    lambda x, size: F.interpolate(x, size=size, mode="bilinear"),
    lambda x, size: F.interpolate(x, size=size, mode="bilinear", align_corners=True),
    dino,
]


def inputs(count):
    """Uniform in [-1, 1), exact in float32."""
    state, out = 12345, np.empty(count, np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = (state >> 8) / 2.0**23 - 1
    return out


here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "data", "convert", "resample.f32"), "wb") as file:
    for way in WAYS:
        for height, width, new_height, new_width, dim in CASES:
            x = torch.from_numpy(inputs(height * width * dim)).reshape(1, height, width, dim)
            y = way(x.permute(0, 3, 1, 2), (new_height, new_width))
            file.write(y.permute(0, 2, 3, 1)[0].contiguous().numpy().astype("<f4").tobytes())
