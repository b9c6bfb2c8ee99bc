#!/usr/bin/python3
"""Writes results of NumPy, scikit-learn and PyTorch that vit-look must reproduce:

    tests/look_numbers.h    principal components, foreground, attention rollout, of numbers that
                            tests/test_look.c makes again, bit for bit
    tests/data/look/*.npy   attention, tokens, similarity, positions, filters of the model
                            fixtures/plain and a photo, by a separate forward pass in float64; for
                            tests/test_look.sh

    /usr/bin/python3 tests/make_look.py   (python3-numpy, python3-sklearn, python3-torch, python3-pil)
"""
import json
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")
# rows, dim, components, and the factor from each column to the next
FITS = [(60, 20, 4, 0.8), (15, 40, 5, 0.9), (30, 8, 3, 1.0), (9, 30, 8, 1.0)]
PHOTOS, ROWS, COLUMNS, DIM = 2, 5, 7, 12
BLOCKS, HEADS, TOKENS = 4, 3, 7


def uniform(seed, count):
    """splitmix64 (Steele, Lea, Flood 2014), its upper 24 bits as a float in [-1, 1)."""
    state = (np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) *
             np.uint64(0x9E3779B97F4A7C15))
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return ((z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1))


def floats(name, values):
    values = [repr(float(v)) for v in np.ravel(values)]
    lines = [f"static const double {name}[{len(values)}] = {{"]
    lines += ["    " + ", ".join(values[i:i + 4]) + "," for i in range(0, len(values), 4)]
    return "\n".join(lines) + "\n};\n"


def shrinking(seed, rows, dim, factor):
    """Each column is `factor` times as wide as the previous one, rounded as in C."""
    scale = np.ones(dim, dtype=np.float32)
    for i in range(1, dim):
        scale[i] = scale[i - 1] * np.float32(factor)
    return uniform(seed, rows * dim).reshape(rows, dim) * scale


def positive(components):
    """Makes the element with the largest magnitude of each component positive."""
    largest = np.take_along_axis(components, np.abs(components).argmax(1)[:, None], 1)
    return components * np.sign(largest)


def fit(rows, count):
    found = PCA(count, svd_solver="full").fit(rows.astype(np.float64))
    return found, positive(found.components_)


def foreground_fit(tokens, grid, count=3):
    """DINOv2, arXiv 2304.07193, section 7.5: tokens [photos * patches, dim]."""
    rows, columns = grid
    found, components = fit(tokens, 1)
    along = (tokens - found.mean_) @ components[0]
    y, x = np.divmod(np.arange(len(tokens)) % (rows * columns), columns)
    border = (y == 0) | (x == 0) | (y == rows - 1) | (x == columns - 1)
    inside = along < 0 if along[border].sum() > 0 else along > 0
    found, components = fit(tokens[inside], count)
    coordinates = np.full((len(tokens), count), np.nan)
    coordinates[inside] = (tokens[inside] - found.mean_) @ components.T
    return coordinates, inside


def rollout(maps):
    """Abnar and Zuidema 2020: [blocks, heads, tokens, tokens] to [tokens, tokens]."""
    joint = np.eye(maps.shape[-1])
    for block in maps.mean(1):
        mixed = block + np.eye(len(block))
        joint = (mixed / mixed.sum(1, keepdims=True)) @ joint
    return joint


def write_numbers():
    text = "/* Written by make_look.py: the results of scikit-learn and NumPy. */\n"
    for i, (rows, dim, count, factor) in enumerate(FITS):
        found, components = fit(shrinking(10 + i, rows, dim, factor), count)
        text += floats(f"variance{i}", found.explained_variance_)
        text += floats(f"ratio{i}", found.explained_variance_ratio_)
        text += floats(f"components{i}", components[:2])
    tokens = shrinking(20, PHOTOS * ROWS * COLUMNS, DIM, 0.7).astype(np.float64)
    coordinates, inside = foreground_fit(tokens, (ROWS, COLUMNS))
    text += floats("foreground", inside)
    text += floats("coordinates", np.nan_to_num(coordinates))
    maps = uniform(30, BLOCKS * HEADS * TOKENS * TOKENS).reshape(BLOCKS, HEADS, TOKENS, TOKENS)
    maps = np.abs(maps).astype(np.float64)   # not softmax: rows need not have the sum 1
    joint = rollout(maps)
    text += floats("rollout", joint)
    with open(os.path.join(HERE, "look_numbers.h"), "w") as file:
        file.write(text)


# --- a model -----------------------------------------------------------------


def read_safetensors(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: torch.from_numpy(np.frombuffer(
        data[t["data_offsets"][0]:t["data_offsets"][1]], "<f4").reshape(t["shape"]).copy()).double()
        for name, t in header.items()}


def preprocess(path, config):
    """timm's preprocessing: the shorter side to int(12 / 0.9) = 13, the centre, mean and std."""
    photo = Image.open(path).convert("RGB")
    size = int(12 / config["crop_pct"])
    w, h = photo.size
    w, h = (size, size * h // w) if w <= h else (size * w // h, size)
    photo = photo.resize((w, h), Image.BICUBIC)
    left, top = round((w - 12) / 2), round((h - 12) / 2)
    pixels = np.asarray(photo.crop((left, top, left + 12, top + 12)), np.float64) / 255
    return torch.from_numpy(((pixels - config["mean"]) / config["std"]).transpose(2, 0, 1))


def forward(w, pixels, heads=2):
    """Tokens after the final norm and the maps of all blocks, of fixtures/plain."""
    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], 1e-6)

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    x = F.conv2d(pixels[None], w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=4)
    x = torch.cat([w["cls_token"][0], x.flatten(2)[0].T]) + w["pos_embed"][0]
    maps, block = [], 0
    while f"blocks.{block}.norm1.weight" in w:
        name = f"blocks.{block}."
        q, k, v = linear(norm(x, name + "norm1"), name + "attn.qkv").reshape(
            len(x), 3, heads, -1).permute(1, 2, 0, 3)
        maps.append((q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1))
        x = x + linear((maps[-1] @ v).transpose(0, 1).flatten(1), name + "attn.proj")
        hidden = F.gelu(linear(norm(x, name + "norm2"), name + "mlp.fc1"))
        x = x + linear(hidden, name + "mlp.fc2")
        block += 1
    return norm(x, "norm").numpy(), torch.stack(maps).numpy()


def save(name, values):
    folder = os.path.join(DATA, "look")
    os.makedirs(folder, exist_ok=True)
    np.save(os.path.join(folder, name), np.asarray(values, np.float32))


def save_photo(w, path, config):
    tokens, maps = forward(w, preprocess(path, config))
    save("attention", maps[1][:, 0, 1:].reshape(1, 2, 3, 3))
    save("attention_at", maps[0][:, 1 + 4, 1:].mean(0).reshape(1, 1, 3, 3))
    save("rollout", rollout(maps)[0, 1:].reshape(1, 1, 3, 3))
    save("similarity", cosine_similarity(tokens[1 + 4:2 + 4], tokens[1:]).reshape(1, 1, 3, 3))
    found, components = fit(tokens[1:], 3)
    save("tokens", ((tokens[1:] - found.mean_) @ components.T).T.reshape(1, 3, 3, 3))
    save("explained", found.explained_variance_ratio_)


def relative_biases(table, rows, columns):
    """transformers' BEiT: each head's addition to q k^T, as a vector of each query patch."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    index = ((y[:, None] - y) + rows - 1) * (2 * columns - 1) + (x[:, None] - x) + columns - 1
    return table[index].transpose(0, 2, 1).reshape(rows * columns, -1)


def rotary_angles(rows, columns, head_dim, theta=100.0):
    """transformers' DINOv3: cosines and sines of each patch."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    places = np.stack([(y + 0.5) / rows, (x + 0.5) / columns], 1) * 2 - 1
    periods = theta ** (np.arange(0, 1, 4 / head_dim))
    angles = (2 * np.pi * places[:, :, None] / periods).reshape(len(places), -1)
    return np.concatenate([np.cos(angles), np.sin(angles)], 1)


def save_positions(w):
    save("embedding", cosine_similarity(w["pos_embed"][0, 1:].numpy())[None])
    beit = read_safetensors(os.path.join(DATA, "layouts/hf_beit/model.safetensors"))
    for block in range(2):
        table = beit[f"beit.encoder.layer.{block}.attention.attention.relative_position_bias."
                     "relative_position_bias_table"].numpy()
        save(f"relative{block}", cosine_similarity(relative_biases(table, 2, 2))[None])
    save("rotary", cosine_similarity(rotary_angles(2, 2, 4))[None])


def main():
    write_numbers()
    folder = os.path.join(DATA, "fixtures/plain/")
    w = read_safetensors(folder + "model.safetensors")
    with open(folder + "config.json") as file:
        config = json.load(file)["pretrained_cfg"]
    save_photo(w, os.path.join(DATA, "images/rgb.png"), config)
    save_positions(w)
    filters = w["patch_embed.proj.weight"].flatten(1).numpy()
    save("filters", fit(filters, 5)[1].reshape(5, 3, 4, 4))


if __name__ == "__main__":
    main()
