// What config.json says of decoders with LayerNorms that are no Llamas: GPT-NeoX (Pythia), GPT-J,
// CodeGen, GPT-Neo, BLOOM, MPT, Falcon, Phi-1 and Phi-2, OPT, BioGPT, StableLM, StarCoder and
// StarCoder2, Persimmon, Jais 2 and the first OLMo.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/json_object.h"
#include "formats/hugging_face/config_json.h"
#include "formats/hugging_face/hugging_face_config.h"

namespace mt {

// Whether the type is one of these families'; each is a model's hf_model_type.
bool is_layer_norm_family(std::string_view type);
// The class of such a type.
std::string_view layer_norm_architecture(std::string_view type);
// What it calls its norms' epsilon; null where it is none of these, or has one that it does not
// say.
const char* layer_norm_epsilon_name(std::string_view type);
// All their types, with commas between them.
std::string layer_norm_types();

void read_layer_norm_family(const ConfigJson& json, HuggingFaceConfig& config);
// How often embeddings are dropped, which is no setting of ours, is as an original says it; null:
// there is none.
void write_layer_norm_family(JsonWriter& json, const ModelConfig& model, std::string_view type,
                             const JsonObject* original);

}  // namespace mt
