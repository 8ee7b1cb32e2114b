#!/usr/bin/env python3
"""Compare mt-preprocess with Megatron's rule for its tools/preprocess_data.py, byte for byte.

Encodes the JSON-lines file with Hugging Face's GPT-2 encoder, writes it with megatron-core's
IndexedDatasetBuilder, runs mt-preprocess on the same file, and compares .bin and .idx.

Needs from PyPI: megatron-core==0.12.1, tokenizers, torch, numpy.
Command: python scripts/compare-preprocess.py build/release/cmd/mt-preprocess vocab.json merges.txt corpus.jsonl
"""
import filecmp
import json
import subprocess
import sys
import tempfile

import numpy
from megatron.core.datasets.indexed_dataset import DType, IndexedDatasetBuilder
from tokenizers import Tokenizer, models, pre_tokenizers


def main():
    program, vocab, merges, corpus = sys.argv[1:]
    tokenizer = Tokenizer(models.BPE.from_file(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    eod = tokenizer.token_to_id("<|endoftext|>")
    with tempfile.TemporaryDirectory() as folder:
        dtype = DType.optimal_dtype(tokenizer.get_vocab_size())
        builder = IndexedDatasetBuilder(f"{folder}/theirs.bin", dtype=dtype)
        with open(corpus, encoding="utf-8") as lines:
            for line in lines:
                value = json.loads(line)["text"]
                ids, lengths = [], []
                for text in value if isinstance(value, list) else [value]:
                    encoded = tokenizer.encode(text).ids
                    if encoded:
                        ids += encoded
                        lengths.append(len(encoded))
                if ids:
                    ids.append(eod)
                    lengths[-1] += 1
                builder.add_document(numpy.array(ids), lengths)
        builder.finalize(f"{folder}/theirs.idx")
        subprocess.run([program, "--input", corpus, "--output-prefix", f"{folder}/ours", "--append-eod",
                        "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", vocab,
                        "--merge-file", merges], check=True)
        for end in ("bin", "idx"):
            same = filecmp.cmp(f"{folder}/theirs.{end}", f"{folder}/ours_text_document.{end}", False)
            print(f".{end}", "equal" if same else "DIFFERENT")
            if not same:
                sys.exit(1)


if __name__ == "__main__":
    main()
