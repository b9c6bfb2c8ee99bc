#!/usr/bin/env python3
"""Writes tests/data/tokens and tests/token_vectors.h: small vocabularies that hold only the merges
of a few texts, and the ids of these texts by other tokenizers.

    python3 tests/make_tokens.py BPE MODULE

BPE is CLIP's bpe_simple_vocab_16e6.txt.gz, MODULE the folder of the npm package tokenizers. Needs
Debian's python3-regex, python3-sentencepiece and sentencepiece, and ftfy.
"""
import gzip
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

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
        if count == 0xFFFFFFFF:
            ids.append(None)
            at += 4
            continue
        ids.append(list(struct.unpack_from("=%dI" % count, out, at + 4)))
        at += 4 + 4 * count
    assert len(ids) == len(texts)
    return ids


def token(i, content, normalized):
    return dict(id=i, content=content, single_word=False, lstrip=False, rstrip=False,
                normalized=normalized, special=True)


def clip_json(vocabulary, merges):
    """Writes tokenizer.json as it is published with CLIP."""
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
    with gzip.GzipFile(small + ".gz", "wb", mtime=0) as file:
        file.write(open(small, "rb").read())
    write("clip_json/tokenizer.json", json.dumps(clip_json(vocabulary, merges), ensure_ascii=False) + "\n")
    node = ["node", os.path.join(os.path.dirname(__file__), "token_reference.mjs"), module]
    published = os.path.join("/tmp", "clip_tokenizer_%d.json" % os.getpid())
    with open(published, "w") as file:
        json.dump(clip_json(full.id, sorted(full.rank, key=full.rank.get)), file)
    vectors["clip"] = run(node + [published, "77"], TEXTS)
    os.remove(published)
    vectors["bpe"] = run([sys.executable, os.path.join(os.path.dirname(__file__), "token_texts.py"),
                          "openai", small, "ftfy"], TEXTS)


CAPTIONS = 4000


def sentencepiece(vectors):
    """Small models, trained on captions: unigram as SigLIP's, BPE with bytes as Gemma's."""
    import random

    reader = random.Random(3)
    folder = tempfile.mkdtemp()  # a model holds the names of its training files
    path = os.path.join(folder, "texts")
    with open(path + ".txt", "w") as file:
        for _ in range(CAPTIONS):
            words = [reader.choice(token_texts.WORDS) for _ in range(reader.randint(1, 9))]
            file.write(" ".join(words) + "\n")
        file.write("\n".join(t.replace("\n", " ").replace("\0", " ")[:200] for t in TEXTS[1:] * 3))
    with open(path + ".tsv", "w") as file:  # source and target, in hexadecimal
        for source, target in (("\ufb01", "fi"), ("\uff21", "A"), ("\u00bd", "1\u20442"), ("\t", " "),
                               ("\u3000", " "), ("\u00a0", " "), ("\u0001", ""), ("e\u0301", "\u00e9"),
                               ("\u30cf\u3099", "\u30d0"), ("\u30cf", "\u30cf"), ("\u2026", "...")):
            file.write("%s\t%s\n" % (" ".join("%X" % ord(c) for c in source),
                                     " ".join("%X" % ord(c) for c in target)))
    common = ["spm_train", "--input=texts.txt", "--num_threads=1", "--hard_vocab_limit=false",
              "--pad_id=0", "--eos_id=1", "--character_coverage=0.999"]
    os.makedirs(FOLDER + "/siglip", exist_ok=True)
    for name, options in (
        ("siglip/spiece", ["--model_type=unigram", "--vocab_size=500", "--unk_id=2", "--bos_id=-1",
                           "--normalization_rule_tsv=texts.tsv"]),
        ("bpe", ["--model_type=bpe", "--vocab_size=900", "--unk_id=3", "--bos_id=2", "--byte_fallback",
                 "--normalization_rule_name=identity", "--add_dummy_prefix=false",
                 "--remove_extra_whitespaces=false", "--user_defined_symbols=<mask>,</w>"]),
    ):
        subprocess.run(common + ["--model_prefix=texts"] + options, check=True, cwd=folder,
                       stderr=subprocess.DEVNULL)
        shutil.copy(path + ".model", os.path.join(FOLDER, name + ".model"))
    shutil.rmtree(folder)
    write("siglip/tokenizer_config.json", json.dumps(dict(
        tokenizer_class="SiglipTokenizer", do_lower_case=True, model_max_length=64,
        pad_token="</s>"), indent=0) + "\n")
    texts = os.path.join(os.path.dirname(__file__), "token_texts.py")
    for name, model, how in (("siglip", "siglip/spiece", "siglip"), ("unigram", "siglip/spiece", "plain"), ("canonical", "siglip/spiece", "both"),
                             ("bytes", "bpe", "plain")):
        vectors[name] = run([sys.executable, texts, "sentencepiece", os.path.join(FOLDER, model) + ".model",
                             how, "64"], TEXTS)


def gemma_json(module, vectors):
    """The same BPE as a tokenizer.json like Gemma's: each split of a piece is a merge."""
    import sentencepiece as spm

    processor = spm.SentencePieceProcessor(model_file=FOLDER + "/bpe.model")
    vocabulary = {processor.id_to_piece(i): i for i in range(processor.vocab_size())}
    merges = []
    for piece, i in vocabulary.items():
        if processor.is_byte(i) or processor.is_control(i) or processor.is_unknown(i):
            continue
        for at in range(1, len(piece)):
            if piece[:at] in vocabulary and piece[at:] in vocabulary:
                merges.append((processor.get_score(i), piece[:at], piece[at:]))
    merges.sort(key=lambda m: -m[0])
    tokens = [token(i, p, False) for p, i in vocabulary.items()
              if processor.is_control(i) or processor.is_unknown(i) or p in ("<mask>", "</w>")]
    path = write("gemma/tokenizer.json", json.dumps(dict(
        version="1.0", truncation=None, padding=dict(strategy=dict(Fixed=64), direction="Right",
        pad_to_multiple_of=None, pad_id=0, pad_type_id=0, pad_token="<pad>"), added_tokens=tokens,
        normalizer=dict(type="Replace", pattern=dict(String=" "), content="\u2581"),
        pre_tokenizer=dict(type="Split", pattern=dict(String=" "), behavior="MergedWithPrevious", invert=False),
        post_processor=dict(type="TemplateProcessing", single=[
            dict(Sequence=dict(id="A", type_id=0)), dict(SpecialToken=dict(id="</s>", type_id=0))],
            pair=[dict(Sequence=dict(id="A", type_id=0)), dict(Sequence=dict(id="B", type_id=0))],
            special_tokens={"</s>": dict(id="</s>", ids=[1], tokens=["</s>"])}),
        decoder=None,
        model=dict(type="BPE", dropout=None, unk_token="<unk>", continuing_subword_prefix=None,
                   end_of_word_suffix=None, fuse_unk=True, byte_fallback=True, ignore_merges=False,
                   vocab=vocabulary, merges=[list(m[1:]) for m in merges])), ensure_ascii=False) + "\n")
    node = ["node", os.path.join(os.path.dirname(__file__), "token_reference.mjs"), module]
    vectors["gemma"] = [ids[: ids.index(1) + 1] for ids in run(node + [path, "64"], TEXTS)]


def main(bpe, module):
    vectors = {}
    clip(bpe, module, vectors)
    sentencepiece(vectors)
    gemma_json(module, vectors)
    with open(os.path.join(os.path.dirname(FOLDER), "..", "token_vectors.h"), "w") as file:
        file.write("/* token_vectors.h - texts, and their ids by other tokenizers; made by make_tokens.py. */\n")
        file.write("/* clang-format off */\n")
        file.write("static const struct { const char *text; int size; } token_texts[] = {\n")
        for text in TEXTS:
            file.write("    { %s, %d },\n" % (c_string(text), len(text.encode())))
        file.write("};\n")
        for name, rows in vectors.items():
            file.write("\nstatic const int token_ids_%s[] = { /* for each text a count (-1: not compared), then ids */\n" % name)
            for row in rows:
                line = "    %d," % (-1 if row is None else len(row))
                for i in row or []:
                    if len(line) > 92:
                        file.write(line + "\n")
                        line = "       "
                    line += " %d," % i
                file.write(line + "\n")
            file.write("};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
