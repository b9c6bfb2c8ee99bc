#!/usr/bin/python3
"""Writes models/COVERAGE.md and tests/data/coverage: every pretrained ViT of timm, by timm itself.

For authoring only: its output is committed, and the tests need no Python. It needs the repository
https://github.com/huggingface/pytorch-image-models at commit aa4b5850 (1.0.29.dev0), PyTorch (1.13
is enough: the script replaces the parts of torchvision that timm imports), and the tools built:

    make && /usr/bin/python3 tests/make_coverage.py TIMM             everything
            /usr/bin/python3 tests/make_coverage.py TIMM PATTERN...  only these tags; writes nothing

Each tag that has weights is built by its own entry point with its own options, patch, input size,
head width and ratio of the MLP, but with only two blocks of two heads, and with large random
weights. The script saves it as timm saves for the hub: model.safetensors, and a config.json whose
model_args state the sizes. The converter must find all other settings by the architecture's name.
For each tag the script checks that

    1. vit-convert converts that folder, and vit-run gives logits, embedding and all tokens within
       BOUND of timm's, relative to the largest; the preprocessing is that of timm's
       resolve_data_config
    2. vit-convert gives the same settings for the same weights without a config.json, by only
       --arch NAME.TAG and the sizes

tests/data/coverage has one model for each set of options that occurs, in the same form but smaller:

    model.safetensors        float16
    config.json              as timm writes it
    preprocess               timm's: height and width before the crop, crop mode, interpolation,
                             mean, std
    expected.safetensors     logits, embedding, tokens of 2 images (see image() of make_fixtures.py)
    img_size_HxW.safetensors, in_chans_N.safetensors: for a few models, the same outputs of the
                             model that timm makes of them for another input
"""
import argparse
import enum
import fnmatch
import functools
import importlib.abc
import importlib.machinery
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import types
import unittest.mock
import zlib
from pathlib import Path

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_fixtures import image, save_safetensors  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "data" / "coverage"
TABLE = ROOT / "models" / "COVERAGE.md"
VERSION, DATE = "1.0.29.dev0, commit aa4b5850", "2026-08-08"
BOUND = 2e-5
HYBRIDS = "vision_transformer_hybrid"
MODULES = ("vision_transformer", HYBRIDS, "deit", "eva", "beit", "vision_transformer_relpos")
SIZES = ("img_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_ratio", "num_classes")
CLASSES = 7


# --- timm, without torchvision --------------------------------------------------------------------

class InterpolationMode(enum.Enum):
    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


class Stub(types.ModuleType):
    """Any name in it is an empty class, which is enough to import code that never runs here."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return InterpolationMode if name == "InterpolationMode" else type(name, (), {})


class StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torchvision":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def import_timm(path):
    sys.meta_path.append(StubFinder())
    sys.path.insert(0, path)
    import timm
    return timm


# --- timm's models --------------------------------------------------------------------------------

class Recorded(Exception):
    pass


class Recorder:
    """Replaces timm's building of a model, and records what would have been built."""

    def __enter__(self):
        self.real = {m: m.build_model_with_cfg for m in map(timm_module, MODULES)}
        for module in self.real:
            module.build_model_with_cfg = self.record
        return self

    def __exit__(self, *_):
        for module, build in self.real.items():
            module.build_model_with_cfg = build

    @staticmethod
    def record(cls, variant, pretrained, **kwargs):
        raise Recorded(cls, kwargs)

    def arguments(self, architecture):
        try:
            registry._model_entrypoints[architecture]()
        except Recorded as said:
            return said.args
        raise RuntimeError(architecture + " builds no model")


def timm_module(name):
    return importlib.import_module("timm.models." + name)


def option_text(value):
    """Returns the name of an option's value; a layer has the name of its class."""
    if hasattr(value, "func"):
        words = [f"{k}={option_text(v)}" for k, v in value.keywords.items()]
        return f"{value.func.__name__}({', '.join(words)})"
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    return getattr(value, "__name__", None) or str(value)


NO_OPTIONS = SIZES + ("pretrained_filter_fn", "pretrained_strict", "feature_cfg", "kwargs_filter",
                      "pretrained_cfg", "pretrained_cfg_overlay", "out_indices")


def option_set(module, cls, kwargs):
    """The options of a constructor beside its sizes; for LayerScale only its presence."""
    said = {k: option_text(v) for k, v in kwargs.items() if k not in NO_OPTIONS}
    if "init_values" in said:
        said["init_values"] = "set"
    if module == HYBRIDS:  # Sequential backbones differ by architecture
        said["backbone"] = option_text(kwargs["embed_layer"])
    return (cls.__name__,) + tuple(sorted(f"{k}={v}" for k, v in said.items()))


# Options of the constructor that no pretrained tag uses. The script adds each option to EXTRA_BASE,
# and stores it in model_args of config.json.
EXTRA_BASE = "vit_base_patch16_224.augreg_in21k_ft_in1k"
EXTRAS = {
    "qk_norm": dict(qk_norm=True),
    "no_positions": dict(pos_embed="none", reg_tokens=2),
    "prefix_pooled": dict(pool_include_prefix=True, global_pool="avg", reg_tokens=1),
    "pool_max": dict(global_pool="max", class_token=False),
    "pool_avgmax": dict(global_pool="avgmax", fc_norm=False),
    "map_behind_class_token": dict(global_pool="map"),
    "token_fc_norm": dict(fc_norm=True),
    "mean_without_norm": dict(final_norm=False, global_pool="avg"),
    "mlp_norm": dict(scale_mlp_norm=True, act_layer="silu"),
    "attn_norm": dict(scale_attn_norm=True, act_layer="relu"),
    "rms_pre_norm": dict(norm_layer="rmsnorm", qk_norm=True, pre_norm=True, qkv_bias=False),
    "patch_norm": dict(embed_norm_layer="layernorm", proj_bias=False, mlp_ratio=2.3),
    "registers_with_positions": dict(reg_tokens=3, init_values=0.1),
    "remainder": dict(patch_size=7, img_size=(52, 31)),
}


class Tag:
    """A tag of timm, or an architecture with further options."""

    def __init__(self, module, architecture, name, cls, kwargs, extra=None):
        self.module, self.architecture, self.name = module, architecture, name
        self.label, self.fixture = name, architecture
        self.cls, self.kwargs, self.extra = cls, dict(kwargs, **(extra or {})), extra or {}
        self.options = option_set(module, cls, self.kwargs)

    def with_extra(self, label, extra):
        tag = Tag(self.module, self.architecture, self.name, self.cls, self.kwargs, extra)
        tag.label = tag.fixture = "option_" + label
        tag.options += (label,)
        return tag

    def sizes(self, small):
        """model_args that shrink it; its own patch and input size where not `small`."""
        a = self.kwargs
        args = dict(embed_dim=2 * (12 if small else self.head_dim()), depth=2, num_heads=2)
        if "mlp_ratio" in a and "swiglu_align_to" not in a:  # which rounds up narrow widths
            args["mlp_ratio"] = a["mlp_ratio"]
        if small:  # grids whose number of positions cannot be read as a square one's
            hybrid = self.module == HYBRIDS
            args["img_size"] = (160, 32) if hybrid else (88, 16)
            args["patch_size"] = a.get("patch_size", 1) if hybrid else 8
        if self.cfg().num_classes:
            args["num_classes"] = CLASSES
        return dict(args, **self.extra)

    def head_dim(self):
        return self.kwargs.get("embed_dim", 768) // self.kwargs.get("num_heads", 12)

    def cfg(self):
        return registry._model_pretrained_cfgs[self.name]

    def has_weights(self):
        return bool(self.cfg().has_weights) and not self.extra


def find_tags():
    """Tags with weights, then the others that can be built."""
    tags = []
    with Recorder() as recorder:
        for module in MODULES:
            for architecture in timm.list_models(module=module):
                cls, kwargs = recorder.arguments(architecture)
                tags += [Tag(module, architecture, name, cls, kwargs)
                         for name in registry._model_with_tags[architecture]]
    base = next(t for t in tags if t.name == EXTRA_BASE)
    tags += [base.with_extra(label, extra) for label, extra in EXTRAS.items()]
    return sorted(tags, key=lambda t: not t.has_weights())


# --- one model ------------------------------------------------------------------------------------

SMALL = ("patch_embed.proj", "patch_embed.backbone.2.conv", "cls_token", "dist_token", "reg_token",
         "pos_embed")


def randomize(model):
    """Lively weights: peaked softmax rows, GELU inputs on both sides, norms that matter. Tokens
    start so small that the epsilon of the first norm does."""
    for name, p in model.named_parameters():
        last = name.split(".")[-1]
        if ".norm3.weight" in name:  # a stem's branch beside its shortcut: errors must not grow
            base, std = 0.3, 0.1
        elif "norm" in name.split(".")[-2:][0] or "bn" in name.split(".")[-2:][0]:
            base, std = (1.0, 0.3) if last == "weight" else (0.0, 0.3)
        elif last.startswith("gamma"):
            base, std = 0.6, 0.3
        elif p.dim() == 1:
            base, std = 0.0, 0.2
        elif last.endswith(("token", "pos_embed", "latent", "bias_table")):
            base, std = 0.0, 0.7
        else:
            base, std = 0.0, 1.3 / math.sqrt(p[0].numel())
        if name.startswith(SMALL):
            std *= 0.01
        p.data = base + std * torch.randn(p.shape)
    for name, b in model.named_buffers():
        if name.endswith("running_mean"):
            b.copy_(0.3 * torch.randn(b.shape))
        elif name.endswith("running_var"):
            b.copy_(0.5 + torch.rand(b.shape))


def shrink_stems(embed_dim, small):
    """Stems in front of the patches take no sizes from model_args."""
    module = timm_module(HYBRIDS)
    stem, resnet = module.ConvStem, module.ResNetV2

    def conv_stem(channels, **kwargs):
        return stem(channels=(embed_dim // 4, embed_dim // 4, embed_dim), **kwargs)

    def resnet_stem(layers, **kwargs):
        narrow = dict(layers=(2, 1), stem_chs=32, channels=(128, 256))
        return resnet(**dict(kwargs, **(narrow if small else dict(layers=layers))))
    return unittest.mock.patch.multiple(module, ConvStem=conv_stem, ResNetV2=resnet_stem)


def build(tag, sizes, half):
    torch.manual_seed(zlib.crc32(tag.name.encode()))
    with shrink_stems(sizes["embed_dim"], half):
        model = timm.create_model(tag.name, pretrained=False, **sizes).eval()
    randomize(model)
    if half:  # saved in half precision, except tables of positions
        model.load_state_dict({k: v.half().to(v.dtype) for k, v in model.state_dict().items()})
    return model


def save_hub(model, sizes, folder, half):
    """Writes the files in the form of timm's save_for_hf."""
    state = {k: v.half() if half and v.is_floating_point() else v
             for k, v in model.state_dict().items()}
    save_safetensors(state, os.path.join(folder, "model.safetensors"))
    args = {k: v for k, v in sizes.items() if k != "num_classes"}
    timm_hub.save_config_for_hf(model, Path(folder) / "config.json", model_args=args)


def run_timm(model, images):
    with torch.no_grad():
        tokens = model.forward_features(images)
        out = {"tokens": tokens, "embedding": model.forward_head(tokens, pre_logits=True)}
        if model.num_classes:
            out["logits"] = model(images)
    return {k: v.contiguous() for k, v in out.items()}


def preprocessing(model):
    """Returns timm's preprocessing of images for this model."""
    c = resolve_data_config(model=model)
    size = model.patch_embed.img_size or c["input_size"][1:]
    return dict(resize=[math.floor(s / c["crop_pct"]) for s in size], crop_mode=c["crop_mode"],
                interpolation=c["interpolation"], mean=list(c["mean"]), std=list(c["std"]))


def make_images(count, shape):
    size = int(np.prod(shape))
    return torch.from_numpy(np.stack([image(i, size).reshape(shape) for i in range(count)]))


# --- the tools ------------------------------------------------------------------------------------

class Refused(Exception):
    pass


def tool(name, folder, *arguments):
    done = subprocess.run([str(ROOT / "tools" / name), *arguments], cwd=folder,
                          capture_output=True, text=True)
    if done.returncode:
        error = done.stderr.strip().split("\n")[-1]
        raise Refused(error.replace(name + ": ", "").replace("model.safetensors: ", ""))
    return done.stdout


def convert(folder, *arguments):
    said = tool("vit-convert", folder, "model.safetensors", "-o", "m.vit", "--json", *arguments)
    return json.loads(said)["config"]


def compare(expected, images, folder):
    """Returns the largest error of each output, relative to the largest number in it."""
    np.save(folder / "input.npy", images.numpy())
    tool("vit-run", folder, "-m", "m.vit", "--input", "input.npy",
         *[word for k in expected for word in (f"--{k}", f"{k}.npy")])
    errors = {}
    for k, tensor in expected.items():
        got, want = np.load(folder / f"{k}.npy"), tensor.numpy()
        if got.shape != want.shape:
            raise Refused(f"{k} {got.shape}, timm {want.shape}")
        errors[k] = float(np.abs(got - want).max() / np.abs(want).max())
        if not errors[k] <= BOUND:
            raise Refused(f"{k} differs by {errors[k]:.1e}")
    return errors


CROP_MODES, INTERPOLATIONS = ("center", "squash", "border"), ("bilinear", "bicubic")


def check_preprocessing(config, model):
    want = preprocessing(model)
    got = dict(resize=[config["resize_height"], config["resize_width"]],
               crop_mode=CROP_MODES[config["crop_mode"]],
               interpolation=INTERPOLATIONS[config["interpolation"]])
    for k, value in got.items():
        if value != want[k]:
            raise Refused(f"{k} {value}, timm {want[k]}")
    for k in ("mean", "std"):
        if not np.allclose(config[k], want[k], rtol=1e-6, atol=0):
            raise Refused(f"{k} {config[k]}, timm {want[k]}")


def check_name(tag, config, folder):
    """Checks that the name gives the same settings as the configuration."""
    alone = folder / "alone"
    alone.mkdir()
    os.rename(folder / "model.safetensors", alone / "model.safetensors")
    sizes = [w for k in ("embed_dim", "depth", "num_heads")
             for w in ("--set", f"{k}={config[k]}")]
    named = convert(alone, "--arch", tag.name, *sizes)
    differing = [k for k in config if config[k] != named[k]]
    if differing:
        k = differing[0]
        raise Refused(f"by name: {k} {named[k]}, with config.json {config[k]}")


def check(tag, work):
    """Returns the errors of one tag; raises Refused with the reason if it cannot run or differs."""
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        sizes = tag.sizes(small=False)
        model = build(tag, sizes, half=False)
        save_hub(model, sizes, folder, half=False)
        config = convert(folder)
        shape = (config["in_chans"], config["img_height"], config["img_width"])
        count = 2 if shape[1] // config["patch_size"] < 32 else 1
        images = 2 * torch.rand((count,) + shape) - 1
        errors = compare(run_timm(model, images), images, folder)
        check_preprocessing(config, model)
        if not tag.extra:
            check_name(tag, config, folder)
        return errors
    finally:
        shutil.rmtree(folder)


# --- other sizes than the checkpoint's ------------------------------------------------------------

RESIZED = (
    ("vit_base_patch16_224.augreg_in21k", dict(img_size=384)),
    ("vit_base_patch16_224.augreg_in21k", dict(img_size=(160, 256))),
    ("vit_base_patch16_224.augreg_in21k", dict(patch_size=8, img_size=112)),
    ("vit_small_patch16_224.dino", dict(img_size=96)),
    ("vit_base_patch14_reg4_dinov2.lvd142m", dict(img_size=224)),
    ("vit_base_patch16_siglip_224.webli", dict(img_size=384)),
    ("deit_base_distilled_patch16_224.fb_in1k", dict(img_size=384)),
    ("vit_so150m_patch16_reg4_gap_256.sbb_e250_in12k", dict(img_size=320)),
    ("vit_base_patch16_clip_224.openai", dict(patch_size=24, img_size=384)),
    ("flexivit_base.1200ep_in1k", dict(img_size=384)),
    ("flexivit_base.1200ep_in1k", dict(patch_size=8)),
    ("flexivit_base.1200ep_in1k", dict(patch_size=30)),
    ("flexivit_base.1200ep_in1k", dict(patch_size=48)),
    ("flexivit_base.1200ep_in1k", dict(patch_size=32, img_size=256)),
    ("beit_base_patch16_224.in22k_ft_in22k_in1k", dict(img_size=384)),
    ("beit_base_patch16_224.in22k_ft_in22k_in1k", dict(img_size=(160, 256))),
    ("beitv2_large_patch16_224.in1k_ft_in22k_in1k", dict(img_size=96)),
    ("vit_base_patch16_224.augreg_in21k", dict(in_chans=1)),
    ("vit_base_patch16_224.augreg_in21k", dict(in_chans=2)),
    ("vit_base_patch16_224.augreg_in21k", dict(in_chans=4)),
    ("vit_base_patch16_224.augreg_in21k", dict(in_chans=9)),
    ("vit_base_mci_224.apple_mclip", dict(in_chans=1)),
    ("vit_base_r50_s16_224.orig_in21k", dict(in_chans=1)),
    ("vit_base_r50_s16_224.orig_in21k", dict(in_chans=4)),
    ("vit_tiny_r_s16_p8_224.augreg_in21k", dict(in_chans=2)),
)


# SQUARE adds a fixture in which all blocks share a table of relative positions. timm assumes that
# such a table belongs to a square grid. RESIZED_FIXTURES also store the numbers for other inputs.
SQUARE = ("beit_base_patch16_224.in22k_ft_in22k_in1k",
          dict(img_size=(32, 32), use_rel_pos_bias=False, use_shared_rel_pos_bias=True))
RESIZED_FIXTURES = {
    "option_resized": (dict(img_size=(56, 24)), dict(img_size=(16, 16))),
    "vit_base_mci_224": (dict(in_chans=1), dict(in_chans=5)),
    "vit_tiny_r_s16_p8_224": (dict(in_chans=1), dict(in_chans=4)),
}


def argument(value):
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def resized_model(tag, sizes, changes, state, small):
    """Computes timm's result for a checkpoint that was trained for other sizes."""
    with shrink_stems(sizes["embed_dim"], small):
        model = timm.create_model(tag.name, pretrained=False, **dict(sizes, **changes)).eval()
    first = tag.cfg().first_conv + ".weight"
    state[first] = timm_module("_manipulate").adapt_input_conv(changes.get("in_chans", 3),
                                                               state[first])
    model.load_state_dict(tag.kwargs["pretrained_filter_fn"](state, model))
    return model


def check_resized(tag, changes, folder):
    sizes = tag.sizes(small=False)
    model = build(tag, sizes, half=False)
    save_hub(model, sizes, folder, half=False)
    arguments = []
    for name, value in changes.items():
        arguments += ["--" + name.replace("_", "-"), argument(value)]
    config = convert(folder, *arguments)
    model = resized_model(tag, sizes, changes, model.state_dict(), small=False)
    images = make_images(1, (config["in_chans"], config["img_height"], config["img_width"]))
    errors = compare(run_timm(model, images), images, folder)
    return " ".join(arguments), max(errors.values())


def resized_rows(tags):
    by_name = {tag.name: tag for tag in tags if not tag.extra}
    for name, changes in RESIZED:
        with tempfile.TemporaryDirectory() as work:
            arguments, error = check_resized(by_name[name], changes, Path(work))
        yield f"| {name} | {arguments} | {error:.1e} |"


# --- other libraries' layouts ---------------------------------------------------------------------

LAYOUTS = ROOT / "tests" / "data" / "layouts"
ACTIVATIONS = ("gelu", "gelu_tanh", "quick_gelu", "silu", "relu")
POOLS = ("token", "avg", "max", "avgmax", "map")
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}


def load_safetensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[start + t["data_offsets"][0]:]),
                                   dtype=DTYPES[t["dtype"]],
                                   count=math.prod(t["shape"])).reshape(t["shape"])
            for name, t in header.items()}


def model_of(c, split):
    """timm's model with the settings that vit-convert found."""
    vit = timm_module("vision_transformer")
    norm = functools.partial(timm.layers.RmsNorm if c["norm_type"] else torch.nn.LayerNorm,
                             eps=c["norm_eps"])
    gated, hidden = c["has_gated_mlp"], c["mlp_dim"]
    mlp = (timm.layers.SwiGLU if split else timm.layers.SwiGLUPacked) if gated else timm.layers.Mlp
    return vit.VisionTransformer(
        img_size=(c["img_height"], c["img_width"]), patch_size=c["patch_size"],
        in_chans=c["in_chans"], num_classes=c["num_classes"], embed_dim=c["embed_dim"],
        depth=c["depth"], num_heads=c["num_heads"], class_token=bool(c["has_cls_token"]),
        mlp_ratio=(2 * hidden if gated and not split else hidden) / c["embed_dim"],
        reg_tokens=c["num_reg_tokens"], no_embed_class=c["positions"] == 1,
        global_pool=POOLS[c["pool"]], fc_norm=bool(c["has_fc_norm"]),
        final_norm=bool(c["has_fc_norm"] or c["has_final_norm"]), pre_norm=bool(c["has_pre_norm"]),
        init_values=1.0 if c["has_layer_scale"] else None, qkv_bias=bool(c["has_qkv_bias"]),
        proj_bias=bool(c["has_proj_bias"]), scale_attn_norm=bool(c["has_attn_norm"]),
        scale_mlp_norm=bool(c["has_mlp_norm"]), norm_layer=norm, mlp_layer=mlp,
        embed_norm_layer=norm if c["has_patch_norm"] else None,
        act_layer=ACTIVATIONS[c["activation"]]).eval()


def plain_numbers(array):
    """Converts JAX's bfloat16, which NumPy takes for opaque bytes, and big-endian numbers."""
    if array.dtype.kind == "V":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array.astype(array.dtype.newbyteorder("="))


def plain_npz(path, work):
    np.savez(work / "plain.npz", **{k: plain_numbers(v) for k, v in np.load(path).items()})
    return str(work / "plain.npz")


def timm_reads(path, config, work):
    """timm's model with this checkpoint in it, or None if timm cannot read such checkpoints."""
    vit = timm_module("vision_transformer")
    try:
        if path.suffix == ".npz":
            model = model_of(config, split=False)
            model.load_pretrained(plain_npz(path, work))
            return model
        state = (load_safetensors if path.suffix == ".safetensors" else torch.load)(path)
        split = any("fc3" in name or "fc1_g" in name for name in state)
        model = model_of(config, split)
        state = vit.checkpoint_filter_fn(state, model, adapt_layer_scale=True)
        said = model.load_state_dict(state, strict=False)
        unread = [k for k in said.unexpected_keys if not k.startswith("decoder")]
        return None if said.missing_keys or unread else model
    except (RuntimeError, ValueError, KeyError, IndexError, AttributeError, TypeError):
        return None


def check_layout(folder, file, options, work):
    """In words: the largest error, if timm reads the file too."""
    shutil.copy(folder / file, work / file)
    for config in folder.glob("*.json"):
        shutil.copy(config, work / config.name)
    said = tool("vit-convert", work, file, "-o", "m.vit", "--json", *options.split())
    config = json.loads(said)["config"]
    model = None if file.endswith(".gguf") else timm_reads(folder / file, config, work)
    if model is None:
        return "not read by timm"
    images = make_images(2, (config["in_chans"], config["img_height"], config["img_width"]))
    return f"{max(compare(run_timm(model, images), images, work).values()):.1e}"


def layout_rows():
    """Layouts that tests/test_layouts.sh converts, or that lack something."""
    for line in (LAYOUTS / "cases.txt").read_text().splitlines():
        name, file, options, twin, last = (word.strip() for word in line.split("|", 4))
        if twin:
            with tempfile.TemporaryDirectory() as work:
                error = check_layout(LAYOUTS / name, file, options, Path(work))
            yield f"| {name} | yes | the tensors and settings of {twin} | {error} |"
        elif "lacks" in last:
            yield f"| {name} | no | {last} | |"


# --- the files ------------------------------------------------------------------------------------

def write_resized(tag, sizes, changes, state, folder):
    shape = (changes.get("in_chans", 3),) + changes.get("img_size", sizes["img_size"])
    model = resized_model(tag, sizes, changes, state, small=True)
    name = "_".join(f"{k}_{argument(v)}" for k, v in changes.items())
    save_safetensors(run_timm(model, make_images(2, shape)), folder / (name + ".safetensors"))


def write_fixture(tag):
    folder = FIXTURES / tag.fixture
    folder.mkdir(parents=True, exist_ok=True)
    sizes = tag.sizes(small=True)
    model = build(tag, sizes, half=True)
    save_hub(model, sizes, folder, half=True)
    with open(folder / "config.json", "a") as f:
        f.write("\n")
    expected = run_timm(model, make_images(2, (3,) + sizes["img_size"]))
    save_safetensors(expected, folder / "expected.safetensors")
    p = preprocessing(model)
    with open(folder / "preprocess", "w") as f:
        f.write("{} {} {} {} {} {} {} {} {} {}\n".format(
            *p["resize"], p["crop_mode"], p["interpolation"], *p["mean"], *p["std"]))
    for changes in RESIZED_FIXTURES.get(tag.fixture, ()):
        write_resized(tag, sizes, changes, model.state_dict(), folder)
    return sum(path.stat().st_size for path in folder.iterdir())


def write_fixtures(tags, results):
    """Makes a fixture for each set of options with a tag that runs; returns its name by set."""
    chosen = {}
    for tag in tags:
        if "reason" not in results[tag.label]:
            chosen.setdefault(tag.options, tag)
    shutil.rmtree(FIXTURES, ignore_errors=True)
    square = next(t for t in tags if t.label == SQUARE[0]).with_extra("resized", SQUARE[1])
    size = sum(write_fixture(tag) for tag in [*chosen.values(), square])
    print(f"{len(chosen) + 1} fixtures, {size / 1024:.0f} KiB")
    return {options: tag.fixture for options, tag in chosen.items()}


INTRODUCTION = """# Coverage

[tests/make_coverage.py](../tests/make_coverage.py) writes this page. The reference is timm
({version}, {date}) on PyTorch. timm itself builds each model with the tag's options, input
size, patch size, head width and MLP ratio, but with only two blocks of two heads and with random
weights. timm saves the model as for the hub, vit-convert converts it, and vit-run runs it. Errors
are the largest differences from timm's outputs, relative to the largest output. A model is supported
if all its errors are below {bound:g}. The script also compares the preprocessing in the converted file
with timm's preprocessing, and a conversion by name alone with a conversion by config.json.

`make test` needs no Python: tests/test_coverage.c does the same with the models in
tests/data/coverage, one for each set of options. The last column of a table names these models.
[tests/newer_timm.py](../tests/newer_timm.py) prints the tags that another release of timm has
and this page lacks.
"""


def tag_row(tag, result, fixtures):
    size = "x".join(str(s) for s in tag.cfg().input_size[1:])
    patch = tag.kwargs.get("patch_size", 1 if tag.module == HYBRIDS else 16)
    shape = f"{size} | {patch} | {tag.head_dim()}"
    options = ", ".join(tag.options[1:]) or "none"
    if "reason" in result:
        return f"| {tag.label} | no: {result['reason']} | | | | {shape} | {options} | |"
    numbers = " | ".join(f"{result[k]:.1e}" if k in result else "none"
                         for k in ("logits", "embedding", "tokens"))
    return f"| {tag.label} | yes | {numbers} | {shape} | {options} | {fixtures[tag.options]} |"


# Printed by "make_coverage.py TIMM 'vit_*_lingbot*'" with the tree of timm's pull request 2730.
PROPOSED = """## Proposed for timm (pull request 2730): 4 of 4

| tag | supported | logits | embedding | tokens | input | patch |
|---|---|---|---|---|---|---|
| vit_small_patch16_lingbot.robbyant | yes | none | 4.8e-07 | 1.8e-06 | 512x512 | 16 |
| vit_base_patch16_lingbot.robbyant | yes | none | 6.2e-07 | 1.5e-06 | 512x512 | 16 |
| vit_large_patch16_lingbot.robbyant | yes | none | 5.0e-07 | 9.1e-07 | 512x512 | 16 |
| vit_giant_patch16_lingbot.robbyant | yes | none | 4.8e-07 | 2.0e-06 | 512x512 | 16 |
"""

NAFLEX = """## Any aspect ratio, by tests/test_own.sh naflexvit: 8 of 8 architectures

tests/make_naflex.py ran small models of timm's NaFlexVit on four photos of different shapes. Each
architecture of the table has the options of one of these small models. Photos are resized as by
timm's NaFlex loader, to at most 576 patches.

| tag | supported | output | tokens | small model |
|---|---|---|---|---|
| naflexvit_base_patch16_gap.e300_s576_in1k | yes | 2.3e-07 | 3.4e-07 | naflexvit_base_patch16_gap |
| naflexvit_base_patch16_par_gap.e300_s576_in1k | yes | 3.8e-07 | 5.2e-07 | naflexvit_base_patch16_par_gap |
| naflexvit_base_patch16_parfac_gap.e300_s576_in1k | yes | 1.2e-07 | 2.4e-07 | naflexvit_base_patch16_parfac_gap |
| naflexvit_base_patch16_siglip.v2_webli | yes | 1.8e-07 | 3.8e-07 | naflexvit_base_patch16_siglip |
| naflexvit_so400m_patch16_siglip.v2_webli | yes | 1.8e-07 | 3.8e-07 | naflexvit_base_patch16_siglip |
| naflexvit_base_patch16_map.untrained | yes | 2.8e-07 | 4.9e-07 | naflexvit_so150m2_patch16_reg1_map |
| naflexvit_so150m2_patch16_reg1_gap.untrained | yes | 2.3e-07 | 3.4e-07 | naflexvit_base_patch16_gap |
| naflexvit_so150m2_patch16_reg1_map.untrained | yes | 2.8e-07 | 4.9e-07 | naflexvit_so150m2_patch16_reg1_map |
"""

# An architecture in this list stands for all of its tags. vit-convert refuses them and prints the
# reason.
LACKING = (
    ("windows, and relative positions that depend on the query (SAM)",
     "samvit_base_patch16 samvit_base_patch16_224 samvit_huge_patch16 samvit_large_patch16"),
    ("four norms a block, norms of values, clamped layers (Gemma 4)",
     "gemma4_vit_167m gemma4_vit_167m_enc gemma4_vit_570m gemma4_vit_570m_enc"),
)


def lacking_lines():
    lines = ["## ViTs of timm that vit.h lacks\n", "| architecture | reason |", "|---|---|"]
    return lines + [f"| {name} | {reason} |" for reason, names in LACKING for name in names.split()]


PARTS = (
    ("ViT, DeiT and hybrids: {} of {} tags with weights",
     lambda t: t.has_weights() and t.module in MODULES[:3]),
    ("EVA, DINOv3, PE, RoPE ViTs: {} of {} tags with weights",
     lambda t: t.has_weights() and t.module == "eva"),
    ("BEiT: {} of {} tags with weights", lambda t: t.has_weights() and t.module == "beit"),
    ("ViTs with relative positions: {} of {} tags with weights",
     lambda t: t.has_weights() and t.module == "vision_transformer_relpos"),
    ("Architectures without weights: {} of {}", lambda t: not t.has_weights() and not t.extra),
    ("Constructor options that no tag uses: {} of {}", lambda t: t.extra),
)
HEADER = ("| tag | supported | logits | embedding | tokens | input | patch | head | options "
          "| fixture |\n|---|---|---|---|---|---|---|---|---|---|")


def write_table(tags, results, fixtures):
    lines = [INTRODUCTION.format(version=VERSION, date=DATE, bound=BOUND)]
    for title, belongs in PARTS:
        some = [t for t in tags if belongs(t)]
        good = sum("reason" not in results[t.label] for t in some)
        lines += ["## " + title.format(good, len(some)) + "\n", HEADER]
        lines += [tag_row(t, results[t.label], fixtures) for t in some]
        lines.append("")
    lines += [PROPOSED, NAFLEX, *lacking_lines(), ""]
    lines += ["## Other input sizes, patch sizes and channel counts\n",
              "| tag | options of vit-convert | error |", "|---|---|---|", *resized_rows(tags), ""]
    lines += ["## Layouts of other libraries, by tests/test_layouts.sh\n",
              "| layout | supported | what is compared | error against timm |",
              "|---|---|---|---|", *layout_rows(), ""]
    TABLE.write_text("\n".join(lines) + "\n")
    with TABLE.open("a") as f:  # the command reads the tables above
        f.write(subprocess.run(["bash", ROOT / "tests" / "test_families.sh", "--table"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("timm", help="folder of timm's repository at commit aa4b5850")
    parser.add_argument("patterns", nargs="*", help="only tags like these; nothing is written")
    options = parser.parse_args()
    global timm, registry, timm_hub, resolve_data_config
    timm = import_timm(options.timm)
    registry, timm_hub = timm_module("_registry"), timm_module("_hub")
    from timm.data import resolve_data_config
    torch.set_num_threads(1)
    tags = [t for t in find_tags() if not options.patterns or
            any(fnmatch.fnmatch(t.label, p) for p in options.patterns)]
    results = {}
    with tempfile.TemporaryDirectory() as work:
        for tag in tags:
            try:
                results[tag.label] = check(tag, work)
                said = "  ".join(f"{k} {e:.1e}" for k, e in results[tag.label].items())
            except Refused as reason:
                results[tag.label] = {"reason": str(reason)}
                said = f"no: {reason}"
            print(f"{tag.label:60} {said}", flush=True)
    if not options.patterns:
        write_table(tags, results, write_fixtures(tags, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
