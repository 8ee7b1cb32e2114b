#include "retro/block_list.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

std::string last_of(std::int64_t count, std::int64_t size) {
  return retro_blocks(count, size).back().file;
}

TEST(RetroBlocks, AreNamedAsMegatronNamesThem) {
  EXPECT_EQ(last_of(1, 10), "0-1.hdf5");
  EXPECT_EQ(last_of(10, 10), "00-10.hdf5");
  EXPECT_EQ(last_of(99, 100), "000-099.hdf5");
  EXPECT_EQ(last_of(1000, 1000), "0000-1000.hdf5");  // a logarithm just below 3
  EXPECT_EQ(last_of(1001, 2000), "00000-01001.hdf5");
  EXPECT_EQ(last_of(10000, 10000), "00000-10000.hdf5");
  EXPECT_EQ(last_of(50000, 100000), "000000-050000.hdf5");
  EXPECT_EQ(last_of(100001, 100000), "0100000-0100001.hdf5");
  EXPECT_EQ(last_of(68104992, 100000), "068100000-068104992.hdf5");
}

TEST(RetroBlocks, CoverAll) {
  const auto blocks = retro_blocks(25, 10);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].file, "000-010.hdf5");
  EXPECT_EQ(blocks[1].items.begin, 10);
  EXPECT_EQ(blocks[2].items.end, 25);
}

}  // namespace
}  // namespace mt
