#!/usr/bin/python3
"""Writes tests/data/families: models as their publishers name the tensors, beside PyTorch's logits.

    /usr/bin/python3 tests/make_families.py        (Debian: python3-torch, python3-numpy)

For authoring only: its output is committed, and the test needs no Python. test_own.sh reads
the folder, in the form that make_own.py describes. The definitions here are our own, after the
published definitions. The weights are random.
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
    """The heads lie side by side in the last axis."""
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


def case(name, run, options, tolerance, config=None, preprocessor=None, seed=1, size=(SIDE, SIDE),
         output="tokens"):
    folder = os.path.join(OUT, name)
    os.makedirs(folder, exist_ok=True)
    net = Tensors(seed)
    x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(2))
    run(net, x)
    if isinstance(tolerance, float):
        own.np.save(folder + "/x.npy", x.numpy())
        y = run(net, x)
        own.np.save("%s/%s.npy" % (folder, "y" if y.dim() == 2 else output), y.numpy())
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


# === C-RADIO ===

def radio(net, x):
    """As NVIDIA's code for an input smaller than the training's: positions by bilinear resampling
    that keeps the corners. Returns all tokens: eight of classes and registers, then the patches."""
    at = "radio_model.model."
    mean, std = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
    net.state["radio_model.input_conditioner.norm_mean"] = torch.tensor(mean).reshape(3, 1, 1)
    net.state["radio_model.input_conditioner.norm_std"] = torch.tensor(std).reshape(3, 1, 1)
    net.state["radio_model.summary_idxs"] = torch.tensor([0, 1, 2])
    side = SIDE // PATCH
    x = F.unfold(x, PATCH, stride=PATCH).transpose(1, 2)
    x = net.linear(x, at + "patch_generator.embedder", D, False)
    pos = net.get(at + "patch_generator.pos_embed", 1, 25, D)
    pos = pos.transpose(1, 2).unflatten(2, (5, 5))
    pos = F.interpolate(pos, (side, side), mode="bilinear", align_corners=True)
    token = net.get(at + "patch_generator.cls_token.token", 8, D)
    x = torch.cat((token.expand(len(x), 8, D), x + pos.flatten(2).transpose(1, 2)), 1)
    for i in range(2):
        x = timm_block(net, x, at + "blocks.%d." % i)
    return x


def timm_block(net, x, block, eps=1e-6):
    y = net.linear(net.norm(x, block + "norm1", eps), block + "attn.qkv", 3 * D)
    x = x + net.linear(attend(*y.chunk(3, -1)), block + "attn.proj", D)
    y = F.gelu(net.linear(net.norm(x, block + "norm2", eps), block + "mlp.fc1", HIDDEN))
    return x + net.linear(y, block + "mlp.fc2", D)


# === Sapiens 2 ===

def rms(net, x, name, eps=1e-6):
    scale = (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
    return x * scale * net.get(name + ".weight", x.shape[-1], near=1)


def dinov3_rotation(periods, prefix, side):
    """Turns the patches' halves of a head; the first tokens stay."""
    at = 2 * (torch.arange(side) + 0.5) / side - 1
    rows, columns = torch.meshgrid(at, at, indexing="ij")
    angles = torch.stack((rows.flatten(), columns.flatten()), 1)[:, :, None]
    angles = (2 * torch.pi * angles / periods).flatten(1).tile(2)

    def rotate(x):
        patches = x[..., prefix:, :]
        first, second = patches.chunk(2, -1)
        patches = patches * angles.cos() + torch.cat((-second, first), -1) * angles.sin()
        return torch.cat((x[..., :prefix, :], patches), -2)
    return rotate


def sapiens2(net, x):
    x = net.patches(x, "patch_embed.projection")
    prefix = net.get("cls_token", 1, 1, D), net.get("storage_tokens", 1, 3, D)
    x = torch.cat([p.expand(len(x), -1, D) for p in prefix] + [x], 1)
    rotate = dinov3_rotation(net.get("rope_embed.periods", 1, near=3), 4, SIDE // PATCH)
    head = D // 4
    for i in range(3):
        block, keys = "blocks.%d." % i, 2 if i == 1 else 4
        y = rms(net, x, block + "ln1")
        q = net.linear(y, block + "attn.wq", D)
        k, v = (net.linear(y, block + "attn.w" + n, keys * head) for n in "kv")
        q, k = (rms(net, z.unflatten(-1, (-1, head)), block + "attn.%s_norm" % n)
                for z, n in ((q, "q"), (k, "k")))
        k, v = (z.repeat_interleave(4 // keys, 2).flatten(2)
                for z in (k, v.unflatten(-1, (-1, head))))
        y = net.linear(attend(q.flatten(2), k, v, 4, rotate), block + "attn.proj", D)
        x = x + y * net.get(block + "attn.gamma.weight", D)
        gate, y = net.linear(rms(net, x, block + "ln2"), block + "ffn.w12", 2 * HIDDEN).chunk(2, -1)
        x = x + net.linear(F.silu(gate) * y, block + "ffn.w3", D)
    return rms(net, x, "ln1")


# === Franca ===

def franca(net, x):
    """DINOv2's code in chunks of blocks, always with SwiGLU; the class token after the norm."""
    at = "module.backbone."
    x = net.patches(x, at + "patch_embed.proj")
    x = torch.cat((net.get(at + "cls_token", 1, 1, D).expand(len(x), 1, D), x), 1)
    x = x + net.get(at + "pos_embed", 1, x.shape[1], D)
    net.get(at + "mask_token", 1, D)
    for i in range(2):
        block = at + "blocks.%d.%d." % (i, i)
        y = net.linear(net.norm(x, block + "norm1", 1e-6), block + "attn.qkv", 3 * D)
        y = net.linear(attend(*y.chunk(3, -1)), block + "attn.proj", D)
        x = x + y * net.get(block + "ls1.gamma", D)
        y = net.linear(net.norm(x, block + "norm2", 1e-6), block + "mlp.w12", 2 * HIDDEN)
        gate, y = y.chunk(2, -1)
        y = net.linear(F.silu(gate) * y, block + "mlp.w3", D)
        x = x + y * net.get(block + "ls2.gamma", D)
    net.get("module.dino_head.mlp.0.weight", 8, D)
    return net.norm(x, at + "norm", 1e-6)


# === transformers' CLIP towers ===

def hf_tower_block(net, x, block, eps, act):
    y = net.norm(x, block + "layer_norm1", eps)
    qkv = [net.linear(y, block + "self_attn.%s_proj" % n, D) for n in "qkv"]
    x = x + net.linear(attend(*qkv), block + "self_attn.out_proj", D)
    y = act(net.linear(net.norm(x, block + "layer_norm2", eps), block + "mlp.fc1", HIDDEN))
    return x + net.linear(y, block + "mlp.fc2", D)


def metaclip2(net, x):
    at = "vision_model."
    x = net.patches(x, at + "embeddings.patch_embedding", False)
    first = net.get(at + "embeddings.class_embedding", D).expand(len(x), 1, D)
    x = torch.cat((first, x), 1)
    x = x + net.get(at + "embeddings.position_embedding.weight", x.shape[1], D)
    x = net.norm(x, at + "pre_layrnorm", 1e-5)
    for i in range(2):
        x = hf_tower_block(net, x, at + "encoder.layers.%d." % i, 1e-5,
                           lambda x: x * torch.sigmoid(1.702 * x))
    x = net.norm(x[:, 0], at + "post_layernorm", 1e-5)
    return net.linear(x, "visual_projection", 6, False)


def write_metaclip2():
    config = {"architectures": ["MetaClip2VisionModelWithProjection"], "hidden_act": "quick_gelu",
              "hidden_size": D, "image_size": SIDE, "intermediate_size": HIDDEN,
              "layer_norm_eps": 1e-5, "model_type": "metaclip_2_vision_model",
              "num_attention_heads": HEADS, "num_channels": 3, "num_hidden_layers": 2,
              "patch_size": PATCH, "projection_dim": 6}
    case("metaclip2", metaclip2, "", 2e-5, config)


# === CoCa ===

def coca(net, x, wide=8, queries=3, pool_heads=8):
    """open_clip's: the first of several queries pools the normed tokens to half of their width."""
    at = "visual."
    x = net.patches(x, at + "conv1", False)
    first = net.get(at + "class_embedding", D).expand(len(x), 1, D)
    x = torch.cat((first, x), 1) + net.get(at + "positional_embedding", x.shape[1] + 1, D)
    x = net.norm(x, at + "ln_pre", 1e-5)
    for i in range(2):
        block = at + "transformer.resblocks.%d." % i
        y = net.norm(x, block + "ln_1", 1e-5)
        y = F.linear(y, net.get(block + "attn.in_proj_weight", 3 * D, D),
                     net.get(block + "attn.in_proj_bias", 3 * D))
        x = x + net.linear(attend(*y.chunk(3, -1)), block + "attn.out_proj", D)
        y = F.gelu(net.linear(net.norm(x, block + "ln_2", 1e-5), block + "mlp.c_fc", HIDDEN))
        x = x + net.linear(y, block + "mlp.c_proj", D)
    to = at + "attn_pool."
    x = net.norm(x, to + "ln_k", 1e-5)
    q = net.norm(net.get(to + "query", queries, wide), to + "ln_q", 1e-5)
    biases = net.get(to + "attn.in_proj_bias", 3 * wide).chunk(3)
    if wide == D: weights = net.get(to + "attn.in_proj_weight", 3 * D, D).chunk(3)
    else: weights = [net.get(to + "attn.%s_proj_weight" % n, wide, wide if n == "q" else D)
                     for n in "qkv"]
    q, k, v = (F.linear(z, weight, bias) for z, weight, bias in
               zip((q.expand(len(x), -1, -1), x, x), weights, biases))
    x = net.linear(attend(q, k, v, pool_heads), to + "attn.out_proj", wide)
    x = net.norm(x, at + "ln_post", 1e-5)[:, 0] @ net.get(at + "proj", wide, 6)
    net.get("text_decoder.text_projection", 3, 3)
    net.get("text.cls_emb", 3)
    return x


def write_coca():
    case("coca", coca, "--set num_heads=2 --set activation=gelu", 2e-5)
    vision = {"image_size": SIDE, "layers": 2, "width": D, "head_width": D // HEADS, "patch_size": PATCH,
              "mlp_ratio": HIDDEN / D, "attentional_pool": True, "attn_pooler_heads": 4}
    case("coca_config", lambda net, x: coca(net, x, 12, pool_heads=4), "--set norm_eps=1e-5", 2e-5,
         {"model_cfg": {"embed_dim": 12, "vision_cfg": vision, "text_cfg": {}},
          "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic",
                             "resize_mode": "shortest"}})
    case("coca_wide", lambda net, x: coca(net, x, D), "--set num_heads=2 --set activation=gelu", 2e-5)
    case("coca_heads", coca, "--set num_heads=2 --set activation=gelu --set pool_num_heads=16",
         "visual.attn_pool.query [3, 8] does not fit attn_pool.q [16]")


# === AIMv2-LiT ===

def aimv2_lit(net, x, names):
    """The pooling's query is a parameter; no norm and no MLP follow."""
    n = dict(zip(("patches", "norm0", "pos", "block", "norm1", "norm2", "gate", "up", "down", "norm",
                  "head", "k", "v", "out", "project"), names))
    x = rms(net, net.patches(x, n["patches"]), n["norm0"], 1e-5)
    tokens = (1, x.shape[1], D) if "preprocessor" in n["pos"] else (x.shape[1], D)
    x = x + net.get(n["pos"], *tokens)
    for i in range(2):
        block = n["block"] % i
        y = rms(net, x, block + n["norm1"], 1e-5)
        if "trunk" in block:
            qkv = net.linear(y, block + "attn.qkv", 3 * D, False).chunk(3, -1)
            x = x + net.linear(attend(*qkv), block + "attn.proj", D, False)
        else:
            qkv = [net.linear(y, block + "attention.%s_proj" % c, D, False) for c in "qkv"]
            x = x + net.linear(attend(*qkv), block + "attention.out_proj", D, False)
        y = rms(net, x, block + n["norm2"], 1e-5)
        y = F.silu(net.linear(y, block + n["gate"], HIDDEN, False)) * net.linear(
            y, block + n["up"], HIDDEN, False)
        x = x + net.linear(y, block + n["down"], D, False)
    x = rms(net, x, n["norm"], 1e-5)
    q = net.get(n["head"] + "cls_token", 1, 1, D).expand(len(x), 1, D)
    k, v = (net.linear(x, n["head"] + n[c], D, False) for c in "kv")
    x = net.linear(attend(q, k, v)[:, 0], n["head"] + n["out"], D)
    return net.linear(x, n["project"], 6, False)


def write_aimv2_lit():
    at = "vision_model."
    names = (at + "embeddings.patch_embed", at + "embeddings.rms_norm",
             at + "embeddings.position_embedding.weight", at + "encoder.layers.%d.", "rms_norm1",
             "rms_norm2", "ffn.gate_proj", "ffn.up_proj", "ffn.down_proj", at + "rms_norm",
             at + "head.", "k_proj", "v_proj", "output_proj", "visual_projection")
    vision = {"hidden_act": "silu", "hidden_size": D, "image_size": SIDE, "intermediate_size": HIDDEN,
              "is_native": False, "mlp_bias": False, "model_type": "aimv2_vision_model",
              "num_attention_heads": HEADS, "num_channels": 3, "num_hidden_layers": 2,
              "patch_size": PATCH, "qkv_bias": False, "rms_norm_eps": 1e-5, "use_head": True}
    config = {"architectures": ["Aimv2Model"], "model_type": "aimv2", "projection_dim": 6,
              "vision_config": vision}
    case("hf_aimv2_lit", lambda net, x: aimv2_lit(net, x, names), "", 2e-5, config)
    at = "image_encoder."
    names = (at + "preprocessor.patchifier.proj", at + "preprocessor.patchifier.norm",
             at + "preprocessor.pos_embed", at + "trunk.blocks.%d.", "norm_1", "norm_2", "mlp.fc1",
             "mlp.fc3", "mlp.fc2", at + "trunk.post_trunk_norm", at + "head.", "k", "v", "linear",
             "image_projector")

    def with_text(net, x):
        net.get("text_encoder.trunk.post_trunk_norm.weight", 3)
        net.get("text_projector.weight", 6, 3)
        net.get("log_logit_scale", 1)
        return aimv2_lit(net, x, names)
    case("aimv2_lit", with_text, "--set num_heads=2", 2e-5)


# === Qwen3-VL ===

def qwen_rotation(grid):
    """Turns the halves of a head by whole rows, then by whole columns."""
    rows, columns = torch.meshgrid(*(torch.arange(n).float() for n in grid), indexing="ij")
    quarter = D // HEADS // 4
    angles = torch.stack((rows.flatten(), columns.flatten()), 1)[:, :, None]
    angles = angles / 10000 ** (torch.arange(quarter) / quarter)
    angles = angles.flatten(1).tile(2)

    def rotate(x):
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-second, first), -1) * angles.sin()
    return rotate


def qwen3_vl(net, x, merges=False):
    """The tokens before or after the merger, in rows; the published code has those before it in
    blocks of 2 x 2. A photo is two equal frames."""
    at, grid = "model.visual.", [n // PATCH for n in x.shape[2:]]
    weight = net.get(at + "patch_embed.proj.weight", D, 3, 2, PATCH, PATCH)
    x = F.conv3d(torch.stack((x, x), 2), weight, net.get(at + "patch_embed.proj.bias", D),
                 (2, PATCH, PATCH)).flatten(2).transpose(1, 2)
    pos = net.get(at + "pos_embed.weight", 25, D).T.unflatten(1, (5, 5))[None]
    pos = F.interpolate(pos, grid, mode="bilinear", align_corners=True)
    x = x + pos.flatten(2).transpose(1, 2)
    rotate = qwen_rotation(grid)
    for i in range(2):
        block = at + "blocks.%d." % i
        y = net.linear(net.norm(x, block + "norm1", 1e-6), block + "attn.qkv", 3 * D)
        y = attend(*y.chunk(3, -1), rotate=lambda z: rotate(z))
        x = x + net.linear(y, block + "attn.proj", D)
        y = net.linear(net.norm(x, block + "norm2", 1e-6), block + "mlp.linear_fc1", HIDDEN)
        x = x + net.linear(F.gelu(y, approximate="tanh"), block + "mlp.linear_fc2", D)
    y = net.norm(x, at + "merger.norm", 1e-6).unflatten(1, (grid[0] // 2, 2, grid[1] // 2, 2))
    y = y.transpose(2, 3).flatten(3).flatten(1, 2)
    y = net.linear(F.gelu(net.linear(y, at + "merger.linear_fc1", 4 * D)), at + "merger.linear_fc2", 12)
    net.get(at + "deepstack_merger_list.0.norm.weight", 4 * D)
    net.get("model.language_model.norm.weight", 12)
    net.get("lm_head.weight", 10, 12)
    return y if merges else x


# === Families that vit.h lacks ===

def lacks(shapes):
    def run(net, x):
        for name, shape in shapes.items(): net.get(name, *shape)
    return run


def linear_shapes(shapes, name, out, inputs):
    shapes[name + ".weight"], shapes[name + ".bias"] = (out, inputs), (out,)


def timm_shapes(at="", norm_bias=True):
    shapes = {at + "patch_embed.proj.weight": (D, 3, PATCH, PATCH), at + "patch_embed.proj.bias": (D,)}
    for i in range(2):
        block = at + "blocks.%d." % i
        for norm in ("norm1", "norm2"):
            shapes[block + norm + ".weight"] = (D,)
            if norm_bias: shapes[block + norm + ".bias"] = (D,)
        for name, out, inputs in (("attn.qkv", 3 * D, D), ("attn.proj", D, D),
                                  ("mlp.fc1", HIDDEN, D), ("mlp.fc2", D, HIDDEN)):
            linear_shapes(shapes, block + name, out, inputs)
    return shapes


def uneven(net, x):
    """Three heads of keys cannot serve four."""
    y = sapiens2(net, x)
    net.state["blocks.1.attn.wk.weight"] = torch.ones(D * 3 // 4, D)
    return y


def windows(net, x):
    net.get("tokenizer.w_cls", 1, 1, D)
    return sapiens2(net, x)


def lacking():
    told = "--set num_heads=2 --img-size 8"
    case("sapiens2_uneven", uneven, "--img-size 8",
         "blocks.1.attn.wk.weight [12, 16] does not fit blocks.1.attn.qkv.weight [48, 16]")
    case("sapiens2_4k", windows, "--img-size 8",
         "lacks blocks with windowed attention before the other blocks")
    shapes = timm_shapes()
    shapes["blocks.0.attn.rel_pos.relative_position_bias_table"] = (9, HEADS)
    case("relpos_table", lacks(shapes), told, "lacks a table of relative positions (RelPosBias)")
    shapes = timm_shapes()
    shapes["norm.weight"] = shapes["norm.bias"] = (D,)
    for name, out, inputs in (("fc1", 12, 3), ("fc2", HEADS, 12)):
        linear_shapes(shapes, "shared_rel_pos.mlp." + name, out, inputs)
    case("relpos_deep", lacks(shapes), told + " --set pool=avg --set activation=gelu",
         "shared_rel_pos.mlp.fc1.weight [12, 3] does not fit blocks.{0..1}.attn.rel_pos")
    shapes = timm_shapes(norm_bias=False)
    shapes.update({"cls_token": (1, 1, D), "reg_token": (1, 4, D), "pos_embed": (1, 4, D),
                   "norm.weight": (D,)})
    for i in range(2):
        shapes["blocks.%d.attn.rope.freqs" % i] = shapes["blocks.%d.attn.rope_reg.freqs" % i] = (2,)
    case("vit5", lacks(shapes), told, "lacks rotary positions of register tokens (ViT-5)")
    shapes = timm_shapes("visual.")
    shapes["visual.patch_embed.proj.weight"] = (D, 3, 2, PATCH, PATCH)
    linear_shapes(shapes, "visual.merger.mlp.0", 4 * D, 4 * D)
    case("qwen2_vl", lacks(shapes), told, "lacks patches of two frames and their merger (Qwen-VL)")


# === The table of COVERAGE.md ===

LAYOUT, PLAN, VALUES = ("tools/layout/%s:" % f for f in ("layout.h", "plan.c", "values.c"))
TABLES, PUBLISHED = "tools/layout/tables.c:", "tools/layout/tables_published.c:"
NAMES, CONFIG = "tools/model/timm_names.c:", "tools/model/config.c:"

# family | weights | fixture: a case of this script, "layouts CASE", or "tags REGEX" of timm |
# places: texts in files of the source
FAMILIES = [" | ".join(row[:3] + (" , ".join(row[3:]),)) for row in (
    ("ViTForImageClassification", "transformers' classifiers with eps 1e-12", "hf_vit_classifier",
     CONFIG + "BY_VIT }", TABLES + "layout_hf_vit"),
    ("LingBot-Vision", "robbyant's S, B, L, g, by timm's names", "tags vit_.*_lingbot",
     NAMES + "#define LINGBOT_BIAS", NAMES + "#define LINGBOT_GLU"),
    ("C-RADIO v3, v4", "nvidia/C-RADIOv3-*, nvidia/C-RADIOv4-*", "radio", LAYOUT + "X(radio)",
     PUBLISHED + "layout_radio"),
    ("Sapiens 2", "facebook/sapiens2-pretrain-*", "sapiens2", LAYOUT + "X(sapiens2)",
     PUBLISHED + "layout_sapiens2", LAYOUT + "X(GROUPED", PLAN + "bool grouped_fits",
     VALUES + "bool read_grouped"),
    ("Sapiens 2 at 4K", "those with a tokenizer before the blocks", "sapiens2_4k",
     PUBLISHED + "sapiens2_lacking[]"),
    ("relative positions by an MLP", "timm's vit_relpos_*, vit_srelpos_*", "tags vit_s?relpos_",
     LAYOUT + "X(REL_POS_MLP", TABLES + "#define REL_POS_MLP", PLAN + "bool mlp_fits",
     VALUES + "bool read_rel_pos_mlp", "tools/layout/inspect.c:bool computes_rel_pos",
     NAMES + "#define RELPOS"),
    ("MetaCLIP 2", "facebook/metaclip-2-worldwide-*", "metaclip2", CONFIG + "metaclip_2"),
    ("TIPS v2", "timm's *_tipsv2.webli", "tags vit_.*_tipsv2", NAMES + "#define TIPSV2"),
    ("Franca", "valeoai/franca_*", "franca"),
    ("jina-clip, its images", "jinaai/jina-clip-v1, -v2", "layouts jina_clip", TABLES + "vision_model."),
    ("nomic-embed-vision", "nomic-ai/nomic-embed-vision-*", "layouts nomic", LAYOUT + "X(nomic)",
     PUBLISHED + "layout_nomic"),
    ("ViT-5", "its authors' checkpoints", "vit5", TABLES + "(ViT-5)"),
    ("Qwen3-VL, Qwen3.5, their towers", "Qwen/Qwen3-VL-*, Qwen/Qwen3.5-*", "qwen3_vl", LAYOUT + "X(qwen_vl)",
     PUBLISHED + "layout_qwen_vl", "tools/model/setting_list.h:X(ROPE_QWEN", CONFIG + "qwen3_vl"),
    ("Qwen3-VL, Qwen3.5, after the merger", "the same, by --set merge_size=2", "qwen3_vl_merger",
     PUBLISHED + 'LAYOUT_SAME2("merger.norm")', "tools/layout/inspect.c:void inspect_merger",
     "tools/layout/plan.c:mergers[]", "tools/model/setting_list.h:X(MERGE_SIZE"),
    ("Qwen3-VL, Qwen3.5, llama.cpp's files", "mmproj-*.gguf", "layouts gguf_qwen3vl", LAYOUT + "X(qwen_gguf)",
     PUBLISHED + "layout_qwen_gguf", "tools/checkpoint/gguf_file.c:{ QWEN3_VL"),
    ("Qwen2-VL, its tower", "Qwen/Qwen2-VL-*", "qwen2_vl", TABLES + "(Qwen-VL)"),
    ("V-JEPA 2, transformers' names", "facebook/vjepa2-*", "layouts hf_vjepa2", LAYOUT + "X(vjepa2)",
     PUBLISHED + "layout_vjepa2"),
    ("V-JEPA 2, Meta's names", "vitl.pt, vith.pt, vitg.pt", "layouts vjepa2",
     "tools/layout/inspect.c:patches of several frames"),
    ("CoCa", "open_clip's coca_ViT-B-32, coca_ViT-L-14", "coca", LAYOUT + "X(NARROW", PLAN + "bool narrow_fits", VALUES + "bool read_narrow",
     PUBLISHED + "#define COCA ", LAYOUT + "LAYOUT_POOL_WITHOUT_MLP"),
    ("CoCa with its configuration", "the same, with open_clip_config.json", "coca_config",
     CONFIG + "attn_pooler_heads"),
    ("CoCa with two poolers", "none published", "layouts coca", PUBLISHED + "two poolers"),
    ("AIMv2-LiT, transformers' names", "apple/aimv2-large-patch14-224-lit", "hf_aimv2_lit",
     TABLES + 'LAYOUT_SUM, NULL, { "head.cls_token"', LAYOUT + "LAYOUT_POOL_WITHOUT_MLP"),
    ("AIMv2-LiT, Apple's names", "apple's aimv2_large_lit", "aimv2_lit",
     PUBLISHED + 'LAYOUT_SUM, NULL, { "head.cls_token"', LAYOUT + "LAYOUT_POOL_WITHOUT_MLP"),
)]


def main():
    vit_for_classification()
    case("radio", radio, "--set num_heads=2 --img-size 8", 2e-5)
    case("sapiens2", sapiens2, "--img-size 8", 2e-5)
    case("franca", franca, "--set num_heads=2", 2e-5)
    vision = {"deepstack_visual_indexes": [0], "depth": 2, "hidden_act": "gelu_pytorch_tanh",
              "hidden_size": D, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": HIDDEN,
              "model_type": "qwen3_vl", "num_heads": HEADS, "num_position_embeddings": 25,
              "out_hidden_size": 12, "patch_size": PATCH, "spatial_merge_size": 2,
              "temporal_patch_size": 2}
    processor = {"image_mean": [0.5] * 3, "image_processor_type": "Qwen2VLImageProcessorFast",
                 "image_std": [0.5] * 3, "merge_size": 2, "patch_size": PATCH,
                 "processor_class": "Qwen3VLProcessor", "temporal_patch_size": 2,
                 "size": {"longest_edge": 16777216, "shortest_edge": 65536}}
    config = {"architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl",
              "text_config": {"hidden_size": 12, "num_attention_heads": 1, "rope_theta": 5000000},
              "tie_word_embeddings": True, "vision_config": vision}
    case("qwen3_vl", qwen3_vl, "--set pool=avg --img-size 8", 2e-5, config, processor)
    case("qwen3_vl_merger", lambda net, x: qwen3_vl(net, x, True),
         "--set pool=avg --set merge_size=2 --img-size 16x24", 2e-5, config, processor, size=(16, 24),
         output="merged")
    write_metaclip2()
    write_coca()
    write_aimv2_lit()
    lacking()
    for name, lines in (("cases", cases), ("families", FAMILIES)):
        with open("%s/%s.txt" % (OUT, name), "w") as f: f.write("\n".join(lines) + "\n")


main()
