// What llama.cpp knows of models of experts: Mixtral, which it calls a llama, Qwen2-MoE,
// Qwen3-MoE and OLMoE.  A tensor has all experts of a layer.  Which softmax weighs them is written
// into its code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "ckpt/gguf.h"
#include "formats/names/gguf.h"

namespace mt {

struct ModelConfig;

// Exit::bad_config names what llama.cpp computes otherwise.
void check_gguf_experts(const ModelConfig& config, const GgufArchitecture& architecture);

void add_gguf_experts(GgufKeyValues& to, const ModelConfig& config,
                      const GgufArchitecture& architecture);

// The reverse: members of its config.json.
void read_gguf_experts(JsonWriter& json, const GgufReader& file,
                       const GgufArchitecture& architecture);

// Tensors that are float32 whatever the others are: routers, and gates of shared experts.
bool is_gguf_router(std::string_view tensor);

// The tensors of a row of experts, behind the layer's prefix; none: it is not one.
std::vector<ForeignName> gguf_expert_tensors(const ModelConfig& config, const Param& row,
                                             const std::string& layer);

}  // namespace mt
