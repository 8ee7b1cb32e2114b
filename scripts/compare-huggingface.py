#!/usr/bin/env python3
"""Compares HuggingFaceTokenizer with Hugging Face's tokenizers on tokenizer.json files that are put
together as those of known models are; prints a table of how many differ. Development only.

For each kind of file:
1. the ids of each code point, between letters, numbers, signs and spaces;
2. the ids of every text under DATA (*.txt, *.jsonl, *.md), whole and by lines;
3. the ids of --random N random strings of bytes, of Unicode, and of the file's own added tokens;
4. the texts of --random N / 5 lists of random ids.

The vocabularies are GPT-2's and BERT's from DATA, and what is trained from its texts.

Needs tokenizers (0.23.3) and tiktoken (for compare-tokenizer.py, whose strings it takes) from PyPI,
and the test utilities of a build:

    python scripts/compare-huggingface.py build/release/tests/text DATA --random 1000000

--kinds takes some of the kinds only. Exits with 1 if anything differs.
"""

import argparse
import importlib.machinery
import importlib.util
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer


def load(path):
    loader = importlib.machinery.SourceFileLoader(path.stem.replace("-", "_"), str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


compare = load(pathlib.Path(__file__).resolve().parent / "compare-tokenizer.py")
ENCODE_BATCH = 20000

# --- The parts of the files. ---

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
LLAMA3 = WORDS + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
QWEN2 = WORDS + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
O200K = compare.TIKTOKEN_PATTERNS["o200k"]
NEMO = compare.TIKTOKEN_PATTERNS["v2"]


def sequence(kind, parts):
    names = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
    names |= {"decoder": "decoders", "post_processor": "processors"}
    return {"type": "Sequence", names[kind]: parts}


def byte_level(regex=False, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def template(before, after=()):
    special = {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (*before, *after)}
    token = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
    text = lambda name: {"Sequence": {"id": name, "type_id": 0}}
    single = [*(token(t) for t, _ in before), text("A"), *(token(t) for t, _ in after)]
    pair = [*single, text("B")]
    kind = "TemplateProcessing"
    return {"type": kind, "single": single, "pair": pair, "special_tokens": special}


def added(id, content, special=True, **flags):
    token = {"id": id, "content": content, "single_word": False, "lstrip": False}
    return token | {"rstrip": False, "normalized": False, "special": special} | flags


class Kind:
    def __init__(self, name, model, tokens=(), **parts):
        known = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
        self.name, self.tokens = name, list(tokens)
        self.parts = {"version": "1.0", "truncation": None, "padding": None}
        self.parts |= {"added_tokens": self.tokens} | {part: parts.get(part) for part in known}
        self.parts["model"] = model


def gpt2_kinds(folder):
    """GPT-2's tokens in the files of the models that have byte-level BPE."""
    vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
    lines = (folder / "merges.txt").read_text("utf-8").splitlines()[1:]
    names = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    model = {"type": "BPE"} | {name: None for name in names} | {"fuse_unk": False}
    model |= {"byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": lines}
    pairs = model | {"ignore_merges": True, "merges": [line.split(" ") for line in lines]}
    old = {name: model[name] for name in ("vocab", "merges")} | {"end_of_word_suffix": ""}
    end, n = added(vocab[compare.END_OF_TEXT], compare.END_OF_TEXT), len(vocab)
    decoder = byte_level(regex=True)
    yield Kind("gpt2", model, [end], pre_tokenizer=byte_level(True), post_processor=decoder,
               decoder=decoder)  # fmt: skip
    stripping = end | {"lstrip": True}
    more = [added(n, "<mask>", lstrip=True), added(n + 1, "<pad>", rstrip=True)]
    more += [added(n + 2, "Someday", special=False, single_word=True, normalized=True)]
    roberta = {"type": "RobertaProcessing", "sep": ["<pad>", n + 1], "cls": ["<mask>", n]}
    roberta |= {"trim_offsets": True, "add_prefix_space": True}
    yield Kind("roberta", old, [stripping, *more], pre_tokenizer=byte_level(True, True),
               post_processor=roberta, decoder=decoder)  # fmt: skip
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|eot"]
    tokens = [end, *(added(n + i, t) for i, t in enumerate(special))]
    processors = [byte_level(), template([(special[0], n)])]
    yield Kind("llama3", pairs, tokens,
               pre_tokenizer=sequence("pre_tokenizer", [split(LLAMA3), byte_level()]),
               post_processor=sequence("post_processor", processors),
               decoder=decoder)  # fmt: skip
    special = ["<|im_start|>", "<|im_end|>", "<tool_call>", "<think>", "\u00e9t\u00c9", "e\u0301"]
    tokens = [end, *(added(n + i, t, special=i < 2, normalized=i > 4) for i, t in enumerate(special))]
    yield Kind("qwen2", old | {"merges": pairs["merges"]}, tokens, normalizer={"type": "NFC"},
               pre_tokenizer=sequence("pre_tokenizer", [split(QWEN2), byte_level()]),
               post_processor=byte_level(), decoder=byte_level())  # fmt: skip
    for name, pattern in ("o200k", O200K), ("nemo", NEMO):
        yield Kind(name, pairs, [end], decoder=decoder,
                   pre_tokenizer=sequence("pre_tokenizer", [split(pattern), byte_level()]),
                   post_processor=template([(compare.END_OF_TEXT, end["id"])]))  # fmt: skip
    digits = {"type": "Digits", "individual_digits": True}
    yield Kind("starcoder", model, [end], decoder=decoder,
               pre_tokenizer=sequence("pre_tokenizer", [digits, byte_level(True)]))  # fmt: skip


def all_kinds(gpt2):
    yield from gpt2_kinds(gpt2)


# --- Comparing. ---


def random_strings(rng, count, tokens):
    words = [t["content"] for t in tokens] or ["x"]
    words += [w.upper() for w in words] + [" ", "  ", "\n", "a", "\u2581", "\u00e9", "e\u0301", "Someday"]
    for _ in range(count):
        if rng.random() < 0.3:
            yield "".join(rng.choice(words) for _ in range(rng.randrange(12))).encode()
        else:
            yield compare.random_string(rng)


def batches(strings):
    part = []
    for string in strings:
        part.append(string)
        if len(part) == ENCODE_BATCH:
            yield part
            part = []
    yield part


def encode_differences(kind, command, reference, strings):
    count = 0
    for part in batches(strings):
        texts = [s.decode("utf-8", errors="replace") for s in part]
        expected = [e.ids for e in reference.encode_batch_fast(texts)]
        got = compare.ours(command, part)
        wrong = [i for i in range(len(part)) if got[i] != expected[i]]
        for i in wrong[:3]:
            print(f"{kind.name}: {part[i][:200]!r}", file=sys.stderr)
            print(f"  ours     {got[i][:50]}\n  expected {expected[i][:50]}", file=sys.stderr)
        count += len(wrong)
    return count


def decode_differences(kind, command, reference, lists):
    request = b"".join(struct.pack(f"<I{len(ids)}i", len(ids), *ids) for ids in lists)
    answer = subprocess.run([*command, "--decode"], input=request, stdout=subprocess.PIPE, check=True)
    at = wrong = 0
    for ids, expected in zip(lists, reference.decode_batch(lists, skip_special_tokens=False)):
        (size,) = struct.unpack_from("<I", answer.stdout, at)
        got = answer.stdout[at + 4 : at + 4 + size].decode()
        at += 4 + size
        wrong += got != expected
        if got != expected and wrong <= 3:
            print(f"{kind.name}: {ids}\n  ours     {got!r}\n  expected {expected!r}", file=sys.stderr)
    return wrong


def random_ids(rng, size, count):
    return [
        [rng.randrange(min(size, 400) if rng.random() < 0.6 else size) for _ in range(rng.randrange(1, 20))]
        for _ in range(count)
    ]


def check(kind, args, texts):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tokenizer.json"
        path.write_text(json.dumps(kind.parts, ensure_ascii=False), "utf-8")
        reference = Tokenizer.from_file(str(path))
        command = [args.utilities / "encode_lines", "--tokenizer-type", "HuggingFaceTokenizer"]
        command += ["--tokenizer-model", folder]
        rng = random.Random(args.seed)
        points = itertools.islice(itertools.chain(*compare.code_points()), 0, None, args.every)
        strings = itertools.chain(*compare.strings_of(texts))
        row = [encode_differences(kind, command, reference, points)]
        row += [encode_differences(kind, command, reference, strings)]
        strings = random_strings(rng, args.random, kind.tokens)
        row += [encode_differences(kind, command, reference, strings)]
        lists = random_ids(rng, reference.get_vocab_size(), args.random // 5)
        row += [decode_differences(kind, command, reference, lists)]
    print(f"{kind.name:20}" + "".join(f"{c:>14}" for c in row), flush=True)
    return sum(row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("utilities", type=pathlib.Path, help="folder of encode_lines")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--kinds", nargs="+", help="names, or beginnings of names; all by default")
    parser.add_argument("--random", type=int, default=1000000, help="random strings of each kind")
    parser.add_argument("--every", type=int, default=1, help="take every so many-th code point")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    texts = sorted(p for p in args.data.rglob("*") if p.suffix in (".txt", ".jsonl", ".md"))
    print(f"differences, {len(texts)} texts, {args.random} random strings of seed {args.seed}:")
    columns = ("code points", "texts", "random", "decoded")
    print(f"{'kind':20}" + "".join(f"{c:>14}" for c in columns), flush=True)
    total = 0
    for kind in all_kinds(args.data / "gpt2"):
        if kind.name.startswith(tuple(args.kinds or [""])):
            total += check(kind, args, texts)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
