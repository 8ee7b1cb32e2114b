// Codes of blocks on the GPU as on the CPU, to the bit, and their products on Hopper beside those
// of the CPU.
#include <array>
#include <cmath>

#include "kernels/gpu.h"
#include "tests/kernels/device_numbers.h"
#include "tests/kernels/fp8_block_codes.h"

namespace mt {
namespace {

using check::bf16;
using check::BlockCodes;
using check::DeviceArray;
using check::Numbers;

template <class T>
class Fp8BlocksCuda : public check::CudaTest<T> {};
using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(Fp8BlocksCuda, Types);

TYPED_TEST(Fp8BlocksCuda, CastAsTheCpu) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>(16, 16), {48, 208}, {128, 128}, {304, 4112}})
    for (const bool squares : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << rows << " rows of " << cols << (squares ? ", squares" : ""));
      auto numbers = check::random<double>(rows * cols, 5);
      for (std::size_t i = 0; i < numbers.size(); ++i)  // of many sizes
        numbers[i] = std::ldexp(numbers[i], static_cast<int>(i % 23) - 12);
      numbers[3] = NAN;
      const Numbers<TypeParam> x(numbers, 0);
      const BlockCodes expected(x.values(), rows, cols, squares);
      for (const int form : {1, 2, 3}) {
        const DeviceArray<std::uint8_t> codes(numbers.size()), transposed(numbers.size());
        const DeviceArray<float> inverse(expected.inverse.size()),
            transposed_inverse(expected.transposed_inverse.size());
        Fp8BlockCast<TypeParam> cast{.x = x.data(), .rows = rows, .cols = cols, .squares = squares};
        if (form & 1) cast.codes = codes.data(), cast.inverse = inverse.data();
        if (form & 2)
          cast.transposed = transposed.data(), cast.transposed_inverse = transposed_inverse.data();
        cuda::fp8_block_cast(cast, nullptr);
        check::check_cuda(cudaDeviceSynchronize());
        if (form & 1) {
          EXPECT_EQ(codes.values(), expected.codes);
          EXPECT_EQ(inverse.values(), expected.inverse);
        }
        if (form & 2) {
          EXPECT_EQ(transposed.values(), expected.transposed);
          EXPECT_EQ(transposed_inverse.values(), expected.transposed_inverse);
        }
      }
    }
}

class Fp8BlockNumbers : public check::CudaTest<bf16> {};

TEST_F(Fp8BlockNumbers, AreTheCpus) {
  constexpr std::int64_t kAll = 80, kFirst = 16, kRows = 64, kCols = 208;
  const BlockCodes of(check::random<double>(kAll * kCols, 1), kAll, kCols, false);
  const DeviceArray<std::uint8_t> codes(of.codes);
  const DeviceArray<float> inverse(of.inverse);
  const Numbers<bf16> y(kRows * kCols);
  cuda::fp8_block_numbers(y.data(), codes.data() + kFirst * kCols, inverse.data() + kFirst, kRows,
                          kCols, kAll, nullptr);
  check::check_cuda(cudaDeviceSynchronize());
  std::vector<double> expected;
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < kCols; ++c)
      expected.push_back(check::number_at(of.codes, of.inverse, kAll, kCols, kFirst + r, c));
  EXPECT_EQ(y.values(), expected);
}

// --- Products ------------------------------------------------------------------------------------

template <class C>
class Fp8BlockGemmCuda : public check::CudaTest<C> {
 protected:
  void SetUp() override {
    check::CudaTest<C>::SetUp();
    if (!this->IsSkipped() && !cuda::hopper_kernels()) GTEST_SKIP() << "not on Hopper";
  }
};
TYPED_TEST_SUITE(Fp8BlockGemmCuda, Types);

// Random numbers, of which each block has a size of its own.
std::vector<double> in_sizes(std::int64_t rows, std::int64_t cols, unsigned seed) {
  auto x = check::random<double>(rows * cols, seed);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      x[static_cast<std::size_t>(r * cols + c)] *=
          std::ldexp(1.0, static_cast<int>((r / 128 * 3 + c / 128 * 5) % 7) - 5);
  return x;
}

// Numbers are at most 1, or 2 to 2^-5 of that, and sums of 128 products have some 13 bits.
TYPED_TEST(Fp8BlockGemmCuda, IsNearTheCpus) {
  using C = TypeParam;
  for (const std::array<std::int64_t, 3>& sides : {std::array<std::int64_t, 3>{16, 16, 16},
                                                   {48, 208, 80},
                                                   {272, 144, 272},
                                                   {512, 384, 4096},
                                                   {1008, 1120, 2000},
                                                   {2304, 2048, 384}})
    for (const bool squares : {false, true})
      for (const bool accumulate : {false, true})
        for (const std::int64_t ahead : {0, 32}) {
          const auto [m, n, k] = sides;
          SCOPED_TRACE(testing::Message()
                       << m << " x " << n << " x " << k << (squares ? ", squares" : "")
                       << (accumulate ? ", added" : "") << ", row " << ahead);
          const std::int64_t rows = ahead + m;
          const BlockCodes a(in_sizes(rows, k, 1), rows, k, false),
              b(in_sizes(n, k, 2), n, k, squares);
          const DeviceArray<std::uint8_t> a_codes(a.codes), b_codes(b.codes);
          const DeviceArray<float> a_inverse(a.inverse), b_inverse(b.inverse);
          const check::Input<C> old(m * n, 3), bias(n, 4);
          const auto problem_of = [&]<class T>(T* c, const T* added, const auto& codes_a,
                                               const auto& codes_b, const auto& inverse_a,
                                               const auto& inverse_b) {
            return Fp8BlockGemm<T>{.c = c,
                                   .a = codes_a.data() + ahead * k,
                                   .b = codes_b.data(),
                                   .a_inverse = inverse_a.data() + ahead,
                                   .b_inverse = inverse_b.data(),
                                   .m = m,
                                   .n = n,
                                   .k = k,
                                   .a_rows = rows,
                                   .squares = squares,
                                   .accumulate = accumulate,
                                   .bias = added};
          };
          std::vector<double> expected = old.host;
          cpu::fp8_block_gemm(problem_of(expected.data(), bias.host.data(), a.codes, b.codes,
                                         a.inverse, b.inverse));
          const Numbers<C> c(old.host, 0);
          const auto run = [&] {
            if constexpr (cuda::kHopper)
              cuda::hopper::fp8_block_gemm(
                  problem_of(c.data(), bias.data(), a_codes, b_codes, a_inverse, b_inverse),
                  nullptr);
            check::check_cuda(cudaDeviceSynchronize());
          };
          run();
          const double sums = std::sqrt(static_cast<double>(k)) * 0x1p-11;
          EXPECT_TRUE(check::near(c.values(), expected, sums + 2 * check::kRounding<C>));
          if (!accumulate) check::expect_same_bits(c, 3, run);
        }
}

TEST(Fp8BlockColumns, AreThoseThatTakeLeastTime) {
  if constexpr (cuda::kHopper) {
    for (const bool squares : {false, true}) {
      EXPECT_EQ(cuda::hopper::fp8_block_columns(8192, 6144, squares, 132),
                192);  // 16 rounds, not 24
      EXPECT_EQ(cuda::hopper::fp8_block_columns(256, 8192, squares, 132),
                128);  // one round of each
      EXPECT_EQ(cuda::hopper::fp8_block_columns(16, 16, squares, 132), 128);
    }
    EXPECT_EQ(cuda::hopper::fp8_block_columns(8192, 4096, true, 132), 256);  // 8 rounds, not 11
    EXPECT_EQ(cuda::hopper::fp8_block_columns(4096, 14336, false, 132), 192);
  }
}

}  // namespace
}  // namespace mt
