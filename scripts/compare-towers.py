#!/usr/bin/env python3
"""Compares the losses of mt-finetune ict and orqa over twenty steps with those of transformers' BERT, on scripts/make-topics' texts.

Both begin as the same BERT, a folder that transformers writes, with which --bert-load begins both towers.  transformers
learns with Megatron-LM's loss (core_v0.12.1, pretrain_ict.py and tasks/orqa/supervised/finetune.py): log-softmax of the
products of each query with the contexts of the whole step, and torch's AdamW after Megatron's rules of decay and clipping.
Samples of ict are those that mt-preprocess samples prints, in their order; questions of orqa come in the order of torch's
randperm, each with two passages that do not answer it, shuffled by numpy's RandomState(seed + number of the sample).
mt-finetune learns on one rank and on two that have half of each batch; of two towers and of one for both; with a projection
in neither.  Losses, top-1 accuracies and gradient norms must be equal to a relative 1e-5, in float64; and what orqa says of
dev.json once twenty steps are done, the mean rank and top-1 of groups of eight questions among their passages, to 1e-9.

Needs from PyPI: torch, transformers, numpy (made with 2.15.0, 4.51.3 and 2.4.6), safetensors.

Run:  scripts/compare-towers.py build/release/cmd
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["MT_DEVICE"] = "cpu"
import numpy  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
STEPS, BATCH, LENGTH, LR, DECAY, HIDDEN, SEED = 20, 16, 48, 1e-3, 0.01, 32, 1234
NEGATIVES, TOGETHER, EPOCHS = 2, 8, 2  # of 10 steps each


def call(*command):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]}: exit code {run.returncode}: {run.stderr}")
    return run


def prepare(programs, folder):
    call(ROOT / "scripts/make-topics", folder / "topics", "--documents", 180)
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


COMMON = ["--seq-length", LENGTH, "--global-batch-size", BATCH, "--lr", LR, "--lr-decay-style", "constant",
          "--weight-decay", DECAY, "--eval-iters", 0, "--log-interval", 1, "--log-format", "json", "--dtype", "fp64",
          "--hidden-dropout", 0, "--attention-dropout", 0, "--adam-beta2", 0.999, "--threads", 1,
          "--retriever-report-topk-accuracies", 1, "--retriever-score-scaling"]


def learnt(run):
    steps = [json.loads(line) for line in run.stderr.splitlines() if '"event":"step"' in line]
    assert len(steps) == STEPS, run.stderr
    return [(s["loss"], s["top1_acc"], s["grad_norm"]) for s in steps]


def samples(programs, folder, words):
    """Of each sample the ids and masks of the query and of its contexts."""
    run = call(programs / "mt-preprocess", "samples", "--dataset", "ict", *data(folder), *words, "--seq-length", LENGTH,
               "--samples", STEPS * BATCH, "--count", STEPS * BATCH, "--json")
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    return [((s["query_tokens"], s["query_pad_mask"]), [(s["context_tokens"], s["context_pad_mask"])]) for s in lines]


class Texts:
    def __init__(self, folder):
        self.words = transformers.BertTokenizer(str(folder / "topics/vocab.txt"))

    def padded(self, ids):
        ids = [self.words.cls_token_id] + ids
        ids = ids[:LENGTH - 1] + [self.words.sep_token_id]
        return ids + [0] * (LENGTH - len(ids)), [1] * len(ids) + [0] * (LENGTH - len(ids))

    def ids(self, text):
        return self.words.convert_tokens_to_ids(self.words.tokenize(text))

    def question(self, row):
        return self.padded(self.ids(row["question"].removesuffix("?")))

    def passage(self, one):
        return self.padded(self.ids(one["title"]) + [self.words.sep_token_id] + self.ids(one["text"]))


def questions(folder, texts):
    """As samples(), of train.json; the run has as many epochs as twenty steps take."""
    rows = json.load(open(folder / "topics/train.json"))
    per_epoch = len(rows) // BATCH
    found = []
    for n in range(STEPS * BATCH):
        epoch, place = divmod(n, per_epoch * BATCH)
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(SEED + epoch))
        row = rows[order[place]]
        random = numpy.random.RandomState(SEED + n)
        others = []
        for name in ("hard_negative_ctxs", "negative_ctxs"):
            listed = list(row[name])
            for i in range(len(listed), 1, -1):
                j = random.randint(0, i)
                listed[i - 1], listed[j] = listed[j], listed[i - 1]
            others += listed
        passages = [row["positive_ctxs"][0]] + others[:NEGATIVES]
        found.append((texts.question(row), [texts.passage(p) for p in passages]))
    return found


def vectors(model, texts):
    ids, mask = torch.tensor([t[0] for t in texts]), torch.tensor([t[1] for t in texts])
    return model(ids, attention_mask=mask).last_hidden_state[:, 0]


def of_transformers(folder, found, shared):
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
        batch = found[step * BATCH:(step + 1) * BATCH]
        scores = vectors(query, [q for q, _ in batch]) @ vectors(context, [c for _, cs in batch for c in cs]).T / HIDDEN**0.5
        own = torch.arange(BATCH) * len(batch[0][1])
        loss = torch.nn.functional.nll_loss(torch.log_softmax(scores, 1), own)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(rows, 1.0, error_if_nonfinite=True)
        optimizer.step()
        results.append((loss.item(), 100 * (scores.argmax(1) == own).double().mean().item(), norm.item()))
    return results, query, context


def judged(folder, texts, query, context):
    """The mean rank and top-1 of dev.json's questions, in groups."""
    rows, ranks = json.load(open(folder / "topics/dev.json")), []
    for begin in range(0, len(rows), TOGETHER):
        group, passages, own = rows[begin:begin + TOGETHER], [], []
        for row in group:
            own.append(len(passages))
            passages += [row["positive_ctxs"][0]] + row["negative_ctxs"][:3] + row["hard_negative_ctxs"][:30]
        with torch.no_grad():
            scores = (vectors(query, [texts.question(row) for row in group])
                      @ vectors(context, [texts.passage(p) for p in passages]).T)
        ranks += [(s > s[o]).sum().item() for s, o in zip(scores, own)]
    return sum(ranks) / len(ranks), 100 * sum(r < 1 for r in ranks) / len(ranks)


def compare(what, got, expected):
    worst = max(abs(a - b) / max(abs(b), 1e-9) for g, e in zip(got, expected) for a, b in zip(g, e))
    print(f"{what}: loss {got[0][0]:.6f} to {got[-1][0]:.6f}, largest relative difference {worst:.2g}")
    return worst > 1e-5


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words = prepare(programs, folder)
        texts = Texts(folder)
        of_ict, of_orqa = samples(programs, folder, words), questions(folder, texts)
        for shared in (False, True):
            what = "one tower" if shared else "two towers"
            own = ["--biencoder-shared-query-context-model"] if shared else []
            expected, *_ = of_transformers(folder, of_ict, shared)
            expected_orqa, query, context = of_transformers(folder, of_orqa, shared)
            rank, top = judged(folder, texts, query, context)
            for ranks in (1, 2):
                layout = ["--ranks", ranks, "--micro-batch-size", BATCH // ranks]
                if ranks > 1:
                    layout += ["--use-distributed-optimizer", "--overlap-grad-reduce"]
                run = call(programs / "mt-finetune", "ict", *data(folder), *words, "--bert-load", folder / "bert", *COMMON,
                           "--train-iters", STEPS, *layout, *own)
                failed |= compare(f"ict, {what}, ranks {ranks}", learnt(run), expected)
                run = call(programs / "mt-finetune", "orqa", "--train-data", folder / "topics/train.json", "--valid-data",
                           folder / "topics/dev.json", *words, "--bert-load", folder / "bert", *COMMON, "--epochs", EPOCHS,
                           "--retriever-seq-length", LENGTH,
                           "--train-with-neg", "--train-hard-neg", NEGATIVES, "--val-av-rank-other-neg", 3,
                           "--eval-micro-batch-size", TOGETHER, *layout, *own)
                failed |= compare(f"orqa, {what}, ranks {ranks}", learnt(run), expected_orqa)
                told = [json.loads(line) for line in run.stderr.splitlines() if '"event":"epoch"' in line][-1]
                failed |= abs(told["mean_rank"] - rank) > 1e-9 or abs(told["top1_acc"] - top) > 1e-9
                print(f"  dev.json: rank {told['mean_rank']} and {rank}, top-1 {told['top1_acc']} and {top}")
    sys.exit(bool(failed))


main()
