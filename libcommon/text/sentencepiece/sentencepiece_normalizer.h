// SentencePieceNormalizer: what SentencePiece does to a text before it is cut into pieces.  From
// left to right the longest user-defined piece stays as it is, else the longest key of the map of
// characters is replaced, else a character stays (a byte of ill-formed UTF-8 becomes U+FFFD). Then,
// as the model asks, spaces at the ends go and runs of them become one, and one is put before the
// text, or behind it.  Only U+0020 counts as a space here.
//
// With escape_whitespaces SentencePiece writes spaces as U+2581; here it is the other way round:
// each U+2581 becomes a space, which is shorter and says the same, as no other space remains.
// Constant once made; thread-safe.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/sentencepiece/byte_trie.h"
#include "text/sentencepiece/charsmap.h"

namespace mt {

class SentencePieceNormalizer {
 public:
  struct Options {
    bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
    bool whitespace_as_suffix = false;
    std::vector<std::string_view> untouched = {};  // user-defined pieces
  };

  SentencePieceNormalizer(CharsMap map, const Options& options);

  // Overwrites `out` with well-formed UTF-8.  `text` may be any bytes.
  void normalize(std::string_view text, std::string& out) const;

 private:
  struct Prefix {
    std::string_view text;  // in its normal form
    std::size_t length;     // before
  };
  Prefix prefix(std::string_view text) const;
  std::size_t plain_run(std::string_view text, bool& after_space) const;
  void append(std::string_view normal, bool& after_space, std::string& out) const;

  CharsMap map_;
  Options options_;
  ByteTrie untouched_;
  bool has_untouched_;
  std::array<bool, 256> plain_{};  // ASCII that stays as it is, before ASCII and at the end
  bool printable_plain_ = true;    // all from ' ' to '~'
};

}  // namespace mt
