"""What compare-tokenizer.py compares: the tokenizers of GPT-2's and tiktoken's ranks, and the Kind that all are.

bert_kinds.py, sentencepiece_kinds.py and huggingface_kinds.py have the others. Imported; does nothing when run.
"""

import base64
import json

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

END_OF_TEXT = "<|endoftext|>"
SPECIAL_RANKS = 1000
PROSE = ["sentencepiece/botchan.txt", "shakespeare/input.txt", "wikitext-2/test.txt", "wikitext-2/valid.txt"]

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


class Kind:
    """A tokenizer and its reference.

    options  of encode_lines
    encode   the reference, from strings of bytes to lists of ids
    decode   the reference, from lists of ids to texts
    ids      how many there are
    words    that the random strings shall have
    common   ids that the random lists shall have
    """

    def __init__(self, name, options, encode, decode, ids, words=(), common=()):
        self.name, self.options, self.encode, self.decode = name, [str(o) for o in options], encode, decode
        self.ids, self.words, self.common = ids, list(words), list(common) or range(min(ids, 400))


def prose_lines(data):
    return [line for name in PROSE for line in (data / name).read_text("utf-8").splitlines()]


def texts(strings):
    return [string.decode("utf-8", errors="replace") for string in strings]


def hugging_face(name, options, tokenizer, words=()):
    """The kind whose reference is a Tokenizer of Hugging Face's."""
    encode = lambda strings: [e.ids for e in tokenizer.encode_batch_fast(texts(strings))]
    decode = lambda lists: tokenizer.decode_batch(lists, skip_special_tokens=False)
    return Kind(name, options, encode, decode, tokenizer.get_vocab_size(), words)


def gpt2_kinds(data):
    vocab, merges = data / "gpt2" / "vocab.json", data / "gpt2" / "merges.txt"
    tokenizer = Tokenizer(models.BPE.from_file(str(vocab), str(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    options = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", vocab, "--merge-file", merges]
    yield hugging_face("gpt2", options, tokenizer)


def byte_tokens(vocab):
    """The bytes of the tokens of a vocab.json, in the order of their ids."""
    printable = [b for b in range(256) if 33 <= b <= 126 or (161 <= b and b != 173)]
    others = [b for b in range(256) if b not in printable]
    byte_of = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    tokens = sorted((t for t in vocab if t != END_OF_TEXT), key=vocab.get)
    return [bytes(byte_of[c] for c in token) for token in tokens]


def tiktoken_kinds(data, folder):
    """GPT-2's tokens as ranks, in tiktoken's format and in Megatron's."""
    tokens = byte_tokens(json.loads((data / "gpt2" / "vocab.json").read_text("utf-8")))
    sorted_tokens = [bytes([b]) for b in range(256)] + [t for t in tokens if len(t) > 1]
    lines = [f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tokens)]
    (folder / "ranks.tiktoken").write_text("".join(lines))
    entries = [
        {"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode("latin-1")}
        for i, t in enumerate(sorted_tokens)
    ]
    (folder / "ranks.json").write_text(json.dumps(entries))
    special = ["<unk>", "<s>", "</s>", *(f"<SPECIAL_{i}>" for i in range(3, SPECIAL_RANKS))]
    for name, pattern in TIKTOKEN_PATTERNS.items():
        ranks = sorted_tokens if name in ("v1", "v2") else tokens
        encoding = tiktoken.Encoding(
            name,
            pat_str=pattern,
            mergeable_ranks={t: i + SPECIAL_RANKS for i, t in enumerate(ranks)},
            special_tokens={name: i for i, name in enumerate(special)},
        )
        file = folder / ("ranks.json" if name in ("v1", "v2") else "ranks.tiktoken")
        size = len(ranks) + SPECIAL_RANKS
        options = ["--tokenizer-type", "TikTokenizer", "--tokenizer-model", file]
        options += ["--tiktoken-pattern", name, "--vocab-size", size]
        encode = lambda strings, e=encoding: [e.encode_ordinary(text) for text in texts(strings)]
        decode = lambda lists, e=encoding: [e.decode(ids) for ids in lists]
        common = [*range(20), *range(SPECIAL_RANKS, SPECIAL_RANKS + 256)]
        yield Kind(f"tiktoken-{name}", options, encode, decode, size, [], common)
