#!/usr/bin/env python3
"""Writes libcommon/text/hf/hf_properties.cpp: what \\p{NAME} means in the regular expressions of a
tokenizer.json, and the script of each character as the pre-tokenizer UnicodeScripts sees it. All is
asked of the library itself: which names it takes, and which code points each matches. Needs from
PyPI: tokenizers==0.23.3, regex (a list of names).

    python scripts/make-regex-properties.py > libcommon/text/hf/hf_properties.cpp
"""

import sys

import regex._regex_core as names_of_unicode
from tokenizers import Regex, pre_tokenizers

POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
TEXT = "".join(map(chr, POINTS))
# What takes more room than anybody's wish for it.
LEFT_OUT = {"AGE", "GRAPHEMEBASE", "IDCONTINUE", "XIDCONTINUE", "XIDSTART", "IDSTART"}
POSIX = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()


def candidates():
    yield from names_of_unicode.PROPERTIES["GENERALCATEGORY"][1]
    yield from names_of_unicode.PROPERTIES["SCRIPT"][1]
    yield from ("IN" + name for name in names_of_unicode.PROPERTIES["BLOCK"][1])
    yield from (name for name in names_of_unicode.PROPERTIES if name not in LEFT_OUT)
    yield from POSIX


def ranges_of(name):
    """Ranges of code points; None where the library does not know the name."""
    try:
        pattern = Regex(r"\p{" + name + "}+")
    except Exception:
        return None
    rest = pre_tokenizers.Split(pattern, "removed").pre_tokenize_str(TEXT)
    others = [offsets for _, offsets in rest]
    ranges, last = [], 0
    for begin, end in others + [(len(POINTS), len(POINTS))]:
        if begin > last:
            ranges.append((POINTS[last], POINTS[begin - 1]))
        last = end
    return tuple(ranges)


def boundaries(text):
    return {begin for _, (begin, _) in pre_tokenizers.UnicodeScripts().pre_tokenize_str(text)}


def script_runs():
    """[(first, last, script)], without those of any script."""
    starts = boundaries("".join(f"a{chr(p)}\u044f{chr(p)}" for p in POINTS))
    fixed = [p for i, p in enumerate(POINTS) if 4 * i + 1 in starts or 4 * i + 3 in starts]
    starts = boundaries("".join(map(chr, fixed)))
    runs = []
    for i, point in enumerate(fixed):
        if i in starts or point != fixed[i - 1] + 1:
            runs.append([point, point])
        else:
            runs[-1][1] = point
    kinds = []  # a character of each script
    scripts = []
    for first, _ in runs:
        starts = boundaries("".join(kind + chr(first) for kind in kinds))
        same = [k for k in range(len(kinds)) if 2 * k + 1 not in starts]
        scripts.append(same[0] if same else len(kinds))
        if not same:
            kinds.append(chr(first))
    joined = []
    for (first, last), script in zip(runs, scripts):
        if joined and joined[-1][1] + 1 == first and joined[-1][2] == script:
            joined[-1][1] = last
        else:
            joined.append([first, last, script])
    return joined


def rows(values):
    line = "   "
    for value in values:
        if len(line) + len(value) + 2 > 100:
            print(line)
            line = "   "
        line += f" {value},"
    print(line)


def main():
    sets = {}  # by ranges
    for name in sorted({c.lower().replace("_", "") for c in candidates()}):
        ranges = ranges_of(name)
        if ranges is not None:
            sets.setdefault(ranges, []).append(name)
        print(name, None if ranges is None else len(ranges), file=sys.stderr)
    pool, places = [], {}
    for ranges in sets:
        places[ranges] = (len(pool), len(ranges))
        pool += ranges
    names = sorted((name, *places[ranges]) for ranges, group in sets.items() for name in group)
    print("// Made by scripts/make-regex-properties.py from tokenizers 0.23.3.")
    print('#include "text/hf/hf_properties.h"\n\nnamespace mt::hf_properties {\n')
    print("// clang-format off")
    print(f"const Range kRanges[{len(pool)}] = {{")
    rows("{0x%x,0x%x}" % pair for pair in pool)
    print("};\n")
    print(f"const Name kNames[{len(names)}] = {{")
    rows('{"%s",%d,%d}' % name for name in names)
    print("};")
    print(f"const std::size_t kNameCount = {len(names)};\n")
    runs = script_runs()
    print(f"const ScriptRun kScriptRuns[{len(runs)}] = {{")
    rows("{0x%x,0x%x,%d}" % tuple(run) for run in runs)
    print("};")
    print(f"const std::size_t kScriptRunCount = {len(runs)};")
    print("// clang-format on\n\n}  // namespace mt::hf_properties")


main()
