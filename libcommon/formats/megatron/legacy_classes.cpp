#include "formats/megatron/legacy_classes.h"

#include <map>

#include "base/error.h"
#include "ckpt/torch_file.h"
#include "formats/names/megatron_legacy.h"
#include "model/config/model_config.h"

namespace mt {

using Kind = PyValue::Kind;

bool is_legacy(const PyValue& model) {
  for (const char* key : {"language_model", "transformer", "word_embeddings.weight", "query_model",
                          "context_model", "shared_model"})
    if (model.find(key) != nullptr) return true;
  return false;
}

// --- Names --------------------------------------------------------------------------------------

// Parts of names of what is not read, and what that is.
struct Unread {
  std::string_view part, what;
};
constexpr Unread kUnread[] = {
    {".local_experts.", "a SwitchMLP; experts are read of Megatron-Core's classes only"},
    {".mlp.router.", "a SwitchMLP; experts are read of Megatron-Core's classes only"},
    {".layernorm_qkv.", "Transformer Engine's layers; --transformer-impl local's are read"},
    {".layernorm_mlp.", "Transformer Engine's layers; --transformer-impl local's are read"},
    {"decoder.layers.", "a decoder behind an encoder; GPT and BERT are read"},
};

static void check_read(const std::string& name, const std::string& where) {
  for (const auto& [part, what] : kUnread)
    if (name.find(part) != std::string::npos)
      fail(Exit::bad_data, where, ": ", name, ": is of Megatron's legacy classes, and of ", what);
}

static void add_tensors(const std::string& name, const PyValue& value, const std::string& where,
                        std::vector<std::pair<std::string, PyValue>>& tensors) {
  if (name.ends_with("_extra_state")) return;  // Transformer Engine's, empty here
  if (TorchReader::is_tensor(value)) {
    check_read(name, where);
    tensors.emplace_back(plain_legacy_name(name), value);
    return;
  }
  const std::vector<PyValue>& entries = value.entries(where + ": " + name);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    add_tensors(concat(name, name.empty() ? "" : ".", entries[i].as_string(where + ": a name")),
                entries[i + 1], where, tensors);
}

std::vector<std::pair<std::string, PyValue>> legacy_tensors(const PyValue& model,
                                                            const std::string& where) {
  std::vector<std::pair<std::string, PyValue>> tensors;
  add_tensors("", model, where, tensors);
  return tensors;
}

// --- Writing ------------------------------------------------------------------------------------

PyValue legacy_model(const std::vector<std::pair<std::string, PyValue>>& named) {
  PyValue dict = PyValue::dict();
  std::vector<std::string> keys;  // in the order of their first values
  std::map<std::string, std::vector<std::pair<std::string, PyValue>>> inner;
  for (const auto& [name, value] : named) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) {
      dict.set_item(name, value);
      continue;
    }
    const std::string key = name.substr(0, slash);
    if (!inner.contains(key)) keys.push_back(key);
    inner[key].emplace_back(name.substr(slash + 1), value);
  }
  for (const std::string& key : keys) dict.set_item(key, legacy_model(inner.at(key)));
  return dict;
}

void check_legacy(const ModelConfig& c) {
  const auto refuse_if = [](bool refused, const char* what) {
    if (refused)
      fail(Exit::bad_config, "--saver legacy: Megatron's models from before its core ", what);
  };
  refuse_if(c.family != ModelFamily::gpt && c.family != ModelFamily::bert &&
                c.family != ModelFamily::biencoder,
            "are converted of GPT and BERT, which is what convert.py's legacy saver knows");
  refuse_if(c.task_head == kScoreHead, "have no GPT with the head of a task");
  refuse_if(c.qk_layernorm, "have no --qk-layernorm");
  if (const char* const flag = c.later_setting()) refuse_if(true, concat("have no ", flag).c_str());
  refuse_if(c.multi_latent_attention, "have no --multi-latent-attention");
  refuse_if(c.mtp_num_layers > 0, "have no --mtp-num-layers");
  refuse_if(!c.window_size.empty(), "have no --window-size");
  refuse_if(c.normalization == "RMSNorm" && c.apply_layernorm_1p,
            "have no --apply-layernorm-1p with RMSNorm");
  if (c.position_embedding_type != "rope") return;
  refuse_if(c.rotary_base != 10000, "have no --rotary-base but 10000");
  refuse_if(c.use_rope_scaling, "have no --use-rope-scaling");
  refuse_if(c.rotary_interleaved, "have no --rotary-interleaved");
}

// --- Settings -----------------------------------------------------------------------------------

PyValue legacy_args(const PyValue& args, const std::string& where) {
  const auto is_on = [&](const char* name) {
    const PyValue* const value = args.find(name);
    return value != nullptr && *value == PyValue(true);
  };
  if (is_on("apply_residual_connection_post_layernorm"))
    fail(Exit::bad_data, where,
         ": args.apply_residual_connection_post_layernorm: is set, which is not supported");
  PyValue today = PyValue::dict();
  const std::vector<PyValue>& entries = args.entries(where);
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
    const std::string& name = entries[i].as_string(where);
    if (name != "use_legacy_models" && name != "use_mcore_models")
      today.set_item(entries[i], entries[i + 1]);
  }
  for (const auto& [old, name] : {std::pair("model_parallel_size", "tensor_model_parallel_size"),
                                  {"layernorm_epsilon", "norm_epsilon"}})
    if (const PyValue* const value = args.find(old); value != nullptr && args.find(name) == nullptr)
      today.set_item(name, *value);
  if (is_on("disable_bias_linear")) today.set_item("add_bias_linear", false);
  if (is_on("use_rotary_position_embeddings")) today.set_item("position_embedding_type", "rope");
  if (is_on("openai_gelu")) today.set_item("bias_gelu_fusion", true);
  if (args.find("params_dtype") == nullptr && is_on("fp16"))
    today.set_item("params_dtype", PyValue::global("torch", "float16"));
  return today;
}

// --- Rows of queries, keys and values -----------------------------------------------------------

Transform legacy_qkv(double version, const ModelConfig& config, std::int64_t tensor_ranks,
                     const std::string& where) {
  if (version >= 2) return {};
  if (config.kv_heads() != config.num_attention_heads)
    fail(Exit::bad_data, where, ": args.num_query_groups ", config.kv_heads(),
         ": checkpoint_version ", version, " has as many as heads");
  const std::int64_t heads = config.num_attention_heads / tensor_ranks;
  if (version == 0) return {exchange(3, heads)};
  return {exchange(heads * config.head_dim(), 3), exchange(3, heads)};
}

}  // namespace mt
