// AttentionConfig: heads, which tokens they see, and what becomes of their scores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mt {

struct AttentionConfig {
  std::int64_t num_attention_heads = 0;
  std::optional<std::int64_t> kv_channels;  // by default hidden size / heads
  bool group_query_attention = false;
  std::int64_t num_query_groups = 1;  // counts only under group_query_attention
  bool add_qkv_bias = false;
  bool attention_bias = true;  // where linear layers have biases, those of attention have, too
  bool qkv_bias = true;        // of these that of queries, keys and values has one
  std::string window_size;     // "A,B": tokens before and after itself that a token sees; A -1: all
  std::vector<std::int64_t> window_attn_skip_freq;  // see window()
  std::optional<double> softmax_scale;  // of products of queries and keys; by default 1 / sqrt(d)
  double attn_logit_softcapping = 0;    // C: scores s become C tanh(s / C); 0: they stay
  double clip_qkv = 0;  // C: queries, keys and values lie between -C and C; 0: they stay
  bool attention_output_gate = false;  // what a head makes is multiplied by sigmoids of the token
  // Whether a head sees a score that is no key's: vanilla, none; off-by-one, 0; learnable, its own.
  std::string softmax_type = "vanilla";

  void check(std::int64_t layers) const;

  std::int64_t kv_heads() const {
    return group_query_attention ? num_query_groups : num_attention_heads;
  }
  bool has_sinks() const { return softmax_type != "vanilla"; }
  std::int64_t tokens_before() const;  // A of window_size; -1 without one
  // tokens_before() for the layers, from 0, that have a window, else -1.
  std::int64_t window(std::int64_t layer) const;
};

}  // namespace mt
