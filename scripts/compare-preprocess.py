#!/usr/bin/env python3
"""Compare mt-preprocess with Megatron-LM's own tools/preprocess_data.py and merge_datasets.py, byte for byte.

Runs both with the same arguments on a JSON-lines file, once for each row of CASES below, and prints
for each .bin and .idx whether they are equal.  Of several keys upstream completes only the last
one's index, so only that is compared.  At the end both merge what mt-preprocess has made.  Sentences need a Punkt model: NLTK_DATA/tokenizers/punkt_tab/
english; without NLTK_DATA those cases are left out.

Needs a checkout of NVIDIA/Megatron-LM at core_v0.12.1, and from PyPI: megatron-core==0.12.1, torch,
numpy, transformers, regex, nltk==3.9.1.
Command: NLTK_DATA=DIR python scripts/compare-preprocess.py MEGATRON build/release/cmd/mt-preprocess
  vocab.json merges.txt corpus.jsonl
"""
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CASES = {
    "documents": [],
    "end of document": ["--append-eod"],
    "two keys": ["--json-keys", "title", "text", "--append-eod"],
    "partitions": ["--partitions", "3", "--keep-sequential-samples", "--workers", "3"],
    "sentences": ["--split-sentences", "--append-eod"],
    "sentences with their newlines": ["--split-sentences", "--keep-newlines"],
}


def upstream(megatron, corpus, prefix, arguments):
    # With NLTK_DATA set it asks for a pickle, which nltk has not read since 3.8.2; a home folder will do.
    environment = {name: value for name, value in os.environ.items() if name != "NLTK_DATA"}
    if "NLTK_DATA" in os.environ:
        environment["HOME"] = os.path.dirname(corpus)
        os.symlink(os.path.abspath(os.environ["NLTK_DATA"]), f"{environment['HOME']}/nltk_data")
    command = [sys.executable, "tools/preprocess_data.py", "--input", corpus, "--output-prefix", prefix,
               "--workers", "1", *arguments]
    # The first run with --split-sentences only writes a file of sentences, which the second reads.
    for _ in range(2 if "--split-sentences" in arguments else 1):
        subprocess.run(command, cwd=megatron, env=environment, check=True, timeout=600,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def same(theirs, ours, name):
    equal = theirs.exists() and filecmp.cmp(theirs, ours, False)
    print(f"{name}: {ours.name}", "equal" if equal else "DIFFERENT")
    return equal


def merge(megatron, program, folder):
    for tool, command in ("theirs", [sys.executable, "tools/merge_datasets.py"]), ("ours", [program, "merge"]):
        subprocess.run([*command, "--input", f"{folder}/parts", "--output-prefix", f"{folder}/{tool}"],
                       cwd=megatron, check=True, stderr=subprocess.DEVNULL)
    return all([same(pathlib.Path(f"{folder}/theirs{end}"), pathlib.Path(f"{folder}/ours{end}"), "merge")
                for end in (".bin", ".idx")])


def main():
    megatron, program, vocab, merges, corpus = map(os.path.abspath, sys.argv[1:])
    tokenizer = ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", vocab, "--merge-file", merges]
    equal = True
    with tempfile.TemporaryDirectory() as results:
        os.mkdir(f"{results}/parts")
        for name, arguments in CASES.items():
            if "--split-sentences" in arguments and "NLTK_DATA" not in os.environ:
                print(f"{name}: left out, there is no NLTK_DATA")
                continue
            with tempfile.TemporaryDirectory() as folder:
                copy = shutil.copy(corpus, f"{folder}/in.jsonl")
                for part in ("theirs", "ours"):
                    os.mkdir(f"{folder}/{part}")
                upstream(megatron, copy, f"{folder}/theirs/o", tokenizer + arguments)
                subprocess.run([program, "--quiet", "--input", copy, "--output-prefix", f"{folder}/ours/o",
                                *tokenizer, *arguments], check=True)
                for ours in sorted(pathlib.Path(folder, "ours").glob("o_*.[bi]*")):
                    theirs = pathlib.Path(folder, "theirs", ours.name)
                    if theirs.exists() or "title" not in ours.name:
                        equal &= same(theirs, ours, name)
                    shutil.copy(ours, f"{results}/parts/{name}_{ours.name}")
        equal &= merge(megatron, program, results)
    sys.exit(not equal)


if __name__ == "__main__":
    main()
