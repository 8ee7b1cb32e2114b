#!/usr/bin/env python3
"""Time steps of mt-pretrain on a GPU beside the same model in compiled PyTorch and others, in turn, on the same GPU.

The peer is what one would write instead: bf16 weights and gradients, fp32 masters and fused AdamW, clipping,
torch.compile, attention by cuDNN.  Both draw random weights and train on made-up tokens; every run is a
process of its own.  Prints one JSON: the machine, and for each case the shape, every round's median
milliseconds a step, the medians of these, tokens a second, the ratios peer / mt, and two fractions of ceilings
measured in the same run.  of_products: what large bf16 matrix products would take for the model's FLOPs
(6 for each weight in a product and 6 layers x sequence x width for causal attention, per token).  of_roof: the
sum of the products' FLOPs at that rate, cuDNN's attention at the model's shape, and at the rate of a large copy
the bytes that norms, activations, rotary and word embeddings and Adam must move (each input and output once;
nothing for logits, which need not exist, for biases or for what a product's epilogue can do).

Before a case's first round mt begins a training of hours in each of its ways, which after ten steps searches again for
the fastest matrix products (XDG_CACHE_HOME/mt/gemm-...), and ends it there.

mt adds gradients up in fp32, as it does by default, the peer in bf16.  --bf16-gradients times mt with
--grad-reduce-in-bf16 too, in the same rounds, as "mt-bf16-gradients"; `ratio_bf16_gradients` is to that.

--llm-c adds llm.c to gpt2-124M: COMMAND is its train_gpt2cu, which its Makefile builds with USE_CUDNN=1, and any
options of its own, such as -ge 1.  --megatron adds megatron-core of PyPI, with its local spec, to the cases of
GPT-2's kind, by scripts/peer-megatron.py, whose head says what that is.

The cases decode-… time generation, a token at a time, by decode_bench (tests/infer/) beside a script in
PyTorch given by path, which takes --layers, --hidden, --heads, --kv-heads, --ffn, --vocab and --batch and prints a
line of JSON with the milliseconds of a token, "ms"; `of_bound` is the part of what the GPU's memory allows.

The cases several-… time training on several GPUs, in each way that shares the work, beside a peer that torchrun
starts.  That of a Llama is the model below by FSDP2, each block compiled, with sums of gradients in fp32; of the others
a script in PyTorch given by path, which takes --layers, --hidden, --heads, --vocab, --seq and --mbs, a GPU's
sequences, and prints a line of JSON with the milliseconds of a step, "ms".  `of_roof` is as above, of a GPU's share.

Needs from PyPI: torch; for --megatron megatron-core 0.12.1.
Run:  scripts/bench-gpu.py build/release/cmd/mt-pretrain [--cases 1.7B,llama-1.5B] [--rounds 3] [--steps 30]
      scripts/bench-gpu.py build/release/cmd/mt-pretrain --cases gpt2-124M --llm-c "llm.c/train_gpt2cu"
      scripts/bench-gpu.py build/release/cmd/mt-pretrain --cases 1.7B --megatron [--no-torch]
      scripts/bench-gpu.py build/release/tests/infer/decode_bench --cases decode-1B --decode-peer PEER.py
      scripts/bench-gpu.py build/release/cmd/mt-pretrain --cases several-7.1B --several-peer PEER.py
      scripts/bench-gpu.py build/release/cmd/mt-pretrain --cases several-llama-8B
"""
import argparse
import array
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel

GPT2 = {"llama": False, "kv_heads": 0, "ffn": 0, "micro_batches": 1}
CASES = {
    "1.7B": GPT2 | {"layers": 24, "hidden": 2048, "heads": 16, "seq": 4096, "vocab": 131072, "batch": 4},
    "gpt2-124M": GPT2 | {"layers": 12, "hidden": 768, "heads": 12, "seq": 1024, "vocab": 50304, "batch": 64},
    "llama-1.5B": {"llama": True, "layers": 16, "hidden": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192,
                   "seq": 4096, "vocab": 128256, "batch": 4, "micro_batches": 1},
    "llama-3.6B": {"llama": True, "layers": 28, "hidden": 3072, "heads": 24, "kv_heads": 8, "ffn": 8192,
                   "seq": 8192, "vocab": 128256, "batch": 2, "micro_batches": 1},
}
DECODE = {
    "decode-1B": {"layers": 16, "hidden": 2048, "heads": 32, "kv-heads": 8, "ffn": 8192, "vocab": 128256, "batch": 1},
    "decode-8B": {"layers": 32, "hidden": 4096, "heads": 32, "kv-heads": 8, "ffn": 14336, "vocab": 128256, "batch": 1},
}
DECODE["decode-1B-8"] = DECODE["decode-1B"] | {"batch": 8}
CASES["1.7B-4"] = CASES["1.7B"] | {"micro_batches": 4}
SHARDED = ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
WIDE = GPT2 | {"seq": 4096, "vocab": 131072}
SEVERAL = {
    "several-1.7B": WIDE | {"gpus": 4, "layers": 24, "hidden": 2048, "heads": 16, "batch": 4},
    "several-7.1B": WIDE | {"gpus": 2, "layers": 30, "hidden": 4096, "heads": 32, "batch": 2},
    "several-16B": WIDE | {"gpus": 4, "layers": 32, "hidden": 6144, "heads": 48, "batch": 2},
    "several-llama-8B": {"gpus": 4, "llama": True, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336,
                         "seq": 8192, "vocab": 128256, "batch": 1, "micro_batches": 1},
}


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.llama, self.heads, self.groups = c["llama"], c["heads"], c["kv_heads"] or c["heads"]
        self.head_dim = c["hidden"] // c["heads"]
        norm = nn.RMSNorm if self.llama else nn.LayerNorm
        ffn, bias = c["ffn"] or 4 * c["hidden"], not self.llama
        self.norm1, self.norm2 = norm(c["hidden"]), norm(c["hidden"])
        self.qkv = nn.Linear(c["hidden"], (self.heads + 2 * self.groups) * self.head_dim, bias=bias)
        self.proj = nn.Linear(c["hidden"], c["hidden"], bias=bias)
        self.fc1 = nn.Linear(c["hidden"], 2 * ffn if self.llama else ffn, bias=bias)
        self.fc2 = nn.Linear(ffn, c["hidden"], bias=bias)

    def turn(self, x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def forward(self, x, cos, sin):
        batch, length, hidden = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, -1, self.head_dim)
        q, k, v = heads.split((self.heads, self.groups, self.groups), dim=2)
        if self.llama:
            q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True,
                                           enable_gqa=self.groups != self.heads)
        x = x + self.proj(o.transpose(1, 2).reshape(batch, length, hidden))
        h = self.fc1(self.norm2(x))
        if not self.llama:
            return x + self.fc2(F.gelu(h, approximate="tanh"))
        gate, up = h.chunk(2, dim=-1)
        return x + self.fc2(F.silu(gate) * up)


class Head(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = (nn.RMSNorm if c["llama"] else nn.LayerNorm)(c["hidden"])
        self.words = nn.Linear(c["hidden"], c["vocab"], bias=False)

    def forward(self, x, labels):
        return F.cross_entropy(self.words(self.norm(x)).flatten(0, 1).float(), labels.flatten())


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.words = nn.Embedding(c["vocab"], c["hidden"])
        self.positions = None if c["llama"] else nn.Embedding(c["seq"], c["hidden"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.head = Head(c)
        if not c["llama"]:
            self.head.words.weight = self.words.weight
        self.set_angles(c, "cpu")

    def set_angles(self, c, device):
        dim = c["hidden"] // c["heads"]
        rates = 10000.0 ** (-torch.arange(0, dim, 2, device=device) / dim)
        angles = torch.outer(torch.arange(c["seq"], device=device), rates)[:, None]
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids, labels):
        x = self.words(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(x, labels)


def peer(c, steps):
    """Median milliseconds of a step."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Model(c).cuda().bfloat16()
    weights = list(model.parameters())
    for weight in weights:
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.02)
    masters = [weight.detach().float().requires_grad_() for weight in weights]
    optimizer = torch.optim.AdamW(masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model)
    ids = torch.randint(c["vocab"], (c["micro_batches"], c["batch"], c["seq"] + 1), device="cuda")
    times = []
    for _ in range(steps + 5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            for part in ids:
                (run(part[:, :-1], part[:, 1:]) / len(ids)).backward()
        for weight, master in zip(weights, masters):
            master.grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(masters, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_copy_(weights, masters)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times[5:])


def sharded_peer(c, steps):
    """Likewise, on the GPUs of all ranks of torchrun."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    with torch.device("meta"):
        model = Model(c)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for unit in (*model.blocks, model.head):
        unit.compile()
        fully_shard(unit, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device="cuda")
    model.set_angles(c, "cuda")
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.02) if weight.dim() > 1 else nn.init.ones_(weight)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(c["vocab"], (c["batch"], c["seq"] + 1), device="cuda")
    times = []
    for _ in range(steps + 5):
        torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            model(ids[:, :-1], ids[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    rank = dist.get_rank()
    dist.destroy_process_group()
    return rank, 1000 * statistics.median(times[5:])


def mt(program, c, steps, *more):
    """Median milliseconds of a step."""
    command = [program, "--device", "cuda", "--bf16", "--mock-data", "--eval-iters", "0", "--lr", "1e-4",
               "--lr-decay-style", "constant", "--attention-dropout", "0", "--hidden-dropout", "0", "--quiet", "--json",
               "--adam-beta2", "0.95", "--weight-decay", "0.1", "--train-iters", str(steps + 5),
               "--num-layers", str(c["layers"]), "--hidden-size", str(c["hidden"]),
               "--num-attention-heads", str(c["heads"]), "--seq-length", str(c["seq"]),
               "--max-position-embeddings", str(c["seq"]), "--vocab-size", str(c["vocab"]),
               "--micro-batch-size", str(c["batch"]), "--global-batch-size", str(c["batch"] * c["micro_batches"])]
    if c["llama"]:
        command += ["--position-embedding-type", "rope", "--normalization", "RMSNorm", "--swiglu", "--disable-bias-linear",
                    "--untie-embeddings-and-output-weights", "--group-query-attention",
                    "--num-query-groups", str(c["kv_heads"]), "--ffn-hidden-size", str(c["ffn"])]
    events = [json.loads(line) for line in lines_of([*command, *more])]
    return 1000 * statistics.median([e["step_seconds"] for e in events if e["event"] == "step"][5:])


def llm_c(command, c, steps):
    """Trains gpt2-124M, without validation, samples and recomputation, on tokens drawn at random."""
    tokens = c["batch"] * c["seq"]
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        ids = array.array("H", torch.randint(50257, ((steps + 5) * tokens + 1,)).tolist())
        array.array("i", [20240520, 1, len(ids), *[0] * 253]).tofile(file)
        ids.tofile(file)
        file.flush()
        options = {"-i": file.name, "-j": file.name, "-e": f"d{c['layers']}", "-b": c["batch"], "-t": c["seq"],
                   "-d": tokens, "-x": steps + 5, "-l": 1e-4, "-c": 0.1, "-r": 0, "-v": steps + 5, "-m": 0, "-s": 0}
        lines = lines_of([*shlex.split(command), *(str(x) for pair in options.items() for x in pair)])
    found = [re.match(r"step .* loss ([\d.]+) .*\| ([\d.]+) ms \|", line) for line in lines]
    losses, times = zip(*((float(x) for x in step.groups()) for step in found if step))
    return {"ms": statistics.median(times[5:]), "losses": [losses[0], losses[-1]]}


def lines_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], sep="", file=sys.stderr)
        sys.exit(f"bench-gpu: exit code {done.returncode} of {shlex.join(command)}")
    return done.stdout.splitlines()


def last_line(command):
    return json.loads(lines_of(command)[-1])


def shape_flags(c):
    """As a peer in a file of its own takes them."""
    named = {"mbs": c["batch"]} | {k: c[k] for k in ("layers", "hidden", "heads", "vocab", "seq")}
    return [x for name, value in named.items() for x in (f"--{name}", str(value))]


def ways_of_mt(args):
    """Its flags in each."""
    return {"mt": []} | ({"mt-bf16-gradients": ["--grad-reduce-in-bf16"]} if args.bf16_gradients else {})


def ways_to_train(args, name):
    """Functions that return a dictionary with the milliseconds of a step, "ms"."""
    c, steps = CASES[name], ["--steps", str(args.steps)]
    again = [sys.executable, __file__, args.program, "--peer", "--cases", name, *steps]
    ways = {way: lambda more=more: {"ms": mt(args.program, c, args.steps, *more)}
            for way, more in ways_of_mt(args).items()}
    if args.torch:
        ways["torch"] = lambda: last_line(again)
    if args.llm_c and name == "gpt2-124M":
        ways["llm.c"] = lambda: llm_c(args.llm_c, c, args.steps)
    if args.megatron and not c["llama"]:
        script = str(pathlib.Path(__file__).with_name("peer-megatron.py"))
        megatron = [sys.executable, script, *shape_flags(c), "--micro-batches", str(c["micro_batches"]), *steps]
        ways["megatron-core"] = lambda: last_line(megatron)
    return ways


def one_gpu(args, name, products, copy):
    c, ways = CASES[name], ways_to_train(args, name)
    for more in ways_of_mt(args).values():
        mt(args.program, c, args.steps, *more, "--train-iters", "100000", "--exit-interval", "12")
    rounds = []
    for _ in range(args.rounds):
        rounds.append({way: run() for way, run in ways.items()})
        print(name, json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    ms = {way: statistics.median(times[way]["ms"] for times in rounds) for way in ways}
    tokens, seconds = c["batch"] * c["seq"] * c["micro_batches"], ms["mt"] / 1000
    ratios = {name: {way: ms[way] / ms[ours] for way in ways if not way.startswith("mt")}
              for name, ours in (("ratio", "mt"), ("ratio_bf16_gradients", "mt-bf16-gradients")) if ours in ways}
    return c | {"rounds": rounds, "ms": ms} | ratios | {
                "mt_tokens_per_second": tokens / seconds,
                "of_products": flops_of_token(c) * tokens / products / seconds,
                "of_roof": roof_seconds(c, products, copy) / seconds}


def several(args, name, products, copy):
    """Each way computes the same sequences a step."""
    c = SEVERAL[name]
    gpus, sequences = c["gpus"], c["gpus"] * c["batch"]
    start = ["--gpus", str(gpus), "--untie-embeddings-and-output-weights", "--global-batch-size", str(sequences)]
    ways = {
        "optimizer": [*start, *SHARDED],
        "weights": [*start, *SHARDED, "--data-parallel-sharding-strategy", "optim_grads_params"],
        "tensor": [*start, "--tensor-model-parallel-size", str(gpus), "--sequence-parallel",
                   "--micro-batch-size", str(sequences)],
    }
    again = [__file__, args.program, "--peer", "--cases", name, "--steps", str(args.steps)]
    peer = ["torchrun", "--nproc-per-node", str(gpus), *(again if c["llama"] else [args.several_peer, *shape_flags(c)])]
    rounds = [{way: mt(args.program, c, args.steps, *more) for way, more in ways.items()} |
              {"peer": last_line(peer)["ms"]} for _ in range(args.rounds)]
    ms = {way: statistics.median(times[way] for times in rounds) for way in rounds[0]}
    roof = 1000 * roof_seconds(c, products, copy)
    return c | {"rounds_ms": rounds, "ms": ms, "ratio": {way: ms["peer"] / ms[way] for way in ways},
                "of_roof": {way: roof / ms[way] for way in ways}}


def decode(args, c):
    rounds = [(last_line([args.program, *(f"{k}={v}" for k, v in c.items())]),
               last_line([sys.executable, args.decode_peer, *(x for k, v in c.items() for x in (f"--{k}", str(v)))]))
              for _ in range(args.rounds)]
    ours, theirs = (statistics.median(run["ms"] for run in runs) for runs in zip(*rounds))
    return c | {"rounds": rounds, "mt_ms": ours, "peer_ms": theirs, "ratio": theirs / ours,
                "of_bound": statistics.median(run["of_bound"] for run, _ in rounds)}


def product_rate():
    """FLOP/s of a large bf16 product on random numbers, over at least five seconds."""
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    torch.matmul(a, b)
    torch.cuda.synchronize()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < 5:
        for _ in range(50):
            torch.matmul(a, b)
        torch.cuda.synchronize()
        count += 50
    return 2 * size**3 * count / (time.perf_counter() - start)


def copy_rate():
    """Bytes a second, read and written, of a copy of 4 GiB."""
    a, b = (torch.empty(1 << 32, device="cuda", dtype=torch.uint8) for _ in range(2))
    return 2 * a.numel() / median_seconds(lambda: b.copy_(a))


def attention_seconds(c):
    """cuDNN's forward and backward of one layer and micro-batch."""
    groups, dim = c["kv_heads"] or c["heads"], c["hidden"] // c["heads"]
    q, k, v, d_o = (torch.randn(c["batch"], heads, c["seq"], dim, device="cuda", dtype=torch.bfloat16)
                    for heads in (c["heads"], groups, groups, c["heads"]))
    q, k, v = (x.requires_grad_() for x in (q, k, v))

    def run():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=groups != c["heads"])

    o = run()
    return median_seconds(run) + median_seconds(lambda: torch.autograd.grad(o, (q, k, v), d_o, retain_graph=True))


def median_seconds(run):
    times = []
    for _ in range(25):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return statistics.median(times[5:])


def roof_seconds(c, products, copy):
    """Of a step: see the head of this file."""
    hidden, layers, groups = c["hidden"], c["layers"], c["kv_heads"] or c["heads"]
    ffn, dim, tokens = c["ffn"] or 4 * hidden, hidden // c["heads"], c["batch"] * c["seq"] * c["micro_batches"]
    weights = layers * block_weights(c)
    per_layer = 24 * hidden  # two norms: 2 elements of 2 bytes forward, 4 backward
    if c["llama"]:
        per_layer += 16 * ffn + 8 * (hidden + groups * dim)  # SwiGLU; queries and keys turned twice in place
    per_token = layers * per_layer + 12 * hidden + (6 if c["llama"] else 8) * hidden  # the last norm, the embedding
    words = c["vocab"] * hidden
    parameters = weights + (2 * words if c["llama"] else words + c["seq"] * hidden)
    # f32 weight and two moments read and written, f32 gradient, bf16 weight; GPUs share them
    adam = 30 * parameters / c.get("gpus", 1)
    return (6 * (weights + words) * tokens / products + layers * c["micro_batches"] * attention_seconds(c) +
            (tokens * per_token + adam) / copy)


def block_weights(c):
    groups, ffn = c["kv_heads"] or c["heads"], c["ffn"] or 4 * c["hidden"]
    attention = c["hidden"] * (c["heads"] + 2 * groups) * (c["hidden"] // c["heads"]) + c["hidden"] ** 2
    return attention + (3 if c["llama"] else 2) * c["hidden"] * ffn


def flops_of_token(c):
    return 6 * (c["layers"] * block_weights(c) + c["vocab"] * c["hidden"]) + 6 * c["layers"] * c["seq"] * c["hidden"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--llm-c", metavar="COMMAND", help="time llm.c, too, on the case gpt2-124M")
    parser.add_argument("--megatron", action="store_true", help="time megatron-core, too, on the cases of GPT-2's kind")
    parser.add_argument("--bf16-gradients", action="store_true", help="time mt with gradients in bf16, too")
    parser.add_argument("--no-torch", dest="torch", action="store_false", help="leave the compiled PyTorch out")
    parser.add_argument("--decode-peer", metavar="SCRIPT", help="the peer of the cases decode-…")
    parser.add_argument("--several-peer", metavar="SCRIPT", help="the peer of the cases several-…, but of a Llama")
    parser.add_argument("--peer", action="store_true", help="time the peer alone, in this process, on one case")
    args = parser.parse_args()
    if args.peer and args.cases in SEVERAL:
        rank, ms = sharded_peer(SEVERAL[args.cases], args.steps)
        return print(json.dumps({"ms": ms})) if rank == 0 else None
    if args.peer:
        return print(json.dumps({"ms": peer(CASES[args.cases], args.steps)}))
    names = args.cases.split(",")
    if args.llm_c and "gpt2-124M" not in names:
        parser.error("--llm-c is for the case gpt2-124M; name it in --cases")
    if args.megatron and not any(name in CASES and not CASES[name]["llama"] for name in names):
        parser.error("--megatron is for cases of GPT-2's kind; name 1.7B, 1.7B-4 or gpt2-124M in --cases")
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cases": {}}
    if any(name in CASES or name in SEVERAL for name in names):
        result |= {"products_flops": product_rate(), "copy_bytes": copy_rate()}
        torch.cuda.empty_cache()
    for name in names:
        if name in DECODE:
            result["cases"][name] = decode(args, DECODE[name])
            continue
        if name in SEVERAL:
            result["cases"][name] = several(args, name, result["products_flops"], result["copy_bytes"])
            continue
        result["cases"][name] = one_gpu(args, name, result["products_flops"], result["copy_bytes"])
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
