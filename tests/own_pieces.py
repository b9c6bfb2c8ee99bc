"""The pieces of make_own.py: layers, blocks, tokens and heads under any names, and the files."""
import json
import math
import os
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
    """Holds modules and parameters under dotted names, in the order in which they are made."""

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
    """Scales weights by the number of their inputs, and puts those of norms around one."""
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


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


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


def scaled(net, q, k, v, proj, root=1):
    """Divides the scores by another root than that of a head's width; 1 means no scale."""
    a, b, c, o = [net.linear(name, D, D) for name in (q, k, v, proj)]
    return lambda x: o(attend(a(x), b(x), c(x), HEADS, root))


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


def overlapping_conv_28(net):
    """13 x 13 patches of 4 pixels, two apart."""
    conv = net.put("patch_embed.proj", nn.Conv2d(1, D, 4, 2))
    return lambda image: conv(image).flatten(2).transpose(1, 2)


COUNT = (SIDE // PATCH) ** 2


def sincos(length):
    at = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack((at.sin(), at.cos()), -1).flatten(1)


def sincos_variant(kind):
    """As loops over columns compute it, both correctly and wrongly."""
    at, j = torch.arange(COUNT + 1)[:, None], torch.arange(D)
    if kind == "halves":
        angle = at / 10000 ** (2 * j[:D // 2] / D)
        return torch.cat((angle.sin(), angle.cos()), 1)
    angle = at / 10000 ** {"column": j / D, "double": 2 * j / D, "plain": j // D}[kind]
    return torch.where(j % 2 == 0, angle.sin(), angle.cos())


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


def two_norms(net, first, second, name="head", order=1):
    """The encoder's norm, then the head's own; order -1 stores them in the reverse order."""
    made = {path: net.norm(path) for path in (first, second)[::order]}
    f = net.linear(name, D, CLASSES)
    return lambda x: f(made[second](made[first](x)[:, 0]))


def norm_in_two_places(net, first, second, name):
    """One norm, which also belongs to an nn.Sequential."""
    n = net.put(second, net.norm(first))
    f = net.linear(name, D, CLASSES)
    return lambda x: f(n(x)[:, 0])


def in_front(net, name="norm"):
    """A norm of the tokens before the blocks."""
    start, n = tokens(net), net.norm(name)
    return lambda image: n(start(image))


def norm_between(net):
    n, a, m, b = net.norm("norm"), net.linear("head.0", D, D), net.norm("head.1"), net.linear(
        "head.2", D, CLASSES)
    return lambda x: b(m(a(n(x)[:, 0])))


def three_layers(net):
    n, *layers = net.norm("norm"), *[net.linear("head.%d" % (2 * i), *size) for i, size in
                                     enumerate(((D, 10), (10, 6), (6, CLASSES)))]
    return lambda x: layers[2](F.relu(layers[1](F.relu(layers[0](n(x)[:, 0])))))


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


class OneNorm(Model):
    """One norm that is used in all places."""

    def __init__(self):
        Net.__init__(self)
        self.start = tokens(self)
        n = self.norm("ln")
        self.middle = [pre(n, fused(self, b + "qkv", b + "out"), n, mlp(self, b + "fc1", b + "fc2"))
                       for b in ("layers.0.", "layers.1.")]
        f = self.linear("head", D, CLASSES)
        self.end = lambda x: f(n(x)[:, 0])


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
    if how == "unnamed":
        np.savez(folder + "/model.npz", *[t.numpy() for t in state.values()])
        return "model.npz"
    if how in ("list", "turned"):   # without names; matrices as NumPy's x @ W has them
        items = [t.T.contiguous() if t.dim() == 2 and how == "turned" else t
                 for t in state.values()]
        torch.save(items if how == "list" else {str(i): t for i, t in enumerate(items)},
                   folder + "/model.pt")
        return "model.pt"
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
    """Imitates the effect of training on a norm and on the matrix that reads it."""
    at = lambda net, i, name: net.get_parameter("layers.%d.%s" % (i, name))
    reads = {"pre": lambda i: ((i, "norm1", i, attn), (i, "norm2", i, feed)),
             "post": lambda i: ((i, "norm1", i, feed), (i - 1, "norm2", i, attn))}[order]

    def run(net):
        with torch.no_grad():
            for i in range(len(net.middle)):
                for j, norm, k, reader in reads(i):
                    if j >= 0: at(net, k, reader).mul_(at(net, j, norm + ".weight") ** 2)
    return run


def small_keys(net):
    """Imitates trained biases: those of keys are never trained, all others grow."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith(".k.bias"): p.mul_(1e-3)


def prefixed(prefix):
    return lambda state: {prefix + n: t for n, t in state.items()}
