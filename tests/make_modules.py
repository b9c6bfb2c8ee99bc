#!/usr/bin/python3
"""Writes the fixtures of test_modules.c into tests/data/modules.

    /usr/bin/python3 tests/make_modules.py        (Debian: python3-torch, python3-numpy)

Run it from the root of the repository. For authoring only: the fixtures are committed and the tests
need no Python. Two runs with one version of PyTorch (1.13 here) write the same bytes. One small
model is in every container that people use for whole models. expected.txt lists, for each file, the
contents of PyTorch's own state_dict(): "T NAME ELEMENTS FIRST LAST"; then "A MODULE NAME VALUE" for
some of the attributes ("-": the model itself).
"""
import functools
import io
import os
import pickle
import sys
import tarfile
import warnings
import zipfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from storage_keys import KeyText

OUT = os.path.join("tests", "data", "modules")
lines = []
if os.environ.get("PYTHONHASHSEED") != "0":   # PyTorch lists constants in the order of a set
    os.execvpe(sys.executable, [sys.executable] + sys.argv, dict(os.environ, PYTHONHASHSEED="0"))


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.num_heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.num_heads, c // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = (q @ k.transpose(-2, -1) * (c // self.num_heads) ** -0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, c))


class Mlp(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.act = nn.GELU(approximate="tanh")
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.patch_size = (4, 4)
        self.proj = nn.Conv2d(3, dim, 4, 4)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class ViT(nn.Module):
    def __init__(self, dim: int = 8):
        super().__init__()
        self.patch_embed = PatchEmbed(dim)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.randn(1, 5, dim))
        self.blocks = nn.ModuleList([Block(dim, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 3)
        self.register_parameter("absent", None)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Config:
    """Neither a module nor a dict: an object of plain values, as dataclasses are."""
    def __init__(self):
        self.num_heads = 2
        self.hidden_act = "relu"
        self.layer_norm_eps = 1e-12


class Odd(nn.Module):
    """A module with all other kinds of contents."""
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.options = {"dropout": 0.25, "inner": {"far": 1}}
        self.activation = functools.partial(F.gelu, approximate="tanh")
        self.sizes, self.ratio, self.nothing, self.many = (16, 16), [0.5, 1], None, (1,) * 9
        self.flag, self.big, self.function = False, 1 << 70, F.relu
        self.register_buffer("kept", torch.arange(3.0))
        self.register_buffer("mask", torch.ones(2, 2), persistent=False)
        self.loose = torch.ones(3)
        self.positions = torch.arange(6.0).reshape(1, 3, 2)
        self.one = nn.Linear(2, 2, bias=False)
        self.two = nn.ModuleDict({"again": self.one, "bn": nn.BatchNorm1d(2)})
        self.empty = nn.Identity()
        self.gone = None
        self.parent_of = [self]


class Trainer:
    def __init__(self, model):
        self.model, self.epoch = model, 7


class Overlapping(nn.Module):
    """Patches that overlap, or are cut out of a padded input: by a convolution or by nn.Unfold."""
    def __init__(self, linear: bool, padding: int = 0, stride=2):
        super().__init__()
        self.pool = "mean"
        self.cut = nn.Unfold(4, padding=padding, stride=stride) if linear else nn.Identity()
        self.embed = nn.Linear(48, 8) if linear else nn.Conv2d(3, 8, 4, stride, padding)
        self.positions = nn.Parameter(torch.randn(1, 9, 8))
        self.layers = nn.ModuleList([Block(8, 2) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def expect(name, kind, wrapper, tensors, attributes=()):
    lines.append("F %s|%s|%s" % (name, kind, wrapper))
    for key, value in tensors.items():
        flat = torch.as_tensor(value).detach().float().reshape(-1)
        lines.append("T %s %d %.9g %.9g" % (key, len(flat), flat[0], flat[-1]))
    for module, attribute, value in attributes:
        lines.append("A %s %s %s" % (module or "-", attribute, value))


def own_source(item, *more, source_of=torch.serialization.get_source_lines_and_file):
    """The older format includes the source code of classes, but only of those in this file."""
    if item.__module__ != "__main__":
        raise OSError("not here")
    lines_of, at, _ = source_of(item, *more)
    return lines_of, at, "make_modules.py"


torch.serialization.get_source_lines_and_file = own_source
torch.serialization.str = KeyText


def saved(obj, **options):
    buffer = io.BytesIO()
    KeyText.seen.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(obj, buffer, **options)
    return buffer.getvalue()


def scripted(module):
    """Without the tables that map the code to lines of Python."""
    buffer, out = io.BytesIO(), io.BytesIO()
    torch.jit.save(module, buffer)
    with zipfile.ZipFile(buffer) as z, zipfile.ZipFile(out, "w") as to:
        for info in z.infolist():
            if not info.filename.endswith(".debug_pkl"):
                to.writestr(zipfile.ZipInfo(info.filename), z.read(info), info.compress_type)
    return out.getvalue()


class Python2(pickle._Pickler):
    """Python 2's pickles had strings of bytes, in protocol 0 written as source code."""
    dispatch = dict(pickle._Pickler.dispatch)

    def save_bytes(self, data):
        text = repr(data.encode("ascii") if isinstance(data, str) else data)[1:]
        self.write(b"S" + text.encode("ascii") + b"\n")
        self.memoize(data)

    dispatch[bytes] = dispatch[str] = save_bytes


def python2(obj):
    buffer = io.BytesIO()
    Python2(buffer, 0).dump(obj)
    return buffer.getvalue()


def nested(kind):
    return "torch.nn.modules." + kind


VIT = [("", "class", "__main__.ViT"), ("blocks.1.attn", "num_heads", "2"),
       ("blocks.0.norm1", "eps", "1e-05"), ("blocks.0.norm1", "normalized_shape", "(8)"),
       ("blocks.0.mlp.act", "class", nested("activation.GELU")),
       ("blocks.0.mlp.act", "approximate", "tanh"), ("patch_embed", "patch_size", "(4, 4)")]


OVERLAPS = {"overlap_conv": (False,), "overlap_linear": (True,), "overlap_padded": (True, 1),
            "overlap_uneven": (False, 0, (2, 1))}


def under(prefix, attributes):
    return [((prefix + "." + m).strip("."), a, v) for m, a, v in attributes]


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(0)
    model = ViT().eval()
    tensors = model.state_dict()
    legacy = {"_use_new_zipfile_serialization": False}

    write("whole.pt", saved(model))
    expect("whole.pt", "PyTorch zip", "", tensors, VIT)
    write("whole_legacy.pt", saved(model, **legacy))
    expect("whole_legacy.pt", "PyTorch legacy", "", tensors, VIT)
    write("whole_protocol4.pt", saved(model, pickle_protocol=4))
    expect("whole_protocol4.pt", "PyTorch zip", "", tensors, VIT)
    parallel = nn.DataParallel(model)
    write("data_parallel.pt", saved(parallel))
    expect("data_parallel.pt", "PyTorch zip", "", parallel.state_dict(), under("module", VIT))
    beside = {"model": model, "epoch": 3, "hparams": {"num_heads": 2, "deep": {"x": 1}},
              "optimizer": torch.optim.Adam(model.parameters()).state_dict()}
    write("beside_optimizer.pt", saved(beside))
    expect("beside_optimizer.pt", "PyTorch zip", "model", tensors, VIT)
    write("trainer.pt", saved(Trainer(model), **legacy))
    expect("trainer.pt", "PyTorch legacy", "model", tensors, VIT)
    write("whole.pkl", pickle.dumps(model, 4))
    expect("whole.pkl", "pickle", "", tensors, VIT)
    for name, options in ("", {}), ("_legacy", legacy):
        name = "whole%s_protocol1.pt" % name
        write(name, saved(model, pickle_protocol=1, **options))
        expect(name, "PyTorch legacy" if options else "PyTorch zip", "", tensors, VIT)
    for protocol in 0, 1:
        name = "whole_protocol%d.pkl" % protocol
        write(name, pickle.dumps(model, protocol))
        expect(name, "pickle", "", tensors, VIT)

    odd = Odd()
    write("odd.pt", saved(odd, **legacy))
    expect("odd.pt", "PyTorch legacy", "", {**odd.state_dict(), "positions": odd.positions}, [
        ("", "config.num_heads", "2"), ("", "config.layer_norm_eps", "1e-12"),
        ("", "options.dropout", "0.25"), ("", "activation", "torch._C._nn.gelu"),
        ("", "activation.approximate", "tanh"), ("", "sizes", "(16, 16)"),
        ("", "ratio", "(0.5, 1)"), ("", "nothing", "none"), ("", "flag", "false"),
        ("", "function", "torch.nn.functional.relu"), ("two.again", "in_features", "2"),
        ("two.bn", "class", nested("batchnorm.BatchNorm1d")), ("empty", "class",
                                                               nested("linear.Identity"))])
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 4, 16, norm_first=True), 2)
    write("encoder.pt", saved(encoder, **legacy))
    layer = "layers.1"
    expect("encoder.pt", "PyTorch legacy", "", encoder.state_dict(), [
        (layer, "norm_first", "true"), (layer, "activation", "torch.nn.functional.relu"),
        (layer + ".self_attn", "batch_first", "false"), (layer + ".self_attn", "num_heads", "4"),
        (layer + ".norm2", "eps", "1e-05")])

    x = torch.randn(1, 3, 8, 8)
    script = [("", "class", "ViT"), ("blocks.1.norm2", "class", nested("normalization.LayerNorm")),
              ("blocks.0.mlp.act", "code.activation", "gelu_tanh")]
    write("traced.pt", scripted(torch.jit.trace(model, x)))
    expect("traced.pt", "TorchScript", "", tensors, script + [
        ("blocks.1.norm2", "code.layer_norm_eps", "1e-05"),
        ("blocks.1.attn", "code.num_heads", "2")])
    write("scripted.pt", scripted(torch.jit.script(model)))
    expect("scripted.pt", "TorchScript", "", tensors, script + [
        ("blocks.1.norm2", "eps", "1e-05"), ("blocks.1.attn", "num_heads", "2"),
        ("patch_embed", "patch_size", "(4, 4)")])
    write("frozen.pt", scripted(torch.jit.freeze(torch.jit.script(model))))
    expect("frozen.pt", "TorchScript", "", {
        "0.conv2d.weight": model.patch_embed.proj.weight, "1.expand.cls_token": model.cls_token,
        "4.linear.bias": model.blocks[0].attn.qkv.bias, "16.linear.weight": model.head.weight}, [
        ("", "code.layer_norm_eps", "1e-05"), ("", "code.activation", "gelu_tanh"),
        ("", "code.num_heads", "2")])
    fast = torch.jit.trace(encoder.eval(), torch.randn(5, 1, 8))
    write("encoder_traced.pt", scripted(fast))
    expect("encoder_traced.pt", "TorchScript", "", fast.state_dict(), [
        ("layers.0", "code.activation", "relu")])

    arrays = {k: v.numpy() for k, v in tensors.items()}
    arrays["head.weight"] = np.asfortranarray(arrays["head.weight"])
    arrays["head.bias"] = arrays["head.bias"].astype(">f4")
    arrays["norm.weight"] = arrays["norm.weight"].astype(np.float64)
    named = {k: torch.from_numpy(v.astype("<f8")) for k, v in arrays.items()}
    for protocol in range(6):
        write("arrays%d.pkl" % protocol, pickle.dumps(arrays, protocol))
        expect("arrays%d.pkl" % protocol, "pickle", "", named)
        write("tensors%d.pkl" % protocol, pickle.dumps({"net": tensors}, protocol))
        expect("tensors%d.pkl" % protocol, "pickle", "net", tensors)
    big = {"big": np.arange(66000).astype(np.uint8)}     # longer than texts that are kept
    for protocol in 0, 1, 2, 4:
        write("big%d.pkl" % protocol, pickle.dumps(big, protocol))
        expect("big%d.pkl" % protocol, "pickle", "", big)
    write("arrays_python2.pkl", python2(arrays))
    expect("arrays_python2.pkl", "pickle", "", named)
    big = {"big": big["big"][:24000]}
    write("big_python2.pkl", python2(big))
    expect("big_python2.pkl", "pickle", "", big)
    write("arrays.pt", saved(arrays))
    expect("arrays.pt", "PyTorch zip", "", named)
    double = {k: v.double() for k, v in tensors.items()}
    several = {"model": double, "model_ema": {"module": tensors}, "epoch": 3, "criterion_loss": {
        "center": torch.ones(2)}, "opt": {"param_groups": [], "state": {"m": torch.ones(2)}}}
    write("several.pt", saved(several))
    expect("several.pt", "PyTorch zip", "model_ema.module", tensors)
    for name, names in ("labels", ["bird", "cat", "dog"]), ("more_labels", ["a", "b", "c", "d"]):
        write(name + ".pt", saved({"model": tensors, "class_to_idx": {
            word: i for i, word in reversed(list(enumerate(names)))}}))
        expect(name + ".pt", "PyTorch zip", "model", tensors)
    with tarfile.open(os.path.join(OUT, "one.tar"), "w", format=tarfile.USTAR_FORMAT) as t:
        for name, data in ("._one.pt", b"hidden"), ("./one.pt", saved(double, **legacy)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    expect("one.tar", "PyTorch legacy", "", double)
    for name, args in OVERLAPS.items():
        module = Overlapping(*args)
        write(name + ".pt", saved(module))
        cutter = ("cut", "class", nested("fold.Unfold")) if args[0] else (
            "embed", "class", nested("conv.Conv2d"))
        expect(name + ".pt", "PyTorch zip", "", module.state_dict(), [cutter])
    with open(os.path.join(OUT, "expected.txt"), "w") as f:
        f.write("\n".join(lines) + "\n")


main()
