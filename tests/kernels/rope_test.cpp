#include "kernels/rope.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

using check::random;

template <class T>
std::vector<T> rope(std::vector<T> x, const RopeShape& s, bool inverse = false) {
  std::vector<double> inv_freq;
  for (std::int64_t i = 0; i < s.rotary_dim / 2; ++i)
    inv_freq.push_back(std::pow(1e4, -2.0 * double(i) / double(s.rotary_dim)));
  cpu::rope(x.data(), inv_freq.data(), s, inverse);
  return x;
}

RopeShape shape_of(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim,
                   std::int64_t rotary_dim) {
  return {.tokens = tokens,
          .heads = heads,
          .head_dim = head_dim,
          .rotary_dim = rotary_dim,
          .seq_length = 13,
          .first_position = 50};
}

TEST(Rope, Golden) {
  RopeShape s = {.tokens = 1, .heads = 1, .head_dim = 4, .rotary_dim = 4, .first_position = 3};
  EXPECT_TRUE(check::near(rope<double>({1, 2, 3, 4}, s),
                          {-1.4133525, 1.8791181, -2.8288575, 4.0581911}, 1e-7));
  s.interleaved = true;
  EXPECT_TRUE(check::near(rope<double>({1, 2, 3, 4}, s),
                          {-1.2722325, -1.8388650, 2.8786681, 4.0881866}, 1e-7));
}

template <class T>
void check_against_formula(const RopeShape& s) {
  const auto x = random<T>(s.tokens * s.heads * s.head_dim, 1);
  std::vector<double> expected(x.begin(), x.end());
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t h = 0; h < s.heads; ++h)
      for (std::int64_t i = 0; i < s.rotary_dim / 2; ++i) {
        const double position = double(s.first_position + t % s.seq_length);
        const double angle = position * std::pow(1e4, -2.0 * double(i) / double(s.rotary_dim));
        const std::int64_t row = (t * s.heads + h) * s.head_dim;
        const std::int64_t low = row + (s.interleaved ? 2 * i : i),
                           high = s.interleaved ? low + 1 : low + s.rotary_dim / 2;
        expected[low] = x[low] * std::cos(angle) - x[high] * std::sin(angle);
        expected[high] = x[high] * std::cos(angle) + x[low] * std::sin(angle);
      }
  EXPECT_TRUE(check::near(rope(x, s), expected))
      << s.tokens << " tokens, rotary_dim " << s.rotary_dim << " of " << s.head_dim;
}

TEST(Rope, FollowsTheFormula) {
  for (const bool interleaved : {false, true})
    for (const std::int64_t tokens : {0, 1, 31, 33})
      for (const std::int64_t rotary_dim : {0, 2, 30, 32})
        for (const std::int64_t head_dim : {32, 33}) {
          RopeShape s = shape_of(tokens, 3, head_dim, rotary_dim);
          s.interleaved = interleaved;
          check_against_formula<float>(s);
          check_against_formula<double>(s);
        }
}

// Of each packed group all heads but the last turn, as they do alone.
TEST(Rope, LeavesPackedValues) {
  for (const std::int64_t group : {3, 6}) {
    RopeShape packed = shape_of(7, 6, 8, 6), one = shape_of(7, 1, 8, 6);
    packed.packed_group = group;
    const auto x = random<double>(7 * 6 * 8, 1);
    const auto turned = rope(x, packed);
    for (std::int64_t head = 0; head < 6; ++head) {
      std::vector<double> before, after;
      for (std::int64_t t = 0; t < 7; ++t)
        for (std::int64_t c = 0; c < 8; ++c) {
          before.push_back(x[(t * 6 + head) * 8 + c]);
          after.push_back(turned[(t * 6 + head) * 8 + c]);
        }
      EXPECT_EQ(after, (head + 1) % group == 0 ? before : rope(before, one)) << head;
    }
  }
}

TEST(Rope, InverseTurnsBackAndIsTheGradient) {
  for (const bool interleaved : {false, true}) {
    RopeShape s = shape_of(33, 2, 10, 8);
    s.interleaved = interleaved;
    const auto x = random<double>(33 * 20, 1), dy = random<double>(33 * 20, 2);
    EXPECT_TRUE(check::near(rope(rope(x, s), s, true), x));
    check::expect_gradient(
        rope(dy, s, true), [&](const auto& at) { return check::dot(dy, rope(at, s)); }, x, 3);
  }
}

TEST(Rope, SameBitsOnAnyThreads) {
  const auto x = random<float>(500 * 4 * 64, 1);
  check::expect_same_on_any_threads([&] { return rope(x, shape_of(500, 4, 64, 64)); });
}

}  // namespace
}  // namespace mt
