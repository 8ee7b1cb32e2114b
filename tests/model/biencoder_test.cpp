// Models of two towers as a whole: their numbers are those of transformers' BERT, their gradients
// the derivatives of their losses, also where ranks have a batch together.
#include "model/families/biencoder.h"

#include <gtest/gtest.h>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "ops/ops.h"
#include "optim/optimizer.h"
#include "tests/model/golden.h"
#include "tests/support/derivative.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

using Numbers = std::vector<std::int32_t>;
constexpr std::int64_t kLength = 6, kVocabulary = 16;

// The goldens' cases.
struct Case {
  const char* golden;
  bool shared = false;
  std::int64_t projection = 0;
  double factor = 1;
  Numbers queries = {3, 6, 4}, contexts = {};  // tokens of each text

  ModelConfig config(double dropout = 0) const {
    ModelConfig c;
    c.family = ModelFamily::biencoder;
    c.num_layers = 2;
    c.hidden_size = 8;
    c.num_attention_heads = 2;
    c.vocab_size = c.padded_vocab_size = kVocabulary;
    c.max_position_embeddings = kLength;
    c.biencoder_projection_dim = projection;
    c.biencoder_shared_query_context_model = shared;
    c.attention_dropout = c.hidden_dropout = dropout;
    c.init_method_std = 0.3;
    c.complete();
    return c;
  }
};
const Case kTwo{
    .golden = "biencoder", .projection = 5, .factor = 1 / std::sqrt(8.0), .contexts = {6, 4, 5}},
    kShared{.golden = "biencoder-shared", .shared = true, .contexts = {6, 2, 4, 5, 3, 6}};

// The queries [begin, end) of a case, with their contexts, in a model and its memory.
class TowerBench {
 public:
  TowerBench(const Case& of, const ModelConfig& config, DType dtype = DType::f64,
             bool deferring = false, Group* data = nullptr, std::int64_t begin = 0,
             std::int64_t end = 3)
      : model_(config, StageRanges{{0, config.all_layers(), true, true}}),
        bench_({.dtype = dtype,
                .sequences = end - begin,
                .seq_length = kLength,
                .deferring = deferring}),
        rules_{.factor = of.factor, .tops = {.count = 2, .top = {1, 2}}},
        data_(data),
        weight_(dtype, {end - begin}),
        loss_(dtype, {end - begin}),
        hits_(dtype, {2 * (end - begin)}),
        vectors_(dtype, {end - begin, (1 + std::ssize(of.contexts) / std::ssize(of.queries)) *
                                          config.embedding_width()}) {
    model_.table().allocate(Device::cpu, dtype, true);
    model_.initialize(7, bench_.stream());
    fill_with(weight_, [](std::int64_t) { return 1 / 3.0; });
    const std::int64_t each = std::ssize(of.contexts) / std::ssize(of.queries);
    queries_ = texts(of.queries, 0, begin, end);
    contexts_ = texts(of.contexts, 5, begin * each, end * each);
    for (std::int64_t i = 0; i < std::ssize(contexts_.lengths); ++i)
      for (std::int64_t k = 0; k < kLength; ++k) {
        if (k == 0) rows_.push_back(static_cast<std::int32_t>(i * kLength));
        row_of_.push_back(k == 0 ? static_cast<std::int32_t>(i) : -1);
        types_.push_back(0);
      }
  }

  ParamTable& table() { return model_.table(); }
  const HostTensor& losses() const { return loss_; }
  const HostTensor& hits() const { return hits_; }
  const HostTensor& of_samples() const { return vectors_; }  // each query's and its contexts'
  double objective() const { return dot_of(weight_, loss_); }

  double evaluate() {
    Step s = start();
    Wire out;
    model_.forward(s, out, {}, batch(), ends(), nullptr);
    return objective();
  }
  void forward_and_backward() {
    fill_with(gradients_of(table()), [](std::int64_t) { return 0; });
    Step s = start();
    const auto saved = model_.make_saved();
    Wire out;
    model_.forward(s, out, {}, batch(), ends(), saved.get());
    s.layer.rewind(0);
    Step back = bench_.step();
    back.data = data_;
    model_.backward(back, out, {}, *saved);
    bench_.run_weight_grads();
  }
  // The vectors of the contexts or of the queries alone.
  std::vector<double> vectors(bool of_contexts) {
    Step s = start();
    Fields fields = batch();
    const Tensor lengths = fields[of_contexts ? Field::encoder_lengths : Field::lengths];
    s.tokens = {.sequences = lengths.numel(),
                .length = kLength,
                .positions = fields[of_contexts ? Field::encoder_positions : Field::positions],
                .lengths = lengths};
    if (of_contexts) fields[Field::ids] = fields[Field::encoder_ids];
    fields[Field::types] = fields[Field::types].rows(0, s.tokens.count());
    const HostTensor out(DType::f64, {s.tokens.sequences, model_.config().embedding_width()});
    Ends ends{.rows = fields[Field::rows].rows(0, s.tokens.sequences), .of_contexts = of_contexts};
    ends.pooled = out;
    Wire none;
    model_.forward(s, none, {}, fields, ends, nullptr);
    const auto values = out.view().span<double>();
    return {values.begin(), values.end()};
  }

 private:
  struct Texts {
    Numbers ids = {}, positions = {}, lengths = {};
  };
  static Texts texts(const Numbers& lengths, std::int64_t first, std::int64_t begin,
                     std::int64_t end) {
    Texts texts;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t length = lengths[static_cast<std::size_t>(i)];
      texts.lengths.push_back(length);
      for (std::int32_t k = 0; k < kLength; ++k) {
        const std::int64_t token = 1 + (7 * i + 3 * k + first) % (kVocabulary - 1);
        texts.ids.push_back(k < length ? static_cast<std::int32_t>(token) : 0);
        texts.positions.push_back(k);
      }
    }
    return texts;
  }
  Ends ends() {
    Ends ends{.loss = loss_, .weight = weight_};
    ends.hits = hits_;
    ends.logits = vectors_;
    ends.retrieval = &rules_;
    return ends;
  }
  Fields batch() {
    const auto numbers = [](Numbers& of) {
      return Tensor(of.data(), DType::i32, {std::ssize(of)}, Device::cpu);
    };
    Fields batch;
    batch[Field::ids] = numbers(queries_.ids);
    batch[Field::positions] = numbers(queries_.positions);
    batch[Field::lengths] = numbers(queries_.lengths);
    batch[Field::encoder_ids] = numbers(contexts_.ids);
    batch[Field::encoder_positions] = numbers(contexts_.positions);
    batch[Field::encoder_lengths] = numbers(contexts_.lengths);
    batch[Field::types] = numbers(types_);
    batch[Field::rows] = numbers(rows_);
    batch[Field::row_of] = numbers(row_of_);
    return batch;
  }
  Step start() {
    Step s = bench_.step();
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    s.data = data_;
    return s;
  }

  Biencoder model_;
  Workbench bench_;
  RetrievalRules rules_;
  Group* data_;
  HostTensor weight_, loss_, hits_, vectors_;
  Texts queries_, contexts_;
  Numbers types_, rows_, row_of_;
};

// What makes all contexts' vectors longer alike adds the same to all scores of a query: no loss
// depends on it.
bool adds_to_all_scores(const Param& row) {
  return row.name() == "context_model.encoder.final_layernorm.bias" ||
         row.name() == "context_model.projection_enc.bias";
}

class Towers : public testing::TestWithParam<const Case*> {};
INSTANTIATE_TEST_SUITE_P(, Towers, testing::Values(&kTwo, &kShared),
                         [](const auto& of) { return of.index == 0 ? "Two" : "Shared"; });

// testdata/model/biencoder*.golden: what transformers' BERT computes in fp64.
TEST_P(Towers, HaveTheLossesAndGradientsOfTransformers) {
  TowerBench bench(*GetParam(), GetParam()->config());
  fill_in_order(bench.table(), 0.2);
  bench.forward_and_backward();
  Golden golden = read_golden(GetParam()->golden);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_NEAR(element(bench.losses(), i), golden.numbers.at("losses")[at], 1e-5);
    const double before = golden.numbers.at("before")[at];
    EXPECT_EQ(element(bench.hits(), i), before < 1 ? 100 : 0);
    EXPECT_EQ(element(bench.hits(), 3 + i), before < 2 ? 100 : 0);
  }
  EXPECT_EQ(golden.numbers.size(), bench.table().rows().size() + 2);
  for (Param& row : bench.table().rows())
    if (adds_to_all_scores(row))
      for (std::int64_t i = 0; i < row.grad.numel(); ++i) {
        double& expected = golden.numbers.at(local_name(row))[static_cast<std::size_t>(i)];
        EXPECT_NEAR(expected, 0, 1e-15);
        EXPECT_NEAR(element(row.grad, i), 0, 1e-15);
        expected = element(row.grad, i);
      }
  expect_gradients(bench.table(), golden, 1e-5);
}

TEST_P(Towers, LearnAsThoseDo) {
  TowerBench bench(*GetParam(), GetParam()->config());
  OptimizerOptions options;
  options.clip_grad = 1;
  const auto alone = make_single_group();
  const World world(*alone, {});
  Stream stream(Device::cpu);
  Optimizer optimizer(bench.table(), Device::cpu, DType::f64, options, world);
  fill_in_order(bench.table(), 0.2);
  const Golden golden = read_golden(GetParam()->golden);
  ASSERT_EQ(golden.steps.size(), 20U);
  for (const std::vector<double>& step : golden.steps) {
    bench.forward_and_backward();
    EXPECT_NEAR(bench.objective(), step[0], 1e-5 * step[0]);
    const StepResult result = optimizer.step(
        {.learning_rate = 1e-2, .decoupled_learning_rate = 1e-2, .weight_decay = 0.01}, 1, stream);
    EXPECT_NEAR(result.grad_norm, step[1], 1e-4 * step[1]);
  }
}

TEST_P(Towers, BackwardIsTheDerivativeOfTheObjective) {
  for (const double dropout : {0.0, 0.2}) {
    TowerBench bench(*GetParam(), GetParam()->config(dropout));
    bench.forward_and_backward();
    for (Param& row : bench.table().rows())
      if (!adds_to_all_scores(row))
        expect_gradient(
            row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
  }
}

TEST_P(Towers, DeferredWeightGradientsHaveTheSameBits) {
  const ModelConfig config = GetParam()->config(0.2);
  TowerBench bench(*GetParam(), config, DType::f32),
      deferring(*GetParam(), config, DType::f32, true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

// Each of three ranks has one query; the sum of their gradients is that of the batch.
TEST_P(Towers, RanksHaveABatchTogether) {
  const ModelConfig config = GetParam()->config();
  TowerBench whole(*GetParam(), config);
  fill_in_order(whole.table(), 0.2);
  whole.forward_and_backward();
  const HostTensor sum(DType::f64, gradients_of(whole.table()).shape());
  std::mutex mutex;
  run_ranks(3, [&](Group& ranks) {
    TowerBench part(*GetParam(), config, DType::f64, false, &ranks, ranks.rank(), ranks.rank() + 1);
    fill_in_order(part.table(), 0.2);
    part.forward_and_backward();
    const std::lock_guard lock(mutex);
    EXPECT_NEAR(element(part.losses(), 0), element(whole.losses(), ranks.rank()), 1e-12);
    EXPECT_EQ(element(part.hits(), 1), element(whole.hits(), 3 + ranks.rank()));
    const Tensor own = gradients_of(part.table());
    fill_with(sum, [&](std::int64_t i) { return element(sum, i) + element(own, i); });
  });
  EXPECT_TENSORS_NEAR(sum.view(), gradients_of(whole.table()), 1e-12);
}

// What retrieval is made of: scores of the vectors are those of the losses.
TEST_P(Towers, VectorsOfTextsAreThoseOfTraining) {
  TowerBench bench(*GetParam(), GetParam()->config());
  bench.evaluate();
  const std::vector<double> q = bench.vectors(false), c = bench.vectors(true);
  const std::size_t width = q.size() / 3, each = c.size() / q.size();
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < (1 + each) * width; ++k)
      EXPECT_NEAR(
          element(bench.of_samples(), static_cast<std::int64_t>(i * (1 + each) * width + k)),
          k < width ? q[i * width + k] : c[i * each * width + k - width], 1e-12);
    double sum = 0, own = 0;
    for (std::size_t j = 0; j < 3 * each; ++j) {
      double score = 0;
      for (std::size_t k = 0; k < width; ++k) score += q[i * width + k] * c[j * width + k];
      score *= GetParam()->factor;
      sum += std::exp(score);
      if (j == i * each) own = score;
    }
    EXPECT_NEAR(element(bench.losses(), static_cast<std::int64_t>(i)), std::log(sum) - own, 1e-12);
  }
}

TEST(TowerRows, StandInABertWithoutTheirNames) {
  const ParamTable table = model_rows(kTwo.config());
  ModelConfig bert = kTwo.config();
  bert.family = ModelFamily::bert;
  bert.encoder_num_layers = 0;
  const ParamTable of_bert = model_rows(bert);
  std::size_t found = 0, projections = 0;
  for (const Param& row : table.rows()) {
    const auto place = bert_place(row.place);
    projections += !place;
    if (place)
      found += std::ranges::count_if(of_bert.rows(), [&](const Param& other) {
        return other.place == *place && other.shape == row.shape;
      });
  }
  EXPECT_EQ(projections, 4U);
  EXPECT_EQ(found + projections, table.rows().size());
}

}  // namespace
}  // namespace mt
