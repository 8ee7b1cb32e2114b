// What llama.cpp knows of latent attention and of the experts behind it, as deepseek2: DeepSeek-V2
// and V3, and Kimi K2.  Of linear_kv_up_proj there are two tensors, each of all heads: attn_k_b,
// with the rows that make a head's keys transposed, by which queries are multiplied, and attn_v_b,
// with those that make its values.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "formats/gguf/gguf_settings.h"
#include "formats/names/gguf.h"

namespace mt {

struct ModelConfig;

// Exit::bad_config names what llama.cpp computes otherwise.
void check_gguf_latent(const ModelConfig& config);

// Beside what every model has.
void add_gguf_latent(GgufSettingsWriter& to, const ModelConfig& config);

// The reverse: "deepseek_v2" or "deepseek_v3", by how experts are weighed, and the members of its
// config.json.
std::string gguf_latent_type(const GgufReader& file);
void read_gguf_latent(JsonWriter& json, const GgufReader& file);

// The tensors of a row of latent attention, behind the layer's prefix; none: it is not one.
std::vector<ForeignName> gguf_latent_tensors(const ModelConfig& config, const Param& row,
                                             const std::string& layer);

}  // namespace mt
