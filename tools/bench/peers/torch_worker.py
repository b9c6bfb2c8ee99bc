#!/usr/bin/python3
"""torch_worker.py DTYPE MODEL.pth INPUT WIDTH DEPTH HEADS MLP_DIM PATCH IMAGE THREADS BATCH

Runs timm's Vision Transformer in plain PyTorch, by the line protocol of workers.py.
"""
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.ao import quantization


class Block(nn.Module):
    def __init__(self, width, heads, mlp_dim):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width),
                                   "proj": nn.Linear(width, width)})
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, mlp_dim),
                                  "fc2": nn.Linear(mlp_dim, width)})

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.attn.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        scores = (q * (d // self.heads) ** -0.5) @ k.transpose(-2, -1)
        context = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        x = x + self.attn.proj(context)
        return x + self.mlp.fc2(nn.functional.gelu(self.mlp.fc1(self.norm2(x))))


class VisionTransformer(nn.Module):
    def __init__(self, width, depth, heads, mlp_dim, patch, image):
        super().__init__()
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, patch, patch)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*[Block(width, heads, mlp_dim) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, 1000)

    def forward(self, x):
        """Returns (logits, embedding)."""
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        embedding = self.norm(self.blocks(x)[:, 0])
        return self.head(embedding), embedding


def has_bf16():
    with open("/proc/cpuinfo") as f:
        return os.uname().machine != "x86_64" or "avx512bw" in f.read()


@torch.inference_mode()
def main():
    dtype, path, images = sys.argv[1:4]
    *sizes, threads, batch = map(int, sys.argv[4:])
    torch.set_num_threads(threads)
    model = VisionTransformer(*sizes)
    model.load_state_dict(torch.load(path))
    model.eval()
    if dtype == "bf16" and not has_bf16():
        sys.exit(print("unavailable without AVX-512 it is some 20 times slower than f32"))
    to = torch.bfloat16 if dtype == "bf16" else torch.float32
    model = model.to(to)
    if dtype == "int8":
        if "onednn" not in torch.backends.quantized.supported_engines:
            sys.exit(print("unavailable this PyTorch lacks the int8 engine onednn"))
        torch.backends.quantized.engine = "onednn"    # the other engine, qnnpack, is 6 times slower
        model = quantization.quantize_dynamic(
            model, {nn.Linear: quantization.per_channel_dynamic_qconfig})
    pixels = np.memmap(images, "<f4", "c").reshape(-1, 3, sizes[5], sizes[5])

    def inputs(first):
        return torch.from_numpy(pixels[first:first + batch]).to(to)

    x = inputs(0)
    print("ready PyTorch", torch.__version__.split("+")[0], flush=True)
    for line in sys.stdin:
        if line == "run\n":
            start = time.perf_counter()
            model(x)
            print(1e3 * (time.perf_counter() - start), flush=True)
        else:
            verb, path = line.split()
            with open(path, "wb") as f:
                for first in range(0, len(pixels), batch):
                    outputs = model(inputs(first))[verb == "embedding"]
                    f.write(outputs.float().numpy().tobytes())
            print("ok", flush=True)


if __name__ == "__main__":
    main()
