"""Tokenizers and parts of a tokenizer.json, small ones, for make-folder-goldens.py.

Imported; does nothing when run.
"""

import io
import json

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = ["the cat sat on the mat and it's 12345 times that the dog did not", "Hello World it's a caf\u00e9", "foo bar baz the then there",
          "Don't stop now , please . Is it ok ?"] * 4


def byte_level(**more):
    """A tokenizer.json of 256 bytes and a few merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False))
    tokenizer.add_special_tokens(["<|endoftext|>"])
    content = json.loads(tokenizer.to_str())
    content.update(more)
    return content


def word_piece(lowercase):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS + ["cafe \u00e9 \u6f22 \u5b57 a b"], trainers.WordPieceTrainer(vocab_size=130, special_tokens=specials, show_progress=False))
    content = json.loads(tokenizer.to_str())
    cls, sep = ({"SpecialToken": {"id": t, "type_id": 0}} for t in ("[CLS]", "[SEP]"))
    content["post_processor"] = {"type": "TemplateProcessing", "single": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                                 "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in (("[CLS]", 2), ("[SEP]", 3))}}
    return content


def llama():
    """Characters, bytes and marks, as Llama 2's file has them."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for b in range(256):
        vocab[f"<0x{b:02X}>"] = len(vocab)
    for c in "\u2581" + "abcdefghijklmnopqrstuvwxyzABCDEHIW0123456789.,'\n":
        vocab[c] = len(vocab)
    merges = ["\u2581 t", "h e", "\u2581t he", "\u2581 \u2581", "l l", "c a", "a t", "ca t"]
    for merge in merges:
        vocab.setdefault(merge.replace(" ", ""), len(vocab))
    added = [dict(id=i, content=t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for i, t in enumerate(("<unk>", "<s>", "</s>"))]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": vocab, "merges": merges}}


def pieces(kind, **more):
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, model_type=kind, minloglevel=2, num_threads=1, **more)
    return model.getvalue()


def tiktoken_ranks():
    ranks = [bytes([b]) for b in range(256)] + [b"th", b"he", b"the", b" the", b"ca", b"cat", b" cat", b"ll", b"Hell", b"12", b"xyz123"]
    return ranks


def merges_files(content):
    model = content["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    vocab = dict(model["vocab"], **{"<|endoftext|>": len(model["vocab"])})
    return {"vocab.json": json.dumps(vocab, ensure_ascii=False), "merges.txt": "#version: 0.2\n" + "\n".join(merges) + "\n"}


def token(content, **flags):
    return dict(dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True), **flags)


def regex(pattern, behavior="Isolated", invert=False):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, level]})


def with_pre_tokenizer(**pre_tokenizer):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [pre_tokenizer, level]})


def characters(**more):
    """A tokenizer.json of single characters and a few pieces, with the first tokens of XLM-R and languages."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[UNK]", "<sep>", "<cls>"]
    vocab = [[t, 0.0] for t in specials] + [["\u2581", -2.0]]
    vocab += [[c, -4.0 - i / 64] for i, c in enumerate("abcdefghijklmnopqrstuvwxyzABCDEHIW0123456789.,'\n\u00e9\u6f22")]
    vocab += [[t, -3.0] for t in ("\u2581the", "cat", "\u2581Hello", "on", "\u2581th", "12", "s,", "\u2581it")]
    vocab += [[t, 0.0] for t in ("en_XX", "fr_XX", "eng_Latn", "<mask>")]
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    model = {"type": "Unigram", "unk_id": 3, "byte_fallback": False, "vocab": vocab}
    added = [dict(token(t), id=i) for i, t in enumerate(specials[:4])]
    return dict(dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer={"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
                     pre_tokenizer=metaspace, post_processor=None, decoder=metaspace, model=model), **more)


def changed_model(content, **more):
    return dict(content, model=dict(content["model"], **more))


def suffixed(**more):
    vocab = {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz'.,")}
    for c in list(vocab):
        vocab[c + "</w>"] = len(vocab)
    merges = ["t h", "th e</w>", "c a", "ca t</w>", "i t</w>"]
    for merge in merges:
        vocab.setdefault(merge.replace(" ", ""), len(vocab))
    model = {"type": "BPE", "unk_token": None, "end_of_word_suffix": "</w>", "vocab": vocab, "merges": merges, **more}
    return byte_level(model=model, normalizer={"type": "Lowercase"}, added_tokens=[], pre_tokenizer={"type": "Whitespace"}, decoder={"type": "BPEDecoder", "suffix": "</w>"})


def prefixed():
    vocab = {c: i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz")}
    for c in list(vocab):
        vocab["##" + c] = len(vocab)
    merges = ["t ##h", "th ##e", "c ##a"]
    for result in ("th", "the", "ca"):
        vocab[result] = len(vocab)
    model = {"type": "BPE", "unk_token": None, "continuing_subword_prefix": "##", "vocab": vocab, "merges": merges}
    return byte_level(model=model, added_tokens=[], pre_tokenizer={"type": "Whitespace"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": False})


def holes(*, at, token_id):
    content = byte_level()
    vocab = {t: i for t, i in content["model"]["vocab"].items()}
    vocab[at] = token_id
    return changed_model(content, vocab=vocab)
