#!/usr/bin/env python3
"""How long `mt-eval` takes for LAMBADA's passages on the CPU or, with --device cuda, a GPU, beside transformers' scoring, by turns.

A model of GPT-2's 124M with random weights, saved by transformers, with the vocabulary of --tokenizer (vocab.json, merges.txt), and
the first --passages of --lambada (JSON lines with "text").  mt: the whole command `mt-eval --task lambada_openai`, start and
loading included, and without what it takes for one passage.  The peer: transformers' GPT2LMHeadModel with PyTorch's
fused attention, whose token ids are there already; passages in batches of --peer-batches, of like lengths and padded, logits of the last words'
tokens alone (logits_to_keep); the fastest counts.  Both have all cores, and weights in fp32, on a GPU in bf16.  The log-likelihoods of
both must agree to 1e-3; in bf16 their means do to 1e-2 of themselves.

Prints a line of JSON for each in each round and one with the medians and their ratio, `speed`: the peer's seconds over mt's.

Needs from PyPI: torch, transformers.
Run:  scripts/bench-eval.py build/release/cmd --tokenizer DIR --lambada FILE [--device cuda] [--passages 200] [--rounds 2] [--tiny]
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import torch
import transformers

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("--tokenizer", type=pathlib.Path, required=True)
parser.add_argument("--lambada", type=pathlib.Path, required=True)
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--passages", type=int, default=200)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--peer-batches", default="1,8")
parser.add_argument("--tiny", action="store_true", help="a small model, to check this script")
options = parser.parse_args()


def make_model(folder):
    sizes = {"n_layer": 2, "n_embd": 64, "n_head": 4} if options.tiny else {}
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, initializer_range=0.1)).eval()
    model.save_pretrained(folder)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(options.tokenizer / name, folder)
    if options.device == "cuda":
        model.to("cuda", torch.bfloat16)
    return model, transformers.GPT2TokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt"))


def run_mt(folder, passages, scratch):
    documents = scratch / "passages.jsonl"
    documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in passages))
    begun = time.perf_counter()
    made = subprocess.run([options.bin / "mt-eval", "--load", folder, "--device", options.device, "--dtype",
                           "fp32" if options.device == "cpu" else "bf16", "--task", "lambada_openai",
                           "--quiet", "--json", "--bootstrap-iters", "0", documents], capture_output=True, text=True, check=True).stdout
    seconds = time.perf_counter() - begun
    lines = [json.loads(line) for line in made.splitlines()]
    return seconds, [float(line["resps"][0][0][0]) for line in lines if "resps" in line]


def pairs_of(tokenizer, passages):
    """Of each passage its tokens, and how many of them are the last word's."""
    for text in passages:
        before, _, _ = text.rpartition(" ")
        ids = tokenizer.encode(text)
        yield ids, len(ids) - len(tokenizer.encode(before))


@torch.no_grad()
def run_peer(model, pairs, batch):
    found = [0.0] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
    begun = time.perf_counter()
    for at in range(0, len(order), batch):
        some = order[at:at + batch]
        longest = max(len(pairs[i][0]) for i in some) - 1
        ids = torch.zeros(len(some), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(some):  # padded in front, so that the last words stand below each other
            whole = pairs[i][0]
            ids[row, longest - len(whole) + 1:] = torch.tensor(whole[:-1])
            mask[row, longest - len(whole) + 1:] = 1
        most = max(pairs[i][1] for i in some)
        fields = {} if len(some) == 1 else {"attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
        fields = {key: field.to(options.device) for key, field in fields.items()}
        log_probs = model(ids.to(options.device), logits_to_keep=most, **fields).logits.float().log_softmax(-1)
        for row, i in enumerate(some):
            whole, count = pairs[i]
            rows = log_probs[row, most - count:]
            found[i] = rows.gather(1, torch.tensor(whole[-count:], device=options.device)[:, None]).sum().item()
    return time.perf_counter() - begun, found


def check(found, expected):
    if options.device == "cpu":
        worst = max(abs(a - b) for a, b in zip(found, expected))
        assert worst < 1e-3, f"log-likelihoods are {worst} apart"
    else:
        means = statistics.mean(found), statistics.mean(expected)
        assert abs(means[0] / means[1] - 1) < 1e-2, f"log-likelihoods' means are {means}"


def main():
    with open(options.lambada) as lines:
        passages = [json.loads(line)["text"] for line, _ in zip(lines, range(options.passages))]
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        model, tokenizer = make_model(scratch / "gpt2")
        pairs = list(pairs_of(tokenizer, passages))
        run_peer(model, pairs[:8], 8)  # not counted, as what mt does first is not
        ours, theirs = [], []
        for _ in range(options.rounds):
            start, _ = run_mt(scratch / "gpt2", passages[:1], scratch)
            whole, found = run_mt(scratch / "gpt2", passages, scratch)
            ours.append(whole - start)
            print(json.dumps({"what": "mt-eval", "passages": len(passages), "whole_seconds": round(whole, 2), "seconds": round(ours[-1], 2)}), flush=True)
            fastest = None
            for batch in map(int, options.peer_batches.split(",")):
                seconds, expected = run_peer(model, pairs, batch)
                print(json.dumps({"what": "transformers", "batch": batch, "seconds": round(seconds, 2)}), flush=True)
                fastest = min(seconds, fastest or seconds)
                assert len(found) == len(expected)
                check(found, expected)
            theirs.append(fastest)
        mine, peer = statistics.median(ours), statistics.median(theirs)
        print(json.dumps({"mt_seconds": round(mine, 2), "transformers_seconds": round(peer, 2), "speed": round(peer / mine, 3)}))


main()
