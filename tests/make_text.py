#!/usr/bin/python3
"""Writes tests/data/text: tiny models of an image and a text encoder, and the outputs for texts.

    /usr/bin/python3 tests/make_text.py        (Debian: python3-torch, python3-numpy)

For authoring only: its output is committed, and the test needs no Python. Each folder has a
checkpoint under the names of its library with random weights, its config.json, ids.npy
[texts, context] and expected.npy [texts, dim], float32. The text encoders are written here after
their published definitions: "Learning Transferable Visual Models From Natural Language
Supervision" (arXiv 2103.00020) and "Sigmoid Loss for Language Image Pre-Training" (2303.15343).
"""
import json
import math
import os
import shutil
from collections import OrderedDict

import numpy as np
import torch
import torch.nn.functional as F

from make_layouts import Numbers, conv_model, safetensors

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "text")
D, HEADS, DEPTH, MLP, CONTEXT, DIM = 8, 2, 2, 12, 9, 12
MERGES = ["c a", "ca t</w>", "d o", "do g</w>", "t h", "th e</w>", "o n</w>", "i n</w>"]
VOCAB = 512 + len(MERGES) + 2
IMAGE, PATCH = 4, 2


# === Weights by the names of a .vit file ===

def blocks(n, dim, mlp, depth):
    t = OrderedDict()
    for i in range(depth):
        b = "blocks.%d." % i
        for name, shape in (("norm1", (dim,)), ("attn.qkv", (3 * dim, dim)),
                            ("attn.proj", (dim, dim)), ("norm2", (dim,)), ("mlp.fc1", (mlp, dim)),
                            ("mlp.fc2", (dim, mlp))):
            t[b + name + ".weight"] = n(*shape)
            t[b + name + ".bias"] = n(shape[0])
    return t


def text_weights(seed, bias, dim=DIM, width=D, mlp=MLP):
    n = Numbers(seed)
    t = OrderedDict([("token_embed", n(VOCAB, width)), ("pos_embed", n(CONTEXT, width))])
    t.update(blocks(n, width, mlp, DEPTH))
    t["norm.weight"], t["norm.bias"] = n(width), n(width)
    t["head.weight"] = n(dim, width)
    if bias:
        t["head.bias"] = n(dim)
    return t


def image_weights(seed, siglip, width=D, mlp=MLP):
    n = Numbers(seed)
    patches = (IMAGE // PATCH) ** 2
    t = OrderedDict([("pos_embed", n(patches + (not siglip), width)),
                     ("patch.weight", n(width, 3, PATCH, PATCH)), ("patch.bias", n(width))])
    if not siglip:
        t["cls"], t["pre.weight"], t["pre.bias"] = n(width), n(width), n(width)
        t["head.weight"] = n(DIM, width)
    t.update(blocks(n, width, mlp, DEPTH))
    t["norm.weight"], t["norm.bias"] = n(width), n(width)
    return t


# === The text encoder ===

ACTIVATIONS = {"quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "gelu": F.gelu,
               "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh")}


def encode(t, ids, heads, act, causal, last, eps):
    t = {k: torch.from_numpy(np.array(v)).double() for k, v in t.items()}
    width, out = t["token_embed"].shape[1], []

    def norm(x, name):
        return F.layer_norm(x, (width,), t[name + ".weight"], t[name + ".bias"], eps)

    def linear(x, name):
        return F.linear(x, t[name + ".weight"], t.get(name + ".bias"))

    for row in ids:
        x = t["token_embed"][torch.from_numpy(row).long()] + t["pos_embed"]
        for i in range(DEPTH):
            b = "blocks.%d." % i
            q, k, v = linear(norm(x, b + "norm1"), b + "attn.qkv").reshape(
                len(row), 3, heads, width // heads).permute(1, 2, 0, 3)
            scores = q @ k.transpose(1, 2) / math.sqrt(width // heads)
            if causal:
                scores = scores + torch.full(scores.shape[1:], -math.inf).double().triu(1)
            x = x + linear((scores.softmax(-1) @ v).transpose(0, 1).reshape(len(row), width),
                           b + "attn.proj")
            x = x + linear(ACTIVATIONS[act](linear(norm(x, b + "norm2"), b + "mlp.fc1")),
                           b + "mlp.fc2")
        x = norm(x, "norm")
        x = x[-1] if last else x[int(np.argmax(row))]
        out.append(linear(x, "head"))
    return torch.stack(out).float().numpy()


def texts(rng, padding):
    """Texts that end, by the largest id, in the middle, at once, in the last place, and twice."""
    rows = []
    for length in (3, 1, CONTEXT - 1, 5, 5):
        row = np.full(CONTEXT, padding, "i4")
        row[:length] = rng.randint(2, VOCAB - 2, length)
        row[length] = VOCAB - 1
        rows.append(row)
    rows[-1][2] = VOCAB - 1
    return np.stack(rows)


# === The libraries' names ===

def resblocks(s, t, prefix):
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, prefix + "transformer.resblocks.%d." % i
        for part in ("weight", "bias"):
            s[to + "attn.in_proj_" + part] = t[b + "attn.qkv." + part]
            for name, key in (("attn.proj", "attn.out_proj"), ("norm1", "ln_1"), ("norm2", "ln_2"),
                              ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj")):
                s[to + key + "." + part] = t[b + name + "." + part]


def hf_layers(s, t, prefix):
    for i in range(DEPTH):
        b, to = "blocks.%d." % i, prefix + "encoder.layers.%d." % i
        for part in ("weight", "bias"):
            for k, name in enumerate("qkv"):
                rows = t[b + "attn.qkv." + part]
                n = len(rows) // 3
                s[to + "self_attn.%s_proj.%s" % (name, part)] = rows[k * n:(k + 1) * n]
            for name, key in (("attn.proj", "self_attn.out_proj"), ("norm1", "layer_norm1"),
                              ("norm2", "layer_norm2"), ("mlp.fc1", "mlp.fc1"),
                              ("mlp.fc2", "mlp.fc2")):
                s[to + key + "." + part] = t[b + name + "." + part]


def both(s, key, t, name):
    s[key + ".weight"], s[key + ".bias"] = t[name + ".weight"], t[name + ".bias"]


def open_clip_image(s, t):
    s["visual.class_embedding"], s["visual.positional_embedding"] = t["cls"], t["pos_embed"]
    s["visual.proj"] = np.ascontiguousarray(t["head.weight"].T)
    s["visual.conv1.weight"] = t["patch.weight"]
    both(s, "visual.ln_pre", t, "pre")
    both(s, "visual.ln_post", t, "norm")
    resblocks(s, t, "visual.")


def open_clip_text(s, t, prefix):
    s[prefix + "token_embedding.weight"] = t["token_embed"]
    s[prefix + "positional_embedding"] = t["pos_embed"]
    both(s, prefix + "ln_final", t, "norm")
    resblocks(s, t, prefix)
    if "head.bias" in t:
        both(s, prefix + "text_projection", t, "head")
    else:
        s[prefix + "text_projection"] = np.ascontiguousarray(t["head.weight"].T)


def hf_text(s, t):
    s["text_model.embeddings.token_embedding.weight"] = t["token_embed"]
    s["text_model.embeddings.position_embedding.weight"] = t["pos_embed"]
    s["text_model.embeddings.position_ids"] = np.arange(CONTEXT).astype("f4")
    hf_layers(s, t, "text_model.")
    both(s, "text_model.final_layer_norm", t, "norm")
    if "head.bias" in t:
        both(s, "text_model.head", t, "head")
    else:
        s["text_projection.weight"] = t["head.weight"]


def hf_clip_image(s, t):
    s["vision_model.embeddings.class_embedding"] = t["cls"]
    s["vision_model.embeddings.position_embedding.weight"] = t["pos_embed"]
    s["vision_model.embeddings.patch_embedding.weight"] = t["patch.weight"]
    both(s, "vision_model.pre_layrnorm", t, "pre")
    both(s, "vision_model.post_layernorm", t, "norm")
    hf_layers(s, t, "vision_model.")
    s["visual_projection.weight"] = t["head.weight"]


def hf_siglip_image(s, t, n):
    s["vision_model.embeddings.position_embedding.weight"] = t["pos_embed"]
    both(s, "vision_model.embeddings.patch_embedding", t, "patch")
    both(s, "vision_model.post_layernorm", t, "norm")
    hf_layers(s, t, "vision_model.")
    h = "vision_model.head."
    s[h + "probe"] = n(1, 1, D)
    s[h + "attention.in_proj_weight"], s[h + "attention.in_proj_bias"] = n(3 * D, D), n(3 * D)
    for key, rows, cols in (("attention.out_proj", D, D), ("mlp.fc1", MLP, D), ("mlp.fc2", D, MLP)):
        s[h + key + ".weight"], s[h + key + ".bias"] = n(rows, cols), n(rows)
    s[h + "layernorm.weight"], s[h + "layernorm.bias"] = n(D), n(D)


def mobileclip_blocks(s, t, prefix):
    for k, v in t.items():
        for old, new in (("blocks.", "transformer."), ("norm1", "pre_norm_mha.0"),
                         ("attn.qkv", "pre_norm_mha.1.qkv_proj"),
                         ("attn.proj", "pre_norm_mha.1.out_proj"), ("norm2", "pre_norm_ffn.0"),
                         ("mlp.fc1", "pre_norm_ffn.1"), ("mlp.fc2", "pre_norm_ffn.4")):
            k = k.replace(old, new)
        if k.startswith("transformer."):
            s[prefix + k] = v


def mobileclip_image(s, n):
    t, raw = conv_model()
    p = "image_encoder.model."
    for i, tensors in enumerate(raw):
        for k, v in tensors.items():
            s[p + "patch_emb.%d.block.%s" % (i, k)] = v
    s[p + "patch_emb.2.block.conv.weight"] = t["patch_embed.proj.weight"]
    s[p + "patch_emb.2.block.conv.bias"] = t["patch_embed.proj.bias"]
    s[p + "pos_embed.pos_embed.pos_embed"], s[p + "cls_token"] = t["pos_embed"][None], t["cls_token"]
    mobileclip_blocks(s, t, p)
    both(s, p + "post_transformer_norm", t, "norm")
    s[p + "classifier.proj"] = n(t["norm.weight"].size, DIM)


def mobileclip_text(s, t):
    p = "text_encoder."
    s[p + "embedding_layer.weight"] = t["token_embed"]
    s[p + "positional_embedding.pos_embed.pos_embed"] = t["pos_embed"][None, None]
    mobileclip_blocks(s, t, p)
    both(s, p + "final_layer_norm", t, "norm")
    s[p + "projection_layer"] = np.ascontiguousarray(t["head.weight"].T)


# === The tokenizer ===

def characters():
    """GPT-2's characters for the 256 bytes, in the order of CLIP's ids."""
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(256 - len(shown))]


def write_tokenizer(path):
    pieces = characters() + [c + "</w>" for c in characters()]
    pieces += [m.replace(" ", "") for m in MERGES] + ["<|startoftext|>", "<|endoftext|>"]
    with open(os.path.join(path, "vocab.json"), "w") as f:
        json.dump({piece: i for i, piece in enumerate(pieces)}, f, ensure_ascii=False, indent=0)
    with open(os.path.join(path, "merges.txt"), "w") as f:
        f.write("#version: 0.2\n" + "\n".join(MERGES) + "\n")


# === Cases ===

def write(name, s, config, ids, expected):
    path = os.path.join(OUT, name)
    os.makedirs(path)
    safetensors(os.path.join(path, "model.safetensors"), s)
    if config:
        with open(os.path.join(path, "config.json"), "w") as f:
            json.dump(config, f, indent=1)
    np.save(os.path.join(path, "ids.npy"), ids.astype("f4"))
    np.save(os.path.join(path, "expected.npy"), expected)


def hf_config(kind, **text):
    vision = {"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS,
              "intermediate_size": MLP, "image_size": IMAGE, "patch_size": PATCH}
    text = dict({"hidden_size": D, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS}, **text)
    return {"model_type": kind, "vision_config": vision, "text_config": text}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(os.path.join(OUT, "tokenizer"))
    write_tokenizer(os.path.join(OUT, "tokenizer"))
    rng = np.random.RandomState(1)
    ids = texts(rng, 0)

    t = text_weights(1, False)
    s = OrderedDict(logit_scale=np.array(4.6, "f4"))
    hf_text(s, t)
    hf_clip_image(s, image_weights(2, False))
    write("hf_clip", s, hf_config("clip"), ids, encode(t, ids, HEADS, "quick_gelu", True, False, 1e-5))

    t = text_weights(3, False)
    s = OrderedDict(logit_scale=np.array(3.0, "f4"))
    open_clip_text(s, t, "")
    open_clip_image(s, image_weights(4, False))
    config = {"model_cfg": {"embed_dim": DIM,
                            "vision_cfg": {"image_size": IMAGE, "layers": DEPTH, "width": D,
                                           "head_width": D // HEADS, "patch_size": PATCH,
                                           "mlp_ratio": 1.5},
                            "text_cfg": {"context_length": CONTEXT, "vocab_size": VOCAB, "width": D,
                                         "heads": HEADS, "layers": DEPTH}},
              "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    write("open_clip", s, config, ids, encode(t, ids, HEADS, "gelu", True, False, 1e-5))

    t = text_weights(5, True, D)
    s = OrderedDict(logit_scale=np.array(2.0, "f4"), logit_bias=np.array(-10.0, "f4"))
    hf_text(s, t)
    hf_siglip_image(s, image_weights(6, True), Numbers(7))
    write("hf_siglip", s, hf_config("siglip"), ids,
          encode(t, ids, HEADS, "gelu_pytorch_tanh", False, True, 1e-6))

    t = text_weights(8, True)
    s = OrderedDict(logit_scale=np.array(2.0, "f4"), logit_bias=np.array(-10.0, "f4"))
    open_clip_text(s, t, "text.")
    open_clip_image(s, image_weights(9, False))
    config = json.loads(json.dumps(config))
    config["model_cfg"]["text_cfg"].update(
        no_causal_mask=True, pool_type="last", proj_bias=True, norm_kwargs={"eps": 1e-6},
        act_kwargs={"approximate": "tanh"})
    write("open_clip_siglip", s, config, ids,
          encode(t, ids, HEADS, "gelu_pytorch_tanh", False, True, 1e-6))

    t = text_weights(10, False)
    s = OrderedDict(logit_scale=np.array(4.0, "f4"))
    mobileclip_text(s, t)
    mobileclip_image(s, Numbers(11))
    config = {"embed_dim": DIM, "image_cfg": {"image_size": IMAGE, "model_name": "vit_b16"},
              "text_cfg": {"context_length": CONTEXT, "vocab_size": VOCAB, "dim": D,
                           "n_heads_per_layer": HEADS, "n_transformer_layers": DEPTH,
                           "causal_masking": True, "model_name": "base"}}
    write("mobileclip", s, config, ids, encode(t, ids, HEADS, "gelu", True, False, 1e-5))


if __name__ == "__main__":
    main()
