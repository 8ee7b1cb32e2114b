#!/usr/bin/env python3
"""Make testdata/data/gpt_dataset.golden from Megatron's own dataset code.

Writes a corpus of 203 documents with megatron-core's IndexedDatasetBuilder, cuts it into GPT datasets
with its BlendedMegatronDatasetBuilder and its compiled C++ helper, and prints one line a dataset:
options, sizes, and the FNV-1a hashes of what tests/data/gpt_golden_test.cpp must reproduce.

Needs from PyPI: megatron-core==0.12.1 (with its compiled helpers_cpp), torch, numpy.
Command: python scripts/make-data-goldens.py > testdata/data/gpt_dataset.golden
"""
import importlib.metadata
import logging
import tempfile

import numpy
import torch
from megatron.core.datasets import helpers_cpp
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder

from data_goldens import fnv, hash_of, tokenizer

EOD = 7
SPLITS = ("train", "valid", "test")

# split, seed, S, samples of train, valid and test (- for one epoch), drop the partial sample of valid
CASES = [
    ("969, 30, 1", 1234, 64, (100, 3, None), True),
    ("969, 30, 1", 1234, 64, (None, None, None), True),
    ("90,5,5", 1234, 64, (1000, 40, 40), True),
    ("90,5,5", 42, 64, (1300, 40, 40), True),
    ("90,5,5", 42, 2, (40000, 2000, 100), True),
    ("1,1,1", 1234, 16, (3000, 3100, 3200), True),
    ("1,1,1", 5, 257, (77, 78, 79), True),
    ("1", 1234, 128, (5000, None, None), True),
    ("8,1,1", 1234, 300, (90, 4, 4), False),
    ("8,1,1", 4294967295, 100, (1, 33, 1), False),
    ("0.5,0.25,0.25", 0, 4096, (50, 9, 9), False),
]


def write_corpus(prefix, dtype):
    """203 documents: mostly one sequence, every tenth three, every seventeenth none."""
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype)
    random = numpy.random.RandomState(2024)
    for document in range(203):
        sequences = 0 if document % 17 == 16 else 3 if document % 10 == 9 else 1
        for _ in range(sequences):
            length = random.randint(0, 8) if random.randint(0, 9) == 0 else random.randint(1, 300)
            tokens = [random.randint(0, 50000) for _ in range(length)]
            builder.add_item(torch.tensor(tokens, dtype=torch.int64))
        builder.end_document()
    builder.finalize(prefix + ".idx")


def dataset_line(case, name, dataset, samples):
    split, seed, seq_length, _, drop = case
    hashes = fnv(b"")
    for k in range(len(dataset)):
        item = dataset[k]
        for field, dtype in (("tokens", "<i4"), ("labels", "<i4"), ("loss_mask", "<f4")):
            hashes = fnv(item[field].numpy().astype(dtype).tobytes(), hashes)
    return " ".join([
        split.replace(" ", "_"), str(seed), str(seq_length), name,
        "-" if samples is None else str(samples), str(int(drop)), str(len(dataset)),
        str(dataset.document_index.shape[0]), hash_of(dataset.document_index, "<i4"),
        hash_of(dataset.sample_index, "<i4"), hash_of(dataset.shuffle_index, "<u4"),
        f"{hashes:016x}"])


def main():
    logging.disable(logging.CRITICAL)
    assert helpers_cpp.build_sample_idx_int32
    core = importlib.metadata.version("megatron-core")
    print(f"# scripts/make-data-goldens.py; megatron-core {core}, numpy {numpy.__version__}")
    print("# file DTYPE SEQUENCES BIN_HASH IDX_HASH")
    print("# case SPLIT SEED S NAME SAMPLES DROP SIZE DOCUMENTS; hashes: documents samples shuffle items")
    with tempfile.TemporaryDirectory() as folder:
        for dtype in (numpy.uint16, numpy.int32):
            prefix = f"{folder}/{dtype.__name__}"
            write_corpus(prefix, dtype)
            content = [open(prefix + end, "rb").read() for end in (".bin", ".idx")]
            count = int.from_bytes(content[1][18:26], "little")
            print("file", DType.code_from_dtype(dtype), count, *(f"{fnv(c):016x}" for c in content))
        for number, case in enumerate(CASES):
            split, seed, seq_length, sizes, drop = case
            config = GPTDatasetConfig(
                random_seed=seed, sequence_length=seq_length, blend=([f"{folder}/uint16"], None),
                split=split, path_to_cache=f"{folder}/cache{number}", tokenizer=tokenizer(EOD),
                reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=not drop,
                create_attention_mask=False, drop_last_partial_validation_sequence=drop)
            builder = BlendedMegatronDatasetBuilder(GPTDataset, list(sizes), lambda: True, config)
            for name, dataset, samples in zip(SPLITS, builder.build(), sizes):
                if dataset is not None and len(dataset) > 0:
                    print("case", dataset_line(case, name, dataset, samples))


if __name__ == "__main__":
    main()
