#!/usr/bin/env python3
"""Compares the tokenizers with those that they stand for, and prints a table of how many strings
differ; development only.

Each kind, a tokenizer and its reference, is given
1. every code point behind a letter, a number, a sign and a space: how pieces are cut, and with that
   the Unicode version;
2. every text under DATA (*.txt, *.jsonl, *.md), whole and by lines;
3. 10 MB of words of every script that Unicode names, some lines of several scripts, by lines;
4. --random N random strings of bytes and of Unicode;
5. N / 8 random strings of what means something to the kind: added tokens, accents, letters that are
   folded;
6. N / 10 lists of random ids to decode.
The kinds are those of tokenizer_kinds.py (GPT-2, tiktoken), bert_kinds.py (Megatron-LM's BERT and
transformers'), sentencepiece_kinds.py and huggingface_kinds.py. At the end the merges that the BPE trainer
learns from each text, and WordPiece's vocabularies, are compared with Hugging Face's; unigram models are
kinds of sentencepiece_kinds.py.

Needs from PyPI tokenizers (0.23), tiktoken (0.14), sentencepiece (0.2.3), transformers (5) and six, and
the test utilities and mt-preprocess of a build:

    python scripts/compare-tokenizer.py build/release/tests/text DATA --megatron MEGATRON

DATA holds gpt2/vocab.json, gpt2/merges.txt, bert-uncased/tokenizer.json, bert-cased/tokenizer.json and
texts; MEGATRON is a checkout of NVIDIA/Megatron-LM at core_v0.12.1, without which its BERT is left out.
--kinds takes some of the kinds only. Exits with 1 if anything differs.
"""

import argparse
import array
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from bert_kinds import megatron_kinds, transformers_kinds, word_piece_vocabulary
from huggingface_kinds import huggingface_kinds
from sentencepiece_kinds import own_kinds, sentencepiece_kinds, trained_kinds
from tokenizer_kinds import END_OF_TEXT, PROSE, gpt2_kinds, tiktoken_kinds

PREPROCESS = "../../cmd/mt-preprocess"  # from the test utilities
BATCH = 20000
MIXED_BYTES = 10_000_000
MIXED_VOCAB_SIZE = 120_000  # most of them single characters

# --- The strings. ---


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
    length = rng.randrange(40) if rng.random() < 0.998 else rng.randrange(2000)
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
    points = [chr(p) for p in itertools.chain(range(0xD800), range(0xE000, 0x110000))]
    known = [c for c in points if unicodedata.category(c) not in ("Cn", "Co")]
    for c in known:
        yield f"a{c}a 1{c}1 !{c}!  {c}A'{c}Σ {c}\u0301".encode()
    others = sorted(set(points) - set(known))
    for start in range(0, len(others), 50):
        yield "".join(f"a{c}1{c} {c}!" for c in others[start : start + 50]).encode()


def strings_of(texts):
    for path in texts:
        yield from (path.read_bytes(), *path.read_bytes().split(b"\n"))


def scripts():
    """The letters, marks and numbers of each script, by the first word of their names."""
    found = {}
    for point in range(0x110000):
        c = chr(point)
        if unicodedata.category(c)[0] in "LMN":
            found.setdefault(unicodedata.name(c, "").split(" ")[0].split("-")[0], []).append(c)
    return [characters for characters in found.values() if len(characters) > 9]


def mixed_text(seed):
    """Lines of a few words each, one of thirty of which begins another script."""
    rng, known, size = random.Random(seed), scripts(), 0
    signs = [c for c in map(chr, range(0x110000)) if unicodedata.category(c)[0] in "PSZ"]
    while size < MIXED_BYTES:
        words, letters = [], rng.choice(known)
        for _ in range(rng.randrange(2000) if rng.random() < 0.01 else rng.randrange(60)):
            if rng.random() < 0.03:
                letters = rng.choice(known)
            words.append("".join(rng.choices(letters, k=rng.randrange(1, 10))))
            words.append(" " if rng.random() < 0.8 else rng.choice(signs))
        line = "".join(words).encode() + b"\n"
        size += len(line)
        yield line


def random_strings(count, seed):
    rng = random.Random(seed)
    return (random_string(rng) for _ in range(count))


def own_strings(words, count, seed):
    rng = random.Random(seed)
    for _ in range(count if words else 0):
        words_of_it = rng.choices(words, k=rng.randrange(24))
        if rng.random() < 0.5:
            words_of_it.insert(rng.randrange(len(words_of_it) + 1), random_code_point(rng))
        yield "".join(words_of_it).encode()


def random_ids(kind, count, seed):
    rng = random.Random(seed)
    choose = lambda: rng.choice(kind.common) if rng.random() < 0.6 else rng.randrange(kind.ids)
    return ([choose() for _ in range(rng.randrange(1, 20))] for _ in range(count))


# --- Comparing. ---


def write_request(path, items):
    """Writes strings, or lists of ids, as encode_lines reads them."""
    with open(path, "wb") as file:
        for item in items:
            content = item if isinstance(item, bytes) else array.array("i", item).tobytes()
            file.write(struct.pack("<I", len(item)) + content)
    return path


def read_items(file, decode):
    """The strings, or the lists of ids, of a request or an answer."""
    while head := file.read(4):
        (count,) = struct.unpack("<I", head)
        yield file.read(count) if decode else array.array("i", file.read(4 * count)).tolist()


def differences(kind, command, request, decode=False):
    """How many of a request's items are answered otherwise than by the reference; shows the first three."""
    wrong = count = 0
    with open(request, "rb") as stdin, open(request, "rb") as items:
        with subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE) as ours:
            answers = read_items(ours.stdout, decode)
            inputs = read_items(items, not decode)
            while batch := list(itertools.islice(inputs, BATCH)):
                expected = kind.decode(batch) if decode else kind.encode(batch)
                if decode:
                    expected = [text.encode() for text in expected]
                for item, want, got in zip(batch, expected, answers):
                    count += 1
                    if got != want:
                        wrong += 1
                        if wrong <= 3:
                            print(f"{kind.name}: {item[:200]!r}", file=sys.stderr)
                            print(f"  ours     {got[:50]}\n  expected {want[:50]}", file=sys.stderr)
            ended = not ours.stdout.read()
        if ours.returncode != 0 or not ended:
            sys.exit(f"{kind.name}: encode_lines ended after {count} of {request}")
    return wrong


def compare(kind, encode, requests, args, folder):
    """A row of the table."""
    own = write_request(folder / "own", own_strings(kind.words, args.random // 8, args.seed))
    command = [encode, *kind.options]
    row = [differences(kind, command, request) for request in (*requests, own)]
    ids = write_request(folder / "ids", random_ids(kind, args.random // 10, args.seed))
    row.append(differences(kind, [*command, "--decode"], ids, decode=True))
    print(f"{kind.name:40}" + "".join(f"{wrong:12}" for wrong in row), flush=True)
    return sum(row)


def are_different(what, got, expected):
    """Tells where the learned lists differ."""
    if got != expected:
        first = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), None)
        print(f"{what}: {len(got)} learned, HF {len(expected)}; first different: {first}")
    return got != expected


def check_word_piece_trainer(preprocess, texts):
    """Of texts and vocabulary sizes."""
    wrong = 0
    kinds = "BertWordPieceLowerCase", "BertWordPieceCase"
    for (text, size), kind in itertools.product(texts, kinds):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "text.jsonl").write_text(json.dumps({"text": text}) + "\n", "utf-8")
            command = [preprocess, "vocab", "--input", folder / "text.jsonl", "--output-dir", folder, "--memory", "4096"]
            subprocess.run([*command, "--tokenizer-type", kind, "--vocab-size", str(size)], check=True)
            got = (folder / "vocab.txt").read_text("utf-8").split("\n")[:-1]
        expected = word_piece_vocabulary(text, size, kind == kinds[0])
        wrong += are_different(f"{text[:40]!r}, {kind}", got, expected)
    print(f"WordPiece's trainer, {len(texts)} texts: {wrong} differences", flush=True)
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
        wrong += are_different(path, got, expected)
    print(f"trainer, {len(texts)} texts, {vocab_size} tokens: {wrong} differences", flush=True)
    return wrong


def kinds(args, folder):
    """Makes the kinds that are wanted; a source's names begin alike."""
    sources = {
        "gpt2": lambda: gpt2_kinds(args.data),
        "tiktoken-": lambda: tiktoken_kinds(args.data, folder),
        "BertWordPiece": lambda: megatron_kinds(args.data, folder, args.megatron),
        "transformers-": lambda: transformers_kinds(args.data),
        "sentencepiece-": lambda: sentencepiece_kinds(args.data),
        "trained-": lambda: trained_kinds(args.data, folder, args.kinds),
        "own-": lambda: own_kinds(args.utilities / PREPROCESS, args.data, folder, args.train_vocab_size),
        "hf-": lambda: huggingface_kinds(args.data, folder),
    }
    if not args.megatron:
        del sources["BertWordPiece"]
    for beginning, make in sources.items():
        if any(w.startswith(beginning) or beginning.startswith(w) for w in args.kinds):
            yield from (kind for kind in make() if kind.name.startswith(tuple(args.kinds)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("utilities", type=pathlib.Path, help="folder of encode_lines, train_bpe")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--megatron", type=pathlib.Path, help="checkout of Megatron-LM")
    parser.add_argument("--kinds", nargs="+", default=[""], help="names, or beginnings of names; all by default")
    parser.add_argument("--random", type=int, default=1000000, help="random strings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train-vocab-size", type=int, default=4096)
    args = parser.parse_args()
    texts = sorted(p for p in args.data.rglob("*") if p.suffix in (".txt", ".jsonl", ".md"))
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        requests = [
            write_request(folder / "code points", code_points()),
            write_request(folder / "texts", strings_of(texts)),
            write_request(folder / "mixed", mixed_text(args.seed)),
            write_request(folder / "random", random_strings(args.random, args.seed)),
        ]
        print(f"differences, {len(texts)} texts, {args.random} random strings of seed {args.seed}:")
        columns = "code points", "texts", "mixed", "random", "own words", "decoded"
        print(f"{'kind':40}" + "".join(f"{column:>12}" for column in columns), flush=True)
        for kind in kinds(args, folder):
            wrong += compare(kind, args.utilities / "encode_lines", requests, args, folder)
    if "" in args.kinds:
        prose = [args.data / name for name in PROSE]
        wrong += check_trainer(args.utilities / "train_bpe", prose, args.train_vocab_size)
        sized = [(path.read_text("utf-8"), args.train_vocab_size) for path in prose]
        sized.append((b"".join(mixed_text(args.seed)).decode("utf-8", "replace"), MIXED_VOCAB_SIZE))
        wrong += check_word_piece_trainer(args.utilities / PREPROCESS, sized)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
