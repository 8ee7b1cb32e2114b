// Rows as GPUs multiply them stand for the numbers that their blocks stand for.
#include "kernels/packed_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tests/kernels/packed_bytes.h"

namespace mt {
namespace {

using check::kBlockTypes;
using check::packed;

void expect_same_numbers(const std::vector<BlockType>& types, std::int64_t cols,
                         std::size_t classes) {
  const auto rows = packed(types, cols);
  const PackedTiles form(types, cols);
  ASSERT_EQ(form.classes().size(), classes);
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(form.bytes()), 0xff);
  form.lay_out(tiles.data(), PackedRows(rows.data()));
  std::vector<float> expected(types.size() * static_cast<std::size_t>(cols)), got = expected;
  cpu::unpack_rows(expected.data(), rows.data());
  cpu::unpack_tiles(got.data(), tiles.data(), form);
  // nvfp4's scale may divide there, and its inverse multiplies here.
  const bool divides = std::ranges::find(types, BlockType::nvfp4) != types.end();
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], divides ? 3e-7F * std::fabs(expected[i]) : 0) << i;
}

TEST(PackedTiles, StandForTheSameNumbers) {
  for (const BlockType type : kBlockTypes)
    for (const std::int64_t cols : {256, 1280}) {
      SCOPED_TRACE(concat("type ", static_cast<int>(type), ", ", cols, " columns"));
      expect_same_numbers(std::vector<BlockType>(21, type), cols, 1);
    }
}

TEST(PackedTiles, RowsAreOfSeveralTypes) {
  using enum BlockType;
  expect_same_numbers({q8_0, q8_0, q5_1, q4_0, q4_0, q8_0, q8_0, q8_0, q5_0}, 320, 4);
  expect_same_numbers({int8, e4m3, e4m3, nvfp4, e4m3}, 384, 3);
}

}  // namespace
}  // namespace mt
