#!/usr/bin/env python3
"""Writes tools/text/unicode_tables.h from Debian's package unicode-data (15.0) and from the HTML
entities of Python's standard library:

    python3 tools/text/make_unicode.py > tools/text/unicode_tables.h

The tables follow each other, deflated together. A list is u32 differences of
(first code point of a range << 8 | class). A map is "key \\xff value \\xfe" in UTF-8, sorted by
key.
"""
import base64
import html.entities
import struct
import unicodedata
import zlib

FOLDER = "/usr/share/unicode/"


def rows(name):
    for line in open(FOLDER + name, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if line:
            yield [field.strip() for field in line.split(";")]


def span(field):
    ends = [int(x, 16) for x in field.split("..")]
    return range(ends[0], ends[-1] + 1)


category, bidi, combining, parts, lower = {}, {}, {}, {}, {}
first = None
for row in rows("UnicodeData.txt"):
    code = int(row[0], 16)
    codes = range(first if row[1].endswith("Last>") else code, code + 1)
    first = code
    for c in codes:
        category[c], bidi[c] = row[2], row[4]
    combining[code] = int(row[3])
    if row[13]:
        lower[code] = chr(int(row[13], 16))
    if row[5] and not row[5].startswith("<"):
        parts[code] = [int(w, 16) for w in row[5].split()]
for row in rows("SpecialCasing.txt"):  # without a condition: U+0130
    if not row[4] and len(row[1].split()) > 1:
        lower[int(row[0], 16)] = "".join(chr(int(w, 16)) for w in row[1].split())
excluded = {int(row[0], 16) for row in rows("CompositionExclusions.txt")}
properties = {"Cased": set(), "Case_Ignorable": set(), "White_Space": set()}
for name in ("DerivedCoreProperties.txt", "PropList.txt"):
    for row in rows(name):
        if row[1] in properties:
            properties[row[1]].update(span(row[0]))


def full(code):
    return "".join(map(full, parts[code])) if code in parts else chr(code)


def ranges(class_of):
    out, last = [], 0
    for code in range(0x110000):
        if class_of(code) != last:
            last = class_of(code)
            out.append(code << 8 | last)
    return b"".join(struct.pack("<I", b - a) for a, b in zip([0] + out, out))


def pairs(table):
    table = sorted((k.encode(), v.encode()) for k, v in table.items())
    return b"".join(k + b"\xff" + v + b"\xfe" for k, v in table)


def kind(code):
    c = category.get(code, "Cn")
    return (
        c.startswith("L")
        + 2 * c.startswith("N")
        + 4 * (code in properties["White_Space"])
        + 8 * (c == "Zs" or bidi.get(code) in ("WS", "B", "S"))
    )


def cp1252(code):
    try:
        return bytes([code]).decode("cp1252")
    except UnicodeDecodeError:
        return chr(code)


def references():
    """Numbers of characters below 256 that HTML reads as others: "&#" and the character."""
    codes = [*range(9), 11, *range(13, 32), *range(127, 160)]
    return {"&#" + chr(c): html.unescape("&#%d;" % c) for c in codes}


def fixed_entities():
    """The entities of ftfy: those that end with ";", some in upper case too."""
    out = {}
    for name, value in html.entities.html5.items():
        if not name.endswith(";") or len(name) > 25:
            continue
        out["&" + name] = value
        upper = "&" + name.upper()
        if name == name.lower() and html.unescape(upper) == upper:
            out[upper] = value.upper()
    return {**out, **references()}


LIGATURES = {0x132: "IJ", 0x133: "ij", 0x149: "\u02bcn", 0x1F1: "DZ", 0x1F2: "Dz", 0x1F3: "dz"}
LIGATURES.update({0x1C4: "D\u017d", 0x1C5: "D\u017e", 0x1C6: "d\u017e", 0x1C7: "LJ", 0x1C8: "Lj"})
LIGATURES.update({0x1C9: "lj", 0x1CA: "NJ", 0x1CB: "Nj", 0x1CC: "nj", 0xFB00: "ff", 0xFB01: "fi"})
LIGATURES.update({0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "\u017ft", 0xFB06: "st"})
DROPPED = [*range(9), 11, *range(14, 32), 127, *range(0x206A, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFD)]


def fixed():
    """ftfy's fixes of single characters: C1 controls, ligatures, widths, quotes, controls."""
    out = {}
    for code in [*range(0x3001), *range(0xFB00, 0xFFF0), *range(0xFFF9, 0xFFFD)]:
        text = cp1252(code) if 0x80 <= code < 0xA0 else LIGATURES.get(code, chr(code))
        if code == 0x3000 or 0xFF01 <= code < 0xFFF0:
            text = unicodedata.normalize("NFKC", text)
        for c in "\u02bc\u2018\u2019\u201a\u201b":
            text = text.replace(c, "'")
        for c in "\u201c\u201d\u201e\u201f":
            text = text.replace(c, '"')
        if code in DROPPED:
            text = ""
        if text != chr(code):
            out[chr(code)] = text
    return out


compositions = {
    "".join(map(chr, v)): chr(k)
    for k, v in parts.items()
    if len(v) == 2 and k not in excluded and not combining[k] and not combining[v[0]]
}
TABLES = {
    "kinds": ranges(kind),
    "combining": ranges(lambda c: combining.get(c, 0)),
    "case": ranges(
        lambda c: (c in properties["Cased"]) + 2 * (c in properties["Case_Ignorable"])
    ),
    "lower": pairs({chr(k): v for k, v in lower.items()}),
    "parts": pairs({chr(c): full(c) for c in parts}),
    "compositions": pairs(compositions),
    "entities": pairs({**{"&" + k: v for k, v in html.entities.html5.items()}, **references()}),
    "fixed_entities": pairs(fixed_entities()),
    "fixed": pairs(fixed()),
}

packer = zlib.compressobj(9, zlib.DEFLATED, -15)
data = packer.compress(b"".join(TABLES.values())) + packer.flush()
text = base64.b64encode(data).decode()
print("/* unicode_tables.h - made by make_unicode.py; do not edit. Unicode 15.0. */")
print("enum {")
print("    UNICODE_DEFLATED = %d," % len(data))
for name, table in TABLES.items():  # in this order
    print("    UNICODE_%s = %d," % (name.upper(), len(table)))
print("};")
print("/* deflated, in base64 */")
print("static const char *const unicode_base64[] = {")
for at in range(0, len(text), 92):
    print('    "%s",' % text[at : at + 92])
print("};")
