#!/usr/bin/env python3
"""Compares mt-finetune's losses over twenty steps with transformers', or makes the goldens of a test of them.

Small sets of scripts/make-labelled are learnt by tiny models with initial weights that mt-convert makes: Megatron-BERT
for multiple choice (RACE) and for sequence classification (MNLI; and classify with labels, numbers and lists), a Llama
and a GPT-2 for sequence classification.  transformers learns the same in the order that PyTorch's DistributedSampler
gives, with texts put together as Megatron-LM's tasks/data_utils.py does it, by torch's AdamW after Megatron's rules of
decay and clipping.  Losses must be equal to a relative 1e-5, and gradient norms to a
relative 1e-4.

Needs from PyPI: torch, transformers (made with 2.15.0 and 4.51.3), safetensors.

Run:  scripts/make-label-goldens.py build/release/cmd            # compare
      scripts/make-label-goldens.py build/release/cmd --write    # and write testdata/post/labels
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["MT_DEVICE"] = "cpu"
import torch  # noqa: E402
import transformers  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
SEED, STEPS, BATCH, LENGTH, LR, DECAY = 1234, 20, 8, 24, 1e-3, 0.01
BERT = dict(model_type="megatron-bert", vocab_size=35, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=LENGTH, type_vocab_size=2, hidden_dropout_prob=0,
            attention_probs_dropout_prob=0, hidden_act="gelu", layer_norm_eps=1e-5, initializer_range=0.2)
LLAMA = dict(model_type="llama", vocab_size=35, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, intermediate_size=64, max_position_embeddings=LENGTH, pad_token_id=0,
             bos_token_id=5, eos_token_id=6, initializer_range=0.2)
GPT2 = dict(model_type="gpt2", vocab_size=35, n_embd=32, n_layer=2, n_head=2, n_positions=LENGTH, pad_token_id=0,
            bos_token_id=5, eos_token_id=6, embd_pdrop=0, attn_pdrop=0, resid_pdrop=0, initializer_range=0.2)
MNLI = ["contradiction", "entailment", "neutral"]


def labels(n):
    return {"id2label": {str(i): f"LABEL_{i}" for i in range(n)}, "label2id": {f"LABEL_{i}": i for i in range(n)}}


def config_of(settings, architecture):
    return json.dumps(settings | {"architectures": [architecture], "torch_dtype": "float32"}) + "\n"


# name: verb, settings of the model, its class, and what is learnt
CASES = {
    "race": ("race", BERT, "MegatronBertForMultipleChoice", "RACE/train/middle"),
    "mnli": ("mnli", BERT | labels(3), "MegatronBertForSequenceClassification", "MNLI/train.tsv"),
    "numbers": ("classify", BERT | labels(1), "MegatronBertForSequenceClassification", "classify/numbers.jsonl"),
    "lists": ("classify", BERT | labels(3), "MegatronBertForSequenceClassification", "classify/lists.jsonl"),
    "llama": ("classify", LLAMA | labels(2), "LlamaForSequenceClassification", "classify/train.jsonl"),
    "gpt2": ("classify", GPT2 | labels(2), "GPT2ForSequenceClassification", "classify/train.jsonl"),
}


def clean(text):
    text = " ".join(text.split()) if text.split() else ""
    for _ in range(3):
        text = text.replace(" . ", ". ")
    return text


def texts_of(case, folder):
    """Of each sample its choices, pairs of texts, and its label."""
    verb, _, _, files = CASES[case]
    if verb == "race":
        samples = []
        for name in sorted((folder / files).glob("*.txt")):
            for line in open(name):
                data = json.loads(line)
                for question, options, answer in zip(data["questions"], data["options"], data["answers"]):
                    pairs = [(clean(question.replace("_", option) if "_" in question else f"{question} {option}"),
                              clean(data["article"])) for option in options]
                    samples.append((pairs, "ABCD".index(answer)))
        return samples
    if verb == "mnli":
        rows = list(csv.reader(open(folder / files), delimiter="\t"))[1:]
        return [([(clean(row[8]), clean(row[9]))], MNLI.index(row[-1])) for row in rows]
    lines = [json.loads(line) for line in open(folder / files)]
    if case == "numbers":
        return [([(line["text"], None)], [line["label"]]) for line in lines]
    if case == "lists":
        return [([(line["text"], None)], [float(name in line["label"]) for name in ("ann", "cup", "warm")])
                for line in lines]
    return [([(line["text"], None)], ["cold", "warm"].index(line["label"])) for line in lines]


def tokens_of(words, bert, a, b):
    """build_tokens_types_paddings_from_ids() of tasks/data_utils.py; of a GPT the text alone."""
    def encode(text):
        return words.convert_tokens_to_ids(words.tokenize(text))
    cls, sep = words.cls_token_id, words.sep_token_id
    if not bert:
        ids = encode(a)[:LENGTH]
        return ids + [0] * (LENGTH - len(ids)), [0] * LENGTH, [1] * len(ids) + [0] * (LENGTH - len(ids))
    ids = [cls] + encode(a)[:128] + [sep]
    types = [0] * len(ids)
    if b is not None:
        ids += encode(b)
        types += [1] * (len(ids) - len(types))
    trimmed = len(ids) >= LENGTH
    if trimmed:
        ids, types = ids[:LENGTH - 1], types[:LENGTH - 1]
    if b is not None or trimmed:
        ids.append(sep)
        types.append(0 if b is None else 1)
    pad = LENGTH - len(ids)
    return ids + [0] * pad, types + [0] * pad, [1] * len(ids) + [0] * pad


def learn(model, batches, weighted):
    """Losses and gradient norms, with Megatron's clipping at 1 and its decay of matrices alone."""
    decays = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": DECAY}, {"params": others, "weight_decay": 0}],
                                  lr=LR, betas=(0.9, 0.999), eps=1e-8)
    results = []
    for batch in batches:
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        results.append((loss.item(), norm.item()))
    return results


def of_transformers(case, folder, model_folder):
    verb, settings, name, _ = CASES[case]
    bert = settings["model_type"] == "megatron-bert"
    words = transformers.BertTokenizer(str(folder / "vocab.txt"))
    model = getattr(transformers, name).from_pretrained(model_folder, torch_dtype=torch.float32)
    model = model.double().train()
    if case == "lists":
        model.config.problem_type = "multi_label_classification"
    samples = texts_of(case, folder)
    sampler = DistributedSampler(samples, num_replicas=1, rank=0, shuffle=True)
    batches, epoch = [], 0
    while len(batches) < STEPS:
        sampler.set_epoch(SEED + epoch)
        order = list(sampler)
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            rows = [samples[i] for i in order[begin:begin + BATCH]]
            made = [[tokens_of(words, bert, a, b) for a, b in pairs] for pairs, _ in rows]
            made = torch.tensor(made)  # [samples, choices, 3, LENGTH]
            choice = slice(None) if verb == "race" else 0
            label = torch.tensor([label for _, label in rows])
            if isinstance(rows[0][1], list):
                label = label.double()
            batch = dict(input_ids=made[:, choice, 0], labels=label)
            if bert:  # a GPT's tokens do not see the padding behind them
                batch |= dict(token_type_ids=made[:, choice, 1], attention_mask=made[:, choice, 2])
            batches.append(batch)
        epoch += 1
    return learn(model, batches[:STEPS], case)


def command(case, folder, model_folder, save):
    verb, _, _, files = CASES[case]
    return [verb, "--pretrained-checkpoint", str(model_folder), "--train-data", str(folder / files),
            "--tokenizer-type", "BertWordPieceLowerCase", "--vocab-file", str(folder / "vocab.txt"),
            "--seq-length", str(LENGTH), "--micro-batch-size", str(BATCH), "--epochs", "2", "--seed", str(SEED),
            "--lr", str(LR), "--lr-decay-style", "constant", "--weight-decay", str(DECAY), "--clip-grad", "1",
            "--attention-dropout", "0", "--hidden-dropout", "0", "--log-interval", "1",
            "--save", str(save)]


def of_ours(bin_folder, case, folder, model_folder, work):
    save = work / f"{case}-run"
    subprocess.run([bin_folder / "mt-finetune", *command(case, folder, model_folder, save), "--quiet"], check=True)
    steps = [json.loads(line) for line in open(save / "run.jsonl")]
    return [(step["loss"], step["grad_norm"]) for step in steps if step["event"] == "step"][:STEPS]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("cases", nargs="*", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    golden = [f"# scripts/make-label-goldens.py: transformers {transformers.__version__}, torch {torch.__version__}"]
    failed = False
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        folder = work / "sets"
        subprocess.run([ROOT / "scripts/make-labelled", folder, "--samples", "96"], check=True)
        for case in args.cases or CASES:
            _, settings, architecture, _ = CASES[case]
            conf = work / f"{case}-conf"
            conf.mkdir()
            (conf / "config.json").write_text(config_of(settings, architecture))
            model = work / f"{case}-model"
            subprocess.run([args.bin / "mt-convert", "--quiet", "--mock", "--saver", "hf", conf, model], check=True)
            theirs = of_transformers(case, folder, model)
            golden += [f"{case} {loss:.9f} {norm:.9f}" for loss, norm in theirs]
            ours = of_ours(args.bin, case, folder, model, work)
            loss = max(abs(a[0] - b[0]) / b[0] for a, b in zip(ours, theirs, strict=True))
            norm = max(abs(a[1] - b[1]) / b[1] for a, b in zip(ours, theirs, strict=True))
            good = loss < 1e-5 and norm < 1e-4
            failed |= not good
            print(f"{case:8} losses {theirs[0][0]:.6f} ... {theirs[-1][0]:.6f}, differences: "
                  f"losses {loss:.1e}, gradient norms {norm:.1e}{'' if good else '  TOO MUCH'}")
    if args.write:
        path = ROOT / "testdata/post/labels/steps.golden"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(golden) + "\n")
        for case, (_, settings, architecture, _) in CASES.items():
            (path.parent / f"{case}.json").write_text(config_of(settings, architecture))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
