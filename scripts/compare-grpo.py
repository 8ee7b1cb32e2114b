#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune grpo with those of TRL's GRPOTrainer and RLOOTrainer, on the CPU in float32.

The Llama and the Qwen3 of testdata/trl learn from 160 stored rollouts, two groups of four a step, in order, with a
constant learning rate, by every loss.  The rollouts were written by nobody: texts of testdata/stories with rewards by
chance, some without one, and log-probabilities of a model that is near the one that learns, so that ratios are clipped.
TRL is given them in the place of what it would generate, in their order where several steps share them.  What TRL has
not, REINFORCE++'s advantages and NeMo RL's divergences, is written down here in PyTorch, in the place of TRL's loss.  Losses and
gradient norms must agree to 1e-4, relative to what is greater than 1; the divergence and the share of tokens that were
clipped are compared, too.  So is, to 1e-5, what the reward model of testdata/trl says of texts that mt-finetune draws.

  --program PATH   also run mt-finetune, and compare
  --keep FOLDER    write rollouts.jsonl, TRL's numbers and what the reward model says of some texts there: testdata/trl is
                   made so, whose rollouts are taken without it
  --only LOSS      of the losses only this one

Needs from PyPI: trl, transformers, torch (tried with 1.16.0, 5.24.0, 2.15.0).
Run:  scripts/compare-grpo.py --program build/release/cmd/mt-finetune
      scripts/compare-grpo.py --keep testdata/trl
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import torch  # pylint: disable=wrong-import-position
import transformers
import trl
import trl.trainer.grpo_trainer
import trl.trainer.rloo_trainer
from datasets import Dataset
from trl_recording import arguments, in_order

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
MODELS = REPOSITORY / "testdata/trl"
STEPS, BATCH, GROUP, LENGTH, LONGEST = 20, 8, 4, 64, 24
OPTIONS = ["--seq-length", str(LENGTH), "--micro-batch-size", str(BATCH), "--global-batch-size", str(BATCH),
           "--num-generations", str(GROUP), "--lr", "1e-3", "--lr-decay-style", "constant", "--lr-warmup-fraction", "0",
           "--train-iters", str(STEPS), "--dtype", "fp32", "--device", "cpu"]
COMMON = dict(per_device_train_batch_size=BATCH, num_generations=GROUP, max_steps=STEPS, max_completion_length=LONGEST,
              learning_rate=1e-3, lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.1, adam_beta1=0.9,
              adam_beta2=0.95, adam_epsilon=1e-8, max_grad_norm=1.0, logging_steps=1, save_strategy="no", report_to=[],
              use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True)
# What mt-finetune is told, and TRL's settings for the same.
CASES = {
    "grpo": (["--loss", "grpo"], dict(loss_type="grpo")),
    "bnpo": (["--loss", "bnpo", "--scale-rewards", "none"], dict(loss_type="bnpo", scale_rewards="none")),
    "dapo": (["--clip-high", "0.28"], dict(loss_type="dapo", epsilon_high=0.28)),
    "dr_grpo": (["--loss", "dr_grpo", "--max-completion-length", str(LONGEST), "--scale-rewards", "batch"],
                dict(loss_type="dr_grpo", scale_rewards="batch")),
    "luspo": (["--loss", "luspo", "--importance-sampling-level", "sequence"],
              dict(loss_type="luspo", importance_sampling_level="sequence")),
    "cispo": (["--loss", "cispo", "--clip-high", "1.1"], dict(loss_type="cispo", epsilon_high=1.1)),
    "sapo": (["--loss", "sapo"], dict(loss_type="sapo")),
    "vespo": (["--loss", "vespo"], dict(loss_type="vespo")),
    "gspo": (["--loss", "grpo", "--importance-sampling-level", "sequence", "--beta", "0.1"],
             dict(loss_type="grpo", importance_sampling_level="sequence", beta=0.1)),
    "beta": (["--beta", "0.1", "--clip-delta", "1.15"], dict(loss_type="dapo", beta=0.1, delta=1.15)),
    "passes": (["--loss", "grpo", "--num-iterations", "2", "--steps-per-generation", "2"],
               dict(loss_type="grpo", num_iterations=2, steps_per_generation=2)),
    "twice": (["--num-iterations", "2"], dict(loss_type="dapo", num_iterations=2)),
    "temperature": (["--temperature", "0.7", "--beta", "0.1", "--num-iterations", "2"],
                    dict(loss_type="dapo", temperature=0.7, beta=0.1, num_iterations=2)),
    "kl": (["--beta", "0.1", "--kl-weight", "none"], dict(loss_type="dapo", beta=0.1, use_bias_correction_kl=False)),
    "rloo": (["--loss", "grpo", "--importance-sampling-level", "product", "--leave-one-out", "--scale-rewards", "none", "--beta",
              "0.05", "--kl-place", "reward", "--kl-estimator", "k1"],
             dict(trainer="rloo", beta=0.05, normalize_advantages=False)),
    "rloo_texts": (["--loss", "grpo", "--importance-sampling-level", "product", "--leave-one-out", "--scale-rewards", "texts", "--beta",
                    "0.5", "--kl-place", "reward", "--kl-estimator", "k1"],
                   dict(trainer="rloo", beta=0.5, normalize_advantages=True)),
    "whitened": (["--scale-rewards", "tokens"], dict(trainer="twin")),
    "reinforce": (["--loss", "reinforce", "--no-baseline", "--scale-rewards", "tokens", "--beta", "0.5", "--kl-place", "advantage",
                   "--kl-estimator", "k2"], dict(trainer="twin", loss="reinforce", place="advantage", estimator="k2", beta=0.5)),
    "kl_one": (["--beta", "0.5", "--kl-weight", "one"], dict(trainer="twin", beta=0.5)),
    "kl_bounds": (["--beta", "0.5", "--kl-weight", "one", "--kl-estimator", "k1", "--kl-most-log-ratio", "0.02", "--kl-most", "0.015"],
                  dict(trainer="twin", beta=0.5, estimator="k1", bounds=(0.02, 0.015))),
}
TWIN = dict(loss="clipped", place="loss", estimator="k3", bounds=(20.0, 10.0))


def make_rollouts():
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "llama")
    model = transformers.AutoModelForCausalLM.from_pretrained(MODELS / "llama", dtype=torch.float32)
    torch.manual_seed(7)
    with torch.no_grad():
        for row in model.parameters():
            row += 0.02 * torch.randn_like(row)
    stories = [json.loads(line)["text"] for line in open(REPOSITORY / "testdata/stories/stories.jsonl")]
    choose = random.Random(4)
    for group in range(STEPS * BATCH // GROUP):
        prompt = tokenizer(choose.choice(["Who?\n", "What then?\n", "And?\n"]))["input_ids"]
        for _ in range(GROUP):
            ids = tokenizer(choose.choice(stories))["input_ids"]
            first = choose.randrange(max(1, len(ids) - LONGEST))
            ids = ids[first:first + choose.randint(1, LONGEST)]
            with torch.no_grad():
                said = model(torch.tensor([prompt + ids])).logits.log_softmax(-1)[0, len(prompt) - 1:-1]
            said = said.gather(1, torch.tensor(ids)[:, None])[:, 0]
            reward = None if choose.random() < 0.05 else float(group % 7 == 3) or round(choose.random(), 2)
            yield {"prompt_ids": prompt, "completion_ids": ids, "log_probs": [round(x, 5) for x in said.tolist()],
                   "reward": reward}


class Stored(trl.GRPOTrainer):
    """Takes stored rollouts for what it would generate."""
    def _generate_and_score_completions(self, inputs):
        self.batch, self.rollouts = self.rollouts[:len(inputs)], self.rollouts[len(inputs):]
        output = super()._generate_and_score_completions(inputs)
        old = torch.zeros(output["completion_ids"].shape)
        for row, one in zip(old, self.batch, strict=True):
            row[:len(one["log_probs"])] = torch.tensor(one["log_probs"])
        output["old_per_token_logps"] = old
        return output


class StoredRloo(trl.RLOOTrainer):
    """Likewise, also for what the model would say of them then."""
    def _generate(self, prompts):
        self.batch, self.rollouts, self.asked = self.rollouts[:len(prompts)], self.rollouts[len(prompts):], 0
        ids = [one["completion_ids"] for one in self.batch]
        return [one["prompt_ids"] for one in self.batch], ids, self.processing_class.batch_decode(ids)

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        said = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if torch.is_grad_enabled() or self.asked:
            return said
        self.asked, old = 1, torch.zeros_like(said[0])
        for row, one in zip(old, self.batch, strict=True):
            row[:len(one["log_probs"])] = torch.tensor(one["log_probs"])
        return old, *said[1:]


def divergence(p, reference, settings):
    """NeMo RL's calculate_kl, but for what weighs it."""
    x = (reference - p).clamp(-settings["bounds"][0], settings["bounds"][0])
    return {"k1": -x, "k2": x * x / 2, "k3": x.exp() - 1 - x}[settings["estimator"]]


class Twin(Stored):
    """The loss of NeMo RL's main branch (nemo_rl/algorithms), whose advantages are whitened over the batch's tokens."""
    def _compute_loss(self, model, inputs):
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask, size = inputs["completion_mask"], inputs["completion_ids"].size(1)
        attended = torch.cat([inputs["prompt_mask"], mask], 1)
        p = self._get_per_token_logps_and_entropies(model, ids, attended, size)[0]
        old, reference = inputs["old_per_token_logps"], inputs.get("ref_per_token_logps")
        settings, estimate = self.settings, torch.zeros_like(p)
        advantage = self.advantages_of(old, reference, mask) if settings["whitens"] else inputs["advantages"][:, None].expand_as(p)
        if settings["loss"] == "reinforce":
            loss = -advantage * p
        else:
            ratio = (p - old).exp()
            loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(0.8, 1.2))
        if settings["beta"] and settings["place"] == "loss":
            far = (reference - p).abs() > settings["bounds"][0]
            weight = torch.where(far, torch.ones_like(p), (p - p.detach()).exp())
            estimate = (divergence(p, reference, settings) * weight).clamp(-settings["bounds"][1], settings["bounds"][1])
            loss = loss + settings["beta"] * estimate
        mean = [((x * mask).sum() / mask.sum()) for x in (loss, estimate)]
        self._metrics["train"]["kl"].append(mean[1].item())
        return mean[0]

    def advantages_of(self, old, reference, mask):
        reward = torch.tensor([float("nan") if one["reward"] is None else one["reward"] for one in self.batch])
        if self.settings["place"] == "loss":
            reward = reward - reward.view(-1, GROUP).nanmean(1).repeat_interleave(GROUP)
        one = reward[:, None].expand_as(old)
        if self.settings["place"] == "advantage":
            one = one - self.settings["beta"] * divergence(old, reference, self.settings)
        counts = mask * ~reward.isnan()[:, None]
        one = one.nan_to_num()
        mean = (one * counts).sum() / counts.sum()
        variance = ((one - mean) ** 2 * counts).sum() / counts.sum()
        return (one - mean) * variance.clamp(min=1e-8).rsqrt() * ~reward.isnan()[:, None]


def stored(_, trainer):
    return {"prompt_ids": [one["prompt_ids"] for one in trainer.batch],
            "completion_ids": [one["completion_ids"] for one in trainer.batch], "logprobs": None,
            "stored_reward": [one["reward"] for one in trainer.batch]}


def stored_reward(stored_reward, **_):
    return stored_reward


def by_trl(case, folder, rollouts, scratch):
    settings = dict(beta=0.0) | CASES[case][1]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    kind, twin = settings.pop("trainer", "grpo"), {}
    if kind == "twin":
        twin = TWIN | settings | dict(whitens="tokens" in CASES[case][0])
        settings = dict(beta=settings["beta"])
    config = trl.RLOOConfig if kind == "rloo" else trl.GRPOConfig
    others = dict(reward_funcs=stored_reward, rollout_func=stored)
    if kind == "rloo":
        others = dict(reward_funcs=lambda **_: [one["reward"] for one in trainer.batch])
    trainer = in_order({"grpo": Stored, "rloo": StoredRloo, "twin": Twin}[kind])(
        model=model, **others, args=config(output_dir=scratch, **COMMON, **settings),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder),
        train_dataset=Dataset.from_list([{"prompt": ""}] * (STEPS * BATCH * settings.get("steps_per_generation", 1))))
    trainer.rollouts, trainer.losses, trainer.settings = rollouts, [], twin
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    told = ("kl", "clip_ratio/low_mean", "clip_ratio/high_mean")
    return [[value, float(entry["grad_norm"]), *(float(entry.get(name, 0)) for name in told)]
            for value, entry in zip(trainer.losses, logs, strict=True)]


def by_program(program, case, folder, lines):
    run = subprocess.run([program, "grpo", "--load", folder, "--rollouts", lines, "--json", "--quiet", *CASES[case][0],
                          *OPTIONS], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    return [[e["loss"], e["grad_norm"], e["kl"], e["clipped_low"], e["clipped_high"]] for e in steps]


def judge():
    """What transformers says of a text, at its last token, also where that is the padding's."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(MODELS / "llama-reward", dtype=torch.float32)
    model.config.pad_token_id = None

    def say(ids):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0, 0].item()
    return say


def keep_judged(rollouts, path):
    say = judge()
    texts = [one["prompt_ids"] + one["completion_ids"] for one in rollouts[:12]]
    path.write_text(f"# scripts/compare-grpo.py; transformers {transformers.__version__}, torch {torch.__version__}: what "
                    "llama-reward says, and of which tokens\n"
                    + "".join(f"{say(ids):.7f} {' '.join(map(str, ids))}\n" for ids in texts))


def compare_judged(program, top):
    prompts = pathlib.Path(top) / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in ("Who?\n", "What then?\n", "And?\n")))
    subprocess.run([program, "grpo", "--load", MODELS / "llama", "--prompts", prompts, "--quiet", "--save-rollouts",
                    f"{top}/kept", "--reward", f"rm=0.5:{MODELS / 'llama-reward'}", *OPTIONS], check=True)
    say, apart = judge(), []
    for kept in sorted(pathlib.Path(f"{top}/kept").iterdir()):
        for one in map(json.loads, kept.read_text().splitlines()):
            apart.append(abs(one["reward"] - 0.5 * say(one["prompt_ids"] + one["completion_ids"])))
    print(f"reward model: {len(apart)} texts, largest difference {max(apart):.1e}", flush=True)
    return max(apart) > 1e-5


def main():
    for module in (trl.trainer.grpo_trainer, trl.trainer.rloo_trainer):
        module.shuffle_sequence_dict = lambda batch: batch
    args = arguments(__doc__, only={"choices": CASES})
    differs = False
    with tempfile.TemporaryDirectory() as top:
        keep = pathlib.Path(args.keep or f"{top}/keep")
        os.makedirs(keep, exist_ok=True)
        lines = keep / "rollouts.jsonl"
        if args.keep:
            lines.write_text("".join(json.dumps(one) + "\n" for one in make_rollouts()))
        else:
            lines.write_text((MODELS / "rollouts.jsonl").read_text())
        rollouts = [json.loads(line) for line in lines.read_text().splitlines()]
        keep_judged(rollouts, keep / "llama-reward.golden")
        if args.program:
            differs |= compare_judged(args.program, top)
        for kind in ("llama", "qwen3"):
            golden = [f"# scripts/compare-grpo.py; trl {trl.__version__}, transformers {transformers.__version__}, torch "
                      f"{torch.__version__}: loss, gradient norm, kl, shares of tokens clipped below and above"]
            for case in [args.only] if args.only else CASES:
                expected = by_trl(case, str(MODELS / kind), rollouts, f"{top}/{kind}")
                golden += [case + "".join(f" {x:.7f}" for x in step) for step in expected]
                if not args.program:
                    continue
                got = by_program(args.program, case, str(MODELS / kind), str(lines))
                clips = CASES[case][1].get("loss_type") in ("grpo", "bnpo", "dapo", "dr_grpo")
                compared = range(5 if clips and "importance_sampling_level" not in CASES[case][1] else 3)
                if case.startswith("rloo") or CASES[case][1].get("place") == "advantage":
                    compared = range(2)  # they tell the divergence of what was written, or none
                apart = [max(abs(a[i] - b[i]) / max(1, abs(b[i])) for a, b in zip(got, expected, strict=True))
                         for i in compared]
                print(f"{kind} {case}: {STEPS} steps, losses {expected[0][0]:.4f} to {expected[-1][0]:.4f}; largest "
                      "differences: loss, norm, kl, clipped " + " ".join(f"{x:.1e}" for x in apart), flush=True)
                differs |= max(apart) > 1e-4
            if not args.only:
                (keep / f"{kind}-grpo.golden").write_text("\n".join(golden) + "\n")
    sys.exit(differs)


if __name__ == "__main__":
    main()
