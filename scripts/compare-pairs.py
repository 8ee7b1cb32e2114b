#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune sft of a T5 with those of transformers, on the CPU in float64.

The tiny T5 of testdata/models learns lines of testdata/post/pairs: sentences and their words from the last to the first.
transformers' T5ForConditionalGeneration gets the tokenizer's ids of prefix and source, and those of the target as labels;
losses are the means over all tokens of a batch's labels, of dft times what the model holds for likely, which has no gradient.  What transformers' T5 multiplies its queries and its decoder's
output with is in the weights here, so it learns these weights there, too.  Losses must agree to 1e-9, gradient norms to 1e-8.

Adapters of PEFT's on every linear layer but the output layer, plain and of DoRA, whose A and B are random numbers, learn the
same beside the frozen model, as PEFT has them.  What mt-finetune then saves must load in PEFT with the logits of what PEFT
trained, and the merged model, whose weights are of float32, in transformers: to 1e-5.

  --program PATH   also run mt-finetune, and compare
  --keep FOLDER    write the lines and transformers' numbers there: testdata/post/pairs is made so

Needs from PyPI: transformers, peft, tokenizers, torch (tried with 5.24.0, 0.21.2, 0.23.3, 2.15.0).
Run:  scripts/compare-pairs.py --program build/release/cmd/mt-finetune
      scripts/compare-pairs.py --keep testdata/post/pairs
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import peft
import tokenizers
import torch
import transformers
from torch.nn.utils.parametrize import register_parametrization
from transformers.models.t5.modeling_t5 import T5LayerNorm

TESTDATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
STEPS, BATCH, PREFIX = 20, 4, "turn it: "
OPTIONS = ["--seq-length", "48", "--decoder-seq-length", "40", "--micro-batch-size", "2", "--global-batch-size", str(BATCH),
           "--no-shuffle", "--valid-split", "0", "--lr", "1e-3", "--lr-decay-style", "constant", "--lr-warmup-fraction", "0",
           "--attention-dropout", "0", "--hidden-dropout", "0", "--train-iters", str(STEPS), "--dtype", "fp64", "--source-prefix",
           PREFIX, "--source-lang", "en", "--target-lang", "ne", "--json", "--quiet"]
# Of each the loss, and what an adapter is.
FORMS = {"t5": ("nll", None), "t5-dft": ("dft", None), "t5-lora": ("nll", {}), "t5-dora": ("nll", {"use_dora": True})}
WORDS = "the cat dog red ball has a big small sees and house tree runs Mia it".split()


def lines():
    choose = random.Random(7)
    for _ in range(STEPS * BATCH):
        words = [choose.choice(WORDS) for _ in range(choose.randint(2, 6))]
        yield {"translation": {"en": " ".join(words), "ne": " ".join(reversed(words))}}


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


class Times(torch.nn.Module):
    """A weight that is this many times what is learnt."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, learnt):
        return learnt * self.factor

    def right_inverse(self, weight):
        return weight / self.factor


def norm_in_double(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def make_adapter(base, settings, folder):
    torch.manual_seed(11)
    model = transformers.T5ForConditionalGeneration.from_pretrained(base)
    config = peft.LoraConfig(r=4, lora_alpha=8, task_type="SEQ_2_SEQ_LM", init_lora_weights=False,
                             target_modules="all-linear", **settings)
    peft.get_peft_model(model, config).save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "t5"}, indent=2, sort_keys=True))


def logits_of(model):
    ids = torch.arange(48).reshape(2, 24) * 5 % 97
    with torch.no_grad():
        return model.eval()(input_ids=ids, decoder_input_ids=ids.flip(1)).logits


def with_adapter(folder, adapter, dtype, **more):
    model = transformers.T5ForConditionalGeneration.from_pretrained(folder, dtype=dtype)
    return peft.PeftModel.from_pretrained(model, adapter, **more).to(dtype)


def model_of_transformers(folder, adapter):
    """The model, and the groups of what it learns."""
    # In whatever type the model is, these are in float32 there.
    torch.Tensor.float = lambda tensor: tensor
    T5LayerNorm.forward = norm_in_double
    if adapter:
        model = with_adapter(folder, adapter, torch.float64, is_trainable=True).train()
    else:
        model = transformers.T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float64).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0
    if adapter:
        return model, [{"params": [p for p in model.parameters() if p.requires_grad], "weight_decay": 0}]
    for name, module in model.named_modules():
        if name.endswith(".q"):
            register_parametrization(module, "weight", Times(model.config.d_kv ** -0.5))
    register_parametrization(model.decoder.final_layer_norm, "weight", Times(model.config.d_model ** 0.5))
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    return model, [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0}]


def steps_of_transformers(folder, model, groups, dft):
    words = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    pairs = [line["translation"] for line in lines()]
    for step in range(STEPS):
        batch = pairs[step * BATCH:(step + 1) * BATCH]
        sources = [words.encode(PREFIX + pair["en"]).ids for pair in batch]
        targets = [words.encode(pair["ne"]).ids for pair in batch]
        said = model(input_ids=padded(sources, 0), attention_mask=padded([[1] * len(ids) for ids in sources], 0),
                     labels=padded(targets, -100))
        labels = padded(targets, -100)
        loss = said.loss
        if dft:
            logs = said.logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0][labels >= 0]
            loss = -(logs.exp().detach() * logs).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for group in groups for p in group["params"]], 1.0)
        optimizer.step()
        hits = (said.logits.argmax(-1) == labels)[labels >= 0].double().mean()
        yield loss.item(), norm.item(), hits.item()


def steps_of_program(program, folder, data, loss, more):
    out = subprocess.run([program, "sft", "--load", folder, "--train-data", data, *OPTIONS, "--loss", loss, "--device", "cpu", *more],
                         check=True, capture_output=True, text=True).stdout
    events = (json.loads(line) for line in out.splitlines())
    return [(e["loss"], e["grad_norm"], e["token_accuracy"]) for e in events if e["event"] == "step"]


def logits_apart(program, folder, adapter, scratch, trained):
    """How far the saved adapter is from what PEFT trained, and the merged model from it."""
    subprocess.run([program, "merge", "--load", folder, "--adapter", adapter, "--save", scratch / "merged", "--dtype", "fp32",
                    "--force", "--quiet"], check=True)
    merged = transformers.T5ForConditionalGeneration.from_pretrained(scratch / "merged", dtype=torch.float64)
    saved = adapter / f"iter_{STEPS:07}"
    expected = logits_of(with_adapter(folder, saved, torch.float64))
    return [(logits_of(trained) - expected).abs().max().item(), (logits_of(merged) - expected).abs().max().item()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program")
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch, "t5")
        shutil.copytree(TESTDATA / "models/t5", folder)
        shutil.copyfile(TESTDATA / "huggingface/t5.json", folder / "tokenizer.json")
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer", "extra_ids": 3}')
        data = (args.keep or pathlib.Path(scratch)) / "pairs.jsonl"
        data.write_text("".join(json.dumps(line) + "\n" for line in lines()))
        failed = 0
        program = args.program and os.path.abspath(args.program)
        for name, (loss, settings) in FORMS.items():
            adapter = None
            if settings is not None:
                adapter = (args.keep or pathlib.Path(scratch)) / name
                shutil.rmtree(adapter, ignore_errors=True)
                make_adapter(folder, settings, adapter)
            model, groups = model_of_transformers(folder, adapter)
            expected = list(steps_of_transformers(folder, model, groups, loss == "dft"))
            if args.keep:
                head = f"# transformers {transformers.__version__}, torch {torch.__version__}: scripts/compare-pairs.py --keep\n"
                (args.keep / f"{name}.golden").write_text(
                    head + "# loss, gradient norm, token accuracy\n" + "".join("%.12g %.12g %.9g\n" % row for row in expected))
            if not args.program:
                continue
            save = pathlib.Path(scratch, f"{name}-save")
            got = steps_of_program(program, folder, data, loss, ["--adapter", adapter, "--save", save] if adapter else [])
            apart = [max(abs(a[i] - b[i]) for a, b in zip(expected, got, strict=True)) for i in range(3)]
            print(f"{name}: {STEPS} steps, losses {expected[0][0]:.4f} to {expected[-1][0]:.4f}; largest differences: losses "
                  f"{apart[0]:.1e}, norms {apart[1]:.1e}, token accuracy {apart[2]:.1e}")
            failed |= not (apart[0] <= 1e-9 and apart[1] <= 1e-8 and apart[2] <= 1e-6)
            if adapter:
                apart = logits_apart(program, folder, save, pathlib.Path(scratch), model)
                print(f"{name}: logits of the saved adapter {apart[0]:.1e}, of the merged model {apart[1]:.1e}")
                failed |= max(apart) > 1e-5
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
