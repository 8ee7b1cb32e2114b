#!/usr/bin/env python3
"""Time `mt-generate serve` on a GPU under many requests at once, beside transformers' continuous batching, in one run.

  scripts/bench-serve.py [--bin build/release/cmd] [--requests 256] [--shapes 128:2048,1000:1000] [--peer-shapes 128:256]
                         [--folder DIR] [--tiny]

Makes a Llama of 8B with random weights in bf16 as a folder of Hugging Face's (or takes DIR, where it made one before), of
whose tokens each byte is one.  For each shape, PROMPT:NEW tokens, the server gets all requests at once from
`mt-generate bench`, each with a prompt of its own of random letters, and generates NEW tokens for each.  For the peer's
shapes transformers does the same, in the same run, with paged attention; a first short round, which captures its
graphs, is not counted.

The roof of a shape is the time of what must be read and multiplied at the rates of a large copy and of a large product
on the same GPU: of the prompts the products; of each step the larger of its products and of reading the weights, and
reading the keys and values.  Prints a line of JSON for each: seconds, tokens generated a second, and, of ours, `of_roof`,
the roof over the seconds.

--tiny has two small layers on the CPU and no rates: a check of this script.
Needs from PyPI: torch, transformers (tried with 2.11, 5.17).
"""
import argparse
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

import torch

from local_server import serving

LLAMA_8B = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336, "vocab": 128256, "positions": 8192}
TINY = {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 512, "positions": 512}


def tensors_of(c):
    """(name, shape) of each."""
    hidden, head_dim = c["hidden"], c["hidden"] // c["heads"]
    yield "model.embed_tokens.weight", (c["vocab"], hidden)
    for i in range(c["layers"]):
        for name, rows, columns in (("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", c["kv_heads"] * head_dim, hidden),
                                    ("self_attn.v_proj", c["kv_heads"] * head_dim, hidden),
                                    ("self_attn.o_proj", hidden, hidden), ("mlp.gate_proj", c["ffn"], hidden),
                                    ("mlp.up_proj", c["ffn"], hidden), ("mlp.down_proj", hidden, c["ffn"])):
            yield f"model.layers.{i}.{name}.weight", (rows, columns)
        yield f"model.layers.{i}.input_layernorm.weight", (hidden,)
        yield f"model.layers.{i}.post_attention_layernorm.weight", (hidden,)
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (c["vocab"], hidden)


def byte_letters():
    """The letter that stands for each byte in a byte-level vocabulary."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in shown else chr(next(others)) for b in range(256)]


ALPHABET = byte_letters()


def make_folder(folder, c, device):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "dtype": "bfloat16",
        "num_hidden_layers": c["layers"], "hidden_size": c["hidden"], "num_attention_heads": c["heads"],
        "num_key_value_heads": c["kv_heads"], "intermediate_size": c["ffn"], "vocab_size": c["vocab"],
        "max_position_embeddings": c["positions"], "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False}))
    words = ALPHABET + [f"<t{i}>" for i in range(256, c["vocab"] - 1)]
    end_of_text = {"id": c["vocab"] - 1, "content": "<end>", "special": True, "single_word": False, "lstrip": False,
                   "rstrip": False, "normalized": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [end_of_text], "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)}, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}))
    header, end = {}, 0
    for name, shape in tensors_of(c):
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    said = json.dumps(header).encode()
    said += b" " * (-len(said) % 8)
    torch.manual_seed(1)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(said)) + said)
        for _, shape in tensors_of(c):
            values = torch.ones(shape) if len(shape) == 1 else torch.randn(shape, device=device) * 0.02
            out.write(values.to(torch.bfloat16).view(torch.int16).cpu().numpy().tobytes())
    return folder


def prompts_of(count, length):
    choose = random.Random(1)
    return ["".join(choose.choice("etaoinshrdlu") for _ in range(length)) for _ in range(count)]


# --- The roof -----------------------------------------------------------------------------------

def seconds_of(work, count):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        work()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def rates():
    """Bytes a second that a copy reads and writes, and operations a second of a bf16 product of random numbers."""
    numbers = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    copied = torch.empty(1 << 31, device="cuda", dtype=torch.int8)
    to = torch.empty_like(copied)
    return 2 * copied.numel() / seconds_of(lambda: to.copy_(copied), 20), 2 * 8192**3 / seconds_of(lambda: numbers @ numbers, 20)


def roof_seconds(c, requests, prompt, new, memory, products):
    multiplied = sum(math.prod(shape) for name, shape in tensors_of(c) if len(shape) > 1 and "embed" not in name)
    of_layers = multiplied - c["vocab"] * c["hidden"]
    attended = 4 * c["layers"] * c["hidden"] * prompt * prompt / 2
    reading = requests * (2 * of_layers * prompt + attended) / products
    step = max(2 * multiplied * requests / products, 2 * multiplied / memory)
    of_token = 4 * c["layers"] * c["kv_heads"] * (c["hidden"] // c["heads"])
    cached = sum(requests * (prompt + i) * of_token for i in range(new)) / memory
    return reading + new * step + cached


# --- Ours and the peer --------------------------------------------------------------------------

def ours(args, folder, shapes):
    device = ["--device", "cpu"] if args.tiny else ["--device", "cuda", "--bf16"]
    with serving(f"{args.bin}/mt-generate", folder, "--max-batch-size", str(args.requests), "--max-waiting",
                 str(args.requests), *device) as (_, url):
        for prompt, new in shapes:
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
                lines.write("\n".join(prompts_of(args.requests, prompt)) + "\n")
                lines.flush()
                said = subprocess.run([f"{args.bin}/mt-generate", "bench", url.removeprefix("http://").rstrip("/"), "--quiet",
                                       "--json", "--requests", str(args.requests), "--concurrency", str(args.requests),
                                       "--prompts", lines.name, "--num-tokens", str(new)], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout
            yield prompt, new, [json.loads(line) for line in said.splitlines()]


def peer(args, folder, shapes):
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32 if args.tiny else torch.bfloat16, attn_implementation="sdpa")
    model = model.to("cpu" if args.tiny else "cuda")
    for prompt, new in shapes:
        ids = [[ALPHABET.index(letter) for letter in text] for text in prompts_of(args.requests, prompt)]

        def generated(count):
            how = transformers.GenerationConfig(max_new_tokens=count, do_sample=False, eos_token_id=-1, pad_token_id=0)
            start = time.perf_counter()
            answers = model.generate_batch(inputs=ids, generation_config=how)
            return time.perf_counter() - start, sum(len(a.generated_tokens) for a in answers.values())

        generated(8)
        yield prompt, new, *generated(new)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/cmd")
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--shapes", default="128:2048,1000:1000")
    parser.add_argument("--peer-shapes", default="128:256")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    shapes, peers = ([tuple(map(int, shape.split(":"))) for shape in text.split(",") if shape]
                     for text in (args.shapes, args.peer_shapes))
    c = TINY if args.tiny else LLAMA_8B
    with tempfile.TemporaryDirectory() as own:
        folder = args.folder or pathlib.Path(own) / "llama"
        if not folder.exists():
            make_folder(folder, c, "cpu" if args.tiny else "cuda")
        memory, products = (1, 1) if args.tiny else rates()
        torch.cuda.empty_cache()
        if not args.tiny:
            print(json.dumps({"gpu": torch.cuda.get_device_name(), "copy": memory, "product": products}), flush=True)
        for prompt, new, events in ours(args, folder, shapes):
            wrong = [e for e in events if "request" in e and (e["status"] != 200 or e["tokens"] != new or
                                                              e["prompt_tokens"] != prompt)]
            if wrong:
                sys.exit(f"bench-serve: {len(wrong)} answers are wrong, such as {wrong[0]}")
            seconds = max(e["sent"] + e["seconds"] for e in events if "request" in e)
            line = {"who": "mt", "prompt": prompt, "new": new, "requests": args.requests, "seconds": seconds,
                    "tokens_per_second": args.requests * new / seconds}
            if not args.tiny:
                line["of_roof"] = roof_seconds(c, args.requests, prompt, new, memory, products) / seconds
            print(json.dumps(line), flush=True)
        for prompt, new, seconds, tokens in peer(args, folder, peers):
            print(json.dumps({"who": "transformers", "prompt": prompt, "new": new, "requests": args.requests, "seconds": seconds,
                              "tokens_per_second": tokens / seconds}), flush=True)


if __name__ == "__main__":
    main()
