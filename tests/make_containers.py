#!/usr/bin/python3
"""Writes tests/data/containers: small models, each as safetensors, as GGUF (F32) and as ONNX.

    /usr/bin/python3 tests/make_containers.py        (Debian: python3-torch, python3-onnx)

Run it from the root of the repository. For authoring only: the fixtures are committed and
test_families.sh, which reads them, needs no Python. The models are those of make_onnx.py, and two
more. Safetensors and ONNX have the names of the model's library. GGUF has the names of timm (ViT,
DeiT), llama.cpp (CLIP, SigLIP) or dinov2.cpp. A line of cases.txt is a model:

    case | model | options for safetensors | for GGUF | for ONNX

The options are the settings that the container lacks.
"""
import os
import shutil
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F

import make_layouts as layouts
import make_onnx as small

OUT = os.path.join("tests", "data", "containers")
WIDTH, DEPTH, HEADS, PATCH, SIZE, HIDDEN = 16, 2, 2, 4, 16, 32
TOKENS = (SIZE // PATCH) ** 2
cases = []


class SiglipTower(nn.Module):
    """The tower of transformers' SigLIP without its head; the output is the mean of its tokens."""

    def __init__(self):
        super().__init__()
        layers = nn.ModuleList([small.ClipLayer() for _ in range(DEPTH)])
        for layer in layers:
            layer.mlp.act = nn.GELU(approximate="tanh")
            layer.layer_norm1.eps = layer.layer_norm2.eps = 1e-6
        self.vision_model = small.Named(
            embeddings=small.Named(patch_embedding=nn.Conv2d(3, WIDTH, PATCH, PATCH),
                                   position_embedding=nn.Embedding(TOKENS, WIDTH)),
            encoder=small.Named(layers=layers), post_layernorm=nn.LayerNorm(WIDTH, eps=1e-6))

    def forward(self, pixel_values):
        m = self.vision_model
        x = m.embeddings.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        x = x + m.embeddings.position_embedding.weight[None]
        for layer in m.encoder.layers:
            x = layer(x)
        return m.post_layernorm(x).mean(1)


class Lambda(nn.Module):
    def __init__(self):
        super().__init__()
        self.lambda1 = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * self.lambda1


class Dinov2Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = small.ViTAttention()
        self.layer_scale1 = Lambda()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = small.Mlp(nn.GELU())
        self.layer_scale2 = Lambda()

    def forward(self, x):
        x = self.layer_scale1(self.attention(self.norm1(x))) + x
        return self.layer_scale2(self.mlp(self.norm2(x))) + x


class Dinov2(nn.Module):
    """transformers' Dinov2Model; its pooled output is the class token."""

    def __init__(self):
        super().__init__()
        self.embeddings = small.Named(
            cls_token=nn.Parameter(torch.zeros(1, 1, WIDTH)),
            position_embeddings=nn.Parameter(torch.zeros(1, TOKENS + 1, WIDTH)),
            patch_embeddings=small.Named(projection=nn.Conv2d(3, WIDTH, PATCH, PATCH)))
        self.encoder = small.Named(layer=nn.ModuleList([Dinov2Layer() for _ in range(DEPTH)]))
        self.layernorm = nn.LayerNorm(WIDTH, eps=1e-6)

    def forward(self, pixel_values):
        e = self.embeddings
        x = e.patch_embeddings.projection(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat((e.cls_token.expand(x.shape[0], -1, -1), x), 1) + e.position_embeddings
        for layer in self.encoder.layer:
            x = layer(x)
        return self.layernorm(x)[:, 0]


# === GGUF ===

def as_timm(state):
    """Turns transformers' names into timm's, which a GGUF of the architecture "vit" has."""
    out = OrderedDict()
    for name, x in state.items():
        for old, new in (("vit.encoder.layer.", "blocks."), ("vit.embeddings.", ""),
                         ("vit.layernorm.", "norm."), ("classifier.", "head."),
                         ("position_embeddings", "pos_embed"), ("layernorm_before", "norm1"),
                         ("layernorm_after", "norm2"), ("intermediate.dense", "mlp.fc1"),
                         ("attention.output.dense", "attn.proj"), ("output.dense", "mlp.fc2"),
                         ("patch_embeddings.projection", "patch_embed.proj")):
            name = name.replace(old, new)
        out[name] = x
    for name in [n for n in out if ".attention.attention.query." in n]:
        parts = [out.pop(name.replace("query", n)) for n in ("query", "key", "value")]
        out[name.replace("attention.attention.query", "attn.qkv")] = torch.cat(parts)
    return out


def as_llama(state):
    """Shortens transformers' names as clip.cpp and llama.cpp do."""
    out = OrderedDict()
    for name, x in state.items():
        if "position_ids" in name: continue
        for old, new in (("vision_model", "v"), ("encoder.layers", "blk"), ("embeddings.", ""),
                         ("_proj", ""), ("self_attn.", "attn_"), ("layer_norm", "ln"),
                         ("layernorm", "ln"), ("embedding", "embd"), ("layrnorm", "ln"),
                         ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down")):
            if "visual_projection" not in name: name = name.replace(old, new)
        out[name] = x
    return out


def as_dinov2(state):
    """Uses dinov2.cpp's names, with q, k and v in one tensor."""
    out = OrderedDict(state)
    for name in [n for n in out if ".attention.attention.query." in n]:
        parts = [out.pop(name.replace("query", n)) for n in ("query", "key", "value")]
        out[name.replace("query", "qkv")] = torch.cat(parts)
    bias = "embeddings.patch_embeddings.projection.bias"
    out[bias] = out[bias].reshape(1, WIDTH, 1, 1)
    return out


def clip_pairs(eps, **more):
    v = "clip.vision."
    pairs = OrderedDict([
        ("general.architecture", "clip"), ("clip.has_vision_encoder", True),
        (v + "image_size", SIZE), (v + "patch_size", PATCH), (v + "embedding_length", WIDTH),
        (v + "feed_forward_length", HIDDEN), (v + "projection_dim", 8),
        (v + "attention.head_count", HEADS), (v + "attention.layer_norm_epsilon", eps),
        (v + "block_count", DEPTH), (v + "image_mean", [0.48145466, 0.4578275, 0.40821073]),
        (v + "image_std", [0.26862954, 0.26130258, 0.27577711])])
    pairs.update(more)
    return pairs


DINOV2_PAIRS = OrderedDict([
    ("general.architecture", "dinov2"), ("hidden_size", WIDTH), ("num_hidden_layers", DEPTH),
    ("num_attention_heads", HEADS), ("num_classes", 0), ("patch_size", PATCH),
    ("img_size", SIZE), ("ftype", 0), ("num_register_tokens", 0)])


# === Cases ===

CLIP = "crop_pct=1 mean=0.48145466,0.4578275,0.40821073 std=0.26862954,0.26130258,0.27577711"
IMAGENET = "mean=0.485,0.456,0.406 std=0.229,0.224,0.225"

def settings(text):
    return " ".join("--set " + word for word in text.split())


def case(name, title, model, rename, pairs, given):
    """given: the settings for each of the three containers."""
    model = small.randomize(model, 8)
    path = os.path.join(OUT, name)
    small.onnx.save(small.export(model, 17), path + ".onnx")
    state = OrderedDict(small.parameters(model))
    small.safetensors(path + ".safetensors", state)
    tensors = OrderedDict((k, v.numpy()) for k, v in rename(state).items())
    tensors["pairs"] = OrderedDict(pairs)
    layouts.gguf(path + ".gguf", tensors)
    small.npy(path + ".npy", model(small.IMAGE))
    cases.append(" | ".join([name, title] + [settings(g) for g in given]))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    small.npy(os.path.join(OUT, "x.npy"), small.IMAGE)
    plain = "num_heads=2 norm_eps=1e-6 activation=gelu pool=token"
    case("vit", "ViT (timm)", small.Timm(), lambda s: s, {"general.architecture": "vit"},
         (plain, plain, ""))
    case("deit", "DeiT (transformers)", small.ViT(), as_timm, {"general.architecture": "vit"},
         ("num_heads=2", plain.replace("e-6", "e-12"), ""))
    case("clip", "CLIP (transformers)", small.Clip(), as_llama, clip_pairs(1e-5),
         ("num_heads=2 activation=quick_gelu " + CLIP, "", CLIP))
    case("siglip", "SigLIP (transformers)", SiglipTower(), as_llama,
         clip_pairs(1e-6, **{"clip.use_gelu": True, "clip.projector_type": "gemma3"}),
         ("num_heads=2 activation=gelu_tanh pool=avg crop_mode=squash " + CLIP, "",
          "pool_prefix=0 crop_mode=squash " + CLIP))
    case("dinov2", "DINOv2 (transformers)", Dinov2(), as_dinov2, DINOV2_PAIRS,
         ("num_heads=2 crop_pct=0.875 " + IMAGENET, "", "crop_pct=0.875 " + IMAGENET))
    with open(os.path.join(OUT, "cases.txt"), "w") as f:
        f.write("\n".join(cases) + "\n")


if __name__ == "__main__":
    main()
