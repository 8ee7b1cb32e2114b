#include "formats/trtllm/trtllm_config.h"

#include <algorithm>

#include "base/json.h"
#include "base/json_object.h"
#include "formats/hugging_face/hugging_face_config.h"
#include "model/config/model_config.h"

namespace mt {
namespace {

// What transformers call a model, and what TensorRT-LLM does.
struct Architecture {
  std::string_view type, name;
};
constexpr Architecture kArchitectures[] = {{"llama", "LlamaForCausalLM"},
                                           {"mistral", "MistralForCausalLM"},
                                           {"qwen2", "Qwen2ForCausalLM"},
                                           {"gpt2", "GPTForCausalLM"}};

// The model as a folder of Hugging Face's has it.
std::string theirs_of(const ModelTarget& target) {
  return hugging_face_config(target.config, target.dtype, {});
}

const char* dtype_name(DType dtype) {
  return dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
}

void write_quantization(JsonWriter& json, const WeightScheme& scheme) {
  json.begin_object().key("quant_algo");
  if (scheme.format == WeightFormat::none)
    json.null();
  else
    json.value(scheme.format == WeightFormat::fp8 ? "FP8" : "W4A16_AWQ");
  json.key("kv_cache_quant_algo").null();
  const bool groups = scheme.format == WeightFormat::int4_awq;
  if (groups) json.member("group_size", std::int64_t{kGroupOfFourBits});
  json.member("has_zero_point", false).member("pre_quant_scale", groups);
  json.key("exclude_modules");
  if (scheme.format == WeightFormat::none) {
    json.null().end_object();
    return;
  }
  json.begin_array();
  for (const char* module : {"lm_head", "vocab_embedding", "position_embedding", "router"})
    json.value(module);
  json.end_array().end_object();
}

}  // namespace

void check_trtllm(const ModelTarget& target) {
  const ModelConfig& c = target.config;
  simdjson::dom::parser parser;
  const std::string text = theirs_of(target);
  const JsonObject theirs(parser.parse(text).value(), "config.json");
  const std::string_view type = theirs.text("model_type");
  if (std::ranges::find(kArchitectures, type, &Architecture::type) == std::end(kArchitectures))
    fail(Exit::bad_config, "--saver trtllm: of llama, mistral, qwen2 and gpt2, not of ", type);
  if (type == "gpt2" && target.weights.format != WeightFormat::none)
    fail(Exit::bad_config, "--quantize ", name_of(target.weights.format),
         ": --saver trtllm writes a GPT-2 as it is");
  const std::int64_t ranks = target.tensor_parallel, heads = c.num_attention_heads,
                     groups = c.kv_heads();
  const auto refuse = [&](std::int64_t number, const char* what) {
    fail(Exit::bad_config, "--target-tensor-parallel-size ", ranks, ": does not divide ", number,
         what);
  };
  if (heads % ranks != 0) refuse(heads, " heads");
  if (groups % ranks != 0 && ranks % groups != 0) refuse(groups, " heads of keys");
  if (c.ffn() % ranks != 0) refuse(c.ffn(), " channels of an MLP");
  if (target.weights.format == WeightFormat::int4_awq)
    for (const std::int64_t columns : {heads * c.head_dim(), c.ffn()})
      if (columns / ranks % std::int64_t{kGroupOfFourBits} != 0)
        fail(Exit::bad_config, "--target-tensor-parallel-size ", ranks, ": each rank has ",
             columns / ranks, " of ", columns, " columns, which groups of ", kGroupOfFourBits,
             " do not divide");
}

std::string trtllm_config(const ModelTarget& target) {
  const ModelConfig& c = target.config;
  simdjson::dom::parser parser;
  const std::string text = theirs_of(target);
  const JsonObject theirs(parser.parse(text).value(), "config.json");
  const std::string_view type = theirs.text("model_type");
  const bool learned = c.position_embedding_type == "learned_absolute";
  JsonWriter json;
  json.begin_object()
      .member("architecture", std::ranges::find(kArchitectures, type, &Architecture::type)->name)
      .member("dtype", dtype_name(target.dtype))
      .member("logits_dtype", "float32")
      .member("vocab_size", c.vocab_size)
      .member("max_position_embeddings", c.max_position_embeddings)
      .member("hidden_size", c.hidden_size)
      .member("intermediate_size", c.ffn())
      .member("num_hidden_layers", c.num_layers)
      .member("num_attention_heads", c.num_attention_heads)
      .member("num_key_value_heads", c.kv_heads())
      .member("head_size", c.head_dim())
      .member("hidden_act", theirs.text(learned ? "activation_function" : "hidden_act"))
      .member("norm_epsilon", c.norm_epsilon)
      .member("position_embedding_type", learned ? "learned_absolute" : "rope_gpt_neox");
  if (!learned) {
    json.member("rotary_base", c.rotary_base).key("rotary_scaling");
    if (theirs.has("rope_scaling"))
      json.raw(theirs.object("rope_scaling").json());
    else
      json.null();
  }
  json.member("attn_bias", c.has_qkv_bias())
      .member("mlp_bias", theirs.flag_or("mlp_bias", learned))
      .member("use_parallel_embedding", false)
      .member("embedding_sharding_dim", 0)
      .member("share_embedding_table", false)
      .key("mapping")
      .begin_object()
      .member("world_size", target.tensor_parallel)
      .member("tp_size", target.tensor_parallel)
      .member("pp_size", 1)
      .end_object()
      .key("quantization");
  write_quantization(json, target.weights);
  return json.end_object().text() + "\n";
}

}  // namespace mt
