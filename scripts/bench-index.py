#!/usr/bin/env python3
"""How long mt-preprocess index takes over a large made-up token file, and how much memory.

Writes an index of documents of 1 to 1999 tokens (lengths only; the tokens are a hole of that size), runs
mt-preprocess index on it with an empty cache and again with what that left, and prints wall time, CPU time
and peak memory of each.  --megatron also builds the same with Megatron's own classes, and compares every
number of the three arrays.

Needs from PyPI: numpy; with --megatron megatron-core==0.12.1 (with its compiled helpers_cpp) and torch.
Command: python scripts/bench-index.py --bin build/release/cmd --tokens 100e9
"""
import argparse
import multiprocessing
import os
import subprocess
import tempfile
import time

import numpy

MEAN = 1000  # tokens of a document


def write_token_file(prefix, tokens):
    """In a process of its own: what is large here would count as the memory of programs started later."""
    with multiprocessing.Pool(1) as pool:
        return pool.apply(write_arrays, (prefix, tokens))


def write_arrays(prefix, tokens):
    lengths = numpy.random.default_rng(1).integers(1, 2 * MEAN, int(tokens) // MEAN, dtype=numpy.int32)
    count = len(lengths)
    with open(prefix + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + numpy.array([1], "<u8").tobytes() + b"\x08"
                   + numpy.array([count, count + 1], "<u8").tobytes())
        lengths.tofile(file)
        offsets = numpy.zeros(count + 1, "<i8")
        numpy.cumsum(lengths, out=offsets[1:])
        offsets *= 2
        offsets[:-1].tofile(file)
        numpy.arange(count + 1, dtype="<i8").tofile(file)
    with open(prefix + ".bin", "wb") as file:
        file.truncate(int(offsets[-1]))
    return count, int(offsets[-1]) // 2


def run(options, prefix, cache, samples):
    command = [os.path.join(options.bin, "mt-preprocess"), "index", "--data-path", prefix, "--split", "1",
               "--seq-length", str(options.seq_length), "--train-samples", str(samples), "--global-batch-size", "1",
               "--eval-iters", "0", "--seed", "1234", "--data-cache-path", cache, "--quiet"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    assert status == 0, f"{command}: status {status}"
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def arrays_of(cache):
    """Of the one .index file there (libcommon/data/samples/index_cache.h)."""
    name, = [name for name in os.listdir(cache) if name.endswith(".index")]
    content = numpy.memmap(os.path.join(cache, name), numpy.uint8, "r")
    text_bytes = int(content[8:16].view("<u8")[0])
    at = 16 + text_bytes
    while True:
        at = (at + 63) // 64 * 64
        dtype, count = yield None
        size = numpy.dtype(dtype).itemsize * count
        yield content[at:at + size].view(dtype)
        at += size


def compare(options, prefix, cache, samples):
    from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig

    from data_goldens import tokenizer

    start = time.perf_counter()
    config = GPTDatasetConfig(
        random_seed=1234, sequence_length=options.seq_length, blend=([prefix], None), split="1",
        path_to_cache=cache + "-megatron", tokenizer=tokenizer(0), reset_position_ids=False,
        reset_attention_mask=False, eod_mask_loss=False, create_attention_mask=False)
    dataset = BlendedMegatronDatasetBuilder(GPTDataset, [samples, None, None], lambda: True, config).build()[0]
    print(f"Megatron: {time.perf_counter() - start:.2f} s")
    arrays = arrays_of(cache)
    for name in ("document_index", "sample_index", "shuffle_index"):
        theirs = getattr(dataset, name)
        next(arrays)
        ours = arrays.send((theirs.dtype, theirs.size))
        print(f"{name}: {theirs.size} numbers, {numpy.count_nonzero(ours != theirs.reshape(-1))} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="the folder with mt-preprocess")
    parser.add_argument("--tokens", type=float, default=100e9)
    parser.add_argument("--seq-length", type=int, default=4096)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder", help="where the files go for a while")
    parser.add_argument("--megatron", action="store_true", help="compare with Megatron's own")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        prefix = folder + "/made-up"
        count, tokens = write_token_file(prefix, options.tokens)
        samples = (tokens - 1) // options.seq_length
        print(f"{tokens} tokens in {count} documents, {samples} samples of {options.seq_length}")
        for number in range(options.times):
            cache = f"{folder}/cache{number}"
            for what in ("made", "opened"):
                seconds, cpu, memory = run(options, prefix, cache, samples)
                print(f"{what}: {seconds:.3f} s, {cpu:.3f} s of CPU, {memory:.2f} GiB")
        if options.megatron:
            compare(options, prefix, cache, samples)


if __name__ == "__main__":
    main()
