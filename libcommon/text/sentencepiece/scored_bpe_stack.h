// ScoredBpeStack: what ScoredBpe does to a long run of characters, in time linear in its length
// (text/bpe/bpe_stack.h).  A merge is each way to put a piece together from two of higher scores or
// single characters; that no other way and no second one matters is for the caller to see, who
// compares what both make of every piece.  A pair that a text has somewhere merged is merged so in
// the piece alone, too: nothing around the piece has a part in it.  Constant once made;
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_stack.h"
#include "text/sentencepiece/byte_trie.h"
#include "text/sentencepiece/unigram.h"
#include "text/unicode/utf8_length.h"

namespace mt {

class ScoredBpeStack {
 public:
  // By id: the pieces' texts and ranks, the higher the score, the lower.  `ids`: of the texts.
  ScoredBpeStack(const std::vector<std::string>& texts, const std::vector<std::uint32_t>& ranks,
                 const ByteTrie& ids);

  // Cuts the characters text[begin, end) and appends their segments, which end at offsets of
  // `text`. False, with nothing done, where two pieces have one rank, or BpeStack cannot.
  bool encode(std::string_view text, std::size_t begin, std::size_t end,
              std::vector<TextSegment>& segments) const;

 private:
  // The characters of pieces, then pieces by id.
  using Symbol = BpeStack::Symbol;
  static constexpr Symbol kNone = 0xFFFFFFFF;

  Symbol character(std::string_view text, std::size_t at) const {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < ascii_.size()) return ascii_[byte];
    return static_cast<Symbol>(characters_.find(text.substr(at, utf8_length(text[at]))));
  }
  void number_characters(const std::vector<std::string>& texts, const ByteTrie& ids);
  Symbol symbol(std::string_view text, std::uint32_t below, const std::vector<std::uint32_t>& ranks,
                const ByteTrie& ids) const;

  ByteTrie characters_;
  std::array<Symbol, 0x80> ascii_;           // those of one byte
  std::vector<std::int32_t> character_ids_;  // of those that are pieces; else kUnknownPiece
  std::vector<std::uint32_t> lengths_;       // of pieces, by id, in bytes
  std::optional<BpeStack> stack_;
};

}  // namespace mt
