#!/usr/bin/python3
"""Writes tests/data/own: vision transformers as people write them themselves.

    /usr/bin/python3 tests/make_own.py        (Debian: python3-torch, python3-numpy)

For authoring only: what it writes is committed, and the test needs no Python. Each case is a
folder with a checkpoint, an input x.npy and PyTorch's logits y.npy, and a line in cases.txt:

    case | checkpoint | arguments of vit-convert | tolerance, or the message of a refusal

tests/test_own.sh converts each one and compares the logits. A model is made of pieces (Net): its
tokens, its blocks, its head, under whatever names and in whatever order their author chose. Weights
are random, so options must say what trained weights might show.
"""
import json
import math
import os
import shutil
import struct

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "own")
D, HEADS, HIDDEN, DEPTH, PATCH, CHANS, SIDE, CLASSES = 8, 2, 12, 2, 2, 3, 6, 5
TOLERANCE = "1e-5"
TWO = "--set num_heads=2"
CHW = "--set patch_order=chw"
PRE = "--set block_type=pre_norm"
POST = "--set block_type=post_norm"
cases = []


# === Pieces ===

class Net(nn.Module):
    """Modules and parameters under dotted names, in the order in which they are made."""

    def put(self, path, item):
        at, parts = self, path.split(".")
        for name in parts[:-1]:
            at = at._modules.setdefault(name, nn.Module())
        if isinstance(item, nn.Parameter): at._parameters[parts[-1]] = item
        elif isinstance(item, torch.Tensor): at._buffers[parts[-1]] = item
        else: at._modules[parts[-1]] = item
        return item

    def linear(self, path, inputs, outputs, bias=True):
        return self.put(path, nn.Linear(inputs, outputs, bias))

    def norm(self, path, size=D):
        return self.put(path, nn.LayerNorm(size))

    def parameter(self, path, *shape):
        return self.put(path, nn.Parameter(torch.zeros(*shape)))


def randomise(net, seed=1):
    """Weights as large as their inputs are many, norms around one."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            wide = p.dim() > 1 and p.numel() // p.shape[0] or 4
            p.copy_(torch.randn(p.shape, generator=random) / math.sqrt(wide))
        for m in net.modules():
            if isinstance(m, (nn.LayerNorm, OwnNorm)): next(m.parameters()).add_(1)


class OwnNorm(nn.Module):
    """LayerNorm whose weights have other names."""

    def __init__(self, weight, bias, size=D):
        super().__init__()
        self.names = weight, bias
        self.register_parameter(weight, nn.Parameter(torch.ones(size)))
        self.register_parameter(bias, nn.Parameter(torch.zeros(size)))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], getattr(self, self.names[0]),
                            getattr(self, self.names[1]))


def attend(q, k, v, heads=HEADS, root=None):
    """[B, N, I] each, to [B, N, I]; root: the width that divides, that of a head by default."""
    split = lambda t: t.unflatten(-1, (heads, -1)).transpose(1, 2)
    q, k, v = split(q), split(k), split(v)
    scores = q @ k.transpose(-1, -2) / math.sqrt(root or q.shape[-1])
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def patches(image, order="chw", p=PATCH):
    """[B, C, H, W] to [B, N, C p p]."""
    b, c, h, w = image.shape
    x = image.reshape(b, c, h // p, p, w // p, p)
    x = x.permute(0, 2, 4, 1, 3, 5) if order == "chw" else x.permute(0, 2, 4, 3, 5, 1)
    return x.flatten(3).flatten(1, 2)


# === Attention: each takes the net and the names of its layers, and returns a function ===

def separate(net, q, k, v, proj=None, inner=D, bias=True, heads=HEADS, out_bias=True):
    a, b, c = [net.linear(name, D, inner, bias) for name in (q, k, v)]
    o = net.linear(proj, inner, D, out_bias) if proj else lambda x: x
    return lambda x: o(attend(a(x), b(x), c(x), heads))


def fused(net, qkv, proj=None, order="qkv", inner=D, bias=True, heads=HEADS):
    a = net.linear(qkv, D, 3 * inner, bias)
    o = net.linear(proj, inner, D) if proj else lambda x: x

    def run(x):
        parts = dict(zip(order, a(x).chunk(3, -1)))
        return o(attend(parts["q"], parts["k"], parts["v"], heads))
    return run


def key_value(net, q, kv, proj):
    a, b, o = net.linear(q, D, D), net.linear(kv, D, 2 * D), net.linear(proj, D, D)
    return lambda x: o(attend(a(x), *b(x).chunk(2, -1)))


def convolutions(net, q, k, v, proj):
    a, b, c, o = [net.put(name, nn.Conv1d(D, D, 1)) for name in (q, k, v, proj)]
    turn = lambda t: t.transpose(1, 2)
    return lambda x: turn(o(turn(attend(*[turn(f(turn(x))) for f in (a, b, c)]))))


def bare(net, q, k, v, proj):
    a, b, c, o = [net.parameter(name, D, D) for name in (q, k, v, proj)]
    return lambda x: attend(x @ a, x @ b, x @ c) @ o


def each_head(net, q, k, v, proj=None, inputs=D, each=D // HEADS, by_head=True, bias=True,
              heads=HEADS, root=None):
    """A layer for each head; names have {h}. inputs < D: each reads a slice."""
    layers = {}
    if by_head:
        for h in range(heads):
            for name in (q, k, v):
                layers[name, h] = net.linear(name.format(h=h), inputs, each, bias)
    else:
        for name in (q, k, v):
            for h in range(heads):
                layers[name, h] = net.linear(name.format(h=h), inputs, each, bias)
    o = net.linear(proj, heads * each, D) if proj else lambda x: x

    def run(x):
        part = lambda h: x if inputs == D else x[..., h * inputs:(h + 1) * inputs]
        return o(torch.cat([attend(*[layers[name, h](part(h)) for name in (q, k, v)], 1, root)
                            for h in range(heads)], -1))
    return run


def each_head_fused(net, qkv, proj, heads=HEADS):
    layers = [net.linear(qkv.format(h=h), D, 3 * D // heads) for h in range(heads)]
    o = net.linear(proj, D, D)
    return lambda x: o(torch.cat([attend(*f(x).chunk(3, -1), 1) for f in layers], -1))


def multihead(net, name, before=None, batch_first=True):
    first = [net.linear(n, D, D) for n in before] if before else [lambda x: x] * 3
    m = net.put(name, nn.MultiheadAttention(D, HEADS, batch_first=batch_first))
    return lambda x: m(*[f(x) for f in first], need_weights=False)[0]


def head_norms(net, qkv, proj, q_norm, k_norm):
    a, o = net.linear(qkv, D, 3 * D), net.linear(proj, D, D)
    n = [net.norm(q_norm, D // HEADS), net.norm(k_norm, D // HEADS)]
    each = lambda f, t: f(t.unflatten(-1, (HEADS, -1))).flatten(2)

    def run(x):
        q, k, v = a(x).chunk(3, -1)
        return o(attend(each(n[0], q), each(n[1], k), v))
    return run


# === MLPs ===

def mlp(net, first, second, hidden=HIDDEN, act=F.gelu):
    a, b = net.linear(first, D, hidden), net.linear(second, hidden, D)
    return lambda x: b(act(a(x)))


def gated(net, gate, up, down):
    a, b, c = [net.linear(n, *s, False) for n, s in
               ((gate, (D, HIDDEN)), (up, (D, HIDDEN)), (down, (HIDDEN, D)))]
    return lambda x: c(F.silu(a(x)) * b(x))


def conv_mlp(net, first, second):
    a, b = net.put(first, nn.Conv1d(D, HIDDEN, 1)), net.put(second, nn.Conv1d(HIDDEN, D, 1))
    return lambda x: b(F.gelu(a(x.transpose(1, 2)))).transpose(1, 2)


# === Blocks ===

def pre(norm1, attention, norm2=None, feed=None, ls1=None, ls2=None):
    def run(x):
        x = x + attention(norm1(x)) * (1 if ls1 is None else ls1)
        return x + feed(norm2(x)) * (1 if ls2 is None else ls2) if feed else x
    return run


def post(norm1, attention, norm2, feed):
    return lambda x: (lambda y: norm2(y + feed(y)))(norm1(x + attention(x)))


def usual(b, attn="attn.q attn.k attn.v attn.proj", norms="norm1 norm2", feed="mlp.fc1 mlp.fc2",
          kind=None, block=pre, make=nn.LayerNorm, order="nanm", act=F.gelu, **more):
    """A block in the order in which its pieces are made: norm, attention, norm, MLP."""
    kind = kind or (separate if len(attn.split()) > 2 else fused)
    named = lambda names: [(n if n[0] == "/" else b + n).lstrip("/") for n in names.split()]

    def build(net):
        norm, made = iter(named(norms)), {"n": []}
        for piece in order:
            if piece == "n": made["n"].append(net.put(next(norm), make(D)))
            if piece == "a": made["a"] = kind(net, *named(attn), **more)
            if piece == "m": made["m"] = mlp(net, *named(feed), act=act)
        return block(made["n"][0], made["a"], made["n"][1], made["m"])
    return build


# === Tokens ===

def conv_patch(net, name="patch_embed.proj", chans=CHANS):
    conv = net.put(name, nn.Conv2d(chans, D, PATCH, PATCH))
    return lambda image: conv(image).flatten(2).transpose(1, 2)


def linear_patch(net, name="patch_embed", order="chw", chans=CHANS):
    f = net.linear(name, chans * PATCH * PATCH, D)
    return lambda image: f(patches(image, order))


def overlapping_linear(net):
    cut, f = nn.Unfold(4, stride=2), net.linear("patch_embed", CHANS * 4 * 4, D)
    return lambda image: f(cut(image).transpose(1, 2))


def overlapping_conv(net):
    conv = net.put("patch_embed.proj", nn.Conv2d(CHANS, D, 3, 2))
    return lambda image: conv(image).flatten(2).transpose(1, 2)


COUNT = (SIDE // PATCH) ** 2


def sincos(length):
    at = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack((at.sin(), at.cos()), -1).flatten(1)


def tokens(net, patch=conv_patch, cls="cls_token", pos="pos_embed", patch_first=True, count=COUNT):
    made = patch(net) if patch_first else None
    c = net.parameter(cls, 1, 1, D) if cls else None
    p = net.parameter(pos, 1, count + (1 if cls else 0), D) if pos else None
    made = made or patch(net)

    def run(image):
        x = made(image)
        if c is not None: x = torch.cat((c.expand(len(x), -1, -1), x), 1)
        return x if p is None else x + p
    return run


# === Heads ===

def head(net, norm="norm", name="head", pool="token"):
    n = net.norm(norm) if norm else lambda x: x
    f = net.linear(name, D, CLASSES)
    if pool == "avg": return lambda x: f(n(x).mean(1))
    if pool == "norm_after": return lambda x: f(n(x.mean(1)))
    return lambda x: f(n(x)[:, 0])


def two_layers(net, first, second, act, norm="norm"):
    n, a, b = net.norm(norm), net.linear(first, D, 6), net.linear(second, 6, CLASSES)
    return lambda x: b(act(a(n(x)[:, 0])))


class Model(Net):
    """Tokens, blocks and a head, each a function that makes its pieces."""

    def __init__(self, block="layers.{i}.", start=tokens, end=head, depth=DEPTH, **how):
        super().__init__()
        make = block if callable(block) else lambda b: usual(b, **how)
        name = "layers.{i}." if callable(block) else block
        self.start = start(self)
        self.middle = [make(name.format(i=i))(self) for i in range(depth)]
        self.end = end(self)

    def forward(self, image):
        x = self.start(image)
        for block in self.middle: x = block(x)
        return self.end(x)


# === Files ===

def write_safetensors(path, state, is_sorted=False):
    names, header, at = sorted(state) if is_sorted else list(state), {}, 0
    kinds = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL", torch.float64: "F64"}
    for n in names:
        size = state[n].numel() * state[n].element_size()
        header[n] = {"dtype": kinds[state[n].dtype], "shape": list(state[n].shape),
                     "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for n in names: f.write(state[n].contiguous().numpy().tobytes())


def write(folder, state, how):
    if how == "npz":
        np.savez(folder + "/model.npz", **{n: t.double().numpy() for n, t in state.items()})
        return "model.npz"
    if how in ("zip", "legacy", "wrapped"):
        item = {"epoch": 3, "model_state_dict": state, "loss": 0.5} if how == "wrapped" else state
        torch.save(item, folder + "/model.pt", _use_new_zipfile_serialization=how != "legacy")
        return "model.pt"
    write_safetensors(folder + "/model.safetensors", state, how == "sorted")
    return "model.safetensors"


def case(name, net, arguments, result=TOLERANCE, chans=CHANS, side=SIDE, how="safetensors",
         change=None, train=None):
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    randomise(net)
    if train: train(net)
    net.eval()
    state = net.state_dict()
    if change: state = change(state)
    file = write(folder, state, how)
    if result[0].isdigit():
        x = torch.randn(2, chans, side, side, generator=torch.Generator().manual_seed(2))
        with torch.no_grad(): y = net(x)
        np.save(folder + "/x.npy", x.numpy())
        np.save(folder + "/y.npy", y.numpy())
    cases.append("%s | %s | %s | %s" % (name, file, arguments, result))


def trained(order, attn="self_attn.in_proj_weight", feed="linear1.weight"):
    """What training does to a norm and to the matrix that reads it."""
    at = lambda net, i, name: net.get_parameter("layers.%d.%s" % (i, name))
    reads = {"pre": lambda i: ((i, "norm1", i, attn), (i, "norm2", i, feed)),
             "post": lambda i: ((i, "norm1", i, feed), (i - 1, "norm2", i, attn))}[order]

    def run(net):
        with torch.no_grad():
            for i in range(len(net.middle)):
                for j, norm, k, reader in reads(i):
                    if j >= 0: at(net, k, reader).mul_(at(net, j, norm + ".weight") ** 2)
    return run


def prefixed(prefix):
    return lambda state: {prefix + n: t for n, t in state.items()}


# === The cases ===

def attentions():
    heads = TWO
    slices = dict(kind=each_head, inputs=D // HEADS)
    case("heads_slices", Model(
        attn="mhsa.q_mappings.{h} mhsa.k_mappings.{h} mhsa.v_mappings.{h}", feed="mlp.0 mlp.2",
        by_head=False, **slices), "")
    case("heads_slices_by_head", Model(attn="msa.{h}.q msa.{h}.k msa.{h}.v msa_out",
                                       feed="ff.0 ff.2", **slices), "")
    case("heads_full", Model(attn="sa.heads.{h}.query sa.heads.{h}.key sa.heads.{h}.value sa.proj",
                             kind=each_head, bias=False, norms="ln1 ln2", root=D,
                             feed="ffwd.net.0 ffwd.net.2"), "")
    case("heads_wide", Model(attn="attention.head_{h}.to_q attention.head_{h}.to_k "
                             "attention.head_{h}.to_v attention.out", kind=each_head, each=D), "")
    case("heads_fused", Model(attn="attn.heads.{h}.qkv attn.proj", kind=each_head_fused), "")
    case("heads_lists", Model(attn="attn.Wq.{h} attn.Wk.{h} attn.Wv.{h} attn.Wo", kind=each_head,
                              by_head=False), "")
    case("heads_lists_sorted", Model(attn="attn.Wq.{h} attn.Wk.{h} attn.Wv.{h} attn.Wo",
                                     kind=each_head, by_head=False), "", how="sorted")
    case("before_multihead", Model(attn="attention", norms="ln_1 ln_2",
                                   kind=lambda net, name: multihead(
                                       net, name, [name[:-9] + w for w in
                                                   ("query", "key", "value")])), heads)
    case("multihead", Model(attn="self_attn", norms="layernorm_before layernorm_after",
                            feed="net.0 net.3", kind=multihead), heads)
    case("key_value", Model(attn="attn.to_q attn.to_kv attn.to_out", kind=key_value), heads)
    case("kqv", Model(attn="attn.kqv attn.proj", order="nanm", kind=lambda net, a, b: fused(
        net, a, b, "kqv")), heads)
    case("qkv_unnamed", Model(attn="attn.lin_in attn.lin_out", feed="mlp.lin1 mlp.lin2"), heads)
    case("no_projection", Model(attn="attn.query attn.key attn.value"), heads)
    case("no_projection_fused", Model(attn="attn.keys"), heads)
    case("wide", Model(attn="attn.to_q attn.to_k attn.to_v attn.to_out.0", inner=16, bias=False),
         heads)
    case("narrow", Model(attn="attn.qkv attn.proj", inner=4), heads)
    case("conv1x1", Model(block=lambda b: lambda net: pre(
        net.norm(b + "n1"), convolutions(net, *[b + "att." + w for w in "qkvo"]),
        net.norm(b + "n2"), conv_mlp(net, b + "conv_mlp.0", b + "conv_mlp.2"))), heads)
    case("bare_attention", Model(attn="attention.W_q attention.W_k attention.W_v attention.W_o",
                                 kind=bare), heads)
    case("head_norms", Model(block=lambda b: lambda net: pre(
        net.norm(b + "norm1"), head_norms(net, *[b + "attention." + w for w in
                                                 ("qkv", "out", "query_norm", "key_norm")]),
        net.norm(b + "norm2"), mlp(net, b + "mlp.w1", b + "mlp.w2"))), heads)
    case("half_biases", Model(attn="attn.wq attn.wk attn.wv attn.wo", out_bias=False), heads)


def shared(b):
    def build(net):
        a = fused(net, b + "attn.qkv", b + "attn.proj")
        n = net.norm(b + "norm")
        return pre(n, a, n, mlp(net, b + "mlp.fc1", b + "mlp.fc2"))
    return build


def scaled(b, first, second):
    def build(net):
        s = [net.parameter(b + first, D)]
        n = net.norm(b + "norm1")
        a = separate(net, *[b + "attn." + w for w in "qkvo"])
        m = net.norm(b + "norm2")
        f = mlp(net, b + "mlp.0", b + "mlp.2")
        s.append(net.parameter(b + second, D))
        return pre(n, a, m, f, *s)
    return build


def gated_block(b):
    return lambda net: pre(net.norm(b + "norm1"), fused(net, b + "attn.qkv", b + "attn.proj"),
                           net.norm(b + "norm2"), gated(net, *[b + "ffn." + w for w in
                                                               ("w1", "w3", "w2")]))


def lists(block):
    """Block i of ModuleLists that lie beside each other: names have {i}."""
    def make(b):
        i = int(b.split(".")[1])
        return usual("", *[names.format(i=i) for names in block])
    return make


def blocks():
    case("one_norm", Model(block=shared), TWO)
    case("no_mlp", Model(block=lambda b: lambda net: pre(
        net.norm(b + "0.norm"), fused(net, b + "0.to_qkv", b + "0.to_out"))), TWO)
    case("layer_scale", Model(block=lambda b: scaled(b, "gamma_1", "gamma_2")), TWO)
    case("layer_scale_named",
         Model(block=lambda b: scaled(b, "ls_attn.scale", "ls_mlp.scale")), TWO)
    case("gated", Model(block=gated_block), TWO + " --set activation=silu")
    case("post_norm", Model(block=lambda b: usual(
        b, attn="mha.q mha.k mha.v mha.o", feed="ff.linear1 ff.linear2", block=post),
                            end=lambda net: head(net, None)), TWO + " " + POST)
    own = dict(attn="attn.qkv attn.proj", feed="ff.one ff.two", block=post)
    case("post_norm_shown", Model(block=lambda b: usual(b, **own), depth=4,
                                  end=lambda net: head(net, None)), TWO,
         train=trained("post", "attn.qkv.weight", "ff.one.weight"))
    torch_names = dict(attn="self_attn", kind=multihead, feed="linear1 linear2", act=F.relu)
    case("torch_defaults", Model(block=lambda b: usual(b, block=post, **torch_names),
                                 end=lambda net: head(net, None)), TWO)
    case("torch_norm_first", Model(depth=4, **torch_names), TWO, train=trained("pre"))
    case("norm_names_alpha", Model(attn="attn.query attn.key attn.value attn.out_proj",
                                   make=lambda d: OwnNorm("alpha", "beta")), TWO)
    case("norm_names_gamma", Model(attn="attn.qkv attn.proj",
                                   make=lambda d: OwnNorm("gamma", "beta")), TWO)
    case("norm_names_a_2", Model(attn="attn.qkv attn.proj",
                                 make=lambda d: OwnNorm("a_2", "b_2")), TWO)
    case("norms_after", Model(attn="attn.qkv attn.proj", order="amnn"), TWO)
    case("norms_in_modules", Model(attn="0.fn.to_qkv 0.fn.out", norms="0.norm 1.norm",
                                   feed="1.fn.net.0 1.fn.net.3"), TWO)
    case("lists", Model(block=lists(("attns.{i}.qkv attns.{i}.proj", "norms1.{i} norms2.{i}",
                                     "mlps.{i}.0 mlps.{i}.2"))), TWO)
    case("lists_named", Model(block=lists((
        "attention_layers.{i}.q attention_layers.{i}.k attention_layers.{i}.v "
        "attention_layers.{i}.o", "attention_norms.{i} mlp_norms.{i}",
        "mlp_layers.{i}.fc1 mlp_layers.{i}.fc2"))), TWO)
    alternate = lambda b: usual("", *[
        text.format(a=2 * int(b.split(".")[1]), m=2 * int(b.split(".")[1]) + 1) for text in
        ("layers.{a}.to_qkv layers.{a}.to_out", "layers.{a}.norm layers.{m}.norm",
         "layers.{m}.net.0 layers.{m}.net.2")])
    case("alternating", Model(block=alternate), TWO)
    case("number_in_names", Model(block=lambda b: usual(
        "encoder.layer%s_" % b.split(".")[1], "attn.q attn.k attn.v attn.o", "norm1 norm2",
        "mlp.0 mlp.2")), TWO)
    case("depth_1", Model(attn="attn.qkv attn.proj", depth=1), TWO)
    case("depth_1_no_number", Model(block="encoder.", attn="attn.qkv attn.proj", depth=1), TWO)
    case("flat", Model(block="", attn="Wq Wk Wv Wo", norms="ln1 ln2", feed="fc1 fc2", depth=1), TWO)
    case("many_blocks", Model(block="transformer.{i}.", attn="qkv o", depth=11), TWO)
    case("integers", extra(Model(attn="attn.qkv attn.proj")), TWO)


def extra(net):
    net.put("steps", torch.tensor(12))
    net.put("layers.0.attn.num_calls", torch.tensor([3]))
    net.put("layers.1.attn.num_calls", torch.tensor([3]))
    net.put("causal", torch.zeros(COUNT + 1, COUNT + 1, dtype=torch.bool))
    return net


def two_linears(net):
    a, b = net.linear("embed.0", CHANS * PATCH * PATCH, 10), net.linear("embed.1", 10, D)
    return lambda image: b(a(patches(image)))


def conv_linear(net):
    conv = net.put("conv", nn.Conv2d(CHANS, 6, PATCH, PATCH))
    f = net.linear("patch_emb", 6, D)
    return lambda image: f(conv(image).flatten(2).transpose(1, 2))


def conv_square(net):
    conv = net.put("conv", nn.Conv2d(CHANS, D, PATCH, PATCH))
    f = net.linear("patch_emb", D, D)
    return lambda image: f(conv(image).flatten(2).transpose(1, 2))


def bare_patch(net):
    w, b = net.parameter("patch_weight", CHANS * PATCH * PATCH, D), net.parameter("patch_bias", D)
    return lambda image: patches(image) @ w + b


def normed_patch(net):
    n = net.norm("to_patch.0", CHANS * PATCH * PATCH)
    f, m = net.linear("to_patch.1", CHANS * PATCH * PATCH, D), net.norm("to_patch.2")
    return lambda image: m(f(n(patches(image, "hwc"))))


def with_positions(make):
    """make(net) returns a function that gives the positions [N, D]."""
    def build(net):
        patch = conv_patch(net)
        c, p = net.parameter("cls_token", 1, 1, D), make(net)
        return lambda image: torch.cat((c.expand(len(image), -1, -1), patch(image)), 1) + p()
    return build


def linear_positions(net):
    f = net.linear("position_embedding", COUNT + 1, D)
    return lambda: f(torch.eye(COUNT + 1))


def embedding(net):
    e = net.put("pos_emb", nn.Embedding(COUNT + 1, D))
    return lambda: e.weight


def tokens_first(net):
    p = net.parameter("positional_encoding", COUNT + 1, 1, D)
    return lambda: p[:, 0]


def buffer(length, *shape):
    def build(net):
        p = net.put("positional_encoding.pe", sincos(length).reshape(*shape))
        return lambda: p.reshape(-1, D)[:COUNT + 1]
    return build


def added_patch(net):
    """Two layers over the same values, one of them for the position, as its author thinks."""
    a, b = [net.linear(n, PATCH * PATCH, D) for n in ("encoder", "pos_embedding")]
    return lambda image: a(patches(image)) + b(patches(image))


def grid_positions(net):
    patch = conv_patch(net)
    p = net.parameter("pos", D, SIDE // PATCH, SIDE // PATCH)
    return lambda image: patch(image) + p.flatten(1).T


def apart(net):
    """The class token has no position."""
    patch = conv_patch(net)
    c, p = net.parameter("class_token", D), net.parameter("position", COUNT, D)
    return lambda image: torch.cat((c.expand(len(image), 1, D), patch(image) + p), 1)


def registers(net):
    patch = conv_patch(net)
    c, r = net.parameter("cls", 1, 1, D), net.parameter("register_tokens", 1, 2, D)
    p = net.parameter("pos_embedding", 1, COUNT + 1, D)

    def run(image):
        x = torch.cat((c.expand(len(image), -1, -1), patch(image)), 1) + p
        return torch.cat((x[:, :1], r.expand(len(x), -1, -1), x[:, 1:]), 1)
    return run


def beginnings():
    timm = dict(attn="attn.query attn.key attn.value attn.out")
    start = lambda patch, **more: dict(start=lambda net: tokens(net, patch, **more), **timm)
    average = dict(end=lambda net: head(net, "final_norm", "classifier", "avg"))
    case("linear_patch", Model(**start(lambda net: linear_patch(net, "linear_mapper"))), TWO)
    case("linear_patch_hwc", Model(**start(lambda net: linear_patch(net, "proj", "hwc"))),
         TWO + " --set patch_order=hwc")
    case("grey_linear", Model(**start(lambda net: linear_patch(net, "to_tokens", chans=1))),
         TWO + " --set in_chans=1", chans=1)
    case("grey_conv", Model(**start(lambda net: conv_patch(net, "patchify", 1))), TWO, chans=1)
    case("two_linears", Model(**start(two_linears)), TWO + " " + CHW)
    case("conv_linear", Model(**start(conv_linear)), TWO)
    case("conv_square", Model(**start(conv_square)), TWO)
    case("bare_patch", Model(**start(bare_patch)), TWO + " " + CHW)
    case("normed_patch", Model(**start(normed_patch)), TWO + " --set patch_order=hwc")
    for make in (linear_positions, embedding, tokens_first):
        case(make.__name__, Model(start=with_positions(make), **timm), TWO)
    case("sincos", Model(start=with_positions(buffer(COUNT + 1, COUNT + 1, D)), **timm), TWO)
    case("sincos_long", Model(start=with_positions(buffer(50, 1, 50, D)), **timm),
         TWO + " --set pos_first_rows=1 --img-size 6")
    case("sincos_long_first", Model(start=with_positions(buffer(50, 50, 1, D)), **timm),
         TWO + " --set pos_first_rows=1 --img-size 6")
    case("grid_positions", Model(start=grid_positions, **average, **timm), TWO)
    for result in ("1e-5", "--rename 'pos_embedding.*=patch_added.*'"):
        case("added_patch" if result[0] == "1" else "added_or_positions", Model(
            start=added_patch, end=lambda net: head(net, "ln_f", "vit_head", "avg"), **timm),
             TWO + " --set in_chans=1 --set positions=none --img-size 6" + (
                 " --rename pos_embedding.*=patch_added.*" if result[0] == "1" else ""), result,
             chans=1)
    case("apart", Model(start=apart, **timm), TWO)
    case("registers", Model(start=registers, **timm), TWO)
    case("no_positions", Model(start=lambda net: tokens(net, pos=None), **timm),
         TWO + " --img-size 6 --set positions=none")
    case("average", Model(start=lambda net: tokens(net, cls=None), **average, **timm), TWO)
    case("unnamed_token", Model(start=lambda net: tokens(net, cls="tok", pos="p"), **timm), TWO)
    overlaps(timm, average)
    case("tokens_last", Model(start=lambda net: tokens(net, patch_first=False), **timm), TWO)


def matched(name):
    return " --match-input %s/x.npy --match-logits %s/y.npy" % (("tests/data/own/" + name,) * 2)


def overlaps(timm, average):
    linear = lambda **more: lambda net: tokens(net, overlapping_linear, count=16, **more)
    conv = lambda net: tokens(net, overlapping_conv, count=9)
    case("overlap_linear", Model(start=linear(), **timm), TWO + " " + CHW + " --set patch_stride=2",
         side=10)
    case("overlap_conv", Model(start=conv, **timm), TWO + " --set patch_stride=2", side=7)
    case("overlap_matched", Model(start=linear(cls=None), **average, **timm),
         matched("overlap_matched"), side=10)
    case("overlap_conv_matched", Model(start=conv, **timm), matched("overlap_conv_matched"), side=7)
    case("overlap_no_positions", Model(start=linear(cls=None, pos=None), **average, **timm),
         matched("overlap_no_positions"), side=10)
    case("overlap_resampled", Model(start=linear(), **timm),
         TWO + " " + CHW + " --img-size 10 --strict",
         "the positions of 4 x 4 are resampled; patch_stride=2 fits them as they are")
    case("overlap_padded", Model(start=linear(), **timm),
         TWO + " " + CHW + " --set patch_stride=2 --set dynamic_img_pad=1",
         "patch_stride excludes patch_cut, stem and dynamic_img_pad")


def endings():
    act = {"tanh": torch.tanh, "gelu": F.gelu, "relu": F.relu, "none": lambda x: x}
    for name, f in act.items():
        case("head_" + name, Model(attn="attn.qkv attn.out", end=lambda net: two_layers(
            net, "classifier.0", "classifier.2", f)),
             TWO + " --set representation_act=" + name)
    case("head_norm", Model(attn="attn.qkv attn.out",
                            end=lambda net: head(net, "mlp_head.0", "mlp_head.1")), TWO)
    case("head_norm_average", Model(
        attn="attn.qkv attn.out", start=lambda net: tokens(net, cls=None),
        end=lambda net: head(net, "mlp_head.0", "mlp_head.1", "norm_after")), TWO)
    case("head_bare", Model(attn="attn.qkv attn.out", end=lambda net: head(net, None, "fc")),
         TWO + " " + PRE)


def timm_like(**more):
    more.setdefault("block", "blocks.{i}.")
    return Model(attn="attn.qkv attn.proj", **more)


def near_copies():
    case("block_for_blocks", timm_like(block="block.{i}."), TWO)
    case("timm_named", timm_like(), TWO + " --set norm_eps=1e-5")
    case("timm_mlp", timm_like(feed="mlp.0 mlp.3"), TWO)
    case("timm_norms", timm_like(norms="ln1 ln2"), TWO)
    case("tutorial", Model(block="encoder.{i}.", attn="attention.query attention.key "
                           "attention.value attention.dense",
                           norms="layernorm_before layernorm_after",
                           feed="intermediate.dense output.dense", start=lambda net: tokens(
                               net, lambda n: conv_patch(n, "embeddings.projection"),
                               "embeddings.cls", "embeddings.positions"),
                           end=lambda net: head(net, "layernorm", "classifier")), TWO)
    case("tutorial_dense", Model(block="encoder.blocks.{i}.", attn="attention.qkv_projection "
                                 "attention.output_projection", norms="layernorm_1 layernorm_2",
                                 feed="mlp.dense_1 mlp.dense_2",
                                 act=lambda x: F.gelu(x, approximate="tanh")), TWO)
    for prefix in ("ViT.", "network.", "my_vit.", "classifier.", "module.model.encoder."):
        case("prefix_" + prefix.strip(".").replace(".", "_").lower(),
             Model(block="layers.{i}.", attn="attn.qkv attn.proj", norms="n1 n2"), TWO,
             change=prefixed(prefix))
    for how in ("zip", "legacy", "npz", "sorted", "wrapped"):
        case("container_" + how, Model(block="layer.{i}.", attn="attention.qkv attention.fc_out",
                                       depth=11 if how == "sorted" else 2), TWO, how=how)


class BatchSecond(Net):
    """nn.TransformerEncoder without batch_first attends over the batch."""

    def __init__(self):
        super().__init__()
        patch = self.put("patch", nn.Conv2d(CHANS, D, PATCH, PATCH))
        cls = self.parameter("cls", 1, 1, D)
        layer = nn.TransformerEncoderLayer(D, HEADS, HIDDEN)
        encoder = self.put("encoder", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
        head = self.linear("out", D, CLASSES)
        one = lambda x: encoder(torch.cat((cls, patch(x).flatten(2).transpose(1, 2)), 1))
        self.run = lambda image: head(torch.cat([one(x[None]) for x in image])[:, 0])

    def forward(self, image):
        return self.run(image)


def with_decoder():
    net = Model(block="encoder.layers.{i}.", attn="attn.qkv attn.proj")
    for i in range(2): usual("decoder.layers.%d." % i, "attn.qkv attn.proj")(net)
    net.norm("decoder.norm")
    net.linear("decoder.out", D, CHANS * PATCH * PATCH)
    return net


def token_norms():
    net = Model(attn="attn.qkv attn.proj")
    for i in range(2): net.put("layers.%d.norm1" % i, nn.LayerNorm((COUNT + 1, D)))
    return net


def batch_norms():
    net = Model(attn="attn.qkv attn.proj")
    for i in range(2): net.put("layers.%d.norm1" % i, nn.BatchNorm1d(D))
    return net


def flattened():
    net = Model(attn="attn.qkv attn.proj")
    net.linear("head", (COUNT + 1) * D, CLASSES)
    return net


def stages():
    net = Net()
    net.put("patch", nn.Conv2d(CHANS, D, PATCH, PATCH))
    for s in range(2):
        w = D << s
        for i in range(2):
            b = "stages.%d.%d." % (s, i)
            net.norm(b + "norm1", w), net.linear(b + "attn.qkv", w, 3 * w)
            net.linear(b + "attn.proj", w, w), net.norm(b + "norm2", w)
            net.linear(b + "mlp.0", w, 2 * w), net.linear(b + "mlp.2", 2 * w, w)
        if s == 0: net.linear("down", 4 * D, 2 * D)
    net.linear("head", 2 * D, CLASSES)
    return net


def cnn():
    net, chans = Net(), 3
    for i in range(3):
        net.put("features.%d" % (3 * i), nn.Conv2d(chans, D, 3))
        net.put("features.%d" % (3 * i + 1), nn.BatchNorm2d(D))
        chans = D
    net.linear("classifier.0", 9 * D, D), net.linear("classifier.2", D, CLASSES)
    return net


def text_model():
    net = Net()
    net.put("tok_emb", nn.Embedding(50, D)), net.put("pos_emb", nn.Embedding(16, D))
    for i in range(2): usual("blocks.%d." % i, "attn.qkv attn.proj")(net)
    net.norm("ln_f"), net.linear("lm_head", D, 50, False)
    return net


def unnamed(b):
    return usual(b, "a b c d", feed="e f", kind=separate)


def refusals():
    case("batch_second", BatchSecond(), TWO + " " + POST + " --img-size 6 --set positions=none "
         "--set pool=token --set activation=relu --set attention=self")
    case("decoder", with_decoder(), TWO, "--ignore 'decoder.layers.*' drops one")
    case("norm_of_all", token_norms(), TWO, "over tokens and width at once")
    case("batch_norm", batch_norms(), TWO, "layers.{0..1}.norm1 [8]: a batch norm")
    case("flattened", flattened(), TWO, "reads all tokens at once")
    case("stages", stages(), TWO, "A model in stages")
    case("cnn", cnn(), "", "no group of tensors looks like a block of a transformer")
    case("text", text_model(), TWO, "no patch embedding")
    case("unnamed", Model(block=unnamed), TWO)
    case("unnamed_sorted", Model(block=unnamed), TWO, "--rename", how="sorted")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    attentions(), blocks(), beginnings(), endings(), near_copies(), refusals()
    with open(os.path.join(OUT, "cases.txt"), "w") as f: f.write("\n".join(cases) + "\n")
    print(len(cases), "cases")


main()
