#include "model/gpt_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "tensor/host_copy.h"

namespace mt {

static PyValue params_dtype(DType dtype) { return PyValue::global("torch", name_of(dtype)); }

static PyValue optional(const std::optional<double>& value) {
  return value ? PyValue(*value) : PyValue();
}

// (A, B) for "A,B".
static PyValue window_tuple(const GptConfig& c) {
  if (c.window_size.empty()) return {};
  GptConfig everywhere = c;
  everywhere.window_attn_skip_freq.clear();
  return PyValue::tuple({everywhere.window(0), 0});
}

// A number, or a list with one for each layer.
static PyValue window_skips(const GptConfig& c) {
  const auto& skip = c.window_attn_skip_freq;
  if (skip.empty()) return {};
  if (skip.size() == 1) return skip[0];
  PyValue list = PyValue::list();
  for (const std::int64_t value : skip) list.append(value);
  return list;
}

void add_gpt_args(const GptConfig& c, DType dtype, PyValue& args) {
  const auto set = [&](const char* name, PyValue value) { args.set_item(name, std::move(value)); };
  const bool rope = c.position_embedding_type == "rope";
  set("num_layers", c.num_layers);
  set("hidden_size", c.hidden_size);
  set("ffn_hidden_size", c.ffn());
  set("num_attention_heads", c.num_attention_heads);
  set("group_query_attention", c.group_query_attention);
  set("num_query_groups", c.num_query_groups);
  set("kv_channels", c.head_dim());
  set("max_position_embeddings", c.max_position_embeddings);
  set("position_embedding_type", c.position_embedding_type);
  set("add_position_embedding", c.position_embedding_type == "learned_absolute");
  set("use_rotary_position_embeddings", rope);
  set("rotary_base", c.rotary_base);
  set("rotary_percent", c.rotary_percent);
  set("rotary_interleaved", c.rotary_interleaved);
  set("rotary_seq_len_interpolation_factor", optional(c.rotary_interpolation));
  set("use_rope_scaling", c.use_rope_scaling);
  set("rope_scaling_factor", c.rope_scaling_factor);
  set("window_size", window_tuple(c));
  set("window_attn_skip_freq", window_skips(c));
  set("normalization", c.normalization);
  set("norm_epsilon", c.norm_epsilon);
  set("apply_layernorm_1p", c.apply_layernorm_1p);
  set("qk_layernorm", c.qk_layernorm);
  set("swiglu", c.swiglu);
  set("squared_relu", c.squared_relu);
  set("bias_gelu_fusion", c.bias_gelu_fusion && c.add_bias_linear);
  set("add_bias_linear", c.add_bias_linear);
  set("add_qkv_bias", c.has_qkv_bias());
  set("untie_embeddings_and_output_weights", c.untie_embeddings_and_output_weights);
  set("apply_query_key_layer_scaling", false);
  set("attention_dropout", c.attention_dropout);
  set("hidden_dropout", c.hidden_dropout);
  set("label_smoothing", c.label_smoothing);
  set("init_method_std", c.init_method_std);
  set("init_method_xavier_uniform", c.init_method_xavier_uniform);
  set("num_experts", PyValue());
  set("make_vocab_size_divisible_by", c.make_vocab_size_divisible_by);
  set("vocab_size", c.vocab_size);
  set("padded_vocab_size", c.padded_vocab_size);
  set("params_dtype", params_dtype(dtype));
  set("bf16", dtype == DType::bf16);
  set("fp16", dtype == DType::f16);
}

// Reads attributes of `args`; an absent one leaves the variable as it is.
namespace {
class ArgsReader {
 public:
  ArgsReader(const PyValue& args, const std::string& where) : args_(args), where_(where) {}
  void get(const char* name, std::int64_t& value) const {
    if (const PyValue* v = present(name)) value = v->as_integer(path(name));
  }
  void get(const char* name, std::optional<std::int64_t>& value) const {
    if (const PyValue* v = present(name)) value = v->as_integer(path(name));
  }
  void get(const char* name, double& value) const {
    if (const PyValue* v = present(name)) value = v->as_real(path(name));
  }
  void get(const char* name, std::optional<double>& value) const {
    if (const PyValue* v = present(name)) value = v->as_real(path(name));
  }
  void get(const char* name, bool& value) const {
    if (const PyValue* v = present(name)) value = v->as_bool(path(name));
  }
  void get(const char* name, std::string& value) const {
    if (const PyValue* v = present(name)) value = v->as_string(path(name));
  }
  // One integer, or a list or tuple of them.
  void get(const char* name, std::vector<std::int64_t>& values) const {
    const PyValue* v = present(name);
    if (v == nullptr) return;
    values.clear();
    if (v->is(PyValue::Kind::integer)) return values.push_back(v->as_integer(path(name)));
    for (const PyValue& item : v->as_items(path(name)))
      values.push_back(item.as_integer(path(name)));
  }
  // A setting that changes the mathematics in a way that this model lacks; off is None, False or 0.
  void refuse(const char* name) const {
    const PyValue* v = present(name);
    if (v == nullptr || *v == PyValue(false) || *v == PyValue(0) || *v == PyValue(0.0)) return;
    fail(Exit::bad_data, path(name), ": is set, which is not supported");
  }

 private:
  const PyValue* present(const char* name) const {
    const PyValue* value = args_.find(name);
    return value == nullptr || value->is_none() ? nullptr : value;
  }
  std::string path(const char* name) const { return where_ + ": args." + name; }
  const PyValue& args_;
  const std::string& where_;
};
}  // namespace

GptConfig gpt_config_of(const PyValue& args, const std::string& where) {
  const ArgsReader reader(args, where);
  GptConfig c;
  reader.get("num_layers", c.num_layers);
  reader.get("hidden_size", c.hidden_size);
  reader.get("ffn_hidden_size", c.ffn_hidden_size);
  reader.get("num_attention_heads", c.num_attention_heads);
  reader.get("group_query_attention", c.group_query_attention);
  reader.get("num_query_groups", c.num_query_groups);
  reader.get("kv_channels", c.kv_channels);
  reader.get("max_position_embeddings", c.max_position_embeddings);
  reader.get("position_embedding_type", c.position_embedding_type);
  reader.get("rotary_base", c.rotary_base);
  reader.get("rotary_percent", c.rotary_percent);
  reader.get("rotary_interleaved", c.rotary_interleaved);
  reader.get("rotary_seq_len_interpolation_factor", c.rotary_interpolation);
  reader.get("use_rope_scaling", c.use_rope_scaling);
  reader.get("rope_scaling_factor", c.rope_scaling_factor);
  std::vector<std::int64_t> window;
  reader.get("window_size", window);
  if (!window.empty()) c.window_size = concat(window.front(), ",", window.back());
  reader.get("window_attn_skip_freq", c.window_attn_skip_freq);
  reader.get("normalization", c.normalization);
  reader.get("norm_epsilon", c.norm_epsilon);
  reader.get("apply_layernorm_1p", c.apply_layernorm_1p);
  reader.get("qk_layernorm", c.qk_layernorm);
  reader.get("swiglu", c.swiglu);
  reader.get("squared_relu", c.squared_relu);
  reader.get("bias_gelu_fusion", c.bias_gelu_fusion);
  reader.get("add_bias_linear", c.add_bias_linear);
  reader.get("add_qkv_bias", c.add_qkv_bias);
  reader.get("untie_embeddings_and_output_weights", c.untie_embeddings_and_output_weights);
  reader.get("attention_dropout", c.attention_dropout);
  reader.get("hidden_dropout", c.hidden_dropout);
  reader.get("label_smoothing", c.label_smoothing);
  reader.get("init_method_std", c.init_method_std);
  reader.get("init_method_xavier_uniform", c.init_method_xavier_uniform);
  reader.get("make_vocab_size_divisible_by", c.make_vocab_size_divisible_by);
  reader.get("vocab_size", c.vocab_size);
  reader.get("padded_vocab_size", c.padded_vocab_size);
  for (const char* name :
       {"multi_latent_attention", "num_experts", "mtp_num_layers", "is_hybrid_model",
        "no_rope_freq", "qk_l2_norm", "quick_geglu", "glu_linear_offset",
        "activation_func_clamp_value", "attention_output_gate", "use_mup", "gated_linear_unit"})
    reader.refuse(name);
  try {
    c.complete();
  } catch (const Error& error) {
    fail(Exit::bad_data, where, ": args: ", error.what());
  }
  return c;
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

// The offset of a part of a row in its item.
static Shape offset_of(const Param& row, const Cut& cut) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(row.shape.rank()), 0);
  begin[static_cast<std::size_t>(row.dimension)] = cut.global;
  const Shape offset{std::span<const std::int64_t>(begin)};
  return row.layer ? offset.with_front(*row.layer) : offset;
}

// The elements of a cut in a tensor of this rank's part of a row.
static Tensor part_of(const Param& row, const Cut& cut, const Tensor& tensor) {
  if (row.cuts.size() == 1) return tensor;
  if (row.dimension != 0)
    fail(Exit::internal, row.name, ": ", row.cuts.size(), " cuts of dimension ", row.dimension);
  return tensor.rows(cut.local, cut.local + cut.extent);
}

static Tensor as_stored(const Param& row, const Tensor& tensor) {
  return row.layer ? tensor.reshape(tensor.shape().with_front(1)) : tensor;
}

void write_row(DistWriter& writer, const Param& row, const std::string& prefix,
               const Tensor& tensor) {
  const HostCopy here = HostCopy::of(tensor);
  for (const Cut& cut : row.cuts)
    writer.add(prefix + row.key, row.key_shape(), offset_of(row, cut),
               as_stored(row, part_of(row, cut, here.tensor())));
}

Shape reformulated(const Param& row, std::int64_t layers, std::int64_t others, std::int64_t cut,
                   std::int64_t last) {
  Shape shape{last};
  for (int i = row.shape.rank(); i-- > 0;)
    shape = shape.with_front(i == row.dimension ? cut : others);
  return row.layer ? shape.with_front(layers) : shape;
}

void write_extra_states(DistWriter& writer, const GptConfig& config) {
  const auto none = PyValue::list({PyValue()});
  std::vector<const char*> modules = {"self_attention.linear_qkv", "self_attention.linear_proj",
                                      "self_attention.core_attention", "mlp.linear_fc1",
                                      "mlp.linear_fc2"};
  if (config.qk_layernorm)
    modules.insert(modules.end(), {"self_attention.q_layernorm", "self_attention.k_layernorm"});
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer)
    for (const char* module : modules)
      writer.add_object(
          concat("decoder.layers.", module, "._extra_state/shard_", layer, "_", config.num_layers),
          none);
  writer.add_object("decoder.final_layernorm._extra_state/shard_0_1", none);
}

bool is_vocabulary(const Param& row) { return row.segments.front().name == "vocab"; }

void check_all_used(const DistReader& reader, const ParamTable& table) {
  std::set<std::string> used;
  for (const Param& row : table.rows()) used.insert(row.key);
  for (const auto& [key, tensor] : reader.tensors())
    if (key.find("optimizer.") == std::string::npos && !used.contains(key))
      fail(Exit::bad_data, reader.folder(), ": tensor ", key,
           " has no place in the model that its settings describe");
}

void read_row(const DistReader& reader, const Param& row, const std::string& prefix,
              const Tensor& to) {
  const HostCopy here = HostCopy::for_writing(to);
  const std::string key = prefix + row.key;
  const DistTensor* stored = reader.find(key);
  if (stored == nullptr) fail(Exit::bad_data, reader.folder(), ": no tensor ", key);
  const Shape expected = row.key_shape();
  Shape shape = stored->original_shape.value_or(stored->shape);
  const bool other_padding = is_vocabulary(row) && shape.rank() == 2 && shape[1] == expected[1];
  if (!(shape == expected) && !other_padding)
    fail(Exit::bad_data, reader.folder(), ": tensor ", key, " is ", shape, ", expected ", expected);
  for (const Cut& cut : row.cuts) {
    Tensor into = part_of(row, cut, here.tensor());
    if (other_padding && shape[0] < cut.global + cut.extent) {
      std::memset(into.data(), 0, into.bytes());
      into = into.rows(0, std::max<std::int64_t>(0, shape[0] - cut.global));
      if (into.numel() == 0) continue;
    }
    if (stored->original_shape)
      reader.read_original(key, offset_of(row, cut), as_stored(row, into));
    else
      reader.read_as(key, offset_of(row, cut), as_stored(row, into));
  }
  here.upload();
}

void read_rows(const DistReader& reader, ParamTable& table, const std::string& prefix) {
  for (const Param& row : table.rows()) read_row(reader, row, prefix, row.value);
}

}  // namespace mt
