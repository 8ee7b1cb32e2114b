#include "text/bert/word_piece.h"

#include <algorithm>

namespace mt {

WordPiece::WordPiece(const std::vector<std::pair<std::string_view, std::int32_t>>& vocabulary,
                     const Options& options)
    : unknown_(options.unknown), longest_word_(options.longest_word) {
  std::vector<ByteTrie::Entry> first, following;
  for (const auto& [token, id] : vocabulary) {
    first.emplace_back(token, id);
    if (token.starts_with(options.prefix))
      following.emplace_back(token.substr(options.prefix.size()), id);
  }
  first_ = ByteTrie(std::move(first));
  following_ = ByteTrie(std::move(following));
}

void WordPiece::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  const auto starts_character = [](char byte) { return (byte & 0xC0) != 0x80; };
  bool known = word.size() <= longest_word_ || static_cast<std::size_t>(std::ranges::count_if(
                                                   word, starts_character)) <= longest_word_;
  for (std::size_t at = 0; known && at < word.size();) {
    const auto piece = (at == 0 ? first_ : following_).longest_prefix(word.substr(at));
    known = piece.length != 0;
    at += piece.length;
    ids.push_back(piece.value);
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(unknown_);
}

}  // namespace mt
