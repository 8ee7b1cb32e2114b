#!/usr/bin/env python3
"""Compares the tokenizers with those that they stand for, and prints a table of how many strings
differ; development only.

Each kind, a tokenizer and its reference, is given
1. every code point behind a letter, a number, a sign and a space: how pieces are cut, and with that
   the Unicode version;
2. every text under DATA (*.txt, *.jsonl), whole and by lines;
3. --random N random strings of bytes and of Unicode.
Then the merges that the trainer learns from each text are compared with Hugging Face's.

Needs tokenizers (0.23) and tiktoken (0.14) from PyPI and the test utilities of a build:

    python scripts/compare-tokenizer.py build/release/tests/text DATA --random 1000000

DATA holds gpt2/vocab.json and gpt2/merges.txt. --kinds takes some of the kinds only. Exits with 1 if
anything differs.
"""

import argparse
import base64
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
BATCH = 20000

# The patterns that --tiktoken-pattern names. v1 and v2 are Megatron's, in
# megatron/training/tokenizer/tokenizer.py; cl100k and o200k are in tiktoken_ext/openai_public.py.
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SIGN = r"[^\r\n\p{L}\p{N}]?"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(suffix, numbers):
    words = rf"{SIGN}{UPPER}*{LOWER}+{suffix}|{SIGN}{UPPER}+{LOWER}*{suffix}"
    return rf"{words}|{numbers}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANKS}"


TIKTOKEN_PATTERNS = {
    "v1": r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "v2": cased("", r"\p{N}"),
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++"
    r"[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": cased(CONTRACTION + "?", r"\p{N}{1,3}"),
    "llama3": rf"{CONTRACTION}|{SIGN}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{BLANKS}",
}


def byte_tokens(vocab):
    """The bytes of the tokens of a vocab.json, in the order of their ids."""
    printable = [b for b in range(256) if 33 <= b <= 126 or (161 <= b and b != 173)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    tokens = sorted((t for t in vocab if t != END_OF_TEXT), key=vocab.get)
    return [bytes(byte_of[c] for c in token) for token in tokens]


class Kind:
    """A tokenizer: its options for the test utility, and a function from texts to lists of ids."""

    def __init__(self, name, options, reference):
        self.name, self.options, self.reference = name, [str(o) for o in options], reference


def hugging_face(tokenizer):
    return lambda texts: [e.ids for e in tokenizer.encode_batch_fast(texts)]


def gpt2_kind(args, folder):
    vocab, merges = args.data / "gpt2" / "vocab.json", args.data / "gpt2" / "merges.txt"
    tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    options = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", vocab, "--merge-file", merges]
    return [Kind("gpt2", options, hugging_face(tokenizer))]


def tiktoken_kinds(args, folder):
    """GPT-2's tokens as ranks, in tiktoken's format and in Megatron's."""
    tokens = byte_tokens(json.loads((args.data / "gpt2" / "vocab.json").read_text("utf-8")))
    sorted_tokens = [bytes([b]) for b in range(256)] + [t for t in tokens if len(t) > 1]
    lines = [f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tokens)]
    (folder / "ranks.tiktoken").write_text("".join(lines))
    entries = [
        {"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode("latin-1")}
        for i, t in enumerate(sorted_tokens)
    ]
    (folder / "ranks.json").write_text(json.dumps(entries))
    special = 1000
    for name, pattern in TIKTOKEN_PATTERNS.items():
        ranks = sorted_tokens if name in ("v1", "v2") else tokens
        encoding = tiktoken.Encoding(
            name,
            pat_str=pattern,
            mergeable_ranks={t: i + special for i, t in enumerate(ranks)},
            special_tokens={f"<SPECIAL_{i}>": i for i in range(special)},
        )
        file = folder / ("ranks.json" if name in ("v1", "v2") else "ranks.tiktoken")
        options = ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", file]
        options += ["--tiktoken-pattern", name, "--vocab-size", len(ranks) + special]
        reference = lambda texts, e=encoding: e.encode_ordinary_batch(texts, num_threads=2)
        yield Kind(f"tiktoken-{name}", options, reference)


def ours(command, strings):
    """The ids of each string (bytes)."""
    request = b"".join(struct.pack("<I", len(s)) + s for s in strings)
    answer = subprocess.run(command, input=request, stdout=subprocess.PIPE, check=True).stdout
    at, ids = 0, []
    for _ in strings:
        (count,) = struct.unpack_from("<I", answer, at)
        ids.append(list(struct.unpack_from(f"<{count}i", answer, at + 4)))
        at += 4 + 4 * count
    assert at == len(answer)
    return ids


def differences(kind, encode, batches):
    """How many of the strings are encoded differently; shows the first three of a batch."""
    count = 0
    for strings in batches:
        texts = [s.decode("utf-8", errors="replace") for s in strings]
        expected = kind.reference(texts)
        got = ours([encode, *kind.options], strings)
        wrong = [i for i in range(len(strings)) if got[i] != expected[i]]
        for i in wrong[:3]:
            print(f"{kind.name}: {strings[i][:200]!r}", file=sys.stderr)
            print(f"  ours     {got[i][:50]}\n  expected {expected[i][:50]}", file=sys.stderr)
        count += len(wrong)
    return count


def random_code_point(rng):
    kind = rng.randrange(14)
    if kind < 3:
        return rng.choice("  '\n\t\r abcdeilmrstvz0123456789.,!?-_<|>/ABCSTMD\x00\x7f")
    if kind == 3:
        return rng.choice(
            "\u00a0\u0085\u1680\u2003\u2028\u202f\u3000\u200b\u180e\ufeff\x0b\x1c\x1f"
        )
    if kind == 4:
        return rng.choice("\u0301\u0903\u20dd\ufe0f\u200d\ufffd\ud7ff\ue000\U0010ffff\U000e0101")
    if kind == 5:
        return rng.choice("\u0663\u0968\u2167\u00bd\u00b2\u3007\U0001d7ce\u4e00\u9fff\u30a2\uac00")
    if kind == 6:
        return chr(rng.randrange(0x1F300, 0x1FB00))
    if kind > 11:  # letters with and without case, marks
        return rng.choice("aB\u00e9\u00c9\u01c5\u02b0\u6c34\u0301\u0903\u017f\u212a\u00aa")
    limit = (0x80, 0x250, 0x3000, 0x10000, 0x33000)[kind - 7]
    point = rng.randrange(limit)
    return chr(point) if not 0xD800 <= point < 0xE000 else "\ufffd"


WORDS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", " ", "  ", "   ", "\n\n", " \n"]
WORDS += [END_OF_TEXT, "hello", " world", " 2024", "can't", "don't", " \u00e9t\u00e9", "'\u017f"]
WORDS += ["a" * 70, "!" * 40, "/", "XML", "Http", "iOS", "\u6c34", "\u0301", "12345", "\r\n"]


def random_string(rng):
    kind = rng.randrange(5)
    length = rng.randrange(40) if rng.random() < 0.98 else rng.randrange(2000)
    if kind == 0:
        return rng.randbytes(length)
    if kind == 1:  # text with damage
        text = bytearray("".join(random_code_point(rng) for _ in range(length)).encode())
        for _ in range(rng.randrange(4)):
            if text:
                text[rng.randrange(len(text))] = rng.randrange(256)
        return bytes(text[: rng.randrange(len(text) + 1)])
    if kind == 2:  # lead and trail bytes
        return bytes(
            rng.choice(b" a\x80\xbf\xc0\xc2\xe0\xa0\xed\x9f\xef\xbd\xf0\x90\xf4\x8f\xf5\xff")
            for _ in range(length)
        )
    if kind == 3:
        return "".join(rng.choice(WORDS) for _ in range(length // 2)).encode()
    return "".join(random_code_point(rng) for _ in range(length)).encode()


def code_points():
    points = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    for start in range(0, len(points), BATCH):
        yield [(f"a{c}a 1{c}1 !{c}!  {c}A'{c}").encode() for c in points[start : start + BATCH]]


def strings_of(texts):
    for path in texts:
        data = path.read_bytes()
        yield [data, *data.split(b"\n"), *data.splitlines(keepends=True)]


def random_strings(count, seed):
    rng = random.Random(seed)
    for start in range(0, count, BATCH):
        yield [random_string(rng) for _ in range(min(BATCH, count - start))]


def check_trainer(train, texts, vocab_size):
    wrong = 0
    for path in texts:
        hf = Tokenizer(models.BPE())
        hf.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=[END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        hf.train_from_iterator([path.read_bytes().decode("utf-8", errors="replace")], trainer)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            hf.model.save(str(folder))
            expected = (folder / "merges.txt").read_text("utf-8").splitlines()[1:]
            subprocess.run([train, folder / "ours", str(vocab_size), path], check=True)
            got = (folder / "ours" / "merges.txt").read_text("utf-8").splitlines()[1:]
        if got != expected:
            wrong += 1
            first = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), None)
            print(f"{path}: {len(got)} merges, HF {len(expected)}; first different: {first}")
    print(f"trainer, {len(texts)} texts, {vocab_size} tokens: {wrong} differences", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("utilities", type=pathlib.Path, help="folder of encode_lines, train_bpe")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--kinds", nargs="+", help="names, or beginnings of names; all by default")
    parser.add_argument("--random", type=int, default=1000000, help="random strings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train-vocab-size", type=int, default=4096)
    args = parser.parse_args()
    wanted = tuple(args.kinds or [""])
    encode = args.utilities / "encode_lines"
    texts = sorted(p for p in args.data.rglob("*") if p.suffix in (".txt", ".jsonl", ".md"))
    wrong = 0
    print(f"differences, {len(texts)} texts, {args.random} random strings of seed {args.seed}:")
    print(f"{'kind':24} {'code points':>12} {'texts':>12} {'random':>12}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for make in (gpt2_kind, tiktoken_kinds):
            for kind in make(args, pathlib.Path(folder)):
                if not kind.name.startswith(wanted):
                    continue
                row = [code_points(), strings_of(texts), random_strings(args.random, args.seed)]
                row = [differences(kind, encode, batches) for batches in row]
                print(f"{kind.name:24} {row[0]:12} {row[1]:12} {row[2]:12}", flush=True)
                wrong += sum(row)
    if not args.kinds:
        prose = [p for p in texts if p.parent.name in ("shakespeare", "wikitext-2", "lambada")]
        wrong += check_trainer(args.utilities / "train_bpe", prose, args.train_vocab_size)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
