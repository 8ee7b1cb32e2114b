#!/usr/bin/env python3
"""Writes testdata/wordpiece: a small BERT vocabulary, and what Megatron-LM's own tokenizer makes of
odd texts with it.

  vocab.txt   the special tokens, characters, and frequent words and ends of words of stories/
  cases.txt   a line each: type, text, ids, and what they decode to; texts in hex, "-" for nothing

Needs a checkout of NVIDIA/Megatron-LM at core_v0.12.1, Python 3.11 (whose Unicode is 14.0) and six
from PyPI:

    python3.11 scripts/make-wordpiece-goldens.py MEGATRON testdata
"""

import collections
import importlib.util
import json
import pathlib
import random
import sys
import unicodedata

SPECIAL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABT0123456789.,!?'\"-[]#éßσς日本\u1112\u1161\u11ab"
TEXTS = ["", " ", "Tom has a cat.", "TOM'S  Café\tcafe\u0301\n", "日本 x日y", "한 한국", "[MASK] [CLS]"]
TEXTS += ["ΑΣ ΑΣ' ΑΣΑ 'Σ' σΣ.Σ A.Σ A.\u00adΣ aΣ", "İıßẞ ﬁ ÅÅ", "a\u00adb\u200bc\x01d\0e\ufffdf", "a" * 200]
TEXTS += ["a" * 201, "a\u2028b\u2029c", "\u1680a\u3000b\u00a0c", "don't, I'm . they ' re", "\u037e\u1fef"]
TEXTS += ["a\U0001d165\U00016ff0b a\u302e\u0323\u1babb \U0001d15e\u1bab", "x" * 15, "tom" * 6, "9" * 40]
BYTES = [b"\xff", b"a\xc3b", b"\xe2\x96", b"\xf0\x9f\x98 tom"]


def vocabulary(stories):
    words = collections.Counter(" ".join(stories).replace(".", " ").split())
    frequent = [w for w, n in words.most_common(60)]
    ends = collections.Counter(w[-k:] for w in words for k in (2, 3) if len(w) > k)
    tokens = [*SPECIAL, *LETTERS, *("##" + c for c in LETTERS), *frequent, *map(str.lower, frequent)]
    tokens += ["##" + e for e, n in ends.most_common(40)]
    return list(dict.fromkeys(tokens))


def main():
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    path = pathlib.Path(sys.argv[1]) / "megatron" / "training" / "tokenizer" / "bert_tokenization.py"
    spec = importlib.util.spec_from_file_location("bert_tokenization", path)
    bert = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bert)
    testdata = pathlib.Path(sys.argv[2])
    folder = testdata / "wordpiece"
    folder.mkdir(exist_ok=True)
    lines = (testdata / "stories" / "stories.jsonl").read_text("utf-8").splitlines()
    stories = [json.loads(line)["text"] for line in lines]
    tokens = vocabulary(stories)
    (folder / "vocab.txt").write_text("".join(t + "\n" for t in tokens), "utf-8")
    rng = random.Random(1)
    pieces = [*" ".join(stories[:5]).split(), "É", "Σ", "\u0301", "'", "-", "日", " ", "x1", "Qq", "\u0323"]
    texts = [t.encode() for t in TEXTS] + BYTES
    texts += [
        "".join(rng.choice(pieces) + " " * rng.randrange(2) for _ in range(rng.randrange(10))).encode()
        for _ in range(40)
    ]
    hexed = lambda data: data.hex() or "-"
    with open(folder / "cases.txt", "w", encoding="ascii") as out:
        print("# Megatron-LM core_v0.12.1, Unicode 14.0: type text(hex) ids decoded(hex)", file=out)
        for kind in ("BertWordPieceLowerCase", "BertWordPieceCase"):
            reference = bert.FullTokenizer(str(folder / "vocab.txt"), kind.endswith("LowerCase"))
            for text in texts:
                cut = reference.tokenize(text.decode("utf-8", "replace"))
                ids = ",".join(map(str, reference.convert_tokens_to_ids(cut))) or "-"
                decoded = reference.convert_tokens_to_string(cut).encode()
                print(kind, hexed(text), ids, hexed(decoded), file=out)


if __name__ == "__main__":
    main()
