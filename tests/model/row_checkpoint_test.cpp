// Parameters into a torch_dist checkpoint and back.
#include "model/row_checkpoint.h"
#include "ckpt/dist_checkpoint.h"

#include <gtest/gtest.h>

#include "tests/base/scratch.h"
#include "tests/model/support.h"

namespace mt {
namespace {

void read_rows(const DistReader& reader, const ParamTable& table, const std::string& state = {}) {
  for (const Param& row : table.rows()) read_row(reader, row, state, row.value);
}

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
           const std::string& state = {}) {
  std::vector<WrittenFile> files;
  for (std::size_t rank = 0; rank < models.size(); ++rank) {
    DistWriter writer(folder, static_cast<int>(rank));
    for (const Param& row : models[rank]->table().rows())
      if (!row.copy) write_row(writer, row, state, row.value);
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
    EXPECT_SAME_BITS(values_of(again->table()), values_of(model->table()));
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
  EXPECT_SAME_BITS(values_of(back->table()), values_of(model->table()));
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
  EXPECT_SAME_BITS(values_of(whole->table()), values_of(model->table()));
  read_rows(DistReader(folder_), stage->table());
  EXPECT_SAME_BITS(values_of(stage->table()), values_of(b->table()));
}

TEST_P(Saved, KeysOfStatesAreOthers) {
  const auto model = make(config_, DType::f32, 1), again = make(config_, DType::f32, 2);
  write(folder_, {model.get()}, "exp_avg");
  const DistReader reader(folder_);
  read_rows(reader, again->table(), "exp_avg");
  EXPECT_SAME_BITS(values_of(again->table()), values_of(model->table()));
  expect_read(config_, ": has no tensor embedding.word_embeddings.weight");
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
      const Tensor& expected = model->table().at(row.name()).value;
      const std::int64_t common = std::min(row.shape[0], expected.shape()[0]);
      EXPECT_SAME_BITS(row.value.rows(0, common), expected.rows(0, common)) << row.name();
      EXPECT_EQ(largest(row.value.rows(common, row.shape[0])), 0) << row.name();
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
  expect_read(config_, ": has no tensor decoder.final_layernorm.weight");
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

}  // namespace
}  // namespace mt
