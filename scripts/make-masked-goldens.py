#!/usr/bin/env python3
"""Make testdata/data/masked.golden from Megatron's own BERT and T5 datasets and its block mapping.

Draws corpora of sentences and options, builds the datasets with megatron-core's own classes and compiled
helpers, and prints options, sizes and FNV-1a hashes of what tests/data/masked_golden_test.cpp must reproduce.
With --test it runs that program on as many cases as wanted instead of printing them.

Needs from PyPI: megatron-core==0.12.1 (with its compiled helpers_cpp), torch, numpy.
Command: python scripts/make-masked-goldens.py > testdata/data/masked.golden
"""
import argparse
import importlib.metadata
import logging
import os
import subprocess
import sys
import tempfile
import types

import numpy
import torch
from megatron.core.datasets import helpers_cpp
from megatron.core.datasets.bert_dataset import BERTMaskedWordPieceDataset, BERTMaskedWordPieceDatasetConfig
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.t5_dataset import T5MaskedWordPieceDataset, T5MaskedWordPieceDatasetConfig

from data_goldens import fnv, hash_of

V = 300  # 0 to 5: pad, cls, sep, mask, bos, eos; from 250 on sentinels
BERT_FIELDS = ("text", "types", "labels", "padding_mask", "loss_mask")
T5_FIELDS = ("text_enc", "text_dec", "labels", "loss_mask", "enc_mask", "dec_mask")


def tokenizer():
    return types.SimpleNamespace(
        pad=0, cls=1, sep=2, mask=3, bos=4, eos=5, additional_special_tokens_ids=list(range(250, V)),
        inv_vocab={i: "##" if i >= 20 and i % 7 == 3 else "x" for i in range(V)},
        unique_identifiers={"class": "Tokenizer"})


def write_corpus(prefix, seed, documents, longest):
    """Sentences, and a title for each document."""
    sentences = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
    titles = IndexedDatasetBuilder(prefix + "-titles.bin", dtype=numpy.uint16)
    random = numpy.random.RandomState(seed)
    for _ in range(documents):
        for _ in range(random.randint(0, 9)):
            length = 513 if random.randint(0, 60) == 0 else random.randint(0, longest)
            sentences.add_item(torch.tensor([random.randint(6, 250) for _ in range(length)], dtype=torch.int64))
        sentences.end_document()
        titles.add_item(torch.tensor([7] * random.randint(1, 9), dtype=torch.int64))
        titles.end_document()
    sentences.finalize(prefix + ".idx")
    titles.finalize(prefix + "-titles.idx")


def draw_case(random, number, files):
    return {
        "kind": ("bert", "bert-single", "t5")[number % 3], "file": int(random.randint(0, files)),
        "seed": int(random.randint(1, 2**31 - 2)), "seq_length": int(random.choice([16, 40, 64, 128])),
        "sizes": [int(random.randint(1, 400)), int(random.randint(1, 60)), None],
        "split": str(random.choice(["8,1,1", "1,1", "1"])),
        "mask_prob": float(random.choice([0.15, 0.3, 0.05])), "short": float(random.choice([0.1, 0, 0.5, 0.3])),
    }


def build(case, blend):
    bert = case["kind"].startswith("bert")
    common = dict(
        random_seed=case["seed"], sequence_length=case["seq_length"], blend=blend, split=case["split"],
        tokenizer=tokenizer(), masking_probability=case["mask_prob"], short_sequence_probability=case["short"],
        masking_do_full_word=True, masking_do_permutation=False, masking_use_longer_ngrams=False)
    with tempfile.TemporaryDirectory() as cache:
        common["path_to_cache"] = cache
        if bert:
            config = BERTMaskedWordPieceDatasetConfig(
                masking_max_ngram=3, masking_use_geometric_distribution=False,
                classification_head=case["kind"] == "bert", **common)
        else:
            config = T5MaskedWordPieceDatasetConfig(
                masking_max_ngram=10, masking_use_geometric_distribution=True,
                sequence_length_decoder=case["seq_length"], **common)
        kind = BERTMaskedWordPieceDataset if bert else T5MaskedWordPieceDataset
        return BlendedMegatronDatasetBuilder(kind, case["sizes"], lambda: True, config).build()


def items_hash(dataset, kind):
    state = fnv(b"")
    for k in range(min(len(dataset), 60)):
        item = dataset[k]
        for field in BERT_FIELDS if kind.startswith("bert") else T5_FIELDS:
            state = fnv(numpy.asarray(item[field]).astype("<i4").tobytes(), state)
        facts = [item["truncated"]] if kind == "t5" else [item["is_random"], item["truncated"]]
        state = fnv(numpy.array(facts, "<i4").tobytes(), state)
    return f"{state:016x}"


def block_line(random, prefix, number):
    sentences, titles = IndexedDataset(prefix), IndexedDataset(prefix + "-titles")
    documents = len(sentences.document_indices) - 1
    begin = 0  # upstream takes the titles of other ranges from the wrong documents
    end = int(random.randint(documents // 2, documents + 1))
    seed, max_length, one, samples = (int(random.randint(1, 2**31 - 2)), int(random.choice([16, 40, 200])),
                                      bool(random.randint(0, 2)), int(random.choice([0, 1, 300])))
    rows = helpers_cpp.build_blocks_mapping(
        sentences.document_indices[begin:end + 1], sentences.sequence_lengths, titles.sequence_lengths,
        2**31 - 2 if samples else 1, samples or 2**63 - 2, max_length, seed, False, one)
    return ["blocks", number, end, max_length, int(one), seed, samples or "-", len(rows), hash_of(rows, "<u4")]


def write_lines(out, cases, seed):
    core = importlib.metadata.version("megatron-core")
    print(f"# scripts/make-masked-goldens.py --cases {cases} --seed {seed}; megatron-core {core}, numpy "
          f"{numpy.__version__}", file=out)
    print("# file SEED DOCUMENTS LONGEST IDX_HASH", file=out)
    print("# bert|bert-single|t5 FILE SEED S SPLIT MASK_PROB SHORT_PROB TRAIN VALID", file=out)
    print("# set SIZE; hashes: rows of the map, items", file=out)
    print("# blend KIND SEED S MASK_PROB SHORT_PROB SAMPLES WEIGHTS SIZE; hashes: datasets, their samples, items",
          file=out)
    print("# blocks FILE DOCUMENTS MAX_LENGTH ONE_SENTENCE SEED SAMPLES SIZE; hash of rows", file=out)
    random = numpy.random.RandomState(seed)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(4):
            documents, longest = int(random.randint(20, 80)), int(random.choice([5, 20, 60]))
            write_corpus(f"{folder}/{number}", number, documents, longest)
            idx = open(f"{folder}/{number}.idx", "rb").read()
            print("file", number, documents, longest, f"{fnv(idx):016x}", file=out)
        for number in range(cases):
            case = draw_case(random, number, 4)
            case["sizes"][2] = 0 if case["split"] != "8,1,1" else 5
            print(case["kind"], case["file"], case["seed"], case["seq_length"], case["split"], case["mask_prob"],
                  case["short"], *case["sizes"], file=out)
            for dataset in build(case, ([f"{folder}/{case['file']}"], None)):
                if dataset is not None:
                    print("set", len(dataset), hash_of(dataset.sample_index, "<u4"),
                          items_hash(dataset, case["kind"]), file=out)
            print(*block_line(random, f"{folder}/{number % 4}", number % 4), file=out)
            if number % 4 == 0:
                case.update(split="1", sizes=[case["sizes"][0], 0, 0])
                weights = [round(float(random.random()) + 0.01, 3) for _ in range(4)]
                data = build(case, ([f"{folder}/{i}" for i in range(4)], weights))[0]
                print("blend", case["kind"], case["seed"], case["seq_length"], case["mask_prob"], case["short"],
                      case["sizes"][0], *weights, len(data), hash_of(data.dataset_index, "<i2"),
                      hash_of(data.dataset_sample_index, "<i8"), items_hash(data, case["kind"]), file=out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test", help="the test program that makes the same")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    if not options.test:
        return write_lines(sys.stdout, options.cases, options.seed)
    with tempfile.NamedTemporaryFile("w", suffix=".golden") as golden:
        write_lines(golden, options.cases, options.seed)
        golden.flush()
        subprocess.run([options.test, "--file=data/masked_golden_test.cpp"], env={**os.environ, "MT_GOLDEN": golden.name}, check=True)


if __name__ == "__main__":
    main()
