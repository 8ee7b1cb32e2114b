#!/usr/bin/env python3
"""Compares the GPT-2 tokenizer and its trainer with Hugging Face's; development only.

1. The class (letter, number, white space) of every code point, through how pieces are cut.
2. The ids of every text under DATA, whole and by lines.
3. The ids of --random N random strings of bytes and of Unicode.
4. The merges that the trainer learns from each text under DATA.

Needs tokenizers from PyPI (0.23) and the test utilities of a build:

    python scripts/compare-tokenizer.py build/release/tests/text DATA --random 1000000

DATA holds gpt2/vocab.json, gpt2/merges.txt and texts (*.txt, *.jsonl) anywhere below it. Prints the
number of differences and exits with 1 if there are any.
"""

import argparse
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = "<|endoftext|>"
BATCH = 20000


def reference(vocab, merges):
    tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def gpt2(encode, vocab, merges):
    """The command that encodes strings."""
    files = ["--vocab-file", vocab, "--merge-file", merges]
    return [encode, "--tokenizer-type", "GPT2BPETokenizer", *files]


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


def compare(what, command, hf, strings):
    """How many of the strings are encoded differently; shows the first three."""
    texts = [s.decode("utf-8", errors="replace") for s in strings]
    expected = [e.ids for e in hf.encode_batch_fast(texts)]
    got = ours(command, strings)
    wrong = [i for i in range(len(strings)) if got[i] != expected[i]]
    for i in wrong[:3]:
        print(f"{what}: {strings[i][:200]!r}\n  ours {got[i][:50]}\n  HF   {expected[i][:50]}")
    return len(wrong)


def random_code_point(rng):
    kind = rng.randrange(12)
    if kind < 3:
        return rng.choice("  '\n\t\r abcdeilmrstvz0123456789.,!?-_<|>ABCSTMD\x00\x7f")
    if kind == 3:
        return rng.choice(
            "\u00a0\u0085\u1680\u2003\u2028\u202f\u3000\u200b\u180e\ufeff\x0b\x1c\x1f"
        )
    if kind == 4:
        return rng.choice("\u0301\u0903\u20dd\ufe0f\u200d\ufffd\ud7ff\ue000\U0010ffff")
    if kind == 5:
        return rng.choice("\u0663\u0968\u2167\u00bd\u00b2\u3007\U0001d7ce\u4e00\u9fff\u30a2\uac00")
    if kind == 6:
        return chr(rng.randrange(0x1F300, 0x1FB00))
    limit = (0x80, 0x250, 0x3000, 0x10000, 0x33000)[kind - 7]
    point = rng.randrange(limit)
    return chr(point) if not 0xD800 <= point < 0xE000 else "\ufffd"


WORDS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", " ", "  ", "   ", "\n\n", " \n"]
WORDS += [
    END_OF_TEXT,
    "hello",
    " world",
    " 2024",
    "can't",
    "don't",
    " \u00e9t\u00e9",
    "a" * 70,
    "!" * 40,
]


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


def check_classes(command, hf):
    """Each code point behind a letter, a number, a sign and a space; ids show where it is cut."""
    wrong = 0
    points = [chr(p) for p in range(0x110000) if not 0xD800 <= p < 0xE000]
    for start in range(0, len(points), BATCH):
        strings = [(f"a{c}a 1{c}1 !{c}!  {c}").encode() for c in points[start : start + BATCH]]
        wrong += compare("code point", command, hf, strings)
    print(f"{len(points)} code points: {wrong} differences", flush=True)
    return wrong


def check_texts(command, hf, texts):
    wrong = count = 0
    for path in texts:
        data = path.read_bytes()
        strings = [data, *data.split(b"\n"), *data.splitlines(keepends=True)]
        wrong += compare(path, command, hf, strings)
        count += len(strings)
    print(f"{len(texts)} texts, {count} strings: {wrong} differences", flush=True)
    return wrong


def check_random(command, hf, count, seed):
    rng = random.Random(seed)
    wrong = 0
    for start in range(0, count, BATCH):
        strings = [random_string(rng) for _ in range(min(BATCH, count - start))]
        wrong += compare("random", command, hf, strings)
    print(f"{count} random strings, seed {seed}: {wrong} differences", flush=True)
    return wrong


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
    parser.add_argument("--random", type=int, default=1000000, help="random strings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train-vocab-size", type=int, default=4096)
    args = parser.parse_args()
    files = (args.data / "gpt2" / "vocab.json", args.data / "gpt2" / "merges.txt")
    command, train = gpt2(args.utilities / "encode_lines", *files), args.utilities / "train_bpe"
    hf = reference(*files)
    texts = sorted(p for p in args.data.rglob("*") if p.suffix in (".txt", ".jsonl", ".md"))
    wrong = check_classes(command, hf)
    wrong += check_texts(command, hf, texts)
    prose = [p for p in texts if p.parent.name in ("shakespeare", "wikitext-2", "lambada")]
    wrong += check_trainer(train, prose, args.train_vocab_size)
    wrong += check_random(command, hf, args.random, args.seed)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
