#!/usr/bin/env python3
"""Time a layer's experts on a GPU, forward and backward, beside PyTorch's grouped_mm.

Ours is layer_bench's layer E, with router, norm and residual, gradients of weights in f32.  PyTorch's is
compiled, without norm and residual, gradients in bf16: softmax of the router's logits, top-k, a stable sort of
the choices, grouped_mm, SwiGLU, grouped_mm, and a weighted index_add.  Both take turns, each round in a process
of its own; router and rows are random in both.  Prints a line for each case: medians of the rounds in
milliseconds, TFLOP/s of the experts' products alone, and how many times as fast ours is.

  8     8 experts of 4096 x 14336, 2 to a token
  128   128 experts of 2048 x 768, 8 to a token

Needs from PyPI: torch, and a GPU.
Run:  scripts/bench-experts.py build/release/tests/model/layer_bench [--cases 8,128] [--rounds 3] [--tokens 16384]
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

CASES = {
    "8": {"hidden": 4096, "ffn": 14336, "experts": 8, "chosen": 2},
    "128": {"hidden": 2048, "ffn": 768, "experts": 128, "chosen": 8},
}
WARM_UP, STEPS = 5, 30


def peer(case, tokens):
    """milliseconds of a forward and backward"""
    import torch
    import torch.nn.functional as F

    hidden, ffn, experts, chosen = (case[name] for name in ("hidden", "ffn", "experts", "chosen"))
    grouped_mm = getattr(F, "grouped_mm", None) or torch._grouped_mm

    def drawn(*shape, std=1.0):
        return torch.randn(*shape, device="cuda").mul_(std).to(torch.bfloat16).requires_grad_()

    torch.manual_seed(1)
    x, router = drawn(tokens, hidden), drawn(experts, hidden, std=0.02)
    up, down = drawn(experts, hidden, 2 * ffn, std=0.02), drawn(experts, ffn, hidden, std=0.02)
    d_y = torch.randn(tokens, hidden, device="cuda").to(torch.bfloat16)

    @torch.compile
    def layer(rows):
        weights, choices = F.linear(rows, router).float().softmax(1).topk(chosen)
        weights = weights / weights.sum(1, keepdim=True)
        order = choices.flatten().sort(stable=True).indices
        ends = choices.flatten().bincount(minlength=experts).cumsum(0).int()
        token = order // chosen
        gate, value = grouped_mm(rows[token], up, offs=ends).chunk(2, 1)
        made = grouped_mm(F.silu(gate) * value, down, offs=ends)
        return torch.zeros_like(rows).index_add(0, token, made * weights.flatten()[order, None].to(made.dtype))

    def step():
        layer(x).backward(d_y)
        for leaf in (x, router, up, down):
            leaf.grad = None

    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begin) / STEPS


def last_line(command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench-experts: exit code {done.returncode} of {' '.join(map(str, command))}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="layer_bench")
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--peer", help=argparse.SUPPRESS)  # the case that this process times
    args = parser.parse_args()
    if args.peer:
        print(json.dumps({"ms": peer(CASES[args.peer], args.tokens)}))
        return
    for name in args.cases.split(","):
        case = CASES[name]
        sizes = [f"{key}={value}" for key, value in case.items()]
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(last_line([args.bench, "pattern=E", "gated=1", f"tokens={args.tokens}", *sizes])["ms"])
            theirs.append(last_line([sys.executable, __file__, args.bench, "--tokens", args.tokens, "--peer", name])["ms"])
        us, them = statistics.median(ours), statistics.median(theirs)
        flops = 18 * args.tokens * case["chosen"] * case["hidden"] * case["ffn"]
        print(f"{case['experts']} experts of {case['hidden']} x {case['ffn']}, {case['chosen']} to a token: {us:.2f} ms, "
              f"{flops / us / 1e9:.0f} TFLOP/s; PyTorch {them:.2f} ms; {them / us:.3f} times as fast", flush=True)


if __name__ == "__main__":
    main()
