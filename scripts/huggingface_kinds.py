"""Hugging Face's tokenizers for compare-tokenizer.py: tokenizer.json files that are put together as those of
known models are, from GPT-2's vocabulary and what is learned from DATA's texts; and those under DATA.

Imported; does nothing when run.
"""

import base64
import io
import itertools
import json
import struct

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenizer_kinds import END_OF_TEXT, TIKTOKEN_PATTERNS, hugging_face, prose_lines

OTHER_WORDS = [" ", "  ", "\n", "a", "\u2581", "\u00e9", "e\u0301", "Someday"]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
LLAMA3 = WORDS + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
QWEN2 = WORDS + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
SIGNS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"]
DEEPSEEK += [SIGNS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + BLANKS]
DEEPSEEK[2] = DEEPSEEK[2].replace(r"\r\n", "\r\n")  # as its file has them
# Of every part that text/hf/hf_regex.h names.
CLASSES = r"\d{2,}?x*|\D\S\d|[^\d\s\P{L}]{2,3}|[\x{61}-\x64\u00e9\-\]\w]|\p{^M}\p{Mn}++|\P{P}\p{Nl}?"
CLASSES = CLASSES.replace("{2,}?", "{2,}").replace(r"\]\w]", r"\]\S]")
LOOKS = r"(?<=[a-c])(?:x|\t)*+(?=\n|$)|^.(?!b)|(?<! )'(?i:[sdmt]|ll|re)|(?>a+?b|a)c??| {2,}|\$|(\p{L}\p{N})+"
O200K = TIKTOKEN_PATTERNS["o200k"]
NEMO = TIKTOKEN_PATTERNS["v2"]


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


class File:
    """A tokenizer.json."""

    def __init__(self, name, model, tokens=(), **parts):
        known = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
        self.name, self.tokens = name, list(tokens)
        self.parts = {"version": "1.0", "truncation": None, "padding": None}
        self.parts |= {"added_tokens": self.tokens} | {part: parts.get(part) for part in known}
        self.parts["model"] = model


def gpt2_files(sources):
    """GPT-2's tokens in the files of the models that have byte-level BPE."""
    folder = sources.gpt2
    vocab = json.loads((folder / "vocab.json").read_text("utf-8"))
    lines = (folder / "merges.txt").read_text("utf-8").splitlines()[1:]
    names = ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")
    model = {"type": "BPE"} | {name: None for name in names} | {"fuse_unk": False}
    model |= {"byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": lines}
    pairs = model | {"ignore_merges": True, "merges": [line.split(" ") for line in lines]}
    old = {name: model[name] for name in ("vocab", "merges")} | {"end_of_word_suffix": ""}
    end, n = added(vocab[END_OF_TEXT], END_OF_TEXT), len(vocab)
    decoder = byte_level(regex=True)
    yield File("gpt2", model, [end], pre_tokenizer=byte_level(True), post_processor=decoder,
               decoder=decoder)  # fmt: skip
    stripping = end | {"lstrip": True}
    more = [added(n, "<mask>", lstrip=True), added(n + 1, "<pad>", rstrip=True)]
    more += [added(n + 2, "Someday", special=False, single_word=True, normalized=True)]
    roberta = {"type": "RobertaProcessing", "sep": ["<pad>", n + 1], "cls": ["<mask>", n]}
    roberta |= {"trim_offsets": True, "add_prefix_space": True}
    yield File("roberta", old, [stripping, *more], pre_tokenizer=byte_level(True, True),
               post_processor=roberta, decoder=decoder)  # fmt: skip
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|eot"]
    tokens = [end, *(added(n + i, t) for i, t in enumerate(special))]
    processors = [byte_level(), template([(special[0], n)])]
    yield File("llama3", pairs, tokens,
               pre_tokenizer=sequence("pre_tokenizer", [split(LLAMA3), byte_level()]),
               post_processor=sequence("post_processor", processors),
               decoder=decoder)  # fmt: skip
    special = ["<|im_start|>", "<|im_end|>", "<tool_call>", "<think>", "\u00e9t\u00c9", "e\u0301"]
    tokens = [end, *(added(n + i, t, special=i < 2, normalized=i > 4) for i, t in enumerate(special))]
    yield File("qwen2", old | {"merges": pairs["merges"]}, tokens, normalizer={"type": "NFC"},
               pre_tokenizer=sequence("pre_tokenizer", [split(QWEN2), byte_level()]),
               post_processor=byte_level(), decoder=byte_level())  # fmt: skip
    for name, pattern in ("o200k", O200K), ("nemo", NEMO):
        yield File(name, pairs, [end], decoder=decoder,
                   pre_tokenizer=sequence("pre_tokenizer", [split(pattern), byte_level()]),
                   post_processor=template([(END_OF_TEXT, end["id"])]))  # fmt: skip
    bars = ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>"]
    tokens = [end, *(added(n + i, t, special=i < 2, normalized=i > 1) for i, t in enumerate(bars))]
    cuts = [*map(split, DEEPSEEK), byte_level()]
    yield File("deepseek", model, tokens, normalizer=sequence("normalizer", []), decoder=decoder,
               pre_tokenizer=sequence("pre_tokenizer", cuts), post_processor=byte_level())  # fmt: skip
    cuts = [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True)]
    cuts += [{"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")]
    yield File("falcon", model, [end], pre_tokenizer=sequence("pre_tokenizer", cuts), decoder=decoder)
    for name, pattern in ("classes", CLASSES), ("looks", LOOKS):
        for behavior, invert in ("Isolated", False), ("Removed", True), ("MergedWithNext", False):
            cuts = [split(pattern, behavior, invert), byte_level()]
            yield File(f"{name}-{behavior.lower()}", pairs, pre_tokenizer=sequence("pre_tokenizer", cuts),
                       decoder=decoder)  # fmt: skip
    digits = {"type": "Digits", "individual_digits": True}
    yield File("starcoder", model, [end], decoder=decoder,
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


def llama_files(sources):
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
    yield File("llama2", model, tokens, normalizer=old, decoder=decoder,
               post_processor=template([("<s>", 1)]))  # fmt: skip
    tokens = [added(i, t) for i, t in enumerate(names)]
    tokens += [added(len(vocab) + i, t) for i, t in enumerate(("[INST]", "[/INST]"))]
    yield File("mistral", model, tokens, pre_tokenizer=metaspace("first", split=False),
               decoder=decoder, post_processor=template([("<s>", 1)]))  # fmt: skip
    tokens = tokens[:3] + [added(vocab[t], t, special=False) for t in (MARK * 2, MARK * 4)]
    tokens += [added(len(vocab) + i, t, special=False) for i, t in enumerate(("\n\n", "<pad>"))]
    yield File("gemma", model, tokens, normalizer=replace(" ", MARK),
               pre_tokenizer=split(" ", "MergedWithPrevious", kind="String"),
               decoder=sequence("decoder", parts),
               post_processor=template([("<s>", 1)]))  # fmt: skip
    half = {t: i for t, i in vocab.items() if t not in BYTES[128:]}
    half = {t: i for i, t in enumerate(sorted(half, key=half.get))}
    yield File("half-bytes", model | {"vocab": half}, tokens[:3], normalizer=replace(" ", MARK))
    plain = model | {"byte_fallback": False, "fuse_unk": False}
    yield File("unknowns", plain, tokens[:3], pre_tokenizer=metaspace("never", add_prefix_space=False),
               decoder=metaspace("never"))  # fmt: skip
    del plain["unk_token"]
    yield File("dropped", plain, tokens[:3], pre_tokenizer={"type": "Whitespace"})


def t5_files(sources):
    """Unigram."""
    pieces, precompiled = trained_unigram(sources)
    pieces = [["<pad>", 0.0], ["</s>", 0.0], *([t, s] for t, s in pieces if t not in ("<s>", "</s>"))]
    model = {"type": "Unigram", "unk_id": 2, "vocab": pieces}
    words = sequence("pre_tokenizer", [{"type": "WhitespaceSplit"}, metaspace(add_prefix_space=True)])
    tokens = [added(0, "<pad>"), added(1, "</s>"), added(2, "<unk>")]
    n = len(pieces)
    extra = [added(n + i, f"<extra_id_{i}>", lstrip=i == 0, rstrip=i == 1) for i in range(3)]
    yield File("t5", model, tokens + extra, normalizer=precompiled, pre_tokenizer=words,
               post_processor=template([], [("</s>", 1)]), decoder=metaspace())  # fmt: skip
    spaces = replace(" {2,}", MARK, "Regex")
    letters = replace(r"(?<=\p{Ll})\s|\d{3}", "#", "Regex")
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    yield File("t5-first", model, tokens + extra, pre_tokenizer=metaspace("first"),
               normalizer=sequence("normalizer", [precompiled, strip, spaces]),
               post_processor=template([], [("</s>", 1)]), decoder=metaspace("first"))  # fmt: skip
    yield File("xlm-roberta", model, tokens, pre_tokenizer=metaspace(),
               normalizer=sequence("normalizer", [precompiled, letters, spaces]),
               post_processor=template([("<pad>", 0)], [("</s>", 1)]),
               decoder=sequence("decoder", [replace("[ae]|$", "_", "Regex"), metaspace()]))  # fmt: skip
    forms = ({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, precompiled)
    steps = [replace("``", '"'), replace("''", '"'), *forms]
    ends = template([("<pad>", 0)], [("</s>", 1)])
    yield File("albert", model | {"byte_fallback": False}, tokens, pre_tokenizer=metaspace(),
               normalizer=sequence("normalizer", steps), post_processor=ends,
               decoder=metaspace())  # fmt: skip
    with_bytes = model | {"byte_fallback": True, "vocab": pieces + [[b, -20.0] for b in BYTES]}
    decoder = sequence("decoder", [{"type": "ByteFallback"}, metaspace("first")])
    yield File("unigram-bytes", with_bytes, tokens, pre_tokenizer=metaspace("first"), decoder=decoder,
               normalizer=sequence("normalizer", [precompiled, strip]))  # fmt: skip


def bert_files(sources):
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
    yield File("bert-lower", model, tokens, normalizer=lower, pre_tokenizer=words, post_processor=ends,
               decoder=decoder | {"cleanup": True})  # fmt: skip
    ends = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    yield File("bert-cased", model, tokens, normalizer=cased, pre_tokenizer=words, post_processor=ends,
               decoder=decoder | {"cleanup": False})  # fmt: skip
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    level = {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}
    forms = [{"type": "NFKC"}, strip, {"type": "Lowercase"}]
    cuts = [{"type": "Digits", "individual_digits": False}]
    cuts += [{"type": "Punctuation", "behavior": b} for b in ("Contiguous", "MergedWithNext")]
    cuts += [split("-", b, i, "String") for b, i in (("MergedWithPrevious", False), ("Removed", True))]
    yield File("word-level", level, tokens, normalizer=sequence("normalizer", forms),
               pre_tokenizer={"type": "Whitespace"})  # fmt: skip
    yield File("cuts", level, tokens[:2], pre_tokenizer=sequence("pre_tokenizer", cuts[:-1]),
               decoder={"type": "BPEDecoder", "suffix": "##"})  # fmt: skip
    yield File("inverted", model, tokens[:2], pre_tokenizer=sequence("pre_tokenizer", cuts[-1:]),
               decoder=sequence("decoder", [{"type": "Fuse"}, decoder | {"cleanup": True}]))  # fmt: skip


def all_files(sources):
    for make in (gpt2_files, llama_files, t5_files, bert_files):
        yield from make(sources)


def files_under(data):
    for path in sorted(data.glob("*/tokenizer.json")):
        parts = json.loads(path.read_text("utf-8"))
        file = File("data-" + path.parent.name, parts["model"], parts["added_tokens"])
        file.parts = parts
        yield file


def huggingface_kinds(data, folder):
    prose = [line for line in prose_lines(data) if len(line) > 20][:20000]
    files = all_files(Sources(data / "gpt2", prose, 4000, "nmt_nfkc"))
    for file in itertools.chain(files, files_under(data)):
        path = folder / file.name / "tokenizer.json"
        path.parent.mkdir()
        path.write_text(json.dumps(file.parts, ensure_ascii=False), "utf-8")
        options = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", path.parent]
        words = [token["content"] for token in file.tokens] or ["x"]
        words += [word.upper() for word in words] + OTHER_WORDS
        yield hugging_face("hf-" + file.name, options, Tokenizer.from_file(str(path)), words)
