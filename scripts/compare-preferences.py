#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune dpo and reward with those of TRL's trainers, on the CPU in float32.

The tiny Llama and Qwen3 of testdata/trl learn 80 preferences, or single texts that are wanted or not, four a step, in
order, with a constant learning rate, by every loss: DPOTrainer, KTOTrainer, RewardTrainer, and of TRL's experimental
part CPOTrainer (SimPO) and ORPOTrainer; and by an adapter of PEFT's.  Losses must agree to 1e-5 and gradient norms to
1e-4, relative to what is greater than 1; rewards and accuracies are compared, too.

ORPOTrainer takes the likelihood of the prompt, too, and its mean over a batch's tokens; here the completion's own, as
in the paper's equation 6: the class below replaces that one number.

  --program PATH   also run mt-finetune, and compare
  --keep FOLDER    write preferences.jsonl, judged.jsonl, reward models and TRL's numbers there: testdata/trl is made so
  --only LOSS      of the losses only this one

Needs from PyPI: trl, peft, transformers, torch (tried with 1.16.0, 0.21.2, 5.24.0, 2.15.0).
Run:  scripts/compare-preferences.py --program build/release/cmd/mt-finetune
      scripts/compare-preferences.py --keep testdata/trl
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import peft  # pylint: disable=wrong-import-position
import torch  # pylint: disable=wrong-import-position
import transformers
import trl
from datasets import Dataset
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer
from trl_recording import arguments, in_order

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODELS = REPOSITORY / "testdata/trl"
STEPS, BATCH, LENGTH = 20, 4, 128
PADDING = 0  # of reward models; were it the token that ends a text, they would be asked of the one before it
OPTIONS = ["--seq-length", str(LENGTH), "--micro-batch-size", str(BATCH), "--global-batch-size", str(BATCH),
           "--no-shuffle", "--valid-split", "0", "--lr", "1e-3", "--lr-decay-style", "constant", "--lr-warmup-fraction",
           "0", "--train-iters", str(STEPS), "--dtype", "fp32", "--device", "cpu"]
COMMON = dict(per_device_train_batch_size=BATCH, max_steps=STEPS, max_length=LENGTH, learning_rate=1e-3,
              lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.1, adam_beta1=0.9, adam_beta2=0.95,
              adam_epsilon=1e-8, max_grad_norm=1.0, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True,
              bf16=False, gradient_checkpointing=False, disable_tqdm=True, remove_unused_columns=False)
# What --loss is told, further options, and TRL's settings for the same.
DPO = {"dpo": ([], dict(loss_type=["sigmoid"])), "hinge": ([], dict(loss_type=["hinge"])),
       "ipo": ([], dict(loss_type=["ipo"])),
       "robust": (["--preference-smoothing", "0.1"], dict(loss_type=["robust"], label_smoothing=0.1)),
       "exo_pair": (["--preference-smoothing", "0.1"], dict(loss_type=["exo_pair"], label_smoothing=0.1)),
       "nca_pair": ([], dict(loss_type=["nca_pair"])), "bco_pair": ([], dict(loss_type=["bco_pair"])),
       "sppo_hard": ([], dict(loss_type=["sppo_hard"])), "apo_zero": ([], dict(loss_type=["apo_zero"])),
       "apo_down": ([], dict(loss_type=["apo_down"])), "sigmoid_norm": ([], dict(loss_type=["sigmoid_norm"])),
       "discopop": ([], dict(loss_type=["discopop"])),
       "dpo=1,hinge=0.5": (["--f-divergence", "js_divergence"],
                           dict(loss_type=["sigmoid", "hinge"], loss_weights=[1.0, 0.5],
                                f_divergence_type="js_divergence"))}
SINGLE = {"kto": dict(loss_type="kto"), "apo_zero_unpaired": dict(loss_type="apo_zero_unpaired")}
# By an adapter, of a model that has one already: what it begins with is the reference.
ADAPTED = {"dpo-lora": "llama-lora", "reward-lora": "llama-reward-lora"}
LOSSES = [*DPO, *SINGLE, "simpo", "orpo", "reward", *ADAPTED]


def preferences():
    stories = [json.loads(line)["text"].split(". ") for line in open(REPOSITORY / "testdata/stories/stories.jsonl")]
    choose = random.Random(2)
    sentence = lambda: choose.choice(choose.choice(stories))[:choose.randint(8, 24)].strip()
    for i in range(STEPS * BATCH):
        line = {"prompt": choose.choice(["Who?\n", "What then?\n", "And?\n"]), "chosen": sentence(),
                "rejected": sentence()}
        while line["rejected"] == line["chosen"]:
            line["rejected"] = sentence()
        yield {**line, "margin": round(choose.random(), 2)}


def judged():
    for i, line in enumerate(preferences()):
        wanted = i % 3 != 1
        yield {"prompt": line["prompt"], "completion": line["chosen" if wanted else "rejected"], "label": wanted}


class PaperOrpo(ORPOTrainer):
    def concatenated_forward(self, model, batch):
        chosen, rejected, *rest = super().concatenated_forward(model, batch)
        return (chosen, rejected, rest[0], rest[1], -chosen.mean())


def make_reward_folder(kind, folder):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(MODELS / kind, num_labels=1,
                                                                            dtype=torch.float32)
    torch.manual_seed(3)
    torch.nn.init.normal_(model.score.weight, std=0.1)
    model.config.pad_token_id = PADDING
    model.to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_bytes((MODELS / kind / name).read_bytes())


def make_reward_adapter(base, folder):
    torch.manual_seed(11)
    modules = [f"{name}_proj" for name in ("down", "gate", "k", "o", "q", "up", "v")]
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=modules, task_type="SEQ_CLS", init_lora_weights=False)
    peft.get_peft_model(transformers.AutoModelForSequenceClassification.from_pretrained(base, dtype=torch.float32),
                        config).save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    path = folder / "adapter_config.json"
    config = json.loads(path.read_text()) | {"base_model_name_or_path": base.name, "target_modules": modules}
    path.write_text(json.dumps(config, indent=2, sort_keys=True))


def by_trl(loss, folder, scratch):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    is_reward = loss.startswith("reward")
    as_model = transformers.AutoModelForSequenceClassification if is_reward else transformers.AutoModelForCausalLM
    model = as_model.from_pretrained(folder, dtype=torch.float32)
    if loss in ADAPTED:
        model = peft.PeftModel.from_pretrained(model, str(MODELS / ADAPTED[loss]), is_trainable=True)
    lines = list(judged() if loss in SINGLE else preferences())
    common = dict(output_dir=scratch, **COMMON)
    if loss in ("simpo", "orpo"):
        tokenizer.bos_token = None  # which these put before a prompt that has none
    if not is_reward:
        lines = [{k: v for k, v in line.items() if k != "margin"} for line in lines]
    if loss in DPO or loss == "dpo-lora":
        trainer, config = trl.DPOTrainer, trl.DPOConfig(beta=0.1, **common, **DPO.get(loss, ([], {}))[1])
    elif loss in SINGLE:
        trainer, config = trl.KTOTrainer, trl.KTOConfig(beta=0.1, **common, **SINGLE[loss])
    elif loss == "simpo":
        trainer = CPOTrainer
        config = CPOConfig(loss_type="simpo", beta=2.0, simpo_gamma=0.5, cpo_alpha=0.0, **common)
    elif loss == "orpo":
        trainer, config = PaperOrpo, ORPOConfig(beta=0.1, **common)
    else:
        trainer, config = trl.RewardTrainer, trl.RewardConfig(**common)
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(PADDING)
    trainer = in_order(trainer)(model=model, args=config, processing_class=tokenizer,
                                train_dataset=Dataset.from_list(lines))
    trainer.losses = []
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    rewards = lambda entry: [entry.get(name, 0.0) for name in (
        ("accuracy", "margin") if is_reward else ("rewards/chosen", "rewards/rejected"))]
    return [[value, float(entry["grad_norm"]), *map(float, rewards(entry))]
            for value, entry in zip(trainer.losses, logs, strict=True)]


def options_of(loss):
    if loss == "reward":
        return ["reward"]
    if loss in ADAPTED:
        return [loss.removesuffix("-lora"), "--adapter", str(MODELS / ADAPTED[loss]), "--weight-decay", "0.1"]
    more = DPO[loss][0] if loss in DPO else []
    return ["dpo", "--loss", loss, *more]


def by_program(program, loss, folder, lines):
    verb, *more = options_of(loss)
    run = subprocess.run([program, verb, "--load", folder, "--train-data", lines, "--json", "--quiet", *more, *OPTIONS],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    told = ("rewards_accuracies", "rewards_margins") if loss.startswith("reward") else ("rewards_chosen", "rewards_rejected")
    return [[e["loss"], e["grad_norm"], *(e[name] for name in told)] for e in steps]


def main():
    args = arguments(__doc__, only={"choices": LOSSES})
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or f"{top}/keep")
        os.makedirs(keep, exist_ok=True)
        for name, lines in (("preferences", preferences()), ("judged", judged())):
            (keep / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        for kind in ("llama", "qwen3"):
            make_reward_folder(kind, keep / f"{kind}-reward")
            if kind == "llama":
                make_reward_adapter(keep / "llama-reward", keep / "llama-reward-lora")
            golden = [f"# scripts/compare-preferences.py; trl {trl.__version__}, transformers "
                      f"{transformers.__version__}, torch {torch.__version__}: loss, gradient norm, rewards of chosen "
                      "and rejected; of reward, accuracy and margin"]
            for loss in [args.only] if args.only else LOSSES:
                if loss in ADAPTED and kind != "llama":
                    continue
                folder = str(keep / f"{kind}-reward" if loss.startswith("reward") else MODELS / kind)
                lines = str(keep / ("judged.jsonl" if loss in SINGLE else "preferences.jsonl"))
                expected = by_trl(loss, folder, f"{top}/{kind}")
                golden += [loss + "".join(f" {x:.7f}" for x in step) for step in expected]
                if not args.program:
                    continue
                got = by_program(args.program, loss, folder, lines)
                apart = [max(abs(a[i] - b[i]) / max(1, abs(b[i])) for a, b in zip(got, expected, strict=True))
                         for i in range(4)]
                print(f"{kind} {loss}: {STEPS} steps, losses {expected[0][0]:.4f} to {expected[-1][0]:.4f}; largest "
                      f"differences: loss {apart[0]:.1e}, norm {apart[1]:.1e}, rewards {apart[2]:.1e} {apart[3]:.1e}",
                      flush=True)
                differs |= apart[0] > 1e-5 or max(apart[1:]) > 1e-4
            if not args.only:
                (keep / f"{kind}-preferences.golden").write_text("\n".join(golden) + "\n")
    sys.exit(differs)


if __name__ == "__main__":
    main()
