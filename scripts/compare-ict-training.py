#!/usr/bin/env python3
"""Compares mt-finetune ict's losses over twenty steps with those of transformers' BERT, on a corpus of scripts/make-topics.

Both begin as the same BERT, a folder that transformers writes, with which --bert-load begins both towers.  transformers
learns the samples that mt-preprocess samples prints, in their order, with Megatron-LM's loss (core_v0.12.1,
pretrain_ict.py): log-softmax of the products of each query with the contexts of the whole step, and torch's AdamW
after Megatron's rules of decay and clipping.  mt-finetune does so on one rank and on two that have half of each batch; of
two towers and of one for both; with a projection in neither.  Losses, top-1 accuracies and gradient norms must be equal to
a relative 1e-5, in float64.

Needs from PyPI: torch, transformers (made with 2.15.0 and 4.51.3), safetensors.

Run:  scripts/compare-ict-training.py build/release/cmd
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["MT_DEVICE"] = "cpu"
import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, BATCH, LENGTH, LR, DECAY, HIDDEN = 20, 16, 48, 1e-3, 0.01, 32


def call(*command):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]}: exit code {run.returncode}: {run.stderr}")
    return run


def prepare(programs, folder):
    call(ROOT / "scripts/make-topics", folder / "topics", "--documents", 200)
    words = ["--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", folder / "topics/vocab.txt"]
    source = ["--quiet", "--input", folder / "topics/documents.jsonl"]
    call(programs / "mt-preprocess", *source, "--output-prefix", folder / "blocks", *words, "--split-sentences",
         "--lang", "en")
    call(programs / "mt-preprocess", *source, "--output-prefix", folder / "titles", "--json-keys", "title", *words)
    torch.manual_seed(1)
    vocabulary = (folder / "topics/vocab.txt").read_text().split("\n")[:-1]
    bert = transformers.MegatronBertForPreTraining(transformers.MegatronBertConfig(
        vocab_size=len(vocabulary), hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=4 * HIDDEN, max_position_embeddings=LENGTH, type_vocab_size=2, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, hidden_act="gelu", layer_norm_eps=1e-5, initializer_range=0.1))
    bert.save_pretrained(folder / "bert")
    return words


def data(folder):
    return ["--data-path", folder / "blocks_text_sentence", "--titles-data-path", folder / "titles_title_document",
            "--split", "1,0,0"]


def learnt(programs, folder, words, options):
    run = call(programs / "mt-finetune", "ict", *data(folder), *words, "--bert-load", folder / "bert", "--seq-length",
               LENGTH, "--global-batch-size", BATCH, "--train-iters", STEPS, "--lr", LR, "--lr-decay-style", "constant",
               "--weight-decay", DECAY, "--eval-iters", 0, "--log-interval", 1, "--log-format", "json", "--dtype",
               "fp64", "--hidden-dropout", 0, "--attention-dropout", 0, "--adam-beta2", 0.999, "--threads", 1,
               "--retriever-report-topk-accuracies", 1, "--retriever-score-scaling", *options)
    steps = [json.loads(line) for line in run.stderr.splitlines() if '"event":"step"' in line]
    assert len(steps) == STEPS, run.stderr
    return [(s["loss"], s["top1_acc"], s["grad_norm"]) for s in steps]


def samples(programs, folder, words):
    run = call(programs / "mt-preprocess", "samples", "--dataset", "ict", *data(folder), *words, "--seq-length", LENGTH,
               "--samples", STEPS * BATCH, "--count", STEPS * BATCH, "--json")
    return [json.loads(line) for line in run.stdout.splitlines()]


def of_transformers(folder, lines, shared):
    def tower():
        model = transformers.MegatronBertModel.from_pretrained(folder / "bert", add_pooling_layer=False)
        return model.double().eval()  # which has no dropout in any case

    query = tower()
    context = query if shared else tower()
    rows = list(query.parameters()) + ([] if shared else list(context.parameters()))
    optimizer = torch.optim.AdamW([{"params": [p for p in rows if p.dim() > 1], "weight_decay": DECAY},
                                   {"params": [p for p in rows if p.dim() == 1], "weight_decay": 0}],
                                  lr=LR, betas=(0.9, 0.999), eps=1e-8)
    results = []
    for step in range(STEPS):
        batch = lines[step * BATCH:(step + 1) * BATCH]

        def vectors(model, name):
            ids = torch.tensor([line[name + "_tokens"] for line in batch])
            mask = torch.tensor([line[name + "_pad_mask"] for line in batch])
            return model(ids, attention_mask=mask).last_hidden_state[:, 0]

        scores = vectors(query, "query") @ vectors(context, "context").T / HIDDEN**0.5
        own = torch.arange(BATCH)
        loss = torch.nn.functional.nll_loss(torch.log_softmax(scores, 1), own)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(rows, 1.0, error_if_nonfinite=True)
        optimizer.step()
        results.append((loss.item(), 100 * (scores.argmax(1) == own).double().mean().item(), norm.item()))
    return results


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words = prepare(programs, folder)
        lines = samples(programs, folder, words)
        for shared in (False, True):
            expected = of_transformers(folder, lines, shared)
            for ranks in (1, 2):
                options = ["--ranks", ranks, "--micro-batch-size", BATCH // ranks]
                if ranks > 1:
                    options += ["--use-distributed-optimizer", "--overlap-grad-reduce"]
                if shared:
                    options.append("--biencoder-shared-query-context-model")
                got = learnt(programs, folder, words, options)
                worst = max(abs(a - b) / max(abs(b), 1e-9) for g, e in zip(got, expected) for a, b in zip(g, e))
                failed |= worst > 1e-5
                print(f"{'one tower' if shared else 'two towers'}, ranks {ranks}: loss {got[0][0]:.6f} to "
                      f"{got[-1][0]:.6f}, largest relative difference {worst:.2g}")
    sys.exit(failed)


main()
