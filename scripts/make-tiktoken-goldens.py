#!/usr/bin/env python3
"""Makes testdata/tiktoken: a rank file with the tokens of testdata/gpt2_bpe, and cases.txt with what
tiktoken makes of odd strings with those ranks and each pattern that TikTokenizer knows.

Needs tiktoken from PyPI (0.14):

    python scripts/make-tiktoken-goldens.py testdata/gpt2_bpe/vocab.json testdata/tiktoken
"""

import base64
import json
import pathlib
import runpy
import sys

import tiktoken

from tokenizer_kinds import TIKTOKEN_PATTERNS, byte_tokens

HERE = pathlib.Path(__file__).parent
CASES = runpy.run_path(str(HERE / "make-gpt2-bpe-goldens.py"))["CASES"] + [
    "he'S HE'LL they'Re We'vE i'M'D",
    "it'\u017f '\u017f",
    "HTTPServer XMLHttpRequest iPhone McDonald",
    "\u00c9t\u00c9 \u01c5x\u01c5X",
    "AB\u6c34CD\u6c34e",
    "\u6c34AB",
    "\u0301AB",
    "!\u0301ab",
    "!AB cd",
    "\tword\u00a0Word",
    "12345678 1234",
    "path/to//file\n/x\r\n/",
    "a\n\n\n   b",
    "a  \n  \n  ",
    "end   ",
    " \u3000\n\u3000x",
    "don't'll've",
    "x=y+1;\r\n\r\n",
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    vocab, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    tokens = byte_tokens(json.loads(vocab.read_text("utf-8")))
    folder.mkdir(exist_ok=True)
    lines = [f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tokens)]
    (folder / "ranks.tiktoken").write_text("".join(lines))
    lines = [
        f"# scripts/make-tiktoken-goldens.py, tiktoken {tiktoken.__version__}; ranks.tiktoken",
        "# beside this file has the tokens of ../gpt2_bpe/vocab.json.",
        "# text in hexadecimal; ids, which are ranks + 3, by the patterns " + " ".join(TIKTOKEN_PATTERNS) + ".",
        "# '-' is nothing.",
    ]
    encodings = [
        tiktoken.Encoding(
            name,
            pat_str=pattern,
            mergeable_ranks={t: i + 3 for i, t in enumerate(tokens)},
            special_tokens={"<unk>": 0, "<s>": 1, "</s>": 2},
        )
        for name, pattern in TIKTOKEN_PATTERNS.items()
    ]
    for case in CASES:
        data = case if isinstance(case, bytes) else case.encode()
        text = data.decode("utf-8", errors="replace")
        columns = [",".join(map(str, e.encode_ordinary(text))) for e in encodings]
        lines.append(" ".join(column or "-" for column in [data.hex(), *columns]))
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
