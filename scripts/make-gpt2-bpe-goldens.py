#!/usr/bin/env python3
"""Makes testdata/gpt2_bpe: a tiny vocabulary, trained by the project's trainer on the text below,
and cases.txt with what Hugging Face tokenizers makes of odd strings with that vocabulary.

Needs tokenizers from PyPI (0.23) and the test utility train_bpe of a build:

    python scripts/make-gpt2-bpe-goldens.py build/release/tests/text/train_bpe testdata/gpt2_bpe
"""

import pathlib
import subprocess
import sys
import tempfile

import tokenizers
from tokenizers import Tokenizer, models, pre_tokenizers

VOCAB_SIZE = 380
TEXT = (
    "The small boat went over the wide water, and the water was still. The boat's owner said that\n"
    "he'd seen 1200 boats in 2019, 2020 and 2021; they're all old, I'm sure, and we've kept them.\n"
    "    indented lines, and    wide    gaps\n\n\n"
    "L'\u00e9t\u00e9 est arriv\u00e9, l'\u00e9t\u00e9 est l\u00e0. "
    "\u0412\u043e\u0434\u0430 \u0438 \u0432\u043e\u0434\u0430. "
    "\u6c34\u6c34\u3068\u6c34 \u0661\u0662\u0663 \U0001f600\U0001f600 "
    "\u2014 \u2014 \u201cwater\u201d\n"
) * 3

CASES = [
    b"",
    "boat",
    " boat",
    "boat ",
    "  boat  ",
    " ",
    "  ",
    "   ",
    "\n",
    "\n\n",
    " \n",
    "\n ",
    "\t\tboat",
    "boat  \n  boat",
    "boat\r\nboat\r\n",
    "the water\n\n\n  was\u00a0still",
    "\u00a0\u00a0the",
    "a\u00a0b",
    "\u3000the",
    "a\u3000 b",
    " \u3000b",
    "a\u0085b",
    "a \u0085b",
    "a\u0085 b",
    "a\x1cb",
    "a \x1c\x1db",
    "\x0b\x0c boat",
    "\u200bthe",
    "\ufeffthe",
    "\u180ethe",
    "\u2028\u2029 the",
    "he's",
    "he'S",
    "he'll they're we've I'm he'd it's don't",
    "HE'LL THEY'RE WE'VE I'M HE'D",
    "'s",
    "'",
    "''",
    "''s",
    "' s",
    " 's",
    "x's's",
    "'l",
    "'le",
    "'ll",
    "'r",
    "'v",
    "'ve'",
    "\u2019s",
    "1's",
    "!'s",
    "'\u00e9",
    "'s1",
    "s'",
    "2021",
    " 2021",
    "a2021b",
    "1200,50",
    "\u0661\u0662\u0663",
    "x\u00bd\u00b2y",
    "\u2167\u2168",
    "\u3007\u4e00",
    "\U0001d7ce1",
    "a\u0301bc",
    "e\u0301te\u0301",
    "\u0915\u094d\u0937\u093f",
    "\u0e19\u0e49\u0e33",
    "a\u20dd",
    "1\u20dd",
    "\u6c34\u3068\u6c34",
    "\u6c34 \u6c34",
    "\uac00\ub098\ub2e4",
    "\u0412\u043e\u0434\u0430 \u0438",
    "\u0627\u0644\u0645\u0627\u0621",
    "\U0001f600",
    " \U0001f600\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f1e9\U0001f1ea",
    "\u263a\ufe0f",
    "a\U0001f600b",
    "\x00",
    "a\x00b",
    " \x00",
    "\x7f\x80\x9f",
    "\ufffd",
    "a\ufffdb",
    " \ufffd",
    "\uffff\U0010ffff",
    "<|endoftext|>",
    " <|endoftext|> ",
    "<|endoftext|",
    "#version: 0.2",
    "!?!?",
    "a!?b",
    " !?",
    "! ?",
    "--- ---",
    "(the)",
    "the.the",
    "_the_",
    "$5.00",
    "100%",
    b"\xff",
    b"a\xffb",
    b"\xc3",
    b"\xc3\xa9\xc3",
    b"\xe6\xb0",
    b"\xe6\xb0a",
    b"\xf0\x9f\x98",
    b"\xf0\x9f\x98\x80\x80",
    b"\xc0\x80",
    b"\xc1\xbf",
    b"\xe0\x80\xaf",
    b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\x80\x80",
    b" \xff",
    b"the \xe6\xb0 the",
    b"\xfe\xfft\x00h\x00",
    "a" * 63,
    "a" * 64,
    "a" * 65,
    "a" * 200,
    "the" * 100,
    " " * 100,
    "\n" * 100,
    "\u6c34" * 60,
    "1" * 130,
    "water" * 13,
    "the water" * 10,
    "\u00e9t\u00e9" * 40,
    "!" * 90,
    "still" + " " * 70 + "water",
    "\u1c89\ua7cb\U000105c0",
    "\ua7ce\u088f",
    "\u0558\u058b",  # letters since Unicode 16.0, 17.0, 18.0
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    train, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.NamedTemporaryFile() as text:
        text.write(TEXT.encode())
        text.flush()
        subprocess.run([train, folder, str(VOCAB_SIZE), text.name], check=True)
    files = [str(folder / name) for name in ("vocab.json", "merges.txt")]
    tokenizer = Tokenizer(models.BPE.from_file(*files))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    lines = [
        f"# scripts/make-gpt2-bpe-goldens.py, Hugging Face tokenizers {tokenizers.__version__};"
        " vocab.json",
        "# and merges.txt beside this file are made by the same script with the project's trainer.",
        "# text in hexadecimal; ends of its pieces, in bytes of the text with ill-formed UTF-8"
        " replaced",
        "# by U+FFFD; ids. '-' is nothing.",
    ]
    for case in CASES:
        data = case if isinstance(case, bytes) else case.encode()
        text = data.decode("utf-8", errors="replace")
        pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
        ends = [len(text[:end].encode()) for _, (_, end) in pieces]
        ids = tokenizer.encode(text).ids
        columns = [data.hex(), ",".join(map(str, ends)), ",".join(map(str, ids))]
        lines.append(" ".join(column or "-" for column in columns))
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
