// Sinkhorn's keys against those of Megatron-Core 0.12.1, and the jitter's bounds.
#include "kernels/sinkhorn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/step_record.h"

namespace mt {
namespace {

using Numbers = std::vector<double>;

// Megatron-Core 0.12.1's sinkhorn() of the same logits in float64.
TEST(Sinkhorn, KeysAreMegatrons) {
  constexpr std::int64_t kTokens = 7, kExperts = 5;
  const Numbers expected = {.013145315, .090857349, .000693476, .000609855, .037556313, .068200034,
                            .000268633, .000110481, .061026851, .013258534, .002547328, .010282786,
                            .103869441, .024536757, .001602041, .028781192, .048356336, .000192079,
                            .000822267, .064713305, .034858877, .000164194, .000334394, .102279097,
                            .005225631, .002501914, .033498754, .094738565, .009366916, .002734041,
                            .049965316, .016571940, .000061561, .001358240, .074910120};
  Numbers z(expected.size()), keys(z.size()), work(kTokens + 2 * kExperts);
  for (std::size_t i = 0; i < z.size(); ++i)
    z[i] = static_cast<float>(3 * std::sin(1.7 * static_cast<double>(i)));
  cpu::sinkhorn(keys.data(), work.data(), z.data(), kTokens, kExperts);
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(keys[i], expected[i], 1e-9) << i;
}

TEST(Sinkhorn, JitterIsBoundedAndOfThePlaceAlone) {
  constexpr std::int64_t kRows = 6, kCols = 13;
  const StepRecord record{.first_sample = 3};
  Jitter by{{.p = 0.25, .key = RandomKey::make(7, 1), .seq_length = 4, .record = &record}};
  const Numbers x(kRows * kCols, 2);
  Numbers all(x.size()), tail(x.size());
  cpu::jitter(all.data(), x.data(), kRows, kCols, by);
  double least = 2, most = 2;
  for (const double y : all) least = std::min(least, y), most = std::max(most, y);
  EXPECT_GT(least, 1.5);
  EXPECT_LT(most, 2.5);
  EXPECT_LT(least, 1.6);
  EXPECT_GT(most, 2.4);
  by.places.first_row = 2;
  cpu::jitter(tail.data(), x.data(), kRows - 2, kCols, by);
  for (std::int64_t i = 0; i < (kRows - 2) * kCols; ++i) EXPECT_EQ(tail[i], all[i + 2 * kCols]);
}

}  // namespace
}  // namespace mt
