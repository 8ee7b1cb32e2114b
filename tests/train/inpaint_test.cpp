// A Vision Transformer that paints what it does not see, with its objective: the numbers are those
// of an independent model, and gradients the derivatives of the loss.
#include <gtest/gtest.h>

#include "comm/world.h"
#include "model/config/model_config.h"
#include "model/families/vit.h"
#include "ops/image_quality.h"
#include "optim/optimizer.h"
#include "tests/model/golden.h"
#include "tests/support/derivative.h"
#include "tests/support/workbench.h"
#include "train/run/inpaint_objective.h"

namespace mt {
namespace {

constexpr PatchedImages kShape{.images = 2, .height = 12, .width = 16, .patch = 4};
constexpr std::int64_t kPatches = 12, kWidth = 48, kAllPatches = 2 * kPatches;

ModelConfig tiny_painter() {
  ModelConfig c;
  c.family = ModelFamily::vit;
  c.vision_pretraining_type = "inpaint";
  c.num_layers = 2;
  c.hidden_size = 8;
  c.num_attention_heads = 2;
  c.img_h = kShape.height;
  c.img_w = kShape.width;
  c.patch_dim = kShape.patch;
  c.vocab_size = c.padded_vocab_size = c.num_classes;
  c.max_position_embeddings = c.image_tokens();
  c.attention_dropout = c.hidden_dropout = 0;
  c.complete();
  return c;
}

bool is_painted(std::int64_t patch) {
  for (const std::int64_t i : {1, 2, 5, 6, 7, 12, 15, 16, 23})
    if (i == patch) return true;
  return false;
}

double truth(std::int64_t i) { return 0.5 + 0.5 * std::sin(0.3 * static_cast<double>(i + 1)); }

// Two images, or as many rows of padding behind them, in a model and its memory.
class Painter {
 public:
  explicit Painter(std::int64_t images = 2)
      : model_(tiny_painter(), StageRanges{{0, 2, true, true}}),
        bench_({.sequences = images, .seq_length = kPatches}) {
    FieldSpecs specs = {{.field = Field::ids, .per_sample = kPatches}};
    for (const Field field : {Field::pixels, Field::values, Field::loss_mask})
      specs.push_back({.field = field,
                       .dtype = DType::f32,
                       .per_sample = field == Field::loss_mask ? kPatches : kPatches * kWidth});
    for (const FieldSpec& own : objective_.fields(specs)) specs.push_back(own);
    const std::int64_t bytes = fields_bytes(specs, images, DType::f64);
    storage_ = Buffer(Device::cpu, static_cast<std::size_t>(bytes));
    batch_ = fields_in(storage_.tensor(DType::u8, {bytes}), specs, images, DType::f64);
    for (std::int64_t i = 0; i < images * kPatches; ++i)
      batch_[Field::ids].as<std::int32_t>()[i] = static_cast<std::int32_t>(i % kPatches);
    fill_with(batch_[Field::loss_mask], [](std::int64_t i) { return is_painted(i) ? 1 : 0; });
    fill_with(batch_[Field::pixels], [](std::int64_t i) {
      return i >= kAllPatches * kWidth || is_painted(i / kWidth) ? 0 : truth(i);
    });
    fill_with(batch_[Field::values],
              [](std::int64_t i) { return is_painted(i / kWidth) ? truth(i) : 0; });
    objective_.weigh(batch_, std::vector<double>{1 / objective_.count(0, batch_), 9, 9});
    model_.table().allocate(Device::cpu, DType::f64, true);
    fill_in_order(model_.table(), 0.2);
  }

  ParamTable& table() { return model_.table(); }

  void run(bool training) {
    Step s = bench_.step();
    for (Arena* arena : {&s.keep, &s.layer, &s.deferred}) arena->rewind(0);
    ends_ = objective_.ends(batch_, keep_, DType::f64);
    const auto saved = model_.make_saved();
    Wire none, out, din;
    model_.forward(s, out, none, batch_, ends_, training ? saved.get() : nullptr);
    for (std::size_t i = 0; i < 3; ++i)
      objective_.sum_losses(i, {&terms_[i], DType::f64, {1}}, ends_, batch_, bench_.stream());
    keep_.rewind(0);
    if (!training) return;
    fill_with(gradients_of(table()), [](std::int64_t) { return 0; });
    s.layer.rewind(0);
    model_.backward(s, din, none, *saved);
    bench_.run_weight_grads();
  }
  const std::array<double, 3>& terms() const { return terms_; }

 private:
  InpaintObjective objective_{kShape};
  Vit model_;
  Workbench bench_;
  Buffer storage_;
  Fields batch_;
  Arena keep_{Buffer(Device::cpu, 1 << 20)};
  Ends ends_;
  std::array<double, 3> terms_ = {};
};

TEST(Inpaint, HasTheTermsAndGradientsOfTransformersLayers) {
  const Golden golden = read_golden("vit-inpaint");
  Painter painter;
  painter.run(true);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(painter.terms()[i], golden.numbers.at("terms")[i], 1e-5) << i;
  EXPECT_EQ(golden.numbers.size(), painter.table().rows().size() + 3);
  expect_gradients(painter.table(), golden, 1e-5);
}

TEST(Inpaint, LearnsAsThatDoes) {
  Painter painter;
  OptimizerOptions options;
  options.clip_grad = 1;
  const auto alone = make_single_group();
  const World world(*alone, {});
  Stream stream(Device::cpu);
  Optimizer optimizer(painter.table(), Device::cpu, DType::f64, options, world);
  fill_in_order(painter.table(), 0.2);
  const Golden golden = read_golden("vit-inpaint");
  ASSERT_EQ(golden.steps.size(), 20U);
  for (const std::vector<double>& step : golden.steps) {
    painter.run(true);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_NEAR(painter.terms()[i], step[i], 1e-4 * step[i]) << i;
    const StepResult result = optimizer.step(
        {.learning_rate = 1e-2, .decoupled_learning_rate = 1e-2, .weight_decay = 0.01}, 1, stream);
    EXPECT_NEAR(result.grad_norm, step[3], 1e-4 * step[3]);
  }
}

TEST(Inpaint, BackwardIsTheDerivativeOfTheLoss) {
  Painter painter;
  // Tokens as long as norms make them, beside which the steps of a difference are short.
  fill_with(painter.table().at("embedding.position_embeddings.weight").value,
            [](std::int64_t i) { return 2 * std::sin(1.7 * static_cast<double>(i + 1)); });
  painter.run(true);
  for (Param& row : painter.table().rows())
    expect_gradient(
        row.grad, row.value,
        [&] {
          painter.run(false);
          return painter.terms()[0];
        },
        9, row.name());
}

// Padding has nothing to paint, and is no image.
TEST(Inpaint, PaddingDoesNotCount) {
  Painter two, three(3);
  two.run(false);
  three.run(false);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(three.terms()[i], two.terms()[i], 1e-12) << i;
}

// Numbers below -1/2 or above 128 are taken for those of another range.
TEST(Inpaint, SimilarityIsOfTheRangeOfNumbers) {
  const Golden golden = read_golden("vit-inpaint");
  Stream stream(Device::cpu);
  const HostTensor mask(DType::f64, {kAllPatches}), t(DType::f64, {kAllPatches, kWidth});
  fill_with(mask, [](std::int64_t i) { return is_painted(i) ? 1 : 0; });
  fill_with(t, truth);
  for (const auto& [name, scale] : {std::pair{"range2", 0.8}, std::pair{"range256", 200.0}}) {
    const HostTensor x(DType::f64, {kAllPatches, kWidth}), similar(DType::f64, {6});
    fill_with(x, [scale = scale](std::int64_t i) {
      return scale * std::sin(0.37 * static_cast<double>(i + 1));
    });
    structural_similarity(similar, x, t, mask, kShape, stream);
    EXPECT_NEAR((element(similar, 0) + element(similar, 1)) / 2, golden.numbers.at(name)[0], 1e-9)
        << name;
  }
}

TEST(Inpaint, BeginsWithBlackPatches) {
  Vit model(tiny_painter(), StageRanges{{0, 2, true, true}});
  Stream stream(Device::cpu);
  model.table().allocate(Device::cpu, DType::f32, false);
  model.initialize(7, stream);
  for (const char* name : {"linear_decoder.weight", "linear_decoder.bias"})
    for (const float x : model.table().at(name).value.span<float>()) EXPECT_EQ(x, 0);
  EXPECT_EQ(model.table().at("embedding.position_embeddings.weight").shape,
            (Shape{kPatches, std::int64_t{8}}));
}

}  // namespace
}  // namespace mt
