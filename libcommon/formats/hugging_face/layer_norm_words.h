// What each family of layer_norm_families.h has beside what all have, and how it says that.
#pragma once

#include "base/json.h"
#include "formats/hugging_face/config_json.h"

namespace mt {

struct ModelConfig;

struct OwnWords {
  void (*read)(const ConfigJson&, ModelConfig&);
  void (*write)(JsonWriter&, const ModelConfig&);
};

void read_neox(const ConfigJson& json, ModelConfig& model);
void write_neox(JsonWriter& json, const ModelConfig& model);
void read_gptj(const ConfigJson& json, ModelConfig& model);
void write_gptj(JsonWriter& json, const ModelConfig& model);
void read_gpt_neo(const ConfigJson& json, ModelConfig& model);
void write_gpt_neo(JsonWriter& json, const ModelConfig& model);
void read_bloom(const ConfigJson& json, ModelConfig& model);
void write_bloom(JsonWriter& json, const ModelConfig& model);
void read_mpt(const ConfigJson& json, ModelConfig& model);
void write_mpt(JsonWriter& json, const ModelConfig& model);
void read_codegen(const ConfigJson& json, ModelConfig& model);
void read_gpt_bigcode(const ConfigJson& json, ModelConfig& model);
void write_gpt_bigcode(JsonWriter& json, const ModelConfig& model);
void read_falcon(const ConfigJson& json, ModelConfig& model);
void write_falcon(JsonWriter& json, const ModelConfig& model);
void read_phi(const ConfigJson& json, ModelConfig& model);
void write_qk_layernorm(JsonWriter& json, const ModelConfig& model);
void read_persimmon(const ConfigJson& json, ModelConfig& model);
void read_jais2(const ConfigJson& json, ModelConfig& model);
void write_jais2(JsonWriter& json, const ModelConfig& model);
void read_opt(const ConfigJson& json, ModelConfig& model);
void write_opt(JsonWriter& json, const ModelConfig& model);
void read_biogpt(const ConfigJson& json, ModelConfig& model);
void write_biogpt(JsonWriter& json, const ModelConfig& model);
void read_stablelm(const ConfigJson& json, ModelConfig& model);
void write_stablelm(JsonWriter& json, const ModelConfig& model);
void read_starcoder2(const ConfigJson& json, ModelConfig& model);
void write_starcoder2(JsonWriter& json, const ModelConfig& model);
void read_olmo(const ConfigJson& json, ModelConfig& model);
void write_olmo(JsonWriter& json, const ModelConfig& model);

}  // namespace mt
