// NF4 with double quantisation against bitsandbytes, and the golden values of our specification.
#include "kernels/nf4.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

#include "tests/data/fnv.h"

namespace mt {
namespace {

// What becomes of numbers of one row, and the array that has it.
struct Packed {
  explicit Packed(const std::vector<float>& x) {
    const auto blocks = std::ssize(x) / kNf4Block;
    codes.resize(x.size() / 2);
    levels.resize(static_cast<std::size_t>(blocks));
    largest.resize(levels.size());
    scales.resize((levels.size() + 255) / 256);
    cpu::nf4_quantize(codes.data(), largest.data(), x.data(), blocks);
    cpu::nf4_quantize_scales(levels.data(), scales.data(), largest.data(), blocks);
    const Nf4Shape shape{1, std::ssize(x), std::ssize(scales)};
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.bytes()));
    std::ranges::copy(codes, bytes.begin());
    std::ranges::copy(levels, bytes.begin() + shape.levels_at());
    std::memcpy(bytes.data() + shape.scales_at(), scales.data(), 8 * scales.size());
    numbers.resize(x.size());
    cpu::nf4_unpack(numbers.data(), bytes.data(), shape);
  }
  std::vector<std::uint8_t> codes, levels;
  std::vector<float> largest, numbers;
  std::vector<Nf4Scale> scales;
};

TEST(Nf4, IsThatOfBitsandbytes) {
  std::vector<float> x(40000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto part = static_cast<std::uint32_t>(i * 374761393U);
    x[i] =
        static_cast<float>((part / 2147483648.0 - 1) * (1 + static_cast<double>(i / 64 % 7) / 10));
  }
  const Packed packed(x);
  std::ifstream golden(std::string(MT_TESTDATA) + "/post/nf4.golden");
  std::string line;
  int compared = 0;
  while (std::getline(golden, line)) {
    std::istringstream words(line);
    std::string name, text;
    words >> name >> text;
    compared += name != "#" ? 1 : 0;
    if (name == "codes") {
      EXPECT_EQ(hash_of(packed.codes), text);
    } else if (name == "levels") {
      EXPECT_EQ(hash_of(packed.levels), text);
    } else if (name == "numbers") {
      EXPECT_EQ(hash_of(packed.numbers), text);
    } else if (name == "offset") {
      EXPECT_EQ(packed.scales.front().offset, std::stof(text));
    } else if (name == "scales") {
      for (const Nf4Scale& scale : packed.scales) {
        EXPECT_EQ(scale.scale, std::stof(text));
        words >> text;
      }
    }
  }
  EXPECT_EQ(compared, 5);
}

TEST(Nf4, IsThatOfTheSpecification) {
  std::vector<float> x(64);
  for (std::size_t i = 0; i < 64; ++i)
    x[i] = static_cast<float>((i % 2 == 0 ? 1 : -1) * static_cast<double>(i + 1) * 0.75 / 64);
  const Packed rising(x);
  EXPECT_EQ(rising.largest, std::vector<float>{0.75F});
  const std::vector<std::uint8_t> begin = {119, 134, 134, 134, 149, 149, 149, 164, 164,
                                           180, 179, 179, 195, 195, 194, 194, 210};
  EXPECT_TRUE(std::equal(begin.begin(), begin.end(), rising.codes.begin()));
  std::ranges::fill(x, 0.0F);
  x[60] = 2, x[61] = -0.5F, x[62] = 0.3F, x[63] = 1;
  const Packed few(x);
  EXPECT_EQ((std::vector<std::uint8_t>(few.codes.end() - 4, few.codes.end())),
            (std::vector<std::uint8_t>{119, 119, 244, 156}));
  const std::vector<double> last = {2, -.568883, .321860, .881420};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(few.numbers[60 + i], last[i], 1e-6);
  std::vector<float> waves(32768);
  for (std::size_t i = 0; i < waves.size(); ++i)
    waves[i] = static_cast<float>(std::sin(double{.37F * static_cast<float>(i)}) *
                                  (1 + static_cast<double>(i / 64 % 7) / 10));
  const Packed many(waves);
  EXPECT_NEAR(many.scales.front().offset, 1.298073, 1e-6);
  EXPECT_EQ((std::vector<std::uint8_t>(many.levels.begin(), many.levels.begin() + 8)),
            (std::vector<std::uint8_t>{0, 24, 47, 152, 207, 231, 254, 0}));
  for (const Nf4Scale& scale : many.scales) EXPECT_NEAR(scale.scale, .301927, 1e-6);
}

// Of zeros alone there are zeros, and they have bitsandbytes' codes.
TEST(Nf4, OfZerosIsZero) {
  const Packed packed(std::vector<float>(128));
  EXPECT_EQ(packed.codes, std::vector<std::uint8_t>(64, 0));
  for (const float number : packed.numbers) EXPECT_EQ(number, 0);
}

}  // namespace
}  // namespace mt
