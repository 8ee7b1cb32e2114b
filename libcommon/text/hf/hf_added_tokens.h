// HfAddedTokens: the tokens of a tokenizer.json that are found in a text before its model sees it,
// such as <|endoftext|>: the leftmost first, of those the longest.  Constant once made;
// thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece/byte_trie.h"

namespace mt {

struct HfAddedToken {
  std::int32_t id = 0;
  std::string content;       // never empty
  bool single_word = false;  // only between what is no part of a word
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and behind it
  bool normalized = false;   // is looked for in the text that the normalizer has made
  bool special = false;
};

class HfAddedTokens {
 public:
  HfAddedTokens() = default;
  explicit HfAddedTokens(std::vector<HfAddedToken> tokens);

  // A part of a text: a token, or what is between two of them.
  struct Part {
    std::size_t begin, end;
    std::int32_t id = -1;  // -1: no token
  };
  // Overwrites `parts`; what is between tokens is never empty, and not all of it need be there.
  void find(std::string_view text, std::vector<Part>& parts) const;

  bool empty() const { return tokens_.empty(); }

 private:
  std::vector<HfAddedToken> tokens_;
  ByteTrie trie_;                        // from content to index
  std::array<bool, 256> first_bytes_{};  // of a token
};

}  // namespace mt
