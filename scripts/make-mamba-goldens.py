#!/usr/bin/env python3
"""Make testdata/model/{mamba2,nemotron_h,bamba}.golden, in the way of make-model-goldens.py and with its needs.

What the library computes in float32 is left in float64 here where its inputs are, so that the unchanged float32 model
agrees to 2e-6.  Names are those of files, which call the model of a hybrid `backbone`.
Command: python scripts/make-mamba-goldens.py testdata/model
"""
import importlib.util
import pathlib
import re
import sys

import torch
import transformers
from transformers.models.bamba import modeling_bamba

spec = importlib.util.spec_from_file_location("goldens", pathlib.Path(__file__).with_name("make-model-goldens.py"))
goldens = importlib.util.module_from_spec(spec)
spec.loader.exec_module(goldens)

COMMON = dict(vocab_size=goldens.VOCAB, hidden_size=goldens.HIDDEN, n_groups=2, chunk_size=4, layer_norm_epsilon=1e-5,
              tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)
goldens.MODELS = {
    "mamba2": transformers.Mamba2Config(**COMMON, num_hidden_layers=2, num_heads=4, head_dim=8, expand=2, state_size=6),
    "nemotron_h": transformers.NemotronHConfig(
        **COMMON, layers_block_type=["attention", "mamba", "mlp"], num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, intermediate_size=40, mamba_num_heads=6, mamba_head_dim=4, ssm_state_size=6,
        max_position_embeddings=goldens.LENGTH),
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
    "bamba": ["model.layers.1.mamba.conv1d.bias", "model.layers.0.self_attn.q_proj.weight"],
}


def leave_float64():
    to, as_float, softmax = torch.Tensor.to, torch.Tensor.float, torch.nn.functional.softmax
    is_double = lambda x: x.dtype == torch.float64
    torch.Tensor.to = lambda x, *a, **k: x if is_double(x) and torch.float32 in (*a, *k.values()) else to(x, *a, **k)
    torch.Tensor.float = lambda x: x if is_double(x) else as_float(x)
    torch.nn.functional.softmax = lambda x, dim, dtype=None: softmax(x, dim, dtype=None if is_double(x) else dtype)


@torch.no_grad()
def rotary(self, x, position_ids):
    rope, heads = self.config.rope_parameters, self.config.hidden_size // self.config.num_attention_heads
    dim = int(heads * rope["partial_rotary_factor"])
    inv_freq = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = position_ids[..., None].double() * inv_freq
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().type(x.dtype), angles.sin().type(x.dtype)


def name_as_in_files():
    named = torch.nn.Module.named_parameters
    torch.nn.Module.named_parameters = lambda model, *a, **k: (
        (re.sub("^model[.]", "backbone.", name) if "NemotronH" in type(model).__name__ else name, parameter)
        for name, parameter in named(model, *a, **k))


if __name__ == "__main__":
    transformers.Mamba2PreTrainedModel._supports_sdpa = True  # which main() asks for: it attends to nothing
    leave_float64()
    modeling_bamba.BambaRotaryEmbedding.forward = rotary
    name_as_in_files()
    goldens.main(*sys.argv[1:])
