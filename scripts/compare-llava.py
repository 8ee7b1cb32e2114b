#!/usr/bin/env python3
"""Compares what mt-generate says of images, and what mt-finetune learns of them, with transformers and torch.

Random LLaVAs of a CLIP and a Llama, of one and a Mistral whose tokens see 700 before them, of a SigLIP and a Qwen2, and of a small
CLIP and a Qwen3, a Phi-3, a Gemma, an OLMo 2 and a SmolLM3, the former with images of as many tokens as LLaVA-1.5's (576) or
SigLIP's (729), and InternVLs of both kinds of norms, with a Qwen2 and a Qwen3, whose images are cut into up to 12 tiles, or 6, answer
texts with none to three images that are drawn in odd sizes and modes.  Answers are the same tokens, one or several texts at a time, and their log-probabilities lie within 1e-4 in
fp32; each model comes back from Megatron's format with every tensor as it was.  Images are resized by Pillow.

Tiny ones of testdata/models learn conversations with none to two images in four steps of AdamW, all of them, or without the
language model, the tower or both: losses and norms of gradients of mt-finetune sft in float64 lie within 1e-5 of torch's, whose
rotary positions are of float32.

Needs from PyPI: torch, torchvision, transformers, tokenizers, pillow, safetensors (made with 2.15.0, 0.29.2, 5.24.0, 0.23.3,
13.0.0, 0.6).
Run:  scripts/compare-llava.py build/release/cmd [KIND...]     KIND: clip-gemma, say; of these alone, which learn nothing
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import PIL.Image
import torch
import transformers
from safetensors.torch import load_file
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from llava_tokens import TEMPLATE, internvl_processor, make_tokenizer, tiles_tokenizer

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
TEXTS = ["What?", "USER: <image>\nWhat is it? ASSISTANT:", "<image><image> Which?", "A <image>, then <image> and <image>!"]
CASES, TOKENS = 12, 10
DATA = pathlib.Path(__file__).resolve().parent.parent / "testdata"
MODELS, IMAGES = DATA / "models", DATA / "images"


def call(*command, **options):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **options)
    if run.returncode != 0:
        sys.exit(f"{command[0]}: exit code {run.returncode}: {run.stderr}")
    return run.stdout


def make(folder, vision, text, processor, strategy, layer):
    tokenizer = make_tokenizer()
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_select_strategy=strategy, vision_feature_layer=layer, tie_word_embeddings=text.tie_word_embeddings)
    joint = transformers.LlavaProcessor(image_processor=processor, tokenizer=tokenizer, patch_size=vision.patch_size,
                                        vision_feature_select_strategy=strategy, chat_template=TEMPLATE,
                                        num_additional_image_tokens=1 if vision.model_type.startswith("clip") else 0)
    return fill(folder, transformers.LlavaForConditionalGeneration(config).eval(), joint)


def make_internvl(folder, vision, text, tiles):
    tokenizer = tiles_tokenizer()
    config = transformers.InternVLConfig(
        vision_config=vision, text_config=text, image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        tie_word_embeddings=text.tie_word_embeddings)
    model = transformers.InternVLForConditionalGeneration(config).eval()
    return fill(folder, model, internvl_processor(vision, tokenizer, tiles))


def fill(folder, model, joint):
    torch.manual_seed(1)
    with torch.no_grad():
        for key, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape) * 0.15
            tensor.copy_(1 + noise if "norm" in key and key.endswith("weight") else noise)
    model.generation_config = transformers.GenerationConfig(eos_token_id=joint.tokenizer.eos_token_id)
    model.save_pretrained(folder)
    joint.save_pretrained(folder)
    return model, joint


def draw(path, seed):
    """A picture of an odd size in one of several modes; returns the file."""
    rng = random.Random(seed)
    size = rng.randint(5, 900), rng.randint(5, 900)
    small = PIL.Image.frombytes("RGB", (7, 5), rng.randbytes(105)).resize(size, PIL.Image.Resampling.BICUBIC)
    mode, ending = [("RGB", "png"), ("RGB", "jpg"), ("L", "png"), ("P", "png"), ("RGBA", "png"), ("CMYK", "jpg"),
                    ("RGB", "webp"), ("L", "jpg")][seed % 8]
    file = path / f"{seed}.{ending}"
    small.convert(mode).save(file)
    return file


def compare(programs, folder, name, model, processor):
    rng, lines, expected = random.Random(7), [], []
    for case in range(CASES):
        text = TEXTS[case % len(TEXTS)].replace("<image>", processor.image_token)
        files = [draw(folder, rng.randint(0, 10**6)) for _ in range(text.count(processor.image_token))]
        pictures = [PIL.Image.open(file).convert("RGB") for file in files]
        batch = processor(text=text, images=pictures or None, return_tensors="pt")
        batch.pop("token_type_ids", None)
        with torch.no_grad():
            said = model.generate(**batch, max_new_tokens=TOKENS, do_sample=False, output_logits=True,
                                  return_dict_in_generate=True)
        ids = said.sequences[0, batch["input_ids"].shape[1]:].tolist()
        expected.append([(token, torch.log_softmax(logits[0], -1)[token].item())
                         for token, logits in zip(ids, said.logits, strict=True)])
        lines.append(json.dumps({"prompt": text, "images": [str(file) for file in files]}))
    worst = 0.0
    for options in (["--max-batch-size", 1], ["--max-batch-size", 4, "--threads", 2]):
        out = call(programs / "mt-generate", "--load", folder / name, "--device", "cpu", "--dtype", "fp32", "--temperature", 0,
                   "--num-tokens", TOKENS, "--ignore-eod", "--json", "--logprobs", 0, "--quiet", *options,
                   input="\n".join(lines) + "\n")
        for line, answer in zip(out.splitlines(), expected, strict=True):
            ours = json.loads(line)
            ids = [token for token, _ in answer]
            if ours["token_ids"][:len(ids)] != ids:
                sys.exit(f"{name}: {ours['prompt']!r}: {ours['token_ids']}, expected {ids}")
            for (_, theirs), mine in zip(answer, ours["logprobs"], strict=False):
                worst = max(worst, abs(theirs - mine["logprob"]))
    if worst > 1e-4:
        sys.exit(f"{name}: log-probabilities differ by {worst}")
    call(programs / "mt-convert", "--quiet", "--verify", folder / name, folder / "core")
    call(programs / "mt-convert", "--quiet", "--verify", "--saver", "hf", folder / "core", folder / "back")
    before, after = (load_file(folder / which / "model.safetensors") for which in (name, "back"))
    if before.keys() != after.keys() or any(not torch.equal(before[key], after[key]) for key in before):
        sys.exit(f"{name}: is another once it is converted back")
    again = type(model).from_pretrained(folder / "back", dtype=torch.float32).eval()
    pictures = [PIL.Image.open(draw(folder, rng.randint(0, 10**6))).convert("RGB")]
    batch, of_back = (one(text=processor.image_token, images=pictures, return_tensors="pt")
                      for one in (processor, type(processor).from_pretrained(folder / "back")))
    # Of pixels torchvision's rounding, by which what transformers loads resizes, is another than Pillow's.
    if batch.keys() != of_back.keys() or any(batch[key].shape != of_back[key].shape or
                                             (batch[key] - of_back[key]).abs().max() > 0.05 for key in batch):
        sys.exit(f"{name}: a picture becomes another batch once it is converted back")
    batch.pop("token_type_ids", None)
    with torch.no_grad():
        if not torch.equal(again(**batch).logits, model(**batch).logits):
            sys.exit(f"{name}: transformers makes other logits of what is converted back")
    print(f"{name}: {CASES} texts, log-probabilities within {worst:.1e}; {len(before)} tensors there and back")


def learn(programs, folder, name, processor, lines, frozen):
    """Losses and norms of gradients of four steps, ours and theirs, of two lines each."""
    data = folder / "lines.jsonl"
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = subprocess.run([str(c) for c in (
        programs / "mt-finetune", "sft", "--load", MODELS / name, "--train-data", data, "--valid-split", 0, "--seq-length", 64,
        "--packing", "none", "--no-shuffle", "--micro-batch-size", 2, "--global-batch-size", 2, "--lr", 0.01, "--min-lr", 0.01,
        "--lr-decay-style", "constant", "--lr-warmup-fraction", 0, "--weight-decay", 0, "--clip-grad", 0, "--adam-beta2", 0.999,
        "--adam-eps", 1e-8, "--train-iters", 4, "--dtype", "fp64", "--eval-iters", 0, "--log-interval", 1, "--log-format", "json",
        "--threads", 1, *frozen)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"mt-finetune: exit code {run.returncode}: {run.stderr}")
    ours = [json.loads(line) for line in run.stderr.splitlines() if '"event":"step"' in line]
    model = transformers.AutoModelForImageTextToText.from_pretrained(MODELS / name, dtype=torch.float32).double()
    for key, tensor in model.named_parameters():
        is_language, is_tower = "language_model" in key or "lm_head" in key, "vision_tower" in key
        tensor.requires_grad = not ("--freeze-LM" in frozen and is_language or "--freeze-ViT" in frozen and is_tower)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01, weight_decay=0, betas=(0.9, 0.999))
    worst = 0.0
    for step, mine in enumerate(ours):
        optimizer.zero_grad()
        total, learnt = 0, 0
        for line in lines[2 * step % 4:2 * step % 4 + 2]:
            messages, pictures = line["messages"], [PIL.Image.open(file).convert("RGB") for file in line.get("images", [])] or None
            text = processor.tokenizer.apply_chat_template(messages, tokenize=False).rstrip("\n")  # behind a turn's end
            prompt = processor.tokenizer.apply_chat_template(messages[:1], tokenize=False, add_generation_prompt=True)
            batch = processor(text=text, images=pictures, return_tensors="pt")
            labels = batch["input_ids"].clone()
            labels[:, :processor(text=prompt, images=pictures, return_tensors="pt")["input_ids"].shape[1]] = -100
            images = {"pixel_values": batch["pixel_values"].double()} if pictures else {}
            logits = model(input_ids=batch["input_ids"], **images).logits[0, :-1]
            total = total + torch.nn.functional.cross_entropy(logits, labels[0, 1:], ignore_index=-100, reduction="sum")
            learnt += (labels[0, 1:] >= 0).sum()
        (total / learnt).backward()
        norm = sum((p.grad ** 2).sum() for p in model.parameters() if p.grad is not None) ** 0.5
        worst = max(worst, abs(mine["loss"] / (total / learnt).item() - 1), abs(mine["grad_norm"] / norm.item() - 1))
        optimizer.step()
    if len(ours) != 4 or worst > 1e-5:
        sys.exit(f"{name} {' '.join(frozen)}: losses and gradients differ by {worst}")
    return worst


def compare_learning(programs):
    def line(content, answer, *images):
        return {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": answer}],
                **({"images": [str(IMAGES / image) for image in images]} if images else {})}
    lines = [line("<image>A?", "cat", "rgb8.png"),
             line([{"type": "image"}, {"type": "text", "text": "or"}, {"type": "image"}], "dog.", "palette8.png", "rgba8.png"),
             line("Hi", "yes"), line("B<image>", "no", "444.jpg")]
    kinds = {"llava": (CLIPImageProcessorPil(size={"shortest_edge": 15}, crop_size={"height": 12, "width": 12}), 6, "default"),
             "llava-siglip": (SiglipImageProcessorPil(size={"height": 14, "width": 14}), 4, "full")}
    processors = {name: transformers.LlavaProcessor(
        image_processor=images, tokenizer=transformers.AutoTokenizer.from_pretrained(MODELS / name), patch_size=patch,
        vision_feature_select_strategy=strategy, num_additional_image_tokens=1 if strategy == "default" else 0)
                  for name, (images, patch, strategy) in kinds.items()}
    for name, tiles in (("internvl", 4), ("internvl-rms", 1)):
        config = transformers.AutoConfig.from_pretrained(MODELS / name)
        processors[name] = internvl_processor(config.vision_config, transformers.AutoTokenizer.from_pretrained(MODELS / name), tiles)
    for name, processor in processors.items():
        of_model = json.loads(json.dumps(lines).replace("<image>", processor.image_token))
        for frozen in ([], ["--freeze-LM"], ["--freeze-ViT"], ["--freeze-LM", "--freeze-ViT"]):
            with tempfile.TemporaryDirectory() as scratch:
                worst = learn(programs, pathlib.Path(scratch), name, processor, of_model, frozen)
            print(f"{name}: sft {' '.join(frozen)}: losses and norms of gradients within {worst:.1e}")


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    asked = sys.argv[2:]
    if not asked:
        compare_learning(programs)
    tower = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 96}
    words = {"vocab_size": 260, "max_position_embeddings": 4096, "hidden_size": 64, "num_hidden_layers": 3,
             "num_attention_heads": 4, "intermediate_size": 96, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    cutting = CLIPImageProcessorPil(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336})
    clip = transformers.CLIPVisionConfig(image_size=336, patch_size=14, **tower)
    siglip = transformers.SiglipVisionConfig(image_size=384, patch_size=14, **tower)
    models = {
        "clip-llama": (clip, transformers.LlamaConfig(num_key_value_heads=2, **words), cutting, "default", -2),
        "clip-mistral": (clip, transformers.MistralConfig(num_key_value_heads=2, sliding_window=701, **words), cutting,
                         "full", 3),
        "siglip-qwen2": (siglip, transformers.Qwen2Config(num_key_value_heads=4, tie_word_embeddings=True, **words),
                         SiglipImageProcessorPil(size={"height": 384, "width": 384}), "full", -1)}
    small = transformers.CLIPVisionConfig(image_size=112, patch_size=14, **tower)
    cutting = CLIPImageProcessorPil(size={"shortest_edge": 120}, crop_size={"height": 112, "width": 112})
    for language in ("Qwen3", "Phi3", "Gemma", "Olmo2", "SmolLM3"):
        text = getattr(transformers, f"{language}Config")(num_key_value_heads=2, head_dim=16, **words)
        models[f"clip-{language.lower()}"] = (small, text, cutting, "default", -2)
    vision = {"image_size": [112, 112], "patch_size": [14, 14], **tower}
    words["vocab_size"] = 263
    tiled = {
        "internvit-qwen2": (transformers.InternVLVisionConfig(attention_bias=True, **vision),
                            transformers.Qwen2Config(num_key_value_heads=2, **words), 12),
        "internvit-rms-qwen3": (
            transformers.InternVLVisionConfig(norm_type="rms_norm", use_qk_norm=True, **vision),
            transformers.Qwen3Config(num_key_value_heads=2, head_dim=16, tie_word_embeddings=True, **words), 6)}
    for maker, kinds in ((make, models), (make_internvl, tiled)):
        for name, parts in kinds.items():
            if asked and name not in asked:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                compare(programs, folder, name, *maker(folder / name, *parts))


main()
