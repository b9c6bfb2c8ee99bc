#!/usr/bin/python3
"""Writes tests/data/families: models as their publishers name the tensors, beside PyTorch's logits.

    /usr/bin/python3 tests/make_families.py        (Debian: python3-torch, python3-numpy)

For authoring only: what it writes is committed, and the test needs no Python. test_own.sh reads
the folder, in the form that make_own.py describes. The definitions here are our own, after the
published ones; the weights are random.
"""
import json
import os

import torch
from torch import nn
from torch.nn import functional as F

import own_pieces as own

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "families")
D, HEADS, PATCH, SIDE, HIDDEN = 16, 2, 4, 8, 24


def attend(q, k, v, heads=HEADS, rotate=lambda x: x):
    """The heads are side by side in the last axis."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(-2, -3) for x in (q, k, v))
    q, k = rotate(q), rotate(k)
    weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
    return (weights @ v).transpose(-2, -3).flatten(-2)


class Tensors(nn.Module):
    """Parameters by name, made when they are first used."""

    def __init__(self, seed, scale=0.3):
        super().__init__()
        self.random = torch.Generator().manual_seed(seed)
        self.scale, self.state = scale, {}

    def get(self, name, *shape, near=0):
        if name not in self.state:
            self.state[name] = near + self.scale * torch.randn(*shape, generator=self.random)
        return self.state[name]

    def linear(self, x, name, out, bias=True):
        return F.linear(x, self.get(name + ".weight", out, x.shape[-1]),
                        self.get(name + ".bias", out) if bias else None)

    def norm(self, x, name, eps):
        d = x.shape[-1]
        return F.layer_norm(x, (d,), self.get(name + ".weight", d, near=1),
                            self.get(name + ".bias", d), eps)

    def patches(self, x, name, bias=True):
        x = F.conv2d(x, self.get(name + ".weight", D, 3, PATCH, PATCH),
                     self.get(name + ".bias", D) if bias else None, PATCH)
        return x.flatten(2).transpose(1, 2)


cases = []


def case(name, run, options, tolerance, config=None, preprocessor=None, seed=1):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    net = Tensors(seed)
    x = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    run(net, x)
    if isinstance(tolerance, float):
        own.np.save(folder + "/x.npy", x.numpy())
        own.np.save(folder + "/y.npy", run(net, x).numpy())
    own.write_safetensors(folder + "/model.safetensors", net.state)
    for content, file in ((config, "config"), (preprocessor, "preprocessor_config")):
        if content:
            with open("%s/%s.json" % (folder, file), "w") as f: json.dump(content, f, indent=1)
    cases.append("%s | model.safetensors | %s | %s" % (name, options, tolerance))


# === transformers' ViTForImageClassification ===

def hf_vit(net, x, eps, classes):
    x = net.patches(x, "vit.embeddings.patch_embeddings.projection")
    x = torch.cat((net.get("vit.embeddings.cls_token", 1, 1, D).expand(len(x), 1, D), x), 1)
    x = x + net.get("vit.embeddings.position_embeddings", 1, x.shape[1], D)
    for i in range(2):
        block = "vit.encoder.layer.%d." % i
        y = net.norm(x, block + "layernorm_before", eps)
        qkv = [net.linear(y, block + "attention.attention." + n, D) for n in
               ("query", "key", "value")]
        x = x + net.linear(attend(*qkv), block + "attention.output.dense", D)
        y = net.norm(x, block + "layernorm_after", eps)
        y = F.gelu(net.linear(y, block + "intermediate.dense", HIDDEN))
        x = x + net.linear(y, block + "output.dense", D)
    return net.linear(net.norm(x, "vit.layernorm", eps)[:, 0], "classifier", classes)


def shrunk(run, keys, factor):
    """Values so small that the norms' epsilon decides: 1e-12 gives other logits than 1e-6."""
    def small(net, x):
        new = not net.state
        y = run(net, x)
        if new:
            for key in net.state:
                if any(k in key for k in keys): net.state[key] *= factor
        return y
    return small


def vit_for_classification():
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit",
              "attention_probs_dropout_prob": 0.0, "encoder_stride": 4, "hidden_act": "gelu",
              "hidden_dropout_prob": 0.0, "hidden_size": D, "image_size": SIDE,
              "id2label": {"0": "normal", "1": "nsfw"}, "label2id": {"normal": "0", "nsfw": "1"},
              "initializer_range": 0.02, "intermediate_size": HIDDEN, "layer_norm_eps": 1e-12,
              "num_attention_heads": HEADS, "num_channels": 3, "num_hidden_layers": 2,
              "patch_size": PATCH, "problem_type": "single_label_classification",
              "qkv_bias": True, "torch_dtype": "float32", "transformers_version": "4.31.0"}
    processor = {"do_normalize": True, "do_rescale": True, "do_resize": True,
                 "image_mean": [0.5] * 3, "image_processor_type": "ViTImageProcessor",
                 "image_std": [0.5] * 3, "resample": 2, "rescale_factor": 1 / 255,
                 "size": {"height": SIDE, "width": SIDE}}
    run = shrunk(lambda net, x: hf_vit(net, x, 1e-12, 2),
                 ("embeddings.", "attention.output.dense", "0.output.dense"), 1e-3)
    case("hf_vit_classifier", run, "", 2e-5, config, processor)


def main():
    vit_for_classification()
    with open(OUT + "/cases.txt", "w") as f: f.write("\n".join(cases) + "\n")


main()
