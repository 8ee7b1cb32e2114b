// HfPrecompiled: the normalizer Precompiled of a tokenizer.json, SentencePiece's map of characters
// (text/sentencepiece/charsmap.h) as Hugging Face applies it.  A grapheme cluster of less than 6
// bytes becomes whatever the shortest key that begins it becomes, all of it; where none does, and
// in longer clusters, each character for itself becomes so.  Constant once made; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "text/sentencepiece/charsmap.h"

namespace mt {

class HfPrecompiled {
 public:
  explicit HfPrecompiled(CharsMap map);

  std::string apply(std::string_view text) const;  // of well-formed UTF-8

 private:
  std::size_t plain_end(std::string_view text, std::size_t at) const;

  CharsMap map_;
  std::array<bool, 256> plain_{};  // ASCII that stays as it is, before ASCII and at the end
};

// The end of the extended grapheme cluster that begins at text[at] (Unicode 15.1, UAX 29), but for
// regional indicators, which are never joined: two of them have 8 bytes.
std::size_t hf_cluster_end(std::string_view text, std::size_t at);

}  // namespace mt
