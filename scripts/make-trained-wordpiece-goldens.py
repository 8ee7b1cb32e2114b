#!/usr/bin/env python3
"""Writes testdata/wordpiece/trained-lower.txt and trained-case.txt: the vocabularies of 512 tokens that
Hugging Face's trainer learns from stories/stories.jsonl, read as plain text, and the odd texts of
wordpiece/cases.txt, a line each.

Needs tokenizers (0.23) and transformers (5) from PyPI:

    python scripts/make-trained-wordpiece-goldens.py testdata
"""

import pathlib
import sys

from bert_kinds import word_piece_vocabulary


def main():
    testdata = pathlib.Path(sys.argv[1])
    text = (testdata / "stories" / "stories.jsonl").read_text("utf-8")
    for line in (testdata / "wordpiece" / "cases.txt").read_text("ascii").splitlines()[1:]:
        text += bytes.fromhex(line.split()[1].strip("-")).decode("utf-8", "replace") + "\n"
    for name in ("lower", "case"):
        tokens = word_piece_vocabulary(text, 512, name == "lower")
        (testdata / "wordpiece" / f"trained-{name}.txt").write_text("".join(t + "\n" for t in tokens), "utf-8")


if __name__ == "__main__":
    main()
