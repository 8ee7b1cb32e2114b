// Casts to eight bits against PyTorch's, scales against the golden values of our specification.
#include "kernels/fp8.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/half.h"
#include "tests/data/fnv.h"
#include "tests/kernels/check.h"

namespace mt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = NAN;

// Those of scripts/make-fp8-goldens.py, from the least that a type has to far beyond its largest.
std::vector<float> numbers() {
  std::vector<float> x(40000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto bits = static_cast<std::uint32_t>(i) * 374761393U;
    x[i] = std::ldexp(static_cast<float>(bits / 2147483648.0 - 1), static_cast<int>(i % 41) - 20);
  }
  return x;
}

std::vector<std::uint8_t> codes_of(const std::vector<float>& x, float scale, Fp8Format format) {
  std::vector<std::uint8_t> codes(x.size());
  cpu::fp8_cast(codes.data(), nullptr, x.data(), scale, 1, std::ssize(x), format);
  return codes;
}

TEST(Fp8Cast, IsThatOfPyTorch) {
  const std::vector<float> x = numbers();
  std::ifstream golden(std::string(MT_TESTDATA) + "/fp8/torch.golden");
  int compared = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    std::string what, format, scale, hash;
    words >> what >> format >> scale >> hash;
    if (what != "cast") continue;
    const Fp8Format of = format == "e4m3" ? Fp8Format::e4m3 : Fp8Format::e5m2;
    EXPECT_EQ(hash_of(codes_of(x, std::stof(scale), of)), hash) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

TEST(Fp8Cast, IsThatOfTheSpecification) {
  const std::vector<float> x = {448, 449, 465, 1e9F, 0x1p-10F, 3 * 0x1p-10F, .0146484375F,
                                17,  18,  19,  .1F,  1 / 3.F,  -500,         kInfinity};
  const std::vector<std::uint8_t> expected = {0x7e, 0x7e, 0x7e, 0x7e, 0x00, 0x02, 0x08,
                                              0x58, 0x59, 0x5a, 0x1d, 0x2b, 0xfe, 0x7e};
  EXPECT_EQ(codes_of(x, 1, Fp8Format::e4m3), expected);
  EXPECT_EQ(codes_of({.1F, 1.3F, 1e9F, -kInfinity}, 1, Fp8Format::e5m2),
            (std::vector<std::uint8_t>{0x2e, 0x3d, 0x7b, 0xfb}));
}

TEST(Fp8Cast, TransposesTheSameCodesOnAnyThreads) {
  constexpr std::int64_t kRows = 200, kCols = 160;
  const auto x = check::random<double>(kRows * kCols, 1);
  std::vector<std::uint8_t> codes(x.size());
  check::expect_same_on_any_threads([&] {
    std::vector<std::uint8_t> transposed(x.size());
    cpu::fp8_cast(codes.data(), transposed.data(), x.data(), 100, kRows, kCols, Fp8Format::e5m2);
    return transposed;
  });
  std::vector<std::uint8_t> alone(x.size());
  cpu::fp8_cast(nullptr, alone.data(), x.data(), 100, kRows, kCols, Fp8Format::e5m2);
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < kCols; ++c)
      ASSERT_EQ(alone[static_cast<std::size_t>(c * kRows + r)],
                codes[static_cast<std::size_t>(r * kCols + c)]);
}

TEST(Fp8Scale, IsThatOfTheSpecification) {
  EXPECT_FLOAT_EQ(fp8_scale_of(3, Fp8Format::e4m3), 149.3333F);
  EXPECT_FLOAT_EQ(fp8_scale_of(.01F, Fp8Format::e5m2), 5734400);
  EXPECT_FLOAT_EQ(fp8_delayed_scale(1, 3, .5F, Fp8Format::e4m3), 74.66667F);
  for (const float none : {0.0F, kInfinity, kNan}) {
    EXPECT_EQ(fp8_scale_of(none, Fp8Format::e4m3), 1);
    EXPECT_EQ(fp8_delayed_scale(7, none, 1, Fp8Format::e4m3), 7);
  }
  constexpr float kMost = std::numeric_limits<float>::max();
  EXPECT_EQ(fp8_scale_of(0x1p-140F, Fp8Format::e4m3), kMost);
  EXPECT_EQ(fp8_delayed_scale(7, 0x1p-140F, 1, Fp8Format::e4m3), kMost);
}

// Steps with these largest numbers, and the scales that each step has.
TEST(Fp8Delayed, WalksAsTheSpecificationSays) {
  for (const bool most_recent : {false, true}) {
    float scale = 1, inverse = 1, history[4] = {}, amax = 0;
    std::vector<float> used;
    for (const float largest : {1.0F, 4.0F, 2.0F, 0.0F, kInfinity, .5F}) {
      used.push_back(scale);
      amax = largest;
      cpu::fp8_update({.scale = &scale,
                       .inverse = &inverse,
                       .history = history,
                       .amax = &amax,
                       .count = 1,
                       .length = 4,
                       .most_recent = most_recent});
      EXPECT_EQ(amax, 0);
      EXPECT_EQ(history[0], largest);
      EXPECT_EQ(inverse, 1 / scale);
    }
    used.push_back(scale);
    EXPECT_EQ(used, most_recent ? (std::vector<float>{1, 448, 112, 224, 224, 224, 896})
                                : (std::vector<float>{1, 448, 112, 112, 112, 112, 112}));
  }
}

TEST(Fp8Amax, IsTheLargestOnAnyThreads) {
  auto x = check::random<float>(100003, 1);
  x[77777] = -1.5F;
  check::expect_same_on_any_threads(
      [&] { return std::vector<float>{cpu::fp8_amax(x.data(), std::ssize(x))}; });
  EXPECT_EQ(cpu::fp8_amax(x.data(), std::ssize(x)), 1.5F);
  EXPECT_EQ(cpu::fp8_amax(x.data(), 0), 0);
  x[5] = kNan;
  EXPECT_TRUE(std::isnan(cpu::fp8_amax(x.data(), std::ssize(x))));
}

// Against sums in double of what the codes stand for.
TEST(Fp8Gemm, MultipliesWhatCodesStandFor) {
  constexpr std::int64_t kM = 32, kN = 48, kK = 80;
  const auto x = check::random<float>(kM * kK, 1), w = check::random<float>(kN * kK, 2);
  const auto a = codes_of(x, 300, Fp8Format::e4m3), b = codes_of(w, 20000, Fp8Format::e5m2);
  const float a_inverse = 1 / 300.0F, b_inverse = 1 / 20000.0F;
  const auto bias = check::random<float>(kN, 3), old = check::random<float>(kM * kN, 4);
  std::vector<float> c = old;
  cpu::fp8_gemm(Fp8Gemm<float>{.c = c.data(),
                               .a = a.data(),
                               .b = b.data(),
                               .b_format = Fp8Format::e5m2,
                               .a_inverse = &a_inverse,
                               .b_inverse = &b_inverse,
                               .m = kM,
                               .n = kN,
                               .k = kK,
                               .accumulate = true,
                               .bias = bias.data()});
  std::vector<double> expected;
  for (std::int64_t i = 0; i < kM; ++i)
    for (std::int64_t j = 0; j < kN; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < kK; ++l) {
        Fp8 p;
        Fp8E5m2 q;
        p.bits = a[static_cast<std::size_t>(i * kK + l)];
        q.bits = b[static_cast<std::size_t>(j * kK + l)];
        sum += double{static_cast<float>(p)} * double{static_cast<float>(q)};
      }
      expected.push_back(sum * double{a_inverse} * double{b_inverse} +
                         double{old[static_cast<std::size_t>(i * kN + j)]} +
                         double{bias[static_cast<std::size_t>(j)]});
    }
  EXPECT_TRUE(check::near(c, expected));
}

}  // namespace
}  // namespace mt
