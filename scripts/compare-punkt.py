#!/usr/bin/env python3
"""Compares the models that mt-preprocess punkt trains with those of nltk's PunktTrainer, and prints a line for
each corpus; development only.

The corpora are every text under DATA (*.txt, *.jsonl), each as one text and as JSON lines of its paragraphs, and
texts put together at random (seed 7) from PIECES.  Every corpus is learnt from with each kind of collocations; what
is compared are nltk's parameters: abbreviations, collocations, sentence starters and contexts.  nltk's own reader
must also read our files as these.

Needs from PyPI: nltk==3.9.1.

    python scripts/compare-punkt.py build/release/cmd/mt-preprocess DATA [--random N]
    python scripts/compare-punkt.py --golden testdata/punkt/trained.jsonl

Exits with 1 if anything differs.  --golden writes what nltk learns of some random texts instead: a text, a kind and
the parameters, sorted, a line.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from nltk.tokenize.punkt import PunktTrainer, load_punkt_params

PIECES = (". . . . ! ? ... .. . . . -- - , ; : \" ' ) ( ] } * Mr. mr Mr dr. Dr J. j. U.S. e.g. Ph.D The the It it and "
          "And Bach bach Smith smith 3.5 12. -.5 .5 1. x-mr. _. # ## number No. no. Sq. sq vs. etc. I'm ").split(" ") + [
    "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2028", "\x1c", "\u00c9t\u00e9", "\u0391\u03a3.", "\u03b1\u03a3", "\u00bd.",
    "\u0663.", "\u0663", "\u0130.", "i\u0307.", "\u01c5.", "\u4e8c.", "\u01c5x", ". . .", ".\t.\u00a0.", "\u05d0\u05d1.",
    "\u0434\u0440.", "\u0414\u0440.", "\u0434\u043e\u043c", "\u0414\u043e\u043c", "Cie.", "cie.", "z.B.", "Z.B", "\U0001f600."]
KINDS = {"numbers": (), "abbreviations": ("INCLUDE_ABBREV_COLLOCS",), "all": ("INCLUDE_ALL_COLLOCS",)}


def parameters(learnt):
    return {"abbreviations": set(learnt.abbrev_types), "collocations": {tuple(pair) for pair in learnt.collocations},
            "starters": set(learnt.sent_starters), "contexts": dict(learnt.ortho_context)}


def theirs(text, kind):
    trainer = PunktTrainer()
    for name in KINDS[kind]:
        setattr(trainer, name, True)
    trainer.train(text)
    return parameters(trainer.get_params())


def read_plainly(folder):
    """Of files that nltk itself would cut at a carriage return in a spaced ellipsis."""
    def rows(name):
        with open(f"{folder}/{name}", encoding="utf-8", newline="\n") as lines:
            return [line.removesuffix("\n") for line in lines]
    return {"abbreviations": set(rows("abbrev_types.txt")),
            "collocations": {tuple(row.split("\t")) for row in rows("collocations.tab")},
            "starters": set(rows("sent_starters.txt")),
            "contexts": {word: int(bits) for word, bits in (row.split("\t") for row in rows("ortho_context.tab"))}}


def ours(program, arguments, content, kind):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "punkt", "--quiet", "--input", "-", "--output-dir", folder, "--collocations", kind,
                        *arguments], input=content.encode(), check=True)
        learnt = read_plainly(folder)
        if not any("\r" in word for word in learnt["abbreviations"]):
            if parameters(load_punkt_params(folder)) != learnt:
                sys.exit("nltk reads other parameters than were written")
        return learnt


def random_text(draw, words):
    """Every piece has one that follows it oftener than others, so that there is something to learn."""
    pieces = draw.sample(PIECES, draw.randint(5, len(PIECES)))
    favourites = {piece: draw.choice(pieces) for piece in pieces}
    piece, text = pieces[0], ""
    for _ in range(words):
        piece = favourites[piece] if draw.random() < 0.3 else draw.choice(pieces)
        text += piece + draw.choice(["", " ", " ", " "])
    return text


def write_golden(path):
    draw = random.Random(7)
    examples = [random_text(draw, words) for words in [1, 20, 100] + 4 * [1500]]
    words = "a tea dog cat Dr. Who J. S. Bach walk with No. 12 to the 3. May and saw about 7 p.m. as he then had".split()
    examples.append("".join(f"{draw.choice(['He', 'Then', 'A'])} {' '.join(draw.choices(words, k=7))} had tea.{end}"
                            for end in draw.choices([" ", "\n", "\n\n"], k=200)))
    with open(path, "w", encoding="ascii") as out:
        for text in examples:
            for kind in KINDS:
                learnt = theirs(text, kind)
                rows = {what: sorted("\t".join(row) if isinstance(row, tuple) else row for row in learnt[what])
                        for what in ("abbreviations", "collocations", "starters")}
                rows["contexts"] = sorted(f"{word}\t{bits}" for word, bits in learnt["contexts"].items())
                out.write(json.dumps({"text": text, "kind": kind, **rows}) + "\n")


def texts(data, count):
    for path in sorted(data.rglob("*")):
        if path.suffix == ".txt":
            yield path.name, path.read_text("utf-8")
        elif path.suffix == ".jsonl":
            yield path.name, "\n\n".join(json.loads(line)["text"] for line in path.open(encoding="utf-8"))
    draw = random.Random(7)
    for i in range(count):
        yield f"random {i}", random_text(draw, draw.choice([5, 50, 500, 5000]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", help="mt-preprocess")
    parser.add_argument("data", nargs="?", type=pathlib.Path, help="folder of texts")
    parser.add_argument("--golden", metavar="FILE", help="write this")
    parser.add_argument("--random", type=int, default=300, metavar="N", help="how many random texts")
    args = parser.parse_args()
    if args.golden:
        return write_golden(args.golden)
    if not args.data:
        parser.error("expected a program and a folder")
    compared = different = 0
    for name, text in texts(args.data, args.random):
        if not text.strip():
            continue
        lines = "".join(json.dumps({"text": part}) + "\n" for part in text.split("\n\n"))
        for kind in KINDS:
            expected = theirs(text, kind)
            for form, content in (["--format", "text"], text), ([], lines):
                found = ours(args.program, form, content, kind)
                wrong = [what for what in expected if expected[what] != found[what]]
                compared += 1
                different += bool(wrong)
                for what in wrong:
                    print(f"{name}, {kind}, {form}: {what} differ: {sorted(set(expected[what]) ^ set(found[what]))[:10]}")
            if kind == "numbers" and not name.startswith("random"):
                print(f"{name}: {len(text)} characters,", ", ".join(f"{len(expected[what])} {what}" for what in expected),
                      flush=True)
    print(f"{compared} models compared, {different} differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
