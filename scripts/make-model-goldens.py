#!/usr/bin/env python3
"""Make testdata/model/*.golden: logits, loss and gradients of Hugging Face's models.

Each model is tiny and its weights are a function of their names (weight() below, and golden_weight() in
tests/model/hugging_face_test.cpp), so the files hold no weights.  Everything is computed in float64,
for which the places where the library forces float32 (rotary angles, RMSNorm) are replaced here; the
unchanged float32 model must agree with that to 2e-6.

Needs from PyPI: torch, transformers (made with the versions that stand in the files).
Command: python scripts/make-model-goldens.py testdata/model
"""
import sys

import torch
import transformers
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.nemotron import modeling_nemotron
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

VOCAB, HIDDEN, LAYERS, HEADS, SEQUENCES, LENGTH = 24, 16, 2, 4, 2, 8
LLAMA = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
             num_key_value_heads=2, intermediate_size=40, max_position_embeddings=LENGTH,
             rms_norm_eps=1e-5, tie_word_embeddings=False,
             rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
MODELS = {
    "gpt2": transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=LENGTH, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, activation_function="gelu_new", layer_norm_epsilon=1e-5,
        bos_token_id=None, eos_token_id=None),
    "llama": transformers.LlamaConfig(**LLAMA),
    "qwen2": transformers.Qwen2Config(**LLAMA),
    "qwen3": transformers.Qwen3Config(**LLAMA, head_dim=8),
    "llama3_1": transformers.LlamaConfig(**LLAMA | dict(
        head_dim=16, rope_parameters={
            "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})),
    "mistral": transformers.MistralConfig(**LLAMA, sliding_window=4),
    "nemotron": transformers.NemotronConfig(**LLAMA | dict(
        head_dim=8, norm_eps=1e-5, hidden_act="relu2", bos_token_id=None, eos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0,
                         "partial_rotary_factor": 0.5})),
}
# Weights whose whole gradient is printed.
WHOLE = {
    "gpt2": ["transformer.h.1.attn.c_attn.bias", "transformer.h.0.ln_1.weight", "transformer.wpe.weight"],
    "llama": ["model.layers.1.self_attn.k_proj.weight", "model.layers.0.input_layernorm.weight"],
    "qwen2": ["model.layers.0.self_attn.v_proj.bias"],
    "qwen3": ["model.layers.0.self_attn.q_norm.weight", "model.layers.1.self_attn.k_norm.weight"],
    "llama3_1": ["model.layers.0.self_attn.k_proj.weight"],
    "mistral": ["model.layers.0.self_attn.v_proj.weight"],
    "nemotron": ["model.layers.1.input_layernorm.weight", "model.layers.0.self_attn.q_proj.weight"],
}


def uniform(name, count):
    """Numbers in [-1, 1), exact in float32: a 32-bit mix of the FNV-1a hash of the name and the index."""
    start = 2166136261
    for byte in name.encode():
        start = (start ^ byte) * 16777619 & 0xFFFFFFFF
    numbers = []
    for i in range(count):
        x = (start + i * 0x9E3779B9) & 0xFFFFFFFF
        x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        x ^= x >> 16
        numbers.append((x >> 8) / 2**23 - 1)
    return torch.tensor(numbers, dtype=torch.float64)


def weight(name, shape, zero_centered):
    norm = "norm" in name or "ln_" in name
    center = 1 if norm and name.endswith(".weight") and not zero_centered else 0
    return center + uniform(name, shape.numel()).reshape(shape) / 4


def rms_norm_f64(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def llama3_scaled(inv_freq, rope):
    """From the description in arXiv:2407.21783 and the parameters' names."""
    context, low, high = (rope[name] for name in (
        "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    turns = context * inv_freq / (2 * torch.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return inv_freq * (kept + (1 - kept) / rope["factor"])


@torch.no_grad()
def rotary_f64(self, x, position_ids, **_):
    dim = self.inv_freq.numel() * 2
    rope = self.config.rope_parameters
    inv_freq = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope["rope_type"] == "llama3":
        inv_freq = llama3_scaled(inv_freq, rope)
    angles = position_ids[..., None].double() * inv_freq
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


PATCHES = {  # to be set in float64, and put back
    modeling_llama.LlamaRMSNorm: rms_norm_f64,
    modeling_mistral.MistralRMSNorm: rms_norm_f64,
    modeling_qwen2.Qwen2RMSNorm: rms_norm_f64,
    modeling_qwen3.Qwen3RMSNorm: rms_norm_f64,
    modeling_llama.LlamaRotaryEmbedding: rotary_f64,
    modeling_mistral.MistralRotaryEmbedding: rotary_f64,
    modeling_nemotron.NemotronRotaryEmbedding: rotary_f64,
    modeling_qwen2.Qwen2RotaryEmbedding: rotary_f64,
    modeling_qwen3.Qwen3RotaryEmbedding: rotary_f64,
}


def run(config, dtype, ids):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").to(dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(name, parameter.shape, config.model_type == "nemotron"))
    originals = {cls: cls.forward for cls in PATCHES}
    if dtype == torch.float64:
        for cls, forward in PATCHES.items():
            cls.forward = forward
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    loss.backward()
    for cls, forward in originals.items():
        cls.forward = forward
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return logits.detach(), loss.detach(), gradients


def text(values):
    return " ".join(f"{float(value):.14g}" for value in values.reshape(-1))


def agree(single, double):
    error = (single.double() - double).abs().max() / double.abs().max()
    if not error < 2e-6:
        raise SystemExit(f"float32 and float64 differ by {error}")


def main(folder):
    ids = ((uniform("ids", SEQUENCES * (LENGTH + 1)) + 1) / 2 * VOCAB).long().reshape(SEQUENCES, LENGTH + 1)
    for name, config in MODELS.items():
        logits, loss, gradients = run(config, torch.float64, ids)
        for a, b in zip(run(config, torch.float32, ids), (logits, loss, gradients)):
            if isinstance(a, dict):
                for key in a:
                    agree(a[key], b[key])
            else:
                agree(a, b)
        with open(f"{folder}/{name}.golden", "w") as out:
            print(f"# scripts/make-model-goldens.py; torch {torch.__version__}, transformers "
                  f"{transformers.__version__}, float64", file=out)
            print("ids", " ".join(str(i) for i in ids.reshape(-1).tolist()), file=out)
            print("loss", text(loss), file=out)
            for row in logits.reshape(-1, VOCAB):
                print("logits", text(row), file=out)
            # of each gradient g: name, <g, uniform(name + ".direction")>, its norm
            for key, g in gradients.items():
                along = g.reshape(-1) @ uniform(key + ".direction", g.numel())
                print("gradient", key, text(torch.stack((along, g.norm()))), file=out)
            for key in WHOLE[name]:
                print("whole", key, text(gradients[key]), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
