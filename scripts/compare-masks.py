#!/usr/bin/env python3
"""Compare which tokens mt-finetune learns of conversations with those that TRL's SFTTrainer learns.

Random conversations of one to four turns, with a system's turn or without, with blank, long, odd and accented contents
and with what looks like a part of a template, are written by twelve of TRL's training templates.  render's tokens and
masks must be those of the tokenizer's apply_chat_template with return_assistant_tokens_mask, which is what
SFTTrainer's assistant_only_loss goes by.

  --count N       conversations, a twelfth by each template (1000)
  --seed N        of the generator (1)
  --keep FOLDER   write them, the templates and what TRL learns there: testdata/trl/masks is made so, with --count 96

Needs from PyPI: trl, transformers (tried with 1.16.0, 5.24.0).
Run:  scripts/compare-masks.py build/release/cmd/mt-finetune
      scripts/compare-masks.py --count 96 --keep testdata/trl/masks
"""
import argparse
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import transformers

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODEL = REPOSITORY / "testdata/trl/llama"
NAMES = ["cohere", "deepseekv3", "gemma", "gemma3", "glm4moe", "llama3", "lfm2", "nemotron_3_nano", "phi3", "phi3_5",
         "qwen2_5", "qwen3"]
WITHOUT_SYSTEM = {"gemma"}
PIECES = ["Mia has a red ball.", "What then?", " ", "\n", "The dog", "é", "ü", "<think>", "</think>", "No.", "1 + 1 = 2",
          "\t", "it's", "naïve café", "<|im_end|>", "assistant", "user\n", "[INST]", "…", "a" * 40, "{{ x }}", "  two"]


def content(choose):
    while True:
        text = "".join(choose.choice(PIECES) for _ in range(choose.randint(1, 5)))
        if text.strip():
            return text


def conversation(choose, name):
    messages = []
    if name not in WITHOUT_SYSTEM and choose.random() < 0.4:
        messages.append({"role": "system", "content": content(choose)})
    for _ in range(choose.randint(1, 4)):
        messages += [{"role": "user", "content": content(choose)}, {"role": "assistant", "content": content(choose)}]
    return {"messages": messages}


def learnt_by_trl(tokenizer, template, line):
    made = tokenizer.apply_chat_template(line["messages"], chat_template=template, return_dict=True,
                                         return_assistant_tokens_mask=True)
    return {"ids": list(made["input_ids"]), "mask": list(made["assistant_masks"])}


def learnt_by_program(program, template, lines, folder):
    path = f"{folder}/lines.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    run = subprocess.run([program, "render", "--load", MODEL, "--train-data", path, "--chat-template", template,
                          "--seq-length", "100000", "--json", "--quiet"], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{template}: {run.stderr}")
    return [{"ids": sample["ids"], "mask": sample["mask"]} for sample in map(json.loads, run.stdout.splitlines())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    args = parser.parse_args()
    templates = pathlib.Path(importlib.util.find_spec("trl").origin).parent / "chat_templates"
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    choose = random.Random(args.seed)
    differ = compared = 0
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    for i, name in enumerate(NAMES):
        source = templates / f"{name}_training.jinja"
        lines = [conversation(choose, name) for _ in range((args.count + len(NAMES) - 1 - i) // len(NAMES))]
        expected = [learnt_by_trl(tokenizer, source.read_text(encoding="utf-8"), line) for line in lines]
        if args.keep:
            (pathlib.Path(args.keep) / f"{name}.jinja").write_bytes(source.read_bytes())
            for suffix, objects in (("jsonl", lines), ("golden", expected)):
                (pathlib.Path(args.keep) / f"{name}.{suffix}").write_text(
                    "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in objects), encoding="utf-8")
        if not args.program:
            continue
        with tempfile.TemporaryDirectory() as folder:
            got = learnt_by_program(args.program, source, lines, folder)
        for line, a, b in zip(lines, got, expected, strict=True):
            compared += 1
            if a != b:
                differ += 1
                print(f"{name}: {json.dumps(line)}\n  here {a}\n  TRL  {b}", file=sys.stderr)
    if args.program:
        print(f"{compared} conversations, {len(NAMES)} templates: {differ} differ")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
