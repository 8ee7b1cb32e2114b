#include "kernels/row_scale.h"

#include <cmath>

#include "tests/kernels/check.h"

namespace mt {
namespace {

// Two rows of lengths 5 and 13, of which the second has a magnitude.
TEST(RowScale, GivesRowsTheirLengths) {
  const std::vector<double> x = {3, 4, 5, 12}, m = {26};
  const RowBlock second{.period = 2, .first = 1, .count = 1};
  std::vector<double> squares(2), factor = {1, 1}, y(4), dm = {1};
  cpu::row_squares(squares.data(), x.data(), 2, 2);
  EXPECT_EQ(squares, (std::vector<double>{25, 169}));
  cpu::row_factors(factor.data(), m.data(), squares.data(), 1, second);
  cpu::scale_rows(y.data(), x.data(), factor.data(), 2, 2);
  EXPECT_EQ(y, (std::vector<double>{3, 4, 10, 24}));
  const std::vector<double> total = {7, 39};
  cpu::add_over_norms(dm.data(), total.data(), squares.data(), 1, second);
  EXPECT_EQ(dm, std::vector<double>{4});
  cpu::multiply(y.data(), y.data(), x.data(), 4);
  EXPECT_EQ(y, (std::vector<double>{9, 16, 50, 288}));
  cpu::scale_columns(y.data(), x.data(), factor.data(), 2, 2);
  EXPECT_EQ(y, (std::vector<double>{3, 8, 5, 24}));
}

}  // namespace
}  // namespace mt
