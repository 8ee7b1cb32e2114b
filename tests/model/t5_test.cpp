// T5: gradients, goldens of another implementation, and stages that make one model.
#include "model/families/t5.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/layers.h"
#include "model/model_table.h"
#include "model/sharing_stages.h"
#include "tests/model/model_bench.h"
#include "tests/support/derivative.h"

namespace mt {
namespace {

ModelConfig tiny(const char* positions, std::int64_t encoders = 2, std::int64_t decoders = 2) {
  ModelConfig c;
  c.family = ModelFamily::t5;
  c.encoder_num_layers = encoders;
  c.num_layers = decoders;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.ffn_hidden_size = 32;
  c.max_position_embeddings = 8;
  c.vocab_size = 16;
  c.make_vocab_size_divisible_by = 16;
  c.attention_dropout = c.hidden_dropout = 0;
  c.bias_gelu_fusion = false;
  c.init_method_std = 0.3;  // so that no gradient is small
  c.position_embedding_type = positions;
  c.relative_attention_num_buckets = 8;
  c.relative_attention_max_distance = 6;
  c.complete();
  return c;
}

std::int64_t all_layers(const ModelConfig& c) { return c.encoder_num_layers + c.num_layers; }

// A model or a stage of one, its memory, and the micro-batch of families.md 16.4: two sequences of
// eight tokens for the encoder and of six for the decoder, of which the first have six and four.
class Bench final : public ModelBench<T5> {
 public:
  Bench(const ModelConfig& config, const StageRange& range, bool deferring = false)
      : ModelBench(config, range, {.sequences = 2, .seq_length = 6, .deferring = deferring}) {
    for (std::int64_t i = 0; i < 16; ++i)
      encoder_positions_.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 8);
    fill_with(weight(), [](std::int64_t i) { return i == 4 || i == 5 ? 0 : 0.1; });
  }
  explicit Bench(const ModelConfig& config, bool deferring = false)
      : Bench(config, {0, all_layers(config), true, true}, deferring) {}

 private:
  Fields batch() const override {
    Fields batch;
    batch[Field::encoder_ids] = encoder_ids_;
    batch[Field::encoder_positions] = encoder_positions_;
    batch[Field::encoder_lengths] = lengths_;
    batch[Field::ids] = ids_;
    batch[Field::labels] = labels_;
    return batch;
  }

  HostTensor encoder_ids_{{16}, {5, 7, 9, 14, 6, 4, 0, 0, 3, 14, 8, 15, 2, 11, 10, 12}},
      encoder_positions_{DType::i32, {16}}, lengths_{{2}, {6, 8}},
      ids_{{12}, {1, 14, 8, 5, 0, 0, 1, 14, 6, 15, 7, 13}},
      labels_{{12}, {14, 8, 5, 2, 0, 0, 14, 6, 15, 7, 13, 2}};
};

struct NamedConfig {
  const char* name;
  ModelConfig config;
};
void PrintTo(const NamedConfig& c, std::ostream* out) { *out << c.name; }
std::string name_of_case(const testing::TestParamInfo<NamedConfig>& info) {
  return info.param.name;
}

std::vector<NamedConfig> configs() {
  ModelConfig llama = tiny("rope", 1, 3);
  llama.swiglu = true;
  llama.add_bias_linear = false;
  llama.normalization = "RMSNorm";
  llama.kv_channels = 6;
  llama.untie_embeddings_and_output_weights = true;
  llama.complete();
  ModelConfig gated = tiny("relative", 1, 1);
  gated.gated_gelu = true;
  ModelConfig dropping = tiny("relative", 2, 1);
  dropping.attention_dropout = 0.2;
  dropping.hidden_dropout = 0.1;
  ModelConfig again = dropping;
  again.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  ModelConfig selective = dropping;
  selective.recompute = {.granularity = "selective", .modules = {"core_attn", "mlp", "layernorm"}};
  return {{"learned", tiny("learned_absolute")},
          {"rope", tiny("rope")},
          {"relative", tiny("relative")},
          {"none", tiny("none", 3, 1)},
          {"llama", llama},
          {"gated", gated},
          {"dropping", dropping},
          {"recomputed", again},
          {"partly_recomputed", selective}};
}

class EveryT5 : public testing::TestWithParam<NamedConfig> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
};
INSTANTIATE_TEST_SUITE_P(Of, EveryT5, testing::ValuesIn(configs()), name_of_case);

TEST_P(EveryT5, BackwardIsTheDerivativeOfTheObjective) {
  Bench bench(config());
  bench.forward_and_backward();
  for (Param& row : bench.table().rows()) {
    EXPECT_GT(largest(row.grad), 0) << row.name();
    expect_gradient(
        row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
  }
}

TEST_P(EveryT5, DeferredWeightGradientsHaveTheSameBits) {
  Bench bench(config()), deferring(config(), true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

// Shapes of the tensors that are there.
void expect_shapes(const Wire& wire, const WireShapes& shapes) {
  for (std::size_t i = 0; i < kWireTensors; ++i) {
    ASSERT_EQ(bool(wire.tensors[i]), shapes[i].rank() > 0) << i;
    if (!wire.tensors[i]) continue;
    EXPECT_EQ(wire.tensors[i].shape(), shapes[i]) << i;
  }
}

// Wherever both stacks are cut into stages, they compute what one does, bit for bit but for rows
// that several have, whose gradients add up.
TEST_P(EveryT5, StagesMakeOneModel) {
  const std::int64_t layers = all_layers(config());
  Bench whole(config());
  whole.forward_and_backward();
  for (std::int64_t first = 0; first <= layers; ++first)
    for (std::int64_t second = first; second <= layers; ++second) {
      SCOPED_TRACE(testing::Message() << "cut at " << first << " and " << second);
      std::deque<Bench> stages;
      stages.emplace_back(config(), StageRange{0, first, true, false});
      stages.emplace_back(config(), StageRange{first, second, false, false});
      stages.emplace_back(config(), StageRange{second, layers, false, true});
      Wire wire;
      for (Bench& stage : stages) {
        stage.clear_gradients();
        wire = stage.forward(wire);
        if (&stage != &stages.back()) expect_shapes(wire, stage.wire(Model::Side::after));
      }
      EXPECT_SAME_BITS(stages.back().loss(), whole.loss());
      wire = {};
      for (std::size_t i = 3; i-- > 0;) {
        wire = stages[i].backward(wire);
        if (i > 0) expect_shapes(wire, stages[i].wire(Model::Side::before));
      }
      for (const Param& row : whole.table().rows()) {
        HostTensor sum(DType::f64, row.shape);
        int owners = 0, holders = 0;
        for (Bench& stage : stages)
          for (const Param& part : stage.table().rows()) {
            if (part.name() != row.name()) continue;
            owners += !part.copy;
            ++holders;
            fill_with(sum, [&](std::int64_t k) { return element(sum, k) + element(part.grad, k); });
          }
        EXPECT_EQ(owners, 1) << row.name();
        EXPECT_TENSORS_NEAR(sum, row.grad, 1e-13) << row.name();
        // Those that hold it are those that are told to have it in common.
        for (Bench& stage : stages)
          for (const Param& part : stage.table().rows())
            if (part.name() == row.name() && part.shared) {
              const auto sets = sharing_ranks({{0, first, true, false},
                                               {first, second, false, false},
                                               {second, layers, false, true}},
                                              3, layers_of(config()));
              EXPECT_EQ(std::ssize(sets.at(static_cast<std::size_t>(part.sharing_stages))), holders)
                  << row.name();
            }
      }
    }
}

// As sharded_state_dict() and the optimizer's of megatron-core 0.12.1 have them.
TEST(T5Keys, PositionsAndOutputAreThereTwice) {
  Bench bench(tiny("learned_absolute"));
  const auto keys = [&](const char* name) {
    const Param& row = bench.table().at(name);
    std::vector<std::string> found;
    for (const KeyPart& part : key_parts(row)) found.push_back(part.key);
    found.push_back(key_of(row, {.of_state = true}));
    return found;
  };
  EXPECT_EQ(keys("embedding.position_embeddings.weight"),
            (std::vector<std::string>{"embedding.position_embeddings.weight",
                                      "position_embeddings.weight", "position_embeddings.weight"}));
  EXPECT_EQ(keys("lm_head.output_layer.bias"),
            (std::vector<std::string>{"lm_head.output_layer.bias", "output_layer.bias",
                                      "output_layer.bias"}));
  EXPECT_EQ(keys("embedding.word_embeddings.weight").size(), 2);
}

// --- Goldens: megatron-core 0.12.1, families.md 16.4 ---------------------------------------------

// Tensors in the order of their names in Megatron's local specification.
void fill_golden(ParamTable& table) {
  std::vector<Param*> rows;
  for (Param& row : table.rows()) rows.push_back(&row);
  const auto name = [](const Param* row) { return local_spec_place(row->place).name(); };
  std::ranges::sort(rows, {}, name);
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const std::string of = name(rows[t]);
    const bool norm = of.find("norm") != std::string::npos && of.ends_with("weight");
    fill_with(rows[t]->value, [&](std::int64_t i) {
      const double wave = std::sin(0.7 * static_cast<double>(i + 1) + 0.9 * static_cast<double>(t));
      return norm ? 1 + 0.1 * wave : 0.2 * wave;
    });
  }
}

struct Golden {
  const char* positions;
  std::vector<double> losses;  // of the second sequence
  double mean, words, qkv, kv, bias;
};

class T5Golden : public testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(
    Of, T5Golden,
    testing::Values(Golden{"learned_absolute",
                           {3.102345, 2.732137, 2.635196, 2.491954, 3.060917, 2.875993},
                           2.8692884,
                           .874835,
                           .020092,
                           .271910,
                           .283395},
                    Golden{"rope",
                           {2.729777, 2.560329, 2.683679, 3.166957, 2.554389, 2.354158},
                           2.7500823,
                           .949381,
                           .047585,
                           .144181,
                           .275438}));

TEST_P(T5Golden, LossesAndGradients) {
  const Golden& golden = GetParam();
  Bench bench(tiny(golden.positions));
  fill_golden(bench.table());
  bench.forward_and_backward();
  for (std::size_t i = 0; i < golden.losses.size(); ++i)
    EXPECT_NEAR(element(bench.loss(), static_cast<std::int64_t>(6 + i)), golden.losses[i], 2e-6)
        << i;
  EXPECT_NEAR(bench.objective(), golden.mean, 1e-6);
  const auto norm = [&](const char* name) {
    const Tensor grad = bench.table().at(name).grad;
    return std::sqrt(dot_of(grad, grad));
  };
  EXPECT_NEAR(norm("embedding.word_embeddings.weight"), golden.words, 2e-6);
  EXPECT_NEAR(norm("encoder.layers.0.self_attention.linear_qkv.weight"), golden.qkv, 2e-6);
  EXPECT_NEAR(norm("decoder.layers.1.cross_attention.linear_kv.weight"), golden.kv, 2e-6);
  EXPECT_NEAR(norm("lm_head.output_layer.bias"), golden.bias, 2e-6);
}

// Two layers over 16 tokens, three over 6: a layer has 768 weights, its cross-attention 256, half
// of which meet the encoder's tokens, and the head 128.
TEST(T5Sizes, FlopsOfEachStackAreOverItsOwnTokens) {
  const double encoder = 2 * 16 * (6 * 768 + 6 * 16 * 8),
               decoder = 6 * (3 * (6 * 768 + 6 * 6 * 8) + 6 * 128),
               cross = 3 * (6 * (6 + 16) * 128 + 12 * 6 * 16 * 8);
  const ModelConfig c = tiny("relative", 2, 3);
  EXPECT_DOUBLE_EQ(model_flops(c, 4, {.tokens = 6, .encoder = 16}),
                   4 * (encoder + decoder + cross));
  EXPECT_EQ(layer_weights(c), 5 * 768 + 3 * 256);
}

}  // namespace
}  // namespace mt
