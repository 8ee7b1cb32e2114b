#include "post/data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <sstream>

#include "base/file.h"

namespace mt {
namespace {

using Lengths = std::vector<std::int64_t>;
using Bins = std::vector<std::vector<std::size_t>>;

Bins texts_of(Packing how, const Lengths& lengths, std::int64_t capacity) {
  Bins bins;
  for (const Bin& bin : pack(how, lengths, capacity)) {
    auto& texts = bins.emplace_back();
    for (const Piece& piece : bin) texts.push_back(piece.text);
  }
  return bins;
}

const Lengths kTen = {60, 55, 30, 35, 20, 45, 10, 50, 17, 33};

// TRL 1.16, pack_dataset(strategy="bfd").
TEST(Packing, BestFitIsAsTrlPacks) {
  EXPECT_EQ(texts_of(Packing::bfd, kTen, 100), (Bins{{0, 3}, {1, 5}, {7, 9, 8}, {2, 4, 6}}));
  EXPECT_EQ(texts_of(Packing::bfd, {4, 1, 3, 2, 1, 3, 4, 5}, 8),
            (Bins{{7, 2}, {0, 6}, {5, 3, 1, 4}}));
  EXPECT_EQ(texts_of(Packing::bfd, {4, 1, 3, 2, 8, 3, 4, 5}, 8),
            (Bins{{4}, {7, 2}, {0, 6}, {5, 3, 1}}));
}

// Of a thousand conversations by twelve templates in samples of three sizes, and of a hundred small
// sets (scripts/make-packing-goldens.py).
TEST(Packing, OfRandomTextsIsAsTrlPacks) {
  std::istringstream file(read_file(MT_TESTDATA "/trl/packing.golden"));
  int sets = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t lengths = line.find('|') + 1, bins = line.find('|', lengths) + 1;
    const auto numbers_of = [](const std::string& text) {
      std::istringstream words(text);
      return Lengths{std::istream_iterator<std::int64_t>(words), {}};
    };
    Bins expected;
    std::istringstream all(line.substr(bins));
    for (std::string bin; std::getline(all, bin, ',');) {
      const Lengths texts = numbers_of(bin);
      expected.emplace_back(texts.begin(), texts.end());
    }
    ++sets;
    EXPECT_EQ(texts_of(Packing::bfd, numbers_of(line.substr(lengths, bins - 1 - lengths)),
                       std::stoll(line)),
              expected)
        << "set " << sets;
  }
  EXPECT_EQ(sets, 103);
}

TEST(Packing, KnapsackTakesTheLongestThatFits) {
  EXPECT_EQ(texts_of(Packing::knapsack, kTen, 100), (Bins{{0, 3}, {1, 5}, {7, 9, 8}, {2, 4, 6}}));
}

// Worked by hand: 60 and 55 are large, 50, 45 and 35 medium, 33 to 17 small, 10 tiny.
TEST(Packing, ModifiedFirstFitFillsTheLargeFirst) {
  EXPECT_EQ(texts_of(Packing::mffd, kTen, 100), (Bins{{0, 3}, {1, 5}, {2, 4, 8, 6}, {7, 9}}));
}

TEST(Packing, OthersGoByTheirNames) {
  EXPECT_EQ(texts_of(Packing::none, {4, 1, 3}, 8), (Bins{{0}, {1}, {2}}));
  EXPECT_EQ(texts_of(Packing::concatenative, {4, 3, 2, 6, 8}, 8), (Bins{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(texts_of(Packing::first_fit_decreasing, {3, 5, 2, 6, 1}, 8),
            (Bins{{3, 2}, {1, 0}, {4}}));
  // Of two lines, of which the first has more than fits.
  EXPECT_EQ(pack_lines(Lengths{4, 3, 2, 1, 5, 2}, Lengths{0, 0, 0, 0, 1, 1}, 8),
            (std::vector<Bin>{{{0, 0, 4}, {1, 0, 3}, {2, 0, 1}}, {{4, 0, 5}, {5, 0, 2}}}));
  const std::vector<Bin> wrapped = pack(Packing::wrapped, Lengths{4, 1, 3, 2, 11}, 8);
  EXPECT_EQ(wrapped, (std::vector<Bin>{
                         {{0, 0, 4}, {1, 0, 1}, {2, 0, 3}}, {{3, 0, 2}, {4, 0, 6}}, {{4, 6, 11}}}));
}

TEST(Packing, KeepsEveryTextOnceAndNoBinTooFull) {
  std::mt19937 random(5);
  for (const std::string& name : packing_names())
    for (const std::size_t count : {0, 1, 2, 300}) {
      Lengths lengths(count);
      for (std::int64_t& length : lengths) length = 1 + static_cast<std::int64_t>(random() % 64);
      std::vector<std::int64_t> seen(count, 0);
      for (const Bin& bin : pack(packing_of(name), lengths, 64)) {
        std::int64_t tokens = 0;
        EXPECT_FALSE(bin.empty()) << name;
        for (const Piece& piece : bin) {
          EXPECT_EQ(piece.begin, seen[piece.text]) << name;
          seen[piece.text] = piece.end;
          tokens += piece.size();
        }
        EXPECT_LE(tokens, 64) << name;
      }
      EXPECT_EQ(seen, lengths) << name;
    }
}

}  // namespace
}  // namespace mt
