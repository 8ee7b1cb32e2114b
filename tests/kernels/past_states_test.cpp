#include "kernels/past_states.h"

#include "tests/kernels/check.h"

namespace mt {
namespace {

// Two tokens of each of two sequences, over the end of a page: they are kept in their own places,
// and each reads what is in that of the token before it; the first token of a text reads its own.
TEST(PastStates, PlacesOfTokens) {
  const PastStatesShape s{.tokens = 4, .sequences = 2, .cols = 2, .capacity = 3, .runs = 2};
  const std::vector<std::int32_t> positions{2, 3, 0, 1}, slots{3, 1, 2, 0};
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> states(24, -1), before(8);
  states[20] = 9;  // at position 1 of the first sequence
  cpu::keep_states(states.data(), x.data(), positions.data(), slots.data(), s);
  std::vector<float> expected(24, -1);
  expected[20] = 9;
  for (const auto& [place, row] : {std::pair(11, 0), {3, 1}, {6, 2}, {7, 3}})
    for (int c = 0; c < 2; ++c)
      expected[static_cast<std::size_t>(2 * place + c)] = x[static_cast<std::size_t>(2 * row + c)];
  EXPECT_EQ(states, expected);
  std::vector<std::int32_t> first(4);
  cpu::states_before(before.data(), first.data(), states.data(), positions.data(), slots.data(), 2,
                     s);
  EXPECT_EQ(before, (std::vector<float>{9, -1, 1, 2, 5, 6, 5, 6}));
  EXPECT_EQ(first, (std::vector<std::int32_t>{2, 2, 0, 1}));
}

}  // namespace
}  // namespace mt
