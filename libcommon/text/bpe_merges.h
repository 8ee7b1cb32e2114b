// BpeMerges: the ranked merges of a byte-pair encoding, and applying them to one piece of text.
// While some adjacent pair of symbols has a rank, all occurrences of the pair of lowest rank are
// replaced, from left to right, by its result (Sennrich, Haddow, Birch: arXiv:1508.07909).
// Applying takes n log n steps for a piece of n bytes.  apply() is thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/pair_map.h"

namespace mt {

class BpeMerges {
 public:
  using Symbol = std::uint32_t;  // 0 to 255 are the bytes; the caller numbers the others

  // Adds the merge of the next rank: left right -> result.  A pair that is there already moves
  // here.
  void add(Symbol left, Symbol right, Symbol result);

  // Appends the symbols of `piece` to `symbols`.  Throws for a piece of 4 GiB or more.
  void apply(std::string_view piece, std::vector<Symbol>& symbols) const;

 private:
  std::uint32_t rank(Symbol left, Symbol right) const { return ranks_.find(left, right); }
  void apply_short(std::string_view piece, std::vector<Symbol>& symbols) const;
  void apply_long(std::string_view piece, std::vector<Symbol>& symbols) const;

  PairMap ranks_;
  std::vector<Symbol> results_;  // by rank
};

}  // namespace mt
