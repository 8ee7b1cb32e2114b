// ByteBpe: byte-pair encoding of text whose bytes are the first symbols.  Text is cut into pieces
// (text/bpe/gpt2_split.h, text/bpe/word_split.h), and each piece is merged by itself or found in a
// cache. Constant once made: encode() may be called from several threads at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_merges.h"
#include "text/bpe/piece_cache.h"
#include "text/bpe/word_split.h"
#include "text/string_map.h"

namespace mt {

class ByteBpe {
 public:
  using Symbol = BpeMerges::Symbol;
  static constexpr Symbol kDropped = 0xFFFFFFFF;  // of a byte that gives nothing

  struct Rules {
    BpeMerges merges = BpeMerges();
    std::array<Symbol, 256> bytes = {};         // the symbol of each byte
    std::vector<std::int32_t> symbol_ids = {};  // the id of each symbol
    // Pieces that are taken whole before any merge: the tokens that merging does not give.
    StringMap<std::int32_t> whole = {};
  };

  explicit ByteBpe(Rules rules);

  // Appends the ids of `text`, whose pieces end at `ends`, the last of them at its end.
  void encode(std::string_view text, std::span<const std::size_t> ends,
              std::vector<std::int32_t>& ids) const;
  void encode(std::string_view text, Splitter split, std::vector<std::int32_t>& ids) const;

 private:
  Rules rules_;
  std::unique_ptr<PieceCachePool> caches_;
};

}  // namespace mt
