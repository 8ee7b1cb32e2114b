#include "kernels/nibble_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mt::cpu {
namespace {

// Sums one by one, and what is near of them.
TEST(NibbleSums, AreThoseOfEachCode) {
  std::mt19937 random(1);
  for (const std::int64_t bytes : {1, 2, 3, 4, 5, 8, 17, 128})
    for (const std::int64_t count : {1, 31, 32, 33, 250})
      for (std::int64_t tables = 1; tables <= kMostNibbleTables; ++tables) {
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(count * bytes)),
            table(static_cast<std::size_t>(tables * 2 * bytes * kNibbleEntries));
        for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random());
        for (std::uint8_t& entry : table) entry = static_cast<std::uint8_t>(random());
        if (tables == 2) std::ranges::fill(table, std::uint8_t{255});
        const std::int64_t size = nibble_table_size(bytes), each = 2 * bytes * kNibbleEntries;
        std::vector<std::uint8_t> put(static_cast<std::size_t>(tables * size));
        const std::vector<std::uint8_t> tiles = nibble_tiles(codes, bytes);
        NibbleSums problem = {.tiles = tiles.data(),
                              .count = (count + kNibbleTile - 1) / kNibbleTile,
                              .bytes = bytes,
                              .table_count = tables};
        ASSERT_EQ(std::ssize(tiles), problem.count * nibble_tile_size(bytes));
        for (std::int64_t t = 0; t < tables; ++t) {
          put_nibble_table(put.data() + t * size, table.data() + t * each, bytes);
          problem.tables[t] = put.data() + t * size;
          problem.limits[t] = static_cast<std::uint16_t>(t == 3 ? 65535 : 255 * bytes);
        }
        std::vector<std::uint16_t> sums(
            static_cast<std::size_t>(tables * problem.count * kNibbleTile));
        std::vector<std::uint32_t> near(static_cast<std::size_t>(tables * problem.count));
        const std::uint32_t some = nibble_sums(sums.data(), near.data(), problem);
        for (std::int64_t t = 0; t < tables; ++t)
          EXPECT_EQ(some >> t & 1, std::ranges::any_of(near.begin() + t * problem.count,
                                                       near.begin() + (t + 1) * problem.count,
                                                       [](std::uint32_t bits) { return bits != 0; })
                                       ? 1U
                                       : 0U);
        EXPECT_EQ(some >> tables, 0U);
        for (std::int64_t t = 0; t < tables; ++t)
          for (std::int64_t i = 0; i < count; ++i) {
            int right = 0;
            for (std::int64_t b = 0; b < bytes; ++b) {
              const std::uint8_t code = codes[static_cast<std::size_t>(i * bytes + b)];
              const std::uint8_t* const entries = table.data() + t * each + 2 * b * kNibbleEntries;
              right += entries[code & 15] + entries[kNibbleEntries + (code >> 4)];
            }
            const auto place = static_cast<std::size_t>(t * problem.count * kNibbleTile + i);
            ASSERT_EQ(sums[place], right) << bytes << " " << count << " " << t << " " << i;
            ASSERT_EQ(near[place / kNibbleTile] >> i % kNibbleTile & 1,
                      right <= problem.limits[t] ? 1U : 0U)
                << bytes << " " << count << " " << t << " " << i;
          }
      }
}

}  // namespace
}  // namespace mt::cpu
