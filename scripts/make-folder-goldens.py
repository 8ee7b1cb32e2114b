#!/usr/bin/env python3
"""Writes testdata/folders/cases.json: tokenizer folders as people have them, and what AutoTokenizer of
transformers makes of texts by each. One run for each of its versions, into the same file:

    python-with-4.51.3 scripts/make-folder-goldens.py testdata/folders/cases.json
    python-with-5.24.0 scripts/make-folder-goldens.py testdata/folders/cases.json

Needs also sentencepiece and tiktoken from PyPI. A case that the version cannot load has no ids for it.

    python scripts/make-folder-goldens.py testdata/folders/reported.json FOLDER

writes folders made after public reports: each folder in FOLDER with a tok/ (the tokenizer's files), an input.jsonl
and an expected.json (the ids of its lines, by transformers, or by tokenizers where there is a tokenizer.json alone).
"""

import base64
import json
import sys
import tempfile
from pathlib import Path

import transformers

from folder_tokenizers import (byte_level, changed_model, characters, holes, llama, merges_files, pieces, prefixed,
                               regex, suffixed, tiktoken_ranks, token, with_pre_tokenizer, word_piece)

VERSION = int(transformers.__version__.split(".")[0])
TEXTS = [
    "It's 12345 cats, Don't <|im|> stop <|im|>now",
    " Hello  World\n\n<|endoftext|> caf\u00e9 \u6f22\u5b57\u304b\u306a <s> x</s>",
    "A\u0301B ss\u00df STRA\u00dfE 3.14$ \u20ac5 foo_bar __x__ \u0939\u093f\u0928\u094d\u0926\u0940",
    "   lead\tand trail  . Is it , ok ? n't 's",
]
# Of the first version 5 does not take the vocabulary; of the others mt does not know what it makes.
UNREAD = [(name, 5) for name in ("files-xglm", "class-whisper", "class-clip", "class-splinter", "class-funnel")]


def cases():
    """(name, files)"""
    bpe, neox = byte_level(), "GPTNeoXTokenizer"
    end = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    fast = dict(end, tokenizer_class="PreTrainedTokenizerFast")
    im = token("<|im|>")

    def folder(tokenizer, config=None, **files):
        texts = {"tokenizer.json": tokenizer} if tokenizer is not None else {}
        if config is not None:
            texts["tokenizer_config.json"] = config
        texts.update({name.replace("__", "."): content for name, content in files.items()})
        return texts

    # What the folder says of tokens.
    yield "decoder-lstrip", folder(bpe, dict(fast, added_tokens_decoder={"301": token("<|im|>", lstrip=True)}))
    yield "decoder-gap", folder(bpe, dict(fast, added_tokens_decoder={"305": im, "302": token("cats", special=False, single_word=True)}))
    yield "decoder-normalized", folder(byte_level(normalizer={"type": "Lowercase"}), dict(fast, added_tokens_decoder={"301": token("cats", normalized=True, special=False)}))
    yield "decoder-not-special", folder(bpe, dict(fast, added_tokens_decoder={"301": token("Hello", special=False, rstrip=True)}))
    yield "decoder-loses-special", folder(bpe, dict(fast, added_tokens_decoder={"300": token("<|endoftext|>", special=False, normalized=True)}))
    # A token that is said twice, each time otherwise: which is looked for, and where.
    lower = byte_level(normalizer={"type": "Lowercase"})

    def said(first, **then):
        words = dict(lower, added_tokens=[*lower["added_tokens"], dict(first, id=301)])
        return folder(words, dict(fast, added_tokens_decoder={"301": dict(first, **then)}))

    yield "twice-special-then-normalized", said(token("STRA\u00dfE"), normalized=True)
    yield "twice-normalized-then-special", said(token("Hello", special=False, normalized=True), normalized=False, special=True)
    yield "twice-raw-then-normalized", said(token("Hello", special=False), normalized=True)
    yield "twice-normalized-then-raw", said(token("Hello", special=False, normalized=True), normalized=False)
    yield "twice-no-longer-special", said(token("Don't"), normalized=True, special=False, lstrip=True)
    yield "twice-by-its-role", folder(dict(lower, added_tokens=[*lower["added_tokens"], dict(token("World", special=False, normalized=True), id=301)]),
                                      dict(fast, mask_token={"__type": "AddedToken", "content": "World", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}))
    # Two that take the space between them along.
    for name, flags in ("both", dict(lstrip=True, rstrip=True)), ("left", dict(lstrip=True)), ("right", dict(rstrip=True)), ("neither", {}):
        tokens = {"301": token("World", rstrip=True), "302": token("\n\n", **flags), "303": token("Hello", special=False, rstrip=True)}
        yield f"space-between-{name}", folder(bpe, dict(fast, added_tokens_decoder=tokens))
    yield "added-tokens-two", folder(bpe, fast, added_tokens__json={"<|im|>": 301, "stop": 302})
    yield "added-tokens-in-vocabulary", folder(bpe, fast, added_tokens__json={"th": bpe["model"]["vocab"].get("th", 270)})
    yield "map-names-new", folder(bpe, {"tokenizer_class": "PreTrainedTokenizerFast"}, special_tokens_map__json=dict(end, pad_token="<|im|>"))
    yield "map-with-flags", folder(bpe, {"tokenizer_class": "PreTrainedTokenizerFast"}, special_tokens_map__json={"sep_token": {"content": "<|im|>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False}})
    yield "map-additional", folder(bpe, fast, special_tokens_map__json={"additional_special_tokens": ["<|im|>", "now"]})
    yield "role-with-type", folder(bpe, dict(fast, mask_token={"__type": "AddedToken", "content": "<|im|>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False}))
    yield "role-additional", folder(bpe, dict(fast, additional_special_tokens=["<|im|>", "cats"]))
    yield "role-extra", folder(bpe, dict(fast, extra_special_tokens={"im_token": "<|im|>"}))
    stripping = {"__type": "AddedToken", "content": "<|im|>", "lstrip": True, "rstrip": True, "normalized": False, "single_word": False}
    yield "role-of-two", folder(bpe, dict(fast, sep_token=stripping, pad_token="<|im|>"))
    yield "role-of-two-reversed", folder(bpe, dict(fast, sep_token="<|im|>", mask_token=stripping))
    yield "role-and-extra", folder(bpe, dict(fast, mask_token=stripping, additional_special_tokens=["<|im|>"]))
    yield "role-of-its-own", folder(bpe, dict(fast, image_token="<|im|>", stop_token="stop"))
    yield "role-extra-and-additional", folder(bpe, dict(fast, extra_special_tokens={"cat": "cats"}, additional_special_tokens=["<|im|>"]))
    yield "role-extra-of-its-class", folder(bpe, dict(fast, mask_token="<|im|>", extra_special_tokens={"a": "Hello", "b": "now"}))
    # What is no role has flags of its own beside those of the token that is there.
    there = dict(bpe, added_tokens=[*bpe["added_tokens"], dict(token("Hello", special=False, normalized=True, rstrip=True), id=301)])
    yield "additional-with-flags", folder(there, dict(fast, additional_special_tokens=[dict(stripping, content="Hello", rstrip=False)]))
    yield "role-with-flags-there", folder(there, dict(fast, mask_token=dict(stripping, content="Hello", rstrip=False)))
    yield "mask-of-a-class", folder(dict(bpe, added_tokens=[*bpe["added_tokens"], dict(token("World", special=False, normalized=True), id=301)]), dict(tokenizer_class="AlbertTokenizerFast", mask_token="World"))
    yield "mask-of-roberta", folder(dict(bpe, added_tokens=[*bpe["added_tokens"], dict(token("World", rstrip=True), id=301)]), dict(tokenizer_class="RobertaTokenizerFast", mask_token="World"))
    yield "qwen-says-roles-again", folder(dict(bpe, added_tokens=[*bpe["added_tokens"], dict(token("Hello", rstrip=True), id=301)]), dict(end, tokenizer_class="Qwen2Tokenizer", pad_token="Hello"))
    yield "role-extra-of-none", folder(bpe, dict(fast, extra_special_tokens={}, additional_special_tokens=["<|im|>"]))
    # What the configuration and special_tokens_map.json list, and what each calls by a name.
    def mapped(config, content=bpe, **files):
        return folder(content, dict(fast, **config), **files)

    yield "map-additional-late", mapped(dict(additional_special_tokens=["<|im|>"]), special_tokens_map__json=dict(additional_special_tokens=["cats"]))
    yield "map-additional-alone", mapped({}, lower, special_tokens_map__json=dict(additional_special_tokens=["Cats"]), added_tokens__json={"Cats": 301, "Stop": 302})
    yield "map-additional-there", mapped(dict(additional_special_tokens=["Cats"]), lower, added_tokens__json={"Cats": 301, "Stop": 302})
    yield "map-extra-list", mapped(dict(additional_special_tokens=["<|im|>"]), special_tokens_map__json=dict(extra_special_tokens=["stop", "<|im|>"]))
    yield "map-extra-names", mapped(dict(additional_special_tokens=["<|im|>"]), special_tokens_map__json=dict(extra_special_tokens={"cat": "cats"}))
    yield "map-names", mapped(dict(audio_token="<|im|>"), special_tokens_map__json=dict(image_token="cats"))
    yield "map-additional-beside-none", mapped(dict(extra_special_tokens=[]), special_tokens_map__json=dict(additional_special_tokens=["cats"]))
    yield "map-additional-beside-names", mapped(dict(extra_special_tokens={"cat": "cats"}, additional_special_tokens=["<|im|>"]), special_tokens_map__json=dict(additional_special_tokens=["stop"]))
    yield "split-special-listed", mapped(dict(split_special_tokens=True, additional_special_tokens=["Hello"], added_tokens_decoder={"301": token("Hello", special=False)}))
    yield "split-special-named", mapped(dict(split_special_tokens=True, mask_token="Hello", added_tokens_decoder={"301": token("Hello", special=False)}))
    yield "split-special-listed-flags", mapped(dict(split_special_tokens=True, additional_special_tokens=[dict(stripping, content="Hello", special=False), dict(stripping, content="cats", special=True)]))
    ends_text = llama()
    ends_text["added_tokens"][2]["special"] = False
    yield "split-special-of-its-class", folder(ends_text, {"tokenizer_class": "LlamaTokenizer", "split_special_tokens": True})
    yield "split-special", folder(bpe, dict(fast, split_special_tokens=True, additional_special_tokens=["<|im|>"]))
    yield "clean-up", folder(word_piece(True), {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": True})
    yield "clean-up-bytes", folder(bpe, dict(fast, clean_up_tokenization_spaces=True))
    yield "big-number", folder(bpe, json.dumps(dict(fast, model_max_length=10**30, note=[float("inf"), float("nan"), -(10**40)])))
    yield "padding-left", folder(dict(bpe, padding={"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|im|>"}), fast)
    yield "truncation-left", folder(dict(bpe, truncation={"direction": "Left", "max_length": 3, "strategy": "LongestFirst", "stride": 1}), fast)

    yield "added-tokens-json-suffix", folder(bpe, fast, added_tokens__json={"cats,": 301, "cat": 302, "ats": 303})
    yield "added-tokens-json-and-decoder", folder(bpe, dict(fast, added_tokens_decoder={"301": im}), added_tokens__json={"<|im|>": 301, "stop": 302})
    yield "added-tokens-json-and-role", folder(bpe, dict(fast, pad_token="<|im|>"), added_tokens__json={"<|im|>": 301, "now": 302})
    yield "added-tokens-json-beside-words", folder(word_piece(True), {"tokenizer_class": "BertTokenizer"}, added_tokens__json={"Hello": 130, "<|im|>": 131})
    yield "map-over-config", folder(bpe, dict(fast, pad_token="<|im|>"), special_tokens_map__json=dict(end, pad_token="<s>"))
    yield "map-all-roles", folder(bpe, {"tokenizer_class": "PreTrainedTokenizerFast"}, special_tokens_map__json=dict(end, cls_token="<s>", sep_token="</s>", mask_token="<|im|>", unk_token="<|endoftext|>"))
    yield "split-special-llama-class", folder(llama(), {"tokenizer_class": "LlamaTokenizer", "split_special_tokens": True, "add_eos_token": True})
    yield "split-special-bert", folder(word_piece(True), {"tokenizer_class": "BertTokenizer", "split_special_tokens": True})
    yield "split-special-gpt2", folder(bpe, dict(end, tokenizer_class="GPT2Tokenizer", split_special_tokens=True))
    yield "split-special-not-special", folder(bpe, dict(fast, split_special_tokens=True, added_tokens_decoder={"301": token("cats", special=False)}))
    yield "clean-up-bert", folder(word_piece(True), {"tokenizer_class": "BertTokenizer", "clean_up_tokenization_spaces": True})
    yield "clean-up-bert-not", folder(word_piece(True), {"tokenizer_class": "BertTokenizer", "clean_up_tokenization_spaces": False})
    yield "clean-up-gpt2", folder(bpe, dict(end, tokenizer_class="GPT2Tokenizer", clean_up_tokenization_spaces=True))
    yield "big-number-fraction", folder(bpe, '{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1000000000000000019884624838656.0, "eos_token": "<|endoftext|>"}')
    yield "big-number-64-bits", folder(bpe, '{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 18446744073709551616, "note": [9223372036854775808, -9223372036854775809], "eos_token": "<|endoftext|>"}')
    yield "big-number-exponent", folder(bpe, '{"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1e30, "note": {"a": [-1E+300, 1e400, 0.1e-400]}, "eos_token": "<|endoftext|>"}')
    yield "big-number-in-config", folder(bpe, None, config__json='{"model_type": "gpt2", "n_positions": 100000000000000000000000000000000000}')
    yield "big-number-in-map", folder(bpe, fast, special_tokens_map__json='{"pad_token": {"content": "<|im|>", "lstrip": false, "rstrip": false, "normalized": false, "single_word": false, "note": 123456789012345678901234567890}}')
    yield "padding-longest", folder(dict(bpe, padding={"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 300, "pad_type_id": 0, "pad_token": "<|endoftext|>"}), fast)
    yield "truncation-words", folder(dict(word_piece(True), truncation={"direction": "Right", "max_length": 4, "strategy": "OnlyFirst", "stride": 0}), {"tokenizer_class": "BertTokenizer"})
    yield "truncation-and-padding", folder(dict(llama(), truncation={"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}, padding={"strategy": {"Fixed": 16}, "direction": "Left", "pad_to_multiple_of": None, "pad_id": 2, "pad_type_id": 0, "pad_token": "</s>"}), {"tokenizer_class": "LlamaTokenizer"})
    yield "truncation-of-zero", folder(dict(bpe, truncation={"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 0}), fast)

    # What the class does.
    yield "gpt2-model-type", folder(byte_level(pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}), {"model_max_length": 1024}, config__json={"model_type": "gpt2"})
    yield "gpt2-prefix", folder(bpe, {"tokenizer_class": "GPT2TokenizerFast", "add_prefix_space": True})
    yield "gpt2-default-token", folder(byte_level(added_tokens=[]), {"tokenizer_class": "GPT2Tokenizer"})
    yield "gpt2-unk", folder(bpe, {"tokenizer_class": "GPT2Tokenizer", "unk_token": "<|im|>"})
    yield "neox-eos", folder(bpe, {"tokenizer_class": neox, "add_eos_token": True})
    yield "neox-both", folder(bpe, {"tokenizer_class": "GPTNeoXTokenizerFast", "add_bos_token": True, "add_eos_token": True})
    yield "neox-config-json", folder(bpe, None, config__json={"model_type": "gpt_neox", "tokenizer_class": neox})
    yield "fast-ignores-add-bos", folder(bpe, dict(fast, add_bos_token=True))
    yield "roberta-prefix", folder(bpe, {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True})
    yield "bloom-prefix-in-sequence", folder(regex(r" ?[^(\s|[.,!?…。，、।۔،])]+"), {"tokenizer_class": "BloomTokenizerFast", "add_prefix_space": True})
    yield "llama-bos", folder(llama(), {"tokenizer_class": "LlamaTokenizer"})
    # The class that a folder names beside a model of another.
    for model, named, content in ("mistral", "Llama", llama()), ("phi3", "Llama", llama()), ("mixtral", "Llama", bpe), ("qwen2", "Llama", bpe), ("qwen2", "PreTrained", bpe), ("qwen3", "Llama", bpe), ("gemma", "Llama", llama()), ("gpt2", "GPTNeoX", bpe), ("olmo2", "GPT2", bpe), ("llama", "GPT2", bpe), ("llama", "Llama", llama()), ("llama", "Llama", bpe):
        kind = "bytes" if content is bpe else "marks"
        yield f"class-{model}-{named.lower()}-{kind}", folder(content, {"tokenizer_class": named + "TokenizerFast", **({} if kind == "marks" else end)}, config__json={"model_type": model})
    yield "class-qwen3.5-qwen2-bytes", folder(bpe, dict(end, tokenizer_class="Qwen2Tokenizer"), config__json={"model_type": "qwen3_5"})
    yield "class-qwen3.5-itself", folder(bpe, dict(end, tokenizer_class="Qwen3_5Tokenizer"))
    # Classes that are another one's in version 5.
    around = dict(bpe, added_tokens=[*bpe["added_tokens"], *(dict(token(t), id=301 + i) for i, t in enumerate(("<s>", "</s>", "[CLS]", "[SEP]")))])
    for named, content in ("LED", around), ("Mvp", around), ("Deberta", around), ("LayoutLM", word_piece(True)), ("SqueezeBert", word_piece(True)), ("Lxmert", word_piece(False)):
        yield f"class-{named.lower()}", folder(content, {"tokenizer_class": named + "Tokenizer"})
    # Classes that make of the pieces of SentencePiece what they are in version 5, and their tokens.
    for named, more in (("XLMRoberta", {}), ("Camembert", {"add_prefix_space": False}), ("XGLM", {}), ("Barthez", {}), ("Albert", {}), ("Albert", {"do_lower_case": False, "keep_accents": True}),
                        ("DebertaV2", {"split_by_punct": True, "do_lower_case": True}), ("XLNet", {"additional_special_tokens": ["<|im|>"]}), ("RemBert", {"keep_accents": False}),
                        ("BigBird", {"mask_token": "stop"}), ("Pegasus", {"offset": 5, "mask_token_sent": "cats"}), ("Pegasus", {"offset": 6, "additional_special_tokens": ["<|im|>"]}), ("FNet", {"mask_token": "Hello"})):
        yield f"pieces-{named.lower()}{''.join('-' + word.replace('_', '-') for word in more)}", folder(characters(), dict(more, tokenizer_class=named + "Tokenizer"))
    yield "pieces-xlm-roberta-model", folder(characters(), None, config__json={"model_type": "xlm-roberta"})
    yield "pieces-precompiled", folder(characters(normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}), {"tokenizer_class": "XLMRobertaTokenizerFast"})
    yield "pieces-template", folder(characters(post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}), {"tokenizer_class": "AlbertTokenizer"})
    # Translators put languages around a text.
    for named, more in ("MBart", {}), ("MBart", {"src_lang": "fr_XX", "additional_special_tokens": ["<|im|>"]}), ("MBart50", {"src_lang": "fr_XX"}), ("MBart50", {"tgt_lang": "fr_XX", "additional_special_tokens": ["cats"]}):
        yield f"language-{named.lower()}{''.join('-' + word.replace('_', '-') for word in more)}", folder(characters(), dict(more, tokenizer_class=named + "TokenizerFast"))
    for named, more in ("Nllb", {}), ("Nllb", {"src_lang": "fra_Latn", "legacy_behaviour": True}), ("Nllb", {"src_lang": "xyz", "additional_special_tokens": ["<|im|>"]}):
        yield f"language-{named.lower()}{''.join('-' + word.replace('_', '-') for word in more)}", folder(llama(), dict(more, tokenizer_class=named + "Tokenizer"))
    yield "language-mbart-model", folder(characters(), None, config__json={"model_type": "mbart"})
    # Further classes that version 5 makes anew, and what their tokens are.
    yield "class-blenderbot", folder(bpe, {"tokenizer_class": "BlenderbotTokenizer", "mask_token": "stop"})
    yield "class-blenderbot-no-prefix", folder(bpe, {"tokenizer_class": "BlenderbotTokenizerFast", "add_prefix_space": False})
    yield "class-reformer", folder(llama(), {"tokenizer_class": "ReformerTokenizer"})
    for name, more in (("reformer", {}), ("reformer-roles", dict(eos_token="Hello", mask_token=dict(stripping, content="cats", special=False))), ("reformer-listed", dict(additional_special_tokens=["Hello", "x</s>"])),
                       ("reformer-decoder", dict(added_tokens_decoder={"320": token("Hello", special=False), "321": token("cats", lstrip=True)})), ("reformer-named", dict(mask_token="Hello", added_tokens_decoder={"320": token("Hello", special=False)}))):
        yield f"split-special-{name}", folder(llama(), dict(more, tokenizer_class="ReformerTokenizer", split_special_tokens=True))
    yield "class-openai-gpt", folder(suffixed(unk_token="a</w>"), {"tokenizer_class": "OpenAIGPTTokenizer", "unk_token": "a</w>"})
    yield "class-mpnet", folder(word_piece(False), {"tokenizer_class": "MPNetTokenizer", "tokenize_chinese_chars": False})
    yield "class-mpnet-mask", folder(word_piece(True), {"tokenizer_class": "MPNetTokenizerFast", "mask_token": "cats", "unk_token": "[UNK]"})
    yield "class-bart-mask", folder(lower, {"tokenizer_class": "BartTokenizer", "mask_token": "World"})
    yield "class-mvp-flags", folder(dict(bpe, added_tokens=[*bpe["added_tokens"], dict(token("Hello", rstrip=True), id=301)]), {"tokenizer_class": "MvpTokenizer", "pad_token": "Hello"})
    yield "class-whisper", folder(bpe, {"tokenizer_class": "WhisperTokenizer", "bos_token": "<|im|>"})
    yield "class-clip", folder(dict(suffixed(unk_token="a</w>"), pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}]}), {"tokenizer_class": "CLIPTokenizer"})
    yield "class-splinter", folder(word_piece(True), {"tokenizer_class": "SplinterTokenizer", "question_token": "stop"})
    yield "class-funnel", folder(word_piece(False), {"tokenizer_class": "FunnelTokenizer"})
    # Version 4 does not give a role the flags of a token of added_tokens.json, but takes the one that its map lists last for another.
    yield "added-tokens-json-role-flags", folder(bpe, dict(fast, sep_token=stripping), added_tokens__json={"<|im|>": 301, "now": 302})
    yield "added-tokens-json-mistaken", folder(bpe, dict(fast, pad_token="stop"), special_tokens_map__json={"mask_token": dict(stripping, content="cats"), "additional_special_tokens": ["<|im|>", "cats"]}, added_tokens__json={"Hello": 301, "now": 302})
    # The class of a model whose folder names none.
    for model, content in ("qwen2_vl", bpe), ("qwen3_next", bpe), ("qwen3_5_text", bpe), ("llama4", bpe), ("llava", llama()), ("gemma3n", llama()), ("paligemma", llama()), ("xlstm", bpe), ("roberta-prelayernorm", bpe), ("kimi_k25", bpe):
        yield f"model-{model}", folder(content, {} if content is not bpe else end, config__json={"model_type": model})
    # Null is no, but for a class that is told nothing.
    for name, content in ("Llama", llama()), ("CodeLlama", llama()), ("Gemma", llama()), ("Cohere", bpe), ("GPTNeoX", bpe):
        words = {"tokenizer_class": name + "TokenizerFast", "add_bos_token": None, "add_eos_token": None}
        yield f"null-bos-{name.lower()}", folder(content, dict(words, **({} if content is not bpe else end)))
    yield "llama-no-bos", folder(llama(), {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": False, "add_eos_token": True})
    yield "llama-legacy-false", folder(llama(), {"tokenizer_class": "LlamaTokenizer", "legacy": False})
    yield "llama-generic", folder(llama(), {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"})
    yield "gemma", folder(dict(llama(), normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}), {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "eos_token": "</s>"})
    yield "cohere", folder(byte_level(normalizer={"type": "NFC"}, pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}), {"tokenizer_class": "CohereTokenizerFast", "add_prefix_space": True, "bos_token": "<|endoftext|>"})
    yield "bert-lower-false", folder(word_piece(True), {"tokenizer_class": "BertTokenizer", "do_lower_case": False})
    yield "bert-accents-kept", folder(word_piece(True), {"tokenizer_class": "BertTokenizerFast", "strip_accents": False})
    yield "bert-accents-gone", folder(word_piece(False), {"tokenizer_class": "BertTokenizer", "do_lower_case": False, "strip_accents": True})
    yield "bert-chinese", folder(word_piece(True), {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": False})
    yield "bert-model-type", folder(word_piece(False), None, config__json={"model_type": "bert"})
    yield "bert-accents-null", folder(word_piece(True), {"tokenizer_class": "BertTokenizer", "strip_accents": None, "do_lower_case": False})
    yield "bert-accents-cased", folder(word_piece(False), {"tokenizer_class": "DistilBertTokenizerFast", "strip_accents": True, "do_lower_case": True})
    yield "gemma-eos", folder(dict(llama(), normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}), {"tokenizer_class": "GemmaTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "add_eos_token": True})
    yield "gemma-no-bos", folder(dict(llama(), normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}), {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "add_bos_token": False})
    yield "cohere-model-type", folder(byte_level(normalizer={"type": "NFC"}), {"bos_token": "<|endoftext|>"}, config__json={"model_type": "cohere"})
    yield "cohere-bos-and-eos", folder(byte_level(normalizer={"type": "NFC"}), {"tokenizer_class": "CohereTokenizer", "add_bos_token": True, "add_eos_token": True, "bos_token": "<|endoftext|>", "eos_token": "<|im|>"})
    yield "cohere-no-bos", folder(bpe, {"tokenizer_class": "CohereTokenizerFast", "add_bos_token": False, "bos_token": "<|endoftext|>"})
    yield "cohere-no-prefix", folder(byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]}), {"tokenizer_class": "CohereTokenizerFast", "add_prefix_space": False, "bos_token": "<|endoftext|>"})
    yield "distilbert", folder(word_piece(False), {"tokenizer_class": "DistilBertTokenizer"})
    yield "electra-no-lower", folder(word_piece(True), {"tokenizer_class": "ElectraTokenizerFast", "do_lower_case": False})

    yield "opt", folder(bpe, {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}, "eos_token": "</s>", "pad_token": "<|im|>"})
    yield "phi", folder(bpe, {"tokenizer_class": "CodeGenTokenizer", "add_prefix_space": False, "added_tokens_decoder": {"300": token("<|endoftext|>"), "301": token("  ", normalized=True, special=False), "302": token("   ", normalized=True, special=False)}})
    yield "qwen2", folder(byte_level(normalizer={"type": "NFC"}), {"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": False, "bos_token": None, "eos_token": "<|im|>", "additional_special_tokens": ["<|im|>", "<s>"], "split_special_tokens": False})
    yield "llama-prefix-null", folder(llama(), {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": None, "legacy": True, "unk_token": "<unk>", "pad_token": None})
    yield "llama-byte-level", folder(bpe, {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "clean_up_tokenization_spaces": True})
    yield "llama-split-special", folder(llama(), {"tokenizer_class": "LlamaTokenizerFast", "split_special_tokens": True})
    yield "gemma-model-type", folder(llama(), None, config__json={"model_type": "gemma2"})
    t5 = dict(llama(), model={"type": "Unigram", "unk_id": 2, "byte_fallback": False, "vocab": [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["\u2581", -2.0], ["a", -3.0], ["t", -3.0], ["\u2581the", -4.0], ["cat", -5.0], ["s", -4.0]]}, added_tokens=[], pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}, normalizer=None, decoder={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True})
    yield "t5", folder(t5, {"tokenizer_class": "T5Tokenizer"})
    yield "t5-adds-ids", folder(t5, {"tokenizer_class": "T5TokenizerFast", "extra_ids": 7, "additional_special_tokens": ["<|im|>"]})
    yield "code-llama-infills", folder(llama(), {"tokenizer_class": "CodeLlamaTokenizer", "suffix_token": None, "additional_special_tokens": ["cats"]})

    # Folders without a tokenizer.json.
    words = "".join(f"{t}\n" for t, _ in sorted(word_piece(True)["model"]["vocab"].items(), key=lambda x: x[1]))
    yield "files-gpt2", folder(None, {"tokenizer_class": "GPT2Tokenizer"}, **merges_files(bpe))
    yield "files-gpt2-bos", folder(None, {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "add_prefix_space": True}, **merges_files(bpe))
    yield "files-gpt2-model-type", folder(None, None, config__json={"model_type": "gpt2"}, **merges_files(bpe))
    yield "files-qwen2", folder(None, {"tokenizer_class": "Qwen2Tokenizer"}, **merges_files(bpe))
    yield "files-qwen2-decoder", folder(None, {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {"301": im}}, **merges_files(bpe))
    yield "files-bert", folder(None, {"tokenizer_class": "BertTokenizer"}, vocab__txt=words)
    yield "files-bert-cased", folder(None, {"tokenizer_class": "BertTokenizer", "do_lower_case": False}, vocab__txt=words)
    yield "files-bert-model-type", folder(None, None, vocab__txt=words, config__json={"model_type": "bert"})
    spm = dict(vocab_size=330, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False)
    llama_model = base64.b64encode(pieces("bpe", **spm)).decode()
    yield "files-llama", folder(None, {"tokenizer_class": "LlamaTokenizer"}, tokenizer__model={"base64": llama_model})
    yield "files-llama-legacy-false", folder(None, {"tokenizer_class": "LlamaTokenizer", "legacy": False, "add_eos_token": True}, tokenizer__model={"base64": llama_model})
    yield "files-llama-no-prefix", folder(None, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False}, tokenizer__model={"base64": llama_model})
    yield "files-llama-decoder", folder(None, {"tokenizer_class": "LlamaTokenizerFast", "added_tokens_decoder": {"330": im}}, tokenizer__model={"base64": llama_model})
    yield "files-gemma", folder(None, {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<unk>"}, tokenizer__model={"base64": llama_model})
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:  # a small map of characters
        rules.write("41\t61\n48\t68\n1E9E\t73 73\n20AC\t65 75\n")
        rules.flush()
        unigram = pieces("unigram", vocab_size=45, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_tsv=rules.name)
        plain = base64.b64encode(pieces("unigram", vocab_size=45, normalization_rule_tsv=rules.name)).decode()
        ended = base64.b64encode(pieces("unigram", vocab_size=48, normalization_rule_tsv=rules.name, control_symbols=["[CLS]", "[SEP]", "<sep>", "<cls>"])).decode()
    unigram = base64.b64encode(unigram).decode()
    yield "files-code-llama", folder(None, {"tokenizer_class": "CodeLlamaTokenizerFast", "bos_token": "<s>"}, tokenizer__model={"base64": llama_model})
    yield "files-code-llama-infills", folder(None, {"tokenizer_class": "CodeLlamaTokenizer", "prefix_token": "<|im|>", "legacy": False, "add_prefix_space": False}, tokenizer__model={"base64": llama_model})
    yield "llama-model-type", folder(llama(), None, config__json={"model_type": "llama"})
    yield "mistral-model-type", folder(llama(), {"bos_token": "<s>"}, config__json={"model_type": "mixtral"})
    yield "files-t5", folder(None, {"tokenizer_class": "T5Tokenizer"}, spiece__model={"base64": unigram})
    yield "files-t5-ten-ids", folder(None, {"tokenizer_class": "T5Tokenizer", "extra_ids": 10, "additional_special_tokens": ["<|im|>"]}, spiece__model={"base64": unigram})
    yield "files-mt5-no-ids", folder(None, {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "pad_token": "<|im|>"}, spiece__model={"base64": unigram})
    ranks = "".join(f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tiktoken_ranks()))
    yield "files-tiktoken", folder(None, {"tokenizer_class": "PreTrainedTokenizerFast", "additional_special_tokens": ["<|im|>"]}, tokenizer__model=ranks)
    yield "files-llama-ranks", folder(None, {"tokenizer_class": "LlamaTokenizer", "bos_token": "<|im|>", "eos_token": "<|endoftext|>"}, tokenizer__model=ranks)
    yield "files-ranks-decoder", folder(None, {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": {"267": im, "268": token("<|endoftext|>")}, "eos_token": "<|endoftext|>"}, tokenizer__model=ranks)
    vocab = [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": t.decode() if i > 255 or i < 128 else None} for i, t in enumerate(tiktoken_ranks())]
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    tekken = {"config": {"pattern": pattern, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) + 3, "default_num_special_tokens": 5, "version": "v7"},
              "vocab": vocab, "special_tokens": [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(("<unk>", "<s>", "</s>", "<|im|>"))]}
    yield "files-tekken", folder(None, {"tokenizer_class": "TokenizersBackend"}, tekken__json=tekken)

    yield "files-ranks-roles", folder(None, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|im|>"}, tokenizer__model=ranks)
    yield "files-ranks-added", folder(None, {"tokenizer_class": "PreTrainedTokenizerFast"}, tokenizer__model=ranks, added_tokens__json={"<|im|>": 267})
    yield "files-tekken-hidden-controls", folder(None, {"tokenizer_class": "TokenizersBackend"}, tekken__json=dict(tekken, special_tokens=[{"rank": i, "token_str": t, "is_control": i != 3} for i, t in enumerate(("<unk>", "<s>", "</s>", "cats"))]))
    yield "files-tekken-all-special", folder(None, {"tokenizer_class": "TokenizersBackend"}, tekken__json=dict(tekken, config=dict(tekken["config"], default_num_special_tokens=4, default_vocab_size=len(vocab) + 4)))
    yield "files-tekken-cut", folder(None, {"tokenizer_class": "TokenizersBackend"}, tekken__json=dict(tekken, config=dict(tekken["config"], default_vocab_size=265)))
    yield "files-tekken-old", folder(None, {"tokenizer_class": "TokenizersBackend"}, tekken__json={"config": dict(tekken["config"], default_vocab_size=len(vocab) + 20, default_num_special_tokens=30), "vocab": vocab})
    yield "files-neox", folder(None, {"tokenizer_class": neox, "add_bos_token": True}, **merges_files(bpe))
    yield "files-roberta", folder(None, {"tokenizer_class": "RobertaTokenizer", "cls_token": "<|endoftext|>", "sep_token": "<|endoftext|>"}, **merges_files(bpe))
    yield "files-codegen", folder(None, {"tokenizer_class": "CodeGenTokenizer", "add_prefix_space": True}, **merges_files(bpe))
    yield "files-distilbert", folder(None, {"tokenizer_class": "DistilBertTokenizer", "strip_accents": True, "do_lower_case": False}, vocab__txt=words)

    # Tokens around a text that no file has.
    yield "files-roberta-new-ends", folder(None, {"tokenizer_class": "RobertaTokenizer"}, **merges_files(bpe))
    yield "files-bart-new-ends", folder(None, {"tokenizer_class": "BartTokenizer", "add_prefix_space": True}, **merges_files(bpe))
    yield "files-gpt2-new-bos", folder(None, {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "bos_token": "<|im|>"}, **merges_files(bpe))
    bare = words.replace("[CLS]\n", "").replace("[SEP]\n", "")
    yield "files-bert-new-ends", folder(None, {"tokenizer_class": "BertTokenizer"}, vocab__txt=bare)
    yield "files-electra-new-ends", folder(None, {"tokenizer_class": "ElectraTokenizer", "do_lower_case": False}, vocab__txt=bare)

    # Classes that number the pieces of SentencePiece anew, or treat a text in their own way.
    for short, name, file, model, more in (
            ("xlm-roberta", "XLMRobertaTokenizer", "sentencepiece__bpe__model", plain, {}),
            ("camembert", "CamembertTokenizer", "sentencepiece__bpe__model", plain, {}),
            ("xglm", "XGLMTokenizer", "sentencepiece__bpe__model", plain, {}),
            ("albert", "AlbertTokenizer", "spiece__model", ended, {}),
            ("albert-cased", "AlbertTokenizer", "spiece__model", ended, {"do_lower_case": False, "keep_accents": True}),
            ("xlnet", "XLNetTokenizer", "spiece__model", ended, {}),
            ("deberta-v2", "DebertaV2Tokenizer", "spm__model", ended, {}),
            ("deberta-v2-cuts", "DebertaV2Tokenizer", "spm__model", ended, {"do_lower_case": True, "split_by_punct": True})):
        yield f"files-{short}", folder(None, dict(more, tokenizer_class=name), **{file: {"base64": model}})

    # Regular expressions.
    for name, pattern in {
        "class-in-class": r" ?[^(\s|[.,!?…。，、।۔،])]+",
        "intersection": r"[\p{L}&&[^\p{Han}]]+|[\p{Han}&&[^\u5b57]]+|[^\p{L}]+",
        "scripts": r"\p{Hiragana}+|\p{Devanagari}+|\p{Latin}+|\p{Cyrillic}",
        "words": r"\w+|\W+?|[\w.]+",
        "boundaries": r"\b\w|\Bt|\b",
        "anchors": r"\A\s+|\s+\z|^[A-Z]|\n$",
        "counts": r"[a-z]{2}+|\d{1,2}?|[A-Z]{,2}|\s{3}",
        "back-references": r"(\w)\1|(['_]).\2",
        "named-references": r"(?<q>['_\w])\k<q>|(x) ",
        "possessive-lazy": r"\p{L}++\s?|\d+?|[^\p{L}\d]*+",
        "categories": r"\p{Lu}|\p{Sc}|\p{Pc}+|\p{Mn}|\p{Zs}{2,}",
        "posix": r"[[:upper:]]+|[[:punct:][:digit:]]+|[^[:alnum:]\s]",
        "any-case": r"(?i)don't|cats|(?-i:H)ELLO|ss|[^a-z\s]+",
        "any-case-classes": r"(?i:[a-m]+|\p{Lu}x)|(?i:[^n-z])",
        "looks": r"(?<=\s)\w(?!\w)|(?<!\d)\d{3}(?=\d)|(?<=a|ot)\s",
        "atomic": r"(?>\d+|x)\d?|(?:(?:ab|a)b?)+",
        "escapes": r"\x{6f22}\u5b57|\t|\R+|\h+\H|[\x41-\x44]|\e|\.|\$",
        "extended": "(?x) \\d + # digits\n | [ ] [a-z]+ | \\  ",
        "line-ends": r"(?m:.{4})|\N\s|$",
        "single-line": r".+?\s|(?=\d)",
        "zero-width": r"(?=(\d{3})+(?!\d))|(?<=[a-z])(?=[A-Z])",
        "class-in-class-twice": r"[a-c[d-f[g-z]]]+|[^[^0-9]]+",
        "class-in-class-negated": r"[^[a-z][A-Z]\s]+|[[\w]&&[^_]]",
        "class-in-class-posix": r"[[:alpha:][.'][\d]]+",
        "class-in-class-category": r"[[\p{Lu}][\p{Nd}]$]+|[\P{L}&&[^\s]]",
        "intersection-three": r"[\w&&[^\d]&&[^_]]+|[\d&&[1-3]]+",
        "intersection-ranges": r"[a-z&&g-p]+|[\p{L}&&\p{Lu}]",
        "intersection-negated": r"[^\p{L}&&[a-z]]+|[a-m&&[^aeiou]]",
        "intersection-of-scripts": r"[\p{Han}\p{Hiragana}&&[^\u304b]]+|[\s\S&&\S]",
        "scripts-negated": r"\P{Latin}+|\p{^Han}",
        "scripts-by-other-names": r"\p{han}+|\p{DEVANAGARI}+|\p{Common}",
        "counts-exact": r"(?:[a-z]{3})+|\d{4}|\s{2,3}",
        "counts-nested": r"(?:[a-z]{1,2}\s?){2}+|\d{2,}+",
        "counts-braces": r"x{,}|\{|[a-z]{2,4}?t|\d{0,3}",
        "counts-lazy": r"\w{2,5}?\s|\S{3}?",
        "back-references-alternatives": r"(?:(a)|(t)|(o))(?:\1|\2|\3)|(.)\4",
        "back-references-any-case": r"(?i)([a-z])\1|(s)\2",
        "back-references-repeated": r"(\w\w?)[ _]?\1+",
        "words-in-classes": r"[\w']+|[^\w\s]|[\W&&\S]",
        "anchors-in-groups": r"(?:\A|\s)\w+|\w+\Z|(?:x|\z)",
        "categories-combined": r"[\p{Ll}\p{Mn}]+|\p{P}+|\p{Sm}|\p{Nd}{1,3}|\p{Lo}\p{Mc}?",
        "named": r"(?<word>[a-z]+)|(?<number>[0-9]+)",
    }.items():
        yield f"regex-{name}", folder(regex(pattern), fast)
    for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        yield f"regex-{behavior.lower()}", folder(regex(r"[\w&&[^\d]]+", behavior), fast)
    yield "regex-inverted", folder(regex(r"\p{Alphabetic}+|\p{Emoji}", "Removed", True), fast)

    # Other parts.
    yield "scripts-pre-tokenizer", folder(with_pre_tokenizer(type="UnicodeScripts"), fast)
    yield "scripts-after-split", folder(byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "Digits", "individual_digits": False}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}), fast)
    yield "scripts-with-prefix", folder(byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}]}), fast)
    yield "scripts-of-words", folder(byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "UnicodeScripts"}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}), fast)
    yield "scripts-composed", folder(byte_level(normalizer={"type": "NFD"}, pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}), fast)
    yield "delimiter-wide", folder(with_pre_tokenizer(type="CharDelimiterSplit", delimiter="\u6f22"), fast)
    yield "delimiter-line", folder(with_pre_tokenizer(type="CharDelimiterSplit", delimiter="\n"), fast)
    yield "delimiter-absent", folder(with_pre_tokenizer(type="CharDelimiterSplit", delimiter="\u00df"), fast)
    yield "fixed-length-long", folder(with_pre_tokenizer(type="FixedLength", length=1000), fast)
    yield "fixed-length-5", folder(with_pre_tokenizer(type="FixedLength", length=5), fast)
    yield "fixed-length-after-split", folder(byte_level(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "FixedLength", "length": 2}, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}), fast)
    yield "normalizer-bytes-lower", folder(byte_level(normalizer={"type": "Sequence", "normalizers": [{"type": "Lowercase"}, {"type": "ByteLevel"}]}, pre_tokenizer=None), fast)
    yield "normalizer-bytes-replaced", folder(byte_level(normalizer={"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "cat"}, "content": "dog"}, {"type": "ByteLevel"}, {"type": "Replace", "pattern": {"Regex": "\u0120+"}, "content": "\u0120"}]}, pre_tokenizer=None), fast)
    yield "normalizer-bytes-added", folder(byte_level(normalizer={"type": "ByteLevel"}, pre_tokenizer=None), dict(fast, added_tokens_decoder={"301": token("caf\u00e9", special=False, normalized=True)}))
    yield "normalizer-nmt-words", folder(dict(word_piece(True), normalizer={"type": "Nmt"}), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "normalizer-nmt-stripped", folder(byte_level(normalizer={"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "Nmt"}]}), fast)
    yield "normalizer-nmt-bytes", folder(byte_level(normalizer={"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "ByteLevel"}]}, pre_tokenizer=None), fast)
    yield "suffix-split", folder(dict(suffixed(), pre_tokenizer={"type": "WhitespaceSplit"}), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "suffix-added", folder(dict(suffixed(), added_tokens=[dict(token("cats", special=False), id=62)]), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "hole-many", folder(changed_model(bpe, vocab={t: 3 * i for t, i in bpe["model"]["vocab"].items()}), dict(fast, pad_token="<|im|>"))
    yield "added-twice-flags", folder(dict(bpe, added_tokens=bpe["added_tokens"] + [dict(token("cats", special=False, single_word=True), id=301), dict(token("cats", special=False, rstrip=True), id=301)]), fast)
    yield "added-twice-decoder", folder(dict(bpe, added_tokens=bpe["added_tokens"] + [dict(im, id=301), dict(im, id=301)]), dict(fast, added_tokens_decoder={"301": token("<|im|>", rstrip=True)}))
    yield "delimiter", folder(with_pre_tokenizer(type="CharDelimiterSplit", delimiter="t"), fast)
    yield "delimiter-space", folder(with_pre_tokenizer(type="CharDelimiterSplit", delimiter=" "), fast)
    yield "fixed-length", folder(with_pre_tokenizer(type="FixedLength", length=3), fast)
    yield "fixed-length-1", folder(with_pre_tokenizer(type="FixedLength", length=1), fast)
    yield "normalizer-bytes", folder(byte_level(normalizer={"type": "ByteLevel"}, pre_tokenizer=None), fast)
    yield "normalizer-bytes-split", folder(byte_level(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "ByteLevel"}]}, pre_tokenizer={"type": "Split", "pattern": {"Regex": r"\u0120?\w+|[^\w]"}, "behavior": "Isolated", "invert": False}), fast)
    yield "normalizer-nmt", folder(byte_level(normalizer={"type": "Nmt"}), fast)
    yield "normalizer-nmt-sequence", folder(byte_level(normalizer={"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "Lowercase"}]}), fast)
    yield "suffix", folder(suffixed(), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "suffix-unknown", folder(suffixed(unk_token="a</w>", fuse_unk=True), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "suffix-ignore-merges", folder(suffixed(ignore_merges=True), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "prefix", folder(prefixed(), {"tokenizer_class": "PreTrainedTokenizerFast"})
    yield "hole", folder(holes(at="stop", token_id=310), fast)
    yield "hole-added", folder(holes(at="zzq", token_id=305), dict(fast, pad_token="<|im|>"))
    yield "hole-large", folder(holes(at="zzq", token_id=5000), fast)
    yield "hole-ignore-merges", folder(changed_model(holes(at="cats", token_id=320), ignore_merges=True), fast)
    yield "added-twice", folder(dict(bpe, added_tokens=bpe["added_tokens"] + [dict(im, id=301), dict(token("<|im|>", lstrip=True), id=301)]), fast)
    yield "added-other-id", folder(dict(bpe, added_tokens=bpe["added_tokens"] + [dict(im, id=350)]), fast)
    yield "added-empty", folder(dict(bpe, added_tokens=bpe["added_tokens"] + [dict(token(""), id=301), dict(im, id=302)]), fast)
    pairs = [m.split(" ") if isinstance(m, str) else m for m in bpe["model"]["merges"]]
    yield "merges-pairs", folder(changed_model(bpe, merges=pairs), fast)
    yield "merges-strings", folder(changed_model(bpe, merges=[" ".join(m) for m in pairs]), fast)
    yield "merges-none", folder(changed_model(bpe, merges=[]), fast)
    yield "merges-few", folder(changed_model(bpe, merges=pairs[:7]), {"tokenizer_class": "GPT2Tokenizer"})
    spaced = dict(llama()["model"])
    spaced["vocab"] = dict(spaced["vocab"], **{" ": 400, "a ": 401, "a b": 402})
    yield "merges-with-spaces", folder(dict(llama(), normalizer=None, model=dict(spaced, merges=[["a", " "], ["a ", "b"], ["h", "e"]])), {"tokenizer_class": "PreTrainedTokenizerFast"})
    two = merges_files(bpe)
    yield "files-merges-crlf", folder(None, {"tokenizer_class": "GPT2Tokenizer"}, vocab__json=two["vocab.json"], merges__txt=two["merges.txt"].replace("\n", "\r\n"))
    yield "files-merges-no-version", folder(None, {"tokenizer_class": "GPT2Tokenizer"}, vocab__json=two["vocab.json"], merges__txt="\n".join([two["merges.txt"].splitlines()[-1]] + two["merges.txt"].splitlines()[1:-1]) + "\n")
    yield "files-merges-no-last-line-end", folder(None, {"tokenizer_class": "GPT2Tokenizer"}, vocab__json=two["vocab.json"], merges__txt=two["merges.txt"].rstrip("\n"))
    yield "files-merges-blank-end", folder(None, {"tokenizer_class": "Qwen2Tokenizer"}, vocab__json=two["vocab.json"], merges__txt=two["merges.txt"] + "\n")
    yield "ignore-merges", folder(changed_model(bpe, ignore_merges=True, vocab=dict(bpe["model"]["vocab"], cats=300, **{"<|endoftext|>": 301})), fast)


def result(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            write(Path(folder) / name, content)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(text).input_ids for text in TEXTS]
    return {"ids": ids, "texts": [tokenizer.decode(i) for i in ids], "eos": tokenizer.eos_token_id, "size": len(tokenizer)}


def write(path, content):
    if isinstance(content, dict) and list(content) == ["base64"]:
        path.write_bytes(base64.b64decode(content["base64"]))
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))


def keep(shared, content):
    """The index of a content; what occurs more than once is kept once, as are the parts of a tokenizer.json."""
    if isinstance(content, dict) and "model" in content:
        content = {"parts": {key: keep(shared, {"value": value}) for key, value in content.items()}}
    if content not in shared:
        shared.append(content)
    return shared.index(content)


def kept(shared, index):
    content = shared[index]
    if isinstance(content, dict) and list(content) == ["parts"]:
        return {key: shared[i]["value"] for key, i in content["parts"].items()}
    return content


def reported(folder):
    """What expected.json says of both versions, and the texts."""
    right = json.loads((folder / "expected.json").read_text())
    others = right.get("transformers 5.24.0 gives")
    versions = {4: right["ids"], 5: others if isinstance(others, list) else right["ids"]}
    texts = [json.loads(line)["text"] for line in (folder / "input.jsonl").read_text().splitlines()]
    return {"texts": texts, **{f"version {n}": {"ids": ids} for n, ids in versions.items()}}


def main():
    path = Path(sys.argv[1])
    if len(sys.argv) > 2:
        stored = {"texts": [], "shared": [], "cases": {}}
        for folder in sorted(p.parent for p in Path(sys.argv[2]).glob("*/tok")):
            files = {p.name: json.loads(p.read_text()) if p.suffix == ".json" else p.read_text() for p in sorted((folder / "tok").iterdir())}
            stored["cases"][folder.name[3:]] = {"files": {name: keep(stored["shared"], content) for name, content in files.items()}, **reported(folder)}
        return store(path, stored)
    stored = json.loads(path.read_text()) if path.exists() else {"texts": TEXTS, "shared": [], "cases": {}}
    stored["texts"] = TEXTS
    for name, files in cases():
        case = stored["cases"].setdefault(name, {})
        if "files" in case:  # what is there stays: the trainers of two versions differ
            files = {file: kept(stored["shared"], i) for file, i in case["files"].items()}
        case["files"] = {file: keep(stored["shared"], content) for file, content in files.items()}
        if (name, VERSION) in UNREAD:
            continue
        try:
            case[f"version {VERSION}"] = result(files)
        except Exception as error:
            case.pop(f"version {VERSION}", None)
            print(f"{name}: {type(error).__name__}: {str(error)[:150]}", file=sys.stderr)
    store(path, stored)


def store(path, stored):
    lines = [json.dumps(x, ensure_ascii=False) for x in stored["shared"]]
    cases_text = [f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in stored["cases"].items()]
    texts = json.dumps(stored["texts"], ensure_ascii=False)
    path.write_text('{"texts": ' + texts + ',\n"shared": [\n' + ",\n".join(lines) + '\n],\n"cases": {\n' + ",\n".join(cases_text) + "\n}}\n")


if __name__ == "__main__":
    main()
