#!/usr/bin/env python3
"""Writes the tables of Unicode that tokenizers need.

libcommon/text/unicode/unicode_tables.cpp: the category of each code point as text/unicode/unicode.h names them
(general category, the property White_Space and, of symbols, Alphabetic), as a two-stage table. Needs
from PyPI: unicodedata2==16.0.0 (its version number is Unicode's). Unicode 16.0 is what the regular
expressions of Hugging Face tokenizers 0.23 and tiktoken 0.14 use; scripts/compare-tokenizer.py checks
that.

libcommon/text/bert/bert_tables.cpp, with --bert: what BERT's tokenizer in Python asks of Python 3.11,
whose Unicode is 14.0: categories, lower case, canonical decomposition. Needs that Python;
scripts/compare-tokenizer.py checks it.

    pip install unicodedata2==16.0.0
    python scripts/make-unicode-tables.py > libcommon/text/unicode/unicode_tables.cpp
    python3.11 scripts/make-unicode-tables.py --bert > libcommon/text/bert/bert_tables.cpp
"""

import sys
import unicodedata

BLOCK = 256  # code points of a block; 16 of them fill one 64-bit word
# PropList.txt, White_Space; unchanged since Unicode 6.3.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)}
WHITE_SPACE |= {0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
# PropList.txt, Other_Alphabetic: the symbols among it; unchanged since Unicode 7.0.
ALPHABETIC_SYMBOLS = {*range(0x24B6, 0x24EA), *range(0x1F130, 0x1F14A)}
ALPHABETIC_SYMBOLS |= {*range(0x1F150, 0x1F16A), *range(0x1F170, 0x1F18A)}
# In the order of text/unicode/unicode.h's Category.
CATEGORIES = ["other", "upper", "lower", "letter", "mark", "spacing_mark", "digit", "letter_number"]
CATEGORIES += ["number", "connector", "punctuation", "symbol", "letter_symbol", "space", "format"]
NAMES = {"Lu": "upper", "Lt": "upper", "Ll": "lower", "Lm": "letter", "Lo": "letter", "Mn": "mark"}
NAMES |= {"Mc": "spacing_mark", "Me": "spacing_mark", "Nd": "digit", "Nl": "letter_number"}
NAMES |= {"No": "number", "Pc": "connector", "Cf": "format"}
NAMES |= {f"P{c}": "punctuation" for c in "deifos"} | {f"S{c}": "symbol" for c in "mcko"}


def category(point):
    import unicodedata2

    if point in WHITE_SPACE:
        return CATEGORIES.index("space")
    if point in ALPHABETIC_SYMBOLS:
        return CATEGORIES.index("letter_symbol")
    return CATEGORIES.index(NAMES.get(unicodedata2.category(chr(point)), "other"))


def rows(values, per_row):
    for i in range(0, len(values), per_row):
        print("    " + ", ".join(values[i : i + per_row]) + ",")


def categories_of_all():
    import unicodedata2

    categories = [category(point) for point in range(0x110000)]
    last = max(point for point, c in enumerate(categories) if c != 0)
    used = (last // BLOCK + 1) * BLOCK
    blocks = {}
    index = []
    for start in range(0, used, BLOCK):
        index.append(blocks.setdefault(tuple(categories[start : start + BLOCK]), len(blocks)))
    assert len(blocks) <= 256
    words = []
    for block in blocks:
        for start in range(0, BLOCK, 16):
            word = sum(c << (4 * i) for i, c in enumerate(block[start : start + 16]))
            words.append(f"0x{word:016x}")
    print(
        "// Made by scripts/make-unicode-tables.py from Unicode "
        + unicodedata2.unidata_version
        + "."
    )
    print('#include "text/unicode/unicode.h"\n')
    print("namespace mt::unicode_tables {\n")
    print(f"static_assert(kLimit == 0x{used:x});\n")
    print("// clang-format off")
    print(f"const std::uint8_t kBlock[{len(index)}] = {{")
    rows([str(i) for i in index], 24)
    print("};\n")
    print(f"const std::uint64_t kWords[{len(words)}] = {{")
    rows(words, 4)
    print("};")
    print("// clang-format on\n")
    print("}  // namespace mt::unicode_tables")



# The classes of text/bert/bert_tables.h, in its order.
KEPT, SPACE_CHAR, SEPARATOR, DROPPED, PUNCTUATION, IDEOGRAPH, MARK, STARTER_MARK = range(8)
MAPPED = 8  # a bit: lower case or decomposition is not the character itself
ASCII_PUNCTUATION = {*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127)}
IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
IDEOGRAPHS += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]
HANGUL = range(0xAC00, 0xD7A4)  # decomposed by rule, not by table


def bert_class(point):
    char = chr(point)
    category = unicodedata.category(char)
    if char in "\t\n\r" or category == "Zs":
        return SPACE_CHAR
    if point in (0, 0xFFFD) or category in ("Cc", "Cf"):
        return DROPPED
    if any(low <= point <= high for low, high in IDEOGRAPHS):
        return IDEOGRAPH
    if char.isspace():
        return SEPARATOR
    if point in ASCII_PUNCTUATION or category[0] == "P":
        return PUNCTUATION
    if category == "Mn":
        return MARK if unicodedata.combining(char) else STARTER_MARK
    return KEPT


def bert_mapping(point):
    return unicodedata.normalize("NFD", chr(point).lower())


def ranges(points):
    found = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return [f"{{0x{low:x}, 0x{high:x}}}" for low, high in found]


def array(kind, name, values, per_row):
    print(f"const {kind} {name}[{len(values)}] = {{")
    rows(values, per_row)
    print("};\n")


def bert():
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    points = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    classes = [KEPT] * 0x110000
    mapped = []
    pool = []
    for point in points:
        classes[point] = bert_class(point)
        if point in HANGUL:
            classes[point] |= MAPPED
        elif bert_mapping(point) != chr(point):
            classes[point] |= MAPPED
            text = bert_mapping(point)
            mapped.append(f"{{0x{point:x}, {len(pool)}, {len(text)}}}")
            pool += [f"0x{ord(c):x}" for c in text]
    blocks = {}
    index = [
        blocks.setdefault(tuple(classes[start : start + BLOCK]), len(blocks))
        for start in range(0, 0x110000, BLOCK)
    ]
    assert len(blocks) <= 256
    final = [(chr(p) + "\u03a3").lower().endswith("\u03c2") for p in points]
    skipped = [("a" + chr(p) + "\u03a3").lower().endswith("\u03c2") for p in points]
    cased = [p for p, is_cased in zip(points, final) if is_cased]
    ignorable = [p for p, a, b in zip(points, final, skipped) if b and not a]
    ordered = [p for p in points if unicodedata.combining(chr(p)) and bert_class(p) != MARK]
    print("// Made by scripts/make-unicode-tables.py --bert from Unicode 14.0.0.")
    print('#include "text/bert/bert_tables.h"\n')
    print("namespace mt::bert_tables {\n")
    print("// clang-format off")
    array("std::uint8_t", "kBlock", [str(i) for i in index], 24)
    array("std::uint8_t", "kClass", [str(c) for block in blocks for c in block], 32)
    array("Mapping", "kMapped", mapped, 6)
    print(f"const std::size_t kMappedCount = {len(mapped)};")
    array("char32_t", "kPool", pool, 12)
    for name, listed in ("kCased", ranges(cased)), ("kIgnorable", ranges(ignorable)):
        print(f"const std::size_t {name}Count = {len(listed)};")
        array("Range", name, listed, 6)
    print(f"const std::size_t kOrderedCount = {len(ordered)};")
    values = [f"{{0x{p:x}, {unicodedata.combining(chr(p))}}}" for p in ordered]
    array("Ordered", "kOrdered", values, 8)
    print("// clang-format on\n")
    print("}  // namespace mt::bert_tables")


def main():
    bert() if sys.argv[1:] == ["--bert"] else categories_of_all()


if __name__ == "__main__":
    main()
