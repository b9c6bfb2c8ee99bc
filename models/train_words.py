#!/usr/bin/env python3
"""Gives the bundled CIFAR-10 model words: trains a small text encoder beside it, on a CPU.

    tools/vit-convert models/cifar10-vit.vit --to safetensors -o image.safetensors
    tools/vit-embed DATA/train -o train.npy             # CIFAR-10 as files, a folder a class
    models/train_words.py image.safetensors train.npy OUT [--epochs N] [--seed N]
    tools/vit-convert OUT --dtype f16 -o models/cifar10-vit.vit

Method.  "LiT: Zero-Shot Transfer with Locked-image text Tuning" (arXiv 2111.07991): the image
encoder stays as it is, and a text encoder like CLIP's learns to put a caption where the
embeddings of its pictures are.  A picture's captions are its class, other words for it ("puppy")
and its kind ("an animal"), in sentences such as "a blurry photo of a {}".  Captions of things that
are in no picture of CIFAR-10 are always wrong, so that such words fit no picture.  The
tokenizer is byte-level BPE, learned from the captions.

OUT receives model.safetensors and config.json in open_clip's form, vocab.json and merges.txt.
Training takes minutes on one core, and needs only numpy and PyTorch (1.13 or later).
"""
import argparse
import collections
import json
import math
import os
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

WIDTH, HEADS, DEPTH, CONTEXT = 64, 2, 1, 16
NAMES = {
    "airplane": "airplane plane jet aircraft airliner aeroplane biplane fighter jumbo",
    "automobile": "automobile car sedan hatchback limousine convertible taxi motorcar roadster",
    "bird": "bird ostrich sparrow songbird cassowary finch robin emu pigeon",
    "cat": "cat kitten kitty tabby tomcat pussycat kittens cats feline",
    "deer": "deer stag fawn doe reindeer elk antlers moose buck",
    "dog": "dog puppy puppies hound pooch doggy spaniel dogs terrier",
    "frog": "frog toad bullfrog treefrog amphibian frogs toads tadpole bufo",
    "horse": "horse pony mare foal stallion colt horses racehorse mustang",
    "ship": "ship boat vessel freighter ferry steamer liner yacht sailboat",
    "truck": "truck lorry pickup firetruck semitrailer dumper tipper trucks trailer",
}
GROUPS = {
    "animal": "bird cat deer dog frog horse", "creature": "bird cat deer dog frog horse",
    "vehicle": "airplane automobile ship truck", "machine": "airplane automobile ship truck",
    "pet": "cat dog", "mammal": "cat deer dog horse",
    "thing with wings": "airplane bird", "thing that flies": "airplane bird",
    "thing with wheels": "automobile truck", "thing with hooves": "deer horse",
    "thing on the road": "automobile truck", "thing on the water": "ship",
}
OTHERS = ("apple banana bridge building bottle bread book bicycle beach bed bee butterfly castle cup "
          "chair cloud clock coffee church computer cow crowd desk door elephant face fish flower "
          "forest fruit glass guitar hand hat house insect island keyboard kitchen lake lamp leaf lion "
          "man map mountain mouse orange people person phone piano pizza plate rabbit rain river road "
          "rocket rose sea sheep shoe sky snail snake sofa spider street sun sunset table telephone "
          "text tiger tower train tree turtle umbrella wall watch window woman wolf sheet nothing")
TEMPLATES = ("{}|a {}|the {}|one {}|my {}|a photo of a {}|a photo of the {}|a picture of a {}|an image of a "
             "{}|a blurry photo of a {}|a good photo of a {}|a bad photo of a {}|a small photo of a {}|a "
             "close-up of a {}|a low resolution photo of a {}|a cropped photo of a {}|this is a {}|there "
             "is a {} in the photo|a photo of one {}|a big {}|a little {}|a white {}|a black {}|a brown "
             "{}|a red {}|a {} in the grass|a {} outdoors|a {} in the sun|a {} with a blue "
             "background|photo of a {}|picture of a {}|is it a {}?|an {}|some {}").split("|")


# === The tokenizer: byte-level BPE, as CLIP's ===

def byte_names():
    """A printable character for each byte, in the order of CLIP's vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(rest)}


def words_of(text):
    return text.lower().replace("?", " ?").replace("-", " - ").split()


def learn_merges(texts, count):
    """The pairs that are joined, most frequent first."""
    counts = collections.Counter(word for text in texts for word in words_of(text))
    pieces = {word: [*word[:-1], word[-1] + "</w>"] for word in counts}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for parts in pieces.values():
            join(parts, best)
    return merges


def join(parts, pair):
    i = 0
    while i + 1 < len(parts):
        if (parts[i], parts[i + 1]) == pair:
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        i += 1


class Tokenizer:
    def __init__(self, texts, count):
        self.merges = learn_merges(texts, count)
        shown = list(byte_names().values())
        tokens = shown + [c + "</w>" for c in shown] + [a + b for a, b in self.merges]
        tokens += ["<|startoftext|>", "<|endoftext|>"]
        self.vocab = {token: i for i, token in enumerate(tokens)}

    def ids(self, text):
        row = [len(self.vocab) - 2]
        for word in words_of(text):
            parts = [*word[:-1], word[-1] + "</w>"]
            for pair in self.merges:
                join(parts, pair)
            row += [self.vocab[part] for part in parts]
        row = row[:CONTEXT - 1] + [len(self.vocab) - 1]
        return row + [0] * (CONTEXT - len(row))


# === The text encoder, under open_clip's names ===

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(collections.OrderedDict(
            c_fc=nn.Linear(WIDTH, 4 * WIDTH), gelu=nn.GELU(), c_proj=nn.Linear(4 * WIDTH, WIDTH)))

    def forward(self, x, mask):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Text(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, WIDTH)
        self.positional_embedding = nn.Parameter(0.01 * torch.randn(CONTEXT, WIDTH))
        self.transformer = nn.Module()
        self.transformer.resblocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.ln_final = nn.LayerNorm(WIDTH)
        self.text_projection = nn.Parameter(WIDTH ** -0.5 * torch.randn(WIDTH, dim))
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -math.inf).triu(1), False)

    def forward(self, ids):
        x = self.token_embedding(ids) + self.positional_embedding
        for block in self.transformer.resblocks:
            x = block(x, self.mask)
        x = self.ln_final(x)[torch.arange(len(ids)), ids.argmax(-1)]
        return x @ self.text_projection


# === Captions and training ===

def captions():
    """Each noun with the classes that it fits."""
    classes = list(NAMES)
    nouns = [(noun, [i]) for i, name in enumerate(classes) for noun in NAMES[name].split()]
    nouns += [(noun, [classes.index(name) for name in members.split()])
              for noun, members in GROUPS.items()]
    return nouns + [(noun, []) for noun in OTHERS.split()]


def train(embeddings, labels, tokenizer, options):
    torch.manual_seed(options.seed)
    nouns = captions()
    fits = torch.zeros(len(nouns), len(NAMES))
    for i, (_, members) in enumerate(nouns):
        fits[i, members] = 1
    table = torch.tensor([[tokenizer.ids(t.format(noun)) for t in TEMPLATES] for noun, _ in nouns])
    text = Text(len(tokenizer.vocab), embeddings.shape[1])
    scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    optimizer = torch.optim.AdamW([{"params": text.parameters(), "weight_decay": 0.05},
                                   {"params": [scale], "weight_decay": 0}], lr=1e-3)
    batch, steps = 1000, options.epochs * len(embeddings) // 1000
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, i / 50) * (1 + math.cos(math.pi * i / steps)) / 2)
    for step in range(steps):
        pick = torch.randint(len(embeddings), (batch,))
        ids = table[torch.arange(len(nouns)), torch.randint(len(TEMPLATES), (len(nouns),))]
        logits = scale.exp() * embeddings[pick] @ F.normalize(text(ids), dim=-1).t()
        right = fits[:, labels[pick]].t()
        # The captions of a picture share its probability, and the pictures of a caption share the
        # caption's probability.
        by_image = -(F.log_softmax(logits, 1) * right).sum(1) / right.sum(1)
        has = right.sum(0) > 0
        by_text = -(F.log_softmax(logits, 0) * right).sum(0)[has] / right.sum(0)[has]
        loss = by_image.mean() + by_text.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            scale.clamp_(0, math.log(100))
        if step % 100 == 99 or step + 1 == steps:
            print(f"step {step + 1} of {steps}: loss {loss:.3f}, scale {scale.exp():.1f}, "
                  f"zero-shot {accuracy(text, tokenizer, embeddings, labels):.4f}", flush=True)
    return text, scale


@torch.no_grad()
def accuracy(text, tokenizer, embeddings, labels):
    ids = torch.tensor([tokenizer.ids(f"a photo of a {name}") for name in NAMES])
    best = (embeddings @ F.normalize(text(ids), dim=-1).t()).argmax(1)
    return (best == labels).float().mean().item()


# === Files ===

def read_safetensors(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    types = {"F16": np.float16, "F32": np.float32}
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": {"float16": "F16", "float32": "F32"}[t.dtype.name],
                        "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            file.write(np.ascontiguousarray(t).tobytes())


def export(out, image, text, scale, tokenizer):
    tensors = {"visual.trunk." + name: t for name, t in image.items()}
    tensors |= {"text." + name: t.detach().numpy().astype(np.float16)
                for name, t in text.state_dict().items()}
    tensors["logit_scale"] = scale.detach().numpy().reshape(1)
    write_safetensors(out + "/model.safetensors", tensors)
    config = {  # timm's form for the image, open_clip's for the texts
        "architecture": "vit_cifar10_patch4_32", "num_classes": 10, "global_pool": "token",
        "model_args": {"img_size": 32, "patch_size": 4, "embed_dim": 192, "depth": 7, "num_heads": 6,
                       "mlp_ratio": 2},
        "label_names": list(NAMES),
        "pretrained_cfg": {"input_size": [3, 32, 32], "fixed_input_size": True, "crop_pct": 1.0,
                           "crop_mode": "center", "interpolation": "bicubic",
                           "mean": [0.4914, 0.4822, 0.4465], "std": [0.247, 0.2435, 0.2616],
                           "num_classes": 10, "first_conv": "patch_embed.proj", "classifier": "head"},
        "model_cfg": {"text_cfg": {"context_length": CONTEXT, "width": WIDTH, "heads": HEADS,
                                   "layers": DEPTH, "vocab_size": len(tokenizer.vocab)}}}
    with open(out + "/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)
    with open(out + "/vocab.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer.vocab, file, ensure_ascii=False, indent=0)
    with open(out + "/merges.txt", "w", encoding="utf-8") as file:
        file.write("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in tokenizer.merges))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("image", help="the image encoder as safetensors")
    parser.add_argument("embeddings", help="OUT.npy of vit-embed; OUT.txt is beside it")
    parser.add_argument("out")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    with open(options.embeddings[:-4] + ".txt", encoding="utf-8") as file:
        classes = [line.split("/")[-2] for line in file]
    labels = torch.tensor([list(NAMES).index(name) for name in classes])
    embeddings = F.normalize(torch.from_numpy(np.load(options.embeddings).astype(np.float32)), dim=-1)
    texts = [t.format(noun) for noun, _ in captions() for t in TEMPLATES]
    tokenizer = Tokenizer(texts, 800)
    text, scale = train(embeddings, labels, tokenizer, options)
    export(options.out, read_safetensors(options.image), text, scale, tokenizer)


main()
