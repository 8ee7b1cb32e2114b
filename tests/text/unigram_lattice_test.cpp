#include "text/training/unigram_lattice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

namespace mt {

static const ByteTrie& pieces() {
  static const ByteTrie trie({{"a", 0}, {"aa", 1}, {"\u00E9", 2}, {"a\u00E9", 3}});
  return trie;
}

// How often each piece is expected.
static std::map<std::int32_t, double> expected(const std::vector<double>& weights,
                                               const std::string& word) {
  UnigramLattice lattice(pieces(), weights);
  lattice.read(word);
  std::map<std::int32_t, double> counts;
  lattice.for_each_expected([&](std::int32_t id, double p) { counts[id] += p; });
  return counts;
}

TEST(UnigramLattice, AllWaysCountByTheirProbability) {
  // a a é: 0.5 x 0.5 x 0.1 = 0.025, aa é: 0.2 x 0.1 = 0.02, a aé: 0.5 x 0.3 = 0.15; 0.195 together.
  const auto counts = expected({0.5, 0.2, 0.1, 0.3}, "aa\u00E9");
  EXPECT_NEAR(counts.at(0), (2 * 0.025 + 0.15) / 0.195, 1e-12);
  EXPECT_NEAR(counts.at(1), 0.02 / 0.195, 1e-12);
  EXPECT_NEAR(counts.at(2), 0.045 / 0.195, 1e-12);
  EXPECT_NEAR(counts.at(3), 0.15 / 0.195, 1e-12);
}

// A factor for each character is one of all ways of a word, which are then far smaller than a
// double can be, and changes nothing of what is expected.
TEST(UnigramLattice, WordsOfAThousandCharacters) {
  for (const std::size_t length : {10, 60, 1000}) {
    const std::string word(length, 'a');
    const auto counts = expected({0.5, 0.25, 0, 0}, word);
    for (const double factor : {1e-3, 1e-9, 1e-14}) {
      const auto small = expected({0.5 * factor, 0.25 * factor * factor, 0, 0}, word);
      for (const auto& [id, count] : counts)
        EXPECT_NEAR(small.at(id), count, 1e-9 * count) << length << " of factor " << factor;
    }
    EXPECT_NEAR(counts.at(0) + 2 * counts.at(1), static_cast<double>(length), 1e-9);
  }
}

TEST(UnigramLattice, BestWay) {
  const std::vector<double> logs = {-1, -2, -1, -4};
  UnigramLattice lattice(pieces(), logs);
  lattice.read("aaa\u00E9");
  EXPECT_EQ(lattice.best(), (std::vector<std::int32_t>{2, 1, 0}))
      << "of equal ones the last longest";
  lattice.read("aa");
  EXPECT_EQ(lattice.best(), std::vector<std::int32_t>{1});
  lattice.read("aa", true);
  EXPECT_EQ(lattice.best(), (std::vector<std::int32_t>{0, 0}));
}

}  // namespace mt
