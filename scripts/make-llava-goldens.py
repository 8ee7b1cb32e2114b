#!/usr/bin/env python3
"""Writes tiny random LLaVAs and InternVLs as transformers saves them, and what these make of texts with images.

  FOLDER/llava/          a LlavaForConditionalGeneration of a CLIP and a Llama, with a processor that cuts the middle out of
                         an image; in bf16
  FOLDER/llava-siglip/   one of a SigLIP and a Qwen2 whose output layer is its words, and all of an image's tokens
  FOLDER/internvl/       an InternVLForConditionalGeneration of an InternViT and a Qwen2, of at most 4 tiles
  FOLDER/internvl-rms/   one whose tower has RMSNorms and norms of queries and keys, and a Qwen3; an image is one tile
  FOLDER/llava.jsonl     a line for each of these and of texts with no, one and two images of testdata/images: the text, the
                         tokens that the processor makes of it, the logits of the first, the middle and the last, what
                         generate() says by itself ("said"), the mean loss of all tokens that are no images, and of its
                         gradients over each tensor the norm and the first numbers; all in fp32

Images are resized by Pillow.  Needs from PyPI: torch, torchvision, transformers, tokenizers, pillow (made with the versions
that stand in the first line of llava.jsonl).
Run:  scripts/make-llava-goldens.py testdata
"""
import json
import sys
import warnings

import PIL.Image
import torch
import transformers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from llava_tokens import TEMPLATE, internvl_processor, make_tokenizer, tiles_tokenizer

warnings.simplefilter("ignore")
testdata = sys.argv[1]
folder = f"{testdata}/models"
versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "pillow": PIL.__version__}
TEXTS = [("Who is it?", []), ("USER: <image>\nWhat? ASSISTANT:", ["rgb8.png"]),
         ("<image>or<image>? ", ["palette8.png", "rgba8.png"])]


def make(name, vision, text, processor, strategy):
    tokenizer = make_tokenizer()
    image = tokenizer.convert_tokens_to_ids("<image>")
    config = transformers.LlavaConfig(vision_config=vision, text_config=text, image_token_index=image,
                                      vision_feature_select_strategy=strategy,
                                      tie_word_embeddings=text.tie_word_embeddings)
    joint = transformers.LlavaProcessor(image_processor=processor, tokenizer=tokenizer, patch_size=vision.patch_size,
                                        vision_feature_select_strategy=strategy, chat_template=TEMPLATE,
                                        num_additional_image_tokens=1 if strategy == "default" else 0)
    return fill(name, transformers.LlavaForConditionalGeneration(config), joint)


def make_internvl(name, vision, text, tiles):
    tokenizer = tiles_tokenizer()
    config = transformers.InternVLConfig(
        vision_config=vision, text_config=text, image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        tie_word_embeddings=text.tie_word_embeddings)
    return fill(name, transformers.InternVLForConditionalGeneration(config), internvl_processor(vision, tokenizer, tiles))


def fill(name, model, joint):
    tokenizer = joint.tokenizer
    torch.manual_seed(len(name))
    with torch.no_grad():
        for key, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape) * 0.4
            tensor.copy_((1 + noise / 2 if "norm" in key and key.endswith("weight") else noise).bfloat16())
    model.generation_config = transformers.GenerationConfig(eos_token_id=tokenizer.eos_token_id,
                                                            bos_token_id=tokenizer.bos_token_id,
                                                            pad_token_id=tokenizer.pad_token_id)
    model.to(torch.bfloat16).save_pretrained(f"{folder}/{name}")
    joint.save_pretrained(f"{folder}/{name}")
    # Read again: what is no parameter has not been in bf16 then.
    return type(model).from_pretrained(f"{folder}/{name}", dtype=torch.float32).eval(), joint


def short(numbers):
    return [round(float(number), 6) for number in numbers]


def describe(name, model, processor, text, images):
    pictures = [PIL.Image.open(f"{testdata}/images/{image}").convert("RGB") for image in images]
    text = text.replace("<image>", processor.image_token)
    batch = processor(text=text, images=pictures or None, return_tensors="pt")
    batch.pop("token_type_ids", None)
    ids = batch["input_ids"]
    labels = ids.masked_fill(ids == model.config.image_token_id, -100)
    model.zero_grad()
    said = model(**batch, labels=labels)
    said.loss.backward()
    rows = [0, ids.shape[1] // 2, ids.shape[1] - 1]
    gradients = {key: short([tensor.grad.norm(), *tensor.grad.flatten()[:3]])
                 for key, tensor in model.named_parameters() if tensor.grad is not None and tensor.grad.norm() > 0}
    tokens = model.generate(**batch, max_new_tokens=12, do_sample=False)[0, ids.shape[1]:]
    return {"folder": name, "text": text, "images": images, "ids": ids[0].tolist(), "rows": rows,
            "logits": [short(said.logits[0, row]) for row in rows], "said": tokens.tolist(),
            "loss": said.loss.item(), "gradients": gradients}


sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
words = {"vocab_size": 260, "max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
more = {**words, "vocab_size": 263}
models = {
    "llava": make("llava", transformers.CLIPVisionConfig(**sizes, num_hidden_layers=3, image_size=12, patch_size=6),
                  transformers.LlamaConfig(**sizes, **words, num_hidden_layers=2, num_key_value_heads=1),
                  CLIPImageProcessorPil(size={"shortest_edge": 15}, crop_size={"height": 12, "width": 12}), "default"),
    "llava-siglip": make("llava-siglip",
                         transformers.SiglipVisionConfig(**sizes, num_hidden_layers=3, image_size=14, patch_size=4),
                         transformers.Qwen2Config(**sizes, **words, num_hidden_layers=2, num_key_value_heads=2,
                                                  tie_word_embeddings=True),
                         SiglipImageProcessorPil(size={"height": 14, "width": 14}), "full"),
    "internvl": make_internvl("internvl", transformers.InternVLVisionConfig(**sizes, num_hidden_layers=3, attention_bias=True,
                                                                            image_size=[12, 12], patch_size=[3, 3]),
                              transformers.Qwen2Config(**sizes, **more, num_hidden_layers=2, num_key_value_heads=2), 4),
    "internvl-rms": make_internvl(
        "internvl-rms",
        transformers.InternVLVisionConfig(**sizes, num_hidden_layers=3, norm_type="rms_norm", use_qk_norm=True,
                                          image_size=[13, 13], patch_size=[3, 3]),
        transformers.Qwen3Config(**sizes, **more, num_hidden_layers=2, num_key_value_heads=2, head_dim=8,
                                 tie_word_embeddings=True), 1)}
with open(f"{folder}/llava.jsonl", "w", encoding="utf-8") as file:
    file.write(json.dumps(versions, separators=(",", ":")) + "\n")
    for name, (model, processor) in models.items():
        for text, images in TEXTS:
            file.write(json.dumps(describe(name, model, processor, text, images), separators=(",", ":")) + "\n")
