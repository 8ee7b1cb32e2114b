#!/usr/bin/env python3
"""Compare the embeddings that mt-generate makes by folders of sentence-transformers with the library's own.

Tiny random BERTs are saved with each pooling that mt has, with and without lengths of 1, a prompt and a length to which texts are cut, as
the library saves them; a number may differ by 1e-5.  The vocabulary is testdata/wordpiece's.

Run:  scripts/compare-sentences.py BIN     with sentence_transformers (tried with 6.2.0) and transformers from PyPI
"""
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

ROOT = pathlib.Path(__file__).parent.parent
TEXTS = ["  Jack has a red ball. ", "the king is dead", "x", "A Very LONG text " * 9, "été"]
WIDTH = 48


def ours(program: pathlib.Path, folder: pathlib.Path) -> numpy.ndarray:
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    made = subprocess.run([program, "embed", "--quiet", "--load", folder, "--device", "cpu", "--dtype", "fp32", "-"], input=lines, text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    return numpy.array([json.loads(line)["embedding"] for line in made.splitlines()])


def main() -> None:
    torch.manual_seed(1)
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        base = pathlib.Path(scratch) / "bert"
        tokenizer = BertTokenizerFast(vocab=str(ROOT / "testdata/wordpiece/vocab.txt"), do_lower_case=True)
        BertModel(BertConfig(vocab_size=len(tokenizer), hidden_size=WIDTH, num_hidden_layers=3, num_attention_heads=3, intermediate_size=80,
                             max_position_embeddings=40)).save_pretrained(base)
        tokenizer.save_pretrained(base)
        for i, (pooling, unit, prompt, most) in enumerate(itertools.product(["mean", "cls"], [False, True], [None, "query: "], [24, None])):
            model = Transformer(str(base), **({"max_seq_length": most} if most else {}))
            modules = [model, Pooling(WIDTH, pooling_mode=pooling)] + ([Normalize()] if unit else [])
            theirs = SentenceTransformer(modules=modules, prompts={"q": prompt} if prompt else None,
                                         default_prompt_name="q" if prompt else None, device="cpu")
            folder = pathlib.Path(scratch) / str(i)
            theirs.save(str(folder))
            worst = abs(ours(pathlib.Path(sys.argv[1]) / "mt-generate", folder) - theirs.encode(TEXTS)).max()
            failed |= not worst < 1e-5
            print(f"{pooling:5} length 1: {unit!s:6} prompt: {prompt!s:8} cut to: {most!s:5} {worst:.1e}")
    sys.exit("compare-sentences: embeddings differ" if failed else 0)


if __name__ == "__main__":
    main()
