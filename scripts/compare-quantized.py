#!/usr/bin/env python3
"""Compare what mt-convert reads of folders in eight bits or fewer with the numbers that they stand for.

A small random Llama is quantized in each way that mt reads: compressed-tensors' formats and bitsandbytes' by their own libraries, which
unpack them, too; fp8 in blocks and of tensors, AWQ, GPTQ with groups in any order, ModelOpt's FP8, INT8_SQ, NVFP4 and int4 by
PyTorch and NumPy after their definitions.  mt-convert makes a folder of each, whose tensors must be, to the last bit, those
that the library or the definition unpacks, in the type that config.json names.

  --program PATH   the mt-convert to try

Needs from PyPI: bitsandbytes, compressed-tensors, safetensors, torch, numpy (tried with 0.50.2, 0.20.0, 0.6.2, 2.15.0,
2.4.6).
Run:  scripts/compare-quantized.py --program build/release/cmd/mt-convert
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import bitsandbytes.functional as bnb
import numpy as np
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import load_file, save_file

HIDDEN, FFN, HEADS, KV, VOCAB = 192, 320, 4, 2, 64
F8 = torch.float8_e4m3fn
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN,
          "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": KV, "vocab_size": VOCAB,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
          "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}


def linears():
    head = HIDDEN // HEADS
    for layer in range(2):
        for name, shape in (("self_attn.q_proj", (HIDDEN, HIDDEN)), ("self_attn.k_proj", (KV * head, HIDDEN)),
                            ("self_attn.v_proj", (KV * head, HIDDEN)), ("self_attn.o_proj", (HIDDEN, HIDDEN)),
                            ("mlp.gate_proj", (FFN, HIDDEN)), ("mlp.up_proj", (FFN, HIDDEN)),
                            ("mlp.down_proj", (HIDDEN, FFN))):
            yield f"model.layers.{layer}.{name}", shape


def integers(low, high, shape):
    return torch.randint(low, high, shape)


def positive(shape, dtype=torch.float32):
    return (torch.rand(shape) * .02 + .001).to(dtype)


def words(elements, bits):
    """Elements of the last axis, unsigned, in words of 32 bits, the first the lowest."""
    per = 32 // bits
    parts = elements.numpy().astype(np.uint64).reshape(*elements.shape[:-1], -1, per)
    packed = sum(parts[..., k] << np.uint64(bits * k) for k in range(per))
    return torch.from_numpy(packed.astype(np.uint32).view(np.int32).copy())


def fp8_blocks(_, shape):
    """Hugging Face's fp8."""
    weight = torch.randn(shape).to(F8)
    scale = positive([(n + 127) // 128 for n in shape])
    spread = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[:shape[0], :shape[1]]
    return {"weight": weight, "weight_scale_inv": scale, "activation_scale": torch.ones(1)}, weight.float() * spread


def fp8_tensor(_, shape):
    """ModelOpt's FP8: one scale, with those of a cache beside."""
    weight, scale = torch.randn(shape).to(F8), positive([])
    return {"weight": weight, "weight_scale": scale, "input_scale": positive([])}, weight.float() * scale


def fp8_rank_four(_, shape):
    weight = torch.randn(shape).to(F8)
    scale = positive([(n + 127) // 128 for n in shape])
    spread = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[:shape[0], :shape[1]]
    return {"weight": weight, "weight_scale": scale[:, None, :, None].contiguous()}, weight.float() * spread


def int8_smooth(_, shape):
    weight, scale, inputs = integers(-128, 128, shape).to(torch.int8), positive([shape[0]]), positive([shape[1]])
    return ({"weight": weight, "weight_scale": scale, "pre_quant_scale": inputs, "input_scale": positive([])},
            weight.float() * scale[:, None] * inputs)


def nvfp4(_, shape):
    codes, scale = integers(0, 16, shape), (torch.rand(shape[0], shape[1] // 16) * 300).to(F8)
    second = positive([])
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)
    value = E2M1[codes] * (scale.float() * second).repeat_interleave(16, 1)
    return {"weight": packed, "weight_scale": scale, "weight_scale_2": second, "input_scale": positive([])}, value


def int4(_, shape):
    values, scale, inputs = integers(-8, 8, shape), positive([shape[0], shape[1] // 64]), positive([shape[1]])
    packed = ((values[::2] & 15) | (values[1::2] & 15) << 4).to(torch.uint8)
    return ({"weight": packed, "weight_scale": scale, "pre_quant_scale": inputs},
            values.float() * scale.repeat_interleave(64, 1) * inputs)


def awq(_, shape):
    out, size = shape
    q, z, s = integers(0, 16, (size, out)), integers(0, 16, (size // 64, out)), positive([size // 64, out], torch.float16)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    packed = lambda x: words(x.reshape(x.shape[0], -1, 8)[:, :, order].reshape(x.shape), 4)
    value = (q - z.repeat_interleave(64, 0)).float() * s.float().repeat_interleave(64, 0)
    return {"qweight": packed(q), "qzeros": packed(z), "scales": s}, value.T


def gptq(bits, less):
    def quantize(_, shape):
        out, size = shape
        q = integers(0, 1 << bits, (size, out))
        z, s = integers(0, (1 << bits) - 1, (size // 64, out)), positive([size // 64, out], torch.float16)
        group = torch.randperm(size) // 64
        value = (q - (z + less)[group]).float() * s.float()[group]
        return ({"qweight": words(q.T.contiguous(), bits).T.contiguous(), "qzeros": words(z, bits), "scales": s,
                 "g_idx": group.to(torch.int32)}, value.T)
    return quantize


def compressed(name, args, unsigned=False):
    """By the library itself: random weights with scales, and zeros, of its strategy."""
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    compressor = BaseCompressor.get_value_from_registry(name)

    def quantize(_, shape):
        groups = shape[1] // args["group_size"] if args.get("group_size") else 1
        scale_shape = {"tensor": [1], "channel": [shape[0], 1], "group": [shape[0], groups],
                       "tensor_group": [shape[0], groups],
                       "block": [(n + 127) // 128 for n in shape]}[args["strategy"]]
        state = {"weight": torch.randn(shape, dtype=torch.bfloat16) * .1, "weight_scale": positive(scale_shape, torch.bfloat16)}
        if unsigned:
            state["weight_zero_point"] = integers(-7, 8, scale_shape).to(torch.int8)
        if name.startswith("nvfp4"):
            state["weight_global_scale"] = torch.tensor([900.])
            state["weight_scale"] = torch.rand(scale_shape) * 200
        stored = compressor.compress(state, scheme)
        value = compressor.decompress(dict(stored), scheme)["weight"]
        return {key: tensor for key, tensor in stored.items()}, value.float()
    return quantize, {"quant_method": "compressed-tensors", "format": name,
                      "config_groups": {"group_0": {"targets": ["Linear"], "weights": args}}}


def in_four_bits(kind, nested):
    def quantize(_, shape):
        packed, state = bnb.quantize_4bit(torch.randn(shape, dtype=torch.bfloat16) * .1, quant_type=kind, compress_statistics=nested,
                                          blocksize=64)
        value = bnb.dequantize_4bit(packed, state).float()
        return {"weight": packed, **{f"weight.{name}": tensor for name, tensor in state.as_dict(packed=True).items()}}, value
    return quantize


def in_eight_bits(_, shape):
    """LLM.int8's; dequantized as transformers does."""
    weight, scale, _ = bnb.int8_vectorwise_quant((torch.randn(shape) * .1).to(torch.float16))
    value = weight.float() * scale.view(-1, 1) * 7.874015718698502e-3
    return {"weight": weight, "SCB": scale, "weight_format": torch.tensor(0, dtype=torch.uint8)}, value


def modelopt(algorithm):
    return {"quant_method": "modelopt", "quant_algo": algorithm}


def cases():
    yield "fp8", fp8_blocks, {"quant_method": "fp8", "weight_block_size": [128, 128]}, torch.bfloat16
    yield "modelopt-fp8", fp8_tensor, modelopt("FP8"), torch.bfloat16
    yield "modelopt-fp8-blocks", fp8_rank_four, modelopt("FP8_PB_WO"), torch.bfloat16
    yield "modelopt-int8", int8_smooth, modelopt("INT8_SQ"), torch.float32
    yield "modelopt-nvfp4", nvfp4, None, torch.bfloat16
    yield "modelopt-int4", int4, modelopt("W4A16_AWQ"), torch.float16
    yield "awq", awq, {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": True}, torch.float16
    four = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}
    yield "bnb-nf4", in_four_bits("nf4", False), {**four, "bnb_4bit_quant_type": "nf4"}, torch.bfloat16
    yield "bnb-nf4-nested", in_four_bits("nf4", True), {**four, "bnb_4bit_use_double_quant": True}, torch.bfloat16
    yield "bnb-fp4", in_four_bits("fp4", False), {**four, "bnb_4bit_quant_type": "fp4"}, torch.bfloat16
    yield "bnb-int8", in_eight_bits, {"quant_method": "bitsandbytes", "load_in_8bit": True}, torch.float16
    for bits in (2, 4, 8):
        yield f"gptq-{bits}", gptq(bits, 1), {"quant_method": "gptq", "bits": bits, "group_size": 64}, torch.float16
    yield "gptq-v2", gptq(4, 0), {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}, torch.float16
    f8 = {"num_bits": 8, "type": "float", "symmetric": True}
    whole = {"num_bits": 8, "type": "int", "symmetric": True}
    four = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 64}
    for name, label, args, unsigned in (
            ("float-quantized", "tensor", {**f8, "strategy": "tensor"}, False),
            ("float-quantized", "channel", {**f8, "strategy": "channel"}, False),
            ("float-quantized", "block", {**f8, "strategy": "block", "block_structure": [128, 128]}, False),
            ("int-quantized", "channel", {**whole, "strategy": "channel"}, False),
            ("int-quantized", "zeros", {**whole, "strategy": "channel", "symmetric": False}, True),
            ("pack-quantized", "group", four, False),
            ("pack-quantized", "zeros", {**four, "symmetric": False}, True),
            ("pack-quantized", "eight", {**four, "num_bits": 8}, False),
            ("nvfp4-pack-quantized", "group", {"num_bits": 4, "type": "float", "symmetric": True,
                                               "strategy": "tensor_group", "group_size": 16}, False)):
        quantize, config = compressed(name, args, unsigned)
        yield f"{name}-{label}", quantize, config, torch.bfloat16


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    program = str(pathlib.Path(parser.parse_args().program).resolve())
    failures = 0
    for name, quantize, quantization, dtype in cases():
        torch.manual_seed(1)
        stored, expected = {}, {}
        for module, shape in linears():
            parts, value = quantize(module, shape)
            stored.update({f"{module}.{key}": tensor.contiguous() for key, tensor in parts.items()})
            expected[f"{module}.weight"] = value.to(dtype)
        for layer in range(2):
            for norm in ("input_layernorm", "post_attention_layernorm"):
                expected[f"model.layers.{layer}.{norm}.weight"] = torch.randn(HIDDEN).to(dtype)
        expected["model.norm.weight"] = torch.randn(HIDDEN).to(dtype)
        for whole in ("model.embed_tokens", "lm_head"):
            expected[f"{whole}.weight"] = torch.randn(VOCAB, HIDDEN).to(dtype)
        stored.update({key: tensor.clone() for key, tensor in expected.items() if "_proj" not in key})
        with tempfile.TemporaryDirectory() as folder:
            packed, made = pathlib.Path(folder, "packed"), pathlib.Path(folder, "made")
            packed.mkdir()
            config = {**CONFIG, "torch_dtype": str(dtype)[6:]}
            if quantization is None:
                (packed / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "NVFP4"}}')
            else:
                config["quantization_config"] = quantization
            (packed / "config.json").write_text(json.dumps(config))
            save_file(stored, packed / "model.safetensors")
            ran = subprocess.run([program, str(packed), str(made), "--saver", "hf"], capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                wrong = ran.stderr.strip().splitlines()[-1]
            else:
                found = load_file(made / "model.safetensors")
                different = [key for key, tensor in expected.items()
                             if key not in found or found[key].dtype != tensor.dtype or
                             not torch.equal(found[key].view(torch.uint8), tensor.contiguous().view(torch.uint8))]
                wrong = ", ".join(different[:3]) + f" ({len(different)})" if different else ""
                if len(found) != len(expected):
                    wrong += f" {len(found)} tensors"
        print(f"{name:32s} {'equal' if not wrong else 'DIFFERS: ' + wrong}")
        failures += bool(wrong)
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
