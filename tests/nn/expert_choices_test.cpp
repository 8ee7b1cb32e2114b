// Experts that ranks of several processes kept, gathered as one rank would have kept them.
#include "nn/expert_choices.h"

#include <gtest/gtest.h>

#include "comm/group.h"
#include "tests/support/workbench.h"

namespace mt {
namespace {

constexpr std::int64_t kChosen = 2;

std::int32_t chosen_for(std::int64_t layer, std::int64_t text, std::int64_t token, std::int64_t j) {
  return static_cast<std::int32_t>(2 * ((layer + 3 * text + token) % 7) + j);
}

// Keeps what is chosen in a layer for the rows of a text that a Step has.
void keep_rows(ExpertChoices& choices, Step& s, std::int64_t layer) {
  const HostTensor expert(DType::i32, {s.rows(), kChosen});
  for (std::int64_t row = 0; row < s.rows(); ++row)
    for (std::int64_t j = 0; j < kChosen; ++j)
      expert.view().as<std::int32_t>()[row * kChosen + j] =
          chosen_for(layer, s.first_sample, s.first_row() + row, j);
  choices.keep(s, layer, expert.view());
}

// Of four ranks, two share each text's rows, and two have one layer and two another.  So many texts
// are gathered at a time at most.
void expect_gathered(std::int64_t length, std::int64_t most_texts) {
  const WorkbenchOptions sizes{.sequences = 1, .seq_length = length};
  Workbench bench(sizes);
  ExpertChoices whole(true, {}, "");
  Step s = bench.step();
  for (s.first_sample = 0; s.first_sample < 4; ++s.first_sample)
    for (const std::int64_t layer : {0, 1}) keep_rows(whole, s, layer);
  const ExpertChoices::All expected = whole.take_before(3);
  ASSERT_EQ(expected.size(), 6U);
  run_ranks(4, [&](Group& ranks) {
    const int first = ranks.rank() / 2 * 2;
    const auto sharers = ranks.split({first, first + 1});
    Workbench own(sizes);
    ExpertChoices choices(true, {}, "");
    Step part = own.step();
    part.tensor = &*sharers;
    part.sequence_parallel = true;
    for (part.first_sample = 0; part.first_sample < 4; ++part.first_sample)
      keep_rows(choices, part, first / 2);
    const auto gathered = [&](std::int64_t text) {
      ExpertChoices::All all;
      choices.gather_before(text, ranks, [&](const ExpertChoices::All& some) {
        EXPECT_LE(some.rbegin()->first.text - some.begin()->first.text, most_texts - 1);
        EXPECT_TRUE(all.empty() || all.rbegin()->first < some.begin()->first);
        all.insert(some.begin(), some.end());
      });
      return all;
    };
    EXPECT_EQ(gathered(3), ranks.rank() == 0 ? expected : ExpertChoices::All());
    EXPECT_EQ(gathered(3), ExpertChoices::All());
    EXPECT_EQ(gathered(4).size(), ranks.rank() == 0 ? 2U : 0U);
  });
}

TEST(ExpertChoices, OfSeveralProcessesAreGatheredOnTheFirst) { expect_gathered(6, 3); }

TEST(ExpertChoices, OfSeveralProcessesAreGatheredInParts) {
  expect_gathered(100'000, 2);
  expect_gathered(300'000, 1);  // in rounds
}

}  // namespace
}  // namespace mt
