// Codes of a matrix's parts, which ranks would have each, are those of the whole.
#include "kernels/fp8_parts.h"

#include <cmath>

#include "tests/kernels/fp8_block_codes.h"

namespace mt {
namespace {

TEST(Fp8Parts, HaveTheCodesOfTheWhole) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>(16, 16), {304, 208}}) {
    auto x = check::random<double>(rows * cols, 5);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = std::ldexp(x[i], static_cast<int>(i % 23) - 12);
    const check::BlockCodes expected(x, rows, cols, true);
    const auto squares = static_cast<std::size_t>(fp8_blocks(rows) * fp8_blocks(cols));
    std::vector<float> amax(squares);
    std::vector<std::uint8_t> codes(x.size()), transposed(x.size());
    const std::int64_t ends[] = {0, rows * cols / 3, rows * cols / 3 + 1, rows * cols};
    const auto part_of = [&](int i) {
      return Fp8Part<double>{.x = x.data() + ends[i],
                             .begin = ends[i],
                             .count = ends[i + 1] - ends[i],
                             .rows = rows,
                             .cols = cols};
    };
    for (int i = 0; i < 3; ++i) cpu::fp8_part_squares(amax.data(), part_of(i));
    for (int i = 0; i < 3; ++i)
      cpu::fp8_part_cast_squares(codes.data() + ends[i], part_of(i), amax.data());
    EXPECT_EQ(codes, expected.codes);
    cpu::fp8_transpose(transposed.data(), codes.data(), rows, cols);
    EXPECT_EQ(transposed, expected.transposed);
    std::vector<float> inverse(expected.inverse.size()),
        of_columns(expected.transposed_inverse.size());
    cpu::fp8_square_inverses(inverse.data(), of_columns.data(), amax.data(), rows, cols);
    EXPECT_EQ(inverse, expected.inverse);
    EXPECT_EQ(of_columns, expected.transposed_inverse);
  }
}

}  // namespace
}  // namespace mt
