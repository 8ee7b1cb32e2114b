// BERT as a whole: its numbers are Megatron-Core's, its gradients the derivatives of its losses,
// and stages make one model.
#include "model/families/bert.h"

#include <gtest/gtest.h>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/model_table.h"
#include "optim/optimizer.h"
#include "tests/model/golden.h"
#include "tests/support/derivative.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

using Numbers = std::vector<std::int32_t>;

ModelConfig tiny_bert(bool binary_head = true) {
  ModelConfig c;
  c.family = ModelFamily::bert;
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.max_position_embeddings = 8;
  c.vocab_size = 16;
  c.make_vocab_size_divisible_by = 16;
  c.attention_dropout = c.hidden_dropout = 0;
  c.init_method_std = 0.3;
  c.bert_binary_head = binary_head;
  c.complete();
  return c;
}

// Two padded sequences of eight tokens, of which three are masked, in a model and its memory.
class BertBench {
 public:
  static constexpr std::int64_t kTokens = 16;

  BertBench(const ModelConfig& config, const StageRange& range, DType dtype, bool deferring = false)
      : model_(config, StageRanges{range}),
        bench_({.dtype = dtype, .sequences = 2, .seq_length = 8, .deferring = deferring}),
        has_order_(config.bert_binary_head),
        weight_(dtype, {has_order_ ? 5 : 3}),
        loss_(dtype, weight_.view().shape()) {
    model_.table().allocate(Device::cpu, dtype, true);
    model_.initialize(7, bench_.stream());
    fill_with(weight_, [](std::int64_t i) { return i < 3 ? 1 / 3.0 : 1 / 2.0; });
  }
  explicit BertBench(const ModelConfig& config, DType dtype = DType::f64, bool deferring = false)
      : BertBench(config, {0, config.num_layers, true, true}, dtype, deferring) {}

  Bert& model() { return model_; }
  ParamTable& table() { return model_.table(); }
  HostTensor& ids() { return ids_; }
  double loss(std::int64_t row) const { return element(loss_, row); }
  const HostTensor& losses() const { return loss_; }
  double objective() const { return dot_of(weight_, loss_); }

  double evaluate() {
    Step s = start();
    Wire out;
    model_.forward(s, out, {}, batch(), {.loss = loss_, .weight = weight_}, nullptr);
    return objective();
  }
  Wire forward(const Wire& in) {
    Step s = start();
    saved_ = model_.make_saved();
    Wire out;
    model_.forward(s, out, in, batch(), {.loss = loss_, .weight = weight_}, saved_.get());
    s.layer.rewind(0);
    return out;
  }
  Wire backward(const Wire& dout) {
    Step s = step();
    Wire din;
    model_.backward(s, din, dout, *saved_);
    bench_.run_weight_grads();
    return din;
  }
  void forward_and_backward() {
    fill_with(gradients_of(table()), [](std::int64_t) { return 0; });
    forward({});
    backward({});
  }

 private:
  Fields batch() const {
    Fields batch;
    batch[Field::ids] = ids_;
    batch[Field::types] = types_;
    batch[Field::rows] = rows_.view().rows(0, weight_.view().numel());
    batch[Field::row_of] = has_order_ ? row_of_ : row_of_words_;
    if (has_order_) batch[Field::order] = order_;
    batch[Field::targets] = targets_.view().rows(0, weight_.view().numel());
    return batch;
  }
  Step step() {
    Step s = bench_.step();
    s.tokens.first_key = first_key_.view();
    return s;
  }
  Step start() {
    Step s = step();
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    return s;
  }

  Bert model_;
  Workbench bench_;
  bool has_order_;
  HostTensor weight_, loss_;
  HostTensor ids_{{kTokens}, Numbers{1, 5, 7, 2, 9, 2, 0, 0, 1, 4, 2, 6, 8, 11, 2, 0}};
  const HostTensor types_{{kTokens}, Numbers{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0}};
  const HostTensor first_key_{{kTokens}, Numbers{0, 0, 0, 0, 0, 0, 6, 6, 0, 0, 0, 0, 0, 0, 0, 7}};
  const HostTensor rows_{{5}, Numbers{2, 4, 9, 0, 8}}, targets_{{5}, Numbers{3, 10, 12, 0, 1}};
  const HostTensor order_{{2}, Numbers{0, 1}};
  const HostTensor row_of_{{kTokens},
                           Numbers{3, -1, 0, -1, 1, -1, -1, -1, 4, 2, -1, -1, -1, -1, -1, -1}};
  const HostTensor row_of_words_{
      {kTokens}, Numbers{-1, -1, 0, -1, 1, -1, -1, -1, -1, 2, -1, -1, -1, -1, -1, -1}};
  std::unique_ptr<Model::Saved> saved_;
};

// testdata/model/bert.golden: what megatron-core 0.12.1 computes in fp32.
TEST(Bert, HasMegatronsLossesAndGradients) {
  BertBench bench(tiny_bert());
  fill_in_order(bench.table(), 0.2);
  bench.forward_and_backward();
  const Golden golden = read_golden("bert");
  const std::vector<double>&losses = golden.numbers.at("losses"),
        &classes = golden.numbers.at("classes");
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_NEAR(bench.loss(i), losses[i], 1e-5);
  EXPECT_NEAR(bench.loss(3), std::log1p(std::exp(classes[1] - classes[0])), 1e-5);
  EXPECT_NEAR(bench.loss(4), std::log1p(std::exp(classes[2] - classes[3])), 1e-5);
  EXPECT_EQ(golden.numbers.size(), bench.table().rows().size() + 2);
  expect_gradients(bench.table(), golden, 1e-5);
}

TEST(Bert, LearnsAsMegatronsDoes) {
  BertBench bench(tiny_bert());
  OptimizerOptions options;
  options.clip_grad = 1;
  const auto alone = make_single_group();
  const World world(*alone, {});
  Stream stream(Device::cpu);
  Optimizer optimizer(bench.table(), Device::cpu, DType::f64, options, world);
  fill_in_order(bench.table(), 0.2);
  const Golden golden = read_golden("bert");
  ASSERT_EQ(golden.steps.size(), 20U);
  for (const std::vector<double>& step : golden.steps) {
    bench.forward_and_backward();
    EXPECT_NEAR((bench.loss(0) + bench.loss(1) + bench.loss(2)) / 3, step[0], 1e-5 * step[0]);
    EXPECT_NEAR((bench.loss(3) + bench.loss(4)) / 2, step[1], 1e-5 * step[1]);
    const StepResult result = optimizer.step(
        {.learning_rate = 1e-2, .decoupled_learning_rate = 1e-2, .weight_decay = 0.01}, 1, stream);
    EXPECT_NEAR(result.grad_norm, step[2], 1e-4 * step[2]);
  }
}

double norm_of(const ConstTensor& x) { return std::sqrt(dot_of(x, x)); }

struct Case {
  const char* name;
  ModelConfig config;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> cases() {
  ModelConfig dropout = tiny_bert();
  dropout.attention_dropout = 0.2;
  dropout.hidden_dropout = 0.1;
  ModelConfig llama = tiny_bert(false);
  llama.ffn_hidden_size = 12;
  llama.position_embedding_type = "rope";
  llama.normalization = "RMSNorm";
  llama.swiglu = llama.qk_layernorm = llama.untie_embeddings_and_output_weights = true;
  llama.add_bias_linear = false;
  llama.complete();
  ModelConfig first = tiny_bert();  // the first BERT
  first.residual_of_norm = true;
  ModelConfig roberta = tiny_bert(false);
  roberta.residual_of_norm = true;
  roberta.num_token_types = 1;
  roberta.first_position = 2;
  return {{"bert", tiny_bert()},     {"first_bert", first},
          {"roberta", roberta},      {"without_order", tiny_bert(false)},
          {"with_dropout", dropout}, {"like_a_llama", llama}};
}

class EveryBert : public testing::TestWithParam<Case> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
};
INSTANTIATE_TEST_SUITE_P(Of, EveryBert, testing::ValuesIn(cases()),
                         [](const auto& which) { return which.param.name; });

TEST_P(EveryBert, BackwardIsTheDerivativeOfTheObjective) {
  BertBench bench(config());
  bench.forward_and_backward();
  for (Param& row : bench.table().rows())
    expect_gradient(
        row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
}

TEST_P(EveryBert, EvaluationAndTrainingHaveTheSameLossBitForBit) {
  BertBench bench(config(), DType::f32);
  bench.evaluate();
  const HostTensor loss = clone(bench.losses().view());
  bench.forward_and_backward();
  EXPECT_SAME_BITS(bench.losses().view(), loss);
}

TEST_P(EveryBert, DeferredWeightGradientsHaveTheSameBits) {
  BertBench bench(config(), DType::f32), deferring(config(), DType::f32, true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

TEST_P(EveryBert, TwoStagesAreTheModel) {
  ModelConfig untied = config();
  untied.untie_embeddings_and_output_weights = true;
  BertBench whole(untied), first(untied, {0, 1, true, false}, DType::f64),
      last(untied, {1, 2, false, true}, DType::f64);
  EXPECT_EQ(first.table().count() + last.table().count(), whole.table().count());
  whole.forward_and_backward();
  last.forward(first.forward({}));
  first.backward(last.backward({}));
  EXPECT_TENSORS_NEAR(last.losses().view(), whole.losses().view(), 1e-12);
  for (BertBench* stage : {&first, &last})
    for (const Param& row : stage->table().rows())
      EXPECT_TENSORS_NEAR(row.grad, whole.table().at(row.name()).grad, 1e-12) << row.name();
}

// Tokens see those behind them, and no token sees padding.
TEST(Bert, SeesBothWaysButNoPadding) {
  BertBench bench(tiny_bert());
  bench.evaluate();
  const HostTensor before = clone(bench.losses().view());
  bench.ids().view().as<std::int32_t>()[6] = 13;  // padding of the first sequence
  bench.evaluate();
  EXPECT_SAME_BITS(bench.losses().view(), before);
  bench.ids().view().as<std::int32_t>()[5] = 13;  // its last token, behind all that are asked of
  bench.evaluate();
  for (const std::int64_t row : {0, 1, 3}) EXPECT_NE(bench.loss(row), element(before, row));
  for (const std::int64_t row : {2, 4}) EXPECT_EQ(bench.loss(row), element(before, row));
}

// Weights are drawn, biases are 0 and norms begin as the identity.
TEST(Bert, BeginsAsMegatronsDoes) {
  BertBench bench(tiny_bert());
  const auto all = [&](const char* name, double value) {
    const Tensor& row = bench.table().at(name).value;
    for (std::int64_t i = 0; i < row.numel(); ++i) ASSERT_EQ(element(row, i), value) << name;
  };
  for (const char* name : {"lm_head.dense.bias", "lm_head.layer_norm.bias", "output_layer.bias",
                           "pooler.dense.bias", "binary_head.bias"})
    all(name, 0);
  all("lm_head.layer_norm.weight", 1);
  for (const char* name : {"lm_head.dense.weight", "pooler.dense.weight", "binary_head.weight",
                           "embedding.tokentype_embeddings.weight"})
    EXPECT_NEAR(norm_of(bench.table().at(name).value) /
                    std::sqrt(static_cast<double>(bench.table().at(name).value.numel())),
                0.3, 0.1)
        << name;
}

// BERT-large, by the formula of a GPT: 512 (12 24 1024 4096 + 12 24 1024^2 (2 + 1/4) +
// 6 1024 30592).
TEST(BertSizes, FlopsAreAGpts) {
  ModelConfig c = tiny_bert();
  c.num_layers = 24;
  c.hidden_size = 1024;
  c.num_attention_heads = 16;
  c.max_position_embeddings = 512;
  c.padded_vocab_size = 30592;
  EXPECT_EQ(model_flops(c, 1, {512}), 1062601752576);
}

}  // namespace
}  // namespace mt
