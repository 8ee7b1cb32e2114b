#!/usr/bin/env python3
"""Writes testdata/sentencepiece: small models trained on testdata/stories, and what the sentencepiece
library makes of odd texts with four of them.

  unigram.model  normalised by a few rules of its own, with user-defined and control pieces
  bpe.model      identity, byte fallback, keeps extra white space
  characters.model  of characters, identity, with user-defined and control pieces
  words.model    of words, identity, keeps extra white space, with user-defined and control pieces
  llama.model    as Llama-2's: identity, byte fallback, no pieces but its own
  cases.txt      a line each: model, text, ids, and what they decode to; text in hex, "-" for nothing

Needs sentencepiece from PyPI (0.2.3):

    python scripts/make-sentencepiece-goldens.py testdata
"""

import io
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece

# Code points in hex to code points in hex, as the library's own rules are written.
RULES = {"Ａ": "A", "ﬁ": "fi", "e\u0301": "\u00e9", "\t": " ", "\n": " ", "\u200b": "", "…": "..."}
RULES |= {"\u3000": " ", "①": "1"}

TEXTS = ["", " ", "   ", "Tom has a cat.", "  Tom   has\ta  cat.\n\n", "Tom\u3000has", "▁Tom▁ has▁"]
TEXTS += ["caﬁ cafe\u0301 café", "Ａ①…", "\u200b", " \u200b ", "日本語", "x日y", "😀!😀", "<sep>Tom<sep>"]
TEXTS += ["a<sep", "<s>Tom</s>", "of theof the the", "<ctl>", "\0", "a\0b", "\ufffd", "\ufeffTom", "0x41"]
TEXTS += ["<0x41>", "a" * 100, "the " * 40, "Zzyzx qqqq", "1000000", "--- ... !!!", "Tom's and I'm"]
BYTES = [b"\xff", b"a\xc3", b"\xe2\x96", b"\xe2\x96\x81", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\x80"]


def train(stories, options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(stories),
        model_writer=model,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return model.getvalue()


def random_text(rng, words):
    signs = [" ", "  ", ".", "é", "日", "<sep>", "\t", "-", "of the", "▁", "7"]
    return "".join(rng.choice(signs if rng.random() < 0.4 else words) for _ in range(rng.randrange(12)))


def main():
    testdata = pathlib.Path(sys.argv[1])
    folder = testdata / "sentencepiece"
    folder.mkdir(exist_ok=True)
    lines = (testdata / "stories" / "stories.jsonl").read_text("utf-8").splitlines()
    stories = [json.loads(line)["text"].replace("\n", " ") for line in lines]
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES.items():
            print(*(" ".join(f"{ord(c):X}" for c in s) for s in (source, target)), sep="\t", file=rules)
        rules.flush()
        unigram = train(
            stories,
            dict(
                model_type="unigram",
                vocab_size=300,
                hard_vocab_limit=False,
                normalization_rule_tsv=rules.name,
                user_defined_symbols=["<sep>", "of the"],
                control_symbols=["<ctl>"],
            ),
        )
    bpe = train(
        stories,
        dict(
            model_type="bpe",
            vocab_size=600,
            normalization_rule_name="identity",
            byte_fallback=True,
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            user_defined_symbols=["<sep>"],
            pad_id=3,
        ),
    )
    characters = train(
        stories,
        dict(
            model_type="char",
            vocab_size=50,
            normalization_rule_name="identity",
            user_defined_symbols=["<sep>", "of the", "▁T"],
            control_symbols=["<ctl>", "Z"],
        ),
    )
    words = train(
        stories,
        dict(
            model_type="word",
            vocab_size=150,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            user_defined_symbols=["<sep>", "▁T", "of the"],
            control_symbols=["<ctl>", "Z"],
        ),
    )
    llama = train(
        stories,
        dict(
            model_type="bpe",
            vocab_size=400,
            normalization_rule_name="identity",
            byte_fallback=True,
            remove_extra_whitespaces=False,
            allow_whitespace_only_pieces=True,
            split_digits=True,
        ),
    )
    (folder / "llama.model").write_bytes(llama)
    rng = random.Random(1)
    known = [word + " " for word in " ".join(stories[:10]).split()]
    texts = [t.encode() for t in TEXTS] + BYTES
    texts += [random_text(rng, known).encode() for _ in range(60)]
    hexed = lambda data: data.hex() or "-"
    with open(folder / "cases.txt", "w", encoding="ascii") as out:
        print(f"# sentencepiece {sentencepiece.__version__}: model text(hex) ids decoded(hex)", file=out)
        models = dict(unigram=unigram, bpe=bpe, characters=characters, words=words)
        for name, model in models.items():
            (folder / f"{name}.model").write_bytes(model)
            library = sentencepiece.SentencePieceProcessor(model_proto=model)
            for text in texts:
                ids = library.encode(text)
                listed = ",".join(map(str, ids)) or "-"
                print(name, hexed(text), listed, hexed(library.decode(ids).encode()), file=out)


if __name__ == "__main__":
    main()
