// GptConfig: the shape and the mathematics of a GPT, in Megatron's words and with its defaults.
// GPT-2 is the default kind; `--position-embedding-type rope --normalization RMSNorm --swiglu
// --disable-bias-linear --untie-embeddings-and-output-weights` makes a Llama.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/command.h"
#include "model/config/recompute.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace mt {

struct GptConfig {
  std::int64_t num_layers = 0, hidden_size = 0, num_attention_heads = 0;
  std::optional<std::int64_t> ffn_hidden_size,
      kv_channels;  // derived if not given: ffn(), head_dim()
  bool group_query_attention = false;
  std::int64_t num_query_groups = 1;  // counts only under group_query_attention
  std::int64_t max_position_embeddings = 0;
  std::string position_embedding_type = "learned_absolute";  // or rope, none
  bool use_rotary_position_embeddings = false;               // another word for rope
  bool position_embedding = true;  // --no-position-embedding: see complete()
  std::int64_t rotary_base = 10000;
  double rotary_percent = 1;
  bool rotary_interleaved = false;
  std::optional<double> rotary_interpolation;  // positions are divided by this
  bool use_rope_scaling = false;               // Llama 3.1's
  double rope_scaling_factor = 8;
  std::string window_size;  // "A,B": tokens before and after itself that a token sees; A -1: all
  std::vector<std::int64_t> window_attn_skip_freq;  // see window()
  std::string normalization = "LayerNorm";          // or RMSNorm
  double norm_epsilon = 1e-5;
  bool apply_layernorm_1p = false, qk_layernorm = false;
  bool swiglu = false, squared_relu = false;
  bool bias_gelu_fusion =
      true;  // only chooses the GeLU's form: tanh if on and there are biases, else erf
  bool add_bias_linear = true, add_qkv_bias = false;
  bool untie_embeddings_and_output_weights = false;
  double attention_dropout = 0.1, hidden_dropout = 0.1;
  double label_smoothing = 0;
  double init_method_std = 0.02;
  bool init_method_xavier_uniform = false;
  std::int64_t make_vocab_size_divisible_by = 128;
  std::int64_t vocab_size = 0;         // the tokenizer's
  std::int64_t padded_vocab_size = 0;  // 0: derived by complete()
  RecomputeOptions recompute;

  void add_to(CommandLine& cl);  // the flags of training.md 1.1 that are supported
  void add_positions(CommandLine& cl);
  // Checks what must fit together, naming the option that is wrong, and derives the padded
  // vocabulary, of a model whose matrices so many ranks share.
  void complete(int tensor_ranks = 1);

  std::int64_t ffn() const;       // f: 4 h, or int(4 h 2/3 / 64) 64 with SwiGLU
  std::int64_t head_dim() const;  // d: h / n
  std::int64_t kv_heads() const {
    return group_query_attention ? num_query_groups : num_attention_heads;
  }
  std::int64_t rotary_dim() const;  // channels of a head that are rotated; 0 without rope
  // By how much a pair of channels turns from a position to the next: rotary_dim() / 2 of them.
  std::vector<double> rotary_frequencies() const;
  // A of window_size for the layers, from 0, that have a window, else -1.
  std::int64_t window(std::int64_t layer) const;
  bool has_qkv_bias() const { return add_bias_linear || add_qkv_bias; }
  Activation activation() const;
  NormKind norm_kind() const {
    return normalization == "RMSNorm" ? NormKind::rms : NormKind::layer;
  }

  // Model FLOPs of a step over `sequences` of `seq_length` tokens (spec: Megatron's formula; causal
  // attention counted half, the LM head counted, the embedding not).
  double flops(std::int64_t sequences, std::int64_t seq_length) const;
};

}  // namespace mt
