// Codes of blocks against PyTorch's and the golden values of our specification; products against
// sums in double.
#include "tests/kernels/fp8_block_codes.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/data/fnv.h"

namespace mt {
namespace {

using check::BlockCodes;
using check::number_at;

std::vector<float> numbers_of(const BlockCodes& of) {
  std::vector<float> y;
  for (std::int64_t r = 0; r < of.rows; ++r)
    for (std::int64_t c = 0; c < of.cols; ++c)
      y.push_back(number_at(of.codes, of.inverse, of.rows, of.cols, r, c));
  return y;
}
std::vector<float> transposed_numbers_of(const BlockCodes& of) {  // as x lies
  std::vector<float> y;
  for (std::int64_t r = 0; r < of.rows; ++r)
    for (std::int64_t c = 0; c < of.cols; ++c)
      y.push_back(number_at(of.transposed, of.transposed_inverse, of.cols, of.rows, c, r));
  return y;
}

TEST(Fp8Blocks, RoundAsPyTorch) {
  std::vector<float> x(200 * 144);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint32_t bits = (static_cast<std::uint32_t>(i) + 7 * 1000003U) * 374761393U;
    x[i] = std::ldexp(static_cast<float>(bits / 2147483648.0 - 1), static_cast<int>(i % 41) - 20);
  }
  const BlockCodes lines(x, 200, 144, false), squares(x, 200, 144, true);
  std::ifstream golden(std::string(MT_TESTDATA) + "/fp8/torch.golden");
  int compared = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    std::string what, blocks, hash;
    words >> what >> blocks >> hash;
    if (what != "round") continue;
    const std::vector<float> y = blocks == "of_rows"      ? numbers_of(lines)
                                 : blocks == "of_columns" ? transposed_numbers_of(lines)
                                                          : numbers_of(squares);
    EXPECT_EQ(hash_of(y), hash) << blocks;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
  EXPECT_EQ(transposed_numbers_of(squares), numbers_of(squares));
}

TEST(Fp8Blocks, RoundAsTheSpecification) {
  const std::vector<float> x = {.013F, -.5F, .271F, 3.1F, .0007F, -2.2F};
  EXPECT_EQ(fp8_block_scale(3.1F), 128);
  EXPECT_EQ(numbers_of(BlockCodes(x, 1, 6, false)),
            (std::vector<float>{.0126953125F, -.5F, .28125F, 3, .00067138671875F, -2.25F}));
}

// A NaN's and an infinity's block has a scale of 1, as one of zeros, and leaves others alone.
TEST(Fp8Blocks, NumbersThatAreNoneStayInTheirBlocks) {
  std::vector<float> x(2 * 256, 0);
  x[0] = NAN;
  x[130] = 3.1F;
  x[256] = INFINITY;
  const BlockCodes codes(x, 2, 256, false);
  EXPECT_EQ(codes.inverse, (std::vector<float>{1, 1, 1 / 128.F, 1}));
  EXPECT_TRUE(std::isnan(numbers_of(codes)[0]));
  EXPECT_EQ(numbers_of(codes)[130], 3);
  EXPECT_EQ(numbers_of(codes)[256], 448);
}

TEST(Fp8Blocks, MultiplyWhatCodesStandForOnAnyThreads) {
  constexpr std::int64_t kM = 48, kN = 144, kK = 304, kAhead = 16, kRows = kAhead + kM;
  const auto x = check::random<double>(kRows * kK, 1), w = check::random<double>(kN * kK, 2);
  const BlockCodes a(x, kRows, kK, false), b(w, kN, kK, true);
  const auto bias = check::random<double>(kN, 3), old = check::random<double>(kM * kN, 4);
  std::vector<double> expected;
  for (std::int64_t i = 0; i < kM; ++i)
    for (std::int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < kK; ++l)
        sum += double{number_at(a.codes, a.inverse, kRows, kK, kAhead + i, l)} *
               double{number_at(b.codes, b.inverse, kN, kK, j, l)};
      expected.push_back(sum + old[static_cast<std::size_t>(i * kN + j)] +
                         bias[static_cast<std::size_t>(j)]);
    }
  const auto multiply = [&]<class T>(const std::vector<T>& there, const std::vector<T>& added) {
    std::vector<T> c = there;
    cpu::fp8_block_gemm(Fp8BlockGemm<T>{.c = c.data(),
                                        .a = a.codes.data() + kAhead * kK,
                                        .b = b.codes.data(),
                                        .a_inverse = a.inverse.data() + kAhead,
                                        .b_inverse = b.inverse.data(),
                                        .m = kM,
                                        .n = kN,
                                        .k = kK,
                                        .a_rows = kRows,
                                        .squares = true,
                                        .accumulate = true,
                                        .bias = added.data()});
    return c;
  };
  EXPECT_TRUE(check::near(multiply(old, bias), expected, 1e-13));
  const std::vector<float> narrow_old(old.begin(), old.end()), narrow(bias.begin(), bias.end());
  EXPECT_TRUE(check::near(multiply(narrow_old, narrow), expected));
  check::expect_same_on_any_threads([&] { return multiply(narrow_old, narrow); });
}

}  // namespace
}  // namespace mt
