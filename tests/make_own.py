#!/usr/bin/python3
"""Writes tests/data/own: vision transformers as people write them themselves.

    /usr/bin/python3 tests/make_own.py        (Debian: python3-torch, python3-numpy)

For authoring only: its output is committed, and the test needs no Python. Each case is a
folder with a checkpoint, an input x.npy and PyTorch's logits y.npy, and a line in cases.txt:

    case | checkpoint | arguments of vit-convert | tolerance, or the message of a refusal

tests/test_own.sh converts each one and compares the logits. A model is made of pieces
(own_pieces.py): tokens, blocks and a head, with any names and in any order that an author might
choose. The weights are random, so options must state the settings that trained weights might show.
"""
import os
import shutil

import torch
from torch import nn
from torch.nn import functional as F

from own_pieces import *  # noqa: F403


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
    for name, root, option in (("none", 1, "attn_scale=1"), ("embed", D, "attn_root=embed_dim")):
        case("scale_" + name, Model(attn="attn.q attn.k attn.v attn.o", kind=scaled, root=root),
             heads + " --set " + option)
    case("scale_named", Model(attn="attn.q attn.k attn.v attn.o", kind=scaled), heads + " --strict",
         "or --set attn_scale=1 (scores without a scale)")
    case("half_biases", Model(attn="attn.wq attn.wk attn.wv attn.wo", out_bias=False), heads)


def shared(b):
    def build(net):
        a = fused(net, b + "attn.qkv", b + "attn.proj")
        n = net.norm(b + "norm")
        return pre(n, a, n, mlp(net, b + "mlp.fc1", b + "mlp.fc2"))
    return build


def layer_scaled(b, first, second):
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
    """Block i of ModuleLists that lie beside each other; names contain {i}."""
    def make(b):
        i = int(b.split(".")[1])
        return usual("", *[names.format(i=i) for names in block])
    return make


def blocks():
    case("one_norm", Model(block=shared), TWO)
    case("no_mlp", Model(block=lambda b: lambda net: pre(
        net.norm(b + "0.norm"), fused(net, b + "0.to_qkv", b + "0.to_out"))), TWO)
    case("layer_scale", Model(block=lambda b: layer_scaled(b, "gamma_1", "gamma_2")), TWO)
    case("layer_scale_named",
         Model(block=lambda b: layer_scaled(b, "ls_attn.scale", "ls_mlp.scale")), TWO)
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
    case("depth_1_no_number", Model(block="encoder.", attn="attn.qkv attn.proj", depth=1),
         TWO + " --rename head.*=logits.*")
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
    """Two layers over the same values; the author believes that one of them is for the position."""
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
    for kind in ("halves", "column", "double", "plain"):
        computed = Model(start=with_positions(lambda net: lambda: sincos_variant(kind)), **timm)
        case("sincos_" + kind, computed, TWO + " --img-size 6 --set pos_sincos=1d_" + kind)
        case("sincos_%s_matched" % kind, computed, matched("sincos_%s_matched" % kind))
    case("grid_positions", Model(start=grid_positions, **average, **timm), TWO)
    for result in ("1e-5", "--rename 'pos_embedding.*=patch_added.*'"):
        case("added_patch" if result[0] == "1" else "added_or_positions", Model(
            start=added_patch, end=lambda net: head(net, "ln_f", "vit_head", "avg"), **timm),
             TWO + " --set in_chans=1 --set rope_type=none --img-size 6" + (
                 " --rename pos_embedding.*=patch_added.*" if result[0] == "1" else ""), result,
             chans=1)
    case("apart", Model(start=apart, **timm), TWO)
    case("registers", Model(start=registers, **timm), TWO)
    case("no_positions", Model(start=lambda net: tokens(net, pos=None), **timm),
         TWO + " --img-size 6 --set rope_type=none")
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
    case("overlap_by_size", Model(start=linear(), **timm), TWO + " " + CHW + " --img-size 10",
         side=10)
    net = lambda: Model(start=lambda net: tokens(net, overlapping_conv_28, count=169), **timm)
    case("overlap_28", net(), TWO + " --set patch_stride=2", chans=1, side=28)
    case("overlap_by_size_28", net(), TWO + " --img-size 28", chans=1, side=28)
    case("overlap_asked", net(), TWO, "patches of 4 pixels side by side make an input "
         "of the unusual size 52x52; give --set patch_stride=2 (overlapping, 28x28) or --set "
         "patch_stride=4")
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
    for name, numbers in (("row", "01"), ("none", "02")):
        layers = Model(attn="attn.qkv attn.out", end=lambda net: two_layers(
            net, *["head." + n for n in numbers], act["none"]))
        case("head_in_a_" + name if name == "row" else "head_asked", layers, TWO,
             "1e-5" if name == "row" else "give --set representation_act=relu|none|gelu|tanh|")
    norms()
    case("head_bare", Model(attn="attn.qkv attn.out", end=lambda net: head(net, None, "fc")),
         TWO + " " + PRE)


def norms():
    attn = "attn.qkv attn.out"
    end = lambda *names, **more: Model(
        attn=attn, end=lambda net: two_norms(net, *names, **more))
    case("norms_encoder", end("encoder.norm", "norm", order=-1), TWO)
    case("norms_of_list", Model(block="vit.layers.{i}.", attn=attn, end=lambda net: two_norms(
        net, "vit.ln", "ln")), TWO, how="sorted")
    case("norms_in_order", end("ln_f", "ln", "fc"), TWO)
    for name, options, result in (
            ("norms_sorted", " --rename ln.*=fc_norm.*", "1e-5"),
            ("norms_asked", "", "--rename 'final.*=fc_norm.*' or --rename 'ln.*=fc_norm.*'"),
            ("norms_as_logits", " --rename ln.*=pre_logits.*",
             "--rename gives ln.weight the name pre_logits: expected a linear layer of the "
             "head, found [8]"),
            ("norms_own_names", " --rename ln.*=before_head_norm.* --strict",
             "ln.weight, renamed to before_head_norm.weight, as fc_norm")):
        case(name, end("final", "ln", "fc"), TWO + options, result, how="sorted")
    torch_names = dict(attn="self_attn", kind=multihead, feed="linear1 linear2", act=F.relu)
    case("norm_as_logits_in_vit", end("ln_f", "ln"), TWO + " --rename ViT.ln.*=ViT.pre_logits.*",
         "--rename gives ViT.ln.weight the name pre_logits: expected a linear layer",
         change=prefixed("ViT."))
    case("norm_renamed_in_vit", end("ln_f", "ln"), TWO + " --rename ViT.ln.*=ViT.fc_norm.*",
         change=prefixed("ViT."), how="sorted")
    case("norms_torch", Model(block=lambda b: usual("encoder." + b, block=post, **torch_names),
                              end=lambda net: two_norms(net, "encoder.norm", "norm")), TWO)
    front = lambda **more: Model(attn=attn, start=in_front, **more)
    alone = front(end=lambda net: head(net, None))
    case("norm_in_front", alone, TWO + " --rename norm.*=norm_pre.*")
    case("norm_in_front_noted", alone, TWO + " --strict", "norm as the norm after the blocks: this "
         "place is usual, but the file stores the norm before the blocks; give --rename "
         "'norm.*=norm_pre.*'")
    case("norms_around", front(end=lambda net: head(net, "ln")), TWO +
         " --rename norm.*=norm_pre.*")
    case("norm_of_all", OneNorm(), TWO + " --rename ln.*=norm_shared.*")
    case("norm_of_all_asked", OneNorm(), TWO, "If all blocks share the model's only norm, ln, "
         "give --rename 'ln.*=norm_shared.*'")
    case("norm_between", Model(attn=attn, end=norm_between), TWO,
         "head.1 lies between head.0 and head.2: vit.h does not run a norm between the layers")
    case("head_of_three", Model(attn=attn, end=three_layers), TWO, "a head of three layers")
    for name, how in (("shared", "zip"), ("equal", "safetensors")):
        case("norm_" + name, Model(attn=attn, end=lambda net: norm_in_two_places(
            net, "norm", "head.0", "head.1")), TWO, how=how)


def timm_like(**more):
    more.setdefault("block", "blocks.{i}.")
    return Model(attn="attn.qkv attn.proj", **more)


def near_copies():
    case("block_for_blocks", timm_like(block="block.{i}."), TWO)
    case("timm_named", timm_like(), TWO)
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
                                 act=tanh_gelu), TWO)
    for prefix in ("ViT.", "network.", "my_vit.", "classifier.", "module.model.encoder."):
        case("prefix_" + prefix.strip(".").replace(".", "_").lower(),
             Model(block="layers.{i}.", attn="attn.qkv attn.proj", norms="n1 n2"), TWO,
             change=prefixed(prefix))
    for how in ("zip", "legacy", "npz", "sorted", "wrapped"):
        case("container_" + how, Model(block="layer.{i}.", attn="attention.qkv attention.fc_out",
                                       depth=11 if how == "sorted" else 2), TWO, how=how)


def without_names():
    order = "--set qkv_interleave=per_head"
    full = dict(attn="a.{h}.q a.{h}.k a.{h}.v out", kind=each_head)
    turned = dict(start=lambda net: tokens(net, lambda n: linear_patch(n, "patch")), **full)
    case("unnamed_heads", Model(**full), order + " --set activation=gelu", how="unnamed")
    case("unnamed_shown", Model(block=lambda b: usual(b, act=tanh_gelu, **full)), "", how="unnamed",
         train=small_keys)
    case("unnamed_matched", Model(**full), matched("unnamed_matched"), how="unnamed")
    case("unnamed_by_kind", Model(by_head=False, **full), matched("unnamed_by_kind"),
         how="unnamed")
    case("unnamed_list", Model(attn="q k v out"), TWO, how="list")
    case("unnamed_turned", Model(**turned), order + " " + CHW, how="turned")
    case("unnamed_fused", Model(attn="qkv out", order="amnn"), matched("unnamed_fused"),
         how="unnamed")
    case("unnamed_asked", Model(**full), "", "--set qkv_interleave=per_head (query,", how="list")
    case("unnamed_once", Model(attn="q k v out", depth=1), TWO, "no name is informative (arr_0,",
         how="unnamed")


def add_copies(state):
    """Names the tensors as if "encoder" had both modules too."""
    places = {"embedding": "encoder.0", "layers": "encoder.1"}
    copies = {places[n.split(".")[0]] + n[n.index("."):]: t for n, t in state.items()
              if n.split(".")[0] in places}
    return {**state, **copies}


def share_blocks(state):
    return {n: state[n.replace("layers.1.", "layers.0.")] for n in state}


def shared_blocks():
    net = Model(attn="attn.qkv attn.proj")
    net.middle[1] = net.middle[0]
    return net


def autoencoder():
    net = Model(attn="attn.qkv attn.proj")
    net.linear("decoder.0", D, 16)
    net.put("decoder.2", nn.ConvTranspose2d(4, CHANS, 3))
    return net


def twice():
    begin = lambda net: tokens(net, lambda n: conv_patch(n, "embedding.patch"),
                               "embedding.cls", "embedding.pos")
    case("stored_twice", Model(start=begin, attn="attn.qkv attn.proj"), TWO, how="zip",
         change=add_copies)
    case("shared_blocks", shared_blocks(), TWO, how="zip", change=share_blocks)
    case("autoencoder", autoencoder(), matched("autoencoder"))
    case("autoencoder_asked", autoencoder(), TWO, "of a decoder, which --ignore 'decoder.*' drops")
    case("autoencoder_ignored", autoencoder(), TWO + " --ignore decoder.*")


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
    case("batch_second", BatchSecond(), TWO + " " + POST + " --img-size 6 --set rope_type=none "
         "--set pool=token --set activation=relu --set attention=self")
    case("decoder", with_decoder(), TWO, "--ignore 'decoder.layers.*' drops the decoder")
    case("norm_of_tokens", token_norms(), TWO, "over tokens and width at once")
    case("batch_norm", batch_norms(), TWO, "layers.{0..1}.norm1 [8]: a batch norm")
    case("flattened", flattened(), TWO, "reads all tokens at once")
    case("stages", stages(), TWO, "does not run models with several stages")
    case("cnn", cnn(), "", "no group of tensors looks like the blocks of a transformer")
    case("text", text_model(), TWO, "no patch embedding")
    case("unnamed", Model(block=unnamed), TWO)
    case("unnamed_sorted", Model(block=unnamed), TWO, "--rename", how="sorted")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    attentions(), blocks(), beginnings(), endings(), near_copies(), without_names(), twice()
    refusals()
    with open(os.path.join(OUT, "cases.txt"), "w") as f: f.write("\n".join(cases) + "\n")
    print(len(cases), "cases")


main()
