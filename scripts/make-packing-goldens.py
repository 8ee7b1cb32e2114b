#!/usr/bin/env python3
"""Write how TRL packs random texts (pack_dataset, strategy "bfd").

A line of FILE is a capacity, the lengths of some texts, and for each sample which of them share it, in order: those of a
thousand conversations by twelve chat templates (scripts/compare-masks.py) in samples of three sizes, and of small sets in
which many are of equal length.

Needs from PyPI: trl, datasets, transformers (tried with 1.16.0, 5.2.0, 5.24.0).
Run:  scripts/make-packing-goldens.py testdata/trl/packing.golden
"""
import importlib.util
import pathlib
import random
import sys

import datasets
import transformers
import trl

SCRIPTS = pathlib.Path(__file__).resolve().parent


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lengths_of_conversations():
    masks = load("compare_masks", SCRIPTS / "compare-masks.py")
    templates = pathlib.Path(trl.__file__).parent / "chat_templates"
    tokenizer = transformers.AutoTokenizer.from_pretrained(masks.MODEL)
    choose = random.Random(2)
    for i in range(1000):
        name = masks.NAMES[i % len(masks.NAMES)]
        template = (templates / f"{name}_training.jinja").read_text(encoding="utf-8")
        yield len(masks.learnt_by_trl(tokenizer, template, masks.conversation(choose, name))["ids"])


def packed(lengths, capacity):
    texts = datasets.Dataset.from_dict({"input_ids": [[i] * length for i, length in enumerate(lengths)]})
    bins = trl.pack_dataset(texts, seq_length=capacity, strategy="bfd")["input_ids"]
    return [list(dict.fromkeys(ids)) for ids in bins]


def main():
    datasets.disable_progress_bars()
    choose = random.Random(3)
    conversations = list(lengths_of_conversations())
    sets = [(capacity, [length for length in conversations if length <= capacity]) for capacity in (150, 512, 4096)]
    for _ in range(100):
        capacity = choose.randint(4, 40)
        sets.append((capacity, [choose.randint(1, choose.choice((3, capacity))) for _ in range(choose.randint(1, 40))]))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        print(f"# scripts/make-packing-goldens.py; trl {trl.__version__}: capacity | lengths | texts of each sample", file=file)
        for capacity, lengths in sets:
            bins = ",".join(" ".join(map(str, texts)) for texts in packed(lengths, capacity))
            print(f"{capacity}|{' '.join(map(str, lengths))}|{bins}", file=file)


if __name__ == "__main__":
    main()
