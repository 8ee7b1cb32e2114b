#!/usr/bin/env python3
"""Compare mt-preprocess with Megatron-LM's own tools/preprocess_data.py and merge_datasets.py, byte for byte.

Runs both with the same arguments on JSON lines made from DATA's texts, once for each row of CASES below:
GPT-2's BPE, BERT's WordPiece with sentences, and SentencePiece.  Prints for each .bin and .idx whether they are
equal.  Of several keys upstream completes only the last one's index, so only that is compared.  At the end both
merge what mt-preprocess has made.  Sentences need a model of Punkt: that of NLTK_DATA/tokenizers/punkt_tab/english,
or else one that nltk trains here from the same texts.  A table's last row says how many files differ.

Needs a checkout of NVIDIA/Megatron-LM at core_v0.12.1, and from PyPI: megatron-core==0.12.1, torch,
numpy, transformers, regex, sentencepiece, nltk 3.9 or 3.10.  DATA: gpt2/, bert-uncased/,
bert-cased/, sentencepiece/, shakespeare/.
Command: python scripts/compare-preprocess.py MEGATRON build/release/cmd/mt-preprocess DATA [--lines 2000]
"""
import argparse
import filecmp
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import nltk.data
import nltk.tokenize.punkt

# Name, tokenizer, corpus, further arguments.
CASES = [
    ("documents", "gpt2", "texts", []),
    ("end of document", "gpt2", "texts", ["--append-eod"]),
    ("two keys", "gpt2", "texts", ["--json-keys", "title", "text", "--append-eod"]),
    ("partitions", "gpt2", "texts", ["--partitions", "3", "--keep-sequential-samples", "--workers", "3"]),
    ("sentences", "gpt2", "texts", ["--split-sentences", "--append-eod"]),
    ("sentences with their newlines", "gpt2", "texts", ["--split-sentences", "--keep-newlines"]),
    ("BERT", "bert-uncased", "texts", ["--split-sentences"]),
    ("BERT, cased", "bert-cased", "texts", ["--split-sentences"]),
    ("BERT, lists of sentences", "bert-uncased", "lists", []),
    ("SentencePiece", "sentencepiece", "texts", ["--append-eod"]),
    ("SentencePiece, Llama's", "llama", "texts", []),
]


def tokenizer_arguments(kind, data, vocabularies):
    if kind == "gpt2":
        return ["--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", f"{data}/gpt2/vocab.json",
                "--merge-file", f"{data}/gpt2/merges.txt"]
    if kind.startswith("bert"):
        return ["--tokenizer-type", "BertWordPieceCase" if kind == "bert-cased" else "BertWordPieceLowerCase",
                "--vocab-file", f"{vocabularies}/{kind}.txt"]
    return ["--tokenizer-type", "Llama2Tokenizer" if kind == "llama" else "GPTSentencePieceTokenizer",
            "--tokenizer-model", f"{data}/sentencepiece/test_model.model"]


def write_vocabularies(folder, data):
    for kind in ("bert-uncased", "bert-cased"):
        vocab = json.loads((data / kind / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
        words = "".join(word + "\n" for word in sorted(vocab, key=vocab.get))
        pathlib.Path(folder, f"{kind}.txt").write_text(words, "utf-8")


def write_corpora(folder, data, count):
    """texts.jsonl and lists.jsonl; returns all text."""
    lines = []
    for name in ("sentencepiece/botchan.txt", "shakespeare/input.txt"):
        lines += [line for line in (data / name).read_text("utf-8").splitlines(keepends=True) if line.strip()]
    step = max(1, len(lines) // (8 * count))
    documents = [lines[at : at + 8] for at in range(0, 8 * step * count, 8 * step)][:count]
    documents += [["\u00dcber \u6c34 don't [MASK]\u2028\n"], ["  \n", "\n"], ["Mr. Smith went. He had 3.5 apples!\n"]]
    with open(f"{folder}/texts.jsonl", "w", encoding="utf-8") as texts, \
            open(f"{folder}/lists.jsonl", "w", encoding="utf-8") as lists:
        for i, document in enumerate(documents):
            texts.write(json.dumps({"title": document[0], "text": "".join(document)}, ensure_ascii=i % 2 == 0) + "\n")
            lists.write(json.dumps({"text": document}) + "\n")
    return "".join(lines)


def make_punkt_model(folder, text):
    """A folder that nltk and mt-preprocess find their model in."""
    trainer = nltk.tokenize.punkt.PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train(text, finalize=True)
    model = pathlib.Path(folder, "tokenizers", "punkt_tab", "english")
    model.mkdir(mode=0o700, parents=True)
    nltk.data.path.append(folder)  # nltk 3.10 writes nowhere else, and only to what is its user's alone
    nltk.tokenize.punkt.save_punkt_params(trainer.get_params(), str(model))


def upstream(megatron, corpus, prefix, arguments, nltk_data):
    # With NLTK_DATA set it asks for a pickle, which nltk has not read since 3.8.2; a home folder will do.
    environment = {name: value for name, value in os.environ.items() if name != "NLTK_DATA"}
    environment["HOME"] = os.path.dirname(corpus)
    os.symlink(os.path.abspath(nltk_data), f"{environment['HOME']}/nltk_data")
    command = [sys.executable, "tools/preprocess_data.py", "--input", corpus, "--output-prefix", prefix,
               "--workers", "1", *arguments]
    # The first run with --split-sentences only writes a file of sentences, which the second reads.
    for _ in range(2 if "--split-sentences" in arguments else 1):
        run = subprocess.run(command, cwd=megatron, env=environment, timeout=600, capture_output=True)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)}: {run.stderr.decode()[-2000:]}")


def same(theirs, ours, name):
    equal = theirs.exists() and filecmp.cmp(theirs, ours, False)
    print(f"{name}: {ours.name}, {ours.stat().st_size} bytes:", "equal" if equal else "DIFFERENT", flush=True)
    return equal


def merge(megatron, program, folder):
    for tool, command in ("theirs", [sys.executable, "tools/merge_datasets.py"]), ("ours", [program, "merge"]):
        subprocess.run([*command, "--input", f"{folder}/parts", "--output-prefix", f"{folder}/{tool}"],
                       cwd=megatron, check=True, stderr=subprocess.DEVNULL)
    return [same(pathlib.Path(f"{folder}/theirs{end}"), pathlib.Path(f"{folder}/ours{end}"), "merge")
            for end in (".bin", ".idx")]


def compare(case, args, corpora, nltk_data, parts):
    name, kind, corpus, arguments = case
    arguments = tokenizer_arguments(kind, args.data, corpora) + arguments
    with tempfile.TemporaryDirectory() as folder:
        copy = f"{folder}/in.jsonl"
        os.link(f"{corpora}/{corpus}.jsonl", copy)
        for part in ("theirs", "ours"):
            os.mkdir(f"{folder}/{part}")
        upstream(args.megatron, copy, f"{folder}/theirs/o", arguments, nltk_data)
        subprocess.run([args.program, "--quiet", "--input", copy, "--output-prefix", f"{folder}/ours/o", *arguments],
                       check=True, env=os.environ | {"NLTK_DATA": str(nltk_data)})
        results = []
        for ours in sorted(pathlib.Path(folder, "ours").glob("o_*.[bi]*")):
            theirs = pathlib.Path(folder, "theirs", ours.name)
            if theirs.exists() or "title" not in ours.name:
                results.append(same(theirs, ours, name))
            if kind == "gpt2":  # of one type, for merge()
                os.rename(ours, f"{parts}/{name}_{ours.name}")
        return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("megatron", type=os.path.abspath, help="checkout of NVIDIA/Megatron-LM")
    parser.add_argument("program", type=os.path.abspath, help="mt-preprocess")
    parser.add_argument("data", type=lambda path: pathlib.Path(path).absolute(), help="folder of vocabularies and texts")
    parser.add_argument("--lines", type=int, default=2000, help="documents of the corpus")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = write_corpora(folder, args.data, args.lines)
        write_vocabularies(folder, args.data)
        nltk_data = os.environ.get("NLTK_DATA")
        if nltk_data is None:
            nltk_data = f"{folder}/nltk_data"
            make_punkt_model(nltk_data, text)
        os.mkdir(f"{folder}/parts")
        results = [equal for case in CASES for equal in compare(case, args, folder, nltk_data, f"{folder}/parts")]
        results += merge(args.megatron, args.program, folder)
    print(f"{len(results)} files compared, {results.count(False)} differ")
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
