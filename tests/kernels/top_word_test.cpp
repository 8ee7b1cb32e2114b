#include "kernels/top_word.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt {
namespace {

// The first of the largest; what pads the vocabulary is none; and no matter how many share it.
TEST(TopWord, HitsAreOfTheFirstLargest) {
  constexpr std::int64_t kRows = 4, kColumns = 6, kWords = 5;
  const std::vector<double> logits = {1,  3,  2,  3,  0, 9,  //
                                      -1, -2, -3, -4, 5, 9,  //
                                      0,  0,  0,  0,  0, 0,  //
                                      -1, 2,  1,  0,  7, 8};
  const std::vector<std::int32_t> labels = {1, 4, 1, 1};
  for (const int ranks : {1, 2, 3, 6}) {
    const std::int64_t each = kColumns / ranks;
    std::vector<double> tops(std::size_t(ranks * 2 * kRows)), hits(kRows);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<double> own;
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t c = 0; c < each; ++c)
          own.push_back(logits[std::size_t(r * kColumns + rank * each + c)]);
      cpu::top_words(tops.data() + rank * 2 * kRows, own.data(),
                     {kRows, each, rank * each, kWords, 1});
    }
    cpu::top_word_hits(hits.data(), tops.data(), labels.data(), {.rows = kRows, .ranks = ranks});
    EXPECT_EQ(hits, (std::vector<double>{1, 1, 0, 0})) << ranks;
  }
}

}  // namespace
}  // namespace mt
