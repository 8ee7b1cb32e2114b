// CharsMap: SentencePiece's precompiled map of characters to their normal form.  Its bytes:
//   u32   size T of the trie, a multiple of 1024
//   T     a double array of u32 (darts-clone's), from UTF-8 to offsets in what follows
//   rest  the replacements in UTF-8, each ended by a NUL
// Constant once made; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

class CharsMap {
 public:
  CharsMap() = default;  // maps nothing
  // An empty `blob` maps nothing.  Throws Exit::bad_data, with `where` before it, for one that is
  // damaged.
  CharsMap(std::string_view blob, const std::string& where);

  struct Match {
    std::size_t length = 0;  // 0: nothing that begins the text is mapped
    std::string_view replacement;
  };
  // The longest of the `at_most` shortest keys that begin `text`.
  Match longest_prefix(std::string_view text, int at_most = 32) const;

  // Does a key begin with this byte, and either end there or go on with an ASCII character?
  bool touches_ascii(char byte) const;

 private:
  std::uint32_t child(std::uint32_t node, char byte) const;  // 0: none

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace mt
