#!/usr/bin/env python3
"""Time steps of a LLaVA's finetuning on a GPU, by mt-finetune sft and by transformers, compiled, in turn, on the same GPU.

Both begin from random weights of LLaVA 1.5's 7B, and do what its second stage does: the tower of images stays as it is, the projector and the
language model learn, from texts of 1,024 tokens, 576 of which are an image's, --samples of them a step: 16, what each of eight GPUs has of
that stage's 128, or those 128.  mt reads the images from PNG files, and keeps weights, gradients and moments in fp32 beside weights in
bf16, or with --moments bf16 and --gradients bf16 those in bf16.  The peer has the same random pixels and tokens on the GPU all the time, and is
what one would write instead: transformers' model, compiled, in bf16, with PyTorch's attention and its fused AdamW, and clipping;
weights, gradients and moments are all in bf16, which is less.  --compile layers compiles each layer alone, which is ready sooner.
Every run is a process of its own.

Prints one JSON: the machine, the shape, of either the median seconds of a step and the most memory that the GPU has held, and the ratio
peer / mt of the seconds.

--tiny runs two small layers on the CPU, where nothing is compiled: a check of this script.

Needs from PyPI: torch, transformers (tried with 2.15.0, 5.24.0).
Run:  scripts/bench-llava.py build/release/cmd [--steps 20] [--samples 16] [--micro 4] [--moments bf16] [--gradients bf16] [--compile model|layers|none] [--only mt|peer]
      scripts/bench-llava.py build/release/cmd --tiny
"""
import argparse
import json
import pathlib
import random
import shutil
import statistics
import struct
import sys
import tempfile
import time
import zlib

from timed_runs import output_of, with_memory

WORDS = pathlib.Path(__file__).resolve().parent.parent / "testdata/models/llava"
BF16 = ["--use-distributed-optimizer", "--use-precision-aware-optimizer"]
BF16_MOMENTS, BF16_GRADIENTS = ["--exp-avg-dtype", "bf16", "--exp-avg-sq-dtype", "bf16"], ["--main-grads-dtype", "bf16"]
IMAGE = 259  # the token of an image in that tokenizer
TOWER = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096, "image_size": 336,
         "patch_size": 14, "projection_dim": 768}
WHOLE = {"seq": 1024, "tower": TOWER,
         "text": {"vocab_size": 32064, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
                  "intermediate_size": 11008, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}}
TINY_TOWER = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256, "image_size": 32, "patch_size": 8,
              "projection_dim": 64}
TINY = {"seq": 64, "tower": TINY_TOWER,
        "text": {"vocab_size": 320, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
                 "intermediate_size": 176, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}}


def tokens_of_image(c):
    return (c["tower"]["image_size"] // c["tower"]["patch_size"]) ** 2


# --- mt -----------------------------------------------------------------------------------------

def write_image(path, side, choose):
    """A PNG file of coloured squares, eight a side."""
    squares = [[bytes(choose.randrange(256) for _ in range(3)) for _ in range(8)] for _ in range(8)]
    rows = b"".join(b"\0" + b"".join(squares[y * 8 // side][x * 8 // side] for x in range(side)) for y in range(side))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts))


def write_model(folder, c):
    folder.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(WORDS / name, folder)
    side = c["tower"]["image_size"]
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": side}, "crop_size": {"height": side, "width": side}}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlavaForConditionalGeneration"], "model_type": "llava", "image_token_index": IMAGE, "dtype": "bfloat16",
        "vision_feature_layer": -2, "vision_feature_select_strategy": "default", "text_config": {"model_type": "llama"} | c["text"],
        "vision_config": {"model_type": "clip_vision_model"} | c["tower"]}))


def write_texts(folder, c, samples):
    choose = random.Random(1)
    answer = c["seq"] - tokens_of_image(c) - 32  # bytes, each a token; the turns' own beside them
    with (folder / "texts.jsonl").open("w", encoding="ascii") as out:
        for i in range(samples):
            write_image(folder / f"{i}.png", c["tower"]["image_size"], choose)
            said = "".join(choose.choice("etaoinshrdlu ") for _ in range(answer))
            out.write(json.dumps({"messages": [{"role": "user", "content": "<image>A?"}, {"role": "assistant", "content": said}],
                                  "images": [f"{i}.png"]}) + "\n")


def mt(args, c):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_model(folder / "model", c)
        write_texts(folder, c, max(64, args.samples))
        output_of([args.programs / "mt-convert", "--quiet", "--dtype", "bf16", "--mock", folder / "model", folder / "start"])
        output_of([args.programs / "mt-finetune", "sft", "--load", folder / "start", "--train-data", folder / "texts.jsonl",
                   "--valid-split", "0", "--packing", "none", "--seq-length", c["seq"], "--freeze-ViT", "--micro-batch-size", args.micro,
                   "--global-batch-size", args.samples, "--train-iters", args.steps, "--eval-iters", "0", "--lr", "1e-5", "--log-interval", "1",
                   "--quiet", "--run-log", folder / "run.jsonl", *(BF16 if "bf16" in (args.moments, args.gradients) else []),
                   *(BF16_MOMENTS if args.moments == "bf16" else []), *(BF16_GRADIENTS if args.gradients == "bf16" else []),
                   *(["--device", "cpu", "--dtype", "fp32"] if args.tiny else ["--device", "cuda", "--bf16"])])
        events = [json.loads(line) for line in (folder / "run.jsonl").open(encoding="utf-8")]
    return {"seconds": statistics.median([e["step_seconds"] for e in events if e["event"] == "step"][args.warm:])}


# --- The peer -----------------------------------------------------------------------------------

def peer(args, c):
    import torch
    import transformers
    device, dtype = ("cpu", torch.float32) if args.tiny else ("cuda", torch.bfloat16)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**c["tower"]), text_config=transformers.LlamaConfig(use_cache=False, **c["text"]),
        image_token_index=IMAGE, vision_feature_layer=-2)
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = transformers.LlavaForConditionalGeneration(config)
    torch.set_default_dtype(torch.float32)
    model.train()
    model.model.vision_tower.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, betas=(0.9, 0.95), weight_decay=0.01, fused=not args.tiny)
    run, compiles = model, "none" if args.tiny else args.compile
    if compiles == "model":
        run = torch.compile(model)
    if compiles == "layers":
        for module in model.modules():
            if isinstance(module, torch.nn.ModuleList):
                for layer in module:
                    layer.compile()
    ids = torch.randint(IMAGE, (args.micro, c["seq"]), device=device)
    ids[:, 8:8 + tokens_of_image(c)] = IMAGE
    side = c["tower"]["image_size"]
    batch = {"input_ids": ids, "labels": ids.masked_fill(ids == IMAGE, -100),
             "pixel_values": torch.randn(args.micro, 3, side, side, device=device, dtype=dtype)}
    times = []
    for _ in range(args.steps):
        begin = time.perf_counter()
        for _ in range(args.samples // args.micro):
            (run(**batch).loss * args.micro / args.samples).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not args.tiny:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return {"seconds": statistics.median(times[args.warm:]), "torch": torch.__version__, "transformers": transformers.__version__}


# --- Both ---------------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path, help="the folder of mt's programs")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=5, help="steps that are not counted, of these")
    parser.add_argument("--samples", type=int, default=16, help="of a step")
    parser.add_argument("--micro", type=int, default=4, help="samples of a micro-batch")
    parser.add_argument("--moments", choices=("fp32", "bf16"), default="fp32", help="of mt")
    parser.add_argument("--gradients", choices=("fp32", "bf16"), default="fp32", help="of mt")
    parser.add_argument("--compile", choices=("model", "layers", "none"), default="model")
    parser.add_argument("--only", choices=("mt", "peer"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--as-peer", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.steps <= args.warm:
        parser.error(f"--steps: expected more than the {args.warm} that are not counted")
    if args.samples % args.micro:
        parser.error(f"--micro: expected a divisor of {args.samples}")
    c = TINY if args.tiny else WHOLE
    if args.as_peer:
        return print(json.dumps(peer(args, c)))
    again = [sys.executable, __file__, *sys.argv[1:], "--as-peer"]
    ways = {"mt": lambda: mt(args, c), "peer": lambda: json.loads(output_of(again)[0].splitlines()[-1])}
    results = {}
    for way, run in ways.items():
        if args.only in (None, way):
            results[way] = run() if args.tiny else with_memory(run)
            print(f"{way}: {json.dumps(results[way])}", file=sys.stderr, flush=True)
    machine = "CPU" if args.tiny else output_of(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "-i", "0"])[0].strip()
    ratio = {"ratio": results["peer"]["seconds"] / results["mt"]["seconds"]} if len(results) == 2 else {}
    return print(json.dumps({"machine": machine, "steps": args.steps, "micro": args.micro, "samples": args.samples, "moments": args.moments,
                             "gradients": args.gradients, "compile": args.compile} | c |
                            results | ratio, indent=1))


if __name__ == "__main__":
    main()
