#!/usr/bin/python3
"""prepare.py DIR WIDTH DEPTH HEADS MLP_DIM PATCH IMAGE [MODEL.safetensors] - writes the models

Writes one ViT in several formats: DIR/model.pth with timm's names, the ONNX graphs DIR/f32.onnx and
DIR/int8.onnx, and DIR/TYPE.param and .bin for ncnn. Without a checkpoint, the weights are random,
and random images are written too: 8 as DIR/input.f32, 32 as DIR/input32.f32, and
DIR/calibrate/*.ppm for calibration. The random numbers are always the same.
"""
import json
import os
import sys

import ncnn_model
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

CLASSES = 1000


def random_checkpoint(width, depth, mlp_dim, patch, image):
    """Makes matrices N(0, 0.02), as ViTs are initialised. Norms and biases differ from 1 and 0, so
    an implementation that ignores one is detected."""
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


def read_safetensors(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    header.pop("__metadata__", None)
    return {name: torch.from_numpy(np.frombuffer(data[slice(*t["data_offsets"])], "<f4")
                                   .reshape(t["shape"]).copy()) for name, t in header.items()}


class Graph:
    """Builds an ONNX graph. Each method adds nodes and returns the name of the output."""

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

    def output(self, name, shape):
        """Gives this name to the last node's output, and returns a description of the output."""
        self.nodes[-1].output[0] = name
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.weight(name + ".weight"),
                         self.weight(name + ".bias"), axis=-1, epsilon=1e-6)

    def gelu(self, x):
        """Adds the pattern of nodes that ONNX Runtime fuses."""
        erf = self.node("Erf", self.node("Div", x, self.scalar(2 ** 0.5)))
        product = self.node("Mul", x, self.node("Add", erf, self.scalar(1.0)))
        return self.node("Mul", product, self.scalar(0.5))

    def linear(self, x, name):
        """In int8, adds the nodes of onnxruntime.quantization.quantize_dynamic(per_channel=True)
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
        """Adds ONNX Runtime's fused operator, which is faster than MatMul, Softmax, MatMul."""
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
    g.norm(cls, "norm")
    embedding = g.output("embedding", ["batch", width])
    g.linear("embedding", "head")
    outputs = [g.output("logits", ["batch", CLASSES]), embedding]
    images = helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, image, image])
    graph = helper.make_graph(g.nodes, "vit", [images], outputs, list(g.constants.values()))
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])


def random_image(random, side):
    """Returns bytes [side, side, 3]: squares of several sizes, for large and small features."""
    image = np.zeros((side, side, 3))
    for cell in 64, 16, 4:
        cells = random.uniform(-1, 1, (side // cell + 1, side // cell + 1, 3))
        image += np.kron(cells, np.ones((cell, cell, 1)))[:side, :side]
    return np.clip(127.5 + 60 * image, 0, 255).astype(np.uint8)


def write_images(folder, side):
    for name, count in ("input", 8), ("input32", 32):
        random = np.random.RandomState(1)
        with open("%s/%s.f32" % (folder, name), "wb") as f:
            for _ in range(count):
                pixels = (random_image(random, side) / 255 - 0.5) / 0.5
                f.write(pixels.transpose(2, 0, 1).astype("<f4").tobytes())
    os.makedirs(folder + "/calibrate", exist_ok=True)
    for i in range(8):
        with open("%s/calibrate/%02d.ppm" % (folder, i), "wb") as f:
            f.write(b"P6 %d %d 255\n" % (side, side) + random_image(random, side).tobytes())


def main():
    folder, *sizes = sys.argv[1:8]
    width, depth, heads, mlp_dim, patch, image = map(int, sizes)
    if sys.argv[8:]:
        weights = read_safetensors(sys.argv[8])
    else:
        weights = random_checkpoint(width, depth, mlp_dim, patch, image)
        write_images(folder, image)
    for int8, name in (False, "f32"), (True, "int8"):
        onnx.save(onnx_model(weights, int8, width, depth, heads, patch, image),
                  "%s/%s.onnx" % (folder, name))
        ncnn_model.write("%s/%s" % (folder, name), weights, int8, depth, heads)
    torch.save(weights, folder + "/model.pth")    # last, so its presence means that all is complete


if __name__ == "__main__":
    main()
