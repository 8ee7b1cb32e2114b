#!/usr/bin/env python3
"""Make testdata/punkt/sentences.jsonl: how nltk's Punkt splits texts, with the model beside it.

Each line has a text, its sentences, and those with kept newlines (upstream's CustomLanguageVars: the
pattern of a candidate takes the word before and the white space behind).  The first texts are
written out below, the others put together at random (seed 7) from PIECES.

Needs from PyPI: nltk==3.9.1.
Command: python scripts/make-sentence-goldens.py
"""
import json
import pathlib
import random

from nltk.tokenize.punkt import PunktLanguageVars, PunktSentenceTokenizer, load_punkt_params

FOLDER = pathlib.Path(__file__).parent.parent / "testdata" / "punkt"
TEXTS = [
    "Hello Mr. Smith. How are you?",
    "(How does it deal with this?) \"It belongs to the sentence before.\" ('And this!') And this.",
    "J. Bach wrote it. J. S. Bach, that is. In the U.S. economy it was. The U.S. It ended.",
    "Very bad acting!!! I promise... and so on. . . . Yes -- no.-- Maybe?)--He said.",
    "It cost 3.50. international or No. 12. Smith. In 1999. the end.\n\nNew line.  \n  Spaces behind. ",
    "", " \n ", "no mark", "One.", "\"Quoted.\"", "caf\u00e9.\u00a0\u0391\u03a3. \u00c9t\u00e9? \u4e2d\u6587. \U0001f600! \u00bd. x",
]
PIECES = ". ! ? ... -- - , ; : \" ' ) ( ] } * Mr. Dr J. U.S. e.g. Ph.D The the It and Bach Smith 3.5 12. -.5".split(" ") + [
    " ", "\n", "\n\n", "\t", "\u00a0", "\u2028", "\u00c9t\u00e9", "\u0391\u03a3.", "\u00bd.", "\u0663.", "_.", "word", "!!!", ".)", ".\""]


class KeepNewlines(PunktLanguageVars):
    _period_context_fmt = r"\S*%(SentEndChars)s\s*(?=(?P<after_tok>%(NonWord)s|(?P<next_tok>\S+)))"


def main():
    parameters = load_punkt_params(FOLDER)
    plain = PunktSentenceTokenizer(parameters)
    keeping = PunktSentenceTokenizer(parameters, lang_vars=KeepNewlines())
    draw = random.Random(7)
    texts = TEXTS + ["".join(draw.choice(PIECES) + draw.choice(["", "", " "]) for _ in range(draw.randint(2, 16)))
                     for _ in range(200)]
    with open(FOLDER / "sentences.jsonl", "w", encoding="ascii") as out:
        for text in texts:
            row = {"text": text, "sentences": plain.tokenize(text), "keeping": keeping.tokenize(text)}
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
