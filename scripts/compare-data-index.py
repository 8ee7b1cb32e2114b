#!/usr/bin/env python3
"""Compare our sample order with Megatron's own, over random configurations.

Draws configurations of token files, splits, weights, sizes and masks; builds each with megatron-core's
BlendedMegatronDatasetBuilder and its compiled C++ helper; and writes one line for each token file and
dataset with FNV-1a hashes of the document, sample, shuffle and blending indexes, and of samples with
their positions and masks.  Given a test program it then lets that make the same (it reads the lines,
and fails at the first difference).  Without one it prints the lines:

  python scripts/compare-data-index.py --cases 40 > testdata/data/blends.golden
  python scripts/compare-data-index.py --cases 200 --seed 7 --test build/release/tests/train/train_test

Needs from PyPI: megatron-core==0.12.1 (with its compiled helpers_cpp), torch, numpy.
"""
import argparse
import importlib.metadata
import logging
import os
import subprocess
import sys
import tempfile

import numpy
import torch
from megatron.core.datasets import helpers_cpp
from megatron.core.datasets.blended_dataset import BlendedDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder
from megatron.core.datasets.utils import get_blend_from_list, normalize

from data_goldens import fnv, hash_of, tokenizer

EOD = 379  # of the tokenizer in testdata/gpt2_bpe
SPLITS = ("train", "valid", "test")


def write_corpus(prefix, seed, sequences, longest):
    """Sequences of 1 to `longest` tokens, about one in eight of them an end of document."""
    builder = IndexedDatasetBuilder(prefix + ".bin", dtype=numpy.uint16)
    random = numpy.random.RandomState(seed)
    for _ in range(sequences):
        length = random.randint(1, longest + 1)
        tokens = [EOD if random.randint(0, 8) == 0 else random.randint(0, EOD) for _ in range(length)]
        builder.add_item(torch.tensor(tokens, dtype=torch.int64))
        builder.end_document()
    builder.finalize(prefix + ".idx")


def draw_words(random, files, weighted=None):
    """What --data-path would be given."""
    names = [files[random.randint(0, len(files))] for _ in range(random.randint(1, 6))]
    if weighted is None:
        weighted = random.randint(0, 3) > 0
    if not weighted:
        return list(dict.fromkeys(names))
    style = random.randint(0, 3)
    weights = [random.randint(1, 100) if style == 0 else round(random.random() + 0.01, 2) if style == 1
               else random.random() + 1e-3 for _ in names]
    return [word for pair in zip(map(repr, weights), names) for word in pair]


def draw_case(random, files):
    full = random.randint(0, 5) == 0
    eval_iters, evaluations = int(random.randint(1, 40)), int(random.randint(1, 6))
    case = {
        "seed": int(random.randint(0, 2**31)), "seq_length": int(random.choice([1, 2, 7, 16, 33, 64])),
        "sizes": [int(random.randint(1, 3000)), None if full else eval_iters * evaluations, eval_iters],
        "flags": [bool(random.randint(0, 2)) for _ in range(3)], "split": "-", "words": [],
    }
    if random.randint(0, 3) > 0:
        case["split"] = ["969,30,1", "90,5,5", "1,1,1", "0.5,0.25,0.25", "8,2", "1", "98,0,2"][
            random.randint(0, 7)]
        case["words"] = [draw_words(random, files, False if full else None)]
    else:
        case["words"] = [draw_words(random, files),
                         draw_words(random, files, False if full else None) if random.randint(0, 4) else [],
                         draw_words(random, files) if random.randint(0, 2) else []]
    return case


def build(case, folder):
    def blend(words):
        return get_blend_from_list([w if w[0].isdigit() else f"{folder}/{w}" for w in words] or None)

    single = case["split"] != "-"
    config = GPTDatasetConfig(
        random_seed=case["seed"], sequence_length=case["seq_length"],
        blend=blend(case["words"][0]) if single else None,
        blend_per_split=None if single else [blend(words) for words in case["words"]],
        split=case["split"] if single else None, path_to_cache=None, tokenizer=tokenizer(EOD),
        reset_position_ids=case["flags"][0], reset_attention_mask=case["flags"][1],
        eod_mask_loss=case["flags"][2], create_attention_mask=True)
    return BlendedMegatronDatasetBuilder(GPTDataset, case["sizes"], lambda: True, config).build()


def has_empty_part(case, files_sequences):
    """Megatron would look for tokens in it forever."""
    if case["split"] == "-":
        return False
    shares = [float(x) for x in case["split"].split(",")]
    shares = normalize(shares + [0.0] * (3 - len(shares)))
    for word in case["words"][0]:
        if word in files_sequences:
            begin = 0
            for share in shares:
                end = begin + share
                count = files_sequences[word]
                if end > begin and round(end * count) == round(begin * count):
                    return True
                begin = end
    return False


def items_hash(dataset, count):
    """Of the first samples: tokens, labels, loss mask, positions, and where each row's keys begin."""
    state = fnv(b"")
    for k in range(min(count, len(dataset))):
        item = dataset[k]
        allowed = ~item["attention_mask"][0].numpy()
        size = allowed.shape[0]
        first = allowed.argmax(axis=1)
        columns = numpy.arange(size)
        assert (allowed == ((columns >= first[:, None]) & (columns <= columns[:, None]))).all()
        for array, dtype in ((item["tokens"], "<i4"), (item["labels"], "<i4"), (item["loss_mask"], "<f4"),
                             (item["position_ids"], "<i4"), (first, "<i4")):
            state = fnv(numpy.asarray(array).astype(dtype).tobytes(), state)
    return f"{state:016x}"


def lines_of(dataset, name):
    blended = isinstance(dataset, BlendedDataset)
    indexes = ["-", "-"]
    if blended:
        indexes = [hash_of(dataset.dataset_index, "<i2"), hash_of(dataset.dataset_sample_index, "<i8")]
    yield " ".join(["set", name, str(len(dataset)), *indexes, items_hash(dataset, 4)])
    for part in dataset.datasets if blended else [dataset]:
        yield " ".join(["part", str(len(part)), str(len(part.document_index)),
                        hash_of(part.document_index, "<i4"), hash_of(part.sample_index, "<i4"),
                        hash_of(part.shuffle_index, "<u4")])


def write_lines(out, cases, seed):
    core = importlib.metadata.version("megatron-core")
    print(f"# scripts/compare-data-index.py --cases {cases} --seed {seed}; megatron-core {core}, numpy "
          f"{numpy.__version__}, torch {torch.__version__.split('+')[0]}", file=out)
    print("# file NAME SEED SEQUENCES LONGEST IDX_HASH", file=out)
    print("# order SIZE SEED: torch.randperm HASH", file=out)
    print("# case SEED S TRAIN VALID TEST POSITIONS ATTENTION LOSS SPLIT WORDS / WORDS / WORDS", file=out)
    print("# set NAME SIZE; hashes: datasets, their samples, items", file=out)
    print("# part SIZE DOCUMENTS; hashes: documents samples shuffle", file=out)
    random = numpy.random.RandomState(seed)
    for _ in range(20):
        size, order_seed = int(random.randint(1, 5000)), int(random.randint(0, 1000))
        order = torch.randperm(size, generator=torch.Generator().manual_seed(order_seed))
        print("order", size, order_seed, hash_of(order.numpy(), "<u4"), file=out)
    with tempfile.TemporaryDirectory() as folder:
        sequences = {}
        for i in range(8):
            name, count, longest = f"f{i}", int(random.randint(30, 400)), int(random.choice([3, 40, 300]))
            write_corpus(f"{folder}/{name}", i, count, longest)
            sequences[name] = count
            print("file", name, i, count, longest, f"{fnv(open(f'{folder}/{name}.idx', 'rb').read()):016x}", file=out)
        done = 0
        while done < cases:
            case = draw_case(random, list(sequences))
            if has_empty_part(case, sequences):
                continue
            try:
                datasets = build(case, folder)
            except AssertionError:  # a part without samples
                continue
            sizes = ["-" if size is None else str(size) for size in case["sizes"]]
            words = " / ".join(" ".join(words) for words in case["words"])
            print("case", case["seed"], case["seq_length"], *sizes, *[int(flag) for flag in case["flags"]],
                  case["split"], words, file=out)
            for name, dataset in zip(SPLITS, datasets):
                if dataset is not None:
                    for line in lines_of(dataset, name):
                        print(line, file=out)
            done += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test", help="the test program that makes the same")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    assert helpers_cpp.build_blending_indices
    if not options.test:
        return write_lines(sys.stdout, options.cases, options.seed)
    with tempfile.NamedTemporaryFile("w", suffix=".golden") as golden:
        write_lines(golden, options.cases, options.seed)
        golden.flush()
        subprocess.run([options.test, "--file=train/blend_golden_test.cpp"], env={**os.environ, "MT_GOLDEN": golden.name}, check=True)


if __name__ == "__main__":
    main()
