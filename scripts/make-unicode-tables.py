#!/usr/bin/env python3
"""Writes libcommon/text/unicode_tables.cpp: which code points are letters (general category L*),
numbers (N*) or white space (property White_Space), as a two-stage table.

Needs from PyPI: unicodedata2==16.0.0 (its version number is Unicode's). Unicode 16.0 is what the
regular expressions of Hugging Face tokenizers 0.23 use; scripts/compare-tokenizer.py checks that.

    pip install unicodedata2==16.0.0
    python scripts/make-unicode-tables.py > libcommon/text/unicode_tables.cpp
"""

import unicodedata2

OTHER, LETTER, NUMBER, SPACE = range(4)
BLOCK = 256  # code points of a block; 32 of them fill one 64-bit word
# PropList.txt, White_Space; unchanged since Unicode 6.3.
WHITE_SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)}
WHITE_SPACE |= {0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def char_class(point):
    if point in WHITE_SPACE:
        return SPACE
    return {"L": LETTER, "N": NUMBER}.get(unicodedata2.category(chr(point))[0], OTHER)


def rows(values, per_row):
    for i in range(0, len(values), per_row):
        print("    " + ", ".join(values[i : i + per_row]) + ",")


def main():
    classes = [char_class(point) for point in range(0x110000)]
    last = max(point for point, c in enumerate(classes) if c != OTHER)
    used = (last // BLOCK + 1) * BLOCK
    blocks = {}
    index = []
    for start in range(0, used, BLOCK):
        index.append(blocks.setdefault(tuple(classes[start : start + BLOCK]), len(blocks)))
    assert len(blocks) <= 256
    words = []
    for block in blocks:
        for start in range(0, BLOCK, 32):
            word = sum(c << (2 * i) for i, c in enumerate(block[start : start + 32]))
            words.append(f"0x{word:016x}")
    print(
        "// Made by scripts/make-unicode-tables.py from Unicode "
        + unicodedata2.unidata_version
        + "."
    )
    print('#include "text/unicode.h"\n')
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


if __name__ == "__main__":
    main()
