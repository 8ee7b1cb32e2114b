#include "kernels/row_block.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

// Of every three rows the last two, and of three columns the last.
TEST(RowBlock, HasItsPlace) {
  const std::vector<float> narrow = {1, 2, 3, 4};
  std::vector<float> wide(6 * 3);
  const RowBlock block{.period = 3, .first = 1, .count = 2, .column = 2};
  cpu::spread<float>(wide.data(), 3, narrow.data(), 4, 1, block, 10);
  EXPECT_EQ(wide, (std::vector<float>{0, 0, 0, 0, 0, 10, 0, 0, 20,  //
                                      0, 0, 0, 0, 0, 30, 0, 0, 40}));
  std::vector<float> sum = {1, 1, 1, 1};
  cpu::collect<float>(sum.data(), 4, 1, wide.data(), 3, block, 0.5f);
  EXPECT_EQ(sum, (std::vector<float>{6, 11, 16, 21}));
}

TEST(RowBlock, BlocksSideBySideAreAll) {
  for (const std::int64_t groups : {0, 1, 31, 600}) {
    const auto x = check::random<float>(groups * 5 * 7, 1);
    std::vector<float> again(x.size());
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
      const RowBlock block{.period = 5, .first = first, .count = count};
      std::vector<float> part(static_cast<std::size_t>(groups * count * 7));
      cpu::collect<float>(part.data(), groups * count, 7, x.data(), 7, block, 1);
      cpu::spread<float>(again.data(), 7, part.data(), groups * count, 7, block, 1);
    }
    EXPECT_EQ(again, x) << groups << " groups";
  }
}

}  // namespace
}  // namespace mt
