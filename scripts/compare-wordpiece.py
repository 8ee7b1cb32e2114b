#!/usr/bin/env python3
"""Compares BERT's tokenizers with Megatron-LM's own bert_tokenization.py; development only.

For BertWordPieceLowerCase and BertWordPieceCase, one row of a table: how many differ of

1. the ids of each code point, between letters and around a capital sigma;
2. the ids of every text under DATA, whole and by lines;
3. the ids of --random N random strings: bytes, Unicode, and one of accents, marks and sigmas;
4. the texts of random ids.

Needs a checkout of NVIDIA/Megatron-LM at core_v0.12.1, Python 3.11 (whose Unicode is 14.0), six and
tokenizers from PyPI, and the test utilities of a build:

    python3.11 scripts/compare-wordpiece.py build/release/tests/text MEGATRON DATA --random 300000

DATA holds bert-uncased/tokenizer.json and bert-cased/tokenizer.json, whose vocabularies are taken,
and texts (*.txt, *.jsonl) anywhere below it. Exits with 1 if anything differs.
"""

import argparse
import importlib.machinery
import importlib.util
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.stem.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


compare = load(pathlib.Path(__file__).resolve().parent / "compare-tokenizer.py")
BATCH = 50000
ODD = "ΣσςAΑaΆά'.:^`´·ǅİıßẞﬁÅÅåäöé中豈한각가・。，\u0301\u0323\u0345\u093c\u094d\u0f71\u302e\u3099"
ODD += "\U0001d165\U0001d157\U000116b6\U00016ff0\u1bab\u1bf3\xad\u200d\u2028\u2029\u180e\ufffd\0\x1c #-"


def write_vocabulary(tokenizer_json, path):
    vocab = json.loads(tokenizer_json.read_text("utf-8"))["model"]["vocab"]
    path.write_text("".join(token + "\n" for token in sorted(vocab, key=vocab.get)), "utf-8")


def encode(reference, text):
    return reference.convert_tokens_to_ids(reference.tokenize(text))


def odd_string(rng):
    return "".join(rng.choice(ODD) for _ in range(rng.randrange(24))).encode()


def check_ids(what, command, reference, strings):
    wrong = 0
    for start in range(0, len(strings), BATCH):
        part = strings[start : start + BATCH]
        for string, got in zip(part, compare.ours(command, part)):
            expected = encode(reference, string.decode("utf-8", "replace"))
            wrong += got != expected
            if got != expected and wrong <= 3:
                print(f"{what}: {string[:80]!r}\n  ours     {got[:30]}\n  Megatron {expected[:30]}")
    return wrong


def check_decode(what, command, reference, lists):
    request = b"".join(struct.pack(f"<I{len(ids)}i", len(ids), *ids) for ids in lists)
    answer = subprocess.run([*command, "--decode"], input=request, stdout=subprocess.PIPE, check=True)
    at = wrong = 0
    for ids in lists:
        (size,) = struct.unpack_from("<I", answer.stdout, at)
        got = answer.stdout[at + 4 : at + 4 + size].decode()
        at += 4 + size
        expected = reference.convert_tokens_to_string(reference.convert_ids_to_tokens(ids))
        wrong += got != expected
        if got != expected and wrong <= 3:
            print(f"{what}: {ids}\n  ours     {got!r}\n  Megatron {expected!r}")
    return wrong


def random_ids(rng, reference):
    signs = [reference.vocab[c] for c in ".?!,'" if c in reference.vocab]
    signs += [reference.vocab[t] for t in ("n", "t", "m", "s", "ve", "re", "##s", "##t", "don")]
    return [
        rng.choice(signs) if rng.random() < 0.6 else rng.randrange(len(reference.vocab))
        for _ in range(rng.randrange(20))
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("utilities", type=pathlib.Path, help="folder of encode_lines")
    parser.add_argument("megatron", type=pathlib.Path, help="checkout of Megatron-LM")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=300000, help="random strings per type")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    bert = load(args.megatron / "megatron" / "training" / "tokenizer" / "bert_tokenization.py")
    points = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    points = [f"a{c}b {c} {c}Σ AΣ{c} A{c}Σ{c}B {c}\u0323{c}\u0301x".encode() for c in points]
    texts = []
    for path in sorted(p for p in args.data.rglob("*") if p.suffix in (".txt", ".jsonl")):
        texts += [path.read_bytes(), *path.read_bytes().split(b"\n")]
    rng = random.Random(args.seed)
    strings = [
        odd_string(rng) if rng.random() < 0.4 else compare.random_string(rng)
        for _ in range(args.random)
    ]
    print(f"{len(points)} code points, {len(texts)} texts, {len(strings)} random strings")
    print(f"{'type':24}" + "".join(f"{c:>12}" for c in ("code points", "texts", "random", "decoded")))
    total = 0
    scratch = tempfile.TemporaryDirectory()
    for kind, folder in (("LowerCase", "bert-uncased"), ("Case", "bert-cased")):
        vocab = pathlib.Path(scratch.name) / (kind + ".txt")
        write_vocabulary(args.data / folder / "tokenizer.json", vocab)
        reference = bert.FullTokenizer(str(vocab), do_lower_case=kind == "LowerCase")
        name = "BertWordPiece" + kind
        command = [args.utilities / "encode_lines", "--tokenizer-type", name, "--vocab-file", vocab]
        row = [check_ids(name, command, reference, part) for part in (points, texts, strings)]
        lists = [random_ids(rng, reference) for _ in range(args.random // 5)]
        row.append(check_decode(name, command, reference, lists))
        print(f"{name:24}" + "".join(f"{c:>12}" for c in row), flush=True)
        total += sum(row)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
