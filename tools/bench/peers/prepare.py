#!/usr/bin/python3
"""prepare.py DIR WIDTH DEPTH HEADS MLP_DIM PATCH IMAGE - writes what bench_peers.py compares on.

One random ViT in timm's names as DIR/model.pth, the same as ONNX graphs DIR/f32.onnx and
DIR/int8.onnx, and eight random images as DIR/input.f32. Always the same numbers.
"""
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

CLASSES = 1000


def random_checkpoint(width, depth, mlp_dim, patch, image):
    """Matrices N(0, 0.02) as ViTs are initialised; norms and biases are not left at 1 and 0, so
    that an implementation which forgets one is found out."""
    random = torch.Generator().manual_seed(1)

    def normal(*shape, mean=0.0, std=0.02):
        return mean + std * torch.randn(shape, generator=random)

    d = {"cls_token": normal(1, 1, width),
         "pos_embed": normal(1, (image // patch) ** 2 + 1, width)}

    def linear(name, n, *k):
        d[name + ".weight"], d[name + ".bias"] = normal(n, *k), normal(n)

    def norm(name):
        d[name + ".weight"], d[name + ".bias"] = normal(width, mean=1, std=0.1), normal(width)

    linear("patch_embed.proj", width, 3, patch, patch)
    for i in range(depth):
        block = "blocks.%d." % i
        norm(block + "norm1")
        linear(block + "attn.qkv", 3 * width, width)
        linear(block + "attn.proj", width, width)
        norm(block + "norm2")
        linear(block + "mlp.fc1", mlp_dim, width)
        linear(block + "mlp.fc2", width, mlp_dim)
    norm("norm")
    linear("head", CLASSES, width)
    return d


class Graph:
    """An ONNX graph in the making. Each method adds nodes and returns the name of the output."""

    def __init__(self, weights, int8):
        self.weights, self.int8 = weights, int8
        self.nodes, self.constants, self.quantized = [], {}, {}

    def node(self, op, *inputs, outputs=1, domain="", **attributes):
        names = ["%s_%d_%d" % (op, len(self.nodes), i) for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, name, value):
        self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def weight(self, name):
        return self.constant(name, self.weights[name].numpy())

    def shape(self, *numbers):
        return self.constant("shape_" + "_".join(map(str, numbers)), np.array(numbers, np.int64))

    def scalar(self, value):
        return self.constant("scalar_%r" % value, np.array(value, np.float32))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.weight(name + ".weight"),
                         self.weight(name + ".bias"), axis=-1, epsilon=1e-6)

    def gelu(self, x):
        """The pattern that ONNX Runtime fuses."""
        erf = self.node("Erf", self.node("Div", x, self.scalar(2 ** 0.5)))
        product = self.node("Mul", x, self.node("Add", erf, self.scalar(1.0)))
        return self.node("Mul", product, self.scalar(0.5))

    def linear(self, x, name):
        """int8: the nodes that onnxruntime.quantization.quantize_dynamic(per_channel=True) writes
        (int8 weights, symmetric for each row; uint8 activations, quantized at run time)."""
        w = self.weights[name + ".weight"].numpy().T
        bias = self.weight(name + ".bias")
        if not self.int8:
            return self.node("Add", self.node("MatMul", x, self.constant(name, w)), bias)
        scale = np.abs(w).max(axis=0) / 127
        if x not in self.quantized:
            self.quantized[x] = self.node("DynamicQuantizeLinear", x, outputs=3)
        x8, x_scale, x_zero = self.quantized[x]
        product = self.node("MatMulInteger", x8,
                            self.constant(name, np.rint(w / scale).astype(np.int8)), x_zero,
                            self.constant(name + ".zero", np.zeros(w.shape[1], np.int8)))
        y = self.node("Mul", self.node("Cast", product, to=TensorProto.FLOAT),
                      self.node("Mul", x_scale, self.constant(name + ".scale", scale)))
        return self.node("Add", y, bias)

    def attention(self, x, name, width, heads):
        """ONNX Runtime's own fused operator: faster there than MatMul, Softmax, MatMul."""
        q, k, v = self.node("Split", self.linear(x, name + ".qkv"),
                            self.shape(width, width, width), outputs=3, axis=2)
        context = self.node("MultiHeadAttention", q, k, v, domain="com.microsoft", num_heads=heads)
        return self.linear(context, name + ".proj")


def onnx_model(weights, int8, width, depth, heads, patch, image):
    g = Graph(weights, int8)
    x = g.node("Conv", "input", g.weight("patch_embed.proj.weight"),
               g.weight("patch_embed.proj.bias"), strides=[patch, patch])
    x = g.node("Transpose", g.node("Reshape", x, g.shape(0, width, -1)), perm=[0, 2, 1])
    batch = g.node("Slice", g.node("Shape", "input"), g.shape(0), g.shape(1))
    cls = g.node("Expand", g.weight("cls_token"),
                 g.node("Concat", batch, g.shape(1, width), axis=0))
    x = g.node("Add", g.node("Concat", cls, x, axis=1), g.weight("pos_embed"))
    for i in range(depth):
        block = "blocks.%d." % i
        x = g.node("Add", x, g.attention(g.norm(x, block + "norm1"), block + "attn", width, heads))
        hidden = g.gelu(g.linear(g.norm(x, block + "norm2"), block + "mlp.fc1"))
        x = g.node("Add", x, g.linear(hidden, block + "mlp.fc2"))
    cls = g.node("Gather", x, g.constant("first", np.array(0, np.int64)), axis=1)
    logits = g.linear(g.norm(cls, "norm"), "head")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        g.nodes, "vit", [value("input", TensorProto.FLOAT, ["batch", 3, image, image])],
        [value(logits, TensorProto.FLOAT, ["batch", CLASSES])], list(g.constants.values()))
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def main():
    folder = sys.argv[1]
    width, depth, heads, mlp_dim, patch, image = map(int, sys.argv[2:])
    weights = random_checkpoint(width, depth, mlp_dim, patch, image)
    torch.save(weights, folder + "/model.pth")
    for int8, name in (False, "f32"), (True, "int8"):
        onnx.save(onnx_model(weights, int8, width, depth, heads, patch, image),
                  "%s/%s.onnx" % (folder, name))
    pixels = np.random.RandomState(1).standard_normal((8, 3, image, image))
    pixels.astype("<f4").tofile(folder + "/input.f32")


if __name__ == "__main__":
    main()
