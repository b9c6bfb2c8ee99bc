"""ncnn_model.py - writes a ViT for ncnn: .param lists the layers, .bin has their weights in order.

int8 weights are those of ncnn's program ncnn2int8: symmetric, with a scale for each row of q, k and
v, and a scale for each other matrix. Inputs are quantized at run time. bf16 is an option of f32.
"""
import struct

import numpy as np

F32, INT8 = 0, 0x000D4B38    # prefix of weights of either type


class Net:
    def __init__(self, data, weights, int8):
        self.data, self.weights, self.int8 = data, weights, int8
        self.layers, self.blobs = [], 0

    def add(self, kind, inputs, output=None, outputs=1, **params):
        """Adds a layer. The names of parameters are numbers: p3=1 sets number 3."""
        names = ["%s_%d_%d" % (kind, len(self.layers), i) for i in range(outputs)]
        if output:
            names = [output]
        words = [parameter(int(key[1:]), value) for key, value in params.items()]
        self.layers.append(" ".join([kind, "layer%d" % len(self.layers), str(len(inputs)),
                                     str(outputs)] + inputs + names + words))
        self.blobs += outputs
        return names[0] if outputs == 1 else names

    def plain(self, *tensors):
        for tensor in tensors:
            self.data.write(np.asarray(tensor, "<f4").tobytes())

    def tagged(self, matrix, scale=None):
        """Writes a matrix, in int8 if it has a scale; each row may have its own scale."""
        if scale is None:
            self.data.write(struct.pack("<I", F32))
            self.plain(matrix)
        else:
            rows = np.rint(matrix * np.reshape(scale, (-1, 1))).astype(np.int8).tobytes()
            self.data.write(struct.pack("<I", INT8) + rows + bytes(-len(rows) % 4))

    def split(self, x, count):
        return self.add("Split", [x], outputs=count)

    def sum(self, a, b):
        return self.add("BinaryOp", [a, b], p0=0)

    def norm(self, x, name, output=None):
        weight = self.weights[name + ".weight"].numpy()
        self.plain(weight, self.weights[name + ".bias"].numpy())
        return self.add("LayerNorm", [x], output, p0=len(weight), p1=1e-6, p2=1)

    def linear(self, x, name, output=None):
        weight = self.weights[name + ".weight"].numpy()
        scale = 127 / abs(weight).max() if self.int8 else None
        self.tagged(weight, scale)
        self.tagged(self.weights[name + ".bias"].numpy())
        if self.int8:
            self.plain(scale)
        n, k = weight.shape
        return self.add("Gemm", [x], output, p3=1, p5=1, p6=1, p8=n, p9=k, p10=4,
                        p18=2 * self.int8)

    def attention(self, x, name, heads):
        qkv = self.weights[name + ".qkv.weight"].numpy()
        out = self.weights[name + ".proj.weight"].numpy()
        biases = np.split(self.weights[name + ".qkv.bias"].numpy(), 3)
        scales = [None] * 4
        if self.int8:
            scales = np.split(127 / abs(qkv).max(axis=1), 3) + [127 / abs(out).max()]
        matrices = np.split(qkv, 3) + [out]
        biases.append(self.weights[name + ".proj.bias"].numpy())
        for matrix, bias, scale in zip(matrices, biases, scales):
            self.tagged(matrix, scale)
            self.plain(bias)
        if self.int8:
            self.plain(*scales)
        return self.add("MultiHeadAttention", self.split(x, 3), p0=len(out), p1=heads, p2=out.size,
                        p18=2 * self.int8)


def parameter(number, value):
    if isinstance(value, list):
        return "%d=%s" % (-23300 - number, ",".join(map(str, [len(value)] + value)))
    return "%d=%s" % (number, value)


def embed(net, weights):
    """Adds the class token, the patches and the positions."""
    conv = weights["patch_embed.proj.weight"].numpy()
    width, patch = len(conv), conv.shape[-1]
    image = net.add("Input", [], "input")
    for name in "cls_token", "pos_embed":
        tokens = weights[name].numpy()[0]
        net.plain(tokens)
        net.add("MemoryData", [], name, p0=width, p1=len(tokens))
    net.tagged(conv)
    net.plain(weights["patch_embed.proj.bias"].numpy())
    x = net.add("Convolution", [image], p0=width, p1=patch, p3=patch, p5=1, p6=conv.size)
    x = net.add("Permute", [net.add("Reshape", [x], p0=-1, p1=width)], p0=1)
    return net.sum(net.add("Concat", ["cls_token", x], p0=0), "pos_embed")


def write(path, weights, int8, depth, heads):
    with open(path + ".bin", "wb") as data:
        net = Net(data, weights, int8)
        x = embed(net, weights)
        for i in range(depth):
            block = "blocks.%d." % i
            x, skipped = net.split(x, 2)
            x = net.sum(net.attention(net.norm(x, block + "norm1"), block + "attn", heads), skipped)
            x, skipped = net.split(x, 2)
            hidden = net.add("GELU", [net.linear(net.norm(x, block + "norm2"), block + "mlp.fc1")])
            x = net.sum(net.linear(hidden, block + "mlp.fc2"), skipped)
        x = net.add("Crop", [x], p9=[0], p10=[1], p11=[0])
        x = net.norm(x, "norm")
        embedding, x = net.split(x, 2)
        net.add("Reshape", [embedding], "embedding", p0=-1)
        net.add("Reshape", [net.linear(x, "head")], "logits", p0=-1)
    with open(path + ".param", "w") as f:
        f.write("\n".join(["7767517", "%d %d" % (len(net.layers), net.blobs)] + net.layers) + "\n")
