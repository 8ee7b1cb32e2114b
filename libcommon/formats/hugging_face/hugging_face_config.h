// config.json of Hugging Face's transformers, of its 4th and 5th generation, for the models whose
// tensors our tables name: gpt2, llama, mistral, mixtral, gemma, gemma2, vaultgemma, gemma3_text,
// olmo2, olmo3, exaone, exaone4, glm, glm4, ernie4_5, seed_oss, internlm2, internlm3, arcee,
// helium, ministral, ministral3, phi3, apertus, nanochat, iquestcoder, granite, granite_swa,
// hunyuan_v1_dense, hyperclovax, minicpm, cwm, smollm3, cohere, cohere2, qwen2, qwen3, qwen2_moe,
// qwen3_moe, qwen3_next, qwen3_5_text, glm4_moe, dots1, granitemoe, granitemoeshared, olmoe,
// flex_olmo, minimax_m2, gpt_oss, deepseek_v2, deepseek_v3, kimi_k2, glm4_moe_lite, solar_open,
// exaone_moe, hunyuan_v1_moe, hy_v3, youtu, nemotron, gpt_neox, gptj, codegen, gpt_bigcode,
// gpt_neo, bloom, mpt, falcon, phi, opt, biogpt, persimmon, jais2, stablelm, starcoder2, olmo,
// bert, roberta, xlm-roberta, camembert, distilbert, megatron-bert, mamba2, nemotron_h, bamba,
// granitemoehybrid, t5, vit, clip_vision_model, siglip_vision_model, internvl_vision, radio, llava
// and internvl.  Of gemma3, mistral3, qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_vl_moe, glm4v_moe and
// qwen3_5 the part that reads texts is read.  A setting that ours has not is refused by name.
//
// What config.json does not say is as the class of transformers has it by default.
//
// sliding_window W counts the token itself, so it is --window-size W - 1,0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/config/model_config.h"
#include "tensor/dtype.h"
#include "tensor/param.h"
#include "text/tokenizer.h"

namespace mt {

// The linear layers of attention, or of the MLP, have no biases, though the others have: our
// model's are zeros there.
struct LackingBiases {
  bool attention = false, mlp = false;
  bool has(const RowPlace& row) const;  // is it one of these?
};

struct HuggingFaceConfig {
  ModelConfig model;                // without padded_vocab_size; not completed
  std::optional<DType> dtype = {};  // none: that of the tensors
  LackingBiases lacking = {};
  std::vector<std::string> notes = {};  // what a user should know of how it is read; lines
  // Some families have layers that predict further tokens, which transformers passes over.  Here is
  // whether this is such a family, and how many there are, where that is said; `model` has none.
  bool may_predict_further = false;
  std::optional<std::int64_t> further = {};
  // What names of tensors begin with that the class passes over; empty: none.
  std::string passed_over = {};
  // It is the part that reads texts of a model that reads images, too, whose other tensors are
  // passed over.
  bool of_texts = false;
  // The output layer is one of its own where a tensor of it is stored, whatever the settings say:
  // a T5 of the 5th generation's, and a part of texts that says that it has none.
  bool output_if_stored = false;
  // Experts of a layer are one tensor, transposed, whatever those of the family are.
  bool fused_experts = false;
  std::string quantization = {};  // quantization_config as JSON, where weights are packed
};

// Python writes the numbers Infinity, -Infinity and NaN, which JSON lacks: the same text as the 5th
// generation of transformers writes it, with {"__float__":"Infinity"} instead; and the reverse.
std::string without_python_numbers(const std::string& json);
std::string with_python_numbers(std::string json);

// Exit::bad_data names what is missing or not supported.  `path` stands in errors.
HuggingFaceConfig parse_hugging_face_config(const std::string& json, const std::string& path);

// The tokens that a member of a generation_config.json or config.json names, "eos_token_id" say:
// none, one or several.  Exit::bad_data for text that is no JSON object.
std::vector<std::int32_t> token_ids_at(const char* member, const std::string& json,
                                       const std::string& path);

// The config.json of a model.  `original` is one that it was once read from, or empty: members
// that no setting of the model stands for (bos_token_id, say) are taken from there, if it is of the
// same model_type.  Exit::bad_config if transformers has no such model.  `special` are the
// tokenizer's tokens, which stand there if the original says none; null: they are not known.
// `quantization` is quantization_config, or empty.
std::string hugging_face_config(const ModelConfig& model, DType dtype, const std::string& original,
                                const SpecialTokens* special = nullptr,
                                const std::string& quantization = {});

}  // namespace mt
