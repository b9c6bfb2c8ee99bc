#!/usr/bin/env python3
"""Writes tests/data/tokens and tests/token_vectors.h: small vocabularies that hold the merges of a few
texts alone, and their ids by other tokenizers.

    python3 tests/make_tokens.py BPE MODULE

BPE is CLIP's bpe_simple_vocab_16e6.txt.gz, MODULE the folder of the npm package tokenizers. Needs
Debian's python3-regex, and ftfy.
"""
import json
import os
import struct
import subprocess
import sys

import token_texts

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tokens")
TEXTS = [
    "", " ", "a", "a photo of a cat", "A Photo of TWO dogs!", "  two   spaces\tand\na line  ",
    "it's they're I'll we've he'd I'm don't O'BRIEN'S ''s", "12345 3.14 \u00bd\u0665",
    "caf\u00e9 re\u0301sume\u0301 \u1e9b\u0323 \u0344 a\u0323\u0302 a\u0302\u0323", "\u03a3\u039f\u03a6\u039f\u03a3 \u03a3 \u03b1\u03a3' \u03b1\u03a3'\u03b1 ",
    "\u0130stanbul \u01c5 \u1e9e \u212a", "\u041a\u043e\u0448\u043a\u0430", "\u732b\u306e\u5199\u771f \u30ac\u30cf\u3099",
    "\uace0\uc591\uc774 \u1100\u1161\u11a8 \u1100\u1161 \u11a8", "\u0e41\u0e21\u0e27 \u0e01\u0e34\u0e19", "\u05d7\u05ea\u05d5\u05dc \u0642\u0637\u0629",
    "\U0001f431 \U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 \u2764\ufe0f 1\ufe0f\u20e3",
    "<|startoftext|> x<|endoftext|>y !<|endoftext|> <|ENDOFTEXT|>", "!!!??? ... ---", "snake_case",
    "\u00a0a\u202fb\u3000c\u0085d\u001ce\u200bf", "x\u0345y \u0345", "\U000e0041\U00040000\U0010fffd", "\x00\x01",
    "a" * 200, "word " * 100, "<|", "</w> a</w>", "\u017f '\u017f", "\ufb01ne \uff21\uff22",
]


def run(command, texts):
    data = b"".join(struct.pack("=I", len(t.encode())) + t.encode() for t in texts)
    out = subprocess.run(command, input=data, stdout=subprocess.PIPE, check=True).stdout
    ids, at = [], 0
    while at < len(out):
        count = struct.unpack_from("=I", out, at)[0]
        ids.append(list(struct.unpack_from("=%dI" % count, out, at + 4)))
        at += 4 + 4 * count
    assert len(ids) == len(texts)
    return ids


def token(i, content, normalized):
    return dict(id=i, content=content, single_word=False, lstrip=False, rstrip=False,
                normalized=normalized, special=True)


def clip_json(vocabulary, merges):
    """tokenizer.json as it is published with CLIP."""
    end = vocabulary["<|endoftext|>"]
    pattern = "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
    return dict(
        version="1.0", truncation=None, padding=None,
        added_tokens=[token(end - 1, "<|startoftext|>", True), token(end, "<|endoftext|>", False)],
        normalizer=dict(type="Sequence", normalizers=[
            dict(type="NFC"), dict(type="Replace", pattern=dict(Regex="\\s+"), content=" "),
            dict(type="Lowercase")]),
        pre_tokenizer=dict(type="Sequence", pretokenizers=[
            dict(type="Split", pattern=dict(Regex=pattern), behavior="Removed", invert=True),
            dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)]),
        post_processor=dict(type="RobertaProcessing", sep=["<|endoftext|>", end],
                            cls=["<|startoftext|>", end - 1], trim_offsets=False, add_prefix_space=False),
        decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
        model=dict(type="BPE", dropout=None, unk_token="<|endoftext|>", continuing_subword_prefix="",
                   end_of_word_suffix="</w>", fuse_unk=False, byte_fallback=False, vocab=vocabulary,
                   merges=[" ".join(m) for m in merges]))


def write(path, text):
    path = os.path.join(FOLDER, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def c_string(text):
    out, hexadecimal = "", False
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        if plain and hexadecimal and chr(byte) in "0123456789abcdefABCDEF":
            out += '" "'
        out += chr(byte) if plain else "\\x%02x" % byte
        hexadecimal = not plain
    return '"%s"' % out


def clip(bpe, module, vectors):
    full = token_texts.SimpleTokenizer(bpe)
    used = set()
    for text in TEXTS:
        for cleaned in (text.lower(), token_texts.clean(text, token_texts.fixer("ftfy"))):
            for word in full.words.findall(cleaned):
                symbols = full.pieces("".join(full.byte[b] for b in word.encode()))
                used.update(symbols)
    makes = {"".join(m): m for m in full.rank}
    merges, todo = set(), [p for p in used if p in makes]
    while todo:
        merge = makes[todo.pop()]
        if merge not in merges:
            merges.add(merge)
            todo += [p for p in merge if p in makes]
    merges = sorted(merges, key=full.rank.get)
    pieces = [p for p, i in full.id.items() if i < 512 or p.startswith("<|") and p.endswith("text|>")]
    vocabulary = {p: full.id[p] for p in pieces + ["".join(m) for m in merges]}
    write("clip/vocab.json", json.dumps(vocabulary, ensure_ascii=False, indent=0) + "\n")
    lines = "\n".join(" ".join(m) for m in merges) + "\n"
    write("clip/merges.txt", "#version: 0.2\n" + lines)
    small = write("bpe.txt", "\"merges of a few texts\"\n" + lines)
    node = ["node", os.path.join(os.path.dirname(__file__), "token_reference.mjs"), module]
    published = os.path.join("/tmp", "clip_tokenizer_%d.json" % os.getpid())
    with open(published, "w") as file:
        json.dump(clip_json(full.id, sorted(full.rank, key=full.rank.get)), file)
    vectors["clip"] = run(node + [published, "77"], TEXTS)
    os.remove(published)
    vectors["bpe"] = run([sys.executable, os.path.join(os.path.dirname(__file__), "token_texts.py"),
                          "openai", small, "ftfy"], TEXTS)


def main(bpe, module):
    vectors = {}
    clip(bpe, module, vectors)
    with open(os.path.join(os.path.dirname(FOLDER), "..", "token_vectors.h"), "w") as file:
        file.write("/* token_vectors.h - texts, and their ids by other tokenizers; made by make_tokens.py. */\n")
        file.write("/* clang-format off */\n")
        file.write("static const struct { const char *text; int size; } token_texts[] = {\n")
        for text in TEXTS:
            file.write("    { %s, %d },\n" % (c_string(text), len(text.encode())))
        file.write("};\n")
        for name, rows in vectors.items():
            file.write("\nstatic const int token_ids_%s[] = { /* a count, and the ids, of each text */\n" % name)
            for row in rows:
                line = "    %d," % len(row)
                for i in row:
                    if len(line) > 92:
                        file.write(line + "\n")
                        line = "       "
                    line += " %d," % i
                file.write(line + "\n")
            file.write("};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
