#include "kernels/adam.h"

#include <cmath>
#include <random>

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

StepRecord record_of_step(int step, const AdamOptions& options) {
  return {.learning_rate = 1e-3,
          .weight_decay = 0.1,
          .bias_correction1 = 1 - std::pow(options.beta1, step),
          .bias_correction2 = 1 - std::pow(options.beta2, step)};
}

template <class T>
void check_three_steps(double tolerance) {
  const AdamOptions options = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
  T p = 1, m = 0, v = 0;
  const double gradients[] = {0.5, -0.25, 0.1};
  const double expected[] = {0.99890000002, 0.99853174058, 0.99811060233};
  for (int step = 1; step <= 3; ++step) {
    const StepRecord record = record_of_step(step, options);
    const T g = static_cast<T>(gradients[step - 1]);
    cpu::adam(&p, &m, &v, &g, 1, options, 1.0, 1.0, &record);
    EXPECT_NEAR(p, expected[step - 1], tolerance) << "step " << step;
  }
}

TEST(Adam, GoldenOfThreeSteps) {
  check_three_steps<double>(5e-12);
  check_three_steps<float>(2e-7);
}

template <class T>
void check_against_formula(std::int64_t count) {
  const AdamOptions options;
  StepRecord record = record_of_step(3, options);
  record.gradient_scale = 0.25;
  auto p = random<T>(count, 1), m = random<T>(count, 2), v = random<T>(count, 3, 0, 1);
  const auto g = random<T>(count, 4);
  std::vector<double> new_p(p.size()), new_m(p.size()), new_v(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double scaled = g[i] * 0.25;
    new_m[i] = 0.9 * m[i] + 0.1 * scaled;
    new_v[i] = 0.999 * v[i] + 0.001 * scaled * scaled;
    new_p[i] = p[i] - 2e-3 * (new_m[i] / record.bias_correction1 /
                                  (std::sqrt(new_v[i] / record.bias_correction2) + 1e-8) +
                              0.05 * p[i]);
  }
  cpu::adam(p.data(), m.data(), v.data(), g.data(), count, options, 2.0, 0.5, &record);
  EXPECT_TRUE(check::near(p, new_p)) << count;
  EXPECT_TRUE(check::near(m, new_m)) << count;
  EXPECT_TRUE(check::near(v, new_v)) << count;
}

TEST(Adam, FollowsTheFormula) {
  for (const std::int64_t count : {0, 1, 31, 33, 50000}) {
    check_against_formula<float>(count);
    check_against_formula<double>(count);
  }
}

TEST(Adam, SameBitsOnAnyThreads) {
  const StepRecord record = record_of_step(1, {});
  const auto g = random<float>(50001, 4);
  check::expect_same_on_any_threads([&] {
    auto p = random<float>(50001, 1), m = random<float>(50001, 2),
         v = random<float>(50001, 3, 0, 1);
    cpu::adam(p.data(), m.data(), v.data(), g.data(), 50001, {}, 1.0, 1.0, &record);
    return p;
  });
}

// What is kept of a scaled moment, times its scale, has the same scale, in which it is exact.
TEST(Adam, ScalesOfScaledMomentsAreTheirOwn) {
  std::mt19937 engine(5);
  for (const float range : {kFp16Range, kFp8Range})
    for (int i = 0; i < 100000; ++i) {
      const float largest = std::ldexp(1 + static_cast<float>(engine() % (1 << 23)) * 0x1p-23f,
                                       static_cast<int>(engine() % 180) - 120);
      const float scale = kept_scale(largest, range);
      ASSERT_GE(scale, 0x1p-100f);
      if (scale > 0x1p-100f) {
        ASSERT_NEAR(largest / scale, range, range * 0x1p-13f * 1.001f);
      }
      ASSERT_EQ(static_cast<double>(range) * scale, range * scale);
      ASSERT_EQ(kept_scale(range * scale, range), scale) << largest;
      const auto odd = static_cast<float>(engine() % 2048 | 1);  // of fp16's 11 bits
      ASSERT_EQ(static_cast<double>(odd) * scale, odd * scale);
    }
  for (const float range : {kFp16Range, kFp8Range}) EXPECT_EQ(kept_scale(0, range), 0x1p-100f);
}

}  // namespace
}  // namespace mt
