#!/usr/bin/python3
"""Trains the fixtures of test_heads.c: tests/data/trained/heads{1,2,4,8}.safetensors, in f16.

    /usr/bin/python3 tests/make_trained.py        (Debian: python3-torch, python3-sklearn)

Run it from the root of the repository; it takes two minutes. For authoring only: the fixtures are
committed and the tests need no Python. They are Vision Transformers for scikit-learn's digits of
8 x 8 pixels, and differ only in the number of heads. That number shows only in trained weights.
"""
import json
import os
import struct

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

OUT = os.path.join("tests", "data", "trained")
WIDTH, DEPTH, PATCH, EPOCHS, BATCH, TRAINED_ON = 32, 2, 2, 60, 64, 1437


class Attention(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        shape = x.shape[0], x.shape[1], 3, self.heads, WIDTH // self.heads
        q, k, v = self.qkv(x).reshape(shape).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * shape[-1] ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attn = Attention(heads)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(WIDTH, WIDTH), "fc2": nn.Linear(WIDTH, WIDTH)})

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class VisionTransformer(nn.Module):
    """Its tensors have timm's names."""

    def __init__(self, heads):
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.randn(1, (8 // PATCH) ** 2 + 1, WIDTH) * 0.02)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(1, WIDTH, PATCH, PATCH)})
        self.blocks = nn.ModuleList([Block(heads) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def train(heads, images, labels):
    torch.manual_seed(0)
    model = VisionTransformer(heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    steps = EPOCHS * (TRAINED_ON // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps + 1)
    for _ in range(EPOCHS):
        order = torch.randperm(TRAINED_ON)
        for i in range(0, TRAINED_ON - BATCH + 1, BATCH):
            chosen = order[i:i + BATCH]
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        right = model(images[TRAINED_ON:]).argmax(1) == labels[TRAINED_ON:]
    print(f"{heads} heads: {right.float().mean():.3f} of the other digits")
    return model.state_dict()


def split_qkv(tensors):
    """q, k and v as three tensors."""
    parts = {}
    for name, tensor in tensors.items():
        for letter, part in zip("qkv", tensor.chunk(3) if ".qkv." in name else ()):
            parts[name.replace(".qkv.", f".{letter}.")] = part
        if ".qkv." not in name:
            parts[name] = tensor
    return parts


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.half().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
    labels = torch.tensor(labels)
    for heads in 1, 2, 4, 8:
        tensors = train(heads, images, labels)
        write_safetensors(os.path.join(OUT, f"heads{heads}.safetensors"),
                          split_qkv(tensors) if heads == 2 else tensors)


if __name__ == "__main__":
    main()
