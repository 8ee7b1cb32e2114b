// AdapterConfig: the low-rank adapters that a model learns while its own weights are frozen, in
// PEFT's words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct AdapterConfig {
  std::int64_t lora_rank = 0;  // 0: there are none
  double lora_alpha = 32, lora_dropout = 0;
  bool use_rslora = false, use_dora = false;
  // What has one: modules of every layer, or parts of them, as in
  // "self_attention.linear_qkv.q,mlp.linear_fc2"; formats/peft/linear_modules.h makes them.
  std::string lora_targets;
  // What the model's own weights of linear layers are held in: nf4 (nn/packed_weight.h), or as the
  // others.
  std::string quantize_base;
  // The path of the model whose weights are frozen, and the hash of some of them.
  std::string lora_base, lora_base_hash;

  bool has_adapters() const { return lora_rank > 0; }
  double lora_scale() const;                 // alpha / rank, or, of rsLoRA, alpha / sqrt(rank)
  std::vector<std::string> targets() const;  // each of lora_targets
  // The parts of a layer's module that have adapters; "" is all of it.
  std::vector<std::string> adapted_parts(std::string_view module) const;
};

}  // namespace mt
