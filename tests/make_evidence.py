#!/usr/bin/python3
"""Writes the cases of tests/data/evidence: files with evidence of settings that no tensor shows.

    /usr/bin/python3 tests/make_evidence.py        (Debian: python3-torch, python3-numpy)

Run it from the root of the repository. For authoring only: the cases are committed and the tests
need no Python. Two runs with one version of PyTorch (1.13 here) write the same bytes. The models
have random names and shapes. Three things must be enough for PyTorch's logits: the functions that
they call, the way in which their code splits heads, and the settings that a training program saved
beside them. Otherwise the model must be refused by name. cases.txt has a line for each, in the
form of tests/make_own.py: its name, file, options, and the tolerance, the message or, after
'=', a text of
the report.
"""
import argparse
import io
import math
import os
import random
import sys
import warnings
import zipfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from storage_keys import KeyText

OUT = os.path.join("tests", "data", "evidence")
if os.environ.get("PYTHONHASHSEED") != "0":   # PyTorch lists constants in the order of a set
    os.execvpe(sys.executable, [sys.executable] + sys.argv, dict(os.environ, PYTHONHASHSEED="0"))
torch.serialization.str = KeyText
choose = random.Random(7)
lines = []


def view(x, h, d):
    return x.view(x.shape[0], x.shape[1], h, d).transpose(1, 2)


def view_computed(x, h, d):
    return x.view(x.shape[0], x.shape[1], h, x.shape[2] // h).transpose(1, 2)


def view_rest(x, h, d):
    return x.reshape(x.shape[0], -1, h, d).transpose(1, 2)


def view_last(x, h, d):
    return x.view(x.shape[0], x.shape[1], h, -1).transpose(1, 2)


class Attention(nn.Module):
    """Named and split in one of several ways; `count` is what it calls the number of heads."""
    def __init__(self, dim, heads, names, split, count):
        super().__init__()
        if count:
            setattr(self, count, heads)
        self.names, self.split, self.heads_of = names, split, (lambda: heads)
        for name in names:
            setattr(self, name, nn.Linear(dim, dim))

    def __getstate__(self):   # leaves out members that a pickle cannot contain, or that show too
                              # many settings
        return {k: v for k, v in self.__dict__.items() if k not in ("split", "heads_of", "names")}

    def forward(self, x):
        q, k, v, o = (getattr(self, name) for name in self.names)
        h = self.heads_of()
        d = x.shape[2] // h
        q, k, v = (self.split(part(x), h, int(d)) for part in (q, k, v))
        a = (q @ k.transpose(-2, -1) / math.sqrt(int(d))).softmax(-1)
        return o((a @ v).transpose(1, 2).reshape(x.shape))


class FooMSA(Attention):
    pass


class Unscaled(Attention):
    def forward(self, x):
        q, k, v, o = (getattr(self, name) for name in self.names)
        q, k, v = (view(part(x), 4, x.shape[2] // 4) for part in (q, k, v))
        return o(((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, dim, attention, hidden, act):
        super().__init__()
        self.n1, self.mix, self.n2 = nn.LayerNorm(dim), attention, nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        if isinstance(act, nn.Module):
            self.act = act
        self.apply_act = act

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "apply_act"}

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + self.down(self.apply_act(self.up(self.n2(x))))


class Own(nn.Module):
    def __init__(self, act, heads=None, split=view, count=None, kind=Attention):
        super().__init__()
        heads = heads or choose.choice([3, 4, 5, 6])
        dim, hidden = heads * 2, choose.choice([9, 14, 17])
        names = choose.choice([("q", "k", "v", "o"), ("query", "key", "value", "out"),
                               ("to_q", "to_k", "to_v", "to_out")])
        self.heads = [heads]
        self.embed = nn.Conv2d(3, dim, 2, 2)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.positions = nn.Parameter(torch.randn(1, 5, dim))
        self.stack = nn.ModuleList([Block(dim, kind(dim, heads, names, split, count), hidden, act)
                                    for _ in range(2)])
        self.last = nn.LayerNorm(dim)
        self.classify = nn.Linear(dim, 3)
        for p in self.parameters():   # large, so that no error is hidden by chance
            nn.init.normal_(p, std=0.5)

    def cleared(self):
        for p in self.parameters():
            nn.init.zeros_(p)
        return self

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        for block in self.stack:
            x = block(x)
        return self.classify(self.last(x)[:, 0])


class Ended(Own):
    """Its last step is a module or a function."""

    def __init__(self, end):
        super().__init__(nn.ReLU())
        if isinstance(end, nn.Module): self.last_step = end
        else: self.apply_end = end

    def forward(self, x):
        return self.last_step(self.logits(x)) if hasattr(self, "last_step") else (
            self.apply_end(self.logits(x)))

    def logits(self, x):
        return super().forward(x)


class TwoLayers(nn.Module):
    """A head whose code shows the steps between its layers."""
    def __init__(self, dim, act):
        super().__init__()
        self.one, self.two = nn.Linear(dim, 6), nn.Linear(6, 3)
        if isinstance(act, nn.Module):
            self.between = act
        self.act = act

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "act"}

    def forward(self, x):
        return self.two(self.act(self.one(x)))


def with_head(act, **how):
    choose.seed(4)
    torch.manual_seed(4)
    model = Own(nn.ReLU(), **how)
    model.classify = TwoLayers(model.last.normalized_shape[0], act)
    for p in model.classify.parameters():
        nn.init.normal_(p, std=0.5)
    return model


def saved(obj, **options):
    buffer = io.BytesIO()
    KeyText.seen.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(obj, buffer, **options)
    return smaller(buffer)


# Searching all other lines for each line would take minutes.
MANY = ("    y = torch.sigmoid(x)\n    y = torch.tanh(x)\n    y = torch.mul(x, z)\n" * 40000).encode()


def smaller(buffer, added=b""):
    """Without the tables that map the code to lines of Python, and deflated. `added` goes to the end
    of the code of the model itself, where no activation of a block is."""
    out = io.BytesIO()
    with zipfile.ZipFile(buffer) as z, zipfile.ZipFile(out, "w") as to:
        for info in z.infolist():
            if not info.filename.endswith(".debug_pkl"):
                data = z.read(info)
                data += added if b"class Own(Module)" in data else b""
                to.writestr(zipfile.ZipInfo(info.filename), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def traced(model, added=b""):
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.trace(model, torch.randn(1, 3, 4, 4), check_trace=False)
    torch.jit.save(module, buffer)
    return smaller(buffer, added)


def case(name, file, data, options, result, model=None):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, file), "wb") as f:
        f.write(data)
    if model:
        x = torch.randn(1, 3, 4, 4)
        np.save(os.path.join(folder, "x.npy"), x.numpy())
        np.save(os.path.join(folder, "y.npy"), model.eval()(x).detach().numpy())
    lines.append(" | ".join((name, file, options, result)))


def right(name, model, options=""):
    case(name, "model.pt", traced(model.eval()), options, "1e-5", model)


def refused(name, model, message):
    case(name, "model.pt", traced(model.cleared().eval()), "", message)


def gelu_by_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))


def gelu_by_erf(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def squared(x):
    return torch.square(F.relu(x))


def of_one(*sizes):
    return torch.full((1,), 0.02).expand(*sizes)


def timm_tensors(dim, depth, side, classes=5):
    """Tensors of one element each, because only the facts about them count."""
    t = {"cls_token": of_one(1, 1, dim), "pos_embed": of_one(1, side * side + 1, dim),
         "patch_embed.proj.weight": of_one(dim, 3, 16, 16), "patch_embed.proj.bias": of_one(dim)}
    for i in range(depth):
        for layer, rows, columns in (("norm1", dim, 0), ("attn.qkv", 3 * dim, dim),
                                     ("attn.proj", dim, dim), ("norm2", dim, 0),
                                     ("mlp.fc1", 4 * dim, dim), ("mlp.fc2", dim, 4 * dim)):
            t["blocks.%d.%s.weight" % (i, layer)] = of_one(*filter(None, (rows, columns)))
            t["blocks.%d.%s.bias" % (i, layer)] = of_one(rows)
    t.update({"norm.weight": of_one(dim), "norm.bias": of_one(dim),
              "head.weight": of_one(classes, dim), "head.bias": of_one(classes)})
    return t


def training(name, tensors, arch, result, options="", **args):
    """Saves them as timm's train.py does."""
    data = saved({"epoch": 3, "arch": arch, "state_dict": tensors, "optimizer":
                  {"state": {}, "param_groups": []}, "version": 2, "metric": 77.5,
                  "args": argparse.Namespace(model=arch, lr=0.1, opt="adamw", **args)})
    case(name, "model_best.pth.tar", data, options, result)


def beside(name, file, text, act, result="1e-5", **how):
    """Only weights, with the author's settings in another file."""
    choose.seed(len(name))
    torch.manual_seed(len(name))
    model = Own(act, **how)
    if result[0] != "1":
        model = model.cleared()
    case(name, "model.pt", saved(model.state_dict()), "", result, model if result[0] == "1" else None)
    with open(os.path.join(OUT, name, file), "w") as f:
        f.write(text.format(heads=model.heads[0]))


YAML = """# of the training program
model:
  name: "tiny"   # mine
  nb_heads: {heads}
  act: 'relu'
  decoder:
    nb_heads: 7
  image_size: 4
transforms:
  resize: 8
  mean: [0.1, 0.2, 0.3]
  std:
    - 0.4
    - 0.5
    - 0.6
optimizer:
  eps: 0.5
  num_heads: 9
"""
WITH_VALUES = """num_heads:
  desc: null
  value: {heads}
activation:
  desc: null
  value: silu
"""
JSON = '''{{"model": {{"num_attention_heads": {heads}, "activation": "relu", "img_size": 4,
           "layer_norm_eps": 1e-5}}, "decoder": {{"num_attention_heads": 7}}, "lr": 0.1}}'''


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(3)
    for name, split in (("view", view), ("view_computed", view_computed),
                        ("view_rest", view_rest), ("view_last", view_last)):
        right("heads_" + name, Own(choose.choice([F.relu, F.silu]), split=split))
    for name, act in (("gelu", F.gelu), ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
                      ("relu", torch.relu), ("silu", F.silu), ("by_tanh", gelu_by_tanh),
                      ("by_erf", gelu_by_erf), ("by_sigmoid", lambda x: x * torch.sigmoid(x))):
        right("calls_" + name, Own(act))
    for name in "mish", "leaky_relu", "hardswish", "softplus":
        refused("calls_" + name, Own(getattr(F, name)), "stack.0 calls %s, which vit.h" % name)
    refused("calls_tanh", Own(torch.tanh), "stack.0 calls tanh, which vit.h lacks")
    refused("calls_sin", Own(torch.sin), "activation: the code of the blocks calls no known")
    refused("calls_squared", Own(squared), "activation: the code of the blocks also calls "
            "an activation that vit.h lacks")

    model = Own(F.relu)
    case("many_calls", "model.pt", traced(model.eval(), MANY), "", "1e-5", model)

    for count in "nb_heads", "nHead", "attn_heads":
        model = Own(nn.ReLU(), count=count)
        case("named_" + count, "model.pt", saved(model), "", "1e-5", model)
    model = Own(nn.ReLU(), count="h", kind=FooMSA)
    case("named_h", "model.pt", saved(model), "", "1e-5", model)
    for count in "head_dim", "kv_heads":   # another number
        case("not_" + count, "model.pt", saved(Own(nn.ReLU(), heads=4, count=count).cleared()), "",
             "num_heads: ")

    model = Own(F.silu)
    case("lightning", "last.ckpt", saved({
        "epoch": 1, "state_dict": {"net." + k: v for k, v in model.state_dict().items()},
        "hyper_parameters": {"num_heads": model.heads[0], "cfg": {"activation": "silu"}}}), "",
        "1e-5", model)

    training("timm", timm_tensors(192, 12, 14), "deit_tiny_patch16_224", "=shorter side to 248, "
             "crop the centre to 224x224, bicubic, mean 0.485 0.456 0.406, std 0.229 0.224 0.225",
             mean=None, std=None, crop_pct=None, interpolation="", img_size=None, num_classes=5)
    training("timm_told", timm_tensors(192, 2, 2), "deit_tiny_patch16_224", "=shorter side to 40, "
             "crop the centre to 32x32, bilinear, mean 0.1 0.2 0.3, std 0.4 0.5 0.6",
             mean=[0.1, 0.2, 0.3], std=(0.4, 0.5, 0.6), crop_pct=0.8, interpolation="bilinear",
             img_size=32, num_classes=5, gp="avg", model_kwargs={"depth": 2, "act_layer": "silu"})
    training("timm_model", timm_tensors(192, 2, 2), "deit_tiny_patch16_224", "=SiLU, mean of the "
             "patches", img_size=32, gp="avg",
             model_kwargs={"depth": 2, "act_layer": "silu", "fc_norm": False})
    training("timm_other", timm_tensors(96, 1, 2), "of_my_own", "=mean 0.1 0.2 0.3, std 0.5",
             "--set num_heads=4", mean=(0.1, 0.2, 0.3), interpolation="random", img_size=48)
    training("timm_depth", timm_tensors(192, 2, 2), "deit_tiny_patch16_224",
             "deit_tiny_patch16_224 has depth 12, but the tensors have 2", img_size=32)
    training("timm_size", timm_tensors(192, 1, 2), "deit_tiny_patch16_224",
             "model_best.pth.tar has img_size 64x64, but the tensors have 32x32", img_size=64,
             model_kwargs={"depth": 1})
    training("timm_classes", timm_tensors(192, 1, 14), "deit_tiny_patch16_224",
             "model_best.pth.tar has num_classes 7, but the tensors have 5", num_classes=7,
             model_kwargs={"depth": 1})
    training("expanded", timm_tensors(4096, 2, 14), "of_my_own", "expected at most 64 times",
             "--set num_heads=64")

    for name, end, words in (
            ("softmax", nn.Softmax(1), "probabilities (softmax)"),
            ("log_softmax", nn.LogSoftmax(1), "log-probabilities (log_softmax)"),
            ("sigmoid", nn.Sigmoid(), "a probability for each class (sigmoid)"),
            ("calls_softmax", lambda x: x.softmax(1), "probabilities (softmax)"),
            ("calls_log_softmax", lambda x: F.log_softmax(x, 1), "log-probabilities (log_softmax)"),
            ("calls_sigmoid", torch.sigmoid, "a probability for each class (sigmoid)")):
        case("ends_" + name, "model.pt", traced(Ended(end).cleared().eval()), "",
             "=the original gives " + words + ": vit-run gives the logits before")
        if isinstance(end, nn.Module):
            case("holds_" + name, "model.pt", saved(Ended(end).cleared()), "--set num_heads=1",
                 "=the original gives " + words + ": vit-run gives the logits before")
    beside("config_yaml", "config.yaml", YAML, F.relu)
    beside("config_yaml_colours", "config.yaml", YAML, F.relu,
           "=mean 0.1 0.2 0.3, std 0.4 0.5 0.6", heads=4)
    beside("config_values", "config.yml", WITH_VALUES, F.silu)
    beside("config_json", "config.json", JSON, F.relu)
    beside("config_hparams", "hparams.yaml", "h: 8\n? odd\n- : x\nnum_heads: {heads}\r\nact: relu",
           F.relu)
    beside("config_two", "config.yaml", "encoder:\n  heads: {heads}\nhead:\n  heads: 2\n", F.relu,
           "num_heads: ", heads=4)
    beside("config_before_crop", "config.yaml", "num_heads: {heads}\nact: relu\nimg_size: 9\n",
           F.relu)
    for name, act in (("relu", torch.relu), ("tanh", torch.tanh), ("nothing", lambda x: x),
                      ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))):
        right("head_calls_" + name, with_head(act))
    for name, act in ("relu", nn.ReLU()), ("tanh", nn.Tanh()), ("gelu", nn.GELU()):
        model = with_head(act, count="num_heads")
        case("head_holds_" + name, "model.pt", saved(model), "", "1e-5", model)
    choose.seed(5)
    torch.manual_seed(5)
    right("unscaled", Own(F.relu, heads=4, kind=Unscaled))
    model = with_head(torch.relu, count="num_heads").cleared()
    case("head_shows_nothing", "model.pt", saved(model), "", "representation_act: ")
    with open(os.path.join(OUT, "cases.txt"), "w") as f:
        f.write("\n".join(lines) + "\n")


main()
