#!/usr/bin/python3
"""Writes the cases of tests/data/code: models with the Python that defines them beside them.

    /usr/bin/python3 tests/make_code.py        (Debian: python3-torch, python3-numpy)

Run it from the root of the repository. For authoring only: the cases are committed and the tests
need no Python. Each checkpoint is a bare state dict, so that only the Python shows the settings.
cases.txt has a line for each, in the form of tests/make_own.py.
"""
import io
import json
import os
import sys
import zlib

import numpy as np
import torch
import torch.nn as nn

from storage_keys import KeyText

OUT = os.path.join("tests", "data", "code")
torch.serialization.str = KeyText
lines = []

ATTENTION = '''
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1)) {scale}
        return self.proj((a.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, N, C))
'''

MODEL = '''
class {name}(nn.Module):
    def __init__(self, {arguments}):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, kernel_size=4, stride=4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.positions = nn.Parameter(torch.zeros(1, 5, dim))
        self.blocks = {blocks}
        self.last = nn.LayerNorm(dim{eps})
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        x = self.head(self.last(x)[:, 0])
        {end}
'''

SCALED = "/ (C // self.heads) ** 0.5"
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def attention(scale=SCALED):
    return ATTENTION.replace("{scale}", scale)


def model(name="ViT", arguments="dim=24, depth=2, heads=8", end="return x", eps="",
          blocks="nn.ModuleList([Block(dim, heads) for _ in range(depth)])"):
    return MODEL.format(name=name, arguments=arguments, blocks=blocks, end=end, eps=eps)


BLOCK = '''
class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))
'''


def block(**changes):
    text = BLOCK
    for old, new in changes.values():
        assert old in text, old
        text = text.replace(old, new)
    return text


RELU = HEAD + attention() + block() + model() + '''
if __name__ == "__main__":
    net = ViT(24, heads=4)   # as trained
    print(net)
'''

ARGPARSE = "import argparse\n" + HEAD + attention() + '''
class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.silu(self.fc1(x)))
''' + block(mlp=("nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))",
                 "Mlp(dim, hidden=2 * dim)")) + model(arguments="args") .replace("dim=", "dim=") \
    .replace("super().__init__()\n        self.embed",
             "super().__init__()\n        dim, depth, heads = args.dim, args.depth, args.n_heads"
             "\n        self.embed") + '''

def parse(words=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=24)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--n-heads", type=int, default=6, help="of attention")
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args(words)


def main():
    args = parse([])
    return ViT(args)
'''

EPSILON = HEAD + '''from functools import partial

CONFIG = {
    "width": 24,
    "layers": 2,
    "heads": 3,     # of attention
    "act": nn.GELU,
}
''' + attention() + block(
    a=("def __init__(self, dim, heads):",
       "def __init__(self, dim, heads, act_layer=nn.ReLU, norm=nn.LayerNorm):"),
    b=("nn.LayerNorm(dim)", "norm(dim)"),
    c=("nn.ReLU()", "act_layer()")) + model(
        arguments="dim, depth, heads, act, norm=None", eps="",
        blocks="nn.Sequential(*[Block(dim, heads, act_layer=act, norm=norm) for i in range(depth)])"
    ).replace("self.last = nn.LayerNorm(dim)", "self.last = norm(dim)").replace(
        "self.embed =", "norm = norm or partial(nn.LayerNorm, eps=1e-2)\n        self.embed =") + '''

def create(config=CONFIG):
    return ViT(config["width"], config["layers"], config["heads"], config["act"])
'''

POST = HEAD + '''from dataclasses import dataclass


@dataclass
class Config:
    dim: int = 24
    depth: int = 2
    num_of_heads: int = 6


def gelu(x):
    """The form of many old programs."""
    return 0.5 * x * (1 + torch.tanh((2 / 3.141592653589793) ** 0.5 * (x + 0.044715 * x ** 3)))

''' + attention() + block(
    a=("def __init__(self, dim, heads):", "def __init__(self, config):"),
    b=("Attention(dim, heads)", "Attention(config.dim, config.num_of_heads)"),
    c=("nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))",
       "nn.Linear(dim, 40)\n        self.back = nn.Linear(40, dim)"),
    d=("super().__init__()\n", "super().__init__()\n        dim = config.dim\n"),
    e=("x = x + self.attn(self.norm1(x))", "x = self.norm1(x + self.attn(x))"),
    f=("return x + self.mlp(self.norm2(x))", "return self.norm2(x + self.back(gelu(self.mlp(x))))")
) + model(arguments="config", blocks="nn.ModuleList([Block(config) for _ in range(config.depth)])"
          ).replace("super().__init__()\n", "super().__init__()\n        dim = config.dim\n")

TORCH = HEAD + '''
HEADS = 4
WIDTH = 6 * HEADS   # a comment (with a bracket


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 4, 4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.zeros(1, 5, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=32, activation="gelu",
                                           norm_first=True, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.encoder(x)[:, 0])
'''

SOFTMAX = HEAD + "from torchvision import transforms\n" + attention() + block() + model(
    end="return F.log_softmax(x, dim=1)") + '''

MEAN = (0.2, 0.4, 0.6)
classes = ("red cat", 'green "dog"', "blue bird")
columns = ["epoch", "loss", "accuracy"]
prepare = [transforms.Resize(8), transforms.ToTensor(),
           transforms.Normalize(mean=MEAN, std=[0.25, 0.25, 0.5])]
net = ViT(heads=2)
'''

SEQUENTIAL = HEAD + '''

class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, **kwargs):
        return x + self.fn(x, **kwargs)
''' + attention() + '''

class MLP(nn.Sequential):
    def __init__(self, dim, ratio=2):
        super().__init__(nn.Linear(dim, ratio * dim), nn.ReLU(), nn.Linear(ratio * dim, dim))


class Block(nn.Sequential):
    def __init__(self, dim=24, n_heads=3, **kwargs):
        super().__init__(
            Residual(nn.Sequential(nn.LayerNorm(dim), Attention(dim, n_heads))),
            Residual(nn.Sequential(nn.LayerNorm(dim), MLP(dim, **kwargs))),
        )


class Encoder(nn.Sequential):
    def __init__(self, depth=2, **kwargs):
        super().__init__(*[Block(**kwargs) for _ in range(depth)])

''' + model(arguments="dim=24, depth=2, **kwargs", blocks="Encoder(depth, dim=dim, **kwargs)") + '''

net = ViT(n_heads=6, ratio=3)
'''

DECOYS = HEAD + '''

class Convolutions(nn.Module):
    def __init__(self, heads=2):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.act = nn.SiLU()
        self.first = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return F.softmax(self.head(self.act(self.first(x)).mean((2, 3))), dim=1)


class OldBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads)
        self.act = nn.SiLU()

''' + attention() + block() + model("Transformer") + model("OldViT", blocks="nn.ModuleList([OldBlock(dim, heads) "
                                                        "for _ in range(depth)])") + '''
old = OldViT(heads=12)
new = Transformer(heads=4)
'''

ROOT = HEAD + attention("* self.scale").replace(
    "self.proj =", "self.scale = dim ** -0.5\n        self.proj =") + block() + model(
        arguments="dim=24, depth=2, heads=8, pool='cls'").replace(
            "self.last(x)[:, 0]", "self.last(x).mean(dim=1) if self.pool == 'mean' else x[:, 0]"
        ).replace("self.embed =", "self.pool = pool\n        self.embed =") + """
net = ViT(heads=4, pool="mean")
"""

AFTER = HEAD + attention("").replace(
    "a.softmax(dim=-1)", "(F.softmax(a, dim=-1) / math.sqrt(self.width))").replace(
        "self.proj =", "self.width = dim\n        self.proj =").replace(
            "class", "import math\n\n\nclass", 1) + block() + model().replace(
                "self.last(x)[:, 0]", "self.last(x)[:, 1:].mean(1)") + """
net = ViT(heads=4)
"""

# Blocks as in a well-known library: norms around functions, lists in lists.
NESTED = HEAD + '''
def pair(t):
    return t if isinstance(t, tuple) else (t, t)


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kwargs):
        return self.fn(self.norm(x), **kwargs)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, dropout=0.):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, hidden_dim),
            nn.SiLU(), nn.Dropout(dropout),
            nn.Linear(hidden_dim, dim),
            nn.Dropout(dropout)
        )

    def forward(self, x):
        return self.net(x)


class Attention(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.):
        super().__init__()
        inner_dim = dim_head * heads
        project_out = not (heads == 1 and dim_head == dim)
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.attend = nn.Softmax(dim=-1)
        self.to_qkv = nn.Linear(dim, inner_dim * 3, bias=False)
        self.to_out = nn.Sequential(
            nn.Linear(inner_dim, dim),
            nn.Dropout(dropout)
        ) if project_out else nn.Identity()

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = [t.reshape(b, n, self.heads, -1).transpose(1, 2)
                   for t in self.to_qkv(x).chunk(3, dim=-1)]
        dots = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        out = torch.matmul(self.attend(dots), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class Transformer(nn.Module):
    def __init__(self, dim, depth, heads, dim_head, mlp_dim, dropout=0.):
        super().__init__()
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                PreNorm(dim, Attention(dim, heads=heads, dim_head=dim_head, dropout=dropout)),
                PreNorm(dim, FeedForward(dim, mlp_dim, dropout=dropout))
            ]))

    def forward(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return x


class ViT(nn.Module):
    def __init__(self, *, image_size, patch_size, num_classes, dim, depth, heads, mlp_dim,
                 pool='cls', channels=3, dim_head=64, dropout=0.):
        super().__init__()
        image_height, image_width = pair(image_size)
        patch_height, patch_width = pair(patch_size)
        assert image_height % patch_height == 0 and image_width % patch_width == 0
        num_patches = (image_height // patch_height) * (image_width // patch_width)
        self.embed = nn.Conv2d(channels, dim, patch_height, patch_width)
        self.pos_embedding = nn.Parameter(torch.randn(1, num_patches + 1, dim))
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim))
        self.transformer = Transformer(dim, depth, heads, dim_head, mlp_dim, dropout)
        self.pool = pool
        self.mlp_head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_classes))

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1)
        x = self.transformer(x + self.pos_embedding)
        x = x.mean(dim=1) if self.pool == 'mean' else x[:, 0]
        return self.mlp_head(x)


v = ViT(image_size=8, patch_size=4, num_classes=3, dim=20, depth=2, heads=3, mlp_dim=28,
        dim_head=8)
'''

# A wrapper passes a dictionary, whose contents the code does not show, to the model. A generator
# makes the blocks.
WRAPPED = HEAD + '''

class AttentionBlock(nn.Module):
    def __init__(self, embed_dim, hidden_dim, num_heads, dropout=0.0):
        super().__init__()
        self.layer_norm_1 = nn.LayerNorm(embed_dim)
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout)
        self.layer_norm_2 = nn.LayerNorm(embed_dim)
        self.linear = nn.Sequential(
            nn.Linear(embed_dim, hidden_dim), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden_dim, embed_dim), nn.Dropout(dropout))

    def forward(self, x):
        y = self.layer_norm_1(x)
        x = x + self.attn(y, y, y)[0]
        return x + self.linear(self.layer_norm_2(x))


class Net(nn.Module):
    def __init__(self, embed_dim, hidden_dim, num_heads, num_layers=6, dropout=0.0):
        super().__init__()
        self.patches = nn.Conv2d(3, embed_dim, 4, stride=4)
        self.transformer = nn.Sequential(
            *(AttentionBlock(embed_dim, hidden_dim, num_heads, dropout=dropout)
              for _ in range(num_layers)))
        self.mlp_head = nn.Sequential(nn.LayerNorm(embed_dim), nn.Linear(embed_dim, 3))
        self.cls_token = nn.Parameter(torch.randn(1, 1, embed_dim))
        self.pos_embedding = nn.Parameter(torch.randn(1, 5, embed_dim))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.repeat(x.shape[0], 1, 1), x], dim=1)
        x = x + self.pos_embedding
        x = x.transpose(0, 1)
        x = self.transformer(x)
        return self.mlp_head(x[0])


class Wrapper(nn.Module):
    def __init__(self, model_kwargs, lr=1e-3):
        super().__init__()
        self.model = Net(**model_kwargs)

    def forward(self, x):
        return self.model(x)


def train_model(**kwargs):
    return Wrapper(**kwargs)


def main():
    return train_model(model_kwargs={
        "embed_dim": 24,
        "hidden_dim": 32,
        "num_heads": 4,
        "num_layers": 2,
    }, lr=3e-4)
'''

UNSCALED = HEAD + attention("") + block() + model() + "\nnet = ViT(heads=4)\n"
OTHER_SIZE = HEAD + attention() + block() + model() + "\nnet = ViT(dim=48, heads=16)\n"


# Models with a norm after the unrolled blocks (TRAILING), with a stored norm that never runs
# (UNUSED), and with a number of channels that only the constructor's argument shows (FOLDED).
TRAILING = HEAD + attention() + block() + model(
    blocks="nn.Sequential(*[Block(dim, heads) for _ in range(depth)], nn.LayerNorm(dim))").replace(
        "        self.last = nn.LayerNorm(dim)\n", "").replace("self.last(x)", "x") + """
net = ViT(heads=4)
"""
APPENDED = TRAILING.replace(
    "self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)], nn.LayerNorm(dim))",
    "parts = [Block(dim, heads) for _ in range(depth)]\n        parts.append(nn.LayerNorm(dim))\n"
    "        self.blocks = nn.Sequential(*parts)")
UNUSED = RELU.replace("self.last(x)[:, 0]", "x[:, 0]")
FOLDED = HEAD + attention() + block() + model(arguments="dim=24, depth=2, heads=4, channels=2").replace(
    "nn.Conv2d(3, dim, kernel_size=4, stride=4)", "nn.Linear(channels * 16, dim)").replace(
        "self.embed(x).flatten(2).transpose(1, 2)",
        "self.embed(x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2))")


def notebook(text):
    cells = [{"cell_type": "markdown", "source": ["# class ViT(nn.Module):\n", "heads = 2"]}]
    cells.append({"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install x\n"]})
    for part in text.split("\n\nclass"):
        part = part if part.startswith("import") else "class" + part
        cells.append({"cell_type": "code", "outputs": [],
                      "source": [line + "\n" for line in part.split("\n")]})
    return json.dumps({"cells": cells, "nbformat": 4}, indent=1)


def case(name, text, make, result, options="", file="model.py", shown=None,
         weights="model.pt", chans=3):
    """make: the expression that makes the model, with the names of the text."""
    torch.manual_seed(zlib.crc32(name.encode()))
    folder = os.path.join(OUT, name)
    os.makedirs(os.path.dirname(os.path.join(folder, weights)), exist_ok=True)
    names = {"__name__": "model"}
    hidden = "torchvision" in text
    exec(text.replace("from torchvision import transforms\n", "").replace(
        "transforms.", "(lambda *a, **k: None) or torch.") if hidden else text, names)
    net = eval(make, names).eval()
    for p in net.parameters():
        nn.init.normal_(p, std=0.4)
    x = torch.randn(2, chans, 8, 8)
    out = io.BytesIO()
    torch.save(net.state_dict(), out)
    with open(os.path.join(folder, weights), "wb") as f:
        f.write(out.getvalue())
    with open(os.path.join(folder, file), "w") as f:
        f.write(shown or text)
    with torch.no_grad():
        y = net(x)
    if not result[0].isdigit():
        lines.append(" | ".join((name, weights, options, result)))
        return
    np.save(os.path.join(folder, "x.npy"), x.numpy())
    np.save(os.path.join(folder, "y.npy"), y.numpy())
    lines.append(" | ".join((name, weights, options, result)))


def main():
    case("relu", RELU, "ViT(24, heads=4)", "1e-5")
    case("argparse", ARGPARSE, "main()", "1e-5")
    case("epsilon", EPSILON, "create()", "1e-5")
    case("post", POST, "ViT(Config())", "1e-5")
    case("torch", TORCH, "Net()", "1e-5")
    case("softmax", SOFTMAX.replace("prepare =", "unused = lambda:"), "ViT(heads=2)",
         "=the original gives log-probabilities (log_softmax): vit-run gives the logits before",
         shown=SOFTMAX)
    case("normalize", SOFTMAX.replace("prepare =", "unused = lambda:"), "ViT(heads=2)",
         "=mean 0.2 0.4 0.6, std 0.25 0.25 0.5", shown=SOFTMAX)
    case("names", SOFTMAX.replace("prepare =", "unused = lambda:"), "ViT(heads=2)",
         "=the names of the classes: model.py:", shown=SOFTMAX)
    lines.append("relu | model.pt | --code none | num_heads: ")
    lines.append("relu | model.pt | --code tests/data/code/decoys/model.py | 1e-5")
    lines.append("relu | model.pt | --code tests/data/code/torch/model.py | the code shows nothing: "
                 "no class of tests/data/code/torch/model.py has modules with the names")
    lines.append("relu | model.pt | --code tests/data/code/decoys | 1e-5")
    lines.append("relu | model.pt | --code tests/no.py | tests/no.py: ")
    lines.append("relu | model.pt | --code tests/data/code/cases.txt | the code shows nothing: ")
    lines.append("relu | model.pt | --code tests/data/code/wrong/model.py --match-input "
                 "tests/data/code/relu/x.npy --match-logits tests/data/code/relu/y.npy "
                 "| =but the input and output show num_heads=4, not 8")
    os.makedirs(os.path.join(OUT, "wrong"), exist_ok=True)
    with open(os.path.join(OUT, "wrong", "model.py"), "w") as f:
        f.write(RELU.replace("heads=4", "heads=8"))
    case("above", RELU, "ViT(24, heads=4)", "1e-5", weights="weights/model.pt")
    case("contradicts", RELU.replace("self.embed = nn.Conv2d(3",
                                     "self.in_chans = 3\n        self.embed = nn.Conv2d(1"),
         "ViT(24, heads=4)", "=but the weights have in_chans=1, not 3", chans=1)
    case("two_versions", RELU, "ViT(24, heads=4)", "=assumed activation=gelu")
    with open(os.path.join(OUT, "two_versions", "model_old.py"), "w") as f:
        f.write(RELU.replace("nn.ReLU()", "nn.SiLU()"))
    case("sequential", SEQUENTIAL, "net", "1e-5")
    case("decoys", DECOYS, "new", "1e-5")
    case("unscaled", UNSCALED, "net", "1e-5")
    case("root", ROOT, "net", "1e-5")
    case("root_after", AFTER, "net", "1e-5")
    case("nested", NESTED, "v", "1e-5")
    case("wrapped", WRAPPED, "main()", "1e-5")
    case("norm_after", RELU.replace("self.last(x)[:, 0]", "self.last(x.mean(dim=1))"),
         "ViT(24, heads=4)", "1e-5")
    case("norm_before", RELU.replace("self.last(x)[:, 0]", "self.last(x).mean(dim=1)"),
         "ViT(24, heads=4)", "1e-5")
    case("notebook", RELU, "ViT(24, heads=4)", "1e-5", file="Train.ipynb", shown=notebook(RELU))
    case("trailing", TRAILING, "net", "1e-5")
    case("appended", APPENDED, "net", "1e-5")
    case("unused", UNUSED, "ViT(24, heads=4)", "1e-5")
    case("channels", FOLDED, "ViT()", "1e-5", chans=2)
    case("imports", RELU, "ViT(24, heads=4)", "1e-5", file="train.py", shown="from net.vit import ViT\n")
    lines.append("imports | model.pt | --code tests/data/code/imports/train.py | 1e-5")
    lines.append("imports | model.pt | --code tests/data/code/imports | 1e-5")
    at = RELU.index("class ViT")
    os.makedirs(os.path.join(OUT, "imports", "net", "parts"), exist_ok=True)
    with open(os.path.join(OUT, "imports", "net", "vit.py"), "w") as f:
        f.write(HEAD + "from .parts import block\nfrom .parts.block import Block\n\n\n" + RELU[at:])
    with open(os.path.join(OUT, "imports", "net", "parts", "block.py"), "w") as f:
        f.write(RELU[:at])
    case("far", RELU, "ViT(24, heads=4)", "num_heads: ", weights="model/mnist/model.pt")
    case("other_size", OTHER_SIZE, "ViT(heads=4)", "num_heads: ")
    with open(os.path.join(OUT, "cases.txt"), "w") as f:
        f.write("\n".join(lines) + "\n")


sys.exit(main())
