// What configs of several families with Mamba layers have in common.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"

namespace mt {

struct ModelConfig;

// What transformers calls a model with Mamba layers (model_type).
std::string_view mamba_type(const ModelConfig& model);

// The letters of layers that layers_block_type, or layer_types, lists; none where neither is there.
std::optional<std::string> read_layer_kinds(const ConfigJson& json);

// The mixers and norms of a Bamba and a Granite, as mamba_n_heads and others say it, with the
// heads and states of their class.
void read_mamba_mixers(const ConfigJson& json, ModelConfig& model, std::int64_t heads,
                       std::int64_t states);
void write_mamba_mixers(JsonWriter& json, const ModelConfig& model);
// Exit::bad_config where attention or mixers are otherwise than these two have them.
void check_mamba_decoder(const ModelConfig& model);

void check_granite_hybrid(const ModelConfig& model);

}  // namespace mt
