// WordPiece: cuts one word into the longest pieces there are, from left to right; pieces behind the
// first stand in the vocabulary with a prefix (Schuster, Nakajima 2012, as BERT uses it).  Constant
// once made; thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/sentencepiece/byte_trie.h"

namespace mt {

class WordPiece {
 public:
  struct Options {
    std::int32_t unknown = 0;        // the id of a word that cannot be cut, or is too long
    std::string_view prefix = "##";  // not empty
    std::size_t longest_word = 200;  // characters
  };
  WordPiece() = default;
  WordPiece(const std::vector<std::pair<std::string_view, std::int32_t>>& vocabulary,
            const Options& options);

  // Appends the ids of `word`, well-formed UTF-8.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  std::int32_t unknown_ = 0;
  std::size_t longest_word_ = 0;
  ByteTrie first_, following_;
};

}  // namespace mt
