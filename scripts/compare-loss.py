#!/usr/bin/env python3
"""Compare the losses of mt-pretrain, step by step, with those of the same model in PyTorch on the same text.

mt-convert draws the weights of a GPT-2, a Llama, a Mixtral, a GLM-4.5 of experts alone or a Nemotron-H (a third of whose layers
mix by Mamba-2, one attends, the others are MLPs) in bf16, as transformers knows them; both sides start from
these, read the samples that mt-pretrain show-batch names, and take the learning rates that mt-pretrain logs.
Masters start from these, too: with bits that bf16 has not they would follow fp32 more closely through the first
updates of a warm-up, which are smaller than what lies between two weights in bf16.
PyTorch runs transformers' model with bf16 weights and gradients, fp32 masters, AdamW and clipping, and once more
all in fp32, without TF32: how far its own losses in bf16 are from these is the noise of bf16 (root of the mean
square over the steps).  Fails if mt's losses in bf16 are further from PyTorch's in fp32 than 1.5 times that, or if
their mean over the last quarter is; and if its losses in fp32 are further than that noise, or those of the first
twentieth of the steps, before rounding has had time to grow, than 1e-4.  On a CPU (--device cpu) only those in fp32
are compared.  A Mixtral learns with the loss that has its experts chosen as often, a GLM-4.5 with the biases that do; how often
the most chosen one is at the end is printed, beside PyTorch's, and may be 1.3 and 1.2 times the mean, as it comes to be in
500 steps of 16,384 tokens of 4 layers (--steps 500 --layers 4 --hidden 512 --heads 8 --seq 256 --batch 64).  Rounding has them choose other experts, so
their losses in fp32 may be as far from PyTorch's as 1.5 times those of PyTorch itself are from weights that were changed by a
rounding.

Needs from PyPI: torch, transformers.
Run:  scripts/compare-loss.py BIN PREFIX --tokenizer FOLDER [--model gpt2|llama|mixtral|glm4_moe|nemotron_h] [--steps 200] [--json FILE]
BIN holds mt-pretrain and mt-convert, PREFIX.bin and .idx token files of GPT-2's vocabulary, or of another of as many as --vocab,
which is in FOLDER.
"""
import argparse
import concurrent.futures
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
import transformers

EXPERTS, CHOSEN, BALANCE, BIAS_RATE = 8, 2, 0.01, 1e-3
MOST_LOAD = {"mixtral": 1.3, "glm4_moe": 1.2}  # of the most chosen expert of a layer, of the mean, at the end
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0


def config(args):
    if args.model == "gpt2":
        return transformers.GPT2Config(
            vocab_size=args.vocab, n_positions=args.seq, n_embd=args.hidden, n_layer=args.layers, n_head=args.heads,
            resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, architectures=["GPT2LMHeadModel"])
    if args.model == "mixtral":
        return transformers.MixtralConfig(
            vocab_size=args.vocab, max_position_embeddings=args.seq, hidden_size=args.hidden, num_hidden_layers=args.layers,
            num_attention_heads=args.heads, num_key_value_heads=max(1, args.heads // 4), rms_norm_eps=1e-5, rope_theta=1e4,
            intermediate_size=args.hidden * 2, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN, sliding_window=None,
            tie_word_embeddings=False, architectures=["MixtralForCausalLM"])
    if args.model == "glm4_moe":
        return transformers.Glm4MoeConfig(
            vocab_size=args.vocab, max_position_embeddings=args.seq, hidden_size=args.hidden, num_hidden_layers=args.layers,
            num_attention_heads=args.heads, num_key_value_heads=max(1, args.heads // 4), head_dim=args.hidden // args.heads,
            intermediate_size=args.hidden * 2, moe_intermediate_size=args.hidden * 2, n_routed_experts=EXPERTS,
            num_experts_per_tok=CHOSEN, n_shared_experts=1, first_k_dense_replace=0, tie_word_embeddings=False,
            architectures=["Glm4MoeForCausalLM"])
    if args.model == "nemotron_h":
        kinds = ["mamba", "mlp", "mamba", "attention", "mlp"]
        return transformers.NemotronHConfig(
            vocab_size=args.vocab, max_position_embeddings=args.seq, hidden_size=args.hidden, num_attention_heads=args.heads,
            num_key_value_heads=max(1, args.heads // 4), head_dim=args.hidden // args.heads, intermediate_size=args.hidden * 4,
            mamba_num_heads=args.hidden // 32, mamba_head_dim=64, ssm_state_size=64, n_groups=2, chunk_size=64,
            layers_block_type=[kinds[i % len(kinds)] for i in range(args.layers)], architectures=["NemotronHForCausalLM"])
    return transformers.LlamaConfig(
        vocab_size=args.vocab, max_position_embeddings=args.seq, hidden_size=args.hidden, num_hidden_layers=args.layers,
        num_attention_heads=args.heads, num_key_value_heads=max(1, args.heads // 4), rms_norm_eps=1e-5,
        intermediate_size=args.hidden * 8 // 3 // 64 * 64, tie_word_embeddings=False,
        architectures=["LlamaForCausalLM"])


def run(*command):
    return subprocess.run([str(x) for x in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def shape_flags(args):
    return ["--num-layers", args.layers, "--hidden-size", args.hidden, "--num-attention-heads", args.heads]


def common_flags(args):
    flags = ["--seq-length", args.seq, "--max-position-embeddings", args.seq, "--micro-batch-size", args.batch,
             "--train-iters", args.steps, "--data-path", args.prefix, "--split", "100,0,0", "--vocab-size", args.vocab,
             "--lr", args.lr, "--lr-warmup-iters", args.steps // 10, "--min-lr", args.lr / 10, "--eval-iters", 0,
             "--lr-decay-style", "cosine", "--adam-beta1", BETAS[0], "--adam-beta2", BETAS[1], "--adam-eps", EPS,
             "--weight-decay", DECAY, "--clip-grad", CLIP, "--hidden-dropout", 0, "--attention-dropout", 0,
             "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", f"{args.tokenizer}/vocab.json", "--merge-file",
             f"{args.tokenizer}/merges.txt"]
    if args.model in ("llama", "mixtral"):
        c = config(args)
        flags += ["--position-embedding-type", "rope", "--normalization", "RMSNorm", "--swiglu",
                  "--disable-bias-linear", "--untie-embeddings-and-output-weights", "--group-query-attention",
                  "--num-query-groups", c.num_key_value_heads, "--ffn-hidden-size", c.intermediate_size]
    if args.model == "mixtral":
        flags += ["--num-experts", EXPERTS, "--moe-router-topk", CHOSEN, "--moe-aux-loss-coeff", BALANCE]
    if args.model == "glm4_moe":
        flags += ["--moe-aux-loss-coeff", 0, "--moe-router-bias-update-rate", BIAS_RATE]
    return flags


def show_loads(name, loads):
    """Prints, and returns, the means over the last tenth of the steps of what the most chosen expert of each layer has, over the mean."""
    last = loads[-max(1, len(loads) // 10):]
    means = [sum(of_layer) / len(last) for of_layer in zip(*last)]
    print(f"{name}: max / mean load of each layer over the last tenth of the steps:", *(f"{load:.3f}" for load in means))
    return means


def mt_losses(args, weights, bf16):
    """The losses and the learning rates of the steps, and how often the most chosen expert is at the end."""
    own = [] if args.model in ("nemotron_h", "glm4_moe") else shape_flags(args)  # whose layers are the checkpoint's
    lines = run(f"{args.bin}/mt-pretrain", *common_flags(args), *own, "--load", weights, "--finetune", "--device",
                args.device, "--quiet", "--json", *(["--bf16"] if bf16 else [])).splitlines()
    steps = [event for event in map(json.loads, lines) if event["event"] == "step"]
    most = 0
    if args.model in MOST_LOAD:
        most = max(show_loads("bf16" if bf16 else "fp32", [step["expert_loads"] for step in steps]))
    return [step["loss"] for step in steps], [step["lr"] for step in steps], most


def batches(args):
    """Of each step the samples' tokens, [batch, seq + 1]."""
    index = pathlib.Path(args.prefix + ".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0" and index[17] == 8, "expected token files of uint16"
    sequences = int.from_bytes(index[18:26], "little")
    sizes = np.frombuffer(index, np.int32, sequences, 34)
    begins = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    tokens = np.fromfile(args.prefix + ".bin", np.uint16)

    def batch(step):
        lines = run(f"{args.bin}/mt-pretrain", "show-batch", step, *common_flags(args), *shape_flags(args), "--json", "--device", "cpu")
        samples = [np.concatenate([tokens[begins[part["sequence"]] + part["begin"]:
                                          begins[part["sequence"]] + part["end"]]
                                   for part in json.loads(line)["parts"]]) for line in lines.splitlines()]
        return torch.from_numpy(np.stack(samples).astype(np.int64))

    with concurrent.futures.ThreadPoolExecutor() as threads:
        return list(threads.map(batch, range(1, args.steps + 1)))


def balance(router_logits):
    """Megatron's: of each layer E / (k N^2) times the sum over experts of choices and of probabilities."""
    total = 0
    for logits in router_logits:
        p = logits.float().softmax(-1)
        counts = torch.zeros_like(p).scatter(1, p.topk(CHOSEN).indices, 1).sum(0)
        total += EXPERTS / (CHOSEN * len(p) ** 2) * (counts * p.sum(0)).sum()
    return BALANCE * total


def routers(model):
    return [layer.mlp.gate for layer in model.model.layers]


def counts_of(keys):
    return torch.bincount(keys.topk(CHOSEN).indices.flatten(), minlength=EXPERTS).float()


@torch.no_grad()
def update_biases(model, router_logits):
    """Megatron's: what is chosen less often than the mean has a rate more next time.  Returns the loads of the layers."""
    loads = []
    for router, logits in zip(routers(model), router_logits, strict=True):
        counts = counts_of(logits.float().sigmoid() + router.e_score_correction_bias)
        router.e_score_correction_bias += BIAS_RATE * torch.sign(counts.mean() - counts)
        loads.append((counts.max() / counts.mean()).item())
    return loads


def torch_losses(args, weights, data, rates, bf16, nudged=False):
    model = transformers.AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32).to(args.device)
    if nudged:
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for p in model.parameters():
                p *= 1 + ((torch.rand(p.shape, generator=generator) - 0.5) * 2**-22).to(p.device)
    model.train()
    parameters = list(model.parameters())
    masters = [p.detach().clone().requires_grad_() for p in parameters] if bf16 else parameters
    router_logits = []
    if args.model == "glm4_moe":
        for router in routers(model):
            router.register_forward_hook(lambda router, x, _: router_logits.append(
                F.linear(x[0].detach().flatten(0, -2).float(), router.weight.detach().float())))
    if bf16:
        biases = [router.e_score_correction_bias for router in routers(model)] if args.model == "glm4_moe" else []
        model.bfloat16()
        for router, bias in zip(routers(model) if biases else [], biases):
            router.e_score_correction_bias = bias
    optimizer = torch.optim.AdamW([{"params": [p for p in masters if p.dim() > 1], "weight_decay": DECAY},
                                   {"params": [p for p in masters if p.dim() == 1], "weight_decay": 0}],
                                  betas=BETAS, eps=EPS)
    losses, loads = [], []
    for tokens, rate in zip(data, rates):
        tokens = tokens.to(args.device)
        router_logits.clear()
        experts = {"output_router_logits": True} if args.model == "mixtral" else {}
        out = model(tokens[:, :-1], use_cache=False, **experts)
        loss = F.cross_entropy(out.logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        (loss + balance(out.router_logits) if experts else loss).backward()
        if experts:
            counts = [counts_of(logits.detach().float()) for logits in out.router_logits]
            loads.append([(of_layer.max() / of_layer.mean()).item() for of_layer in counts])
        if bf16:
            for parameter, master in zip(parameters, masters):
                master.grad, parameter.grad = parameter.grad.float(), None
        torch.nn.utils.clip_grad_norm_(masters, CLIP)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        if router_logits:
            loads.append(update_biases(model, router_logits))
        if bf16:
            with torch.no_grad():
                torch._foreach_copy_(parameters, masters)
        losses.append(loss.item())
    if loads:
        show_loads(f"torch {'bf16' if bf16 else 'nudged' if nudged else 'fp32'}", loads)
    return losses


def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / len(a))


def end(losses):
    last = losses[-max(1, len(losses) // 4):]
    return sum(last) / len(last)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("prefix")
    parser.add_argument("--tokenizer", required=True, metavar="FOLDER", help="vocab.json and merges.txt of GPT-2")
    parser.add_argument("--model", choices=["gpt2", "llama", "mixtral", "glm4_moe", "nemotron_h"], default="gpt2")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--json", metavar="FILE", help="write the losses here")
    for name, value in (("layers", 12), ("hidden", 768), ("heads", 12), ("seq", 1024), ("batch", 4), ("vocab", 50304)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    data = batches(args)
    with tempfile.TemporaryDirectory() as folder:
        config(args).save_pretrained(f"{folder}/config")
        run(f"{args.bin}/mt-convert", "--mock", "--dtype", "bf16", "--saver", "hf", f"{folder}/config", f"{folder}/hf")
        run(f"{args.bin}/mt-convert", f"{folder}/hf", f"{folder}/core")
        losses, loads = {}, []
        for kind in ["fp32", "bf16"] if args.device == "cuda" else ["fp32"]:
            losses["mt " + kind], rates, most = mt_losses(args, f"{folder}/core", kind == "bf16")
            loads.append(most)
            losses["torch " + kind] = torch_losses(args, f"{folder}/hf", data, rates, kind == "bf16")
        if args.model in MOST_LOAD:
            losses["torch nudged"] = torch_losses(args, f"{folder}/hf", data, rates, False, nudged=True)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(losses))
    truth, early = losses["torch fp32"], max(1, args.steps // 20)
    noise = distance(losses["torch bf16"], truth) if "torch bf16" in losses else 1e-3
    if "torch nudged" in losses:
        noise = max(noise, 1.5 * distance(losses["torch nudged"], truth))
    print(f"{args.model}, {args.steps} steps: from {truth[0]:.5f} to {end(truth):.5f}, the mean of the last quarter")
    failed = distance(losses["mt fp32"][:early], truth[:early]) > 1e-4 or max(loads) > MOST_LOAD.get(args.model, 0)
    for name, of in losses.items():
        if name == "torch fp32":
            continue
        allowed = 1.5 * noise if name == "mt bf16" else noise
        apart, apart_at_end = distance(of, truth), abs(end(of) - end(truth))
        failed |= not max(apart, apart_at_end) <= allowed
        print(f"{name:10}  from PyTorch's fp32 {apart:.2e} (first {early}: {distance(of[:early], truth[:early]):.2e}), "
              f"its mean at the end {apart_at_end:.2e}; allowed {allowed:.2e}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
