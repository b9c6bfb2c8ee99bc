#!/usr/bin/python3
"""Writes the fixtures of test_checkpoint.c into tests/data/checkpoints.

    /usr/bin/python3 tests/make_checkpoints.py        (Debian: python3-torch, python3-numpy)

Run it from the root of the repository. For authoring only: the fixtures are committed and the
tests need no Python. Two runs with one version of PyTorch (1.13 here) write the same bytes.
Every *.pt and *.safetensors that `expected.json` lists has the same state dict. `expected.bin`
has its values as float32, tensor after tensor. `types.safetensors` has the values of the blocks
in `types.gguf`.
"""
import argparse
import io
import json
import os
import struct
import zipfile
import zlib
from collections import OrderedDict

import numpy as np
import torch

from storage_keys import KeyText

OUT = os.path.join("tests", "data", "checkpoints")
NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64",
         torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
         torch.uint8: "U8", torch.bool: "BOOL"}
HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xC000, 0x7BFF, 0x7C00, 0xFC00, 0x7E00,
          0x3555]
BFLOATS = [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xC049, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0,
           0x3DCD]


def from_bits(bits, dtype):
    signed = np.array(bits, dtype=np.uint16).view(np.int16)
    return torch.from_numpy(signed.copy()).view(dtype)


def state_dict():
    """Every dtype, and every way in which a tensor can lie in a storage."""
    grid = torch.arange(12, dtype=torch.float32).reshape(3, 4) * 0.37 - 1.5
    shared = torch.linspace(-2, 2, 10)
    d = OrderedDict()
    d["f32"] = torch.tensor([[1.5, -0.0, 3.4e38], [float("inf"), float("nan"), 1e-45]])
    d["f16"] = from_bits(HALVES, torch.float16).reshape(3, 4)
    d["bf16"] = from_bits(BFLOATS, torch.bfloat16)
    d["f64"] = torch.tensor([1 / 3, 1e300, -1e-300, 16777217.0, 2.0 ** -149, 3 * 2.0 ** -151],
                            dtype=torch.float64)
    d["i64"] = torch.tensor([-2 ** 63, 2 ** 63 - 1, -1, 16777217], dtype=torch.int64)
    d["i32"] = torch.tensor([-2 ** 31, 2 ** 31 - 1, -7], dtype=torch.int32)
    d["i16"] = torch.tensor([-32768, 32767, -1], dtype=torch.int16)
    d["i8"] = torch.tensor([-128, 127, -1], dtype=torch.int8)
    d["u8"] = torch.tensor([0, 255, 128], dtype=torch.uint8)
    d["bool"] = torch.tensor([True, False, True])
    d["scalar"] = torch.tensor(42, dtype=torch.int64)
    d["empty"] = torch.zeros(0, 4)
    d["blocks.0.transposed"] = grid.t()
    d["blocks.0.sliced"] = grid[1:, ::2]
    d["blocks.0.column"] = grid[:, 2:3]
    d["blocks.0.expanded"] = torch.tensor([[0.25], [-4.0]]).expand(2, 3)
    d["blocks.1.permuted"] = torch.arange(24, dtype=torch.float16).reshape(2, 3, 4).permute(2, 0, 1)
    d["blocks.1.shared_low"] = shared[:4]
    d["blocks.1.shared_high"] = shared[3:9]
    d["blocks.1.parameter"] = torch.nn.Parameter(torch.tensor([0.1, 0.2]))
    return d


def write(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


def write_expected(d):
    with open(os.path.join(OUT, "expected.json"), "w") as f:
        rows = ['  {"name": "%s", "dtype": "%s", "shape": %s}'
                % (k, NAMES[v.dtype], list(v.shape)) for k, v in d.items()]
        f.write("[\n%s\n]\n" % ",\n".join(rows))
    with np.errstate(over="ignore"):
        write("expected.bin", b"".join(
            v.detach().float().contiguous().numpy().astype("<f4").tobytes() for v in d.values()))


def save(name, obj, **options):
    buffer = io.BytesIO()
    if options.get("_use_new_zipfile_serialization") is False:
        KeyText.seen = {}
        torch.serialization.str = KeyText
    torch.save(obj, buffer, **options)
    vars(torch.serialization).pop("str", None)
    write(name, buffer.getvalue())
    return buffer.getvalue()


def entries_of(data):
    z = zipfile.ZipFile(io.BytesIO(data))
    return [(i.filename, z.read(i)) for i in z.infolist()]


def rezip(entries, method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as z:
        for name, content in entries:
            z.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def zip64(entries):
    """Puts all sizes and offsets in zip64 fields, like a writer that expects large files."""
    out, central = b"", b""
    for name, content in entries:
        n, crc, at = name.encode(), zlib.crc32(content), len(out)
        local = struct.pack("<HHQQ", 1, 16, len(content), len(content))
        wide = struct.pack("<HHQQQ", 1, 24, len(content), len(content), at)
        fields = struct.pack("<HHHHHIIIHH", 45, 0, 0, 0, 33, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(n),
                             len(local))
        out += b"PK\3\4" + fields + n + local + content
        fields = struct.pack("<HHHHHHIIIHHHHHII", 45, 45, 0, 0, 0, 33, crc, 0xFFFFFFFF, 0xFFFFFFFF,
                             len(n), len(wide), 0, 0, 0, 0, 0xFFFFFFFF)
        central += b"PK\1\2" + fields + n + wide
    count, at = len(entries), len(out)
    end = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, len(central), at)
    locator = b"PK\6\7" + struct.pack("<IQI", 0, at + len(central), 1)
    short = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return out + central + end + locator + short


def big_endian(entries, sizes):
    """Writes files like torch.save on a big-endian machine: swapped storages, a byteorder entry."""
    out = []
    for name, content in entries:
        folder, key = name.rsplit("/", 1)
        if folder.endswith("/data"):
            n = sizes[int(key)]
            content = b"".join(content[i:i + n][::-1] for i in range(0, len(content), n))
        out.append((name, content))
    return out + [("archive/byteorder", b"big")]


def storage_sizes(d):
    seen, sizes = set(), []
    for v in d.values():
        if v.storage().data_ptr() not in seen or v.numel() == 0:
            seen.add(v.storage().data_ptr())
            sizes.append(v.element_size())
    return sizes


def safetensors(items, metadata=None):
    """items: [(name, tensor)]. Written by hand, so that the reader is not tested on itself."""
    header, data = OrderedDict(), b""
    if metadata:
        header["__metadata__"] = metadata
    for name, v in items:
        v = v.detach().contiguous()
        raw = v.view(torch.int16) if v.dtype == torch.bfloat16 else v
        raw = raw.numpy().tobytes()
        header[name] = {"dtype": NAMES[v.dtype], "shape": list(v.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


SMALL, MODEL = "small.safetensors", "model.safetensors"
BAD_SHARDS = {
    "parent": {"a": "../" + SMALL}, "absolute": {"a": "/etc/passwd"}, "dots": {"a": ".."},
    "number": {"a": 3}, "missing": {"a": "no-such.safetensors"}, "empty": {},
    "absent_tensor": {"a.weight": SMALL, "c": SMALL}, "unlisted_tensor": {"a.weight": SMALL},
    "itself": {"a": "bad_itself.index.json"}, "nested": {"a": "bad_itself.index.json"},
    "swapped": {"f32": MODEL, "a.weight": MODEL, "a.bias": SMALL},
}


def nibbles(x):
    """Low halves of the bytes, then the high ones."""
    return np.concatenate([x & 15, x >> 4], axis=-1)


def halves(raw, at):
    return raw[:, at:at + 2].copy().view("<f2").astype("<f4")


def widen_32(kind, raw):
    """Blocks of 32: [blocks, bytes] -> [blocks, 32], in float32 as ggml computes it."""
    has_minimum, has_fifth = kind in ("q4_1", "q5_1"), kind in ("q5_0", "q5_1")
    at = 4 if has_minimum else 2
    if kind == "q8_0": return raw[:, 2:].view("i1").astype("<f4") * halves(raw, 0)
    q = nibbles(raw[:, at + (4 if has_fifth else 0):]).astype(int)
    if has_fifth:
        q += 16 * np.unpackbits(raw[:, at:at + 4], axis=1, bitorder="little")
    if has_minimum: return q.astype("<f4") * halves(raw, 0) + halves(raw, 2)
    return (q - (16 if has_fifth else 8)).astype("<f4") * halves(raw, 0)


def widen_256(kind, raw):
    """Blocks of 256; each eighth or sixteenth of a block has its own factor."""
    n = len(raw)
    if kind == "q6_K":
        low = nibbles(raw[:, :128].reshape(n, 2, 64)).reshape(n, 2, 4, 32)
        high = raw[:, None, 128:192].reshape(n, 2, 1, 32) >> np.array([0, 2, 4, 6], "u1")[:, None] & 3
        q = (low | high << 4).astype(int) - 32
        scale = halves(raw, 208) * raw[:, 192:208].view("i1").astype("<f4")
        return (scale[:, :, None] * q.reshape(n, 16, 16).astype("<f4")).reshape(n, 256)
    six = raw[:, 4:16]
    scale = np.concatenate([six[:, :4] & 63, six[:, 8:] & 15 | six[:, :4] >> 6 << 4], axis=1)
    minimum = np.concatenate([six[:, 4:8] & 63, six[:, 8:] >> 4 | six[:, 4:8] >> 6 << 4], axis=1)
    q = nibbles(raw[:, -128:].reshape(n, 4, 32)).reshape(n, 8, 32).astype(int)
    if kind == "q5_K":
        q += 16 * np.unpackbits(raw[:, 16:48, None], axis=2, bitorder="little").swapaxes(1, 2)
    scale, minimum = halves(raw, 0) * scale.astype("<f4"), halves(raw, 2) * minimum.astype("<f4")
    return (scale[:, :, None] * q.astype("<f4") - minimum[:, :, None]).reshape(n, 256)


# The type's number, the bytes of a block, and the offsets of the f16 numbers in a block
GGML_TYPES = {"q4_0": (2, 18, [0]), "q4_1": (3, 20, [0, 2]), "q5_0": (6, 22, [0]),
              "q5_1": (7, 24, [0, 2]), "q8_0": (8, 34, [0]), "q4_K": (12, 144, [0, 2]),
              "q5_K": (13, 176, [0, 2]), "q6_K": (14, 210, [208])}


def ggml_types():
    """A GGUF file with random blocks of each type, and their values."""
    random, infos, blob, items = np.random.RandomState(38), b"", b"", []

    def add(name, shape, kind, data, values):
        nonlocal infos, blob
        blob += b"\0" * (-len(blob) % 64)
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        infos += struct.pack("<%dQ" % len(shape), *reversed(shape))
        infos += struct.pack("<IQ", kind, len(blob))
        blob += data
        items.append((name, torch.from_numpy(np.ascontiguousarray(values, "<f4").reshape(shape))))

    f32 = random.standard_normal(6).astype("<f4")
    add("f32", (3, 2), 0, f32.tobytes(), f32)
    f16 = np.array(HALVES[:8] + HALVES[-1:], "<u2")
    add("f16", (9,), 1, f16.tobytes(), f16.view("<f2"))
    bf16 = np.array(BFLOATS[:8] + BFLOATS[-1:], "<u2")
    add("bf16", (9,), 30, bf16.tobytes(), (bf16.astype("<u4") << 16).view("<f4"))
    for name, (kind, size, places) in GGML_TYPES.items():
        raw = random.randint(0, 256, (4 if size < 64 else 2, size)).astype("u1")
        for place in places:
            raw[:, place:place + 2] = random.standard_normal((len(raw), 1)).astype("<f2").view("u1")
        values = (widen_32 if size < 64 else widen_256)(name, raw)
        add(name, (2, values.size // 2), kind, raw.tobytes(), values)
    pairs = [("general.alignment", 4, struct.pack("<I", 64)), ("u8", 0, b"\xff"), ("i8", 1, b"\xff"),
             ("u16", 2, b"\xff\xff"), ("i16", 3, b"\xfe\xff"), ("i32", 5, b"\xfd\xff\xff\xff"),
             ("f32", 6, struct.pack("<f", 0.1)), ("tiny", 6, struct.pack("<f", 1e-5)),
             ("bool", 7, b"\1"), ("text", 8, struct.pack("<Q", 3) + b"abc"),
             ("u64", 10, struct.pack("<Q", 2 ** 64 - 1)), ("i64", 11, struct.pack("<q", -2 ** 63)),
             ("f64", 12, struct.pack("<d", -0.25)),
             ("floats", 9, struct.pack("<IQ3f", 6, 3, 0.5, 0.48145466, -1)),
             ("long", 9, struct.pack("<IQ20B", 0, 20, *range(20)))]
    head = b"GGUF" + struct.pack("<IQQ", 2, len(items), len(pairs))
    for key, kind, data in pairs:
        key = key if "." in key else "a." + key
        head += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + data
    head += infos
    write("types.gguf", head + b"\0" * (-len(head) % 64) + blob)
    write("types.safetensors", safetensors(items))


class Tagged(torch.Tensor):
    pass


def main():
    os.makedirs(OUT, exist_ok=True)
    torch.manual_seed(0)
    d = state_dict()
    write_expected(d)
    plain = save("zip.pt", d)
    save("legacy.pt", d, _use_new_zipfile_serialization=False)
    save("zip_protocol4.pt", d, pickle_protocol=4)
    save("legacy_protocol4.pt", d, pickle_protocol=4, _use_new_zipfile_serialization=False)
    args = argparse.Namespace(arch="vit_tiny", lr=0.5, steps=[1, 2])
    save("wrapped.pt", {"model": d, "epoch": 3, "args": args, "optimizer": {"state": {
        0: {"exp_avg": torch.ones(2)}}}, "rng_state": torch.ones(3, dtype=torch.uint8)})
    save("ema.pt", {"state_dict": {"f32": torch.zeros(1)}, "state_dict_ema": d})
    save("nested.pt", {"teacher": {"module": d}, "student": {"f32": torch.zeros(1)}})
    write("deflate.pt", rezip(entries_of(plain), zipfile.ZIP_DEFLATED))
    write("zip64.pt", zip64(entries_of(plain)))
    write("big_endian.pt", rezip(big_endian(entries_of(plain), storage_sizes(d)),
                                 zipfile.ZIP_STORED))
    items = list(d.items())
    write("model.safetensors", safetensors(items, {"format": "pt", "note": "caf\u00e9 \U0001F600"}))
    shards = os.path.join(OUT, "shards")
    os.makedirs(shards, exist_ok=True)
    weight_map = {}
    for i, part in enumerate([items[:9], items[9:]]):
        name = "model-%05d-of-00002.safetensors" % (i + 1)
        write(os.path.join("shards", name), safetensors(part, {"format": "pt"}))
        weight_map.update({k: name for k, _ in part})
    with open(os.path.join(shards, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": 0}, "weight_map": weight_map}, f, indent=1)

    small = OrderedDict([("a.weight", torch.tensor([[1.0, 2.0], [3.0, 4.0]])),
                         ("a.bias", torch.tensor([5.0, 6.0]).half())])
    save("small_zip.pt", small)
    save("small_legacy.pt", small, _use_new_zipfile_serialization=False)
    write("small_deflate.pt", rezip(entries_of(save("small_zip.pt", small)), zipfile.ZIP_DEFLATED))
    write("small.safetensors", safetensors(small.items()))
    tagged = torch.tensor([7.0, 8.0, 9.0]).as_subclass(Tagged)
    save("subclass.pt", {"t": tagged, "n": 1})
    save("complex.pt", {"f32": torch.ones(2), "freqs": torch.ones(2, dtype=torch.complex64)})
    save("module.pt", torch.nn.Sequential(torch.nn.Linear(2, 2)))
    save("module_wrapped.pt", {"model": torch.nn.Linear(2, 2), "optimizer": {
        "state": {0: {"m": torch.ones(2)}}}})
    for name, weight_map in BAD_SHARDS.items():
        write("bad_%s.index.json" % name, json.dumps({"weight_map": weight_map}).encode())
    write("bad_config.index.json", b'{"hidden_size": 192}')
    write("bad_truncated.index.json", b'{"weight_map": ')
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.LayerNorm(1))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[3.0, 4.0]]))
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(model), buffer)
    write("torchscript.pt", rezip([(n, c) for n, c in entries_of(buffer.getvalue())
                                   if "/code/" not in n], zipfile.ZIP_STORED))
    ggml_types()


main()
