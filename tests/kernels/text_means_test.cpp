#include "kernels/text_means.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace mt {
namespace {

TEST(TextMeans, AreOfEachTextsRows) {
  const std::vector<double> x = {1, 2, 3, 4, 6, 8, NAN, NAN, 5, -5};
  const std::vector<std::int32_t> first = {0, 4, 2, 4}, count = {3, 1, 1, 0};
  std::vector<double> mean(8, NAN);
  cpu::text_means(mean.data(), x.data(), {first.data(), count.data(), 4}, 2);
  EXPECT_EQ(mean, (std::vector<double>{10.0 / 3, 14.0 / 3, 5, -5, 6, 8, 0, 0}));
}

}  // namespace
}  // namespace mt
