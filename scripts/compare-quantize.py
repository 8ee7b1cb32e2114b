#!/usr/bin/env python3
"""Compare the folders of mt-convert --quantize with their definitions, and with what transformers reads of them.

Small random models of several families are quantized in each format.  Every tensor of the folder must be, to the last bit, what
NumPy makes of the weights by the definition (of int4_awq, whose weights a text scales first, the folder is taken for that); mt-convert
must make of the folder the numbers that these stand for; and transformers must load it, on a CPU, and compute logits with it that are
those of the same weights dequantized, to the bit.

  --program PATH   the mt-convert to try

Needs from PyPI: accelerate, compressed-tensors, ml_dtypes, numpy, safetensors, torch, transformers (tried with 1.15.0, 0.20.1, 0.6.0,
2.4.6, 0.8.0, 2.15.0, 5.24.0).
Run:  scripts/compare-quantize.py --program build/release/cmd/mt-convert
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import tokenizers
import torch
import transformers
from compressed_tensors.quantization import disable_quantization
from safetensors.torch import load_file

HIDDEN, FFN, VOCAB = 256, 384, 64
SIZES = {"hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": VOCAB, "max_position_embeddings": 64, "pad_token_id": None, "bos_token_id": 1,
         "eos_token_id": 2}
KINDS = {"llama": {"tie_word_embeddings": False}, "qwen2": {"tie_word_embeddings": True}, "qwen3": {"head_dim": 32},
         "granite": {}, "phi3": {}, "mistral": {"hidden_size": 192, "intermediate_size": 320},
         "gemma": {"num_key_value_heads": 4, "head_dim": 64}}
FORMATS = ("fp8", "fp8_block", "int4_awq")
TEXT = "".join(chr(32 + (i * i + i // 7) % VOCAB) for i in range(4000))


def write_tokenizer(folder):
    """A token for each of the first characters from the blank on."""
    tokens = {chr(32 + i): i for i in range(VOCAB)}
    tokenizers.Tokenizer(tokenizers.models.BPE(vocab=tokens, merges=[])).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def is_linear(key):
    return key.endswith("_proj.weight")


def scaled(numbers, scale):
    """Codes of E4M3 of float32 numbers over their scales."""
    return (numbers / scale).astype(np.float32).astype(ml_dtypes.float8_e4m3fn)


def whole(scale):
    return np.where(scale > 0, np.maximum(scale, np.finfo(np.float32).tiny), np.float32(1))


def fp8(key, weight, kind):
    if kind == np.float16:
        kind = np.float32  # which holds scales of small weights
    scale = whole(np.abs(weight).max(1, keepdims=True) / np.float32(448)).astype(kind).astype(np.float32)
    return {key: scaled(weight, scale), key + "_scale": scale.astype(kind)}, scale


def fp8_block(key, weight, _):
    rows, columns = ((n + 127) // 128 for n in weight.shape)
    scale = np.array([[np.abs(weight[r * 128:r * 128 + 128, c * 128:c * 128 + 128]).max() / np.float32(448)
                       for c in range(columns)] for r in range(rows)], np.float32)
    scale = whole(scale)
    spread = scale.repeat(128, 0).repeat(128, 1)[:weight.shape[0], :weight.shape[1]]
    return {key: scaled(weight, spread), key + "_scale_inv": scale}, spread


TWINS = {"fp8": fp8, "fp8_block": fp8_block}


def bits(tensor):
    return (tensor.view(torch.uint8) if isinstance(tensor, torch.Tensor) else torch.from_numpy(tensor.view(np.uint8))).flatten()


def twins(weights, form, dtype):
    """The tensors of a folder, and the weights that they stand for."""
    kind = {torch.bfloat16: ml_dtypes.bfloat16, torch.float32: np.float32, torch.float16: np.float16}[dtype]
    stored, read = {}, {}
    for key, tensor in weights.items():
        if is_linear(key):
            parts, scale = TWINS[form](key, tensor.float().numpy(), kind)
            stored.update(parts)
            read[key] = torch.from_numpy(parts[key].astype(np.float32) * scale).to(dtype)
        else:
            stored[key] = read[key] = tensor
    return stored, read


def four_bits(found, dtype):
    """The weights that the tensors of a folder stand for, by their words and scales."""
    read = {key: tensor for key, tensor in found.items() if "_proj." not in key or key.endswith(".bias")}
    for key, words in found.items():
        if key.endswith(".weight_packed"):
            name = key.removesuffix("_packed")
            codes = (words.numpy().view(np.uint32)[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).astype(np.float32) - 8
            scale = found[name + "_scale"].float().numpy().repeat(128, 1)
            read[name] = torch.from_numpy(codes.reshape(scale.shape) * scale).to(dtype)
            assert found[name + "_shape"].tolist() == list(scale.shape)
    return read


def differing(found, expected):
    wrong = [key for key in expected if key not in found or not torch.equal(bits(found[key]), bits(expected[key]))]
    return wrong + [key for key in found if key not in expected]


def load(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", **options).eval()


def compare(program, kind, form, dtype, folder):
    """What is wrong, a line each."""
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **{**SIZES, **KINDS[kind]})
    model = transformers.AutoModelForCausalLM.from_config(config).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * .05)
    original, made, again = folder / "original", folder / "made", folder / "again"
    model.save_pretrained(original)
    convert = lambda *arguments: subprocess.run([program, "--quiet", "--verify", "--saver", "hf", *map(str, arguments)], check=True)
    (folder / "text").write_text(TEXT)
    write_tokenizer(original)
    convert("--quantize", form, *(["--calib", folder / "text"] if form == "int4_awq" else []), original, made)
    convert(made, again)
    found = load_file(made / "model.safetensors")
    stored, read = (found, four_bits(found, dtype)) if form == "int4_awq" else twins(load_file(original / "model.safetensors"), form, dtype)
    if wrong := differing(found, stored):
        yield f"stored {wrong[:3]} ({len(wrong)})"
    if wrong := differing(load_file(again / "model.safetensors"), read):
        yield f"read {wrong[:3]} ({len(wrong)})"
    if form == "fp8_block" and kind == "mistral":
        return  # transformers dequantizes whole blocks alone
    # Weights alone: without a GPU there are no products of blocks, and inputs are not to be rounded.
    numbers = (transformers.FineGrainedFP8Config(dequantize=True) if form == "fp8_block" else
               transformers.CompressedTensorsConfig(dequantize=True))
    tokens = torch.arange(24).reshape(2, 12) * 5 % VOCAB
    with torch.no_grad():
        theirs, ours = (load(path, dtype=dtype, **more).apply(disable_quantization)(tokens).logits.float()
                        for path, more in ((made, {"quantization_config": numbers}), (again, {})))
    if not torch.equal(theirs, ours):
        yield f"logits differ by {((theirs - ours).norm() / ours.norm()).item():.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    program = str(pathlib.Path(parser.parse_args().program).resolve())
    failures = 0
    for form in FORMATS:
        for kind in KINDS:
            if form == "int4_awq" and kind == "mistral":
                continue  # groups do not divide its columns
            for dtype in (torch.bfloat16, torch.float16, torch.float32):
                with tempfile.TemporaryDirectory() as folder:
                    wrong = list(compare(program, kind, form, dtype, pathlib.Path(folder)))
                print(f"{form:10s} {kind:8s} {str(dtype)[6:]:9s} {'equal' if not wrong else 'DIFFERS: ' + '; '.join(wrong)}")
                failures += bool(wrong)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
