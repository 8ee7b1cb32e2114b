#!/usr/bin/env python3
"""Compares the SentencePiece tokenizers with the sentencepiece library; development only.

For the models that it trains from the texts (unigram and BPE; several normalisers; with and without
byte fallback, extra white space, whole-sentence pieces, user-defined pieces) and those under DATA,
one row of a table: how many encodings and decodings differ, for

1. every text under DATA, whole and by lines;
2. --random N random strings of bytes and of Unicode;
3. random ids, decoded;
4. Megatron's rules around the model: GPTSentencePieceTokenizer (1 and 2 go through it),
   Llama2Tokenizer and SentencePieceTokenizer with --vocab-extra-ids 20.

Needs sentencepiece from PyPI (0.2.3) and the test utilities of a build:

    python scripts/compare-sentencepiece.py build/release/tests/text DATA --random 50000

DATA holds texts (*.txt, *.jsonl) and models (*.model) anywhere below it. Exits with 1 if anything
differs.
"""

import argparse
import importlib.machinery
import importlib.util
import io
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import sentencepiece

here = pathlib.Path(__file__).resolve().parent
loader = importlib.machinery.SourceFileLoader("compare", str(here / "compare-tokenizer.py"))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
loader.exec_module(compare)

SPECIAL_LINES = ["Ärger über Öl ﬁnden", "ｆｕｌｌ　ｗｉｄｔｈ １２３", "日本語のテキストを分割する。"]
SPECIAL_LINES += ["Привет, мир! как дела", "naïve café résumé Å", "한국어 텍스트", "مرحبا بالعالم", "😀 👩‍👩‍👧"]
EXTRA_IDS = 20


def recipes():
    """Names and options of the models that are trained."""
    for kind in ("unigram", "bpe"):
        for rule in ("nmt_nfkc", "nfkc_cf", "identity"):
            for fallback in (False, True):
                name = f"{kind} {rule}" + " bytes" * fallback
                yield name, dict(
                    model_type=kind,
                    normalization_rule_name=rule,
                    byte_fallback=fallback,
                    vocab_size=2000,
                    character_coverage=0.99,
                )
        yield f"{kind} suffix", dict(
            model_type=kind, vocab_size=1500, treat_whitespace_as_suffix=True
        )
        yield f"{kind} like Llama", dict(
            model_type=kind,
            vocab_size=3000,
            normalization_rule_name="identity",
            byte_fallback=True,
            split_digits=True,
            allow_whitespace_only_pieces=True,
            remove_extra_whitespaces=False,
            user_defined_symbols=["<sep>", "▁▁▁", "the", "of the", "éx", "<EOD>"],
            control_symbols=["<ctl>"],
            pad_id=3,
        )
        yield f"{kind} sentences", dict(
            model_type=kind,
            vocab_size=2500,
            split_by_whitespace=False,
            add_dummy_prefix=False,
            max_sentencepiece_length=24,
        )
        yield f"{kind} no bos", dict(
            model_type=kind, vocab_size=600, remove_extra_whitespaces=False, bos_id=-1, eos_id=-1
        )


def train(folder, texts):
    rng = random.Random(1)
    lines = [line for text in texts for line in text.read_text("utf-8").splitlines()][:60000]
    lines += [rng.choice(SPECIAL_LINES) for _ in range(2000)]
    for name, options in recipes():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            minloglevel=2,
            hard_vocab_limit=False,
            input_sentence_size=20000,
            shuffle_input_sentence=False,
            **options,
        )
        path = folder / (name.replace(" ", "-") + ".model")
        path.write_bytes(model.getvalue())
        yield name, path


def command(encode, kind, model):
    extra = ["--vocab-extra-ids", str(EXTRA_IDS)] if kind == "SentencePieceTokenizer" else []
    return [encode, "--tokenizer-type", kind, "--tokenizer-model", model, *extra]


def ours(encode, kind, model, strings):
    return compare.ours(command(encode, kind, model), strings)


def ours_decoded(encode, kind, model, lists):
    request = b"".join(struct.pack(f"<I{len(ids)}i", len(ids), *ids) for ids in lists)
    answer = subprocess.run(
        [*command(encode, kind, model), "--decode"],
        input=request,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    at, texts = 0, []
    for _ in lists:
        (size,) = struct.unpack_from("<I", answer, at)
        texts.append(answer[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return texts


class Specials:
    """Megatron's SentencePieceTokenizer in few lines."""

    def __init__(self, library):
        self.library = library
        vocab = {library.id_to_piece(i): i for i in range(len(library))}
        names = ["<CLS>", "<SEP>", "<EOD>", "<MASK>"]
        for ident, otherwise in (
            (library.pad_id(), "<PAD>"),
            (library.bos_id(), "<BOS>"),
            (library.eos_id(), "<EOS>"),
        ):
            names.append(library.id_to_piece(ident) if ident >= 0 else otherwise)
        names += [f"<extra_id_{i}>" for i in range(EXTRA_IDS)]
        self.ids = {name: vocab.setdefault(name, len(vocab)) for name in names}
        self.names = {ident: name for name, ident in self.ids.items()}
        self.size = len(vocab)

    def encode(self, text):
        ids = []
        while True:
            found = {name: text.find(name) for name in self.ids if name in text}
            if not found:
                return ids + self.library.encode(text)
            first = min(found, key=found.get)
            ids += self.library.encode(text[: found[first]]) + [self.ids[first]]
            text = text[found[first] + len(first) :]

    def decode(self, ids):
        text, begin = "", 0
        for i, ident in enumerate(ids):
            if ident in self.names:
                text += f"{self.library.decode(ids[begin:i])} {self.names[ident]} "
                begin = i + 1
        return text + self.library.decode(ids[begin:])


def count(what, inputs, got, expected):
    """How many differ; shows the first two."""
    wrong = [i for i in range(len(inputs)) if got[i] != expected[i]]
    for i in wrong[:2]:
        at = next((k for k, (a, b) in enumerate(zip(got[i], expected[i])) if a != b), -1)
        print(f"{what}: {inputs[i][:100]!r}\n  ours    {got[i][at:at+20]!r} from {at}")
        print(f"  library {expected[i][at:at+20]!r}")
    return len(wrong)


def random_ids(rng, size):
    return [rng.randrange(min(size, 300) if rng.random() < 0.5 else size) for _ in range(rng.randrange(30))]


def with_specials(rng, names, text):
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(names) + text[at:]
    return text


def check(name, encode, model, texts, strings, seed):
    """One row of the table: differences by kind of check."""
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    gpt, llama, whole = "GPTSentencePieceTokenizer", "Llama2Tokenizer", "SentencePieceTokenizer"
    rng = random.Random(seed)
    row = []
    row.append(count(name, texts, ours(encode, gpt, model, texts), library.encode(texts)))
    row.append(count(name, strings, ours(encode, gpt, model, strings), library.encode(strings)))
    lists = [random_ids(rng, len(library)) for _ in range(len(strings) // 10)]
    row.append(count(name, lists, ours_decoded(encode, gpt, model, lists), library.decode(lists)))
    few = [s.decode("utf-8", "replace") for s in strings[: len(strings) // 20]]
    if library.bos_id() >= 0:
        got = ours(encode, llama, model, [s.encode() for s in few])
        expected = [[library.bos_id(), *ids] for ids in library.encode(few)]
        row.append(count(name + ", " + llama, few, got, expected))
    else:
        row.append("-")
    specials = Specials(library)
    few = [with_specials(rng, list(specials.ids), s) for s in few]
    got = ours(encode, whole, model, [s.encode() for s in few])
    row.append(count(name + ", " + whole, few, got, [specials.encode(s) for s in few]))
    lists = [random_ids(rng, specials.size) for _ in few]
    got = ours_decoded(encode, whole, model, lists)
    row.append(count(name + ", " + whole, lists, got, [specials.decode(ids) for ids in lists]))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("utilities", type=pathlib.Path, help="folder of encode_lines")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--random", type=int, default=50000, help="random strings per model")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    files = sorted(p for p in args.data.rglob("*") if p.suffix in (".txt", ".jsonl"))
    texts = []
    for path in files:
        data = path.read_bytes()
        texts += [data, *data.split(b"\n")]
    prose = [p for p in files if p.parent.name in ("shakespeare", "wikitext-2", "sentencepiece")]
    rng = random.Random(args.seed)
    strings = [compare.random_string(rng) for _ in range(args.random)]
    columns = ["texts", "random", "decoded", "Llama2", "specials", "decoded"]
    print(f"{len(texts)} texts, {len(strings)} random strings, sentencepiece {sentencepiece.__version__}")
    print(f"{'model':24}" + "".join(f"{c:>10}" for c in columns))
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        models = [(p.name, p) for p in sorted(args.data.rglob("*.model"))]
        for name, model in [*models, *train(pathlib.Path(folder), prose)]:
            row = check(name, args.utilities / "encode_lines", model, texts, strings, args.seed)
            print(f"{name:24}" + "".join(f"{c:>10}" for c in row), flush=True)
            wrong += sum(c for c in row if c != "-")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
