// Muon's formulas: scales, orthogonal matrices, settings that do not fit together.
#include "optim/muon.h"

#include <gtest/gtest.h>

#include "tests/support/host_tensor.h"

namespace mt {
namespace {

TEST(Muon, GoldenScales) {
  EXPECT_EQ(muon_scale(4096, 1024, "spectral"), 64);
  EXPECT_EQ(muon_scale(1024, 4096, "spectral"), 64);
  EXPECT_EQ(muon_scale(4096, 1024, "shape_scaling"), 2);
  EXPECT_EQ(muon_scale(1024, 4096, "shape_scaling"), 1);
  EXPECT_EQ(muon_scale(1024, 4096, "unit_rms_norm"), 0.5);
}

// Rows (or columns, if they are fewer) become orthogonal, of lengths near 1.
TEST(Muon, RowsBecomeNearlyOrthogonal) {
  MuonOptions options;
  options.coefficient_type = "polar_express";
  options.num_ns_steps = 12;
  for (const Shape& shape : {Shape{3, 8}, Shape{8, 3}, Shape{1, 5}}) {
    const HostTensor x = random_tensor(DType::f64, shape, 5);
    Arena scratch(Buffer(Device::cpu, 1 << 14));
    Stream stream(Device::cpu);
    orthogonalize(x, options, scratch, stream);
    const bool wide = shape[0] <= shape[1];
    const std::int64_t m = std::min(shape[0], shape[1]), n = std::max(shape[0], shape[1]);
    const auto at = [&](std::int64_t row, std::int64_t col) {
      return element(x, wide ? row * n + col : col * m + row);
    };
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        double product = 0;
        for (std::int64_t k = 0; k < n; ++k) product += at(i, k) * at(j, k);
        EXPECT_NEAR(product, i == j, 1e-3) << shape << i << j;
      }
  }
}

TEST(Muon, ZeroStaysZero) {
  const HostTensor x(DType::f32, {4, 4});
  Arena scratch(Buffer(Device::cpu, 1 << 14));
  Stream stream(Device::cpu);
  orthogonalize(x, {}, scratch, stream);
  EXPECT_EQ(largest(x.view()), 0);
}

TEST(Muon, StepsFitTheirCoefficients) {
  const auto complete = [](const char* type, std::int64_t steps) {
    MuonOptions options;
    options.coefficient_type = type;
    options.num_ns_steps = steps;
    options.complete();
  };
  complete("simple", 7);
  complete("quintic", 10);
  complete("polar_express", 9);
  complete("aol", 8);
  EXPECT_THROW(complete("quintic", 6), Error);
  EXPECT_THROW(complete("polar_express", 7), Error);
  EXPECT_THROW(complete("aol", 5), Error);
}

}  // namespace
}  // namespace mt
