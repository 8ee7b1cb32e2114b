"""BERT's tokenizers for compare-tokenizer.py: Megatron-LM's own bert_tokenization.py, and transformers';
and the vocabulary that Hugging Face's trainer learns.

Megatron's needs Python 3.11, whose Unicode is 14.0, and six. Imported; does nothing when run.
"""

import importlib.util
import json
import os
import unicodedata

os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # it warns of texts that are too long for a model
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers  # noqa: E402
from transformers import BertTokenizerFast  # noqa: E402

from tokenizer_kinds import Kind, texts

ODD = "ΣσςAΑaΆά'.:^`´·ǅİıßẞﬁÅÅåäöé中豈한각가・。，\u0301\u0323\u0345\u093c\u094d\u0f71\u302e\u3099"
ODD += "\U0001d165\U0001d157\U000116b6\U00016ff0\u1bab\u1bf3\xad\u200d\u2028\u2029\u180e\ufffd\0\x1c #-"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SIGNS = [*".?!,'", "n", "t", "m", "s", "ve", "re", "##s", "##t", "don"]


def megatron_kinds(data, folder, megatron):
    assert unicodedata.unidata_version == "14.0.0", "Megatron-LM's BERT needs Python 3.11"
    path = megatron / "megatron" / "training" / "tokenizer" / "bert_tokenization.py"
    spec = importlib.util.spec_from_file_location("bert_tokenization", path)
    bert = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bert)
    for case, model in ("LowerCase", "bert-uncased"), ("Case", "bert-cased"):
        vocab = json.loads((data / model / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
        file = folder / (model + ".txt")
        file.write_text("".join(token + "\n" for token in sorted(vocab, key=vocab.get)), "utf-8")
        full = bert.FullTokenizer(str(file), do_lower_case=case == "LowerCase")
        encode = lambda strings, f=full: [f.convert_tokens_to_ids(f.tokenize(t)) for t in texts(strings)]
        decode = lambda lists, f=full: [
            f.convert_tokens_to_string(f.convert_ids_to_tokens(ids)) for ids in lists
        ]
        name = "BertWordPiece" + case
        options = ["--tokenizer-type", name, "--vocab-file", file]
        common = [vocab[sign] for sign in SIGNS if sign in vocab]
        yield Kind(name, options, encode, decode, len(vocab), ODD, common)


def transformers_kinds(data):
    for model in "bert-uncased", "bert-cased":
        lower = model == "bert-uncased"
        tokenizer = BertTokenizerFast.from_pretrained(data / model, do_lower_case=lower)
        options = ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", data / model]
        encode = lambda strings, t=tokenizer: t(texts(strings))["input_ids"]
        decode = lambda lists, t=tokenizer: t.batch_decode(lists, skip_special_tokens=False)
        words = [*tokenizer.all_special_tokens, *ODD]
        yield Kind("transformers-" + model, options, encode, decode, len(tokenizer), words)


def word_piece_vocabulary(text, size, lowercase):
    """The trained tokens by id. The characters are given in their order, as special tokens: the trainer
    would number those with ## in the order of a hash table, another one in each run."""
    hf = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    hf.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    hf.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words = [w for w, _ in hf.pre_tokenizer.pre_tokenize_str(hf.normalizer.normalize_str(text))]
    first = sorted({c for word in words for c in word})
    following = ["##" + c for c in sorted({c for word in words for c in word[1:]})]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=[*SPECIAL, *first, *following], show_progress=False
    )
    hf.train_from_iterator([text], trainer)
    vocab = hf.get_vocab()
    return sorted(vocab, key=vocab.get)
