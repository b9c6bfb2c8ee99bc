#!/usr/bin/python3
"""Writes tests/data/fixtures/lib_*: small models of other libraries and of tutorials, each with
the logits and the embedding that its own PyTorch module computes.

    /usr/bin/python3 tests/make_libraries.py [CASE...]        (Debian: python3-torch)

For authoring only, like tests/make_fixtures.py, which describes the files; here
expected.safetensors has only logits and embedding. The order of queries, keys and values, the place
of a scale and the kind of pooling affect only these numbers, not the names and shapes of tensors.
The modules are written here after the documented structure of those libraries, with their attribute
names.
"""
import os
import sys
import zlib

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from make_fixtures import IMAGES, ROOT, image, save_safetensors


def patches(images, p, order):
    """[B, N, P * P * C]: the numbers of a patch, in the order of einops' right side."""
    b, c, h, w = images.shape
    x = images.reshape(b, c, h // p, p, w // p, p).permute(
        {"pqc": (0, 2, 4, 3, 5, 1), "cpq": (0, 2, 4, 1, 3, 5), "qpc": (0, 2, 4, 5, 3, 1),
         "cqp": (0, 2, 4, 1, 5, 3)}[order])
    return x.reshape(b, (h // p) * (w // p), -1)


def split_heads(x, heads):
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


# --- the einops tutorial: everything is an nn.Sequential -----------------------------------------

class Patches(nn.Module):
    def __init__(self, p, order):
        super().__init__()
        self.p, self.order = p, order

    def forward(self, x):
        return patches(x, self.p, self.order)


class Tokens(nn.Module):
    """[B, D, H, W] of a convolution -> [B, N, D]"""

    def forward(self, x):
        return x.flatten(2).transpose(1, 2)


class EinopsEmbedding(nn.Module):
    def __init__(self, chans, p, dim, size, linear):
        super().__init__()
        self.projection = nn.Sequential(Patches(p, "pqc"), nn.Linear(p * p * chans, dim)) \
            if linear else nn.Sequential(nn.Conv2d(chans, dim, p, p), Tokens())
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.positions = nn.Parameter(torch.randn((size // p) ** 2 + 1, dim))

    def forward(self, x):
        x = self.projection(x)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.positions


class EinopsAttention(nn.Module):
    """fused: one layer whose rows are (h d qkv). root gives the place of the division."""

    def __init__(self, dim, heads, fused, root="embed_dim_after"):
        super().__init__()
        self.dim, self.heads, self.root = dim, heads, root
        if fused:
            self.qkv = nn.Linear(dim, 3 * dim)
        else:
            self.keys, self.queries, self.values = (nn.Linear(dim, dim) for _ in range(3))
        self.projection = nn.Linear(dim, dim)

    def project(self, x):
        if not hasattr(self, "qkv"):
            return (split_heads(layer(x), self.heads)
                    for layer in (self.queries, self.keys, self.values))
        b, n, d = x.shape
        return self.qkv(x).reshape(b, n, self.heads, d // self.heads, 3).permute(4, 0, 2, 1, 3)

    def forward(self, x):
        q, k, v = self.project(x)
        energy = q @ k.transpose(-2, -1)
        if self.root == "embed_dim":
            attention = (energy / self.dim ** 0.5).softmax(dim=-1)
        elif self.root == "head_dim":
            attention = (energy / (self.dim // self.heads) ** 0.5).softmax(dim=-1)
        else:
            attention = energy.softmax(dim=-1) / self.dim ** 0.5
        return self.projection(merge_heads(attention @ v))


class SelfAttention(nn.MultiheadAttention):
    def __init__(self, dim, heads):
        super().__init__(dim, heads, batch_first=True)

    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class HeldAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.mha = SelfAttention(dim, heads)

    def forward(self, x):
        return self.mha(x)


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.fn = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.fn(x)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def feed_forward(dim, hidden):
    return nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(0.0),
                         nn.Linear(hidden, dim))


class EinopsViT(nn.Sequential):
    """reduce: pooling is a layer of the head, as published, or is between the parts."""

    def __init__(self, attention, dim=16, hidden=24, depth=2, chans=3, p=4, size=8, classes=5,
                 linear=True, reduce=True):
        def block():
            return nn.Sequential(
                Residual(nn.LayerNorm(dim), attention(dim), nn.Dropout(0.0)),
                Residual(nn.LayerNorm(dim), feed_forward(dim, hidden), nn.Dropout(0.0)))
        head = [Mean()] if reduce else []
        super().__init__(EinopsEmbedding(chans, p, dim, size, linear),
                         nn.Sequential(*[block() for _ in range(depth)]),
                         nn.Sequential(*head, nn.LayerNorm(dim), nn.Linear(dim, classes)))
        self.reduce = reduce

    def forward(self, x):
        x = self[1](self[0](x))
        return self[2](x if self.reduce else x.mean(dim=1))

    def head(self):
        return self[2][-1]


def einops(**changes):
    fused, root = changes.pop("fused", True), changes.pop("root", "embed_dim_after")
    return EinopsViT(lambda dim: EinopsAttention(dim, 8, fused, root), **changes)


# --- torch.nn.TransformerEncoder, as PyTorch builds it by default --------------------------------

class EncoderViT(nn.Module):
    """stem: conv, an order of patches() or matrix: unfolded patches times a bare [P * P * C, D].
    mistaken: images come one by one, and the encoder takes their tokens for a batch."""

    def __init__(self, stem="conv", dim=16, heads=4, hidden=24, depth=2, chans=3, p=4, size=8,
                 classes=5, rows=None, pool="token", norm=False, mistaken=False, **layer):
        super().__init__()
        self.p, self.stem, self.pool, self.mistaken = p, stem, pool, mistaken
        self.input_shape = (chans, size, size)
        self.tokens = (size // p) ** 2 + 1
        if stem == "conv":
            self.patch_embed = nn.Conv2d(chans, dim, p, p)
        elif stem == "matrix":
            self.patch_weight = nn.Parameter(torch.randn(p * p * chans, dim))
        else:
            self.patch_embedding = nn.Linear(p * p * chans, dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.position_embedding_table = nn.Parameter(torch.randn(rows or self.tokens, dim))
        self.transformer_encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(dim, heads, hidden, batch_first=not mistaken, **layer),
            depth, nn.LayerNorm(dim) if norm else None)
        self.linear_layer = nn.Linear(dim, classes)

    def embed(self, x):
        if self.stem == "conv":
            return self.patch_embed(x).flatten(2).transpose(1, 2)
        if self.stem == "matrix":
            return F.unfold(x, self.p, stride=self.p).transpose(-1, -2) @ self.patch_weight
        return self.patch_embedding(patches(x, self.p, self.stem))

    def forward(self, x):
        x = self.embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = x + self.position_embedding_table[:self.tokens]
        parts = x.split(1) if self.mistaken else [x]
        x = torch.cat([self.transformer_encoder(part) for part in parts])
        return self.linear_layer(x[:, 0] if self.pool == "token" else x.mean(dim=1))

    def head(self):
        return self.linear_layer


class ListViT(nn.Module):
    """Has blocks in a list, positions of sines and cosines in a buffer, and unusual names."""

    def __init__(self, dim=16, heads=2, depth=2, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 4, 4)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, heads, 24, activation="gelu", batch_first=True,
                                       norm_first=True) for _ in range(depth))
        t, k = torch.arange(9.0)[:, None], torch.arange(0, dim, 2)
        angle = t / 10000 ** (k / dim)
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.answer = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2) + self.table[:4]
        for block in self.blocks:
            x = block(x)
        return self.answer(x.mean(dim=1))

    def head(self):
        return self.answer[1]


# --- lucidrains/vit-pytorch: its first days, three eras of ViT, three of SimpleViT ---------------

class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(dim), fn

    def forward(self, x):
        return self.fn(self.norm(x))


class LucidrainsAttention(nn.Module):
    def __init__(self, dim, heads, dim_head, norm, simple):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head ** -0.5
        if norm:
            self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, 3 * inner, bias=False)
        if simple:
            self.to_out = nn.Linear(inner, dim, bias=False)
        elif heads == 1 and dim_head == dim:
            self.to_out = nn.Identity()
        else:
            self.to_out = nn.Sequential(nn.Linear(inner, dim), nn.Dropout(0.0))

    def forward(self, x):
        x = self.norm(x) if hasattr(self, "norm") else x
        q, k, v = (split_heads(t, self.heads) for t in self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(merge_heads((q @ k.transpose(-2, -1) * self.scale).softmax(-1) @ v))


class FirstResidual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return x + self.fn(x)


class FirstAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, dim ** -0.5
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = (split_heads(t, self.heads) for t in self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(merge_heads((q @ k.transpose(-2, -1) * self.scale).softmax(-1) @ v))


class FirstLucidrainsViT(nn.Module):
    """The library's first version: pixels of a patch are as far apart as the grid is wide."""

    def __init__(self, dim=16, heads=4, hidden=24, depth=2, chans=3, p=2, size=8, classes=5):
        super().__init__()
        self.p = p
        self.pos_embedding = nn.Parameter(torch.randn(1, (size // p) ** 2 + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.patch_to_embedding = nn.Linear(chans * p * p, dim)
        layers = [FirstResidual(PreNorm(dim, branch)) for _ in range(depth) for branch in
                  (FirstAttention(dim, heads), LucidrainsMlp(dim, hidden, False, True))]
        self.transformer = nn.Module()
        self.transformer.net = nn.Sequential(*layers)
        self.mlp_head = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, classes))

    def forward(self, x):
        b, c, h, w = x.shape
        x = x.reshape(b, c, self.p, h // self.p, self.p, w // self.p).permute(0, 3, 5, 2, 4, 1)
        x = self.patch_to_embedding(x.flatten(3).flatten(1, 2))
        x = torch.cat([self.cls_token.expand(b, -1, -1), x], dim=1) + self.pos_embedding
        return self.mlp_head(self.transformer.net(x)[:, 0])

    def head(self):
        return self.mlp_head[2]


class LucidrainsMlp(nn.Module):
    def __init__(self, dim, hidden, norm, simple):
        super().__init__()
        drop = [] if simple else [nn.Dropout(0.0)]
        first = [nn.LayerNorm(dim)] if norm else []
        self.net = nn.Sequential(*first, nn.Linear(dim, hidden), nn.GELU(), *drop,
                                 nn.Linear(hidden, dim), *drop)

    def forward(self, x):
        return self.net(x)


class LucidrainsTransformer(nn.Module):
    def __init__(self, dim, depth, heads, dim_head, hidden, era, simple):
        super().__init__()
        inside = era >= 2023.08 or simple
        wrap = (lambda m: m) if inside else (lambda m: PreNorm(dim, m))
        if era >= 2023.08:
            self.norm = nn.LayerNorm(dim)
        self.layers = nn.ModuleList([nn.ModuleList([
            wrap(LucidrainsAttention(dim, heads, dim_head, inside, simple)),
            wrap(LucidrainsMlp(dim, hidden, inside, simple))]) for _ in range(depth)])

    def forward(self, x):
        for attention, mlp in self.layers:
            x = x + attention(x)
            x = x + mlp(x)
        return self.norm(x) if hasattr(self, "norm") else x


def lucidrains_stem(dim, p, chans, era):
    raw = p * p * chans
    norms = ([nn.LayerNorm(raw)], [nn.LayerNorm(dim)]) if era >= 2023.02 else ([], [])
    return nn.Sequential(Patches(p, "pqc"), *norms[0], nn.Linear(raw, dim), *norms[1])


def lucidrains_head(dim, classes, era):
    if era >= 2023.08:
        return nn.Linear(dim, classes)
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))


class LucidrainsViT(nn.Module):
    def __init__(self, era, pool="cls", dim=16, heads=3, dim_head=6, hidden=24, depth=2, chans=3,
                 p=4, size=8, classes=5):
        super().__init__()
        self.pool = pool
        count = 0 if pool == "mean" and era >= 2025.11 else 1
        lead = () if era >= 2025.11 else (1,)
        self.to_patch_embedding = lucidrains_stem(dim, p, chans, era)
        self.cls_token = nn.Parameter(torch.randn(*lead, count, dim))
        self.pos_embedding = nn.Parameter(torch.randn(*lead, (size // p) ** 2 + count, dim))
        self.transformer = LucidrainsTransformer(dim, depth, heads, dim_head, hidden, era, False)
        self.mlp_head = lucidrains_head(dim, classes, era)

    def forward(self, x):
        x = self.to_patch_embedding(x)
        token = self.cls_token.reshape(-1, x.shape[-1]).expand(len(x), -1, -1)
        x = self.transformer(torch.cat([token, x], dim=1) + self.pos_embedding)
        return self.mlp_head(x.mean(dim=1) if self.pool == "mean" else x[:, 0])

    def head(self):
        return self.mlp_head if isinstance(self.mlp_head, nn.Linear) else self.mlp_head[1]


def sincos_2d(rows, columns, dim, last, dtype):
    """[sin x, cos x, sin y, cos y]; frequency k is 10000^-(k / last)."""
    omega = 10000.0 ** -(torch.arange(dim // 4, dtype=dtype) / last)
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    y, x = y.flatten()[:, None] * omega, x.flatten()[:, None] * omega
    return torch.cat((x.sin(), x.cos(), y.sin(), y.cos()), dim=1)


class SimpleViT(nn.Module):
    def __init__(self, era, registers=0, dim=16, heads=2, dim_head=6, hidden=24, depth=2, chans=3,
                 p=4, size=(8, 12), classes=5):
        super().__init__()
        self.grid, self.dim = (size[0] // p, size[1] // p), dim
        self.input_shape = (chans,) + size
        self.to_patch_embedding = lucidrains_stem(dim, p, chans, era)
        if registers:
            self.register_tokens = nn.Parameter(torch.randn(registers, dim))
        self.transformer = LucidrainsTransformer(dim, depth, heads, dim_head, hidden, era, True)
        self.linear_head = lucidrains_head(dim, classes, era)

    def forward(self, x):
        x = self.to_patch_embedding(x)
        x = x + sincos_2d(*self.grid, self.dim, self.dim // 4 - 1, x.dtype)
        count = x.shape[1]
        if hasattr(self, "register_tokens"):
            x = torch.cat([x, self.register_tokens.expand(len(x), -1, -1)], dim=1)
        return self.linear_head(self.transformer(x)[:, :count].mean(dim=1))

    def head(self):
        return self.linear_head if isinstance(self.linear_head, nn.Linear) else self.linear_head[1]


class ComputedViT(EncoderViT):
    """Positions that no checkpoint holds: those of MAE, of the first transformer, or none."""

    def __init__(self, kind, **changes):
        super().__init__(dim=24, **changes)
        self.kind, self.side = kind, self.input_shape[1] // self.p
        del self.position_embedding_table

    def positions(self, dim, dtype):
        if self.kind == "none":
            return 0
        if self.kind == "mae":
            grid = sincos_2d(self.side, self.side, dim, dim // 4, dtype)
            return torch.cat([torch.zeros(1, dim, dtype=dtype), grid])
        t, k = torch.arange(self.tokens, dtype=dtype)[:, None], torch.arange(0, dim, 2, dtype=dtype)
        angle = t / 10000 ** (k / dim)
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)

    def forward(self, x):
        x = self.embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = self.transformer_encoder(x + self.positions(x.shape[-1], x.dtype))
        return self.linear_layer(x[:, 0])


# --- two courses with nn.MultiheadAttention in blocks of their own -------------------------------

class ReplicaPatches(nn.Module):
    def __init__(self, chans, p, dim):
        super().__init__()
        self.patcher = nn.Conv2d(chans, dim, p, p)

    def forward(self, x):
        return self.patcher(x).flatten(2).transpose(1, 2)


class ReplicaAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.layer_norm = nn.LayerNorm(dim)
        self.multihead_attn = SelfAttention(dim, heads)

    def forward(self, x):
        return self.multihead_attn(self.layer_norm(x))


class ReplicaMlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.layer_norm, self.mlp = nn.LayerNorm(dim), feed_forward(dim, hidden)

    def forward(self, x):
        return self.mlp(self.layer_norm(x))


class ReplicaBlock(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.msa_block, self.mlp_block = ReplicaAttention(dim, heads), ReplicaMlp(dim, hidden)

    def forward(self, x):
        x = x + self.msa_block(x)
        return x + self.mlp_block(x)


class ReplicaViT(nn.Module):
    def __init__(self, dim=16, heads=4, hidden=24, depth=2, chans=3, p=4, size=8, classes=5):
        super().__init__()
        self.class_embedding = nn.Parameter(torch.randn(1, 1, dim))
        self.position_embedding = nn.Parameter(torch.randn(1, (size // p) ** 2 + 1, dim))
        self.patch_embedding = ReplicaPatches(chans, p, dim)
        self.transformer_encoder = nn.Sequential(
            *[ReplicaBlock(dim, heads, hidden) for _ in range(depth)])
        self.classifier = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.patch_embedding(x)
        x = torch.cat([self.class_embedding.expand(len(x), -1, -1), x], dim=1)
        return self.classifier(self.transformer_encoder(x + self.position_embedding)[:, 0])

    def head(self):
        return self.classifier[1]


class NotebookBlock(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.layer_norm_1, self.attn = nn.LayerNorm(dim), SelfAttention(dim, heads)
        self.layer_norm_2 = nn.LayerNorm(dim)
        self.linear = nn.Sequential(*feed_forward(dim, hidden), nn.Dropout(0.0))

    def forward(self, x):
        x = x + self.attn(self.layer_norm_1(x))
        return x + self.linear(self.layer_norm_2(x))


class NotebookViT(nn.Module):
    def __init__(self, dim=16, heads=4, hidden=24, depth=2, chans=3, p=4, size=8, classes=5):
        super().__init__()
        self.p = p
        self.input_layer = nn.Linear(chans * p * p, dim)
        self.transformer = nn.Sequential(*[NotebookBlock(dim, heads, hidden) for _ in range(depth)])
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, 1 + (size // p) ** 2, dim))

    def forward(self, x):
        x = self.input_layer(patches(x, self.p, "cpq"))
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embedding
        return self.mlp_head(self.transformer(x)[:, 0])

    def head(self):
        return self.mlp_head[1]


def lucidrains(era, heads=3, pool="token", **changes):
    return (lambda: LucidrainsViT(era, "mean" if pool == "avg" else "cls", heads=heads, **changes),
            ["--set", f"num_heads={heads}", "--set", "pool=" + pool])


def told(block, act, heads, pool="token", *more):
    values = ("block_type=" + block, "activation=" + act, f"num_heads={heads}", "pool=" + pool)
    return [word for value in values + more for word in ("--set", value)]


CASES = {
    "lib_encoder": (lambda: EncoderViT("matrix", rows=16), told(
        "post_norm", "relu", 4, "token", "patch_order=chw", "pos_first_rows=1") +
        ["--img-size", "8"]),
    "lib_encoder_gelu": (lambda: EncoderViT("pqc", chans=1, norm=True, norm_first=True, pool="avg",
                                            activation="gelu"), told(
        "pre_norm", "gelu", 4, "avg", "patch_order=hwc", "in_chans=1", "pool_prefix=1")),
    "lib_encoder_conv": (lambda: EncoderViT(layer_norm_eps=0.01), told(
        "post_norm", "relu", 4, "token", "norm_eps=0.01")),
    "lib_encoder_whc": (lambda: EncoderViT("qpc"), told(
        "post_norm", "relu", 4, "token", "patch_order=whc")),
    "lib_encoder_mistaken": (lambda: EncoderViT("cqp", mistaken=True), [
        word for value in ("attention=self", "block_type=post_norm", "activation=relu",
                           "pool=token", "patch_order=cwh") for word in ("--set", value)]),
    "lib_encoder_list": (ListViT, told("pre_norm", "gelu", 2, "avg", "pos_first_rows=1") +
        ["--img-size", "8", "--rename", "stem.*=patch_embed.*", "--rename", "table=pos_embed",
         "--rename", "answer.*=head.*"]),
    **{"lib_positions_" + kind: (lambda kind=kind: ComputedViT(kind, size=12), told(
        "post_norm", "relu", 4, "token", "pos_sincos=" + kind) + ["--img-size", "12"])
       for kind in ("none", "mae", "1d")},
    "lib_lucidrains_first": (FirstLucidrainsViT, [
        "--set", "num_heads=4", "--set", "patch_cut=interleaved"]),
    "lib_lucidrains_2021": lucidrains(2021.03),
    "lib_lucidrains_2021_mean": lucidrains(2021.03, pool="avg"),
    "lib_lucidrains_2023": lucidrains(2023.02, pool="avg"),
    "lib_lucidrains_norm": lucidrains(2023.08),
    "lib_lucidrains_identity": lucidrains(2023.08, heads=1, dim_head=16),
    "lib_lucidrains_2025": lucidrains(2025.11),
    "lib_lucidrains_2025_mean": (lambda: LucidrainsViT(2025.11, "mean"), ["--set", "num_heads=3"]),
    "lib_simple_vit_2022": (lambda: SimpleViT(2022.05), [
        "--set", "num_heads=2", "--img-size", "8x12"]),
    "lib_simple_vit": (lambda: SimpleViT(2023.08), ["--set", "num_heads=2", "--img-size", "8x12"]),
    "lib_simple_vit_registers": (lambda: SimpleViT(2023.08, 3), [
        "--set", "num_heads=2", "--img-size", "8x12"]),
    "lib_replica": (ReplicaViT, ["--set", "num_heads=4"]),
    "lib_notebook": (NotebookViT, ["--set", "num_heads=4"]),
    "lib_einops": (lambda: einops(), []),
    "lib_einops_separate": (lambda: einops(fused=False, linear=False, chans=1), []),
    "lib_einops_before": (lambda: einops(root="embed_dim", reduce=False),
                          ["--set", "attn_root=embed_dim"]),
    "lib_einops_mha": (lambda: EinopsViT(lambda dim: SelfAttention(dim, 8), linear=False), []),
    "lib_einops_held": (lambda: EinopsViT(lambda dim: HeldAttention(dim, 2), depth=1),
                        ["--set", "num_heads=2"]),
}


# --- numbers -------------------------------------------------------------------------------------

def is_norm(model, name):
    owner = dict(model.named_modules())[name.rpartition(".")[0]]
    return isinstance(owner, nn.LayerNorm)


def randomize(model):
    """Lively weights, as in tests/make_fixtures.py."""
    for name, p in model.named_parameters():
        base, std = 0.0, 0.2
        if is_norm(model, name):
            base, std = (1.0 if name.endswith("weight") else 0.0), 0.3
        elif p.dim() > 1 and p.numel() == p.shape[-1] or "pos" in name or "token" in name:
            std = 0.7
        elif p.dim() > 1:
            std = 1.3 / np.sqrt(p[0].numel())
        p.data = base + std * torch.randn(p.shape)


def input_shape(model):
    return getattr(model, "input_shape", None) or (first_channels(model), 8, 8)


def first_channels(model):
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            return m.in_channels
    return 3


def compute(model, images):
    """Logits, and what the head reads."""
    kept = {}
    handle = model.head().register_forward_pre_hook(
        lambda module, args: kept.update(embedding=args[0]))
    with torch.no_grad():
        kept["logits"] = model(images)
    handle.remove()
    return kept


def run(model):
    shape = input_shape(model)
    images = torch.from_numpy(np.stack([image(i, int(np.prod(shape))).reshape(shape)
                                        for i in range(IMAGES)]))
    single = compute(model.float(), images)
    double = compute(model.double(), images.double())
    model.float()
    for name, t in single.items():
        error = float((t.double() - double[name]).abs().max() / double[name].abs().max())
        assert error < 2e-6, (name, error)
    return {name: t.contiguous() for name, t in single.items()}


def write(case):
    make, options = CASES[case]
    folder = os.path.join(ROOT, case)
    os.makedirs(folder, exist_ok=True)
    for old in os.listdir(folder):
        os.remove(os.path.join(folder, old))
    torch.manual_seed(zlib.crc32(case.encode()))
    model = make().eval()
    randomize(model)
    expected = run(model)
    save_safetensors({k: v.detach() for k, v in model.state_dict().items()},
                     os.path.join(folder, "model.safetensors"))
    save_safetensors(expected, os.path.join(folder, "expected.safetensors"))
    if options:
        with open(os.path.join(folder, "options"), "w") as f:
            f.write("\n".join(options) + "\n")
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(f"{case:22} {size / 1024:6.1f} KiB")


def main():
    torch.set_num_threads(1)
    for case in sys.argv[1:] or CASES:
        write(case)


if __name__ == "__main__":
    main()
