#!/usr/bin/env python3
"""Make testdata/model/*.golden: logits, loss and gradients of Hugging Face's models.

Each model is tiny and its weights are a function of their names (weight() below, and golden_weight() in
tests/model/hugging_face_test.cpp), so the files hold no weights.  Everything is computed in float64,
for which the places where the library forces float32 (rotary angles, RMSNorm) are replaced here; the
unchanged float32 model must agree with that to 2e-6.

Needs from PyPI: torch, transformers (made with the versions that stand in the files).
Command: python scripts/make-model-goldens.py testdata/model [NAME...]
"""
import contextlib
import importlib
import json
import math
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
# Families whose files hold their config.json, too: three heads over one, widths that nothing divides.
ODD = dict(vocab_size=VOCAB, hidden_size=18, num_hidden_layers=LAYERS, num_attention_heads=3, num_key_value_heads=1,
           intermediate_size=37, max_position_embeddings=LENGTH, pad_token_id=None, bos_token_id=None, eos_token_id=None)
WINDOWS = dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"])
PART = dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.7})
DENSE = {
    "gemma": transformers.GemmaConfig(**ODD, head_dim=10),
    "gemma2": transformers.Gemma2Config(**ODD, **WINDOWS, head_dim=10, query_pre_attn_scalar=7,
                                        attn_logit_softcapping=0.9, final_logit_softcapping=1.7),
    "gemma3_text": transformers.Gemma3TextConfig(
        **ODD, **WINDOWS, head_dim=10, query_pre_attn_scalar=10, rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0}}),
    "olmo2": transformers.Olmo2Config(**ODD),
    "phi3": transformers.Phi3Config(**ODD | dict(max_position_embeddings=2 * LENGTH),
                                    original_max_position_embeddings=LENGTH, sliding_window=5, rope_parameters={
        "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.7, "short_factor": [1.5, 1.25],
        "long_factor": [2.0, 3.0], "original_max_position_embeddings": LENGTH}),
    "granite": transformers.GraniteConfig(**ODD, embedding_multiplier=3.5, residual_multiplier=0.22, logits_scaling=6.0,
                                          attention_multiplier=0.3, attention_bias=True, mlp_bias=True),
    "smollm3": transformers.SmolLM3Config(**ODD, no_rope_layers=[1, 0]),
    "cohere": transformers.CohereConfig(**ODD, logit_scale=0.3),
    "cohere2": transformers.Cohere2Config(**ODD, **WINDOWS, logit_scale=0.3),
    "gpt_neox": transformers.GPTNeoXConfig(**ODD, **PART),
    "gptj": transformers.GPTJConfig(vocab_size=VOCAB, n_embd=18, n_layer=LAYERS, n_head=3, n_inner=37, n_positions=LENGTH,
                                    rotary_dim=4, bos_token_id=None, eos_token_id=None),
    "codegen": transformers.CodeGenConfig(vocab_size=VOCAB, n_embd=24, n_layer=LAYERS, n_head=4, n_inner=37,
                                          n_positions=LENGTH, rotary_dim=4, bos_token_id=None, eos_token_id=None),
    "gpt_bigcode": transformers.GPTBigCodeConfig(
        vocab_size=VOCAB, n_embd=18, n_layer=LAYERS, n_head=3, n_inner=37, n_positions=LENGTH, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, bos_token_id=None, eos_token_id=None),
    "persimmon": transformers.PersimmonConfig(**ODD | dict(hidden_size=24)),
    "gpt_neo": transformers.GPTNeoConfig(
        vocab_size=VOCAB, hidden_size=18, num_layers=LAYERS, num_heads=3, intermediate_size=37, window_size=4,
        attention_types=[[["global", "local"], 1]], max_position_embeddings=LENGTH, bos_token_id=None, eos_token_id=None),
    "bloom": transformers.BloomConfig(vocab_size=VOCAB, hidden_size=18, n_layer=LAYERS, n_head=3, bos_token_id=None,
                                      eos_token_id=None),
    "mpt": transformers.MptConfig(vocab_size=VOCAB, d_model=18, n_layers=LAYERS, n_heads=3, max_seq_len=LENGTH),
    "hunyuan_v1_dense": transformers.HunYuanDenseV1Config(**ODD | dict(tie_word_embeddings=True), head_dim=10, rope_parameters={
        "rope_type": "dynamic", "rope_theta": 100.0, "alpha": 50.0, "factor": 1.0}),
    "falcon": transformers.FalconConfig(**ODD, ffn_hidden_size=37, new_decoder_architecture=True, num_kv_heads=1),
    "opt": transformers.OPTConfig(**ODD, ffn_dim=37, dropout=0, enable_bias=False),  # of keys it has no gradient
    "olmo": transformers.OlmoConfig(**ODD),
    "olmo_clipped": transformers.OlmoConfig(**ODD, clip_qkv=0.8),
    "stablelm": transformers.StableLmConfig(**ODD | dict(num_key_value_heads=3, hidden_size=24),
                                            qk_layernorm=True, use_parallel_residual=True, rope_parameters={
                                                "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
    "apertus": transformers.ApertusConfig(**ODD, head_dim=10, rope_parameters={"rope_type": "default", "rope_theta": 100.0}),
    "nanochat": transformers.NanoChatConfig(**ODD, head_dim=10, final_logit_softcapping=2.0),
    "hyperclovax": transformers.HyperCLOVAXConfig(**ODD, embedding_multiplier=3.5, residual_multiplier=0.22,
                                                 logits_scaling=0.3, attention_multiplier=0.3),
    "qwen3_next": transformers.Qwen3NextConfig(
        **ODD, head_dim=10, num_experts=0, layer_types=["linear_attention", "full_attention"], linear_conv_kernel_dim=3,
        linear_key_head_dim=5, linear_value_head_dim=3, linear_num_key_heads=2, linear_num_value_heads=4,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.6}),
}
MODELS |= DENSE
ZERO_CENTERED = ("nemotron", "gemma", "gemma2", "gemma3_text", "qwen3_next")
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


def saved_name(config, name):
    """What a folder calls it."""
    return "embed_out.weight" if config.model_type == "gpt_neox" and name == "lm_head.weight" else name


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


def dense_angles(positions, dim, base):
    return positions[..., None].double() * base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)


# The same of the families above, whose modules are left to compute in float64 otherwise.
@torch.no_grad()
def dense_rotary_f64(self, x, position_ids, layer_type=None):
    rope = self.config.rope_parameters[layer_type] if layer_type else self.config.rope_parameters
    heads = getattr(self.config, "head_dim", None) or self.config.hidden_size // self.config.num_attention_heads
    dim = int(heads * rope.get("partial_rotary_factor", 1))
    inv_freq = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    magnitude = 1.0
    if rope["rope_type"] == "linear":
        inv_freq = inv_freq / rope["factor"]
    if rope["rope_type"] == "longrope":
        inv_freq = inv_freq / torch.tensor(rope["short_factor"], dtype=torch.float64)
        trained = rope["original_max_position_embeddings"]
        magnitude = math.sqrt(1 + math.log(self.config.max_position_embeddings / trained) / math.log(trained))
    if "alpha" in rope:
        inv_freq = (rope["rope_theta"] * rope["alpha"] ** (dim / (dim - 2))) ** (
            -torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = position_ids[..., None].double() * inv_freq
    cohere = self.config.model_type.startswith("cohere")
    angles = angles.repeat_interleave(2, -1) if cohere else torch.cat((angles, angles), dim=-1)
    return angles.cos() * magnitude, angles.sin() * magnitude


@contextlib.contextmanager
def nothing_in_float32(model_type):
    to, as_float, softmax = torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax
    module = importlib.import_module(f"transformers.models.{model_type.removesuffix('_text')}.modeling_"
                                     f"{model_type.removesuffix('_text')}")
    # GPT-J's has a table instead, and OPT has none.
    classes = [c for n, c in vars(module).items() if n.endswith("RotaryEmbedding") and hasattr(c, "compute_default_rope_parameters")]
    forwards = [c.forward for c in classes]
    f64 = lambda x: x.dtype == torch.float64
    torch.Tensor.to = lambda x, *a, **k: x if f64(x) and torch.float32 in (*a, *k.values()) else to(x, *a, **k)
    torch.Tensor.float = lambda x: x if f64(x) else as_float(x)
    torch.nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim, dtype=None if f64(x) else dtype)
    for rotary in classes:
        rotary.forward = dense_rotary_f64
    gelu = getattr(module, "BloomGelu", None)  # whose constants have eight digits
    of_digits = gelu and gelu.forward
    if gelu:
        gelu.forward = lambda self, x: torch.nn.functional.gelu(x, approximate="tanh")
    try:
        yield
    finally:
        if gelu:
            gelu.forward = of_digits
        torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax = to, as_float, softmax
        for rotary, forward in zip(classes, forwards):
            rotary.forward = forward


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
    kind = "eager" if config.model_type in DENSE else "sdpa"  # which alone caps
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=kind).to(dtype)
    with torch.no_grad():
        for module in model.modules():
            if hasattr(module, "scalar_embed_scale"):
                module.embed_scale.fill_(module.scalar_embed_scale)
            if config.model_type in ("gptj", "codegen") and hasattr(module, "embed_positions"):
                angles = dense_angles(torch.arange(LENGTH), config.rotary_dim, 10000.0)
                module.embed_positions.copy_(torch.cat((angles.sin(), angles.cos()), -1))
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(saved_name(config, name), parameter.shape, config.model_type in ZERO_CENTERED))
    originals = {cls: cls.forward for cls in PATCHES}
    if dtype == torch.float64:
        for cls, forward in PATCHES.items():
            cls.forward = forward
    exact = config.model_type in DENSE and dtype == torch.float64
    with nothing_in_float32(config.model_type) if exact else contextlib.nullcontext():
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    loss.backward()
    for cls, forward in originals.items():
        cls.forward = forward
    gradients = {saved_name(config, name): parameter.grad for name, parameter in model.named_parameters()}
    return logits.detach(), loss.detach(), gradients


def text(values):
    return " ".join(f"{float(value):.14g}" for value in values.reshape(-1))


def agree(single, double):
    error = (single.double() - double).abs().max() / double.abs().max()
    if not error < 2e-6:
        raise SystemExit(f"float32 and float64 differ by {error}")


def main(folder, *only):
    ids = ((uniform("ids", SEQUENCES * (LENGTH + 1)) + 1) / 2 * VOCAB).long().reshape(SEQUENCES, LENGTH + 1)
    for name, config in MODELS.items():
        if only and name not in only:
            continue
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
            if name in DENSE:
                print("config", json.dumps(json.loads(config.to_json_string())), file=out)
            print("ids", " ".join(str(i) for i in ids.reshape(-1).tolist()), file=out)
            print("loss", text(loss), file=out)
            for row in logits.reshape(-1, VOCAB):
                print("logits", text(row), file=out)
            # of each gradient g: name, <g, uniform(name + ".direction")>, its norm
            for key, g in gradients.items():
                along = g.reshape(-1) @ uniform(key + ".direction", g.numel())
                print("gradient", key, text(torch.stack((along, g.norm()))), file=out)
            for key in WHOLE.get(name, []):
                print("whole", key, text(gradients[key]), file=out)


if __name__ == "__main__":
    main(*sys.argv[1:])
