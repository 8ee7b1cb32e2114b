// BpeStack: byte-pair encoding in one pass, where every merge is ranked after those that make its
// parts.  From left to right symbols go on a stack for as long as the ranks of neighbours fall; a
// pair on top that what follows is not ranked before is merged, and comes next.  Nothing to the
// left of it could have been merged before it.  To its right a symbol may, and so become another
// one that should have got a part of it: as that symbol comes, the merges that are in its way are
// undone.  How far to the right a text may so decide on a token depends on the merges alone
// (Berglund, van der Merwe: arXiv:2309.08715): the time is linear in the length.  Constant once
// made; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/bpe/merge_table.h"

namespace mt {

class BpeStack {
 public:
  using Symbol = std::uint32_t;
  struct Merge {
    Symbol left, right, result;
  };

  // `merges`: in the order of their ranks; no pair twice.  One that is ranked before those that
  // make its parts is left out.
  explicit BpeStack(const std::vector<Merge>& merges);

  // The parts, in symbols of the text, of each merge that was left out though they are made: such a
  // merge happens somewhere only if it happens to these alone.  So whoever finds that they become
  // here what they should has seen that it does no harm.
  const std::vector<std::vector<Symbol>>& doubtful() const { return doubtful_; }

  // Encodes `symbols` in place and returns how many are left.  Nothing is done and kCannot returned
  // where two merges make one result, or a result is among the symbols.
  static constexpr std::size_t kCannot = -1;
  std::size_t apply(std::span<Symbol> symbols) const;

 private:
  // The symbols of the text that are in a merge, from 1 on; behind these the merges that happen, in
  // the order of their ranks, each of which is also the token that it makes.
  using Number = MergeTable::Number;
  static constexpr Number kNone = 0;  // a symbol that is in no merge
  // A result of merges none of which has happened yet, or ever does; no merge at all.
  static constexpr Number kUnmade = MergeTable::kNone;

  struct Parts {
    Number left = kNone, right = kNone;
  };
  struct Entry {
    Number token, rank;  // the rank of it together with the one below
  };

  bool number_symbols(const std::vector<Merge>& merges);
  void append_text(Number token, std::vector<Symbol>& text) const;
  bool number_merges(const std::vector<Merge>& merges);
  Number number_of(Symbol symbol) const {
    return symbol < numbers_.size() ? numbers_[symbol] : kNone;
  }
  bool may_meet(Number left, Number right, Number before) const;
  bool in_the_way(Number token, Number coming) const;
  std::size_t merge(std::span<Number> numbers, Entry* stack) const;

  std::vector<Number> numbers_;  // by Symbol
  Number first_merge_ = 1;
  std::vector<Symbol> results_;  // these two by number
  std::vector<Parts> parts_;
  MergeTable merges_;  // by parts
  std::vector<std::vector<Symbol>> doubtful_;
};

}  // namespace mt
