#!/usr/bin/env python3
"""Compares HuggingFaceTokenizer with Hugging Face's tokenizers on tokenizer.json files that are put
together as those of known models are; prints a table of how many differ. Development only.

For each kind of file:
1. the ids of each code point, between letters, numbers, signs and spaces;
2. the ids of every text under DATA (*.txt, *.jsonl, *.md), whole and by lines;
3. the ids of --random N random strings of bytes, of Unicode, and of the file's own added tokens;
4. the texts of --random N / 5 lists of random ids.

The vocabularies are GPT-2's from DATA/gpt2 and what is learned from DATA's texts; DATA/*/tokenizer.json
are compared too.

Needs tokenizers (0.23.3), sentencepiece (0.2.3) and tiktoken (for compare-tokenizer.py, whose strings it
takes) from PyPI, and the test utilities of a build:

    python scripts/compare-huggingface.py build/release/tests/text DATA --random 1000000

--kinds takes some of the kinds only. Exits with 1 if anything differs.
"""

import argparse
import base64
import importlib.machinery
import importlib.util
import io
import itertools
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers


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
SIGNS = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"]
DEEPSEEK += [SIGNS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + BLANKS]
# Of every part that text/hf_regex.h names.
CLASSES = r"\d{2,}?x*|\D\S\d|[^\d\s\P{L}]{2,3}|[\x{61}-\x64\u00e9\-\]\w]|\p{^M}\p{Mn}++|\P{P}\p{Nl}?"
CLASSES = CLASSES.replace("{2,}?", "{2,}").replace(r"\]\w]", r"\]\S]")
LOOKS = r"(?<=[a-c])(?:x|\t)*+(?=\n|$)|^.(?!b)|(?<! )'(?i:[sdmt]|ll|re)|(?>a+?b|a)c??| {2,}|\$|(\p{L}\p{N})+"
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


def gpt2_kinds(sources):
    """GPT-2's tokens in the files of the models that have byte-level BPE."""
    folder = sources.gpt2
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
    bars = ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"]
    tokens = [end, *(added(n + i, t, special=i < 2, normalized=i > 1) for i, t in enumerate(bars))]
    cuts = [*map(split, DEEPSEEK), byte_level()]
    yield Kind("deepseek", model, tokens, normalizer=sequence("normalizer", []), decoder=decoder,
               pre_tokenizer=sequence("pre_tokenizer", cuts), post_processor=byte_level())  # fmt: skip
    cuts = [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True)]
    cuts += [{"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")]
    yield Kind("falcon", model, [end], pre_tokenizer=sequence("pre_tokenizer", cuts), decoder=decoder)
    for name, pattern in ("classes", CLASSES), ("looks", LOOKS):
        for behavior, invert in ("Isolated", False), ("Removed", True), ("MergedWithNext", False):
            cuts = [split(pattern, behavior, invert), byte_level()]
            yield Kind(f"{name}-{behavior.lower()}", pairs, pre_tokenizer=sequence("pre_tokenizer", cuts),
                       decoder=decoder)  # fmt: skip
    digits = {"type": "Digits", "individual_digits": True}
    yield Kind("starcoder", model, [end], decoder=decoder,
               pre_tokenizer=sequence("pre_tokenizer", [digits, byte_level(True)]))  # fmt: skip


class Sources:
    """What vocabularies are made of: GPT-2's files, texts, how many tokens to learn from them, and
    which rules SentencePiece normalises by (a name, or the file that has them)."""

    def __init__(self, gpt2, texts, vocab_size, rules):
        self.gpt2, self.texts, self.vocab_size, self.rules = gpt2, texts, vocab_size, rules


MARK = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def metaspace(scheme="always", **more):
    return {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme} | more


def trained_bpe(sources, special):
    """The vocabulary and the merges of a BPE of characters, some of several spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=sources.vocab_size,
        special_tokens=special,
        limit_alphabet=120,
        show_progress=False,
    )
    tokenizer.train_from_iterator(sources.texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    vocab, merges = model["vocab"], [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    for length in (1, 2, 4):
        merges.append(f"{MARK * length} {MARK * length}")
        vocab[MARK * 2 * length] = len(vocab)
    return vocab, merges


def fields(data):
    """The (number, value) of a message's fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        size = {0: 0, 1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint() if size is None else size
            yield key >> 3, data[at : at + size]
            at += size


def trained_unigram(sources):
    """The pieces with their scores and the normaliser's map of a SentencePiece model."""
    model = io.BytesIO()
    rules = "normalization_rule_name" if sources.rules == "nmt_nfkc" else "normalization_rule_tsv"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sources.texts),
        model_writer=model,
        vocab_size=sources.vocab_size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **{rules: sources.rules},
    )
    pieces, blob = [], b""
    for number, value in fields(model.getvalue()):
        if number == 1:
            piece = dict(fields(value))
            score = struct.unpack("<f", piece[2])[0] if 2 in piece else 0.0
            pieces.append([piece[1].decode(), score])
        elif number == 3:
            blob = dict(fields(value))[2]
    return pieces, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(blob).decode()}


def llama_kinds(sources):
    """BPE of characters with a byte for each that is unknown."""
    vocab, merges = trained_bpe(sources, ["<unk>", "<s>", "</s>", *BYTES])
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True}
    model |= {"continuing_subword_prefix": None, "end_of_word_suffix": None, "byte_fallback": True}
    model |= {"vocab": vocab, "merges": merges}
    names = ["<unk>", "<s>", "</s>"]
    parts = [replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoder = sequence("decoder", [*parts, strip])
    old = sequence("normalizer", [{"type": "Prepend", "prepend": MARK}, replace(" ", MARK)])
    tokens = [added(i, t, normalized=True) for i, t in enumerate(names)]
    yield Kind("llama2", model, tokens, normalizer=old, decoder=decoder,
               post_processor=template([("<s>", 1)]))  # fmt: skip
    tokens = [added(i, t) for i, t in enumerate(names)]
    tokens += [added(len(vocab) + i, t) for i, t in enumerate(("[INST]", "[/INST]"))]
    yield Kind("mistral", model, tokens, pre_tokenizer=metaspace("first", split=False),
               decoder=decoder, post_processor=template([("<s>", 1)]))  # fmt: skip
    tokens = tokens[:3] + [added(vocab[t], t, special=False) for t in (MARK * 2, MARK * 4)]
    tokens += [added(len(vocab) + i, t, special=False) for i, t in enumerate(("\n\n", "<pad>"))]
    yield Kind("gemma", model, tokens, normalizer=replace(" ", MARK),
               pre_tokenizer=split(" ", "MergedWithPrevious", kind="String"),
               decoder=sequence("decoder", parts),
               post_processor=template([("<s>", 1)]))  # fmt: skip
    half = {t: i for t, i in vocab.items() if t not in BYTES[128:]}
    half = {t: i for i, t in enumerate(sorted(half, key=half.get))}
    yield Kind("half-bytes", model | {"vocab": half}, tokens[:3], normalizer=replace(" ", MARK))
    plain = model | {"byte_fallback": False, "fuse_unk": False}
    yield Kind("unknowns", plain, tokens[:3], pre_tokenizer=metaspace("never", add_prefix_space=False),
               decoder=metaspace("never"))  # fmt: skip
    del plain["unk_token"]
    yield Kind("dropped", plain, tokens[:3], pre_tokenizer={"type": "Whitespace"})


def t5_kinds(sources):
    """Unigram."""
    pieces, precompiled = trained_unigram(sources)
    pieces = [["<pad>", 0.0], ["</s>", 0.0], *([t, s] for t, s in pieces if t not in ("<s>", "</s>"))]
    model = {"type": "Unigram", "unk_id": 2, "vocab": pieces}
    words = sequence("pre_tokenizer", [{"type": "WhitespaceSplit"}, metaspace(add_prefix_space=True)])
    tokens = [added(0, "<pad>"), added(1, "</s>"), added(2, "<unk>")]
    n = len(pieces)
    extra = [added(n + i, f"<extra_id_{i}>", lstrip=i == 0, rstrip=i == 1) for i in range(3)]
    yield Kind("t5", model, tokens + extra, normalizer=precompiled, pre_tokenizer=words,
               post_processor=template([], [("</s>", 1)]), decoder=metaspace())  # fmt: skip
    spaces = replace(" {2,}", MARK, "Regex")
    letters = replace(r"(?<=\p{Ll})\s|\d{3}", "#", "Regex")
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    yield Kind("t5-first", model, tokens + extra, pre_tokenizer=metaspace("first"),
               normalizer=sequence("normalizer", [precompiled, strip, spaces]),
               post_processor=template([], [("</s>", 1)]), decoder=metaspace("first"))  # fmt: skip
    yield Kind("xlm-roberta", model, tokens, pre_tokenizer=metaspace(),
               normalizer=sequence("normalizer", [precompiled, letters, spaces]),
               post_processor=template([("<pad>", 0)], [("</s>", 1)]),
               decoder=sequence("decoder", [replace("[ae]|$", "_", "Regex"), metaspace()]))  # fmt: skip
    forms = ({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, precompiled)
    steps = [replace("``", '"'), replace("''", '"'), *forms]
    ends = template([("<pad>", 0)], [("</s>", 1)])
    yield Kind("albert", model | {"byte_fallback": False}, tokens, pre_tokenizer=metaspace(),
               normalizer=sequence("normalizer", steps), post_processor=ends,
               decoder=metaspace())  # fmt: skip
    with_bytes = model | {"byte_fallback": True, "vocab": pieces + [[b, -20.0] for b in BYTES]}
    decoder = sequence("decoder", [{"type": "ByteFallback"}, metaspace("first")])
    yield Kind("unigram-bytes", with_bytes, tokens, pre_tokenizer=metaspace("first"), decoder=decoder,
               normalizer=sequence("normalizer", [precompiled, strip]))  # fmt: skip


def bert_kinds(sources):
    """WordPiece and WordLevel."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokens = [t.removeprefix(MARK) if t[0] == MARK else "##" + t for t in trained_bpe(sources, [])[0]]
    tokens += list("abcdefghijklmnopqrstuvwxyz.,!?'-0123456789")
    vocab = {t: i for i, t in enumerate(dict.fromkeys(special + [t for t in tokens if t]))}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    model |= {"max_input_chars_per_word": 100, "vocab": vocab}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    lower = normalizer | {"strip_accents": None, "lowercase": True}
    cased = normalizer | {"strip_accents": False, "lowercase": False}
    tokens = [added(i, t) for i, t in enumerate(special)]
    words, decoder = {"type": "BertPreTokenizer"}, {"type": "WordPiece", "prefix": "##"}
    ends = template([("[CLS]", 2)], [("[SEP]", 3)])
    yield Kind("bert-lower", model, tokens, normalizer=lower, pre_tokenizer=words, post_processor=ends,
               decoder=decoder | {"cleanup": True})  # fmt: skip
    ends = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    yield Kind("bert-cased", model, tokens, normalizer=cased, pre_tokenizer=words, post_processor=ends,
               decoder=decoder | {"cleanup": False})  # fmt: skip
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    level = {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}
    forms = [{"type": "NFKC"}, strip, {"type": "Lowercase"}]
    cuts = [{"type": "Digits", "individual_digits": False}]
    cuts += [{"type": "Punctuation", "behavior": b} for b in ("Contiguous", "MergedWithNext")]
    cuts += [split("-", b, i, "String") for b, i in (("MergedWithPrevious", False), ("Removed", True))]
    yield Kind("word-level", level, tokens, normalizer=sequence("normalizer", forms),
               pre_tokenizer={"type": "Whitespace"})  # fmt: skip
    yield Kind("cuts", level, tokens[:2], pre_tokenizer=sequence("pre_tokenizer", cuts[:-1]),
               decoder={"type": "BPEDecoder", "suffix": "##"})  # fmt: skip
    yield Kind("inverted", model, tokens[:2], pre_tokenizer=sequence("pre_tokenizer", cuts[-1:]),
               decoder=sequence("decoder", [{"type": "Fuse"}, decoder | {"cleanup": True}]))  # fmt: skip


def all_kinds(sources):
    for make in (gpt2_kinds, llama_kinds, t5_kinds, bert_kinds):
        yield from make(sources)


def files_of(folder):
    for path in sorted(folder.glob("*/tokenizer.json")):
        parts = json.loads(path.read_text("utf-8"))
        kind = Kind(path.parent.name, parts["model"], parts["added_tokens"])
        kind.parts = parts
        yield kind


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
    prose = itertools.chain(*(p.read_text("utf-8").splitlines() for p in texts if p.suffix == ".txt"))
    prose = [line for line in prose if len(line) > 20][:20000]
    kinds = all_kinds(Sources(args.data / "gpt2", prose, 4000, "nmt_nfkc"))
    for kind in itertools.chain(kinds, files_of(args.data)):
        if kind.name.startswith(tuple(args.kinds or [""])):
            total += check(kind, args, texts)
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
