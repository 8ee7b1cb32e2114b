#include "data/corpus/words.h"

#include <unicode/uchar.h>

#include "base/utf8.h"

namespace mt {

std::vector<std::uint64_t> word_hashes(std::string_view text) {
  std::vector<std::uint64_t> words;
  std::uint64_t hash = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto point = static_cast<UChar32>(next_code_point(text, at));
    if (u_isalnum(point) != 0) {
      hash = mixed(hash ^ static_cast<std::uint64_t>(u_tolower(point)));
    } else if (hash != 0) {
      words.push_back(hash);
      hash = 0;
    }
  }
  if (hash != 0) words.push_back(hash);
  return words;
}

std::uint64_t hash_of(std::span<const std::uint64_t> words) {
  std::uint64_t hash = words.size();
  for (const std::uint64_t word : words) hash = mixed(hash ^ word);
  return hash;
}

}  // namespace mt
