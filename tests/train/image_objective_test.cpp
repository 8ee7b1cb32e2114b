// What a micro-batch of images comes to: its losses and how many are told right, of which a run
// reports the means over all images.
#include <gtest/gtest.h>

#include <cmath>

#include "data/images/image_samples.h"
#include "tensor/arena.h"
#include "tests/support/host_tensor.h"
#include "train/run/label_objective.h"

namespace mt {
namespace {

TEST(ImageObjective, IsTheMeanLossAndReportsTheShareThatIsRight) {
  const ImageShape shape{.width = 4, .height = 2, .patch = 2, .class_tokens = 1};
  const LabelObjective objective({.seq_length = shape.tokens(), .labels = 3},
                                 LabelObjective::Asks::first_of_image);
  ASSERT_EQ(objective.terms().size(), 2U);
  EXPECT_EQ(objective.terms()[1].weight, 0);
  FieldSpecs specs = image_fields(shape);
  for (const FieldSpec& own : objective.fields(specs)) specs.push_back(own);
  constexpr std::int64_t kSamples = 4;
  const std::int64_t bytes = fields_bytes(specs, kSamples, DType::f64);
  const Buffer storage(Device::cpu, static_cast<std::size_t>(bytes));
  const Fields batch = fields_in(storage.tensor(DType::u8, {bytes}), specs, kSamples, DType::f64);
  // The last is padding.
  std::ranges::copy(std::vector<std::int32_t>{2, 1, 0, 0}, batch[Field::labels].as<std::int32_t>());
  std::ranges::copy(std::vector<double>{1, 1, 1, 0}, batch[Field::loss_mask].as<double>());
  EXPECT_EQ(objective.count(0, batch), 3);
  objective.weigh(batch, std::vector<double>{0.25, 9});
  EXPECT_EQ(batch.span<std::int32_t>(Field::rows)[3], 9);  // the first of three tokens each
  EXPECT_EQ(batch.span<std::int32_t>(Field::row_of)[6], 2);
  EXPECT_EQ(batch.span<std::int32_t>(Field::row_of)[7], -1);
  Arena keep{Buffer(Device::cpu, 1 << 16)};
  const Ends ends = objective.ends(batch, keep, DType::f64);
  const HostTensor scores(DType::f64, {kSamples, 3});
  const std::vector<double> numbers{0, 1, 2, 5, 3, 4,
                                    1, 1, 0, 7, 0, 0};  // right, wrong, the first of two
  fill_with(scores, [&](std::int64_t i) { return numbers[static_cast<std::size_t>(i)]; });
  Stream stream(Device::cpu);
  ends.take_scores(scores, batch, true, stream);
  const auto loss = [&](std::size_t i, std::size_t label) {
    const double* const x = &numbers[3 * i];
    return std::log(std::exp(x[0]) + std::exp(x[1]) + std::exp(x[2])) - x[label];
  };
  double sum = 0, right = 0;
  objective.sum_losses(0, {&sum, DType::f64, {1}}, ends, batch, stream);
  objective.sum_losses(1, {&right, DType::f64, {1}}, ends, batch, stream);
  EXPECT_NEAR(sum, loss(0, 2) + loss(1, 1) + loss(2, 0), 1e-12);
  EXPECT_EQ(right, 2);
  EXPECT_NEAR(element(scores, 2), 0.25 * (std::exp(-loss(0, 2)) - 1), 1e-12);
  EXPECT_EQ(element(scores, 9), 0);
  for (const Term& term : objective.terms()) EXPECT_EQ(term.mean, Term::Mean::of_losses);
  const TermValues values = objective.values(std::vector<LossSum>{{sum, 3}, {right, 3}});
  EXPECT_NEAR(objective.total(values), sum / 3, 1e-12);
}

}  // namespace
}  // namespace mt
