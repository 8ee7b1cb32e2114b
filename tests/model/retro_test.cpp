// Retro: its numbers are Megatron-Core's, its gradients the derivatives of its losses, no token
// sees neighbours too early, and stages make one model.
#include "model/families/retro.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/error.h"
#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/keys.h"
#include "model/layers.h"
#include "model/model_table.h"
#include "optim/optimizer.h"
#include "tests/model/golden.h"
#include "tests/model/model_bench.h"
#include "tests/support/derivative.h"

namespace mt {
namespace {

// Layers 5 and 8 of 9 retrieve.  The first of three chunks of sequences of eight tokens has two.
ModelConfig tiny_retro(std::int64_t chunk = 3) {
  ModelConfig c;
  c.family = ModelFamily::retro;
  c.num_layers = 9;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.ffn_hidden_size = 12;
  c.max_position_embeddings = 8;
  c.vocab_size = 24;
  c.make_vocab_size_divisible_by = 24;
  c.attention_dropout = c.hidden_dropout = 0;
  c.retro_encoder_attention_dropout = c.retro_encoder_hidden_dropout = 0;
  c.init_method_std = 0.3;
  c.retro_chunk_length = chunk;
  c.complete();
  return c;
}

ModelConfig tiny_llama_retro() {
  ModelConfig c = tiny_retro(4);
  c.position_embedding_type = "rope";
  c.normalization = "RMSNorm";
  c.swiglu = c.untie_embeddings_and_output_weights = true;
  c.add_bias_linear = false;
  c.complete();
  return c;
}

// A model or a stage of one, its memory, and two sequences of eight tokens with their neighbours.
class Bench final : public ModelBench<Retro> {
 public:
  static constexpr std::int64_t kSequences = 2, kLength = 8, kTokens = kSequences * kLength;

  Bench(const ModelConfig& config, const StageRange& range, bool deferring = false)
      : ModelBench(config, range,
                   {.sequences = kSequences, .seq_length = kLength, .deferring = deferring}),
        neighbours_(DType::i32, {kSequences * config.neighbor_tokens(kLength)}),
        neighbour_positions_(DType::i32, neighbours_.view().shape()) {
    fill_with(weight(), [](std::int64_t) { return 1.0 / kTokens; });
    const auto set = [](HostTensor& tensor, const auto& of) {
      for (std::int64_t i = 0; i < tensor.view().numel(); ++i)
        tensor.view().as<std::int32_t>()[i] = static_cast<std::int32_t>(of(i));
    };
    const auto token = [](std::int64_t s, std::int64_t t) { return (7 * t + 5 * s + t * t) % 24; };
    set(ids_, [&](std::int64_t i) { return token(i / kLength, i % kLength); });
    set(labels_, [&](std::int64_t i) { return token(i / kLength, i % kLength + 1); });
    set(neighbours_, [](std::int64_t i) { return (3 * i + i * i / 5) % 24; });
    set(neighbour_positions_, [&](std::int64_t i) { return i % config.retrieved_length(); });
  }
  explicit Bench(const ModelConfig& config, bool deferring = false)
      : Bench(config, {0, config.num_layers, true, true}, deferring) {}

  HostTensor& ids() { return ids_; }
  HostTensor& neighbours() { return neighbours_; }
  void turn_retriever_off() { retrieves_ = false; }

 private:
  Fields batch() const override {
    Fields batch;
    batch[Field::ids] = ids_;
    batch[Field::labels] = labels_;
    if (!retrieves_) return batch;
    batch[Field::encoder_ids] = neighbours_;
    batch[Field::encoder_positions] = neighbour_positions_;
    return batch;
  }

  HostTensor ids_{DType::i32, {kTokens}}, labels_{DType::i32, {kTokens}}, neighbours_,
      neighbour_positions_;
  bool retrieves_ = true;
};

struct NamedConfig {
  const char* name;
  ModelConfig config;
};
void PrintTo(const NamedConfig& c, std::ostream* out) { *out << c.name; }

// --- Goldens: megatron-core 0.12.1 in fp64, whose cross-entropy is in fp32
// ------------------------

class RetroGolden : public testing::TestWithParam<NamedConfig> {};
INSTANTIATE_TEST_SUITE_P(Of, RetroGolden,
                         testing::Values(NamedConfig{"retro", tiny_retro()},
                                         NamedConfig{"retro_llama", tiny_llama_retro()}),
                         [](const auto& which) { return which.param.name; });

TEST_P(RetroGolden, LossesAndGradients) {
  Bench bench(GetParam().config);
  fill_in_order(bench.table(), 0.3);
  bench.forward_and_backward();
  const Golden golden = read_golden(GetParam().name);
  const std::vector<double>& losses = golden.numbers.at("losses");
  ASSERT_EQ(std::ssize(losses), Bench::kTokens);
  for (std::int64_t i = 0; i < Bench::kTokens; ++i)
    EXPECT_NEAR(element(bench.loss(), i), losses[static_cast<std::size_t>(i)], 1e-6) << i;
  EXPECT_EQ(golden.numbers.size(), bench.table().rows().size() + 1);
  expect_gradients(bench.table(), golden, 1e-6);
}

TEST_P(RetroGolden, LearnsAsMegatronsDoes) {
  Bench bench(GetParam().config);
  OptimizerOptions options;
  options.clip_grad = 1;
  const auto alone = make_single_group();
  const World world(*alone, {});
  Stream stream(Device::cpu);
  Optimizer optimizer(bench.table(), Device::cpu, DType::f64, options, world);
  fill_in_order(bench.table(), 0.3);
  const Golden golden = read_golden(GetParam().name);
  ASSERT_EQ(golden.steps.size(), 20U);
  for (const std::vector<double>& step : golden.steps) {
    bench.forward_and_backward();
    EXPECT_NEAR(bench.objective(), step[0], 1e-5 * step[0]);
    const StepResult result = optimizer.step(
        {.learning_rate = 1e-2, .decoupled_learning_rate = 1e-2, .weight_decay = 0.01}, 1, stream);
    EXPECT_NEAR(result.grad_norm, step[1], 1e-4 * step[1]);
  }
}

// --- Every kind ----------------------------------------------------------------------------------

std::vector<NamedConfig> configs() {
  ModelConfig dropping = tiny_retro();
  dropping.attention_dropout = dropping.retro_encoder_hidden_dropout = 0.2;
  dropping.hidden_dropout = dropping.retro_encoder_attention_dropout = 0.1;
  ModelConfig again = dropping;
  again.recompute = {.granularity = "full", .method = "uniform", .num_layers = 1};
  ModelConfig together = dropping;
  together.recompute = {.granularity = "full", .method = "uniform", .num_layers = 9};
  ModelConfig selective = dropping;
  selective.recompute = {.granularity = "selective", .modules = {"core_attn", "mlp", "layernorm"}};
  ModelConfig fitted = tiny_llama_retro();
  fitted.retro_final_layernorm = true;
  ModelConfig deep = tiny_retro();
  deep.num_layers = 7;  // one layer retrieves
  deep.init_method_std = 0.5;
  deep.retro_encoder_num_layers = 3;
  deep.retro_num_neighbors = 3;
  deep.retro_num_retrieved_chunks = 1;
  ModelConfig whole = tiny_llama_retro();  // a sequence is one chunk
  whole.retro_chunk_length = 8;
  whole.retro_final_layernorm = true;
  whole.init_method_std = 0.35;
  whole.complete();
  return {
      {"learned", tiny_retro()}, {"llama", tiny_llama_retro()}, {"dropping", dropping},
      {"recomputed", again},     {"in_one_run", together},      {"partly_recomputed", selective},
      {"final_norm", fitted},    {"deep_encoder", deep},        {"one_chunk", whole}};
}

class EveryRetro : public testing::TestWithParam<NamedConfig> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
};
INSTANTIATE_TEST_SUITE_P(Of, EveryRetro, testing::ValuesIn(configs()),
                         [](const auto& which) { return which.param.name; });

TEST_P(EveryRetro, BackwardIsTheDerivativeOfTheObjective) {
  Bench bench(config());
  bench.forward_and_backward();
  for (Param& row : bench.table().rows()) {
    EXPECT_GT(largest(row.grad), 0) << row.name();
    expect_gradient(
        row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
  }
}

// Without neighbours a Retro is what it is where attention to them adds nothing.
TEST_P(EveryRetro, IsAGptWithoutNeighbours) {
  Bench bench(config());
  const auto fill_attention = [&](double value) {
    for (Param& row : bench.table().rows())
      if (row.name().find(".cross_attention.attn.linear_proj.") != std::string::npos &&
          row.name().find(".encoder.") == std::string::npos)
        fill_with(row.value, [&](std::int64_t) { return value; });
  };
  fill_attention(0);
  bench.forward_and_backward();
  const HostTensor expected = clone(bench.loss());
  std::vector<HostTensor> gradients;
  for (const Param& row : bench.table().rows()) gradients.push_back(clone(row.grad));
  fill_attention(1);
  bench.turn_retriever_off();
  bench.forward_and_backward();
  EXPECT_SAME_BITS(bench.loss(), expected);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Param& row = bench.table().rows()[i];
    if (is_of_neighbors(row.place))
      EXPECT_EQ(largest(row.grad), 0) << row.name();
    else
      EXPECT_SAME_BITS(row.grad, gradients[i]) << row.name();
  }
}

TEST_P(EveryRetro, DeferredWeightGradientsHaveTheSameBits) {
  Bench bench(config()), deferring(config(), true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

TEST_P(EveryRetro, WithoutBackwardLossesAreTheSame) {
  Bench bench(config());
  bench.forward({});
  const double expected = bench.objective();
  EXPECT_NEAR(bench.evaluate(), expected, 1e-13);
}

// The first token whose prediction may know neighbours of a chunk is the chunk's last, which says
// what the next one begins with.
TEST_P(EveryRetro, NoTokenSeesNeighboursOfItsChunkOrALaterOne) {
  const std::int64_t m = config().retro_chunk_length, chunks = config().chunks(Bench::kLength),
                     each = config().neighbor_tokens(Bench::kLength) / chunks,
                     first_end = (Bench::kLength - 1) % m;
  Bench bench(config());
  bench.evaluate();
  const HostTensor before = clone(bench.loss());
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    auto* const tokens = bench.neighbours().view().as<std::int32_t>() + chunk * each;
    for (std::int64_t i = 0; i < each; ++i) tokens[i] = (tokens[i] + 1 + i % 3) % 24;
    bench.evaluate();
    for (std::int64_t i = 0; i < each; ++i) tokens[i] = (tokens[i] + 23 - i % 3) % 24;
    for (std::int64_t t = 0; t < Bench::kTokens; ++t) {
      const bool may_see = t < Bench::kLength && t >= first_end + chunk * m;
      EXPECT_EQ(element(bench.loss(), t) != element(before, t), may_see)
          << "chunk " << chunk << ", token " << t;
    }
  }
}

TEST_P(EveryRetro, NoTokenSeesLaterOnes) {
  Bench bench(config());
  bench.evaluate();
  const HostTensor before = clone(bench.loss());
  for (std::int64_t changed = 0; changed < Bench::kLength; ++changed) {
    std::int32_t& token = bench.ids().view().as<std::int32_t>()[changed];
    token = (token + 1) % 24;
    bench.evaluate();
    token = (token + 23) % 24;
    for (std::int64_t t = 0; t < changed; ++t)
      EXPECT_EQ(element(bench.loss(), t), element(before, t)) << changed << " " << t;
    EXPECT_NE(element(bench.loss(), changed), element(before, changed)) << changed;
  }
}

// Shapes of the tensors that are there.
void expect_shapes(const Wire& wire, const WireShapes& shapes) {
  for (std::size_t i = 0; i < kWireTensors; ++i) {
    ASSERT_EQ(bool(wire.tensors[i]), shapes[i].rank() > 0) << i;
    if (!wire.tensors[i]) continue;
    EXPECT_EQ(wire.tensors[i].shape(), shapes[i]) << i;
  }
}

// Wherever it is cut into stages, they compute what one does, bit for bit but for words that two
// have, whose gradients add up.
TEST_P(EveryRetro, StagesMakeOneModel) {
  const std::int64_t layers = config().num_layers;
  if (config().recompute.num_layers > 1) return;  // which wants stages of as many layers
  Bench whole(config());
  whole.forward_and_backward();
  for (const std::int64_t first : {0, 2, 5, 6})
    for (const std::int64_t second : {std::int64_t{5}, std::int64_t{6}, layers - 1, layers}) {
      if (second < first) continue;
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
        int owners = 0;
        for (Bench& stage : stages)
          for (const Param& part : stage.table().rows()) {
            if (part.name() != row.name()) continue;
            owners += !part.copy;
            fill_with(sum, [&](std::int64_t k) { return element(sum, k) + element(part.grad, k); });
          }
        EXPECT_EQ(owners, 1) << row.name();
        EXPECT_TENSORS_NEAR(sum, row.grad, 1e-13) << row.name();
      }
    }
}

// Every tensor is there with its shape, no other is, and every object.
TEST(Retro, KeysAreThoseThatMegatronCoreAsksFor) {
  std::ifstream file(MT_TESTDATA "/model/retro.keys");
  std::map<std::string, std::string> expected;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with('#'))
      expected[line.substr(0, line.find(' '))] = line.substr(std::min(line.find(' '), line.size()));
  EXPECT_GT(expected.size(), 200U);
  Bench bench(tiny_retro());
  for (const Param& row : bench.table().rows())
    for (const KeyPart& part : key_parts(row)) {
      EXPECT_EQ(concat(' ', part.whole), expected[part.key]) << part.key;
      expected.erase(part.key);
    }
  const std::vector<std::string> objects = extra_states(tiny_retro());
  for (const auto& [key, shape] : expected)
    EXPECT_NE(std::ranges::find(objects, key), objects.end()) << key;
}

// Layers 6 and 9 of 9 retrieve; a sequence of 8 tokens has three chunks, of whose neighbours, two
// of six tokens each, there are 36.  A layer has 256 weights in attention and 192 in its MLP.
TEST(Retro, FlopsCountNeighboursByTheirTokens) {
  const double layer = 256 + 192, cross = 256, kv = 128, scores = 12 * 8;
  const double decoder =
      8 * 6 * (9 * layer + 2 * (cross - kv) + 8 * 24) + 8 * (9 * 8 * scores / 2 + 2 * 12 * scores);
  const double of_neighbors = 36 * 6 * 2 * kv;  // by the decoder
  const double encoder =
      36 * 6 * (2 * layer + cross - kv) + 8 * 6 * kv + 36 * (2 * 6 * scores / 2 + 3 * scores);
  EXPECT_DOUBLE_EQ(model_flops(tiny_retro(), 5, {.tokens = 8, .encoder = 36}),
                   5 * (decoder + of_neighbors + encoder));
  ModelConfig gpt = tiny_retro();
  gpt.family = ModelFamily::gpt;
  EXPECT_DOUBLE_EQ(model_flops(tiny_retro(), 5, {.tokens = 8, .encoder = 0}),
                   model_flops(gpt, 5, {.tokens = 8, .encoder = 0}));
  ParamTable rows = model_rows(tiny_retro());
  rows.freeze(is_of_neighbors);
  EXPECT_DOUBLE_EQ(model_flops(tiny_retro(), rows, 5, {.tokens = 8, .encoder = 0}),
                   model_flops(gpt, 5, {.tokens = 8, .encoder = 0}));
}

// A GPT whose layers are these begins with these losses.
TEST(Retro, BeginsAsAGptWhereWhatRetrievesBeginsAtZero) {
  ModelConfig c = tiny_retro();
  c.retro_zero_init = true;
  Bench bench(c);
  bench.evaluate();
  const HostTensor before = clone(bench.loss());
  for (Param& row : bench.table().rows())
    if (row.name().find(".cross_attention.") != std::string::npos &&
        row.name().find(".linear_proj.") == std::string::npos)
      fill_with(row.value, [](std::int64_t i) { return std::sin(static_cast<double>(i)); });
  bench.evaluate();
  EXPECT_SAME_BITS(bench.loss(), before);
  bench.forward_and_backward();
  EXPECT_GT(
      largest(bench.table().at("decoder.layers.5.cross_attention.attn.linear_proj.weight").grad),
      0);
}

TEST(RetroLayers, AreTheOnesOfMegatron) {
  const auto numbers = [](std::int64_t layers) {
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < layers; ++i)
      if (is_retro_layer(i, layers)) found.push_back(i + 1);
    EXPECT_EQ(found.back(), last_retro_layer(layers) + 1);
    return found;
  };
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(numbers(12), (List{6, 9, 12}));
  EXPECT_EQ(numbers(15), (List{6, 9, 12, 15}));
  EXPECT_EQ(numbers(16), (List{9, 12, 15}));
  EXPECT_EQ(numbers(24), (List{9, 12, 15, 18, 21, 24}));
  EXPECT_EQ(numbers(32), (List{9, 12, 15, 18, 21, 24, 27, 30}));
}

}  // namespace
}  // namespace mt
