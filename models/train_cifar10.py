#!/usr/bin/env python3
"""Train the bundled CIFAR-10 Vision Transformer from scratch, on a CPU.

Data.  CIFAR-10 as image files (JPEG or PNG), one folder per class:

    DATA/train/CLASS/*.jpg      50,000 training images
    DATA/test/CLASS/*.jpg       10,000 test images (only ever used to measure)

The class index is the alphabetical position of the folder name.  The decoded
images are cached beside the folders as DATA/{train,test}_{x,y}.npy.

Steps.  Each step can be interrupted.  With --resume it continues from its last
checkpoint.

    train_cifar10.py teacher DATA WORK            a small convolutional network
    train_cifar10.py student DATA WORK            the ViT, distilled from it
    train_cifar10.py export  DATA WORK OUT        files for the converter

`student --deadline HH:MM` (UTC) fits the learning-rate decay to the time that
is left instead of to --epochs.  `student --help` lists the other settings; the
defaults are the ones that made the bundled model (which was trained with a
deadline, so for fewer epochs: see README.md beside this file).

Recipe.  A small convolutional network learns first (after airbench94, with
Muon).  The ViT then sees randomly shifted, mirrored, zoomed and partly mixed
images (CutMix, mixup), and learns from three things at once: the labels, the
network's softened answers to the same images, and, through two training-only
linear heads, the network's feature maps.  Its attention starts on
neighbouring patches, and its patch projection starts as a whitening.  Hidden matrices are
trained with Muon, the rest with AdamW; the learning rate is flat, then falls
linearly to zero.  The exported weights are an exponential moving average.  It
learns only from training images.

`export` writes to OUT: cifar10_vit.pth (a state dict in float16 with timm's
names), config.json (timm's hub form), test_logits.npy and test_labels.npy
(float32 evaluation of exactly the rounded weights over the test images, in
class and file-name order).

Speed.  All slow parts run in bfloat16 under torch.autocast, which pays off
on a CPU with AVX512_BF16 or AMX.  With glibc, these environment variables stop
the allocator from giving every large activation back to the kernel, which
otherwise costs more than the arithmetic in between:

    MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000
    MALLOC_TOP_PAD_=536870912 GLIBC_TUNABLES=glibc.malloc.hugetlb=1
    ATEN_CPU_CAPABILITY=avx512       (where the PyTorch build defaults to less)

Only numpy, Pillow and PyTorch (1.13 or later) are needed.
"""
import argparse
import copy
import datetime
import json
import math
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)


def log(work, name, text):
    line = time.strftime("%H:%M:%S ", time.gmtime()) + text
    print(line, flush=True)
    with open(os.path.join(work, name + ".log"), "a") as f:
        f.write(line + "\n")


def save_atomically(obj, path):
    """A stop in the middle of a save must not cost the previous checkpoint."""
    torch.save(obj, path + ".tmp")
    os.replace(path + ".tmp", path)


# ---------------------------------------------------------------- data

def class_names(data):
    d = os.path.join(data, "train")
    return sorted(c for c in os.listdir(d) if os.path.isdir(os.path.join(d, c)))


def load_split(data, split):
    """uint8 images [N,3,32,32] and labels [N], in class and file-name order."""
    fx, fy = (os.path.join(data, "%s_%s.npy" % (split, k)) for k in "xy")
    if not (os.path.exists(fx) and os.path.exists(fy)):
        xs, ys = [], []
        for label, cls in enumerate(class_names(data)):
            folder = os.path.join(data, split, cls)
            for name in sorted(os.listdir(folder)):
                with Image.open(os.path.join(folder, name)) as im:
                    xs.append(np.asarray(im.convert("RGB")))
                ys.append(label)
        np.save(fx, np.stack(xs))
        np.save(fy, np.array(ys))
    x = torch.from_numpy(np.load(fx)).permute(0, 3, 1, 2).contiguous()
    return x, torch.from_numpy(np.load(fy)).long()


def normalize(x):
    mean = torch.tensor(MEAN).view(1, 3, 1, 1)
    std = torch.tensor(STD).view(1, 3, 1, 1)
    return (x.float() / 255 - mean) / std


def random_shift_flip(x, pad, flip, gen):
    """Reflect-pad, take a random 32x32 crop of each image, mirror where `flip`."""
    n, _, h, w = x.shape
    x = F.pad(x, (pad,) * 4, "reflect")
    oy, ox = torch.randint(0, 2 * pad + 1, (2, n), generator=gen)
    ys = oy[:, None] + torch.arange(h)
    cols = torch.arange(w).expand(n, w)
    xs = ox[:, None] + torch.where(flip[:, None], cols.flip(1), cols)
    i = torch.arange(n)[:, None, None]
    return x.permute(0, 2, 3, 1)[i, ys[:, :, None], xs[:, None, :]].permute(0, 3, 1, 2)


# ---------------------------------------------------------------- Muon

def orthogonalize(g, steps=5):
    """Newton-Schulz iteration towards the nearest orthogonal matrix; g [..,m,n]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    tall = x.size(-2) > x.size(-1)
    if tall:
        x = x.transpose(-1, -2)
    x = x / (x.float().norm(dim=(-2, -1), keepdim=True).bfloat16() + 1e-7)
    for _ in range(steps):
        s = x @ x.transpose(-1, -2)
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.transpose(-1, -2) if tall else x).to(g.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose update is orthogonalized, for weights seen as matrices.

    unit_norm: rescale every filter bank to a fixed norm first, which suits
    convolutions followed by BatchNorm (their scale does not matter).
    """

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0, unit_norm=False):
        super().__init__(params, dict(lr=lr, momentum=momentum,
                                      weight_decay=weight_decay, unit_norm=unit_norm))

    @torch.no_grad()
    def step(self, run=map):
        """`run` may be a thread pool's map."""
        for group in self.param_groups:
            momentum = group["momentum"]
            by_shape = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                buf = state["momentum"].mul_(momentum).add_(p.grad)
                g = p.grad.add(buf, alpha=momentum)          # Nesterov
                by_shape.setdefault(p.shape, []).append((p, g))
            # Matrices of the same shape are iterated together, up to three at a time.
            jobs = [pairs[i:i + 3] for pairs in by_shape.values()
                    for i in range(0, len(pairs), 3)]
            list(run(lambda job: self.update(group, job), jobs))

    @staticmethod
    @torch.no_grad()
    def update(group, pairs):
        lr = group["lr"]
        u = orthogonalize(torch.stack([g.reshape(len(g), -1) for _, g in pairs]))
        for (p, _), v in zip(pairs, u):
            if group["unit_norm"]:
                p.mul_(len(p) ** 0.5 / p.norm())
                scale = 1.0
            else:
                p.mul_(1 - lr * group["weight_decay"])
                scale = max(1.0, v.size(0) / v.size(1)) ** 0.5
            p.add_(v.reshape(p.shape), alpha=-lr * scale)


# ---------------------------------------------------------------- teacher

class Teacher(nn.Module):
    """A convolutional network after K. Jordan's airbench94 (arXiv 2404.00498)."""

    def __init__(self, widths=(64, 256, 256)):
        super().__init__()
        self.whiten = nn.Conv2d(3, 24, 2)
        c, blocks = 24, []
        for w in widths:
            blocks.append(nn.ModuleDict(dict(
                conv1=nn.Conv2d(c, w, 3, padding=1), conv2=nn.Conv2d(w, w, 3, padding=1),
                norm1=nn.BatchNorm2d(w, eps=1e-12), norm2=nn.BatchNorm2d(w, eps=1e-12))))
            c = w
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(c, 10, bias=False)
        for b in self.blocks:
            for conv in (b.conv1, b.conv2):
                # Start as a partial identity, so that depth does not delay learning.
                nn.init.dirac_(conv.weight[:conv.in_channels])
                conv.bias.requires_grad_(False).zero_()     # BatchNorm has the bias
            for norm in (b.norm1, b.norm2):
                norm.weight.requires_grad_(False)
        self.head.weight.data.mul_(1 / self.head.weight.data.std())
        self.to(memory_format=torch.channels_last)

    @torch.no_grad()
    def init_whitening(self, x, eps=5e-4):
        p = F.unfold(x, 2).transpose(1, 2).reshape(-1, 12)
        val, vec = torch.linalg.eigh(p.t() @ p / len(p))
        w = (vec / (val + eps).sqrt()).t().reshape(12, 3, 2, 2)
        self.whiten.weight.copy_(torch.cat([w, -w]))
        self.whiten.weight.requires_grad_(False)
        self.whiten.bias.zero_()

    def forward(self, x, features=False):
        # Hardswish: close to GELU in effect, several times cheaper on a CPU.
        x = F.hardswish(self.whiten(x.contiguous(memory_format=torch.channels_last)))
        maps = []
        for b in self.blocks:
            x = F.hardswish(b.norm1(F.max_pool2d(b.conv1(x), 2)))
            x = F.hardswish(b.norm2(b.conv2(x)))
            maps.append(x)
        x = x.amax((2, 3))
        x = self.head(x) / x.size(-1)
        return (x, maps[1], maps[2]) if features else x

    @torch.no_grad()
    def fold_norms(self):
        """Move the BatchNorms into the convolutions (their scale is positive,
        so it commutes with the max-pooling in between), for cheap labelling."""
        for b in self.blocks:
            for conv, norm in ((b.conv1, b.norm1), (b.conv2, b.norm2)):
                s = 1 / (norm.running_var + norm.eps).sqrt()
                conv.weight.mul_(s.view(-1, 1, 1, 1))
                conv.bias.copy_((conv.bias - norm.running_mean) * s + norm.bias)
            b.norm1, b.norm2 = nn.Identity(), nn.Identity()
        return self.eval().requires_grad_(False)


@torch.no_grad()
def accuracy(model, x, y, batch=500, autocast=True):
    model.eval()
    hits = 0
    for i in range(0, len(x), batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            out = model(normalize(x[i:i + batch]))
        hits += (out.float().argmax(1) == y[i:i + batch]).sum().item()
    model.train()
    return hits / len(x)


def train_teacher(args):
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    x, y = load_split(args.data, "train")
    n, micro = len(x), args.micro
    model = Teacher()
    model.init_whitening(normalize(x[torch.randperm(n, generator=gen)[:5000]]))
    momentum_bn = 1 - 0.4 ** (micro / args.batch)   # per micro-batch
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.momentum = momentum_bn
    wd = 2e-6 * args.batch
    biases = [p for k, p in model.named_parameters() if "norm" in k and p.requires_grad]
    sgd = torch.optim.SGD([
        dict(params=[model.whiten.bias], lr=0.053, weight_decay=wd / 0.053),
        dict(params=biases, lr=0.053, weight_decay=wd / 0.053),
        dict(params=[model.head.weight], lr=0.67, weight_decay=wd / 0.67)],
        momentum=0.85, nesterov=True, lr=0.1)
    filters = [p for p in model.parameters() if p.ndim == 4 and p.requires_grad]
    muon = Muon(filters, lr=0.24, momentum=0.6, unit_norm=True)
    opts = [sgd, muon]
    for opt in opts:
        for g in opt.param_groups:
            g["lr0"] = g["lr"]
    per_epoch = n // args.batch
    total = args.epochs * per_epoch
    whiten_steps = math.ceil(3 * total / 8)
    path = os.path.join(args.work, "teacher.ckpt")
    first = 0
    mirrored = torch.rand(n, generator=gen) < 0.5
    if args.resume and os.path.exists(path):
        s = torch.load(path)
        model.load_state_dict(s["model"])
        sgd.load_state_dict(s["sgd"])
        muon.load_state_dict(s["muon"])
        gen.set_state(s["rng"])
        mirrored, first = s["mirrored"], s["epoch"]
    step = first * per_epoch
    model.train()
    for epoch in range(first, args.epochs):
        order = torch.randperm(n, generator=gen)
        # Mirror each image in every other epoch, so that both sides are seen equally often.
        flip_all = mirrored ^ bool(epoch % 2)
        t0, loss_sum, hits, seen = time.time(), 0.0, 0, 0
        for b in range(per_epoch):
            for g in sgd.param_groups[:1]:
                g["lr"] = g["lr0"] * max(0.0, 1 - step / whiten_steps)
            for g in sgd.param_groups[1:] + muon.param_groups:
                g["lr"] = g["lr0"] * (1 - step / total)
            for i in range(b * args.batch, (b + 1) * args.batch, micro):
                idx = order[i:i + micro]
                v = normalize(random_shift_flip(x[idx].float(), 2, flip_all[idx], gen))
                with torch.autocast("cpu", torch.bfloat16):
                    out = model(v).float()
                loss = F.cross_entropy(out, y[idx], label_smoothing=args.smoothing,
                                       reduction="sum")
                loss.backward()
                loss_sum += loss.item()
                hits += (out.argmax(1) == y[idx]).sum().item()
                seen += len(idx)
            for opt in opts:
                opt.step()
                opt.zero_grad()
            step += 1
            if step % 5 == 0:
                log(args.work, "teacher", "step %d/%d loss %.4f acc %.4f  %.0f img/s" % (
                    step, total, loss_sum / seen, hits / seen, seen / (time.time() - t0)))
        save_atomically(dict(model=model.state_dict(), sgd=sgd.state_dict(),
                             muon=muon.state_dict(), rng=gen.get_state(),
                             mirrored=mirrored, epoch=epoch + 1), path)
        log(args.work, "teacher", "epoch %d done in %.0f s" % (epoch + 1, time.time() - t0))
    xt, yt = load_split(args.data, "test")
    log(args.work, "teacher", "test accuracy %.4f" % accuracy(model, xt, yt))
    save_atomically(model.state_dict(), os.path.join(args.work, "teacher.pth"))


# ---------------------------------------------------------------- student

class PatchEmbed(nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, stride=patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        # unbind is faster than three indexings, because its gradient is a single stack.
        q, k, v = qkv.unbind(0)
        a = ((q * self.scale) @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, d))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden)
        self.fc2 = nn.Linear(hidden, dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, x):
        # Under autocast the branches are bfloat16 but the residual stream and
        # the norms stay float32: this is more exact and, here, also faster.
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """The plain pre-norm Vision Transformer; parameter names are timm's."""

    def __init__(self, dim=192, depth=7, heads=6, mlp_ratio=2, patch=4, size=32, classes=10):
        super().__init__()
        self.cfg = dict(dim=dim, depth=depth, heads=heads, mlp_ratio=mlp_ratio,
                        patch=patch, size=size, classes=classes)
        self.grid = size // patch
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + self.grid ** 2, dim))
        self.patch_embed = PatchEmbed(patch, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, mlp_ratio) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.head = nn.Linear(dim, classes)

    def forward(self, x, taps=()):
        """Logits; with `taps` also the patch tokens after those blocks (1-based)."""
        x = self.patch_embed(x)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x.float()], 1) + self.pos_embed
        tapped = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i + 1 in taps:
                tapped.append(x[:, 1:])
        out = self.head(self.norm(x[:, 0]))
        return (out, tapped) if taps else out

    @torch.no_grad()
    def init_structured(self, images):
        """Start where a convolution would, and let training leave it.

        One head's width of channels carries the position, the others the patch
        content.  Most heads begin by looking at one neighbouring patch, the rest
        at similar content; the patch projection begins as a whitening.
        """
        d, g = self.cfg["dim"], self.grid
        hd = d // self.cfg["heads"]
        pos_dims = 4 * g                      # (cos, sin) x (y, x) x g frequencies
        content = d - pos_dims
        assert pos_dims <= hd
        # These frequencies make cos-similarity a delta over integer offsets.
        w = math.pi * (torch.arange(g) + 0.5) / g
        ang = torch.arange(g)[:, None] * w
        axis = torch.stack([ang.cos(), ang.sin()], -1).view(g, 2 * g) * 2 ** 0.5
        pos = torch.cat([axis[:, None].expand(g, g, -1), axis[None].expand(g, g, -1)], -1)
        self.pos_embed.zero_()
        self.pos_embed[0, 1:, :pos_dims] = pos.reshape(g * g, pos_dims)
        nn.init.normal_(self.cls_token, std=0.02)

        def ortho(rows, cols):
            return nn.init.orthogonal_(torch.empty(rows, cols))

        p = F.unfold(images, self.cfg["patch"], stride=self.cfg["patch"])
        p = p.transpose(1, 2).reshape(-1, p.size(1))
        val, vec = torch.linalg.eigh(p.t() @ p / len(p))
        white = vec @ torch.diag((val + 2e-2).rsqrt()) @ vec.t()
        m = ortho(content, p.size(1)) @ white * (content / p.size(1)) ** 0.5
        self.patch_embed.proj.weight.zero_()
        self.patch_embed.proj.weight[pos_dims:] = m.view(content, 3, *[self.cfg["patch"]] * 2)
        self.patch_embed.proj.bias.zero_()

        cross = [(-1, 0), (1, 0), (0, -1), (0, 1)]
        diagonal = [(-1, -1), (1, 1), (-1, 1), (1, -1)]
        for i, blk in enumerate(self.blocks):
            wq, wk, wv = blk.attn.qkv.weight.view(3, self.cfg["heads"], hd, d)
            blk.attn.qkv.bias.zero_()
            wv.copy_(ortho(d, d).view_as(wv))
            for h in range(self.cfg["heads"]):
                q, k = 0.05 * torch.randn(2, hd, d) / d ** 0.5 * 3
                if h < 4:
                    # Rotate the query's position by the offset. The scale sets the sharpness: about
                    # 3/4 of the weight is on one neighbour.
                    off = (cross if i % 2 == 0 else diagonal)[h]
                    for a in range(2):
                        for f in range(g):
                            c, s = math.cos(w[f] * off[a]), math.sin(w[f] * off[a])
                            r = 2 * (a * g + f)
                            k[r, r] += 1.2
                            k[r + 1, r + 1] += 1.2
                            q[r:r + 2, r:r + 2] += 1.2 * torch.tensor([[c, -s], [s, c]])
                else:
                    o = ortho(hd, content)
                    q[:, pos_dims:] += o
                    k[:, pos_dims:] += o
                wq[h], wk[h] = q, k
            # Branch outputs start small, and leave the position channels alone.
            blk.attn.proj.weight.copy_(0.5 * ortho(d, d))
            blk.attn.proj.weight[:pos_dims].mul_(0.1)
            blk.attn.proj.bias.zero_()
            hidden = blk.mlp.fc1.out_features
            blk.mlp.fc1.weight.copy_(ortho(hidden, d) * (hidden / d) ** 0.5)
            blk.mlp.fc1.bias.zero_()
            blk.mlp.fc2.weight.copy_(0.5 * ortho(d, hidden))
            blk.mlp.fc2.weight[:pos_dims].mul_(0.1)
            blk.mlp.fc2.bias.zero_()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


class Guide(nn.Module):
    """Training-only heads: patch tokens predict the teacher's feature maps.

    After "Locality Guidance for Improving Vision Transformers on Tiny Datasets"
    (Li et al. 2022): 64 tokens of dense targets per image teach far faster than
    ten logits.  The teacher's 7x7 map lies on the first 7x7 patches, and a cell
    of its 3x3 map on 2x2 patches.
    """

    def __init__(self, dim, channels=256):
        super().__init__()
        self.mid = nn.Linear(dim, channels)
        self.late = nn.Linear(dim, channels)

    @staticmethod
    def standard(t):
        t = t.float()
        return (t - t.mean((0, 2, 3), keepdim=True)) / (t.std((0, 2, 3), keepdim=True) + 1e-3)

    def forward(self, tapped, map7, map3):
        b, n, d = tapped[0].shape
        g = int(n ** 0.5)
        mid = self.mid(F.layer_norm(tapped[0].view(b, g, g, d)[:, :7, :7], (d,)))
        late = F.layer_norm(tapped[1], (d,)).view(b, g, g, d)[:, :6, :6]
        late = self.late(late.reshape(b, 3, 2, 3, 2, d).mean((2, 4)))
        return (F.mse_loss(mid.float(), self.standard(map7).permute(0, 2, 3, 1)) +
                F.mse_loss(late.float(), self.standard(map3).permute(0, 2, 3, 1)))


def uniform(shape, lo, hi, gen):
    return lo + (hi - lo) * torch.rand(shape, generator=gen)


def geometric(x, gen, zoom_share=0.3):
    """Shift and mirror every image; zoom a share of them (0.7 to 1.1 of the side).

    Images that are not zoomed are shifted by whole pixels, so they stay as sharp
    as the test images.
    """
    n, _, h, w = x.shape
    zoom = torch.rand(n, generator=gen) < zoom_share
    s = torch.where(zoom, uniform((n,), 0.7, 1.1, gen), torch.ones(n))
    aspect = torch.where(zoom, uniform((n,), -0.1, 0.1, gen).exp(), torch.ones(n))
    room = ((1 - s).clamp(min=0) * w / 2 + 2)[:, None]
    whole = torch.randint(-4, 5, (n, 2), generator=gen).float()
    shift = torch.where(zoom[:, None], uniform((n, 2), -1, 1, gen) * room, whole)
    side = torch.where(torch.rand(n, generator=gen) < 0.5, 1.0, -1.0)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = s * aspect * side, s / aspect
    theta[:, :, 2] = shift * 2 / w
    grid = F.affine_grid(theta, (n, 3, h, w), align_corners=False)
    return F.grid_sample(x, grid, "bilinear", "reflection", align_corners=False)


def mix(x, share, gen):
    """CutMix or mixup a share of the images; returns images, partner, own weight."""
    n, _, h, w = x.shape
    lam = torch.rand(n, generator=gen)
    half = (1 - lam).sqrt() * 0.5
    cy, cx = torch.rand(2, n, generator=gen)
    ys, xs = (torch.arange(h) + 0.5) / h, (torch.arange(w) + 0.5) / w
    inside = (((ys - cy[:, None]).abs() < half[:, None])[:, :, None] &
              ((xs - cx[:, None]).abs() < half[:, None])[:, None, :])
    blend = (torch.rand(n, generator=gen) < 0.3)[:, None, None]
    own = torch.where(blend, lam[:, None, None].expand(n, h, w), 1 - inside.float())
    plain = (torch.rand(n, generator=gen) >= share)[:, None, None]
    own = torch.where(plain, torch.ones(()), own)[:, None]
    partner = torch.randperm(n, generator=gen)
    return x * own + x[partner] * (1 - own), partner, own.mean((1, 2, 3))


def photometric(x, gen):
    """Brightness, contrast and saturation, on normalized images."""
    n = (len(x), 1, 1, 1)
    grey = x.mean(1, keepdim=True)
    x = grey + (x - grey) * uniform(n, 0.6, 1.4, gen)
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + (x - mean) * uniform(n, 0.75, 1.25, gen) + uniform(n, -0.3, 0.3, gen)


class Decay:
    """Learning-rate factor: warm-up, flat, then linear to zero at the end.

    With a deadline the end is where the clock says, so the slope follows the
    speed; it is found from the median step time, which a pause (SIGSTOP) of the
    process does not disturb.
    """

    def __init__(self, total, warmup, flat, deadline):
        self.total, self.warmup, self.flat = total, warmup, flat
        self.deadline, self.factor, self.times = deadline, 1.0, []

    def __call__(self, step, seconds):
        if seconds:
            self.times = (self.times + [seconds])[-101:]
        left = self.total - step
        if self.deadline and len(self.times) > 20:
            # The middle half's mean ignores single pauses, but follows the load.
            t = sorted(self.times)[len(self.times) // 4:-len(self.times) // 4]
            left = (self.deadline - time.time()) / (sum(t) / len(t))
        progress = step / max(1.0, step + left)
        if left < 1:
            return 0.0, 1.0
        if progress > self.flat:
            self.factor *= 1 - 1 / left
        return self.factor * min(1.0, (step + 1) / self.warmup), progress


class Crew:
    """Gradients by single-threaded workers that share the weights.

    Each worker takes the next few images of the batch when it is done with its
    last ones.  Small pieces stay in the cache, and when other programs take part
    of a core nobody waits for it, as the threads of one operator would.
    """

    def __init__(self, workers, teacher, model, guide, taps, args):
        torch.set_num_threads(1)
        self.pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads,
                                       initargs=(1,))
        self.teacher, self.taps, self.args = teacher, taps, args
        self.masters = list(model.parameters()) + list(guide.parameters())
        self.replicas = [(copy.deepcopy(model), copy.deepcopy(guide)) for _ in range(workers)]
        self.lock = threading.Lock()
        for r in self.replicas:
            for p, q in zip(self.masters, [*r[0].parameters(), *r[1].parameters()]):
                q.data = p.data

    def start(self, batch, guide_weight):
        """Begin the forward and backward passes of a batch."""
        micro = [[t[i:i + self.args.micro] for t in batch]
                 for i in range(0, len(batch[0]), self.args.micro)]
        todo = iter(micro)
        return [self.pool.submit(self.work, r, todo, guide_weight, 1 / len(micro))
                for r in self.replicas]

    def finish(self, futures):
        """Wait, add up the gradients into the model; returns the summed statistics."""
        stats = sum(f.result() for f in futures)
        for p, *copies in zip(self.masters, *[[*r[0].parameters(), *r[1].parameters()]
                                              for r in self.replicas]):
            grads = [q.grad for q in copies if q.grad is not None]
            p.grad = grads[0]
            for g in grads[1:]:
                p.grad.add_(g)
            for q in copies:
                q.grad = None
        return stats

    def work(self, replica, todo, guide_weight, share):
        model, guide = replica
        args, t, stats = self.args, self.args.temperature, np.zeros(5)
        while True:
            with self.lock:
                job = next(todo, None)
            if job is None:
                return stats
            seen, shown, own, ya, yb = job
            with torch.autocast("cpu", torch.bfloat16):
                with torch.no_grad():
                    soft, map7, map3 = self.teacher(seen, features=True)
                out, tapped = model(shown, self.taps)
                g_loss = guide(tapped, map7, map3)
            out, soft = out.float(), soft.float()
            hard = (own * F.cross_entropy(out, ya, reduction="none") +
                    (1 - own) * F.cross_entropy(out, yb, reduction="none")).mean()
            kl = F.kl_div(F.log_softmax(out / t, 1), F.softmax(soft / t, 1),
                          reduction="batchmean") * t * t
            loss = args.alpha * kl + (1 - args.alpha) * hard + guide_weight * g_loss
            (loss * share).backward()
            clean = own > 0.999
            stats += [loss.item() * share, kl.item() * share, g_loss.item() * share,
                      (out.argmax(1) == ya)[clean].sum().item(), clean.sum().item()]


def student_optimizers(model, guide, args):
    matrices = [p for k, p in model.blocks.named_parameters() if p.ndim == 2]
    rest = [p for k, p in model.named_parameters() if not (k.startswith("blocks") and p.ndim == 2)]
    decayed = [p for p in rest if p is model.head.weight or p is model.patch_embed.proj.weight]
    plain = [p for p in rest if not any(p is q for q in decayed)]
    muon = Muon(matrices, lr=args.lr, momentum=0.95, weight_decay=args.weight_decay)
    adam = torch.optim.AdamW([
        dict(params=decayed, weight_decay=0.05), dict(params=plain, weight_decay=0.0),
        dict(params=list(guide.parameters()), weight_decay=0.0)],
        lr=args.adam_lr, betas=(0.9, 0.99))
    for opt in (muon, adam):
        for g in opt.param_groups:
            g["lr0"] = g["lr"]
    return muon, adam


def train_student(args):
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    x, y = load_split(args.data, "train")
    xt, yt = load_split(args.data, "test")
    probe = torch.randperm(len(xt), generator=torch.Generator().manual_seed(0))[:2000]
    n = len(x)
    teacher = Teacher()
    teacher.load_state_dict(torch.load(os.path.join(args.work, "teacher.pth")))
    teacher.fold_norms()
    model = ViT(args.dim, args.depth, args.heads, args.mlp_ratio)
    model.init_structured(normalize(x[torch.randperm(n, generator=gen)[:5000]]))
    guide = Guide(args.dim)
    taps = (args.depth // 2, args.depth - 1)
    muon, adam = student_optimizers(model, guide, args)
    ema = {k: v.clone() for k, v in model.state_dict().items()}
    per_epoch = n // args.batch
    deadline = None
    if args.deadline:
        hh, mm = map(int, args.deadline.split(":"))
        now = datetime.datetime.now(datetime.timezone.utc)
        deadline = now.replace(hour=hh, minute=mm, second=0).timestamp()
        deadline += 86400 if deadline < time.time() else 0
    decay = Decay(args.epochs * per_epoch, args.warmup, args.flat, deadline)
    path = os.path.join(args.work, "student.ckpt")
    step, spent, order = 0, 0.0, torch.randperm(n, generator=gen)
    if args.resume and os.path.exists(path):
        s = torch.load(path)
        model.load_state_dict(s["model"])
        guide.load_state_dict(s["guide"])
        muon.load_state_dict(s["muon"])
        adam.load_state_dict(s["adam"])
        gen.set_state(s["rng"])
        ema, step, spent, order = s["ema"], s["step"], s["spent"], s["order"]
        decay.factor, decay.times = s["factor"], s["times"]
    log(args.work, "student", "%d parameters, from step %d: %s" % (
        sum(p.numel() for p in model.parameters()), step, vars(args)))
    model.train()
    crew = Crew(args.workers, teacher, model, guide, taps, args)
    progress, seconds, last_save = 0.0, 0.0, time.time()

    @torch.no_grad()
    def next_batch(step):
        nonlocal order
        pos = step % per_epoch
        if pos == 0 and step:
            order = torch.randperm(n, generator=gen)
        idx = order[pos * args.batch:(pos + 1) * args.batch]
        # At the end images are whole, as in the test.
        share = args.mix * min(1.0, (1 - progress) / 0.15)
        v, partner, own = mix(geometric(normalize(x[idx]), gen), share, gen)
        return v, photometric(v, gen), own, y[idx], y[idx][partner]

    batch = next_batch(step)
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
    sums, t_log = np.zeros(5), time.time()
    while True:
        t0 = time.time()
        factor, progress = decay(step, seconds)
        if factor <= 0 or (not deadline and step >= decay.total):
            break
        for opt in (muon, adam):
            for g in opt.param_groups:
                g["lr"] = g["lr0"] * factor
        crew_at_work = crew.start(batch, args.guide * (1 - progress))
        batch = next_batch(step + 1)            # meanwhile
        sums += crew.finish(crew_at_work)
        muon.step(crew.pool.map)
        adam.step()
        muon.zero_grad(set_to_none=True)
        adam.zero_grad(set_to_none=True)
        step += 1
        with torch.no_grad():
            d = min(args.ema, (step + 1) / (step + 10))
            for k, p in model.state_dict().items():
                ema[k].lerp_(p, 1 - d)
        seconds = time.time() - t0
        spent += seconds
        if step % 20 == 0:
            dt = time.time() - t_log
            log(args.work, "student",
                "step %d epoch %.2f progress %.3f lr %.3f loss %.3f kl %.3f guide %.3f "
                "clean acc %.3f  %.0f img/s" % (
                    step, step / per_epoch, progress, factor, *(sums[:3] / 20),
                    sums[3] / max(1, sums[4]), 20 * args.batch / dt))
            sums, t_log = np.zeros(5), time.time()
        if time.time() - last_save > 180 or asked_to_stop:
            save_student(path, model, guide, muon, adam, gen, ema, step, spent, order, decay)
            last_save = time.time()
            if asked_to_stop:
                return
        if step % (args.eval_every * per_epoch) == 0:
            shadow = ViT(args.dim, args.depth, args.heads, args.mlp_ratio)
            shadow.load_state_dict(ema)
            log(args.work, "student", "epoch %d: EMA accuracy on 2,000 test images %.4f" % (
                step // per_epoch, accuracy(shadow, xt[probe], yt[probe])))
    save_student(path, model, guide, muon, adam, gen, ema, step, spent, order, decay)
    log(args.work, "student", "finished: %d steps, %.1f epochs, %.0f s" % (
        step, step / per_epoch, spent))


def save_student(path, model, guide, muon, adam, gen, ema, step, spent, order, decay):
    save_atomically(dict(model=model.state_dict(), cfg=model.cfg, guide=guide.state_dict(),
                         muon=muon.state_dict(), adam=adam.state_dict(), rng=gen.get_state(),
                         ema=ema, step=step, spent=spent, order=order,
                         factor=decay.factor, times=decay.times), path)


# ---------------------------------------------------------------- export

def export(args):
    s = torch.load(os.path.join(args.work, "student.ckpt"))
    cfg, names = s["cfg"], class_names(args.data)
    half = {k: v.half() for k, v in s["model" if args.raw else "ema"].items()}
    assert all(torch.isfinite(v).all() for v in half.values())
    model = ViT(**cfg).eval()
    # From here on only the rounded weights count.
    model.load_state_dict({k: v.float() for k, v in half.items()})
    x, y = load_split(args.data, "test")
    with torch.no_grad():
        logits = torch.cat([model(normalize(x[i:i + 500])) for i in range(0, len(x), 500)])
    acc = (logits.argmax(1) == y).float().mean().item()
    config = {
        "architecture": "vit_cifar10_patch4_32",
        "num_classes": cfg["classes"],
        "num_features": cfg["dim"],
        "global_pool": "token",
        "model_args": {"img_size": cfg["size"], "patch_size": cfg["patch"],
                       "embed_dim": cfg["dim"], "depth": cfg["depth"],
                       "num_heads": cfg["heads"], "mlp_ratio": cfg["mlp_ratio"]},
        "label_names": names,
        "pretrained_cfg": {"input_size": [3, cfg["size"], cfg["size"]],
                           "fixed_input_size": True, "crop_pct": 1.0,
                           "crop_mode": "center", "interpolation": "bicubic",
                           "mean": list(MEAN), "std": list(STD),
                           "num_classes": cfg["classes"],
                           "first_conv": "patch_embed.proj", "classifier": "head"}}
    os.makedirs(args.out, exist_ok=True)
    out = lambda name: os.path.join(args.out, name)
    save_atomically(half, out("cifar10_vit.pth"))
    for name, array in (("test_logits.npy", logits.numpy()), ("test_labels.npy", y.numpy())):
        with open(out(name + ".tmp"), "wb") as f:
            np.save(f, array)
        os.replace(out(name + ".tmp"), out(name))
    with open(out("config.json.tmp"), "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    os.replace(out("config.json.tmp"), out("config.json"))
    print("step %d, %d parameters, test accuracy %.4f" % (
        s["step"], sum(v.numel() for v in half.values()), acc))
    for photo in args.photo:
        with Image.open(photo) as im:
            im = im.convert("RGB")
            k = cfg["size"] / min(im.size)
            im = im.resize([round(v * k) for v in im.size], Image.BICUBIC)
            left, top = ((v - cfg["size"]) // 2 for v in im.size)
            im = im.crop((left, top, left + cfg["size"], top + cfg["size"]))
            v = torch.from_numpy(np.array(im)).permute(2, 0, 1)[None]
        with torch.no_grad():
            p, i = model(normalize(v))[0].softmax(0).topk(5)
        print(os.path.basename(photo) + ":",
              " ".join("%s %.3f" % (names[j], q) for q, j in zip(p.tolist(), i.tolist())))


def main():
    ap = argparse.ArgumentParser(description="CIFAR-10 ViT training (see the top of the file)")
    sub = ap.add_subparsers(dest="cmd", required=True)
    t = sub.add_parser("teacher")
    t.add_argument("data")
    t.add_argument("work")
    t.add_argument("--epochs", type=int, default=8)
    t.add_argument("--batch", type=int, default=2000)
    t.add_argument("--micro", type=int, default=500, help="images per forward pass")
    t.add_argument("--smoothing", type=float, default=0.1)
    t.add_argument("--seed", type=int, default=1)
    t.add_argument("--resume", action="store_true")
    t.set_defaults(run=train_teacher)
    s = sub.add_parser("student")
    s.add_argument("data")
    s.add_argument("work")
    s.add_argument("--epochs", type=int, default=30)
    s.add_argument("--deadline", help="HH:MM (UTC): finish then, instead of after --epochs")
    s.add_argument("--dim", type=int, default=192)
    s.add_argument("--depth", type=int, default=7)
    s.add_argument("--heads", type=int, default=6)
    s.add_argument("--mlp-ratio", type=int, default=2)
    s.add_argument("--batch", type=int, default=256)
    s.add_argument("--micro", type=int, default=32, help="images per piece of work")
    s.add_argument("--workers", type=int, default=os.cpu_count())
    s.add_argument("--lr", type=float, default=0.02, help="of Muon (hidden matrices)")
    s.add_argument("--adam-lr", type=float, default=2e-3, help="of AdamW (everything else)")
    s.add_argument("--weight-decay", type=float, default=0.1)
    s.add_argument("--warmup", type=int, default=150, help="steps")
    s.add_argument("--flat", type=float, default=0.2, help="share of training before the decay")
    s.add_argument("--alpha", type=float, default=0.75, help="share of the teacher's labels")
    s.add_argument("--temperature", type=float, default=2.0)
    s.add_argument("--guide", type=float, default=1.0, help="weight of the feature targets")
    s.add_argument("--mix", type=float, default=0.3, help="share of CutMix/mixup images")
    s.add_argument("--ema", type=float, default=0.998)
    s.add_argument("--eval-every", type=int, default=4, help="epochs")
    s.add_argument("--seed", type=int, default=1)
    s.add_argument("--resume", action="store_true")
    s.set_defaults(run=train_student)
    e = sub.add_parser("export")
    e.add_argument("data")
    e.add_argument("work")
    e.add_argument("out")
    e.add_argument("--raw", action="store_true", help="the last weights, not their average")
    e.add_argument("--photo", nargs="*", default=[], help="also classify these image files")
    e.set_defaults(run=export)
    args = ap.parse_args()
    if hasattr(args, "work"):
        os.makedirs(args.work, exist_ok=True)
    args.run(args)


if __name__ == "__main__":
    main()
