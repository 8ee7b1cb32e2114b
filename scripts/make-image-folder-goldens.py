#!/usr/bin/env python3
"""Writes tiny random models of images as transformers saves them, and what it makes of images with them.

  FOLDER/vit/           a ViTForImageClassification (config.json, preprocessor_config.json, model.safetensors in bf16)
  FOLDER/vit-hidden/    a ViTModel, with its pooler
  FOLDER/vit.jsonl      of images of testdata/images: SHA-256 of the numbers that the processor makes of the pixels, 32 bits
                        each, in patches of rows of pixels of colours; and the logits of the first model, or the last
                        hidden states of the second, in fp32; and the mean loss of images of three classes, and the share
                        of those that are told right
  FOLDER/clip/          a CLIPVisionModel, whose processor cuts the middle out of an image
  FOLDER/siglip/        a SiglipVisionModel, with its head, whose patches do not divide the image
  FOLDER/internvit/     an InternVLVisionModel with LayerNorm and biases of queries, keys and values, as InternViT-300M is
  FOLDER/internvit-rms/ one with RMSNorm, also of whole queries and keys, as InternViT-6B is
  FOLDER/radio/         a RadioModel whose positions are those of its images
  FOLDER/radio-swiglu/  one with gated MLPs, which knows positions of images twice as large
  FOLDER/towers.jsonl   the same of these six, with the last hidden states, and with those of the layer before it ("before")

Processors are those of Pillow.  Needs from PyPI: torch, torchvision, transformers, pillow (made with the versions that
stand in the first line of the .jsonl file).
Run:  scripts/make-image-folder-goldens.py testdata
"""
import hashlib
import json
import sys

import numpy
import PIL.Image
import torch
import transformers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

testdata = sys.argv[1]
folder = f"{testdata}/models"
versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "pillow": PIL.__version__}
CLASSES = {"cross": ["420.jpg", "rgb8.png"], "disc": ["444.jpg", "palette8.png"], "ring": ["lossy.webp", "rgba8.png"]}
ROWS, COLUMNS, PATCH = 12, 18, 6


def config_of(**settings):
    return transformers.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
                                  image_size=[ROWS, COLUMNS], patch_size=PATCH, **settings)


def make(model, processor, name):
    torch.manual_seed(len(name))
    with torch.no_grad():
        for key, tensor in sorted(model.named_parameters()):
            if not tensor.requires_grad:
                continue
            noise = torch.randn(tensor.shape) * 0.4
            scale = "norm" in key and key.endswith("weight") or "lambda" in key
            tensor.copy_((1 + noise / 2 if scale else noise).bfloat16())
    model.to(torch.bfloat16).save_pretrained(f"{folder}/{name}")
    processor.save_pretrained(f"{folder}/{name}")
    return model.float().eval()


def pixels_of(processor, image):
    picture = PIL.Image.open(f"{testdata}/images/{image}").convert("RGB")
    return torch.from_numpy(numpy.stack(processor(picture)["pixel_values"]).astype("float32"))


def digest(pixels, patch=PATCH):
    rows, columns = (side // patch for side in pixels[0].shape[1:])
    whole = pixels[0].numpy()[:, :rows * patch, :columns * patch]
    patches = whole.reshape(3, rows, patch, columns, patch).transpose(1, 3, 2, 4, 0)
    return hashlib.sha256(patches.astype("<f4").tobytes()).hexdigest()


size = {"height": ROWS, "width": COLUMNS}
sharp = ViTImageProcessorPil(size=size, resample=3, image_mean=[0.48, 0.46, 0.41], image_std=[0.27, 0.26, 0.28])
plain = ViTImageProcessorPil(size=size)
names = dict(enumerate(CLASSES))
classifier = make(transformers.ViTForImageClassification(
    config_of(id2label=names, label2id={name: i for i, name in names.items()})), sharp, "vit")
hidden = make(transformers.ViTModel(config_of(hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6)), plain, "vit-hidden")
lines, losses, right = [versions], [], []
with torch.no_grad():
    for label, images in enumerate(CLASSES.values()):
        for image in images:
            pixels = pixels_of(sharp, image)
            logits = classifier(pixels).logits[0]
            lines.append({"folder": "vit", "image": image, "pixels": digest(pixels), "numbers": logits.tolist()})
            losses.append(torch.nn.functional.cross_entropy(logits, torch.tensor(label)).item())
            right.append(logits.argmax().item() == label)
            pixels = pixels_of(plain, image)
            lines.append({"folder": "vit-hidden", "image": image, "pixels": digest(pixels),
                          "numbers": hidden(pixels).last_hidden_state.flatten().tolist()})
lines.append({"loss": sum(losses) / len(losses), "right": sum(right) / len(right)})
with open(f"{folder}/vit.jsonl", "w", encoding="utf-8") as file:
    for line in lines:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")

tower = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 24}
cutting = CLIPImageProcessorPil(size={"shortest_edge": 15}, crop_size={"height": 12, "width": 12})
stretching = SiglipImageProcessorPil(size={"height": 14, "width": 14})
clip = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(image_size=12, patch_size=6, **tower))
siglip = transformers.SiglipVisionModel(transformers.SiglipVisionConfig(image_size=14, patch_size=4, **tower))
towers = {"clip": (make(clip, cutting, "clip"), cutting, 6), "siglip": (make(siglip, stretching, "siglip"), stretching, 4)}
seen = GotOcr2ImageProcessorPil(size={"height": 12, "width": 12}, image_mean=[0.485, 0.456, 0.406],
                                image_std=[0.229, 0.224, 0.225])
for name, settings in {"internvit": {"attention_bias": True},
                       "internvit-rms": {"norm_type": "rms_norm", "use_qk_norm": True}}.items():
    intern = transformers.InternVLVisionModel(transformers.InternVLVisionConfig(image_size=12, patch_size=3, **settings, **tower))
    towers[name] = make(intern, seen, name), seen, 3
bare = CLIPImageProcessorPil(size={"height": 12, "width": 12}, do_center_crop=False, do_normalize=False)
del tower["intermediate_size"]  # which comes of the MLP's ratio
for name, settings in {"radio": {"max_img_size": 12, "num_registers": 2, "mlp_ratio": 1.5},
                       "radio-swiglu": {"max_img_size": 24, "use_swiglu_ffn": True, "norm_mean": [0.4, 0.5, 0.6],
                                        "norm_std": [0.25, 0.5, 0.75]}}.items():
    radio = transformers.RadioModel(transformers.RadioConfig(image_size=12, patch_size=3, **settings, **tower))
    for layer in radio.encoder.layer:  # which C-RADIO has not
        for scale in (layer.layer_scale1, layer.layer_scale2):
            scale.lambda1.requires_grad = False
    towers[name] = make(radio, bare, name), bare, 3
lines = [versions]
with torch.no_grad():
    for name, (model, processor, patch) in towers.items():
        for _, image in CLASSES.values():
            pixels = pixels_of(processor, image)
            said = model(pixels, output_hidden_states=True)
            if name.startswith("radio"):
                pixels = model.input_conditioner(pixels)
            lines.append({"folder": name, "image": image, "pixels": digest(pixels, patch),
                          "numbers": said.last_hidden_state.flatten().tolist(),
                          "before": said.hidden_states[-2].flatten().tolist()})
with open(f"{folder}/towers.jsonl", "w", encoding="utf-8") as file:
    for line in lines:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")
