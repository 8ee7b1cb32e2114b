#!/usr/bin/env python3
"""Compare twenty steps of mt-finetune grpo --advantage gae with the same formulas in PyTorch, on the CPU in float32.

The Llama and the Qwen3 of testdata/trl learn from testdata/trl/rollouts.jsonl, eight texts a step, with a constant
learning rate; what a value head had said of each token is a tenth of how unlikely it was.  The value head begins with
zeros.  The policy's losses, gradient norms, the share of tokens that were clipped, the value's loss and the share of values that
were clipped must agree to 1e-4, relative to what is greater than 1.

  --program PATH   also run mt-finetune, and compare
  --keep FOLDER    write PyTorch's numbers there: testdata/trl is made so

Needs from PyPI: transformers, torch (tried with 5.24.0, 2.15.0).
Run:  scripts/compare-gae.py --program build/release/cmd/mt-finetune
      scripts/compare-gae.py --keep testdata/trl
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

MODELS = pathlib.Path(__file__).resolve().parent.parent / "testdata/trl"
STEPS, BATCH = 20, 8
OPTIONS = ["--advantage", "gae", "--seq-length", "64", "--micro-batch-size", str(BATCH), "--global-batch-size", str(BATCH),
           "--num-generations", "4", "--lr", "1e-3", "--lr-decay-style", "constant", "--lr-warmup-fraction", "0",
           "--train-iters", str(STEPS), "--dtype", "fp32", "--device", "cpu"]
# What mt-finetune is told, and the same for the twin.
CASES = {
    "gae": ([], dict()),
    "gae_by_texts": (["--loss", "grpo", "--gae-lambda", "0.8", "--gae-gamma", "0.97", "--value-clip", "0.05", "--value-loss-weight",
                      "0.7", "--scale-rewards", "none"],
                     dict(lam=0.8, gamma=0.97, clip=0.05, weight=0.7, whitens=False, by_texts=True)),
    "gae_kl": (["--beta", "0.3", "--kl-place", "reward", "--kl-estimator", "k1", "--value-clip", "0"], dict(beta=0.3, clip=0)),
}
USUAL = dict(lam=0.95, gamma=1.0, clip=0.2, weight=0.1, whitens=True, by_texts=False, beta=0.0)


def said(model, head, one):
    """Log-probabilities of a completion's tokens, and the value at each."""
    ids = torch.tensor([one["prompt_ids"] + one["completion_ids"]])
    first = len(one["prompt_ids"]) - 1
    hidden = model.model(ids).last_hidden_state[0, first:-1]
    log_probs = model.lm_head(hidden).log_softmax(-1).gather(1, ids[0, first + 1:, None])[:, 0]
    return log_probs, hidden @ head


def advantages(one, reference, settings):
    """Those of a text and its returns, token by token from the last (arXiv:1506.02438)."""
    old, values = one["log_probs"], one["values"]
    rewards = [-settings["beta"] * (p - q) for p, q in zip(old, reference or old, strict=True)]
    rewards[-1] += one["reward"]
    following, advantage, found = 0.0, 0.0, []
    for reward, value in zip(reversed(rewards), reversed(values), strict=True):
        advantage = reward + settings["gamma"] * following - value + settings["gamma"] * settings["lam"] * advantage
        following = value
        found.insert(0, advantage)
    return found, [a + v for a, v in zip(found, values, strict=True)]


def step_of(model, head, batch, references, settings):
    estimates = []
    for one, reference in zip(batch, references, strict=True):
        if one["reward"] is None:
            estimates.append(([0.0] * len(one["values"]), one["values"]))
        else:
            estimates.append(advantages(one, reference, settings))
    if settings["whitens"]:
        counted = torch.tensor([a for one, (found, _) in zip(batch, estimates, strict=True) if one["reward"] is not None
                                for a in found], dtype=torch.float64)
        mean, deviation = counted.mean(), counted.var(unbiased=False).clamp(min=1e-8).sqrt()
        estimates = [([0.0] * len(found) if one["reward"] is None else [float((a - mean) / deviation) for a in found], returns)
                     for one, (found, returns) in zip(batch, estimates, strict=True)]
    policy, value, clipped, value_clipped = [], [], [[], []], []
    for one, (found, returns) in zip(batch, estimates, strict=True):
        p, v = said(model, head, one)
        a, r, old = (torch.tensor(x) for x in (found, returns, one["values"]))
        ratio = (p - torch.tensor(one["log_probs"])).exp()
        policy.append(torch.maximum(-a * ratio, -a * ratio.clamp(0.8, 1.2)))
        near = torch.minimum(torch.maximum(v, old - settings["clip"]), old + settings["clip"]) if settings["clip"] else v
        value.append(torch.maximum((v - r) ** 2, (near - r) ** 2) / 2)
        clipped[0].append(((ratio < 0.8) & (a < 0)).float())
        clipped[1].append(((ratio > 1.2) & (a > 0)).float())
        value_clipped.append(((near - r) ** 2 > (v - r) ** 2).float())
    mean = (lambda texts: torch.stack([x.mean() for x in texts]).mean()) if settings["by_texts"] else (lambda texts: torch.cat(texts).mean())
    alone = mean(policy)
    loss = alone + settings["weight"] * mean(value)
    shares = [torch.cat(x).mean().item() for x in (*clipped, value_clipped)]
    return loss, alone.item(), [shares[0], shares[1], mean(value).item(), shares[2]]


def by_torch(folder, rollouts, settings):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    head = torch.nn.Parameter(torch.zeros(model.config.hidden_size))
    references = [None] * len(rollouts)
    if settings["beta"]:
        with torch.no_grad():
            references = [said(model, head, one)[0].tolist() for one in rollouts]
    rows = dict(model.named_parameters())
    plain = [row for name, row in rows.items() if "norm" in name or name.endswith("bias")]
    decayed = [row for name, row in rows.items() if "norm" not in name and not name.endswith("bias")] + [head]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)], lr=1e-3,
                                  betas=(0.9, 0.95), eps=1e-8)
    numbers = []
    for i in range(0, STEPS * BATCH, BATCH):
        loss, alone, told = step_of(model, head, rollouts[i:i + BATCH], references[i:i + BATCH], settings)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([*model.parameters(), head], 1.0)
        optimizer.step()
        numbers.append([alone, norm.item(), *told])
    return numbers


def by_program(program, options, folder, lines):
    run = subprocess.run([program, "grpo", "--load", folder, "--rollouts", lines, "--json", "--quiet", *options, *OPTIONS],
                         capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    steps = [e for e in map(json.loads, run.stdout.splitlines()) if e["event"] == "step"]
    return [[e[name] for name in ("loss", "grad_norm", "clipped_low", "clipped_high", "value_loss", "values_clipped")] for e in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program")
    parser.add_argument("--keep", type=pathlib.Path)
    args = parser.parse_args()
    rollouts = [json.loads(line) for line in open(MODELS / "rollouts.jsonl")]
    for one in rollouts:
        one["values"] = [-p / 10 for p in one["log_probs"]]
    differs = False
    with tempfile.TemporaryDirectory() as top:
        lines = pathlib.Path(top) / "rollouts.jsonl"
        lines.write_text("".join(json.dumps(one) + "\n" for one in rollouts))
        for kind in ("llama", "qwen3"):
            golden = [f"# scripts/compare-gae.py; transformers {transformers.__version__}, torch {torch.__version__}: loss, gradient "
                      "norm, shares of tokens clipped below and above, value loss, share of values clipped"]
            for case, (options, settings) in CASES.items():
                expected = by_torch(str(MODELS / kind), rollouts, USUAL | settings)
                golden += [case + "".join(f" {x:.7f}" for x in step) for step in expected]
                if not args.program:
                    continue
                got = by_program(args.program, options, str(MODELS / kind), str(lines))
                apart = [max(abs(a[i] - b[i]) / max(1, abs(b[i])) for a, b in zip(got, expected, strict=True)) for i in range(6)]
                print(f"{kind} {case}: {STEPS} steps, losses {expected[0][0]:.4f} to {expected[-1][0]:.4f}; largest differences: "
                      + " ".join(f"{x:.1e}" for x in apart), flush=True)
                differs |= max(apart) > 1e-4
            if args.keep:
                (args.keep / f"{kind}-gae.golden").write_text("\n".join(golden) + "\n")
    sys.exit(differs)


if __name__ == "__main__":
    main()
