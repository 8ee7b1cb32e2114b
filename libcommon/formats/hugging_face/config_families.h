// What config.json says of each model_type: how it is read into settings of ours, and written from
// them.  A decoder that is a Llama but for some settings is a row of decoder_families.cpp; a model
// with words of its own is a line below, with functions in a file of its family.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "formats/hugging_face/config_json.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "formats/hugging_face/rope_config.h"

namespace mt {

// Throws Exit::bad_config: transformers has no model with such settings.
[[noreturn]] void refuse_setting(const char* what);

// --- Models with words of their own -------------------------------------------------------------

void read_gpt2(const ConfigJson& json, HuggingFaceConfig& config);
void read_bert(const ConfigJson& json, HuggingFaceConfig& config);
void read_mamba2(const ConfigJson& json, HuggingFaceConfig& config);
void read_nemotron_h(const ConfigJson& json, HuggingFaceConfig& config);
void read_bamba(const ConfigJson& json, HuggingFaceConfig& config);
void read_granite_hybrid(const ConfigJson& json, HuggingFaceConfig& config);
void read_t5(const ConfigJson& json, HuggingFaceConfig& config);
void read_vit(const ConfigJson& json, HuggingFaceConfig& config);
void read_tower(const ConfigJson& json, HuggingFaceConfig& config);
void read_internvit(const ConfigJson& json, HuggingFaceConfig& config);
void read_radio(const ConfigJson& json, HuggingFaceConfig& config);
void read_llava(const ConfigJson& json, HuggingFaceConfig& config);
void read_internvl(const ConfigJson& json, HuggingFaceConfig& config);

void write_gpt2(JsonWriter& json, const ModelConfig& model);
void write_bert(JsonWriter& json, const ModelConfig& model);
void write_mamba2(JsonWriter& json, const ModelConfig& model);
void write_nemotron_h(JsonWriter& json, const ModelConfig& model);
void write_bamba(JsonWriter& json, const ModelConfig& model);
void write_granite_hybrid(JsonWriter& json, const ModelConfig& model);
void write_t5(JsonWriter& json, const ModelConfig& model);
void write_vit(JsonWriter& json, const ModelConfig& model);
void write_tower(JsonWriter& json, const ModelConfig& model);
void write_internvit(JsonWriter& json, const ModelConfig& model);
void write_radio(JsonWriter& json, const ModelConfig& model);
void write_llava(JsonWriter& json, const ModelConfig& model);     // but for its parts
void write_internvl(JsonWriter& json, const ModelConfig& model);  // likewise

// We drop embeddings as often as what is added to them.  Of a class that drops them at another
// rate, `embeddings`, a note says so, and what it calls its rate is as an original says it; null:
// there is none.
void note_embedding_dropout(const ConfigJson& json, const char* hidden_dropout, double embeddings,
                            HuggingFaceConfig& config);
void write_embedding_dropout(JsonWriter& json, const ModelConfig& model, const char* name,
                             const JsonObject* original, double usual);

inline constexpr double kGpt2Dropout = 0.1;  // where its config.json says none

struct ConfigFamily {
  std::string_view type, architecture;
  void (*read)(const ConfigJson&, HuggingFaceConfig&);
  void (*write)(JsonWriter&, const ModelConfig&);
};
inline constexpr ConfigFamily kConfigFamilies[] = {
    {"gpt2", "GPT2LMHeadModel", read_gpt2, write_gpt2},
    {"megatron-bert", "MegatronBertForPreTraining", read_bert, write_bert},
    {"mamba2", "Mamba2ForCausalLM", read_mamba2, write_mamba2},
    {"nemotron_h", "NemotronHForCausalLM", read_nemotron_h, write_nemotron_h},
    {"bamba", "BambaForCausalLM", read_bamba, write_bamba},
    {"granitemoehybrid", "GraniteMoeHybridForCausalLM", read_granite_hybrid, write_granite_hybrid},
    {"t5", "T5ForConditionalGeneration", read_t5, write_t5},
    {"vit", "ViTForImageClassification", read_vit, write_vit},
    {"clip_vision_model", "CLIPVisionModel", read_tower, write_tower},
    {"siglip_vision_model", "SiglipVisionModel", read_tower, write_tower},
    {"internvl_vision", "InternVLVisionModel", read_internvit, write_internvit},
    {"radio", "RadioModel", read_radio, write_radio},
    {"llava", "LlavaForConditionalGeneration", read_llava, write_llava},
    {"internvl", "InternVLForConditionalGeneration", read_internvl, write_internvl}};
const ConfigFamily* find_config_family(std::string_view type);  // null: it is none of these

// A BERT whose norms are behind what it adds: BERT itself, RoBERTa and those like it.
bool is_post_norm_bert(std::string_view type);
std::string post_norm_bert_types();                              // with commas between them
std::string_view post_norm_bert_class(std::string_view type);    // what its classes begin with
std::string_view post_norm_bert_type(const ModelConfig& model);  // its model_type
void read_post_norm_bert(const ConfigJson& json, HuggingFaceConfig& config);
void write_post_norm_bert(JsonWriter& json, const ModelConfig& model);
void check_post_norm_bert(const ModelConfig& model);

// Throws Exit::bad_config where a model of the family is none of transformers'.
void check_gpt2(const ModelConfig& model);
void check_bert(const ModelConfig& model);
void check_mamba(const ModelConfig& model);
void check_t5(const ModelConfig& model);
void check_vit(const ModelConfig& model);
std::string_view vit_type(const ModelConfig& model);    // its model_type
std::string_view llava_type(const ModelConfig& model);  // likewise; it checks, too

// --- Decoders like Llama ------------------------------------------------------------------------

// The class of a decoder; empty: there is none of this model_type.
std::string_view decoder_architecture(std::string_view type);
// What the class calls its norms' epsilon; and whether it has attention_bias and mlp_bias.
const char* epsilon_name(std::string_view type);
bool has_bias_flags(std::string_view type);
// Whether attention_bias says of queries, keys and values alone that they have biases.
bool has_attention_bias(std::string_view type);
// All their types, with commas between them.
std::string decoder_types();
// The model_type of a GPT, or of experts, with rotary positions, which is none of
// dense_families.h.  Exit::bad_config: none has that.
std::string_view decoder_type(const ModelConfig& model);

void read_decoder(const ConfigJson& json, HuggingFaceConfig& config);
void write_decoder(JsonWriter& json, const ModelConfig& model, std::string_view type,
                   const std::optional<KeptPositions>& kept);
void write_sliding_window(JsonWriter& json, const ModelConfig& model);
// Writes a window for a class that asks for one even where no layer has it.
void write_needed_window(JsonWriter& json, const ModelConfig& model);
void write_layer_types(JsonWriter& json, const ModelConfig& model);  // which have a window
void set_expert_layers(ModelConfig& model, const std::vector<bool>& experts);
// Which layers have experts in classes that are told so by mlp_layer_types alone, or have one dense
// layer in front; how many DeepSeek's words say, which they pass over, is to be that.
void read_sparse_layers(const ConfigJson& json, ModelConfig& model);
void write_sparse_layers(JsonWriter& json, const ModelConfig& model);  // which have experts

// --- Of decoders with experts, what is said of these --------------------------------------------

inline bool is_qwen_moe(std::string_view type) {
  return type == "qwen2_moe" || type == "qwen3_moe" || type == "qwen3_next";
}
void check_glm(const ModelConfig& model);
// A number as transformers takes it where it takes no integer.
std::string fraction_of(double value);
std::string_view expert_type(const ModelConfig& model);  // of those that a softmax chooses
void read_experts(const ConfigJson& json, HuggingFaceConfig& config);
// Refuses a part of each head that turns where the class asks how large it is and turns all.
void expect_whole_turns(const ConfigJson& json, const ModelConfig& model);
// A router of sigmoids with biases: of how many experts' groups, and what its weights are
// multiplied by; and whether a model's is one.
void read_sigmoid_router(const ConfigJson& json, ModelConfig& model);
void write_sigmoid_router(JsonWriter& json, const ModelConfig& model);
void check_sigmoid_router(const ModelConfig& model);
// Reads what a family with layers that predict further tokens says of these.
void read_further_layers(const ConfigJson& json, HuggingFaceConfig& config);
bool may_predict_further(std::string_view type);
void write_experts(JsonWriter& json, const ModelConfig& model, std::string_view type);

}  // namespace mt
