// BpeSearch: byte-pair encoding without merging anything.  Where every merge is ranked after those
// that make its parts, a row of tokens is the encoding of its text if and only if each token
// encodes to itself and each two neighbours encode to these two: a merge across a boundary would be
// one of the last symbols of the token before it with the first ones of the token behind it, and
// both are the same whatever stands around these tokens.  So the encoding is found from left to
// right, the longest token first, going back where no token fits (as in the crate bpe of
// github/rust-gems). Every prefix has one encoding, so a place from which none went on is never
// tried again: the time is linear in the length.  Constant once made; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_trie.h"

namespace mt {

class BpeSearch {
 public:
  using Symbol = std::uint32_t;
  struct Merge {
    Symbol left, right, result;
  };

  // `merges`: in the order of their ranks; no pair twice.
  explicit BpeSearch(const std::vector<Merge>& merges);

  // Encodes `symbols` in place and returns how many are left.  Nothing is done and kCannot returned
  // where a result is ranked before its parts, or among the symbols.
  static constexpr std::size_t kCannot = -1;
  std::size_t apply(std::span<Symbol> symbols) const;

 private:
  // The symbols of the text that are in a merge, from 1 on; behind these the merges that happen, in
  // the order of their ranks, each of which is also the token that it makes.
  using Number = std::uint32_t;
  static constexpr Number kNone = 0;             // a symbol that is in no merge
  static constexpr Number kUnmade = 0xFFFFFFFF;  // a result of merges none of which ever happens

  struct Parts {
    Number left = kNone, right = kNone;
    bool operator==(const Parts&) const = default;
  };
  struct Token {
    std::uint32_t length = 1;  // in symbols of the text
    Number shorter = kNone;    // the longest other token that begins it
  };

  bool number_symbols(const std::vector<Merge>& merges);
  bool number_merges(const std::vector<Merge>& merges);
  void add_merge(Parts parts);
  void make_trie();
  Number number_of(Symbol symbol) const {
    return symbol < numbers_.size() ? numbers_[symbol] : kNone;
  }
  void write_code(Number symbol, char* to) const;
  Number merge_of(Parts parts) const;
  bool may_meet(Number left, Number right, Number before) const;
  class Memory;
  std::size_t search(std::span<Symbol> symbols, char* codes, Number* row,
                     std::uint64_t* left_behind, Memory* memory) const;
  Number longest(Number first, std::string_view text) const;

  std::vector<Number> numbers_;  // by Symbol
  Number first_merge_ = 1;
  std::vector<Symbol> results_;  // these three by number
  std::vector<Parts> parts_;
  std::vector<Token> tokens_;
  // The merges by the hash of their parts, with linear probing, and a smaller table that says of
  // most pairs that they have none.
  std::vector<Number> slots_;
  std::vector<std::uint64_t> filter_;
  int hash_shift_ = 0;
  // The tokens that are merged, in a trie, and for each of its nodes the longest that begins what
  // leads there; kNone: none but the first symbol.  A symbol of the text is width_ bytes there.
  ByteTrie trie_;
  std::vector<Number> longest_;
  std::size_t width_ = 1;
};

}  // namespace mt
