// A student and its teacher: their numbers are those of PyTorch, also as they learn, and the
// gradients are the derivatives of the loss.
#include "model/families/dino.h"

#include <gtest/gtest.h>

#include <numbers>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "optim/optimizer.h"
#include "tests/model/golden.h"
#include "tests/support/derivative.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kImages = 2, kOthers = 3, kWhole = 17, kOther = 12, kWidth = 12,
                       kOutputs = 10, kViews = kImages * (2 + kOthers);

ModelConfig tiny_dino(double dropout = 0, double drop_path = 0) {
  ModelConfig c;
  c.family = ModelFamily::vit;
  c.vision_pretraining_type = "dino";
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.img_h = c.img_w = 6;
  c.patch_dim = 2;
  c.dino_local_img_size = 4;
  c.dino_local_crops_number = kOthers;
  c.dino_head_hidden_size = 6;
  c.dino_bottleneck_size = 4;
  c.dino_out_dim = kOutputs;
  c.vocab_size = c.padded_vocab_size = c.num_classes = 3;
  c.max_position_embeddings = c.image_tokens();
  c.attention_dropout = c.hidden_dropout = dropout;
  c.dino_drop_path = drop_path;
  c.init_method_std = 0.3;
  c.complete();
  return c;
}

// Patches of numbers, and zeroes in the places of tokens of classes.
void fill_pixels(Tensor pixels, std::int64_t tokens) {
  fill_with(pixels, [&](std::int64_t i) {
    const std::int64_t patches = tokens - kClassTokens, token = i / kWidth % tokens - kClassTokens,
                       number = (i / kWidth / tokens * patches + token) * kWidth + i % kWidth + 1;
    return token < 0 ? 0 : std::sin(0.3 * static_cast<double>(number));
  });
}

class DinoBench {
 public:
  explicit DinoBench(const ModelConfig& config, DType dtype = DType::f64, bool deferring = false)
      : model_(config, StageRanges{{.end = config.num_layers}}),
        bench_({.dtype = dtype,
                .sequences = kImages,
                .seq_length = 2 * kWhole,
                .deferring = deferring}),
        loss_(dtype, {kViews}),
        weight_(dtype, {kViews}),
        features_(dtype, {kImages, 2 * 8}),
        pixels_(dtype, {kImages * 2 * kWhole * kWidth}),
        local_(dtype, {kImages * kOthers * kOther * kWidth}),
        sharpness_(dtype, {2 * kImages}),
        learns_(dtype, {kViews}) {
    model_.table().allocate(Device::cpu, dtype, true);
    model_.initialize(7, bench_.stream());
    fill_with(weight_, [](std::int64_t) { return 1.0 / kImages; });
    fill_pixels(pixels_, kWhole);
    fill_pixels(local_, kOther);
    set(0.04, true);
    for (std::int64_t i = 0; i < kImages * 2 * kWhole; ++i)
      ids_.push_back(static_cast<std::int32_t>(i % kWhole));
    for (std::int64_t i = 0; i < kImages * kOthers * kOther; ++i)
      local_ids_.push_back(static_cast<std::int32_t>(i % kOther));
    const auto count = [&](std::int64_t parts, std::int64_t tokens) {
      for (std::int64_t i = 0; i < parts * tokens; ++i)
        row_of_.push_back(static_cast<std::int32_t>(i % tokens == 0 ? i / tokens : -1));
      for (std::int64_t r = 0; r < parts; ++r)
        rows_.push_back(static_cast<std::int32_t>(r * tokens));
    };
    count(2 * kImages, kWhole);
    count(kOthers * kImages, kOther);
  }

  void set(double temperature, bool last_learns) {
    fill_with(sharpness_, [&](std::int64_t) { return 1 / temperature; });
    fill_with(learns_, [&](std::int64_t) { return last_learns ? 1.0 : 0.0; });
  }
  Dino& model() { return model_; }
  ParamTable& table() { return model_.table(); }
  Stream& stream() { return bench_.stream(); }
  const HostTensor& losses() const { return loss_; }
  const HostTensor& features() const { return features_; }
  double objective() const { return dot_of(weight_, loss_); }

  double forward(bool training = true) {
    Step s = bench_.step();
    s.training = training;
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    saved_ = model_.make_saved();
    Wire out;
    Ends ends{.loss = loss_, .weight = weight_};
    ends.logits = features_;
    model_.forward(s, out, {}, batch(), ends, training ? saved_.get() : nullptr);
    s.layer.rewind(0);
    return objective();
  }
  void forward_and_backward() {
    for (Param& row : table().rows())
      if (row.grad) fill_with(row.grad, [](std::int64_t) { return 0; });
    forward();
    Step s = bench_.step();
    Wire din;
    model_.backward(s, din, {}, *saved_);
    bench_.run_weight_grads();
  }

 private:
  Fields batch() {
    const auto numbers = [](std::vector<std::int32_t>& of) {
      return Tensor(of.data(), DType::i32, {std::ssize(of)}, Device::cpu);
    };
    Fields batch;
    batch[Field::ids] = numbers(ids_);
    batch[Field::local_ids] = numbers(local_ids_);
    batch[Field::pixels] = pixels_;
    batch[Field::local_pixels] = local_;
    batch[Field::sharpness] = sharpness_;
    batch[Field::last_learns] = learns_;
    batch[Field::rows] = numbers(rows_);
    batch[Field::row_of] = numbers(row_of_);
    return batch;
  }

  Dino model_;
  Workbench bench_;
  HostTensor loss_, weight_, features_, pixels_, local_, sharpness_, learns_;
  std::vector<std::int32_t> ids_, local_ids_, rows_, row_of_;
  std::unique_ptr<Model::Saved> saved_;
};

void expect_numbers(ConstTensor made, const std::vector<double>& expected) {
  ASSERT_EQ(static_cast<std::size_t>(made.numel()), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(element(made, static_cast<std::int64_t>(i)), expected[i], 1e-8) << i;
}

// testdata/model/dino.golden
TEST(Dino, HasTheLossesFeaturesAndGradientsOfPyTorch) {
  DinoBench bench(tiny_dino());
  fill_in_order(bench.table(), 0.2);
  const Golden golden = read_golden("dino");
  bench.forward(false);
  expect_numbers(bench.features().view(), golden.numbers.at("features"));
  bench.forward_and_backward();
  expect_numbers(bench.losses().view(), golden.numbers.at("losses"));
  std::size_t learnt = 0;
  for (const Param& row : bench.table().rows()) {
    if (!row.grad) continue;
    ++learnt;
    const std::vector<double>& expected = golden.numbers.at(local_name(row));
    const double largest =
        std::abs(*std::ranges::max_element(expected, {}, [](double x) { return std::abs(x); }));
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(element(row.grad, static_cast<std::int64_t>(i)), expected[i],
                  1e-5 * largest + 1e-12)
          << row.name() << " " << i;
  }
  EXPECT_EQ(golden.numbers.size(), learnt + 2);
}

double squares_of(DinoBench& bench, std::string_view stack) {
  double sum = 0;
  for (const Param& row : bench.table().rows())
    if (row.place.stack.starts_with(stack)) sum += dot_of(row.value, row.value);
  return sum;
}

TEST(Dino, LearnsAndFollowsAsPyTorchDoes) {
  DinoBench bench(tiny_dino());
  OptimizerOptions options;
  options.clip_grad = 1;
  const auto alone = make_single_group();
  const World world(*alone, {});
  Optimizer optimizer(bench.table(), Device::cpu, DType::f64, options, world);
  fill_in_order(bench.table(), 0.2);
  const Golden golden = read_golden("dino");
  ASSERT_EQ(golden.steps.size(), 12U);
  for (std::size_t i = 0; i < golden.steps.size(); ++i) {
    const std::vector<double>& step = golden.steps[i];
    const double at = static_cast<double>(i);
    bench.set(0.04 + 0.003 * at, i >= 4);
    bench.forward_and_backward();
    EXPECT_NEAR(bench.objective(), step[0], 1e-7 * step[0]) << i;
    const StepResult result = optimizer.step(
        {.learning_rate = 1e-2, .decoupled_learning_rate = 1e-2, .weight_decay = 0.01}, 1,
        bench.stream());
    EXPECT_NEAR(result.grad_norm, step[1], 1e-6 * step[1]) << i;
    const double momentum = 1 - 0.002 * (1 + std::cos(std::numbers::pi * at / 12));
    bench.model().move_center(*alone, 2 * kImages, bench.stream());
    for (const Dino::Pair& pair : bench.model().pairs())
      bench.model().follow(pair, momentum, bench.stream());
    EXPECT_NEAR(squares_of(bench, "teacher_model."), step[2], 1e-7 * step[2]) << i;
    EXPECT_NEAR(squares_of(bench, "dino_loss"), step[3], 1e-7 * step[3]) << i;
  }
}

// What the teacher says is no less dropped than what the student says, which passes over branches
// as well.
TEST(Dino, BackwardIsTheDerivativeOfTheLoss) {
  DinoBench bench(tiny_dino(0.2, 0.5));
  fill_in_order(bench.table(), 0.2);
  bench.forward_and_backward();
  for (Param& row : bench.table().rows())
    if (row.grad)
      expect_gradient(
          row.grad, row.value, [&] { return bench.forward(); }, 9, row.name());
}

TEST(Dino, DeferredWeightGradientsHaveTheSameBits) {
  const ModelConfig config = tiny_dino(0.2, 0.5);
  DinoBench bench(config, DType::f32), deferring(config, DType::f32, true);
  bench.forward_and_backward();
  deferring.forward_and_backward();
  for (std::size_t i = 0; i < bench.table().rows().size(); ++i) {
    const Param& row = bench.table().rows()[i];
    if (!row.grad) continue;
    EXPECT_SAME_BITS(deferring.table().rows()[i].grad, row.grad) << row.name();
  }
}

// The center is the last row, and moves by what the teacher says.
TEST(Dino, TheStudentAlonePassesOverBranches) {
  DinoBench bench(tiny_dino()), passing(tiny_dino(0, 0.9));
  EXPECT_NE(bench.forward(), passing.forward());
  const auto alone = make_single_group();
  for (DinoBench* each : {&bench, &passing})
    each->model().move_center(*alone, 2 * kImages, each->stream());
  EXPECT_SAME_BITS(bench.table().rows().back().value, passing.table().rows().back().value);
  EXPECT_GT(squares_of(bench, "dino_loss"), 0);
}

TEST(Dino, TheTeacherBeginsAsTheStudent) {
  DinoBench bench(tiny_dino());
  for (const Dino::Pair& pair : bench.model().pairs()) {
    EXPECT_SAME_BITS(pair.teacher->value, pair.student->value) << pair.student->name();
    EXPECT_FALSE(pair.teacher->trainable);
  }
  EXPECT_EQ(squares_of(bench, "dino_loss"), 0);
  EXPECT_GT(squares_of(bench, "teacher_model.decoder"), 0);
}

}  // namespace
}  // namespace mt
