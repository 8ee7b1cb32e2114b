#!/usr/bin/env python3
"""Compare mt-preprocess merge with what Megatron-LM's tools/merge_datasets.py does, byte for byte.

Writes folders of random token files with megatron-core's IndexedDatasetBuilder: every element type,
documents without sequences and sequences without tokens, files without documents, and files with modes;
merges each folder as merge_datasets.py does, with the builder's add_index in the order of names, and with
mt-preprocess merge --input; and prints how many .bin and .idx differ.

Needs from PyPI: megatron-core==0.12.1, torch, numpy.
Command: python scripts/compare-merge.py build/release/cmd/mt-preprocess
"""
import argparse
import filecmp
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

DTYPES = (numpy.uint8, numpy.int8, numpy.int16, numpy.int32, numpy.int64, numpy.float64, numpy.float32, numpy.uint16)


def write_file(random, prefix, dtype, multimodal):
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=dtype, multimodal=multimodal)
    for _ in range(random.randint(0, 40)):
        for _ in range(random.choice([0, 1, 1, 1, 2, 5])):
            length = 0 if random.randint(0, 8) == 0 else random.randint(1, 50)
            tokens = torch.tensor(random.randint(0, 100, length), dtype=torch.int64)
            builder.add_item(tokens, int(random.randint(0, 2)))
        builder.end_document()
    builder.finalize(prefix + ".idx")


def merge_theirs(folder, prefix, multimodal):
    """merge_datasets.py's main(), less its checks."""
    builder = None
    for name in sorted({os.path.splitext(name)[0] for name in os.listdir(folder)}):
        if builder is None:
            first = IndexedDataset(os.path.join(folder, name), multimodal=multimodal)
            builder = IndexedDatasetBuilder(prefix + ".bin", dtype=first.index.dtype, multimodal=multimodal)
            del first
        builder.add_index(os.path.join(folder, name))
    builder.finalize(prefix + ".idx")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="mt-preprocess")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = numpy.random.RandomState(options.seed)
    merged = files = different = with_modes = 0
    for case in range(options.cases):
        dtype, multimodal = DTYPES[case % len(DTYPES)], random.randint(0, 2) == 1
        with tempfile.TemporaryDirectory() as scratch:
            parts = scratch + "/parts"
            os.mkdir(parts)
            for name in random.permutation(["b", "B", "a_1", "a_10", "a_2", "\u00e9", "a.b"])[:random.randint(1, 8)]:
                write_file(random, f"{parts}/{name}", dtype, multimodal)
                files += 1
            if os.path.getsize(f"{parts}/{min(os.listdir(parts))}") == 0:
                continue  # Megatron cannot map a first file without tokens
            merge_theirs(parts, scratch + "/theirs", multimodal)
            subprocess.run([options.program, "merge", "--input", parts, "--output-prefix", scratch + "/ours",
                            *(["--multimodal"] if multimodal else []), "--quiet"], check=True)
            for end in (".bin", ".idx"):
                if not filecmp.cmp(f"{scratch}/theirs{end}", f"{scratch}/ours{end}", False):
                    different += 1
                    print(f"case {case}: {end} of {dtype.__name__}{', modes' if multimodal else ''} differs")
            merged += 1
            with_modes += multimodal
    print(f"{merged} folders of {files} token files merged, {with_modes} with modes: {different} files differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
