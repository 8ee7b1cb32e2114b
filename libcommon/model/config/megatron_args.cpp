#include "model/config/megatron_args.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/whole_number.h"
#include "model/config/settings.h"
#include "model/config/yarn.h"

namespace mt {

// --- Writing ------------------------------------------------------------------------------------

namespace {

PyValue py(bool value) { return value; }
PyValue py(std::int64_t value) { return value; }
PyValue py(double value) { return value; }
PyValue py(const std::string& value) { return value; }
template <class T>
PyValue py(const std::optional<T>& value) {
  return value ? py(*value) : PyValue();
}
// One value, or a list of several.
template <class T>
PyValue py(const std::vector<T>& values) {
  if (values.empty()) return {};
  if (values.size() == 1) return values[0];
  return PyValue::list(std::vector<PyValue>(values.begin(), values.end()));
}

class ArgsWriter {
 public:
  ArgsWriter(const ModelConfig& config, DType dtype, PyValue& args)
      : c_(config), dtype_(dtype), args_(args) {
    ModelConfig plain;
    plain.family = c_.family;
    // By these it has the settings of experts.
    plain.hybrid_pattern = c_.hybrid_pattern + c_.mtp_hybrid_pattern;
    visit_settings(plain, [this](const auto& value, const Setting& s) {
      defaults_.set_item(s.arg_name(), py(value));
    });
  }

  template <class T>
  void operator()(const T& value, const Setting& s) const {
    const std::string arg = s.arg_name();
    if (arg.empty()) return;
    if (arg == "ffn_hidden_size")
      set(arg, c_.ffn());
    else if (arg == "kv_channels")
      set(arg, c_.multi_latent_attention ? c_.hidden_size / c_.num_attention_heads : c_.head_dim());
    else if (arg == "moe_layer_freq")
      set(arg, layer_freq(c_.moe_layer_freq, c_.experts_of_layers(c_.num_layers)));
    else if (arg == "linear_attention_freq" && c_.may_have_linear_layers())
      set(arg, layer_freq(c_.linear_attention_freq, c_.linear_layers(c_.num_layers)));
    else if (arg == "moe_ffn_hidden_size")
      set(arg, c_.expert_ffn());
    else if (arg == "window_size")
      set(arg, c_.window_size.empty() ? PyValue() : PyValue::tuple({c_.tokens_before(), 0}));
    else if (arg == "bias_gelu_fusion")
      set(arg, c_.fuses_bias_and_gelu());
    else if (arg == "add_qkv_bias")
      set(arg, c_.has_qkv_bias());
    else if (arg == "embedding_mult" && c_.gated_gelu && c_.family == ModelFamily::gpt)
      set(arg, py(value));  // see read_family()
    else if (!is_left_out(arg, py(value), s))
      set(arg, arg.starts_with("rotary_base") ? base_of(py(value)) : py(value));
    add_behind(arg);
  }

 private:
  void set(std::string_view name, PyValue value) const { args_.set_item(name, std::move(value)); }

  bool is_left_out(std::string_view arg, const PyValue& value, const Setting& s) const {
    if (arg == "mamba_num_heads")  // none, or the default of mixers
      return c_.mamba_num_heads == 0 ||
             (c_.has_layer('M') && c_.mamba_inner() == 2 * c_.hidden_size);
    if (s.latent) return !c_.multi_latent_attention || value.is_none();
    return s.rare && value == defaults_.at(arg, "settings");
  }

  // An integer, as Megatron's --rotary-base is, unless it has a fraction.
  static PyValue base_of(const PyValue& value) {
    const auto whole = whole_number(value.as_real("rotary_base"));
    return whole ? PyValue(*whole) : value;
  }

  // A number, or a list of each layer's 0 or 1.
  static PyValue layer_freq(const std::string& freq, const std::vector<bool>& of_layers) {
    if (freq.front() != '[') return std::stoll(freq);
    std::vector<PyValue> layers;
    for (const bool has : of_layers) layers.emplace_back(std::int64_t{has});
    return PyValue::list(std::move(layers));
  }

  // What stands behind an attribute and is no setting of ours, or follows from several.
  void add_behind(std::string_view arg) const {
    if (arg == "position_embedding_type") {
      set("add_position_embedding", c_.has_positions());
      set("use_rotary_position_embeddings", c_.has_rope());
    } else if (arg == "untie_embeddings_and_output_weights") {
      set("apply_query_key_layer_scaling", false);
    } else if (arg == "init_method_xavier_uniform") {
      if (!c_.has_experts()) set("num_experts", PyValue());
    } else if (arg == "padded_vocab_size") {
      set("params_dtype", PyValue::global("torch", name_of(dtype_)));
      set("bf16", dtype_ == DType::bf16);
      set("fp16", dtype_ == DType::f16);
      add_family();
    } else if (arg == "moe_ffn_hidden_size") {
      set("moe_grouped_gemm", false);
      set("moe_use_legacy_grouped_gemm", false);
    } else if (arg == "hybrid_override_pattern") {
      set("spec",
          PyValue::list({"megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"}));
      const bool of_main = c_.has_layer('E') || c_.has_layer('+') || c_.mtp_num_layers > 0;
      // None, too, where a source said it, of other stages or of tokens that are left behind.
      set("hybrid_layer_pattern",
          of_main ? PyValue(c_.whole_pattern(c_.mtp_num_layers)) : PyValue());
    } else if (arg == "relative_attention_max_distance") {
      if (c_.relu) set("activation_func", "relu");
    }
  }

  void add_family() const {
    if (c_.family == ModelFamily::retro) set("retro_add_retriever", true);
    if (c_.family == ModelFamily::vit) {
      set("vision_pretraining", true);
      set("vision_backbone_type", "vit");
    }
    if (c_.family != ModelFamily::mamba) return;
    set("is_hybrid_model", true);
    set("hybrid_attention_ratio", 0.0);
    set("hybrid_mlp_ratio", 0.0);
  }

  const ModelConfig& c_;
  DType dtype_;
  PyValue& args_;
  PyValue defaults_ = PyValue::dict();  // by their args
};

}  // namespace

void add_model_args(const ModelConfig& config, DType dtype, PyValue& args) {
  visit_settings(config, ArgsWriter(config, dtype, args));
}

// --- Reading ------------------------------------------------------------------------------------

namespace {

class ArgsReader {
 public:
  ArgsReader(const PyValue& args, const std::string& where) : args_(args), where_(where) {}

  // An absent attribute leaves the variable as it is.
  template <class T>
  void operator()(T& value, const Setting& s) const {
    const std::string arg = s.arg_name();
    if (const PyValue* const v = arg.empty() ? nullptr : given(arg)) read(*v, path(arg), value);
  }

  ModelFamily family(const std::function<bool(const std::string&)>& has_tensor) const {
    if (is_on("is_hybrid_model") || given("hybrid_layer_pattern") != nullptr)
      return ModelFamily::mamba;  // whose pattern tells of experts
    if (const PyValue* const experts = given("num_experts"))
      if (experts->as_integer(path("num_experts")) > 0) return ModelFamily::mixtral;
    if (is_on("retro_add_retriever")) return ModelFamily::retro;
    if (is_on("vision_pretraining")) return ModelFamily::vit;
    if (given("image_token_index") != nullptr) return ModelFamily::llava;
    std::string adapted;  // a module that has an adapter, where adapters are all there is
    if (const PyValue* const targets = given("lora_targets"))
      adapted = targets->as_string(path("lora_targets"));
    adapted.resize(std::min(adapted.find(','), adapted.size()));
    if (adapted.starts_with("cross_attention.")) return ModelFamily::t5;  // no encoder has that
    for (const char* layer : {"", "0."})  // where layers are stacked, and where they are not
      if (has_tensor(concat("decoder.layers.", layer, "cross_attention.linear_q.weight")) ||
          has_tensor(concat("encoder.layers.", layer, adapted, ".lora_A")))
        return ModelFamily::t5;
    for (const char* tower : {"query_model", "context_model", "shared_model"})
      if (has_tensor(concat(tower, ".embedding.word_embeddings.weight")))
        return ModelFamily::biencoder;
    const bool bert = has_tensor("lm_head.dense.weight") ||
                      has_tensor("embedding.tokentype_embeddings.weight") ||  // on other stages
                      given("num_token_types") != nullptr;  // none of them, and no head
    return bert ? ModelFamily::bert : ModelFamily::gpt;
  }

  // Megatron's main says by this what hybrid_override_pattern says, and where stages begin.
  void read_layer_pattern(ModelConfig& c) const {
    const PyValue* const pattern = given("hybrid_layer_pattern");
    if (pattern == nullptr || c.family != ModelFamily::mamba) return;
    const HybridPattern all =
        parse_hybrid_pattern(pattern->as_string(path("hybrid_layer_pattern")));
    c.hybrid_pattern = all.layers;
    c.mtp_hybrid_pattern = all.further;
  }

  // As Megatron's main has it of models without latents.
  void read_yarn(ModelConfig& c) const {
    if (c.position_embedding_type != "yarn") return;
    constexpr const char *kFactor = "rotary_scaling_factor", *kSame = "yarn_rotary_scaling_factor";
    if (given(kFactor) == nullptr)
      fail(Exit::bad_data, path(kFactor), ": is not there, by which yarn stretches positions");
    const PyValue* const same = given(kSame);
    refuse_if(same != nullptr && same->as_real(path(kSame)) != c.rotary_scaling_factor, kSame);
    PlainYarn plain{.mscale_all_dim = c.mscale_all_dim};
    if (const PyValue* const v = given("yarn_original_max_position_embeddings"))
      plain.original = v->as_integer(path("yarn_original_max_position_embeddings"));
    if (const PyValue* const v = given("yarn_correction_range_round_to_int"))
      plain.rounds = v->as_bool(path("yarn_correction_range_round_to_int"));
    take_plain_yarn(c, plain);
  }

  void read_family(ModelConfig& c) const {
    read_yarn(c);
    // Megatron's args say of every model what latents it would have, and what losses.
    if (!c.multi_latent_attention) static_cast<LatentConfig&>(c) = {};
    // And what mixers with a delta rule.
    if (!c.may_have_linear_layers()) static_cast<DeltaConfig&>(c) = {};
    // Nor has it to have a QKV projection for them to say that this has the others' bias.
    if (c.multi_latent_attention && c.add_bias_linear) c.add_qkv_bias = false;
    if (c.mtp_num_layers == 0) static_cast<MtpConfig&>(c) = {};
    if (c.has_experts()) read_experts(c);
    if (c.family == ModelFamily::mamba && given("hybrid_override_pattern") == nullptr &&
        given("hybrid_layer_pattern") == nullptr)
      read_ratios(c);
    if (c.family == ModelFamily::t5) read_t5(c);
    if (c.swiglu) c.gated_gelu = false;
    // Megatron says the latter by its model's class alone, of which there is Gemma's.
    if (c.family == ModelFamily::gpt && c.gated_gelu && given("embedding_mult") == nullptr)
      c.embedding_mult = std::sqrt(static_cast<double>(c.hidden_size));
  }

  // Settings that change the mathematics in a way that this family lacks.
  void refuse_others(ModelFamily family) const {
    if (family == ModelFamily::gpt)
      for (const char* name : {"num_experts", "is_hybrid_model"}) refuse(name);
    for (const char* name : {"qk_l2_norm", "use_mup"}) refuse(name);
  }

 private:
  static void read(const PyValue& v, const std::string& path, bool& value) {
    value = v.as_bool(path);
  }
  static void read(const PyValue& v, const std::string& path, std::int64_t& value) {
    value = v.as_integer(path);
  }
  static void read(const PyValue& v, const std::string& path, double& value) {
    value = v.as_real(path);
  }
  // A text, the tuple of --window-size, or the number or list of --moe-layer-freq and another.
  static void read(const PyValue& v, const std::string& path, std::string& value) {
    if (path.ends_with(".moe_layer_freq") || path.ends_with(".linear_attention_freq"))
      return read_layer_freq(v, path, value);
    if (!path.ends_with(".window_size")) return void(value = v.as_string(path));
    std::vector<std::int64_t> window;
    read(v, path, window);
    if (!window.empty()) value = concat(window.front(), ",", window.back());
  }
  static void read_layer_freq(const PyValue& v, const std::string& path, std::string& value) {
    if (v.is(PyValue::Kind::integer)) return void(value = std::to_string(v.as_integer(path)));
    value = "[";
    for (const PyValue& layer : v.as_items(path))
      value += concat(value.size() > 1 ? "," : "", layer.as_integer(path));
    value += "]";
  }
  template <class T>
  static void read(const PyValue& v, const std::string& path, std::optional<T>& value) {
    read(v, path, value.emplace());
  }
  // One value, or a list or tuple of them.
  template <class T>
  static void read(const PyValue& v, const std::string& path, std::vector<T>& values) {
    values.clear();
    if (!v.is(PyValue::Kind::list) && !v.is(PyValue::Kind::tuple))
      return read(v, path, values.emplace_back());
    for (const PyValue& item : v.as_items(path)) read(item, path, values.emplace_back());
  }

  void read_experts(ModelConfig& c) const {
    double& factor = c.moe_expert_capacity_factor;
    if (factor < 0) factor = 0;  // as None
  }

  void read_ratios(ModelConfig& c) const {
    const double attention = share("hybrid_attention_ratio"), mlps = share("hybrid_mlp_ratio");
    refuse_if(attention + mlps > 1, "hybrid_mlp_ratio");
    if (c.num_layers > 0 && c.num_layers <= kMany)  // others are refused by complete()
      c.hybrid_pattern = hybrid_pattern_of(c.num_layers, attention, mlps);
  }

  void read_t5(ModelConfig& c) const {
    if (given("encoder_num_layers") == nullptr) c.encoder_num_layers = c.num_layers;
    if (const PyValue* activation = given("activation_func")) {
      c.relu = *activation == PyValue("relu");
      refuse_if(!c.relu, "activation_func");
    }
  }

  // Null where it is absent or None.
  const PyValue* given(std::string_view name) const {
    const PyValue* const value = args_.find(name);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  double share(const char* name) const {  // of the layers
    const PyValue* const value = given(name);
    const double ratio = value == nullptr ? 0 : value->as_real(path(name));
    if (!(ratio >= 0 && ratio <= 1)) fail(Exit::bad_data, path(name), " is ", ratio);
    return ratio;
  }
  bool is_on(const char* name) const {
    const PyValue* const value = given(name);
    return value != nullptr && *value == PyValue(true);
  }
  // Off is None, False or 0.
  void refuse(const char* name) const {
    const PyValue* const v = given(name);
    if (v == nullptr || *v == PyValue(false) || *v == PyValue(0) || *v == PyValue(0.0)) return;
    fail(Exit::bad_data, path(name), ": is set, which is not supported");
  }
  void refuse_if(bool refused, const char* name) const {
    if (refused) fail(Exit::bad_data, path(name), ": is set to what is not supported");
  }
  std::string path(std::string_view name) const { return concat(where_, ": args.", name); }

  const PyValue& args_;
  const std::string& where_;
};

}  // namespace

ModelConfig model_config_of(const PyValue& args, ModelFamily family, const std::string& where) {
  const ArgsReader reader(args, where);
  ModelConfig config;
  config.family = family;
  reader.read_layer_pattern(config);
  visit_settings(config, reader);
  reader.refuse_others(family);
  reader.read_family(config);
  try {
    config.complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, where, ": args: ", error.what());
  }
  return config;
}

ModelConfig model_config_of(const PyValue& args,
                            const std::function<bool(const std::string&)>& has_tensor,
                            const std::string& where) {
  return model_config_of(args, ArgsReader(args, where).family(has_tensor), where);
}

DType dtype_of_args(const PyValue& args, const std::string& where) {
  const PyValue* dtype = args.find("params_dtype");
  if (dtype == nullptr) return DType::f32;
  for (const DType known : {DType::f32, DType::f64, DType::bf16, DType::f16})
    if (dtype->is_global("torch", name_of(known))) return known;
  fail(Exit::bad_data, where, ": args.params_dtype: is ",
       dtype->is(PyValue::Kind::global) ? dtype->name() : name_of(dtype->kind()),
       ", expected a floating-point type of torch");
}

}  // namespace mt
