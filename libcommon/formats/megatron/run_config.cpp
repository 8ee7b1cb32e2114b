#include "formats/megatron/run_config.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "ckpt/megatron_checkpoint.h"
#include "text/yaml.h"

namespace mt {
namespace {

// The classes and builders that make nothing but Megatron-Core's GPTModel of these settings.
constexpr std::string_view kClasses[] = {
    "GPTModelProvider",    "GPTModelBuilder",     "LlamaModelProvider",
    "Llama2ModelProvider", "Llama3ModelProvider", "MistralModelProvider",
    "Qwen2ModelProvider",  "Qwen25ModelProvider", "Qwen3ModelProvider"};

// What TransformerConfig calls otherwise than the args.
constexpr std::pair<const char*, const char*> kRenamed[] = {
    {"layernorm_epsilon", "norm_epsilon"},
    {"layernorm_zero_centered_gamma", "apply_layernorm_1p"},
    {"num_moe_experts", "num_experts"},
    {"seq_length", "max_position_embeddings"},
    {"rope_scaling", "use_rope_scaling"},
    {"seq_len_interpolation_factor", "rotary_seq_len_interpolation_factor"},
    {"bias_activation_fusion", "bias_gelu_fusion"}};

// Settings that change what is computed, and are in no args that are read; and how they are usual.
struct Usual {
  const char* name;
  PyValue value;
};
const std::vector<Usual>& usual_settings() {
  static const std::vector<Usual> usual = {{"softmax_scale", {}},
                                           {"softmax_type", "vanilla"},
                                           {"heterogeneous_block_specs", false},
                                           {"moe_router_pre_softmax", false},
                                           {"moe_router_score_function", "softmax"},
                                           {"moe_router_num_groups", {}},
                                           {"moe_router_topk_scaling_factor", {}}};
  return usual;
}

PyValue py_value(const ChatValue& value) {
  if (const bool* const truth = value.boolean()) return *truth;
  if (const std::int64_t* const number = value.integer()) return *number;
  if (const double* const number = value.real()) return *number;
  if (const std::string* const text = value.text()) return *text;
  if (const std::vector<ChatValue>* const items = value.items()) {
    std::vector<PyValue> list;
    for (const ChatValue& item : *items) list.push_back(py_value(item));
    return PyValue::list(std::move(list));
  }
  if (!value.is_dict()) return {};
  PyValue dict = PyValue::dict();
  for (const auto& [key, item] : *value.pairs()) dict.set_item(py_value(key), py_value(item));
  return dict;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

class Model {
 public:
  Model(const PyValue& config, const std::string& where)
      : where_(where), model_(config.at("model", where)) {
    transformer_ = model_.find("transformer");
  }

  PyValue args(std::int64_t rows) const {
    check_class();
    for (const Usual& usual : usual_settings())
      if (const PyValue* const value = given(usual.name); value && !(*value == usual.value))
        refuse(usual.name, "is set to what is not read");
    PyValue args = PyValue::dict();
    copy(transformer_, args);
    copy(&model_, args);
    for (const auto& [theirs, ours] : kRenamed)
      if (const PyValue* const value = given(theirs)) args.set_item(ours, *value);
    if (const PyValue* const scaled = given("rope_scaling"); scaled && !(*scaled == PyValue(true)))
      args.set_item("rope_scaling_factor", PyValue());
    const PyValue* const tied = given("share_embeddings_and_output_weights");
    args.set_item("untie_embeddings_and_output_weights", tied && *tied == PyValue(false));
    const PyValue* const groups = given("num_query_groups");
    args.set_item("group_query_attention",
                  groups && !(*groups == model_value("num_attention_heads")));
    args.set_item("padded_vocab_size", rows);
    args.set_item("params_dtype", PyValue::global("torch", dtype()));
    add_activation(args);
    return args;
  }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    fail(Exit::bad_config, where_, ": model.", name, ": ", why,
         "; Megatron Bridge's own export makes a folder of Hugging Face's, which may be read");
  }

  // Null where it is absent or null.
  const PyValue* given(const char* name) const {
    const PyValue* value = model_.find(name);
    if (value == nullptr && transformer_ != nullptr) value = transformer_->find(name);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  PyValue model_value(const char* name) const {
    const PyValue* const value = given(name);
    return value == nullptr ? PyValue() : *value;
  }
  bool is_on(const char* name) const { return model_value(name) == PyValue(true); }

  // The name that a value has, which is a text or what Hydra calls it by.
  std::string name_in(const char* setting) const {
    const PyValue* value = given(setting);
    if (value != nullptr && value->is(PyValue::Kind::dict)) value = value->find("_target_");
    return value == nullptr || !value->is(PyValue::Kind::string) ? "" : value->as_string(where_);
  }

  void check_class() const {
    const char* const key = model_.find("_builder_") == nullptr ? "_target_" : "_builder_";
    const std::string name = last_part(name_in(key));
    if (std::ranges::find(kClasses, name) == std::end(kClasses))
      refuse(key, concat("is ", name.empty() ? "absent" : name,
                         ", expected a plain GPT's: GPTModelProvider, or Llama's, Mistral's, "
                         "Qwen 2's or 3's"));
  }

  // Numbers, truths, texts and lists.
  void copy(const PyValue* from, PyValue& args) const {
    if (from == nullptr) return;
    const std::vector<PyValue>& entries = from->entries(where_);
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      const std::string& name = entries[i].as_string(where_);
      const PyValue& value = entries[i + 1];
      if (value.is(PyValue::Kind::dict) || name == "gated_linear_unit" || name.starts_with('_'))
        continue;
      args.set_item(name, value);
    }
  }

  std::string dtype() const {
    if (is_on("bf16")) return "bfloat16";
    if (is_on("fp16")) return "float16";
    const std::string name = last_part(name_in("params_dtype"));
    return name.empty() ? "float32" : name;
  }

  void add_activation(PyValue& args) const {
    const std::string name = last_part(name_in("activation_func"));
    const bool gated = is_on("gated_linear_unit"), gelu = name.empty() || name == "gelu",
               tanh = name == "fast_gelu" || name == "gelu_pytorch_tanh",
               square = name == "squared_relu" || name == "relu2";
    args.set_item("activation_func", PyValue());
    args.set_item("swiglu", gated && name == "silu");
    args.set_item("squared_relu", !gated && square);
    if (tanh) args.set_item("bias_gelu_fusion", true);
    if (gated ? name != "silu" : !gelu && !tanh && !square)
      refuse("activation_func", concat("is ", name.empty() ? "gelu" : name,
                                       gated ? " in a gated unit" : "", ", which is not read"));
  }

  const std::string& where_;
  const PyValue& model_;
  const PyValue* transformer_ =
      nullptr;  // the part of newer ones that has Megatron-Core's settings
};

}  // namespace

PyValue args_of_run_config(std::string_view yaml, std::int64_t rows, const std::string& where) {
  const YamlRules rules{.code = Exit::bad_data, .omegaconf = true};
  return Model(py_value(parse_yaml(yaml, where, rules)), where).args(rows);
}

void refuse_unread(const std::string& path) {
  std::error_code none;
  const auto has = [&](const char* name) {
    return std::filesystem::exists(concat(path, "/", name), none);
  };
  const bool others =
      has("metadata.json") || has("config.json") || has(kTracker) || has(kTrainState);
  if (has(kRunConfig) && !others)
    fail(Exit::bad_config, path, ": is of Megatron Bridge's (", kRunConfig,
         "), but has no metadata.json of the format torch_dist, which alone is read of it; its own "
         "export makes a folder of Hugging Face's, which is");
  const bool archive = path.ends_with(".nemo") && std::filesystem::exists(path, none);
  if (archive || has("model_config.yaml"))
    fail(
        Exit::bad_config, path, ": is a model of NeMo 1 (", archive ? "an archive with " : "",
        "model_config.yaml), which is not read; NeMo's scripts/checkpoint_converters make a folder "
        "of Hugging Face's of it, which is");
  if (has("context") && has("weights"))
    fail(Exit::bad_config, path,
         ": is a checkpoint of NeMo 2 (context and weights), which is not read; "
         "nemo.collections.llm.export_ckpt with target=\"hf\" makes a folder of Hugging Face's of "
         "it, which is");
}

}  // namespace mt
