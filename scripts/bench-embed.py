#!/usr/bin/env python3
"""How many texts a second `mt-generate embed` embeds on a GPU with a BERT, beside compiled transformers with padding.

A BERT-large with random weights in bf16, saved by transformers (MegatronBertForPreTraining), and made-up texts of words drawn at random,
whose tokens number from --lengths' first to its second, each as likely.  mt: the whole command, from lines of text to a matrix of
means over tokens, without what it takes with the first 64 of them.  The peer: transformers' BertModel of the same size, which has
PyTorch's fused attention where MegatronBertModel has none, compiled as a whole; its token ids lie on the GPU already, padded to
the second length, 64 texts at a time, and its means stay there.

Prints a line for each in each round, then one JSON: medians of texts a second, the ratio, and how far the means of mt and of
MegatronBertModel are apart at most, by their cosines.

Needs from PyPI: torch, transformers, numpy.
Run:  scripts/bench-embed.py build/release/cmd [--texts 16384] [--lengths 64,512] [--rounds 2] [--tiny]
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

import numpy
import torch
import transformers

WORDS = 30522
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
FEW, BATCH = 64, 64


class Peer:
    def __init__(self, model, texts, longest, device):
        self.model, self.count = model.to(device).eval(), len(texts)
        self.ids = torch.zeros(-(-len(texts) // BATCH) * BATCH, longest, dtype=torch.long, device=device)
        self.mask = torch.zeros_like(self.ids)
        for i, text in enumerate(texts):
            self.ids[i, :len(text)] = torch.tensor(text, device=device)
            self.mask[i, :len(text)] = 1
        inner = self.mask.clone()  # [CLS] and [SEP] are none that are averaged
        inner[:, 0] = 0
        inner[torch.arange(len(texts)), torch.tensor([len(text) - 1 for text in texts])] = 0
        self.inner = inner.to(torch.bfloat16 if device == "cuda" else torch.float32)
        self.step = self.means

    def means(self, ids, mask, inner):
        states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        return torch.einsum("btc,bt->bc", states.float(), inner.float()) / inner.float().sum(1, keepdim=True)

    def compile(self):
        self.step = torch.compile(self.means)
        self.run(FEW)

    @torch.no_grad()
    def run(self, count=None):
        rows = range(0, count or len(self.ids), BATCH)
        found = [self.step(*(x[i:i + BATCH] for x in (self.ids, self.mask, self.inner))) for i in rows]
        return torch.cat(found)[:count or self.count].cpu()


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path, help="the folder with the programs")
    parser.add_argument("--texts", type=int, default=16384)
    parser.add_argument("--lengths", default="64,512")
    parser.add_argument("--batch", type=int, default=32, help="mt's --micro-batch-size")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="a small model on the CPU in f32, which tells of no speed")
    args = parser.parse_args()
    device, dtype = ("cpu", "fp32") if args.tiny else ("cuda", "bf16")
    low, high = map(int, args.lengths.split(","))
    draw = random.Random(1)
    torch.manual_seed(1)
    texts = [[draw.randrange(6, WORDS) for _ in range(draw.randint(low, high) - 2)] for _ in range(args.texts)]
    sizes = {"vocab_size": WORDS, "max_position_embeddings": high} | (TINY if args.tiny else LARGE)
    model = transformers.MegatronBertForPreTraining(transformers.MegatronBertConfig(**sizes))
    other = transformers.BertModel(transformers.BertConfig(attn_implementation="sdpa", **sizes))
    if not args.tiny:
        model, other = model.bfloat16(), other.bfloat16()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.save_pretrained(folder / "bert")
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."] + [f"w{k}" for k in range(6, WORDS)]
        (folder / "vocab.txt").write_text("\n".join(names) + "\n")
        lines = [" ".join(names[word] for word in text) + "\n" for text in texts]
        (folder / "all.txt").write_text("".join(lines))
        (folder / "few.txt").write_text("".join(lines[:FEW]))

        def mt(name):
            subprocess.run([args.programs / "mt-generate", "embed", "--load", folder / "bert", "--device", device, "--dtype", dtype, "--quiet",
                            "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", folder / "vocab.txt",
                            "--micro-batch-size", str(args.batch), "--output", folder / "found.npy", "--force", folder / name], check=True)

        ids = [[2, *text, 3] for text in texts]
        theirs = Peer(model.bert, ids[:FEW], high, device).run().numpy()
        peer = Peer(other, ids, high, device)
        peer.compile()
        found = {"mt": [], "transformers": []}
        for _ in range(args.rounds):
            start, whole = seconds(lambda: mt("few.txt")), seconds(lambda: mt("all.txt"))
            found["mt"].append((args.texts - FEW) / (whole - start))
            print(f"mt: {whole:.3f} s, start {start:.3f} s: {found['mt'][-1]:.0f} texts/s", flush=True)
            found["transformers"].append(args.texts / seconds(peer.run))
            print(f"transformers: {found['transformers'][-1]:.0f} texts/s", flush=True)
        ours = numpy.load(folder / "found.npy")[:FEW]
        cosines = (ours * theirs).sum(1) / numpy.linalg.norm(ours, axis=1) / numpy.linalg.norm(theirs, axis=1)
    rates = {way: statistics.median(of) for way, of in found.items()}
    print(json.dumps({"texts": args.texts, "lengths": args.lengths, **rates, "ratio": rates["mt"] / rates["transformers"],
                      "apart": float(1 - cosines.min())}))


if __name__ == "__main__":
    main()
