#!/usr/bin/env python3
"""Time Mamba-2 on a GPU, mt beside mamba_ssm's Triton kernels, by turns in one run.

  scan        The scan alone, forward and both, bf16, 8,192 tokens of one sequence, heads of 64 channels and states of
              128: of 128 heads in 8 groups (Nemotron-H 8B's), and of 80 in one (Mamba-2 2.7B's).  mt: cuda_bench.
  layer       A layer with its norm and residual, forward and backward, of those heads, 4096 and 2560 wide.  mt:
              layer_bench, which adds gradients of weights up in fp32; the peer's are bf16.
  nemotron-h  A step of training of the first 13 layers of Nemotron-H 8B, M-M-M-M*-M-M- (24 : 24 : 4 in all of its 52),
              with a quarter of its vocabulary, 8,192 tokens.  The peer has bf16 weights and gradients, fp32 masters and
              fused AdamW, clipping, cuDNN's attention; all but mamba_ssm's modules is compiled by torch.compile.
  decode      A token of Mamba-2 2.7B (64 layers, 2560 wide, vocabulary 50288, tied) after another, one text.  mt:
              decode_bench; `of_bound` is the part of what reading the weights, and reading and writing states in fp32,
              at the rate of a copy would allow.  The peer's modules step in one CUDA graph, with states in bf16.

Peers are mamba_ssm's Block and Mamba2: of chunks of 128 and 256 tokens the faster; sums of residuals and norms in one Triton kernel,
convolution, scan, gated norm and last product in one autograd function where causal_conv1d is importable, else by PyTorch's
conv1d ("conv" says which).  FOLDER has the packages mamba_ssm and, if so, causal_conv1d (github.com/state-spaces/mamba,
Dao-AILab/causal-conv1d); of mamba_ssm its Python files do, with an __init__.py that imports nothing.

Triton's kernels are compiled first, by a process a core, each some of the configurations that mamba_ssm tries; then each kernel is
tuned by all of them, timed for 25 ms each in place of 100.  Prints a line for each part that ends, for each way in each round too,
behind the seconds since the start, then one JSON: medians of milliseconds and the ratios peer / mt.

Needs from PyPI: torch, triton, einops, huggingface_hub (tried with torch 2.11, triton 3.6).
Run:  scripts/bench-mamba.py build/release --mamba-ssm FOLDER [--cases scan,layer,nemotron-h,decode] [--rounds 3]
"""
import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BEGIN = time.perf_counter()
TOKENS, CHANNELS, STATES = 8192, 64, 128
CHUNKS = 128, 256
SHAPES = {"128x8": {"hidden": 4096, "heads": 128, "groups": 8}, "80x1": {"hidden": 2560, "heads": 80, "groups": 1}}
STACK = {"pattern": "M-M-M-M*-M-M-", "hidden": 4096, "ffn": 21504, "heads": 32, "kv_heads": 8, "channels": 128,
         "vocab": 32768, "mixer": "128x8"}
DECODE = {"layers": 64, "vocab": 50288, "mixer": "80x1"}


def told(text):
    """What has ended, behind the seconds that the program has run."""
    print(f"{time.perf_counter() - BEGIN:5.0f} s  {text}", flush=True)


def lines_of(command):
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], sep="", file=sys.stderr)
        sys.exit(f"bench-mamba: exit code {done.returncode} of {' '.join(map(str, command))}")
    return done.stdout.splitlines()


def milliseconds(run, count=30):
    """Median, after ten runs."""
    times = []
    for _ in range(10 + count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[10:])


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=dtype)


# --- mt ------------------------------------------------------------------------------------------


def mt_scan(build, name):
    kernels = map(json.loads, lines_of([build / "tests/kernels/cuda_bench", f"bf16 {name}"]))
    ms = {kernel["kernel"].split()[0]: kernel["microseconds"] / 1000 for kernel in kernels}
    return {"forward": ms["chunk_scan_forward"], "both": ms["chunk_scan_forward"] + ms["chunk_scan_backward"]}


def mt_layer(build, name):
    sizes = [f"{key}={value}" for key, value in SHAPES[name].items()]
    found = json.loads(lines_of([build / "tests/model/layer_bench", f"tokens={TOKENS}", *sizes])[-1])
    return {"forward": found["forward_ms"], "both": found["ms"]}


def stack_command(build, steps):
    c, mixer = STACK, SHAPES[STACK["mixer"]]
    return [build / "cmd/mt-pretrain", "--device", "cuda", "--bf16", "--mock-data", "--tokenizer-type", "NullTokenizer",
            "--vocab-size", c["vocab"] - 1, "--eval-iters", 0, "--lr", 1e-4, "--lr-decay-style", "constant",
            "--adam-beta2", 0.95, "--weight-decay", 0.1, "--attention-dropout", 0, "--hidden-dropout", 0, "--quiet",
            "--json", "--train-iters", steps + 5, "--model-type", "mamba", "--hybrid-override-pattern", c["pattern"],
            "--num-layers", len(c["pattern"]), "--hidden-size", c["hidden"], "--ffn-hidden-size", c["ffn"],
            "--num-attention-heads", c["heads"], "--group-query-attention", "--num-query-groups", c["kv_heads"],
            "--kv-channels", c["channels"], "--mamba-num-heads", mixer["heads"], "--mamba-num-groups",
            mixer["groups"], "--mamba-head-dim", CHANNELS, "--mamba-state-dim", STATES, "--squared-relu",
            "--normalization", "RMSNorm", "--disable-bias-linear", "--untie-embeddings-and-output-weights",
            "--position-embedding-type", "none", "--seq-length", TOKENS, "--max-position-embeddings", TOKENS,
            "--micro-batch-size", 1, "--global-batch-size", 1]


def search_products(build):
    """Has mt search for the fastest products of the stack, as it does in a long run, once for a kind of GPU."""
    lines_of([*stack_command(build, 5), "--train-iters", 100000, "--exit-interval", 12])
    told("mt has searched its products")


def mt_stack(build, steps):
    events = map(json.loads, lines_of(stack_command(build, steps)))
    return {"both": 1000 * statistics.median([e["step_seconds"] for e in events if e["event"] == "step"][5:])}


def mt_decode(build):
    mixer = SHAPES[DECODE["mixer"]]
    sizes = {"layers": DECODE["layers"], "vocab": DECODE["vocab"], "hidden": mixer["hidden"], "mamba-heads": mixer["heads"],
             "mamba-groups": mixer["groups"], "tied": 1, "new": 256}
    return json.loads(lines_of([build / "tests/infer/decode_bench", *(f"{k}={v}" for k, v in sizes.items())])[-1])


# --- Peers ---------------------------------------------------------------------------------------


def has_causal_conv():
    from mamba_ssm.modules import mamba2
    return mamba2.causal_conv1d_fn is not None


def scan_steps(name, chunk):
    """The forward alone, and both."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    heads, groups = SHAPES[name]["heads"], SHAPES[name]["groups"]
    inputs = [random(1, TOKENS, heads, CHANNELS), random(1, TOKENS, heads), -torch.rand(heads, device="cuda") - 0.5,
              random(1, TOKENS, groups, STATES), random(1, TOKENS, groups, STATES), random(heads, dtype=torch.float32),
              random(heads, dtype=torch.float32)]
    x, dt, decay, b, c, d, bias = (tensor.requires_grad_() for tensor in inputs)

    def forward():
        return mamba_chunk_scan_combined(x, dt, decay, b, c, chunk, D=d, dt_bias=bias, dt_softplus=True)

    dy = random(1, TOKENS, heads, CHANNELS)
    return forward, lambda: torch.autograd.grad(forward(), (x, dt, decay, b, c, d, bias), dy)


def mamba_block(name, chunk, index=0):
    from mamba_ssm.modules.block import Block
    from mamba_ssm.modules.mamba2 import Mamba2
    from mamba_ssm.ops.triton.layer_norm import RMSNorm

    c = SHAPES[name]
    own = {"device": "cuda", "dtype": torch.bfloat16}
    block = Block(c["hidden"],
                  lambda width: Mamba2(width, d_state=STATES, headdim=CHANNELS, ngroups=c["groups"], chunk_size=chunk,
                                       use_mem_eff_path=has_causal_conv(), layer_idx=index, **own),
                  nn.Identity, lambda width: RMSNorm(width, **own), fused_add_norm=True)
    assert block.mixer.nheads == c["heads"]
    return block


def layer_steps(name, chunk):
    """Likewise."""
    block = mamba_block(name, chunk)
    shape = 1, TOKENS, SHAPES[name]["hidden"]
    x, residual = (random(*shape).requires_grad_() for _ in range(2))
    inputs = (x, residual, *block.parameters())
    gradients = tuple(1e-3 * random(*shape) for _ in range(2))

    def forward():
        return block(x, residual)

    return forward, lambda: torch.autograd.grad(forward(), inputs, gradients)


def peer(steps):
    forward, both = steps
    with torch.no_grad():
        alone = milliseconds(forward)
    return {"forward": alone, "both": milliseconds(both)}


# --- Triton's kernels ----------------------------------------------------------------------------


def tuners():
    """The kernels of mamba_ssm that Triton tunes."""
    from mamba_ssm.modules import block, mamba2
    from triton.runtime.autotuner import Autotuner

    assert block and mamba2
    found = {id(value): value for name, module in list(sys.modules.items()) if name.startswith("mamba_ssm")
             for value in vars(module).values() if isinstance(value, Autotuner)}
    return list(found.values())


def once(call, quantiles):
    """In place of timing a configuration."""
    call()
    return [1.0] * len(quantiles)


def compile_part(folder, part, parts, layers, scans):
    """Compiles one of so many parts of each kernel's configurations, by steps of these layers and scans, into Triton's cache."""
    if folder:
        sys.path.insert(0, folder)
    for tuner in tuners():
        tuner.configs = tuner.configs[part::parts] or [tuner.configs[part % len(tuner.configs)]]
        tuner.do_bench = once
    for steps, name, chunk in [*((layer_steps, *layer) for layer in layers), *((scan_steps, *scan) for scan in scans)]:
        try:
            steps(name, chunk)[1]()
        except Exception as error:  # not all fit on every GPU, which then is found when they are tuned
            print(f"part {part}, {name}, chunks of {chunk}: {error}", file=sys.stderr)
    torch.cuda.synchronize()


def compile_all(args, cases):
    shapes = [(name, chunk) for name in args.shapes.split(",") for chunk in args.chunks]
    layers, scans = shapes if "layer" in cases else [], shapes if "scan" in cases else []
    if "nemotron-h" in cases:
        layers = list(dict.fromkeys([*layers, (STACK["mixer"], args.chunks[-1])]))
    if not layers + scans:
        return
    begin, parts = time.perf_counter(), min(11, os.cpu_count())
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=compile_part, args=(args.mamba_ssm, part, parts, layers, scans))
               for part in range(parts)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    told(f"compiled by {parts} processes in {time.perf_counter() - begin:.0f} s")


def tune_sooner():
    from triton.testing import do_bench

    for tuner in tuners():
        tuner.do_bench = lambda call, quantiles: do_bench(call, warmup=5, rep=25, quantiles=quantiles)


# --- Stacks and texts ----------------------------------------------------------------------------


class Added(nn.Module):
    """What is added to the residual, which is then normalised for a module."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(STACK["hidden"])

    def forward(self, x, residual):
        residual = residual + x
        return self.module(self.norm(residual)), residual


class Attention(Added):
    def __init__(self):
        super().__init__()
        c = STACK
        self.qkv = nn.Linear(c["hidden"], (c["heads"] + 2 * c["kv_heads"]) * c["channels"], bias=False)
        self.proj = nn.Linear(c["heads"] * c["channels"], c["hidden"], bias=False)

    def module(self, x):
        groups = STACK["kv_heads"]
        heads = self.qkv(x).view(*x.shape[:2], -1, STACK["channels"]).transpose(1, 2)
        q, k, v = heads.split((STACK["heads"], groups, groups), dim=1)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.proj(o.transpose(1, 2).flatten(2))


class Mlp(Added):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(STACK["hidden"], STACK["ffn"], bias=False)
        self.fc2 = nn.Linear(STACK["ffn"], STACK["hidden"], bias=False)

    def module(self, x):
        return self.fc2(F.relu(self.fc1(x)).square())


class Head(Added):
    def __init__(self):
        super().__init__()
        self.words = nn.Linear(STACK["hidden"], STACK["vocab"], bias=False)

    def forward(self, x, residual, labels):
        return F.cross_entropy(self.words(self.norm(residual + x)).flatten(0, 1).float(), labels.flatten())


class PeerStack:
    """A model in training; made once, and timed in each round."""

    def __init__(self, chunk):
        torch.manual_seed(1)
        kinds = {"*": Attention, "-": Mlp}
        with torch.device("cuda"):  # where billions of numbers are drawn sooner
            self.words = nn.Embedding(STACK["vocab"], STACK["hidden"]).bfloat16()
            self.layers = [mamba_block(STACK["mixer"], chunk, i) if letter == "M" else self.compiled(kinds[letter]())
                           for i, letter in enumerate(STACK["pattern"])]
            self.head = self.compiled(Head())
        modules = (self.words, *self.layers, self.head)
        self.weights = [weight for module in modules for weight in module.parameters()]
        for module in modules:
            for weight in module.parameters():
                if weight.dim() == 2:
                    nn.init.normal_(weight, std=0.02)
        self.masters = [weight.detach().float().requires_grad_() for weight in self.weights]
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        self.ids = torch.randint(STACK["vocab"], (1, TOKENS + 1), device="cuda")

    @staticmethod
    def compiled(module):
        module = module.bfloat16()
        module.compile()
        return module

    def loss(self):
        x = self.words(self.ids[:, :-1])
        residual = torch.zeros_like(x)
        for layer in self.layers:
            x, residual = layer(x, residual)
        return self.head(x, residual, self.ids[:, 1:])

    def step(self):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            self.loss().backward()
        for weight, master in zip(self.weights, self.masters):
            master.grad, weight.grad = weight.grad.float(), None
        torch.nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)

    def time(self, steps):
        times = []
        for _ in range(steps + 5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            self.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return {"both": 1000 * statistics.median(times[5:])}


class PeerDecode:
    """Steps of one text in a graph: the token that each finds is the next one's input."""

    def __init__(self):
        c = SHAPES[DECODE["mixer"]]
        torch.manual_seed(1)
        self.words = 0.02 * random(DECODE["vocab"], c["hidden"])
        self.layers = [mamba_block(DECODE["mixer"], CHUNKS[-1], i) for i in range(DECODE["layers"])]
        self.norm = mamba_block(DECODE["mixer"], CHUNKS[-1]).norm
        self.states = [layer.allocate_inference_cache(1, 0) for layer in self.layers]
        self.token = torch.zeros(1, dtype=torch.long, device="cuda")
        with torch.no_grad():
            self.step()
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()

    def step(self):
        from mamba_ssm.ops.triton.layer_norm import layer_norm_fn

        def added(x, residual, norm):
            return layer_norm_fn(x, norm.weight, None, residual=residual, prenorm=True, eps=norm.eps, is_rms_norm=True)

        x, residual = self.words[self.token][None], None
        for layer, (conv_state, state) in zip(self.layers, self.states):
            x, residual = added(x, residual, layer.norm)
            x = layer.mixer.step(x, conv_state, state)[0]
        x, _ = added(x, residual, self.norm)
        self.token.copy_((x[0] @ self.words.T).argmax(-1))

    def time(self, steps=256):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            self.graph.replay()
        torch.cuda.synchronize()
        return {"ms": 1000 * (time.perf_counter() - start) / steps}


# --- Cases ---------------------------------------------------------------------------------------


def by_turns(name, rounds, ways):
    """Medians of each number of each way."""
    found = []
    for _ in range(rounds):
        found.append({})
        for way, run in ways.items():
            found[-1][way] = run()
            told(f"{name}, {way}: {json.dumps(found[-1][way])}")
    return {way: {key: statistics.median(of[way][key] for of in found) for key in found[0][way]} for way in ways}


def beside(ms):
    """The ratios of the best peer to mt."""
    peers = [way for way in ms if way != "mt"]
    return ms | {"ratio": {key: min(ms[way][key] for way in peers) / ms["mt"][key]
                           for key in ms["mt"] if all(key in ms[way] for way in peers)}}


def run_case(args, name):
    build = args.build
    if name in ("scan", "layer"):
        ours, theirs = {"scan": (mt_scan, scan_steps), "layer": (mt_layer, layer_steps)}[name]
        return {shape: beside(by_turns(f"{name} {shape}", args.rounds, {"mt": lambda: ours(build, shape)} | {
            f"mamba_ssm {chunk}": lambda chunk=chunk: peer(theirs(shape, chunk)) for chunk in args.chunks}))
            for shape in args.shapes.split(",")}
    if name == "nemotron-h":
        chunk = args.chunks[-1]
        stack = PeerStack(chunk)
        told(f"{name}: the peer's weights are drawn")
        stack.step()
        told(f"{name}: the peer's kernels are tuned and compiled")
        return STACK | beside(by_turns(name, args.rounds, {
            "mt": lambda: mt_stack(build, args.steps), f"mamba_ssm {chunk}": lambda: stack.time(args.steps)}))
    texts = PeerDecode()
    return beside(by_turns(name, args.rounds, {"mt": lambda: mt_decode(build), "mamba_ssm": texts.time}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path, help="the folder of a build, with cmd/ and tests/")
    parser.add_argument("--mamba-ssm", metavar="FOLDER", help="packages that are not installed")
    parser.add_argument("--cases", default="scan,layer,nemotron-h,decode")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="of nemotron-h, in each round")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="of scan and layer: heads x groups")
    parser.add_argument("--chunks", type=int, nargs="+", default=CHUNKS, help="tokens of the peers' chunks; the last in nemotron-h")
    args = parser.parse_args()
    if args.mamba_ssm:
        sys.path.insert(0, args.mamba_ssm)
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
              "conv": "causal_conv1d" if has_causal_conv() else "torch"}
    cases = args.cases.split(",")
    for name in cases:
        if name not in ("scan", "layer", "nemotron-h", "decode"):
            parser.error(f"--cases {name}: expected scan, layer, nemotron-h or decode")
    with concurrent.futures.ThreadPoolExecutor() as pool:  # a minute each, of GPU and of CPU
        searched = pool.submit(search_products, args.build) if "nemotron-h" in cases else None
        compile_all(args, cases)
        if searched:
            searched.result()
    tune_sooner()
    for name in cases:
        result[name] = run_case(args, name)
        torch.cuda.empty_cache()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
