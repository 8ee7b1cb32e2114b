#include "kernels/rope.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

struct Shape {
  std::int64_t tokens, heads, head_dim, rotary_dim;
};

template <class T>
std::vector<T> rope(std::vector<T> x, const std::vector<std::int32_t>& positions, const Shape& s,
                    bool inverse = false) {
  std::vector<double> inv_freq;
  for (std::int64_t i = 0; i < s.rotary_dim / 2; ++i)
    inv_freq.push_back(std::pow(1e4, -2.0 * double(i) / double(s.rotary_dim)));
  cpu::rope(x.data(), positions.data(), inv_freq.data(), s.tokens, s.heads, s.head_dim,
            s.rotary_dim, inverse);
  return x;
}

// Of several sequences, some positions shared and out of order.
std::vector<std::int32_t> positions_of(std::int64_t tokens) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  for (std::int64_t t = 0; t < tokens; ++t)
    positions[t] = static_cast<std::int32_t>(t * 7 % 19 * 50);
  return positions;
}

TEST(Rope, Golden) {
  const auto y = rope<double>({1, 2, 3, 4}, {3}, {1, 1, 4, 4});
  EXPECT_TRUE(check::near(y, {-1.4133525, 1.8791181, -2.8288575, 4.0581911}, 1e-7));
}

template <class T>
void check_against_formula(const Shape& s) {
  const auto x = random<T>(s.tokens * s.heads * s.head_dim, 1);
  const auto positions = positions_of(s.tokens);
  std::vector<double> expected(x.begin(), x.end());
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.rotary_dim / 2; ++i) {
        const double angle = positions[t] * std::pow(1e4, -2.0 * double(i) / double(s.rotary_dim));
        const std::int64_t low = (t * s.heads + h) * s.head_dim + i, high = low + s.rotary_dim / 2;
        expected[low] = x[low] * std::cos(angle) - x[high] * std::sin(angle);
        expected[high] = x[high] * std::cos(angle) + x[low] * std::sin(angle);
      }
  EXPECT_TRUE(check::near(rope(x, positions, s), expected))
      << s.tokens << " tokens, rotary_dim " << s.rotary_dim << " of " << s.head_dim;
}

TEST(Rope, FollowsTheFormula) {
  for (const std::int64_t tokens : {0, 1, 31, 33})
    for (const std::int64_t rotary_dim : {0, 2, 30, 32})
      for (const std::int64_t head_dim : {32, 33}) {
        check_against_formula<float>({tokens, 3, head_dim, rotary_dim});
        check_against_formula<double>({tokens, 3, head_dim, rotary_dim});
      }
}

TEST(Rope, InverseTurnsBackAndIsTheGradient) {
  const Shape s = {33, 2, 10, 8};
  const auto x = random<double>(33 * 20, 1), dy = random<double>(33 * 20, 2);
  const auto positions = positions_of(33);
  EXPECT_TRUE(check::near(rope(rope(x, positions, s), positions, s, true), x));
  check::expect_gradient(
      rope(dy, positions, s, true),
      [&](const auto& at) { return check::dot(dy, rope(at, positions, s)); }, x, 3);
}

TEST(Rope, SameBitsOnAnyThreads) {
  const auto x = random<float>(500 * 4 * 64, 1);
  check::expect_same_on_any_threads([&] { return rope(x, positions_of(500), {500, 4, 64, 64}); });
}

}  // namespace
}  // namespace mt
