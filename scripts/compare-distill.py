#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune distill with TRL's, on the CPU in float32.

Of the tiny Llama and Qwen3 of testdata/trl each learns from the other, the conversations of scripts/compare-trl.py: TRL's
SFTTrainer with the loss of its GKDTrainer (generalized_jsd_loss), the labels' cross-entropy beside it, and PyTorch's
cosine_similarity and mse_loss of the states that the heads read.  Losses must agree to 1e-5 and gradient norms to 1e-4.

  --program PATH   also run mt-finetune, and compare
  --keep FOLDER    write TRL's numbers there: testdata/trl/MODEL-distill.golden are made so

Needs from PyPI: trl, transformers, torch (tried with 1.16.0, 5.24.0, 2.15.0).
Run:  scripts/compare-distill.py --program build/release/cmd/mt-finetune
      scripts/compare-distill.py --keep testdata/trl
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch  # pylint: disable=wrong-import-position
import torch.nn.functional as F
import transformers
import trl
from datasets import Dataset
from trl.experimental.gkd import GKDTrainer
from trl_recording import arguments, in_order

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODELS = REPOSITORY / "testdata/trl"
STEPS, BATCH, LENGTH = 20, 4, 128
OPTIONS = ["--seq-length", str(LENGTH), "--micro-batch-size", "2", "--global-batch-size", str(BATCH), "--packing", "none",
           "--no-shuffle", "--valid-split", "0", "--lr", "1e-3", "--lr-decay-style", "constant", "--lr-warmup-fraction",
           "0", "--train-iters", str(STEPS), "--dtype", "fp32", "--device", "cpu"]
# What each name means: TRL's beta and temperature, the weight of the labels' loss, what is made of hidden states and its
# weight; and options.
RUNS = {"kl": ((0, 1, 0, None, 0), []),
        "reverse_kl": ((1, 1.5, 0, None, 0), ["--loss", "reverse_kl", "--kd-temperature", "1.5"]),
        "jsd": ((0.3, 2, 0, None, 0), ["--loss", "jsd", "--jsd-beta", "0.3", "--kd-temperature", "2"]),
        "cosine": ((0, 2, 0.5, "cosine", 0.3), ["--kd-temperature", "2", "--lm-loss-weight", "0.5", "--hidden-loss", "cosine",
                                                "--hidden-loss-weight", "0.3"]),
        "mse": ((0.5, 1, 0.25, "mse", 1), ["--loss", "jsd", "--lm-loss-weight", "0.25", "--hidden-loss", "mse"])}


class Distilling(in_order(trl.SFTTrainer)):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        beta, temperature, words, kind, share = self.rules
        labels = inputs.pop("labels")[:, 1:]
        own = model(**inputs, output_hidden_states=True)
        with torch.no_grad():
            its = self.teacher(**inputs, output_hidden_states=True)
        shifted = [out.logits[:, :-1] for out in (own, its)]
        count = (labels != -100).sum()
        distance = GKDTrainer.generalized_jsd_loss(*shifted, labels=labels, beta=beta, temperature=temperature,
                                                   num_items_in_batch=count)
        nll = F.cross_entropy(shifted[0].flatten(0, 1), labels.flatten(), ignore_index=-100)
        learnt = labels != -100
        states = [out.hidden_states[-1][:, :-1][learnt] for out in (own, its)]
        apart = 1 - F.cosine_similarity(*states, dim=-1).mean() if kind == "cosine" else F.mse_loss(*states)
        told = [distance.item(), nll.item(), apart.item() if kind else 0.0]
        total = distance + words * nll + (share * apart if kind else 0)
        self.told.append(told)
        return (total, own) if return_outputs else total


def conversations():
    return [json.loads(line) for line in open(MODELS / "conversations.jsonl", encoding="utf-8")]


def load(kind):
    return transformers.AutoModelForCausalLM.from_pretrained(MODELS / kind, dtype=torch.float32)


def by_trl(kind, teacher, scratch, rules):
    config = trl.SFTConfig(
        output_dir=scratch, per_device_train_batch_size=BATCH, max_steps=STEPS, max_length=LENGTH, learning_rate=1e-3,
        lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
        adam_epsilon=1e-8, max_grad_norm=1.0, packing=False, assistant_only_loss=True, logging_steps=1,
        save_strategy="no", report_to=[], use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True)
    trainer = Distilling(model=load(kind), args=config, processing_class=transformers.AutoTokenizer.from_pretrained(MODELS / kind),
                         train_dataset=Dataset.from_list(conversations()))
    trainer.losses, trainer.told, trainer.rules, trainer.teacher = [], [], rules, load(teacher).eval()
    trainer.train()
    norms = [float(entry["grad_norm"]) for entry in trainer.state.log_history if "grad_norm" in entry]
    return [[*told, norm] for told, norm in zip(trainer.told, norms, strict=True)]


def by_program(program, kind, teacher, options):
    run = subprocess.run([program, "distill", "--load", str(MODELS / kind), "--teacher", str(MODELS / teacher),
                          "--train-data", str(MODELS / "conversations.jsonl"), "--json", "--quiet", *options, *OPTIONS],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    return [[e["loss"], e["lm_loss"], e.get("hidden_loss", 0.0), e["grad_norm"]] for e in steps]


def main():
    args = arguments(__doc__)
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or top)
        for kind, teacher in (("llama", "qwen3"), ("qwen3", "llama")):
            golden = [f"# scripts/compare-distill.py; trl {trl.__version__}, transformers {transformers.__version__}, torch "
                      f"{torch.__version__}: distances, the labels' losses, hidden losses, gradient norms"]
            for name, (rules, options) in RUNS.items():
                expected = by_trl(kind, teacher, f"{top}/{kind}-{name}", rules)
                golden += [name + "".join(f" {x:.8f}" for x in step) for step in expected]
                if not args.program:
                    continue
                got = by_program(args.program, kind, teacher, options)
                apart = [max(abs(a[i] - b[i]) for a, b in zip(got, expected, strict=True)) for i in range(4)]
                print(f"{kind}, {name}: {STEPS} steps, distances {expected[0][0]:.4f} to {expected[-1][0]:.4f}; largest "
                      f"differences: losses {max(apart[:3]):.1e}, norm {apart[3]:.1e}", flush=True)
                differs |= max(apart[:3]) > 1e-5 or apart[3] > 1e-4
            (keep / f"{kind}-distill.golden").write_text("\n".join(golden) + "\n", encoding="ascii")
    sys.exit(differs)


if __name__ == "__main__":
    main()
