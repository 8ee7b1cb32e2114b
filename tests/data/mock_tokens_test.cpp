#include "data/samples/mock_tokens.h"

#include <gtest/gtest.h>

#include "data/samples/gpt_dataset.h"
#include "data/samples/numpy_generator.h"
#include "data/samples/split.h"
#include "tests/data/support.h"

namespace mt {
namespace {

using Numbers = std::vector<std::int64_t>;

TEST(NumpyGenerator, DrawsAsNumpyDoes) {
  EXPECT_EQ(NumpyGenerator(0).random(), 0.6369616873214543);
  NumpyGenerator random(12345);
  EXPECT_EQ(random.random(), 0.22733602246716966);
  EXPECT_EQ(random.random(), 0.31675833970975287);
  EXPECT_EQ(random.random(), 0.7973654573327341);
  const auto integers = [](std::uint32_t seed, std::int64_t high, int count) {
    NumpyGenerator generator(seed);
    Numbers numbers;
    for (int i = 0; i < count; ++i) numbers.push_back(generator.integer(0, high));
    return numbers;
  };
  EXPECT_EQ(integers(12345, 10, 3), (Numbers{6, 2, 7}));
  EXPECT_EQ(integers(42, 100, 10), (Numbers{8, 77, 65, 43, 43, 85, 8, 69, 20, 9}));
}

TEST(MockTokens, LengthsAreMegatrons) {
  const MockTokens mock(5000, 4999);
  Numbers first;
  for (int i = 0; i < 12; ++i) first.push_back(mock.length(i));
  EXPECT_EQ(first, (Numbers{3484, 2609, 2094, 1105, 1261, 168, 309, 68, 718, 3331, 2660, 3738}));
  EXPECT_EQ(mock.sequences(), 100000);
  EXPECT_EQ(mock.length(99999), 769);
  EXPECT_EQ(mock.tokens({0, 100000}), 204637097);
}

TEST(MockTokens, CountsUpAndEnds) {
  const MockTokens mock(5000, 4999), small(30, 29);
  Numbers text(68);
  mock.read(7, 0, text);
  for (std::int64_t i = 0; i < 67; ++i) EXPECT_EQ(text[static_cast<std::size_t>(i)], i + 1);
  EXPECT_EQ(text.back(), 4999);
  Numbers part(5);
  small.read(7, 27, part);
  EXPECT_EQ(part, (Numbers{28, 29, 0, 1, 2}));
  small.read(7, 63, part);
  EXPECT_EQ(part, (Numbers{4, 5, 6, 7, 29}));
}

TEST(MockTokens, SplitsAreMegatrons) {
  const MockTokens mock(5000, 4999);
  struct Golden {
    int split;
    std::int64_t begin, end, tokens, samples;
    Numbers documents, shuffle;
    std::vector<SamplePlace> rows;
  };
  const Golden goldens[] = {{0,
                             0,
                             33333,
                             68190290,
                             66592,
                             {30903, 11571, 3134, 32473, 27454},
                             {33493, 6306, 7239, 22929, 56510},
                             {{0, 0}, {0, 1024}, {0, 2048}, {1, 71}}},
                            {1,
                             33333,
                             66667,
                             68159742,
                             66562,
                             {64237, 44904, 36467, 65807, 60788},
                             {61698, 31455, 22636, 37504, 56814},
                             {{0, 0}, {1, 813}, {1, 1837}, {1, 2861}}}};
  for (const Golden& golden : goldens) {
    const ItemRange range =
        split_ranges("--split", "1,1,1", 100000)[static_cast<std::size_t>(golden.split)].value();
    EXPECT_EQ(range, (ItemRange{golden.begin, golden.end}));
    EXPECT_EQ(mock.tokens(range), golden.tokens);
    const GptIndex index(mock, {.sequences = range, .seq_length = 1024, .num_samples = 100});
    EXPECT_EQ(index.size(), golden.samples);
    for (std::size_t i = 0; i < golden.documents.size(); ++i) {
      EXPECT_EQ(index.document(static_cast<std::int64_t>(i)), golden.documents[i]);
      EXPECT_EQ(index.shuffled(static_cast<std::int64_t>(i)), golden.shuffle[i]);
    }
    for (std::size_t i = 0; i < golden.rows.size(); ++i)
      EXPECT_EQ(index.sample(static_cast<std::int64_t>(i)), golden.rows[i]);
  }
}

}  // namespace
}  // namespace mt
