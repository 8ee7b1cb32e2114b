#!/usr/bin/env python3
"""Time finetuning by mt-finetune on a GPU beside transformers, and PEFT, compiled, in turn, on the same GPU.

Both draw random weights of the shape of a case and learn the same made-up pairs of a prompt and its completion, packed
into samples of the same length by best-fit decreasing, one sample a micro-batch, no text seeing another.  The peer is
what one would write instead: transformers' Llama, compiled, in bf16 by autocast, attention of PyTorch's variable-length
kernel (FlashAttention), fused AdamW, and clipping; of "lora" PEFT's adapters on all linear layers beside bf16 weights, of
"full" fp32 weights.  --peer flex takes FlexAttention with masks of blocks instead.  Every run is a process of its own.

Prints one JSON: the machine, and for each case the shape, every round's median seconds a step, its share of the samples
that is texts, tokens of texts a second, and the most memory that the GPU has held; the medians, the ratio mt / peer of the
tokens, and of the memory.  The case qlora-8B has no peer: it is mt's alone, with --quantize-base nf4.

--tiny runs cases of two small layers on the CPU, where the peer's attention is masked and nothing is compiled: a check
of this script.

Needs from PyPI: torch, transformers, peft (tried with 2.15.0, 5.24.0, 0.21.2).
Run:  scripts/bench-finetune.py build/release/cmd/mt-finetune [--cases lora-8B,full-3B] [--rounds 3] [--steps 20]
      scripts/bench-finetune.py build/release/cmd/mt-finetune --tiny
"""
import argparse
import inspect
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from timed_runs import output_of, with_memory
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

WORDS = pathlib.Path(__file__).resolve().parent.parent / "testdata/gpt2_bpe"
RANK, ALPHA, WARM = 16, 32, 5
LLAMA_8B = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256, "tied": False}
LLAMA_3B = {"layers": 28, "hidden": 3072, "heads": 24, "kv_heads": 8, "ffn": 8192, "vocab": 128256, "tied": True}
RUN = {"seq": 4096, "micro_batches": 4}
CASES = {"lora-8B": LLAMA_8B | RUN | {"lora": True}, "full-3B": LLAMA_3B | RUN | {"lora": False},
         "qlora-8B": LLAMA_8B | RUN | {"lora": True, "mt": ["--quantize-base", "nf4"]}}
TINY = {"layers": 2, "hidden": 128, "heads": 4, "kv_heads": 2, "ffn": 256, "vocab": 512, "tied": False, "seq": 256,
        "micro_batches": 2}
TINY_CASES = {"lora-tiny": TINY | {"lora": True}, "full-tiny": TINY | {"lora": False},
              "qlora-tiny": TINY | {"lora": True, "mt": ["--quantize-base", "nf4"]}}


def write_texts(path, c, steps):
    """Pairs enough for so many steps, of lengths that spread as those of instructions do."""
    choose = random.Random(1)
    letters = "etaoinshrdlu "
    left = int(1.2 * steps * c["micro_batches"] * c["seq"])
    with open(path, "w", encoding="ascii") as out:
        while left > 0:
            size = max(8, min(int(choose.lognormvariate(0, 0.8) * c["seq"] / 10), c["seq"] // 3))
            text = "".join(choose.choice(letters) for _ in range(size))
            out.write(json.dumps({"prompt": text[:size // 4], "completion": text[size // 4:]}) + "\n")
            left -= size


# --- mt -----------------------------------------------------------------------------------------

def mt(args, c, texts):
    command = [args.program, "sft", "--train-data", texts, "--valid-split", "0", "--packing", "bfd", "--num-layers", c["layers"],
               "--hidden-size", c["hidden"], "--ffn-hidden-size", c["ffn"], "--num-attention-heads", c["heads"],
               "--group-query-attention", "--num-query-groups", c["kv_heads"], "--swiglu", "--normalization", "RMSNorm",
               "--disable-bias-linear", "--position-embedding-type", "rope", "--rotary-base", "500000", "--vocab-size",
               c["vocab"], "--max-position-embeddings", c["seq"], "--seq-length", c["seq"], "--micro-batch-size", "1",
               "--global-batch-size", c["micro_batches"], "--train-iters", args.steps, "--attention-dropout", "0",
               "--hidden-dropout", "0", "--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", WORDS / "vocab.json",
               "--merge-file", WORDS / "merges.txt", "--log-interval", "1", "--json", *c.get("mt", [])]
    command += [] if c["tied"] else ["--untie-embeddings-and-output-weights"]
    command += ["--lora-rank", RANK, "--lora-alpha", ALPHA] if c["lora"] else []
    command += ["--device", "cpu", "--dtype", "fp32"] if args.tiny else ["--device", "cuda", "--bf16"]
    said, told = output_of(command, stderr=subprocess.PIPE)
    events = [json.loads(line) for line in said.splitlines()]
    seconds = [e["step_seconds"] for e in events if e["event"] == "step"]
    return {"seconds": statistics.median(seconds[WARM:]),
            "filled": float(re.search(r"^data .* filled=([0-9.]+)", told, re.MULTILINE)[1])}


# --- The peer -----------------------------------------------------------------------------------

def samples_of(c, texts):
    """What one sample each has: tokens, labels, positions, and where texts begin; by best-fit decreasing."""
    import transformers
    tokenizer = transformers.GPT2TokenizerFast(str(WORDS / "vocab.json"), str(WORDS / "merges.txt"))
    pairs = []
    for line in open(texts, encoding="ascii"):
        pair = json.loads(line)
        prompt, completion = (tokenizer(pair[name])["input_ids"] for name in ("prompt", "completion"))
        pairs.append((prompt + completion + [tokenizer.eos_token_id], len(prompt)))
    bins = []
    for pair in sorted(pairs, key=lambda p: -len(p[0])):
        fitting = [b for b in bins[-400:] if b[0] >= len(pair[0])]
        best = min(fitting, key=lambda b: b[0]) if fitting else [c["seq"], []]
        if not fitting:
            bins.append(best)
        best[0] -= len(pair[0])
        best[1].append(pair)
    most = max(len(b[1]) for b in bins) + 1
    random.Random(2).shuffle(bins)
    for _, texts_of_bin in bins:
        ids, labels, positions, begins = [], [], [], [0]
        for tokens, prompt in texts_of_bin:
            ids += tokens
            labels += [-100] * max(prompt, 1) + tokens[max(prompt, 1):]
            positions += range(len(tokens))
            begins.append(len(ids))
        padding = c["seq"] - len(ids)
        filled = len(ids) / c["seq"]
        begins += [c["seq"]] * (most + 1 - len(begins))  # as many of every sample, so that shapes are the same
        yield ([torch.tensor(x) for x in (ids + [0] * padding, labels + [-100] * padding, [*positions, *range(padding)], begins)],
               filled)


GROUPS = {"enable_gqa": True} if "enable_gqa" in inspect.signature(varlen_attn).parameters else {}  # 2.11 asks for no word


def varlen(module, q, k, v, _mask, scaling=None, cu_seq_lens_q=None, max_length_q=None, **_):
    dtype = v.dtype  # positions turn q and k in the model's own, that of weights
    q, k, v = (x[0].transpose(0, 1).to(dtype) for x in (q, k, v))
    out = varlen_attn(q, k, v, cu_seq_lens_q, cu_seq_lens_q, max_length_q, max_length_q, scale=scaling, window_size=(-1, 0),
                      **GROUPS)
    return out[None], None


def masked(module, q, k, v, _mask, scaling=None, cu_seq_lens_q=None, **_):
    places = torch.arange(q.shape[2], device=q.device)
    text = torch.searchsorted(cu_seq_lens_q, places, right=True)
    seen = (text[:, None] == text[None]) & (places[:, None] >= places[None])
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scaling, enable_gqa=True)
    return out.transpose(1, 2), None


def flexible(module, q, k, v, _mask, scaling=None, block_mask=None, **_):
    return flex_attention(q.to(v.dtype), k.to(v.dtype), v, block_mask=block_mask, scale=scaling, enable_gqa=True).transpose(1, 2), None


def peer(c, texts, steps, tiny, kind):
    import peft
    import transformers
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
    function = masked if tiny else {"varlen": varlen, "flex": flexible}[kind]
    transformers.AttentionInterface.register("packed", function)
    ALL_MASK_ATTENTION_FUNCTIONS.register("packed", lambda *_, **__: None)
    device = "cpu" if tiny else "cuda"
    config = transformers.LlamaConfig(
        vocab_size=c["vocab"], hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
        num_key_value_heads=c["kv_heads"], intermediate_size=c["ffn"], max_position_embeddings=c["seq"],
        tie_word_embeddings=c["tied"], rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, use_cache=False)
    config._attn_implementation = "packed"
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16 if c["lora"] and not tiny else torch.float32)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    if c["lora"]:
        model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear",
                                                           task_type="CAUSAL_LM"))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4 if c["lora"] else 2e-5, betas=(0.9, 0.95), weight_decay=0.0, fused=not tiny)
    model.train()
    compiled = model if tiny else torch.compile(model)

    def more(begins):
        if function is not flexible:
            return {"cu_seq_lens_q": begins.int(), "max_length_q": c["seq"]}
        text = torch.searchsorted(begins, torch.arange(c["seq"], device=device), right=True)
        return {"block_mask": create_block_mask(lambda _, __, i, j: (text[i] == text[j]) & (i >= j), None, None, c["seq"],
                                                c["seq"], device=device)}

    samples = samples_of(c, texts)
    times, shares = [], []
    for _ in range(steps):
        if not tiny:
            torch.cuda.synchronize()
        begin = time.perf_counter()
        batch = [next(samples) for _ in range(c["micro_batches"])]
        learnt = sum(int((part[1][1:] != -100).sum()) for part, _ in batch)
        for (ids, labels, positions, begins), filled in batch:
            ids, labels, positions, begins = (x.to(device) for x in (ids, labels, positions, begins))
            with torch.autocast(device, torch.bfloat16, enabled=not tiny):
                loss = compiled(input_ids=ids[None], labels=labels[None], position_ids=positions[None],
                                num_items_in_batch=torch.tensor(learnt, device=device), **more(begins)).loss
            loss.backward()
            shares.append(filled)
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not tiny:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(times[WARM:]), "filled": statistics.mean(shares)}


# --- Both ---------------------------------------------------------------------------------------

def time_case(args, name, c, scratch):
    texts = f"{scratch}/{name}.jsonl"
    write_texts(texts, c, args.steps)
    ways = {"mt": lambda: mt(args, c, texts)}
    if "mt" not in c:
        ways["peer"] = lambda: json.loads(output_of([sys.executable, __file__, args.program, "--steps", args.steps, "--as-peer", name,
                                                     "--texts", texts, "--peer", args.peer, *(["--tiny"] if args.tiny else [])])[0])
    rounds = []
    for _ in range(args.rounds):
        rounds.append({way: run() if args.tiny else with_memory(run) for way, run in ways.items()})
        for result in rounds[-1].values():
            result["tokens_per_second"] = c["seq"] * c["micro_batches"] * result["filled"] / result["seconds"]
    medians = {key: {way: statistics.median(r[way][key] for r in rounds) for way in ways}
               for key in rounds[0]["mt"]}
    ratios = {f"ratio_{key}": medians[key]["mt"] / medians[key]["peer"]
              for key in ("tokens_per_second", "mib") if key in medians and "peer" in ways}
    return c | {"rounds": rounds} | medians | ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", help="names, separated by commas; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--peer", choices=("varlen", "flex"), default="varlen")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--as-peer", help=argparse.SUPPRESS)
    parser.add_argument("--texts", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = TINY_CASES if args.tiny else CASES
    if args.as_peer:
        return print(json.dumps(peer(cases[args.as_peer], args.texts, args.steps, args.tiny, args.peer)))
    if args.steps <= WARM:
        parser.error(f"--steps: expected more than the {WARM} that are not counted")
    machine = "CPU" if args.tiny else torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as scratch:
        results = {name: time_case(args, name, cases[name], scratch) for name in (args.cases or ",".join(cases)).split(",")}
    return print(json.dumps({"machine": machine, "torch": torch.__version__, "steps": args.steps} | results, indent=1))


if __name__ == "__main__":
    main()
