"""Model folders as transformers makes them, and what it computes of them, beside what mt computes.

Tiny models with random weights of every family that mt computes with, in the forms that config.json has: both
spellings of rotary positions and every scaling of them, biases, heads and groups of odd sizes, tied and not,
padded vocabularies, 16 bits, shards.  Of each, with a byte-level tokenizer of 320 tokens:
  logits      log-probabilities of all tokens after a prompt, largest difference
  greedy      the first 20 tokens, how many differ
  perplexity  nats of a text, difference
  gguf        the GGUF file that mt makes, as mt reads it, and the folder made of that, as transformers does:
              largest difference of log-probabilities; "none" where llama.cpp has no such model, or takes
              fewer tokens than the prompt has, as mt says
  again       the folder that mt makes of a checkpoint after a training step of rate 0: transformers loads it,
              largest difference of its logits, and whether its generation ends at the same tokens; of weights,
              where transformers has no such class
scripts/compare-folders.py --models prints them.

Needs from PyPI: transformers (tried with 4.45.2, 4.51.3 and 5.24.0), torch, safetensors.
"""
import json
import os
import pathlib
import subprocess
import tempfile
import warnings

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MT_DEVICE"] = "cpu"
warnings.filterwarnings("ignore")
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers  # noqa: E402

transformers.logging.set_verbosity_error()
WORDS = 320
LINES = ["the king is dead, long live the king", "a horse, a horse, my kingdom for a horse",
         "whoever reads this slowly will notice that nothing happens in between",
         "seven small boats crossed the quiet water", "tomorrow we shall bake bread again"] * 30
# Version 4.51.3 lacks them, calls their settings otherwise, or computes groups of a Mamba's channels otherwise
# than its own kernels do.
LATER = ("images-", "youtu", "apertus", "nanochat", "iquestcoder", "qwen3-next", "qwen3.5", "gemma", "olmo", "phi", "neox", "gptj", "neo", "bloom", "mpt", "hunyuan", "hy3", "codegen", "bigcode", "biogpt", "persimmon", "jais2", "vaultgemma", "exaone", "hyperclovax", "cwm", "falcon", "opt", "stablelm", "starcoder2", "ernie", "seed", "arcee", "helium", "ministral", "dots1", "deepseek", "granite", "smollm3", "flex-olmo", "minimax", "solar", "command-r", "glm4", "mamba2", "bamba", "nemotron-h")
PROMPT, TEXT = "the king is", "seven small boats crossed the water, and nobody noticed"
SHAPE = dict(vocab_size=323, hidden_size=60, intermediate_size=97, num_hidden_layers=2, num_attention_heads=3,
             num_key_value_heads=1, max_position_embeddings=64, bos_token_id=1, eos_token_id=0,
             tie_word_embeddings=False)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)


def of(family, **settings):
    config = getattr(transformers, family + "Config")(**{**SHAPE, **settings})
    return getattr(transformers, family.removesuffix("Text") + "ForCausalLM"), config


def llama(**settings):
    return of("Llama", **settings)


def gpt2(**settings):
    sizes = dict(vocab_size=323, n_embd=36, n_layer=2, n_head=3, n_positions=64, bos_token_id=1, eos_token_id=0)
    return transformers.GPT2LMHeadModel, transformers.GPT2Config(**{**sizes, **settings})


def gptj(**settings):
    sizes = dict(vocab_size=323, n_embd=60, n_layer=2, n_head=3, n_positions=64, rotary_dim=6, n_inner=97, bos_token_id=1,
                 eos_token_id=0)
    return transformers.GPTJForCausalLM, transformers.GPTJConfig(**{**sizes, **settings})


def neo(**settings):
    sizes = dict(vocab_size=323, hidden_size=60, num_layers=2, num_heads=3, attention_types=[[["global", "local"], 1]],
                 window_size=5, max_position_embeddings=64, intermediate_size=97, bos_token_id=1, eos_token_id=0)
    return transformers.GPTNeoForCausalLM, transformers.GPTNeoConfig(**{**sizes, **settings})


def bloom(**settings):
    sizes = dict(vocab_size=323, hidden_size=60, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=0)
    return transformers.BloomForCausalLM, transformers.BloomConfig(**{**sizes, **settings})


def mpt(**settings):
    sizes = dict(vocab_size=323, d_model=60, n_layers=2, n_heads=6, max_seq_len=64, bos_token_id=1, eos_token_id=0)
    return transformers.MptForCausalLM, transformers.MptConfig(**{**sizes, **settings})


def codegen(**settings):
    sizes = dict(vocab_size=323, n_embd=56, n_layer=2, n_head=4, n_positions=64, rotary_dim=6, n_inner=97, bos_token_id=1,
                 eos_token_id=0)
    return transformers.CodeGenForCausalLM, transformers.CodeGenConfig(**{**sizes, **settings})


def bigcode(**settings):
    sizes = dict(vocab_size=323, n_embd=60, n_layer=2, n_head=3, n_positions=64, n_inner=97, bos_token_id=1, eos_token_id=0)
    return transformers.GPTBigCodeForCausalLM, transformers.GPTBigCodeConfig(**{**sizes, **settings})


class OfType:
    """The class of a model_type, where one of several types has it."""
    from_pretrained = staticmethod(transformers.AutoModelForCausalLM.from_pretrained)

    def __new__(cls, config):
        return transformers.AutoModelForCausalLM.from_config(config)


def exaone(**settings):
    return OfType, transformers.ExaoneConfig(**{**SHAPE, **settings})


def iquestcoder(**settings):
    return OfType, transformers.IQuestCoderConfig(**{**SHAPE, "head_dim": 24, **settings})


def falcon(**settings):
    return of("Falcon", **{**dict(ffn_hidden_size=97, tie_word_embeddings=True), **settings})


def opt(**settings):
    return of("OPT", **{**dict(ffn_dim=97, word_embed_proj_dim=60, dropout=0.0, pad_token_id=0, tie_word_embeddings=True),
                        **settings})


RULES = dict(layer_types=["linear_attention", "full_attention"], linear_conv_kernel_dim=3, linear_key_head_dim=7,
             linear_value_head_dim=11, linear_num_key_heads=3, linear_num_value_heads=6)
WIDTHS = dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2)


def experts(family, **settings):
    """Of widths whose rows are whole vectors, which transformers' own products of many matrices ask for."""
    return of(family, **{**WIDTHS, **dict(intermediate_size=96, num_experts_per_tok=2), **settings})


def latent(family, **settings):
    sizes = dict(q_lora_rank=14, kv_lora_rank=10, qk_nope_head_dim=9, qk_rope_head_dim=6, v_head_dim=12, num_key_value_heads=4)
    return experts(family, **{**sizes, **settings})


def mamba2(**settings):
    sizes = dict(vocab_size=323, hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, state_size=16, n_groups=2,
                 expand=2, bos_token_id=1, eos_token_id=0, pad_token_id=0, tie_word_embeddings=False)
    return transformers.Mamba2ForCausalLM, transformers.Mamba2Config(**{**sizes, **settings})


def nemotron_h(**settings):
    sizes = dict(vocab_size=323, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                 intermediate_size=72, ssm_state_size=6, n_groups=2, mamba_num_heads=8, mamba_head_dim=8, bos_token_id=1,
                 eos_token_id=0, layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"])
    return transformers.NemotronHForCausalLM, transformers.NemotronHConfig(**{**sizes, **settings})


def granite_hybrid(**settings):
    sizes = dict(layer_types=["mamba", "attention"], intermediate_size=24, shared_intermediate_size=40, mamba_n_heads=16,
                 mamba_d_head=8, mamba_d_state=16, mamba_n_groups=2, rms_norm_eps=1e-5, embedding_multiplier=12.0,
                 residual_multiplier=0.22, logits_scaling=6.0, attention_multiplier=0.0625, position_embedding_type="nope")
    return of("GraniteMoeHybrid", **{**WIDTHS, **sizes, **settings})


def image_reader(family, text, **settings):
    """A model that reads images, too, of which mt reads the part for texts; its tower is as small as can be."""
    text = dict(SHAPE, **text)
    text.pop("tie_word_embeddings")
    ends = dict(tie_word_embeddings=False, bos_token_id=1, eos_token_id=0)
    config = getattr(transformers, family + "Config")(text_config=text, **{**ends, **settings})
    return getattr(transformers, family + "ForConditionalGeneration"), config


PATCHES = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
DEPTHS = dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=60)
SIDES = dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 4, 4])
HALF = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)
THREE_OF_FOUR = ["sliding_attention"] * 3 + ["full_attention"]
TEMPERED = dict(rope_type="yarn", rope_theta=10000.0, factor=2.0, original_max_position_embeddings=48, mscale=1.0,
                mscale_all_dim=1.0, beta_fast=4.0, llama_4_scaling_beta=0.1)
LATENTS = dict(q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, num_key_value_heads=3)
WINDOWS = dict(sliding_window=4, layer_types=["sliding_attention", "full_attention"])
CASES = {
    "llama": lambda: llama(),
    "llama-tied": lambda: llama(tie_word_embeddings=True),
    "llama-wide-heads": lambda: llama(head_dim=28),
    "llama-mha": lambda: llama(num_key_value_heads=3),
    "llama-attention-bias": lambda: llama(attention_bias=True),
    "llama-mlp-bias": lambda: llama(mlp_bias=True),
    "llama-both-biases": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama-linear": lambda: llama(rope_scaling=dict(rope_type="linear", factor=4.0)),
    "llama-dynamic": lambda: llama(rope_scaling=dict(rope_type="dynamic", factor=4.0)),
    "llama-yarn": lambda: llama(rope_scaling=dict(rope_type="yarn", factor=4.0)),
    "llama-yarn-factors": lambda: llama(rope_scaling=dict(rope_type="yarn", factor=8.0, beta_fast=4.0, beta_slow=1.5,
                                                         attention_factor=1.3)),
    "llama-longrope": lambda: llama(rope_scaling=dict(rope_type="longrope", factor=2.0, attention_factor=1.1,
                                                     short_factor=[1 + i / 7 for i in range(10)],
                                                     long_factor=[1 + i / 7 for i in range(10)])),
    "llama3": lambda: llama(rope_theta=500000.0, rope_scaling=LLAMA3),
    "llama3-of-few-positions": lambda: llama(rope_scaling={**LLAMA3, "factor": 3.0, "low_freq_factor": 1.5,
                                                           "original_max_position_embeddings": 32}),
    "llama-odd-base": lambda: llama(rope_theta=777.0, rms_norm_eps=1e-3),
    "llama-base-with-a-fraction": lambda: llama(rope_theta=10000.5, rope_scaling=dict(rope_type="yarn", factor=4.0)),
    "mistral": lambda: of("Mistral", sliding_window=None),
    "mistral-window": lambda: of("Mistral", sliding_window=4),
    "qwen2": lambda: of("Qwen2"),
    "qwen2-tied": lambda: of("Qwen2", tie_word_embeddings=True),
    "qwen3": lambda: of("Qwen3", head_dim=24),
    "qwen2-yarn": lambda: of("Qwen2", rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)),
    "qwen3-tied": lambda: of("Qwen3", tie_word_embeddings=True),
    "nemotron": lambda: of("Nemotron"),
    "nemotron-tied": lambda: of("Nemotron", tie_word_embeddings=True),
    "nemotron-quarter": lambda: of("Nemotron", partial_rotary_factor=0.25, head_dim=32, attention_bias=True,
                                   mlp_bias=True),
    "gemma": lambda: of("Gemma", head_dim=26),
    "gemma2": lambda: of("Gemma2", **WINDOWS, head_dim=26, query_pre_attn_scalar=17, attn_logit_softcapping=0.9,
                         final_logit_softcapping=2.5, tie_word_embeddings=True),
    "gemma-tied": lambda: of("Gemma", head_dim=26, tie_word_embeddings=True),
    "gemma2-of-its-width": lambda: of("Gemma2", **WINDOWS, head_dim=26, query_pre_attn_scalar=26, tie_word_embeddings=True),
    "gemma2-without-caps": lambda: of("Gemma2", head_dim=20, attn_logit_softcapping=None, final_logit_softcapping=None),
    "gemma3": lambda: of("Gemma3Text", **WINDOWS, head_dim=26, query_pre_attn_scalar=26, rope_parameters=dict(
        sliding_attention=dict(rope_type="default", rope_theta=100.0),
        full_attention=dict(rope_type="linear", rope_theta=1e6, factor=8.0))),
    "olmo2": lambda: of("Olmo2"),
    "olmo2-mha": lambda: of("Olmo2", num_key_value_heads=3),
    "olmo2-tied": lambda: of("Olmo2", tie_word_embeddings=True),
    "phi3": lambda: of("Phi3", pad_token_id=0),
    "phi3-window": lambda: of("Phi3", pad_token_id=0, num_key_value_heads=3, sliding_window=5),
    "phi4-mini": lambda: of("Phi3", pad_token_id=0, original_max_position_embeddings=48, tie_word_embeddings=True,
                            rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, partial_rotary_factor=0.7,
                                                 short_factor=[1 + i / 7 for i in range(7)],
                                                 long_factor=[1 + i / 5 for i in range(7)],
                                                 original_max_position_embeddings=48)),
    "granite": lambda: of("Granite", embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=6.0,
                          attention_multiplier=0.0625),
    "granite-swa": lambda: of("GraniteSWA", num_hidden_layers=4, embedding_multiplier=12.0, residual_multiplier=0.22,
                              logits_scaling=6.0, attention_multiplier=0.0625, sliding_window=4,
                              layer_rope_theta=[10000.0, 777.0, 0.0, 777.0]),
    "granite-swa-plain": lambda: of("GraniteSWA", num_hidden_layers=5, sliding_window=5, tie_word_embeddings=True),
    "granite-biases": lambda: of("Granite", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "internlm2": lambda: llama(rms_norm_eps=1e-5, rope_theta=1000000.0),
    "minicpm": lambda: of("Granite", embedding_multiplier=12.0, residual_multiplier=1.4 / 2**0.5, logits_scaling=60 / 8,
                          attention_multiplier=20**-0.5, tie_word_embeddings=True),
    "smollm3": lambda: of("SmolLM3", no_rope_layers=[1, 0], pad_token_id=0),
    "smollm3-four": lambda: of("SmolLM3", num_hidden_layers=4, no_rope_layers=[1, 1, 1, 0], pad_token_id=0),
    "smollm3-all-turn": lambda: of("SmolLM3", no_rope_layers=[1, 1], pad_token_id=0),
    "command-r": lambda: of("Cohere", logit_scale=0.3, tie_word_embeddings=True),
    "command-r-plus": lambda: of("Cohere", logit_scale=0.3, use_qk_norm=True, tie_word_embeddings=True),
    "command-r7b": lambda: of("Cohere2", **WINDOWS, logit_scale=0.0625, tie_word_embeddings=True),
    "command-r7b-four": lambda: of("Cohere2", num_hidden_layers=4, sliding_window=4, layer_types=THREE_OF_FOUR, logit_scale=0.0625,
                                   tie_word_embeddings=True),
    "neox": lambda: of("GPTNeoX", hidden_act="gelu_new", rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.3)),
    "pythia": lambda: of("GPTNeoX", rope_parameters=HALF),
    "pythia-tied-in-turn": lambda: of("GPTNeoX", use_parallel_residual=False, tie_word_embeddings=True, rope_parameters=HALF),
    "neox-in-turn": lambda: of("GPTNeoX", use_parallel_residual=False, attention_bias=False, rope_parameters=dict(
        rope_type="linear", factor=2.0, rope_theta=777.0, partial_rotary_factor=0.5)),
    "gptj": lambda: gptj(),
    "falcon": lambda: falcon(),
    "falcon-two-norms": lambda: falcon(new_decoder_architecture=True, num_attention_heads=6, num_kv_heads=3),
    "falcon-groups": lambda: falcon(new_decoder_architecture=True, num_attention_heads=6, num_kv_heads=3, bias=True),
    "falcon-one-norm": lambda: falcon(new_decoder_architecture=True, num_attention_heads=6, num_kv_heads=2,
                                      num_ln_in_parallel_attn=1),
    "falcon-in-turn": lambda: falcon(parallel_attn=False, multi_query=False, bias=True, tie_word_embeddings=False),
    "neo": lambda: neo(),
    "neo-all-see": lambda: neo(attention_types=[[["global"], 2]], activation_function="gelu", tie_word_embeddings=False),
    "neo-windows": lambda: neo(attention_types=[[["local"], 2]], window_size=3),
    "bloom": lambda: bloom(),
    "bloom-of-six": lambda: bloom(n_head=6, tie_word_embeddings=False),
    "mpt": lambda: mpt(),
    "mpt-clipped": lambda: mpt(attn_config=dict(clip_qkv=0.8)),
    "mpt-scaled": lambda: mpt(n_heads=4, attn_config=dict(softmax_scale=0.3), tie_word_embeddings=False),
    "hunyuan": lambda: of("HunYuanDenseV1", head_dim=24),
    "hunyuan-alpha": lambda: of("HunYuanDenseV1", head_dim=24, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="dynamic", rope_theta=10000.0, alpha=50.0, factor=1.0)),
    "codegen": lambda: codegen(),
    "codegen-of-eight": lambda: codegen(n_head=8, rotary_dim=4, tie_word_embeddings=True),
    "bigcode": lambda: bigcode(),
    "bigcode-mha": lambda: bigcode(multi_query=False, activation_function="gelu", tie_word_embeddings=False),
    "biogpt": lambda: of("BioGpt", hidden_dropout_prob=0.0, pad_token_id=0, tie_word_embeddings=True),
    "biogpt-plain": lambda: of("BioGpt", scale_embedding=False, hidden_act="relu", pad_token_id=0),
    "persimmon": lambda: of("Persimmon"),
    "persimmon-without-norms": lambda: of("Persimmon", qk_layernorm=False, rope_parameters=dict(
        rope_type="linear", factor=2.0, rope_theta=777.0, partial_rotary_factor=0.3)),
    "jais2": lambda: of("Jais2", head_dim=22),
    "jais2-mlp-bias": lambda: of("Jais2", attention_bias=False, hidden_act="gelu_new"),
    "jais2-without-biases": lambda: of("Jais2", attention_bias=False, mlp_bias=False),
    "phi2-norms": lambda: of("Phi", qk_layernorm=True, num_key_value_heads=3),
    "phi2": lambda: of("Phi", rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.4)),
    "phi2-tied": lambda: of("Phi", tie_word_embeddings=True),
    "opt": lambda: opt(),
    "opt-without-biases": lambda: opt(enable_bias=False, layer_norm_elementwise_affine=False, activation_function="gelu",
                                      tie_word_embeddings=False),
    "stablelm": lambda: of("StableLm", use_qkv_bias=True, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.3)),
    "stablelm-parallel": lambda: of("StableLm", use_parallel_residual=True, num_key_value_heads=3, rope_parameters=dict(
        rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)),
    "stablelm-norms": lambda: of("StableLm", qk_layernorm=True, use_parallel_residual=True, num_attention_heads=6,
                                 num_key_value_heads=3, rope_parameters=dict(
                                     rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.4)),
    "stablelm-tied": lambda: of("StableLm", tie_word_embeddings=True, rope_parameters=HALF),
    "starcoder2": lambda: of("Starcoder2"),
    "starcoder2-window": lambda: of("Starcoder2", sliding_window=5, tie_word_embeddings=True),
    "starcoder2-without-biases": lambda: of("Starcoder2", use_bias=False),
    "olmo": lambda: of("Olmo"),
    "olmo-clipped": lambda: of("Olmo", clip_qkv=0.8),
    "olmo3": lambda: of("Olmo3", **WINDOWS, rope_scaling=dict(rope_type="yarn", factor=4.0, attention_factor=1.2,
                                                               original_max_position_embeddings=16), rope_theta=500000.0),
    "olmo3-windows": lambda: of("Olmo3", num_hidden_layers=4, sliding_window=4, layer_types=THREE_OF_FOUR,
                                rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
                                rope_theta=500000.0),
    "olmo3-plain-windows": lambda: of("Olmo3", num_hidden_layers=4, sliding_window=4, layer_types=THREE_OF_FOUR),
    "olmo3-base": lambda: of("Olmo3", **WINDOWS, rope_parameters={
        kind: dict(rope_type="default", rope_theta=777.0) for kind in ("sliding_attention", "full_attention")}),
    "vaultgemma": lambda: of("VaultGemma", **WINDOWS, head_dim=26, query_pre_attn_scalar=17, attn_logit_softcapping=0.9,
                             final_logit_softcapping=2.5, pad_token_id=0, tie_word_embeddings=True),
    "exaone": lambda: exaone(),
    "exaone-llama3": lambda: exaone(rope_theta=1000000.0, rope_scaling=LLAMA3, tie_word_embeddings=True),
    "hyperclovax": lambda: of("HyperCLOVAX", embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=0.125,
                              attention_multiplier=0.0625),
    "hyperclovax-plain": lambda: of("HyperCLOVAX", use_post_norm=False, attention_bias=True, mlp_bias=True),
    "cwm": lambda: of("Cwm", head_dim=20, sliding_window=4, layer_types=["full_attention", "sliding_attention"]),
    "cwm-all-see": lambda: of("Cwm", head_dim=20, layer_types=["full_attention"] * 2, rope_parameters=dict(
        rope_type="default", rope_theta=777.0)),
    "exaone4": lambda: of("Exaone4", **WINDOWS),
    "exaone4-windows": lambda: of("Exaone4", num_hidden_layers=64, hidden_size=30, head_dim=10, sliding_window=4, layer_types=THREE_OF_FOUR * 16),
    "exaone4-all-turn": lambda: of("Exaone4", sliding_window=None, tie_word_embeddings=True, layer_types=["full_attention"] * 2),
    "glm": lambda: of("Glm", head_dim=20, pad_token_id=0),
    "glm4": lambda: of("Glm4", head_dim=20, attention_bias=False, pad_token_id=0),
    "ernie4.5": lambda: of("Ernie4_5", head_dim=22, tie_word_embeddings=True),
    "ernie4.5-biases": lambda: of("Ernie4_5", head_dim=22, use_bias=True),
    "seed-oss": lambda: of("SeedOss", head_dim=22),
    "seed-oss-biases": lambda: of("SeedOss", head_dim=22, attention_out_bias=True, mlp_bias=True),
    "seed-oss-mlp-bias": lambda: of("SeedOss", head_dim=22, attention_bias=False, mlp_bias=True),
    "apertus": lambda: of("Apertus", head_dim=22),
    "apertus-tied": lambda: of("Apertus", num_key_value_heads=3, tie_word_embeddings=True, rope_parameters=dict(
        rope_type="default", rope_theta=777.0)),
    "nanochat": lambda: of("NanoChat"),
    "nanochat-uncapped": lambda: of("NanoChat", num_key_value_heads=3, final_logit_softcapping=None, tie_word_embeddings=True,
                                    rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=777.0)),
    "iquestcoder": lambda: iquestcoder(),
    "youtu": lambda: of("Youtu", **LATENTS),
    "youtu-yarn": lambda: of("Youtu", **{**LATENTS, "q_lora_rank": None}, tie_word_embeddings=True, rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=1.3)),
    "arcee": lambda: of("Arcee", head_dim=20),
    "helium": lambda: of("Helium", head_dim=20),
    "ministral": lambda: of("Ministral", head_dim=20, sliding_window=5, layer_types=["sliding_attention"] * 2),
    "ministral3": lambda: of("Ministral3", head_dim=20, rope_parameters=TEMPERED),
    "ministral3-window": lambda: of("Ministral3", head_dim=20, sliding_window=5, tie_word_embeddings=True, rope_parameters=dict(
        TEMPERED, rope_type="default")),
    "dots1": lambda: experts("Dots1", n_routed_experts=8, moe_intermediate_size=40, n_shared_experts=2, norm_topk_prob=True,
                             num_experts_per_tok=4, n_group=4, topk_group=2, first_k_dense_replace=1, routed_scaling_factor=2.5,
                             sliding_window=5, layer_types=["full_attention", "sliding_attention"]),
    "granitemoe": lambda: experts("GraniteMoe", num_local_experts=4, embedding_multiplier=12.0, residual_multiplier=0.22,
                                  logits_scaling=6.0, attention_multiplier=0.0625),
    "dots1-mha": lambda: experts("Dots1", n_routed_experts=4, moe_intermediate_size=40, n_shared_experts=2, norm_topk_prob=True,
                                 n_group=1, topk_group=1, first_k_dense_replace=1, num_key_value_heads=4, sliding_window=None),
    "granitemoe-tied": lambda: experts("GraniteMoe", num_local_experts=4, logits_scaling=6.0, tie_word_embeddings=True),
    "granitemoe-shared": lambda: experts("GraniteMoeShared", num_local_experts=5, shared_intermediate_size=40, embedding_multiplier=12.0,
                                         residual_multiplier=0.22, logits_scaling=6.0, attention_multiplier=0.0625),
    "granitemoe-shared-alone": lambda: experts("GraniteMoeShared", num_local_experts=5, tie_word_embeddings=True),
    "flex-olmo": lambda: experts("FlexOlmo", num_experts=5, pad_token_id=0),
    "flex-olmo-normalized": lambda: experts("FlexOlmo", num_experts=5, norm_topk_prob=True, pad_token_id=0, num_key_value_heads=4,
                                            tie_word_embeddings=True),
    "minimax-m2": lambda: experts("MiniMaxM2", num_local_experts=5, num_experts_per_tok=3, head_dim=20, rotary_dim=12),
    "minimax-m2-all-turn": lambda: experts("MiniMaxM2", num_local_experts=5, head_dim=20, tie_word_embeddings=True),
    "gpt-oss": lambda: experts("GptOss", num_local_experts=4, head_dim=16, sliding_window=4),
    "gpt-oss-plain": lambda: experts("GptOss", num_local_experts=4, head_dim=16, sliding_window=4, rope_parameters=dict(
        rope_type="default", rope_theta=777.0)),
    "mixtral": lambda: experts("Mixtral", num_local_experts=4),
    "mixtral-window": lambda: experts("Mixtral", num_local_experts=3, sliding_window=4),
    "qwen2-moe": lambda: experts("Qwen2Moe", num_experts=4, moe_intermediate_size=40, shared_expert_intermediate_size=48),
    "qwen2-moe-tied": lambda: experts("Qwen2Moe", num_experts=4, moe_intermediate_size=40, shared_expert_intermediate_size=48,
                                      tie_word_embeddings=True),
    "qwen2-moe-normalized": lambda: experts("Qwen2Moe", num_experts=4, moe_intermediate_size=40, norm_topk_prob=True,
                                            shared_expert_intermediate_size=48, decoder_sparse_step=2),
    "qwen3-moe": lambda: experts("Qwen3Moe", num_experts=4, moe_intermediate_size=40, head_dim=20),
    "qwen3-moe-normalized": lambda: experts("Qwen3Moe", num_experts=4, moe_intermediate_size=40, norm_topk_prob=True,
                                            mlp_only_layers=[0]),
    "olmoe": lambda: experts("Olmoe", num_experts=4, num_key_value_heads=4),
    "olmoe-tied": lambda: experts("Olmoe", num_experts=4, num_key_value_heads=4, tie_word_embeddings=True),
    "qwen3-next": lambda: experts("Qwen3Next", num_experts=4, moe_intermediate_size=40, shared_expert_intermediate_size=48,
                                  head_dim=20, rope_parameters=HALF, **RULES),
    "qwen3-next-dense": lambda: experts("Qwen3Next", num_experts=0, head_dim=20, rope_parameters=HALF, **RULES | dict(
        linear_num_value_heads=3, tie_word_embeddings=True)),
    "qwen3.5": lambda: of("Qwen3_5Text", head_dim=20, rope_parameters=HALF, **RULES),
    "glm4-moe": lambda: experts("Glm4Moe", n_routed_experts=4, moe_intermediate_size=40, head_dim=20,
                                first_k_dense_replace=1, n_group=1, topk_group=1, pad_token_id=0),
    "glm4-moe-groups": lambda: experts("Glm4Moe", n_routed_experts=8, moe_intermediate_size=40, head_dim=20, n_group=4,
                                       num_experts_per_tok=4, topk_group=2, first_k_dense_replace=0, use_qk_norm=True,
                                       attention_bias=True, routed_scaling_factor=2.5, pad_token_id=0),
    "glm4-lite": lambda: latent("Glm4MoeLite", n_routed_experts=5, moe_intermediate_size=40, num_experts_per_tok=3),
    "glm4-lite-without-queries": lambda: latent("Glm4MoeLite", q_lora_rank=None, n_routed_experts=8, moe_intermediate_size=40, n_group=4,
                                                topk_group=2, num_experts_per_tok=4, n_shared_experts=2,
                                                mlp_layer_types=["sparse", "sparse"], tie_word_embeddings=True),
    "deepseek-v3": lambda: latent("DeepseekV3", n_routed_experts=5, moe_intermediate_size=40, num_experts_per_tok=3, n_group=1,
                                  topk_group=1, first_k_dense_replace=1),
    "solar-open": lambda: experts("SolarOpen", n_routed_experts=8, moe_intermediate_size=40, head_dim=20, n_group=4, topk_group=2,
                                  num_experts_per_tok=4, n_shared_experts=2, attention_bias=True, routed_scaling_factor=2.5),
    "solar-open-tied": lambda: experts("SolarOpen", n_routed_experts=5, moe_intermediate_size=40, head_dim=20, num_experts_per_tok=3,
                                       tie_word_embeddings=True),
    "exaone-moe": lambda: experts("ExaoneMoe", **WINDOWS, num_experts=5, num_experts_per_tok=3, moe_intermediate_size=40, head_dim=20,
                                  num_shared_experts=2, pad_token_id=0),
    "exaone-moe-all-sparse": lambda: experts("ExaoneMoe", num_experts=5, moe_intermediate_size=40, num_key_value_heads=4,
                                             mlp_layer_types=["sparse"] * 2, layer_types=["full_attention"] * 2, tie_word_embeddings=True),
    "hy3": lambda: experts("HYV3", num_experts=5, num_experts_per_tok=3, moe_intermediate_size=40, head_dim=20, num_shared_experts=2),
    "hy3-all-sparse": lambda: experts("HYV3", num_experts=5, moe_intermediate_size=40, head_dim=20, mlp_layer_types=["sparse"] * 2,
                                      router_scaling_factor=1.0, tie_word_embeddings=True),
    "hunyuan-moe": lambda: experts("HunYuanMoEV1", num_experts=5, moe_topk=3, num_experts_per_tok=3, head_dim=24, pad_token_id=0),
    "hunyuan-moe-alpha": lambda: experts("HunYuanMoEV1", num_experts=5, moe_topk=[2, 2], num_experts_per_tok=[2, 2], head_dim=24, pad_token_id=0,
                                         tie_word_embeddings=True, rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0,
                                                                                        alpha=50.0, factor=1.0)),
    "mamba2": lambda: mamba2(),
    "mamba2-tied": lambda: mamba2(tie_word_embeddings=True, n_groups=1, state_size=7),
    "bamba": lambda: of("Bamba", **WIDTHS, mamba_n_heads=16, mamba_d_head=8, mamba_d_state=16, mamba_n_groups=2,
                             attn_layer_indices=[1], pad_token_id=0),
    "nemotron-h": lambda: nemotron_h(),
    "nemotron-h-wide": lambda: nemotron_h(mamba_num_heads=10),
    "nemotron-h-experts": lambda: nemotron_h(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24,
                                             moe_shared_expert_intermediate_size=40, n_group=1, topk_group=1, layers_block_type=[
                                                 "linear_attention", "moe", "full_attention", "linear_attention", "moe"]),
    "granite-hybrid": lambda: granite_hybrid(num_local_experts=4, num_experts_per_tok=2),
    "granite-hybrid-dense": lambda: granite_hybrid(num_local_experts=0, position_embedding_type="rope"),
    "images-gemma3": lambda: image_reader("Gemma3", dict(WINDOWS, head_dim=26, query_pre_attn_scalar=104),
                                          vision_config=dict(PATCHES, model_type="siglip_vision_model"), mm_tokens_per_image=1,
                                          tie_word_embeddings=True),
    "images-ministral3": lambda: image_reader("Mistral3", dict(model_type="ministral3", head_dim=20, rope_parameters=TEMPERED),
                                              vision_config=dict(PATCHES, model_type="pixtral", head_dim=8)),
    "images-mistral3": lambda: image_reader("Mistral3", dict(model_type="mistral", head_dim=20, sliding_window=None),
                                            vision_config=dict(PATCHES, model_type="pixtral", head_dim=8)),
    "images-qwen2-vl": lambda: image_reader("Qwen2VL", dict(rope_parameters=SIDES), vision_config=dict(
        depth=1, embed_dim=16, num_heads=2, hidden_size=60)),
    "images-qwen2.5-vl": lambda: image_reader("Qwen2_5_VL", dict(rope_parameters=SIDES), vision_config=DEPTHS),
    "images-qwen3-vl": lambda: image_reader("Qwen3VL", dict(head_dim=20, rope_parameters={**SIDES, "mrope_interleaved": True}),
                                            vision_config=dict(DEPTHS, num_position_embeddings=16, deepstack_visual_indexes=[0])),
    "images-qwen3-vl-moe": lambda: image_reader("Qwen3VLMoe", dict(
        WIDTHS, head_dim=20, intermediate_size=96, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=40, mlp_only_layers=[0],
        rope_parameters={**SIDES, "mrope_interleaved": True}), vision_config=dict(
            DEPTHS, out_hidden_size=64, num_position_embeddings=16, deepstack_visual_indexes=[0])),
    "images-qwen3-vl-moe-as-it-computes": lambda: CASES["images-qwen3-vl-moe"](),
    "images-glm4v-moe": lambda: image_reader("Glm4vMoe", dict(
        WIDTHS, head_dim=20, intermediate_size=96, n_routed_experts=5, num_experts_per_tok=3, moe_intermediate_size=40, attention_bias=True,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5, mrope_section=[1, 2, 2])),
        vision_config=dict(DEPTHS, out_hidden_size=64, image_size=28, patch_size=14)),
    "images-qwen3.5": lambda: image_reader("Qwen3_5", dict(head_dim=20, **RULES, rope_parameters={
        **SIDES, "mrope_interleaved": True, "partial_rotary_factor": 0.5}), vision_config=dict(DEPTHS, num_position_embeddings=16)),
    "gpt2": lambda: gpt2(),
    "llama-scaled-by-hand": lambda: llama(),
    "llama-beside-an-index": lambda: llama(),
    "gpt2-other-names": lambda: gpt2(),
    "gpt2-untied": lambda: gpt2(tie_word_embeddings=False),
    "gpt2-erf": lambda: gpt2(activation_function="gelu"),
    "gpt2-fast": lambda: gpt2(activation_function="gelu_fast", n_inner=50),
}


def change_config(folder, change):
    path = pathlib.Path(folder) / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def scale_by_hand(folder):
    """As a model's card says: beside what transformers 5 has saved."""
    change_config(folder, lambda config: config.update(rope_scaling={"type": "linear", "factor": 4.0}))


def call_as_others(folder):
    names = dict(n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers")
    change_config(folder, lambda config: config.update({new: config.pop(old) for old, new in names.items()}))


def leave_an_index(folder):
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"lm_head.weight": "gone.safetensors"}}')


def turn_experts(folder):
    """Experts lie as the class computes with them, and not as they were published."""
    def change(tensors):
        for name in tensors:
            if ".experts." in name:
                tensors[name] = tensors[name].transpose(1, 2).contiguous()

    rename(folder, change)


# What people do to a folder once it is saved.
CHANGES = {"images-qwen3-vl-moe-as-it-computes": turn_experts, "llama-scaled-by-hand": scale_by_hand, "gpt2-other-names": call_as_others,
           "llama-beside-an-index": leave_an_index}


def rename(folder, change):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def as_internlm2(folder):
    """Each key's queries lie in front of it, and its value behind it."""
    words = {"self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3",
             "mlp.down_proj": "feed_forward.w2", "input_layernorm": "attention_norm",
             "post_attention_layernorm": "ffn_norm", "embed_tokens": "tok_embeddings", "lm_head": "output"}
    heads, groups = SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]

    def change(tensors):
        for layer in range(SHAPE["num_hidden_layers"]):
            begin = f"model.layers.{layer}."
            q, k, v = (tensors.pop(f"{begin}self_attn.{kind}_proj.weight") for kind in "qkv")
            parts = [t.reshape(groups, -1, q.shape[0] // heads, q.shape[1]) for t in (q, k, v)]
            tensors[begin + "attention.wqkv.weight"] = torch.cat(parts, 1).reshape(-1, q.shape[1]).contiguous()
        for name in list(tensors):
            new = name
            for theirs, own in words.items():
                new = new.replace(theirs, own)
            tensors[new] = tensors.pop(name)

    rename(folder, change)
    change_config(folder, lambda config: config.update(model_type="internlm2", architectures=["InternLM2ForCausalLM"],
                                                       bias=False))


def as_minicpm(folder):
    def change(config):
        for name in ("embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier"):
            config.pop(name)
        config.update(model_type="minicpm", architectures=["MiniCPMForCausalLM"], scale_emb=12, scale_depth=1.4,
                      dim_model_base=8)

    change_config(folder, change)


# In the form of their makers, of which transformers has no class: what they compute another class of it does.
MAKERS = {"internlm2": as_internlm2, "minicpm": as_minicpm}


def make_tokenizer(folder, bos):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    special = ["<end>", "<begin>", "<turn>"]
    t.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=WORDS, show_progress=False, special_tokens=special,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if bos:
        t.post_processor = processors.TemplateProcessing(single="<begin> $A", pair="<begin> $A $B",
                                                         special_tokens=[("<begin>", t.token_to_id("<begin>"))])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<end>", bos_token="<begin>")
    fast.model_max_length = 64
    fast.save_pretrained(folder)
    return fast


def make_model(case, folder, dtype):
    torch.manual_seed(0)
    kind, config = CASES[case]()
    model = kind(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            near_one = ("norm" in name or "ln_" in name) and name.endswith("weight")
            if case.startswith(("qwen3-next", "qwen3.5", "images-qwen3.5")) and "linear_attn" not in name:
                near_one = False  # the class adds 1
            p.copy_(torch.randn_like(p) * 0.2 + near_one)
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.copy_(torch.randn_like(b) * 0.2)
    model = model.to(dtype).eval()
    model.config.torch_dtype = dtype
    model.save_pretrained(folder, max_shard_size="60KB" if case == "llama" else "5GB")
    if case in CHANGES:
        CHANGES[case](folder)
    model = kind.from_pretrained(folder, torch_dtype=torch.float32).eval()
    if case in MAKERS:
        MAKERS[case](folder)
    return model


class Broken(Exception):
    """A program was ended by a signal, or by a fault that it calls its own."""


class Programs:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()

    def __call__(self, program, *words):
        done = subprocess.run([str(self.folder / program), *map(str, words)], capture_output=True, text=True)
        if done.returncode:
            refuses = 0 < done.returncode != 70
            raise (RuntimeError if refuses else Broken)(f"{program}: {done.returncode}: {done.stderr.strip()[-600:]}")
        return done.stdout


def log_probs(model, ids):
    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0][:, :WORDS].double(), -1)


def greedy(model, ids, count, ends):
    made = []
    while len(made) < count:
        token = int(log_probs(model, ids + made)[-1].argmax())
        if token in ends:
            break
        made.append(token)
    return made


def generated(mt, folder, count):
    line = mt("mt-generate", "--load", folder, "--dtype", "fp32", "--json", "--num-tokens", count, "--temperature", 0,
              "--logprobs", WORDS, PROMPT)
    return json.loads(line)


def compare_forward(mt, model, tokenizer, folder):
    """Largest difference of log-probabilities, tokens that differ, and difference of nats."""
    ids = tokenizer(PROMPT).input_ids
    expected = log_probs(model, ids)[-1]
    result = generated(mt, folder, 20)
    first = next(iter(result["logprobs"]), None)
    logits = max(abs(t["logprob"] - expected[t["id"]].item()) for t in first["top_logprobs"]) if first else 0.0
    wanted = greedy(model, ids, 20, [0])
    tokens = sum(a != b for a, b in zip(result["token_ids"], wanted)) + abs(len(result["token_ids"]) - len(wanted))
    (pathlib.Path(folder).parent / "text").write_text(TEXT)
    nats = json.loads(mt("mt-eval", "--load", folder, "--dtype", "fp32", "--json",
                         pathlib.Path(folder).parent / "text").splitlines()[0])
    ids = tokenizer(TEXT).input_ids
    if ids[0] != tokenizer.bos_token_id:
        ids = [tokenizer.eos_token_id] + ids
    p = log_probs(model, ids)
    nll = -sum(p[i][ids[i + 1]].item() for i in range(len(ids) - 1))
    return logits, tokens, abs(nats["nll"] - nll) / nll


def compare_gguf(mt, model, tokenizer, folder, place):
    """Largest difference of log-probabilities from mt's GGUF file and from the folder made of it; None: there is none."""
    try:
        mt("mt-convert", "--saver", "gguf", "--dtype", "fp32", folder, place / "gguf")
    except RuntimeError as error:
        if "llama.cpp" in str(error):
            return None
        raise
    ids = tokenizer(PROMPT).input_ids
    expected = log_probs(model, ids)
    try:
        first = next(iter(generated(mt, place / "gguf", 1)["logprobs"]), None)
    except RuntimeError as error:
        if "the model takes at most" in str(error):
            return None
        raise
    worst = max(abs(t["logprob"] - expected[-1][t["id"]].item()) for t in first["top_logprobs"]) if first else 0.0
    mt("mt-convert", "--saver", "hf", place / "gguf", place / "of-gguf")
    again = transformers.AutoModelForCausalLM.from_pretrained(place / "of-gguf", torch_dtype=torch.float32).eval()
    return max(worst, (log_probs(again, ids) - expected).abs().max().item())


def compare_again(mt, model, tokenizer, folder, place):
    """HF -> mt -> a step of rate 0 -> HF: largest difference of logits, and whether the ends are the same."""
    mt("mt-convert", folder, place / "core")
    with open(place / "corpus.jsonl", "w") as f:
        f.writelines(json.dumps({"text": line}) + "\n" for line in LINES)
    mt("mt-preprocess", "--input", place / "corpus.jsonl", "--output-prefix", place / "data", "--append-eod",
       "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", folder)
    has_biases = any(name.endswith("e_score_correction_bias") for name, _ in model.named_buffers())
    still = ["--moe-router-bias-update-rate", 0] if has_biases else []
    mt("mt-pretrain", "--use-checkpoint-args", "--seq-length", 64, "--micro-batch-size", 1, "--train-iters", 1,
       "--lr", 1e-30, "--weight-decay", 0, *still, "--attention-dropout", 0, "--hidden-dropout", 0, "--split", "1,0,0", "--eval-iters", 0,
       "--data-path", place / "data_text_document", "--load", place / "core", "--finetune", "--save", place / "trained")
    mt("mt-convert", "--saver", "hf", place / "trained", place / "back")
    if json.loads((folder / "config.json").read_text())["model_type"] in MAKERS:
        before, after = (safetensors.torch.load_file(place / part / "model.safetensors") for part in ("model", "back"))
        if before.keys() != after.keys():
            return float("inf"), False
        return max((before[name] - after[name]).abs().max().item() for name in before), True
    again = transformers.AutoModelForCausalLM.from_pretrained(place / "back", torch_dtype=torch.float32).eval()
    same = transformers.AutoTokenizer.from_pretrained(place / "back")
    ids = tokenizer(PROMPT).input_ids
    if same(PROMPT).input_ids != ids:
        return float("inf"), False
    ends = again.generation_config.eos_token_id == model.generation_config.eos_token_id
    rows = again.get_input_embeddings().weight.shape == model.get_input_embeddings().weight.shape
    return (log_probs(again, ids) - log_probs(model, ids)).abs().max().item(), ends and rows


def version():
    return transformers.__version__


def compare(programs, only=""):
    """Of each whose name has `only` in it: name, differences, whether all is well."""
    mt = Programs(programs)
    for name in CASES:
        # An older PyTorch has not Nemotron's norm, an older transformers no Qwen 3 and none of these names.
        absent = (name.startswith("nemotron") and torch.__version__ < "2") or (
            name.startswith("qwen3") and not hasattr(transformers, "Qwen3Config")) or (
            name.startswith(LATER) and transformers.__version__ < "5")
        if only not in name or absent:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            place = pathlib.Path(scratch)
            folder = place / "model"
            dtype = torch.bfloat16 if name in ("llama-tied", "qwen2") else torch.float32
            model = make_model(name, folder, dtype)
            tokenizer = make_tokenizer(folder, bos=not name.startswith("gpt2"))
            try:
                logits, tokens, nats = compare_forward(mt, model, tokenizer, folder)
                gguf = compare_gguf(mt, model, tokenizer, folder, place)
                again, ends = compare_again(mt, model, tokenizer, folder, place)
            except Exception as error:  # a program's or a library's
                yield name, str(error), False
                continue
            fine = logits < 1e-5 and tokens == 0 and nats < 1e-6 and (gguf or 0) < 1e-5 and again < 1e-5 and ends
            file = "none" if gguf is None else f"{gguf:.1e}"
            yield name, f"logits {logits:.1e}  greedy {tokens}  nats {nats:.1e}  gguf {file}  again {again:.1e}  ends {ends}", fine
