#include "text/bpe/bpe_merges.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <string>

namespace mt {

using Symbols = std::vector<BpeMerges::Symbol>;

struct Merge {
  BpeMerges::Symbol left, right, result;
};

using Order = BpeMerges::Order;

static BpeMerges with(const std::vector<Merge>& merges, Order order = Order::by_rank) {
  BpeMerges bpe(order);
  for (const Merge& merge : merges) bpe.add(merge.left, merge.right, merge.result);
  return bpe;
}

static Symbols symbols_of(const BpeMerges& bpe, std::string_view piece) {
  Symbols symbols(piece.begin(), piece.end());
  bpe.apply(symbols);
  return symbols;
}

// The definition, word for word: the pair of lowest rank, all its occurrences from left to right or
// the first of them.
static Symbols apply_by_definition(const std::vector<Merge>& merges, Order order,
                                   std::string_view piece) {
  std::map<std::pair<BpeMerges::Symbol, BpeMerges::Symbol>, std::size_t> ranks;
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    ranks[{merges[rank].left, merges[rank].right}] = rank;
  Symbols symbols;
  for (const char byte : piece) symbols.push_back(static_cast<unsigned char>(byte));
  for (;;) {
    std::size_t lowest = merges.size();
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const auto pair = ranks.find({symbols[i], symbols[i + 1]}); pair != ranks.end())
        lowest = std::min(lowest, pair->second);
    if (lowest == merges.size()) return symbols;
    const Merge& merge = merges[lowest];
    Symbols merged;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool pair =
          i + 1 < symbols.size() && symbols[i] == merge.left && symbols[i + 1] == merge.right;
      merged.push_back(pair ? merge.result : symbols[i]);
      i += pair;
      if (!pair || order == Order::by_rank) continue;
      merged.insert(merged.end(), symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    symbols.end());
      break;
    }
    symbols = merged;
  }
}

TEST(BpeMerges, OverlappingOccurrencesFromTheLeft) {
  const BpeMerges bpe = with({{'a', 'a', 256}});
  EXPECT_EQ(symbols_of(bpe, "aaa"), (Symbols{256, 'a'}));
  Symbols expected(50, 256);
  expected.push_back('a');
  EXPECT_EQ(symbols_of(bpe, std::string(101, 'a')), expected);
  EXPECT_EQ(symbols_of(bpe, ""), Symbols{});
}

TEST(BpeMerges, TheLastRankOfAPairCounts) {
  EXPECT_EQ(symbols_of(with({{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 256}}), "abc"),
            (Symbols{'a', 257}));
}

TEST(BpeMerges, LeavesWhatIsBefore) {
  Symbols symbols = {'a', 'b', 'b', 'a', 'b'};
  with({{'a', 'b', 256}, {'b', 256, 257}}).apply(symbols, 2);
  EXPECT_EQ(symbols, (Symbols{'a', 'b', 257}));
}

TEST(BpeMerges, ResultsThatRankFirst) {  // a pair that a merge makes and that ranks before it
  const std::vector<Merge> merges = {{256, 'a', 257}, {'a', 'b', 256}};
  EXPECT_EQ(symbols_of(with(merges, Order::by_rank), "abab"), (Symbols{256, 256}));
  EXPECT_EQ(symbols_of(with(merges, Order::by_step), "abab"), (Symbols{257, 'b'}));
  BpeMerges ranked(Order::by_step);
  ranked.add('a', 'b', 256, 9);
  ranked.add(256, 'a', 257, 4);
  EXPECT_EQ(symbols_of(ranked, "abab"), (Symbols{257, 'b'}));
}

// Merges in any order of ranks, also a result ranked before what it is made of; all ways of
// applying: for short and for long pieces, and what prepare() makes of merges that are in order.
TEST(BpeMerges, EqualToTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<Merge> merges;
    Symbols known = {'a', 'b', 'c'};
    const unsigned count = random() % 30;
    for (BpeMerges::Symbol result = 256; result < 256 + count; ++result) {
      merges.push_back({known[random() % known.size()], known[random() % known.size()], result});
      known.push_back(result);
    }
    if (round % 2 == 0) std::shuffle(merges.begin(), merges.end(), random);
    std::string piece(random() % 150, 'a');
    for (char& letter : piece) letter = static_cast<char>('a' + random() % 3);
    for (const Order order : {Order::by_rank, Order::by_step}) {
      BpeMerges bpe = with(merges, order);
      const Symbols expected = apply_by_definition(merges, order, piece);
      ASSERT_EQ(symbols_of(bpe, piece), expected) << piece;
      bpe.prepare();
      ASSERT_EQ(symbols_of(bpe, piece), expected) << piece;
    }
  }
}

// Parts of merges that no text gets, and symbols that no merge has, among those given.
TEST(BpeMerges, PreparedLeavesNothingOut) {
  const std::vector<Merge> merges = {
      {'b', 'c', 256}, {'a', 'b', 257}, {257, 'c', 258}, {256, 'd', 259}, {258, 'd', 260}};
  BpeMerges bpe = with(merges);
  bpe.prepare();
  const std::string unit = "abcdxabcdd\xFF";
  std::string piece;
  Symbols expected;
  for (int i = 0; i < 20; ++i) {
    piece += unit;
    for (const BpeMerges::Symbol symbol : {'a' + 0u, 259u, 'x' + 0u, 'a' + 0u, 259u, 'd' + 0u})
      expected.push_back(symbol);
    expected.push_back(static_cast<BpeMerges::Symbol>('\xFF'));
  }
  EXPECT_EQ(symbols_of(bpe, piece), expected);
  Symbols given(100, 257);  // a result, which is taken as it is
  for (std::size_t i = 1; i < given.size(); i += 2) given[i] = 'c';
  bpe.apply(given);
  EXPECT_EQ(given, Symbols(50, 258));
}

TEST(BpeMerges, AMegabyteInAMoment) {
  std::vector<Merge> merges;
  for (BpeMerges::Symbol i = 0; i < 16; ++i)
    merges.push_back({i ? 255 + i : 'a', i ? 255 + i : 'a', 256 + i});
  BpeMerges bpe = with(merges);
  bpe.prepare();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(symbols_of(bpe, std::string(std::size_t{1} << 20, 'a')), Symbols(16, 271));
  // A quadratic loop would take minutes; sanitizers and a busy machine slow a good one tenfold.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace mt
