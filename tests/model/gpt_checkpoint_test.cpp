// Parameters and settings into a torch_dist checkpoint and back.
#include "model/gpt_checkpoint.h"

#include <gtest/gtest.h>

#include "model/config/megatron_args.h"
#include "tests/base/scratch.h"
#include "tests/model/support.h"

namespace mt {
namespace {

std::unique_ptr<Gpt> make(const ModelConfig& config, DType dtype, const StageRange& range,
                          std::uint64_t seed) {
  auto model = std::make_unique<Gpt>(config, StageRanges{range});
  Stream stream(Device::cpu);
  model->table().allocate(Device::cpu, dtype, false);
  model->initialize(seed, stream);
  return model;
}
std::unique_ptr<Gpt> make(const ModelConfig& config, DType dtype, std::uint64_t seed) {
  return make(config, dtype, {0, config.num_layers, true, true}, seed);
}

// One writer for each model, as its rank.
void write(const std::string& folder, const std::vector<const Gpt*>& models,
           const std::string& prefix = {}) {
  std::vector<WrittenFile> files;
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    DistWriter writer(folder, static_cast<int>(rank));
    for (const Param& row : models[rank]->table().rows())
      if (!row.copy) write_row(writer, row, prefix, row.value);
    files.push_back(writer.close());
  }
  write_dist_metadata(folder, files);
}

class Saved : public testing::TestWithParam<bool> {
 protected:
  const ModelConfig config_ = GetParam() ? tiny_llama() : tiny_gpt2();
  Scratch scratch_;
  const std::string folder_ = scratch_.path("");

  void expect_read(const ModelConfig& config, const std::string& error) {
    const auto model = make(config, DType::f32, 2);
    const DistReader reader(folder_);
    EXPECT_EQ(error_of([&] { read_rows(reader, model->table()); }), concat("65 ", folder_, error));
  }
};
INSTANTIATE_TEST_SUITE_P(Gpt, Saved, testing::Bool(),
                         [](const auto& param) { return param.param ? "llama" : "gpt2"; });

TEST_P(Saved, ComesBackBitForBit) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto model = make(config_, dtype, 1), again = make(config_, dtype, 2);
    write(folder_, {model.get()});
    read_rows(DistReader(folder_), again->table());
    EXPECT_SAME_BITS(again->table().values(), model->table().values());
  }
}

TEST_P(Saved, KeysAndShapesAreMegatrons) {
  write(folder_, {make(config_, DType::f32, 1).get()});
  const DistReader reader(folder_);
  const auto shape_of = [&](const std::string& key) {
    const DistTensor* tensor = reader.find(key);
    return tensor ? tensor->shape : Shape{};
  };
  const bool llama = GetParam();
  EXPECT_EQ(shape_of("embedding.word_embeddings.weight"), (Shape{24, 16}));
  EXPECT_EQ(shape_of("decoder.layers.self_attention.linear_qkv.weight"),
            (Shape{2, llama ? 32 : 48, 16}));
  EXPECT_EQ(shape_of("decoder.layers.self_attention.linear_qkv.layer_norm_weight"), (Shape{2, 16}));
  EXPECT_EQ(shape_of("decoder.layers.mlp.linear_fc1.weight"), (Shape{2, llama ? 80 : 64, 16}));
  EXPECT_EQ(shape_of("decoder.final_layernorm.weight"), Shape{16});
  EXPECT_EQ(reader.tensors().size(), llama ? 9U : 16U);
  EXPECT_EQ(reader.find("output_layer.weight") != nullptr, llama);
}

TEST_P(Saved, ReadsInTheOtherPrecision) {
  const auto model = make(config_, DType::f32, 1), again = make(config_, DType::f64, 2),
             back = make(config_, DType::f32, 3);
  write(folder_, {model.get()});
  read_rows(DistReader(folder_), again->table());
  const Scratch other;
  write(other.path(""), {again.get()});
  read_rows(DistReader(other.path("")), back->table());
  EXPECT_SAME_BITS(back->table().values(), model->table().values());
}

TEST_P(Saved, StagesWriteAndReadOneCheckpoint) {
  ModelConfig untied = config_;
  untied.untie_embeddings_and_output_weights = true;
  const StageRange first{0, 1, true, false}, last{1, 2, false, true};
  const auto model = make(untied, DType::f32, 1);
  const auto a = make(untied, DType::f32, first, 1), b = make(untied, DType::f32, last, 1);
  write(folder_, {a.get(), b.get()});
  const auto whole = make(untied, DType::f32, 2), stage = make(untied, DType::f32, last, 2);
  read_rows(DistReader(folder_), whole->table());
  EXPECT_SAME_BITS(whole->table().values(), model->table().values());
  read_rows(DistReader(folder_), stage->table());
  EXPECT_SAME_BITS(stage->table().values(), b->table().values());
}

TEST_P(Saved, PrefixedKeysAreOthers) {
  const auto model = make(config_, DType::f32, 1), again = make(config_, DType::f32, 2);
  write(folder_, {model.get()}, "optimizer.state.exp_avg.");
  const DistReader reader(folder_);
  read_rows(reader, again->table(), "optimizer.state.exp_avg.");
  EXPECT_SAME_BITS(again->table().values(), model->table().values());
  expect_read(config_, ": no tensor embedding.word_embeddings.weight");
}

TEST_P(Saved, AnotherVocabularyIsCutOrFilledWithZeros) {
  const auto model = make(config_, DType::f32, 1);
  write(folder_, {model.get()});
  for (const std::int64_t rows : {16, 40}) {
    ModelConfig config = config_;
    config.vocab_size = config.padded_vocab_size = rows;
    const auto again = make(config, DType::f32, 2);
    read_rows(DistReader(folder_), again->table());
    for (const Param& row : again->table().rows()) {
      const Tensor& expected = model->table().at(row.name).value;
      const std::int64_t common = std::min(row.shape[0], expected.shape()[0]);
      EXPECT_SAME_BITS(row.value.rows(0, common), expected.rows(0, common)) << row.name;
      EXPECT_EQ(largest(row.value.rows(common, row.shape[0])), 0) << row.name;
    }
  }
}

TEST_P(Saved, AnotherShapeIsNamed) {
  write(folder_, {make(config_, DType::f32, 1).get()});
  ModelConfig config = config_;
  config.ffn_hidden_size = 48;
  expect_read(config, GetParam() ? ": tensor decoder.layers.mlp.linear_fc1.weight is [2, 80, 16], "
                                   "expected [2, 96, 16]"
                                 : ": tensor decoder.layers.mlp.linear_fc1.weight is [2, 64, 16], "
                                   "expected [2, 48, 16]");
  config = config_;
  config.num_layers = 3;
  expect_read(config,
              ": tensor decoder.layers.self_attention.linear_qkv.layer_norm_weight is [2, "
              "16], expected [3, 16]");
  config = config_;
  config.hidden_size = 32;
  expect_read(config, ": tensor embedding.word_embeddings.weight is [24, 16], expected [24, 32]");
}

TEST_P(Saved, AMissingTensorIsNamed) {
  write(folder_, {make(config_, DType::f32, {0, 2, true, false}, 1).get()});
  expect_read(config_, ": no tensor decoder.final_layernorm.weight");
}

TEST_P(Saved, ExtraStatesAreEmpty) {
  DistWriter writer(folder_, 0);
  write_extra_states(writer, config_);
  write_dist_metadata(folder_, {writer.close()});
  const DistReader reader(folder_);
  EXPECT_EQ(reader.objects().size(), 11U);
  EXPECT_EQ(reader.read_object("decoder.layers.mlp.linear_fc2._extra_state/shard_1_2"),
            PyValue::list({PyValue()}));
  EXPECT_TRUE(reader.objects().contains("decoder.final_layernorm._extra_state/shard_0_1"));
}

// --- Settings
// -------------------------------------------------------------------------------------

PyValue args_of(const ModelConfig& config, DType dtype = DType::f32) {
  PyValue args = PyValue::dict();
  add_model_args(config, dtype, args);
  return args;
}

std::vector<ModelConfig> different_configs() {
  ModelConfig odd = tiny_llama();
  odd.kv_channels = 6;
  odd.rotary_base = 500000;
  odd.rotary_percent = 0.67;
  odd.norm_epsilon = 1e-6;
  odd.add_qkv_bias = true;
  odd.untie_embeddings_and_output_weights = false;
  odd.init_method_std = 0.01;
  odd.vocab_size = 23;
  ModelConfig erf = tiny_gpt2();
  erf.bias_gelu_fusion = false;
  ModelConfig without_bias = tiny_gpt2();
  without_bias.add_bias_linear = false;
  without_bias.position_embedding_type = "none";
  ModelConfig rotary = tiny_llama();
  rotary.rotary_interleaved = rotary.use_rope_scaling = rotary.qk_layernorm = true;
  rotary.rope_scaling_factor = 32;
  rotary.rotary_interpolation = 4;
  rotary.window_size = "5,0";
  rotary.label_smoothing = 0.1;
  ModelConfig relu = tiny_gpt2();
  relu.squared_relu = relu.apply_layernorm_1p = relu.init_method_xavier_uniform = true;
  relu.bias_gelu_fusion = false;
  relu.window_size = "-1,0";
  relu.window_attn_skip_freq = {0, 1};
  ModelConfig skipping = rotary;
  skipping.window_attn_skip_freq = {2};
  return {
      tiny_gpt2(), with_dropout(tiny_gpt2()), tiny_llama(), odd, erf, without_bias, rotary, relu,
      skipping};
}

TEST(GptArgs, ThereAndBackIsTheSameModel) {
  for (const ModelConfig& config : different_configs()) {
    const PyValue args = args_of(config);
    const ModelConfig again = model_config_of(args, ModelFamily::gpt, "common.pt");
    EXPECT_EQ(args_of(again), args);
    EXPECT_EQ(again.num_layers, config.num_layers);
    EXPECT_EQ(again.hidden_size, config.hidden_size);
    EXPECT_EQ(again.ffn(), config.ffn());
    EXPECT_EQ(again.num_attention_heads, config.num_attention_heads);
    EXPECT_EQ(again.kv_heads(), config.kv_heads());
    EXPECT_EQ(again.head_dim(), config.head_dim());
    EXPECT_EQ(again.max_position_embeddings, config.max_position_embeddings);
    EXPECT_EQ(again.position_embedding_type, config.position_embedding_type);
    EXPECT_EQ(again.rotary_dim(), config.rotary_dim());
    EXPECT_EQ(again.rotary_base, config.rotary_base);
    EXPECT_EQ(again.rotary_interleaved, config.rotary_interleaved);
    EXPECT_EQ(again.rotary_frequencies(), config.rotary_frequencies());
    for (std::int64_t layer = 0; layer < config.num_layers; ++layer)
      EXPECT_EQ(again.window(layer), config.window(layer));
    EXPECT_EQ(again.qk_layernorm, config.qk_layernorm);
    EXPECT_EQ(again.apply_layernorm_1p, config.apply_layernorm_1p);
    EXPECT_EQ(again.label_smoothing, config.label_smoothing);
    EXPECT_EQ(again.init_method_xavier_uniform, config.init_method_xavier_uniform);
    EXPECT_EQ(again.norm_kind(), config.norm_kind());
    EXPECT_EQ(again.norm_epsilon, config.norm_epsilon);
    EXPECT_EQ(again.activation(), config.activation());
    EXPECT_EQ(again.add_bias_linear, config.add_bias_linear);
    EXPECT_EQ(again.has_qkv_bias(), config.has_qkv_bias());
    EXPECT_EQ(again.untie_embeddings_and_output_weights,
              config.untie_embeddings_and_output_weights);
    EXPECT_EQ(again.attention_dropout, config.attention_dropout);
    EXPECT_EQ(again.hidden_dropout, config.hidden_dropout);
    EXPECT_EQ(again.init_method_std, config.init_method_std);
    EXPECT_EQ(again.vocab_size, config.vocab_size);
    EXPECT_EQ(again.padded_vocab_size, config.padded_vocab_size);
  }
}

TEST(GptArgs, OfANamespaceToo) {
  const PyValue args =
      PyValue::make(PyValue::global("argparse", "Namespace"), args_of(tiny_llama()));
  EXPECT_EQ(model_config_of(args, ModelFamily::gpt, "common.pt").num_query_groups, 2);
}

TEST(GptArgs, SaysWhatIsWrongWithThem) {
  const auto complaint = [](const char* name, PyValue value) {
    PyValue args = args_of(tiny_llama());
    args.set_item(name, std::move(value));
    return error_of([&] { model_config_of(args, ModelFamily::gpt, "common.pt"); });
  };
  EXPECT_EQ(complaint("num_layers", "two"),
            "65 common.pt: args.num_layers: is a str, expected an int");
  EXPECT_EQ(complaint("window_size", PyValue::tuple({3, 3})),
            "65 common.pt: args: --window-size 3,3: expected A,0: A tokens before, or -1 for all, "
            "and none after");
  EXPECT_EQ(complaint("multi_latent_attention", true),
            "65 common.pt: args.multi_latent_attention: is set, which is not supported");
  EXPECT_EQ(complaint("num_experts", 8),
            "65 common.pt: args.num_experts: is set, which is not supported");
  EXPECT_EQ(complaint("num_query_groups", 3),
            "65 common.pt: args: --num-query-groups 3: does not divide --num-attention-heads 4");
  EXPECT_EQ(error_of([] { model_config_of(PyValue::dict(), ModelFamily::gpt, "common.pt"); }),
            "65 common.pt: args: --num-layers: required, by the option or a checkpoint");
}

TEST(GptArgs, Precision) {
  EXPECT_EQ(dtype_of_args(args_of(tiny_gpt2()), "x"), DType::f32);
  EXPECT_EQ(dtype_of_args(args_of(tiny_gpt2(), DType::f64), "x"), DType::f64);
  EXPECT_EQ(dtype_of_args(PyValue::dict(), "x"), DType::f32);
  EXPECT_EQ(dtype_of_args(args_of(tiny_gpt2(), DType::bf16), "x"), DType::bf16);
  PyValue args = PyValue::dict({{"params_dtype", PyValue::global("torch", "int8")}});
  EXPECT_EQ(error_of([&] { dtype_of_args(args, "common.pt"); }),
            "65 common.pt: args.params_dtype: is int8, expected a floating-point type of torch");
  args = PyValue::dict({{"params_dtype", "float32"}});
  EXPECT_EQ(error_of([&] { dtype_of_args(args, "common.pt"); }),
            "65 common.pt: args.params_dtype: is a str, expected a floating-point type of torch");
}

}  // namespace
}  // namespace mt
