#!/usr/bin/env python3
"""Train the bundled Fashion-MNIST Vision Transformer from scratch, on a CPU.

    train_fashion.py WORK [--epochs N] [--teacher-epochs N] [--seed N]

Data.  Debian's package dataset-fashion-mnist: 60,000 training and 10,000 test images of 28 x 28
grey pixels.  The test images are only ever used to measure.

Recipe.  A small convolutional network learns first.  The ViT then sees shifted, mirrored and
partly erased images and learns from the labels and from the network's softened answers to the same
images.  The optimizer is AdamW, with a learning rate that falls as a cosine.  The exported
weights are an exponential moving average.

WORK receives teacher.pth (used again if it is there), fashion_vit.pth (a state dict with timm's
names, every five epochs), config.json (timm's hub form) and a log.

Speed.  An epoch takes half a minute of one core.  These settings keep glibc's allocator from
giving every large activation back to the kernel, and threads from spinning; one thread is enough:

    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE MALLOC_MMAP_MAX_=0
    MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=536870912

Only numpy and PyTorch (1.13 or later) are needed.
"""
import argparse
import copy
import gzip
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

DATA = "/usr/share/datasets/fashion-mnist/"
CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat",
           "sandal", "shirt", "sneaker", "bag", "ankle boot"]
MEAN, STD = 0.286, 0.353
DIM, HEADS, DEPTH, MLP, PATCH, SIDE = 48, 3, 3, 72, 7, 28


def load(name):
    with gzip.open(f"{DATA}{name}-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, 1, SIDE, SIDE)
    with gzip.open(f"{DATA}{name}-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)
    x = (torch.from_numpy(x.astype(np.float32)) / 255 - MEAN) / STD
    return x, torch.from_numpy(y.astype(np.int64))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) * (DIM // HEADS) ** -0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, n, DIM))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(DIM, MLP), nn.Linear(MLP, DIM)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM, eps=1e-6), nn.LayerNorm(DIM, eps=1e-6)
        self.attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(1, DIM, PATCH, stride=PATCH)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class VisionTransformer(nn.Module):
    """timm's, without a class token, the head on the mean of the normed patches."""

    def __init__(self):
        super().__init__()
        self.patch_embed = PatchEmbed()
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, (SIDE // PATCH) ** 2, DIM))
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM, eps=1e-6)
        self.head = nn.Linear(DIM, len(CLASSES))

    def forward(self, x):
        x = self.patch_embed(x) + self.pos_embed
        return self.head(self.norm(self.blocks(x)).mean(dim=1))


def convnet():
    def layer(a, b):
        return [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layer(1, 32), nn.MaxPool2d(2), *layer(32, 64), nn.MaxPool2d(2),
                         *layer(64, 128), nn.AdaptiveMaxPool2d(1),
                         nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, len(CLASSES)))


def fused(network):
    """A convnet for evaluation: its batch norms in the convolutions, pixels' channels together."""
    layers = list(network.eval().children())
    for i in range(len(layers) - 1):
        if isinstance(layers[i], nn.Conv2d):
            layers[i] = fuse_conv_bn_eval(layers[i], layers[i + 1])
    layers = [layer for layer in layers if not isinstance(layer, nn.BatchNorm2d)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def augment(x, shift, erase):
    """Mirrored, shifted by up to `shift` pixels, a random square set to the mean."""
    n = len(x)
    x = torch.where(torch.rand(n, 1, 1, 1) < 0.5, x.flip(3), x)
    padded = F.pad(x, (shift,) * 4, value=-MEAN / STD)
    dy, dx = torch.randint(0, 2 * shift + 1, (2, n, 1, 1))
    rows, cols = torch.arange(SIDE).view(1, -1, 1), torch.arange(SIDE).view(1, 1, -1)
    x = padded[torch.arange(n).view(-1, 1, 1), 0, rows + dy, cols + dx].unsqueeze(1)
    if erase:
        top, left = torch.randint(-erase, SIDE, (2, n, 1, 1))
        hidden = ((rows >= top) & (rows < top + erase) & (cols >= left) & (cols < left + erase))
        x = x.masked_fill(hidden.unsqueeze(1), 0.0)
    return x


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    right = sum(int((model(x[i:i + 1000]).argmax(1) == y[i:i + 1000]).sum())
                for i in range(0, len(x), 1000))
    model.train()
    return right / len(x)


def fit(model, data, test, epochs, rate, decay, batch, loss_of, log, name, erase, save):
    """AdamW; the rate rises for one epoch, then falls as a cosine. Saves the moving average."""
    x, y = data
    steps = epochs * (len(x) // batch)
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), rate, weight_decay=decay)
    step, start = 0, time.time()
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        for i in range(0, len(x) - batch + 1, batch):
            warm = min(1.0, (step + 1) * epochs / steps)
            for group in optimizer.param_groups:
                group["lr"] = rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
            pick = order[i:i + batch]
            image = augment(x[pick], 2, erase)
            loss = loss_of(model(image), image, y[pick])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            keep = min(0.999, step / (step + 100))
            for a, b in zip(average.state_dict().values(), model.state_dict().values()):
                a.copy_(a * keep + b * (1 - keep) if a.is_floating_point() else b)
        if epoch % 5 == 4 or epoch == epochs - 1:
            log(f"{name} epoch {epoch + 1}/{epochs}, {time.time() - start:.0f} s: "
                f"{100 * accuracy(average, *test):.2f} %")
            save(average)


def save(model, work):
    torch.save(model.state_dict(), os.path.join(work, "fashion_vit.pth"))
    config = {"architecture": "vit_fashion_patch7_28", "num_classes": len(CLASSES),
              "global_pool": "avg", "label_names": CLASSES,
              "model_args": {"img_size": SIDE, "patch_size": PATCH, "in_chans": 1,
                             "embed_dim": DIM, "depth": DEPTH, "num_heads": HEADS,
                             "mlp_ratio": MLP / DIM, "class_token": False, "fc_norm": False,
                             "act_layer": "gelu", "norm_eps": 1e-6, "global_pool": "avg"},
              "pretrained_cfg": {"input_size": [1, SIDE, SIDE], "mean": [MEAN], "std": [STD],
                                 "interpolation": "bilinear", "crop_pct": 1.0,
                                 "crop_mode": "squash"}}
    with open(os.path.join(work, "config.json"), "w") as f:
        json.dump(config, f, indent=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work")
    parser.add_argument("--epochs", type=int, default=55)
    parser.add_argument("--teacher-epochs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    torch.manual_seed(args.seed)

    def log(text):
        print(text, flush=True)
        with open(os.path.join(args.work, "log"), "a") as f:
            f.write(text + "\n")

    data, test = load("train"), load("t10k")
    path = os.path.join(args.work, "teacher.pth")
    if not os.path.exists(path):
        fit(convnet(), data, test, args.teacher_epochs, 3e-3, 0.02, 256,
            lambda logits, image, y: F.cross_entropy(logits, y, label_smoothing=0.05), log,
            "teacher", 8, lambda average: torch.save(average.state_dict(), path))
    teacher = convnet()
    teacher.load_state_dict(torch.load(path))
    teacher = fused(teacher)

    def distilled(logits, image, y):
        with torch.no_grad():
            soft = F.softmax(teacher(image.contiguous(memory_format=torch.channels_last)) / 2, 1)
        return (0.3 * F.cross_entropy(logits, y) +
                0.7 * 4 * F.kl_div(F.log_softmax(logits / 2, dim=1), soft, reduction="batchmean"))
    fit(VisionTransformer(), data, test, args.epochs, 3e-3, 0.05, 256, distilled, log,
        "student", 6, lambda average: save(average, args.work))


if __name__ == "__main__":
    main()
