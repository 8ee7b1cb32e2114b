// What llama.cpp knows of models of experts, whose layers have a tensor of all: Mixtral, which it
// calls a llama, Qwen2-MoE, Qwen3-MoE, OLMoE, gpt-oss and Granite's MoE, of which it is written
// into its code which softmax weighs them; GLM-4.5 and dots.llm1, whose experts sigmoids with
// biases choose; and deepseek2, of which each file says how.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_settings.h"
#include "formats/names/gguf.h"

namespace mt {

struct ModelConfig;

// Exit::bad_config names what llama.cpp computes otherwise.
void check_gguf_experts(const ModelConfig& config, const GgufArchitecture& architecture);

void add_gguf_experts(GgufSettingsWriter& to, const ModelConfig& config,
                      const GgufArchitecture& architecture);

// The reverse: members of its config.json.
void read_gguf_experts(JsonWriter& json, const GgufSettings& file,
                       const GgufArchitecture& architecture);

// What files of GLM-4.5, dots.llm1 and deepseek2 say, and its reverse.
void add_told_experts(GgufSettingsWriter& to, const ModelConfig& config);
void read_told_experts(JsonWriter& json, const GgufSettings& file);
// Whether sigmoids choose the experts of such a file.
bool has_sigmoids(const GgufSettings& file, bool usual);

// Tensors that are float32 whatever the others are: routers, gates of shared experts, biases, and
// what mixers have beside their two matrices.
bool is_gguf_float32(std::string_view tensor);

// The tensors of a row of experts, behind the layer's prefix; none: it is not one.
std::vector<ForeignName> gguf_expert_tensors(const ModelConfig& config, const Param& row,
                                             const std::string& layer);

}  // namespace mt
