#!/usr/bin/env python3
"""Whether a Retro learns from its neighbours what a GPT cannot know.

    python scripts/retro-facts.py build/release/cmd [--seeds 5] [--steps 300]

Makes a corpus in which each document is a key, of letters at random, and its fact, a letter that is written out over a chunk.
Each is there twice, so that the neighbour of a key is the same key in another document, with its fact behind it; those that are
validated were never trained on beside their twins.  A GPT has to guess the first letter of a fact, ln 23 nats in 32 tokens, and a
Retro need not.  For each seed both are trained, of one size, with as many steps, from mt-retro-index's own project; prints
their validation losses and the gap, then its mean and spread.  Exits with 1 if a gap is less than four fifths of what a
fact is worth.
"""
import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TESTDATA = Path(__file__).parent.parent / "testdata"
LETTERS = "ABCDEFGHIKLMNOPRSTUVWXY"  # each is a token to the GPT, and to the BERT
CHUNK, TRAINED, VALIDATED, BATCH = 16, 2700, 300, 32
WORTH = math.log(len(LETTERS)) / (2 * CHUNK)  # of a fact, for each token


def corpus(rng):
    def documents(count):
        return ["".join(rng.choices(LETTERS, k=CHUNK)) + rng.choice(LETTERS) * CHUNK for _ in range(count)]

    trained, validated = documents(TRAINED), documents(VALIDATED)
    first = 2 * trained + validated
    rng.shuffle(first)
    return first + validated  # which are the last 5 percent


def bert(folder):
    """A BERT of testdata's, whose vocabulary is the project's, too."""
    folder.mkdir()
    for file in (TESTDATA / "models" / "megatron-bert").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tokenizer = (TESTDATA / "huggingface" / "bert-lower.json").read_text()
    (folder / "tokenizer.json").write_text(tokenizer)
    names = ("cls", "sep", "mask", "pad", "unk")
    (folder / "tokenizer_config.json").write_text(json.dumps({f"{name}_token": f"[{name.upper()}]" for name in names}))
    vocab = json.loads(tokenizer)["model"]["vocab"]
    return "".join(word + "\n" for word in sorted(vocab, key=vocab.get))


def losses(programs, folder, seed, steps):
    def run(*words):
        subprocess.run([programs / words[0], "--quiet", *map(str, words[1:])], check=True, cwd=folder)

    tokenizer = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", TESTDATA / "gpt2_bpe" / "vocab.json", "--merge-file",
                 TESTDATA / "gpt2_bpe" / "merges.txt"]
    (folder / "wiki" / "data").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in corpus(random.Random(seed))))
    run("mt-preprocess", "--input", "corpus.jsonl", "--output-prefix", "wiki/data/facts", *tokenizer)
    (folder / "wiki" / "bert.txt").write_text(bert(folder / "bert"))
    training = {"train-samples": steps * BATCH, "global-batch-size": BATCH, "eval-interval": steps, "eval-iters": VALIDATED // BATCH,
                "seed": seed, "seq-length": 2 * CHUNK}
    data = "facts_text_document"
    run("mt-retro-index", "--retro-project-dir", "wiki", "--retro-gpt-data-path", data, "--retro-gpt-split", "95,5,0",
        "--retro-gpt-chunk-length", CHUNK, "--retro-bert-tokenizer-type", "BertWordPieceLowerCase", "--retro-bert-vocab-file",
        "bert.txt", "--retro-index-ntrain", 100, "--load", "bert", "--retro-index-str", "Flat", "--retro-query-num-neighbors-query", 20,
        *(word for name, value in training.items() for word in (f"--retro-gpt-{name}", value)))
    model = ["--num-layers", 6, "--hidden-size", 64, "--num-attention-heads", 4, "--ffn-hidden-size", 128, "--micro-batch-size", BATCH,
             "--lr", 0.003, "--min-lr", 3e-4, "--lr-decay-style", "cosine", "--init-method-std", 0.06, "--hidden-dropout", 0,
             "--attention-dropout", 0]
    run("mt-pretrain", *model, "--data-path", f"wiki/data/{data}", "--split", "95,5,0", "--max-position-embeddings", 2 * CHUNK,
        *tokenizer, *(word for name, value in training.items() for word in (f"--{name}", value)), "--save", "gpt")
    run("mt-pretrain", *model, "--retro-project-dir", "wiki", "--retro-add-retriever", "--retro-num-neighbors", 1,
        "--retro-encoder-hidden-dropout", 0, "--retro-encoder-attention-dropout", 0, "--save", "retro")

    def loss(name):
        events = map(json.loads, (folder / name / "run.jsonl").read_text().splitlines())
        return [event["loss"] for event in events if event["event"] == "eval"][-1]
    return loss("gpt"), loss("retro")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder with the programs")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    gaps = []
    for seed in range(1, options.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            gpt, retro = losses(options.programs.resolve(), Path(folder), seed, options.steps)
        gaps.append(gpt - retro)
        print(f"seed {seed}: GPT {gpt:.4f}, Retro {retro:.4f}, gap {gaps[-1]:.4f} of {WORTH:.4f}", flush=True)
    spread = statistics.stdev(gaps) if len(gaps) > 1 else 0
    print(f"gap {statistics.mean(gaps):.4f}, at least {min(gaps):.4f}, standard deviation {spread:.4f}; a fact is worth {WORTH:.4f}")
    sys.exit(1 if min(gaps) < 0.8 * WORTH else 0)


if __name__ == "__main__":
    main()
