#!/usr/bin/env python3
"""Time a training step of mt-pretrain beside the same GPT in PyTorch, in turn, on the same cores.

Both train the model of mt-performance(7)'s table (4 layers, 128 wide, 4 heads, sequence 64, batch 12, Adam,
fp32, no dropout) on the same token file, whose ids PyTorch reads raw.  PyTorch runs eagerly and compiled,
with scaled_dot_product_attention and its fused AdamW.

Needs from PyPI: torch, numpy.
Run:  scripts/compare-training.py build/release/cmd/mt-pretrain PREFIX [--rounds 3] [--steps 200] [--threads 2]
"""
import argparse
import json
import statistics
import subprocess
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, SEQ, BATCH, VOCAB = 4, 128, 4, 64, 12, 384


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.fc1, self.fc2 = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, HEADS, h // HEADS).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(h, 2))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(o.transpose(1, 2).reshape(b, s, h))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(HIDDEN)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, labels):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        logits = F.linear(self.norm(self.blocks(x)), self.words.weight)
        return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1))


def torch_ms(ids, steps, compiled):
    torch.manual_seed(0)
    model = Gpt()
    run = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    times = []
    for step in range(steps + 20):
        at = np.random.default_rng(step).integers(0, len(ids) - SEQ - 1, BATCH)
        x = torch.from_numpy(np.stack([ids[i : i + SEQ] for i in at]).astype(np.int64))
        y = torch.from_numpy(np.stack([ids[i + 1 : i + SEQ + 1] for i in at]).astype(np.int64))
        start = time.perf_counter()
        loss = run(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times[20:])


def mt_ms(program, prefix, steps, threads):
    flags = f"--num-layers {LAYERS} --hidden-size {HIDDEN} --num-attention-heads {HEADS} --seq-length {SEQ} " \
        f"--max-position-embeddings {SEQ} --micro-batch-size {BATCH} --train-iters {steps + 20} --lr 1e-3 " \
        "--lr-decay-style constant --adam-beta2 0.99 --weight-decay 0.1 --hidden-dropout 0 --attention-dropout 0 " \
        f"--split 90,10,0 --eval-iters 0 --threads {threads} --json --quiet --vocab-size {VOCAB}"
    out = subprocess.run([program, "--device", "cpu", "--data-path", prefix, *flags.split()], check=True,
                         capture_output=True, text=True)
    steps = [json.loads(line) for line in out.stdout.splitlines()]
    return 1000 * statistics.median([s["step_seconds"] for s in steps if s["event"] == "step"][20:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("prefix")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    ids = np.fromfile(args.prefix + ".bin", dtype=np.uint16)
    for _ in range(args.rounds):
        print(json.dumps({"mt_ms": mt_ms(args.program, args.prefix, args.steps, args.threads),
                          "torch_ms": torch_ms(ids, args.steps, False),
                          "torch_compiled_ms": torch_ms(ids, args.steps, True),
                          "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
