#!/usr/bin/env python3
"""Shows that mt-preprocess needs as much memory for much text as for little, and that -j changes no byte.

Writes JSON lines of made-up words, of each of --sizes, none of which is the beginning of another; makes token
files of them with one of --workers after the other; prints the peak memory of each run and a hash of what it
wrote.  Everything lies in a folder of --tmp, which needs twice the largest size, and is gone afterwards.

Needs nothing but Python.  What follows -- are the options of the tokenizer:
    python scripts/peak-preprocess.py build/release/cmd/mt-preprocess --sizes 1e8 5e9 --workers 1 2 7 -- \\
      --tokenizer-type GPT2BPETokenizer --vocab-file DATA/vocab.json --merge-file DATA/merges.txt
Exits with 1 if for one number of workers a peak is not within 10 % of that for the first size, or if the bytes
of one size differ.
"""
import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import sys
import tempfile
import time

BLOCK = 1_000_000


def blocks(count):
    """Lines of about BLOCK bytes each, in which each " the " can be another word."""
    rng = random.Random(1)
    letters = "etaoinshrdlucmfwygpbvk\u00e9\u0434\u6c34"
    words = ["".join(rng.choices(letters, k=rng.randrange(1, 12))) for _ in range(50000)] + ["the"] * 5000
    for _ in range(count):
        size, lines = 0, []
        while size < BLOCK:
            text = " ".join(rng.choices(words, k=rng.randrange(1, 1000)))
            lines.append(json.dumps({"text": text}, ensure_ascii=rng.random() < 0.5) + "\n")
            size += len(lines[-1])
        yield "".join(lines).encode()


def write_corpus(path, size):
    some = list(blocks(50))
    with open(path, "wb") as file:
        for i in range(size // BLOCK):
            file.write(some[i % len(some)].replace(b" the ", b" the%d " % (i + size)))


def run(command):
    """Peak memory in MiB, and seconds."""
    started = time.monotonic()
    pid = os.spawnv(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024, time.monotonic() - started


def digest(paths):
    total = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=os.path.abspath, help="mt-preprocess")
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e8, 5e9], help="bytes of text")
    parser.add_argument("--workers", nargs="+", default=["1", "2", "7"])
    parser.add_argument("--tmp", help="where to write")
    parser.add_argument("tokenizer", nargs="+", help="options")
    args = parser.parse_args()
    bad, first = False, {}
    print(f"{'bytes':>14} {'-j':>3} {'peak MiB':>9} {'seconds':>8}  SHA-256")
    for size in map(int, args.sizes):
        with tempfile.TemporaryDirectory(dir=args.tmp) as name:
            folder, digests = pathlib.Path(name), set()
            # In another process: what this one needs would count as the peak of those that it starts.
            writer = multiprocessing.Process(target=write_corpus, args=(folder / "in.jsonl", size))
            writer.start()
            writer.join()
            for workers in args.workers:
                command = [args.program, "--quiet", "--force", "-j", workers, "--input", str(folder / "in.jsonl")]
                peak, seconds = run([*command, "--output-prefix", str(folder / "o"), *args.tokenizer])
                digests.add(digest([folder / f"o_text_document.{end}" for end in ("bin", "idx")]))
                print(f"{size:14} {workers:>3} {peak:9.1f} {seconds:8.1f}  {' '.join(digests)}", flush=True)
                bad |= len(digests) > 1 or abs(peak / first.setdefault(workers, peak) - 1) > 0.1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
