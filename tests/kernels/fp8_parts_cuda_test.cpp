// Codes of a matrix's parts on the GPU are those that the CPU makes of the whole, to the bit.
#include "kernels/fp8_parts.h"

#include <cmath>

#include "tests/kernels/device_numbers.h"
#include "tests/kernels/fp8_block_codes.h"

namespace mt {
namespace {

using check::bf16;
using check::DeviceArray;
using check::Numbers;

template <class T>
class Fp8PartsCuda : public check::CudaTest<T> {};
using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(Fp8PartsCuda, Types);

TYPED_TEST(Fp8PartsCuda, HaveTheCodesOfTheWhole) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>(16, 16), {304, 208}, {1040, 4112}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << cols);
    auto numbers = check::random<double>(rows * cols, 5);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = std::ldexp(numbers[i], static_cast<int>(i % 23) - 12);
    const Numbers<TypeParam> x(numbers, 0);
    const std::vector<double> rounded = x.values();
    const check::BlockCodes expected(rounded, rows, cols, true);
    const std::int64_t ends[] = {0, rows * cols / 3, rows * cols / 3 + 1, rows * cols};
    const auto part_of = [&](int i) {
      return Fp8Part<TypeParam>{.x = x.data() + ends[i],
                                .begin = ends[i],
                                .count = ends[i + 1] - ends[i],
                                .rows = rows,
                                .cols = cols};
    };
    const DeviceArray<float> amax(
        std::vector<float>(static_cast<std::size_t>(fp8_blocks(rows) * fp8_blocks(cols)))),
        inverse(expected.inverse.size()), of_columns(expected.transposed_inverse.size());
    const DeviceArray<std::uint8_t> codes(numbers.size()), transposed(numbers.size());
    for (int i = 0; i < 3; ++i) cuda::fp8_part_squares(amax.data(), part_of(i), nullptr);
    for (int i = 0; i < 3; ++i)
      cuda::fp8_part_cast_squares(codes.data() + ends[i], part_of(i), amax.data(), nullptr);
    cuda::fp8_transpose(transposed.data(), codes.data(), rows, cols, nullptr);
    cuda::fp8_square_inverses(inverse.data(), of_columns.data(), amax.data(), rows, cols, nullptr);
    EXPECT_EQ(codes.values(), expected.codes);
    EXPECT_EQ(transposed.values(), expected.transposed);
    EXPECT_EQ(inverse.values(), expected.inverse);
    EXPECT_EQ(of_columns.values(), expected.transposed_inverse);
    for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
      const float scale = 300;
      const DeviceArray<float> scales(std::vector<float>{scale}), most(std::vector<float>{0});
      for (int i = 0; i < 3; ++i)
        cuda::fp8_part_cast(codes.data() + ends[i], most.data(), part_of(i).x, scales.data(),
                            ends[i + 1] - ends[i], format, nullptr);
      std::vector<std::uint8_t> whole(numbers.size());
      cpu::fp8_cast(whole.data(), nullptr, rounded.data(), scale, rows, cols, format);
      EXPECT_EQ(codes.values(), whole);
      EXPECT_EQ(most.values()[0], cpu::fp8_amax(rounded.data(), rows * cols));
    }
  }
}

}  // namespace
}  // namespace mt
