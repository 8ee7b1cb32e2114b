#!/usr/bin/env python3
"""Time the scan of Mamba-2 on a GPU beside mamba_ssm's Triton kernels, in one run.

  scripts/bench-scan.py CUDA_BENCH [MAMBA]

CUDA_BENCH is build/release/tests/kernels/cuda_bench, MAMBA the folder of mamba_ssm's sources (github.com/state-spaces/mamba),
of which nothing needs to be compiled, where it is not installed.  8,192 tokens of one sequence in bf16, heads of 64 channels
and states of 128: 128 heads in 8 groups, and 80 in one.  Prints a line of JSON for each way: milliseconds forward, and
forward and backward together.

Needs from PyPI: torch, triton, einops (tried with torch 2.11, triton 3.6).
"""
import json
import pathlib
import subprocess
import sys
import time
import types

import torch

SHAPES = [(128, 8), (80, 1)]


def milliseconds(work, count=20):
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start) / count


def ours(program, heads, groups):
    lines = subprocess.run([program, f"bf16 {heads}x{groups}"], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
    ms = {kernel["kernel"].split()[0]: kernel["microseconds"] / 1000 for kernel in map(json.loads, lines)}
    return ms["chunk_scan_forward"], ms["chunk_scan_forward"] + ms["chunk_scan_backward"]


def theirs(heads, groups, chunk):
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    def numbers(*shape, dtype=torch.bfloat16):
        return torch.randn(shape, device="cuda", dtype=dtype).requires_grad_()

    x, dt = numbers(1, 8192, heads, 64), numbers(1, 8192, heads)
    b, c = numbers(1, 8192, groups, 128), numbers(1, 8192, groups, 128)
    decay = (-torch.rand(heads, device="cuda") - 0.5).requires_grad_()
    d, bias = numbers(heads, dtype=torch.float32), numbers(heads, dtype=torch.float32)

    def forward():
        return mamba_chunk_scan_combined(x, dt, decay, b, c, chunk, D=d, dt_bias=bias, dt_softplus=True)

    dy = torch.randn_like(forward())
    with torch.no_grad():
        alone = milliseconds(forward)
    return alone, milliseconds(lambda: torch.autograd.grad(forward(), (x, dt, decay, b, c, d, bias), dy))


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    if len(sys.argv) == 3:  # without its modules, which want what is compiled
        root = pathlib.Path(sys.argv[2]) / "mamba_ssm"
        for name in ("mamba_ssm", "mamba_ssm.ops"):
            module = types.ModuleType(name)
            module.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = module
    print(json.dumps({"gpu": torch.cuda.get_device_name()}))
    for heads, groups in SHAPES:
        shape = {"heads": heads, "groups": groups}
        forward, both = ours(sys.argv[1], heads, groups)
        print(json.dumps({"who": "mt", **shape, "forward": forward, "both": both}), flush=True)
        for chunk in (128, 256):
            forward, both = theirs(heads, groups, chunk)
            print(json.dumps({"who": "mamba_ssm", **shape, "chunk": chunk, "forward": forward, "both": both}), flush=True)


if __name__ == "__main__":
    main()
