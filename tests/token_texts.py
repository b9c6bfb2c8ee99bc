#!/usr/bin/env python3
"""Prints texts, and their ids by other tokenizers, for tests/tokens.sh.

    token_texts.py texts COUNT SEED >TEXTS      texts of all kinds
    token_texts.py openai BPE ftfy <TEXTS >IDS  CLIP's SimpleTokenizer, from its definition;
                                                "no-repair": ftfy without repair of encodings
    token_texts.py sentencepiece MODEL plain|siglip|canonical|both CONTEXT <TEXTS >IDS
    token_texts.py show TEXTS IDS IDS           the first texts whose ids differ

The format is that of token_ids.c. openai needs Debian's python3-regex and ftfy (python-ftfy),
sentencepiece Debian's python3-sentencepiece.
"""
import gzip
import html
import random
import re
import string
import struct
import sys
import unicodedata

WORDS = """a an the photo picture painting drawing of in on at with and near dog cat beach sunset street
city car man woman child red green blue old young small large black white holding riding standing sitting
running mountain river tree flower bird horse table chair kitchen bedroom window snow rain night light
skateboard surfboard frisbee pizza sandwich umbrella airplane train bus motorcycle giraffe elephant zebra
playing wearing looking people group two three several empty blurry close-up black-and-white 3D
don't it's they're we've I'll he'd I'm can't O'Brien rock'n'roll""".split()
ENTITIES = ["&amp;", "&lt;", "&gt", "&eacute;", "&#39;", "&#x1F600;", "&copy", "&notin;", "&nbsp;",
            "&amp;amp;", "&amp;lt;", "&bogus;", "&#0;", "&#128;", "&;", "&#xD800;", "&NotEqualTilde;"]
BLOCKS = [(0x20, 0x7E), (0x20, 0x7E), (0xA0, 0x17F), (0x180, 0x24F), (0x250, 0x36F), (0x370, 0x3FF),
          (0x400, 0x52F), (0x530, 0x5FF), (0x600, 0x6FF), (0x900, 0xDFF), (0xE00, 0xE7F), (0xE80, 0x10FF),
          (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x20CF), (0x20D0, 0x21FF), (0x2200, 0x2BFF),
          (0x2C00, 0x2FFF), (0x3000, 0x30FF), (0x3100, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xABFF),
          (0xAC00, 0xD7FB), (0xE000, 0xF8FF), (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF),
          (0x10000, 0x107FF), (0x10800, 0x12FFF), (0x1D000, 0x1D7FF), (0x1E900, 0x1EFFF),
          (0x1F000, 0x1FAFF), (0x20000, 0x2FA1F), (0xE0000, 0xE01EF), (0x100000, 0x10FFFF)]
SPACES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2009\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff"
SPECIAL = ["<|startoftext|>", "<|endoftext|>", "<|ENDOFTEXT|>", "</s>", "<s>", "<unk>", "<pad>", "<eos>",
           "<bos>", "<0x41>", "</w>", "<|", "|>", "\u2581", "\u2581\u2581", "\n\n", "<table>", "<unused5>"]


def character(r, low=0, high=0x10FFFF):
    while True:
        code = r.randint(low, high)
        if unicodedata.category(chr(code)) not in ("Cn", "Cs") or 0x40000 <= code < 0xE0000:
            return chr(code)  # unassigned only if newer Unicode agrees


def part(r):
    kind = r.randrange(20)
    if kind < 5:
        return " ".join(r.choice(WORDS) for _ in range(r.randint(1, 12)))
    if kind == 5:
        return "".join(character(r) for _ in range(r.randint(1, 12)))
    if kind == 6:
        return "".join(character(r, *r.choice(BLOCKS)) for _ in range(r.randint(1, 20)))
    if kind < 10:
        block = r.choice(BLOCKS)
        return "".join(character(r, *block) for _ in range(r.randint(1, 15)))
    if kind == 10:  # emoji: joiners, skin, selectors, flags, keycaps
        glue = ["\u200d", "\ufe0f", "\U0001f3fd", "\U0001f1eb\U0001f1f7", "1\ufe0f\u20e3", ""]
        return "".join(character(r, 0x1F300, 0x1F9FF) + r.choice(glue) for _ in range(r.randint(1, 6)))
    if kind == 11:
        return "".join(r.choice(SPACES) for _ in range(r.randint(1, 6)))
    if kind == 12:
        return "".join(chr(r.choice([r.randint(0, 31), r.randint(127, 159)])) for _ in range(r.randint(1, 4)))
    if kind == 13:
        return r.choice(ENTITIES)
    if kind == 14:
        return r.choice(SPECIAL)
    if kind == 15:  # marks in any order
        return r.choice("aeiounAEO\u03b1\u0915") + "".join(
            character(r, 0x300, 0x36F) for _ in range(r.randint(1, 6)))
    if kind == 16:
        return "".join(r.choice("0123456789.,-+%\u00bd\u0665\u096b\u2460") for _ in range(r.randint(1, 10)))
    if kind == 17:
        return "".join(r.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u00bf\u2026\u3002") for _ in range(r.randint(1, 8)))
    if kind == 18:
        return "".join(r.choice("\u03a3\u03c3\u03b1\u0391aA' .:\u00ad\u0345\u02b0\u0130i\u017fS") for _ in range(r.randint(1, 10)))
    return r.choice(WORDS).upper() + r.choice(["'S", "'s", "'\u017f", "'RE", "'ve", "'lL", "_", "-", "''"])


def text(r):
    if r.randrange(2000) == 0:
        return (part(r) * 10000)[:10000]
    if r.randrange(3) == 0:
        return part(r)
    return "".join(part(r) + r.choice(["", " ", " "]) for _ in range(r.randint(1, 6)))


def write_texts(count, seed):
    r = random.Random(seed)
    out = sys.stdout.buffer
    for _ in range(count):
        data = text(r).encode()
        out.write(struct.pack("=I", len(data)) + data)


def read(stream, unit):
    while True:
        head = stream.read(4)
        if len(head) < 4:
            return
        size = struct.unpack("=I", head)[0]
        yield None if size == 0xFFFFFFFF else stream.read(size * unit)


# --- CLIP's SimpleTokenizer: cleaning, words, merges ------------------------------------------------


class SimpleTokenizer:
    def __init__(self, path):
        import regex

        lines = (gzip.open if path.endswith(".gz") else open)(path, "rb").read().decode().split("\n")
        merges = [tuple(line.split()) for line in lines[1 : 49152 - 256 - 2 + 1] if line]
        order = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
        rest = [b for b in range(256) if b not in order]
        self.byte = {b: chr(b) for b in order}
        self.byte.update({b: chr(256 + n) for n, b in enumerate(rest)})
        vocabulary = [self.byte[b] for b in order + rest]
        vocabulary += [c + "</w>" for c in vocabulary] + ["".join(m) for m in merges]
        vocabulary += ["<|startoftext|>", "<|endoftext|>"]
        self.id = {piece: i for i, piece in enumerate(vocabulary)}
        self.rank = {merge: i for i, merge in enumerate(merges)}
        self.known = {"<|startoftext|>": ["<|startoftext|>"], "<|endoftext|>": ["<|endoftext|>"]}
        self.words = regex.compile(
            r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
            regex.IGNORECASE)

    def pieces(self, word):
        if word in self.known:
            return self.known[word]
        symbols = list(word[:-1]) + [word[-1] + "</w>"]
        while len(symbols) > 1:
            ranks = [(self.rank.get(pair, 1 << 30), pair) for pair in zip(symbols, symbols[1:])]
            rank, best = min(ranks)
            if rank == 1 << 30:
                break
            merged, i = [], 0
            while i < len(symbols):
                if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == best:
                    merged.append(symbols[i] + symbols[i + 1])
                    i += 2
                else:
                    merged.append(symbols[i])
                    i += 1
            symbols = merged
        if len(word) < 40:
            self.known[word] = symbols
        return symbols

    def encode(self, text):
        ids = []
        for word in self.words.findall(text):
            ids += [self.id[p] for p in self.pieces("".join(self.byte[b] for b in word.encode()))]
        return ids


def clean(text, fix):
    text = html.unescape(html.unescape(fix(text)))
    return " ".join(text.split()).strip().lower()


def fixer(name):
    from ftfy import fix_text
    return fix_text if name == "ftfy" else lambda text: fix_text(text, fix_encoding=False)


def openai(path, fix):
    tokenizer = SimpleTokenizer(path)
    out = sys.stdout.buffer
    for data in read(sys.stdin.buffer, 1):
        ids = [tokenizer.id["<|startoftext|>"]] + tokenizer.encode(clean(data.decode(), fixer(fix)))
        ids = ids[:76] + [tokenizer.id["<|endoftext|>"]]
        out.write(struct.pack("=%dI" % (len(ids) + 1), len(ids), *ids))


# --- SentencePiece -----------------------------------------------------------------------------------

PUNCTUATION = str.maketrans("", "", string.punctuation)


def siglip(processor, text):
    """SiglipTokenizer of transformers, for text without its special tokens."""
    text = "\u2581" + text.replace("\u2581", " ")
    text = "".join(c.lower() for c in text)
    text = re.sub(r"\s+", " ", text.translate(PUNCTUATION)).strip()
    pieces = processor.encode("<unk>" + text, out_type=str)
    return [processor.piece_to_id(p) for p in pieces[len(processor.encode("<unk>")) :]]


def canonical(text, fix):
    """open_clip's cleaning for SigLIP."""
    text = html.unescape(html.unescape(fix(text))).strip().replace("_", " ")
    return " ".join(text.translate(PUNCTUATION).lower().split())


def sentencepiece(path, how, context):
    import sentencepiece as spm

    processor = spm.SentencePieceProcessor(model_file=path)
    special = re.compile("(%s)" % "|".join(
        re.escape(processor.id_to_piece(i)) for i in range(processor.vocab_size())
        if processor.is_control(i) or processor.is_unknown(i)))
    out = sys.stdout.buffer
    for data in read(sys.stdin.buffer, 1):
        text = data.decode()
        if how in ("canonical", "both"):
            text = canonical(text, fixer("no-repair"))
        if how in ("siglip", "both"):
            ids = None if special.search(text) else siglip(processor, text)
        else:
            ids = processor.encode(text)
        if ids is None:  # not compared
            out.write(struct.pack("=I", 0xFFFFFFFF))
            continue
        ids = ids[: int(context) - 1] + [processor.eos_id()]
        out.write(struct.pack("=%dI" % (len(ids) + 1), len(ids), *ids))


def show(texts, one, two):
    count = different = 0
    for data, a, b in zip(read(open(texts, "rb"), 1), read(open(one, "rb"), 4), read(open(two, "rb"), 4)):
        count += 1
        if a == b or b is None:
            continue
        different += 1
        if different <= 8:
            print(repr(data.decode())[:300])
            for ids in (a, b):
                print("   ", "refused" if ids is None else list(struct.unpack("=%dI" % (len(ids) // 4), ids))[:40])
    print("%d texts, %d differ" % (count, different))
    return different > 0 or count == 0


if __name__ == "__main__":
    command, rest = sys.argv[1], sys.argv[2:]
    if command == "texts":
        write_texts(int(rest[0]), int(rest[1]))
    elif command == "openai":
        openai(*rest)
    elif command == "sentencepiece":
        sentencepiece(*rest)
    elif command == "show":
        sys.exit(show(*rest))
