"""SentencePiece's tokenizers for compare-tokenizer.py: the models under DATA and those that are trained from
its texts (unigram, BPE, characters and words; several normalisers; with and without byte fallback, extra white space,
whole-sentence pieces, user-defined pieces), and Megatron's rules around a model; and how the unigram models
that mt-preprocess trains fare beside those of SentencePiece.

Imported; does nothing when run.
"""

import math
import random
import re
import subprocess
import sys

import sentencepiece

from tokenizer_kinds import PROSE, Kind, prose_lines

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
    yield "word", dict(model_type="word", vocab_size=2000, user_defined_symbols=["<sep>", "▁the"], control_symbols=["<ctl>", "Z"])
    yield "word bytes", dict(model_type="word", vocab_size=2000, byte_fallback=True, remove_extra_whitespaces=False)
    yield "word suffix", dict(model_type="word", vocab_size=2000, treat_whitespace_as_suffix=True)
    yield "char", dict(model_type="char", vocab_size=400, user_defined_symbols=["<sep>", "the", "éx"], control_symbols=["<ctl>", "Z"])


def train(options, lines, path):
    with open(path, "wb") as model:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            minloglevel=2,
            hard_vocab_limit=False,
            input_sentence_size=20000,
            shuffle_input_sentence=False,
            **options,
        )
    return path


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
        self.pattern = re.compile(b"|".join(re.escape(name.encode()) for name in self.ids))
        self.size = len(vocab)

    def encode(self, text):
        ids, at = [], 0
        for match in self.pattern.finditer(text):
            ids += self.library.encode(text[at : match.start()]) + [self.ids[match.group().decode()]]
            at = match.end()
        return ids + self.library.encode(text[at:])

    def decode(self, ids):
        text, begin = "", 0
        for i, ident in enumerate(ids):
            if ident in self.names:
                text += f"{self.library.decode(ids[begin:i])} {self.names[ident]} "
                begin = i + 1
        return text + self.library.decode(ids[begin:])


def kind_of(name, model):
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    options = ["--tokenizer-type", "GPTSentencePieceTokenizer", "--tokenizer-model", model]
    return Kind(name, options, library.encode, library.decode, len(library))


def kinds_of_rules(name, model):
    """Llama2Tokenizer's and SentencePieceTokenizer's."""
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    options = lambda kind: ["--tokenizer-type", kind, "--tokenizer-model", model]
    if library.bos_id() >= 0:
        encode = lambda strings: [[library.bos_id(), *ids] for ids in library.encode(strings)]
        yield Kind(name + ", Llama2", options("Llama2Tokenizer"), encode, library.decode, len(library))
    specials = Specials(library)
    options = [*options("SentencePieceTokenizer"), "--vocab-extra-ids", EXTRA_IDS]
    encode = lambda strings: [specials.encode(string) for string in strings]
    decode = lambda lists: [specials.decode(ids) for ids in lists]
    words = [*specials.ids, " ", "the", " of ", "\u00e9"]
    yield Kind(name + ", specials", options, encode, decode, specials.size, words, specials.ids.values())


def sentencepiece_kinds(data):
    for path in sorted(data.rglob("*.model")):
        yield kind_of("sentencepiece-" + path.stem, path)
        yield from kinds_of_rules("sentencepiece-" + path.stem, path)


def trained_kinds(data, folder, wanted):
    """Trains only the models whose kinds' names begin with one of `wanted`."""
    rng = random.Random(1)
    lines = prose_lines(data)[:60000] + [rng.choice(SPECIAL_LINES) for _ in range(2000)]
    for name, options in recipes():
        if not any(f"trained-{name}".startswith(w) or w.startswith(f"trained-{name},") for w in wanted):
            continue
        path = train(options, lines, folder / (name.replace(" ", "-") + ".model"))
        yield kind_of("trained-" + name, path)
        if name.endswith(("like Llama", "no bos")):
            yield from kinds_of_rules("trained-" + name, path)


def fit(path, lines):
    """How many tokens a model makes of the lines, and how probable it finds them."""
    library = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = [ident for line in library.encode(lines) for ident in line]
    return len(ids), math.fsum(map(library.get_score, ids))


def own_kinds(preprocess, data, folder, size):
    """Models of `size` pieces that mt-preprocess trains on nine in ten lines of a text each. Ends the script
    where one makes over 1 % more tokens of the other lines than SentencePiece's own, or finds them that much
    less probable."""
    for path in (data / name for name in PROSE):
        lines = path.read_text("utf-8").split("\n")
        held, learnt = lines[::10], [line for i, line in enumerate(lines) if i % 10]
        (folder / "learnt.txt").write_text("\n".join(learnt), "utf-8")
        command = [preprocess, "vocab", "--input", folder / "learnt.txt", "--format", "text", "--force"]
        command += ["--tokenizer-type", "GPTSentencePieceTokenizer", "--vocab-size", str(size)]
        subprocess.run([*command, "--output-dir", folder, "--quiet"], check=True)
        options = dict(vocab_size=size, byte_fallback=True, normalization_rule_name="identity")
        options |= dict(remove_extra_whitespaces=False, max_sentence_length=1 << 20)
        theirs = train(options, learnt, folder / "theirs.model")
        (tokens, likelihood), other = fit(folder / "tokenizer.model", held), fit(theirs, held)
        more, better = tokens / other[0] - 1, 1 - likelihood / other[1]
        print(f"unigram, {path.stem}: {more:+.2%} tokens, {better:+.2%} log likelihood", flush=True)
        if more > 0.01 or better < -0.01:
            sys.exit(f"{path}: a worse model than SentencePiece's")
        yield kind_of("own-" + path.stem, folder / "tokenizer.model")
