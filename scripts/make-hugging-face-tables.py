#!/usr/bin/env python3
"""Writes libcommon/text/hf/hf_tables.cpp: what Hugging Face's tokenizers 0.23.3 holds of Unicode.

Its normalizers and pre-tokenizers take their characters from several Rust crates of different
versions of Unicode (normal forms of about 9.0, lower case and numbers of 17.0), so nothing is taken
from Unicode's files: each code point is given to the library, and what it does is written down.

    pip install tokenizers==0.23.3
    python scripts/make-hugging-face-tables.py > libcommon/text/hf/hf_tables.cpp
"""

import base64
import json
import struct
import unicodedata

import tokenizers
from tokenizers import Tokenizer, normalizers, pre_tokenizers

BLOCK = 128  # code points of a block
POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
# The bits of text/hf/hf_tables.h, in its order.
FLAGS = "mark nonspacing_mark control punctuation numeric canonical compatible lower composes"
FLAGS += " extends prepend breaks pictograph consonant linker conjunct_extends"
FLAGS = {name: 1 << i for i, name in enumerate(FLAGS.split())}
KA, KA_VIRAMA, ACUTE = "\u0915", "\u0915\u094d", "\u0301"
HANGUL = range(0xAC00, 0xD7A4)  # mapped by rule, not by table


def clusters():
    """A normalizer that makes one X of each grapheme cluster of less than 6 bytes, and of longer ones
    one X per character: a map of characters with the keys 00 to FF, each a single byte."""
    units = [0] * 768
    units[0] = 256 << 10
    for byte in range(256):
        at = 256 ^ byte
        units[at] = (at ^ 512) << 10 | 1 << 8 | byte
    units[512] = 1 << 31
    blob = struct.pack("<I768I", 4 * len(units), *units) + b"X\0"
    normalizer = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}
    model = {"type": "WordLevel", "vocab": {"X": 0}, "unk_token": "X"}
    parts = {"version": "1.0", "added_tokens": [], "normalizer": normalizer, "model": model}
    return Tokenizer.from_str(json.dumps(parts)).normalizer


def combining_classes(nfd):
    """By the order in which the library puts a character and others of known classes."""
    last = chr(0x345)  # alone in the last class, 240
    ordered = [p for p in POINTS if nfd(chr(p)) == chr(p) and p != 0x345]
    ordered = [p for p in ordered if nfd("a" + last + chr(p)) == "a" + chr(p) + last]
    known = {}
    for p in ordered:
        known.setdefault(unicodedata.combining(chr(p)), chr(p))
    classes = {0x345: 240}
    for p in ordered:
        above = [k for k, c in known.items() if nfd(f"a{c}{chr(p)}") == f"a{chr(p)}{c}" != f"a{c}{chr(p)}"]
        classes[p] = max(k for k in known if k < min(above, default=240))
    return classes


def gather():
    nfd, nfkd, nfc = (
        n.normalize_str for n in (normalizers.NFD(), normalizers.NFKD(), normalizers.NFC())
    )
    lower = normalizers.Lowercase().normalize_str
    marks = normalizers.StripAccents().normalize_str
    off = {"clean_text": False, "handle_chinese_chars": False, "lowercase": False}
    accents = normalizers.BertNormalizer(**off, strip_accents=True).normalize_str
    off |= {"clean_text": True}
    clean = normalizers.BertNormalizer(**off, strip_accents=False).normalize_str
    punctuation = pre_tokenizers.Punctuation("isolated").pre_tokenize_str
    digits = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str
    cluster = clusters().normalize_str
    mappings = {"canonical": {}, "compatible": {}, "lower": {}}
    flags = [0] * 0x110000
    for p in POINTS:
        c = chr(p)
        for name, function in ("canonical", nfd), ("compatible", nfkd), ("lower", lower):
            if function(c) != c:
                flags[p] |= FLAGS[name]
                if p not in HANGUL:
                    mappings[name][p] = function(c)
        extends = len(cluster("a" + c)) == 1
        answers = {
            "mark": marks(c) == "",
            "nonspacing_mark": accents(c) == "",
            "control": clean(c) == "",
            "punctuation": len(punctuation("a" + c)) == 2,
            "numeric": len(digits("a" + c)) == 2,
            "composes": nfc(c) != c,
            "extends": extends,
            "prepend": len(cluster(c + "a")) == 1,
            "breaks": p < 0x10000 and len(cluster(c + ACUTE)) == 2,
            "pictograph": len(cluster("\xa9\u200d" + c)) == 3 and not extends,
            "consonant": p < 0x10000
            and not extends
            and len(cluster(c + ACUTE)) == 1
            and len(cluster(KA_VIRAMA + c + ACUTE)) == 4,
            "linker": extends and len(cluster(KA + c + KA + ACUTE)) == 4,
            "conjunct_extends": extends and len(cluster(KA_VIRAMA + c + KA + ACUTE)) == 5,
        }
        flags[p] |= sum(FLAGS[name] for name, truth in answers.items() if truth)
    # What is not mapped by compatibility alone is left to the canonical mapping.
    for p, text in mappings["canonical"].items():
        if mappings["compatible"].get(p) == text:
            del mappings["compatible"][p]
            flags[p] &= ~FLAGS["compatible"]
    pairs = []
    for p in mappings["canonical"]:
        if nfc(chr(p)) != chr(p):
            continue  # excluded from composition
        text = mappings["canonical"][p]
        pairs.append((*map(ord, (nfc(text[:-1]), text[-1])), p))
    for _, second, _ in pairs:
        flags[second] |= FLAGS["composes"]
    for p in [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]:  # vowels and trailing consonants
        flags[p] |= FLAGS["composes"]
    for p in HANGUL:
        flags[p] &= ~FLAGS["compatible"]
    return flags, combining_classes(nfd), mappings, sorted(pairs)


def array(kind, name, values, per_row):
    print(f"const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per_row):
        print("    " + ", ".join(values[i : i + per_row]) + ",")
    print("};\n")


def main():
    assert tokenizers.__version__ == "0.23.3"
    flags, classes, mappings, pairs = gather()
    kinds = {(0, 0): 0}
    kind_of = [kinds.setdefault((flags[p], classes.get(p, 0)), len(kinds)) for p in range(0x110000)]
    assert len(kinds) <= 256
    blocks = {}
    index = [
        blocks.setdefault(tuple(kind_of[start : start + BLOCK]), len(blocks))
        for start in range(0, 0x110000, BLOCK)
    ]
    assert len(blocks) <= 65536
    print("// Made by scripts/make-hugging-face-tables.py from tokenizers 0.23.3.")
    print('#include "text/hf/hf_tables.h"\n')
    print("namespace mt::hf_tables {\n")
    print("// clang-format off")
    array("std::uint16_t", "kBlock", [str(i) for i in index], 24)
    array("std::uint8_t", "kKind", [str(k) for block in blocks for k in block], 32)
    array("Entry", "kEntries", [f"{{0x{f:x}, {c}}}" for f, c in kinds], 8)
    pool = []
    for name, mapping in mappings.items():
        rows = []
        for p, text in sorted(mapping.items()):
            rows.append(f"{{0x{p:x}, {len(pool)}, {len(text)}}}")
            pool += [f"0x{ord(c):x}" for c in text]
        print(f"const std::size_t k{name.capitalize()}Count = {len(rows)};")
        array("Mapping", f"k{name.capitalize()}", rows, 6)
    array("char32_t", "kPool", pool, 12)
    print(f"const std::size_t kPairCount = {len(pairs)};")
    array("Pair", "kPairs", [f"{{0x{a:x}, 0x{b:x}, 0x{c:x}}}" for a, b, c in pairs], 5)
    print("// clang-format on\n")
    print("}  // namespace mt::hf_tables")


if __name__ == "__main__":
    main()
