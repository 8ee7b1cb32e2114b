// What llama.cpp knows of models of experts: Mixtral, which it calls a llama, Qwen2-MoE and
// Qwen3-MoE.  A tensor has all experts of a layer.  Which softmax weighs them is written into its
// code.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "ckpt/gguf.h"
#include "formats/names/foreign_name.h"

namespace mt {

struct ModelConfig;

// llama.cpp's name of such a model_type; null: it is none.
const char* gguf_architecture_of_experts(std::string_view model_type);
// Exit::bad_config names what llama.cpp computes otherwise.
void check_gguf_experts(const ModelConfig& config, std::string_view architecture);

void add_gguf_experts(GgufKeyValues& to, const ModelConfig& config,
                      const std::string& architecture);

// The reverse: its model_type, if a file is of experts; and members of its config.json.
std::optional<std::string_view> model_type_of_experts(const GgufReader& file,
                                                      const std::string& architecture);
void read_gguf_experts(JsonWriter& json, const GgufReader& file, const std::string& architecture);

// Tensors that are float32 whatever the others are: routers, and gates of shared experts.
bool is_gguf_router(std::string_view tensor);

// The tensors of a row of experts, behind the layer's prefix; none: it is not one.
std::vector<ForeignName> gguf_expert_tensors(const ModelConfig& config, const Param& row,
                                             const std::string& layer);

}  // namespace mt
