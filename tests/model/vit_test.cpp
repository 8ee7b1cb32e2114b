// A Vision Transformer as a whole: its numbers are those of transformers' layers, its gradients the
// derivatives of its losses, and stages make one model.
#include "model/families/vit.h"

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

class CrossEntropy : public Criterion {
 public:
  void judge(Tensor loss, Tensor scores, const Fields& batch, ConstTensor weight,
             Stream& stream) const override {
    cross_entropy(loss, scores, batch[Field::targets], weight, scores.shape()[1], 0, stream);
  }
};

ModelConfig tiny_vit(double dropout = 0, const char* head = "mlp") {
  ModelConfig c;
  c.family = ModelFamily::vit;
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.img_h = 4;
  c.img_w = 6;
  c.patch_dim = 2;
  c.num_classes = 3;
  c.vision_head = head;
  c.vocab_size = c.padded_vocab_size = c.num_classes;
  c.max_position_embeddings = c.image_tokens();
  c.attention_dropout = c.hidden_dropout = dropout;
  c.init_method_std = 0.3;
  c.complete();
  return c;
}

// Two images of six patches in a model and its memory.
class VitBench {
 public:
  static constexpr std::int64_t kTokens = 14, kPatches = 6, kWidth = 12;

  VitBench(const ModelConfig& config, const StageRange& range, DType dtype, bool deferring = false)
      : model_(config, StageRanges{range}),
        bench_({.dtype = dtype, .sequences = 2, .seq_length = kTokens, .deferring = deferring}),
        weight_(dtype, {2}),
        loss_(dtype, {2}),
        scores_(dtype, {2, 3}),
        pixels_(dtype, {2 * kTokens * kWidth}) {
    model_.table().allocate(Device::cpu, dtype, true);
    model_.initialize(7, bench_.stream());
    fill_with(weight_, [](std::int64_t) { return 0.5; });
    fill_with(pixels_, [](std::int64_t i) {
      const std::int64_t token = i / kWidth % kTokens - kClassTokens;
      const std::int64_t number =
          (i / kWidth / kTokens * kPatches + token) * kWidth + i % kWidth + 1;
      return token < 0 ? 0 : std::sin(0.3 * static_cast<double>(number));
    });
    for (std::int64_t i = 0; i < 2 * kTokens; ++i) {
      ids_.push_back(static_cast<std::int32_t>(i % kTokens));
      row_of_.push_back(i % kTokens == 0 ? static_cast<std::int32_t>(i / kTokens) : -1);
    }
  }
  explicit VitBench(const ModelConfig& config, DType dtype = DType::f64, bool deferring = false)
      : VitBench(config, {0, config.num_layers, true, true}, dtype, deferring) {}

  ParamTable& table() { return model_.table(); }
  const HostTensor& losses() const { return loss_; }
  const HostTensor& scores() const { return scores_; }
  double objective() const { return dot_of(weight_, loss_); }

  double evaluate() {
    Step s = start();
    Wire out;
    model_.forward(s, out, {}, batch(), ends(), nullptr);
    return objective();
  }
  Wire forward(const Wire& in) {
    Step s = start();
    saved_ = model_.make_saved();
    Wire out;
    model_.forward(s, out, in, batch(), ends(), saved_.get());
    s.layer.rewind(0);
    return out;
  }
  Wire backward(const Wire& dout) {
    Step s = bench_.step();
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
  Ends ends() {
    Ends ends{.loss = loss_, .weight = weight_};
    ends.logits = scores_;
    ends.criterion = &criterion_;
    return ends;
  }
  Fields batch() {
    const auto numbers = [](Numbers& of) {
      return Tensor(of.data(), DType::i32, {std::ssize(of)}, Device::cpu);
    };
    Fields batch;
    batch[Field::ids] = numbers(ids_);
    batch[Field::pixels] = pixels_;
    batch[Field::rows] = numbers(rows_);
    batch[Field::row_of] = numbers(row_of_);
    batch[Field::targets] = numbers(targets_);
    return batch;
  }
  Step start() {
    Step s = bench_.step();
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    return s;
  }

  Vit model_;
  Workbench bench_;
  CrossEntropy criterion_;
  HostTensor weight_, loss_, scores_, pixels_;
  Numbers ids_, row_of_, rows_ = {0, kTokens}, targets_ = {2, 0};
  std::unique_ptr<Model::Saved> saved_;
};

// testdata/model/vit.golden: what transformers' layers compute in fp64.
TEST(Vit, HasTheLossesScoresAndGradientsOfTransformers) {
  VitBench bench(tiny_vit());
  fill_in_order(bench.table(), 0.2);
  bench.forward_and_backward();
  const Golden golden = read_golden("vit");
  for (std::int64_t i = 0; i < 2; ++i)
    EXPECT_NEAR(element(bench.losses(), i),
                golden.numbers.at("losses")[static_cast<std::size_t>(i)], 1e-5);
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_NEAR(element(bench.scores(), i),
                golden.numbers.at("scores")[static_cast<std::size_t>(i)], 1e-5);
  EXPECT_EQ(golden.numbers.size(), bench.table().rows().size() + 2);
  expect_gradients(bench.table(), golden, 1e-5);
}

TEST(Vit, LearnsAsThatDoes) {
  VitBench bench(tiny_vit());
  OptimizerOptions options;
  options.clip_grad = 1;
  const auto alone = make_single_group();
  const World world(*alone, {});
  Stream stream(Device::cpu);
  Optimizer optimizer(bench.table(), Device::cpu, DType::f64, options, world);
  fill_in_order(bench.table(), 0.2);
  const Golden golden = read_golden("vit");
  ASSERT_EQ(golden.steps.size(), 20U);
  for (const std::vector<double>& step : golden.steps) {
    bench.forward_and_backward();
    EXPECT_NEAR(bench.objective(), step[0], 1e-5 * step[0]);
    const StepResult result = optimizer.step(
        {.learning_rate = 1e-2, .decoupled_learning_rate = 1e-2, .weight_decay = 0.01}, 1, stream);
    EXPECT_NEAR(result.grad_norm, step[1], 1e-4 * step[1]);
  }
}

TEST(Vit, BackwardIsTheDerivativeOfTheObjective) {
  for (const auto& [dropout, head] : {std::pair{0.0, "mlp"}, {0.2, "mlp"}, {0.2, "linear"}}) {
    VitBench bench(tiny_vit(dropout, head));
    bench.forward_and_backward();
    for (Param& row : bench.table().rows())
      expect_gradient(
          row.grad, row.value, [&] { return bench.evaluate(); }, 9, row.name());
  }
}

TEST(Vit, DeferredWeightGradientsHaveTheSameBits) {
  VitBench bench(tiny_vit(0.2), DType::f32), deferring(tiny_vit(0.2), DType::f32, true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  EXPECT_SAME_BITS(gradients_of(deferring.table()), gradients_of(bench.table()));
}

TEST(Vit, TwoStagesAreTheModel) {
  const ModelConfig config = tiny_vit(0.2);
  VitBench whole(config), first(config, {0, 1, true, false}, DType::f64),
      last(config, {1, 2, false, true}, DType::f64);
  EXPECT_EQ(first.table().count() + last.table().count(), whole.table().count());
  for (VitBench* stage : {&first, &last})
    for (Param& row : stage->table().rows()) {
      const Tensor same = whole.table().at(row.name()).value;
      fill_with(row.value, [&](std::int64_t i) { return element(same, i); });
    }
  whole.forward_and_backward();
  last.forward(first.forward({}));
  first.backward(last.backward({}));
  EXPECT_TENSORS_NEAR(last.losses().view(), whole.losses().view(), 1e-12);
  for (VitBench* stage : {&first, &last})
    for (const Param& row : stage->table().rows())
      EXPECT_TENSORS_NEAR(row.grad, whole.table().at(row.name()).grad, 1e-12) << row.name();
}

// Megatron-LM's initial values: PyTorch's of linear modules, classes that all but nothing speaks
// for.
TEST(Vit, BeginsAsMegatronsDoes) {
  Vit model(tiny_vit(), StageRanges{{0, 2, true, true}});
  Stream stream(Device::cpu);
  model.table().allocate(Device::cpu, DType::f32, false);
  model.initialize(7, stream);
  const auto largest = [&](const char* name) {
    double most = 0;
    const Tensor& value = model.table().at(name).value;
    for (const float x : value.span<float>()) most = std::max(most, std::abs(double{x}));
    return most;
  };
  EXPECT_EQ(largest("embedding.class_tokens.weight"), 0);
  EXPECT_NEAR(largest("embedding.patch_embeddings.weight"), 1 / std::sqrt(12.0), 0.03);
  EXPECT_LE(largest("embedding.patch_embeddings.bias"), 1 / std::sqrt(12.0));
  EXPECT_GT(largest("head.dense_in.bias"), 0);
  EXPECT_NEAR(largest("head.dense_in.weight"), 1 / std::sqrt(8.0), 0.03);
  for (const float x : model.table().at("head.dense_out.bias").value.span<float>())
    EXPECT_EQ(x, -10);
}

TEST(Vit, SettingsThatDoNotFitAreRefused) {
  const auto refused = [](const auto& change) {
    ModelConfig c = tiny_vit();
    change(c);
    EXPECT_THROW(c.complete(), Error);
  };
  refused([](ModelConfig& c) { c.img_w = 7; });
  refused([](ModelConfig& c) { c.position_embedding_type = "rope"; });
  refused([](ModelConfig& c) { c.add_bias_linear = false; });
  refused([](ModelConfig& c) { c.window_size = "2,0"; });
}

}  // namespace
}  // namespace mt
