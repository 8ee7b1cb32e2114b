#!/usr/bin/env python3
"""Compare ICT's samples with those of Megatron-LM's own megatron.legacy.data.ict_dataset, every number.

Draws token files of sentences and titles, and for some lengths, seeds and options prints how many samples differ
between mt-preprocess samples --dataset ict --json and Megatron's ICTDataset on the map that megatron-core's helpers
build.  Megatron draws a sample's sentence from one random.Random for all samples, so that they depend on the order
in which they are asked for; here each sample has numpy's RandomState(seed + number) in its place, as in
mt-preprocess.  All else is Megatron's.

Needs a checkout of NVIDIA/Megatron-LM at core_v0.12.1, and from PyPI: megatron-core==0.12.1, torch, numpy,
transformers.
Command: python scripts/compare-ict.py MEGATRON build/release/cmd/mt-preprocess
"""
import argparse
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy
import torch

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"word{i}" for i in range(295)]
# --seq-length, --seed, --query-in-block-prob, further options.
CASES = [(64, 1234, 0.1, []), (64, 7, 0.5, []), (32, 3, 0.1, ["--use-one-sent-docs"]), (128, 9, 1.0, []),
         (256, 11, 0.0, ["--use-one-sent-docs"])]


def write_corpus(folder, builder):
    """Documents of some sentences, a few too long for any block, and a title for each."""
    random = numpy.random.RandomState(5)
    files = {name: builder(f"{folder}/{name}.bin", dtype=numpy.uint16) for name in ("sentences", "titles")}
    for _ in range(300):
        for _ in range(random.randint(0, 12)):
            length = 700 if random.randint(0, 50) == 0 else random.randint(1, 30)
            files["sentences"].add_item(torch.from_numpy(random.randint(5, len(VOCABULARY), length)))
        files["sentences"].end_document()
        files["titles"].add_item(torch.from_numpy(random.randint(5, len(VOCABULARY), random.randint(1, 9))))
        files["titles"].end_document()
    for name, file in files.items():
        file.finalize(f"{folder}/{name}.idx")


class Draws:
    """What ICTDataset asks of random.Random, from numpy's generator."""

    def __init__(self, seed):
        self.state = numpy.random.RandomState(seed)

    def randint(self, first, last):
        return int(self.state.randint(first, last + 1))

    def random(self):
        return self.state.random_sample()


def theirs(ict_dataset, helpers, folder, indexed, case):
    length, seed, stays, options = case
    one = "--use-one-sent-docs" in options
    sentences, titles = indexed(f"{folder}/sentences"), indexed(f"{folder}/titles")

    def mapping(*_):
        rows = helpers.build_blocks_mapping(
            sentences.document_indices, sentences.sequence_lengths, titles.sequence_lengths, 1,
            numpy.iinfo(numpy.int64).max - 1, length - 3, seed, False, one)
        return BlockSamplesMapping(rows)

    from megatron.legacy.data.realm_dataset_utils import BlockSamplesMapping
    ict_dataset.get_block_samples_mapping = mapping
    ict_dataset.get_tokenizer = lambda: types.SimpleNamespace(
        inv_vocab=dict(enumerate(VOCABULARY)), cls=2, sep=3, mask=4, pad=0)
    dataset = ict_dataset.ICTDataset("train", sentences, titles, "", 1, None, length, stays, seed,
                                     use_one_sent_docs=one)
    for k in range(len(dataset)):
        dataset.rng = Draws(seed + k)
        yield {name: values.tolist() for name, values in dataset[k].items()}


def ours(program, folder, case):
    length, seed, stays, options = case
    command = [program, "samples", "--dataset", "ict", "--json", "-n", "1000000", "--split", "100,0,0",
               "--data-path", f"{folder}/sentences", "--titles-data-path", f"{folder}/titles",
               "--seq-length", str(length), "--seed", str(seed), "--query-in-block-prob", str(stays), "--quiet",
               "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", f"{folder}/vocab.txt", *options]
    return [json.loads(line) for line in subprocess.run(command, check=True, capture_output=True).stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("megatron", help="checkout of NVIDIA/Megatron-LM")
    parser.add_argument("program", help="mt-preprocess")
    args = parser.parse_args()
    sys.path.append(args.megatron)
    logging.disable()
    from megatron.core.datasets import helpers_cpp
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from megatron.legacy.data import ict_dataset

    different = 0
    with tempfile.TemporaryDirectory() as folder:
        write_corpus(folder, IndexedDatasetBuilder)
        pathlib.Path(folder, "vocab.txt").write_text("".join(word + "\n" for word in VOCABULARY))
        for case in CASES:
            expected = list(theirs(ict_dataset, helpers_cpp, folder, IndexedDataset, case))
            found = ours(args.program, folder, case)
            fields = expected[0].keys() & found[0].keys()
            wrong = sum(any(a[name] != b[name] for name in fields) for a, b in zip(expected, found))
            wrong += abs(len(expected) - len(found))
            different += wrong
            if not {"query_tokens", "query_pad_mask", "context_tokens", "context_pad_mask"} <= fields:
                sys.exit(f"compared are only {sorted(fields)}")
            print(f"length {case[0]}, seed {case[1]}, {case[2]} stay {' '.join(case[3])}: {len(expected)} samples, "
                  f"{len(fields)} fields, {wrong} differ")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
