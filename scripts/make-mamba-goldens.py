#!/usr/bin/env python3
"""Make testdata/model/{mamba2,nemotron_h,nemotron_h_experts,nemotron_h_latents,bamba,granitemoehybrid,granitemoehybrid_dense}.golden, in the
way of make-model-goldens.py and with its needs.

What the library computes in float32 is left in float64 here where its inputs are, so that the unchanged float32 model
agrees to 2e-6.  Names are those of files, which call the model of a hybrid `backbone`; of a tensor of all experts each has
a line, with its number behind the name.
Command: python scripts/make-mamba-goldens.py testdata/model
"""
import importlib.util
import pathlib
import re
import sys

import torch
import transformers
from transformers.models.bamba import modeling_bamba
from transformers.models.granitemoehybrid import modeling_granitemoehybrid

spec = importlib.util.spec_from_file_location("goldens", pathlib.Path(__file__).with_name("make-model-goldens.py"))
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

COMMON = dict(vocab_size=goldens.VOCAB, hidden_size=goldens.HIDDEN, n_groups=2, chunk_size=4, layer_norm_epsilon=1e-5,
              tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
NEMOTRON = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=40, mamba_num_heads=6,
                mamba_head_dim=4, ssm_state_size=6, max_position_embeddings=goldens.LENGTH)
GRANITE = dict(vocab_size=goldens.VOCAB, hidden_size=goldens.HIDDEN, intermediate_size=12, num_attention_heads=4,
               num_key_value_heads=2, rms_norm_eps=1e-5, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=6, mamba_chunk_size=4,
               num_experts_per_tok=2, shared_intermediate_size=20, embedding_multiplier=12.0, logits_scaling=6.0,
               residual_multiplier=0.22, attention_multiplier=0.3, max_position_embeddings=goldens.LENGTH,
               tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
goldens.MODELS = {
    "mamba2": transformers.Mamba2Config(**COMMON, num_hidden_layers=2, num_heads=4, head_dim=8, expand=2, state_size=6),
    "nemotron_h": transformers.NemotronHConfig(
        **COMMON, **NEMOTRON, layers_block_type=["attention", "mamba", "mlp"]),
    "nemotron_h_experts": transformers.NemotronHConfig(
        **COMMON, **NEMOTRON, layers_block_type=["moe", "mamba", "attention", "moe"], n_routed_experts=4, n_shared_experts=1,
        moe_intermediate_size=12, moe_shared_expert_intermediate_size=20, num_experts_per_tok=2, n_group=2, topk_group=1,
        routed_scaling_factor=2.5),
    "nemotron_h_latents": transformers.NemotronHConfig(
        **COMMON, **NEMOTRON, layers_block_type=["moe", "mamba", "attention", "moe"], n_routed_experts=4, n_shared_experts=1,
        moe_intermediate_size=12, moe_shared_expert_intermediate_size=20, num_experts_per_tok=2, n_group=2, topk_group=1,
        routed_scaling_factor=2.5, moe_latent_size=9),
    "granitemoehybrid": transformers.GraniteMoeHybridConfig(
        **GRANITE, num_hidden_layers=2, layer_types=["mamba", "attention"], mamba_n_groups=2, num_local_experts=4,
        position_embedding_type="nope"),
    "granitemoehybrid_dense": transformers.GraniteMoeHybridConfig(
        **GRANITE, num_hidden_layers=2, layer_types=["attention", "mamba"], mamba_n_groups=1, num_local_experts=0,
        position_embedding_type="rope"),
    "bamba": transformers.BambaConfig(
        vocab_size=goldens.VOCAB, hidden_size=goldens.HIDDEN, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, attn_layer_indices=[0], rms_norm_eps=1e-5, mamba_n_heads=4,
        mamba_d_head=8, mamba_n_groups=2, mamba_d_state=6, mamba_chunk_size=4, max_position_embeddings=goldens.LENGTH,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None),
}
goldens.WHOLE = {
    "mamba2": ["backbone.layers.0.mixer.conv1d.weight", "backbone.layers.0.mixer.A_log", "backbone.layers.1.mixer.D",
               "backbone.layers.0.mixer.dt_bias", "backbone.layers.0.mixer.norm.weight"],
    "nemotron_h": ["backbone.layers.1.mixer.conv1d.bias", "backbone.layers.0.mixer.k_proj.weight"],
    "nemotron_h_experts": ["backbone.layers.0.mixer.gate.weight", "backbone.layers.3.mixer.experts.1.up_proj.weight"],
    "nemotron_h_latents": ["backbone.layers.0.mixer.fc1_latent_proj.weight", "backbone.layers.3.mixer.fc2_latent_proj.weight",
                           "backbone.layers.3.mixer.experts.1.up_proj.weight"],
    "granitemoehybrid": ["model.layers.0.block_sparse_moe.router.layer.weight",
                         "model.layers.1.block_sparse_moe.input_linear.weight.2"],
    "granitemoehybrid_dense": ["model.layers.1.mamba.A_log", "model.layers.0.shared_mlp.input_linear.weight"],
    "bamba": ["model.layers.1.mamba.conv1d.bias", "model.layers.0.self_attn.q_proj.weight"],
}


def leave_float64():
    to, as_type, as_float, softmax = torch.Tensor.to, torch.Tensor.type, torch.Tensor.float, torch.nn.functional.softmax
    is_double = lambda x: x.dtype == torch.float64
    torch.Tensor.to = lambda x, *a, **k: x if is_double(x) and torch.float32 in (*a, *k.values()) else to(x, *a, **k)
    torch.Tensor.type = lambda x, *a: x if is_double(x) and a == (torch.float32,) else as_type(x, *a)
    torch.Tensor.float = lambda x: x if is_double(x) else as_float(x)
    torch.nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim, dtype=None if is_double(x) else dtype)


@torch.no_grad()
def rotary(self, x, position_ids):
    rope, heads = self.config.rope_parameters, self.config.hidden_size // self.config.num_attention_heads
    dim = int(heads * rope.get("partial_rotary_factor", 1))
    inv_freq = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = position_ids[..., None].double() * inv_freq
    angles = torch.cat((angles, angles), dim=-1)
    rounded = lambda numbers: torch.empty_like(numbers, dtype=x.dtype).copy_(numbers)
    return rounded(angles.cos()), rounded(angles.sin())


class Expert:
    """One expert's part of a parameter that all of a layer have in common."""

    def __init__(self, parameter, number):
        self.all, self.number, self.shape = parameter, number, parameter.shape[1:]

    def copy_(self, values):
        self.all[self.number].copy_(values)

    @property
    def grad(self):
        return self.all.grad[self.number]


def in_files(model_type, name):
    if model_type == "nemotron_h":
        return re.sub("^model[.]", "backbone.", name)
    for ours, theirs in (("router.weight", "router.layer.weight"), ("experts.gate_up_proj", "input_linear.weight"),
                         ("experts.down_proj", "output_linear.weight")):
        name = name.replace(f"block_sparse_moe.{ours}", f"block_sparse_moe.{theirs}")
    return name


def name_as_in_files():
    named = torch.nn.Module.named_parameters

    def parameters(model, *a, **k):
        model_type = getattr(getattr(model, "config", None), "model_type", "")
        for name, parameter in named(model, *a, **k):
            there = in_files(model_type, name)
            if "experts." not in name or parameter.dim() != 3:
                yield there, parameter
                continue
            for number in range(len(parameter)):
                stem, last = there.rsplit(".", 1)
                yield (f"{stem}.{number}.{last}.weight" if model_type == "nemotron_h" else f"{there}.{number}",
                       Expert(parameter, number))

    torch.nn.Module.named_parameters = parameters


def choose_by_biases():
    """Routers' biases are no parameters, which main() would fill."""
    make = transformers.AutoModelForCausalLM.from_config

    def from_config(config, **settings):
        config._experts_implementation = "eager"
        model = make(config, **settings)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(goldens.weight(in_files(config.model_type, name), buffer.shape, False))
        return model

    transformers.AutoModelForCausalLM.from_config = from_config


if __name__ == "__main__":
    transformers.Mamba2PreTrainedModel._supports_sdpa = True  # which main() asks for: it attends to nothing
    leave_float64()
    modeling_bamba.BambaRotaryEmbedding.forward = rotary
    modeling_granitemoehybrid.GraniteMoeHybridRotaryEmbedding.forward = rotary
    name_as_in_files()
    choose_by_biases()
    goldens.main(*sys.argv[1:])
