#!/usr/bin/python3
"""Writes data/convert/resample.f32: position embeddings that PyTorch resampled for another grid, in
the way of each library that vit_pos_resample names. test_convert_units.c generates the same inputs
and compares. The file has little-endian float32: for one way after the other all cases, [H, W, D].

adapt.f32 beside it: patch embeddings for other channels and patches, as timm adapts them. B, the
matrix of a resize, is made by interpolating the identity; the weights are multiplied with its
pseudo-inverse. One output for each case, [C, P, P].

rel_pos.f32: tables of relative positions as transformers resamples them, [2 H - 1, 2 W - 1].
tests/data/coverage/option_resized has tables that timm resampled.

The reference for JAX is scipy.ndimage.zoom(order=1), which keeps the corners' centres like
PyTorch's align_corners.
"""
import os

import numpy as np
import torch
import torch.nn.functional as F

# old height, old width, new height, new width, channels
CASES = [(14, 14, 24, 24, 1), (24, 24, 14, 14, 2), (14, 14, 7, 28, 1), (7, 7, 12, 9, 3),
         (16, 16, 5, 5, 2), (2, 2, 3, 3, 4), (1, 1, 4, 4, 2), (8, 8, 1, 1, 3), (6, 6, 6, 6, 2)]


def dino(x, size):
    """Resizes by a factor that is slightly too large, so that the size is not rounded down."""
    factors = [(new + 0.1) / old for new, old in zip(size, x.shape[2:])]
    y = F.interpolate(x, scale_factor=factors, mode="bicubic")
    assert list(y.shape[2:]) == list(size)
    return y


def square(x, size, **options):
    """Resizes as timm's naflexvit_*_par do: to a square of the longer side, then keeps the size."""
    return F.interpolate(x, size=(max(size), max(size)), **options)[..., :size[0], :size[1]]


# height, width, new height, new width: of grids
RELATIVE = [(14, 14, 24, 24), (14, 14, 7, 28), (3, 5, 2, 9), (1, 1, 3, 2), (4, 4, 1, 1)]


# channels, patch, new channels, new patch, index in WAYS
PATCHES = [(3, 16, 1, 16, 0), (3, 8, 4, 8, 0), (3, 4, 5, 4, 0), (3, 2, 32, 2, 0), (3, 2, 2, 2, 0),
           (1, 16, 1, 32, 0), (2, 16, 2, 8, 0), (1, 14, 1, 16, 0), (1, 16, 1, 10, 0),
           (1, 4, 1, 9, 3), (1, 16, 1, 8, 3), (1, 8, 1, 12, 3), (1, 32, 1, 16, 3),
           (3, 8, 1, 5, 0), (3, 5, 4, 7, 3), (1, 1, 1, 3, 0), (1, 3, 1, 1, 0)]


def other_channels(w, chans):
    if chans == w.shape[0]:
        return w
    if chans == 1:
        return w.sum(dim=0, keepdim=True)
    return w[torch.arange(chans) % 3] * (3 / chans)


def other_patch(w, patch, way):
    old = w.shape[-1]
    if patch == old:
        return w
    unit = torch.eye(old * old).reshape(old * old, 1, old, old)
    resize = WAYS[way](unit, (patch, patch)).reshape(old * old, patch * patch).T
    return (w.flatten(1) @ torch.linalg.pinv(resize)).reshape(-1, patch, patch)


# In the order of vit_pos_resample.
WAYS = [
    lambda x, size: F.interpolate(x, size=size, mode="bicubic", antialias=True),
    lambda x, size: F.interpolate(x, size=size, mode="bicubic"),
    lambda x, size: F.interpolate(x, size=size, mode="bicubic", align_corners=True),
    lambda x, size: F.interpolate(x, size=size, mode="bilinear"),
    lambda x, size: F.interpolate(x, size=size, mode="bilinear", align_corners=True),
    dino,
    lambda x, size: F.interpolate(x, size=size, mode="bilinear", antialias=True),
    lambda x, size: square(x, size, mode="bicubic", antialias=True),
    lambda x, size: square(x, size, mode="bilinear"),
]


def inputs(count):
    """Uniform in [-1, 1), exact in float32."""
    state, out = 12345, np.empty(count, np.float32)
    for i in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out[i] = (state >> 8) / 2.0**23 - 1
    return out


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "data", "convert", "resample.f32"), "wb") as file:
        for way in WAYS:
            for height, width, new_height, new_width, dim in CASES:
                x = torch.from_numpy(inputs(height * width * dim)).reshape(1, height, width, dim)
                y = way(x.permute(0, 3, 1, 2), (new_height, new_width))
                file.write(y.permute(0, 2, 3, 1)[0].contiguous().numpy().astype("<f4").tobytes())
    with open(os.path.join(here, "data", "convert", "adapt.f32"), "wb") as file:
        for chans, patch, new_chans, new_patch, way in PATCHES:
            w = torch.from_numpy(inputs(chans * patch * patch)).reshape(chans, patch, patch)
            w = other_channels(other_patch(w, new_patch, way), new_chans)
            file.write(w.contiguous().numpy().astype("<f4").tobytes())
    with open(os.path.join(here, "data", "convert", "rel_pos.f32"), "wb") as file:
        for sides in RELATIVE:
            height, width, *size = [2 * side - 1 for side in sides]
            x = torch.from_numpy(inputs(height * width)).reshape(1, 1, height, width)
            y = F.interpolate(x, size=size, mode="bilinear")
            file.write(y.numpy().astype("<f4").tobytes())


if __name__ == "__main__":
    main()
