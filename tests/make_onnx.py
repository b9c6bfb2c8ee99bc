#!/usr/bin/python3
"""Writes tests/data/onnx: small models as exporters write them, and their weights as safetensors.

    /usr/bin/python3 tests/make_onnx.py        (Debian: python3-torch, python3-onnx)

Run it from the root of the repository. For authoring only: the fixtures are committed and the tests
need no Python. The models are defined here, with the names of timm or of transformers.
torch.onnx.export writes the graphs, and this script makes from them the types that other tools make
of a graph.
"""
import io
import json
import math
import os
import shutil
import struct
import warnings

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")
OUT = os.path.join("tests", "data", "onnx")
WIDTH, DEPTH, HEADS, PATCH, SIZE, CLASSES, HIDDEN = 16, 2, 2, 4, 16, 3, 32


# === timm's names ===


class Attention(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=bias)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.variant = ""

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        if self.variant == "fused":  # as scaled_dot_product_attention is exported
            root = torch.sqrt(1 / torch.sqrt(torch.tensor(q.size(-1)).float()))
            weights = (q * root) @ (k.transpose(-2, -1) * root)
        elif self.variant == "rotary":
            half = c // HEADS // 2
            q = q * 0.5 + torch.cat([-q[..., half:], q[..., :half]], -1) * 0.5
            weights = (q * (c // HEADS) ** -0.5) @ k.transpose(-2, -1)
        else:
            weights = (q * (0.3 if self.variant == "factor" else (c // HEADS) ** -0.5)) @ k.transpose(
                -2, -1)
        if self.variant == "positions":
            weights = weights + torch.ones(1, HEADS, 17, 17)
        return self.proj((weights.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c))


class Mlp(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.act = act
        self.fc2 = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


class LayerScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    def __init__(self, act, eps, scale, bias):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=eps)
        self.attn = Attention(bias)
        self.ls1 = LayerScale() if scale else nn.Identity()
        self.norm2 = nn.LayerNorm(WIDTH, eps=eps)
        self.mlp = Mlp(act)
        self.ls2 = LayerScale() if scale else nn.Identity()

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, WIDTH, PATCH, PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Timm(nn.Module):
    def __init__(self, act=None, eps=1e-6, scale=False, pool="token", bias=True):
        super().__init__()
        act = act or nn.GELU()
        self.pool = pool
        self.patch_embed = PatchEmbed()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embed = nn.Parameter(torch.zeros(1, (SIZE // PATCH) ** 2 + 1, WIDTH))
        self.blocks = nn.Sequential(*[Block(act, eps, scale, bias) for _ in range(DEPTH)])
        if pool == "avg":
            self.fc_norm = nn.LayerNorm(WIDTH, eps=eps)
        else:
            self.norm = nn.LayerNorm(WIDTH, eps=eps)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        x = self.blocks(x)
        x = self.fc_norm(x[:, 1:].mean(1)) if self.pool == "avg" else self.norm(x)[:, 0]
        return self.head(x)


# === transformers' names ===


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def heads(self, x):
        return x.view(x.size()[:-1] + (HEADS, WIDTH // HEADS)).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k, v = self.heads(self.query(x)), self.heads(self.key(x)), self.heads(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(WIDTH // HEADS)
        x = torch.matmul(scores.softmax(-1), v).permute(0, 2, 1, 3).contiguous()
        return x.view(x.size()[:-2] + (WIDTH,))


class Dense(nn.Module):
    def __init__(self, columns, rows):
        super().__init__()
        self.dense = nn.Linear(columns, rows)


class ViTAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.output = Dense(WIDTH, WIDTH)

    def forward(self, x):
        return self.output.dense(self.attention(x))


class ViTLayer(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.attention = ViTAttention()
        self.intermediate = Dense(WIDTH, HIDDEN)
        self.output = Dense(HIDDEN, WIDTH)
        self.layernorm_before = nn.LayerNorm(WIDTH, eps=eps)
        self.layernorm_after = nn.LayerNorm(WIDTH, eps=eps)

    def forward(self, x):
        x = self.attention(self.layernorm_before(x)) + x
        return self.output.dense(F.gelu(self.intermediate.dense(self.layernorm_after(x)))) + x


class Named(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class ViT(nn.Module):
    def __init__(self, eps=1e-12):
        super().__init__()
        tokens = (SIZE // PATCH) ** 2 + 1
        embeddings = Named(
            cls_token=nn.Parameter(torch.zeros(1, 1, WIDTH)),
            position_embeddings=nn.Parameter(torch.zeros(1, tokens, WIDTH)),
            patch_embeddings=Named(projection=nn.Conv2d(3, WIDTH, PATCH, PATCH)),
        )
        self.vit = Named(
            embeddings=embeddings,
            encoder=Named(layer=nn.ModuleList([ViTLayer(eps) for _ in range(DEPTH)])),
            layernorm=nn.LayerNorm(WIDTH, eps=eps),
        )
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, pixel_values):
        e = self.vit.embeddings
        x = e.patch_embeddings.projection(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat((e.cls_token.expand(x.shape[0], -1, -1), x), 1) + e.position_embeddings
        for layer in self.vit.encoder.layer:
            x = layer(x)
        return self.classifier(self.vit.layernorm(x)[:, 0, :])


# === CLIP's names ===


class ClipAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (
            nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x, b):
        return x.view(b, -1, HEADS, WIDTH // HEADS).transpose(1, 2).contiguous()

    def forward(self, x):
        b, n, _ = x.size()
        shape = (b * HEADS, -1, WIDTH // HEADS)
        q = self.heads(self.q_proj(x) * (WIDTH // HEADS) ** -0.5, b).view(*shape)
        k, v = self.heads(self.k_proj(x), b).view(*shape), self.heads(self.v_proj(x), b).view(*shape)
        x = torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1), v)
        x = x.view(b, HEADS, n, WIDTH // HEADS).transpose(1, 2)
        return self.out_proj(x.reshape(b, n, WIDTH))


class QuickGelu(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ClipLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = ClipAttention()
        self.layer_norm1 = nn.LayerNorm(WIDTH)
        self.mlp = Mlp(QuickGelu())
        self.layer_norm2 = nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class ClipTower(nn.Module):
    def __init__(self):
        super().__init__()
        tokens = (SIZE // PATCH) ** 2 + 1
        embeddings = Named(
            class_embedding=nn.Parameter(torch.zeros(WIDTH)),
            patch_embedding=nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False),
            position_embedding=nn.Embedding(tokens, WIDTH),
        )
        embeddings.register_buffer("position_ids", torch.arange(tokens).expand((1, -1)))
        self.embeddings = embeddings
        self.pre_layrnorm = nn.LayerNorm(WIDTH)
        self.encoder = Named(layers=nn.ModuleList([ClipLayer() for _ in range(DEPTH)]))
        self.post_layernorm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        e = self.embeddings
        x = e.patch_embedding(x).flatten(2).transpose(1, 2)
        x = torch.cat([e.class_embedding.expand(x.shape[0], 1, -1), x], 1)
        x = self.pre_layrnorm(x + e.position_embedding(e.position_ids))
        for layer in self.encoder.layers:
            x = layer(x)
        return self.post_layernorm(x[:, 0, :])


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_model = ClipTower()
        self.visual_projection = nn.Linear(WIDTH, 8, bias=False)

    def forward(self, pixel_values):
        return self.visual_projection(self.vision_model(pixel_values))


# === Files ===


def randomize(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn(p.shape, generator=g) * 0.1)
            if "norm" in name and name.endswith("weight"):
                p.add_(1)
    return model.eval()


def export(model, opset, dynamic=True, folding=True):
    f = io.BytesIO()
    axes = {"pixel_values": {0: "batch"}} if dynamic else None
    torch.onnx.export(model, torch.zeros(1 if not dynamic else 2, 3, SIZE, SIZE), f,
                      opset_version=opset, input_names=["pixel_values"], output_names=["logits"],
                      dynamic_axes=axes, do_constant_folding=folding)
    return onnx.load_model_from_string(f.getvalue())


def npy(path, x):
    numpy.save(path, x.detach().numpy().astype("<f4"))


def safetensors(path, tensors):
    header, data = {}, b""
    for name, x in tensors.items():
        x = numpy.ascontiguousarray(x.detach().numpy(), "<f4")
        header[name] = {"dtype": "F32", "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def parameters(model):
    return {k: v for k, v in model.state_dict().items() if v.is_floating_point()}


IMAGE = torch.randn(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(7))


def case(name, model, graph):
    """Writes the graph, the same weights as safetensors, and PyTorch's logits of IMAGE."""
    onnx.save(graph, os.path.join(OUT, name + ".onnx"))
    safetensors(os.path.join(OUT, name + ".safetensors"), parameters(model))
    npy(os.path.join(OUT, name + ".npy"), model(IMAGE))


# === What other tools make of a graph ===


def arrays(graph):
    return {t.name: t for t in graph.graph.initializer}


def replace(graph, *tensors):
    for t in tensors:
        for i in [i for i in graph.graph.initializer if i.name == t.name]:
            graph.graph.initializer.remove(i)
        graph.graph.initializer.append(t)


def tensor(name, x, kind=None):
    t = numpy_helper.from_array(numpy.ascontiguousarray(x), name)
    if kind:
        t.data_type = kind
    return t


def weight_of(graph, node):
    """The model's name of a linear layer's weight: that of its bias, or of its module."""
    for add in graph.graph.node:
        if add.op_type == "Add" and node.output[0] in add.input:
            for name in add.input:
                if name.endswith(".bias"):
                    return name[:-4] + "weight"
    return ".".join(node.name.split("/")[1:-1]) + ".weight"


def linears(graph):
    names = arrays(graph)
    return [n for n in graph.graph.node if n.op_type == "MatMul" and n.input[1] in names]


def set_weight(model, name, x):
    with torch.no_grad():
        dict(model.named_parameters())[name].copy_(torch.from_numpy(numpy.ascontiguousarray(x)))


def to_half(model, graph):
    """As onnxconverter_common.float16 does: all floats, with casts at both ends."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.half().float())
    for t in list(graph.graph.initializer):
        if t.data_type == TensorProto.FLOAT:
            replace(graph, tensor(t.name, numpy_helper.to_array(t).astype("<f2")))
    for n in graph.graph.node:
        for a in n.attribute:
            if a.name == "value" and a.t.data_type == TensorProto.FLOAT:
                a.t.CopyFrom(tensor("", numpy_helper.to_array(a.t).astype("<f2")))
            if n.op_type == "Cast" and a.name == "to" and a.i == TensorProto.FLOAT:
                a.i = TensorProto.FLOAT16
        n.input[:] = ["graph_input_cast_0" if i == "pixel_values" else i for i in n.input]
        n.output[:] = ["graph_output_cast_0" if i == "logits" else i for i in n.output]
    graph.graph.node.insert(0, helper.make_node("Cast", ["pixel_values"], ["graph_input_cast_0"],
                                                "graph_input_cast0", to=TensorProto.FLOAT16))
    graph.graph.node.append(helper.make_node("Cast", ["graph_output_cast_0"], ["logits"],
                                             "graph_output_cast0", to=TensorProto.FLOAT))


def to_qdq(model, graph):
    """Weights of int8 with a scale for each output, behind DequantizeLinear."""
    for n in linears(graph):
        name, w = weight_of(graph, n), numpy_helper.to_array(arrays(graph)[n.input[1]])
        scale = (abs(w).max(0) / 127).astype("<f4")
        q = numpy.clip(numpy.rint(w / scale), -127, 127).astype("i1")
        set_weight(model, name, (q.astype("<f4") * scale).T)
        old = n.input[1]
        replace(graph, tensor(old + "_quantized", q), tensor(old + "_scale", scale),
                tensor(old + "_zero_point", numpy.zeros(len(scale), "i1")))
        n.input[1] = old + "_DequantizeLinear_Output"
        at = list(graph.graph.node).index(n)
        graph.graph.node.insert(at, helper.make_node(
            "DequantizeLinear", [old + "_quantized", old + "_scale", old + "_zero_point"],
            [n.input[1]], old + "_DequantizeLinear", axis=1))


def to_integers(model, graph):
    """As onnxruntime.quantization.quantize_dynamic does: uint8 on both sides, Gemm as MatMul."""
    for n in [n for n in graph.graph.node if n.op_type == "Gemm"]:
        name, bias, out = n.input[1], n.input[2], n.output[0]
        replace(graph, tensor(name, numpy_helper.to_array(arrays(graph)[name]).T))
        at = list(graph.graph.node).index(n)
        graph.graph.node.insert(at + 1, helper.make_node("Add", [out + "_MatMul", bias], [out],
                                                         n.name + "_Add"))
        n.CopyFrom(helper.make_node("MatMul", [n.input[0], name], [out + "_MatMul"],
                                    n.name + "_MatMul"))
    for n in linears(graph):
        name, w = weight_of(graph, n), numpy_helper.to_array(arrays(graph)[n.input[1]])
        scale = numpy.float32((w.max() - w.min()) / 255)
        zero = numpy.rint(-w.min() / scale).astype("u1")
        q = numpy.clip(numpy.rint(w / scale) + zero, 0, 255).astype("u1")
        set_weight(model, name, ((q.astype("<f4") - zero.astype("<f4")) * scale).T)
        x, old, out = n.input[0], n.input[1], n.output[0]
        for t in [t for t in graph.graph.initializer if t.name == old]:
            graph.graph.initializer.remove(t)
        replace(graph, tensor(old + "_quantized", q), tensor(old + "_scale", scale),
                tensor(old + "_zero_point", zero))
        at = list(graph.graph.node).index(n)
        p = n.name + "_"
        new = [
            helper.make_node("DynamicQuantizeLinear", [x], [p + "q", p + "s", p + "z"], p + "quant"),
            helper.make_node("MatMulInteger", [p + "q", old + "_quantized", p + "z",
                                               old + "_zero_point"], [p + "i"], p + "integer"),
            helper.make_node("Cast", [p + "i"], [p + "f"], p + "cast", to=TensorProto.FLOAT),
            helper.make_node("Mul", [p + "s", old + "_scale"], [p + "both"], p + "scales"),
            helper.make_node("Mul", [p + "f", p + "both"], [out], p + "scaled"),
        ]
        graph.graph.node.remove(n)
        for i, node in enumerate(new):
            graph.graph.node.insert(at + i, node)


def to_blocks(model, graph, with_zeros):
    """MatMulNBits: blocks of 16 in 4 bits."""
    for n in linears(graph):
        name = weight_of(graph, n)
        w = numpy_helper.to_array(arrays(graph)[n.input[1]]).T
        rows, columns = w.shape
        blocks = w.reshape(rows, -1, 16)
        low, high = blocks.min(-1, keepdims=True), blocks.max(-1, keepdims=True)
        if with_zeros:
            scale = ((high - low) / 15).astype("<f4")
            zero = numpy.clip(numpy.rint(-low / scale), 0, 15)
        else:
            scale = (numpy.maximum(abs(low), abs(high)) / 7.5).astype("<f4")
            zero = numpy.full_like(scale, 8)
        q = numpy.clip(numpy.rint(blocks / scale) + zero, 0, 15)
        values = ((q - zero).astype("<f4") * scale).astype("<f4")
        set_weight(model, name, values.reshape(rows, columns))
        q = q.astype("u1")
        old, x, out = n.input[1], n.input[0], n.output[0]
        replace(graph, tensor(old + "_Q4", q[..., 0::2] | q[..., 1::2] << 4),
                tensor(old + "_scales", scale.reshape(-1)))
        inputs = [x, old + "_Q4", old + "_scales"]
        if with_zeros:
            z = zero.reshape(rows, -1).astype("u1")
            if z.shape[1] % 2:
                z = numpy.concatenate([z, numpy.zeros((rows, 1), "u1")], 1)
            replace(graph, tensor(old + "_zero_points", (z[:, 0::2] | z[:, 1::2] << 4).reshape(-1)))
            inputs.append(old + "_zero_points")
        for t in [t for t in graph.graph.initializer if t.name == old]:
            graph.graph.initializer.remove(t)
        n.CopyFrom(helper.make_node("MatMulNBits", inputs, [out], n.name + "_Q4",
                                    domain="com.microsoft", K=columns, N=rows, bits=4,
                                    block_size=16))


def to_fields(graph):
    """Stores numbers in fields of their type, not as raw bytes."""
    for t in list(graph.graph.initializer):
        x = numpy_helper.to_array(t)
        if t.data_type == TensorProto.FLOAT:
            replace(graph, helper.make_tensor(t.name, t.data_type, x.shape, x.reshape(-1)))


def to_external(graph, name):
    """Stores tensors in a file beside the graph."""
    data = b""
    for t in graph.graph.initializer:
        raw = t.raw_data
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        for key, value in (("location", name), ("offset", len(data)), ("length", len(raw))):
            entry = t.external_data.add()
            entry.key, entry.value = key, str(value)
        data += raw + b"\0" * (-len(raw) % 64)
    return data


def refused(name, model, change=None, opset=17):
    graph = export(randomize(model, 1), opset)
    if change:
        change(graph)
    onnx.save(graph, os.path.join(OUT, "refused-" + name + ".onnx"))


def with_variant(variant, **options):
    model = Timm(**options)
    for block in model.blocks:
        block.attn.variant = variant
    return model


class Normalized(Timm):
    def forward(self, x):
        return super().forward((x - 0.5) / 0.5)


class Windows(Timm):
    """Attention within halves of the tokens."""

    def forward(self, x):
        x = self.patch_embed(x)
        for b in self.blocks:
            y = b.norm1(x)
            y = y.view(-1, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, WIDTH)
            y = b.attn(y)
            y = y.view(-1, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, WIDTH)
            x = x + y
            x = x + b.mlp(b.norm2(x))
        return self.head(self.norm(x).mean(1))


class Twice(Timm):
    def forward(self, x):
        return super().forward(F.conv2d(x, torch.ones(3, 3, 1, 1)))


class Hard(nn.Module):
    def forward(self, x):
        return F.hardswish(x)


class AfterNorm(Timm):
    """The norm at the end of a branch."""

    def forward(self, x):
        x = self.patch_embed(x)
        for b in self.blocks:
            x = x + b.norm1(b.attn(x))
            x = x + b.norm2(b.mlp(x))
        return self.head(self.norm(x).mean(1))


def shorten(graph):
    """Values have names of one or two letters, and nodes have no names unless they need one."""
    names = arrays(graph)
    short = {}

    def name(v):
        if v in names or not v:
            return v
        return short.setdefault(v, "v%d" % len(short))

    for n in graph.graph.node:
        n.name = n.name if "projection" in n.name else ""
        n.input[:] = [name(v) for v in n.input]
        n.output[:] = [name(v) for v in n.output]
    for v in list(graph.graph.input) + list(graph.graph.output):
        v.name = name(v.name)
    del graph.graph.value_info[:]


def without_names(graph):
    """No node and no tensor has a meaningful name."""
    names = {t.name: "onnx::%d" % i for i, t in enumerate(graph.graph.initializer)}
    for t in graph.graph.initializer:
        t.name = names[t.name]
    for n in graph.graph.node:
        n.input[:] = [names.get(v, v) for v in n.input]
    shorten(graph)


def seeds():
    """Graphs of a few kilobytes, from which the fuzzer starts."""
    global WIDTH, DEPTH, HIDDEN, PATCH, SIZE
    kept = WIDTH, DEPTH, HIDDEN, PATCH, SIZE
    folder = os.path.join(OUT, "seeds")
    os.makedirs(folder)
    for name, width, make_model, opset, change in (
            ("timm", 4, Timm, 14, lambda m, g: None),
            ("avg", 4, lambda: Timm(nn.SiLU(), pool="avg", scale=True), 17, lambda m, g: None),
            ("tanh", 4, lambda: Timm(nn.GELU(approximate="tanh")), 17, lambda m, g: None),
            ("vit", 4, ViT, 17, to_integers), ("clip", 4, Clip, 17, to_qdq),
            ("half", 4, Timm, 17, to_half),
            ("blocks", 16, Timm, 17, lambda m, g: to_blocks(m, g, True)),
            ("fields", 4, Timm, 17, lambda m, g: to_fields(g))):
        WIDTH, DEPTH, HIDDEN, PATCH, SIZE = width, 1, width, 2, 4
        model = randomize(make_model(), 5)
        graph = export(model, opset, dynamic=name == "timm")
        change(model, graph)
        shorten(graph)
        onnx.save(graph, os.path.join(folder, name + ".onnx"))
    WIDTH, DEPTH, HIDDEN, PATCH, SIZE = kept


def make():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    seeds()
    npy(os.path.join(OUT, "x.npy"), IMAGE)
    plain = (
        ("timm-14", lambda: Timm(), 14), ("timm-17", lambda: Timm(), 17),
        ("timm-avg", lambda: Timm(scale=True, bias=False, pool="avg"), 17),
        ("timm-tanh", lambda: Timm(nn.GELU(approximate="tanh"), eps=1e-5), 17),
        ("timm-relu", lambda: Timm(nn.ReLU()), 14), ("timm-silu", lambda: Timm(nn.SiLU()), 14),
        ("timm-fused", lambda: with_variant("fused"), 17),
        ("vit-14", ViT, 14), ("vit-17", ViT, 17), ("clip-14", Clip, 14),
    )
    for name, make_model, opset in plain:
        model = randomize(make_model(), 1)
        case(name, model, export(model, opset))
    for name, options in (("static", {"dynamic": False}), ("unfolded", {"folding": False})):
        for family, make_model in (("timm", Timm), ("clip", Clip)):
            model = randomize(make_model(), 2)
            case(family + "-" + name, model, export(model, 14, **options))
    for name, make_model, change in (
            ("timm-f16", Timm, to_half), ("vit-qdq", ViT, to_qdq), ("vit-int8", ViT, to_integers),
            ("vit-q4", ViT, lambda m, g: to_blocks(m, g, False)),
            ("vit-q4-zeros", ViT, lambda m, g: to_blocks(m, g, True))):
        model = randomize(make_model(), 3)
        graph = export(model, 14)
        change(model, graph)
        case(name, model, graph)
    for name, make_model, opset in (("timm-nameless", lambda: Timm(scale=True), 14),
                                    ("timm-avg-nameless", lambda: Timm(pool="avg"), 17),
                                    ("vit-nameless", ViT, 17)):
        model = randomize(make_model(), 6)
        graph = export(model, opset)
        without_names(graph)
        case(name, model, graph)
    model = randomize(Timm(), 4)
    graph = export(model, 14)
    to_fields(graph)
    case("timm-fields", model, graph)
    graph = export(model, 14)
    data = to_external(graph, "timm-external.onnx_data")
    case("timm-external", model, graph)
    with open(os.path.join(OUT, "timm-external.onnx_data"), "wb") as f:
        f.write(data)

    def outside(g):
        to_external(g, "../timm-external.onnx_data")

    def missing(g):
        to_external(g, "nowhere.onnx_data")

    def idle(g):
        """The bias of fc1 is added for nobody: its node has no output."""
        without_names(g)
        biases = [t.name for t in g.graph.initializer if len(t.dims) == 1]
        adds = [n for n in g.graph.node if n.op_type == "Add" and n.input[0] in biases]
        add = adds[2]  # of fc1
        for n in g.graph.node:
            for i, name in enumerate(n.input):
                if name == add.output[0]:
                    n.input[i] = add.input[1]
        del add.output[:]

    refused("outside", Timm(), outside)
    refused("missing", Timm(), missing)
    refused("normalized", Normalized())
    refused("windows", Windows())
    refused("twice", Twice())
    refused("idle", Timm(), idle)
    refused("hardswish", Timm(Hard()))
    refused("after-norm", AfterNorm())
    for variant in ("rotary", "factor", "positions"):
        refused(variant, with_variant(variant))


if __name__ == "__main__":
    make()
