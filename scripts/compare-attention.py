#!/usr/bin/env python3
"""Time attention on this GPU beside PyTorch's, in turn, forward and backward, and a cache's last tokens.

PyTorch runs scaled_dot_product_attention with cuDNN where it takes the shape, else with FlashAttention 2;
its backward is not deterministic, ours is.  Heads of latent attention, 192/128, have values narrower than keys:
ours gets them with zeros behind, as its model makes them, cuDNN as they are, and where it takes no such, with
the zeros.  Prints a table and, with --json, writes all numbers; also the errors of both against the same in
float64, ||x - y|| / ||y|| for o, dq, dk and dv.  TFLOP/s count 2 products forward and 5 backward over the pairs
that the mask leaves; of a cache, GB/s count its keys and values once, beside those of a large copy (read and
written).  MT_KERNELS=generic takes the kernels that every GPU has.

Needs from PyPI: torch, and a GPU.
Run:  scripts/compare-attention.py build/release/tests/kernels/attention_cuda_bench [--rounds 2] [--cases latent] [--json FILE]
"""
import argparse
import json
import statistics
import subprocess
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# mask, sequences, queries, keys, heads, kv_heads, head_dim, or that and the values'
MASKS = ("causal", "full")
LONG = [(mask, 16384 // s, s, s, 2048 // d, 2048 // d, d)
        for mask in MASKS for d in (128, 64) for s in (1024, 2048, 4096, 8192, 16384)]
LONG += [(mask, 4, 4096, 4096, 2048 // d, 2048 // d, d) for mask in MASKS for d in (96, 192, 256)]
ODD = [(mask, 1, s, s, h, h, d) for mask in MASKS for d in (128, 64)
       for s, h in ((1, 40), (31, 40), (127, 3), (129, 1), (129, 40), (4097, 1), (4097, 3), (4097, 40))]
LATENT = [(mask, b, s, s, h, h, "192/128") for mask in MASKS for b, s, h in ((4, 4096, 16), (1, 4096, 128), (2, 8192, 16))]
CROSS = [("full", 8, 512, 2048, 16, 16, 128), ("full", 8, 2048, 512, 32, 32, 64)]
ERRORS = {"long": [(mask, 1, s, s, h, h, d) for mask in MASKS for d in (128, 64) for s, h in ((129, 40), (2048, 4), (4097, 3))],
          "latent": [(mask, 1, s, s, h, h, "192/128") for mask in MASKS for s, h in ((129, 40), (2048, 4))]}
CACHES = [("causal", *shape) for shape in ((8, 1, 8192, 32, 8, 128), (1, 1, 65536, 32, 8, 128),
                                           (1, 1, 4096, 32, 8, 64), (8, 1, 8192, 16, 16, 128))]
CASES = {"long": LONG, "latent": LATENT, "odd": ODD, "cross": CROSS, "caches": CACHES}


def widths(shape):
    """of keys and of values"""
    width, _, values = str(shape[6]).partition("/")
    return int(width), int(values or width)


def milliseconds(run):
    times = []
    for i in range(40):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= 10:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def random_tensors(shape):
    """q, k, v and do: [sequences, length, heads, their width]"""
    _, b, m, n, h, k, _ = shape
    d, values = widths(shape)
    return [torch.randn(size, device="cuda", dtype=torch.bfloat16)
            for size in ((b, m, h, d), (b, n, k, d), (b, n, k, values), (b, m, h, values))]


def padded(tensors):
    return [F.pad(x, (0, tensors[0].shape[3] - x.shape[3])) for x in tensors]


def torch_times(shape):
    mask, b, m, n, h, k, _ = shape
    cache = mask == "causal" and m < n
    tensors = random_tensors(shape)
    ways = [(backend, tensors) for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)]
    if len(set(widths(shape))) > 1:
        ways.insert(1, (SDPBackend.CUDNN_ATTENTION, padded(tensors)))
    for backend, of_way in ways:
        q, keys, values, d_o = [x.transpose(1, 2) for x in of_way]
        inputs = [x.detach().requires_grad_(not cache) for x in (q, keys, values)]
        attend = lambda: F.scaled_dot_product_attention(*inputs, is_causal=mask == "causal" and not cache,
                                                        enable_gqa=h != k)
        try:
            with sdpa_kernel(backend):
                times = {"backend": backend.name + (" of zeros too" if of_way is not tensors else ""),
                         "forward_ms": milliseconds(attend)}
                if not cache:
                    o = attend()
                    times["backward_ms"] = milliseconds(
                        lambda: torch.autograd.grad(o, inputs, d_o, retain_graph=True))
                return times
        except RuntimeError:
            continue
    return {"backend": "none"}


def our_times(bench, shapes):
    arguments = [str(x) for shape in shapes for x in ("bf16", *shape)]
    lines = subprocess.run([bench, *arguments], check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def results(attend, tensors):
    q, keys, values, d_o = [x.transpose(1, 2) for x in tensors]
    inputs = [x.detach().requires_grad_() for x in (q, keys, values)]
    o = attend(*inputs)
    return [x.transpose(1, 2).double() for x in (o, *torch.autograd.grad(o, inputs, d_o))]


def in_float64(causal):
    def attend(q, k, v):
        scores = q @ k.transpose(2, 3) / q.shape[3]**0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        return scores.softmax(3) @ v
    return attend


def our_results(bench, shape, tensors):
    _, _, values, _ = tensors
    q, k, v, d_o = padded(tensors)
    with tempfile.TemporaryDirectory() as folder:
        count = sum(x.numel() for x in (q, k, v, d_o))
        file = torch.from_file(folder + "/in", True, count, dtype=torch.bfloat16)
        file.copy_(torch.cat([x.flatten() for x in (q, k, v, d_o)]))
        subprocess.run([bench, "--tensors", folder + "/in", folder + "/out", "bf16", *map(str, shape)], check=True)
        flat = torch.from_file(folder + "/out", False, count, dtype=torch.bfloat16).cuda()
    o, dq, dk, dv = [x.view_as(like).double() for x, like in zip(flat.split([x.numel() for x in (q, q, k, v)]), (q, q, k, v))]
    return [o[..., :values.shape[3]], dq, dk, dv[..., :values.shape[3]]]


def errors(bench, shape):
    tensors = random_tensors(shape)
    expected = results(in_float64(shape[0] == "causal"), [x.double() for x in tensors])
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        attend = lambda *x: F.scaled_dot_product_attention(*x, is_causal=shape[0] == "causal")
        try:
            peer = results(attend, tensors)
        except RuntimeError:  # values as wide as keys alone
            o, dq, dk, dv = results(attend, padded(tensors))
            peer = [o[..., :widths(shape)[1]], dq, dk, dv[..., :widths(shape)[1]]]
    of = lambda got: [((x - y).norm() / y.norm()).item() for x, y in zip(got, expected)]
    return {"shape": shape, "ours": of(our_results(bench, shape, tensors)), "torch": of(peer)}


def copy_gb_per_second():
    x = torch.empty(1 << 30, dtype=torch.uint8, device="cuda").random_()
    y = torch.empty_like(x)
    return 2 * x.numel() / milliseconds(lambda: y.copy_(x)) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ",".join(CASES))
    parser.add_argument("--json")
    args = parser.parse_args()
    shapes = [shape for name in args.cases.split(",") for shape in CASES[name]]
    rows = [{"shape": shape, "ours": [], "torch": []} for shape in shapes]
    for _ in range(args.rounds):
        for row, times in zip(rows, our_times(args.bench, shapes)):
            row["ours"].append(times)
        for row in rows:
            row["torch"].append(torch_times(row["shape"]))
    wrong = [errors(args.bench, shape) for name in args.cases.split(",") for shape in ERRORS.get(name, [])]
    copied = copy_gb_per_second()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, copy {copied:.0f} GB/s")
    for row in rows:
        mask, b, m, n, h, k, d = row["shape"]
        width, values = widths(row["shape"])
        pairs = m * (m + 1) // 2 if mask == "causal" else m * n
        text = f"{mask} {b} x {m}/{n} heads {h}/{k} of {d}, {row['torch'][0]['backend']}:"
        for which, channels in (("forward_ms", width + values), ("backward_ms", 3 * width + 2 * values)):
            if any(which not in times for times in row["ours"] + row["torch"]):
                continue
            ours, peer = (statistics.median(times[which] for times in row[side]) for side in ("ours", "torch"))
            work = f"{2 * b * n * k * (width + values) / ours / 1e6:.0f} GB/s"
            if mask == "full" or m == n:
                work = f"{2 * b * h * channels * pairs / ours / 1e9:.0f} TFLOP/s"
            row[which] = {"ours": ours, "torch": peer, "ratio": peer / ours}
            text += f"  {which[:-3]} {ours:.4f} ms, {work}, {peer / ours:.3f} of theirs"
        print(text)
    for row in wrong:
        mask, b, m, _, h, _, d = row["shape"]
        pairs = zip(("o", "dq", "dk", "dv"), row["ours"], row["torch"])
        print(f"{mask} {b} x {m} heads {h} of {d}, errors, ours and theirs:"
              + "".join(f"  {name} {ours:.3e} {peer:.3e}" for name, ours, peer in pairs))
    if args.json:
        with open(args.json, "w") as out:
            json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                       "copy_gb_per_second": copied, "rows": rows, "errors": wrong}, out, indent=1)


if __name__ == "__main__":
    main()
