// BpeMerges: the ranked merges of a byte-pair encoding, and applying them to one piece of text
// (Sennrich, Haddow, Birch: arXiv:1508.07909).  While some adjacent pair of symbols has a rank, a
// pair of lowest rank is replaced by its result; in which order is the one thing that encoders do
// not agree on, and it shows only where a result is ranked before what it is made of.  Applying
// takes n log n steps for a piece of n symbols; where no merge of such a result ever happens,
// prepare() makes it linear.  apply() is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "text/bpe/bpe_stack.h"
#include "text/bpe/pair_map.h"

namespace mt {

class BpeMerges {
 public:
  using Symbol = std::uint32_t;  // numbered by the caller
  enum class Order {
    by_rank,  // all occurrences of the pair of lowest rank from left to right, then the next
              // (GPT-2)
    by_step,  // one occurrence, the leftmost of lowest rank, then the next (tiktoken, Hugging Face)
  };

  explicit BpeMerges(Order order = Order::by_rank) : order_(order) {}

  void reserve(std::size_t merges) {
    ranks_.reserve(merges);
    merges_.reserve(merges);
  }

  // Adds the merge left right -> result, of the next rank or of the one given, which no other merge
  // has.  A pair that is there already moves here.
  void add(Symbol left, Symbol right, Symbol result) { add(left, right, result, merges_.size()); }
  void add(Symbol left, Symbol right, Symbol result, std::size_t rank);

  // To be called when all merges are there; what follows is faster.
  void prepare();

  // Merges what `symbols` holds from index `begin` on.  Throws for 2^32 symbols or more.
  void apply(std::vector<Symbol>& symbols, std::size_t begin = 0) const;

 private:
  std::uint32_t rank(Symbol left, Symbol right) const { return ranks_.find(left, right); }
  // All return how many symbols are left.
  std::size_t apply_by_ranks(std::span<Symbol> symbols) const;
  std::size_t apply_short(std::span<Symbol> symbols) const;
  std::size_t apply_long(std::span<Symbol> symbols) const;

  Order order_;
  PairMap ranks_;
  std::vector<BpeStack::Merge> merges_;  // by rank; where there is none, of kNone
  std::optional<BpeStack> stack_;        // once prepared
};

}  // namespace mt
