#include "model/config/model_config.h"

#include <algorithm>
#include <cmath>

#include "model/gpt_checkpoint.h"

namespace mt {

static void check_size(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) fail(Exit::bad_config, name, " ", value, ": expected 1 to ", most);
}

// What a T5 has beside a GPT.
static void check_t5(const ModelConfig& c) {
  check_size("--encoder-num-layers", c.encoder_num_layers, 1 << 16);
  check_size("--relative-attention-num-buckets", c.relative_attention_num_buckets, 1 << 20);
  check_size("--relative-attention-max-distance", c.relative_attention_max_distance, 1 << 30);
  if (c.kv_heads() != c.num_attention_heads)
    fail(Exit::bad_config, "--num-query-groups: T5's cross-attention has as many as heads");
  if (c.relu + c.gated_gelu + c.swiglu + c.squared_relu > 1)
    fail(Exit::bad_config, "T5: more than one activation");
}

static void complete_mamba(ModelConfig& c) {
  check_size("--mamba-state-dim", c.mamba_state_dim, 1 << 20);
  check_size("--mamba-num-groups", c.mamba_num_groups, 4096);
  check_size("--mamba-head-dim", c.mamba_head_dim, 1 << 20);
  if (c.mamba_num_heads == 0) {
    if (2 * c.hidden_size % c.mamba_head_dim != 0)
      fail(Exit::bad_config, "--mamba-head-dim ", c.mamba_head_dim,
           ": does not divide twice the hidden size, ", 2 * c.hidden_size);
    c.mamba_num_heads = 2 * c.hidden_size / c.mamba_head_dim;
  }
  check_size("--mamba-num-heads", c.mamba_num_heads, 1 << 20);
  if (c.hybrid_pattern.empty())
    c.hybrid_pattern.assign(static_cast<std::size_t>(c.num_layers), 'M');
  if (std::ssize(c.hybrid_pattern) != c.num_layers)
    fail(Exit::bad_config, "--hybrid-override-pattern ", c.hybrid_pattern, ": has ",
         c.hybrid_pattern.size(), " layers, expected ", c.num_layers);
  if (const std::size_t at = c.hybrid_pattern.find_first_not_of("M*-"); at != std::string::npos)
    fail(Exit::bad_config, "--hybrid-override-pattern ", c.hybrid_pattern, ": layer ",
         c.hybrid_pattern[at], " is not supported, expected M, * or -");
}

void ModelConfig::complete() {
  const bool relative = family == ModelFamily::t5 && position_embedding_type == "relative";
  if (relative) position_embedding_type = "none";  // to its stacks
  GptConfig::complete();
  if (relative) position_embedding_type = "relative";
  if (family == ModelFamily::t5) check_t5(*this);
  if (family == ModelFamily::mixtral) {
    check_size("--num-experts", num_experts, 4096);
    check_size("--moe-router-topk", moe_router_topk, num_experts);
    check_size("--num-experts of all layers:", num_experts * num_layers, 1 << 16);
    if (add_bias_linear || !swiglu)
      fail(Exit::bad_config, "--num-experts: converted with --swiglu and --disable-bias-linear");
  }
  if (family == ModelFamily::mamba) complete_mamba(*this);
}

// Puts `letter` for the M's that lie so many others apart.
static void spread(std::string& pattern, char letter, double apart) {
  double others = apart;
  for (char& layer : pattern) {
    if (layer != 'M') continue;
    if (others < 0.5) layer = letter;
    others += layer == letter ? apart : -1;
  }
}

std::string hybrid_pattern_of(std::int64_t layers, double attention_ratio, double mlp_ratio) {
  const auto share = [&](double ratio) {  // halves to even
    return std::nearbyint(static_cast<double>(layers) * ratio);
  };
  const double attention = share(attention_ratio), mlps = share(mlp_ratio),
               others = static_cast<double>(layers) - attention;
  std::string pattern(static_cast<std::size_t>(layers), 'M');
  spread(pattern, '*', others / (attention + 1));
  if (mlps > 0) spread(pattern, '-', (others - mlps) / mlps);
  return pattern;
}

// --- Megatron's args ----------------------------------------------------------------------------

static void add_experts(const ModelConfig& c, PyValue& args) {
  args.set_item("num_experts", c.num_experts);
  args.set_item("moe_router_topk", c.moe_router_topk);
  args.set_item("moe_router_load_balancing_type", "aux_loss");
  args.set_item("moe_aux_loss_coeff", c.moe_aux_loss_coeff);
  args.set_item("moe_router_pre_softmax", false);
  args.set_item("moe_layer_freq", 1);
  args.set_item("moe_ffn_hidden_size", c.ffn());
  args.set_item("moe_grouped_gemm", false);
  args.set_item("moe_use_legacy_grouped_gemm", false);
}

static void add_mamba(const ModelConfig& c, PyValue& args) {
  args.set_item("is_hybrid_model", true);
  args.set_item("hybrid_attention_ratio", 0.0);
  args.set_item("hybrid_mlp_ratio", 0.0);
  args.set_item("hybrid_override_pattern", c.hybrid_pattern);
  args.set_item(
      "spec", PyValue::list({"megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"}));
  args.set_item("mamba_state_dim", c.mamba_state_dim);
  args.set_item("mamba_head_dim", c.mamba_head_dim);
  if (c.mamba_inner() != 2 * c.hidden_size)  // which core_v0.12 does not know
    args.set_item("mamba_num_heads", c.mamba_num_heads);
  args.set_item("mamba_num_groups", c.mamba_num_groups);
}

static void add_t5(const ModelConfig& c, PyValue& args) {
  args.set_item("encoder_num_layers", c.encoder_num_layers);
  args.set_item("relative_attention_num_buckets", c.relative_attention_num_buckets);
  args.set_item("relative_attention_max_distance", c.relative_attention_max_distance);
  if (c.relu) args.set_item("activation_func", "relu");
  if (c.gated_gelu) args.set_item("gated_linear_unit", true);
  if (c.scale_decoder_outputs) args.set_item("scale_decoder_outputs", true);
}

void add_model_args(const ModelConfig& c, DType dtype, PyValue& args) {
  PyValue common = PyValue::dict();
  add_gpt_args(c, dtype, common);
  const std::vector<PyValue>& entries = common.entries("args");
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (c.family != ModelFamily::mixtral || !(entries[i] == PyValue("num_experts")))
      args.set_item(entries[i], entries[i + 1]);
  if (c.family == ModelFamily::mixtral) add_experts(c, args);
  if (c.family == ModelFamily::gemma) args.set_item("gated_linear_unit", true);
  if (c.family == ModelFamily::bert) args.set_item("bert_binary_head", true);
  if (c.family == ModelFamily::mamba) add_mamba(c, args);
  if (c.family == ModelFamily::t5) add_t5(c, args);
}

namespace {

// What of the args is for the other families.
class FamilyReader {
 public:
  FamilyReader(const PyValue& args, const std::string& where) : args_(args), where_(where) {}

  ModelFamily family(const std::function<bool(const std::string&)>& has_tensor) const {
    if (is_on("is_hybrid_model")) return ModelFamily::mamba;  // whose pattern tells of experts
    if (integer("num_experts", 0) > 0) return ModelFamily::mixtral;
    for (const char* layer : {"", "0."})  // where layers are stacked, and where they are not
      if (has_tensor(concat("decoder.layers.", layer, "cross_attention.linear_q.weight")))
        return ModelFamily::t5;
    if (is_on("gated_linear_unit") && !is_on("swiglu")) return ModelFamily::gemma;
    const bool bert = has_tensor("lm_head.dense.weight") ||
                      has_tensor("embedding.tokentype_embeddings.weight");  // on other stages
    return bert ? ModelFamily::bert : ModelFamily::gpt;
  }

  void read_experts(ModelConfig& c) const {
    c.num_experts = integer("num_experts", 0);
    c.moe_router_topk = integer("moe_router_topk", 2);
    if (const PyValue* v = given("moe_aux_loss_coeff")) c.moe_aux_loss_coeff = v->as_real(where_);
    if (const PyValue* v = given("moe_ffn_hidden_size")) c.ffn_hidden_size = v->as_integer(where_);
    refuse_if(integer("moe_shared_expert_intermediate_size", 0) > 0,
              "moe_shared_expert_intermediate_size");
    refuse_if(is_on("moe_router_enable_expert_bias"), "moe_router_enable_expert_bias");
    if (const PyValue* frequency = given("moe_layer_freq")) {
      const bool one = *frequency == PyValue(1);
      const bool ones = frequency->is(PyValue::Kind::list) &&
                        std::ranges::all_of(frequency->as_items(where_), [](const PyValue& layer) {
                          return layer == PyValue(1);
                        });
      refuse_if(!one && !ones, "moe_layer_freq");
    }
  }

  void read_mamba(ModelConfig& c) const {
    c.mamba_state_dim = integer("mamba_state_dim", 128);
    c.mamba_num_groups = integer("mamba_num_groups", 8);
    c.mamba_head_dim = integer("mamba_head_dim", 64);
    c.mamba_num_heads = integer("mamba_num_heads", 0);
    if (const PyValue* pattern = given("hybrid_override_pattern")) {
      c.hybrid_pattern = pattern->as_string(where_);
    } else {
      const double attention = share("hybrid_attention_ratio"), mlps = share("hybrid_mlp_ratio");
      refuse_if(attention + mlps > 1, "hybrid_mlp_ratio");
      c.hybrid_pattern = hybrid_pattern_of(c.num_layers, attention, mlps);
    }
  }

  void read_t5(ModelConfig& c) const {
    c.encoder_num_layers = integer("encoder_num_layers", c.num_layers);
    c.relative_attention_num_buckets = integer("relative_attention_num_buckets", 32);
    c.relative_attention_max_distance = integer("relative_attention_max_distance", 128);
    if (is_relative()) c.position_embedding_type = "relative";
    if (const PyValue* activation = given("activation_func")) {
      c.relu = *activation == PyValue("relu");
      refuse_if(!c.relu, "activation_func");
    }
    c.gated_gelu = is_on("gated_linear_unit") && !c.swiglu;
    c.scale_decoder_outputs = is_on("scale_decoder_outputs");
  }

  // The args as the model would have them if it were a GPT.
  PyValue plain_args(ModelFamily family) const {
    const bool relative = family == ModelFamily::t5 && is_relative();
    PyValue plain = PyValue::dict();
    const std::vector<PyValue>& entries = args_.entries(where_);
    for (std::size_t i = 0; i + 1 < entries.size(); i += 2) {
      const std::string& name = entries[i].as_string(where_);
      if (relative && name == "position_embedding_type")
        plain.set_item(entries[i], "none");
      else if (name != "num_experts" && name != "is_hybrid_model" && name != "gated_linear_unit")
        plain.set_item(entries[i], entries[i + 1]);
    }
    return plain;
  }

 private:
  bool is_relative() const {
    const PyValue* const kind = given("position_embedding_type");
    return kind != nullptr && *kind == PyValue("relative");
  }
  const PyValue* given(const char* name) const {
    const PyValue* const value = args_.find(name);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  std::int64_t integer(const char* name, std::int64_t otherwise) const {
    const PyValue* const value = given(name);
    return value == nullptr ? otherwise : value->as_integer(where_ + ": args." + name);
  }
  double share(const char* name) const {  // of the layers
    const PyValue* const value = given(name);
    const double ratio = value == nullptr ? 0 : value->as_real(where_ + ": args." + name);
    if (!(ratio >= 0 && ratio <= 1)) fail(Exit::bad_data, where_, ": args.", name, " is ", ratio);
    return ratio;
  }
  bool is_on(const char* name) const {
    const PyValue* const value = given(name);
    return value != nullptr && *value == PyValue(true);
  }
  void refuse_if(bool refused, const char* name) const {
    if (refused) fail(Exit::bad_data, where_, ": args.", name, ": is set to what is not supported");
  }
  const PyValue& args_;
  const std::string& where_;
};

}  // namespace

ModelConfig model_config_of(const PyValue& args,
                            const std::function<bool(const std::string&)>& has_tensor,
                            const std::string& where) {
  const FamilyReader reader(args, where);
  const ModelFamily family = reader.family(has_tensor);
  if (family == ModelFamily::gpt) return gpt_config_of(args, where);
  ModelConfig config = gpt_config_of(reader.plain_args(family), where);
  config.family = family;
  if (family == ModelFamily::mixtral) reader.read_experts(config);
  if (family == ModelFamily::mamba) reader.read_mamba(config);
  if (family == ModelFamily::t5) reader.read_t5(config);
  try {
    config.complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, where, ": args: ", error.what());
  }
  return config;
}

}  // namespace mt
